//! Views and layers of one text: what an edit does to each, by acme's own rules.

use alloc::string::ToString;

use super::*;
use crate::ids::WindowId;

const ONE: ViewId = ViewId::Body(WindowId::new(1));
const TWO: ViewId = ViewId::Body(WindowId::new(2));

fn apply(buffer: &mut Buffer, op: &BufferOp) {
    buffer.apply(op, None, &ApplyLimits::default()).unwrap();
}

/// A buffer of a text that two views show.
fn shown_twice(text: &str) -> Buffer {
    let mut buffer = Buffer::new(BufferKind::File, "/a".into());
    apply(&mut buffer, &BufferOp::Load { text: text.into() });
    apply(&mut buffer, &BufferOp::ViewAdd(ONE));
    apply(&mut buffer, &BufferOp::ViewAdd(TWO));
    buffer
}

fn place(buffer: &mut Buffer, view: ViewId, place: View) {
    let dot = Dot {
        view,
        at: place.dot,
    };
    apply(buffer, &BufferOp::Select(dot));
    let at = place.origin;
    apply(buffer, &BufferOp::Origin { view, at });
}

fn edit(splice: Splice, dot: Option<Dot>) -> BufferOp {
    BufferOp::Edit {
        splices: splice.into(),
        group: Some(GroupId::new(1)),
        dot,
    }
}

/// acme's `textdelete` and then `textinsert`, as they treat a text that did not ask for it.
fn by_acme(view: View, splice: &Splice) -> View {
    let (q0, q1, n) = (splice.at.q0, splice.at.q1, splice.count());
    let deleted = |q: u64| if q0 < q { q - (q1 - q0).min(q - q0) } else { q };
    let inserted = |q: u64| if q0 < q { q + n } else { q };
    let moved = |q| inserted(deleted(q));
    View {
        dot: Span::new(moved(view.dot.q0), moved(view.dot.q1)),
        origin: moved(view.origin),
    }
}

#[test]
fn each_view_of_a_text_moves_by_acmes_rules_and_not_by_the_other() {
    let text = "ab\ncd\nef";
    let len = 8;
    let spans = || (0..=len).flat_map(|q0| (q0..=len).map(move |q1| Span::new(q0, q1)));
    for at in spans() {
        for (dot, words) in spans().zip(["", "x", "é\n"].into_iter().cycle()) {
            let mut buffer = shown_twice(text);
            let (one, two) = (
                View { dot, origin: 3 },
                View {
                    dot: Span::new(dot.q0, len),
                    origin: dot.q1,
                },
            );
            place(&mut buffer, ONE, one);
            place(&mut buffer, TWO, two);
            let splice = Splice::new(at, words);
            apply(&mut buffer, &edit(splice.clone(), None));
            assert_eq!(buffer.view(ONE), Some(by_acme(one, &splice)), "{splice:?}");
            assert_eq!(buffer.view(TWO), Some(by_acme(two, &splice)), "{splice:?}");
        }
    }
}

#[test]
fn typing_at_the_edges_of_a_selection_moves_what_acme_moves() {
    // A text with one view's selection in brackets and the other's cursor as a bar.
    for (given, at, text, expected) in [
        ("a[bc]d|e", Span::at(1), "X", "a[Xbc]d|e"),
        ("a[bc]d|e", Span::at(3), "X", "a[bc]Xd|e"),
        ("a[bc]d|e", Span::at(2), "X", "a[bXc]d|e"),
        ("a[bc]d|e", Span::at(4), "X", "a[bc]d|Xe"),
        ("a[bc]d|e", Span::new(2, 5), "", "a[b]|"),
        ("a[bc]d|e", Span::new(0, 2), "XY", "[XYc]d|e"),
        ("a[]bc|", Span::at(1), "X", "a[]Xbc|"),
    ] {
        assert_eq!(after(given, &Splice::new(at, text)), expected, "{given}");
    }
}

/// Edits a text with marked views and returns it with the marks where the views are then.
fn after(given: &str, splice: &Splice) -> String {
    let plain: String = given.chars().filter(|c| !"[]|".contains(*c)).collect();
    let find = |mark: char| {
        let before = given.chars().take_while(|c| *c != mark);
        before.filter(|c| !"[]|".contains(*c)).count() as u64
    };
    let mut buffer = shown_twice(&plain);
    let dot = |dot| View { dot, origin: 0 };
    place(&mut buffer, ONE, dot(Span::new(find('['), find(']'))));
    place(&mut buffer, TWO, dot(Span::at(find('|'))));
    apply(&mut buffer, &edit(splice.clone(), None));
    let one = buffer.view(ONE).unwrap().dot;
    let two = buffer.view(TWO).unwrap().dot;
    let mut shown = String::new();
    let text = buffer.text().to_string();
    for (q, c) in (0..).zip(text.chars().map(Some).chain([None])) {
        for (mark, at) in [('[', one.q0), (']', one.q1), ('|', two.q0)] {
            shown.extend((at == q).then_some(mark));
        }
        shown.extend(c);
    }
    shown
}

#[test]
fn the_view_that_typed_is_where_it_says_and_the_other_keeps_its_line() {
    let mut buffer = shown_twice("one\ntwo\nthree\n");
    let two = View {
        dot: Span::new(4, 7),
        origin: 4,
    };
    place(&mut buffer, TWO, two);
    let dot = Dot {
        view: ONE,
        at: Span::at(4),
    };
    apply(
        &mut buffer,
        &edit(Splice::new(Span::at(0), "zero"), Some(dot)),
    );
    assert_eq!(buffer.view(ONE).unwrap().dot, Span::at(4));
    let moved = buffer.view(TWO).unwrap();
    assert_eq!((moved.dot, moved.origin), (Span::new(8, 11), 8));
    assert_eq!(buffer.text().slice(moved.dot), "two");
    // Undo selects what it touched in the view that asked, and moves the other back.
    let undo = BufferOp::Undo {
        group: GroupId::new(1),
        view: Some(ONE),
    };
    apply(&mut buffer, &undo);
    assert_eq!(buffer.view(ONE).unwrap().dot, Span::at(0));
    assert_eq!(buffer.view(TWO), Some(two));
}

#[test]
fn a_layer_keeps_to_the_limit_of_its_session_and_to_the_text() {
    let mut buffer = shown_twice("abc");
    let limits = ApplyLimits {
        annotation_count: 2,
        ..ApplyLimits::default()
    };
    let annotate = |spans: &[Span]| BufferOp::Annotate {
        owner: AttachmentId::new(1),
        layer: "check".into(),
        spans: spans
            .iter()
            .map(|at| Annotation {
                at: *at,
                style: String::new(),
                severity: 1,
                message: String::new(),
            })
            .collect(),
    };
    let mut set = |spans: &[Span]| buffer.apply(&annotate(spans), None, &limits);
    assert!(set(&[Span::at(0), Span::new(1, 3)]).is_ok());
    let limit = OpError::Limit("annotations in one layer");
    assert_eq!(set(&[Span::at(0); 3]), Err(limit));
    assert_eq!(set(&[Span::new(2, 4)]), Err(OpError::OutOfRange));
    assert_eq!(set(&[Span::new(2, 1)]), Err(OpError::OutOfRange));
    let kept = buffer.layers().map(|(_, _, layer)| layer.count());
    assert_eq!(kept.collect::<Vec<_>>(), [2]);
    apply(&mut buffer, &annotate(&[]));
    assert_eq!(buffer.layers().count(), 0);
}

#[test]
fn an_error_window_is_named_after_its_directory() {
    for (directory, name) in [
        ("/a/b/", "/a/b/+Errors"),
        ("/a/b", "/a/b/+Errors"),
        ("/", "/+Errors"),
    ] {
        assert_eq!(errors_name(directory), name);
    }
}
