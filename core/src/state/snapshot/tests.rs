//! Snapshots of long texts and long histories: the same bytes whatever the pieces, and how much is
//! kept meanwhile.

use alloc::format;
use alloc::string::String;
use alloc::vec;

use super::*;
use crate::edit::Splice;
use crate::entry::{BufferKind, BufferOp, MetaOp, Op, TermOp};
use crate::ids::{GroupId, Shard};
use crate::state::tests::next;
use crate::text::Span;

fn run(state: &mut State, shard: Shard, op: Op) {
    let entry = next(state, shard, op);
    state.apply(shard, &entry).unwrap();
}

/// Makes a buffer of a text that is loaded in pieces.
fn load(state: &mut State, id: u64, pieces: &[String]) {
    let shard = Shard::Buffer(BufferId::new(id));
    run(state, Shard::Meta, Op::Meta(MetaOp::ShardNew(shard)));
    let kind = BufferKind::File;
    let name = format!("/tmp/{id}");
    run(state, shard, Op::Buffer(BufferOp::Create { kind, name }));
    for text in pieces {
        let text = text.clone();
        run(state, shard, Op::Buffer(BufferOp::Load { text }));
    }
}

/// A state with a long text, long histories and terminals, about 200 KB.
fn long() -> State {
    let mut state = State::new();
    for id in 1..6 {
        load(&mut state, id, &vec!["é漢🙂 a line\r\n".repeat(300); 5]);
    }
    let shard = Shard::Buffer(BufferId::new(3));
    for number in 0..300 {
        let at = Span::new(number * 7, number * 7 + 3);
        let edit = BufferOp::Edit {
            splices: vec![Splice::new(at, "x".repeat(90)); 1].into(),
            group: Some(GroupId::new(number + 1)),
            dot: None,
        };
        run(&mut state, shard, Op::Buffer(edit));
    }
    for number in (200..300).rev() {
        let group = GroupId::new(number + 1);
        let undo = BufferOp::Undo { group, view: None };
        run(&mut state, shard, Op::Buffer(undo));
    }
    for id in 10..13 {
        let shard = Shard::Term(TermId::new(id));
        run(&mut state, Shard::Meta, Op::Meta(MetaOp::ShardNew(shard)));
        let create = TermOp::Create {
            columns: 80,
            rows: 24,
            command: "rc".into(),
        };
        run(&mut state, shard, Op::Term(create));
    }
    state
}

/// What serde makes of a state: the definition.
fn defined(state: &State) -> Vec<u8> {
    postcard::to_allocvec(&(APPLY_VERSION, state)).unwrap()
}

#[test]
fn a_snapshot_is_what_postcard_makes_of_a_state_whatever_the_pieces() {
    for state in [State::new(), long()] {
        let whole = defined(&state);
        assert_eq!(state.to_snapshot(), whole);
        for room in [97, 1000, 4096, 65_537, whole.len() - 1, whole.len()] {
            let mut snapshot = Snapshot::new(state.clone());
            let mut bytes = Vec::new();
            while snapshot.left() > 0 {
                let before = bytes.len();
                snapshot.write(room, &mut bytes);
                assert_eq!(bytes.len() - before, room.min(whole.len() - before));
                assert_eq!(snapshot.left(), (whole.len() - bytes.len()) as u64);
            }
            assert_eq!(bytes, whole, "pieces of {room}");
            snapshot.write(room, &mut bytes);
            assert_eq!(bytes.len(), whole.len(), "nothing comes behind the end");
        }
    }
}

#[test]
fn a_state_is_read_whatever_the_pieces() {
    for state in [State::new(), long()] {
        let whole = defined(&state);
        for size in [1, 61, 1000, 65_537, whole.len()] {
            let mut reader = SnapshotReader::new();
            for piece in whole.chunks(size) {
                reader.push(piece).unwrap();
            }
            let read = reader.finish().unwrap();
            assert!(read.to_snapshot() == whole, "pieces of {size}");
        }
    }
}

#[test]
fn a_snapshot_is_of_its_moment() {
    let mut state = long();
    let before = state.to_snapshot();
    let mut snapshot = Snapshot::new(state.clone());
    let mut bytes = Vec::new();
    snapshot.write(100, &mut bytes);
    load(&mut state, 9, &["later".into()]);
    snapshot.write(usize::MAX, &mut bytes);
    assert!(bytes == before);
}

#[test]
fn what_is_cut_short_or_goes_on_is_refused() {
    let whole = defined(&long());
    for len in (0..whole.len()).step_by(911).chain([whole.len() - 1]) {
        let cut = State::from_snapshot(&whole[..len]);
        assert_eq!(cut.unwrap_err(), SnapshotError::Bytes, "{len} bytes");
    }
    let mut reader = SnapshotReader::new();
    reader.push(&whole).unwrap();
    assert_eq!(reader.push(&[0]), Err(SnapshotError::Bytes));
    assert_eq!(reader.push(&[]), Err(SnapshotError::Bytes), "it stays so");
    assert_eq!(reader.finish().unwrap_err(), SnapshotError::Bytes);
    let mut reader = SnapshotReader::new();
    assert_eq!(reader.push(&[9]), Err(SnapshotError::Version(9)));
    assert_eq!(reader.finish().unwrap_err(), SnapshotError::Version(9));
}

#[test]
fn texts_are_not_kept_beside_their_ropes() {
    let mut state = State::new();
    let piece = "0123456789abcde\n".repeat(1 << 13);
    for id in 1..4 {
        load(&mut state, id, &vec![piece.clone(); 8]);
    }
    let mut snapshot = Snapshot::new(state);
    assert!(snapshot.left() > 3 << 20);
    let mut reader = SnapshotReader::new();
    let mut kept_len_max = 0;
    while snapshot.left() > 0 {
        let mut piece = Vec::new();
        snapshot.write(10_000, &mut piece);
        reader.push(&piece).unwrap();
        kept_len_max = kept_len_max.max(reader.kept.capacity());
    }
    assert!(kept_len_max < 25_000, "{kept_len_max} bytes");
    reader.finish().unwrap();
}

#[test]
fn claims_of_lengths_make_no_room() {
    let huge = u64::MAX >> 1;
    let meta = crate::meta::Meta::default();
    let layout = None::<crate::layout::Layout>;
    let head = postcard::to_allocvec(&(APPLY_VERSION, &meta, &layout, huge)).unwrap();
    let front = (BufferId::new(1), BufferKind::File, "name", huge);
    let front = postcard::to_allocvec(&front).unwrap();
    let mut reader = SnapshotReader::new();
    for piece in [&head[..], &front[..], b"some text"] {
        reader.push(piece).unwrap();
        assert!(reader.kept.capacity() < 100);
    }
    assert_eq!(reader.finish().unwrap_err(), SnapshotError::Bytes);
}
