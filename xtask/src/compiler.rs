//! The compiler of `cargo xtask test`: clippy, which compiles too, so that nothing is read twice; and libraries that most tests
//! run are optimised lightly.
//!
//! Cargo sets optimisation by package, with the package's own tests, and these are run a moment and compiled as long as the
//! library. So cargo calls this program instead of the compiler (`RUSTC_WORKSPACE_WRAPPER`), for crates of ours alone. Checks of
//! overflow and `debug_assert!` stay as they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::program::Program;
use crate::workshop;

/// Set for calls in place of the compiler, with the file of clippy's.
const CLIPPY: &str = "XTASK_COMPILES_WITH";

/// Libraries in which tests spend more time than it takes to optimise them.
const OPTIMISED: [&str; 11] = [
    "thalweg_amqp",
    "thalweg_coap",
    "thalweg_filter",
    "thalweg_fronts",
    "thalweg_kernel",
    "thalweg_mqtt",
    "thalweg_records",
    "thalweg_stomp",
    "thalweg_testbed",
    "thalweg_xmpp",
    "thalweg_zmtp",
];

/// Has cargo call a copy of this program, `own`, in place of the compiler; cargo writes `own` itself anew while it is in use.
pub fn prepare(own: &Path) -> Result<(), String> {
    let copy = copy();
    fs::create_dir_all(copy.with_file_name(""))
        .and_then(|()| fs::copy(own, &copy))
        .map(drop)
        .map_err(|error| format!("{}: {error}", copy.display()))
}

/// With this compiler. Every step that compiles crates of ours has to say the same.
pub fn compile_with(program: Program) -> Program {
    let cargo = std::env::var("CARGO").unwrap_or_default();
    let clippy = Path::new(&cargo).with_file_name("clippy-driver");
    program
        .env("RUSTC_WORKSPACE_WRAPPER", &workshop::text(&copy()))
        .env(CLIPPY, &workshop::text(&clippy))
}

fn copy() -> PathBuf {
    crate::tree().join("target/xtask-compiler")
}

/// Compiles, if this program was called to do that; says with what result.
pub fn run() -> Option<ExitCode> {
    let clippy = std::env::var_os(CLIPPY)?;
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    // What cargo starts otherwise inherits the variable, too.
    if !Path::new(words.first()?).ends_with("rustc") {
        return None;
    }
    words.extend(more(&words));
    let status = Command::new(clippy).args(&words).status();
    let code = status.ok().and_then(|status| status.code());
    // A compiler that was killed is a failure.
    Some(ExitCode::from(code.map_or(1, |code| code as u8)))
}

/// What is said to the compiler beside the words of cargo. In one unit a library is optimised with an eighth less work; the
/// other core has other crates.
fn more(words: &[String]) -> Vec<String> {
    let is_one = |name: &[String]| name[0] == "--crate-name" && OPTIMISED.contains(&&*name[1]);
    let is_library = !words.iter().any(|word| word == "--test");
    match is_library && words.windows(2).any(is_one) {
        true => ["-Copt-level=1", "-Ccodegen-units=1"]
            .map(str::to_owned)
            .into(),
        false => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn more_to(line: &str) -> Vec<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        more(&words)
    }

    #[test]
    fn libraries_are_optimised_and_their_tests_are_not() {
        let library =
            "rustc --crate-name thalweg_kernel --edition=2024 src/lib.rs --crate-type lib";
        assert_eq!(more_to(library), ["-Copt-level=1", "-Ccodegen-units=1"]);
        let tests = "rustc --crate-name thalweg_kernel --edition=2024 src/lib.rs --test";
        assert!(more_to(tests).is_empty());
        let other = "rustc --crate-name thalweg_bench src/lib.rs --crate-type lib";
        assert!(more_to(other).is_empty());
        assert!(more_to("rustc -vV").is_empty());
    }
}
