//! What a tool follows: patterns over the names of shards.

use std::collections::BTreeSet;

use apex_core::entry::BufferKind;
use apex_core::ids::Shard;
use apex_core::state::State;

use super::limits;

/// The patterns of one tool: `meta`, `layout`, `buffer:GLOB`, `term:GLOB`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patterns(Vec<Pattern>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Meta,
    Layout,
    Buffer(String),
    Term(String),
}

impl Patterns {
    /// Reads patterns.
    ///
    /// # Errors
    /// The first that is none, in words.
    pub fn parse(texts: &[String]) -> Result<Self, String> {
        if texts.len() > limits::PATTERN_COUNT_MAX {
            return Err(format!("more than {} patterns", limits::PATTERN_COUNT_MAX));
        }
        texts
            .iter()
            .map(|text| Pattern::parse(text))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Returns the patterns as they are written.
    pub fn texts(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().map(|pattern| match pattern {
            Pattern::Meta => "meta".to_owned(),
            Pattern::Layout => "layout".to_owned(),
            Pattern::Buffer(glob) => format!("buffer:{glob}"),
            Pattern::Term(glob) => format!("term:{glob}"),
        })
    }

    /// Returns whether a shard of this name is followed; the name counts for buffers and terms.
    #[must_use]
    pub fn matches(&self, shard: Shard, name: &str) -> bool {
        self.0.iter().any(|pattern| match (pattern, shard) {
            (Pattern::Meta, Shard::Meta) | (Pattern::Layout, Shard::Layout) => true,
            (Pattern::Buffer(pattern), Shard::Buffer(_))
            | (Pattern::Term(pattern), Shard::Term(_)) => glob(pattern, name),
            (_, Shard::Meta | Shard::Layout | Shard::Buffer(_) | Shard::Window(_))
            | (_, Shard::Term(_)) => false,
        })
    }

    /// Returns the shards of a state that are followed.
    #[must_use]
    pub fn shards_of(&self, state: &State) -> BTreeSet<Shard> {
        let is_followed = |shard: &Shard| {
            followed_name(state, *shard).is_some_and(|name| self.matches(*shard, &name))
        };
        state
            .marks()
            .map(|(shard, _)| shard)
            .filter(is_followed)
            .collect()
    }
}

/// Returns the name by which patterns match a shard; none for what tools never follow: tags, which
/// apex writes itself, and windows.
#[must_use]
pub fn followed_name(state: &State, shard: Shard) -> Option<String> {
    match shard {
        Shard::Meta | Shard::Layout => Some(String::new()),
        Shard::Buffer(id) => {
            let buffer = state
                .buffer(id)
                .filter(|buffer| buffer.kind() != BufferKind::Tag)?;
            Some(buffer.name().to_owned())
        }
        Shard::Term(id) => state.term(id).map(|term| term.command.clone()),
        Shard::Window(_) => None,
    }
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, String> {
        match (text, text.split_once(':')) {
            ("meta", _) => Ok(Self::Meta),
            ("layout", _) => Ok(Self::Layout),
            (_, Some(("buffer", glob))) if glob.len() <= limits::MANIFEST_STRING_LEN_MAX => {
                Ok(Self::Buffer(glob.to_owned()))
            }
            (_, Some(("term", glob))) if glob.len() <= limits::MANIFEST_STRING_LEN_MAX => {
                Ok(Self::Term(glob.to_owned()))
            }
            _ => Err(format!(
                "{text:?} is no pattern: use meta, layout, buffer:GLOB or term:GLOB"
            )),
        }
    }
}

/// Returns whether a pattern matches the whole of a name: `*` stands for any run of characters,
/// `/` among them, `?` for one. Takes time proportional to both lengths multiplied at most.
#[must_use]
pub fn glob(pattern: &str, name: &str) -> bool {
    let (mut pattern, mut name) = (pattern.chars(), name.chars());
    // Behind the last star, and where in the name its run ended when the rest was tried last.
    let mut star = None;
    loop {
        let (mut pattern_rest, mut name_rest) = (pattern.clone(), name.clone());
        let Some(c) = name_rest.next() else {
            return pattern.all(|c| c == '*');
        };
        match pattern_rest.next() {
            Some('*') => {
                star = Some((pattern_rest.clone(), name.clone()));
                pattern = pattern_rest;
            }
            Some(wanted) if wanted == '?' || wanted == c => {
                (pattern, name) = (pattern_rest, name_rest);
            }
            _ => {
                let Some((behind, end)) = &mut star else {
                    return false;
                };
                end.next();
                (pattern, name) = (behind.clone(), end.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use apex_core::ids::BufferId;

    use super::*;

    #[test]
    fn a_glob_matches_the_whole_name() {
        for (pattern, name) in [
            ("*", ""),
            ("*", "/a/b"),
            ("/a/*.rs", "/a/b/c.rs"),
            ("/a/*", "/a/b/c.rs"),
            ("/a/*", "/a/"),
            ("?b*", "éb"),
            ("a*b*c", "axxbyybc"),
        ] {
            assert!(glob(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("", "a"),
            ("?", ""),
            ("/a", "/ab"),
            ("*.rs", "a.rst"),
            ("/a/*", "/b/a/"),
            ("/a?b*", "/a/c"),
            ("a*b", "ba"),
        ] {
            assert!(!glob(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn a_glob_of_many_stars_ends() {
        let pattern = "*a".repeat(200);
        assert!(!glob(&pattern, &"a".repeat(199)));
        assert!(!glob(&pattern, &format!("{}b", "a".repeat(3000))));
    }

    #[test]
    fn a_pattern_matches_its_kind_of_shard_only() {
        let patterns = Patterns::parse(&["buffer:/src/*".to_owned(), "meta".to_owned()]).unwrap();
        let buffer = Shard::Buffer(BufferId::new(1));
        assert!(patterns.matches(buffer, "/src/x") && patterns.matches(Shard::Meta, ""));
        assert!(!patterns.matches(buffer, "/etc/x") && !patterns.matches(Shard::Layout, ""));
        assert_eq!(
            patterns.texts().collect::<Vec<_>>(),
            ["buffer:/src/*", "meta"]
        );
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for bad in ["", "buffers:*", "window:*", "buffer", "meta:"] {
            assert!(Patterns::parse(&[bad.to_owned()]).is_err(), "{bad}");
        }
        assert!(Patterns::parse(&vec!["meta".to_owned(); 65]).is_err());
    }
}
