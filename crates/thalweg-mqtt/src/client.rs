//! The client's end of a connection.

use crate::alias::{InboundAliases, OutboundAliases};
use crate::codec::frame::Frame;
use crate::codec::publish::Fields;
use crate::codec::{ack, auth, connack, connect, disconnect, ping, suback, subscribe, unsubscribe};
use crate::packet::{PacketType, Sender};
use crate::packet_ids::PacketIds;
use crate::properties::Place;
use crate::{
    Auth, ConnAck, ConnectOut, Disconnect, DisconnectProps, Info, PeerFault, Properties, Publish,
    PublishOut, QoS, ReasonCode, SubAck, SubscribeOut, TooLarge, UnsubscribeOut, Version, load,
};

/// An event from a server.
#[derive(Clone, Debug)]
pub enum ClientEvent<'b> {
    /// The outcome of CONNECT.
    ConnAck(Box<ClientConnAck<'b>>),
    /// A message for one of our subscriptions.
    Publish(Publish<'b>),
    /// Answer to our QoS 1 PUBLISH.
    PubAck(Ack<'b>),
    /// First answer to our QoS 2 PUBLISH.
    PubRec(Ack<'b>),
    /// The server releases its QoS 2 PUBLISH.
    PubRel(Ack<'b>),
    /// Last answer to our QoS 2 PUBLISH.
    PubComp(Ack<'b>),
    /// Answer to a SUBSCRIBE: one reason code per filter.
    SubAck(SubAck<'b>),
    /// Answer to an UNSUBSCRIBE: one reason code per filter in MQTT 5.
    UnsubAck(SubAck<'b>),
    /// Answer to a PINGREQ of ours.
    PingResp,
    /// The server ends the connection.
    Disconnect(Disconnect<'b>),
    /// A step of enhanced authentication.
    Auth(Auth<'b>),
}

/// CONNACK as received: the values in force, and the raw properties.
#[derive(Clone, Debug)]
pub struct ClientConnAck<'b> {
    /// The fields of CONNACK as they came.
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

/// Why a client may not send a message now; nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishError {
    /// Larger than the server takes. [MQTT-3.2.2-15]
    TooLarge(TooLarge),
    /// The server's Receive Maximum is used up; wait for an acknowledgement. [MQTT-4.9.0-2]
    ReceiveMaximum,
    /// Above the server's Maximum QoS. [MQTT-3.2.2-11]
    QosNotSupported,
    /// The server keeps no retained messages. [MQTT-3.2.2-14]
    RetainNotSupported,
    /// CONNECT was not sent, or the connection has ended.
    NotConnected,
}

impl std::fmt::Display for PublishError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PublishError::TooLarge(e) => e.fmt(f),
            PublishError::ReceiveMaximum => {
                f.write_str("too many messages wait for an acknowledgement of the server")
            }
            PublishError::QosNotSupported => f.write_str("the server does not support this QoS"),
            PublishError::RetainNotSupported => {
                f.write_str("the server does not keep retained messages")
            }
            PublishError::NotConnected => f.write_str("there is no connection"),
        }
    }
}

impl std::error::Error for PublishError {}

impl From<TooLarge> for PublishError {
    fn from(e: TooLarge) -> Self {
        PublishError::TooLarge(e)
    }
}

/// Features announced by the server's CONNACK; before that, the defaults of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerOffer {
    /// QoS 1 and 2 publishes it takes before it acknowledges.
    pub receive_max: u16,
    /// Highest QoS at which the server accepts publishes.
    pub maximum_qos: QoS,
    /// Whether it keeps retained messages.
    pub retain_available: bool,
    /// Largest packet it takes, in bytes.
    pub packet_bytes_max: u32,
    /// Highest topic alias that the server accepts; 0 for none.
    pub topic_alias_max: u16,
    /// Whether it supports wildcard subscriptions.
    pub wildcard_available: bool,
    /// Whether it supports subscription identifiers.
    pub subscription_ids_available: bool,
    /// Whether it supports shared subscriptions.
    pub shared_available: bool,
    /// Keep alive in force, in seconds; 0 off. [MQTT-3.2.2-21]
    pub keep_alive: u16,
    /// Whether it takes reports of load in PINGREQ ([`crate::load::ANNOUNCEMENT`]).
    pub load_reports: bool,
}

impl Default for ServerOffer {
    fn default() -> Self {
        ServerOffer {
            receive_max: u16::MAX,
            maximum_qos: QoS::ExactlyOnce,
            retain_available: true,
            packet_bytes_max: u32::MAX,
            topic_alias_max: 0,
            wildcard_available: true,
            subscription_ids_available: true,
            shared_available: true,
            keep_alive: 0,
            load_reports: false,
        }
    }
}

/// The client's end of one connection: bytes in, events out; verbs append bytes to the caller's buffer. Make a new one
/// for each connection.
///
/// ```text
///  ExpectConnect --connect()--> ExpectConnack --CONNACK(Success)--> Connected --disconnect(), DISCONNECT--> Closed
/// ```
#[derive(Debug)]
pub struct ClientSide {
    version: Version,
    state: State,
    /// Largest packet taken, in bytes.
    packet_bytes_max: u32,
    /// The Receive Maximum we announced.
    receive_max: u16,
    /// Inbound QoS 1 and 2 publishes that are not settled yet.
    unsettled: u16,
    offer: ServerOffer,
    /// CONNECT asked for a new session, so there is none to be present.
    clean_start: bool,
    /// Our QoS 1 and 2 publishes that are not settled yet.
    in_flight: u16,
    inbound: InboundAliases,
    outbound: OutboundAliases,
    ids: PacketIds,
    auth_method: Option<Box<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The caller owes `connect`.
    ExpectConnect,
    ExpectConnack,
    Connected,
    Closed,
}

impl ClientSide {
    /// A machine that has not sent CONNECT yet. `packet_bytes_max` bounds what it takes, announced or not.
    pub fn new(packet_bytes_max: u32) -> Self {
        ClientSide {
            version: Version::default(),
            state: State::ExpectConnect,
            packet_bytes_max,
            receive_max: u16::MAX,
            unsettled: 0,
            offer: ServerOffer::default(),
            clean_start: false,
            in_flight: 0,
            inbound: InboundAliases::default(),
            outbound: OutboundAliases::default(),
            ids: PacketIds::default(),
            auth_method: None,
        }
    }

    /// The version of CONNECT.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether a successful CONNACK came and the connection has not ended.
    pub fn is_connected(&self) -> bool {
        self.state == State::Connected
    }

    /// Features announced by the server.
    pub fn offer(&self) -> &ServerOffer {
        &self.offer
    }

    /// The next packet out of `bytes`. `Ok(None)`: incomplete, nothing consumed. `Ok(Some((consumed, event)))`: the
    /// event borrows from `bytes` only. `Err`: call [`ClientSide::fault`] and close.
    pub fn handle_input<'b>(
        &mut self,
        bytes: &'b [u8],
    ) -> Result<Option<(usize, ClientEvent<'b>)>, PeerFault> {
        if matches!(self.state, State::ExpectConnect | State::Closed) {
            return Ok(None);
        }
        let Some(frame) = Frame::split(bytes, self.packet_bytes_max, self.version.is_v5())? else {
            return Ok(None);
        };
        let early = self.state == State::ExpectConnack;
        let event = match frame.first >> 4 {
            2 => self.on_connack(frame)?,
            15 if self.version.is_v5() => self.on_other(frame)?,
            _ if early => return Err(PeerFault::EXPECTED_CONNACK),
            3 => ClientEvent::Publish(self.on_publish(frame)?),
            _ => self.on_other(frame)?,
        };
        Ok(Some((frame.whole.len(), event)))
    }

    fn on_connack<'b>(&mut self, frame: Frame<'b>) -> Result<ClientEvent<'b>, PeerFault> {
        if self.state != State::ExpectConnack {
            return Err(PeerFault::SECOND_CONNACK);
        }
        if frame.first & 0x0F != 0 {
            return Err(PeerFault::FLAGS);
        }
        let (values, properties) = connack::decode(frame.body, self.version.is_v5())?;
        if values.session_present && self.clean_start {
            return Err(PeerFault::SESSION_UNKNOWN);
        }
        if values.reason.is_error() {
            self.state = State::Closed;
        } else {
            self.state = State::Connected;
            self.offer = ServerOffer {
                receive_max: values.receive_max,
                maximum_qos: values.maximum_qos,
                retain_available: values.retain_available,
                packet_bytes_max: values.packet_bytes_max.unwrap_or(u32::MAX),
                topic_alias_max: values.topic_alias_max,
                wildcard_available: values.wildcard_available,
                subscription_ids_available: values.subscription_ids_available,
                shared_available: values.shared_available,
                keep_alive: values.server_keep_alive.unwrap_or(self.offer.keep_alive),
                load_reports: properties
                    .user_properties()
                    .any(|said| said == load::ANNOUNCEMENT),
            };
            self.outbound.set_max(values.topic_alias_max);
        }
        Ok(ClientEvent::ConnAck(Box::new(ClientConnAck {
            values,
            properties,
        })))
    }

    fn on_publish<'b>(&mut self, frame: Frame<'b>) -> Result<Publish<'b>, PeerFault> {
        let v5 = self.version.is_v5();
        let publish =
            Fields::decode(&frame, v5, Place::PublishToClient, &mut self.inbound)?.publish(&frame);
        if v5 && publish.qos != QoS::AtMostOnce {
            if self.unsettled >= self.receive_max {
                return Err(PeerFault::RECEIVE_MAXIMUM);
            }
            self.unsettled += 1;
        }
        Ok(publish)
    }

    fn on_other<'b>(&mut self, frame: Frame<'b>) -> Result<ClientEvent<'b>, PeerFault> {
        let v5 = self.version.is_v5();
        let (expected, wrong) = match frame.first >> 4 {
            6 => (2, PeerFault::PUBREL_FLAGS),
            14 => (0, PeerFault::DISCONNECT_FLAGS),
            15 => (0, PeerFault::AUTH_FLAGS),
            _ => (0, PeerFault::FLAGS),
        };
        let flags = frame.first & 0x0F;
        let v31_dup = self.version == Version::V31 && frame.first == 0x6A;
        let ack = |packet: PacketType| {
            let (id, reason, properties) = ack::decode(frame.body, packet, Sender::Server, v5)?;
            Ok(Ack {
                id,
                reason,
                properties,
            })
        };
        let kind = frame.first >> 4;
        if flags != expected && !v31_dup && matches!(kind, 4..=7 | 9 | 11 | 13 | 14 | 15) {
            return Err(wrong);
        }
        Ok(match kind {
            4 => {
                let ack = ack(PacketType::PubAck)?;
                self.settled(ack.id);
                ClientEvent::PubAck(ack)
            }
            5 => {
                let ack = ack(PacketType::PubRec)?;
                if ack.reason.is_error() {
                    self.settled(ack.id);
                }
                ClientEvent::PubRec(ack)
            }
            6 => ClientEvent::PubRel(ack(PacketType::PubRel)?),
            7 => {
                let ack = ack(PacketType::PubComp)?;
                self.settled(ack.id);
                ClientEvent::PubComp(ack)
            }
            9 => {
                let suback = suback::decode(frame.body, PacketType::SubAck, v5)?;
                self.ids.release(suback.id);
                ClientEvent::SubAck(suback)
            }
            11 => {
                let unsuback = suback::decode(frame.body, PacketType::UnsubAck, v5)?;
                self.ids.release(unsuback.id);
                ClientEvent::UnsubAck(unsuback)
            }
            13 => {
                ping::decode(frame.body, false)?;
                ClientEvent::PingResp
            }
            14 if v5 => {
                let disconnect = disconnect::decode(frame.body, Sender::Server, v5)?;
                self.state = State::Closed;
                ClientEvent::Disconnect(disconnect)
            }
            15 if v5 => ClientEvent::Auth(auth::decode(
                frame.body,
                Sender::Server,
                self.auth_method.as_deref(),
            )?),
            1 | 8 | 10 | 12 | 14 => return Err(PeerFault::DIRECTION),
            _ => return Err(PeerFault::TYPE_RESERVED),
        })
    }

    fn settled(&mut self, id: u16) {
        self.ids.release(id);
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// A packet identifier that no unfinished exchange of ours uses; `None` when all 65,535 are in use.
    /// [MQTT-2.2.1-3] It is free again after PUBACK, PUBCOMP, a failed PUBREC, SUBACK or UNSUBACK.
    pub fn next_id(&mut self) -> Option<u16> {
        self.ids.allocate()
    }

    /// Marks an identifier as in use: that of an exchange which a resumed session goes on with.
    pub fn reserve_id(&mut self, id: u16) {
        self.ids.reserve(id);
    }

    /// Opens the connection. `Err`: a string is longer than 65,535 bytes; nothing written.
    pub fn connect(&mut self, c: &ConnectOut<'_>, out: &mut Vec<u8>) -> Result<(), TooLarge> {
        connect::encode(c, out)?;
        self.version = c.version;
        self.clean_start = c.clean_start;
        self.state = State::ExpectConnack;
        self.receive_max = c.receive_max.max(1);
        self.packet_bytes_max = c
            .packet_bytes_max
            .unwrap_or(u32::MAX)
            .min(self.packet_bytes_max);
        self.inbound.set_max(c.topic_alias_max);
        self.offer.keep_alive = c.keep_alive;
        self.auth_method = c.auth_method.filter(|_| c.version.is_v5()).map(Box::from);
        Ok(())
    }

    /// From now on, more publishes than the Receive Maximum of [`ClientSide::connect`] are no protocol error: for
    /// clients with enough memory, since not all servers keep to it (Debian 12's mosquitto 2.0.11 does not).
    pub fn tolerate_excess(&mut self) {
        self.receive_max = u16::MAX;
    }

    /// Sends a message; `p.id` from [`ClientSide::next_id`] for QoS 1 and 2. Subscription identifiers are left out.
    /// [MQTT-3.3.4-6]
    pub fn publish(&mut self, p: &PublishOut<'_>, out: &mut Vec<u8>) -> Result<(), PublishError> {
        if !self.may_send() {
            return Err(PublishError::NotConnected);
        }
        if p.qos > self.offer.maximum_qos {
            return Err(PublishError::QosNotSupported);
        }
        if p.retain && !self.offer.retain_available {
            return Err(PublishError::RetainNotSupported);
        }
        let counted = p.qos != QoS::AtMostOnce;
        if counted && self.send_quota() == 0 {
            return Err(PublishError::ReceiveMaximum);
        }
        let p = PublishOut {
            subscription_ids: &[],
            ..*p
        };
        p.encode(
            self.version.is_v5(),
            &mut self.outbound,
            self.offer.packet_bytes_max,
            out,
        )?;
        self.in_flight += u16::from(counted);
        Ok(())
    }

    /// Number of QoS 1 and 2 publishes that the server accepts now (its Receive Maximum less those in flight).
    pub fn send_quota(&self) -> u16 {
        self.offer.receive_max.saturating_sub(self.in_flight)
    }

    /// Packets may follow CONNECT without waiting for CONNACK (§3.1.4), except in an authentication exchange.
    /// [MQTT-3.1.2-30]
    fn may_send(&self) -> bool {
        match self.state {
            State::Connected => true,
            State::ExpectConnack => self.auth_method.is_none(),
            _ => false,
        }
    }

    fn out_bytes_max(&self) -> u32 {
        if self.may_send() {
            self.offer.packet_bytes_max
        } else {
            0
        }
    }

    /// Subscribes. `Err`: larger than the server takes, or not connected; nothing written.
    pub fn subscribe(&mut self, s: &SubscribeOut<'_>, out: &mut Vec<u8>) -> Result<(), TooLarge> {
        subscribe::encode(s, self.version, self.out_bytes_max(), out)
    }

    /// Unsubscribes. `Err`: larger than the server takes, or not connected; nothing written.
    pub fn unsubscribe(
        &mut self,
        u: &UnsubscribeOut<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), TooLarge> {
        unsubscribe::encode(u, self.version, self.out_bytes_max(), out)
    }

    /// Acknowledges a QoS 1 publish.
    pub fn puback(&mut self, id: u16, reason: ReasonCode, out: &mut Vec<u8>) {
        self.ack_with(PacketType::PubAck, id, reason, &Info::default(), out);
    }

    /// First answer to a QoS 2 publish; with an error also the last.
    pub fn pubrec(&mut self, id: u16, reason: ReasonCode, out: &mut Vec<u8>) {
        self.ack_with(PacketType::PubRec, id, reason, &Info::default(), out);
    }

    /// Releases our QoS 2 publish.
    pub fn pubrel(&mut self, id: u16, reason: ReasonCode, out: &mut Vec<u8>) {
        self.ack_with(PacketType::PubRel, id, reason, &Info::default(), out);
    }

    /// Last answer to a QoS 2 publish.
    pub fn pubcomp(&mut self, id: u16, reason: ReasonCode, out: &mut Vec<u8>) {
        self.ack_with(PacketType::PubComp, id, reason, &Info::default(), out);
    }

    /// PUBACK, PUBREC, PUBREL or PUBCOMP with words (MQTT 5). `packet`: one of these four, nothing is written
    /// otherwise.
    pub fn ack_with(
        &mut self,
        packet: PacketType,
        id: u16,
        reason: ReasonCode,
        info: &Info<'_>,
        out: &mut Vec<u8>,
    ) {
        let settles = match packet {
            PacketType::PubAck | PacketType::PubComp => true,
            PacketType::PubRec => reason.is_error(),
            PacketType::PubRel => false,
            _ => return,
        };
        self.unsettled = self.unsettled.saturating_sub(u16::from(settles));
        let (v5, max) = (self.version.is_v5(), self.out_bytes_max());
        let reason = reason.fitted_to(packet, Sender::Client);
        if v5 && !info.is_empty() {
            ack::encode_with(packet, id, reason, info, max, out);
        } else {
            ack::encode(packet, id, reason, v5, max, out);
        }
    }

    /// Appends a PINGREQ without a load report.
    pub fn ping(&mut self, out: &mut Vec<u8>) {
        ping::encode(PacketType::PingReq, self.out_bytes_max(), out);
    }

    /// Still there? With a report of our load, if the server has said that it takes them; a server that has not would have
    /// to end the connection. `false`: it has not, or the report does not fit, and the PINGREQ went out without one.
    pub fn ping_with(&mut self, report: &load::Report, out: &mut Vec<u8>) -> bool {
        let told =
            self.offer.load_reports && ping::encode_report(report, self.out_bytes_max(), out);
        if !told {
            self.ping(out);
        }
        told
    }

    /// Goodbye. Nothing is read or written after that. [MQTT-3.14.4-1] Close the connection.
    pub fn disconnect(
        &mut self,
        reason: ReasonCode,
        props: &DisconnectProps<'_>,
        out: &mut Vec<u8>,
    ) {
        if matches!(self.state, State::ExpectConnack | State::Connected) {
            if self.version.is_v5() {
                let props = DisconnectProps {
                    server_reference: None,
                    ..*props
                };
                let reason = reason.fitted_to(PacketType::Disconnect, Sender::Client);
                disconnect::encode(reason, &props, self.offer.packet_bytes_max, out);
            } else {
                out.extend_from_slice(&[PacketType::Disconnect.first_byte(), 0]);
            }
        }
        self.state = State::Closed;
    }

    /// A step of enhanced authentication: `ContinueAuthentication` in answer to the server's, or `ReAuthenticate`.
    /// Writes nothing if CONNECT named no Authentication Method. [MQTT-4.12.0-7]
    pub fn auth(
        &mut self,
        reason: ReasonCode,
        method: &str,
        data: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) {
        if self.auth_method.is_some()
            && matches!(self.state, State::ExpectConnack | State::Connected)
        {
            let reason = match reason {
                ReasonCode::ReAuthenticate => reason,
                _ => ReasonCode::ContinueAuthentication,
            };
            auth::encode(
                reason,
                method,
                data,
                &Info::default(),
                self.offer.packet_bytes_max,
                out,
            );
        }
    }

    /// Says goodbye after a fault of the server: DISCONNECT with the reason for MQTT 5, nothing for MQTT 3. Close the
    /// connection afterwards.
    pub fn fault(&mut self, f: &PeerFault, out: &mut Vec<u8>) {
        if self.version.is_v5() && self.state == State::Connected {
            let props = DisconnectProps {
                reason_string: Some(f.what),
                ..DisconnectProps::default()
            };
            self.disconnect(f.reason, &props, out);
        }
        self.state = State::Closed;
    }
}
