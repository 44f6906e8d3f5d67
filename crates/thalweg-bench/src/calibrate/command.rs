//! `thalweg bench calibrate`.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use clap::Args;
use serde_json::{Value, json};

use super::{CHECKS, Check, Finding, Verdict, Wishes};
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
    let mut done: Vec<(Check, Vec<Finding>)> = Vec::new();
    for check in CHECKS
        .iter()
        .filter(|check| args.only.is_empty() || args.only.contains(&check.number))
    {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        eprintln!("{} {}: {}", check.number, check.name, check.about);
        let findings = (check.run)(&wishes, &stop);
        // What was cut short says nothing.
        if !stop.load(Ordering::Relaxed) {
            done.push((*check, findings));
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
    let is_missed = done
        .iter()
        .flat_map(|(_, findings)| findings)
        .any(|finding| finding.verdict == Verdict::Missed);
    Ok(match (is_interrupted, is_missed) {
        (true, _) => Outcome::Interrupted,
        (false, true) => Outcome::ShapeFailed,
        (false, false) => Outcome::Done,
    })
}

fn told(wishes: &Wishes, done: &[(Check, Vec<Finding>)], is_interrupted: bool) -> Value {
    let tests: Vec<Value> = done
        .iter()
        .map(|(check, findings)| json!({ "number": check.number, "name": check.name, "findings": findings }))
        .collect();
    let holds = done
        .iter()
        .flat_map(|(_, findings)| findings)
        .all(|finding| finding.verdict != Verdict::Missed);
    json!({
        "machine": machine(),
        "seed": wishes.seed,
        "quick": wishes.quick,
        "interrupted": is_interrupted,
        "holds": holds,
        "tests": tests,
    })
}

/// For people: one line for each finding, what was expected below if it did not come out.
fn table(done: &[(Check, Vec<Finding>)]) -> String {
    let mut text = String::new();
    for (check, findings) in done {
        text.push_str(&format!("{} {}\n", check.number, check.name));
        for finding in findings {
            let word = match &finding.verdict {
                Verdict::Held => "ok",
                Verdict::Missed => "MISSED",
                Verdict::Told => "-",
                Verdict::Skipped(_) => "skipped",
            };
            text.push_str(&format!("  {word:<8} {}\n", finding.what));
            for (name, words) in [
                ("expected", &finding.expected),
                ("measured", &finding.measured),
            ] {
                if !words.is_empty() {
                    text.push_str(&format!("           {name}: {words}\n"));
                }
            }
            if let Verdict::Skipped(why) = &finding.verdict {
                text.push_str(&format!("           {why}\n"));
            }
        }
    }
    text
}

fn check_named(text: &str) -> Result<u8, String> {
    let names: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
    let found = CHECKS
        .iter()
        .find(|check| check.name == text || check.number.to_string() == text);
    found
        .map(|check| check.number)
        .ok_or_else(|| format!("{text} is none of {}, or 1 to 6", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_by_number_and_by_name() {
        assert_eq!((check_named("3"), check_named("stall")), (Ok(3), Ok(2)));
        assert!(check_named("7").is_err() && check_named("").is_err());
        assert!(
            CHECKS
                .iter()
                .enumerate()
                .all(|(place, check)| usize::from(check.number) == place + 1)
        );
    }

    #[test]
    fn a_table_says_what_was_expected_and_what_was_found() {
        let findings = vec![
            Finding::new("a wait", "2 ms", "3 ms", false),
            Finding::told("a speed", "9/s"),
            Finding::skipped("a link", "needs root"),
        ];
        let text = table(&[(CHECKS[0], findings)]);
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
