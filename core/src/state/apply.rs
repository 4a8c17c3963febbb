//! The one writer of the state. Only the `match` is here; the work is in the module of each noun.

use alloc::sync::Arc;

use super::State;
use crate::buffer::{Buffer, Effect, OpError};
use crate::entry::{BufferOp, Entry, LayoutOp, MetaOp, Op, TermOp, WindowOp};
use crate::ids::{BufferId, Seq, Shard, TermId, WindowId};
use crate::layout::Layout;
use crate::term::Term;
use crate::window::Window;

/// Why an entry does not apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// The operation is of another kind of shard.
    DoesNotFit,
    /// The seq is not the next one.
    WrongSeq {
        /// The seq that would be right.
        expected: Seq,
        /// The entry's.
        found: Seq,
    },
    /// No such shard, not yet or not any more.
    UnknownShard,
    /// The operation does not apply to the state.
    Op(OpError),
}

impl From<OpError> for ApplyError {
    fn from(error: OpError) -> Self {
        Self::Op(error)
    }
}

impl core::fmt::Display for ApplyError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::DoesNotFit => f.write_str("the operation is of another kind of shard"),
            Self::WrongSeq { expected, found } => {
                write!(f, "entry {found} came where entry {expected} must follow")
            }
            Self::UnknownShard => f.write_str("no such shard"),
            Self::Op(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ApplyError {}

impl State {
    /// Applies the next entry of a shard and says what it did to a text.
    ///
    /// # Errors
    /// The entry is refused; nothing was changed.
    pub fn apply(&mut self, shard: Shard, entry: &Entry) -> Result<Effect, ApplyError> {
        if !entry.op.fits(shard) {
            return Err(ApplyError::DoesNotFit);
        }
        if let (Op::Buffer(op), Shard::Buffer(id)) = (&entry.op, shard) {
            return self.apply_buffer(id, op, entry);
        }
        self.apply_other(shard, entry)
    }

    /// Applies an entry of a shard that is no buffer: out of the way of typing.
    #[inline(never)]
    fn apply_other(&mut self, shard: Shard, entry: &Entry) -> Result<Effect, ApplyError> {
        let applied = *self.applied.get(&shard).ok_or(ApplyError::UnknownShard)?;
        check_next(applied, entry.seq)?;
        let effect = match (&entry.op, shard) {
            (Op::Meta(op), _) => self.apply_meta(op)?,
            (Op::Layout(op), _) => self.apply_layout(op)?,
            (Op::Window(op), Shard::Window(id)) => self.apply_window(id, op)?,
            (Op::Term(op), Shard::Term(id)) => self.apply_term(id, op)?,
            _ => return Err(ApplyError::DoesNotFit),
        };
        if let Some(applied) = self.applied.get_mut(&shard) {
            *applied = entry.seq;
        }
        Ok(effect)
    }

    /// Typing comes here at each key: both maps are gone down once.
    fn apply_buffer(
        &mut self,
        id: BufferId,
        op: &BufferOp,
        entry: &Entry,
    ) -> Result<Effect, ApplyError> {
        let applied = self.applied.get_mut(&Shard::Buffer(id));
        let applied = applied.ok_or(ApplyError::UnknownShard)?;
        check_next(*applied, entry.seq)?;
        let effect = if let Some(buffer) = self.buffers.get_mut(&id) {
            Arc::make_mut(buffer).apply(op, entry.origin, &self.meta.limits)?
        } else {
            let BufferOp::Create { kind, name } = op else {
                return Err(OpError::Create.into());
            };
            let buffer = Buffer::new(*kind, name.clone());
            self.buffers.insert_mut(id, Arc::new(buffer));
            Effect::None
        };
        *applied = entry.seq;
        Ok(effect)
    }

    fn apply_window(&mut self, id: WindowId, op: &WindowOp) -> Result<Effect, OpError> {
        match (self.windows.get_mut(&id), op) {
            (Some(window), WindowOp::Create { .. } | WindowOp::Setting { .. }) => {
                Arc::make_mut(window).apply(op)?;
            }
            (Some(_), WindowOp::Body(_)) => {
                self.note_window(id, false);
                let window = self.windows.get_mut(&id);
                let applied = window.map_or(Ok(()), |window| Arc::make_mut(window).apply(op));
                self.note_window(id, true);
                applied?;
            }
            (None, WindowOp::Create { tag, body }) => {
                self.windows
                    .insert_mut(id, Arc::new(Window::new(*tag, *body)));
                self.note_window(id, true);
            }
            (None, WindowOp::Body(_) | WindowOp::Setting { .. }) => return Err(OpError::Create),
        }
        Ok(Effect::None)
    }

    fn apply_layout(&mut self, op: &LayoutOp) -> Result<Effect, OpError> {
        match (&mut self.layout, op) {
            (Some(layout), _) => Arc::make_mut(layout).apply(op)?,
            (layout @ None, LayoutOp::Create { top }) => {
                *layout = Some(Arc::new(Layout::new(*top)));
            }
            (None, _) => return Err(OpError::Create),
        }
        Ok(Effect::None)
    }

    fn apply_term(&mut self, id: TermId, op: &TermOp) -> Result<Effect, OpError> {
        if let Some(term) = self.terms.get_mut(&id) {
            Arc::make_mut(term).apply(op, &self.meta.limits)?;
        } else {
            let TermOp::Create {
                columns,
                rows,
                command,
            } = op
            else {
                return Err(OpError::Create);
            };
            let term = Term::new(*columns, *rows, command.clone())?;
            self.terms.insert_mut(id, Arc::new(term));
        }
        Ok(Effect::None)
    }

    fn apply_meta(&mut self, op: &MetaOp) -> Result<Effect, OpError> {
        Arc::make_mut(&mut self.meta).apply(op)?;
        match op {
            MetaOp::ShardNew(shard) => self.assume_shard(*shard),
            MetaOp::ShardDel(shard) => self.drop_shard(*shard),
            _ => {}
        }
        Ok(Effect::None)
    }
}

fn check_next(applied: Seq, found: Seq) -> Result<(), ApplyError> {
    let expected = applied.next();
    if found == expected {
        return Ok(());
    }
    Err(ApplyError::WrongSeq { expected, found })
}
