//! Every edit of a small text, against slow and obvious models.

use alloc::string::ToString;
use alloc::vec;

use super::*;

mod small_world;

fn applied(text: &str, splices: &[Splice]) -> String {
    let mut text = Text::from(text);
    check(splices, text.len()).unwrap();
    apply(&mut text, splices);
    text.to_string()
}

/// Every splice of a text of `len` code points that brings at most one letter of `letters`.
fn splices(len: u64, letters: &[&str]) -> Vec<Splice> {
    let mut all = Vec::new();
    for q0 in 0..=len {
        for q1 in q0..=len {
            for letter in letters {
                all.push(Splice::new(Span::new(q0, q1), *letter));
            }
        }
    }
    all
}

#[test]
fn splices_are_written_and_read_as_a_list_of_them() {
    let splice = |q, text: &str| Splice::new(Span::at(q), text);
    let few = [
        splice(1, "a"),
        splice(2, "é"),
        splice(300, &"long ".repeat(9)),
    ];
    for count in 0..=few.len() {
        let list = few[..count].to_vec();
        let splices = Splices::from(list.clone());
        assert_eq!(splices.as_slice(), list);
        assert!(count != 1 || splices == Splices::from(list[0].clone()));
        let bytes = postcard::to_allocvec(&list).unwrap();
        assert_eq!(postcard::to_allocvec(&splices).unwrap(), bytes);
        assert_eq!(postcard::from_bytes::<Splices>(&bytes), Ok(splices));
        for cut in 0..bytes.len() {
            assert!(
                postcard::from_bytes::<Splices>(&bytes[..cut]).is_err(),
                "{cut}"
            );
        }
    }
}

/// Every edit of one or two splices.
fn edits(len: u64, letters: &[&str]) -> Vec<Vec<Splice>> {
    let single = splices(len, letters);
    let mut all: Vec<Vec<Splice>> = single.iter().map(|splice| vec![splice.clone()]).collect();
    for first in &single {
        for second in single.iter().filter(|second| second.at.q0 >= first.at.q1) {
            all.push(vec![first.clone(), second.clone()]);
        }
    }
    all
}

#[test]
fn an_edit_and_its_inverse_give_the_text_back() {
    for edit in edits(4, &["", "x", "é漢"]) {
        let mut text = Text::from("abcd");
        let inverse = apply(&mut text, &edit);
        check(&inverse, text.len()).unwrap();
        apply(&mut text, &inverse);
        assert_eq!(text.to_string(), "abcd", "{edit:?}");
    }
}

#[test]
fn two_edits_composed_do_what_they_do_one_after_the_other() {
    for first in edits(3, &["", "x", "yz"]) {
        let middle = applied("abc", &first);
        for second in edits(middle.chars().count() as u64, &["", "Q"]) {
            let want = applied(&middle, &second);
            let both = compose(&first, &second);
            assert_eq!(
                applied("abc", &both),
                want,
                "{first:?} then {second:?} gave {both:?}"
            );
        }
    }
}

/// acme's rules, one deletion and one insertion at a time, from the first splice to the last.
fn map_slowly(edit: &[Splice], mut q: u64) -> u64 {
    let mut behind = 0;
    for splice in edit {
        let q0 = splice.at.q0.wrapping_add(behind);
        let removed = splice.at.len();
        if q0 < q {
            q -= removed.min(q - q0);
        }
        if q0 < q {
            q += splice.count();
        }
        behind = behind.wrapping_add(splice.count()).wrapping_sub(removed);
    }
    q
}

#[test]
fn positions_move_by_acmes_rules() {
    for edit in edits(4, &["", "x", "yz"]) {
        for q in 0..=4 {
            assert_eq!(
                map(&edit, q, Bias::Left),
                map_slowly(&edit, q),
                "{edit:?} at {q}"
            );
        }
    }
}

#[test]
fn a_position_with_right_bias_stays_behind_an_insertion() {
    let insert = [Splice::new(Span::at(2), "xy")];
    assert_eq!(map(&insert, 2, Bias::Right), 4);
    assert_eq!(map(&insert, 2, Bias::Left), 2);
    let replace = [Splice::new(Span::new(1, 3), "x")];
    assert_eq!(map(&replace, 3, Bias::Right), 2);
    assert_eq!(map(&replace, 2, Bias::Right), 2);
    // The insertion stands right where the deletion leaves the position.
    let apart = [
        Splice::new(Span::new(0, 1), ""),
        Splice::new(Span::at(1), "x"),
    ];
    assert_eq!(map(&apart, 0, Bias::Right), 1);
    assert_eq!(map(&apart, 0, Bias::Left), 0);
}

#[test]
fn a_carried_edit_keeps_both_edits_or_is_a_conflict() {
    for later in splices(3, &["", "x"]) {
        for edit in splices(3, &["", "Q"]) {
            let (l, e) = (later.at, edit.at);
            let is_shared = l.q0.max(e.q0) < l.q1.min(e.q1);
            let is_inside = |a: Span, b: Span| a.is_empty() && b.q0 < a.q0 && a.q0 < b.q1;
            let conflict = is_shared || is_inside(l, e) || is_inside(e, l);
            let carried = carry(vec![edit.clone()], core::slice::from_ref(&later));
            assert_eq!(carried.is_err(), conflict, "{edit:?} over {later:?}");
            let Ok(carried) = carried else { continue };
            let after = applied(&applied("abc", core::slice::from_ref(&later)), &carried);
            let letters = |text: &str| text.chars().filter(|c| "xQ".contains(*c)).count();
            assert_eq!(letters(&after), letters(&later.text) + letters(&edit.text));
            for (i, c) in "abc".chars().enumerate() {
                let span = Span::new(i as u64, i as u64 + 1);
                let cut = |at: Span| at.q0 <= span.q0 && span.q1 <= at.q1;
                assert_eq!(
                    after.contains(c),
                    !cut(l) && !cut(e),
                    "{edit:?} over {later:?}"
                );
            }
        }
    }
}

#[test]
fn two_inserts_at_one_point_keep_log_order() {
    let later = [Splice::new(Span::at(1), "first")];
    let edit = [Splice::new(Span::at(1), "second")];
    let carried = carry(edit.to_vec(), &later).unwrap();
    assert_eq!(applied(&applied("ab", &later), &carried), "afirstsecondb");
}

#[test]
fn bad_lists_are_refused() {
    let bad = |list: &[(u64, u64)]| {
        let splices: Vec<_> = list
            .iter()
            .map(|(q0, q1)| Splice::new(Span::new(*q0, *q1), "x"))
            .collect();
        check(&splices, 3)
    };
    assert!(matches!(bad(&[(2, 1)]), Err(EditError::OutOfRange { .. })));
    assert!(matches!(bad(&[(0, 4)]), Err(EditError::OutOfRange { .. })));
    assert!(matches!(
        bad(&[(u64::MAX, u64::MAX)]),
        Err(EditError::OutOfRange { .. })
    ));
    assert!(matches!(
        bad(&[(1, 2), (0, 1)]),
        Err(EditError::OutOfOrder { .. })
    ));
    assert_eq!(bad(&[(1, 1), (1, 2), (2, 2)]), Ok(()));
}

#[test]
fn the_difference_is_small_and_right() {
    let cases = [
        ("abc", "abc"),
        ("abc", "abXc"),
        ("aaa", "aa"),
        ("", "x"),
        ("é漢b", "éb"),
        ("ab", ""),
    ];
    for (old, new) in cases {
        let (old_text, new_text) = (Text::from(old), Text::from(new));
        let splices: Vec<_> = difference(&old_text, &new_text).into_iter().collect();
        assert_eq!(applied(old, &splices), new);
        assert_eq!(splices.is_empty(), old == new);
    }
}

#[test]
fn a_position_goes_back_over_an_edit_and_comes_again_behind_what_it_brought() {
    for edit in edits(3, &["", "x", "yz"]) {
        let len = applied("abc", &edit).chars().count() as u64;
        for q in 0..=len {
            let old = map_back(&edit, q);
            assert!(old <= 3, "{edit:?} {q}");
            let again = map(&edit, old, Bias::Right);
            let mut shift = 0;
            let is_brought = |splice: &Splice| {
                let start = splice.at.q0.wrapping_add(shift);
                shift = shift
                    .wrapping_add(splice.count())
                    .wrapping_sub(splice.at.len());
                (start..start + splice.count()).contains(&q)
            };
            assert!(again >= q, "{edit:?} {q}");
            assert!(again == q || edit.iter().any(is_brought), "{edit:?} {q}");
        }
    }
}

#[test]
fn an_edit_too_large_for_one_entry_goes_in_steps_that_make_the_same_text() {
    let before = Text::from("head old é middle x tail");
    let long = "é\n".repeat(limits::STEP_LEN_MAX / 2);
    let many: Vec<_> = (0..=limits::SPLICE_COUNT_MAX as u64)
        .map(|q| Splice::new(Span::new(2 * q, 2 * q + 1), "ab"))
        .collect();
    let wide = Text::from("x-".repeat(limits::SPLICE_COUNT_MAX + 9).as_str());
    for (text, splices, is_one) in [
        (&before, vec![Splice::new(Span::new(5, 8), "new")], true),
        (&before, Vec::new(), true),
        (
            &before,
            vec![
                Splice::new(Span::at(2), "in"),
                Splice::new(Span::new(5, 8), long.as_str()),
                Splice::new(Span::new(9, 10), "e"),
                Splice::new(Span::new(18, 19), long.as_str()),
            ],
            false,
        ),
        (&wide, many, false),
    ] {
        let (mut whole, mut stepped) = (text.clone(), text.clone());
        if splices.len() <= limits::SPLICE_COUNT_MAX {
            check(&splices, text.len()).unwrap();
        }
        apply(&mut whole, &splices);
        let steps = steps(splices);
        assert_eq!(steps.len() == 1, is_one);
        for step in steps {
            check(&step, stepped.len()).unwrap();
            let len = |splice: &Splice| splice.text.len();
            assert!(step.iter().map(len).sum::<usize>() <= limits::STEP_LEN_MAX);
            assert!(
                step.iter()
                    .all(|splice| len(splice) <= limits::PIECE_LEN_MAX)
            );
            apply(&mut stepped, &step);
        }
        assert!(whole == stepped);
    }
}
