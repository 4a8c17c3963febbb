//! The metalog's part of the state: shards and their leases, parties, rules, settings, notices.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use rpds::RedBlackTreeMapSync;
use serde::{Deserialize, Serialize};

use crate::buffer::{OpError, set};
use crate::canary::{self, Canary};
use crate::entry::{ApplyLimits, AttachmentKind, Exec, MetaOp};
use crate::ids::{
    AttachmentId, Epoch, ExecId, NoticeId, ProcessId, RuleId, SERVER, Seq, SessionId, Shard,
    WindowId,
};
use crate::limits;

/// Who leads a shard, and what is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Who may append.
    pub holder: AttachmentId,
    /// Under which fence.
    pub epoch: Epoch,
    /// Who asked for it.
    pub pending: Option<AttachmentId>,
    /// The holder's last entry, once it gave the shard back.
    pub released: Option<Seq>,
}

impl Default for Lease {
    fn default() -> Self {
        Self {
            holder: SERVER,
            epoch: Epoch::default(),
            pending: None,
            released: None,
        }
    }
}

/// A party in the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// What it is.
    pub kind: AttachmentKind,
    /// Its name.
    pub name: String,
}

/// A plumb rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Whose.
    pub owner: AttachmentId,
    /// The window it is for, or all.
    pub window: Option<WindowId>,
    /// What it matches.
    pub pattern: String,
    /// The port that matches go to.
    pub port: String,
}

/// Something the user was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Whose.
    pub owner: AttachmentId,
    /// 0 debug, 1 information, 2 warning, 3 error.
    pub level: u8,
    /// What.
    pub text: String,
}

/// A process that the daemon runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Who asked.
    pub owner: AttachmentId,
    /// Its command line.
    pub command: String,
}

/// What a tool asked for, and what the user said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// sha256 of the component.
    pub sha256: [u8; 32],
    /// What it asks for, one line each.
    pub wants: Vec<String>,
    /// What the user said, if anything yet.
    pub is_granted: Option<bool>,
}

/// The metalog's part of the state.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Meta {
    /// The session's identity; none before its second entry.
    pub session: Option<SessionId>,
    /// Format of the log.
    pub format: u32,
    /// What `apply` obeys.
    pub limits: ApplyLimits,
    /// The session's label.
    pub label: String,
    /// The parties.
    pub attachments: BTreeMap<AttachmentId, Attachment>,
    /// Plumb rules, in the order in which they were added.
    pub rules: BTreeMap<RuleId, Rule>,
    /// Settings.
    pub settings: BTreeMap<String, String>,
    /// Notices, oldest first, bounded.
    pub notices: BTreeMap<NoticeId, Notice>,
    /// Running processes.
    pub processes: BTreeMap<ProcessId, Process>,
    /// The newest executions, oldest first, bounded.
    pub execs: VecDeque<Exec>,
    /// Who claimed an execution, and for how many milliseconds.
    pub claims: BTreeMap<ExecId, (AttachmentId, u32)>,
    /// Per tool id, what it asked for.
    pub grants: BTreeMap<String, Grant>,
    /// Highest attachment id ever issued.
    last_attachment: AttachmentId,
    leases: RedBlackTreeMapSync<Shard, Lease>,
}

impl Default for ApplyLimits {
    fn default() -> Self {
        Self {
            undo_len: limits::UNDO_LEN_DEFAULT,
            annotation_count: limits::ANNOTATION_COUNT_MAX as u64,
            scrollback_count: limits::SCROLLBACK_COUNT_DEFAULT,
        }
    }
}

impl Meta {
    /// Returns who leads a shard; none for a shard that the metalog does not know.
    #[must_use]
    pub fn lease(&self, shard: Shard) -> Option<Lease> {
        self.leases.get(&shard).copied()
    }

    /// Returns the shards with their leases, in order; the metalog itself is not among them.
    pub fn leases(&self) -> impl Iterator<Item = (Shard, Lease)> + '_ {
        self.leases.iter().map(|(shard, lease)| (*shard, *lease))
    }

    /// Returns the id of the next attachment.
    #[must_use]
    pub const fn next_attachment(&self) -> AttachmentId {
        self.last_attachment.next()
    }

    /// Applies an operation. The state takes care of shards that begin and end.
    ///
    /// # Errors
    /// The operation does not fit; nothing was changed.
    pub fn apply(&mut self, op: &MetaOp) -> Result<(), OpError> {
        match op {
            MetaOp::Genesis { format, limits } => {
                if self.session.is_some() {
                    return Err(OpError::Create);
                }
                (self.format, self.limits) = (*format, *limits);
            }
            MetaOp::Identity(session) => match self.session {
                Some(_) => return Err(OpError::Exists("the identity")),
                None => self.session = Some(*session),
            },
            MetaOp::Label(label) => self.label.clone_from(label),
            MetaOp::ShardNew(shard) => self.add_shard(*shard)?,
            MetaOp::ShardDel(shard) => self.del_shard(*shard)?,
            MetaOp::Attach { id, kind, name } => self.attach(*id, *kind, name)?,
            MetaOp::Detach(id) => self.detach(*id)?,
            MetaOp::LeaseGrant { .. }
            | MetaOp::LeaseRequest { .. }
            | MetaOp::LeaseRelease { .. }
            | MetaOp::LeaseReclaim { .. }
            | MetaOp::LeaseRefuse { .. } => self.apply_lease(op)?,
            MetaOp::Claim { exec, by, ms } => {
                if !self.execs.iter().any(|known| known.id == *exec) {
                    return Err(OpError::Missing("the execution"));
                }
                self.claims.insert(*exec, (*by, *ms));
            }
            _ => self.apply_desk(op),
        }
        Ok(())
    }

    /// Rules, settings and notices: they always apply.
    fn apply_desk(&mut self, op: &MetaOp) {
        match op {
            MetaOp::RuleAdd {
                rule,
                owner,
                window,
                pattern,
                port,
            } => {
                let (pattern, port) = (pattern.clone(), port.clone());
                self.rules.insert(
                    *rule,
                    Rule {
                        owner: *owner,
                        window: *window,
                        pattern,
                        port,
                    },
                );
            }
            MetaOp::RuleDel(rule) => {
                self.rules.remove(rule);
            }
            MetaOp::Setting { key, value } => set(&mut self.settings, key, value.as_ref()),
            MetaOp::Notify {
                notice,
                owner,
                level,
                text,
            } => {
                let new = Notice {
                    owner: *owner,
                    level: *level,
                    text: text.clone(),
                };
                self.notices.insert(*notice, new);
                if self.notices.len() > limits::NOTICE_COUNT_MAX {
                    self.notices.pop_first();
                }
            }
            MetaOp::NotifyClear(notice) => {
                self.notices.remove(notice);
            }
            _ => self.apply_work(op),
        }
    }

    /// Processes, executions and grants: they always apply.
    fn apply_work(&mut self, op: &MetaOp) {
        match op {
            MetaOp::ProcStart {
                process,
                owner,
                command,
            } => {
                let new = Process {
                    owner: *owner,
                    command: command.clone(),
                };
                self.processes.insert(*process, new);
            }
            MetaOp::ProcExit { process, .. } => {
                self.processes.remove(process);
            }
            MetaOp::Exec(exec) => {
                self.execs.push_back(Exec::clone(exec));
                if self.execs.len() > limits::EXEC_COUNT_MAX {
                    let gone = self.execs.pop_front();
                    self.claims
                        .retain(|exec, _| gone.as_ref().is_none_or(|old| old.id != *exec));
                }
            }
            MetaOp::GrantAsked {
                tool,
                sha256,
                wants,
            } => {
                let new = Grant {
                    sha256: *sha256,
                    wants: wants.clone(),
                    is_granted: None,
                };
                self.grants.insert(tool.clone(), new);
            }
            MetaOp::GrantDecided {
                tool,
                sha256,
                is_granted,
            } => {
                if let Some(grant) = self.grants.get_mut(tool)
                    && grant.sha256 == *sha256
                {
                    grant.is_granted = Some(*is_granted);
                }
            }
            _ => {}
        }
    }

    fn apply_lease(&mut self, op: &MetaOp) -> Result<(), OpError> {
        let (shard, by) = match op {
            MetaOp::LeaseGrant { shard, to, .. } => (*shard, Some(*to)),
            MetaOp::LeaseRequest { shard, by } | MetaOp::LeaseRefuse { shard, by } => {
                (*shard, Some(*by))
            }
            MetaOp::LeaseRelease { shard, .. } | MetaOp::LeaseReclaim { shard, .. } => {
                (*shard, None)
            }
            _ => return Ok(()),
        };
        if shard.is_pinned() {
            return Err(OpError::Limit("a pinned shard is not leased"));
        }
        if by.is_some_and(|by| by != SERVER && !self.attachments.contains_key(&by)) {
            return Err(OpError::Missing("the attachment"));
        }
        let lease = self
            .leases
            .get_mut(&shard)
            .ok_or(OpError::Missing("the shard"))?;
        match op {
            MetaOp::LeaseGrant { to, epoch, .. } => {
                if *epoch <= lease.epoch && !canary::is_on(Canary::EpochKept) {
                    return Err(OpError::Exists("the epoch"));
                }
                *lease = Lease {
                    holder: *to,
                    epoch: *epoch,
                    pending: None,
                    released: None,
                };
            }
            MetaOp::LeaseReclaim { epoch, .. } => {
                if *epoch <= lease.epoch && !canary::is_on(Canary::EpochKept) {
                    return Err(OpError::Exists("the epoch"));
                }
                let pending = lease.pending;
                *lease = Lease {
                    holder: SERVER,
                    epoch: *epoch,
                    pending,
                    released: None,
                };
            }
            MetaOp::LeaseRequest { by, .. } => lease.pending = Some(*by),
            MetaOp::LeaseRelease { seq, .. } => lease.released = Some(*seq),
            _ => lease.pending = None,
        }
        Ok(())
    }

    fn add_shard(&mut self, shard: Shard) -> Result<(), OpError> {
        if shard == Shard::Meta || self.leases.contains_key(&shard) {
            return Err(OpError::Exists("the shard"));
        }
        self.leases.insert_mut(shard, Lease::default());
        Ok(())
    }

    fn del_shard(&mut self, shard: Shard) -> Result<(), OpError> {
        if self.leases.remove_mut(&shard) {
            Ok(())
        } else {
            Err(OpError::Missing("the shard"))
        }
    }

    fn attach(
        &mut self,
        id: AttachmentId,
        kind: AttachmentKind,
        name: &str,
    ) -> Result<(), OpError> {
        if id <= self.last_attachment {
            return Err(OpError::Exists("the attachment"));
        }
        self.last_attachment = id;
        self.attachments.insert(
            id,
            Attachment {
                kind,
                name: name.into(),
            },
        );
        Ok(())
    }

    fn detach(&mut self, id: AttachmentId) -> Result<(), OpError> {
        self.attachments
            .remove(&id)
            .ok_or(OpError::Missing("the attachment"))?;
        self.rules.retain(|_, rule| rule.owner != id);
        self.notices.retain(|_, notice| notice.owner != id);
        self.claims.retain(|_, (by, _)| *by != id);
        Ok(())
    }
}
