//! loro: a commit an edit, and what `subscribe_local_update` hears of it.
//!
//! Positions are code points. A replacement is a deletion and an insertion: `splice` would make a
//! string of what goes.

use std::error::Error;
use std::mem;
use std::sync::{Arc, Mutex};

use loro::{LoroDoc, LoroText, Subscription};

use super::Replica;
use crate::trace::Patch;

/// A document with a text.
pub(crate) struct Loro {
    document: LoroDoc,
    text: LoroText,
    heard: Arc<Mutex<Vec<u8>>>,
    /// Ends what it stands for when dropped.
    _subscription: Option<Subscription>,
}

impl Replica for Loro {
    fn new(number: u8, is_sent: bool) -> Self {
        let document = LoroDoc::new();
        document
            .set_peer_id(number.into())
            .expect("a new document takes any number");
        let text = document.get_text("text");
        let heard = Arc::<Mutex<Vec<u8>>>::default();
        let ear = Arc::clone(&heard);
        let subscription = is_sent.then(|| {
            document.subscribe_local_update(Box::new(move |update| {
                ear.lock()
                    .expect("nobody panics in here")
                    .extend_from_slice(update);
                true
            }))
        });
        Self {
            document,
            text,
            heard,
            _subscription: subscription,
        }
    }

    fn edit(&mut self, patch: &Patch) -> Result<(), Box<dyn Error>> {
        let Patch(at, removed, text) = patch;
        let (at, removed) = (*at as usize, *removed as usize);
        if removed > 0 {
            self.text.delete(at, removed)?;
        }
        if !text.is_empty() {
            self.text.insert(at, text)?;
        }
        self.document.commit();
        Ok(())
    }

    fn update(&mut self) -> Result<Vec<u8>, Box<dyn Error>> {
        let mut heard = self.heard.lock().map_err(|_| "somebody panicked")?;
        Ok(mem::take(&mut *heard))
    }

    fn receive(&mut self, update: &[u8]) -> Result<(), Box<dyn Error>> {
        self.document.import(update)?;
        Ok(())
    }

    fn text(&self) -> Result<String, Box<dyn Error>> {
        Ok(self.text.to_string())
    }
}
