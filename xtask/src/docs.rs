//! Generated documents: what is committed must be what its sources say now.
//!
//! `docs/conformance-mqtt.md` is made here. The others are made by tests of the crates that know them; such a test has
//! `documents` in its name, compares, and writes anew when `UPDATE_DOCS` is set.

mod conformance;

use std::fs;

use crate::program::Program;
use crate::report::Outcome;

const CONFORMANCE: &str = "docs/conformance-mqtt.md";

/// Compares, or with `bless` writes.
pub fn run(bless: bool) -> Outcome {
    let unit = [
        "test",
        "--quiet",
        "--workspace",
        "--exclude",
        "thalweg-tests",
        // Not the examples in comments, which would be compiled.
        "--lib",
        "--bins",
        "--tests",
    ];
    let mut tests = Program::cargo(unit).with_dds().args(["documents"]);
    if bless {
        tests = tests.env("UPDATE_DOCS", "1");
    }
    let mut outcome = tests.outcome_of_tests();
    let path = crate::tree().join(CONFORMANCE);
    match conformance::generate(&crate::tree()) {
        Err(why) => outcome.fail(why),
        Ok(text) if bless => match fs::write(&path, text) {
            Ok(()) => outcome.passed += 1,
            Err(error) => outcome.fail(format!("{CONFORMANCE}: {error}")),
        },
        Ok(text) if fs::read_to_string(&path).is_ok_and(|committed| committed == text) => {
            outcome.passed += 1
        }
        Ok(_) => outcome.fail(format!(
            "{CONFORMANCE} is stale: run `cargo xtask docs --bless`"
        )),
    }
    outcome
}
