//! `zmtp.*`: the section of ZMTP.

use crate::config::declare::{KIB, given, keys, message_bytes, prefix, seconds};
use crate::config::dials::Dial;
use crate::config::keys::Key;
use crate::config::keys::Reload::{NewConnections, Restart};
use crate::config::kind::Kind::{Count, Dials, Duration, Filters, Flag, Size, Text};
use crate::config::landing::{Field, Landing, land, protocol};
use thalweg_model::{Filter, Span};

/// `zmtp.*`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Zmtp {
    /// How many messages wait for a subscriber that does not keep up.
    pub high_water: u32,
    /// Whether a new subscription brings last values.
    pub last_value: bool,
    /// Where what is published becomes the last value.
    pub retain: Vec<Filter>,
    /// Whether subscribers get what begins with none of their prefixes.
    pub invert_matching: bool,
    /// Whether messages have a frame of properties.
    pub header_frame: bool,
    /// The queue of PUSH and PULL sockets.
    pub queue: String,
    /// Whether what waits in it is written down.
    pub durable: bool,
    /// The address of requests that name none, and of workers that name none.
    pub service: String,
    /// How long a request is worth answering.
    pub request_timeout: Span,
    /// Requests of a connection that wait for answers.
    pub requests_max: usize,
    /// Requests that a worker has at once.
    pub worker_window: u32,
    /// Peers that the broker connects to.
    pub connect: Vec<Dial>,
    /// How often a peer is asked for a sign of life; [`Span::ZERO`] is never.
    pub heart_beat: Span,
    /// Largest message, all its frames together.
    pub message_bytes_max: usize,
    /// Longest prefix of a subscription.
    pub subscription_bytes_max: usize,
}

keys! {
    protocol zmtp.high_water: Count { min: 0, max: 10_000_000 }, default "1000", NewConnections;
        "Messages that wait for a ZeroMQ subscriber that does not keep up, beside what is in its output (`queue.output_bytes_max`). \
         Beyond that the newest is dropped, and counted as `queue_full`. 0: none waits.";
    protocol zmtp.last_value: Flag, default "false", NewConnections;
        "Whether a subscription of a ZeroMQ client brings the last values (MQTT: retained messages) of the addresses that \
         begin with its prefix.";
    protocol zmtp.retain: Filters { max: 100 }, default "", NewConnections;
        "Topic filters: what a ZeroMQ client publishes at such a topic becomes its last value, as a retained message of MQTT does. \
         With `zmtp.last_value` it is a last value cache.";
    protocol zmtp.invert_matching: Flag, default "false", NewConnections;
        "Whether a ZeroMQ subscriber gets what begins with none of its prefixes, in place of what begins with one. As with \
         ZMQ_INVERT_MATCHING of a PUB, the SUB must set that, too.";
    protocol zmtp.header_frame: Flag, default "false", NewConnections;
        "Whether messages of PUB, SUB, PUSH and PULL sockets have a frame of properties before the payload, to and from the broker: \
         a line `name:value` for each. `content-type`, `correlation`, `reply-to`, `expiry` (seconds) and `priority` are what other \
         protocols call so; other names are user properties. Without it ZeroMQ has none.";
    protocol zmtp.queue: Text, default "zmtp", NewConnections;
        "Name of the queue that PUSH sockets send to and PULL sockets take from. ZeroMQ has no names for that; clients of other \
         protocols use the queue by this one. It is made when the first of them connects.";
    protocol zmtp.durable: Flag, default "false", NewConnections;
        "Whether what PUSH sockets send to the queue outlives the broker, as far as it was written down: ZeroMQ has no \
         acknowledgements. It costs what persistent messages cost.";
    protocol zmtp.service: Text, default "$q/zmtp-requests", NewConnections;
        "Where requests of REQ and DEALER sockets go that name no address, and what REP and ROUTER sockets serve that name none. \
         `$q/<name>` is a queue, in which requests wait for a worker.";
    protocol zmtp.request_timeout: seconds(1, 86_400), default "30s", NewConnections;
        "How long a request of a ZeroMQ client is worth answering. An answer that comes later is dropped, because ZeroMQ has no \
         word for a request that failed.";
    protocol zmtp.requests_max: Count { min: 1, max: 1_000_000 }, default "1000", NewConnections;
        "Requests of one ZeroMQ connection that wait for their answers. What is asked beyond that is dropped, and counted as \
         refused.";
    protocol zmtp.worker_window: Count { min: 1, max: 10_000 }, default "1", NewConnections;
        "Requests that a ROUTER socket or a worker of Majordomo has at once. With more than one, a frame before the empty one \
         tells them apart; the worker sends it back with the answer. A REP socket has one.";
    protocol zmtp.connect: Dials { max: 100 }, default "", Restart;
        "Peers of ZeroMQ that bind, to which the broker connects, by tcp or ipc. `as` is the broker's end: `sub` takes what a PUB \
         publishes (what begins with one of `subscribe`; all, if that is left out), `pub` publishes to a SUB, `pull` puts what a \
         PUSH sends into `queue` (`zmtp.queue`), `push` gives a PULL what is in it, `dealer` asks a REP or ROUTER what is asked at `service`, \
         and `router` answers a REQ or DEALER. The peer has the rights of `user` (`zmtp`). A connection that ends is opened \
         again after a tenth of a second, then after twice as long each time, up to half a minute; `identity` is the broker's \
         routing id each time.";
    protocol zmtp.heart_beat: Duration { min: Span::ZERO, max: Span::from_secs(3600), step: Span::from_millis(1) },
        default "30s", NewConnections;
        "How often a ZeroMQ client of ZMTP 3.1 is asked for a sign of life (PING). One that sends nothing for three times as \
         long is disconnected. 0s is never. What a client asks for by a time to live in its own PING comes first.";
    protocol zmtp.message_bytes_max: message_bytes(), default "16MiB", NewConnections;
        "Largest message of a ZeroMQ client, all its frames together. A client that sends a larger one is disconnected.";
    protocol zmtp.subscription_bytes_max: Size { min: 64, max: 64 * KIB }, default "4KiB", NewConnections;
        "Longest prefix that a ZeroMQ client may subscribe to. A client that sends a longer one is disconnected.";
}
