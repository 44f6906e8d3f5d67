//! Runs the examples of `examples/` as a new user would.

use crate::broker::thalweg_binary;
use std::process::Command;

#[test]
fn the_sensors_demonstration_arrives_as_sent() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/sensors/run.sh");
    let ran = Command::new("bash")
        .arg(script)
        .env("THALWEG_BIN", thalweg_binary())
        .output()
        .expect("bash runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    let complained = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}\n{complained}");
    assert!(said.contains("arrived as sent"), "{said}");
}

/// A crate of a third party: it has a protocol that we do not know, and tests of its own.
#[test]
fn a_protocol_from_outside_keeps_the_clients_promises() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/own-transport");
    let target = thalweg_binary().with_file_name("own-transport");
    let ran = Command::new(env!("CARGO"))
        .args(["test", "--quiet", "--locked", "--target-dir"])
        .arg(target)
        .current_dir(folder)
        .output()
        .expect("cargo runs");
    let (said, complained) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert!(ran.status.success(), "{said}\n{complained}");
    assert!(said.contains("3 passed"), "{said}");
}

mod interop {
    use super::*;

    #[test]
    #[ignore = "needs foreign clients: cargo xtask interop"]
    fn a_sensor_by_mqtt_a_worker_by_pika_and_a_display_by_stomp_work_together() {
        if std::env::var_os("THALWEG_TEST_BROKER").is_some() {
            // mosquitto speaks one of the three.
            return;
        }
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let ran = Command::new("bash")
            .arg(format!("{root}/examples/three-protocols/run.sh"))
            .env("THALWEG_BIN", thalweg_binary())
            .env("PYTHON", format!("{root}/target/interop/python/bin/python"))
            .output()
            .expect("bash runs");
        let (said, complained) = (
            String::from_utf8_lossy(&ran.stdout),
            String::from_utf8_lossy(&ran.stderr),
        );
        assert!(ran.status.success(), "{said}\n{complained}");
        assert!(said.contains("every alarm has come"), "{said}");
    }

    #[test]
    #[ignore = "needs foreign clients: cargo xtask interop"]
    fn the_commands_of_the_guides_do_what_the_guides_say() {
        if std::env::var_os("THALWEG_TEST_BROKER").is_some() {
            // They start Thalweg themselves.
            return;
        }
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let ran = Command::new(format!("{root}/target/interop/python/bin/python"))
            .arg("-B")
            .arg(format!("{root}/crates/thalweg-tests/interop/guides.py"))
            .arg(thalweg_binary())
            .output()
            .expect("python runs");
        let said = String::from_utf8_lossy(&ran.stdout);
        let complained = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{said}\n{complained}");
    }

    #[test]
    #[ignore = "needs foreign clients: cargo xtask interop"]
    fn a_worker_that_gets_slow_loses_its_share_to_the_others() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let ran = Command::new("bash")
            .arg(format!("{root}/examples/workers/demo.sh"))
            .env("THALWEG_BIN", thalweg_binary())
            .env("PYTHON", format!("{root}/target/interop/python/bin/python"))
            .env("SECONDS_EACH", "4")
            .output()
            .expect("bash runs");
        let (said, complained) = (
            String::from_utf8_lossy(&ran.stdout),
            String::from_utf8_lossy(&ran.stderr),
        );
        assert!(ran.status.success(), "{said}\n{complained}");
        let line = said
            .lines()
            .find(|line| line.starts_with("worker-3 did "))
            .unwrap_or_else(|| panic!("{said}"));
        let shares: Vec<u32> = line
            .split(' ')
            .filter_map(|word| word.parse().ok())
            .collect();
        let [_, after] = shares[..] else {
            panic!("{line}")
        };
        // 60 ms a job allow 17 of 90 in a second at the most. The shares of three equal workers, of which two would be
        // enough, depend on the first answers; the simulator's bars, with seeds, cover that.
        assert!(after <= 22, "{said}");
        assert!(said.contains("990 jobs, 990 done"), "{said}");
    }
}
