//! `apex tool`: what the user decides about one tool.

use std::ffi::OsString;

use apex_core::message::{Answer, ClientMessage, Query, ToolOrder};

use crate::cli::ask::{Asker, Context, Missing};
use crate::cli::error::CliError;
use crate::cli::output::Output;
use crate::cli::place::absolute;

/// Decides about a tool; `apex tools` lists their names.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    order: Order,
}

#[derive(Debug, clap::Subcommand)]
enum Order {
    /// Grants what a tool's manifest asks for, to the component as it is now.
    Grant(Grant),
    /// Takes a tool's grants back; it stops.
    Revoke {
        /// The tool.
        name: String,
    },
    /// Starts a tool again, also one that was given up.
    Reload {
        /// The tool.
        name: String,
    },
    /// Prints the newest lines that a tool logged.
    Log {
        /// The tool.
        name: String,
    },
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Grant {
    /// The tool.
    name: Option<String>,
    /// Grants whatever component stands at a path, also after it changed: for tools in the making.
    #[arg(long, value_name = "PATH")]
    dev: Option<OsString>,
}

/// Runs the command.
///
/// # Errors
/// [`CliError`].
pub(super) async fn run(
    context: &Context,
    arguments: Arguments,
    output: &mut Output,
) -> Result<(), CliError> {
    let order = match arguments.order {
        Order::Grant(Grant {
            dev: Some(path), ..
        }) => {
            let path = path.to_str().ok_or_else(|| {
                CliError::Usage(format!("the path {} is not UTF-8", path.display()))
            })?;
            ToolOrder::GrantDev(absolute(path, &context.directory)?)
        }
        Order::Grant(Grant { name, .. }) => {
            ToolOrder::Grant(name.ok_or_else(|| CliError::Usage("grant which tool?".into()))?)
        }
        Order::Revoke { name } => ToolOrder::Revoke(name),
        Order::Reload { name } => ToolOrder::Reload(name),
        Order::Log { name } => return log(context, name, output).await,
    };
    let mut asker = Asker::connect(context, Missing::Start).await?;
    let lines = asker
        .order("the order", |request| ClientMessage::Tool {
            request,
            order,
        })
        .await?;
    lines.iter().try_for_each(|line| output.line(line))
}

async fn log(context: &Context, name: String, output: &mut Output) -> Result<(), CliError> {
    let what = "the question for a tool's log";
    let mut asker = Asker::connect(context, Missing::Fail).await?;
    match asker.query(what, None, Query::ToolLog(name)).await? {
        Answer::Lines(lines) => lines.iter().try_for_each(|line| output.line(line)),
        _ => Err(CliError::Unexpected(what)),
    }
}
