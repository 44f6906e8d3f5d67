//! Chooses the protocol that carries the next message: measures, weighs by the user's objective, and explains.
//!
//! ```text
//!  engine ── sent, settled, round_trip, counters, network, up, down ──> Conditions (loss, round trip, rate)
//!                                                                          │
//!  Calibration (what was measured before) ──> model: latency, bytes and energy per message and lane
//!                                                                          │ corrected by what was measured now
//!  engine <── Decision ── Chooser: constraints, utility, hysteresis, dwell ┘
//! ```
//!
//! *Knows:* numbers and names of protocols. *Must never know:* sockets, messages, clocks. Time is a parameter, so that
//! minutes are tested in milliseconds; a seed settles ties, so that a run repeats.

mod calibration;
mod choice;
mod conditions;
mod correction;
mod explain;
pub(crate) mod json;
mod model;
#[cfg(test)]
mod tests;

use thalweg_model::{Reliability, Span};

pub use calibration::{Calibration, CalibrationError};
pub use choice::Chooser;
pub use explain::{Estimate, Explanation};

use crate::transport::{Capabilities, Medium, Transport};

/// Quantity that the choice minimizes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Objective {
    /// The mean time from publishing to the peer's having the message.
    #[default]
    Latency,
    /// Bytes of Ethernet frames per message, both directions, repetitions and acknowledgements included.
    Bytes,
    /// Energy of this device's radio per message, modelled by the calibration's energy profile; nothing measures joules.
    Energy,
    /// Several at once: each is weighed by its relative size (a weight of 2 on latency and 1 on bytes: twice the latency is
    /// as bad as four times the bytes). Only ratios of weights matter; negative ones and NaN count as 0.
    Weights {
        /// Weight of the mean latency, as a ratio to the other weights.
        latency: f64,
        /// Weight of the bytes per message.
        bytes: f64,
        /// Weight of the energy per message.
        energy: f64,
    },
}

/// Limits that apply before the objective. A lane that breaks a constraint is chosen only if all do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Constraints {
    /// 99 of 100 messages have arrived after so long.
    pub latency_p99_max: Option<Span>,
    /// Ethernet-frame bytes per message.
    pub bytes_per_message_max: Option<u32>,
    /// So many of 100 at-most-once messages arrive at least. Datagrams lose them, streams do not.
    pub delivered_percent_min: Option<u8>,
    /// Only these protocols, by name; empty: all.
    pub protocols: Vec<String>,
}

/// A lane that may be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its number at the engine.
    pub lane: usize,
    /// [`Transport::protocol`].
    pub protocol: &'static str,
    /// Whether TLS or DTLS lies below the protocol.
    pub encrypted: bool,
    /// WebSocket between stream and protocol.
    pub websocket: bool,
    /// Medium below the protocol: streams are retransmitted by the system, datagrams by the transport.
    pub medium: Medium,
    /// Where it goes: lanes to one host share a path, what one measures of it helps to judge the others.
    pub host: String,
    /// Capabilities of the lane, as far as they are known before the first connection.
    pub capabilities: Capabilities,
}

impl Candidate {
    /// Describes a lane from its transport's own properties.
    pub fn new(lane: usize, transport: &dyn Transport) -> Self {
        let endpoint = transport.endpoint();
        Candidate {
            lane,
            protocol: transport.protocol(),
            encrypted: endpoint.is_encrypted,
            websocket: endpoint.websocket.is_some(),
            medium: endpoint.medium.clone(),
            host: endpoint.host.clone(),
            capabilities: transport.capabilities(),
        }
    }

    /// A lane of which nothing but its medium is known.
    fn plain(lane: usize, protocol: &'static str, is_stream: bool) -> Self {
        Candidate {
            lane,
            protocol,
            encrypted: false,
            websocket: false,
            medium: if is_stream {
                Medium::Stream
            } else {
                Medium::Datagrams
            },
            host: String::new(),
            capabilities: Capabilities {
                publishes: true,
                subscribes: true,
                reliability_max: if is_stream {
                    Reliability::ExactlyOnce
                } else {
                    Reliability::AtLeastOnce
                },
                receive_max: Reliability::AtLeastOnce,
                stamps: false,
                carries_stamps: false,
                keeps_order: is_stream,
                publishes_in_order: is_stream,
                wildcards: true,
                keeps_all: true,
                settles: true,
                wills: false,
                properties: true,
                lifespan: true,
                priority: false,
                requests: true,
                last_values: true,
                payload_bytes_max: 1 << 20,
            },
        }
    }
}

/// Requirements of the user's messages and subscriptions on a lane. Reported again on every change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// The surest reliability that is published. Exactly once is met by stamps or by the protocol's own.
    pub reliability: Reliability,
    /// Some filter has wildcards.
    pub wildcards: bool,
    /// Properties or content types are sent.
    pub properties: bool,
    /// Messages have priorities, which the lane's protocol must carry.
    pub priority: bool,
    /// Requests are made, so the lane's protocol must carry answers.
    pub requests: bool,
    /// Last values are read.
    pub last_values: bool,
    /// Every message has to reach us as a subscriber, not just the newest state.
    pub keeps_all: bool,
    /// A subscriber settles messages by hand.
    pub settles: bool,
    /// The largest payload so far, in bytes.
    pub payload_bytes_max: usize,
}

/// A message that was given to a lane's transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Of the payload, in bytes.
    pub payload_bytes: usize,
    /// As it was asked for.
    pub reliability: Reliability,
    /// Bytes that the transport appended to its output for it; 0 if unknown.
    pub wire_bytes: usize,
    /// Any hash of its topic ([`topic_hash`]): so that topics can be counted about.
    pub topic_hash: u32,
}

/// A hash of a topic for [`Sent::topic_hash`]: FNV-1a, folded.
pub fn topic_hash(topic: &str) -> u32 {
    let hash = topic.bytes().fold(0xCBF2_9CE4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    });
    (hash ^ (hash >> 32)) as u32
}

/// Counters of system and driver for a connection. All count from its beginning and never decrease; 0 where the system
/// has no value. The names of Linux's `tcp_info` are given. For datagrams the driver counts frames and bytes and the
/// rest stays 0: [`crate::transport::Counters`] has the repetitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkReading {
    /// Smoothed round trip, `rtt`. For a sender that is mostly silent it holds the peer's delayed acknowledgements too.
    pub round_trip: Span,
    /// Its mean deviation, `rttvar`.
    pub round_trip_variation: Span,
    /// The smallest round trip seen, `min_rtt`.
    pub round_trip_min: Span,
    /// Segments with data, repetitions included, `data_segs_out`.
    pub sent_segments: u64,
    /// Of these, repetitions, `total_retrans`.
    pub retransmitted_segments: u64,
    /// Repetitions of which the peer said that it had them already, `dsack_dups`.
    pub duplicate_segments: u64,
    /// All frames that left, pure acknowledgements included, `segs_out`; datagrams.
    pub frames_sent: u64,
    /// All frames that came, `segs_in`; datagrams.
    pub frames_received: u64,
    /// Bytes in the segments or datagrams that left, without headers, repetitions included, `bytes_sent`.
    pub bytes_sent: u64,
    /// Bytes that came, `bytes_received`.
    pub bytes_received: u64,
    /// Bytes of which the peer said that it has them, `bytes_acked`.
    pub bytes_delivered: u64,
}

/// The lane that publishes from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Its number at the engine.
    pub lane: usize,
    /// It is another one than before.
    pub switched: bool,
}
