//! Sessions by name, and the daemon's end.

use apex_core::edit::Splice;
use apex_core::entry::AttachmentKind;
use apex_core::ids::{RequestId, Shard, ViewId};
use apex_core::message::{Answer, ClientMessage, ErrorCode, Query, ServerMessage, SessionName};
use apex_core::text::Span;

use super::{Peer, TestDaemon, test};

async fn labels(peer: &mut Peer) -> Vec<String> {
    let (request, session) = (RequestId::new(5), None);
    let ask = ClientMessage::Query {
        request,
        session,
        query: Query::Sessions,
    };
    let Ok(Answer::Sessions(sessions)) = peer.ask(ask).await else {
        panic!("no list")
    };
    sessions.into_iter().map(|info| info.label).collect()
}

fn new(label: &str) -> ClientMessage {
    ClientMessage::SessionNew {
        request: RequestId::new(6),
        label: label.into(),
    }
}

#[test]
fn sessions_are_made_renamed_and_ended_by_name() {
    test(async {
        let daemon = TestDaemon::start();
        let mut peer = daemon.peer().await;
        assert_eq!(peer.ask(new("b")).await, Ok(Answer::Done));
        assert_eq!(peer.ask(new("a")).await, Ok(Answer::Done));
        assert_eq!(
            peer.ask(new("a")).await.unwrap_err().code,
            ErrorCode::Exists
        );
        assert_eq!(peer.ask(new("")).await.unwrap_err().code, ErrorCode::BadOp);
        assert_eq!(labels(&mut peer).await, ["a", "b"]);
        let request = RequestId::new(8);
        let (label, new_label) = ("a".to_owned(), "c".to_owned());
        let rename = ClientMessage::SessionRename {
            request,
            label,
            new_label,
        };
        assert_eq!(peer.ask(rename.clone()).await, Ok(Answer::Done));
        assert_eq!(
            peer.ask(rename).await.unwrap_err().code,
            ErrorCode::NotFound
        );
        assert_eq!(labels(&mut peer).await, ["b", "c"]);

        let mut party = daemon.join(AttachmentKind::Ui, "c").await;
        let delete = ClientMessage::SessionDelete {
            request,
            label: "c".into(),
        };
        assert_eq!(peer.ask(delete).await, Ok(Answer::Done));
        assert_eq!(labels(&mut peer).await, ["b"]);
        loop {
            match party.peer.receive().await {
                Some(ServerMessage::Error { error, .. }) => {
                    assert!(error.message.contains("the session c was ended"), "{error}");
                    break;
                }
                Some(_) => {}
                None => panic!("closed without a word"),
            }
        }
    });
}

#[test]
fn a_new_session_is_laid_out_and_has_the_users_settings() {
    test(async {
        let daemon = TestDaemon::start_with(|paths| {
            std::fs::create_dir_all(&paths.config_dir).unwrap();
            std::fs::write(paths.settings(), "\"tool.tidy.off\" = \"*.md\"\n").unwrap();
        });
        let party = daemon.tool().await;
        let state = party.client.node().unwrap().state();
        assert_eq!(state.meta().settings["tool.tidy.off"], "*.md");
        assert_eq!(state.windows().count(), 1);
        let home = format!("{}/", daemon.path("home").display());
        assert_eq!(
            party.text_of(state.buffer_named(&home).unwrap()),
            "a file\n"
        );
        assert!(state.layout().is_some());
    });
}

#[test]
fn a_bad_settings_file_is_told_and_used_by_nobody() {
    test(async {
        let daemon = TestDaemon::start_with(|paths| {
            std::fs::create_dir_all(&paths.config_dir).unwrap();
            std::fs::write(paths.settings(), "a = \"b\"\nc =\n").unwrap();
        });
        let party = daemon.tool().await;
        let meta = party.client.node().unwrap().state().meta();
        assert!(meta.settings.is_empty());
        assert!(
            meta.notices
                .values()
                .any(|notice| notice.text.contains("line 2"))
        );
    });
}

#[test]
fn hashes_of_the_daemon_and_of_an_attachment_agree() {
    test(async {
        let daemon = TestDaemon::start();
        let mut ui = daemon.ui().await;
        let id = ui.node().attachment();
        let mut peer = daemon.peer().await;
        let hash = |of| ClientMessage::Query {
            request: RequestId::new(3),
            session: Some(SessionName::Label("main".into())),
            query: Query::Hash(of),
        };
        peer.send(&hash(Some(id))).await;
        ui.step().await;
        let Some(ServerMessage::Reply {
            answer: Ok(Answer::Hashes { of, shards, state }),
            ..
        }) = peer.receive().await
        else {
            panic!("no hashes")
        };
        assert_eq!(of, id);
        assert!(shards.iter().any(|hash| hash.shard == Shard::Layout));
        let Ok(Answer::Hashes { state: daemons, .. }) = peer.ask(hash(None)).await else {
            panic!("no hashes of the daemon")
        };
        assert_eq!(state, daemons);
    });
}

#[test]
fn what_was_not_put_is_rescued_when_the_daemon_ends() {
    test(async {
        let daemon = TestDaemon::start();
        let rescued = daemon.paths.rescued();
        let mut ui = daemon.ui().await;
        let path = daemon.path("typed");
        let (buffer, _) = ui.open(path.to_str().unwrap()).await.unwrap();
        ui.until(|ui| ui.client.node().unwrap().leads(Shard::Buffer(buffer)))
            .await;
        let column = ui.node().active_column().unwrap().id;
        let placement = apex_core::node::windows::Placement::Column(column);
        let window = ui.node().new_window(buffer, placement).unwrap();
        let group = ui.node().new_group();
        let splice = Splice::new(Span::at(0), "not put");
        ui.node()
            .replace(ViewId::Body(window), splice, Span::at(0), group)
            .unwrap();
        ui.send(ClientMessage::Ping(1)).await;
        ui.until(|ui| ui.client.unacked_count() == 0).await;
        let _dir = daemon.end().await;
        let session = std::fs::read_dir(rescued)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        let file = std::fs::read_dir(session)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        assert!(file.to_string_lossy().ends_with("%typed"));
        assert_eq!(std::fs::read_to_string(file).unwrap(), "not put");
        assert!(!path.exists());
    });
}
