//! Building the tools of this checkout: the bundled ones in `plugins/`, and those that tests use.
//!
//! A bundled tool is a folder `plugins/NAME` with a `Cargo.toml` and a manifest `NAME.toml`; its
//! component and manifest land beside that folder. The test tools share one workspace, and land in
//! `target/guests`. All builds share one target folder, so that what they have in common is built
//! once.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::files::{self, FileError};
use crate::process::ProcessError;
use crate::say::say;
use crate::toolchain::{TARGET, Toolchain, ToolchainError};

/// One cargo workspace with one or more tools.
#[derive(Debug)]
struct Workspace {
    /// A word for its stamp.
    name: String,
    folder: PathBuf,
    /// Names of tools, with the folder of each.
    tools: Vec<(String, PathBuf)>,
    /// Where components and manifests land.
    out: PathBuf,
}

/// Why the tools were not built.
#[derive(Debug)]
pub(crate) enum GuestError {
    /// A file could not be read or written.
    File(FileError),
    /// The build failed.
    Process(ProcessError),
    /// Nothing here can build components.
    Toolchain(ToolchainError),
    /// The build went well, and this component is not there.
    NoComponent { tool: String, folder: PathBuf },
}

/// Builds all tools, and gives the names of the bundled ones.
pub(crate) fn build() -> Result<Vec<String>, GuestError> {
    let mut toolchain = None;
    let bundled = bundled()?;
    let names = bundled
        .iter()
        .map(|workspace| workspace.name.clone())
        .collect();
    for workspace in bundled.iter().chain([&for_tests()?]) {
        make(workspace, &mut toolchain)?;
    }
    Ok(names)
}

/// Builds the bundled tools only, and gives their names.
pub(crate) fn build_bundled() -> Result<Vec<String>, GuestError> {
    let mut toolchain = None;
    let bundled = bundled()?;
    for workspace in &bundled {
        make(workspace, &mut toolchain)?;
    }
    Ok(bundled
        .into_iter()
        .map(|workspace| workspace.name)
        .collect())
}

/// The folders of the Rust packages of tools, for formatting and native tests.
pub(crate) fn folders() -> Result<Vec<PathBuf>, GuestError> {
    let mut folders: Vec<_> = bundled()?
        .into_iter()
        .map(|workspace| workspace.folder)
        .collect();
    folders.push(for_tests()?.folder);
    Ok(folders)
}

/// The bundled tools: one workspace each.
fn bundled() -> Result<Vec<Workspace>, GuestError> {
    let out = files::root().join("plugins");
    let tools = tools_in(&out)?.into_iter();
    let workspace = |(name, folder): (String, PathBuf)| Workspace {
        name: name.clone(),
        tools: vec![(name, folder.clone())],
        folder,
        out: out.clone(),
    };
    Ok(tools.map(workspace).collect())
}

/// The tools that tests use: one workspace for all.
fn for_tests() -> Result<Workspace, GuestError> {
    let folder = files::root().join("tests/guests");
    let out = files::target().join("guests");
    Ok(Workspace {
        name: "for-tests".to_owned(),
        tools: tools_in(&folder)?,
        folder,
        out,
    })
}

/// The folders in a folder that hold a tool in Rust.
fn tools_in(folder: &Path) -> Result<Vec<(String, PathBuf)>, GuestError> {
    let mut tools = Vec::new();
    for path in files::list(folder)? {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        let has_manifest = path.join(format!("{name}.toml")).is_file();
        let is_cargo = path.join("Cargo.toml").is_file();
        if has_manifest && is_cargo {
            tools.push((name.to_owned(), path));
        } else if is_cargo && path.is_dir() {
            let path = path.display();
            say(&format!(
                "leaving {path} out: a tool needs a manifest {path}/{name}.toml"
            ));
        }
    }
    Ok(tools)
}

/// Builds a workspace if its files have changed since, and lets its components land.
fn make(workspace: &Workspace, toolchain: &mut Option<Toolchain>) -> Result<(), GuestError> {
    let builds = files::target().join("guests-build");
    let stamp = builds.join(format!("{}.stamp", workspace.name));
    let wit = files::root().join("wit");
    let components: Vec<PathBuf> = workspace
        .tools
        .iter()
        .map(|(name, _)| {
            let file = format!("{}.wasm", name.replace('-', "_"));
            builds.join(TARGET).join("release").join(file)
        })
        .collect();
    let now = files::fingerprint(&[&workspace.folder, &wit])?;
    let is_built = components.iter().all(|component| component.is_file());
    if !is_built || files::read_or_empty(&stamp)? != now {
        if toolchain.is_none() {
            *toolchain = Some(Toolchain::find().map_err(GuestError::Toolchain)?);
        }
        if let Some(toolchain) = toolchain {
            compile(workspace, toolchain, &builds)?;
        }
        // The state from before the build: what was saved while it ran is built next time.
        files::write_if_changed(&stamp, now.as_bytes())?;
    }
    for ((name, folder), component) in workspace.tools.iter().zip(&components) {
        land(name, folder, component, &workspace.out)?;
    }
    Ok(())
}

fn compile(workspace: &Workspace, toolchain: &Toolchain, builds: &Path) -> Result<(), GuestError> {
    let names: Vec<_> = workspace
        .tools
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let with = match toolchain {
        Toolchain::Own => "the Rust that builds apex",
        Toolchain::Debian { .. } => "Debian's Rust",
    };
    say(&format!(
        "building {} for {TARGET} with {with}",
        names.join(", ")
    ));
    let cargo = toolchain.cargo().words("--release --target").arg(TARGET);
    let cargo = cargo
        .arg("--target-dir")
        .arg(builds)
        .folder(&workspace.folder);
    cargo.run().map_err(GuestError::Process)
}

/// Puts a component and its manifest where they belong.
fn land(name: &str, folder: &Path, component: &Path, out: &Path) -> Result<(), GuestError> {
    if !component.is_file() {
        return Err(GuestError::NoComponent {
            tool: name.to_owned(),
            folder: folder.to_owned(),
        });
    }
    let wasm = out.join(format!("{name}.wasm"));
    let is_new = files::install(component, &wasm)?;
    let manifest = format!("{name}.toml");
    let is_new = files::install(&folder.join(&manifest), &out.join(manifest))? || is_new;
    let what = if is_new { "new" } else { "unchanged" };
    say(&format!("{} is {what}", wasm.display()));
    Ok(())
}

impl From<FileError> for GuestError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

impl fmt::Display for GuestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::Process(error) => error.fmt(f),
            Self::Toolchain(error) => error.fmt(f),
            Self::NoComponent { tool, folder } => write!(
                f,
                "building {folder} gave no {tool}.wasm: its Cargo.toml must name the package \
                 `{tool}` and say `crate-type = [\"cdylib\"]`",
                folder = folder.display()
            ),
        }
    }
}
