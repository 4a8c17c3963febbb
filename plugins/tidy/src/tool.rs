//! The tool itself: hears of a Put, reads the text, proposes what [`rules`](crate::rules) found.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::rules::{Fix, Rules, Scan, Settings};
use apex::tool::types::{Entry, Error, Event, Saved, Span, Splice};
use apex::tool::{desk, proposals, session};
use exports::apex::tool::{follower, lifecycle, outcomes};

wit_bindgen::generate!({
    path: "../../wit",
    // Only what this tool uses: apex looks at what is there.
    inline: "
        package apex:tidy;
        world tidy {
            import apex:tool/session@1.0.0;
            import apex:tool/proposals@1.0.0;
            import apex:tool/desk@1.0.0;
            export apex:tool/lifecycle@1.0.0;
            export apex:tool/follower@1.0.0;
            export apex:tool/outcomes@1.0.0;
        }
    ",
    world: "apex:tidy/tidy",
    generate_all,
});
export!(Tidy);

/// The causes of a `saved` event that are the user's: Put and Putall.
const CAUSES: [u32; 2] = [0, 2];
/// As many code points as are never more than 1 MiB of UTF-8, the most that one read gives.
const PIECE: u64 = 1 << 18;
/// A text longer than this would take longer than a call may.
const LENGTH_MAX: u64 = 32 << 20;
/// A proposal of more than this would be too large to be worth a surprise.
const FIXES_MAX: usize = 50_000;
/// Levels of `desk.log` and `desk.notify`.
const INFO: u32 = 2;
const WARNING: u32 = 3;
/// Codes of an error that say: the text has moved on, the next Put will do.
const MOVED_ON: [u32; 3] = [5, 8, 12];
const NOT_FOUND: u32 = 3;

/// Which text a proposal is for.
#[derive(Clone, PartialEq, Eq)]
struct Text {
    buffer: u64,
    version: u64,
    path: String,
}

/// The proposals that have not been decided on, by their ids.
static WAITING: Mutex<BTreeMap<u64, Text>> = Mutex::new(BTreeMap::new());

struct Tidy;

impl lifecycle::Guest for Tidy {
    fn start(_settings: Vec<(String, String)>) -> Result<lifecycle::Interest, Error> {
        Ok(lifecycle::Interest {
            follow: vec!["buffer:*".to_owned()],
            history: false,
        })
    }

    fn stop() {}
}

impl follower::Guest for Tidy {
    fn apply(batch: Vec<Entry>) -> Result<(), Error> {
        // Two Puts of one buffer in one batch are one text to tidy.
        let mut puts: BTreeMap<u64, Saved> = BTreeMap::new();
        for entry in batch {
            if let Event::Saved(saved) = entry.event
                && CAUSES.contains(&saved.cause)
            {
                puts.insert(saved.buffer, saved);
            }
        }
        // One file that cannot be tidied is no reason to leave the next.
        let outcomes: Vec<_> = puts.into_values().map(tidy).collect();
        outcomes.into_iter().collect()
    }
}

impl outcomes::Guest for Tidy {
    fn decided(id: u64, outcome: Result<Vec<outcomes::Landed>, Error>) {
        let Some(text) = waiting().remove(&id) else {
            return;
        };
        match outcome {
            Ok(_) => {}
            Err(error) if MOVED_ON.contains(&error.code) => later(&text.path),
            Err(error) => tell(&format!("{} was not tidied: {}", text.path, error.message)),
        }
    }
}

/// Tidies the text that has just been put.
fn tidy(saved: Saved) -> Result<(), Error> {
    let rules = Rules::of(&saved.path, &settings());
    let text = Text {
        buffer: saved.buffer,
        version: saved.version,
        path: saved.path,
    };
    if rules.are_off() || waiting().values().any(|other| *other == text) {
        return Ok(());
    }
    let info = match session::buffer(text.buffer) {
        Ok(info) => info,
        Err(error) if error.code == NOT_FOUND => return Ok(()),
        Err(error) => return Err(error),
    };
    if info.version != text.version {
        later(&text.path);
        return Ok(());
    }
    if info.length > LENGTH_MAX {
        tell(&format!(
            "{} is too long to tidy: {} characters",
            text.path, info.length
        ));
        return Ok(());
    }
    let fixes = find(text.buffer, info.length, rules)?;
    if fixes.len() > FIXES_MAX {
        tell(&format!(
            "{} has too many lines to tidy: more than {FIXES_MAX}",
            text.path
        ));
        return Ok(());
    }
    if fixes.is_empty() {
        Ok(())
    } else {
        propose(text, fixes)
    }
}

/// What there is to do in a buffer. Stops when it is more than can be done.
fn find(buffer: u64, length: u64, rules: Rules) -> Result<Vec<Fix>, Error> {
    let mut scan = Scan::new(rules);
    let mut q0 = 0;
    while q0 < length && scan.count() <= FIXES_MAX {
        let q1 = length.min(q0 + PIECE);
        scan.feed(&session::read(buffer, Span { q0, q1 })?);
        q0 = q1;
    }
    Ok(scan.finish())
}

/// Proposes the fixes and a Put of what they lead to.
fn propose(text: Text, fixes: Vec<Fix>) -> Result<(), Error> {
    let splices = fixes
        .into_iter()
        .map(|fix| Splice {
            at: Span {
                q0: fix.q0,
                q1: fix.q1,
            },
            text: fix.text.to_owned(),
        })
        .collect();
    let edit = proposals::Edit {
        buffer: text.buffer,
        base: text.version,
        splices,
    };
    let put = (text.buffer, text.version);
    let id = proposals::propose(&[proposals::Change::Edit(edit), proposals::Change::Put(put)])?;
    waiting().insert(id, text);
    Ok(())
}

/// The user's settings as they are now.
fn settings() -> Settings {
    let value = |key| desk::setting(key).unwrap_or_default();
    Settings {
        off: value("tool.tidy.off"),
        keep_blanks: value("tool.tidy.keep-blanks"),
        keep_eof: value("tool.tidy.keep-eof"),
    }
}

/// Notes that somebody was faster. Typing on after a Put is no reason to bother the user.
fn later(path: &str) {
    desk::log(
        INFO,
        &format!("{path} was changed again before it was tidied; the next Put will do it"),
    );
}

/// Tells the user what was not done.
fn tell(message: &str) {
    desk::log(WARNING, message);
    if let Err(error) = desk::notify(WARNING, message) {
        desk::log(
            WARNING,
            &format!("the user could not be told: {}", error.message),
        );
    }
}

fn waiting() -> MutexGuard<'static, BTreeMap<u64, Text>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}
