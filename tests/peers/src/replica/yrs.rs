//! yrs: a transaction an edit, and what `observe_update_v1` hears of it.
//!
//! Positions count UTF-16, as in Yjs: the sessions have no code point of more than 16 bits, so
//! that these are code points. The other choice, bytes, would not be.

use std::cell::RefCell;
use std::error::Error;
use std::mem;
use std::rc::Rc;

use yrs::updates::decoder::Decode;
use yrs::{ClientID, Doc, GetString, OffsetKind, Options, Text, TextRef, Transact, Update};

use super::Replica;
use crate::trace::Patch;

/// A document with a text.
pub(crate) struct Yrs {
    document: Doc,
    text: TextRef,
    heard: Rc<RefCell<Vec<u8>>>,
}

impl Replica for Yrs {
    fn new(number: u8, is_sent: bool) -> Self {
        let mut options = Options::with_client_id(ClientID::new(number.into()));
        options.offset_kind = OffsetKind::Utf16;
        let document = Doc::with_options(options);
        let text = document.get_or_insert_text("text");
        let heard = Rc::<RefCell<Vec<u8>>>::default();
        if is_sent {
            let ear = Rc::clone(&heard);
            document
                .observe_update_v1("peers", move |_, event| {
                    ear.borrow_mut().extend_from_slice(&event.update);
                })
                .expect("no transaction is open");
        }
        Self {
            document,
            text,
            heard,
        }
    }

    fn edit(&mut self, patch: &Patch) -> Result<(), Box<dyn Error>> {
        let Patch(at, removed, text) = patch;
        let mut transaction = self.document.transact_mut();
        if *removed > 0 {
            self.text.remove_range(&mut transaction, *at, *removed);
        }
        if !text.is_empty() {
            self.text.insert(&mut transaction, *at, text);
        }
        Ok(())
    }

    fn update(&mut self) -> Result<Vec<u8>, Box<dyn Error>> {
        Ok(mem::take(&mut *self.heard.borrow_mut()))
    }

    fn receive(&mut self, update: &[u8]) -> Result<(), Box<dyn Error>> {
        let update = Update::decode_v1(update)?;
        self.document.transact_mut().apply_update(update)?;
        Ok(())
    }

    fn text(&self) -> Result<String, Box<dyn Error>> {
        Ok(self.text.get_string(&self.document.transact()))
    }
}
