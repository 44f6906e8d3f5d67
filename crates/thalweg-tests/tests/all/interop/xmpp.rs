//! slixmpp, by itself and with a client of MQTT: `../../../interop/python/xmpp_patterns.py`.

use super::puppet::installed;
use crate::broker::{Broker, free_port};
use std::path::Path;
use std::process::Command;

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn a_client_of_xmpp_publishes_subscribes_and_meets_mqtt() {
    let xmpp = free_port();
    let broker = Broker::with()
        .set("listeners.xmpp.bind", &xmpp.to_string())
        .start_for_queues();
    let Some(broker) = broker else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/python/xmpp_patterns.py");
    let ports = [xmpp, broker.mqtt()];
    let output = Command::new(installed().join("python/bin/python"))
        .arg("-B")
        .arg(script)
        .args(ports.map(|address| address.port().to_string()))
        .output()
        .expect("Python runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}\n{}", broker.log());
    assert_eq!(out.lines().count(), 6, "{out}");
}
