//! Replays a recorded editing session with one replicated text library, and prints its times.
//!
//! `peers LIBRARY edit|encode TRACE.json.gz [COUNT]` prints nanoseconds per edit, one line a
//! replay. COUNT cuts the session.
//!
//! 1. Each library is used as for live typing: one edit is one transaction, one commit or one
//!    operation of its own, addressed by code points.
//! 2. `encode` has each edit as the bytes that its other replicas are sent, by the way that the
//!    library's documentation gives for live changes.
//! 3. No library keeps undo or selections here; apex does in the figures beside it.
//! 4. A replay begins with a new document, whose making is not measured, and every text is
//!    checked. With `encode` another replica is fed the first updates and must have the text too.

use std::error::Error;
use std::io::{Write, stderr, stdout};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use mimalloc::MiMalloc;

mod trace;

mod replica;

use replica::Replica;
use replica::automerge::Automerge;
use replica::diamond::Diamond;
use replica::loro::Loro;
use replica::yrs::Yrs;
use trace::Trace;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Replays of one process, while there is time.
const REPLAYS_MAX: usize = 5;
/// After this much time no other replay begins.
const ENOUGH: Duration = Duration::from_secs(1);
/// Edits whose updates another replica is fed.
const FED_MAX: usize = 200;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            writeln!(stderr(), "peers: {error}").ok();
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (library, is_sent, path, count) = match args.as_slice() {
        [library, mode, path] => (library, mode == "encode", path, None),
        [library, mode, path, count] => (library, mode == "encode", path, Some(count.parse()?)),
        _ => return Err("LIBRARY edit|encode TRACE.json.gz [COUNT]".into()),
    };
    let mut trace = Trace::read(path)?;
    if let Some(count) = count {
        trace = trace.cut(count);
    }
    let times = match library.as_str() {
        "automerge" => measure::<Automerge>(&trace, is_sent),
        "diamond-types" => measure::<Diamond>(&trace, is_sent),
        "loro" => measure::<Loro>(&trace, is_sent),
        "yrs" => measure::<Yrs>(&trace, is_sent),
        _ => return Err(format!("no library {library}").into()),
    }?;
    for ns in times {
        writeln!(stdout(), "{ns}")?;
    }
    Ok(())
}

/// Returns nanoseconds per edit of each replay.
fn measure<R: Replica>(trace: &Trace, is_sent: bool) -> Result<Vec<f64>, Box<dyn Error>> {
    if is_sent {
        feed::<R>(&trace.clone().cut(FED_MAX))?;
    }
    let begin = now();
    let mut times = Vec::new();
    while times.is_empty() || (times.len() < REPLAYS_MAX && begin.elapsed() < ENOUGH) {
        let mut replica = R::new(1, is_sent);
        let start = now();
        let mut len = 0;
        for patch in &trace.patches {
            replica.edit(patch)?;
            if is_sent {
                len += replica.update()?.len();
            }
        }
        let elapsed = start.elapsed();
        if is_sent && len == 0 {
            return Err("no update has bytes".into());
        }
        check(&replica, trace)?;
        times.push(elapsed.as_secs_f64() * 1e9 / trace.patches.len() as f64);
    }
    Ok(times)
}

/// Sends every edit to another replica, which must end with the same text.
fn feed<R: Replica>(trace: &Trace) -> Result<(), Box<dyn Error>> {
    let (mut replica, mut other) = (R::new(1, true), R::new(2, false));
    for patch in &trace.patches {
        replica.edit(patch)?;
        other.receive(&replica.update()?)?;
    }
    check(&other, trace)
}

fn check<R: Replica>(replica: &R, trace: &Trace) -> Result<(), Box<dyn Error>> {
    if replica.text()? == trace.end {
        Ok(())
    } else {
        Err("the text is wrong".into())
    }
}

#[expect(clippy::disallowed_methods, reason = "this program measures time")]
fn now() -> Instant {
    Instant::now()
}
