//! The Python bindings: built and installed as a user does it, then tested against the broker that was built before.

use std::fs;
use std::path::PathBuf;

use crate::program::Program;
use crate::report::Outcome;
use crate::{packages, workshop};

/// What builds and what tests, pinned.
const TOOLS: [&str; 3] = ["maturin==1.16.0", "mypy==1.18.2", "pytest==9.2.0"];

/// Installs the package into a virtual environment below `target/python` and runs its tests.
pub fn run(is_release: bool, filter: Option<&str>) -> Outcome {
    let folder = crate::tree().join("target/python");
    match packages::for_python().and_then(|()| install(&folder)) {
        Ok(()) => test(&folder, is_release, filter),
        Err(why) => Outcome::failed(why),
    }
}

fn install(folder: &std::path::Path) -> Result<(), String> {
    let python = workshop::text(&folder.join("bin/python"));
    if TOOLS.iter().any(|tool| {
        !folder
            .join("bin")
            .join(tool.split('=').next().unwrap_or_default())
            .is_file()
    }) {
        let _ = fs::remove_dir_all(folder);
        Program::new("python3")
            .args(["-m", "venv"])
            .args([folder])
            .run()?;
        Program::new(&python)
            .args(["-m", "pip", "install", "--quiet"])
            .args(TOOLS)
            .run()?;
    }
    // The tools are there already, so pip need not fetch them into an environment of its own; cargo's own folder makes
    // the next build short.
    let built = crate::tree().join("target/python-build");
    Program::new(&python)
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--force-reinstall",
            "--no-deps",
            "--no-build-isolation",
        ])
        .args(["./bindings/python"])
        .env("CARGO_TARGET_DIR", &workshop::text(&built))
        .env("MATURIN_PEP517_ARGS", "--profile dev --locked")
        .env("PATH", &path_with(folder.join("bin")))
        .run()
}

fn test(folder: &std::path::Path, is_release: bool, filter: Option<&str>) -> Outcome {
    let results = folder.join("results.xml");
    let profile = if is_release { "release" } else { "debug" };
    let broker = std::env::var("CARGO_TARGET_DIR")
        .map_or_else(|_| crate::tree().join("target"), PathBuf::from);
    let mut program = Program::new(&workshop::text(&folder.join("bin/python")))
        .args([
            "-B",
            "-m",
            "pytest",
            "--quiet",
            "-p",
            "no:cacheprovider",
            "--junit-xml",
        ])
        .args([&results])
        .args(["bindings/python/tests"])
        .env(
            "THALWEG",
            &workshop::text(&broker.join(profile).join("thalweg")),
        );
    if let Some(filter) = filter {
        program = program.args(["-k", filter]);
    }
    let run = program.run();
    let mut outcome =
        fs::read_to_string(&results).map_or_else(|_| Outcome::default(), |text| counts(&text));
    if let Err(why) = run
        && outcome.failed == 0
    {
        outcome.fail(why);
    }
    if outcome.passed + outcome.failed == 0 {
        outcome.fail("pytest ran no test");
    }
    outcome
}

/// The counts in the head of a JUnit file.
fn counts(junit: &str) -> Outcome {
    let count = |name: &str| -> u32 {
        let value = junit
            .split_once(&format!(" {name}=\""))
            .and_then(|(_, rest)| rest.split_once('"'));
        value
            .and_then(|(digits, _)| digits.parse().ok())
            .unwrap_or(0)
    };
    let failed = count("failures") + count("errors");
    let ignored = count("skipped");
    Outcome {
        passed: count("tests").saturating_sub(failed + ignored),
        failed,
        ignored,
        reasons: Vec::new(),
    }
}

fn path_with(first: PathBuf) -> String {
    let rest = std::env::var("PATH").unwrap_or_default();
    format!("{}:{rest}", workshop::text(&first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_junit() {
        let head = r#"<?xml version="1.0"?><testsuites name="pytest tests"><testsuite name="pytest" errors="1" failures="2" skipped="3" tests="20" time="1.2">"#;
        assert_eq!(
            counts(head),
            Outcome {
                passed: 14,
                failed: 3,
                ignored: 3,
                reasons: Vec::new()
            }
        );
        assert_eq!(counts("nonsense"), Outcome::default());
    }
}
