//! Where the daemon finds and keeps its things, its settings file, and its own bounds.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use apex_core::limits;

/// How long a new connection may take to introduce itself, in milliseconds.
pub const HANDSHAKE_TIMEOUT_MS: u64 = 5_000;
/// Most bytes of entries that wait for one connection; past it they are forgotten and a fresh
/// snapshot is sent when there is room.
pub const OUTLET_LEN_MAX: usize = 4 << 20;
/// Bytes that one read of a connection takes.
pub const READ_LEN: usize = 64 << 10;
/// How often the daemon looks whether its socket is still there, in milliseconds.
pub const SOCKET_CHECK_MS: u64 = 60_000;
/// How long a loading file waits for the slowest follower before its next piece, in milliseconds.
pub const LOAD_PACE_MS: u64 = 250;
/// How much of a file that is being loaded stays in the log, in bytes; the state has all of it, and
/// whoever comes later gets a snapshot.
pub const LOAD_LOG_LEN_MAX: usize = 16 << 20;
/// How long an attachment may take to answer a hash query, in milliseconds.
pub const HASH_QUERY_MS: u64 = 5_000;
/// Most files of what replicas computed differently.
pub const DIVERGED_FILE_COUNT_MAX: usize = 16;
/// How long a put waits for the version that it names, in milliseconds.
pub const PUT_WAIT_MS: u64 = 10_000;
/// Largest piece of a command's output that becomes one entry, in bytes.
pub const OUTPUT_PIECE_LEN_MAX: usize = 64 << 10;
/// Most bytes of one command's output that are kept.
pub const OUTPUT_LEN_MAX: usize = 16 << 20;
/// How long a killed command has before it is killed for good, in milliseconds.
pub const KILL_WAIT_MS: u64 = 1_000;
/// How long a session may take to say what it is, for `apex ls`, in milliseconds.
pub const INFO_WAIT_MS: u64 = 2_000;
/// How long sessions and tools may take to end with the daemon, in milliseconds.
pub const END_WAIT_MS: u64 = 30_000;
/// Most commands of one session that run at once.
pub const PROCESS_COUNT_MAX: usize = 256;
/// Most connections at once.
pub const CONNECTION_COUNT_MAX: usize = 1024;
/// Most sessions at once.
pub const SESSION_COUNT_MAX: usize = 1024;
/// Files up to this length are always hashed before they are overwritten, in bytes; for longer
/// ones an unchanged inode, length and time is proof enough.
pub const HASH_ALWAYS_LEN_MAX: u64 = 16 << 20;
/// Largest settings file, in bytes.
pub const SETTINGS_LEN_MAX: u64 = 1 << 20;
/// Longest socket path that Linux takes, in bytes, less the final zero.
pub const SOCKET_PATH_LEN_MAX: usize = 107;

const _: () = assert!(OUTPUT_PIECE_LEN_MAX * 3 <= limits::PIECE_LEN_MAX);
const _: () = assert!(OUTLET_LEN_MAX >= limits::APPEND_LEN_MAX);

/// The daemon's directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// Socket, lock and diary.
    pub runtime_dir: PathBuf,
    /// The user's settings and grants.
    pub config_dir: PathBuf,
    /// The user's tools.
    pub data_dir: PathBuf,
    /// Texts rescued at the end, and what replicas computed differently.
    pub state_dir: PathBuf,
    /// Compiled components.
    pub cache_dir: PathBuf,
    /// The user's home, where new sessions begin.
    pub home_dir: PathBuf,
}

/// Why a setting could not be used.
#[derive(Debug)]
pub enum ConfigError {
    /// `HOME` is missing or not absolute, and no other variable says where things are.
    NoHome,
    /// The socket's path is too long for the system.
    SocketPathTooLong(PathBuf),
    /// The settings file cannot be read.
    Unreadable(PathBuf, io::Error),
    /// The settings file is larger than [`SETTINGS_LEN_MAX`].
    TooLarge(PathBuf),
    /// The settings file is not TOML.
    Syntax(PathBuf, String),
    /// A setting is not a string, number or truth value.
    Value(PathBuf, String),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHome => f.write_str("HOME is not an absolute path; set it"),
            Self::SocketPathTooLong(path) => write!(
                f,
                "the socket path {} is longer than {SOCKET_PATH_LEN_MAX} bytes; set \
                 APEX_RUNTIME_DIR to a shorter directory",
                path.display()
            ),
            Self::Unreadable(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            Self::TooLarge(path) => {
                write!(
                    f,
                    "{} is larger than {SETTINGS_LEN_MAX} bytes",
                    path.display()
                )
            }
            Self::Syntax(path, why) => write!(f, "{}: {why}", path.display()),
            Self::Value(path, key) => write!(
                f,
                "{}: the value of \"{key}\" is no string, number or truth value",
                path.display()
            ),
        }
    }
}

impl std::error::Error for ConfigError {}

impl Paths {
    /// Returns the directories that the variables of `environment` name for user `uid`.
    ///
    /// # Errors
    /// When there is no home, or the socket's path would be too long.
    pub fn new(
        environment: impl Fn(&str) -> Option<OsString>,
        uid: u32,
    ) -> Result<Self, ConfigError> {
        // Relative paths in these variables are to be ignored (XDG base directory rules).
        let absolute = |name: &str| {
            environment(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let home_dir = absolute("HOME");
        let base = |name: &str, below_home: &str| match (absolute(name), &home_dir) {
            (Some(dir), _) => Ok(dir),
            (None, Some(home)) => Ok(home.join(below_home)),
            (None, None) => Err(ConfigError::NoHome),
        };
        let runtime_dir = absolute("APEX_RUNTIME_DIR")
            .or_else(|| Some(absolute("XDG_RUNTIME_DIR")?.join("apex")))
            .unwrap_or_else(|| PathBuf::from(format!("/tmp/apex-{uid}")));
        let paths = Self {
            runtime_dir,
            config_dir: base("XDG_CONFIG_HOME", ".config")?.join("apex"),
            data_dir: base("XDG_DATA_HOME", ".local/share")?.join("apex"),
            state_dir: base("XDG_STATE_HOME", ".local/state")?.join("apex"),
            cache_dir: base("XDG_CACHE_HOME", ".cache")?.join("apex"),
            home_dir: home_dir.unwrap_or_else(|| PathBuf::from("/")),
        };
        if paths.socket().as_os_str().len() > SOCKET_PATH_LEN_MAX {
            return Err(ConfigError::SocketPathTooLong(paths.socket()));
        }
        Ok(paths)
    }

    /// Returns where the socket is.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.runtime_dir.join("apexd.sock")
    }

    /// Returns the file whose lock says that a daemon serves.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.runtime_dir.join("apexd.lock")
    }

    /// Returns the user's settings file.
    #[must_use]
    pub fn settings(&self) -> PathBuf {
        self.config_dir.join("settings.toml")
    }

    /// Returns the user's grants.
    #[must_use]
    pub fn grants(&self) -> PathBuf {
        self.config_dir.join("grants.toml")
    }

    /// Returns the user's directory of tools.
    #[must_use]
    pub fn plugins(&self) -> PathBuf {
        self.data_dir.join("plugins")
    }

    /// Returns where it is kept what replicas computed differently.
    #[must_use]
    pub fn diverged(&self) -> PathBuf {
        self.state_dir.join("diverged")
    }

    /// Returns where texts go that were not put when the daemon ended.
    #[must_use]
    pub fn rescued(&self) -> PathBuf {
        self.state_dir.join("rescued")
    }
}

/// Reads a settings file: a table of strings; `tool.tidy.off = "*.md"` and
/// `"tool.tidy.off" = "*.md"` mean the same. A missing file has no settings.
///
/// # Errors
/// When it is there and cannot be used; the message says where and why.
pub fn read_settings(path: &Path) -> Result<BTreeMap<String, String>, ConfigError> {
    let unreadable = |error| ConfigError::Unreadable(path.to_owned(), error);
    match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(unreadable(error)),
        Ok(metadata) if metadata.len() > SETTINGS_LEN_MAX => {
            return Err(ConfigError::TooLarge(path.to_owned()));
        }
        Ok(_) => {}
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let table: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| syntax(path, &text, &error))?;
    let mut settings = BTreeMap::new();
    flatten(path, "", table, &mut settings)?;
    Ok(settings)
}

fn syntax(path: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
    let line = error.span().map_or(1, |span| {
        1 + text.as_bytes()[..span.start.min(text.len())]
            .iter()
            .filter(|b| **b == b'\n')
            .count()
    });
    ConfigError::Syntax(path.to_owned(), format!("line {line}: {}", error.message()))
}

fn flatten(
    path: &Path,
    prefix: &str,
    table: toml::Table,
    settings: &mut BTreeMap<String, String>,
) -> Result<(), ConfigError> {
    for (key, value) in table {
        let key = format!("{prefix}{key}");
        let text = match value {
            toml::Value::String(text) => text,
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Float(number) => number.to_string(),
            toml::Value::Boolean(truth) => truth.to_string(),
            toml::Value::Table(inner) => {
                flatten(path, &format!("{key}."), inner, settings)?;
                continue;
            }
            toml::Value::Datetime(_) | toml::Value::Array(_) => {
                return Err(ConfigError::Value(path.to_owned(), key));
            }
        };
        settings.insert(key, text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(variables: &[(&str, &str)]) -> Result<Paths, ConfigError> {
        let find = |name: &str| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.into())
        };
        Paths::new(find, 7)
    }

    #[test]
    fn variables_decide_all_paths() {
        let all = [
            ("HOME", "/h"),
            ("XDG_RUNTIME_DIR", "/r"),
            ("XDG_CONFIG_HOME", "/c"),
            ("XDG_DATA_HOME", "/d"),
            ("XDG_STATE_HOME", "/s"),
        ];
        let found = paths(&all).unwrap();
        assert_eq!(found.socket(), Path::new("/r/apex/apexd.sock"));
        assert_eq!(found.settings(), Path::new("/c/apex/settings.toml"));
        assert_eq!(found.plugins(), Path::new("/d/apex/plugins"));
        assert_eq!(found.rescued(), Path::new("/s/apex/rescued"));
        assert_eq!(found.cache_dir, Path::new("/h/.cache/apex"));
    }

    #[test]
    fn without_a_runtime_dir_the_uid_names_one() {
        assert_eq!(
            paths(&[("HOME", "/h")]).unwrap().runtime_dir,
            Path::new("/tmp/apex-7")
        );
        let own = paths(&[("HOME", "/h"), ("APEX_RUNTIME_DIR", "/x")]).unwrap();
        assert_eq!(own.runtime_dir, Path::new("/x"));
    }

    #[test]
    fn a_missing_home_and_a_long_socket_path_are_said() {
        assert!(matches!(paths(&[]), Err(ConfigError::NoHome)));
        assert!(matches!(
            paths(&[("HOME", "relative")]),
            Err(ConfigError::NoHome)
        ));
        let long = format!("/{}", "x".repeat(SOCKET_PATH_LEN_MAX));
        let error = paths(&[("HOME", "/h"), ("XDG_RUNTIME_DIR", &long)]).unwrap_err();
        assert!(error.to_string().contains("APEX_RUNTIME_DIR"), "{error}");
    }

    #[test]
    fn settings_read_flat_and_nested_and_say_what_is_wrong() {
        let dir = crate::disk::testing::TempDir::new();
        let path = dir.path().join("settings.toml");
        assert_eq!(read_settings(&path).unwrap(), BTreeMap::new());
        std::fs::write(
            &path,
            "tab = 8\n\"tool.tidy.off\" = \"*.md\"\n[tool.x]\ny = true\n",
        )
        .unwrap();
        let settings = read_settings(&path).unwrap();
        assert_eq!(settings["tab"], "8");
        assert_eq!(settings["tool.tidy.off"], "*.md");
        assert_eq!(settings["tool.x.y"], "true");
        std::fs::write(&path, "a = 1\nb = \n").unwrap();
        assert!(
            read_settings(&path)
                .unwrap_err()
                .to_string()
                .contains("line 2")
        );
        std::fs::write(&path, "a = [1]\n").unwrap();
        assert!(
            read_settings(&path)
                .unwrap_err()
                .to_string()
                .contains("\"a\"")
        );
    }
}
