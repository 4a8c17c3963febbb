//! A tool that measures the way into a tool and back.
//!
//! It counts every entry that it is told, by kind. Settings, all optional:
//!
//! - `tool.sink.buffer`: the name of a buffer;
//! - `tool.sink.propose`: how many proposals to make each time when somebody else edits that
//!   buffer. Each inserts one full stop at its start;
//! - `tool.sink.window`: how many of them may be undecided at once, 64 if it does not say.
//!
//! The command `SinkReport` writes one line to the tool's log and makes it a notice:
//! `sink: entries=7 batches=2 edited=5 saved=1 reset=1 other=0 proposed=3 accepted=3 refused=0`.

#![cfg(target_family = "wasm")]

use std::sync::{Mutex, MutexGuard, PoisonError};

use apex::tool::types::{Edited, Entry, Error, Event, Executed, Span, Splice};
use apex::tool::{desk, proposals, session};
use exports::apex::tool::{commands, follower, lifecycle, outcomes};

wit_bindgen::generate!({
    path: "../../../wit",
    inline: "
        package apex:tests;
        world sink {
            import apex:tool/session@1.0.0;
            import apex:tool/proposals@1.0.0;
            import apex:tool/desk@1.0.0;
            export apex:tool/lifecycle@1.0.0;
            export apex:tool/follower@1.0.0;
            export apex:tool/outcomes@1.0.0;
            export apex:tool/commands@1.0.0;
        }
    ",
    world: "apex:tests/sink",
    generate_all,
});
export!(Sink);

const INFO: u32 = 2;
const UNSUPPORTED: u32 = 7;
const WINDOW_DEFAULT: u64 = 64;

/// What has been counted since this instance began.
struct Counts {
    entries: u64,
    batches: u64,
    edited: u64,
    saved: u64,
    reset: u64,
    other: u64,
    proposed: u64,
    accepted: u64,
    refused: u64,
}

/// The proposals that are still to be made.
struct Work {
    buffer: u64,
    base: u64,
    left: u64,
    waiting: u64,
}

struct Memory {
    counts: Counts,
    work: Work,
}

static MEMORY: Mutex<Memory> = Mutex::new(Memory {
    counts: Counts {
        entries: 0,
        batches: 0,
        edited: 0,
        saved: 0,
        reset: 0,
        other: 0,
        proposed: 0,
        accepted: 0,
        refused: 0,
    },
    work: Work {
        buffer: 0,
        base: 0,
        left: 0,
        waiting: 0,
    },
});

struct Sink;

impl lifecycle::Guest for Sink {
    fn start(_settings: Vec<(String, String)>) -> Result<lifecycle::Interest, Error> {
        Ok(lifecycle::Interest {
            follow: vec!["buffer:*".to_owned()],
            history: false,
        })
    }

    fn stop() {}
}

impl follower::Guest for Sink {
    fn apply(batch: Vec<Entry>) -> Result<(), Error> {
        let mut memory = memory();
        memory.counts.batches += 1;
        for entry in &batch {
            memory.counts.entries += 1;
            match &entry.event {
                Event::Edited(edited) => {
                    memory.counts.edited += 1;
                    memory.take_work(edited)?;
                }
                Event::Saved(_) => memory.counts.saved += 1,
                Event::Reset(_) => memory.counts.reset += 1,
                _ => memory.counts.other += 1,
            }
        }
        memory.propose()
    }
}

impl outcomes::Guest for Sink {
    fn decided(_id: u64, outcome: Result<Vec<outcomes::Landed>, Error>) {
        let mut memory = memory();
        memory.work.waiting = memory.work.waiting.saturating_sub(1);
        match outcome {
            Ok(landed) => {
                memory.counts.accepted += 1;
                let base = landed
                    .iter()
                    .map(|landed| landed.version)
                    .max()
                    .unwrap_or(0);
                memory.work.base = memory.work.base.max(base);
            }
            Err(error) => {
                memory.counts.refused += 1;
                desk::log(
                    INFO,
                    &format!("refused ({}): {}", error.code, error.message),
                );
            }
        }
        if let Err(error) = memory.propose() {
            desk::log(
                INFO,
                &format!("cannot propose ({}): {}", error.code, error.message),
            );
        }
    }
}

impl commands::Guest for Sink {
    fn list_commands() -> Vec<commands::Command> {
        vec![commands::Command {
            name: "SinkReport".to_owned(),
            summary: "says what the sink tool has counted".to_owned(),
        }]
    }

    fn run(name: String, _call: Executed) -> Result<bool, Error> {
        if name != "SinkReport" {
            let message = format!("sink has no command {name}");
            return Err(Error {
                code: UNSUPPORTED,
                message,
                retry: false,
            });
        }
        let line = memory().counts.line();
        desk::log(INFO, &line);
        desk::notify(INFO, &line)?;
        Ok(true)
    }
}

impl Counts {
    fn line(&self) -> String {
        format!(
            "sink: entries={} batches={} edited={} saved={} reset={} other={} proposed={} \
             accepted={} refused={}",
            self.entries,
            self.batches,
            self.edited,
            self.saved,
            self.reset,
            self.other,
            self.proposed,
            self.accepted,
            self.refused
        )
    }
}

impl Memory {
    /// Notes what an edit asks for, if it is somebody's own and of the buffer that the settings
    /// name.
    fn take_work(&mut self, edited: &Edited) -> Result<(), Error> {
        let count = number("tool.sink.propose").unwrap_or(0);
        if count == 0 || edited.by_proposal {
            return Ok(());
        }
        let info = session::buffer(edited.buffer)?;
        if desk::setting("tool.sink.buffer").as_deref() == Some(info.name.as_str()) {
            let work = &mut self.work;
            *work = Work {
                buffer: edited.buffer,
                base: edited.after.max(work.base),
                left: work.left + count,
                waiting: work.waiting,
            };
        }
        Ok(())
    }

    /// Makes as many proposals as there are to be made and may be undecided at once.
    fn propose(&mut self) -> Result<(), Error> {
        if self.work.left == 0 {
            return Ok(());
        }
        let window = number("tool.sink.window").unwrap_or(WINDOW_DEFAULT);
        while self.work.left > 0 && self.work.waiting < window {
            let dot = Splice {
                at: Span { q0: 0, q1: 0 },
                text: ".".to_owned(),
            };
            let edit = proposals::Edit {
                buffer: self.work.buffer,
                base: self.work.base,
                splices: vec![dot],
            };
            proposals::propose(&[proposals::Change::Edit(edit)])?;
            self.work.left -= 1;
            self.work.waiting += 1;
            self.counts.proposed += 1;
        }
        Ok(())
    }
}

/// A setting that is a number.
fn number(key: &str) -> Option<u64> {
    desk::setting(key)?.trim().parse().ok()
}

fn memory() -> MutexGuard<'static, Memory> {
    MEMORY.lock().unwrap_or_else(PoisonError::into_inner)
}
