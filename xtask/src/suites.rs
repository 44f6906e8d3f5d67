//! `cargo xtask suites`: the test programs of every crate but `thalweg-tests`. Many wait for the network and the clock, and many
//! end with one long test, so two crates' programs run beside each other; a crate's own one after another, because those of the
//! bridge into DDS would meet in its domain.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;

use crate::Options;
use crate::program::Program;
use crate::report::Outcome;
use crate::test_programs::{TestProgram, built};

/// Crates whose programs take longest, the longest first; the others begin as these end.
const LONGEST: [&str; 4] = [
    "thalweg-dds",
    "thalweg-bench",
    "thalweg-fronts",
    "thalweg-admin",
];

/// How many run at a time.
const BESIDE: usize = 2;

pub fn run(options: &Options) -> Outcome {
    let build = options.crate_tests(&["--test", "*"]).args([
        "--no-run",
        "--message-format",
        "json-render-diagnostics",
    ]);
    let messages = match build.stdout() {
        Ok(messages) => messages,
        Err(why) => return Outcome::failed(why),
    };
    let rest = Mutex::new(by_crate(built(&messages)));
    let all = Mutex::new(Outcome::default());
    let next = || rest.lock().expect("no panic").pop();
    let work = || {
        while let Some(programs) = next() {
            for program in programs {
                let outcome = run_one(&program, options.filter.as_deref());
                let mut all = all.lock().expect("no panic");
                *all = std::mem::take(&mut *all).and(outcome);
            }
        }
    };
    thread::scope(|scope| (0..BESIDE).for_each(|_| drop(scope.spawn(work))));
    let mut outcome = all.into_inner().expect("no panic");
    if outcome.passed + outcome.failed == 0 {
        outcome.fail("no test was run");
    }
    outcome
}

fn run_one(program: &TestProgram, filter: Option<&str>) -> Outcome {
    Program::new(&program.file)
        .with_dds_peers()
        .folder(&program.folder)
        .args(["--quiet"])
        .args(filter)
        .outcome_of_tests_at_once()
}

/// The programs of each crate; what runs first is last.
fn by_crate(programs: Vec<TestProgram>) -> Vec<Vec<TestProgram>> {
    let mut crates: BTreeMap<String, Vec<TestProgram>> = BTreeMap::new();
    for program in programs {
        crates
            .entry(program.package.clone())
            .or_default()
            .push(program);
    }
    let place = |name: &str| LONGEST.iter().position(|it| *it == name);
    let mut crates: Vec<(String, Vec<TestProgram>)> = crates.into_iter().collect();
    crates.sort_by_key(|(name, _)| std::cmp::Reverse(place(name).unwrap_or(LONGEST.len())));
    crates.into_iter().map(|(_, programs)| programs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crates_programs_stay_together_and_the_longest_begin() {
        let program = |package: &str, target: &str| TestProgram {
            package: package.to_owned(),
            name: format!("-p {package} --test {target}"),
            file: target.to_owned(),
            folder: package.into(),
        };
        let mut crates = by_crate(vec![
            program("thalweg-kernel", "queues"),
            program("thalweg-dds", "bridge"),
            program("thalweg-kernel", "routes"),
            program("thalweg-admin", "broker"),
        ]);
        let mut next = || {
            let programs = crates.pop().unwrap_or_default();
            programs.into_iter().map(|it| it.file).collect::<Vec<_>>()
        };
        assert_eq!(next(), ["bridge"]);
        assert_eq!(next(), ["broker"]);
        assert_eq!(next(), ["queues", "routes"]);
    }
}
