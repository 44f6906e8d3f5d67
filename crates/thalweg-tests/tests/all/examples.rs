//! What `examples/` promises is run as a stranger would run it.

use crate::broker::thalweg_binary;
use std::process::Command;

#[test]
fn the_sensors_demonstration_arrives_as_sent() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/sensors/run.sh");
    let ran = Command::new("bash").arg(script).env("THALWEG_BIN", thalweg_binary()).output().expect("bash runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    let complained = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}\n{complained}");
    assert!(said.contains("arrived as sent"), "{said}");
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
        let (said, complained) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "{said}\n{complained}");
        assert!(said.contains("every alarm has come"), "{said}");
    }
}
