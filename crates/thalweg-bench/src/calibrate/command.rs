//! `thalweg bench calibrate`.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use clap::Args;
use serde_json::{Value, json};

use super::{CHECKS, Finding, Verdict, Wishes};
use crate::command::Outcome;
use crate::results::machine;
use crate::runner::stopper;

#[derive(Clone, Debug, Args)]
pub struct CalibrateArgs {
    /// Only these: numbers or names (ceiling, stall, queueing, link, frames, counting)
    #[arg(long, value_name = "TEST", value_delimiter = ',', value_parser = check_named)]
    only: Vec<u8>,
    /// Shorter: intervals are wider, and rare things may stay unseen
    #[arg(long)]
    quick: bool,
    /// What everything random is drawn from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where the findings are written
    #[arg(long, value_name = "FILE", default_value = "self-tests.json")]
    out: PathBuf,
    /// Print what is written
    #[arg(long)]
    json: bool,
}

pub fn run(args: &CalibrateArgs, out: &mut dyn Write) -> io::Result<Outcome> {
    let stop = stopper();
    let wishes = Wishes {
        seed: args.seed,
        quick: args.quick,
    };
    let mut done: Done = Vec::new();
    for (number, (name, about, check)) in (1..).zip(CHECKS) {
        if !args.only.is_empty() && !args.only.contains(&number) {
            continue;
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
        eprintln!("{number} {name}: {about}");
        let findings = check(&wishes, &stop);
        // What was cut short says nothing.
        if !stop.load(Ordering::Relaxed) {
            done.push((number, name, findings));
        }
    }
    let is_interrupted = stop.load(Ordering::Relaxed);
    let told = told(&wishes, &done, is_interrupted);
    let text = serde_json::to_string_pretty(&told)?;
    fs::write(&args.out, format!("{text}\n")).map_err(|error| {
        io::Error::new(error.kind(), format!("{}: {error}", args.out.display()))
    })?;
    match args.json {
        true => writeln!(out, "{text}")?,
        false => out.write_all(table(&done).as_bytes())?,
    }
    eprintln!("written: {}", args.out.display());
    let is_missed = is_missed(&done);
    Ok(match (is_interrupted, is_missed) {
        (true, _) => Outcome::Interrupted,
        (false, true) => Outcome::ShapeFailed,
        (false, false) => Outcome::Done,
    })
}

/// Number and name of a test, and what it found.
type Done = Vec<(u8, &'static str, Vec<Finding>)>;

pub fn is_missed(done: &Done) -> bool {
    let mut findings = done.iter().flat_map(|(_, _, findings)| findings);
    findings.any(|finding| finding.verdict == Verdict::Missed)
}

fn told(wishes: &Wishes, done: &Done, is_interrupted: bool) -> Value {
    let tests = done.iter().map(
        |(number, name, findings)| json!({ "number": number, "name": name, "findings": findings }),
    );
    json!({
        "machine": machine(),
        "seed": wishes.seed,
        "quick": wishes.quick,
        "interrupted": is_interrupted,
        "holds": !is_missed(done),
        "tests": tests.collect::<Vec<_>>(),
    })
}

/// For people: one line for each finding, what was expected below if it did not come out.
pub fn table(done: &Done) -> String {
    let mut text = String::new();
    for (number, name, findings) in done {
        text.push_str(&format!("{number} {name}\n"));
        for finding in findings {
            let (word, why) = match &finding.verdict {
                Verdict::Held => ("ok", ""),
                Verdict::Missed => ("MISSED", ""),
                Verdict::Told => ("-", ""),
                Verdict::Skipped(why) => ("skipped", why.as_str()),
            };
            text.push_str(&format!("  {word:<8} {}\n", finding.what));
            let (expected, measured) = (&finding.expected, &finding.measured);
            for (name, words) in [("expected: ", expected), ("measured: ", measured)] {
                if !words.is_empty() {
                    text.push_str(&format!("           {name}{words}\n"));
                }
            }
            if !why.is_empty() {
                text.push_str(&format!("           {why}\n"));
            }
        }
    }
    text
}

fn check_named(text: &str) -> Result<u8, String> {
    let mut checks = (1..).zip(CHECKS);
    let found = checks.find(|(number, it)| it.0 == text || number.to_string() == text);
    let found = found.map(|(number, _)| number);
    found.ok_or_else(|| {
        let names = CHECKS.map(|it| it.0).join(", ");
        format!("{text} is none of {names}, or 1 to 6")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_by_number_and_by_name() {
        assert_eq!((check_named("3"), check_named("stall")), (Ok(3), Ok(2)));
        assert!(check_named("7").is_err() && check_named("").is_err());
    }

    #[test]
    fn a_table_says_what_was_expected_and_what_was_found() {
        let findings = vec![
            Finding::new("a wait", "2 ms", "3 ms", false),
            Finding::told("a speed", "9/s"),
            Finding::skipped("a link", "needs root"),
        ];
        let text = table(&vec![(1, "ceiling", findings)]);
        for words in [
            "MISSED",
            "expected: 2 ms",
            "measured: 3 ms",
            "-        a speed",
            "skipped",
            "needs root",
        ] {
            assert!(text.contains(words), "{text}");
        }
    }
}
