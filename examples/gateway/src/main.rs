//! A gateway: readings come as lines on standard input, `plant/1/temperature 21.5`, and go to a broker by MQTT or CoAP,
//! whichever costs fewer bytes on the network as it is.
//!
//! ```text
//! sensors | thalweg-gateway mqtt://broker coap://broker
//! ```
#![forbid(unsafe_code)]

use std::io::BufRead;
use std::process::ExitCode;
use std::time::Duration;

use thalweg_client::blocking::Client;
use thalweg_client::{ClientError, Objective, Options};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("thalweg-gateway: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), ClientError> {
    let mut builder = Client::builder().objective(Objective::Bytes);
    for url in std::env::args().skip(1) {
        builder = builder.broker(&url)?;
    }
    let client = builder.connect_blocking()?;
    let options = Options::default();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Some((topic, reading)) = line.split_once(' ') else {
            continue;
        };
        // Waits only if the buffer is full: that many readings wait for the network already.
        client.give(reading.as_bytes(), "", topic, &options)?;
    }
    let flushed = client.flush(Duration::from_secs(60));
    let counts = client.status()?.counts;
    println!(
        "acknowledged {} failed {}{}",
        counts.acknowledged,
        counts.failed,
        memory()
    );
    println!("{}", client.explain()?);
    client.close(Duration::from_secs(1))?;
    flushed
}

/// The most memory that this process has had, as the system says it.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.map_or_else(String::new, |peak| format!(" memory {}", peak.trim()))
}
