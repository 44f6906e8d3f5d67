//! What each step came to, and the table and last line that say so.

use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Counts of one step, with a sentence for each failure that is not a test's own.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Tests or checks that held.
    pub passed: u32,
    /// Tests or checks that did not.
    pub failed: u32,
    /// Tests left out on purpose.
    pub ignored: u32,
    /// Why, where the output above does not say.
    pub reasons: Vec<String>,
}

impl Outcome {
    pub fn passed(count: u32) -> Self {
        Self {
            passed: count,
            ..Self::default()
        }
    }

    pub fn failed(why: impl Into<String>) -> Self {
        let mut outcome = Self::default();
        outcome.fail(why);
        outcome
    }

    pub fn fail(&mut self, why: impl Into<String>) {
        self.failed += 1;
        self.reasons.push(why.into());
    }

    /// Adds the counts of a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out`.
    pub fn add_test_result(&mut self, line: &str) {
        let Some(counts) = line
            .strip_prefix("test result: ")
            .and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for count in counts.1.split(';') {
            let mut words = count.split_whitespace();
            let number = words
                .next()
                .and_then(|word| word.parse::<u32>().ok())
                .unwrap_or(0);
            match words.next() {
                Some("passed") => self.passed += number,
                Some("failed") => self.failed += number,
                Some("ignored") => self.ignored += number,
                _ => {}
            }
        }
    }
}

/// All steps of one run.
#[derive(Debug, Default)]
pub struct Report {
    rows: Vec<(&'static str, Outcome, Duration)>,
}

impl Report {
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs a step and remembers what it came to; a failed step does not keep the next from running.
    pub fn run(&mut self, name: &'static str, step: impl FnOnce() -> Outcome) -> &Outcome {
        println!("\n== {name}");
        let start = Instant::now();
        let outcome = step();
        for reason in &outcome.reasons {
            println!("{name}: {reason}");
        }
        self.rows.push((name, outcome, start.elapsed()));
        &self.rows[self.rows.len() - 1].1
    }

    /// Prints the table and the last line; the exit code says whether anything failed.
    pub fn finish(self) -> ExitCode {
        print!("\n{}", self.table());
        if self.failed() == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }

    fn table(&self) -> String {
        let mut table = format!(
            "{:<20}{:>8}{:>8}{:>9}{:>9}\n",
            "step", "passed", "failed", "ignored", "seconds"
        );
        for (name, outcome, took) in &self.rows {
            table += &format!(
                "{name:<20}{:>8}{:>8}{:>9}{:>9.1}\n",
                outcome.passed,
                outcome.failed,
                outcome.ignored,
                took.as_secs_f32()
            );
        }
        let passed: u32 = self.rows.iter().map(|(_, outcome, _)| outcome.passed).sum();
        table + &format!("{passed} passed, {} failed\n", self.failed())
    }

    fn failed(&self) -> u32 {
        self.rows.iter().map(|(_, outcome, _)| outcome.failed).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_results_add_up_and_other_lines_do_not() {
        let mut outcome = Outcome::default();
        outcome.add_test_result(
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 9 filtered out; finished in 0.00s",
        );
        outcome.add_test_result(
            "test result: FAILED. 2 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out",
        );
        outcome.add_test_result("7 passed; 7 failed");
        assert_eq!((outcome.passed, outcome.failed, outcome.ignored), (5, 4, 1));
    }

    #[test]
    fn the_last_line_counts_every_step() {
        let mut report = Report::new();
        report.run("a", || Outcome::passed(2));
        report.run("b", || Outcome::failed("broken"));
        assert!(report.table().ends_with("\n2 passed, 1 failed\n"));
        assert_eq!(report.failed(), 1);
    }
}
