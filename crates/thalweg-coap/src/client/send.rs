//! Messages that a client sends: requests, their blocks, and requests for blocks of responses.

use thalweg_wire::Time;

use super::ClientSide;
use super::order::Turn;
use super::pending::{Pending, Phase};
use crate::endpoint::{Content, Owner};
use crate::outgoing::{merged, put};
use crate::slots::NONE;
use crate::timers::TimerKind;
use crate::{
    Block, ClientNotice, Datagrams, Encoder, Failure, Observe, OptionOut, Options, RequestId, Type,
    Value, option,
};

/// Purpose of a message that belongs to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Say {
    /// The request, or the block of its payload that is next.
    Request,
    /// This block of the response, please.
    Fetch(Block),
    Deregister,
}

impl Pending {
    /// Writes a message of this request.
    fn write(&self, say: Say, kind: Type, id: u16, after: Option<u16>, out: &mut Vec<u8>) {
        let (options, _) = Options::decode(&self.options).unwrap_or((Options::EMPTY, &[]));
        let is_fetch = matches!(say, Say::Fetch(_));
        let token = self.fetch_token.filter(|_| is_fetch).unwrap_or(self.token);
        // A FETCH is repeated whole for each block of its response. RFC 8132 §2.3
        let repeats = !is_fetch || self.code == crate::Code::FETCH;
        let (block1, payload) = if repeats {
            self.part()
        } else {
            (None, &[][..])
        };
        let observe = match say {
            Say::Request if self.wants_observe => Some(Observe::Register),
            Say::Deregister => Some(Observe::Deregister),
            _ => None,
        };
        let block2 = match say {
            Say::Fetch(block) => Some(block),
            // Early negotiation, if the blocks are to be smaller than others expect. RFC 7959 §2.4
            Say::Request
                if self.size_exponent < Block::SIZE_EXPONENT_MAX
                    && block1.is_none_or(|block| !block.more) =>
            {
                Some(Block {
                    number: 0,
                    more: false,
                    size_exponent: self.size_exponent,
                })
            }
            _ => None,
        };
        let size = block1
            .filter(|block| block.number == 0)
            .map(|_| Value::Uint(self.payload.len() as u32));
        let own: [Option<OptionOut<'_>>; 7] = [
            observe.map(|observe| (option::OBSERVE, Value::Uint(observe.encode()))),
            block2.map(|block| (option::BLOCK2, Value::Uint(block.encode()))),
            block1.map(|block| (option::BLOCK1, Value::Uint(block.encode()))),
            size.map(|size| (option::SIZE1, size)),
            (!self.echo.is_empty()).then_some((option::ECHO, Value::Opaque(&self.echo))),
            self.has_request_tag
                .then_some((option::REQUEST_TAG, Value::Opaque(self.token.as_slice()))),
            after.map(|id| (option::AFTER, Value::Uint(id.into()))),
        ];
        let options = options.iter();
        let mut encoder = Encoder::start(out, kind, self.code, id, token);
        if own.iter().all(Option::is_none) {
            for (number, value) in options {
                encoder.option(number, value);
            }
        } else {
            let options: Vec<OptionOut<'_>> = options
                .map(|(number, value)| (number, Value::Opaque(value)))
                .collect();
            for (number, value) in merged(&options, &own) {
                put(&mut encoder, number, value);
            }
        }
        encoder.payload(payload);
    }
}

impl ClientSide {
    /// Sends a message of a request, and the ends of those that waited for it. Says whether there was room for the first.
    pub(super) fn say(&mut self, index: u32, say: Say, now: Time, out: &mut Datagrams) -> bool {
        let is_sent = self.say_one(index, say, now, out);
        if is_sent && say == Say::Request {
            let mut next = self.has_said(index);
            while let Some(behind) = next {
                next = match self.say_one(behind, Say::Request, now, out) {
                    true => self.has_said(behind),
                    false => {
                        self.fail(behind, Failure::Unacknowledged, now, out);
                        None
                    }
                };
            }
        }
        is_sent
    }

    /// Sends a message of a request, confirmable or not as the request is; blocks of notifications always are. Says
    /// whether there was room.
    fn say_one(&mut self, index: u32, say: Say, now: Time, out: &mut Datagrams) -> bool {
        let Some(pending) = self.requests.get(index) else {
            return false;
        };
        let (peer, old) = (pending.peer, pending.sending);
        let is_confirmable = pending.is_confirmable || pending.phase == Phase::Observing;
        if old != NONE {
            self.endpoint.remove(old, now, out);
        }
        let after = match self.turn_of(index, say) {
            Turn::Waits => {
                self.hold(index);
                return true;
            }
            Turn::Now => None,
            Turn::After(id) => Some(id),
        };
        let id = self.endpoint.next_id(peer);
        let kind = if is_confirmable {
            Type::Confirmable
        } else {
            Type::NonConfirmable
        };
        let mut bytes = self.endpoint.buffer();
        let Some(pending) = self.requests.get_mut(index) else {
            return false;
        };
        pending.write(say, kind, id, after, &mut bytes);
        pending.id = id;
        pending.sending = NONE;
        if !is_confirmable {
            out.push(pending.to, |out| out.extend_from_slice(&bytes));
            self.wait_until(index, now + self.settings.response_within);
            return true;
        }
        let sending = self.endpoint.send(
            peer,
            id,
            Owner::Request(index),
            Content::Encoded(bytes),
            now,
            out,
        );
        let Some(pending) = self.requests.get_mut(index) else {
            return false;
        };
        pending.sending = sending.unwrap_or(NONE);
        (pending.names_before, pending.is_held) = (after.is_some(), false);
        // An observation keeps the time at which it registers again.
        if pending.phase != Phase::Observing {
            pending.deadline = Time::NEVER;
        }
        sending.is_some()
    }

    /// As [`ClientSide::say`], for a request that is known to the application: it fails if there is no room.
    pub(super) fn go_on(&mut self, index: u32, say: Say, now: Time, out: &mut Datagrams) {
        if !self.say(index, say, now, out) {
            self.fail(index, Failure::Unacknowledged, now, out);
        }
    }

    /// Lets a request wait until then.
    pub(super) fn wait_until(&mut self, index: u32, at: Time) {
        let generation = self.requests.generation(index);
        let Some(pending) = self.requests.get_mut(index) else {
            return;
        };
        pending.deadline = at;
        // A timer that comes up early finds out for itself.
        if at < pending.timer_at {
            pending.timer_at = at;
            self.endpoint
                .timers
                .set(at, TimerKind::Request, index, generation);
        }
    }

    /// Ends a request with a notice.
    pub(super) fn fail(&mut self, index: u32, why: Failure, now: Time, out: &mut Datagrams) {
        let request = self.id_of(index);
        if let Some(pending) = self.requests.get_mut(index) {
            pending.ends_well = why == Failure::Reset;
        }
        if self.end(index, now, out).is_some() {
            self.notices
                .push_back(ClientNotice::Failed { request, why });
        }
    }

    pub(super) fn end(&mut self, index: u32, now: Time, out: &mut Datagrams) -> Option<Pending> {
        let mut pending = self.requests.remove(index)?;
        for buffer in [
            std::mem::take(&mut pending.options),
            std::mem::take(&mut pending.payload),
        ] {
            self.endpoint.give_back(buffer);
        }
        if pending.sending != NONE {
            self.endpoint.remove(pending.sending, now, out);
        }
        self.endpoint.timers.forget_first(TimerKind::Request, index);
        if let Some(peer) = self.endpoint.peers.slots.get_mut(pending.peer) {
            peer.exchange_count = peer.exchange_count.saturating_sub(1);
        }
        self.tokens.remove(&pending.token);
        if let Some(token) = pending.fetch_token {
            self.tokens.remove(&token);
        }
        self.let_next(&pending, now, out);
        Some(pending)
    }

    pub(super) fn id_of(&self, index: u32) -> RequestId {
        RequestId {
            index,
            generation: self.requests.generation(index),
        }
    }
}
