//! Which shards a tool follows right now, and its batches as it is told them.

use std::collections::BTreeMap;
use std::sync::Arc;

use apex_core::ids::Shard;
use apex_core::state::State;

use super::bindings::{Entry, wit::types::Event};
use super::events::Told;
use super::follow::{Patterns, followed_name};
use super::grants::Rights;
use super::manifest::Cap;

/// The shards that a tool follows.
#[derive(Debug)]
pub(super) struct Membership {
    patterns: Patterns,
    rights: Rights,
    /// With their names as tools read them.
    shards: BTreeMap<Shard, Arc<str>>,
}

impl Membership {
    /// Returns what these patterns and rights lead to in a state.
    pub(super) fn new(patterns: Patterns, rights: Rights, state: &State) -> Self {
        let mut membership = Self {
            patterns,
            rights,
            shards: BTreeMap::new(),
        };
        membership.renew(state);
        membership
    }

    /// Begins anew from a state.
    pub(super) fn renew(&mut self, state: &State) {
        let shards = self.patterns.shards_of(state).into_iter();
        let is_granted = |shard: &Shard| {
            followed_name(state, *shard).is_some_and(|name| self.is_granted(*shard, &name))
        };
        let named = |shard: Shard| (shard, shard.to_string().into());
        self.shards = shards.filter(is_granted).map(named).collect();
    }

    /// Follows other patterns; returns the shards that came in.
    pub(super) fn change(&mut self, patterns: Patterns, state: &State) -> Vec<Shard> {
        self.patterns = patterns;
        let before = std::mem::take(&mut self.shards);
        self.renew(state);
        let came = self.shards().filter(|shard| !before.contains_key(shard));
        came.collect()
    }

    /// Returns the shards.
    pub(super) fn shards(&self) -> impl Iterator<Item = Shard> + '_ {
        self.shards.keys().copied()
    }

    /// Adds to a batch what an entry says to this tool.
    pub(super) fn tell(&mut self, told: &Told, batch: &mut Vec<Arc<Entry>>) {
        let shard = told.shard();
        let followed = self.shards.get(&shard).cloned();
        if let Some(name) = told.name() {
            let is_followed = self.patterns.matches(shard, name) && self.is_granted(shard, name);
            if is_followed && followed.is_none() {
                self.shards.insert(shard, shard.to_string().into());
                batch.push(Arc::new(told.reset()));
                return;
            }
            if !is_followed {
                // It still hears of the new name, by which it knows that it hears no more.
                self.shards.remove(&shard);
            }
        }
        if let Some(name) = followed {
            batch.extend(told.entries(&name));
        }
        if let Some(gone) = told.gone() {
            self.shards.remove(&gone);
        }
    }

    fn is_granted(&self, shard: Shard, name: &str) -> bool {
        let subject = match shard {
            Shard::Meta | Shard::Layout | Shard::Window(_) => shard.to_string(),
            Shard::Buffer(_) => format!("buffer:{name}"),
            Shard::Term(_) => format!("term:{name}"),
        };
        self.rights.check(Cap::Follow, &subject).is_ok()
    }
}

/// Returns the entry that tells a tool to read these shards anew; none for no shards.
pub(super) fn reset(shards: impl Iterator<Item = Shard>, state: &State) -> Option<Entry> {
    let shards: Vec<Shard> = shards.collect();
    let first = *shards.first()?;
    Some(Entry {
        shard: first.to_string().into(),
        seq: state.applied(first).map_or(0, apex_core::ids::Seq::raw),
        author: 0,
        event: Event::Reset(shards.iter().map(Shard::to_string).collect()),
    })
}

#[cfg(test)]
mod tests {
    use apex_core::entry::BufferOp;
    use apex_core::ids::BufferId;
    use apex_core::text::Span;

    use super::super::manifest::Manifest;
    use super::super::replica::Replica;
    use super::super::testing::Script;
    use super::*;

    struct Session {
        script: Script,
        replica: Replica,
    }

    impl Session {
        fn new() -> Self {
            Self {
                script: Script::new(),
                replica: Replica::new(State::new(), &[]),
            }
        }

        /// Tells a membership what was scripted; returns shard and kind of what it hears.
        fn tell(&mut self, membership: &mut Membership) -> Vec<(String, &'static str)> {
            let mut batch = Vec::new();
            for chunk in self.replica.apply(self.script.take()).unwrap() {
                chunk
                    .told
                    .iter()
                    .for_each(|told| membership.tell(told, &mut batch));
            }
            let kind = |entry: Arc<Entry>| {
                let kind = match entry.event {
                    Event::Reset(_) => "reset",
                    Event::Edited(_) => "edited",
                    Event::Named(_) => "named",
                    _ => "other",
                };
                (entry.shard.to_string(), kind)
            };
            batch.into_iter().map(kind).collect()
        }
    }

    fn follower(pattern: &str, granted: &str, state: &State) -> Membership {
        let manifest = format!(
            "id = \"a.b\"\nversion = \"1\"\nsummary = \"\"\n\
             [[want]]\ncap = \"shard.follow\"\nscope = \"{granted}\"\n"
        );
        let rights = Rights::granted(&Manifest::parse(&manifest).unwrap());
        let patterns = Patterns::parse(&[pattern.to_owned()]).unwrap();
        Membership::new(patterns, rights, state)
    }

    #[test]
    fn a_shard_that_comes_in_is_a_reset_before_anything_else_of_it() {
        let mut session = Session::new();
        let mut membership = follower("buffer:/a/*", "buffer:*", &session.script.state);
        session.script.buffer(7, "/a/x", "text");
        session.script.buffer(8, "/b/x", "text");
        let heard = session.tell(&mut membership);
        assert_eq!(
            heard,
            [
                ("buffer/7".to_owned(), "reset"),
                ("buffer/7".to_owned(), "edited")
            ]
        );
    }

    #[test]
    fn a_renamed_buffer_comes_in_and_leaves() {
        let mut session = Session::new();
        let mut membership = follower("buffer:/a/*", "buffer:*", &session.script.state);
        session.script.buffer(7, "/b/x", "text");
        let name = |name: &str| BufferOp::Name {
            name: name.to_owned(),
            group: None,
        };
        session.script.buffer_op(7, name("/a/x"));
        session.script.edit(7, Span::at(0), "1");
        session.script.buffer_op(7, name("/b/x"));
        session.script.edit(7, Span::at(0), "2");
        let heard: Vec<_> = session
            .tell(&mut membership)
            .into_iter()
            .map(|(_, kind)| kind)
            .collect();
        assert_eq!(heard, ["reset", "edited", "named"]);
        assert_eq!(membership.shards().count(), 0);
    }

    #[test]
    fn nothing_is_told_beyond_the_grant() {
        let mut session = Session::new();
        let mut membership = follower("buffer:*", "buffer:/a/*", &session.script.state);
        session.script.buffer(7, "/a/x", "");
        session.script.buffer(8, "/secret", "");
        assert_eq!(
            session.tell(&mut membership),
            [("buffer/7".to_owned(), "reset")]
        );
        let state = &session.script.state;
        let again = follower("buffer:*", "buffer:/a/*", state);
        assert_eq!(
            again.shards().collect::<Vec<_>>(),
            [Shard::Buffer(BufferId::new(7))]
        );
    }

    #[test]
    fn a_reset_names_all_that_is_followed() {
        let mut script = Script::new();
        script.buffer(7, "/a/x", "");
        script.buffer(8, "/a/y", "");
        let membership = follower("buffer:*", "buffer:*", &script.state);
        let Some(Entry {
            event: Event::Reset(shards),
            ..
        }) = reset(membership.shards(), &script.state)
        else {
            panic!("no reset")
        };
        assert_eq!(shards, ["buffer/7", "buffer/8"]);
        assert!(reset(std::iter::empty(), &script.state).is_none());
    }
}
