//! Results of the steps, as a table and a last line.

use std::fs;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Counts of one step, with a sentence for each failure that is not a test's own.
#[derive(Debug, Default, PartialEq)]
pub struct Outcome {
    /// Tests or checks that held.
    pub passed: u32,
    /// Tests or checks that did not.
    pub failed: u32,
    /// Tests left out on purpose.
    pub ignored: u32,
    /// Processor time of its process and of what that waited for, in seconds; of a step that shares its process none.
    pub processor: Option<f32>,
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

    /// Both together, as one step.
    pub fn and(mut self, other: Self) -> Self {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.reasons.extend(other.reasons);
        self
    }

    /// Reads the row of a step from a table of [`Report`].
    pub fn of_row(line: &str, step: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let is_row = words.next() == Some(step) && line.split_whitespace().count() == 6;
        let mut count = || words.next()?.parse().ok();
        let (passed, failed, ignored) = (count()?, count()?, count()?);
        is_row.then(|| Self {
            passed,
            failed,
            ignored,
            processor: words.nth(1).and_then(|seconds| seconds.parse().ok()),
            reasons: Vec::new(),
        })
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

/// All steps of one run, in the order in which they ended; steps may run beside each other.
#[derive(Debug)]
pub struct Report {
    begun: Instant,
    rows: Mutex<Vec<(&'static str, Outcome, Duration)>>,
}

impl Report {
    pub fn new() -> Self {
        Self {
            begun: Instant::now(),
            rows: Mutex::default(),
        }
    }

    /// Runs a step and remembers what it came to; says whether nothing failed.
    pub fn run(&self, name: &'static str, step: impl FnOnce() -> Outcome) -> bool {
        println!("\n== {name}");
        let start = Instant::now();
        let outcome = step();
        for reason in &outcome.reasons {
            println!("{name}: {reason}");
        }
        let is_good = outcome.failed == 0;
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.push((name, outcome, start.elapsed()));
        is_good
    }

    /// Prints the table and the last line; the exit code says whether anything failed.
    pub fn finish(self) -> ExitCode {
        let (table, failed) = self.table();
        print!("\n{table}");
        match failed {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        }
    }

    fn table(&self) -> (String, u32) {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let all = processor_seconds();
        let mut table = format!(
            "{:<20}{:>8}{:>8}{:>9}{:>9}{:>11}\n",
            "step", "passed", "failed", "ignored", "seconds", "processor"
        );
        for (name, outcome, took) in rows.iter() {
            // All that this process did is its only step's.
            let of_step = outcome.processor.or(all.filter(|_| rows.len() == 1));
            table += &format!(
                "{name:<20}{:>8}{:>8}{:>9}{:>9.1}{}\n",
                outcome.passed,
                outcome.failed,
                outcome.ignored,
                took.as_secs_f32(),
                column(of_step)
            );
        }
        if rows.len() > 1 {
            let wall = self.begun.elapsed().as_secs_f32();
            table += &format!("{:<45}{wall:>9.1}{}\n", "from begin to end", column(all));
        }
        let sum =
            |count: fn(&Outcome) -> u32| rows.iter().map(|(_, outcome, _)| count(outcome)).sum();
        let (passed, failed): (u32, u32) = (sum(|it| it.passed), sum(|it| it.failed));
        table += &format!("{passed} passed, {failed} failed\n");
        (table, failed)
    }
}

fn column(processor: Option<f32>) -> String {
    processor.map_or_else(
        || format!("{:>11}", "-"),
        |seconds| format!("{seconds:>11.1}"),
    )
}

/// Processor time of this process and of the children that it waited for: proc(5), `/proc/pid/stat`, utime to cstime, in
/// hundredths of a second.
fn processor_seconds() -> Option<f32> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, after_name) = stat.rsplit_once(") ")?;
    let ticks = after_name.split(' ').skip(11).take(4);
    let ticks = ticks.map(|field| field.parse::<f32>().ok());
    Some(ticks.sum::<Option<f32>>()? / 100.0)
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
        let report = Report::new();
        assert!(report.run("a", || Outcome::passed(2)));
        assert!(!report.run("b", || Outcome::failed("broken")));
        let of_own_process = |processor| Outcome {
            processor,
            ..Outcome::passed(0)
        };
        report.run("c", || of_own_process(Some(7.5)));
        let (table, failed) = report.table();
        assert!(table.ends_with("\n2 passed, 1 failed\n"));
        assert_eq!(failed, 1);
        let row = |step| table.lines().find_map(|line| Outcome::of_row(line, step));
        assert_eq!(row("a"), Some(Outcome::passed(2)));
        assert_eq!(row("c"), Some(of_own_process(Some(7.5))));
        assert_eq!(row("b").map(|row| row.failed), Some(1));
        assert_eq!(row("from"), None);
    }
}
