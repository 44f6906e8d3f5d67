//! Instructions per operation: the same on every machine, so a regression can fail the build.
//!
//! `thalweg-instructions` is one program with the operations of all crates. Under valgrind it does each in two processes, N and 2 N
//! times; the difference divided by N is the cost of one, free of start-up and set-up. `bench-results/instructions.toml` has a
//! table per crate.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::packages;
use crate::program::Program;
use crate::report::Outcome;

const RESULTS: &str = "bench-results/instructions.toml";

/// An operation may cost this much more than its committed count: hash seeds and allocation addresses move it a little.
const TOLERANCE: f64 = 1.03;

/// Repetitions of the shorter run.
const REPETITIONS: u64 = 2_000;

/// Crate to operation to instructions.
type Counts = BTreeMap<String, BTreeMap<String, f64>>;

/// Measures and compares, or with `bless` writes; `filter` selects operations by part of their name.
pub fn run(bless: bool, filter: Option<&str>) -> Outcome {
    if let Err(why) = packages::for_instruction_counts() {
        return Outcome::failed(why);
    }
    let path = crate::tree().join(RESULTS);
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let committed = match parse(&committed) {
        Ok(counts) => counts,
        Err(why) => return Outcome::failed(format!("{RESULTS}: {why}")),
    };
    let measured = match measure(filter) {
        Ok(counts) => counts,
        Err(why) => return Outcome::failed(why),
    };
    if !bless {
        return compare(&committed, &measured, filter.is_some());
    }
    let mut counts = if filter.is_some() {
        committed
    } else {
        Counts::new()
    };
    for (krate, operations) in &measured {
        counts
            .entry(krate.clone())
            .or_default()
            .extend(operations.clone());
    }
    let written = fs::create_dir_all(path.with_file_name(""))
        .and_then(|()| fs::write(&path, render(&counts)));
    match written {
        Ok(()) => Outcome::passed(
            measured
                .values()
                .map(|operations| operations.len() as u32)
                .sum(),
        ),
        Err(error) => Outcome::failed(format!("{RESULTS}: {error}")),
    }
}

/// Compiles the program; returns its file.
pub fn program() -> Result<String, String> {
    let build = [
        "build",
        "--package",
        "thalweg-instructions",
        "--profile",
        "bench",
        "--message-format",
        "json-render-diagnostics",
    ];
    let messages = Program::cargo(build).stdout()?;
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|message| Some(message["executable"].as_str()?.to_owned()))
        .ok_or_else(|| "cargo does not say where the program is".to_owned())
}

fn measure(filter: Option<&str>) -> Result<Counts, String> {
    let program = program()?;
    let (lines, log) = Program::new("valgrind")
        .args([
            "--tool=cachegrind",
            "--cache-sim=no",
            "--vgdb=no",
            "--cachegrind-out-file=/dev/null",
            &program,
        ])
        .args([&REPETITIONS.to_string()])
        .args(filter)
        .output()?;
    let totals = totals_of(&log);
    let mut counts = Counts::new();
    for line in lines.lines() {
        let [krate, name, short, long] = line.split(' ').collect::<Vec<_>>()[..] else {
            return Err(format!("an operation's line is not known: {line}"));
        };
        let total = |process| {
            let total = totals.get(process).copied();
            total.ok_or_else(|| format!("valgrind does not say how many instructions {name} took"))
        };
        let each = total(long)?.saturating_sub(total(short)?) as f64 / REPETITIONS as f64;
        println!("{krate:<20} {name:<40} {each:>12.1} instructions");
        counts
            .entry(krate.to_owned())
            .or_default()
            .insert(name.to_owned(), (each * 10.0).round() / 10.0);
    }
    if counts.is_empty() {
        Err("no instruction bench matched".to_owned())
    } else {
        Ok(counts)
    }
}

/// Instructions of each process by its number, as cachegrind writes them: `==123== I   refs:      1,234,567`.
fn totals_of(log: &str) -> BTreeMap<&str, u64> {
    log.lines().filter_map(total_of).collect()
}

fn total_of(line: &str) -> Option<(&str, u64)> {
    let (process, rest) = line.strip_prefix("==")?.split_once("== I")?;
    let (_, number) = rest.split_once("refs:")?;
    let digits: String = number.chars().filter(char::is_ascii_digit).collect();
    Some((process, digits.parse().ok()?))
}

fn compare(committed: &Counts, measured: &Counts, partial: bool) -> Outcome {
    let mut outcome = Outcome::default();
    for (krate, operations) in measured {
        for (name, &now) in operations {
            match committed.get(krate).and_then(|operations| operations.get(name)) {
                None => outcome.fail(format!("{krate} {name}: not in {RESULTS}; run with --bless")),
                Some(&before) if now > before * TOLERANCE + 1.0 => outcome.fail(format!(
                    "{krate} {name}: {before} instructions became {now} ({:+.1} %); mend it, or run with --bless and say \
                     why in the commit",
                    (now / before - 1.0) * 100.0
                )),
                Some(&before) => {
                    if now < before / TOLERANCE - 1.0 {
                        println!("{krate} {name}: {before} became {now}; --bless keeps it there");
                    }
                    outcome.passed += 1;
                }
            }
        }
    }
    for (krate, operations) in committed.iter().filter(|_| !partial) {
        for name in operations.keys() {
            if !measured
                .get(krate)
                .is_some_and(|operations| operations.contains_key(name))
            {
                outcome.fail(format!(
                    "{krate} {name}: in {RESULTS} but no bench has it; run with --bless"
                ));
            }
        }
    }
    outcome
}

fn parse(text: &str) -> Result<Counts, String> {
    let table: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| error.to_string())?;
    let mut counts = Counts::new();
    for (krate, operations) in table {
        let operations = operations
            .as_table()
            .ok_or_else(|| format!("{krate} is no table"))?
            .clone();
        for (name, value) in operations {
            let number = value
                .as_float()
                .or_else(|| value.as_integer().map(|number| number as f64));
            let number = number.ok_or_else(|| format!("{krate} {name} is no number"))?;
            counts
                .entry(krate.clone())
                .or_default()
                .insert(name, number);
        }
    }
    Ok(counts)
}

fn render(counts: &Counts) -> String {
    let mut text = "# Instructions per operation (x86-64, release profile, valgrind). Written by \
                    `cargo xtask bench-instructions --bless`.\n"
        .to_owned();
    for (krate, operations) in counts {
        text += &format!("\n[{krate}]\n");
        for (name, count) in operations {
            text += &format!("{name} = {count:.1}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(number: f64) -> Counts {
        Counts::from([("c".to_owned(), BTreeMap::from([("op".to_owned(), number)]))])
    }

    #[test]
    fn valgrind_says_how_many() {
        let log = "==7== \n==7== I   refs:      1,234,567\n==8== I refs:        42\nnothing\n";
        assert_eq!(
            totals_of(log),
            BTreeMap::from([("7", 1_234_567), ("8", 42)])
        );
    }

    #[test]
    fn a_regression_fails_and_a_little_more_does_not() {
        assert_eq!(compare(&counts(1000.0), &counts(1030.0), false).failed, 0);
        assert_eq!(compare(&counts(1000.0), &counts(1032.0), false).failed, 1);
        assert_eq!(
            compare(&counts(1000.0), &counts(500.0), false),
            Outcome::passed(1)
        );
    }

    #[test]
    fn what_only_one_side_knows_fails_unless_it_was_left_out_on_purpose() {
        assert_eq!(compare(&Counts::new(), &counts(1.0), false).failed, 1);
        assert_eq!(compare(&counts(1.0), &Counts::new(), false).failed, 1);
        assert_eq!(compare(&counts(1.0), &Counts::new(), true).failed, 0);
    }

    #[test]
    fn what_is_written_reads_back() {
        assert_eq!(parse(&render(&counts(61.5))), Ok(counts(61.5)));
        assert!(parse("[c]\nop = \"many\"\n").is_err());
    }
}
