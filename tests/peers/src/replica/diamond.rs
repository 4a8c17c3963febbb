//! diamond-types: an operation an edit, and the patch that `encode_from` makes of it.
//!
//! Positions are code points. It has no replacement: one is a deletion and an insertion.

use std::error::Error;

use diamond_types::list::ListCRDT;
use diamond_types::list::encoding::ENCODE_PATCH;
use diamond_types::{AgentId, LocalVersion};

use super::Replica;
use crate::trace::Patch;

/// A list of characters.
pub(crate) struct Diamond {
    list: ListCRDT,
    agent: AgentId,
    /// What other replicas have.
    sent: LocalVersion,
}

impl Replica for Diamond {
    fn new(number: u8, _is_sent: bool) -> Self {
        let mut list = ListCRDT::new();
        let agent = list.get_or_create_agent_id(&format!("peer {number}"));
        let sent = list.oplog.local_version();
        Self { list, agent, sent }
    }

    fn edit(&mut self, patch: &Patch) -> Result<(), Box<dyn Error>> {
        let Patch(at, removed, text) = patch;
        let (at, removed) = (*at as usize, *removed as usize);
        if removed > 0 {
            self.list
                .delete_without_content(self.agent, at..at + removed);
        }
        if !text.is_empty() {
            self.list.insert(self.agent, at, text);
        }
        Ok(())
    }

    fn update(&mut self) -> Result<Vec<u8>, Box<dyn Error>> {
        let update = self.list.oplog.encode_from(ENCODE_PATCH, &self.sent);
        self.sent = self.list.oplog.local_version();
        Ok(update)
    }

    fn receive(&mut self, update: &[u8]) -> Result<(), Box<dyn Error>> {
        self.list
            .merge_data_and_ff(update)
            .map_err(|error| format!("{error:?}"))?;
        Ok(())
    }

    fn text(&self) -> Result<String, Box<dyn Error>> {
        Ok(self.list.branch.content().to_string())
    }
}
