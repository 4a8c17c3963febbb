//! `cargo xtask sim`: runs worlds, and prints those that fail.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use apex_sim::cases::Case;
use apex_sim::run::{Choice, Kind, run};
use apex_sim::shrink::shrink;

/// Where shrunk worlds are written.
const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/cases");

/// What was asked for.
#[derive(Debug)]
struct Args {
    first: u64,
    count: u64,
    is_telling: bool,
    is_shrinking: bool,
    is_canaries: bool,
    choice: Choice,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match parse(&words) {
        Ok(args) if args.is_canaries => canaries(&args).map_err(|error| error.to_string()),
        Ok(args) => work(&args).map_err(|error| error.to_string()),
        Err(words) => Err(words),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(words) => {
            // Nobody is left to tell.
            let _ = writeln!(io::stderr(), "sim: {words}").is_ok();
            ExitCode::FAILURE
        }
    }
}

/// Switches on one known bug after the other, and says after how many worlds each is found.
#[cfg(feature = "canaries")]
fn canaries(args: &Args) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    std::panic::set_hook(Box::new(|_| {}));
    let mut are_found = true;
    for canary in apex_sim::canaries::Canary::ALL {
        let found = apex_sim::canaries::find(*canary, args.first..args.first + args.count);
        match found {
            Some((count, failure)) => writeln!(out, "{canary:?}: {count} worlds; {failure}")?,
            None => {
                are_found = false;
                writeln!(out, "{canary:?}: not found in {} worlds", args.count)?;
            }
        }
    }
    Ok(are_found)
}

#[cfg(not(feature = "canaries"))]
fn canaries(_: &Args) -> io::Result<bool> {
    Err(io::Error::other("built without the feature `canaries`"))
}

/// Shrinks a failing world and writes it as a case.
fn write_case(seed: u64, choice: &Choice, out: &mut impl Write) -> io::Result<()> {
    let Some((choice, oracle)) = shrink(seed, choice) else {
        return Ok(());
    };
    let count = choice.kept.as_ref().map_or(0, BTreeSet::len);
    let fails = Some(oracle.to_owned());
    let case = Case {
        seed,
        choice,
        fails,
    };
    let path = format!("{CASES}/seed-{seed}.case");
    std::fs::write(&path, case.to_text())?;
    writeln!(out, "  {count} decisions are left: {path}")
}

fn parse(words: &[String]) -> Result<Args, String> {
    let mut args = Args {
        first: 1,
        count: 1000,
        is_telling: false,
        is_shrinking: false,
        is_canaries: false,
        choice: Choice::default(),
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        let number = |text: &String| text.parse().map_err(|_| format!("{text} is no number"));
        match word.as_str() {
            "--seeds" => args.count = number(value()?)?,
            "--from" => args.first = number(value()?)?,
            "--seed" => (args.first, args.count) = (number(value()?)?, 1),
            "--case" => {
                let path = value()?;
                let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
                let case: Case = text.parse()?;
                (args.first, args.count, args.choice) = (case.seed, 1, case.choice);
            }
            "--canaries" => args.is_canaries = true,
            "--shrink" => args.is_shrinking = true,
            "--tell" => args.is_telling = true,
            "--off" => {
                args.choice.off.insert(value()?.parse()?);
            }
            "--only" => {
                let kind: Kind = value()?.parse()?;
                let others = Kind::ALL.iter().filter(|other| other.is_fault());
                let others = others.filter(|other| **other != kind);
                args.choice.off.extend(others);
            }
            _ => return Err(format!("there is no `{word}`")),
        }
    }
    Ok(args)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the speed is printed, and decides nothing"
)]
fn work(args: &Args) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    let begin = Instant::now();
    let mut fired: BTreeMap<Kind, u64> = BTreeMap::new();
    let mut failed: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    let mut simulated_us = 0;
    std::panic::set_hook(Box::new(|_| {}));
    for seed in args.first..args.first + args.count {
        let report = run(seed, &args.choice, args.is_telling);
        simulated_us += report.simulated_us;
        for (kind, count) in report.fired {
            *fired.entry(kind).or_default() += count;
        }
        for line in &report.words {
            writeln!(out, "{line}")?;
        }
        if let Some(failure) = report.failure {
            let seeds = failed.entry(failure.oracle).or_default();
            seeds.push(seed);
            if seeds.len() <= 3 {
                writeln!(out, "seed {seed}: {failure}")?;
            }
            if args.is_shrinking && seeds.len() <= 3 {
                write_case(seed, &args.choice, &mut out)?;
            }
        }
    }
    let took = begin.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "figures for a person")]
    let (seeds, hours) = (args.count as f64, simulated_us as f64 / 3.6e9);
    let rate = seeds / took * 60.0;
    writeln!(
        out,
        "{} seeds in {took:.1} s: {rate:.0} a minute and core, {:.0} simulated hours a day",
        args.count,
        hours / took * 86400.0
    )?;
    let counts: Vec<String> = Kind::ALL
        .iter()
        .map(|kind| format!("{kind} {}", fired.get(kind).unwrap_or(&0)))
        .collect();
    writeln!(out, "came to pass: {}", counts.join(", "))?;
    for (oracle, seeds) in &failed {
        let first: Vec<String> = seeds.iter().take(12).map(u64::to_string).collect();
        writeln!(
            out,
            "{} failed: {oracle}: seeds {}",
            seeds.len(),
            first.join(" ")
        )?;
    }
    if failed.is_empty() {
        writeln!(out, "every world held")?;
    }
    Ok(failed.is_empty())
}
