//! How fast the peer of a session may publish.

use super::Grants;
use crate::limits::Limits;
use crate::rate::TokenBucket;
use thalweg_model::{Span, Time};

/// Admission limits of one session.
#[derive(Default)]
pub(crate) struct Meters {
    messages: Option<TokenBucket>,
    bytes: Option<TokenBucket>,
    /// For a rate that is not the session's own.
    pub(super) pause_until: Time,
}

impl Meters {
    /// The stricter of what its listener and the limits say; nothing if neither bounds it.
    pub(super) fn new(limits: &Limits, grants: &Grants, now: Time) -> Option<Box<Meters>> {
        let bucket = |rate: u64| (rate > 0).then(|| TokenBucket::new(rate, rate, now));
        let messages = bucket(grants.publish_rate.unwrap_or(limits.publish_rate));
        let meters = Meters {
            messages,
            bytes: bucket(limits.publish_bytes_rate),
            pause_until: Time::ZERO,
        };
        (meters.messages.is_some() || meters.bytes.is_some()).then(|| Box::new(meters))
    }

    /// Books a publish; when it exceeds a rate, when the publisher may go on.
    pub(crate) fn pause(&mut self, bytes: u64, now: Time) -> Option<Time> {
        let mut wait = (self.pause_until > now).then_some(self.pause_until);
        for (bucket, cost) in [(&mut self.messages, 1), (&mut self.bytes, bytes)] {
            // The message is here and will be handled, so it is paid for in any case.
            let debt = bucket
                .as_mut()
                .map_or(Span::ZERO, |bucket| bucket.spend(cost, now));
            if debt > Span::ZERO {
                wait = wait.max(Some(now + debt));
            }
        }
        wait
    }
}
