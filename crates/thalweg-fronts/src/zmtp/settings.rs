//! What the operator decides about ZeroMQ.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use thalweg_kernel::Safety;
use thalweg_model::{Filter, Span};
use thalweg_zmtp::{KeyPair, Limits};

/// What the operator decides about ZeroMQ.
#[derive(Clone, Debug)]
pub struct ZmtpSettings {
    pub limits: Limits,
    /// The keys of CURVE; without, it is not offered.
    pub curve: Option<Arc<CurveSettings>>,
    /// How many messages wait for a subscriber that does not keep up, beside what is in its output; the newest is dropped
    /// beyond that. 0: none.
    pub high_water: u32,
    /// Whether a new subscription brings the last values of the addresses that it matches.
    pub last_values: bool,
    /// Whether subscribers get what begins with none of their prefixes.
    pub invert_matching: bool,
    /// Whether what follows a zero octet in a subscription is a content filter.
    pub filters: bool,
    /// Whether messages of PUB, SUB, PUSH and PULL have a header frame before the payload.
    pub header_frame: bool,
    /// Where what is published becomes the last value.
    pub retains: Box<[Filter]>,
    /// What ends the address in a message of one frame.
    pub separators: Box<[u8]>,
    /// The name of the queue that PUSH sends to and PULL takes from.
    pub queue: Box<str>,
    /// Whether what PUSH sends is written down.
    pub durable: bool,
    /// The address of requests of one frame, and what a worker without a routing id serves: a queue's (`$q/name`) or any other.
    pub service: Box<str>,
    /// How long a request is worth answering.
    pub request_timeout: Span,
    /// Requests of a connection that wait for their answers; what is asked beyond that is refused.
    pub requests_max: usize,
    /// Requests that a ROUTER or a Majordomo worker has at once, at least 1. A REP has one.
    pub worker_window: u32,
    /// How often a 3.1 peer is asked for a sign of life; it is cut off when three of these times pass without a byte of it.
    /// Zero: never.
    pub heart_beat: Span,
    /// Publishes per second of a connection in place of the kernel's limit; 0 is no limit.
    pub publish_rate: Option<u64>,
    /// How safe what is taken from clients of this listener must be, in place of the kernel's word.
    pub safety: Option<Safety>,
}

impl Default for ZmtpSettings {
    fn default() -> Self {
        ZmtpSettings {
            limits: Limits::default(),
            curve: None,
            high_water: 1000,
            last_values: false,
            invert_matching: false,
            filters: false,
            header_frame: false,
            retains: Box::default(),
            separators: (*b" \0|").into(),
            queue: "zmtp".into(),
            durable: false,
            service: "$q/zmtp-requests".into(),
            request_timeout: Span::from_secs(30),
            requests_max: 1000,
            worker_window: 1,
            heart_beat: Span::from_secs(30),
            publish_rate: None,
            safety: None,
        }
    }
}

/// What a listener needs for CURVE.
pub struct CurveSettings {
    pub keys: KeyPair,
    /// 32 octets that cannot be guessed; each connection's are derived from them.
    pub random: [u8; 32],
    /// Users by their public keys. Without it any key is let in where strangers are.
    pub users: Option<BTreeMap<[u8; 32], Box<str>>>,
}

impl fmt::Debug for CurveSettings {
    /// The public key only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CurveSettings({:?})", self.keys)
    }
}
