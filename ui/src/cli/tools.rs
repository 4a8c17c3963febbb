//! `apex tools`: the tools, what happened to each, and what will happen next.

use apex_core::message::{Answer, Query, ToolInfo};
use serde::Serialize;

use crate::cli::ask::{Asker, Context, Missing};
use crate::cli::error::CliError;
use crate::cli::output::{Output, table};

/// Lists the tools, what happened to each, and what will happen next.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
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
    let what = "the question for tools";
    let mut asker = Asker::connect(context, Missing::Start).await?;
    let Answer::Tools(tools) = asker.query(what, None, Query::Tools).await? else {
        return Err(CliError::Unexpected(what));
    };
    if arguments.json {
        return output.json(&tools.iter().map(ToolJson::new).collect::<Vec<_>>());
    }
    output.text(&text(&tools))
}

#[derive(Serialize)]
struct ToolJson<'a> {
    name: &'a str,
    id: &'a str,
    path: &'a str,
    sha256: &'a str,
    state: &'a str,
    note: &'a str,
    restarts: u64,
    calls: u64,
    entries: u64,
    memory_len: u64,
    attachments: Vec<AttachmentJson>,
}

#[derive(Serialize)]
struct AttachmentJson {
    session: String,
    attachment: u64,
    cursor: u64,
}

impl<'a> ToolJson<'a> {
    fn new(info: &'a ToolInfo) -> Self {
        let attachments = info
            .attachments
            .iter()
            .map(|(session, attachment, cursor)| AttachmentJson {
                session: session.to_string(),
                attachment: attachment.raw(),
                cursor: *cursor,
            });
        Self {
            name: &info.name,
            id: &info.id,
            path: &info.path,
            sha256: &info.sha256,
            state: &info.state,
            note: &info.note,
            restarts: info.restarts,
            calls: info.calls,
            entries: info.entries,
            memory_len: info.memory_len,
            attachments: attachments.collect(),
        }
    }
}

fn text(tools: &[ToolInfo]) -> String {
    let mut rows = vec![
        [
            "NAME", "STATE", "RESTARTS", "CALLS", "ENTRIES", "KIB", "NOTE",
        ]
        .map(String::from),
    ];
    rows.extend(tools.iter().map(|tool| {
        [
            tool.name.clone(),
            tool.state.clone(),
            tool.restarts.to_string(),
            tool.calls.to_string(),
            tool.entries.to_string(),
            tool.memory_len.div_ceil(1024).to_string(),
            // One line a tool, whatever a tool's error message holds.
            tool.note.split_whitespace().collect::<Vec<_>>().join(" "),
        ]
    }));
    table(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use apex_core::ids::{AttachmentId, SessionId};

    fn tool() -> ToolInfo {
        let session = SessionId("00000000-0000-0000-0000-000000000007".parse().unwrap());
        ToolInfo {
            name: "trap".into(),
            id: "test:trap".into(),
            path: "/p/trap.wasm".into(),
            sha256: "ab".into(),
            state: "restarting".into(),
            note: "trapped: unreachable\n  at run; starts again in 2 s".into(),
            restarts: 1,
            calls: 4,
            entries: 90,
            memory_len: 65537,
            attachments: vec![(session, AttachmentId::new(3), 90)],
        }
    }

    #[test]
    fn a_tool_is_one_line_with_what_happened_and_what_comes_next() {
        assert_eq!(
            text(&[tool()]),
            "NAME  STATE       RESTARTS  CALLS  ENTRIES  KIB  NOTE\n\
             trap  restarting  1         4      90       65   trapped: unreachable at run; \
             starts again in 2 s\n"
        );
    }

    #[test]
    fn a_tool_is_data_as_json() {
        let json = serde_json::to_value(ToolJson::new(&tool())).unwrap();
        assert_eq!(
            json["note"],
            "trapped: unreachable\n  at run; starts again in 2 s"
        );
        assert_eq!(
            json["attachments"],
            serde_json::json!([{
                "session": "00000000-0000-0000-0000-000000000007",
                "attachment": 3,
                "cursor": 90,
            }])
        );
        assert_eq!(json["memory_len"], 65537);
    }
}
