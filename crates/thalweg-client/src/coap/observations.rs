//! Subscriptions as observations: what is the same over datagrams and streams. RFC 7641

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use thalweg_coap::{Code, Options, option};
use thalweg_model::{Reliability, Span, Time};

use super::words;
use crate::transport::{Events, Inbound, Refusal, SubscriptionId};

/// A subscription, by what the connection calls its request.
#[derive(Debug)]
pub(super) struct Observation<R> {
    pub(super) subscription: SubscriptionId,
    pub(super) address: String,
    pub(super) reliability: Reliability,
    last_values: bool,
    /// The request that is under way, or the observation.
    pub(super) request: Option<R>,
    /// The engine has heard that it is in force.
    is_told: bool,
    /// A state came on this or an earlier registration.
    has_state: bool,
    /// A hash of the last state.
    state: u64,
    /// When to register again, after it has ended.
    pub(super) retry_at: Time,
    retries: u32,
    /// It is over as soon as what is being fetched in blocks has come: what the server believes to be delivered must not be
    /// dropped half-way.
    pub(super) is_leaving: bool,
}

/// What is to be done about an observation that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It registers again at that time.
    Later(Time),
    Over,
}

impl<R> Observation<R> {
    pub(super) fn new(
        subscription: SubscriptionId,
        address: &str,
        reliability: Reliability,
        last_values: bool,
        request: R,
    ) -> Self {
        Observation {
            subscription,
            address: address.to_owned(),
            reliability,
            last_values,
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
        reliability: Reliability,
        options: &Options<'_>,
        payload: &[u8],
        events: &mut dyn Events,
    ) {
        self.retries = 0;
        if !self.is_told {
            self.is_told = true;
            events.subscribed(self.subscription, Ok(self.reliability));
        }
        let is_first = !std::mem::replace(&mut self.has_state, true);
        let mut hasher = FixedState::default().build_hasher();
        hasher.write(payload);
        hasher.write_u32(
            options
                .uint(option::CONTENT_FORMAT)
                .map_or(u32::MAX, |format| format),
        );
        hasher.write(options.get(thalweg_model::STAMP_OPTION).unwrap_or_default());
        let state = hasher.finish();
        let is_known = !is_first && std::mem::replace(&mut self.state, state) == state;
        self.state = state;
        // Registered again, and it is as it was; or nobody has published anything yet.
        if is_state
            && (is_known || words::is_nothing(payload, options) || (is_first && !self.last_values))
        {
            return;
        }
        events.received(&Inbound {
            subscription: Some(self.subscription),
            reliability,
            is_last_value: is_state && is_first,
            // What has changed while nobody told us may have been told before.
            repeated: is_state && !is_first,
            ..words::inbound(&self.address, payload, options)
        });
    }

    /// It has ended with this response, or without one.
    pub(super) fn ended(
        &mut self,
        response: Option<(Code, &Options<'_>, &[u8])>,
        now: Time,
        events: &mut dyn Events,
    ) -> End {
        self.request = None;
        let refusal = match response {
            None => Refusal::NoAnswer,
            Some((code, ..)) if code.is_success() => {
                Refusal::Unsupported("the server lets nobody observe this now")
            }
            Some((code, options, payload)) => words::refusal(code, options, payload),
        };
        // Who was let in before is again, as a rule: the value was cleared, the server has begun anew, or nothing was heard.
        // Rights that are gone, and requests that make no sense, stay so.
        let may_return = match response {
            Some((Code::NOT_FOUND | Code::NOT_ACCEPTABLE, ..)) | None => self.is_told,
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
            return End::Later(self.retry_at);
        }
        match self.is_told {
            true => events.unsubscribed(self.subscription, refusal),
            false => events.subscribed(self.subscription, Err(refusal)),
        }
        End::Over
    }
}
