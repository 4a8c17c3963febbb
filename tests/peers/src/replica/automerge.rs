//! automerge: a commit an edit, and what `save_incremental` has of it.
//!
//! A commit has a hash of its change's bytes, so that much of the encoding is in the edit already.
//! Positions are code points, which is the crate's default.

use std::error::Error;

use automerge::transaction::Transactable;
use automerge::{ActorId, AutoCommit, ObjId, ObjType, ROOT, ReadDoc};

use super::Replica;
use crate::trace::Patch;

/// A document with a text.
pub(crate) struct Automerge {
    document: AutoCommit,
    text: ObjId,
}

impl Replica for Automerge {
    fn new(number: u8, is_sent: bool) -> Self {
        // All replicas must have one and the same text, made once.
        let mut document = AutoCommit::new().with_actor(ActorId::from([0]));
        let text = document
            .put_object(ROOT, "text", ObjType::Text)
            .expect("an empty document takes a text");
        document.commit();
        let mut document = document.with_actor(ActorId::from([number]));
        if is_sent {
            document.save_incremental();
        }
        Self { document, text }
    }

    fn edit(&mut self, patch: &Patch) -> Result<(), Box<dyn Error>> {
        let Patch(at, removed, text) = patch;
        let removed = isize::try_from(*removed)?;
        self.document
            .splice_text(&self.text, *at as usize, removed, text)?;
        self.document.commit();
        Ok(())
    }

    fn update(&mut self) -> Result<Vec<u8>, Box<dyn Error>> {
        Ok(self.document.save_incremental())
    }

    fn receive(&mut self, update: &[u8]) -> Result<(), Box<dyn Error>> {
        self.document.load_incremental(update)?;
        Ok(())
    }

    fn text(&self) -> Result<String, Box<dyn Error>> {
        Ok(self.document.text(&self.text)?)
    }
}
