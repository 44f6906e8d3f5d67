//! `/rpc/<levels…>`: a request to an address, answered by a responder of any protocol.
//!
//! The request goes out as a message with an address for the answer, `$reply/<desk>/<call>`, and something to correlate
//! it by. What is published there comes back as the response, separately. No subscriber: 4.04 at once. No answer in
//! time: 5.04.

use super::answer::{Answer, SHORT_SECS};
use super::data::refusal_of;
use super::desk::Desk;
use super::handler::{Done, Handler, Request};
use super::queue::{expiry_of, properties_of, reliability_of};
use super::representation::format_of;
use super::resource::{Reserved, Wishes, reserved};
use super::side::Side;
use super::waiting::{Asked, Hold};
use crate::front::{Cx, Variant};
use crate::stamp;
use std::collections::VecDeque;
use thalweg_coap::{Code, Response, Value, option};
use thalweg_kernel::{Draft, Outcome};
use thalweg_model::{Message, RetainOp, Time};

/// Requests that wait for an answer.
pub(super) struct Calls<X> {
    slots: Vec<(u32, Option<X>)>,
    free: Vec<u32>,
    /// When each is over, by the time at which it began.
    due: VecDeque<(Time, u64)>,
    len: usize,
    /// What numbers begin with: links are numbered again, and what is meant for one must not be taken for another's.
    first: u32,
}

impl<X> Calls<X> {
    /// None yet; `first` is what their numbers begin with.
    pub(super) fn new(first: u32) -> Self {
        Calls {
            slots: Vec::new(),
            free: Vec::new(),
            due: VecDeque::new(),
            len: 0,
            first,
        }
    }

    /// Adds one; its number, which names no other for a long time.
    fn insert(&mut self, exchange: X, due: Time) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push((self.first, None));
            self.slots.len() as u32 - 1
        });
        let Some((generation, slot)) = self.slots.get_mut(index as usize) else {
            return u64::MAX;
        };
        *generation = generation.wrapping_add(1);
        *slot = Some(exchange);
        let call = u64::from(*generation) << 32 | u64::from(index);
        // Settings may have made times shorter; a call that began later then waits a little longer.
        let due = self.due.back().map_or(due, |(last, _)| due.max(*last));
        self.due.push_back((due, call));
        self.len += 1;
        call
    }

    pub(super) fn take(&mut self, call: u64) -> Option<X> {
        let (generation, slot) = self.slots.get_mut(call as u32 as usize)?;
        if u64::from(*generation) != call >> 32 {
            return None;
        }
        let exchange = slot.take()?;
        self.free.push(call as u32);
        self.len -= 1;
        // Those at the front that have been answered need not be waited for.
        while let Some((_, first)) = self.due.front()
            && !self.waits(*first)
        {
            self.due.pop_front();
        }
        Some(exchange)
    }

    fn waits(&self, call: u64) -> bool {
        let slot = self.slots.get(call as u32 as usize);
        slot.is_some_and(|(generation, slot)| {
            u64::from(*generation) == call >> 32 && slot.is_some()
        })
    }

    /// When the next is over.
    pub(super) fn next_due(&self) -> Time {
        self.due.front().map_or(Time::NEVER, |(due, _)| *due)
    }

    /// One that is over.
    fn take_due(&mut self, now: Time) -> Option<X> {
        while let Some((_, call)) = self.due.pop_front_if(|(due, _)| *due <= now) {
            if let Some(exchange) = self.take(call) {
                return Some(exchange);
            }
        }
        None
    }
}

impl<S: Side> Handler<S> {
    pub(super) fn on_rpc(&mut self, address: &str, request: &Request<'_>, cx: &mut Cx<'_>) -> Done {
        if !matches!(request.code, Code::POST | Code::FETCH) {
            return Err(Answer::words(
                Code::METHOD_NOT_ALLOWED,
                "requests are made by POST or FETCH",
            ));
        }
        let wishes = Wishes::read(&request.options)?;
        if reserved(address) == Reserved::ReadOnly || address.is_empty() {
            return Err(Answer::words(
                Code::FORBIDDEN,
                "the address is the broker's own",
            ));
        }
        self.check_rate(request, cx.now)?;
        if self.calls.len >= self.settings.rpc_waiting_max {
            return Err(Answer::later(
                Code::SERVICE_UNAVAILABLE,
                SHORT_SECS,
                "too many requests wait for an answer",
            ));
        }
        let desk = self
            .desk
            .and_then(|desk| Desk::at(cx.links, desk))
            .filter(|desk| desk.is_open);
        let Some(desk) = desk else {
            return Err(Answer::later(
                Code::SERVICE_UNAVAILABLE,
                1,
                "answers cannot come back yet",
            ));
        };
        let call = self
            .calls
            .insert(request.exchange, cx.now + self.settings.rpc_timeout);
        // It is for the receiver, which recognizes repetitions by it; here it is not used, because the caller waits for
        // the answer.
        let stamp = stamp::read(wishes.stamp, cx.kernel);
        let mut properties = properties_of(&wishes, request, stamp, cx).unwrap_or_default();
        properties.reply_to = Some(desk.reply_address(self.link, call).into());
        properties.correlation = Some(call.to_be_bytes().into());
        let draft = Draft {
            address,
            payload: request.payload,
            reliability: reliability_of(&wishes, request),
            retain: RetainOp::None,
            // The request expires when its requester stops waiting.
            expires_in: expiry_of(&wishes, request).or(Some(self.settings.rpc_timeout)),
            priority: wishes.priority,
            properties: Some(&properties),
            ticket: 0,
            native: None,
            stamp: None,
        };
        // The answer says more than the journal could.
        let (hold, outcome) = self.publish_for(request.identity, request.session, draft, cx);
        if let Some(Hold::Question(question)) = hold {
            self.asked.insert(question, (cx.now, Asked::Call(call)));
        }
        let refused = match outcome {
            Outcome::NoMatch => Some(Answer::words(Code::NOT_FOUND, "nobody answers there")),
            outcome => refusal_of(outcome),
        };
        match refused {
            None => {
                self.counts.calls += 1;
                if let Some(exchange) = self.calls.peek(call) {
                    self.side.respond_later(exchange, cx.now);
                }
                Ok(())
            }
            Some(answer) => {
                self.calls.take(call);
                Err(answer)
            }
        }
    }

    pub(super) fn on_reply(&mut self, call: u64, message: &Message, cx: &mut Cx<'_>) {
        let Some(exchange) = self.calls.take(call) else {
            return;
        };
        let format = message.properties().and_then(format_of);
        let options = format.map(|format| (option::CONTENT_FORMAT, Value::Uint(u32::from(format))));
        let response = Response {
            code: Code::CONTENT,
            options: options.as_slice(),
            payload: message.payload(),
        };
        self.side.respond(exchange, &response, cx.now);
    }

    /// Answers calls that timed out.
    pub(super) fn give_up_calls(&mut self, cx: &mut Cx<'_>) {
        while let Some(exchange) = self.calls.take_due(cx.now) {
            self.counts.calls_unanswered += 1;
            self.respond(
                exchange,
                &Answer::words(Code::GATEWAY_TIMEOUT, "nobody answered in time"),
                cx.now,
            );
        }
    }
}

impl<X: Copy> Calls<X> {
    fn peek(&self, call: u64) -> Option<X> {
        self.slots
            .get(call as u32 as usize)
            .filter(|(generation, _)| u64::from(*generation) == call >> 32)?
            .1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_answered_once_and_not_after_its_time() {
        let mut calls = Calls::new(7);
        let at = Time::from_secs;
        let (one, two, three) = (
            calls.insert(1, at(10)),
            calls.insert(2, at(20)),
            calls.insert(3, at(15)),
        );
        assert_eq!((calls.take(one), calls.take(one)), (Some(1), None));
        assert_eq!(calls.next_due(), at(20));
        assert_eq!(calls.take_due(at(19)), None);
        let four = calls.insert(4, at(40));
        assert_eq!(one as u32, four as u32, "the place is used again");
        assert_eq!((calls.peek(one), calls.peek(four)), (None, Some(4)));
        assert_eq!(
            (
                calls.take_due(at(20)),
                calls.take_due(at(20)),
                calls.take_due(at(20))
            ),
            (Some(2), Some(3), None)
        );
        assert_eq!(
            (calls.take(two), calls.take(three), calls.len),
            (None, None, 1)
        );
    }
}
