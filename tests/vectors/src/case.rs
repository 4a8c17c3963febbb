//! One case: texts, a script, and what sam made of them.

use std::collections::BTreeMap;
use std::fmt;

use apex_core::text::Span;
use serde::Deserialize;

use crate::editor::{Editor, Failure};

/// What a case expects of one text, or of several by name.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Texts {
    /// One text without a name.
    One(String),
    /// Texts by name.
    Many(BTreeMap<String, String>),
}

/// A case, as a line of a file of cases holds it.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// Its name.
    pub id: String,
    /// The text before; none with several files.
    pub text: Option<String>,
    /// The open files before, by name.
    pub files: Option<BTreeMap<String, String>>,
    /// Files that exist and are not open.
    #[serde(default)]
    pub disk: BTreeMap<String, String>,
    /// Complete commands, run in order.
    pub script: Vec<String>,
    /// Whether all of them succeed; otherwise the last one fails.
    pub ok: bool,
    /// The texts afterwards.
    pub result: Texts,
    /// The selection afterwards, half-open, in code points.
    pub dot: Option<[u64; 2]>,
    /// The selection that the manual's rule gives, where it differs from sam's.
    pub dot_alt: Option<[u64; 2]>,
    /// The selections by name.
    #[serde(default)]
    pub dots: BTreeMap<String, [u64; 2]>,
    /// The selections that the manual's rule gives, by name.
    #[serde(default)]
    pub dots_alt: BTreeMap<String, [u64; 2]>,
    /// The files that are open afterwards.
    pub open: Option<Vec<String>>,
    /// The current file afterwards.
    pub current: Option<String>,
    /// The class of the error.
    pub error: Option<String>,
    /// Everything that is printed.
    #[serde(default)]
    pub output: String,
}

/// How a case did not come out as expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Of what.
    pub what: String,
    /// What the case expects.
    pub expected: String,
    /// What came out.
    pub actual: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            what,
            expected,
            actual,
        } = self;
        write!(f, "{what}: expected {expected}, got {actual}")
    }
}

fn same<T: PartialEq + fmt::Debug>(what: &str, expected: &T, actual: &T) -> Result<(), Mismatch> {
    if expected == actual {
        return Ok(());
    }
    Err(Mismatch {
        what: what.to_owned(),
        expected: format!("{expected:?}"),
        actual: format!("{actual:?}"),
    })
}

impl Case {
    /// Runs the case.
    ///
    /// # Errors
    /// The first thing that is not as expected.
    pub fn check(&self) -> Result<(), Mismatch> {
        let mut editor = Editor::new(self.disk.clone());
        match (&self.text, &self.files) {
            (_, Some(files)) => {
                for (name, text) in files {
                    editor.open(name, text);
                }
                editor.current = Some(0);
            }
            (Some(text), None) => {
                editor.open("", text);
            }
            (None, None) => return same("the case", &"a text or files", &"neither"),
        }
        let mut failed = None;
        for (step, command) in self.script.iter().enumerate() {
            if let Err(failure) = editor.run(command) {
                failed = Some((step, failure));
                break;
            }
        }
        self.check_error(failed)?;
        if self.ok {
            same("output", &self.output, &editor.output)?;
        }
        self.check_texts(&editor)
    }

    fn check_error(&self, failed: Option<(usize, Failure)>) -> Result<(), Mismatch> {
        let last = self.script.len().saturating_sub(1);
        match (self.ok, failed) {
            (true, None) => Ok(()),
            (true, Some((step, failure))) => {
                same("result", &"success", &&*format!("{failure} in step {step}"))
            }
            (false, None) => same("result", &self.error.as_deref().unwrap_or(""), &"success"),
            (false, Some((step, failure))) => {
                same("failing step", &last, &step)?;
                let class = self.error.as_deref().unwrap_or_default();
                same("error", &class, &failure.class())
            }
        }
    }

    fn check_texts(&self, editor: &Editor) -> Result<(), Mismatch> {
        let results = match &self.result {
            Texts::One(text) => BTreeMap::from([(String::new(), text.clone())]),
            Texts::Many(texts) => texts.clone(),
        };
        let texts: BTreeMap<_, _> = editor
            .files
            .iter()
            .map(|file| (file.name.clone(), file.text.to_string()))
            .collect();
        same("text", &results, &texts)?;
        if let Some(open) = &self.open {
            let mut open = open.clone();
            open.sort();
            same("open files", &open, &texts.into_keys().collect())?;
            let current = editor.current.map(|file| editor.files[file].name.clone());
            same("current file", &self.current, &current)?;
        }
        if !self.ok {
            return Ok(());
        }
        for file in &editor.files {
            let (dot, alternative) = if self.files.is_some() {
                let name = &file.name;
                (self.dots.get(name), self.dots_alt.get(name))
            } else {
                (self.dot.as_ref(), self.dot_alt.as_ref())
            };
            if let Some([q0, q1]) = alternative.or(dot) {
                same("dot", &Span::new(*q0, *q1), &file.dot)?;
            }
        }
        Ok(())
    }
}
