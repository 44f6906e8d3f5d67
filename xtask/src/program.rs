//! Running other programs: shown as it is typed, output passed on, test counts read from it.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::report::Outcome;

/// A command that runs in the root of the tree.
#[derive(Debug)]
pub struct Program {
    command: Command,
}

impl Program {
    /// Any program by name.
    pub fn new(name: &str) -> Self {
        let mut command = Command::new(name);
        command.current_dir(crate::tree()).stdin(Stdio::null());
        Self { command }
    }

    /// The cargo that runs this task.
    pub fn cargo<const N: usize>(words: [&str; N]) -> Self {
        Self::new(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())).args(words)
    }

    /// Of the whole workspace: with the bridge into DDS, where what it is compiled with is there. All steps say the same, so that
    /// nothing is compiled twice.
    pub fn with_dds(self) -> Self {
        let program = self.with_dds_peers();
        match crate::packages::libclang() {
            Some(folder) if crate::packages::has_dds() => program
                .env("LIBCLANG_PATH", &folder.display().to_string())
                .args(["--features", "thalweg-dds/cyclone"]),
            _ => program,
        }
    }

    /// With what the bridge into DDS is tested against, where it is there.
    pub fn with_dds_peers(self) -> Self {
        let peers = [
            ("THALWEG_DDS_PYTHON", crate::workshop::python_program()),
            ("THALWEG_DDS_FAST", crate::workshop::fastdds_program()),
        ];
        let there = peers.iter().filter(|(_, peer)| Path::new(peer).exists());
        there.fold(self, |program, (name, peer)| program.env(name, peer))
    }

    pub fn args<S: AsRef<std::ffi::OsStr>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.command.args(words);
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Another folder than the root of the tree.
    pub fn folder(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Ends it, and what it started, after so many seconds; then it has failed.
    pub fn within(self, seconds: u64) -> Self {
        let own = self.command;
        let mut program = Self::new("timeout")
            .args([seconds.to_string()])
            .args([own.get_program()])
            .args(own.get_args());
        for (name, value) in own.get_envs() {
            program.command.env(name, value.unwrap_or_default());
        }
        program
            .command
            .current_dir(own.get_current_dir().unwrap_or(&crate::tree()));
        program
    }

    /// Runs it; success is one thing passed.
    pub fn outcome(self) -> Outcome {
        match self.run() {
            Ok(()) => Outcome::passed(1),
            Err(why) => Outcome::failed(why),
        }
    }

    /// Runs it with its output shown; says how it failed.
    pub fn run(mut self) -> Result<(), String> {
        let shown = self.shown();
        println!("$ {shown}");
        let status = self
            .command
            .status()
            .map_err(|error| format!("cannot start `{shown}`: {error}"))?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("`{shown}` ended with {status}"))
        }
    }

    /// Runs it quietly; returns what it wrote to its two outputs.
    pub fn output(mut self) -> Result<(String, String), String> {
        let shown = self.shown();
        let output = self
            .command
            .output()
            .map_err(|error| format!("cannot start `{shown}`: {error}"))?;
        let (stdout, stderr) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        if !output.status.success() {
            return Err(format!(
                "`{shown}` ended with {}\n{stdout}{stderr}",
                output.status
            ));
        }
        Ok((stdout.into_owned(), stderr.into_owned()))
    }

    /// Runs it with its errors shown; returns what it wrote to standard output.
    pub fn stdout(mut self) -> Result<String, String> {
        let shown = self.shown();
        println!("$ {shown}");
        let output = self.command.stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| format!("cannot start `{shown}`: {error}"))?;
        if !output.status.success() {
            return Err(format!("`{shown}` ended with {}", output.status));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs a test program (or many), passes its output on and adds up its `test result:` lines; no test at all is a failure.
    pub fn outcome_of_tests(self) -> Outcome {
        let shown = self.shown();
        let mut outcome = self.outcome_of_tests_or_none();
        if outcome.passed + outcome.failed == 0 {
            outcome.fail(format!("`{shown}` ran no test"));
        }
        outcome
    }

    /// The same for a program that may have no tests.
    pub fn outcome_of_tests_or_none(self) -> Outcome {
        self.outcome_of_tests_shown(|line| {
            // The reader of our output may have gone; the tests still count.
            let _ = writeln!(std::io::stdout(), "{line}");
        })
    }

    /// The same beside others: the output is passed on when it is whole.
    pub fn outcome_of_tests_at_once(self) -> Outcome {
        let mut output = String::new();
        let outcome = self.outcome_of_tests_shown(|line| output += &format!("{line}\n"));
        let _ = std::io::stdout().write_all(output.as_bytes());
        outcome
    }

    fn outcome_of_tests_shown(mut self, mut show: impl FnMut(&str)) -> Outcome {
        let mut outcome = Outcome::default();
        let ended = self.for_each_line(|line| {
            show(line);
            outcome.add_test_result(line);
        });
        match ended {
            // A failed test makes cargo fail; anything else that does must not pass unseen.
            Err(why) if outcome.failed == 0 => outcome.fail(why),
            _ => {}
        }
        outcome
    }

    /// Builds with cargo. Passes if everything is there, and fails for each complaint of the compiler's, which it makes twice
    /// about a library that has tests in it.
    pub fn outcome_of_build(self) -> Outcome {
        let mut complaints = BTreeSet::new();
        let ended = self
            .args(["--message-format", "json"])
            .for_each_line(|line| {
                let message = serde_json::from_str::<Value>(line).unwrap_or_default();
                complaints.extend(message["message"]["rendered"].as_str().map(str::to_owned));
            });
        let mut outcome = ended.map_or_else(Outcome::failed, |()| Outcome::passed(1));
        complaints.into_iter().for_each(|it| outcome.fail(it));
        outcome
    }

    /// Runs it and shows each line of its standard output to `see`; says how it failed.
    fn for_each_line(&mut self, mut see: impl FnMut(&str)) -> Result<(), String> {
        let shown = self.shown();
        println!("$ {shown}");
        let child = self.command.stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| format!("cannot start `{shown}`: {error}"))?;
        let output = child.stdout.take().expect("the pipe was asked for");
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            see(&line);
        }
        match child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("`{shown}` ended with {status}")),
            Err(error) => Err(format!("`{shown}`: {error}")),
        }
    }

    /// Runs a step of this task in a process of its own: its lines are passed on with its name in front, its counts are those
    /// of its table.
    pub fn outcome_of_step(mut self, step: &str) -> Outcome {
        let mut outcome = None;
        let ended = std::io::pipe().and_then(|(reader, writer)| {
            self.command.stdout(writer.try_clone()?).stderr(writer);
            let mut child = self.command.spawn()?;
            // The pipe ends with the last of its writers, of which we are one.
            drop(self.command);
            for line in BufReader::new(reader).lines().map_while(Result::ok) {
                let _ = writeln!(std::io::stdout(), "{step:<12}| {line}");
                outcome = Outcome::of_row(&line, step).or(outcome.take());
            }
            child.wait()
        });
        match (ended, outcome) {
            (Ok(_), Some(outcome)) => outcome,
            (Ok(status), None) => Outcome::failed(format!("{step} ended with {status}")),
            (Err(error), _) => Outcome::failed(format!("{step} cannot be started: {error}")),
        }
    }

    fn shown(&self) -> String {
        let words = std::iter::once(self.command.get_program()).chain(self.command.get_args());
        words
            .map(|word| word.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" ")
    }
}
