//! One window: the buffer of its tag and what its body shows.

use alloc::collections::BTreeMap;
use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::buffer::{OpError, set};
use crate::entry::{Body, WindowOp};
use crate::ids::BufferId;

/// A window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The buffer of its tag.
    pub tag: BufferId,
    /// What it shows.
    pub body: Body,
    settings: BTreeMap<String, String>,
}

impl Window {
    /// Returns a window, as its Create entry makes it.
    #[must_use]
    pub const fn new(tag: BufferId, body: Body) -> Self {
        Self {
            tag,
            body,
            settings: BTreeMap::new(),
        }
    }

    /// Returns a setting of the window.
    #[must_use]
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.settings.get(key).map(String::as_str)
    }

    /// Returns all settings, in order.
    pub fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.settings
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Applies an operation other than Create.
    ///
    /// # Errors
    /// A second Create.
    pub fn apply(&mut self, op: &WindowOp) -> Result<(), OpError> {
        match op {
            WindowOp::Create { .. } => return Err(OpError::Create),
            WindowOp::Body(body) => self.body = *body,
            WindowOp::Setting { key, value } => set(&mut self.settings, key, value.as_ref()),
        }
        Ok(())
    }
}
