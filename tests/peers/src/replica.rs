//! What a replicated text library does for a program in which somebody types.

use std::error::Error;

use crate::trace::Patch;

pub(crate) mod automerge;
pub(crate) mod diamond;
pub(crate) mod loro;
pub(crate) mod yrs;

/// One replica of one text.
pub(crate) trait Replica: Sized {
    /// Returns an empty one. Only of one that `is_sent` updates are asked for; its number is
    /// different from that of others.
    fn new(number: u8, is_sent: bool) -> Self;

    /// Makes a change of the user.
    fn edit(&mut self, patch: &Patch) -> Result<(), Box<dyn Error>>;

    /// Returns the bytes that bring other replicas from before the last change to after it.
    fn update(&mut self) -> Result<Vec<u8>, Box<dyn Error>>;

    /// Takes in what another replica was asked for.
    fn receive(&mut self, update: &[u8]) -> Result<(), Box<dyn Error>>;

    fn text(&self) -> Result<String, Box<dyn Error>>;
}
