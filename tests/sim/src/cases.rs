//! Worlds that failed once, as files: a seed, the decisions that matter, and what is expected.
//!
//! ```text
//! # What happens in it, in words.
//! seed 42
//! off fault-delay cut
//! keep 3 17 29
//! fails nothing typed is lost (8, I9)
//! ```
//!
//! A world with a line `fails` is known to fail so, until it is put right; others hold.

use std::fmt::Write;

use crate::plan::Choice;

/// One world as a file holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Its seed.
    pub seed: u64,
    /// The part of its decisions.
    pub choice: Choice,
    /// The oracle that is known to fail, if it is not put right.
    pub fails: Option<String>,
}

impl Case {
    /// Returns the text of its file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("seed {}\n", self.seed);
        let mut line = |word: &str, items: Vec<String>| {
            // Writing into a String does not fail.
            let _ = writeln!(text, "{word} {}", items.join(" ")).is_ok();
        };
        if !self.choice.off.is_empty() {
            let off = self.choice.off.iter();
            line("off", off.map(ToString::to_string).collect());
        }
        if let Some(kept) = &self.choice.kept {
            line("keep", kept.iter().map(ToString::to_string).collect());
        }
        if let Some(oracle) = &self.fails {
            line("fails", vec![oracle.clone()]);
        }
        text
    }
}

impl std::str::FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut case = Self {
            seed: 0,
            choice: Choice::default(),
            fails: None,
        };
        for line in text.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let number = |word: &str| word.parse().map_err(|_| format!("no number: {word}"));
            match word {
                "" | "#" => {}
                "seed" => {
                    case.seed = rest.parse().map_err(|_| format!("no number: {rest}"))?;
                }
                "off" => {
                    for kind in rest.split_whitespace() {
                        case.choice.off.insert(kind.parse()?);
                    }
                }
                "keep" => {
                    let kept: Result<_, String> = rest.split_whitespace().map(number).collect();
                    case.choice.kept = Some(kept?);
                }
                "fails" => case.fails = Some(rest.to_owned()),
                _ => return Err(format!("no line begins with {word}")),
            }
        }
        Ok(case)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Kind;

    #[test]
    fn a_case_reads_back() {
        let choice = Choice {
            off: [Kind::Cut, Kind::Delay].into(),
            kept: Some([1, 5].into()),
        };
        let fails = Some(String::from("an oracle (1, I2)"));
        let case = Case {
            seed: 7,
            choice,
            fails,
        };
        let text = format!("# Words.\n\n{}", case.to_text());
        assert_eq!(text.parse(), Ok(case));
        assert!("seed x".parse::<Case>().is_err());
        assert!("soil 1".parse::<Case>().is_err());
    }
}
