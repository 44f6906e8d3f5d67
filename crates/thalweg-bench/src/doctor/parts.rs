//! Installs what can be measured against.

use std::io::{self, Write};
use std::process::Command;

use crate::brokers::{NoBroker, System, found};
use crate::drivers::stock;
use crate::net;

/// Brokers and what networks are made with by the system's packages, libraries by pip. What does not work is told, and not
/// the end of it.
pub fn install(out: &mut dyn Write) -> io::Result<()> {
    let absent = System::all()
        .iter()
        .filter(|system| matches!(system.program(), Err(NoBroker::Absent(_))));
    let brokers = absent
        .map(|system| system.install.clone())
        .filter(|line| line.starts_with("apt-get"));
    let tools = net::PROGRAMS
        .into_iter()
        .filter(|(program, _)| found(&[program]).is_none());
    let tools =
        tools.map(|(_, package)| format!("apt-get install --no-install-recommends {package}"));
    let clients = stock::versions()
        .into_iter()
        .filter_map(|(_, found)| match found {
            Err(NoBroker::Absent(line)) if line.starts_with("apt-get") => Some(line),
            _ => None,
        });
    let mut commands: Vec<String> = tools.chain(brokers).chain(clients).collect();
    commands.dedup();
    let is_root = rustix::process::geteuid().is_root();
    if !commands.is_empty() && is_root {
        let updated = Command::new("apt-get").args(["update", "-qq"]).status();
        if !updated.is_ok_and(|status| status.success()) {
            writeln!(out, "apt-get update does not work here")?;
        }
    }
    for line in commands {
        if !is_root {
            writeln!(out, "as root: {line}")?;
            continue;
        }
        let output = Command::new("apt-get")
            .args(["-y", "-qq"])
            .args(line.split(' ').skip(1))
            .env("DEBIAN_FRONTEND", "noninteractive")
            .output();
        let fault = match output {
            Ok(output) if output.status.success() => {
                writeln!(out, "done: {line}")?;
                continue;
            }
            Ok(output) => {
                let words = String::from_utf8_lossy(&output.stderr).into_owned();
                words.lines().last().unwrap_or_default().to_owned()
            }
            Err(error) => error.to_string(),
        };
        writeln!(out, "failed: {line}: {fault}")?;
    }
    match stock::install() {
        Ok(folder) => writeln!(out, "stock client libraries are in {}", folder.display()),
        Err(error) => writeln!(out, "failed: stock client libraries: {error}"),
    }
}
