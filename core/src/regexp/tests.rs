use alloc::format;
use alloc::string::ToString;
use alloc::vec;

use super::parse::{Item, Parsed};
use super::*;

fn find(pattern: &str, text: &str) -> Option<String> {
    let text = Text::from(text);
    let whole = Span::new(0, text.len());
    let found = Regexp::new(pattern).unwrap().find(&text, whole);
    found.map(|span| format!("{},{}", span.q0, span.q1))
}

#[test]
fn the_leftmost_match_wins_and_then_the_longest() {
    for (pattern, text, want) in [
        ("a", "", None),
        ("a|ab|abc", "xabcd", Some("1,4")),
        ("(a|ab)(c|bcd)", "abcd", Some("0,4")),
        ("b+|a.*z", "xbbaz", Some("1,3")),
        ("b*", "aab", Some("0,0")),
        ("[^a]+", "aa\nbc\n", Some("3,5")),
        (".+", "漢🙂\nx", Some("0,2")),
        ("(ab)*c", "ababac", Some("5,6")),
        ("x*(ab)?y", "xxaby", Some("0,5")),
        ("^b", "ab\nb", Some("3,4")),
        ("a$", "a\nba", Some("0,1")),
        ("a$", "ba", None),
        ("^$", "a\n\nb", Some("2,2")),
        ("\\n+", "a\n\nb", Some("1,3")),
        ("[\\]\\-]+", "a]-]b", Some("1,4")),
        ("[z-a]", "az", None),
        ("[]", "a]", None),
        ("a**", "baaa", Some("0,0")),
        ("(a*)*b", "aaab", Some("0,4")),
        ("(a*)+", "aaa", Some("0,3")),
        ("^*ab", "xab", Some("1,3")),
        ("\u{d7ff}", "\u{d7ff}\u{e000}", Some("0,1")),
        ("[\u{d7ff}-\u{e000}]+", "\u{d7ff}\u{e000}", Some("0,2")),
        ("[^x]+$", "x\u{10ffff}\n", Some("1,2")),
    ] {
        assert_eq!(
            find(pattern, text).as_deref(),
            want,
            "{pattern} in {text:?}"
        );
    }
}

#[test]
fn what_is_no_pattern_is_refused_with_its_reason() {
    for (pattern, want) in [
        ("(", RegexpError::NoOperand('(')),
        ("(a", RegexpError::UnmatchedOpen),
        ("a)", RegexpError::UnmatchedClose),
        ("()", RegexpError::NoOperand(')')),
        ("a|", RegexpError::NoOperand('|')),
        ("|a", RegexpError::NoOperand('|')),
        ("*", RegexpError::NoOperand('*')),
        ("[a", RegexpError::BadClass),
        ("[-a]", RegexpError::BadClass),
        ("[a-]", RegexpError::BadClass),
        ("[\\", RegexpError::BadClass),
    ] {
        assert_eq!(Regexp::new(pattern).unwrap_err(), want, "{pattern}");
    }
}

#[test]
fn backwards_the_match_that_ends_last_wins_and_then_the_longest() {
    for (pattern, text, want) in [
        ("a+", "aabaa", Some((3, 5))),
        ("b*", "ab", Some((1, 2))),
        ("a$", "ba", Some((1, 2))),
        ("^", "a\nb", Some((2, 2))),
        ("ab|b", "xab", Some((1, 3))),
        ("x", "ab", None),
    ] {
        let text = Text::from(text);
        let found = Regexp::new(pattern).unwrap().find_back(&text, text.len());
        let want = want.map(|(q0, q1)| Span::new(q0, q1));
        assert_eq!(found, want, "{pattern} in {text}");
    }
}

#[test]
fn groups_are_what_sam_finds_in_them() {
    let check = |pattern: &str, text: &str, want: &[Option<(u64, u64)>]| {
        let text = Text::from(text);
        let mut regexp = Regexp::new(pattern).unwrap();
        let found = regexp.find(&text, Span::new(0, text.len())).unwrap();
        let groups = regexp.submatches(&text, found);
        let want: Vec<_> = want
            .iter()
            .map(|w| w.map(|(q0, q1)| Span::new(q0, q1)))
            .collect();
        assert_eq!(groups[..want.len()], want[..], "{pattern}");
        assert!(groups[want.len()..].iter().all(Option::is_none));
    };
    check("(a+)(b+)", "xaabb", &[Some((1, 3)), Some((3, 5))]);
    check("(x)?(y)", "y", &[None, Some((0, 1))]);
    check("((a)|b)+c", "abc", &[Some((1, 2)), Some((0, 1))]);
    check("(a*)(a*)", "aa", &[Some((0, 2)), Some((2, 2))]);
    let many = "(.)".repeat(12);
    let nine: Vec<_> = (0..9).map(|i| Some((i, i + 1))).collect();
    check(&many, "abcdefghijkl", &nine);
}

/// From which places a pattern leads to which: `relation[from][to]`.
type Relation = Vec<Vec<bool>>;

fn relation(count: usize, holds: impl Fn(usize, usize) -> bool) -> Relation {
    let row = |from| (0..count).map(|to| holds(from, to)).collect();
    (0..count).map(row).collect()
}

fn then(first: &Relation, second: &Relation) -> Relation {
    let count = first.len();
    relation(count, |from, to| {
        (0..count).any(|middle| first[from][middle] && second[middle][to])
    })
}

/// Matches by the meaning of each operator: slow, and obvious enough to be believed.
fn slow_find(pattern: &Parsed, text: &[char]) -> Option<(usize, usize)> {
    let count = text.len() + 1;
    let mut stack: Vec<Relation> = Vec::new();
    for item in &pattern.items {
        let top = stack.pop();
        let next = match (item, top) {
            (Item::Group(_), Some(top)) => top,
            (Item::Cat, Some(top)) => then(&stack.pop().unwrap(), &top),
            (Item::Or, Some(top)) => {
                let first = stack.pop().unwrap();
                relation(count, |from, to| first[from][to] || top[from][to])
            }
            (Item::Quest, Some(top)) => relation(count, |from, to| from == to || top[from][to]),
            (Item::Star | Item::Plus, Some(top)) => {
                let mut many = relation(count, |from, to| from == to);
                for _ in 0..count {
                    let longer = then(&many, &top);
                    many = relation(count, |from, to| many[from][to] || longer[from][to]);
                }
                if *item == Item::Plus {
                    then(&top, &many)
                } else {
                    many
                }
            }
            (item, top) => {
                stack.extend(top);
                relation(count, |from, to| steps(item, text, from, to))
            }
        };
        stack.push(next);
    }
    let whole = stack.pop().unwrap();
    (0..count).find_map(|from| {
        let to = (0..count).rfind(|to| whole[from][*to])?;
        Some((from, to))
    })
}

/// Returns whether one item that is no operator leads from one place to another.
fn steps(item: &Item, text: &[char], from: usize, to: usize) -> bool {
    match item {
        Item::Set(class) => to == from + 1 && class.contains(text[from]),
        Item::LineStart => to == from && (from == 0 || text[from - 1] == '\n'),
        Item::LineEnd => to == from && text.get(from) == Some(&'\n'),
        Item::Cat | Item::Or | Item::Star | Item::Plus | Item::Quest | Item::Group(_) => false,
    }
}

/// Every pattern of up to `len` of these characters that is one.
fn patterns(len: usize) -> Vec<String> {
    let alphabet: Vec<char> = "ab.*|()^$?+".chars().collect();
    let mut all = vec![String::new()];
    let mut from = 0;
    for _ in 0..len {
        let to = all.len();
        for index in from..to {
            for c in &alphabet {
                let mut longer = all[index].clone();
                longer.push(*c);
                all.push(longer);
            }
        }
        from = to;
    }
    all.retain(|pattern| Regexp::new(pattern).is_ok());
    all
}

#[test]
fn every_small_pattern_finds_what_trying_everything_finds() {
    let texts = ["", "a", "ab", "ba\n", "aab\nab", "\n\nbab\n"];
    let patterns = patterns(4);
    let mut found_count = 0;
    for pattern in &patterns {
        let parsed = parse::parse(pattern).unwrap();
        let mut regexp = Regexp::new(pattern).unwrap();
        for text in texts {
            let chars: Vec<char> = text.chars().collect();
            let rope = Text::from(text);
            let len = rope.len();
            let found = regexp.find(&rope, Span::new(0, len));
            let want = slow_find(&parsed, &chars)
                // A match begins at the end of the range only if the search does.
                .filter(|(start, _)| *start < chars.len() || chars.is_empty());
            let index = |q| usize::try_from(q).unwrap();
            let found = found.map(|span| (index(span.q0), index(span.q1)));
            assert_eq!(found, want, "{pattern} in {text:?}");
            found_count += usize::from(found.is_some());
        }
    }
    assert_eq!((patterns.len(), found_count), (3460, 9216));
}

#[test]
fn deep_long_and_ambiguous_patterns_cost_what_their_length_costs() {
    let deep = format!("{}a{}", "(".repeat(50_000), ")".repeat(50_000));
    assert_eq!(find(&deep, "xa").as_deref(), Some("1,2"));
    let long = "ab".repeat(5_000);
    assert_eq!(find(&long, &long).as_deref(), Some("0,10000"));
    let ambiguous = format!("{}{}", "a?".repeat(200), "a".repeat(200));
    assert_eq!(find(&ambiguous, &"a".repeat(200)).as_deref(), Some("0,200"));
    // More classes than a byte counts, and more states than the cache keeps.
    let wide: String = ('一'..'\u{5000}').map(|c| format!("{c}[^{c}]*|")).collect();
    let wide = format!("{wide}x");
    let text: String = ('一'..'\u{5000}').chain(['一']).collect();
    assert_eq!(find(&wide, &text).as_deref(), Some("0,512"));
}

#[test]
fn matches_are_found_over_the_seams_of_the_rope() {
    let filler = "é漢 plain text\n".repeat(900);
    for pattern in ["needle", "ne+dle", "n.*e", "(needle)", "[n]eedle"] {
        for cut in 0..7 {
            let text = format!("{}{filler}needle", "x".repeat(1000 + cut));
            let text = Text::from(text.as_str());
            let at = text.len() - 6;
            let mut regexp = Regexp::new(pattern).unwrap();
            let from = Span::new(at - 5000 / 14 * 14 - 6, text.len());
            let found = regexp.find(&text, from).unwrap();
            let want = if pattern == "n.*e" { found.q0 } else { at };
            assert_eq!(found.q0, want, "{pattern}");
            assert_eq!(regexp.find_back(&text, text.len()).unwrap().q0, at);
        }
    }
}

#[test]
fn an_escaped_text_matches_itself() {
    let text = "a.*+?[]()|\\^$é\n";
    assert_eq!(find(&escape(text), text), Some(format!("0,{}", 15)));
    assert_eq!(escape("abc").to_string(), "abc");
}

#[test]
fn all_matches_come_in_order_and_none_overlaps_another() {
    let text = Text::from("baaac");
    let all = |pattern: &str, range, count_max| {
        let found = Regexp::new(pattern)
            .unwrap()
            .find_all(&text, range, count_max);
        found
            .into_iter()
            .map(|at| (at.q0, at.q1))
            .collect::<Vec<_>>()
    };
    let whole = Span::new(0, 5);
    assert_eq!(all("a*", whole, 9), [(0, 0), (1, 4), (5, 5)]);
    assert_eq!(all("a", whole, 9), [(1, 2), (2, 3), (3, 4)]);
    assert_eq!(all("a", whole, 2), [(1, 2), (2, 3)]);
    assert_eq!(all("a+", Span::new(2, 5), 9), [(2, 4)]);
    assert_eq!(all("x", whole, 9), []);
}
