//! Limits and timeouts of an engine.

use thalweg_model::Span;

use crate::pace::{BatchSettings, ThrottleSettings};
use crate::transport::Opening;

/// Settings of an engine. [`EngineSettings::new`] has the defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineSettings {
    /// Identity and session parameters of the connections.
    pub opening: Opening,
    /// Bytes that unsettled messages may take, their metadata included. Default 16 MiB.
    pub bytes_max: usize,
    /// Most unsettled messages. Default 100,000.
    pub messages_max: usize,
    /// Action when one of both limits is reached.
    pub overflow: Overflow,
    /// What happens to waiting messages when every broker has refused the login. Messages on disk wait in any case.
    pub when_refused: WhenRefused,
    /// The first wait after a connection was lost or refused. Default 200 ms; jittered down to the half.
    pub backoff_min: Span,
    /// The longest wait. Default 30 s.
    pub backoff_max: Span,
    /// How long an unneeded lane stays connected. Default 60 s.
    pub standby: Span,
    /// Longest wait for messages in flight on the old lane before they are sent again on the new one. Default 5 s.
    pub drain_max: Span,
    /// Unwritten bytes of a lane above which nothing more is put into its output. Default 64 KiB.
    pub high_water: usize,
    /// Messages that wait for an acknowledgement, per lane. Default 1024; the peer's own limit counts too.
    pub in_flight_max: u32,
    /// Messages whose sender waits until they are taken, per subscription: of more than twice as many a lane is not read.
    /// Default 1024.
    pub receive_max: u32,
    /// Most bytes of memory, per subscription, of received messages that were not yet taken: above it, at-most-once
    /// messages are dropped. Bytes and not messages, as one read may bring thousands of small ones. Default 4 MiB.
    pub receive_bytes_max: usize,
    /// Longest time of a connection attempt, up to the peer's acceptance. Default 10 s.
    pub connect_timeout: Span,
    /// Nanoseconds since 1970 at [`thalweg_model::Time::ZERO`]: so that what waits on disk expires in the next process too.
    pub wall_at_zero: u64,
    /// Turbo batching: how long a message may wait for others. Default: off.
    pub batch: BatchSettings,
    /// Auto-throttle: the rate follows what the lane takes. Default: off.
    pub throttle: ThrottleSettings,
}

/// Action for a message that does not fit into the buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// It is refused: [`super::Full`].
    #[default]
    Refuse,
    /// The oldest waiting message of the lowest priority fails to free space. Messages that were sent and are not
    /// acknowledged stay.
    DropOldest,
}

/// What happens to waiting messages while the brokers refuse the login: a wrong password, a client that is not allowed.
/// The client still tries again, rarely, as passwords get corrected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenRefused {
    /// They wait, as they do for a network.
    #[default]
    Wait,
    /// Waiting messages fail, except those on disk.
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
