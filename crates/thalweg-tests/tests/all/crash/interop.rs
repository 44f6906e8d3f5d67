//! `examples/qos2-kill-9`: a client library that we did not write on both sides of a broker that is killed.

use std::process::Command;

use super::oracle;
use crate::broker::thalweg_binary;

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn paho_on_both_sides_gets_each_message_once_though_the_broker_is_killed_in_the_middle() {
    if oracle() {
        return;
    }
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let ran = Command::new(format!("{root}/target/interop/python/bin/python"))
        .arg(format!("{root}/examples/qos2-kill-9/qos2_kill_9.py"))
        .args(["--port", &crate::broker::free_port().port().to_string()])
        .env("THALWEG_BIN", thalweg_binary())
        .output()
        .expect("cargo xtask interop has installed Python's clients");
    let (said, complained) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert!(ran.status.success(), "{said}\n{complained}");
    assert_eq!(said.matches("*** kill -9").count(), 3, "{said}");
    assert!(
        said.contains("Received CONNACK (1, 0)") && said.contains("exactly once, in order"),
        "{said}"
    );
}
