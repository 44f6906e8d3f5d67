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
