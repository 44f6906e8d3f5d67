//! The protocols, and the libraries that speak each of them.

use thalweg_fronts::amqp::AMQP;
use thalweg_fronts::capabilities::Capabilities;
use thalweg_fronts::coap::COAP;
use thalweg_fronts::mqtt::{MQTT_3, MQTT_5};
use thalweg_fronts::stomp::STOMP;
use thalweg_fronts::xmpp::XMPP;
use thalweg_fronts::zmtp::ZMTP;

use super::puppet::Library;

/// A protocol, or a version of one that can say other things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    Mqtt3,
    Mqtt5,
    Amqp,
    Stomp,
    Coap,
    Zmtp,
    Xmpp,
}

impl Protocol {
    pub fn capabilities(self) -> &'static Capabilities {
        match self {
            Protocol::Mqtt3 => &MQTT_3,
            Protocol::Mqtt5 => &MQTT_5,
            Protocol::Amqp => &AMQP,
            Protocol::Stomp => &STOMP,
            Protocol::Coap => &COAP,
            Protocol::Zmtp => &ZMTP,
            Protocol::Xmpp => &XMPP,
        }
    }
}

pub const SPEAKERS: [(Protocol, Library); 15] = [
    (Protocol::Mqtt3, Library::PahoPython),
    (Protocol::Mqtt3, Library::PahoGo3),
    (Protocol::Mqtt5, Library::PahoPython),
    (Protocol::Mqtt5, Library::Mqttjs),
    (Protocol::Mqtt5, Library::PahoGo5),
    (Protocol::Amqp, Library::Pika),
    (Protocol::Amqp, Library::Amqp091Go),
    (Protocol::Amqp, Library::Amqplib),
    (Protocol::Amqp, Library::Lapin),
    (Protocol::Stomp, Library::StompPy),
    (Protocol::Stomp, Library::Stompjs),
    (Protocol::Coap, Library::Aiocoap),
    (Protocol::Coap, Library::GoCoap),
    (Protocol::Coap, Library::NodeCoap),
    (Protocol::Xmpp, Library::Slixmpp),
];

/// Those that have no queues with names of their own: sockets of ZeroMQ.
pub const SOCKETS: [(Protocol, Library); 5] = [
    (Protocol::Zmtp, Library::Pyzmq),
    (Protocol::Zmtp, Library::ZeromqJs),
    (Protocol::Zmtp, Library::Zmq4Go),
    (Protocol::Zmtp, Library::Jeromq),
    (Protocol::Zmtp, Library::Czmq),
];

/// Speakers of every protocol, those without named queues among them.
pub fn everybody() -> Vec<(Protocol, Library)> {
    [&SPEAKERS[..], &SOCKETS].concat()
}

/// One of each protocol that has queues, for slow tests.
pub const ONE_EACH: [(Protocol, Library); 6] = [
    SPEAKERS[0],
    SPEAKERS[2],
    SPEAKERS[5],
    SPEAKERS[9],
    SPEAKERS[11],
    SPEAKERS[14],
];

/// Those of some who can do something.
pub fn who_can(
    speakers: &[(Protocol, Library)],
    can: fn(&Capabilities) -> bool,
) -> impl Iterator<Item = (Protocol, Library)> + Clone {
    speakers
        .iter()
        .copied()
        .filter(move |(protocol, _)| can(protocol.capabilities()))
}
