//! `cargo xtask test --changed [BASE]`: the tests that a change can reach, nearest first, for two minutes.
//!
//! A changed file belongs to a crate; that crate's tests come first, then those of the crates that depend on it, directly or
//! through others. A test program that does not fit into the rest of the two minutes by what it took last time is left out
//! and named, and so is what is still compiled or run when they are over. What needs a broker's program, other clients or Python
//! is only named: it has commands of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::Program;
use crate::report::{Outcome, Report};
use crate::test_programs::{TestProgram, built};
use crate::{Options, Step};

const BUDGET: Duration = Duration::from_secs(120);
/// Seconds that test programs took, for the next time.
const TIMES: &str = "target/test-seconds.json";
/// Its one program needs a broker's program and minutes.
const INTEGRATION: &str = "thalweg-tests";

/// Compares with `base`, a commit, or with where this branch left `main`.
pub fn run(base: Option<&str>, options: &Options, report: &Report) {
    let begun = Instant::now();
    for step in [Step::Tidy, Step::Fmt] {
        report.run(step.word(), || step.run(options));
    }
    report.run("reached", || {
        tests(base, begun).unwrap_or_else(Outcome::failed)
    });
}

fn tests(base: Option<&str>, begun: Instant) -> Result<Outcome, String> {
    let files = changed_files(base)?;
    let crates = Crates::read()?;
    let rings = crates.rings(&files);
    let mut seconds: BTreeMap<String, f64> = fs::read_to_string(crate::tree().join(TIMES))
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    let mut outcome = Outcome::passed(0);
    let mut left_out: Vec<String> = beside(&files);
    let rest = || BUDGET.saturating_sub(begun.elapsed()).as_secs();
    for ring in rings {
        let tests = match rest() {
            0 => Err("the time is over".to_owned()),
            seconds => programs(&ring, seconds),
        };
        let tests = match tests {
            Ok(tests) => tests,
            Err(_) if rest() == 0 => {
                left_out.extend(ring.iter().map(|name| format!("cargo test -p {name}")));
                continue;
            }
            Err(why) => return Err(why),
        };
        for test in tests {
            let last = seconds.get(&test.name).copied().unwrap_or_default();
            let start = Instant::now();
            let left = rest();
            let ran = (left as f64 > last).then(|| {
                Program::new(&test.file)
                    .args(["--quiet"])
                    .folder(&test.folder)
                    .within(left)
                    .outcome_of_tests_or_none()
            });
            let took = start.elapsed().as_secs_f64();
            let Some(ran) = ran.filter(|_| took < left as f64) else {
                left_out.push(format!(
                    "cargo test {} ({:.0} s)",
                    test.name,
                    last.max(took)
                ));
                seconds.insert(test.name, last.max(took));
                continue;
            };
            seconds.insert(test.name, took);
            outcome = outcome.and(ran);
        }
    }
    let text = serde_json::to_string_pretty(&seconds).unwrap_or_default();
    fs::write(crate::tree().join(TIMES), text).map_err(|error| format!("{TIMES}: {error}"))?;
    if !left_out.is_empty() {
        println!("\nleft out:\n  {}", left_out.join("\n  "));
    }
    Ok(outcome)
}

/// Commands for the effects of a change outside of test programs.
fn beside(files: &[String]) -> Vec<String> {
    let modules: BTreeSet<&str> = files
        .iter()
        .filter_map(|file| file.strip_prefix("crates/thalweg-tests/tests/all/"))
        .filter_map(|file| file.split(['/', '.']).next())
        .collect();
    let roots = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml"];
    let is_all = files.iter().any(|file| roots.contains(&file.as_str()));
    let is_python = files.iter().any(|file| file.starts_with("bindings/python"));
    let integration = modules.into_iter().map(|module| match module {
        "interop" => "cargo xtask interop".to_owned(),
        module => format!("cargo xtask integration {module}::"),
    });
    integration
        .chain(is_python.then(|| "cargo xtask python".to_owned()))
        .chain(is_all.then(|| {
            "cargo xtask unit and cargo xtask suites, for the workspace's own files".to_owned()
        }))
        .collect()
}

/// Paths that differ from the base, and new ones.
fn changed_files(base: Option<&str>) -> Result<Vec<String>, String> {
    let git = |words: &[&str]| Ok::<_, String>(Program::new("git").args(words).output()?.0);
    let base = match base {
        Some(base) => base.to_owned(),
        None => git(&["merge-base", "HEAD", "main"])?.trim().to_owned(),
    };
    let changed = git(&["diff", "--name-only", &base])?;
    let new = git(&["ls-files", "--others", "--exclude-standard"])?;
    println!("against {base}:");
    let files: Vec<String> = changed
        .lines()
        .chain(new.lines())
        .map(str::to_owned)
        .collect();
    files.iter().for_each(|file| println!("  {file}"));
    Ok(files)
}

/// The workspace's crates: where they lie, and which of ours each depends on, for its tests, too.
struct Crates {
    folders: BTreeMap<String, PathBuf>,
    needs: BTreeMap<String, BTreeSet<String>>,
}

impl Crates {
    fn read() -> Result<Self, String> {
        let words = ["metadata", "--no-deps", "--format-version", "1"];
        let (text, _) = Program::cargo(words).output()?;
        let metadata: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let (mut folders, mut needs) = (BTreeMap::new(), BTreeMap::new());
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        for package in list(&metadata["packages"]) {
            let name = package["name"].as_str().unwrap_or_default().to_owned();
            let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
            let ours = list(&package["dependencies"]);
            let ours = ours.iter().filter(|needed| needed["path"].is_string());
            let ours = ours.filter_map(|needed| Some(needed["name"].as_str()?.to_owned()));
            needs.insert(name.clone(), ours.collect());
            folders.insert(name, manifest.with_file_name(""));
        }
        Ok(Self { folders, needs })
    }

    /// Crates with a changed file, then those that depend on them, and so on.
    fn rings(&self, files: &[String]) -> Vec<Vec<String>> {
        let root = crate::tree();
        let is_changed = |folder: &PathBuf| {
            let mut paths = files.iter().map(|file| root.join(file));
            paths.any(|path| path.starts_with(folder))
        };
        let changed =
            |(name, folder): (&String, &PathBuf)| is_changed(folder).then(|| name.clone());
        let mut ring: Vec<String> = self.folders.iter().filter_map(changed).collect();
        let mut seen: BTreeSet<String> = ring.iter().cloned().collect();
        let mut rings = Vec::new();
        while !ring.is_empty() {
            let reaches = |needs: &BTreeSet<String>| ring.iter().any(|name| needs.contains(name));
            let next = self.needs.iter();
            let next = next.filter(|(name, needs)| reaches(needs) && !seen.contains(*name));
            let next: Vec<String> = next.map(|(name, _)| name.clone()).collect();
            seen.extend(next.iter().cloned());
            ring.retain(|name| name != INTEGRATION);
            rings.push(std::mem::replace(&mut ring, next));
        }
        rings.retain(|ring| !ring.is_empty());
        rings
    }
}

/// Builds the test programs of these crates within so many seconds.
fn programs(crates: &[String], seconds: u64) -> Result<Vec<TestProgram>, String> {
    let words = [
        "test",
        "--no-run",
        "--message-format",
        "json-render-diagnostics",
    ];
    let packages = crates.iter().flat_map(|name| ["--package", name.as_str()]);
    let cargo = Program::cargo(words).args(packages);
    Ok(built(&cargo.within(seconds).stdout()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crates(needs: &[(&str, &[&str])]) -> Crates {
        let owned = |name: &&str| (*name).to_owned();
        let folder = |name: &str| crate::tree().join("crates").join(name).join("");
        Crates {
            folders: needs
                .iter()
                .map(|(name, _)| (owned(name), folder(name)))
                .collect(),
            needs: needs
                .iter()
                .map(|(name, needs)| (owned(name), needs.iter().map(owned).collect()))
                .collect(),
        }
    }

    #[test]
    fn nearer_crates_come_first_and_unreached_ones_not_at_all() {
        let crates = crates(&[
            ("model", &[]),
            ("kernel", &["model"]),
            ("client", &["model"]),
            ("server", &["kernel"]),
            ("thalweg-tests", &["server"]),
        ]);
        let rings = |file: &str| crates.rings(&[file.to_owned()]);
        let server: &[&[&str]] = &[&["server"]];
        assert_eq!(rings("crates/server/src/lib.rs"), server);
        let kernel: &[&[&str]] = &[&["kernel"], &["server"]];
        assert_eq!(rings("crates/kernel/tests/a.rs"), kernel);
        let model: &[&[&str]] = &[&["model"], &["client", "kernel"], &["server"]];
        assert_eq!(rings("crates/model/Cargo.toml"), model);
        let none: &[&[&str]] = &[];
        assert_eq!(rings("docs/README.md"), none);
        assert_eq!(rings("crates/kernel-of-others/a.rs"), none);
    }

    #[test]
    fn what_has_a_command_of_its_own_is_named() {
        let named = |file: &str| beside(&[file.to_owned()]);
        let all = "crates/thalweg-tests/tests/all";
        assert_eq!(
            named(&format!("{all}/crash/disk.rs")),
            ["cargo xtask integration crash::"]
        );
        assert_eq!(
            named(&format!("{all}/guard.rs")),
            ["cargo xtask integration guard::"]
        );
        assert_eq!(
            named(&format!("{all}/interop/a.rs")),
            ["cargo xtask interop"]
        );
        assert_eq!(named("bindings/python/src/lib.rs"), ["cargo xtask python"]);
        assert_eq!(named("Cargo.lock").len(), 1);
        assert!(named("crates/thalweg/Cargo.toml").is_empty());
    }
}
