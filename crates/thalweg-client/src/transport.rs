//! The trait that every protocol plugin implements, built-in or external.
//!
//! A transport is a state machine without I/O: its caller passes input and time, and it appends output. One value
//! serves one lane for as long as the client lives; each connection begins with [`Transport::open`] and ends with
//! [`Transport::closed`]. A transport may keep state between connections (a session's packet identifiers). It never
//! keeps messages: the engine gives them again after a connection was lost.

use std::fmt;
use std::net::SocketAddr;

use thalweg_model::{Reliability, Span, Stamp, Time};

use crate::message::Retain;

/// A protocol plugin, sans-I/O: the engine gives it bytes and times and takes bytes to be written.
pub trait Transport: Send {
    /// The protocol's name, as `--via` and the calibration have it: `mqtt`, `coap`, `amqp`, `stomp`, `zmtp`, or yours.
    fn protocol(&self) -> &'static str;

    /// Capabilities as known now; after [`Events::up`] with those that the peer announced.
    fn capabilities(&self) -> Capabilities;

    /// Where it connects to and through what.
    fn endpoint(&self) -> &Endpoint;

    /// A connection stands (for datagrams: a socket is bound). Appends what is said first. `peer` is where it goes.
    fn open(&mut self, opening: &Opening, peer: SocketAddr, now: Time, out: &mut Output);

    /// The peer has agreed to TLS: its handshake follows on this connection once the output was sent.
    /// [`Transport::secured`] is called after it.
    fn wants_tls(&self) -> bool {
        false
    }

    /// The handshake is over. Appends what is said then.
    fn secured(&mut self, _out: &mut Output) {}

    /// Handles bytes from the peer. Of a stream: everything not consumed yet; returns the number of consumed bytes, and
    /// gets the rest again with the next input. Of datagrams: one whole datagram, all of it is consumed.
    fn handle_input(
        &mut self,
        input: &[u8],
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) -> Result<usize, LinkFault>;

    /// Next time at which [`Transport::handle_timeout`] must be called; [`Time::NEVER`] if none.
    fn poll_timeout(&self) -> Time;

    /// The time of [`Transport::poll_timeout`] has come: repeat, keep alive, give up.
    fn handle_timeout(
        &mut self,
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) -> Result<(), LinkFault>;

    /// Sends a message. `Ok(Gone)`: there will be no outcome. `Ok(Awaited)`: [`Events::settled`] reports the outcome of
    /// `message.id`, or the connection ends. `Err`: nothing was written.
    fn publish(
        &mut self,
        message: &Outbound<'_>,
        now: Time,
        out: &mut Output,
    ) -> Result<Departure, Refusal>;

    /// Ends the wait for this message, which another lane has now. It need not be repeated, and what waited for it may be
    /// sent: of several messages the newest is abandoned first. [`Events::settled`] may
    /// still report it or not, and the same message may be given again later, as a new one.
    fn abandon(&mut self, id: MessageId) {
        let _ = id;
    }

    /// Wants what is published at the addresses of a filter. [`Events::subscribed`] gives the answer. After a connection was
    /// lost the engine says it again.
    fn subscribe(
        &mut self,
        wish: &SubscribeWish<'_>,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal>;

    /// Ends a subscription; what is still under way may come.
    fn unsubscribe(&mut self, subscription: SubscriptionId, now: Time, out: &mut Output);

    /// Settles a received message: the peer may remove it.
    fn settle(&mut self, delivery: DeliveryId, now: Time, out: &mut Output);

    /// Publishes a question; [`Events::answered`] brings the answer. The engine gives up by itself when its time is over.
    fn request(
        &mut self,
        request: RequestId,
        message: &Outbound<'_>,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal>;

    /// Asks for the last value of an address; [`Events::answered`] brings it, or none.
    fn read(
        &mut self,
        request: RequestId,
        address: &str,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal>;

    /// Nobody waits for this answer any more.
    fn forget(&mut self, request: RequestId);

    /// Sends something small that is answered, so that [`Events::round_trip`] gets a sample. Returns what it costs in bytes,
    /// 0 if nothing was sent.
    fn probe(&mut self, now: Time, out: &mut Output) -> usize;

    /// Ends the connection politely.
    fn close(&mut self, now: Time, out: &mut Output);

    /// The connection has ended, on either side: pending outcomes will not come.
    fn closed(&mut self);

    /// Counters since the transport was created.
    fn counters(&self) -> Counters;
}

/// Receiver of a transport's events.
pub trait Events {
    /// The peer lets us in: messages may go.
    fn up(&mut self, welcome: &Welcome);
    /// Outcome of an awaited message.
    fn settled(&mut self, id: MessageId, outcome: Settled);
    /// A message was received for a subscription of this client.
    fn received(&mut self, message: &Inbound<'_>);
    /// Outcome of a subscription; its best delivery guarantee, which may be lower than requested.
    fn subscribed(&mut self, subscription: SubscriptionId, outcome: Result<Reliability, Refusal>);
    /// A subscription has ended by itself: the engine makes it again.
    fn unsubscribed(&mut self, subscription: SubscriptionId, why: Refusal);
    /// The answer to a request or a read; `Ok(None)`: there is no value.
    fn answered(&mut self, request: RequestId, answer: Result<Option<&Inbound<'_>>, Refusal>);
    /// A question of the protocol's own was answered after so long, without any repetition in between.
    fn round_trip(&mut self, span: Span);
    /// The peer asks to go slower: a quota, 4.29, flow control.
    fn pressed(&mut self);
    /// Room for more messages after [`Refusal::Window`].
    fn room(&mut self);
}

/// Bytes on their way out. Streams append to `bytes`; for datagrams each is closed by [`Output::end_datagram`].
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// Bytes to be sent, and before them those that [`Output::consume`] has marked as sent. Transports append only.
    pub bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Bytes at the front that are sent.
    sent: usize,
    /// Datagrams at the front that are sent.
    ends_sent: usize,
}

impl Output {
    /// Ends a datagram of the bytes appended since the last call; does nothing without any.
    pub fn end_datagram(&mut self) {
        if self.bytes.len() > self.ends.last().copied().unwrap_or(0) {
            self.ends.push(self.bytes.len());
        }
    }

    /// The datagrams that are not sent yet, in order.
    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> + '_ {
        let mut start = self.sent;
        self.ends
            .get(self.ends_sent..)
            .unwrap_or_default()
            .iter()
            .map(move |&end| {
                let from = std::mem::replace(&mut start, end);
                self.bytes.get(from..end).unwrap_or_default()
            })
    }

    /// The next datagrams that are all of one length but the last, which may be shorter, and that length; they lie one behind
    /// the other. At least one, as many as one call to the system may send, and no more than so many bytes.
    pub fn datagrams_alike(&self, bytes_max: usize) -> Option<(&[u8], usize)> {
        let (mut datagrams, mut bytes) = (self.datagrams(), 0);
        let segment = datagrams.next()?.len();
        bytes += segment;
        for datagram in datagrams.take(RUN_MAX - 1) {
            if datagram.len() > segment || bytes + datagram.len() > bytes_max {
                break;
            }
            bytes += datagram.len();
            if datagram.len() < segment {
                break;
            }
        }
        Some((self.bytes.get(self.sent..self.sent + bytes)?, segment))
    }

    /// Unsent bytes of a stream.
    pub fn unsent(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    /// So many bytes are sent; of datagrams, whole ones.
    pub fn consume(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(bytes).min(self.bytes.len());
        while self
            .ends
            .get(self.ends_sent)
            .is_some_and(|end| *end <= self.sent)
        {
            self.ends_sent += 1;
        }
        if self.sent == self.bytes.len() {
            self.clear();
        } else if self.sent >= COMPACT_BYTES && self.sent >= self.bytes.len() / 2 {
            // A peer that never catches up must not make this grow for ever; each byte is moved once or twice.
            self.bytes.drain(..self.sent);
            self.ends.drain(..self.ends_sent);
            self.ends.iter_mut().for_each(|end| *end -= self.sent);
            (self.sent, self.ends_sent) = (0, 0);
        }
    }

    /// Whether nothing is to be sent.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Forgets all and keeps the memory, unless one message made it large.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.ends.clear();
        self.ends.shrink_to(KEPT_BYTES / 16);
        (self.sent, self.ends_sent) = (0, 0);
    }
}

/// Above it what is sent is taken out of an output that never becomes empty.
const COMPACT_BYTES: usize = 32 << 10;

/// Datagrams that one call may send: what all versions of Linux with GSO take (`UDP_MAX_SEGMENTS`).
const RUN_MAX: usize = 64;

/// Capacity that an output keeps when it is empty.
const KEPT_BYTES: usize = 256 << 10;

/// Address of a lane and the medium of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// A name or an address, without brackets.
    pub host: String,
    /// The port that a TCP or UDP socket connects to.
    pub port: u16,
    /// Stream, datagrams, or something of your own.
    pub medium: Medium,
    /// TLS over a stream, DTLS over datagrams.
    pub is_encrypted: bool,
    /// WebSocket over a stream: its path and sub-protocol.
    pub websocket: Option<(String, &'static str)>,
}

/// The kind of socket that carries a lane's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A TCP connection, which repeats what is lost.
    Stream,
    /// UDP datagrams, which the transport repeats where it must.
    Datagrams,
    /// A Unix socket at this path.
    Unix(std::path::PathBuf),
}

/// Properties of a transport. "Can" means: with this peer, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// It publishes. A lane that does not is there for subscriptions only.
    pub publishes: bool,
    /// Filters can be subscribed to over it.
    pub subscribes: bool,
    /// The surest that it can publish by itself, without stamps.
    pub reliability_max: Reliability,
    /// The surest that it can receive by itself.
    pub receive_max: Reliability,
    /// The peer recognizes repetitions by stamps ([`thalweg_model::STAMPS_ANNOUNCEMENT`]).
    pub stamps: bool,
    /// Messages carry stamps to receivers.
    pub carries_stamps: bool,
    /// Subscriptions to filters with wildcards.
    pub wildcards: bool,
    /// Every message reaches a subscriber, not just the newest state.
    pub keeps_all: bool,
    /// At-least-once messages count as received by [`Transport::settle`], not on arrival: unsettled ones come again on
    /// a later connection or to another consumer.
    pub settles: bool,
    /// The peer publishes [`Opening::will`] when the connection ends without a goodbye.
    pub wills: bool,
    /// Messages from the peer arrive in the order in which it sent them.
    pub keeps_order: bool,
    /// Messages of a topic arrive in the order in which they were given, also while several are under way. If not, the engine
    /// gives one at a time of each topic.
    pub publishes_in_order: bool,
    /// The user's properties, content type and so on.
    pub properties: bool,
    /// Messages may expire on their way.
    pub lifespan: bool,
    /// Whether messages carry priorities to the peer.
    pub priority: bool,
    /// Whether requests with answers can be made.
    pub requests: bool,
    /// Last values can be read.
    pub last_values: bool,
    /// Largest payload, in bytes.
    pub payload_bytes_max: usize,
}

impl Capabilities {
    /// Capabilities common to stream transports: order. All else is absent, or without a limit.
    pub const STREAM: Capabilities = Capabilities {
        publishes: true,
        subscribes: true,
        reliability_max: Reliability::AtMostOnce,
        receive_max: Reliability::AtMostOnce,
        stamps: false,
        carries_stamps: false,
        wildcards: false,
        keeps_all: false,
        settles: false,
        wills: false,
        keeps_order: true,
        publishes_in_order: true,
        properties: false,
        lifespan: false,
        priority: false,
        requests: false,
        last_values: false,
        payload_bytes_max: usize::MAX,
    };
}

/// Names a message among those of this client: its sequence number.
pub type MessageId = u64;

/// Names a subscription of this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubscriptionId(pub u32);

/// Names a question of this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// Names a received message until it is settled; meaningless after the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeliveryId(pub u64);

/// Client identity and session parameters of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The client's name; empty: the peer may choose.
    pub client_id: String,
    /// The user name; None connects as an anonymous client.
    pub user: Option<String>,
    /// The password, any bytes; None where only a user name or a certificate is shown.
    pub password: Option<Vec<u8>>,
    /// The peer is to keep what it has for us from an earlier connection, and for so long after this one; zero: nothing.
    pub session: Span,
    /// Message published for this client when its connection is lost.
    pub will: Option<Will>,
    /// Silence after which a stream is asked whether it lives; zero: never.
    pub keep_alive: Span,
}

/// Message published for a client whose connection is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Will {
    /// The canonical address that it is published to.
    pub address: String,
    /// The payload, any bytes.
    pub payload: Vec<u8>,
    /// The delivery guarantee that it is published with.
    pub reliability: Reliability,
    /// Whether it becomes the last value.
    pub retain: bool,
}

/// The peer's answer that accepts the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Welcome {
    /// It still has what it kept for us: what was awaited before is continued by the engine with `repeated`.
    pub session_present: bool,
    /// Our name, if the peer chose or changed it.
    pub client_id: Option<String>,
}

/// A message to be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outbound<'m> {
    /// Names it in [`Events::settled`].
    pub id: MessageId,
    /// Canonical address: levels joined by `/`.
    pub address: &'m str,
    /// The payload, any bytes.
    pub payload: &'m [u8],
    /// The delivery guarantee that is asked for, at most [`Capabilities::reliability_max`].
    pub reliability: Reliability,
    /// Effect on the last value of the topic.
    pub retain: Retain,
    /// Remaining lifespan; [`Span::FOREVER`] without expiry.
    pub lifespan: Span,
    /// 0 to 9, 4 is usual.
    pub priority: u8,
    /// Media type of the payload.
    pub content_type: Option<&'m str>,
    /// The publisher says that the payload is UTF-8 text.
    pub is_text: bool,
    /// User properties, in the order in which they are sent.
    pub properties: Properties<'m>,
    /// Where an answer goes, as a canonical address.
    pub reply_to: Option<&'m str>,
    /// Correlation data of a request or reply.
    pub correlation: Option<&'m [u8]>,
    /// To be carried along, if the protocol can.
    pub stamp: Option<Stamp>,
    /// It may have been sent before.
    pub repeated: bool,
}

/// Names and values, encoded: for each the length of the name and of the value as u16, big-endian, then both texts. So
/// that a message with properties is one piece of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Properties<'m>(pub &'m [u8]);

impl<'m> Properties<'m> {
    /// Appends one; what is longer than 65,535 bytes is left out: `false`.
    pub fn push(name: &str, value: &str, out: &mut Vec<u8>) -> bool {
        let (Ok(name_len), Ok(value_len)) = (u16::try_from(name.len()), u16::try_from(value.len()))
        else {
            return false;
        };
        out.extend_from_slice(&name_len.to_be_bytes());
        out.extend_from_slice(&value_len.to_be_bytes());
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(value.as_bytes());
        true
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Names and values, in the order in which they were added.
    pub fn iter(self) -> impl Iterator<Item = (&'m str, &'m str)> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (head, tail) = rest.split_first_chunk::<4>()?;
            let name_len = usize::from(u16::from_be_bytes([head[0], head[1]]));
            let value_len = usize::from(u16::from_be_bytes([head[2], head[3]]));
            let (name, tail) = tail.split_at_checked(name_len)?;
            let (value, tail) = tail.split_at_checked(value_len)?;
            rest = tail;
            Some((
                std::str::from_utf8(name).ok()?,
                std::str::from_utf8(value).ok()?,
            ))
        })
    }
}

/// A message that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inbound<'m> {
    /// Subscription that the message belongs to; `None` where the protocol does not say: the engine compares filters.
    pub subscription: Option<SubscriptionId>,
    /// To be given to [`Transport::settle`]; None if nothing is to be settled.
    pub delivery: Option<DeliveryId>,
    /// Canonical address: levels joined by `/`.
    pub address: &'m str,
    /// The payload, as it was published.
    pub payload: &'m [u8],
    /// Delivery guarantee of this delivery.
    pub reliability: Reliability,
    /// It is a last value from before the subscription.
    pub is_last_value: bool,
    /// It may have come before.
    pub repeated: bool,
    /// Media type of the payload.
    pub content_type: Option<&'m str>,
    /// The user's properties, without the stamp.
    pub properties: Properties<'m>,
    /// Where an answer goes, as a canonical address.
    pub reply_to: Option<&'m str>,
    /// Correlation data of a request or reply.
    pub correlation: Option<&'m [u8]>,
    /// Publisher and sequence number.
    pub stamp: Option<Stamp>,
    /// Remaining lifespan, if the protocol reports it; else [`Span::FOREVER`].
    pub lifespan: Span,
}

impl<'m> Inbound<'m> {
    /// An address and a payload, at most once, and nothing beside it.
    pub fn new(address: &'m str, payload: &'m [u8]) -> Self {
        Inbound {
            subscription: None,
            delivery: None,
            address,
            payload,
            reliability: Reliability::AtMostOnce,
            is_last_value: false,
            repeated: false,
            content_type: None,
            properties: Properties::default(),
            reply_to: None,
            correlation: None,
            stamp: None,
            lifespan: Span::FOREVER,
        }
    }
}

/// A subscription that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscribeWish<'m> {
    /// Its name in events.
    pub subscription: SubscriptionId,
    /// MQTT's syntax: `+`, `#`, `$share/<group>/<filter>`, `$q/<queue>`.
    pub filter: &'m str,
    /// The surest delivery that is wanted.
    pub reliability: Reliability,
    /// Last values come first.
    pub last_values: bool,
}

/// Result of sending a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// Nobody will say what became of it.
    Gone,
    /// [`Events::settled`] will.
    Awaited,
}

/// Outcome of an awaited message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The peer took it.
    Acknowledged,
    /// The peer refused it; these are its words, or ours for its code.
    Refused(Refusal),
    /// The transport gave up on asking: it may have arrived or not.
    Unknown,
}

/// Why something cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not now: as many are awaited as the peer allows. [`Events::room`] says when.
    Window,
    /// There is no connection.
    NotConnected,
    /// This protocol or this peer cannot; the words say what.
    Unsupported(&'static str),
    /// Larger than the peer takes, in bytes.
    TooLarge {
        /// The largest payload that the peer takes, in bytes.
        limit: usize,
    },
    /// The address or filter cannot be said in this protocol, or is no address.
    Address,
    /// The peer said no, for good.
    Denied(String),
    /// The peer said: not now; the same may work later.
    Busy(String),
    /// No answer in time.
    NoAnswer,
    /// It was not worth delivering any more before it could leave. Only the engine says so.
    Expired,
    /// It had to make room for newer ones before it could leave. Only the engine says so.
    Dropped,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Window => {
                f.write_str("as many messages wait for an acknowledgement as the peer allows")
            }
            Refusal::NotConnected => f.write_str("there is no connection"),
            Refusal::Unsupported(what) => write!(f, "this cannot be done here: {what}"),
            Refusal::TooLarge { limit } => {
                write!(f, "larger than the {limit} bytes that the peer takes")
            }
            Refusal::Address => f.write_str("this is no address or filter here"),
            Refusal::Denied(words) => write!(f, "the peer refuses: {words}"),
            Refusal::Busy(words) => write!(f, "the peer is busy: {words}"),
            Refusal::NoAnswer => f.write_str("no answer in time"),
            Refusal::Expired => {
                f.write_str("it was not worth delivering any more before it could leave")
            }
            Refusal::Dropped => f.write_str("it had to make room for newer messages"),
        }
    }
}

impl std::error::Error for Refusal {}

/// Why a connection cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkFault {
    /// The error, its cause and the remedy.
    pub words: String,
    /// Trying again as we are makes no sense: wrong password, unknown version.
    pub is_final: bool,
}

impl LinkFault {
    /// Creates an error that a retry may overcome.
    pub fn temporary(words: impl fmt::Display) -> Self {
        LinkFault {
            words: words.to_string(),
            is_final: false,
        }
    }

    /// Creates an error that a retry does not overcome.
    pub fn permanent(words: impl fmt::Display) -> Self {
        LinkFault {
            is_final: true,
            ..LinkFault::temporary(words)
        }
    }
}

impl fmt::Display for LinkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for LinkFault {}

/// Counters of a transport. They never decrease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages that the transport itself sent for the first time and for which it expects an acknowledgement of its own
    /// (CoAP's confirmable messages; 0 over TCP, where the system repeats).
    pub confirmable: u64,
    /// Number of repeated datagrams.
    pub retransmissions: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_sent_in_pieces_and_does_not_grow_while_it_is() {
        let mut out = Output::default();
        let (mut made, mut sent) = (0_u32, 0_u32);
        for _ in 0..10_000 {
            for _ in 0..8 {
                out.bytes.extend_from_slice(&made.to_be_bytes());
                made += 1;
            }
            for _ in 0..8 {
                if made - sent > 1 {
                    assert_eq!(out.unsent().get(..4), Some(&sent.to_be_bytes()[..]));
                    out.consume(4);
                    sent += 1;
                }
            }
        }
        assert!(out.bytes.len() < 3 * COMPACT_BYTES, "{}", out.bytes.len());
        assert_eq!(out.unsent().len(), 4 * (made - sent) as usize);
    }

    #[test]
    fn what_leaves_together_is_of_one_length_but_the_last() {
        let mut out = Output::default();
        assert_eq!(out.datagrams_alike(65_000), None);
        for len in [9, 9, 9, 4, 9, 12, 12] {
            out.bytes.extend(std::iter::repeat_n(b'x', len));
            out.end_datagram();
        }
        let mut runs = Vec::new();
        while let Some((run, segment)) = out.datagrams_alike(65_000) {
            let len = run.len();
            runs.push((len, segment));
            out.consume(len);
        }
        assert_eq!(runs, [(31, 9), (9, 9), (24, 12)]);

        for _ in 0..200 {
            out.bytes.extend_from_slice(&[7; 1200]);
            out.end_datagram();
        }
        assert_eq!(
            out.datagrams_alike(0).map(|(run, _)| run.len()),
            Some(1200),
            "one goes always"
        );
        assert_eq!(
            out.datagrams_alike(65_000).map(|(run, _)| run.len()),
            Some(54 * 1200),
            "what fits a packet"
        );
        assert_eq!(
            out.datagrams_alike(1 << 20).map(|(run, _)| run.len()),
            Some(64 * 1200),
            "what a call takes"
        );
    }

    #[test]
    fn datagrams_stay_whole_when_some_are_sent() {
        let mut out = Output::default();
        for round in 0..3_000_u32 {
            for part in 0..3_u32 {
                out.bytes
                    .extend_from_slice(format!("{round}.{part}").as_bytes());
                out.end_datagram();
                out.end_datagram();
            }
            if round > 0 {
                for _ in 0..3 {
                    let len = out.datagrams().next().expect("some wait").len();
                    out.consume(len);
                }
            }
            let waiting: Vec<_> = out
                .datagrams()
                .map(|one| String::from_utf8_lossy(one).into_owned())
                .collect();
            assert_eq!(
                waiting,
                (0..3)
                    .map(|part| format!("{round}.{part}"))
                    .collect::<Vec<_>>()
            );
        }
    }
}
