//! `coap.*`: the section of CoAP.

use crate::choices::words;
use crate::section::section;
use thalweg_coap::EchoForObserve;
use thalweg_fronts::coap::Notify;
use thalweg_model::Span;

section! {
    pub struct Coap {
        /// Time that a confirmable CoAP message waits for its acknowledgement before it is sent again; each repetition
        /// waits twice as long. This is ACK_TIMEOUT of RFC 7252; lower it for fast networks only.
        ack_timeout: Span = millis(10, 3_600_000), "2s", Now;
        /// The first wait is up to this many percent of `coap.ack_timeout`, by chance, so that what was lost together
        /// is not repeated together. This is ACK_RANDOM_FACTOR, times 100.
        ack_random_percent: u16 = count(100, 1000), "150", Now;
        /// How often a confirmable CoAP message is sent again. An observer that acknowledges none of them is forgotten.
        /// This is MAX_RETRANSMIT.
        max_retransmit: u8 = count(0, 20), "4", Now;
        /// Whether the first wait follows the measured round trip to a peer, from 100 ms on, instead of being
        /// `coap.ack_timeout`, which then is for peers of whom nothing is known. A message is sent again as often as
        /// fits into the time that RFC 7252 gives it (45 s), each wait twice the one before. Where a quarter of all
        /// datagrams is lost, an observer is notified of a change after 0.3 s on average, not after 4 s. If not, waits are
        /// those of RFC 7252.
        adaptive_timeout: bool = Flag, "true", Now;
        /// Confirmable CoAP messages on the way to one peer at once. Further ones wait. This is NSTART; RFC 7252 allows
        /// more than 1 only with congestion control of another kind.
        nstart: u8 = count(1, 255), "1", Now;
        /// Bytes per second, on average, that are sent to a CoAP peer that does not answer at all. This is
        /// PROBING_RATE.
        probing_rate: u32 = count(1, 1_000_000_000), "1", Now;
        /// Changes of a topic that wait for a CoAP observer. 1 is what CoAP promises: the latest state, and states in
        /// between may be left out. With more, up to so many are notified in order; of more than that the oldest are
        /// left out and counted. Observers can ask for another number with `?queue=`.
        queue: u16 = count(1, 65_535), "1", Now;
        /// The most that an observer can ask for.
        queue_max: u16 = count(1, 65_535), "1024", Now;
        /// Which CoAP notifications are confirmable: those of messages that are delivered at least once (`auto`), all
        /// (`con`), or as few as RFC 7641 allows (`non`). Clients can say otherwise with `?qos=`.
        notifications: Notify = Word(Notify::WORDS), "auto", Now;
        /// At least this often a notification is confirmable, so that an observer that has gone is found out. RFC 7641
        /// asks for a day or less.
        observer_check: Span = whole_seconds(1, 86_400), "24h", Now;
        /// Whether a topic that has no value yet can be observed. If not, GET with Observe is answered with 4.04 like
        /// GET.
        observe_empty: bool = Flag, "true", Now;
        /// Whether a PUT to a topic that no client has made is a publish all the same. If not, it is answered with
        /// 4.04, as the draft of CoAP publish-subscribe says.
        auto_create: bool = Flag, "true", Now;
        /// Whether a POST to a queue that does not exist makes it. If not, it is answered with 4.04.
        auto_declare_queues: bool = Flag, "false", Now;
        /// Whether `/ps/a/b` means the topic a/b where no CoAP topic has that path: the form that clients of EMQX use.
        /// `/ps/data/a/b` always does.
        plain_paths: bool = Flag, "true", Now;
        /// Whether /.well-known/core tells clients what there is. If not, it is answered with 4.04, and a client must
        /// have a topic's path.
        discovery: bool = Flag, "true", Now;
        /// The longest time that a client which asks a group (`listeners.<name>.multicast`) waits for our answer. Each is sent
        /// at a random time within it, so that those of all nodes do not come at once. This is Leisure of RFC 7252.
        leisure: Span = millis(0, 60_000), "5s", Now;
        /// Whether notifications that fit one message have an ETag as well, at five bytes each. Those in blocks always
        /// have one.
        notify_etag: bool = Flag, "false", Now;
        /// How long what does not expire is called fresh (Max-Age). Caches may answer with it for so long, and
        /// observers that hear nothing for longer register again.
        max_age: Span = seconds(0, 4_294_967_295), "60s", Now;
        /// Largest body of a CoAP request, all blocks together. A larger one is answered with 4.13.
        message_bytes_max: usize = size(64, 512 * MIB), "1MiB", Now;
        /// Largest block of CoAP block-wise transfer: a power of two. Bodies that are longer come and go in several.
        /// Clients can ask for smaller ones.
        max_block_size: u16 = count(16, 1024), "1024", Now;
        /// Bytes of request bodies of which not all blocks have come, on each listener. When reached, new ones are
        /// answered with 5.03.
        transfers_bytes_max: usize = size(KIB, TIB), "64MiB", Now;
        /// CoAP peers that are remembered on each listener. When reached, those that observe nothing and wait for
        /// nothing make room, the longest silent first; if there are none, new ones are answered with 5.03.
        peers_max: usize = count(1, 100_000_000), "262144", Now;
        /// Most observations on each listener. Further ones are answered without Observe.
        observations_max: usize = count(1, 100_000_000), "1000000", Now;
        /// Most observations of one CoAP peer, likewise.
        observations_per_peer_max: u16 = count(1, 65_535), "256", Now;
        /// Requests per second accepted from one CoAP peer. Those beyond are answered with 4.29 if they are
        /// confirmable, and else not at all.
        request_rate: Option<u64> = RATE, "off" or "off", Now;
        /// How many times its request's size an answer may have for a peer that has not shown that it is where it seems
        /// to be (RFC 9175). Longer answers go in small blocks until it has. With DTLS there is no limit.
        amplification_factor: u8 = count(1, 255), "3", Now;
        /// Whether a peer that wants to observe must show by Echo (RFC 9175) that it is where it seems to be: never,
        /// always, or while more than half of `coap.peers_max` is taken. Unless never, a peer that sends more than half
        /// of the bodies in blocks that it may send at once must do so, too.
        echo: EchoForObserve = Word(EchoForObserve::WORDS), "auto", Now;
        /// Answers remembered on each listener, so that a repeated request is not carried out twice. When reached, the
        /// oldest are forgotten and counted; otherwise each is kept for 247 seconds.
        duplicates_max: usize = count(1, 100_000_000), "524288", Now;
        /// Bytes of options and payloads of these, likewise.
        duplicates_bytes_max: usize = size(KIB, TIB), "16MiB", Now;
        /// Most topics that CoAP clients may have made. Further ones are answered with 5.03.
        topics_max: usize = count(1, 100_000_000), "100000", Now;
        /// How long the answer to a request through `/rpc` is waited for. Then it is answered with 5.04.
        rpc_timeout: Span = seconds(1, 3600), "30s", Now;
        /// How long a message that a CoAP client took from a queue may go unacknowledged. Then it goes back.
        take_timeout: Span = seconds(1, 86_400), "120s", Now;
        /// How long a CoAP client over TCP, TLS or WebSocket may say nothing. After half of that it is asked by a Ping,
        /// which every client answers; so this finds those that are gone. `tcp_keep_alive` of the listener does so,
        /// too.
        idle_timeout: Option<Span> = seconds(1, 86_400), "off" or "off", NewConnections;
    }
}

words! { for Notify { Auto = "auto", Confirmable = "con", NonConfirmable = "non", } }
words! { for EchoForObserve { Auto = "auto", Always = "always", Never = "never", } }

impl Coap {
    pub(super) fn contradictions(&self) -> [(bool, &'static str); 2] {
        [
            (!self.max_block_size.is_power_of_two(), "odd-blocks"),
            (self.queue > self.queue_max, "coap-queue-beyond-max"),
        ]
    }
}
