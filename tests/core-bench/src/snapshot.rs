//! Snapshots of long sessions beside copies of the same bytes.
//!
//! - `copy`: the bytes copied to fresh memory, as whoever keeps them must; and to memory that was
//!   written before, which is what a copy itself costs.
//! - `write`: the state as bytes, all at once to fresh memory; and a piece at a time to the memory
//!   of the last one, as the daemon sends it.
//! - `read`: the bytes as a state, all at once, and a piece at a time as a client gets it.
//! - `rope`: the texts alone as bare ropes: what reading cannot go below.
//! - The daemon's memory while clients join: pages that it has more, by what the system says.

use std::hint::black_box;
use std::path::Path;

use apex_core::limits::PIECE_LEN_MAX;
use apex_core::state::State;
use apex_core::state::snapshot::{Snapshot, SnapshotReader};
use ropey::Rope;

use crate::BenchError;
use crate::session;
use crate::stats::{Samples, timed};
use crate::table::{Table, figure, ratio};

/// Clients that join at once.
const CLIENT_COUNT: usize = 3;

/// What is measured, in the order of the table.
const ROWS: [&str; 7] = [
    "copy to memory used before",
    "copy to fresh memory",
    "write, all at once",
    "write, a piece at a time",
    "read, all at once",
    "read, a piece at a time",
    "bare ropes of the texts",
];

/// Seconds of each row, and what the clients cost.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    rows: [Samples; ROWS.len()],
    /// Bytes of the snapshot.
    pub len: usize,
    /// Bytes of memory that the daemon has more while clients join; none where the system says
    /// nothing.
    pub joining_len: Option<u64>,
}

/// Returns a state whose texts have `len` bytes in `count` buffers.
///
/// # Errors
/// The text is not there, or the state refuses it.
pub fn state(len: usize, count: usize) -> Result<State, BenchError> {
    let text = session::text(len / count)?;
    session::state(std::iter::repeat_n(text.as_str(), count))
}

/// Writes and reads a snapshot in each way, and adds the times.
///
/// # Errors
/// What was read is not what was written.
pub fn round(state: &State, figures: &mut Figures) -> Result<(), BenchError> {
    let mut used = state.to_snapshot();
    let whole = used.clone();
    figures.len = whole.len();
    let mut times = [0.0; ROWS.len()];
    let ((), ns) = timed(|| black_box(&mut used).copy_from_slice(black_box(&whole)));
    times[0] = ns;
    let (copy, ns) = timed(|| black_box(whole.to_vec()));
    times[1] = ns;
    drop(copy);
    let (written, ns) = timed(|| state.to_snapshot());
    times[2] = ns;
    let (len, ns) = timed(|| write_pieces(state));
    times[3] = ns;
    let (read, ns) = timed(|| State::from_snapshot(&whole));
    times[4] = ns;
    let (pieces, ns) = timed(|| read_pieces(&whole));
    times[5] = ns;
    let texts: Vec<String> = state.buffers().map(|(_, b)| b.text().to_string()).collect();
    let (ropes, ns) = timed(|| texts.iter().map(|text| Rope::from_str(text)).collect());
    times[6] = ns;
    black_box::<Vec<Rope>>(ropes);
    let is_right = written == whole && len == whole.len();
    for read in [read, pieces] {
        let read = read.map_err(|error| BenchError::Wrong(error.to_string()))?;
        if !is_right || read.to_snapshot() != whole {
            return Err(BenchError::Wrong(
                "a snapshot is not what was written".into(),
            ));
        }
    }
    for (samples, ns) in figures.rows.iter_mut().zip(times) {
        samples.push(ns);
    }
    Ok(())
}

fn write_pieces(state: &State) -> usize {
    let mut snapshot = Snapshot::new(state.clone());
    let (mut piece, mut len) = (Vec::new(), 0);
    while snapshot.left() > 0 {
        piece.clear();
        snapshot.write(PIECE_LEN_MAX, &mut piece);
        len += black_box(&piece).len();
    }
    len
}

fn read_pieces(whole: &[u8]) -> Result<State, apex_core::state::SnapshotError> {
    let mut reader = SnapshotReader::new();
    for piece in whole.chunks(PIECE_LEN_MAX) {
        reader.push(piece)?;
    }
    reader.finish()
}

/// Lets clients take the pieces of a state by turns; returns by how many bytes the process grew at
/// most, and none where the system does not say.
///
/// # Errors
/// The pieces are not the whole.
pub fn join(state: &State) -> Result<Option<u64>, BenchError> {
    let before = resident_len();
    let mut snapshots = vec![Snapshot::new(state.clone()); CLIENT_COUNT];
    let whole = snapshots[0].left() * CLIENT_COUNT as u64;
    let (mut len, mut most) = (0, 0);
    while snapshots.iter().any(|snapshot| snapshot.left() > 0) {
        let pieces: Vec<_> = snapshots.iter_mut().filter_map(Iterator::next).collect();
        len += pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
        most = most.max(resident_len().unwrap_or(0));
    }
    if len != whole {
        return Err(BenchError::Wrong("pieces that are not the whole".into()));
    }
    Ok(before.map(|before| most.saturating_sub(before)))
}

/// Returns the bytes of memory that this process has.
fn resident_len() -> Option<u64> {
    let status = std::fs::read_to_string(Path::new("/proc/self/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// Measures a session of 100 MB in few long texts, and one in many.
///
/// # Errors
/// A result is wrong.
pub fn run(rounds: usize) -> Result<Table, BenchError> {
    let mut sessions = Vec::new();
    for count in [1, 1000] {
        let state = state(100_000_000, count)?;
        let mut figures = Figures {
            joining_len: join(&state)?,
            ..Figures::default()
        };
        for _ in 0..rounds {
            round(&state, &mut figures)?;
        }
        sessions.push((count, figures));
    }
    Ok(table(rounds, &sessions))
}

fn table(rounds: usize, sessions: &[(usize, Figures)]) -> Table {
    let title = format!("snapshot: MB/s of 100 MB, medians of {rounds} rounds");
    let mut columns = vec![String::new()];
    for (count, _) in sessions {
        columns.push(format!("{count} buffers"));
        columns.push("/fresh copy".into());
    }
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new(title, &columns);
    for (index, name) in ROWS.iter().enumerate() {
        let mut row = vec![(*name).to_owned()];
        for (_, figures) in sessions {
            let [_, fresh, ..] = &figures.rows;
            let ns = figures.rows[index].median();
            row.push(figure(figures.len as f64 * 1e3 / ns));
            row.push(ratio(fresh.median(), ns));
        }
        table.row(row);
    }
    for (count, figures) in sessions {
        let grown = figures.joining_len.map_or("unknown".into(), |len| {
            format!("{} MB", figure(len as f64 / 1e6))
        });
        table.remark(format!(
            "memory while {CLIENT_COUNT} clients join, {count} buffers: {grown} more"
        ));
    }
    table
        .remark("fresh memory is what reading and keeping bytes needs at least: pages come zeroed");
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_snapshot_bench_reads_what_it_wrote_and_clients_cost_pieces() {
        let state = state(300_000, 7).unwrap();
        let mut figures = Figures::default();
        round(&state, &mut figures).unwrap();
        assert!(figures.rows.iter().all(|row| row.count() == 1));
        assert!(figures.len > 300_000);
        join(&state).unwrap();
    }
}
