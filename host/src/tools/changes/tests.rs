use apex_core::proposal::Landed as CoreLanded;

use super::super::manifest::Manifest;
use super::super::testing::Script;
use super::*;

fn applied(old: &str, new: &str) -> Vec<Splice> {
    let splices = differences(old, new);
    let mut text = apex_core::text::Text::from(old);
    edit::check(&splices, text.len()).unwrap();
    edit::apply(&mut text, &splices);
    assert_eq!(text.to_string(), new);
    for pair in splices.windows(2) {
        assert!(pair[0].at.q1 < pair[1].at.q0, "{splices:?}");
    }
    splices
}

fn rights(wants: &str) -> Rights {
    let head = "id = \"a.b\"\nversion = \"1\"\nsummary = \"\"\n";
    Rights::granted(&Manifest::parse(&format!("{head}{wants}")).unwrap())
}

fn all_rights() -> Rights {
    let want = |cap: &str, scope: &str| format!("[[want]]\ncap = \"{cap}\"\nscope = \"{scope}\"\n");
    rights(&format!(
        "{}{}{}",
        want("shard.propose", "buffer:*"),
        want("file.put", "buffer:*"),
        want("file.open", "/a/*")
    ))
}

fn session() -> State {
    let mut script = Script::new();
    script.buffer(7, "/a/x.rs", "one\ntwo\n");
    script.window(9, 7);
    script.state
}

fn edit_of(q0: u64, q1: u64, base: u64) -> proposals::Change {
    let splice = types::Splice {
        at: types::Span { q0, q1 },
        text: "x".to_owned(),
    };
    proposals::Change::Edit(proposals::Edit {
        buffer: 7,
        base,
        splices: vec![splice],
    })
}

#[test]
fn a_replaced_text_becomes_the_smallest_splices_that_make_it() {
    assert_eq!(applied("a\nb\nc\n", "a\nb\nc\n"), []);
    let splices = applied("a  \nb\nc \n", "a\nb\nc\n");
    assert_eq!(
        splices,
        [
            Splice::new(Span::new(1, 3), ""),
            Splice::new(Span::new(7, 8), "")
        ]
    );
    let splices = applied("é漢 one\n", "é漢 öne\n");
    assert_eq!(splices, [Splice::new(Span::new(3, 4), "ö")]);
}

#[test]
fn differences_of_any_shape_lead_to_the_new_text() {
    let texts = [
        "",
        "\n",
        "a",
        "a\n",
        "a\nb",
        "b\na\n",
        "x\ny\nz\n",
        "é\r\nb\r\n",
        "aaa\naaa\n",
    ];
    for old in texts {
        for new in texts {
            applied(old, new);
        }
    }
    let long: String = (0..20_000).map(|i| format!("line {i}\n")).collect();
    let other = long.replace("7\n", "seven\n");
    applied(&long, &other);
    applied(&"x".repeat(40_000), &"y".repeat(40_000));
}

#[test]
fn an_edit_needs_the_right_a_buffer_and_a_place_in_it() {
    let state = session();
    let rights = all_rights();
    let drafter = Drafter {
        state: &state,
        rights: &rights,
    };
    let version = state.buffer(BufferId::new(7)).unwrap().version().raw();
    assert!(drafter.draft(vec![edit_of(0, 8, version)]).is_ok());
    let code = |wish| drafter.draft(vec![wish]).unwrap_err().code;
    assert_eq!(code(edit_of(0, 9, version)), code::OUT_OF_RANGE);
    assert_eq!(code(edit_of(3, 2, version)), code::OUT_OF_RANGE);
    let proposals::Change::Edit(mut edit) = edit_of(0, 0, version) else {
        panic!()
    };
    edit.buffer = 8;
    assert_eq!(code(proposals::Change::Edit(edit)), code::NOT_FOUND);
    assert_eq!(drafter.draft(Vec::new()).unwrap_err().code, code::LIMIT);
    rights.revoke();
    assert_eq!(code(edit_of(0, 1, version)), code::NOT_GRANTED);
}

#[test]
fn a_second_edit_of_a_buffer_is_checked_by_the_leader() {
    // Its positions are those after the first edit, which only the leader computes.
    let state = session();
    let rights = all_rights();
    let drafter = Drafter {
        state: &state,
        rights: &rights,
    };
    let version = state.buffer(BufferId::new(7)).unwrap().version().raw();
    let twice = vec![edit_of(8, 8, version), edit_of(9, 9, version)];
    assert_eq!(drafter.draft(twice).unwrap().len(), 2);
}

#[test]
fn a_put_and_an_open_need_their_own_rights() {
    let state = session();
    let rights = rights("[[want]]\ncap = \"shard.propose\"\nscope = \"buffer:*\"\n");
    let drafter = Drafter {
        state: &state,
        rights: &rights,
    };
    for wish in [
        proposals::Change::Put((7, 1)),
        proposals::Change::GetIfClean((7, 1)),
        proposals::Change::Open("/a/y".to_owned()),
        proposals::Change::Look((9, "y".to_owned())),
    ] {
        assert_eq!(
            drafter.draft(vec![wish]).unwrap_err().code,
            code::NOT_GRANTED
        );
    }
    assert!(drafter.draft(vec![proposals::Change::Close(9)]).is_ok());
}

#[test]
fn a_path_to_open_is_absolute_plain_and_granted() {
    let state = session();
    let rights = all_rights();
    let drafter = Drafter {
        state: &state,
        rights: &rights,
    };
    let open = |place: &str| drafter.draft(vec![proposals::Change::Open(place.to_owned())]);
    assert_eq!(
        open("/a/y.rs:12").unwrap(),
        [Change::Open {
            path: "/a/y.rs".to_owned(),
            address: "12".to_owned()
        }]
    );
    assert_eq!(open("/etc/passwd").unwrap_err().code, code::NOT_GRANTED);
    assert_eq!(
        open("/a/../etc/passwd").unwrap_err().code,
        code::OUT_OF_RANGE
    );
    assert_eq!(open("y.rs").unwrap_err().code, code::OUT_OF_RANGE);
}

#[test]
fn a_replacement_of_an_older_text_is_stale() {
    let state = session();
    let rights = all_rights();
    let drafter = Drafter {
        state: &state,
        rights: &rights,
    };
    let wish = |base| {
        let text = "one\n".to_owned();
        vec![proposals::Change::Replace(proposals::Replacement {
            buffer: 7,
            base,
            text,
        })]
    };
    let version = state.buffer(BufferId::new(7)).unwrap().version().raw();
    let drafted = drafter.draft(wish(version)).unwrap();
    let [Change::Edit { splices, .. }] = drafted.as_slice() else {
        panic!("{drafted:?}")
    };
    assert_eq!(*splices, [Splice::new(Span::new(4, 8), "")]);
    let stale = drafter.draft(wish(version - 1)).unwrap_err();
    assert_eq!((stale.code, stale.retry), (code::STALE, true));
}

#[test]
fn a_proposal_has_a_size() {
    let state = session();
    let rights = all_rights();
    let drafter = Drafter {
        state: &state,
        rights: &rights,
    };
    let text = "x".repeat(limits::PROPOSAL_LEN_MAX + 1);
    let board = proposals::Board {
        name: "/a/+T".to_owned(),
        text,
        column: 0,
    };
    let error = drafter
        .draft(vec![proposals::Change::Board(board)])
        .unwrap_err();
    assert_eq!(error.code, code::LIMIT);
}

#[test]
fn a_deed_that_went_wrong_is_an_error_that_names_it() {
    let landed = CoreLanded {
        version: Version::new(3),
        ..CoreLanded::default()
    };
    let failed = CoreLanded {
        refusal: Some(Refusal::Refused("the disk is full".to_owned())),
        ..landed.clone()
    };
    let good = decided(Ok(vec![landed.clone()]), &["edit"]).unwrap();
    assert_eq!(good[0].version, 3);
    let error = decided(Ok(vec![landed, failed]), &["edit", "put"]).unwrap_err();
    assert_eq!(error.code, code::REFUSED);
    assert_eq!(error.message, "put: the disk is full; the edits stand");
    let retry = decided(Err(Refusal::Retry("the leader is away".to_owned())), &[]).unwrap_err();
    assert_eq!((retry.code, retry.retry), (code::RETRY, true));
}
