//! The server's end of a connection.

use crate::alias::{InboundAliases, OutboundAliases};
use crate::codec::frame::{Frame, frame_len};
use crate::codec::publish::Fields;
use crate::codec::{ack, auth, connack, connect, disconnect, ping, suback, subscribe, unsubscribe};
use crate::load::{Refusal, Report};
use crate::packet::{PacketType, Sender};
use crate::properties::{Place, Properties};
use crate::{
    Auth, ConnAck, Connect, Disconnect, DisconnectProps, Info, PeerFault, PingReq, Publish,
    PublishOut, QoS, ReasonCode, Subscribe, TextPairs, Unsubscribe, Version, load,
};

/// Limits of a server for each of its clients.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    /// Largest packet taken, in bytes with its header; announced as Maximum Packet Size.
    pub packet_bytes_max: u32,
    /// Largest packet taken before CONNACK, in bytes with its header: CONNECT and AUTH of an unauthenticated peer.
    /// Not announced; `packet_bytes_max` holds as well.
    pub connect_bytes_max: u32,
    /// Highest inbound topic alias.
    pub topic_alias_max: u16,
    /// Highest outbound topic alias, whatever more the client allows.
    pub topic_alias_out_max: u16,
    /// Unacknowledged inbound QoS 1 and 2 publishes of a v5 client.
    pub receive_max: u16,
    /// Longest client identifier, in bytes.
    pub client_id_bytes_max: u16,
    /// Whether clients of MQTT 5 may report their load in PINGREQ; announced as [`crate::load::ANNOUNCEMENT`]. An
    /// extension: without it such a packet is malformed, as the specification says.
    pub load_reports: bool,
}

impl Default for ServerLimits {
    fn default() -> Self {
        ServerLimits {
            packet_bytes_max: 1 << 20,
            connect_bytes_max: 128 << 10,
            topic_alias_max: 64,
            topic_alias_out_max: 64,
            receive_max: 1024,
            client_id_bytes_max: u16::MAX,
            load_reports: false,
        }
    }
}

/// The server's end of one connection: bytes in, events out; verbs append bytes to the caller's buffer.
///
/// ```text
///  ExpectConnect --CONNECT--> ExpectConnack --connack(Success)--> Connected --DISCONNECT, fault()--> Closed
///                              |  AUTH <-> auth()                   AUTH <-> auth()
///                              +--connack(error), fault()-------------------------------------> Closed
/// ```
#[derive(Debug)]
pub struct ServerSide {
    limits: ServerLimits,
    version: Version,
    state: State,
    /// Bits of a PUBLISH's first byte that the CONNACK ruled out.
    refused: u8,
    /// Inbound QoS 1 and 2 publishes of a v5 client that are not settled yet.
    unsettled: u16,
    /// Largest packet that may be written now: 0 unless connected, which silences every verb.
    out_bytes_max: u32,
    /// The client's Maximum Packet Size.
    client_bytes_max: u32,
    inbound: InboundAliases,
    outbound: OutboundAliases,
    topic_alias_out_max: u16,
    clean_start: bool,
    problem_info: bool,
    response_info: bool,
    session_ends_with_connection: bool,
    auth_method: Option<Box<str>>,
    /// The level of a CONNECT that we do not speak.
    unknown_level: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    ExpectConnect,
    /// CONNECT was handed out; the caller owes `connack`.
    ExpectConnack,
    Connected,
    /// Connected, and so many bytes still come of a PINGREQ that was answered already.
    PassingOver(u32),
    Closed,
}

/// User properties, and behind them the announcement unless it is among them.
struct Announced<'a>(Option<&'a dyn TextPairs>);

impl TextPairs for Announced<'_> {
    fn for_each(&self, each: &mut dyn FnMut(&str, &str)) {
        let mut said = false;
        if let Some(user) = self.0 {
            user.for_each(&mut |name, value| {
                said |= name == load::ANNOUNCEMENT.0;
                each(name, value);
            });
        }
        if !said {
            each(load::ANNOUNCEMENT.0, load::ANNOUNCEMENT.1);
        }
    }
}

/// The report among an acknowledgement's properties.
fn load_in(properties: &Properties<'_>) -> Option<Load> {
    let mut said = properties.user_properties();
    said.find(|(name, _)| *name == load::ACK_PROPERTY)
        .map(|(_, text)| Report::from_text(text))
}

/// An event from a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'b> {
    /// First packet. Boxed: it is twenty times the size of the others, and once per connection.
    Connect(Box<Connect<'b>>),
    /// A message that the client publishes.
    Publish(Publish<'b>),
    /// Answer to our QoS 1 PUBLISH.
    PubAck {
        /// Packet identifier of the exchange.
        id: u16,
        /// Reason code; always success before MQTT 5.
        reason: ReasonCode,
        /// Load report in the packet ([`load::ACK_PROPERTY`]).
        load: Option<Load>,
    },
    /// First answer to our QoS 2 PUBLISH.
    PubRec {
        /// Packet identifier of the exchange.
        id: u16,
        /// Reason code; always success before MQTT 5.
        reason: ReasonCode,
        /// Load report in the packet ([`load::ACK_PROPERTY`]).
        load: Option<Load>,
    },
    /// The client releases its QoS 2 PUBLISH.
    PubRel {
        /// Packet identifier of the exchange.
        id: u16,
        /// Reason code; always success before MQTT 5.
        reason: ReasonCode,
    },
    /// Last answer to our QoS 2 PUBLISH.
    PubComp {
        /// Packet identifier of the exchange.
        id: u16,
        /// Reason code; always success before MQTT 5.
        reason: ReasonCode,
    },
    /// The client asks for new subscriptions.
    Subscribe(Subscribe<'b>),
    /// The client ends some of its subscriptions.
    Unsubscribe(Unsubscribe<'b>),
    /// A PINGREQ; `ping` answers it.
    PingReq(PingReq),
    /// More of a PINGREQ that is too long to be looked at; its beginning was the event `PingReq`.
    PassedOver,
    /// The client closes the connection; `reason` says whether its will is published.
    Disconnect(Disconnect<'b>),
    /// A step of enhanced authentication.
    Auth(Auth<'b>),
}

/// A report that came along with something else, or why it is none.
pub type Load = Result<Report, Refusal>;

// Every packet is one: a report must not make all of them larger.
const _: () = assert!(size_of::<Event<'_>>() <= size_of::<Publish<'_>>() + 8);

/// A packet does not fit the peer's Maximum Packet Size; nothing was written. [MQTT-3.1.2-24]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// Bytes that the packet would need.
    pub packet_bytes: usize,
    /// The peer's Maximum Packet Size in bytes.
    pub packet_bytes_max: u32,
}

impl std::fmt::Display for TooLarge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let TooLarge {
            packet_bytes,
            packet_bytes_max,
        } = self;
        write!(
            f,
            "a packet of {packet_bytes} bytes exceeds the {packet_bytes_max} that the peer takes"
        )
    }
}

impl std::error::Error for TooLarge {}

impl ServerSide {
    /// A machine that waits for CONNECT.
    pub fn new(limits: ServerLimits) -> Self {
        ServerSide {
            limits,
            version: Version::V311,
            state: State::ExpectConnect,
            refused: 0,
            unsettled: 0,
            out_bytes_max: 0,
            client_bytes_max: u32::MAX,
            inbound: InboundAliases::default(),
            outbound: OutboundAliases::default(),
            topic_alias_out_max: 0,
            clean_start: true,
            problem_info: true,
            response_info: false,
            session_ends_with_connection: false,
            auth_method: None,
            unknown_level: None,
        }
    }

    /// The limits given to [`ServerSide::new`].
    pub fn limits(&self) -> &ServerLimits {
        &self.limits
    }

    /// Bytes of the topics that the client has given aliases to; they are kept as long as the connection lasts.
    pub fn alias_bytes(&self) -> usize {
        self.inbound.bytes()
    }

    /// The version of CONNECT; 3.1.1 until then.
    #[inline]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether a successful CONNACK was written and the connection has not ended.
    #[inline]
    pub fn is_connected(&self) -> bool {
        matches!(self.state, State::Connected | State::PassingOver(_))
    }

    /// The next packet out of `bytes`. `Ok(None)`: incomplete, nothing consumed. `Ok(Some((consumed, event)))`: the
    /// event borrows from `bytes` only, so the machine can be used while the event is held. `Err`: call
    /// [`ServerSide::fault`] and close.
    ///
    /// Between the CONNECT event and [`ServerSide::connack`] only AUTH and DISCONNECT come out; what else the client
    /// has sent already stays in `bytes`, so **call again after `connack`**. [MQTT-3.1.4-6] After the connection has
    /// ended nothing comes out any more.
    #[inline]
    pub fn handle_input<'b>(
        &mut self,
        bytes: &'b [u8],
    ) -> Result<Option<(usize, Event<'b>)>, PeerFault> {
        if self.state != State::Connected {
            return self.handle_early(bytes);
        }
        let Ok(Some(frame)) =
            Frame::split(bytes, self.limits.packet_bytes_max, self.version.is_v5())
        else {
            return self.handle_unfinished(bytes);
        };
        match (frame.first, frame.body) {
            (0x30..=0x3F, _) => {
                let v5 = self.version.is_v5();
                let fields = Fields::decode(&frame, v5, Place::PublishToServer, &mut self.inbound)?;
                self.admit(frame.first)?;
                Ok(Some((
                    frame.whole.len(),
                    Event::Publish(fields.publish(&frame)),
                )))
            }
            // The common acknowledgements, without the detour.
            (0x40, [high, low]) if *high | *low != 0 => {
                let id = u16::from_be_bytes([*high, *low]);
                Ok(Some((
                    frame.whole.len(),
                    Event::PubAck {
                        id,
                        reason: ReasonCode::Success,
                        load: None,
                    },
                )))
            }
            (first @ (0x50 | 0x62 | 0x70), [high, low]) if *high | *low != 0 => {
                let id = u16::from_be_bytes([*high, *low]);
                let (reason, load) = (ReasonCode::Success, None);
                let event = match first {
                    0x50 => Event::PubRec { id, reason, load },
                    0x62 => Event::PubRel { id, reason },
                    _ => Event::PubComp { id, reason },
                };
                Ok(Some((frame.whole.len(), event)))
            }
            _ => Ok(Some((frame.whole.len(), self.on_other(frame)?))),
        }
    }

    /// Length of the whole packet at the start of `bytes`, once its header is complete.
    pub fn frame_len(bytes: &[u8]) -> Option<usize> {
        frame_len(bytes)
    }

    /// Checks of the first byte of a PUBLISH that is valid in itself: rare, except QoS 1 and 2 of MQTT 5.
    #[inline]
    fn admit(&mut self, first: u8) -> Result<(), PeerFault> {
        if first & self.refused != 0 {
            let retained = first & self.refused & 1 != 0;
            return Err(if retained {
                PeerFault::RETAIN_NOT_SUPPORTED
            } else {
                PeerFault::QOS_NOT_SUPPORTED
            });
        }
        if first & 0b0110 != 0 && self.version.is_v5() {
            if self.unsettled >= self.limits.receive_max {
                return Err(PeerFault::RECEIVE_MAXIMUM);
            }
            self.unsettled += 1;
        }
        Ok(())
    }

    #[inline(never)]
    fn on_other<'b>(&mut self, frame: Frame<'b>) -> Result<Event<'b>, PeerFault> {
        let v5 = self.version.is_v5();
        // In MQTT 3.1 these three are QoS 1 packets and may carry DUP.
        let dup = u8::from(self.version == Version::V31) << 3;
        let flags =
            |expected: u8, optional: u8, fault: PeerFault| match frame.first & 0x0F & !optional {
                flags if flags == expected => Ok(()),
                _ => Err(fault),
            };
        let ack = |packet: PacketType| ack::decode(frame.body, packet, Sender::Client, v5);
        Ok(match frame.first >> 4 {
            4 => {
                flags(0, 0, PeerFault::FLAGS)?;
                let (id, reason, properties) = ack(PacketType::PubAck)?;
                Event::PubAck {
                    id,
                    reason,
                    load: load_in(&properties),
                }
            }
            5 => {
                flags(0, 0, PeerFault::FLAGS)?;
                let (id, reason, properties) = ack(PacketType::PubRec)?;
                Event::PubRec {
                    id,
                    reason,
                    load: load_in(&properties),
                }
            }
            6 => {
                flags(2, dup, PeerFault::PUBREL_FLAGS)?;
                let (id, reason, _) = ack(PacketType::PubRel)?;
                Event::PubRel { id, reason }
            }
            7 => {
                flags(0, 0, PeerFault::FLAGS)?;
                let (id, reason, _) = ack(PacketType::PubComp)?;
                Event::PubComp { id, reason }
            }
            8 => {
                flags(2, dup, PeerFault::SUBSCRIBE_FLAGS)?;
                Event::Subscribe(subscribe::decode(frame.body, v5)?)
            }
            10 => {
                flags(2, dup, PeerFault::UNSUBSCRIBE_FLAGS)?;
                Event::Unsubscribe(unsubscribe::decode(frame.body, v5)?)
            }
            12 => {
                flags(0, 0, PeerFault::FLAGS)?;
                Event::PingReq(ping::decode(frame.body, self.takes_reports())?)
            }
            14 => {
                flags(0, 0, PeerFault::DISCONNECT_FLAGS)?;
                let d = disconnect::decode(frame.body, Sender::Client, v5)?;
                if self.session_ends_with_connection
                    && d.session_expiry.is_some_and(|seconds| seconds != 0)
                {
                    return Err(PeerFault::SESSION_EXPIRY_RAISED);
                }
                self.close();
                Event::Disconnect(d)
            }
            15 if v5 => {
                flags(0, 0, PeerFault::AUTH_FLAGS)?;
                Event::Auth(auth::decode(
                    frame.body,
                    Sender::Client,
                    self.auth_method.as_deref(),
                )?)
            }
            1 => return Err(PeerFault::SECOND_CONNECT),
            2 | 9 | 11 | 13 => return Err(PeerFault::DIRECTION),
            _ => return Err(PeerFault::TYPE_RESERVED),
        })
    }

    /// Input that is no whole packet. A PINGREQ that is too long to hold a report is answered at once, and the rest of it
    /// is skipped as it comes: it is not collected, however long it is.
    #[inline(never)]
    fn handle_unfinished<'b>(
        &mut self,
        bytes: &'b [u8],
    ) -> Result<Option<(usize, Event<'b>)>, PeerFault> {
        // Split again rather than handed in: that would cost whole packets a few instructions.
        let fault = Frame::split(bytes, self.limits.packet_bytes_max, self.version.is_v5()).err();
        let passable =
            matches!(fault, None | Some(PeerFault::PACKET_TOO_LARGE)) && self.takes_reports();
        match (bytes, frame_len(bytes)) {
            (&[0xC0, ..], Some(len)) if passable && ping::too_long(len) => {
                // Above Maximum Packet Size it may be all there, and other packets behind it.
                let count = len.min(bytes.len());
                if let left @ 1.. = (len - count) as u32 {
                    self.state = State::PassingOver(left);
                }
                Ok(Some((
                    count,
                    Event::PingReq(PingReq::Refused(Refusal::TooLong)),
                )))
            }
            _ => fault.map_or(Ok(None), Err),
        }
    }

    /// Whether PINGREQ may carry a report on this connection.
    fn takes_reports(&self) -> bool {
        self.limits.load_reports && self.version.is_v5()
    }

    /// Handles input before the connection is accepted and after it has ended, and packets that are skipped.
    #[inline(never)]
    fn handle_early<'b>(
        &mut self,
        bytes: &'b [u8],
    ) -> Result<Option<(usize, Event<'b>)>, PeerFault> {
        match (self.state, bytes.first()) {
            (State::Closed, _) | (_, None) => Ok(None),
            (State::PassingOver(left), _) => {
                let count = (left as usize).min(bytes.len());
                self.state = match left - count as u32 {
                    0 => State::Connected,
                    left => State::PassingOver(left),
                };
                Ok(Some((count, Event::PassedOver)))
            }
            // The first byte decides; waiting for the rest would only tie up memory. [MQTT-3.1.0-1]
            (State::ExpectConnect, Some(0x11..=0x1F)) => Err(PeerFault::FLAGS),
            (State::ExpectConnect, Some(first)) if *first != 0x10 => {
                Err(PeerFault::EXPECTED_CONNECT)
            }
            (State::ExpectConnect, _) => {
                let frame = match Frame::split(bytes, self.early_bytes_max(), false) {
                    Ok(Some(frame)) => frame,
                    Ok(None) => return Ok(None),
                    Err(PeerFault::PACKET_TOO_LARGE) => return self.refuse_long_connect(bytes),
                    Err(fault) => return Err(fault),
                };
                let connect = self.on_connect(frame)?;
                Ok(Some((frame.whole.len(), Event::Connect(Box::new(connect)))))
            }
            (_, Some(first)) => {
                let welcome = matches!(first >> 4, 14 | 15);
                if !welcome && self.auth_method.is_some() {
                    return Err(PeerFault::BEFORE_CONNACK);
                }
                // A packet that is too early stays in the buffer, and is checked when it may be read.
                let frame = match welcome {
                    true => Frame::split(bytes, self.early_bytes_max(), self.version.is_v5())?,
                    false => {
                        Frame::split(bytes, self.limits.packet_bytes_max, self.version.is_v5())?
                    }
                };
                match frame {
                    Some(frame) if welcome => Ok(Some((frame.whole.len(), self.on_other(frame)?))),
                    _ => Ok(None),
                }
            }
        }
    }

    /// Largest packet of a peer that has no CONNACK yet.
    fn early_bytes_max(&self) -> u32 {
        self.limits
            .connect_bytes_max
            .min(self.limits.packet_bytes_max)
    }

    /// A CONNECT above the limit, of which only as much is awaited as says in which version to refuse it.
    fn refuse_long_connect<T>(&mut self, bytes: &[u8]) -> Result<Option<T>, PeerFault> {
        match connect::version_of(bytes) {
            Some(Ok(version)) => {
                self.version = version;
                self.state = State::ExpectConnack;
                Err(PeerFault::CONNECT_TOO_LARGE)
            }
            Some(Err(fault)) => Err(fault),
            None => Ok(None),
        }
    }

    fn on_connect<'b>(&mut self, frame: Frame<'b>) -> Result<Connect<'b>, PeerFault> {
        let c = connect::decode(frame).map_err(|refused| {
            match refused.version {
                Some(version) => {
                    self.version = version;
                    self.state = State::ExpectConnack;
                }
                None if refused.fault == PeerFault::PROTOCOL_LEVEL => {
                    self.unknown_level = Some(refused.level)
                }
                None => {}
            }
            refused.fault
        })?;
        self.version = c.version;
        self.state = State::ExpectConnack;
        self.clean_start = c.clean_start;
        self.client_bytes_max = c.packet_bytes_max.unwrap_or(u32::MAX);
        self.topic_alias_out_max = c.topic_alias_max.min(self.limits.topic_alias_out_max);
        self.problem_info = c.request_problem_info;
        self.response_info = c.request_response_info;
        self.session_ends_with_connection = c.version.is_v5() && c.session_expiry == 0;
        self.auth_method = c.auth_method.map(Box::from);
        if c.client_id.len() > usize::from(self.limits.client_id_bytes_max) {
            return Err(PeerFault::CLIENT_ID_TOO_LONG);
        }
        Ok(c)
    }

    /// Whether nothing is read or written any more.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    fn close(&mut self) {
        self.state = State::Closed;
        self.out_bytes_max = 0;
    }

    /// Answers CONNECT and fixes the negotiated limits. Announces the limits of [`ServerLimits`] and echoes the
    /// Authentication Method; drops what must not be said (session present with Clean Start or an error
    /// [MQTT-3.2.2-2] [MQTT-3.2.2-6], unrequested Response Information [MQTT-3.1.2-28]). Writes nothing unless a
    /// CONNECT waits for its answer [MQTT-3.2.0-2], or if the peer's Maximum Packet Size has no room for it: then this side
    /// [is closed](Self::is_closed). After an error close the connection. [MQTT-3.2.2-7]
    pub fn connack(&mut self, a: &ConnAck<'_>, out: &mut Vec<u8>) {
        if self.state != State::ExpectConnack {
            return;
        }
        let method = self.auth_method.take();
        let mut a = *a;
        if a.reason.is_error() {
            a = ConnAck {
                reason: a.reason,
                reason_string: a.reason_string,
                user: a.user,
                server_reference: a.server_reference,
                ..ConnAck::default()
            };
        } else {
            a.receive_max = self.limits.receive_max;
            a.packet_bytes_max = Some(self.limits.packet_bytes_max);
            a.topic_alias_max = self.limits.topic_alias_max;
            a.response_information = a.response_information.filter(|_| self.response_info);
            // [MQTT-4.12.0-5] [MQTT-4.12.0-6]
            a.auth_method = method.as_deref();
            a.auth_data = a.auth_data.filter(|_| method.is_some());
        }
        let announced = Announced(a.user);
        if self.takes_reports() && !a.reason.is_error() {
            a.user = Some(&announced);
        }
        // MQTT 3.1 has no session present flag.
        let present = a.session_present
            && !a.reason.is_error()
            && !self.clean_start
            && self.version != Version::V31;
        let before = out.len();
        connack::encode(
            &a,
            self.version.is_v5(),
            present,
            self.client_bytes_max,
            out,
        );
        // Too large for the peer, it is not sent [MQTT-3.1.2-24], and nothing else may be [MQTT-3.2.0-1].
        if a.reason.is_error() || out.len() == before {
            self.close();
        } else {
            self.state = State::Connected;
            self.out_bytes_max = self.client_bytes_max;
            self.inbound.set_max(self.limits.topic_alias_max);
            self.outbound.set_max(self.topic_alias_out_max);
            if self.version.is_v5() {
                let qos = match a.maximum_qos {
                    QoS::AtMostOnce => 0b0110,
                    QoS::AtLeastOnce => 0b0100,
                    QoS::ExactlyOnce => 0,
                };
                self.refused = qos | u8::from(!a.retain_available);
            }
        }
        self.auth_method = method;
    }

    /// Acknowledges a QoS 1 publish.
    #[inline]
    pub fn puback(&mut self, id: u16, reason: ReasonCode, out: &mut Vec<u8>) {
        self.unsettled = self.unsettled.saturating_sub(1);
        self.ack(PacketType::PubAck, id, reason, out);
    }

    /// First answer to a QoS 2 publish; with an error also the last.
    #[inline]
    pub fn pubrec(&mut self, id: u16, reason: ReasonCode, out: &mut Vec<u8>) {
        if reason.is_error() && self.version.is_v5() {
            self.unsettled = self.unsettled.saturating_sub(1);
        }
        self.ack(PacketType::PubRec, id, reason, out);
    }

    /// Releases our QoS 2 publish.
    #[inline]
    pub fn pubrel(&mut self, id: u16, reason: ReasonCode, out: &mut Vec<u8>) {
        self.ack(PacketType::PubRel, id, reason, out);
    }

    /// Last answer to a QoS 2 publish.
    #[inline]
    pub fn pubcomp(&mut self, id: u16, reason: ReasonCode, out: &mut Vec<u8>) {
        self.unsettled = self.unsettled.saturating_sub(1);
        self.ack(PacketType::PubComp, id, reason, out);
    }

    #[inline]
    fn ack(&mut self, packet: PacketType, id: u16, reason: ReasonCode, out: &mut Vec<u8>) {
        let reason = reason.fitted_to(packet, Sender::Server);
        ack::encode(
            packet,
            id,
            reason,
            self.version.is_v5(),
            self.out_bytes_max,
            out,
        );
    }

    /// PUBACK, PUBREC, PUBREL or PUBCOMP with words (MQTT 5; the words are left out for MQTT 3). Counts like the verb
    /// of the same name. `packet`: one of these four, nothing is written otherwise.
    pub fn ack_with(
        &mut self,
        packet: PacketType,
        id: u16,
        reason: ReasonCode,
        info: &Info<'_>,
        out: &mut Vec<u8>,
    ) {
        if !self.version.is_v5() || !self.problem_info || info.is_empty() {
            return match packet {
                PacketType::PubAck => self.puback(id, reason, out),
                PacketType::PubRec => self.pubrec(id, reason, out),
                PacketType::PubRel => self.pubrel(id, reason, out),
                PacketType::PubComp => self.pubcomp(id, reason, out),
                _ => {}
            };
        }
        let settles = match packet {
            PacketType::PubAck | PacketType::PubComp => true,
            PacketType::PubRec => reason.is_error(),
            PacketType::PubRel => false,
            _ => return,
        };
        self.unsettled = self.unsettled.saturating_sub(u16::from(settles));
        let reason = reason.fitted_to(packet, Sender::Server);
        ack::encode_with(packet, id, reason, info, self.out_bytes_max, out);
    }

    /// Answers SUBSCRIBE: one code per filter, in order. For MQTT 3 every failure becomes 0x80.
    pub fn suback(&mut self, id: u16, codes: &[ReasonCode], out: &mut Vec<u8>) {
        self.suback_with(id, codes, &Info::default(), out);
    }

    /// Appends a SUBACK with a reason string, which MQTT 5 alone carries.
    pub fn suback_with(
        &mut self,
        id: u16,
        codes: &[ReasonCode],
        info: &Info<'_>,
        out: &mut Vec<u8>,
    ) {
        let info = self.info(info);
        suback::encode(
            PacketType::SubAck,
            id,
            codes,
            &info,
            self.version.is_v5(),
            self.out_bytes_max,
            out,
        );
    }

    /// Answers UNSUBSCRIBE: one code per filter, in order; MQTT 3 carries none.
    pub fn unsuback(&mut self, id: u16, codes: &[ReasonCode], out: &mut Vec<u8>) {
        self.unsuback_with(id, codes, &Info::default(), out);
    }

    /// Appends an UNSUBACK with a reason string, which MQTT 5 alone carries.
    pub fn unsuback_with(
        &mut self,
        id: u16,
        codes: &[ReasonCode],
        info: &Info<'_>,
        out: &mut Vec<u8>,
    ) {
        let info = self.info(info);
        suback::encode(
            PacketType::UnsubAck,
            id,
            codes,
            &info,
            self.version.is_v5(),
            self.out_bytes_max,
            out,
        );
    }

    /// The reason string and user properties that this client accepts. [MQTT-3.1.2-29]
    fn info<'a>(&self, info: &Info<'a>) -> Info<'a> {
        if self.problem_info {
            *info
        } else {
            Info::default()
        }
    }

    /// Appends a PINGRESP, the answer to PINGREQ.
    #[inline]
    pub fn pingresp(&mut self, out: &mut Vec<u8>) {
        ping::encode(PacketType::PingResp, self.out_bytes_max, out);
    }

    /// A step of enhanced authentication: `ContinueAuthentication`, or `Success` at the end of a re-authentication.
    /// Writes nothing to a client that named no Authentication Method [MQTT-4.12.0-6], nor any other reason
    /// [MQTT-3.15.2-1]: a failure is said with `connack` or `disconnect`.
    pub fn auth(
        &mut self,
        reason: ReasonCode,
        method: &str,
        data: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) {
        if self.auth_method.is_some()
            && self.state != State::Closed
            && reason.belongs_to(PacketType::Auth, Sender::Server)
        {
            auth::encode(
                reason,
                method,
                data,
                &Info::default(),
                self.client_bytes_max,
                out,
            );
        }
    }

    /// Ends the connection, in words for MQTT 5 after a successful CONNACK [MQTT-3.14.0-1], silently otherwise.
    /// Nothing is read or written after that. [MQTT-3.14.4-1] Close the connection. [MQTT-3.14.4-2]
    pub fn disconnect(
        &mut self,
        reason: ReasonCode,
        props: &DisconnectProps<'_>,
        out: &mut Vec<u8>,
    ) {
        if self.is_connected() && self.version.is_v5() {
            // [MQTT-3.14.2-2]
            let props = DisconnectProps {
                session_expiry: None,
                ..*props
            };
            let reason = reason.fitted_to(PacketType::Disconnect, Sender::Server);
            disconnect::encode(reason, &props, self.out_bytes_max, out);
        }
        self.close();
    }

    /// Sends a message. `Err`: larger than the client takes, nothing written; treat the message as sent.
    /// [MQTT-3.1.2-24] [MQTT-3.1.2-25]
    #[inline]
    pub fn publish(&mut self, p: &PublishOut<'_>, out: &mut Vec<u8>) -> Result<(), TooLarge> {
        p.encode(
            self.version.is_v5(),
            &mut self.outbound,
            self.out_bytes_max,
            out,
        )
    }

    /// Whether `frame_bytes` bytes of a ready-made packet fit the client's Maximum Packet Size. Ask before sending a
    /// `plain` frame verbatim.
    #[inline]
    pub fn fits(&self, frame_bytes: usize) -> bool {
        frame_bytes <= self.out_bytes_max as usize
    }

    /// Says goodbye after a fault, or after a refusal by the kernel: CONNACK before the connection is accepted,
    /// DISCONNECT after that for MQTT 5, nothing for MQTT 3. Close the connection afterwards. [MQTT-4.13.1-1]
    pub fn fault(&mut self, f: &PeerFault, out: &mut Vec<u8>) {
        match (self.state, self.unknown_level) {
            // Level 0 to 4: the answer every version before 5 understands. [MQTT3-3.1.2-2] Above: that of MQTT 5.
            (State::ExpectConnect, Some(0..=5)) => out.extend_from_slice(&[0x20, 2, 0, 1]),
            (State::ExpectConnect, Some(_)) => {
                out.extend_from_slice(&[
                    0x20,
                    3,
                    0,
                    ReasonCode::UnsupportedProtocolVersion.byte(),
                    0,
                ]);
            }
            (State::ExpectConnack, _) if self.version.is_v5() || f.has_return_code() => {
                self.connack(
                    &ConnAck {
                        reason: f.reason,
                        reason_string: Some(f.what),
                        ..ConnAck::default()
                    },
                    out,
                );
            }
            (State::Connected | State::PassingOver(_), _) => {
                let props = DisconnectProps {
                    reason_string: Some(f.what),
                    ..DisconnectProps::default()
                };
                self.disconnect(f.reason, &props, out);
            }
            _ => {}
        }
        self.close();
    }
}
