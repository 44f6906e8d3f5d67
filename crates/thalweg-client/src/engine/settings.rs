//! What an engine may use and how long it waits.

use thalweg_model::Span;

use crate::pace::{BatchSettings, ThrottleSettings};
use crate::transport::Opening;

/// How an engine behaves. [`EngineSettings::new`] has the defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineSettings {
    /// Who opens connections and how.
    pub opening: Opening,
    /// Bytes that unsettled messages may take, their metadata included. Default 16 MiB.
    pub bytes_max: usize,
    /// How many messages may be unsettled. Default 100,000.
    pub messages_max: usize,
    /// What happens when one of both is reached.
    pub overflow: Overflow,
    /// What becomes of messages that wait when every broker has refused the log-in. What is on disk waits in any case.
    pub when_refused: WhenRefused,
    /// The first wait after a connection was lost or refused. Default 200 ms; jittered down to the half.
    pub backoff_min: Span,
    /// The longest wait. Default 30 s.
    pub backoff_max: Span,
    /// How long a lane that is not wanted now stays connected. Default 60 s.
    pub standby: Span,
    /// How long what was sent on the old lane is awaited at most before it is sent again on the new one. Default 5 s.
    pub drain_max: Span,
    /// Unwritten bytes of a lane above which nothing more is put into its output. Default 64 KiB.
    pub high_water: usize,
    /// Messages that wait for an acknowledgement, per lane. Default 1024; the peer's own limit counts too.
    pub in_flight_max: u32,
    /// Messages whose sender waits until they are taken, per subscription: of more than twice as many a lane is not read.
    /// Default 1024.
    pub receive_max: u32,
    /// What was received and not yet taken, per subscription, in bytes of memory: above it nothing more that was sent at
    /// most once is kept. Bytes and not messages, as one read may bring thousands of small ones. Default 4 MiB.
    pub receive_bytes_max: usize,
    /// How long a connection may take from its beginning to the peer's welcome. Default 10 s.
    pub connect_timeout: Span,
    /// Nanoseconds since 1970 at [`thalweg_model::Time::ZERO`]: so that what waits on disk expires in the next process too.
    pub wall_at_zero: u64,
    /// Turbo batching: how long a message may wait for others. Default: off.
    pub batch: BatchSettings,
    /// Auto-throttle: the rate follows what the lane takes. Default: off.
    pub throttle: ThrottleSettings,
}

/// What happens to a message for which there is no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// It is refused: [`super::Full`].
    #[default]
    Refuse,
    /// The oldest that waits, of the lowest priority, fails to make room. What was sent and is not acknowledged stays.
    DropOldest,
}

/// What becomes of messages that wait while the brokers do not let us in: a wrong password, a client that is not allowed.
/// It is tried again all the same, rarely, as passwords get corrected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenRefused {
    /// They wait, as they do for a network.
    #[default]
    Wait,
    /// They fail, but for what is on disk.
    Fail,
}

impl EngineSettings {
    /// The defaults that each field names.
    pub fn new(opening: Opening) -> Self {
        EngineSettings {
            opening,
            bytes_max: 16 << 20,
            messages_max: 100_000,
            overflow: Overflow::Refuse,
            when_refused: WhenRefused::Wait,
            backoff_min: Span::from_millis(200),
            backoff_max: Span::from_secs(30),
            standby: Span::from_secs(60),
            drain_max: Span::from_secs(5),
            high_water: 64 << 10,
            in_flight_max: 1024,
            receive_max: 1024,
            receive_bytes_max: 4 << 20,
            connect_timeout: Span::from_secs(10),
            wall_at_zero: 0,
            batch: BatchSettings::Off,
            throttle: ThrottleSettings::Off,
        }
    }
}
