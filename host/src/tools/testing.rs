//! A session for unit tests: entries as the daemon would publish them.

use std::collections::BTreeMap;
use std::sync::Arc;

use apex_core::edit::Splice;
use apex_core::entry::{
    Body, BufferKind, BufferOp, ChainHash, Entry, LayoutOp, MetaOp, Op, Origin, WindowOp,
};
use apex_core::ids::{BufferId, Epoch, GroupId, SERVER, Seq, Shard, ViewId, WindowId};
use apex_core::log::Record;
use apex_core::message::Mark;
use apex_core::state::State;
use apex_core::text::Span;
use apex_core::wire;

/// A component that imports a function `launch` of nobody, and exports nothing.
pub(super) const UNKNOWN_IMPORT: &[u8] = b"\0asm\x0d\0\x01\0\
    \x07\x05\x01\x40\x00\x01\x00\
    \x0a\x0b\x01\x00\x06launch\x01\x00";

/// Makes records with right seqs and chains, and keeps the state that they lead to.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) state: State,
    chains: BTreeMap<Shard, ChainHash>,
    /// What was made and not taken.
    pub(super) records: Vec<Arc<Record>>,
}

impl Script {
    /// Returns an empty session.
    pub(super) fn new() -> Self {
        Self {
            state: State::new(),
            chains: BTreeMap::new(),
            records: Vec::new(),
        }
    }

    /// Returns where the logs stand.
    pub(super) fn marks(&self) -> Vec<Mark> {
        let mark = |(shard, seq)| Mark {
            shard,
            seq,
            chain: self.chains.get(&shard).copied().unwrap_or_default(),
        };
        self.state.marks().map(mark).collect()
    }

    /// Takes the records made since the last time.
    pub(super) fn take(&mut self) -> Vec<Arc<Record>> {
        std::mem::take(&mut self.records)
    }

    pub(super) fn append(&mut self, shard: Shard, op: Op, origin: Option<Origin>) {
        let seq = self.state.applied(shard).map_or(Seq::new(1), Seq::next);
        let entry = Entry {
            seq,
            attachment: SERVER,
            epoch: Epoch::default(),
            origin,
            op,
        };
        let bytes = wire::encode_entry(&entry);
        let chain = self.chains.entry(shard).or_default();
        *chain = chain.extend(&bytes);
        let record = Record {
            shard,
            entry,
            bytes,
            chain: *chain,
        };
        self.state.apply(shard, &record.entry).unwrap();
        self.records.push(Arc::new(record));
    }

    pub(super) fn meta(&mut self, op: MetaOp) {
        self.append(Shard::Meta, Op::Meta(op), None);
    }

    pub(super) fn buffer_op(&mut self, id: u64, op: BufferOp) {
        self.append(Shard::Buffer(BufferId::new(id)), Op::Buffer(op), None);
    }

    /// Makes a buffer of a name with a text.
    pub(super) fn buffer(&mut self, id: u64, name: &str, text: &str) {
        self.meta(MetaOp::ShardNew(Shard::Buffer(BufferId::new(id))));
        self.buffer_op(
            id,
            BufferOp::Create {
                kind: BufferKind::File,
                name: name.to_owned(),
            },
        );
        if !text.is_empty() {
            self.buffer_op(
                id,
                BufferOp::Load {
                    text: text.to_owned(),
                },
            );
        }
    }

    /// Types a text at a place, as a group of its own.
    pub(super) fn edit(&mut self, id: u64, at: Span, text: &str) {
        let version = self
            .state
            .buffer(BufferId::new(id))
            .unwrap()
            .version()
            .raw();
        let group = Some(GroupId::new(version + 1));
        self.buffer_op(
            id,
            BufferOp::Edit {
                splices: Splice::new(at, text).into(),
                group,
                dot: None,
            },
        );
    }

    /// Makes a window on a buffer.
    pub(super) fn window(&mut self, id: u64, body: u64) {
        let shard = Shard::Window(WindowId::new(id));
        let (tag, body) = (BufferId::new(id + 1000), BufferId::new(body));
        self.meta(MetaOp::ShardNew(shard));
        self.append(
            shard,
            Op::Window(WindowOp::Create {
                tag,
                body: Body::Buffer(body),
            }),
            None,
        );
        self.buffer_op(
            body.raw(),
            BufferOp::ViewAdd(ViewId::Body(WindowId::new(id))),
        );
    }

    /// Makes a layout and focuses a window's body.
    pub(super) fn focus(&mut self, window: u64) {
        if self.state.layout().is_none() {
            self.meta(MetaOp::ShardNew(Shard::Layout));
            let top = BufferId::new(1);
            self.append(Shard::Layout, Op::Layout(LayoutOp::Create { top }), None);
        }
        let focus = LayoutOp::Focus(Some(ViewId::Body(WindowId::new(window))));
        self.append(Shard::Layout, Op::Layout(focus), None);
    }
}
