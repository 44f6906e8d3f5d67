//! What the operator decides about ZeroMQ.

use thalweg_kernel::Safety;
use thalweg_model::Span;
use thalweg_zmtp::Limits;

/// What the operator decides about ZeroMQ.
#[derive(Clone, Debug)]
pub struct ZmtpSettings {
    pub limits: Limits,
    /// How many messages wait for a subscriber that does not keep up, beside what is in its output; the newest is dropped
    /// beyond that. 0: none.
    pub high_water: u32,
    /// Whether a new subscription brings the last values of the addresses that it matches.
    pub last_values: bool,
    /// What ends the address in a message of one frame.
    pub separators: Box<[u8]>,
    /// The name of the queue that PUSH sends to and PULL takes from.
    pub queue: Box<str>,
    /// How often a 3.1 peer is asked for a sign of life; it is cut off when three of these times pass without a byte of it.
    /// Zero: never.
    pub heart_beat: Span,
    /// The tenant of all peers; `""` is the default one.
    pub tenant: Box<str>,
    /// Publishes per second of a connection in place of the kernel's limit; 0 is no limit.
    pub publish_rate: Option<u64>,
    /// How safe what is taken from clients of this listener must be, in place of the kernel's word.
    pub safety: Option<Safety>,
}

impl Default for ZmtpSettings {
    fn default() -> Self {
        ZmtpSettings {
            limits: Limits::default(),
            high_water: 1000,
            last_values: false,
            separators: (*b" \0|").into(),
            queue: "zmtp".into(),
            heart_beat: Span::from_secs(30),
            tenant: "".into(),
            publish_rate: None,
            safety: None,
        }
    }
}
