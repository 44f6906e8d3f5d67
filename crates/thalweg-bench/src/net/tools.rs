//! Programs of the system that make and change networks: `ip` and `nft`.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use crate::brokers::found;

/// Runs a program to its end, with something on its standard input; what it said is returned or in the error.
pub fn run(program: &str, arguments: &[&str], input: &str) -> io::Result<String> {
    let missing = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::other(format!(
            "{program} is not installed: {}",
            package_of(program)
        )),
        _ => io::Error::new(error.kind(), format!("{program}: {error}")),
    };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(missing)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends before it has read all says why on its standard error.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output()?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(io::Error::other(format!(
            "{program} {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        ))),
    }
}

/// What networks are made with: the program, and Debian's package of it.
pub const PROGRAMS: [(&str, &str); 3] =
    [("ip", "iproute2"), ("tc", "iproute2"), ("nft", "nftables")];

/// Those of [`PROGRAMS`] that are not installed.
pub fn absent() -> Vec<&'static str> {
    let programs = PROGRAMS.iter().map(|(program, _)| *program);
    programs
        .filter(|program| found(&[program]).is_none())
        .collect()
}

fn package_of(program: &str) -> String {
    let known = PROGRAMS.iter().find(|(name, _)| *name == program);
    known.map_or_else(
        || "install it".to_owned(),
        |(_, package)| format!("Debian has it in the package {package}"),
    )
}
