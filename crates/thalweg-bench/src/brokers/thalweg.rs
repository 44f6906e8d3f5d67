//! Thalweg itself.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::NoBroker;
use super::site::{Launch, Order, Site, text_of};
use super::system::{System, found};
use crate::cell::Protocol;

/// What `THALWEG_BIN` names (`thalweg bench` names itself), or `thalweg` beside this program, or the one in PATH.
pub fn program() -> Option<PathBuf> {
    let beside = || {
        let beside = std::env::current_exe().ok()?.with_file_name("thalweg");
        beside.is_file().then_some(beside)
    };
    std::env::var_os("THALWEG_BIN")
        .map(PathBuf::from)
        .or_else(beside)
        .or_else(|| found(&["thalweg"]))
}

/// Without journal unless asked, listeners for the protocols of the legs only.
pub fn launch(site: &Site<'_>) -> Result<Launch, NoBroker> {
    let program = System::Thalweg.program()?;
    let addresses = site.addresses()?;
    let mut text = String::new();
    let identity = site.identity()?;
    for (protocol, ends) in &addresses {
        let name = super::word(*protocol);
        let _ = writeln!(
            text,
            "listeners.{name}.bind = \"{}\"\nlisteners.{name}.anonymous = true",
            ends.publish
        );
        if let Some(carrier) = site.cell.extras.carrier {
            let _ = writeln!(text, "listeners.{name}.transport = \"{}\"", carrier.word());
        }
        if let Some((certificate, key)) = &identity {
            let _ = writeln!(
                text,
                "listeners.{name}.tls.certificate = \"{certificate}\"\nlisteners.{name}.tls.key = \"{key}\""
            );
        }
    }
    for (protocol, name) in [
        (Protocol::Mqtt, "mqtt"),
        (Protocol::Amqp, "amqp"),
        (Protocol::Stomp, "stomp"),
        (Protocol::Coap, "coap"),
        (Protocol::Dds, "websocket"),
        (Protocol::Dds, "coap-tcp"),
    ] {
        if !addresses.contains_key(&protocol) {
            let _ = writeln!(text, "listeners.{name}.enabled = false");
        }
    }
    text.push_str(SETTINGS);
    if addresses.contains_key(&Protocol::Zmtp) {
        text.push_str(SETTINGS_OF_ZMTP);
    }
    let _ = writeln!(text, "journal.enabled = {}", site.is_persistent());
    let config = site.write("thalweg.toml", &text)?;
    let data = text_of(&site.path("data"));
    let mut broker = Order::new(program, &["serve", "--config", &config, "--data", &data]);
    for setting in site.settings("=").lines() {
        broker
            .arguments
            .extend(["--set".to_owned(), setting.to_owned()]);
        // In the record they are what was said last.
        let _ = writeln!(text, "# --set {setting}");
    }
    let mut launch = Launch::new(broker, addresses, text)?;
    launch.says = Some("ready");
    Ok(launch)
}

/// Queues that do not drop. To one observer of many topics goes more than one notification at once: with RFC 7252's NSTART
/// of 1 and first wait of 2 s, five messages a second at 20 % loss wait in the broker for minutes.
const SETTINGS: &str = "\
queue.messages_max = 100000000
queue.bytes_max = \"64GiB\"
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
