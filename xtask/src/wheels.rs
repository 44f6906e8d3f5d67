//! Wheels of the Python bindings for x86-64 and aarch64, and the source distribution: built, looked at and tried.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::program::Program;
use crate::report::Outcome;
use crate::{packages, python, workshop};

/// Zig links against the C library of old systems and for other processors.
const ZIG: &str = "ziglang==0.15.2";

/// What wheels are for: Rust's name, and the machine in the wheel's.
const TARGETS: [(&str, &str); 2] = [
    ("x86_64-unknown-linux-gnu", "x86_64"),
    ("aarch64-unknown-linux-gnu", "aarch64"),
];

/// glibc 2.17, which manylinux of 2014 stands for: every distribution since.
const PLATFORM: &str = "manylinux2014";

/// Writes wheels and sdist to `target/wheels`. A filter (`x86_64`, `aarch64`, `sdist`) makes one of them only.
pub fn run(filter: Option<&str>) -> Outcome {
    let mut outcome = Outcome::default();
    let folder = crate::tree().join("target/wheels");
    let is_wanted = |name: &str| filter.is_none_or(|filter| filter == name);
    let tools = packages::for_python()
        .and_then(|()| python::tools())
        .and_then(|tools| {
            pip(&tools, &["install", "--quiet", ZIG])?;
            Ok(tools)
        });
    let tools = match tools {
        Ok(tools) => tools,
        Err(why) => return Outcome::failed(why),
    };
    let mut note = |result: Result<(), String>| match result {
        Ok(()) => outcome.passed += 1,
        Err(why) => outcome.fail(why),
    };
    for (target, machine) in TARGETS {
        if is_wanted(machine) {
            let made = wheel(&tools, &folder, target, machine);
            let is_ours = std::env::consts::ARCH == machine;
            note(made.and_then(|wheel| match is_ours {
                true => try_wheel(&folder, &wheel),
                // It cannot be loaded here; maturin has looked at the symbols that it needs.
                false => Ok(()),
            }));
        }
    }
    if is_wanted("sdist") {
        note(sdist(&tools, &folder));
    }
    outcome
}

/// Builds one wheel and returns where it is.
fn wheel(tools: &Path, folder: &Path, target: &str, machine: &str) -> Result<PathBuf, String> {
    Program::new("rustup")
        .args(["target", "add", target])
        .run()?;
    maturin(tools)
        .args(["build", "--release", "--locked", "--zig"])
        .args(["--compatibility", PLATFORM, "--target", target, "--out"])
        .args([folder])
        .args(["--manifest-path", "bindings/python/Cargo.toml"])
        .run()?;
    let end = format!("-cp39-abi3-{PLATFORM}_{machine}.manylinux_2_17_{machine}.whl");
    found(folder, &end)
}

/// Installs a wheel into an environment of its own, without an index, and makes a client.
fn try_wheel(folder: &Path, wheel: &Path) -> Result<(), String> {
    let environment = fresh_environment(folder)?;
    pip(
        &environment,
        &["install", "--quiet", "--no-index", &workshop::text(wheel)],
    )?;
    makes_a_client(&environment)
}

/// Builds the source distribution, and installs from it as a user without our tree does. Nothing may stay in the tree.
fn sdist(tools: &Path, folder: &Path) -> Result<(), String> {
    let bindings = crate::tree().join("bindings/python");
    let before = python::files(&bindings);
    maturin(tools)
        .args(["sdist", "--out"])
        .args([folder])
        .args(["--manifest-path", "bindings/python/Cargo.toml"])
        .run()?;
    let archive = found(folder, ".tar.gz")?;
    let environment = fresh_environment(folder)?;
    Program::new(&workshop::text(&environment.join("bin/python")))
        .args(["-m", "pip", "install", "--quiet"])
        .args([&archive])
        .env("MATURIN_PEP517_ARGS", "--profile dev --locked")
        .env("CARGO_TARGET_DIR", &target_folder())
        .run()?;
    makes_a_client(&environment)?;
    let left: BTreeSet<PathBuf> = &python::files(&bindings) - &before;
    match left.is_empty() {
        true => Ok(()),
        false => Err(format!("sdist and its installation left {left:?}")),
    }
}

fn makes_a_client(environment: &Path) -> Result<(), String> {
    // A second one stays open: the interpreter must end with that, too.
    let program = "import thalweg; thalweg.connect('mqtt://127.0.0.1:9').close(0); \
                   left_open = thalweg.connect('mqtt://127.0.0.1:9')";
    Program::new(&workshop::text(&environment.join("bin/python")))
        .folder(&std::env::temp_dir())
        .args(["-B", "-c", program])
        .run()
}

fn fresh_environment(folder: &Path) -> Result<PathBuf, String> {
    let environment = folder.join("environment");
    let _ = fs::remove_dir_all(&environment);
    Program::new("python3")
        .args(["-m", "venv"])
        .args([&environment])
        .run()?;
    Ok(environment)
}

/// The newest file whose name ends so.
fn found(folder: &Path, end: &str) -> Result<PathBuf, String> {
    python::files(folder)
        .into_iter()
        .filter(|path| path.parent() == Some(folder) && workshop::text(path).ends_with(end))
        .max_by_key(|path| path.metadata().and_then(|it| it.modified()).ok())
        .ok_or_else(|| format!("there is no *{end} in {}", folder.display()))
}

fn maturin(tools: &Path) -> Program {
    Program::new(&workshop::text(&tools.join("bin/maturin")))
        .env("CARGO_TARGET_DIR", &target_folder())
        .env("PATH", &python::path_with(tools.join("bin")))
}

fn target_folder() -> String {
    workshop::text(&crate::tree().join("target"))
}

fn pip(environment: &Path, words: &[&str]) -> Result<(), String> {
    Program::new(&workshop::text(&environment.join("bin/python")))
        .args(["-m", "pip"])
        .args(words)
        .run()
}
