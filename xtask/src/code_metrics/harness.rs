//! Lines of the test harness: shards, pipes, clocks, mail, disks, recorders, clients and players of scripts.

use std::fmt::Write;

use crate::tidy::shape::code_lines;
use crate::tidy::tree::Tree;

/// The harness by ADR 0044: files, or folders, which end with a slash.
const HARNESS: [(&str, &[&str]); 14] = [
    ("testbed", &["crates/thalweg-testbed/src/"]),
    (
        "contract tests: vocabulary",
        &["crates/thalweg-testbed/tests/contract/peer.rs"],
    ),
    ("AMQP world", &["crates/thalweg-fronts/tests/amqp/world.rs"]),
    (
        "STOMP world",
        &["crates/thalweg-fronts/tests/stomp/world.rs"],
    ),
    (
        "CoAP worlds",
        &[
            "crates/thalweg-fronts/tests/coap/stage.rs",
            "crates/thalweg-fronts/tests/coap/world.rs",
        ],
    ),
    (
        "rights: world and clients",
        &[
            "crates/thalweg-fronts/tests/rights/client.rs",
            "crates/thalweg-fronts/tests/rights/world.rs",
        ],
    ),
    (
        "simulation: pipes, disk, seeds",
        &["crates/thalweg-fronts/tests/sim/net.rs"],
    ),
    (
        "scenarios world",
        &["crates/thalweg-fronts/tests/scenarios/world.rs"],
    ),
    (
        "scripts of bytes, four fronts",
        &[
            "crates/thalweg-fronts/tests/amqp/script.rs",
            "crates/thalweg-fronts/tests/coap/nonsense.rs",
            "crates/thalweg-fronts/tests/connection/script.rs",
            "crates/thalweg-fronts/tests/stomp/script.rs",
        ],
    ),
    (
        "kernel: queues",
        &[
            "crates/thalweg-kernel/tests/queues/dice.rs",
            "crates/thalweg-kernel/tests/queues/disk.rs",
            "crates/thalweg-kernel/tests/queues/recorder.rs",
            "crates/thalweg-kernel/tests/queues/slow_mail.rs",
            "crates/thalweg-kernel/tests/queues/world.rs",
        ],
    ),
    (
        "kernel: watches",
        &["crates/thalweg-kernel/tests/queues/watches/world.rs"],
    ),
    (
        "kernel: what both share",
        &["crates/thalweg-kernel/tests/queues/kernels.rs"],
    ),
    (
        "laboratory: simulated broker",
        &[
            "crates/thalweg-sim/src/broker.rs",
            "crates/thalweg-sim/src/world.rs",
        ],
    ),
    (
        "client: engine and adaptive worlds",
        &[
            "crates/thalweg-client/src/adaptive/tests/network.rs",
            "crates/thalweg-client/src/engine/tests/broker.rs",
            "crates/thalweg-client/src/engine/tests/transport.rs",
            "crates/thalweg-client/src/engine/tests/wire.rs",
            "crates/thalweg-client/src/engine/tests/world.rs",
        ],
    ),
];

/// The table of ADR 0044 for this tree. An entry without a file is an error: a harness that moved must not seem to be gone.
pub fn table(tree: &Tree) -> Result<String, String> {
    let mut out = String::from("| harness | code lines |\n|---|--:|\n");
    let mut together = 0;
    for (name, entries) in HARNESS {
        let mut lines = 0;
        for entry in entries {
            let is_of =
                |path: &str| path == *entry || entry.ends_with('/') && path.starts_with(entry);
            let before = lines;
            lines += tree
                .ending(".rs")
                .filter(|(path, _)| is_of(path))
                .map(|(_, text)| code_lines(text))
                .sum::<usize>();
            if lines == before {
                return Err(format!("{entry}: no code of the harness is there"));
            }
        }
        together += lines;
        let _ = writeln!(out, "| {name} | {lines} |");
    }
    let _ = writeln!(out, "| together | {together} |");
    Ok(out)
}
