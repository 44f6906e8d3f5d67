//! libzmq's proxy: publishers connect to its XSUB socket, subscribers to its XPUB socket.

use super::NoBroker;
use super::native;
use super::site::{Launch, Order, Site};
use crate::cell::Protocol;

/// Full queues block, where they would drop by default.
pub fn launch(site: &Site<'_>) -> Result<Launch, NoBroker> {
    let program = native::zmq_peer()?;
    let addresses = site.addresses()?;
    let Some(ends) = addresses.get(&Protocol::Zmtp).copied() else {
        return Err(NoBroker::Failed(std::io::Error::other(
            "a ZeroMQ proxy speaks ZMTP",
        )));
    };
    let arguments = [
        "proxy".to_owned(),
        ends.publish.to_string(),
        ends.subscribe.to_string(),
    ];
    let configuration = format!(
        "zmqpeer {}\n# XSUB and XPUB, ZMQ_SNDHWM = ZMQ_RCVHWM = 10000, ZMQ_XPUB_NODROP = 1\n",
        arguments.join(" ")
    );
    let order = Order {
        program,
        arguments: arguments.to_vec(),
        environment: Vec::new(),
    };
    Launch::new(order, addresses, configuration)
}
