//! The Python bindings: built and installed as a user does it, then tested against the broker that was built before.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::program::Program;
use crate::report::Outcome;
use crate::{packages, workshop};

/// What builds and what tests, pinned.
const TOOLS: [&str; 5] = [
    "maturin==1.16.0",
    "mypy==1.18.2",
    "paho-mqtt==2.1.0",
    "pytest==9.2.0",
    "pyzmq==27.3.0",
];

/// Installs the package into a virtual environment below `target/python` and runs its tests.
pub fn run(is_release: bool, filter: Option<&str>) -> Outcome {
    let bindings = crate::tree().join("bindings/python");
    let before = files(&bindings);
    match packages::for_python()
        .and_then(|()| tools())
        .and_then(|folder| install(&folder).map(|()| folder))
    {
        Ok(folder) => {
            let mut outcome = test(&folder, is_release, filter);
            match &files(&bindings) - &before {
                left if left.is_empty() => outcome.passed += 1,
                left => outcome.fail(format!("pip install and its tests left {left:?}")),
            }
            outcome
        }
        Err(why) => Outcome::failed(why),
    }
}

/// Files below a folder.
pub fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(it) if it.is_dir() => folders.push(entry.path()),
                _ => drop(found.insert(entry.path())),
            }
        }
    }
    found
}

/// The environment with what builds and tests; made if it is not there, or was made for other versions.
pub fn tools() -> Result<PathBuf, String> {
    let folder = crate::tree().join("target/python");
    let (mark, wanted) = (folder.join("tools"), TOOLS.join("\n"));
    if fs::read_to_string(&mark).is_ok_and(|made| made == wanted) {
        return Ok(folder);
    }
    let _ = fs::remove_dir_all(&folder);
    Program::new("python3")
        .args(["-m", "venv"])
        .args([&folder])
        .run()?;
    Program::new(&workshop::text(&folder.join("bin/python")))
        .args(["-m", "pip", "install", "--quiet"])
        .args(TOOLS)
        .run()?;
    fs::write(&mark, wanted).map_err(|error| format!("{}: {error}", mark.display()))?;
    Ok(folder)
}

fn install(folder: &Path) -> Result<(), String> {
    let python = workshop::text(&folder.join("bin/python"));
    // The tools are there already, so pip need not fetch them into an environment of its own.
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
        .env("MATURIN_PEP517_ARGS", "--profile dev --locked")
        .env("PATH", &path_with(folder.join("bin")))
        .run()
}

fn test(folder: &Path, is_release: bool, filter: Option<&str>) -> Outcome {
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
        ..Outcome::default()
    }
}

pub fn path_with(first: PathBuf) -> String {
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
                ..Outcome::default()
            }
        );
        assert_eq!(counts("nonsense"), Outcome::default());
    }
}
