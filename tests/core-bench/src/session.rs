//! States and texts of any length, as a session comes to them.

use apex_core::entry::{BufferKind, BufferOp, Entry, MetaOp, Op};
use apex_core::ids::{BufferId, Epoch, SERVER, Shard};
use apex_core::limits;
use apex_core::state::State;

use crate::BenchError;
use crate::trace::Trace;

/// Returns a text of at least `len` bytes, whole lines of a recorded editing session's end over and
/// over, each time with its number so that no two are the same.
///
/// # Errors
/// The session is not there.
pub fn text(len: usize) -> Result<String, BenchError> {
    let end = Trace::read("rustcode")?.end;
    let mut text = String::with_capacity(len + end.len() + 64);
    for number in 0.. {
        if text.len() >= len {
            break;
        }
        text.push_str(&format!("// part {number}\n"));
        text.push_str(&end);
        text.push('\n');
    }
    Ok(text)
}

/// Returns a state with these texts, each in a buffer of its own, loaded as files are.
///
/// # Errors
/// The state refuses an entry.
pub fn state(texts: impl IntoIterator<Item: AsRef<str>>) -> Result<State, BenchError> {
    let mut state = State::new();
    for (id, text) in (1..).zip(texts) {
        let shard = Shard::Buffer(BufferId::new(id));
        run(&mut state, Shard::Meta, Op::Meta(MetaOp::ShardNew(shard)))?;
        let kind = BufferKind::File;
        let name = format!("/bench/{id}");
        run(
            &mut state,
            shard,
            Op::Buffer(BufferOp::Create { kind, name }),
        )?;
        for piece in pieces(text.as_ref()) {
            let text = piece.into();
            run(&mut state, shard, Op::Buffer(BufferOp::Load { text }))?;
        }
    }
    Ok(state)
}

/// Cuts a text between code points into pieces of at most [`limits::PIECE_LEN_MAX`] bytes.
pub fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (piece, behind) = rest.split_at(rest.floor_char_boundary(limits::PIECE_LEN_MAX));
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Appends an operation with the seq that follows.
fn run(state: &mut State, shard: Shard, op: Op) -> Result<(), BenchError> {
    let seq = state.applied(shard).unwrap_or_default().next();
    let entry = Entry {
        seq,
        attachment: SERVER,
        epoch: Epoch::default(),
        origin: None,
        op,
    };
    let applied = state.apply(shard, &entry);
    applied.map_err(|error| BenchError::Wrong(format!("{shard}: {error}")))?;
    Ok(())
}
