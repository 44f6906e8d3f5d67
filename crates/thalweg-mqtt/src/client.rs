//! The client's end of a connection.

use crate::*;

/// What a server said.
#[derive(Clone)]
pub enum ClientEvent<'b> {
    /// The outcome of CONNECT.
    ConnAck(Box<ClientConnAck<'b>>),
    /// A message.
    Publish(Publish<'b>),
    /// Answer to our QoS 1 PUBLISH.
    PubAck(Ack<'b>),
    /// First answer to our QoS 2 PUBLISH.
    PubRec(Ack<'b>),
    /// The server releases its QoS 2 PUBLISH.
    PubRel(Ack<'b>),
    /// Last answer to our QoS 2 PUBLISH.
    PubComp(Ack<'b>),
    /// Answer to SUBSCRIBE.
    SubAck(SubAck<'b>),
    /// Answer to UNSUBSCRIBE.
    UnsubAck(SubAck<'b>),
    /// Answer to PINGREQ.
    PingResp,
    /// The server ends the connection.
    Disconnect(Disconnect<'b>),
    /// A step of enhanced authentication.
    Auth(Auth<'b>),
}

/// CONNACK as received: the values in force, and the raw properties.
#[derive(Clone)]
pub struct ClientConnAck<'b> {
    /// The values.
    pub values: ConnAck<'b>,
    /// All properties, for the user properties (`values.user` is empty on receipt).
    pub properties: Properties<'b>,
}

/// PUBACK, PUBREC, PUBREL or PUBCOMP as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'b> {
    /// Packet identifier, not 0.
    pub id: u16,
    /// Outcome; `Success` for MQTT 3.
    pub reason: ReasonCode,
    /// Reason string and user properties.
    pub properties: Properties<'b>,
}

/// The client's end of one connection.
#[derive(Debug, Default)]
pub struct ClientSide {
    version: Version,
}

impl ClientSide {
    /// A machine that has not sent CONNECT yet. `packet_bytes_max` bounds what it takes, announced or not.
    pub fn new(packet_bytes_max: u32) -> Self {
        let _ = packet_bytes_max;
        ClientSide::default()
    }

    /// The version of CONNECT.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The next packet out of `bytes`; as [`ServerSide::handle_input`].
    pub fn handle_input<'b>(&mut self, bytes: &'b [u8]) -> Result<Option<(usize, ClientEvent<'b>)>, PeerFault> {
        let _ = bytes;
        Ok(None)
    }

    /// A packet identifier that no unfinished exchange of ours uses; `None` when all 65,535 are in use.
    /// [MQTT-2.2.1-3] It is free again after PUBACK, PUBCOMP, a failed PUBREC, SUBACK or UNSUBACK.
    pub fn next_id(&mut self) -> Option<u16> {
        None
    }

    /// Opens the connection.
    pub fn connect(&mut self, c: &ConnectOut<'_>, out: &mut Vec<u8>) {
        let _ = (c, out);
    }

    /// Sends a message; `p.id` from [`ClientSide::next_id`] for QoS 1 and 2.
    pub fn publish(&mut self, p: &PublishOut<'_>, out: &mut Vec<u8>) -> Result<(), TooLarge> {
        let _ = (p, out);
        Ok(())
    }

    /// How many more QoS 1 and 2 publishes the server takes now (its Receive Maximum less those in flight).
    pub fn send_quota(&self) -> u16 {
        u16::MAX
    }

    /// Subscribes.
    pub fn subscribe(&mut self, s: &SubscribeOut<'_>, out: &mut Vec<u8>) {
        let _ = (s, out);
    }

    /// Unsubscribes.
    pub fn unsubscribe(&mut self, u: &UnsubscribeOut<'_>, out: &mut Vec<u8>) {
        let _ = (u, out);
    }

    /// Acknowledges a QoS 1 publish.
    pub fn puback(&mut self, id: u16, reason: ReasonCode, out: &mut Vec<u8>) {
        let _ = (id, reason, out);
    }

    /// First answer to a QoS 2 publish.
    pub fn pubrec(&mut self, id: u16, reason: ReasonCode, out: &mut Vec<u8>) {
        let _ = (id, reason, out);
    }

    /// Releases our QoS 2 publish.
    pub fn pubrel(&mut self, id: u16, reason: ReasonCode, out: &mut Vec<u8>) {
        let _ = (id, reason, out);
    }

    /// Last answer to a QoS 2 publish.
    pub fn pubcomp(&mut self, id: u16, reason: ReasonCode, out: &mut Vec<u8>) {
        let _ = (id, reason, out);
    }

    /// Still there?
    pub fn ping(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[0xC0, 0]);
    }

    /// Goodbye.
    pub fn disconnect(&mut self, reason: ReasonCode, props: &DisconnectProps<'_>, out: &mut Vec<u8>) {
        let _ = (reason, props, out);
    }

    /// A step of enhanced authentication.
    pub fn auth(&mut self, reason: ReasonCode, method: &str, data: Option<&[u8]>, out: &mut Vec<u8>) {
        let _ = (reason, method, data, out);
    }
}
