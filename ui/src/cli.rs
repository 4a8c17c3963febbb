//! The command line of `apex`: what it takes, and which file does it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use apex_core::message::Takeover;
use clap::Parser;

use crate::link::runtime::{RuntimeDir, Surroundings};
use ask::Context;
use error::{CliError, EXIT_CODES};
use output::{Output, complain};

pub mod error;

pub mod output;

pub mod place;

pub mod ask;

pub mod join;

pub mod follow;

mod ls;

mod new;

mod cat;

mod open;

mod put;

mod notify;

mod set;

mod kill;

mod rename;

mod tools;

mod tool;

mod hash;

mod log;

mod screen;

/// The session that is meant when none is named.
const SESSION_DEFAULT: &str = "main";

/// Opens a session in the terminal, and files in it; or runs a command on sessions.
///
/// Without a command, apex starts its daemon if none runs, takes the session over from whoever
/// leads it, and shows each FILE, at ADDR: a line `12`, line and column `3:5` or a position `#34`.
/// A file that is named like a command opens as `apex ./ls` or `apex -- ls`.
///
/// The daemon is the program `apexd` beside apex, or the one that $APEXD names; $APEX_PLUGINS
/// names further directories of tools for it, with colons between them. Its socket is in
/// $APEX_RUNTIME_DIR, else $XDG_RUNTIME_DIR/apex, else /tmp/apex-UID.
#[derive(Debug, Parser)]
#[command(name = "apex", version, after_help = EXIT_CODES)]
struct Arguments {
    /// The session; $APEX_SESSION or `main` if not given.
    #[arg(long, global = true, value_name = "NAME")]
    session: Option<String>,
    /// Shows the session without leading it.
    #[arg(long, conflicts_with = "steal")]
    watch: bool,
    /// Takes the session over without asking whoever leads it.
    #[arg(long)]
    steal: bool,
    /// Files and directories to open.
    #[arg(value_name = "FILE[:ADDR]")]
    files: Vec<OsString>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Ls(ls::Arguments),
    New(new::Arguments),
    Cat(cat::Arguments),
    Open(open::Arguments),
    Put(put::Arguments),
    Notify(notify::Arguments),
    Set(set::Arguments),
    Kill(kill::Arguments),
    Rename(rename::Arguments),
    Tools(tools::Arguments),
    Tool(tool::Arguments),
    Hash(hash::Arguments),
    Log(log::Arguments),
}

/// Runs the program and returns its exit code.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CliError::System)
        .and_then(|runtime| runtime.block_on(run(arguments)));
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    if !error.is_quiet() {
        complain(&error.words());
    }
    ExitCode::from(error.exit_code())
}

async fn run(arguments: Arguments) -> Result<(), CliError> {
    let context = Context {
        runtime: RuntimeDir::find(&Surroundings::of_process())?,
        session: session_label(arguments.session, std::env::var_os("APEX_SESSION"))?,
        directory: working_directory()?,
    };
    let mut output = Output::stdout();
    let Some(command) = arguments.command else {
        let takeover = match (arguments.watch, arguments.steal) {
            (true, _) => Takeover::Watch,
            (false, true) => Takeover::Steal,
            (false, false) => Takeover::Transfer,
        };
        Box::pin(screen::run(
            &context,
            takeover,
            &arguments.files,
            &mut output,
        ))
        .await?;
        return output.flush();
    };
    if arguments.watch || arguments.steal {
        return Err(CliError::Usage(
            "--watch and --steal are for the screen alone".into(),
        ));
    }
    Box::pin(run_command(command, &context, &mut output)).await?;
    output.flush()
}

async fn run_command(
    command: Command,
    context: &Context,
    output: &mut Output,
) -> Result<(), CliError> {
    match command {
        Command::Ls(arguments) => ls::run(context, &arguments, output).await,
        Command::New(arguments) => new::run(context, &arguments).await,
        Command::Cat(arguments) => cat::run(context, &arguments, output).await,
        Command::Open(arguments) => open::run(context, &arguments, output).await,
        Command::Put(arguments) => put::run(context, &arguments).await,
        Command::Notify(arguments) => notify::run(context, &arguments).await,
        Command::Set(arguments) => set::run(context, &arguments).await,
        Command::Kill(arguments) => kill::run(context, &arguments).await,
        Command::Rename(arguments) => rename::run(context, &arguments).await,
        Command::Tools(arguments) => tools::run(context, &arguments, output).await,
        Command::Tool(arguments) => tool::run(context, arguments, output).await,
        Command::Hash(arguments) => hash::run(context, &arguments, output).await,
        Command::Log(arguments) => log::run(context, &arguments, output).await,
    }
}

fn session_label(given: Option<String>, inherited: Option<OsString>) -> Result<String, CliError> {
    let inherited = || {
        let label = inherited.filter(|label| !label.is_empty())?;
        Some(label.into_string().map_err(|label| {
            CliError::Usage(format!(
                "APEX_SESSION is {}, which is not UTF-8",
                label.display()
            ))
        }))
    };
    let label = match given {
        Some(label) => label,
        None => inherited()
            .transpose()?
            .unwrap_or_else(|| SESSION_DEFAULT.into()),
    };
    if label.is_empty() {
        return Err(CliError::Usage("the name of the session is empty".into()));
    }
    Ok(label)
}

fn working_directory() -> Result<PathBuf, CliError> {
    std::env::current_dir()
        .map_err(|error| CliError::Usage(format!("there is no working directory: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(words: &[&str]) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(std::iter::once("apex").chain(words.iter().copied()))
    }

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_file_named_like_a_command_opens_behind_two_dashes_or_with_its_directory() {
        for (words, files) in [
            (&["--", "ls"][..], &["ls"][..]),
            (&["./ls"], &["./ls"]),
            (&["a b", "ls"], &["a b", "ls"]),
            (&["--session", "x", "a:12"], &["a:12"]),
            (&[], &[]),
        ] {
            let arguments = parse(words).unwrap();
            assert!(arguments.command.is_none(), "{words:?}");
            assert_eq!(arguments.files, files, "{words:?}");
        }
    }

    #[test]
    fn a_command_takes_the_session_before_and_behind_its_name() {
        for words in [["--session", "x", "ls"], ["ls", "--session", "x"]] {
            let arguments = parse(&words).unwrap();
            assert!(
                matches!(arguments.command, Some(Command::Ls(_))),
                "{words:?}"
            );
            assert_eq!(arguments.session.as_deref(), Some("x"), "{words:?}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for words in [
            &["--watch", "--steal"][..],
            &["kill"],
            &["log", "bufer/1"],
            &["tool", "grant"],
            &["tool", "grant", "tidy", "--dev", "/x"],
            &["open"],
            &["--no-such-flag"],
        ] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn the_session_is_the_one_given_else_inherited_else_main() {
        let label = |given: Option<&str>, inherited: Option<&str>| {
            session_label(given.map(Into::into), inherited.map(Into::into))
        };
        assert_eq!(label(Some("a"), Some("b")).unwrap(), "a");
        assert_eq!(label(None, Some("b")).unwrap(), "b");
        assert_eq!(label(None, Some("")).unwrap(), "main");
        assert_eq!(label(None, None).unwrap(), "main");
        assert!(matches!(
            label(Some(""), Some("b")),
            Err(CliError::Usage(_))
        ));
    }
}
