//! `thalweg bench`: starts the laboratory, a program of its own.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli::BenchArgs;
use crate::failure::Failure;

/// Becomes `thalweg-bench` with the same arguments; returns only if it cannot be started.
pub fn run(args: &BenchArgs) -> Result<(), Failure> {
    let own = std::env::current_exe().ok();
    let Some(program) = found(own.as_deref(), std::env::var_os("PATH")) else {
        return Err(Failure::usage(format!(
            "{PROGRAM} is not installed: it is neither beside this program nor in PATH"
        ))
        .mend(
            "Run `cargo build --release -p thalweg-bench` and put target/release/thalweg-bench there",
        ));
    };
    let mut command = Command::new(&program);
    // Its help and its records show the command as it was typed.
    command.arg0("thalweg bench").args(&args.words);
    if let (Some(own), None) = (own, std::env::var_os(BROKER)) {
        command.env(BROKER, own);
    }
    let error = command.exec();
    Err(Failure::new(format!(
        "{} cannot be started: {error}",
        program.display()
    )))
}

/// The laboratory beside `own`, or else the first in the folders of `path`.
fn found(own: Option<&Path>, path: Option<OsString>) -> Option<PathBuf> {
    let beside = own.and_then(Path::parent).map(Path::to_owned);
    let folders = path.iter().flat_map(std::env::split_paths);
    beside
        .into_iter()
        .chain(folders)
        .map(|folder| folder.join(PROGRAM))
        .find(|program| program.is_file())
}

const PROGRAM: &str = "thalweg-bench";
/// Names the broker that the laboratory starts for its measurements.
const BROKER: &str = "THALWEG_BIN";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_laboratory_beside_the_program_wins_over_one_in_the_path() {
        let folder = std::env::temp_dir().join(format!("thalweg-bench-of-{}", std::process::id()));
        let place = |name: &str| {
            let place = folder.join(name);
            std::fs::create_dir_all(&place).expect("writable");
            place
        };
        let (beside, first, second) = (place("beside"), place("first"), place("second"));
        let own = beside.join("thalweg");
        let path = || std::env::join_paths([&first, &second]).ok();
        assert_eq!(found(Some(&own), path()), None);
        std::fs::write(second.join(PROGRAM), "").expect("writable");
        assert_eq!(found(Some(&own), path()), Some(second.join(PROGRAM)));
        assert_eq!(found(Some(&own), None), None);
        std::fs::write(beside.join(PROGRAM), "").expect("writable");
        assert_eq!(found(Some(&own), path()), Some(beside.join(PROGRAM)));
        assert_eq!(found(None, path()), Some(second.join(PROGRAM)));
        std::fs::remove_dir_all(&folder).expect("ours");
    }
}
