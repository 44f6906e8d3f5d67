//! Limits of a server for its peers.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thalweg_wire::Span;

use crate::{Block, Transmission, option};

/// The groups of all CoAP nodes: of IPv4, and of a link and a site of IPv6. RFC 7252 §12.8
pub const ALL_COAP_NODES: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(224, 0, 1, 187)),
    IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0xfd)),
    IpAddr::V6(Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 0xfd)),
];

/// When an observation needs a peer whose address is proven. RFC 9175 §2.4
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EchoForObserve {
    /// Never; the first notification is confirmable and proves it.
    Never,
    /// While more than half of the peers' table is taken: then peers may be invented.
    #[default]
    Auto,
    /// Always: registrations of unproven peers are answered with 4.01 and Echo.
    Always,
}

/// Limits and behaviour of a [`ServerSide`](crate::ServerSide). Each limit says what happens when it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// Repetition of confirmable messages.
    pub transmission: Transmission,
    /// Options that the application understands. A request with another critical one is answered with 4.02, or ignored
    /// if it is not confirmable; Block1, Block2 and elective options need not be listed. RFC 7252 §5.4.1
    pub understood_options: Vec<u16>,

    /// Peers that are known at a time. A new one displaces the one that was silent the longest and that nothing is
    /// going on with; if there is none, it is answered with 5.03.
    pub peers_max: usize,
    /// After how long a peer that nothing is going on with is forgotten.
    pub peer_idle: Span,
    /// Whether another layer, such as DTLS, has verified the addresses of peers.
    pub addresses_are_proven: bool,
    /// Largest ratio of a response's size to its request's for an unproven peer…
    pub amplification_factor: u8,
    /// …unless it has at most this many bytes. Larger ones become 4.01 with Echo, or go in small blocks.
    pub amplification_allowance: u16,
    /// Whether observers must prove their address first.
    pub echo_for_observe: EchoForObserve,
    /// For how long an Echo value is accepted.
    pub echo_lifetime: Span,
    /// Requests that a peer may send a second, on average; 0: any number. Beyond, 4.29 for confirmable ones, and
    /// nothing for others.
    pub requests_per_second: u32,
    /// Largest burst of requests from a peer.
    pub request_burst: u32,

    /// Requests that wait for the application's answer at a time. Further ones are answered with 5.03.
    pub exchanges_max: usize,
    /// The same for one peer. Further ones are answered with 5.03.
    pub exchanges_per_peer: u16,
    /// After how long without an answer a confirmable request is acknowledged, for an answer that comes separately.
    pub acknowledge_within: Span,
    /// Longest time of the application; then the request is answered with 5.03.
    pub answer_within: Span,
    /// Answers that are remembered for repeated requests. The oldest are forgotten first.
    pub remembered_max: usize,
    /// Bytes of options and payloads of these. The oldest are forgotten first.
    pub remembered_bytes_max: usize,

    /// Observations at a time. Further registrations are answered without Observe.
    pub relations_max: usize,
    /// The same for one peer.
    pub relations_per_peer: u16,
    /// Of this many notifications in a row one is confirmable, if the choice is left to the server: often enough to
    /// notice a lost observer and to keep the estimate of the round trip fresh, seldom enough to cost a sixteenth.
    pub confirm_every: u8,
    /// Longest time without a confirmable notification: a day. RFC 7641 §4.5
    pub confirm_within: Span,
    /// Notifications to one peer in a round trip that are not confirmable, on average; 0: any number. RFC 7641 §4.5.1
    pub notifications_per_round_trip: u16,
    /// Largest burst of notifications.
    pub notification_burst: u16,
    /// Assumed round trip before the first measurement. RFC 7641 §4.5.1
    pub round_trip_unknown: Span,
    /// How many confirmable notifications in a row a peer may leave unacknowledged (each repeated MAX_RETRANSMIT times)
    /// and keep its observations. RFC 7641 §4.5: none.
    pub observer_tolerance: u8,

    /// Confirmable responses of one peer that wait for NSTART. Further ones are not sent: their requests stay acknowledged
    /// and unanswered.
    pub waiting_per_peer: u8,
    /// Confirmable messages in flight and waiting, of all peers. Notifications wait, other messages are not sent.
    pub sendings_max: usize,

    /// SZX of the largest blocks to send, and to ask for.
    pub block_exponent_max: u8,
    /// Bytes that a request in blocks may have. 4.13 beyond.
    pub transfer_bytes_max: usize,
    /// Requests in blocks of one peer at a time; a further one is answered with 5.03 and a Max-Age of a second, and so is one
    /// of a peer that has a quarter of `transfers_bytes_max` under way. Clients send up to NSTART of them in parallel.
    pub transfers_per_peer: u8,
    /// The same for all peers. One of which only the first block came, some time ago, is displaced; otherwise 5.03.
    pub transfers_max: usize,
    /// Bytes of all requests in blocks. Then 5.03.
    pub transfers_bytes_max: usize,
    /// After how long without a further block a request is forgotten; what comes later is answered with 4.08.
    pub transfer_idle: Span,
    /// Responses to requests other than GET and FETCH, and notifications, of which further blocks may be asked for. The
    /// oldest goes first; the application is asked for further blocks of a notification that is not kept.
    pub kept_responses_max: usize,
    /// Bytes of kept responses at most, over all peers.
    pub kept_responses_bytes_max: usize,
    /// Longest time in which a peer must fetch all blocks of a confirmed response; then it is lost.
    pub fetch_within: Span,
}

impl Default for ServerSettings {
    fn default() -> Self {
        ServerSettings {
            transmission: Transmission::default(),
            understood_options: vec![
                option::IF_MATCH,
                option::URI_HOST,
                option::IF_NONE_MATCH,
                option::URI_PORT,
                option::URI_PATH,
                option::URI_QUERY,
                option::ACCEPT,
            ],
            peers_max: 262_144,
            peer_idle: Span::from_secs(300),
            addresses_are_proven: false,
            amplification_factor: 3,
            amplification_allowance: 152,
            echo_for_observe: EchoForObserve::Auto,
            echo_lifetime: Span::from_secs(60),
            requests_per_second: 0,
            request_burst: 100,
            exchanges_max: 65_536,
            exchanges_per_peer: 256,
            acknowledge_within: Span::from_secs(1),
            answer_within: Span::from_secs(90),
            remembered_max: 524_288,
            remembered_bytes_max: 16 << 20,
            relations_max: 1 << 20,
            relations_per_peer: 256,
            confirm_every: 16,
            confirm_within: Span::from_secs(86_400),
            notifications_per_round_trip: 1,
            notification_burst: 4,
            round_trip_unknown: Span::from_secs(3),
            observer_tolerance: 0,
            waiting_per_peer: 16,
            sendings_max: 262_144,
            block_exponent_max: Block::SIZE_EXPONENT_MAX,
            transfer_bytes_max: 256 << 10,
            transfers_per_peer: 255,
            transfers_max: 4096,
            transfers_bytes_max: 16 << 20,
            transfer_idle: Span::from_secs(60),
            kept_responses_max: 1024,
            kept_responses_bytes_max: 4 << 20,
            fetch_within: Span::from_secs(120),
        }
    }
}
