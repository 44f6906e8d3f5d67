//! Eclipse Mosquitto. By default it has 20 messages under way and drops behind 1,000 in a queue.

use super::NoBroker;
use super::site::{Launch, Order, Site};
use super::system::System;
use crate::cell::{Carrier, Protocol};

/// Without limits, without a store unless asked.
pub fn launch(site: &Site<'_>) -> Result<Launch, NoBroker> {
    let program = System::Mosquitto.program()?;
    let addresses = site.addresses()?;
    let port = addresses
        .get(&Protocol::Mqtt)
        .map_or(1883, |ends| ends.publish.port());
    let mut text = format!(
        "listener {port} {}\nallow_anonymous true\nmax_queued_messages 0\nmax_queued_bytes 0\nmax_inflight_messages 0\n\
         set_tcp_nodelay true\nlog_dest stderr\nlog_type error\nlog_type warning\n",
        site.host
    );
    if matches!(site.cell.extras.carrier, Some(Carrier::Ws | Carrier::Wss)) {
        text.push_str("protocol websockets\n");
    }
    if let Some((certificate, key)) = site.identity()? {
        text.push_str(&format!("certfile {certificate}\nkeyfile {key}\n"));
    }
    if rustix::process::geteuid().is_root() {
        // Else it becomes a user to whom our folder is not open.
        text.push_str("user root\n");
    }
    if site.is_persistent() {
        text.push_str(&format!(
            "persistence true\npersistence_location {}/\n",
            site.folder.display()
        ));
    }
    text.push_str(&site.settings(" "));
    let config = site.write("mosquitto.conf", &text)?;
    Launch::new(Order::new(program, &["-c", &config]), addresses, text)
}
