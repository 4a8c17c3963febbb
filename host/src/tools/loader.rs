//! From bytes to a tool that can be instantiated: checked, compiled, linked, its exports found.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::Semaphore;
use wasmtime::Engine;
use wasmtime::component::{Component, ComponentExportIndex, HasSelf, InstancePre, Linker};

use super::bindings::{FullTool, exports};
use super::cache::Cache;
use super::clock::Clock;
use super::engine::ToolEngine;
use super::guest::Guest;
use super::manifest::Manifest;

/// The version of the interface whose exports are looked for; later 1.x ones match too.
const INTERFACE: &str = "apex:tool";
const INTERFACE_VERSION: &str = "1.0.0";

/// Compiles and links tools, as many at once as leave one core for everybody else.
pub struct Loader {
    engine: ToolEngine,
    linker: Linker<Guest>,
    cache: Cache,
    permits: Arc<Semaphore>,
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader")
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}

/// A component with its manifest, ready to be instantiated any number of times.
pub struct Loaded {
    /// What its author says of it.
    pub manifest: Manifest,
    /// Of its bytes, in hex.
    pub sha256: String,
    pub(super) pre: InstancePre<Guest>,
    pub(super) exports: Exports,
    /// Runs while a call of it does.
    pub(super) clock: Clock,
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loaded")
            .field("id", &self.manifest.id)
            .finish_non_exhaustive()
    }
}

/// Where the parts of the interface are that a component exports.
pub(super) struct Exports {
    pub(super) lifecycle: exports::lifecycle::GuestIndices,
    /// `follower.apply`, which takes entries that several tools share.
    pub(super) apply: Option<ComponentExportIndex>,
    pub(super) outcomes: Option<exports::outcomes::GuestIndices>,
    pub(super) commands: Option<exports::commands::GuestIndices>,
    pub(super) alarms: Option<exports::alarms::GuestIndices>,
}

/// Why bytes are no tool.
#[derive(Debug)]
pub enum LoadError {
    /// They are native code made by wasmtime.
    Precompiled,
    /// They are a core module.
    CoreModule,
    /// They do not begin as WebAssembly does.
    NotWasm,
    /// They do not compile.
    Compile(wasmtime::Error),
    /// It imports what apex does not have, or has it in another shape.
    Link(wasmtime::Error),
    /// It exports no `lifecycle`.
    NoLifecycle,
    /// An export has another shape than the interface says.
    Export(&'static str, wasmtime::Error),
    /// This machine runs no WebAssembly.
    Engine(String),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Precompiled => f.write_str(
                "it is native code precompiled by wasmtime, which apex never runs; give the \
                 WebAssembly component itself",
            ),
            Self::CoreModule => f.write_str(
                "it is a core WebAssembly module, not a component; build it for wasm32-wasip2, or \
                 wrap it with `wasm-tools component new`",
            ),
            Self::NotWasm => f.write_str("it is no WebAssembly component"),
            Self::Compile(error) => write!(f, "it does not compile: {error:#}"),
            Self::Link(error) => write!(
                f,
                "it asks for an import that this apex does not have: {error:#}; build it against \
                 this apex's wit/"
            ),
            Self::NoLifecycle => write!(
                f,
                "it exports no {INTERFACE}/lifecycle@{INTERFACE_VERSION}, which every tool does; \
                 see wit/lifecycle.wit"
            ),
            Self::Export(name, error) => {
                write!(
                    f,
                    "its export {INTERFACE}/{name} is not as wit/ has it: {error:#}"
                )
            }
            Self::Engine(why) => write!(f, "this machine cannot run WebAssembly: {why}"),
        }
    }
}

impl std::error::Error for LoadError {}

impl Loader {
    /// Returns a loader with a cache in this directory.
    ///
    /// # Errors
    /// When this machine cannot run WebAssembly.
    pub fn new(cache_dir: &Path) -> Result<Self, LoadError> {
        let engine = |error: wasmtime::Error| LoadError::Engine(format!("{error:#}"));
        let tool_engine = ToolEngine::new().map_err(engine)?;
        let linker = linker(tool_engine.engine()).map_err(engine)?;
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Ok(Self {
            engine: tool_engine,
            linker,
            cache: Cache::open(cache_dir),
            permits: Arc::new(Semaphore::new(cores.saturating_sub(1).max(1))),
        })
    }

    /// Returns the engine.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        self.engine.engine()
    }

    /// Returns what bounds how many tools compile at once.
    #[must_use]
    pub fn permits(&self) -> Arc<Semaphore> {
        Arc::clone(&self.permits)
    }

    /// Returns the tool that these bytes are. Takes seconds: call it off the async threads.
    ///
    /// # Errors
    /// What is wrong with the bytes and what to do.
    pub fn load(
        &self,
        bytes: &[u8],
        sha256: &str,
        manifest: Manifest,
    ) -> Result<Loaded, LoadError> {
        check_kind(bytes)?;
        let component = self.cache.component(self.engine(), bytes, sha256);
        let component = component.map_err(LoadError::Compile)?;
        let pre = self
            .linker
            .instantiate_pre(&component)
            .map_err(LoadError::Link)?;
        let exports = Exports::find(&component, &pre)?;
        Ok(Loaded {
            manifest,
            sha256: sha256.to_owned(),
            pre,
            exports,
            clock: self.engine.clock().clone(),
        })
    }
}

/// Refuses what only looks like a component before anything is compiled.
fn check_kind(bytes: &[u8]) -> Result<(), LoadError> {
    if Engine::detect_precompiled(bytes).is_some() {
        return Err(LoadError::Precompiled);
    }
    match bytes {
        [0, b'a', b's', b'm', _, _, 1, 0, ..] => Ok(()),
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => Err(LoadError::CoreModule),
        _ => Err(LoadError::NotWasm),
    }
}

fn linker(engine: &Engine) -> wasmtime::Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    FullTool::add_to_linker::<_, HasSelf<Guest>>(&mut linker, |guest| guest)?;
    Ok(linker)
}

impl Exports {
    fn find(component: &Component, pre: &InstancePre<Guest>) -> Result<Self, LoadError> {
        let index = |name: &str| {
            let name = format!("{INTERFACE}/{name}@{INTERFACE_VERSION}");
            component.get_export_index(None, name.as_str())
        };
        let has = |name: &str| index(name).is_some();
        let follower = index("follower");
        macro_rules! optional {
            ($name:ident) => {
                has(stringify!($name))
                    .then(|| exports::$name::GuestIndices::new(pre))
                    .transpose()
                    .map_err(|error| LoadError::Export(stringify!($name), error))?
            };
        }
        Ok(Self {
            lifecycle: optional!(lifecycle).ok_or(LoadError::NoLifecycle)?,
            apply: match optional!(follower) {
                Some(_) => component.get_export_index(follower.as_ref(), "apply"),
                None => None,
            },
            outcomes: optional!(outcomes),
            commands: optional!(commands),
            alarms: optional!(alarms),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::UNKNOWN_IMPORT;
    use super::*;

    fn loader() -> Loader {
        Loader::new(Path::new("/dev/null")).unwrap()
    }

    fn refusal(bytes: &[u8]) -> String {
        let manifest = "id = \"a.b\"\nversion = \"1\"\nsummary = \"\"\n";
        let manifest = Manifest::parse(manifest).unwrap();
        loader()
            .load(bytes, "00", manifest)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn what_is_no_component_is_refused_with_what_to_do() {
        assert!(refusal(b"").contains("no WebAssembly component"));
        assert!(refusal(b"#!/bin/sh\n").contains("no WebAssembly component"));
        assert!(refusal(b"\0asm\x01\0\0\0").contains("wasm32-wasip2"));
        assert!(refusal(b"\0asm\x0d\0\x01\0").contains("lifecycle"));
        assert!(refusal(b"\0asm\x0d\0\x01\0\x07\x90").contains("does not compile"));
    }

    #[test]
    fn precompiled_code_is_refused() {
        let loader = loader();
        let component = Component::new(loader.engine(), b"\0asm\x0d\0\x01\0").unwrap();
        assert!(refusal(&component.serialize().unwrap()).contains("native code"));
    }

    #[test]
    fn an_unknown_import_is_named() {
        let why = refusal(UNKNOWN_IMPORT);
        for words in ["an import that this apex does not have", "launch"] {
            assert!(why.contains(words), "{why}");
        }
    }
}
