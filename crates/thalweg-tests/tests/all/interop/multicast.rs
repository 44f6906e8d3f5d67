//! A multicast group, received by a program that knows its documents and no code of ours.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::Command;

use super::puppet::installed;
use crate::broker::Broker;

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn a_foreign_receiver_of_a_group_repairs_what_it_has_lost_by_two_protocols() {
    let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = free.local_addr().expect("an address").port();
    let group = format!(
        "[{{ name = \"poses\", group = \"239.255.10.4:{port}\", interfaces = [\"lo\"], filters = [\"plant/+/pose\"] }}]"
    );
    let broker = Broker::with()
        .queues()
        .set("multicast", &group)
        .start_for_queues();
    let Some(broker) = broker else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/python/multicast_receiver.py");
    let ports = [broker.mqtt(), broker.stomp()];
    let output = Command::new(installed().join("python/bin/python"))
        .arg("-B")
        .arg(script)
        .arg("poses")
        .args(ports.map(|address| address.port().to_string()))
        .output()
        .expect("Python runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}\n{}", broker.log());
    // How many datagrams have come by each.
    for (line, protocol) in out.lines().zip(["mqtt ", "stomp "]) {
        let count = line.strip_prefix(protocol).and_then(|it| it.parse().ok());
        assert!(count.is_some_and(|count: u32| count > 1), "{out}");
    }
    assert_eq!(out.lines().count(), 2, "{out}");
}
