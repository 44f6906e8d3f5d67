//! Subscriptions as observations: what is the same over datagrams and streams. RFC 7641

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use thalweg_coap::{Code, option};
use thalweg_model::{Reliability, Span, Time};

use super::wording::Answer;
use crate::plugin::Asked;
use crate::transport::{Events, Inbound, Refusal, SubscribeWish, SubscriptionId};

/// A subscription, by the connection's id of its request.
#[derive(Debug)]
pub(super) struct Observation<R> {
    pub(super) subscription: SubscriptionId,
    pub(super) address: String,
    pub(super) reliability: Reliability,
    last_values: bool,
    /// The request that is under way, or the observation.
    pub(super) request: Option<R>,
    /// Whether the engine was notified that it is in force.
    is_told: bool,
    /// A state came on this or an earlier registration.
    has_state: bool,
    /// A hash of the last state.
    state: u64,
    /// When to register again, after it has ended.
    retry_at: Time,
    retries: u32,
    /// It ends once the block-wise transfer in progress is complete: a message that the server counts as delivered must
    /// not be dropped half-way.
    pub(super) is_leaving: bool,
}

/// The observations of a connection.
#[derive(Debug)]
pub(super) struct Observations<R>(Vec<Observation<R>>);

impl<R> Default for Observations<R> {
    fn default() -> Self {
        Observations(Vec::new())
    }
}

impl<R> Observations<R> {
    pub(super) fn add(&mut self, wish: &SubscribeWish<'_>, request: R) {
        self.0.push(Observation::new(wish, request));
    }

    pub(super) fn get_mut(&mut self, id: SubscriptionId) -> Option<&mut Observation<R>> {
        self.0.iter_mut().find(|one| one.subscription == id)
    }

    pub(super) fn remove(&mut self, id: SubscriptionId) -> Option<Observation<R>> {
        let at = self.0.iter().position(|one| one.subscription == id)?;
        Some(self.0.swap_remove(at))
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Observation<R>> + '_ {
        self.0.drain(..)
    }

    /// Whether any waits for its last blocks.
    pub(super) fn are_any_leaving(&self) -> bool {
        self.0.iter().any(|one| one.is_leaving)
    }

    /// One has ended with this response, or without one: it registers again later, or is over.
    pub(super) fn ended(
        &mut self,
        id: SubscriptionId,
        response: Option<&Answer<'_>>,
        now: Time,
        events: &mut dyn Events,
    ) {
        if let Some(one) = self.get_mut(id)
            && (one.is_leaving || !one.is_to_return(response, now, events))
        {
            self.remove(id);
        }
    }

    /// When the next registers again.
    pub(super) fn next_retry(&self) -> Time {
        let times = self.0.iter().map(|one| one.retry_at);
        times.min().unwrap_or(Time::NEVER)
    }

    /// Registers those again that have ended and are due.
    pub(super) fn register_due(
        &mut self,
        now: Time,
        mut observe: impl FnMut(SubscriptionId, &str, Reliability) -> Asked<R>,
    ) {
        for one in self.0.iter_mut().filter(|one| one.retry_at <= now) {
            match observe(one.subscription, &one.address, one.reliability) {
                Ok(request) => (one.request, one.retry_at) = (Some(request), Time::NEVER),
                Err(_) => one.retry_at = now + Span::from_secs(1),
            }
        }
    }
}

impl<R> Observation<R> {
    fn new(wish: &SubscribeWish<'_>, request: R) -> Self {
        Observation {
            subscription: wish.subscription,
            address: wish.filter.to_owned(),
            reliability: wish.reliability,
            last_values: wish.last_values,
            request: Some(request),
            is_told: false,
            has_state: false,
            state: 0,
            retry_at: Time::NEVER,
            retries: 0,
            is_leaving: false,
        }
    }

    /// A state or a change came. `is_state`: it tells how things are at a registration.
    pub(super) fn notified(
        &mut self,
        is_state: bool,
        answer: &Answer<'_>,
        events: &mut dyn Events,
    ) {
        self.retries = 0;
        if !self.is_told {
            self.is_told = true;
            events.subscribed(self.subscription, Ok(self.reliability));
        }
        let is_first = !std::mem::replace(&mut self.has_state, true);
        let mut hasher = FixedState::default().build_hasher();
        hasher.write(answer.payload);
        let format = answer.options.uint(option::CONTENT_FORMAT);
        hasher.write_u32(format.unwrap_or(u32::MAX));
        let stamp = answer.options.get(thalweg_model::STAMP_OPTION);
        hasher.write(stamp.unwrap_or_default());
        let state = hasher.finish();
        let is_known = !is_first && std::mem::replace(&mut self.state, state) == state;
        self.state = state;
        // A new registration with the value unchanged, or with no value published yet.
        if is_state && (is_known || answer.is_nothing() || (is_first && !self.last_values)) {
            return;
        }
        events.received(&Inbound {
            subscription: Some(self.subscription),
            reliability: self.reliability.min(Reliability::AtLeastOnce),
            is_last_value: is_state && is_first,
            // A change during the gap may have been notified before.
            repeated: is_state && !is_first,
            ..answer.inbound(&self.address)
        });
    }

    /// It has ended with this response, or without one; whether it registers again later.
    fn is_to_return(
        &mut self,
        response: Option<&Answer<'_>>,
        now: Time,
        events: &mut dyn Events,
    ) -> bool {
        self.request = None;
        let refusal = match response {
            None => Refusal::NoAnswer,
            Some(answer) if answer.code.is_success() => {
                Refusal::Unsupported("the server lets nobody observe this now")
            }
            Some(answer) => answer.refusal(),
        };
        // The server usually accepts an observation that it accepted before: the value was cleared, the server
        // restarted, or nothing arrived in time. Revoked rights and invalid requests are final.
        let may_return = match response.map(|answer| answer.code) {
            Some(Code::NOT_FOUND | Code::NOT_ACCEPTABLE) | None => self.is_told,
            Some(_) => {
                self.is_told && matches!(refusal, Refusal::Busy(_) | Refusal::Unsupported(_))
            }
        };
        if may_return {
            // At once, then after a second, and ever longer up to a minute.
            let wait = match self.retries {
                0 => Span::ZERO,
                n => Span::from_secs(1 << (n - 1).min(6)).min(Span::from_secs(60)),
            };
            self.retries += 1;
            self.retry_at = now + wait;
            return true;
        }
        match self.is_told {
            true => events.unsubscribed(self.subscription, refusal),
            false => events.subscribed(self.subscription, Err(refusal)),
        }
        false
    }
}
