//! Each fuzz target for a bounded time, with the pinned toolchain.

use crate::program::Program;
use crate::report::Outcome;

const CARGO_FUZZ_VERSION: &str = "0.13.2";

/// Runs the targets in `fuzz/` (those whose names contain `filter`) for `seconds` each.
pub fn run(seconds: u32, filter: Option<&str>) -> Outcome {
    let folder = crate::tree().join("fuzz/fuzz_targets");
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) => return Outcome::failed(format!("{}: {error}", folder.display())),
    };
    let mut targets: Vec<String> = entries
        .flatten()
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".rs")?.to_owned()))
        .collect();
    targets.retain(|target| filter.is_none_or(|filter| target.contains(filter)));
    targets.sort();
    if targets.is_empty() {
        return Outcome::failed(format!("no target in {}", folder.display()));
    }
    if Program::cargo(["fuzz", "--version"]).output().is_err() {
        let install = Program::cargo([
            "install",
            "--locked",
            "cargo-fuzz",
            "--version",
            CARGO_FUZZ_VERSION,
        ]);
        if let Err(why) = install.run() {
            return Outcome::failed(why);
        }
    }
    let mut outcome = Outcome::default();
    for target in targets {
        // Coverage instrumentation is a nightly option; RUSTC_BOOTSTRAP lets the pinned compiler have it. Without a sanitizer:
        // the crates under test forbid unsafe code, what we look for is panics.
        let run = Program::cargo(["fuzz", "run", "--sanitizer", "none"])
            .args([target.as_str(), "--"])
            .args([format!("-max_total_time={seconds}")])
            .env("RUSTC_BOOTSTRAP", "1")
            .run();
        match run {
            Ok(()) => outcome.passed += 1,
            Err(why) => outcome.fail(why),
        }
    }
    outcome
}
