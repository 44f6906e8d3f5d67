//! `zmtp.*`: the section of ZMTP.

use crate::config::dials::{DIALS, Dial};
use crate::config::section::section;
use thalweg_model::{Filter, Span};

section! {
    pub struct Zmtp {
        /// Messages that wait for a ZeroMQ subscriber that does not keep up, beside what is in its output
        /// (`queue.output_bytes_max`). Beyond that the newest is dropped, and counted as `queue_full`. 0: none waits.
        high_water: u32 = count(0, 10_000_000), "1000", NewConnections;
        /// Whether a subscription of a ZeroMQ client brings the last values (MQTT: retained messages) of the addresses
        /// that begin with its prefix.
        last_value: bool = Flag, "false", NewConnections;
        /// Topic filters: what a ZeroMQ client publishes at such a topic becomes its last value, as a retained message
        /// of MQTT does. With `zmtp.last_value` it is a last value cache.
        retain: Vec<Filter> = List(&FILTERS), "", NewConnections;
        /// Whether a ZeroMQ subscriber gets what begins with none of its prefixes, in place of what begins with one. As
        /// with ZMQ_INVERT_MATCHING of a PUB, the SUB must set that, too.
        invert_matching: bool = Flag, "false", NewConnections;
        /// Whether a subscription of a ZeroMQ client may have a content filter behind its prefix and a zero byte. The
        /// client must be an XSUB: a SUB drops what does not begin with the whole subscription.
        filters: bool = Flag, "false", NewConnections;
        /// Whether messages of PUB, SUB, PUSH and PULL sockets have a frame of properties before the payload, to and
        /// from the broker: a line `name:value` for each. `content-type`, `correlation`, `reply-to`, `expiry` (seconds)
        /// and `priority` are what other protocols call so; other names are user properties. Without it ZeroMQ has
        /// none.
        header_frame: bool = Flag, "false", NewConnections;
        /// Name of the queue that PUSH sockets send to and PULL sockets take from. ZeroMQ has no names for that;
        /// clients of other protocols use the queue by this one. It is made when the first of them connects.
        queue: String = Text, "zmtp", NewConnections;
        /// Whether what PUSH sockets send to the queue outlives the broker, as far as it was written down: ZeroMQ has
        /// no acknowledgements. It costs what persistent messages cost.
        durable: bool = Flag, "false", NewConnections;
        /// Where requests of REQ and DEALER sockets go that name no address, and what REP and ROUTER sockets serve that
        /// name none. `$q/<name>` is a queue, in which requests wait for a worker.
        service: String = Text, "$q/zmtp-requests", NewConnections;
        /// How long a request of a ZeroMQ client is worth answering. An answer that comes later is dropped, because
        /// ZeroMQ has no word for a request that failed.
        request_timeout: Span = seconds(1, 86_400), "30s", NewConnections;
        /// Requests of one ZeroMQ connection that wait for their answers. What is asked beyond that is dropped, and
        /// counted as refused.
        requests_max: usize = count(1, 1_000_000), "1000", NewConnections;
        /// Requests that a ROUTER socket or a worker of Majordomo has at once. With more than one, a frame before the
        /// empty one tells them apart; the worker sends it back with the answer. A REP socket has one.
        worker_window: u32 = count(1, 10_000), "1", NewConnections;
        /// Peers of ZeroMQ that bind, to which the broker connects, by tcp or ipc. `as` is the broker's end: `sub`
        /// takes what a PUB publishes (what begins with one of `subscribe`; all, if that is left out), `pub` publishes
        /// to a SUB, `pull` puts what a PUSH sends into `queue` (`zmtp.queue`), `push` gives a PULL what is in it,
        /// `dealer` asks a REP or ROUTER what is asked at `service`, and `router` answers a REQ or DEALER. The peer has
        /// the rights of `user` (`zmtp`). A connection that ends is opened again after a tenth of a second, then after
        /// twice as long each time, up to half a minute; `identity` is the broker's routing id each time.
        connect: Vec<Dial> = Tables(&DIALS), "", Restart;
        /// How often a ZeroMQ client of ZMTP 3.1 is asked for a sign of life (PING). One that sends nothing for three
        /// times as long is disconnected. 0s is never. What a client asks for by a time to live in its own PING comes
        /// first.
        heart_beat: Span = whole_millis(0, 3_600_000), "30s", NewConnections;
        /// Largest message of a ZeroMQ client, all its frames together. A client that sends a larger one is
        /// disconnected.
        message_bytes_max: usize = MESSAGE_BYTES, "16MiB", NewConnections;
        /// Longest prefix that a ZeroMQ client may subscribe to. A client that sends a longer one is disconnected.
        subscription_bytes_max: usize = size(64, 64 * KIB), "4KiB", NewConnections;
    }
}
