//! Texts that were not put when a session ends without being asked to: written where they are
//! found again, because nothing that was typed may be lost.

use std::path::{Path, PathBuf};

use apex_core::entry::BufferKind;
use apex_core::state::State;
use apex_core::text::Text;

use crate::{clock, diary, disk, files};

/// Returns the texts to rescue: modified files, and what was recovered and not looked at.
pub(super) fn texts(state: &State) -> Vec<(String, Text)> {
    let is_wanted =
        |kind: BufferKind, name: &str| kind == BufferKind::Scratch && name.ends_with("+Recovered");
    state
        .buffers()
        .filter(|(_, buffer)| buffer.is_modified() || is_wanted(buffer.kind(), buffer.name()))
        .filter(|(_, buffer)| !buffer.text().is_empty())
        .map(|(_, buffer)| (buffer.name().to_owned(), buffer.text().clone()))
        .collect()
}

/// Returns the directory for a session's texts at this moment.
pub(super) fn dir(rescue_dir: &Path, label: &str) -> PathBuf {
    rescue_dir.join(format!("{}-{}", clock::unix_seconds(), flat(label)))
}

/// Writes texts into a directory and returns the files; what fails is told in the diary.
pub(super) fn write(dir: &Path, texts: &[(String, Text)]) -> Vec<PathBuf> {
    if texts.is_empty() {
        return Vec::new();
    }
    if let Err(error) = std::fs::create_dir_all(dir) {
        diary::error(format_args!("cannot make {}: {error}", dir.display()));
        return Vec::new();
    }
    let mut written = Vec::new();
    for (index, (name, text)) in texts.iter().enumerate() {
        // The number keeps windows without a name, and equal names, apart.
        let path = dir.join(files::path_of(&format!("{index:03}{}", flat(name))));
        match disk::write(&path, text.byte_pieces()) {
            Ok(_) => {
                diary::info(format_args!("the text of {name} is in {}", path.display()));
                written.push(path);
            }
            Err(error) => diary::error(format_args!("the text of {name} is lost: {error}")),
        }
    }
    written
}

/// Returns a name without slashes, short enough for a file name.
fn flat(name: &str) -> String {
    let tail = name.char_indices().rev().nth(80).map_or(0, |(at, _)| at);
    name[tail..].replace(['/', '\0'], "%")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::testing::TempDir;

    #[test]
    fn every_text_gets_a_file_of_its_own() {
        let dir = TempDir::new();
        let long = format!("/{}", "é/".repeat(300));
        let texts = [
            ("/a/b", "one"),
            ("/a/b", "two"),
            ("", "three"),
            (&long, "four"),
        ]
        .map(|(name, text)| (name.to_owned(), Text::from(text)));
        let target = super::dir(dir.path(), "ma/in");
        let files = write(&target, &texts);
        let read: Vec<_> = files
            .iter()
            .map(|file| std::fs::read_to_string(file).unwrap())
            .collect();
        assert_eq!(read, ["one", "two", "three", "four"]);
        assert!(files[0].to_string_lossy().ends_with("000%a%b"));
    }
}
