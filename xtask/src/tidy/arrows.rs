//! Which crate may depend on which: the table below, checked against `cargo metadata`.

use serde_json::Value;

use super::{Breach, SANS_IO};

/// The wire crates: each knows its own specification and, of ours, only `thalweg-wire` and `thalweg-scram`.
const WIRES: [&str; 7] = [
    "thalweg-mqtt",
    "thalweg-coap",
    "thalweg-dtls",
    "thalweg-amqp",
    "thalweg-stomp",
    "thalweg-zmtp",
    "thalweg-xmpp",
];

/// Crates of other people that do what a sans-I/O crate must not.
const IO_DEPENDENCIES: [&str; 10] = [
    "tokio",
    "mio",
    "socket2",
    "libc",
    "rustls",
    "rand",
    "getrandom",
    "fastrand",
    "async-std",
    "crossbeam",
];

/// What a crate may name, upwards in the list; `WIRES` stands for every wire crate. A crate that is not here has no place yet.
const ARROWS: &[(&str, &[&str])] = &[
    ("thalweg-model", &[]),
    ("thalweg-wire", &["thalweg-model"]),
    ("thalweg-scram", &[]),
    ("WIRES", &["thalweg-wire", "thalweg-scram"]),
    // Its datagrams carry packets of MQTT.
    ("thalweg-multicast", &["thalweg-wire", "WIRES"]),
    ("thalweg-filter", &[]),
    ("thalweg-balance", &["thalweg-model"]),
    ("thalweg-records", &["thalweg-model"]),
    (
        "thalweg-kernel",
        &[
            "thalweg-model",
            "thalweg-filter",
            "thalweg-balance",
            "thalweg-records",
        ],
    ),
    (
        "thalweg-fronts",
        &[
            "thalweg-model",
            "thalweg-wire",
            "WIRES",
            "thalweg-filter",
            "thalweg-records",
            "thalweg-kernel",
        ],
    ),
    ("thalweg-transport", &["thalweg-wire", "WIRES"]),
    ("thalweg-journal", &[]),
    (
        "thalweg-store",
        &["thalweg-model", "thalweg-records", "thalweg-journal"],
    ),
    (
        "thalweg-cluster",
        &["thalweg-model", "thalweg-records", "thalweg-store"],
    ),
    (
        "thalweg-access",
        &["thalweg-model", "thalweg-scram", "thalweg-kernel"],
    ),
    (
        "thalweg-config",
        &[
            "thalweg-model",
            "thalweg-access",
            "WIRES",
            "thalweg-kernel",
            "thalweg-fronts",
            "thalweg-transport",
        ],
    ),
    (
        "thalweg-server",
        &[
            "thalweg-access",
            "thalweg-config",
            "thalweg-model",
            "thalweg-wire",
            "thalweg-scram",
            "WIRES",
            "thalweg-multicast",
            "thalweg-records",
            "thalweg-kernel",
            "thalweg-fronts",
            "thalweg-transport",
            "thalweg-store",
            "thalweg-cluster",
        ],
    ),
    (
        "thalweg-dds",
        &[
            "thalweg-model",
            "thalweg-kernel",
            "thalweg-fronts",
            "thalweg-server",
            // In its tests.
            "thalweg-client",
        ],
    ),
    (
        "line-protocol",
        &[
            "thalweg-model",
            "thalweg-kernel",
            "thalweg-fronts",
            "thalweg-server",
        ],
    ),
    (
        "thalweg-admin",
        &["thalweg-model", "thalweg-kernel", "thalweg-server"],
    ),
    (
        "thalweg-client",
        &[
            "thalweg-model",
            "thalweg-wire",
            "WIRES",
            "thalweg-multicast",
            "thalweg-transport",
            "thalweg-journal",
        ],
    ),
    ("thalweg-stats", &[]),
    (
        "thalweg-sim",
        &[
            "thalweg-stats",
            "thalweg-model",
            // How a client of MQTT reports its load.
            "WIRES",
            "thalweg-balance",
            "thalweg-kernel",
        ],
    ),
    // With the simulator it drives the kernel itself; the rest is a client.
    (
        "thalweg-bench",
        &[
            "thalweg-model",
            "thalweg-wire",
            "WIRES",
            "thalweg-balance",
            "thalweg-records",
            "thalweg-kernel",
            "thalweg-client",
            "thalweg-stats",
            "thalweg-sim",
        ],
    ),
    (
        "thalweg-cli",
        &[
            "thalweg-model",
            "thalweg-wire",
            "WIRES",
            "thalweg-multicast",
            "thalweg-records",
            "thalweg-kernel",
            "thalweg-fronts",
            "thalweg-transport",
            "thalweg-store",
            "thalweg-cluster",
            "thalweg-server",
            "thalweg-dds",
            "thalweg-admin",
            "thalweg-client",
        ],
    ),
    ("thalweg", &["thalweg-cli"]),
    // Everything may be tested from outside and from within.
    (
        "thalweg-tests",
        &[
            "thalweg-model",
            "thalweg-wire",
            "WIRES",
            "thalweg-multicast",
            "thalweg-records",
            "thalweg-kernel",
            "thalweg-fronts",
            "thalweg-transport",
            "thalweg-server",
            "thalweg-admin",
            "thalweg-client",
        ],
    ),
    // A broker in memory with clients of every protocol.
    (
        TESTBED,
        &[
            // In its tests: the contracts hold the example, too.
            "line-protocol",
            "thalweg-model",
            "thalweg-wire",
            "WIRES",
            "thalweg-multicast",
            "thalweg-filter",
            "thalweg-records",
            "thalweg-kernel",
            "thalweg-fronts",
            // Its fuzz targets.
            "thalweg-dds",
        ],
    ),
    (
        "thalweg-instructions",
        &[
            "thalweg-model",
            "thalweg-wire",
            "WIRES",
            "thalweg-filter",
            "thalweg-balance",
            "thalweg-kernel",
            "thalweg-fronts",
        ],
    ),
    ("xtask", &[]),
];

/// The crate that whoever may be tested with it names in its tests, and nobody in what ships.
const TESTBED: &str = "thalweg-testbed";
/// Who does: the crates that it is made of.
const TESTED_WITH_IT: [&str; 2] = ["thalweg-kernel", "thalweg-fronts"];

/// Checks every dependency, of tests too, of every crate of the workspace.
pub fn arrows_point_up(metadata: &str) -> Vec<Breach> {
    let metadata: Value = match serde_json::from_str(metadata) {
        Ok(value) => value,
        Err(error) => return vec![Breach::of("cargo metadata", error.to_string())],
    };
    let mut breaches = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let row = if WIRES.contains(&name) { "WIRES" } else { name };
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == row) else {
            breaches.push(Breach::of(
                name,
                "has no place in the house: give it a row in xtask/src/tidy/arrows.rs",
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let target = dependency["name"].as_str().unwrap_or_default();
            let is_ours = dependency["path"].is_string();
            let column = if WIRES.contains(&target) {
                "WIRES"
            } else {
                target
            };
            // A crate names itself to have its features in its tests.
            let is_itself = target == name && dependency["kind"] == "dev";
            let is_test =
                target == TESTBED && dependency["kind"] == "dev" && TESTED_WITH_IT.contains(&name);
            if is_ours && !is_itself && !is_test && !allowed.contains(&column) {
                breaches.push(Breach::of(
                    name,
                    format!("must not depend on {target} (the table of xtask/src/tidy/arrows.rs)"),
                ));
            }
            // What only tests use may do I/O.
            let is_for_tests = dependency["kind"] == "dev";
            if SANS_IO.contains(&name) && !is_for_tests && IO_DEPENDENCIES.contains(&target) {
                breaches.push(Breach::of(
                    name,
                    format!("is sans-I/O and must not depend on {target}"),
                ));
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn breaches_of(name: &str, dependency: &str, kind: Option<&str>) -> usize {
        let path = dependency
            .starts_with("thalweg")
            .then(|| format!("/x/{dependency}"));
        let dependency = json!({ "name": dependency, "kind": kind, "path": path });
        arrows_point_up(
            &json!({ "packages": [{ "name": name, "dependencies": [dependency] }] }).to_string(),
        )
        .len()
    }

    #[test]
    fn arrows_of_the_design_are_allowed() {
        for (name, dependency) in [
            ("thalweg-mqtt", "thalweg-wire"),
            ("thalweg-kernel", "thalweg-model"),
            ("thalweg-fronts", "thalweg-mqtt"),
            ("thalweg-fronts", "thalweg-kernel"),
            ("thalweg-store", "thalweg-journal"),
            ("thalweg-store", "thalweg-records"),
            ("thalweg-client", "thalweg-journal"),
            ("thalweg-admin", "thalweg-server"),
            ("thalweg-cli", "thalweg-admin"),
            ("thalweg", "thalweg-cli"),
            ("thalweg-server", "tokio"),
        ] {
            assert_eq!(
                breaches_of(name, dependency, None),
                0,
                "{name} -> {dependency}"
            );
        }
    }

    #[test]
    fn arrows_against_the_design_are_not() {
        for (name, dependency) in [
            ("thalweg-model", "thalweg-wire"),
            ("thalweg-mqtt", "thalweg-model"),
            ("thalweg-fronts", "thalweg-testbed"),
            ("thalweg", "thalweg-server"),
            ("thalweg-cli", "thalweg-testbed"),
            ("thalweg-mqtt", "thalweg-coap"),
            ("thalweg-kernel", "thalweg-mqtt"),
            ("thalweg-kernel", "thalweg-wire"),
            ("thalweg-balance", "thalweg-records"),
            ("thalweg-records", "thalweg-kernel"),
            ("thalweg-store", "thalweg-kernel"),
            ("thalweg-client", "thalweg-kernel"),
            ("thalweg-client", "thalweg-fronts"),
            ("thalweg-client", "thalweg-server"),
            ("thalweg-client", "thalweg-store"),
            ("thalweg-journal", "thalweg-kernel"),
            ("thalweg-server", "thalweg-admin"),
            ("thalweg-fronts", "tokio"),
            ("thalweg-kernel", "rand"),
            ("thalweg-nowhere", "serde"),
        ] {
            assert_eq!(
                breaches_of(name, dependency, None),
                1,
                "{name} -> {dependency}"
            );
        }
    }

    #[test]
    fn tests_obey_the_same_arrows_but_may_do_io() {
        assert_eq!(
            breaches_of("thalweg-kernel", "thalweg-mqtt", Some("dev")),
            1
        );
        assert_eq!(breaches_of("thalweg-kernel", "rand", Some("dev")), 0);
    }
}
