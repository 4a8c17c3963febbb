//! `FILE[:ADDR]`, as the command line takes it.
//!
//! A name may hold colons, so what exists under the whole name wins; only then the text after a
//! colon is an address, if it reads as one: `12` a line, `#34` a position, `3:5` line and column.
//! A colon at the end, as compilers print it after a line number, is not part of it.

use std::ffi::OsStr;
use std::path::Path;

use apex_core::address;

use crate::cli::error::CliError;

/// A file or directory and where in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// An absolute path.
    pub path: String,
    /// `12`, `#34`, `3:5` or nothing.
    pub address: String,
}

impl Place {
    /// Returns what an argument means to somebody in `directory`.
    ///
    /// # Errors
    /// [`CliError::Usage`] when the argument is empty or either is not UTF-8, which names in apex
    /// are.
    pub fn parse(argument: &OsStr, directory: &Path) -> Result<Self, CliError> {
        let text = argument
            .to_str()
            .ok_or_else(|| not_utf8("the file name", argument))?;
        if text.is_empty() {
            return Err(CliError::Usage("a file name is empty".into()));
        }
        let (name, address) = split(text, |name| directory.join(name).symlink_metadata().is_ok());
        Ok(Self {
            path: absolute(name, directory)?,
            address,
        })
    }
}

/// Returns the absolute path of a name, links and `..` left as they are.
///
/// # Errors
/// [`CliError::Usage`] when the directory's name is not UTF-8.
pub fn absolute(name: &str, directory: &Path) -> Result<String, CliError> {
    let path = std::path::absolute(directory.join(name))
        .map_err(|error| CliError::Usage(format!("cannot make {name} absolute: {error}")))?;
    path.into_os_string()
        .into_string()
        .map_err(|path| not_utf8("the path", &path))
}

fn not_utf8(what: &str, text: &OsStr) -> CliError {
    CliError::Usage(format!(
        "{what} {} is not UTF-8, and names in apex are; open it through a name that is (a link)",
        text.display()
    ))
}

fn split(text: &str, exists: impl Fn(&str) -> bool) -> (&str, String) {
    if exists(text) {
        return (text, String::new());
    }
    let (name, address) = address::split(text.strip_suffix(':').unwrap_or(text));
    if address.is_empty() {
        return (text, String::new());
    }
    // `t:3:5` is line 3 and column 5 of `t`, unless there is a `t:3`.
    match address.rsplit_once(':') {
        Some((line, column)) if exists(&text[..name.len() + 1 + line.len()]) => {
            (&text[..name.len() + 1 + line.len()], column.into())
        }
        _ => (name, address.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn an_address_is_split_off_only_where_the_whole_name_is_no_file() {
        let files = ["a", "a:12", "b c", "t:3", "dir"];
        for (text, name, address) in [
            ("a", "a", ""),
            ("a:12", "a:12", ""),
            ("a:13", "a", "13"),
            ("a:12:13", "a:12", "13"),
            ("b c:7", "b c", "7"),
            ("dir:1", "dir", "1"),
            ("new:12", "new", "12"),
            ("new:#34", "new", "#34"),
            ("new:3:5", "new", "3:5"),
            ("new:3:5:", "new", "3:5"),
            ("new:3:", "new", "3"),
            ("t:3:5", "t:3", "5"),
            ("t:3:5:6", "t:3", "5:6"),
            ("new:3:#5", "new:3", "#5"),
            ("new:#3:5", "new:#3", "5"),
            ("new:", "new:", ""),
            ("new:#", "new:#", ""),
            ("new:x", "new:x", ""),
            ("new:12x", "new:12x", ""),
            ("new:-1", "new:-1", ""),
            (":12", ":12", ""),
            (":1:2", ":1", "2"),
            ("::12", ":", "12"),
            ("http://host:80", "http://host", "80"),
            ("new:1,#9", "new", "1,#9"),
            ("new:$", "new", "$"),
        ] {
            let found = split(text, |name| files.contains(&name));
            assert_eq!(found, (name, address.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_place_is_absolute_and_an_existing_name_wins() {
        let scratch = crate::link::scratch::Scratch::new();
        let directory = scratch.path();
        std::fs::write(directory.join("x:2"), "").unwrap();
        let place = |text: &str| Place::parse(OsStr::new(text), directory).unwrap();
        let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
        assert_eq!(
            place("x:2"),
            Place {
                path: path("x:2"),
                address: String::new()
            }
        );
        assert_eq!(
            place("./x:3"),
            Place {
                path: path("x"),
                address: "3".into()
            }
        );
        assert_eq!(place("/etc/hosts:1").path, "/etc/hosts");
        assert_eq!(place("../up").path, path("../up"));
    }

    #[test]
    fn a_name_that_is_not_utf8_or_empty_is_a_usage_error_in_words() {
        for bytes in [&b"caf\xe9.txt"[..], b""] {
            let error = Place::parse(OsStr::from_bytes(bytes), Path::new("/tmp")).unwrap_err();
            assert!(matches!(error, CliError::Usage(_)), "{error}");
        }
    }
}
