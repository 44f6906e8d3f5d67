//! Tests that need minutes, luck or an idle machine, and are therefore no part of `test`.

use crate::crash::{self, Harm};
use crate::program::Program;
use crate::report::{Outcome, Report};
use crate::{Options, Step, fuzz, packages};

/// A part of a soak, by its name in the report.
type Part = (&'static str, fn(&Options) -> Outcome);

const PARTS: [Part; 6] = [
    ("kills", |options| crash_tests(Harm::Kill, options)),
    ("power-cuts", |options| crash_tests(Harm::Power, options)),
    ("abuse", abuse),
    ("seeds", seeds),
    ("groups", groups),
    ("fuzz", |options| fuzz::run(seconds(options), None)),
];

/// Runs the parts whose names contain the filter, one after another, `--minutes` each where a part has no end of its own.
pub fn run(options: &Options, report: &Report) {
    let filter = options.filter.as_deref().unwrap_or_default();
    let parts = PARTS.iter().filter(|(name, _)| name.contains(filter));
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        report.run("soak", || {
            let names = PARTS.map(|(name, _)| name).join(", ");
            Outcome::failed(format!("no part is called {filter}; there are {names}"))
        });
        return;
    }
    if crate::oracle() || report.run(Step::Build.word(), || Step::Build.run(options)) {
        for (name, part) in parts {
            report.run(name, || part(options));
        }
    }
}

fn seconds(options: &Options) -> u32 {
    (options.minutes * 60.0) as u32
}

fn crash_tests(harm: Harm, options: &Options) -> Outcome {
    crash::run(
        harm,
        options.minutes,
        options.seed.as_deref(),
        options.tests(),
    )
}

/// Each attack for as long as the audit asks (60 s), and the shares that count on an idle machine.
fn abuse(options: &Options) -> Outcome {
    match packages::for_integration() {
        Ok(()) => options
            .tests()
            .args(["abuse::", "--include-ignored"])
            .env("THALWEG_ABUSE_SECONDS", "60")
            .outcome_of_tests(),
        Err(why) => Outcome::failed(why),
    }
}

/// The simulation with ten times as many seeds as `suites` has time for.
fn seeds(_: &Options) -> Outcome {
    Program::cargo(["test", "--package", "thalweg-fronts", "--test", "sim"])
        .env("THALWEG_SIM_RUNS", "10000")
        .outcome_of_tests()
}

/// Every condition of the study of shared subscriptions, 100,000 messages each.
fn groups(_: &Options) -> Outcome {
    let bench = [
        "test",
        "--release",
        "--package",
        "thalweg-bench",
        "--test",
        "sim",
    ];
    Program::cargo(bench)
        .args(["--", "--ignored", "everything_that_is_asked_holds"])
        .outcome_of_tests()
}
