//! `apex put`: writes a buffer to its file, as the command Put does.
//!
//! The leader's decision comes before the file is written, so the command follows the session: it
//! is done when the buffer's log says `Saved`, and has failed when `+Errors` of the file's
//! directory says why.

use apex_core::entry::{BufferOp, Op};
use apex_core::ids::{BufferId, Shard, Version};
use apex_core::log::Record;
use apex_core::message::{BufferInfo, ClientMessage};
use apex_core::node::client::{Client, ClientEvent};
use apex_core::proposal::{Change, Refusal};

use crate::cli::ask::{ANSWER_SECONDS, Asker, Context, Missing, find_buffer, within};
use crate::cli::error::CliError;
use crate::cli::join::{DECIDE_SECONDS, hello};

/// Writes a buffer to its file, unless somebody edits it at the same moment.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Its id, or its name: absolute, or from the working directory.
    buffer: String,
}

/// Runs the command.
///
/// # Errors
/// [`CliError`].
pub(super) async fn run(context: &Context, arguments: &Arguments) -> Result<(), CliError> {
    let mut asker = Asker::connect(context, Missing::Fail).await?;
    let buffers = asker.buffers(context).await?;
    let info = find_buffer(&buffers, &arguments.buffer, context)?;
    let mut client = Client::new(hello(context, "put", true));
    asker.send(&client.hello())?;
    let put = Put {
        errors: errors_name(info),
        buffer: info.id,
        version: info.version,
    };
    let welcome = async {
        while client.node().is_none() {
            put.step(&mut client, &mut asker).await?;
        }
        Ok(())
    };
    within(ANSWER_SECONDS, "the hello", welcome).await?;
    let change = Change::Put {
        buffer: put.buffer,
        version: put.version,
    };
    let (_, message) = client.propose(vec![change]).expect("the node is there");
    asker.send(&message)?;
    let written = async {
        while !put.step(&mut client, &mut asker).await? {}
        Ok(())
    };
    let written = within(DECIDE_SECONDS, "the put", written).await;
    asker.send(&ClientMessage::Detach)?;
    let left = asker.leave().await;
    written.and(left)
}

/// The buffer that messages about a file go to.
fn errors_name(info: &BufferInfo) -> String {
    let directory = info
        .name
        .rsplit_once('/')
        .map_or("", |(directory, _)| directory);
    format!("{directory}/+Errors")
}

/// A put that is under way.
struct Put {
    buffer: BufferId,
    version: Version,
    errors: String,
}

impl Put {
    /// Takes one message, and returns whether the file is written.
    async fn step(&self, client: &mut Client, asker: &mut Asker) -> Result<bool, CliError> {
        let mut answers = Vec::new();
        let events = client.receive(asker.receive().await?, &mut answers);
        answers.iter().try_for_each(|answer| asker.send(answer))?;
        let mut is_written = false;
        for event in events {
            match event {
                ClientEvent::Entries(records) => {
                    for record in &records {
                        is_written |= self.is_saved(record);
                        if let Some(words) = self.complaint(client, record) {
                            return Err(Refusal::Refused(words).into());
                        }
                    }
                }
                ClientEvent::Decided { outcome, .. } => {
                    for landed in outcome? {
                        landed.refusal.map_or(Ok(()), Err)?;
                    }
                }
                ClientEvent::Error(error) => return Err(CliError::Answer(error)),
                ClientEvent::Welcome
                | ClientEvent::Reply { .. }
                | ClientEvent::LeadershipChanged
                | ClientEvent::Recovered(_)
                | ClientEvent::FollowUp(_) => {}
            }
        }
        Ok(is_written)
    }

    fn is_saved(&self, record: &Record) -> bool {
        matches!(
            &record.entry.op,
            Op::Buffer(BufferOp::Saved(saved))
                if record.shard == Shard::Buffer(self.buffer)
                    && saved.version >= self.version
        )
    }

    /// Returns what an entry adds to the directory's `+Errors`.
    fn complaint(&self, client: &Client, record: &Record) -> Option<String> {
        let Shard::Buffer(id) = record.shard else {
            return None;
        };
        let Op::Buffer(BufferOp::Edit { splices, .. }) = &record.entry.op else {
            return None;
        };
        let buffer = client.node()?.state().buffer(id)?;
        if buffer.name() != self.errors {
            return None;
        }
        let words: String = splices.iter().map(|splice| splice.text.as_str()).collect();
        Some(words.trim().to_owned()).filter(|words| !words.is_empty())
    }
}
