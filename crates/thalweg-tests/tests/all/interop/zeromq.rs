//! pyzmq, by itself and with clients of the other protocols: `../../../interop/python/zeromq_patterns.py`.

use super::puppet::installed;
use crate::broker::{Broker, free_port, thalweg_binary};
use crate::folder::Folder;
use std::path::Path;
use std::process::Command;

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn programs_of_zeromq_run_unchanged_and_meet_every_other_protocol() {
    let [zmtp, curve, tasks, results] = [(); 4].map(|()| free_port());
    let [publisher, server, ventilator, sink] = [(); 4].map(|()| free_port());
    let folder = Folder::new();
    let clients = folder.path().join("clients");
    folder.write("clients", &format!("{CLIENT_KEY} device\n"));
    let connect = format!(
        "[{{ endpoint = \"tcp://{publisher}\", as = \"sub\" }}, \
         {{ endpoint = \"tcp://{server}\", as = \"dealer\", service = \"calc\" }}, \
         {{ endpoint = \"tcp://{ventilator}\", as = \"pull\", queue = \"tasks\" }}, \
         {{ endpoint = \"tcp://{sink}\", as = \"push\", queue = \"results\" }}]"
    );
    let broker = Broker::with()
        .queues()
        .coap()
        .set("listeners.zmtp.bind", &zmtp.to_string())
        .set("listeners.curve.kind", "zmtp")
        .set("listeners.curve.bind", &curve.to_string())
        .set("listeners.curve.curve.secret_key", SERVER_SECRET)
        .set(
            "listeners.curve.curve.clients_file",
            &clients.display().to_string(),
        )
        .set("listeners.tasks.kind", "zmtp")
        .set("listeners.tasks.bind", &tasks.to_string())
        .set("listeners.tasks.queue", "tasks")
        .set("listeners.results.kind", "zmtp")
        .set("listeners.results.bind", &results.to_string())
        .set("listeners.results.queue", "results")
        .set("zmtp.retain", "lvc/#")
        .set("zmtp.last_value", "true")
        .set("zmtp.connect", &connect)
        .start_for_queues();
    let Some(broker) = broker else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/python/zeromq_patterns.py");
    let ports = [
        zmtp,
        broker.mqtt(),
        broker.amqp(),
        broker.stomp(),
        broker.coap(),
        curve,
        tasks,
        results,
        publisher,
        server,
        ventilator,
        sink,
    ];
    let output = Command::new(installed().join("python/bin/python"))
        .arg("-B")
        .arg(script)
        .env("THALWEG_BIN", thalweg_binary())
        .args(ports.map(|address| address.port().to_string()))
        .output()
        .expect("Python runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}\n{}", broker.log());
    assert_eq!(out.lines().count(), 21, "{out}");
}

/// Those of zmq_curve(7), which the script has, too.
const SERVER_SECRET: &str = "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6";
const CLIENT_KEY: &str = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";
