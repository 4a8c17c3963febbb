//! `apex open`: shows a file in a session without being a screen.

use std::ffi::OsString;

use apex_core::ids::BufferId;
use apex_core::proposal::Change;
use apex_core::text::Text;

use crate::cli::ask::{Asker, Context, Missing};
use crate::cli::error::CliError;
use crate::cli::follow::{Following, Reading};
use crate::cli::output::Output;
use crate::cli::place::Place;

/// Opens files or directories in a session and shows them there; prints the ids of their buffers.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// What, and where in it: FILE, FILE:LINE, FILE:LINE:COLUMN or FILE:#POSITION.
    #[arg(value_name = "FILE[:ADDR]", required = true)]
    files: Vec<OsString>,
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
    let places: Vec<Place> = arguments
        .files
        .iter()
        .map(|file| Place::parse(file, &context.directory))
        .collect::<Result<_, _>>()?;
    let asker = Asker::connect(context, Missing::Start).await?;
    let mut following = Following::join(asker, context, "open").await?;
    following.begin_in(context).await?;
    for place in &places {
        let buffer = open(&mut following, place).await?;
        output.line(buffer)?;
    }
    following.leave().await
}

/// Shows a file as soon as something of it is there, and where to look in it once it was read.
async fn open(following: &mut Following, place: &Place) -> Result<BufferId, CliError> {
    let Place { path, address } = place;
    let opened = following.open(path).await?;
    let buffer = opened.buffer;
    let show = |address: &str| {
        let address = address.into();
        vec![Change::Show { buffer, address }]
    };
    if address.is_empty() || opened.reading != Reading::Done {
        following.propose(show("")).await?;
    }
    following.read_to_end(opened, path).await?;
    if address.is_empty() {
        return Ok(buffer);
    }
    let text = following
        .node()
        .state()
        .buffer(buffer)
        .map(|b| b.text().clone());
    let text = text.unwrap_or_default();
    if apex_core::address::resolve(&text, address).is_none() {
        following.propose(show("")).await?;
        return Err(CliError::NoAddress {
            name: path.clone(),
            address: address.clone(),
            line_count: lines_of(&text),
        });
    }
    following.propose(show(address)).await?;
    Ok(buffer)
}

/// Returns how many lines a text has for people: a newline at its end begins none.
fn lines_of(text: &Text) -> u64 {
    let len = text.len();
    let newlines = text.line_of(len);
    newlines + u64::from(text.line_start(newlines) < len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_as_people_do() {
        for (text, count) in [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n\n", 2)] {
            assert_eq!(lines_of(&Text::from(text)), count, "{text:?}");
        }
    }
}
