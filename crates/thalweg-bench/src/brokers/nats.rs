//! nats-server, its MQTT side (3.1.1). It needs its stream store for that, which is kept in memory unless asked.

use std::path::Path;

use super::NoBroker;
use super::ports::PortKind;
use super::process::MEMORY;
use super::site::{Launch, Order, Site, text_of};
use super::system::System;
use crate::cell::Protocol;

/// Without its limits of 100 messages under way and 10 s for a slow reader.
pub fn launch(site: &Site<'_>) -> Result<Launch, NoBroker> {
    let program = System::Nats.program()?;
    let addresses = site.addresses()?;
    let port = addresses
        .get(&Protocol::Mqtt)
        .map_or(1883, |ends| ends.publish.port());
    let client = site.address(PortKind::Tcp, 4222)?;
    // It has no store of its own in memory for sessions; a file system there is as good.
    let memory = Path::new(MEMORY);
    let store = match !site.is_persistent() && memory.is_dir() {
        true => memory.join(site.folder.file_name().unwrap_or_default()),
        false => site.path("store"),
    };
    // A client may have 65,535 messages under way (MQTT's identifiers); nats refuses a subscription with which its own could be
    // more, and counts for each what may be.
    let under_way = (65_535 / site.cell.load.flows().max(1)).max(1);
    let text = format!(
        "listen: \"{client}\"\nserver_name: measured\nwrite_deadline: \"60s\"\nmax_pending: 1GB\n\
         jetstream {{ store_dir: \"{}\" }}\nmqtt {{ listen: \"{}:{port}\", max_ack_pending: {under_way} }}\n{}",
        text_of(&store),
        site.host,
        site.settings(": ")
    );
    let config = site.write("nats.conf", &text)?;
    let mut launch = Launch::new(Order::new(program, &["-c", &config]), addresses, text)?;
    launch.besides.push(store);
    Ok(launch)
}
