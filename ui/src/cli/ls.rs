//! `apex ls`: the sessions, who is in them and leads them, and what is modified.

use apex_core::entry::AttachmentKind;
use apex_core::ids::SERVER;
use apex_core::message::{BufferInfo, SessionInfo};
use serde::Serialize;

use crate::cli::ask::{Asker, Context, Missing};
use crate::cli::error::CliError;
use crate::cli::output::{Output, table};

/// Lists the sessions, who is attached and leads, and which buffers are modified.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Lists the buffers of one session instead (see --session), tags left out.
    #[arg(long)]
    buffers: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// [`CliError`].
pub(super) async fn run(
    context: &Context,
    arguments: &Arguments,
    output: &mut Output,
) -> Result<(), CliError> {
    let mut asker = Asker::connect(context, Missing::Fail).await?;
    if arguments.buffers {
        let mut buffers = asker.buffers(context).await?;
        buffers.retain(|buffer| !buffer.name.is_empty());
        if arguments.json {
            return output.json(&buffers.iter().map(BufferJson::new).collect::<Vec<_>>());
        }
        return output.text(&buffers_text(&buffers));
    }
    let sessions = asker.sessions().await?;
    if arguments.json {
        return output.json(&sessions.iter().map(SessionJson::new).collect::<Vec<_>>());
    }
    output.text(&sessions_text(&sessions))
}

#[derive(Serialize)]
struct SessionJson<'a> {
    label: &'a str,
    id: String,
    windows: u64,
    attachments: Vec<AttachmentJson<'a>>,
    /// The attachment that leads; 0 is the daemon.
    leader: u64,
    modified: &'a [String],
}

#[derive(Serialize)]
struct AttachmentJson<'a> {
    id: u64,
    kind: &'static str,
    name: &'a str,
    is_leading: bool,
}

impl<'a> SessionJson<'a> {
    fn new(info: &'a SessionInfo) -> Self {
        let attachments: Vec<_> = info
            .attachments
            .iter()
            .map(|(id, kind, name, is_leading)| AttachmentJson {
                id: id.raw(),
                kind: kind_name(*kind),
                name,
                is_leading: *is_leading,
            })
            .collect();
        let leader = attachments.iter().find(|attachment| attachment.is_leading);
        Self {
            label: &info.label,
            id: info.id.to_string(),
            windows: info.windows,
            leader: leader.map_or(SERVER.raw(), |leader| leader.id),
            attachments,
            modified: &info.modified,
        }
    }
}

#[derive(Serialize)]
struct BufferJson<'a> {
    id: u64,
    name: &'a str,
    version: u64,
    /// In code points.
    len: u64,
    is_modified: bool,
    leader: u64,
}

impl<'a> BufferJson<'a> {
    fn new(info: &'a BufferInfo) -> Self {
        Self {
            id: info.id.raw(),
            name: &info.name,
            version: info.version.raw(),
            len: info.len,
            is_modified: info.is_modified,
            leader: info.leader.raw(),
        }
    }
}

const fn kind_name(kind: AttachmentKind) -> &'static str {
    match kind {
        AttachmentKind::Ui => "ui",
        AttachmentKind::Tool => "tool",
    }
}

fn sessions_text(sessions: &[SessionInfo]) -> String {
    let mut text = String::new();
    for session in sessions {
        let windows = count(session.windows, "window");
        text.push_str(&format!("{}  {windows}  {}\n", session.label, session.id));
        let mut rows: Vec<[String; 4]> = Vec::new();
        for (id, kind, name, is_leading) in &session.attachments {
            let leads = if *is_leading { "leads" } else { "" };
            rows.push([
                format!("    {id}"),
                kind_name(*kind).into(),
                name.clone(),
                leads.into(),
            ]);
        }
        if !session
            .attachments
            .iter()
            .any(|(.., is_leading)| *is_leading)
        {
            rows.insert(
                0,
                [
                    format!("    {SERVER}"),
                    "apexd".into(),
                    "".into(),
                    "leads".into(),
                ],
            );
        }
        text.push_str(&table(&rows));
        for name in &session.modified {
            text.push_str(&format!("    modified {name}\n"));
        }
    }
    text
}

fn buffers_text(buffers: &[BufferInfo]) -> String {
    let mut rows = vec![["ID", "VERSION", "LENGTH", "LEADER", "", "NAME"].map(String::from)];
    rows.extend(buffers.iter().map(|buffer| {
        [
            buffer.id.to_string(),
            buffer.version.to_string(),
            buffer.len.to_string(),
            buffer.leader.to_string(),
            if buffer.is_modified {
                "modified".into()
            } else {
                String::new()
            },
            buffer.name.clone(),
        ]
    }));
    table(&rows)
}

fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use apex_core::ids::{AttachmentId, BufferId, SessionId, Version};

    fn sessions() -> Vec<SessionInfo> {
        let id = SessionId("00000000-0000-0000-0000-000000000007".parse().unwrap());
        let tool = |leads| {
            (
                AttachmentId::new(2),
                AttachmentKind::Tool,
                "tidy".into(),
                leads,
            )
        };
        let ui = (
            AttachmentId::new(11),
            AttachmentKind::Ui,
            "apex@host".into(),
            true,
        );
        vec![
            SessionInfo {
                id,
                label: "main".into(),
                attachments: vec![tool(false), ui],
                windows: 3,
                modified: vec!["/src/a b.rs".into()],
            },
            SessionInfo {
                id,
                label: "other".into(),
                attachments: vec![tool(false)],
                windows: 1,
                modified: Vec::new(),
            },
        ]
    }

    #[test]
    fn sessions_are_listed_with_who_leads_and_what_is_modified() {
        assert_eq!(
            sessions_text(&sessions()),
            "main  3 windows  00000000-0000-0000-0000-000000000007\n    \
             2   tool  tidy\n    \
             11  ui    apex@host  leads\n    \
             modified /src/a b.rs\n\
             other  1 window  00000000-0000-0000-0000-000000000007\n    \
             0  apexd        leads\n    \
             2  tool   tidy\n"
        );
    }

    #[test]
    fn sessions_are_data_as_json() {
        let sessions = sessions();
        let json = serde_json::to_value(SessionJson::new(&sessions[0])).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "label": "main",
                "id": "00000000-0000-0000-0000-000000000007",
                "windows": 3,
                "leader": 11,
                "attachments": [
                    { "id": 2, "kind": "tool", "name": "tidy", "is_leading": false },
                    { "id": 11, "kind": "ui", "name": "apex@host", "is_leading": true },
                ],
                "modified": ["/src/a b.rs"],
            })
        );
        let led_by_the_daemon = serde_json::to_value(SessionJson::new(&sessions[1])).unwrap();
        assert_eq!(led_by_the_daemon["leader"], 0);
    }

    #[test]
    fn buffers_are_listed_with_their_ids() {
        let buffer = BufferInfo {
            id: BufferId::new(5),
            name: "/a".into(),
            version: Version::new(2),
            len: 12,
            is_modified: true,
            leader: AttachmentId::new(3),
        };
        assert_eq!(
            buffers_text(&[buffer]),
            "ID  VERSION  LENGTH  LEADER            NAME\n\
             5   2        12      3       modified  /a\n"
        );
    }
}
