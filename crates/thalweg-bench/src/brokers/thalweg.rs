//! Thalweg itself.

use std::fmt::Write as _;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use super::NoBroker;
use super::launch::{Launch, Order};
use super::peers::cyclone;
use super::ports::PortKind;
use super::site::{Site, text_of};
use super::system::System;
use crate::cell::{ALARM_CLASS, ALARM_PORT, MULTICAST_GROUP, Protocol, word};
use crate::net::{CLIENT_HOST, DEVICE};

/// Without journal unless asked, listeners for the protocols of the legs only.
pub fn launch(system: &System, site: &Site<'_>) -> Result<Launch, NoBroker> {
    let program = system.program()?;
    let addresses = site.addresses()?;
    let mut text = String::new();
    let identity = site.identity()?;
    let is_bridge = addresses.contains_key(&Protocol::Dds);
    for (protocol, ends) in &addresses {
        // A bridge has no listener, but a broker needs one.
        let name = match protocol {
            Protocol::Dds => word(Protocol::Mqtt),
            _ => word(*protocol),
        };
        let _ = writeln!(
            text,
            "listeners.{name}.bind = \"{}\"\nlisteners.{name}.anonymous = true",
            ends.publish
        );
        if let Some(carrier) = site.cell.extras.carrier {
            let _ = writeln!(text, "listeners.{name}.transport = \"{}\"", word(carrier));
        }
        if let Some((certificate, key)) = &identity {
            let _ = writeln!(
                text,
                "listeners.{name}.tls.certificate = \"{certificate}\"\nlisteners.{name}.tls.key = \"{key}\""
            );
        }
    }
    if site.cell.extras.alarms {
        let at = site.address(PortKind::Tcp, ALARM_PORT)?;
        let _ = writeln!(
            text,
            "listeners.alarms.bind = \"{at}\"\nlisteners.alarms.anonymous = true\nlisteners.alarms.dscp = {ALARM_CLASS}"
        );
    }
    for (protocol, name) in [
        (Protocol::Mqtt, "mqtt"),
        (Protocol::Amqp, "amqp"),
        (Protocol::Stomp, "stomp"),
        (Protocol::Coap, "coap"),
    ] {
        let is_asked = addresses.contains_key(&protocol) || (is_bridge && name == "mqtt");
        if !is_asked {
            let _ = writeln!(text, "listeners.{name}.enabled = false");
        }
    }
    text.push_str(SETTINGS);
    let clients = is_bridge.then(|| clients_of_dds(site)).transpose()?;
    if let Some((own, peer, _)) = &clients {
        let _ = writeln!(
            text,
            "dds.enabled = true\ndds.domain = {}\ndds.second_domain = {}\ndds.interfaces = [\"{own}\"]\n\
             dds.peers = [\"{peer}\"]",
            DOMAINS[0], DOMAINS[1]
        );
    }
    if addresses.contains_key(&Protocol::Zmtp) {
        text.push_str(SETTINGS_OF_ZMTP);
    }
    if site.cell.extras.multicast {
        let group = group(site)?;
        let _ = writeln!(text, "multicast = [{group}]");
    }
    let _ = writeln!(text, "journal.enabled = {}", site.is_persistent());
    let config = site.write("thalweg.toml", &text)?;
    let data = text_of(&site.path("data"));
    let mut arguments = ["serve", "--config", &config, "--data", &data]
        .map(str::to_owned)
        .to_vec();
    for setting in site.settings("=").lines() {
        arguments.extend(["--set", setting].map(str::to_owned));
        // In the record they are what was said last.
        let _ = writeln!(text, "# --set {setting}");
    }
    if let Some((_, _, told)) = clients {
        text.insert_str(0, &told);
    }
    Ok(Launch {
        before: None,
        broker: Order {
            program,
            arguments,
            ..Order::default()
        },
        says: Some("ready".to_owned()),
        addresses,
        configuration: text,
        beside: None,
        patience: Duration::from_secs(60),
    })
}

/// The group that subscribers of a cell receive by, at the interface of the link.
fn group(site: &Site<'_>) -> io::Result<String> {
    let port = site.address(PortKind::Udp, 7500)?.port();
    let interface = site.space.map_or("lo", |_| DEVICE);
    Ok(format!(
        "{{ name = \"{MULTICAST_GROUP}\", group = \"239.255.80.1:{port}\", interfaces = [\"{interface}\"], filters = [\"lab/#\"] }}"
    ))
}

/// Where a bridge of DDS is, where its clients are, and what these are told: a line for publishers and one for subscribers,
/// which are in different domains, so that every sample passes through the bridge.
fn clients_of_dds(site: &Site<'_>) -> io::Result<(IpAddr, IpAddr, String)> {
    let client = match site.space {
        Some(_) => CLIENT_HOST.parse().map_err(io::Error::other)?,
        None => site.host,
    };
    let (own, peer) = (client.to_string(), site.host.to_string());
    let told = DOMAINS.map(|domain| cyclone(domain, &own, &peer, false, None) + "\n");
    Ok((site.host, client, told.concat()))
}

/// What the program says that cannot be a bridge, and what makes one that can.
pub const WITHOUT_DDS: &str = "built without DDS";
pub const BUILD_WITH_DDS: &str = "cargo build --release --features dds (docs/protocols/dds.md)";
/// Of publishers, and of subscribers.
const DOMAINS: [u32; 2] = [71, 72];
/// Queues that do not drop. To one observer of many topics goes more than one notification at once: with RFC 7252's NSTART
/// of 1 and first wait of 2 s, five messages a second at 20 % loss wait in the broker for minutes.
const SETTINGS: &str = "\
listeners.websocket.enabled = false
listeners.coap-tcp.enabled = false
queue.messages_max = 100000000
queue.bytes_max = \"64GiB\"
queue.output_bytes_max = \"64MiB\"
mqtt.receive_maximum = 65535
mqtt.inflight_max = 65535
coap.observations_per_peer_max = 65535
coap.nstart = 64
coap.adaptive_timeout = true
admin.enabled = false
sys.interval = \"off\"
";
/// As many messages wait as at the sockets of libzmq's proxy.
const SETTINGS_OF_ZMTP: &str = "zmtp.high_water = 10000\n";
