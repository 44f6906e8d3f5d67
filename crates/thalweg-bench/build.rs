//! Which commit the laboratory was built from, for the files it writes.

use std::process::Command;

fn main() {
    // What is in the program counts, not only this crate. The broker is another program, which says its own version.
    for of in [
        "amqp",
        "balance",
        "bench",
        "client",
        "coap",
        "dtls",
        "journal",
        "kernel",
        "model",
        "mqtt",
        "records",
        "scram",
        "stomp",
        "transport",
        "wire",
        "zmtp",
    ] {
        println!("cargo::rerun-if-changed=../thalweg-{of}/src");
    }
    println!("cargo::rerun-if-changed=../../Cargo.lock");
    println!("cargo::rerun-if-env-changed=THALWEG_COMMIT");
    let git = |args: &[&str]| {
        let output = Command::new("git")
            .args(args)
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = std::env::var("THALWEG_COMMIT").ok().or_else(|| {
        let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
        let is_clean = git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
        Some(if is_clean {
            commit
        } else {
            format!("{commit} and changes")
        })
    });
    println!(
        "cargo::rustc-env=THALWEG_COMMIT={}",
        commit.unwrap_or_else(|| "unknown".to_owned())
    );
}
