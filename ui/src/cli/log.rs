//! `apex log`: the entries of a shard, as lines; with `--follow` also those to come.

use apex_core::bytes::Bytes;
use apex_core::entry::{Entry, MetaOp, Op};
use apex_core::ids::{Seq, Shard};
use apex_core::message::{Answer, ClientMessage, Query};
use apex_core::node::client::{Client, ClientEvent};
use apex_core::wire::decode_entry;
use serde::Serialize;

use crate::cli::ask::{ANSWER_SECONDS, Asker, Context, Missing, within};
use crate::cli::error::CliError;
use crate::cli::join::hello;
use crate::cli::output::{Output, complain};
use crate::link::LinkError;

/// Longest operation that a line for people shows, in characters; JSON has all of it.
const OP_LEN_MAX: usize = 400;
/// What the daemon is asked.
const WHAT: &str = "the question for entries";

/// Prints the entries of a shard, as they are or as they come.
///
/// A line for each entry: its seq, who sequenced it under which epoch, the author and number of
/// the proposal behind it if there is one, and the operation.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Which: meta, layout, buffer/ID, window/ID or term/ID.
    shard: Shard,
    /// Begins at this seq instead of the first one that is kept.
    #[arg(long, value_name = "SEQ", default_value_t = 1)]
    from: u64,
    /// Goes on with new entries as they come, until the shard ends; the command is an attachment
    /// meanwhile.
    #[arg(long, short)]
    follow: bool,
    /// Prints a line of JSON for each entry, with nothing left out.
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
    let mut printer = Printer {
        shard: arguments.shard,
        next: Seq::new(arguments.from.max(1)),
        is_json: arguments.json,
        output,
    };
    let mut asker = Asker::connect(context, Missing::Fail).await?;
    asker.check_session(context).await?;
    if !arguments.follow {
        return printer.history(&mut asker, context).await;
    }
    let followed = tokio::select! {
        result = printer.follow(&mut asker, context) => result,
        interrupt = tokio::signal::ctrl_c() => interrupt.map_err(CliError::System),
    };
    // A reader of the output that went away ends the command; the session is left all the same.
    asker.send(&ClientMessage::Detach)?;
    let left = asker.leave().await;
    followed.and(left)
}

/// Prints entries of one shard in the order of their seqs, each once.
struct Printer<'a> {
    shard: Shard,
    next: Seq,
    is_json: bool,
    output: &'a mut Output,
}

impl Printer<'_> {
    /// Prints what the daemon has from `next` on.
    async fn history(&mut self, asker: &mut Asker, context: &Context) -> Result<(), CliError> {
        loop {
            let query = Query::Entries {
                shard: self.shard,
                from: self.next,
            };
            let answer = asker
                .query(WHAT, Some(context.session_name()), query)
                .await?;
            let Answer::Entries {
                entries,
                floor,
                head,
            } = answer
            else {
                return Err(CliError::Unexpected(WHAT));
            };
            if self.next < floor {
                complain(&format!(
                    "apex: entries {} to {floor} are not kept\n",
                    self.next
                ));
                self.next = floor;
            }
            let before = self.next;
            entries
                .iter()
                .try_for_each(|bytes| self.print(&decode(bytes)?))?;
            self.output.flush()?;
            // Without progress the rest is not to be had, and comes to who follows.
            if self.next > head || self.next == before {
                return Ok(());
            }
        }
    }

    /// Joins the session with a replica of its own, and prints entries as that applies them, until
    /// the shard ends.
    async fn follow(&mut self, asker: &mut Asker, context: &Context) -> Result<(), CliError> {
        let mut client = Client::new(hello(context, "log", true));
        asker.send(&client.hello())?;
        let welcome = async {
            while client.node().is_none() {
                self.step(&mut client, asker, context).await?;
            }
            Ok(false)
        };
        let mut is_end = within(ANSWER_SECONDS, "the hello", welcome).await?;
        while !is_end {
            is_end = self.step(&mut client, asker, context).await?;
            self.output.flush()?;
        }
        Ok(())
    }

    /// Takes one message, and returns whether the shard has ended.
    async fn step(
        &mut self,
        client: &mut Client,
        asker: &mut Asker,
        context: &Context,
    ) -> Result<bool, CliError> {
        let mut answers = Vec::new();
        let events = client.receive(asker.receive().await?, &mut answers);
        answers.iter().try_for_each(|answer| asker.send(answer))?;
        let mut is_end = false;
        for event in events {
            match event {
                // At first, and when the daemon dropped what it had for us and began afresh.
                ClientEvent::Welcome => self.history(asker, context).await?,
                ClientEvent::Entries(records) => {
                    let shard = self.shard;
                    let end = Op::Meta(MetaOp::ShardDel(shard));
                    is_end |= records.iter().any(|record| record.entry.op == end);
                    for record in records.iter().filter(|record| record.shard == shard) {
                        self.print(&record.entry)?;
                    }
                }
                ClientEvent::Error(error) => return Err(CliError::Answer(error)),
                ClientEvent::Reply { .. }
                | ClientEvent::Decided { .. }
                | ClientEvent::LeadershipChanged
                | ClientEvent::Overtaken { .. }
                | ClientEvent::Resumed
                | ClientEvent::Recovered(_)
                | ClientEvent::Diverged(_)
                | ClientEvent::FollowUp(_) => {}
            }
        }
        Ok(is_end)
    }

    fn print(&mut self, entry: &Entry) -> Result<(), CliError> {
        if entry.seq < self.next {
            return Ok(());
        }
        self.next = entry.seq.next();
        if self.is_json {
            self.output.json_line(&Line {
                shard: self.shard.to_string(),
                entry,
            })
        } else {
            self.output.line(text(entry))
        }
    }
}

fn decode(bytes: &Bytes) -> Result<Entry, CliError> {
    decode_entry(bytes).map_err(|error| CliError::Link(LinkError::Wire(error)))
}

#[derive(Serialize)]
struct Line<'a> {
    shard: String,
    #[serde(flatten)]
    entry: &'a Entry,
}

fn text(entry: &Entry) -> String {
    let op = match &entry.op {
        Op::Meta(op) => format!("{op:?}"),
        Op::Layout(op) => format!("{op:?}"),
        Op::Buffer(op) => format!("{op:?}"),
        Op::Window(op) => format!("{op:?}"),
        Op::Term(op) => format!("{op:?}"),
    };
    let origin = match entry.origin {
        Some(origin) => format!(" for {}/{}", origin.author, origin.id),
        None => String::new(),
    };
    let Entry {
        seq,
        attachment,
        epoch,
        ..
    } = entry;
    format!("{seq} by {attachment} epoch {epoch}{origin} {}", clip(op))
}

fn clip(mut text: String) -> String {
    if let Some((at, _)) = text.char_indices().nth(OP_LEN_MAX) {
        let left_out = text[at..].chars().count();
        text.truncate(at);
        text.push_str(&format!("... {left_out} more characters"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use apex_core::entry::{BufferOp, Origin};
    use apex_core::ids::{AttachmentId, Epoch, ProposalId};

    fn entry(op: BufferOp) -> Entry {
        Entry {
            seq: Seq::new(7),
            attachment: AttachmentId::new(2),
            epoch: Epoch::new(3),
            origin: Some(Origin {
                author: AttachmentId::new(5),
                id: ProposalId::new(1),
            }),
            op: Op::Buffer(op),
        }
    }

    #[test]
    fn an_entry_is_one_line_also_when_its_text_is_not() {
        let line = text(&entry(BufferOp::Load {
            text: "a\nb\u{1b}[2J".into(),
        }));
        assert_eq!(
            line,
            r#"7 by 2 epoch 3 for 5/1 Load { text: "a\nb\u{1b}[2J" }"#
        );
    }

    #[test]
    fn a_long_operation_is_cut_and_says_so() {
        let line = text(&entry(BufferOp::Load {
            text: "x".repeat(10_000),
        }));
        assert!(
            line.ends_with("xxx... 9617 more characters"),
            "{}",
            &line[line.len() - 60..]
        );
    }

    #[test]
    fn an_entry_is_data_as_json_with_nothing_left_out() {
        let entry = entry(BufferOp::Load {
            text: "x".repeat(10_000),
        });
        let line = Line {
            shard: "buffer/9".into(),
            entry: &entry,
        };
        let json = serde_json::to_value(line).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "shard": "buffer/9",
                "seq": 7,
                "attachment": 2,
                "epoch": 3,
                "origin": { "author": 5, "id": 1 },
                "op": { "Buffer": { "Load": { "text": "x".repeat(10_000) } } },
            })
        );
    }
}
