//! pyzmq, by itself and with clients of the other protocols: `../../../interop/python/zeromq_patterns.py`.

use super::puppet::installed;
use crate::broker::{Broker, free_port};
use std::path::Path;
use std::process::Command;

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn programs_of_zeromq_run_unchanged_and_meet_every_other_protocol() {
    let zmtp = free_port();
    let broker = Broker::with()
        .queues()
        .coap()
        .set("listeners.zmtp.bind", &zmtp.to_string())
        .start_for_queues();
    let Some(broker) = broker else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/python/zeromq_patterns.py");
    let ports = [
        zmtp,
        broker.mqtt(),
        broker.amqp(),
        broker.stomp(),
        broker.coap(),
    ];
    let output = Command::new(installed().join("python/bin/python"))
        .arg("-B")
        .arg(script)
        .args(ports.map(|address| address.port().to_string()))
        .output()
        .expect("Python runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}\n{}", broker.log());
    assert_eq!(out.lines().count(), 10, "{out}");
}
