//! slixmpp, by itself and with a client of MQTT, and @xmpp/client over WebSocket: `../../../interop/python/xmpp_patterns.py`
//! and `../../../interop/javascript/xmpp_websocket.js`.

use super::puppet::installed;
use crate::broker::{Broker, Options, free_port};
use crate::certificates::Certificates;
use std::path::Path;
use std::process::Command;

const PASSWORD: &[u8] = b"wherefore";
/// Rights of clients without a name, and of the users below.
const RULES: &str = "\
topic readwrite #
topic readwrite $q/#
topic readwrite $jid/#
topic read $pep/#
user romeo
topic readwrite #
topic readwrite $q/#
topic readwrite $jid/#
topic readwrite $pep/#
topic read $presence/#
user juliet
topic readwrite #
topic readwrite $q/#
topic readwrite $jid/#
topic readwrite $pep/#
user mercutio
topic read shown
";

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn a_client_of_xmpp_publishes_subscribes_and_meets_mqtt() {
    let (xmpp, starttls, people) = (free_port(), free_port(), free_port());
    let certificates = Certificates::shared();
    let broker = with_people()
        .set("listeners.xmpp.bind", &xmpp.to_string())
        .file("server.pem", &certificates.server)
        .file("server.key", &certificates.server_key)
        .file("authority.pem", &certificates.authority)
        .file("client.pem", &certificates.client)
        .file("client.key", &certificates.client_key)
        .set("listeners.secure.kind", "xmpp")
        .set("listeners.secure.transport", "starttls")
        .set("listeners.secure.bind", &starttls.to_string())
        .set("listeners.secure.tls.certificate", "{folder}/server.pem")
        .set("listeners.secure.tls.key", "{folder}/server.key")
        .set("listeners.secure.tls.client_ca", "{folder}/authority.pem")
        .set("listeners.secure.tls.client_certificate", "optional")
        .set("listeners.secure.tls.identity", "common_name")
        .set("listeners.people.kind", "xmpp")
        .set("listeners.people.bind", &people.to_string())
        .set("listeners.people.anonymous", "false")
        .set(
            "policy",
            r#"[{ filter = "several", last_value_depth = 3 }]"#,
        )
        .start_for_queues();
    let Some(broker) = broker else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/python/xmpp_patterns.py");
    let ports = [xmpp, broker.mqtt(), starttls, people];
    let mut python = Command::new(installed().join("python/bin/python"));
    python
        .arg("-B")
        .arg(script)
        .args(ports.map(|address| address.port().to_string()))
        .arg(broker.folder());
    assert_patterns(python, 18, &broker);
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn a_browsers_client_of_xmpp_does_the_same_over_websocket() {
    let (anyone, people) = (free_port(), free_port());
    let listeners = [("browsers", anyone, "true"), ("people", people, "false")];
    let broker = listeners
        .iter()
        .fold(with_people(), |options, (name, bind, open)| {
            let key = |key: &str| format!("listeners.{name}.{key}");
            options
                .set(&key("kind"), "xmpp")
                .set(&key("transport"), "ws")
                .set(&key("bind"), &bind.to_string())
                .set(&key("anonymous"), open)
        })
        .start_for_queues();
    let Some(broker) = broker else { return };
    let mut node = Command::new("node");
    node.arg("xmpp_websocket.js")
        .args([anyone, people].map(|address| address.port().to_string()))
        .current_dir(installed().join("javascript"));
    assert_patterns(node, 4, &broker);
}

/// A broker that knows users.
fn with_people() -> Options {
    let people = ["romeo", "juliet", "mercutio"];
    Broker::with()
        .users(&people.map(|user| (user, PASSWORD)))
        .file("acl", RULES)
        .set("access.acl_file", "{folder}/acl")
        .set("access.default", "deny")
        .set("xmpp.plaintext_passwords", "true")
        .set("presence.enabled", "true")
}

/// Runs a program, which prints a line for each pattern that works.
fn assert_patterns(mut program: Command, patterns: usize, broker: &Broker) {
    let output = program.output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}\n{}", broker.log());
    assert_eq!(out.lines().count(), patterns, "{out}");
}
