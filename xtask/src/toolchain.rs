//! A Rust that can build components.
//!
//! First choice is the target wasm32-wasip2 of the Rust that builds apex, which rustup adds in a
//! moment. Where rustup cannot have it, Debian's packages for the web do: their Rust, the sources
//! of its standard library, and a C library for WASI. They are installed if that is possible, and
//! it is said what is being done.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::files;
use crate::process::{ProcessError, Step};
use crate::say::say;

/// The platform of components.
pub(crate) const TARGET: &str = "wasm32-wasip2";
/// What Debian must have installed for its Rust to build components.
const PACKAGES: [&str; 5] = [
    "rustc-web",
    "rust-web-src",
    "cargo-web",
    "wasi-libc",
    "lld-22",
];
/// Where those packages put what is looked for here.
const DEBIAN_FILES: [&str; 4] = [
    "/usr/bin/rustc",
    "/usr/bin/cargo",
    "/usr/bin/wasm-ld-22",
    "/usr/lib/wasm32-wasi/libc.a",
];
/// Makes `wasm-component-ld`, which turns what the linker gives into a component, where no
/// toolchain brings it.
const LINKER: &str = "wasm-component-ld";

/// What builds components here.
#[derive(Debug)]
pub(crate) enum Toolchain {
    /// The Rust that builds apex.
    Own,
    /// Debian's Rust, with the folder of the component linker.
    Debian { linker: PathBuf },
}

/// Why there is none.
#[derive(Debug)]
pub(crate) enum ToolchainError {
    /// `APEX_GUESTS` asks for something else than `own` and `debian`.
    Choice(String),
    /// Neither way is open.
    None { tried: String },
    /// A program that was needed on the way did not run.
    Process(ProcessError),
}

impl Toolchain {
    /// Finds one, and installs what is missing. `APEX_GUESTS` set to `own` or `debian` leaves only
    /// that way.
    pub(crate) fn find() -> Result<Self, ToolchainError> {
        let choice = env::var("APEX_GUESTS").unwrap_or_default();
        if !["", "own", "debian"].contains(&choice.as_str()) {
            return Err(ToolchainError::Choice(choice));
        }
        let (may_own, may_debian) = (choice != "debian", choice != "own");
        let mut tried = Vec::new();
        if may_own && has_target() {
            return Ok(Self::Own);
        }
        if may_debian && is_debian_ready() {
            return Self::debian();
        }
        if may_own && add_target(&mut tried) {
            return Ok(Self::Own);
        }
        if may_debian && install_packages(&mut tried) {
            return Self::debian();
        }
        Err(ToolchainError::None {
            tried: tried.join("\n  "),
        })
    }

    /// The cargo that builds, ready for its arguments.
    pub(crate) fn cargo(&self) -> Step {
        let plain = |program| {
            [
                "RUSTFLAGS",
                "CARGO_ENCODED_RUSTFLAGS",
                "CARGO_BUILD_TARGET",
                "CARGO_TARGET_DIR",
            ]
            .iter()
            .fold(Step::new(program), |step, key| step.unset(key))
        };
        match self {
            Self::Own => plain("cargo").words("build"),
            Self::Debian { linker } => plain("/usr/bin/cargo")
                .words("build -Z build-std=std,panic_abort")
                .env("RUSTC_BOOTSTRAP", "1")
                .env("RUSTC", "/usr/bin/rustc")
                .env("RUSTFLAGS", "-Lnative=/usr/lib/wasm32-wasi")
                .env("PATH", path_with(linker)),
        }
    }

    fn debian() -> Result<Self, ToolchainError> {
        if let Some(linker) = linker_folder() {
            return Ok(Self::Debian { linker });
        }
        say("building wasm-component-ld, once, as no toolchain here brings it");
        let place = files::target().join("guests-linker");
        Step::new("cargo")
            .words("install --locked --root")
            .arg(&place)
            .arg(LINKER)
            .run()?;
        Ok(Self::Debian {
            linker: place.join("bin"),
        })
    }
}

/// Whether the Rust that builds apex has the target.
fn has_target() -> bool {
    sysroot().is_some_and(|root| root.join("lib/rustlib").join(TARGET).join("lib").is_dir())
}

fn sysroot() -> Option<PathBuf> {
    Step::new("rustc")
        .words("--print sysroot")
        .output()
        .ok()
        .map(PathBuf::from)
}

/// Lets rustup add the target. Tells whether it is there now.
fn add_target(tried: &mut Vec<String>) -> bool {
    if !Step::new("rustup").arg("--version").succeeds() {
        tried.push(format!(
            "rustup target add {TARGET}: there is no rustup here"
        ));
        return false;
    }
    say("components need the target wasm32-wasip2: letting rustup add it");
    match Step::new("rustup").words("target add").arg(TARGET).run() {
        Ok(()) if has_target() => return true,
        Ok(()) => tried.push(format!("rustup added {TARGET}, but not to the Rust in use")),
        Err(error) => {
            say("rustup cannot have it here");
            tried.push(error.to_string());
        }
    }
    false
}

fn is_debian_ready() -> bool {
    DEBIAN_FILES.iter().all(|file| Path::new(file).exists()) && std_source().is_some()
}

/// The sources of the standard library of Debian's Rust.
fn std_source() -> Option<PathBuf> {
    let root = Step::new("/usr/bin/rustc")
        .words("--print sysroot")
        .output()
        .ok()?;
    let source = Path::new(&root).join("lib/rustlib/src/rust/library/std/Cargo.toml");
    source.exists().then_some(source)
}

/// Lets apt install the packages. Tells whether they are there now.
fn install_packages(tried: &mut Vec<String>) -> bool {
    let names = PACKAGES.join(" ");
    if !Path::new("/usr/bin/apt-get").exists() {
        tried.push(format!("apt-get install {names}: there is no apt-get here"));
        return false;
    }
    if !is_root() {
        tried.push(format!(
            "needs root: sudo apt-get install --no-install-recommends {names}"
        ));
        return false;
    }
    say(&format!(
        "installing Debian's Rust, which can build components too: {names}"
    ));
    let apt = || Step::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive");
    let install = || {
        apt()
            .words("install --yes --quiet --no-install-recommends")
            .words(&names)
            .run()
    };
    let outcome = install().or_else(|_| {
        say("the list of packages may be old or missing: fetching it");
        apt().words("update --quiet").run().and_then(|()| install())
    });
    if let Err(error) = outcome {
        tried.push(error.to_string());
    }
    is_debian_ready()
}

/// Whether we may install packages.
fn is_root() -> bool {
    Step::new("id").arg("-u").output().is_ok_and(|id| id == "0")
}

/// A folder that holds `wasm-component-ld`: in a toolchain of rustup, on the path, or made by us
/// before.
fn linker_folder() -> Option<PathBuf> {
    let host = format!("lib/rustlib/{}-unknown-linux-gnu/bin", env::consts::ARCH);
    let own = sysroot().map(|root| root.join(host));
    let made = files::target().join("guests-linker/bin");
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = own.into_iter().chain([made]).chain(env::split_paths(&path));
    folders.find(|folder| folder.join(LINKER).is_file())
}

fn path_with(first: &Path) -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = [first.to_path_buf()]
        .into_iter()
        .chain(env::split_paths(&path));
    env::join_paths(folders).unwrap_or(path)
}

impl From<ProcessError> for ToolchainError {
    fn from(error: ProcessError) -> Self {
        Self::Process(error)
    }
}

impl fmt::Display for ToolchainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Choice(choice) => {
                write!(
                    f,
                    "APEX_GUESTS is {choice:?}; it may be `own`, `debian` or unset"
                )
            }
            Self::None { tried } => write!(
                f,
                "no Rust here can build components. Install one of these by hand and try again:\n  \
                 the target, by `rustup target add {TARGET}`;\n  \
                 or on Debian, by `apt-get install {}`.\nWhat was tried:\n  {tried}",
                PACKAGES.join(" ")
            ),
            Self::Process(error) => error.fmt(f),
        }
    }
}
