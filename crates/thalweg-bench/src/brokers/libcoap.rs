//! libcoap's example server: a PUT makes a resource, observers of it are notified with confirmable messages.

use super::NoBroker;
use super::site::{Launch, Order, Site};
use super::system::System;
use crate::cell::Protocol;

/// Room for as many resources as there may be flows; non-confirmable notifications where the subscriber's leg says so (every
/// fifth is confirmable all the same, RFC 7641 4.5).
pub fn launch(site: &Site<'_>) -> Result<Launch, NoBroker> {
    let program = System::Libcoap.program()?;
    let addresses = site.addresses()?;
    let port = addresses
        .get(&Protocol::Coap)
        .map_or(5683, |ends| ends.publish.port())
        .to_string();
    let host = site.host.to_string();
    let mut arguments = vec!["-A", &host, "-p", &port, "-d", "100000", "-v", "0"];
    if site.cell.subscribe.qos == 0 {
        arguments.push("-N");
    }
    let settings = site.settings(" ");
    arguments.extend(settings.split_whitespace());
    let configuration = format!("coap-server {}\n", arguments.join(" "));
    Launch::new(Order::new(program, &arguments), addresses, configuration)
}
