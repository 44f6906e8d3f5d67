//! What lasting writers had written before the broker was restarted. The journal has it, and a writer that is still there says only what the
//! library holds for late readers: of HISTORY without DURABILITY_SERVICE one sample of each instance.

use crate::frame::{self, Sample, ToBroker};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use thalweg_model::{Message, Time};

/// Bytes of all that is left.
const BYTES_MAX: usize = 64 << 20;
/// How long writers have to be found again.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Samples by their address and source, oldest first.
#[derive(Default)]
pub(crate) struct Left {
    by_source: HashMap<(String, String), Vec<Earlier>>,
    bytes: usize,
    until: Option<Instant>,
}

struct Earlier {
    message: Message,
    until: Option<Instant>,
}

impl Left {
    /// Adds what an address keeps; `now` is the time that the messages go by.
    pub(crate) fn add(&mut self, kept: Vec<Message>, now: Time, at: Instant) {
        self.until = Some(at + WAIT_MAX);
        for message in kept {
            let details = message.properties().and_then(|it| it.details.as_deref());
            let Some(source) = details.and_then(|it| it.source.clone()) else {
                continue;
            };
            if self.bytes + message.bytes() > BYTES_MAX {
                return;
            }
            self.bytes += message.bytes();
            let is_endless = message.expires() == Time::NEVER;
            let left = Duration::from_nanos(message.expires().since(now).nanos());
            let of = (message.address().to_owned(), source.into());
            let until = (!is_endless).then(|| at + left);
            let earlier = Earlier { message, until };
            self.by_source.entry(of).or_default().push(earlier);
        }
    }

    /// Joins what another shard had, if there is room.
    pub(crate) fn join(&mut self, other: Left) {
        if self.bytes + other.bytes <= BYTES_MAX {
            self.by_source.extend(other.by_source);
            self.bytes += other.bytes;
            self.until = self.until.max(other.until);
        }
    }

    /// Appends what the source of a sample wrote before it, if it is the first that is heard of that.
    pub(crate) fn tell_before(&mut self, sample: &Sample<'_>, now: Instant, out: &mut Vec<u8>) {
        for earlier in self.before(sample.address, sample.source, sample.payload, now) {
            let properties = earlier.message.properties();
            let content_type = properties.and_then(|it| it.content_type.as_deref());
            let told = Sample {
                content_type: content_type.unwrap_or_default(),
                expires_in: earlier.expires_in(now),
                payload: earlier.message.payload(),
                ..*sample
            };
            frame::encode(&ToBroker::Publish(told), out);
        }
    }

    /// Forgets all once writers have had their time.
    pub(crate) fn forget_late(&mut self, now: Instant) {
        if self.until.is_some_and(|until| until <= now) {
            *self = Left::default();
        }
    }

    fn before(
        &mut self,
        address: &str,
        source: &str,
        payload: &[u8],
        now: Instant,
    ) -> Vec<Earlier> {
        self.forget_late(now);
        if self.by_source.is_empty() {
            return Vec::new();
        }
        let of = (address.to_owned(), source.to_owned());
        let mut all = self.by_source.remove(&of).unwrap_or_default();
        if let Some(at) = all.iter().rposition(|it| it.message.payload() == payload) {
            all.truncate(at);
        }
        all.retain(|it| it.until.is_none_or(|until| until > now));
        all
    }
}

impl Earlier {
    /// What is left of its lifespan, in nanoseconds; 0 is for ever.
    fn expires_in(&self, now: Instant) -> u64 {
        let left = self.until.map(|until| until.duration_since(now));
        left.map_or(0, |it| it.as_nanos() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_model::{Details, Properties, Reliability, RetainOp, Span};

    fn kept(source: Option<&str>, payload: &str, expires: Time) -> Message {
        let properties = Properties {
            details: Some(Box::new(Details {
                source: source.map(Into::into),
                ..Details::default()
            })),
            ..Properties::default()
        };
        Message::new(
            "a",
            payload.as_bytes(),
            Reliability::AtLeastOnce,
            RetainOp::Set,
            expires,
            Time::ZERO,
            1,
            Some(Box::new(properties)),
        )
    }

    fn texts(earlier: &[Earlier]) -> Vec<&[u8]> {
        earlier.iter().map(|it| it.message.payload()).collect()
    }

    #[test]
    fn what_a_writer_does_not_say_again_comes_before_what_it_says() {
        let (at, now) = (Instant::now(), Time::from_nanos(1));
        let soon = now + Span::from_secs(5);
        let all = || {
            let mut left = Left::default();
            let of_one = ["1", "2", "3", "2"].map(|it| kept(Some("one"), it, Time::NEVER));
            left.add(of_one.into(), now, at);
            let others = [kept(Some("two"), "4", soon), kept(None, "5", Time::NEVER)];
            left.add(others.into(), now, at);
            left
        };
        for (said, before) in [
            ("2", &["1", "2", "3"][..]),
            ("1", &[]),
            ("new", &["1", "2", "3", "2"]),
        ] {
            let mut left = all();
            let before: Vec<_> = before.iter().map(|it| it.as_bytes()).collect();
            let found = left.before("a", "one", said.as_bytes(), at);
            assert_eq!(texts(&found), before, "{said}");
            // Once is enough.
            assert!(left.before("a", "one", b"new", at).is_empty());
            assert!(left.before("b", "two", b"new", at).is_empty());
            let found = left.before("a", "two", b"new", at + Duration::from_secs(2));
            assert_eq!(texts(&found), [b"4"]);
            let until = found[0].expires_in(at + Duration::from_secs(2));
            assert_eq!(until, 3_000_000_000);
        }
        for (late, count) in [(6, 0), (4, 1)] {
            let found = all().before("a", "two", b"new", at + Duration::from_secs(late));
            assert_eq!(found.len(), count, "{late}");
        }
        let mut left = all();
        left.forget_late(at + WAIT_MAX);
        assert!(left.by_source.is_empty());
        assert!(left.before("a", "one", b"new", at).is_empty());
    }
}
