//! Undo in one buffer: limits, large edits, contents, and what is known of groups that are gone.

use alloc::string::ToString;
use alloc::vec;

use super::*;
use crate::buffer::Buffer;
use crate::entry::{BufferKind, BufferOp};
use crate::text::Span;

/// A file's buffer under a limit of undo bytes.
struct Desk {
    buffer: Buffer,
    limits: ApplyLimits,
}

impl Desk {
    fn new(undo_len: u64) -> Self {
        let limits = ApplyLimits {
            undo_len,
            ..ApplyLimits::default()
        };
        let buffer = Buffer::new(BufferKind::File, String::from("/tmp/x"));
        Self { buffer, limits }
    }

    fn apply(&mut self, op: &BufferOp) {
        self.buffer.apply(op, None, &self.limits).unwrap();
    }

    fn edit(&mut self, group: Option<u64>, splices: Vec<Splice>) {
        let group = group.map(GroupId::new);
        let dot = None;
        self.apply(&BufferOp::Edit {
            splices: splices.into(),
            group,
            dot,
        });
    }

    /// Replaces the whole text: the step holds the text before.
    fn set(&mut self, group: u64, text: &str) {
        let all = Span::new(0, self.buffer.text().len());
        self.edit(Some(group), vec![Splice::new(all, text)]);
    }

    fn append(&mut self, group: Option<u64>, text: &str) {
        let end = Span::at(self.buffer.text().len());
        self.edit(group, vec![Splice::new(end, text)]);
    }

    fn undo(&mut self) -> bool {
        let Some(group) = self.buffer.undo_group() else {
            return false;
        };
        self.apply(&BufferOp::Undo { group, view: None });
        true
    }

    fn redo(&mut self) -> bool {
        let Some(group) = self.buffer.redo_group() else {
            return false;
        };
        self.apply(&BufferOp::Redo { group, view: None });
        true
    }

    fn text(&self) -> String {
        self.buffer.text().to_string()
    }

    /// As a snapshot has it.
    fn bytes(&self) -> Vec<u8> {
        postcard::to_allocvec(&self.buffer).unwrap()
    }
}

#[test]
fn the_oldest_groups_go_whole_when_the_limit_is_passed_and_not_before() {
    // Each group but the first takes out ten bytes: 74 with what a step costs; the first 64.
    let groups = 10;
    let full = STEP_LEN + (groups - 1) * (STEP_LEN + 10);
    for (limit, kept) in [(full + 1, 10), (full, 10), (full - 1, 7)] {
        let mut desk = Desk::new(limit);
        for group in 1..=groups {
            desk.set(group, &alloc::format!("{group:010}"));
        }
        let mut undone = 0;
        while desk.undo() {
            undone += 1;
        }
        assert_eq!(undone, kept, "limit {limit}");
        let left = match groups - undone {
            0 => String::new(),
            group => alloc::format!("{group:010}"),
        };
        assert_eq!(desk.text(), left, "a group is taken back whole");
        while desk.redo() {
            undone -= 1;
        }
        assert_eq!((undone, desk.text()), (0, alloc::format!("{groups:010}")));
    }
}

#[test]
fn a_group_larger_than_the_limit_can_be_undone_as_long_as_it_is_the_newest() {
    let mut desk = Desk::new(1000);
    desk.set(1, "small");
    let large = "x".repeat(5000);
    desk.set(2, &large);
    desk.set(3, "");
    assert!(desk.undo());
    assert_eq!(desk.text(), large);
    assert!(!desk.undo(), "the older ones have gone");
    assert!(desk.redo());
    desk.set(4, "y");
    assert!(desk.undo());
    assert!(
        !desk.undo(),
        "it went as a whole when it was not the newest any more"
    );
    assert_eq!(desk.text(), "");
}

#[test]
fn a_snapshot_goes_on_as_the_history_it_was_made_of() {
    let mut live = Desk::new(2000);
    for (group, len) in (1..60).zip([30, 60, 0, 210, 90].into_iter().cycle()) {
        live.set(group, &"t".repeat(len));
        if group % 5 == 0 {
            assert!(live.undo());
        }
        if group % 10 == 0 {
            assert!(live.redo());
        }
        let buffer = postcard::from_bytes(&live.bytes()).unwrap();
        let mut restarted = Desk {
            buffer,
            ..Desk::new(2000)
        };
        assert_eq!(restarted.bytes(), live.bytes());
        restarted.set(100, "next");
        restarted.undo();
        restarted.undo();
        let mut same = Desk {
            buffer: live.buffer.clone(),
            ..Desk::new(2000)
        };
        same.set(100, "next");
        same.undo();
        same.undo();
        assert_eq!(restarted.bytes(), same.bytes());
        assert_eq!(restarted.text(), same.text());
    }
}

#[test]
fn undo_redo_undo_of_a_huge_edit_is_exact() {
    let count = 100_000;
    let mut desk = Desk::new(64 << 20);
    let line = "<data inType=\"w\" name=\"x\" />\n";
    desk.append(None, &line.repeat(count));
    let original = desk.text();
    let content = desk.buffer.content();
    // `,x/^[^"]*"/d`, as edwood#467 has it.
    let step = line.len() as u64;
    let found = |i: u64| Splice::new(Span::new(i * step, i * step + 14), "");
    desk.edit(Some(1), (0..count as u64).map(found).collect());
    let edited = desk.text();
    let after = desk.buffer.content();
    assert_eq!(edited, line[14..].repeat(count));
    for _ in 0..2 {
        assert!(desk.undo());
        assert_eq!(
            (desk.text(), desk.buffer.content()),
            (original.clone(), content)
        );
        assert!(desk.redo());
        assert_eq!(
            (desk.text(), desk.buffer.content()),
            (edited.clone(), after)
        );
    }
}

#[test]
fn output_behind_the_text_leaves_older_steps_and_makes_a_new_content() {
    let mut desk = Desk::new(10_000);
    desk.append(Some(1), "typed");
    let typed = desk.buffer.content();
    desk.append(None, " output");
    assert!(desk.undo());
    assert_eq!(desk.text(), " output");
    assert_ne!(
        desk.buffer.content(),
        Version::default(),
        "not the empty text"
    );
    assert!(desk.redo());
    assert_eq!(desk.text(), "typed output");
    assert_ne!(desk.buffer.content(), typed, "not what was typed alone");
    desk.edit(None, vec![Splice::new(Span::at(0), "#")]);
    assert!(!desk.undo(), "what moved older steps ends them");
}

#[test]
fn a_history_knows_of_groups_that_are_gone_that_they_are() {
    let mut desk = Desk::new(2000);
    let standing = |desk: &Desk, group| {
        let group = GroupId::new(group);
        (
            desk.buffer.undo_standing(group),
            desk.buffer.redo_standing(group),
        )
    };
    desk.append(Some(1), "a");
    desk.append(Some(2), "b");
    assert_eq!(standing(&desk, 1), (Standing::Changed, Standing::Apart));
    assert_eq!(standing(&desk, 2), (Standing::Next, Standing::Apart));
    assert_eq!(standing(&desk, 9), (Standing::Apart, Standing::Apart));
    desk.undo();
    desk.undo();
    assert_eq!(standing(&desk, 1), (Standing::Apart, Standing::Next));
    assert_eq!(standing(&desk, 2), (Standing::Apart, Standing::Changed));
    desk.append(Some(3), "c");
    assert_eq!(standing(&desk, 1), (Standing::Apart, Standing::Changed));
    assert_eq!(standing(&desk, 2), (Standing::Apart, Standing::Changed));
    desk.set(4, &"x".repeat(1990));
    desk.set(5, "z");
    assert_eq!(standing(&desk, 3), (Standing::Forgotten, Standing::Apart));
    desk.edit(None, vec![Splice::new(Span::at(0), "#")]);
    assert_eq!(standing(&desk, 5), (Standing::Forgotten, Standing::Apart));
}

#[test]
fn ids_of_lost_groups_are_bounded_and_the_newest_stay() {
    let mut desk = Desk::new(2000);
    for group in 1..=100 {
        desk.append(Some(group), "a");
        desk.undo();
    }
    desk.append(Some(101), "b");
    let known = |group| desk.buffer.redo_standing(GroupId::new(group)) == Standing::Changed;
    let known: Vec<u64> = (1..=101).filter(|group| known(*group)).collect();
    assert_eq!(known.len(), LOST_COUNT_MIN);
    assert_eq!(known.last(), Some(&100));
}
