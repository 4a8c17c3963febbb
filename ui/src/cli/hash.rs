//! `apex hash`: where each log stands and what state it makes, as one party computed it.

use apex_core::ids::AttachmentId;
use apex_core::message::{Answer, Query, ShardHash};
use serde::Serialize;

use crate::cli::ask::{Asker, Context, Missing};
use crate::cli::error::CliError;
use crate::cli::output::{Output, table};

/// Prints where each log stands and the hash of the state that it makes.
///
/// A line for each shard: its name, its last seq, the chain hash of its entries, the hash of its
/// part of the state. Then the hash of the whole state. Equal seqs make equal hashes, whoever
/// computed them.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Asks this attachment for its own figures, instead of the daemon.
    #[arg(long, value_name = "ID")]
    attachment: Option<u64>,
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
    let what = "the question for hashes";
    let mut asker = Asker::connect(context, Missing::Fail).await?;
    asker.check_session(context).await?;
    let query = Query::Hash(arguments.attachment.map(AttachmentId::new));
    let answer = asker
        .query(what, Some(context.session_name()), query)
        .await?;
    let Answer::Hashes { of, shards, state } = answer else {
        return Err(CliError::Unexpected(what));
    };
    let hashes = Hashes::new(of, &shards, &state);
    if arguments.json {
        output.json(&hashes)
    } else {
        output.text(&hashes.text())
    }
}

#[derive(Serialize)]
struct Hashes {
    attachment: u64,
    shards: Vec<ShardLine>,
    state: String,
}

#[derive(Serialize)]
struct ShardLine {
    shard: String,
    seq: u64,
    chain: String,
    state: String,
}

impl Hashes {
    fn new(of: AttachmentId, shards: &[ShardHash], state: &[u8; 32]) -> Self {
        let line = |hash: &ShardHash| ShardLine {
            shard: hash.shard.to_string(),
            seq: hash.seq.raw(),
            chain: hash.chain.to_string(),
            state: hex(&hash.state),
        };
        Self {
            attachment: of.raw(),
            shards: shards.iter().map(line).collect(),
            state: hex(state),
        }
    }

    fn text(&self) -> String {
        let rows: Vec<[String; 4]> = self
            .shards
            .iter()
            .map(|line| {
                [
                    line.shard.clone(),
                    line.seq.to_string(),
                    line.chain.clone(),
                    line.state.clone(),
                ]
            })
            .collect();
        format!(
            "{}state {} of attachment {}\n",
            table(&rows),
            self.state,
            self.attachment
        )
    }
}

fn hex(bytes: &[u8; 32]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use apex_core::entry::ChainHash;
    use apex_core::ids::{BufferId, Seq, Shard};

    fn hashes() -> Hashes {
        let shard = |shard, seq| ShardHash {
            shard,
            seq: Seq::new(seq),
            chain: ChainHash([0xab; 32]),
            state: [0x0c; 32],
        };
        Hashes::new(
            AttachmentId::new(4),
            &[
                shard(Shard::Meta, 12),
                shard(Shard::Buffer(BufferId::new(7)), 3),
            ],
            &[0xff; 32],
        )
    }

    #[test]
    fn hashes_are_a_line_a_shard_then_the_state() {
        let (chain, state) = ("ab".repeat(32), "0c".repeat(32));
        assert_eq!(
            hashes().text(),
            format!(
                "meta      12  {chain}  {state}\n\
                 buffer/7  3   {chain}  {state}\n\
                 state {} of attachment 4\n",
                "ff".repeat(32)
            )
        );
    }

    #[test]
    fn hashes_are_data_as_json() {
        let json = serde_json::to_value(hashes()).unwrap();
        assert_eq!(json["attachment"], 4);
        assert_eq!(json["state"], "ff".repeat(32));
        assert_eq!(
            json["shards"][1],
            serde_json::json!({
                "shard": "buffer/7",
                "seq": 3,
                "chain": "ab".repeat(32),
                "state": "0c".repeat(32),
            })
        );
    }
}
