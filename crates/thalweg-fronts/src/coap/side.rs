//! What request handlers need of a protocol machine, so that they are the same over datagrams and over streams.

use std::sync::Arc;
use thalweg_coap::{Delivery, ExchangeId, Notified, Response, SharedBody};
use thalweg_model::{Span, Time};

/// A protocol machine together with its output.
pub(super) trait Side {
    /// Answers a request, now or later.
    fn respond(&mut self, exchange: ExchangeId, response: &Response<'_>, now: Time);

    /// Answers a request separately and has the peer confirm it; the confirmation is reported with `cookie`. False if
    /// the request is gone; nothing is reported then.
    fn respond_confirmed(
        &mut self,
        exchange: ExchangeId,
        cookie: u64,
        response: &Response<'_>,
        now: Time,
    ) -> bool;

    /// The answer will take long.
    fn respond_later(&mut self, exchange: ExchangeId, now: Time);

    /// Accepts the observation that a request asks for; its number. Nothing if that cannot be.
    fn observe(
        &mut self,
        exchange: ExchangeId,
        cookie: u64,
        check: Option<Span>,
        now: Time,
    ) -> Option<u64>;

    /// Tells an observer of a new state.
    fn notify(
        &mut self,
        relation: u64,
        body: &Arc<SharedBody>,
        delivery: Delivery,
        now: Time,
    ) -> Notified;

    /// There is nothing to say after all to an observer that was busy.
    fn nothing_to_notify(&mut self, relation: u64);

    /// Ends an observation, with a last word or without one.
    fn end_observation(&mut self, relation: u64, last: Option<&Arc<SharedBody>>, now: Time);

    /// Whether notifications may be written: answers may always.
    fn has_room(&self) -> bool;
}
