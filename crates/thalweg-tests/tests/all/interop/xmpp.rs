//! slixmpp, by itself and with a client of MQTT: `../../../interop/python/xmpp_patterns.py`.

use super::puppet::installed;
use crate::broker::{Broker, free_port};
use crate::certificates::Certificates;
use std::path::Path;
use std::process::Command;

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn a_client_of_xmpp_publishes_subscribes_and_meets_mqtt() {
    let (xmpp, starttls) = (free_port(), free_port());
    let certificates = Certificates::shared();
    let broker = Broker::with()
        .set("listeners.xmpp.bind", &xmpp.to_string())
        .file("server.pem", &certificates.server)
        .file("server.key", &certificates.server_key)
        .file("authority.pem", &certificates.authority)
        .set("listeners.secure.kind", "xmpp")
        .set("listeners.secure.transport", "starttls")
        .set("listeners.secure.bind", &starttls.to_string())
        .set("listeners.secure.tls.certificate", "{folder}/server.pem")
        .set("listeners.secure.tls.key", "{folder}/server.key")
        .start_for_queues();
    let Some(broker) = broker else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/python/xmpp_patterns.py");
    let ports = [xmpp, broker.mqtt(), starttls];
    let output = Command::new(installed().join("python/bin/python"))
        .arg("-B")
        .arg(script)
        .args(ports.map(|address| address.port().to_string()))
        .arg(broker.folder().join("authority.pem"))
        .output()
        .expect("Python runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}\n{}", broker.log());
    assert_eq!(out.lines().count(), 8, "{out}");
}
