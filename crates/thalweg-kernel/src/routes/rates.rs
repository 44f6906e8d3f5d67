//! Rates that policies give addresses. A publisher has a token bucket of its own for each record that gives it a rate, and
//! a subscriber likewise. An address has one on every shard, and shards tell each other what they spend of it, so that each of them holds what is
//! left for all.

use crate::Kernel;
use crate::ids::SessionId;
use crate::kernel::Map;
use crate::policy::{Allowance, Exceed, Rate, RatePer};
use crate::publish::draft::{Admission, Draft, Outcome};
use crate::rate::TokenBucket;
use crate::remote::shards::ShardMessage;
use crate::routes::cached::Route;
use std::hash::BuildHasher;
use thalweg_model::{Reliability, Span, Time};

/// Full buckets are forgotten when there are so many, and not more often than this.
const SWEPT_FROM: usize = 1024;
const SWEPT_EVERY: Span = Span::from_secs(1);

/// What is left of rates.
#[derive(Default)]
pub(crate) struct Rates {
    buckets: Map<Key, TokenBucket>,
    /// How many there may be before full ones are looked for.
    sweep_at: usize,
    swept: Time,
}

/// Whose bucket it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    /// The number of a publisher or subscriber, or the hash of an address; 0 is shared by those for whom there is no room.
    who: u64,
    record: u32,
    per: RatePer,
    of_bytes: bool,
}

impl Rates {
    /// Every bucket is full again, for records that may be others.
    pub(crate) fn forget_all(&mut self) {
        self.buckets.clear();
    }

    fn key(&self, rate: &Rate, session: u64, address: &str) -> Key {
        Key {
            who: match rate.per {
                RatePer::Address => self.buckets.hasher().hash_one(address),
                RatePer::Publisher | RatePer::Subscriber => session,
            },
            record: 0,
            per: rate.per,
            of_bytes: false,
        }
    }

    fn bucket(&mut self, key: Key, of: Allowance, max: usize, now: Time) -> &mut TokenBucket {
        let has_room = self.buckets.contains_key(&key) || self.has_room(max, now);
        let key = match has_room {
            true => key,
            false => Key { who: 0, ..key },
        };
        let new = || TokenBucket::new(of.per_second, of.burst, now);
        self.buckets.entry(key).or_insert_with(new)
    }

    /// How long it is until a rate has room for a message of so many bytes to a subscriber; nothing is made or spent.
    pub(crate) fn wait_of_subscriber(
        &self,
        rate: &Rate,
        subscriber: u64,
        bytes: usize,
        (max, now): (usize, Time),
    ) -> Span {
        let costs = [(rate.messages, 1, false), (rate.bytes, bytes as u64, true)];
        let waits = costs.into_iter().filter_map(|(allowance, cost, of_bytes)| {
            let key = Key {
                record: allowance?.record,
                of_bytes,
                ..self.key(rate, subscriber, "")
            };
            let shared = || (self.buckets.len() >= max).then_some(Key { who: 0, ..key });
            let bucket = self.buckets.get(&key);
            let bucket = bucket.or_else(|| self.buckets.get(&shared()?));
            Some(bucket?.clone().wait(cost, now))
        });
        waits.max().unwrap_or(Span::ZERO)
    }

    fn has_room(&mut self, max: usize, now: Time) -> bool {
        let many = self.sweep_at.max(SWEPT_FROM).min(max);
        if self.buckets.len() >= many && now.since(self.swept) >= SWEPT_EVERY {
            self.buckets.retain(|_, bucket| !bucket.is_full(now));
            (self.swept, self.sweep_at) = (now, 2 * self.buckets.len());
        }
        self.buckets.len() < max
    }
}

impl Kernel {
    /// Spends what a publish takes of its route's rate, for which its publisher may have to wait. The answer to the publisher
    /// if it is not to be published: then it is booked.
    #[cold]
    pub(crate) fn admit(
        &mut self,
        id: SessionId,
        address: &str,
        route: &Route,
        (draft, admission): (&Draft<'_>, Admission),
        now: Time,
    ) -> Result<(), Outcome> {
        let Some(rate) = route.terms().and_then(|terms| terms.rate()) else {
            return Ok(());
        };
        let bytes = draft.payload.len();
        let exceed = match rate.exceed {
            _ if admission == Admission::Certain => Exceed::Throttle,
            Exceed::Reject if !self.hears_refusal(id, draft) => Exceed::Throttle,
            exceed => exceed,
        };
        if exceed != Exceed::Throttle {
            let whose = (self.number_of(Some(id)), address);
            let wait = self.ask_rate(TokenBucket::wait, rate, whose, bytes, now);
            if wait > Span::ZERO {
                return Err(self.keep_out(exceed, address, wait));
            }
        }
        let debt = self.spend_rate(id, address, route, bytes, now);
        if debt > Span::ZERO && exceed == Exceed::Throttle {
            self.books.throttled();
            // What is published at most once is over before anybody looks at the crowd: its publisher waits behind the next.
            if let Some(session) = self.sessions.get_mut(id) {
                session.connection.pause_before_next(now + debt);
            }
            if draft.reliability > Reliability::AtMostOnce {
                self.sessions.crowd.wait_until(Some(now + debt));
            }
        }
        Ok(())
    }

    /// Whether a publisher can be told that a message was refused, or does not care to know.
    fn hears_refusal(&self, id: SessionId, draft: &Draft<'_>) -> bool {
        let session = self.sessions.get(id);
        draft.reliability == Reliability::AtMostOnce
            || session.is_none_or(|session| session.connection.grants().hears_refusals)
    }

    fn keep_out(&mut self, exceed: Exceed, address: &str, wait: Span) -> Outcome {
        match exceed {
            Exceed::Reject => {
                self.books.refused_over_rate();
                Outcome::OverRate(u32::try_from(wait.secs_ceil()).unwrap_or(u32::MAX))
            }
            Exceed::Drop | Exceed::Throttle => {
                self.books.dropped_over_rate(address);
                Outcome::Accepted
            }
        }
    }

    /// Spends what a message takes of its route's rate, if it has one, whether that is there or not; how long until there is
    /// no debt.
    pub(crate) fn spend_rate(
        &mut self,
        id: SessionId,
        address: &str,
        route: &Route,
        bytes: usize,
        now: Time,
    ) -> Span {
        let Some(rate) = route.terms().and_then(|terms| terms.rate()) else {
            return Span::ZERO;
        };
        if rate.per == RatePer::Address {
            self.tell_shards(|_| ShardMessage::Spent {
                address: address.into(),
                bytes,
            });
        }
        let whose = (self.number_of(Some(id)), address);
        self.ask_rate(TokenBucket::spend, rate, whose, bytes, now)
    }

    /// Asks the buckets of a rate about a message of so many bytes ([`TokenBucket::wait`]), or has them pay for it
    /// ([`TokenBucket::spend`]); the longest time that one of them says.
    pub(crate) fn ask_rate(
        &mut self,
        ask: fn(&mut TokenBucket, u64, Time) -> Span,
        rate: &Rate,
        (session, address): (u64, &str),
        bytes: usize,
        now: Time,
    ) -> Span {
        let max = self.env.limits().rate_buckets_max;
        let rates = self.routes.rates();
        let key = rates.key(rate, session, address);
        let costs = [(rate.messages, 1, false), (rate.bytes, bytes as u64, true)];
        let mut longest = Span::ZERO;
        for (allowance, cost, of_bytes) in costs {
            if let Some(allowance) = allowance {
                let key = Key {
                    record: allowance.record,
                    of_bytes,
                    ..key
                };
                let bucket = rates.bucket(key, allowance, max, now);
                longest = longest.max(ask(bucket, cost, now));
            }
        }
        longest
    }

    /// Another shard has published to an address.
    pub(crate) fn on_spent(&mut self, address: &str, bytes: usize, now: Time) {
        let route = self.route(address);
        // Its limits may not be ours yet.
        if let Some(rate) = route.terms().and_then(|terms| terms.rate())
            && rate.per == RatePer::Address
        {
            self.ask_rate(TokenBucket::spend, rate, (0, address), bytes, now);
        }
    }
}
