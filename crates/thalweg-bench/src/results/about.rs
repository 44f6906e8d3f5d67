//! `run.json`: what is to be known to judge and to repeat a run.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::thread;
use std::time::SystemTime;

use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use crate::brokers::System;
use crate::cell::{Cell, Workload};

/// What every run says: tool and commit, the machine and its settings, the cells in their order, their seeds, the command
/// line. `name` is the scenario's or the suite's. Add to it what there is to add, before [`super::Writer::open`].
///
/// Times are added by the writer (`started_unix_s`, `finished_unix_s`), versions of brokers (`systems`) too: from events
/// `broker NAME: VERSION` of trials.
pub fn about(name: &str, cells: &[Cell]) -> Value {
    let mut about = machine();
    about["name"] = json!(name);
    about["tool"] = json!("thalweg bench");
    about["commit"] = json!(env!("THALWEG_COMMIT"));
    about["program_hash"] = json!(program_hash());
    about["broker_hash"] = json!(broker_hash());
    about["scenario_hash"] = json!(hash(cells));
    about["command_line"] = command_line();
    about["governor"] = json!(line_of(GOVERNOR));
    about["clock_source"] = json!(line_of(CLOCK_SOURCE));
    about["virtual_machine"] = json!(is_virtual());
    about["sysctls"] = SYSCTLS
        .iter()
        .map(|name| (name.to_string(), json!(line_of(&sysctl_file(name)))))
        .collect::<Value>();
    about["traces"] = json!(traces(cells));
    let mut seeds: Vec<u64> = cells.iter().map(|cell| cell.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    about["seeds"] = json!(seeds);
    about["cell_order"] = json!(cells.iter().map(Cell::key).collect::<Vec<_>>());
    about
}

/// What every run says of the program and the machine.
pub fn machine() -> Value {
    let line_of = |file: &str, key: &str| {
        let text = fs::read_to_string(file).ok()?;
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.rsplit(": ").next().unwrap_or(line).trim().to_owned())
    };
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "started_unix_s": unix_seconds(),
        "kernel": line_of("/proc/sys/kernel/osrelease", ""),
        "cpu": line_of("/proc/cpuinfo", "model name"),
        "cores": thread::available_parallelism().map_or(0, usize::from),
        "load_average_at_start": line_of("/proc/loadavg", ""),
        "is_optimised": !cfg!(debug_assertions),
    })
}

/// Now, for names and files.
pub fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Writes what is known about a run.
pub fn write_about(folder: &Path, about: &Value) -> io::Result<()> {
    let mut text = serde_json::to_string_pretty(about)?;
    text.push('\n');
    fs::write(folder.join("run.json"), text)
}

/// The command line as `thalweg bench …`, however the laboratory was started.
pub fn command_line() -> Value {
    let words = ["thalweg".to_owned(), "bench".to_owned()].into_iter();
    words.chain(std::env::args().skip(1)).collect()
}

/// What tells these cells from others, whatever their order: 16 hexadecimal digits. Traces count with what is in them.
pub fn hash(cells: &[Cell]) -> String {
    let cell = |cell: &Cell| serde_json::to_string(cell).unwrap_or_default();
    let traces = traces(cells).into_iter();
    let traces = traces.map(|(file, hash)| format!("{file} {hash:?}"));
    let mut lines: Vec<String> = cells.iter().map(cell).chain(traces).collect();
    lines.sort_unstable();
    format!("{:016x}", xxh3_64(lines.join("\n").as_bytes()))
}

/// Hashes of the traces that cells play; none of one that cannot be read.
fn traces(cells: &[Cell]) -> BTreeMap<&str, Option<String>> {
    let mut traces = BTreeMap::new();
    for cell in cells {
        if let Workload::Trace { file } = &cell.workload {
            let of_file = || hash_of(Path::new(file));
            traces.entry(file.as_str()).or_insert_with(of_file);
        }
    }
    traces
}

/// Of the laboratory's file: the commit alone does not say how it was built.
fn program_hash() -> Option<String> {
    static HASH: OnceLock<Option<String>> = OnceLock::new();
    HASH.get_or_init(|| hash_of(&std::env::current_exe().ok()?))
        .clone()
}

/// Of the file of Thalweg's broker, if there is one to start.
fn broker_hash() -> Option<String> {
    static HASH: OnceLock<Option<String>> = OnceLock::new();
    HASH.get_or_init(|| hash_of(&System::named("thalweg")?.program().ok()?))
        .clone()
}

fn hash_of(file: &Path) -> Option<String> {
    Some(format!("{:016x}", xxh3_64(&fs::read(file).ok()?)))
}

fn is_virtual() -> bool {
    fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains(" hypervisor"))
}

fn sysctl_file(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

fn line_of(file: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    Some(text.trim().replace('\t', " "))
}

const GOVERNOR: &str = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Settings of the kernel that move figures.
const SYSCTLS: [&str; 13] = [
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.somaxconn",
    "net.core.wmem_max",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_early_retrans",
    "net.ipv4.tcp_recovery",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_wmem",
    "vm.swappiness",
];
