//! `coap.*`: the section of CoAP.

use crate::config::declare::{KIB, MIB, NANO, TIB, given, keys, prefix, seconds};
use crate::config::keys::Key;
use crate::config::keys::Reload::{NewConnections, Now};
use crate::config::kind::Kind::{Count, Duration, Flag, Rate, Size, Word};
use crate::config::kind::Value;
use crate::config::landing::{Field, Landing, land, protocol};
use crate::config::protocols::Contradiction;
use crate::config::words::words;
use thalweg_model::Span;

/// `coap.*`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Coap {
    pub ack_timeout: Span,
    pub ack_random_percent: u16,
    pub max_retransmit: u8,
    /// The first wait follows the measured round trip.
    pub adaptive_timeout: bool,
    pub nstart: u8,
    /// PROBING_RATE, in bytes a second.
    pub probing_rate: u32,
    /// Changes of one address that wait for an observer that does not say; 1 is the latest only.
    pub queue: u16,
    /// The most an observer may ask for.
    pub queue_max: u16,
    /// Which notifications are confirmable.
    pub notifications: CoapNotifications,
    /// How often a notification is confirmable at least. In whole seconds.
    pub observer_check: Span,
    /// Whether a topic without a value can be observed.
    pub observe_empty: bool,
    /// Whether a publish makes its topic.
    pub auto_create: bool,
    /// Whether a POST to a queue makes it.
    pub auto_declare_queues: bool,
    /// Whether `/ps/<topic>` means the topic, too.
    pub plain_paths: bool,
    /// Whether `/.well-known/core` is answered.
    pub discovery: bool,
    /// Whether all notifications have an ETag.
    pub notify_etag: bool,
    /// Max-Age of what does not expire. In whole seconds.
    pub max_age: Span,
    pub message_bytes_max: usize,
    /// Largest block: a power of two.
    pub max_block_size: u16,
    /// Bytes of bodies that are not complete.
    pub transfers_bytes_max: usize,
    /// Peers known at once.
    pub peers_max: usize,
    pub observations_max: usize,
    /// Observations of one peer.
    pub observations_per_peer_max: u16,
    /// Requests per second of one peer; `None` is unlimited.
    pub request_rate: Option<u64>,
    /// How many times its request an answer to an unproven peer may be.
    pub amplification_factor: u8,
    /// When observers must prove their address.
    pub echo: CoapEcho,
    /// Answers remembered for repeated requests.
    pub duplicates_max: usize,
    pub duplicates_bytes_max: usize,
    /// Topics that clients may have made.
    pub topics_max: usize,
    /// How long the answer to a request through `/rpc` is waited for.
    pub rpc_timeout: Span,
    /// How long a message taken from a queue may go unacknowledged.
    pub take_timeout: Span,
    /// How long a client of a connection may be silent.
    pub idle_timeout: Option<Span>,
}

impl Coap {
    pub(super) fn contradictions(&self) -> Vec<Contradiction> {
        let mut found: Vec<Contradiction> = Vec::new();
        if !self.max_block_size.is_power_of_two() {
            let what = format!(
                "coap.max_block_size is {}, which is not a size that blocks have",
                self.max_block_size
            );
            let mend = "Write 16, 32, 64, 128, 256, 512 or 1024";
            found.push((&["coap.max_block_size"], what, mend));
        }
        if self.queue > self.queue_max {
            let what = format!(
                "coap.queue is {}, more than coap.queue_max, which is {}",
                self.queue, self.queue_max
            );
            let mend = "Raise coap.queue_max, or lower coap.queue";
            found.push((&["coap.queue", "coap.queue_max"], what, mend));
        }
        found
    }
}

words! {
    /// Which CoAP notifications the observer must acknowledge.
    CoapNotifications {
        /// Those of messages that are delivered at least once, and of the others one now and then.
        Auto = "auto",
        Confirmable = "con",
        /// One now and then.
        NonConfirmable = "non",
    }
}

words! {
    /// When a CoAP client that wants to observe must show first that it is where it seems to be.
    CoapEcho {
        /// While many peers are known, one sender may be making them up.
        Auto = "auto",
        Always = "always",
        Never = "never",
    }
}

keys! {
    protocol coap.ack_timeout: Duration { min: Span::from_millis(10), max: Span::from_secs(3600), step: NANO },
        default "2s", Now;
        "Time that a confirmable CoAP message waits for its acknowledgement before it is sent again; each repetition \
         waits twice as long. This is ACK_TIMEOUT of RFC 7252; lower it for fast networks only.";
    protocol coap.ack_random_percent: Count { min: 100, max: 1000 }, default "150", Now;
        "The first wait is up to this many percent of `coap.ack_timeout`, by chance, so that what was lost together is \
         not repeated together. This is ACK_RANDOM_FACTOR, times 100.";
    protocol coap.max_retransmit: Count { min: 0, max: 20 }, default "4", Now;
        "How often a confirmable CoAP message is sent again. An observer that acknowledges none of them is forgotten. \
         This is MAX_RETRANSMIT.";
    protocol coap.adaptive_timeout: Flag, default "true", Now;
        "Whether the first wait follows the measured round trip to a peer, from 100 ms on, instead of being \
         `coap.ack_timeout`, which then is for peers of whom nothing is known. A message is sent again as often as fits \
         into the time that RFC 7252 gives it (45 s), each wait twice the one before. Where a quarter of all datagrams \
         is lost, an observer hears of a change after 0.3 s on average, not after 4 s. If not, waits are those of RFC 7252.";
    protocol coap.nstart: Count { min: 1, max: 255 }, default "1", Now;
        "Confirmable CoAP messages on the way to one peer at once. Further ones wait. This is NSTART; RFC 7252 allows \
         more than 1 only with congestion control of another kind.";
    protocol coap.probing_rate: Count { min: 1, max: 1_000_000_000 }, default "1", Now;
        "Bytes per second, on average, that are sent to a CoAP peer that does not answer at all. This is PROBING_RATE.";
    protocol coap.queue: Count { min: 1, max: 65_535 }, default "1", Now;
        "Changes of a topic that wait for a CoAP observer. 1 is what CoAP promises: the latest state, and states in \
         between may be left out. With more, up to so many are notified in order; of more than that the oldest are left \
         out and counted. Observers can ask for another number with `?queue=`.";
    protocol coap.queue_max: Count { min: 1, max: 65_535 }, default "1024", Now;
        "The most that an observer can ask for.";
    protocol coap.notifications: Word(CoapNotifications::WORDS), default "auto", Now;
        "Which CoAP notifications are confirmable: those of messages that are delivered at least once (`auto`), all \
         (`con`), or as few as RFC 7641 allows (`non`). Clients can say otherwise with `?qos=`.";
    protocol coap.observer_check: Duration { min: Span::from_secs(1), max: Span::from_secs(86_400), step: Span::from_secs(1) },
        default "24h", Now;
        "At least this often a notification is confirmable, so that an observer that has gone is found out. RFC 7641 \
         asks for a day or less.";
    protocol coap.observe_empty: Flag, default "true", Now;
        "Whether a topic that has no value yet can be observed. If not, GET with Observe is answered with 4.04 like GET.";
    protocol coap.auto_create: Flag, default "true", Now;
        "Whether a PUT to a topic that no client has made is a publish all the same. If not, it is answered with 4.04, \
         as the draft of CoAP publish-subscribe says.";
    protocol coap.auto_declare_queues: Flag, default "false", Now;
        "Whether a POST to a queue that does not exist makes it. If not, it is answered with 4.04.";
    protocol coap.plain_paths: Flag, default "true", Now;
        "Whether `/ps/a/b` means the topic a/b where no CoAP topic has that path: the form that clients of EMQX use. \
         `/ps/data/a/b` always does.";
    protocol coap.discovery: Flag, default "true", Now;
        "Whether /.well-known/core tells clients what there is. If not, it is answered with 4.04, and a client must \
         have a topic's path.";
    protocol coap.notify_etag: Flag, default "false", Now;
        "Whether notifications that fit one message have an ETag as well, at five bytes each. Those in blocks always have \
         one.";
    protocol coap.max_age: seconds(0, 4_294_967_295), default "60s", Now;
        "How long what does not expire is called fresh (Max-Age). Caches may answer with it for so long, and observers \
         that hear nothing for longer register again.";
    protocol coap.message_bytes_max: Size { min: 64, max: 512 * MIB }, default "1MiB", Now;
        "Largest body of a CoAP request, all blocks together. A larger one is answered with 4.13.";
    protocol coap.max_block_size: Count { min: 16, max: 1024 }, default "1024", Now;
        "Largest block of CoAP block-wise transfer: a power of two. Bodies that are longer come and go in several. Clients \
         can ask for smaller ones.";
    protocol coap.transfers_bytes_max: Size { min: KIB, max: TIB }, default "64MiB", Now;
        "Bytes of request bodies of which not all blocks have come, on each listener. When reached, new ones are \
         answered with 5.03.";
    protocol coap.peers_max: Count { min: 1, max: 100_000_000 }, default "262144", Now;
        "CoAP peers that are remembered on each listener. When reached, those that observe nothing and wait for nothing \
         make room, the longest silent first; if there are none, new ones are answered with 5.03.";
    protocol coap.observations_max: Count { min: 1, max: 100_000_000 }, default "1000000", Now;
        "Most observations on each listener. Further ones are answered without Observe.";
    protocol coap.observations_per_peer_max: Count { min: 1, max: 65_535 }, default "256", Now;
        "Most observations of one CoAP peer, likewise.";
    protocol coap.request_rate: Rate, default "off" none "off", Now;
        "Requests per second accepted from one CoAP peer. Those beyond are answered with 4.29 if they are confirmable, \
         and else not at all.";
    protocol coap.amplification_factor: Count { min: 1, max: 255 }, default "3", Now;
        "How many times its request's size an answer may have for a peer that has not shown that it is where it seems to \
         be (RFC 9175). Longer answers go in small blocks until it has. With DTLS there is no limit.";
    protocol coap.echo: Word(CoapEcho::WORDS), default "auto", Now;
        "Whether a peer that wants to observe must show by Echo (RFC 9175) that it is where it seems to be: never, \
         always, or while more than half of `coap.peers_max` is taken. Unless never, a peer that sends more than half \
         of the bodies in blocks that it may send at once must do so, too.";
    protocol coap.duplicates_max: Count { min: 1, max: 100_000_000 }, default "524288", Now;
        "Answers remembered on each listener, so that a repeated request is not carried out twice. When reached, the \
         oldest are forgotten and counted; otherwise each is kept for 247 seconds.";
    protocol coap.duplicates_bytes_max: Size { min: KIB, max: TIB }, default "16MiB", Now;
        "Bytes of options and payloads of these, likewise.";
    protocol coap.topics_max: Count { min: 1, max: 100_000_000 }, default "100000", Now;
        "Most topics that CoAP clients may have made. Further ones are answered with 5.03.";
    protocol coap.rpc_timeout: seconds(1, 3600), default "30s", Now;
        "How long the answer to a request through `/rpc` is waited for. Then it is answered with 5.04.";
    protocol coap.take_timeout: seconds(1, 86_400), default "120s", Now;
        "How long a message that a CoAP client took from a queue may go unacknowledged. Then it goes back.";
    protocol coap.idle_timeout: seconds(1, 86_400), default "off" none "off", NewConnections;
        "How long a CoAP client over TCP, TLS or WebSocket may say nothing. After half of that it is asked by a Ping, which \
         every client answers; so this finds those that are gone. `tcp_keep_alive` of the listener does so, too.";
}
