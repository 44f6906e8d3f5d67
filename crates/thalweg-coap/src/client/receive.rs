//! Handling of a client's received datagrams.

use core::net::SocketAddr;
use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher};

use thalweg_wire::{Span, Time};

use super::ClientSide;
use super::pending::Phase;
use super::send::Say;
use crate::dedup::{Again, Key};
use crate::endpoint::Owner;
use crate::slots::NONE;
use crate::{
    Block, ClientEvent, ClientNotice, Code, Datagrams, Failure, Message, Options, ResponseIn,
    Sequence, Type, empty, option,
};

/// How often a body may change while its blocks are fetched, and how often the server may ask for an Echo.
const RESTARTS_MAX: u8 = 3;

/// Acknowledged responses that are remembered, in case their acknowledgements were lost.
const REMEMBERED_MAX: usize = 16_384;

/// Whether the same request may be taken if it is sent again later.
fn is_transient(code: Code) -> bool {
    code.class() == 5
        || code == Code::TOO_MANY_REQUESTS
        || code == Code::REQUEST_ENTITY_INCOMPLETE
        || code == Code::PRECONDITION_FAILED
}

/// Action for a response.
enum Verdict {
    /// It is complete; the payload is that of the message, or this one.
    Whole(Option<Vec<u8>>),
    /// There is more to come, or it was of no use.
    Wait,
    /// The request cannot go on.
    Fail(Failure),
}

impl ClientSide {
    /// Takes one datagram. The event borrows from the datagram only.
    pub fn handle_datagram<'b>(
        &mut self,
        from: SocketAddr,
        datagram: &'b [u8],
        now: Time,
        out: &mut Datagrams,
    ) -> Option<ClientEvent<'b>> {
        let hash = self.endpoint.peers.hash(from);
        let peer = self.endpoint.peers.find(from, hash);
        if let Some(peer) = peer {
            self.endpoint.peers.touch(peer, now);
        }
        let message = match Message::decode(datagram) {
            Ok(message) => message,
            Err(error) => {
                if let (Some(Type::Confirmable), Some(id)) = (error.kind, error.id) {
                    out.push(from, |out| empty(out, Type::Reset, id));
                }
                return None;
            }
        };
        match message.kind {
            Type::Acknowledgement => self.on_acknowledgement(peer?, &message, now, out),
            Type::Reset => {
                self.on_reset(peer?, message.id, now, out);
                None
            }
            Type::Confirmable | Type::NonConfirmable => {
                let is_confirmable = message.kind == Type::Confirmable;
                let index = match peer {
                    Some(peer) if message.code.is_response() => self.find(peer, &message),
                    _ => None,
                };
                let mut hasher = self.hasher.build_hasher();
                hasher.write(datagram);
                let key = Key {
                    peer: hash,
                    id: message.id,
                    fingerprint: hasher.finish() as u32,
                };
                let Some(index) = index.filter(|_| !self.has_unknown_critical(&message.options))
                else {
                    self.reject(from, &message, key, now, out);
                    return None;
                };
                let lifetime = self.settings.transmission.exchange_lifetime();
                // None of these may be missed, and the one before is not whole: unacknowledged, it comes again.
                let comes_early = |pending: &super::pending::Pending| {
                    pending.keeps_all
                        && pending.fetch_token.is_some()
                        && pending.token == message.token
                };
                if is_confirmable
                    && self.requests.get(index).is_some_and(comes_early)
                    && self.acknowledged.find(key, lifetime, now).is_none()
                {
                    return None;
                }
                if is_confirmable {
                    out.push(from, |out| empty(out, Type::Acknowledgement, message.id));
                    self.acknowledged.forget_old(lifetime, now, 4);
                    self.acknowledged
                        .insert(key, Again::Acknowledge, &[], now, REMEMBERED_MAX, 0);
                }
                // The response says that the request has arrived.
                // But a notification says nothing of a request for a block of the one before.
                let fetch = self
                    .requests
                    .get(index)
                    .and_then(|pending| pending.fetch_token);
                if fetch.is_none_or(|token| token == message.token) {
                    self.arrived(index, now, out);
                }
                self.on_response(index, &message, false, now, out)
            }
        }
    }

    /// The request that this message answers.
    fn find(&self, peer: u32, message: &Message<'_>) -> Option<u32> {
        let index = *self.tokens.get(&message.token)?;
        let pending = self.requests.get(index)?;
        (pending.peer == peer && pending.phase != Phase::ExpectPong).then_some(index)
    }

    /// Handles a message that is not awaited. RFC 7252 §4.2, §4.3; RFC 7641 §3.6
    fn reject(
        &mut self,
        from: SocketAddr,
        message: &Message<'_>,
        key: Key,
        now: Time,
        out: &mut Datagrams,
    ) {
        let lifetime = self.settings.transmission.exchange_lifetime();
        let is_confirmable = message.kind == Type::Confirmable;
        if is_confirmable && self.acknowledged.find(key, lifetime, now).is_some() {
            out.push(from, |out| empty(out, Type::Acknowledgement, message.id));
        } else if is_confirmable || (message.code.is_response() && !self.is_told(message.token)) {
            out.push(from, |out| empty(out, Type::Reset, message.id));
        }
    }

    /// Whether it is the token of something that was only told: what is answered to that means no harm.
    fn is_told(&self, token: crate::Token) -> bool {
        token.len() < usize::from(self.settings.token_bytes.clamp(1, 8)).min(2)
    }

    fn has_unknown_critical(&self, options: &Options<'_>) -> bool {
        let own = [option::BLOCK1, option::BLOCK2];
        let refused =
            options.refused(|n| own.contains(&n) || self.settings.understood_options.contains(&n));
        refused.is_some()
    }

    fn on_acknowledgement<'b>(
        &mut self,
        peer: u32,
        message: &Message<'b>,
        now: Time,
        out: &mut Datagrams,
    ) -> Option<ClientEvent<'b>> {
        let Some(Owner::Request(index)) = self.endpoint.answered(peer, message.id, now, out) else {
            return None;
        };
        let pending = self.requests.get_mut(index)?;
        pending.sending = NONE;
        let is_ours = message.token == pending.token || Some(message.token) == pending.fetch_token;
        if message.code == Code::EMPTY {
            self.wait_until(index, now + self.settings.response_within);
            let request = self.id_of(index);
            self.notices
                .push_back(ClientNotice::Acknowledged { request });
            return None;
        }
        if !message.code.is_response() || !is_ours || self.has_unknown_critical(&message.options) {
            self.fail(index, Failure::Reset, now, out);
            return None;
        }
        self.on_response(index, message, true, now, out)
    }

    fn on_reset(&mut self, peer: u32, id: u16, now: Time, out: &mut Datagrams) {
        if let Some(Owner::Request(index)) = self.endpoint.answered(peer, id, now, out) {
            if let Some(pending) = self.requests.get_mut(index) {
                pending.sending = NONE;
            }
            let request = self.id_of(index);
            match self.requests.get(index).map(|pending| pending.phase) {
                Some(Phase::ExpectPong) => {
                    self.end(index, now, out);
                    self.notices.push_back(ClientNotice::Pong { request });
                }
                _ => self.fail(index, Failure::Reset, now, out),
            }
            return;
        }
        // One that was not confirmable.
        let Some(peer) = self
            .endpoint
            .peers
            .slots
            .get(peer)
            .filter(|peer| peer.exchange_count > 0)
        else {
            return;
        };
        let address = peer.address;
        let is_it = |index: &&u32| {
            self.requests
                .get(**index)
                .is_some_and(|p| p.to == address && p.id == id && !p.is_confirmable)
        };
        if let Some(index) = self.tokens.values().find(is_it).copied() {
            self.fail(index, Failure::Reset, now, out);
        }
    }

    /// Stops repeating the request.
    fn arrived(&mut self, index: u32, now: Time, out: &mut Datagrams) {
        if let Some(pending) = self.requests.get_mut(index) {
            let sending = std::mem::replace(&mut pending.sending, NONE);
            if sending != NONE {
                self.endpoint.remove(sending, now, out);
            }
        }
    }

    fn on_response<'b>(
        &mut self,
        index: u32,
        message: &Message<'b>,
        is_piggybacked: bool,
        now: Time,
        out: &mut Datagrams,
    ) -> Option<ClientEvent<'b>> {
        let sequence = message.options.uint(option::OBSERVE).map(Sequence::new);
        let pending = self.requests.get_mut(index)?;
        let is_of_fetch = Some(message.token) == pending.fetch_token;
        let observes = pending.wants_observe && pending.phase != Phase::ExpectEnd;
        let is_notification =
            observes && !is_of_fetch && sequence.is_some() && message.code.is_success();
        if let Some(sequence) = sequence.filter(|_| is_notification) {
            // The response to a registration is as fresh as can be, whatever its number: the server may have begun anew.
            let seconds = |at| now.since(at).secs();
            let is_newer = |(old, at)| sequence.is_newer_than(old, seconds(at));
            // Registered again, and the server goes on with the numbers: what is under way comes, and is older than this.
            let goes_on = |(old, _)| sequence.is_close_behind(old);
            if is_piggybacked && pending.keeps_all && pending.newest.is_some_and(goes_on) {
                self.freshen(index, &message.options, now);
                return None;
            }
            // Numbers of those that count do not wear out: one that insists may come again after any time.
            let is_known =
                |(old, _): (Sequence, Time)| pending.keeps_all && old.is_close_behind(sequence);
            if !is_piggybacked
                && (pending.newest.is_some_and(is_known) || !pending.newest.is_none_or(is_newer))
            {
                return None;
            }
            pending.newest = Some((sequence, now));
            pending.phase = Phase::Observing;
            self.freshen(index, &message.options, now);
        }
        if self.comes_too_soon(index, message.code, now, out) {
            return None;
        }
        match self.gather(index, message, is_of_fetch, now, out) {
            Verdict::Wait => None,
            Verdict::Fail(why) => {
                self.fail(index, why, now, out);
                None
            }
            Verdict::Whole(body) => {
                let request = self.id_of(index);
                let from = self.requests.get(index)?.to;
                let payload = body.map_or(Cow::Borrowed(message.payload), Cow::Owned);
                let response = ResponseIn {
                    request,
                    from,
                    code: message.code,
                    is_piggybacked,
                    options: message.options,
                    payload,
                };
                let goes_on = is_notification || (is_of_fetch && message.code.is_success());
                if goes_on {
                    self.forget_fetch(index);
                    return Some(ClientEvent::Notification(response));
                }
                if let Some(pending) = self.requests.get_mut(index) {
                    pending.ends_well = !is_transient(message.code);
                }
                self.end(index, now, out);
                Some(ClientEvent::Response(response))
            }
        }
    }

    /// Plans the registration after this notification's Max-Age. RFC 7641 §3.3.1
    fn freshen(&mut self, index: u32, options: &Options<'_>, now: Time) {
        if !self.settings.register_again {
            if let Some(pending) = self.requests.get_mut(index) {
                pending.deadline = Time::NEVER;
            }
            return;
        }
        let age = Span::from_secs(u64::from(options.uint(option::MAX_AGE).unwrap_or(60)));
        let random = Span::from_nanos(5_000_000_000 + self.endpoint.throw() % 10_000_000_000);
        self.wait_until(index, now + age + random);
    }

    /// Puts blocks together, and sends the next one or for the next one.
    fn gather(
        &mut self,
        index: u32,
        message: &Message<'_>,
        is_of_fetch: bool,
        now: Time,
        out: &mut Datagrams,
    ) -> Verdict {
        let Some(pending) = self.requests.get_mut(index) else {
            return Verdict::Wait;
        };
        if message.code == Code::UNAUTHORIZED
            && let Some(echo) = message.options.get(option::ECHO)
            && pending.echoes < RESTARTS_MAX
        {
            pending.echoes += 1;
            pending.echo = echo.to_vec();
            pending.sent = 0;
            self.go_on(index, Say::Request, now, out);
            return Verdict::Wait;
        }
        let block1 = message.options.uint(option::BLOCK1).and_then(Block::decode);
        if let Some(block) = block1.filter(|_| pending.is_in_blocks() && !is_of_fetch) {
            let before = pending.size_exponent;
            let end = pending.sent + pending.block_size();
            if message.code == Code::REQUEST_ENTITY_TOO_LARGE
                && block.size_exponent < before
                && pending.sent == 0
            {
                // Smaller blocks may do. RFC 7959 §2.9.3
                pending.size_exponent = block.size_exponent;
                self.go_on(index, Say::Request, now, out);
                return Verdict::Wait;
            }
            let has_more = end < pending.payload.len();
            if has_more && (message.code == Code::CONTINUE || message.code.is_success()) {
                // An answer to another block than the last one is old.
                if block.offset() != pending.sent
                    && (block.number as usize) << (before + 4) != pending.sent
                {
                    return Verdict::Wait;
                }
                pending.sent = end;
                pending.size_exponent = before.min(block.size_exponent);
                self.go_on(index, Say::Request, now, out);
                return Verdict::Wait;
            }
        }
        if message.code == Code::CONTINUE {
            return Verdict::Wait;
        }
        match message.options.uint(option::BLOCK2) {
            None => Verdict::Whole(None),
            Some(value) => match Block::decode(value) {
                Some(block) => self.gather_response(index, message, block, is_of_fetch, now, out),
                None => Verdict::Fail(Failure::Body),
            },
        }
    }

    /// A block of a response.
    fn gather_response(
        &mut self,
        index: u32,
        message: &Message<'_>,
        block: Block,
        is_of_fetch: bool,
        now: Time,
        out: &mut Datagrams,
    ) -> Verdict {
        let most = self.settings.response_bytes_max;
        let exponent = self.settings.block_exponent_max;
        let Some(pending) = self.requests.get_mut(index) else {
            return Verdict::Wait;
        };
        if !message.code.is_success() || (block.number == 0 && !block.more) {
            return Verdict::Whole(None);
        }
        if block.more && message.payload.len() != block.size() {
            return Verdict::Fail(Failure::Body);
        }
        let announced = message.options.uint(option::SIZE2).unwrap_or(0) as usize;
        if announced.max(block.offset() + message.payload.len()) > most {
            return Verdict::Fail(Failure::Body);
        }
        let next = if block.number == 0 {
            pending.begin_body(&message.options);
            true
        } else if !pending.is_gathering
            || block.offset() > pending.body.len()
            || !pending.has_tag(&message.options)
        {
            // Another body than the one that was begun: from the start. RFC 7959 §2.4
            pending.restarts += 1;
            pending.is_gathering = false;
            false
        } else if block.offset() < pending.body.len() {
            // A block that came before.
            return Verdict::Wait;
        } else {
            true
        };
        if pending.restarts > RESTARTS_MAX {
            return Verdict::Fail(Failure::Body);
        }
        let size_exponent = block.size_exponent.min(exponent);
        let wanted = if next {
            pending.body.extend_from_slice(message.payload);
            if !block.more {
                pending.is_gathering = false;
                pending.restarts = 0;
                return Verdict::Whole(Some(std::mem::take(&mut pending.body)));
            }
            (pending.body.len() >> (size_exponent + 4)) as u32
        } else {
            0
        };
        if pending.phase == Phase::Observing && !is_of_fetch {
            self.take_fetch_token(index);
        }
        self.go_on(
            index,
            Say::Fetch(Block {
                number: wanted,
                more: false,
                size_exponent,
            }),
            now,
            out,
        );
        Verdict::Wait
    }

    /// A token for the further blocks of a notification; what is under way for an older one is forgotten.
    fn take_fetch_token(&mut self, index: u32) {
        self.forget_fetch(index);
        let token = self.fresh_token();
        if let Some(pending) = self.requests.get_mut(index) {
            pending.fetch_token = Some(token);
            self.tokens.insert(token, index);
        }
    }

    pub(super) fn forget_fetch(&mut self, index: u32) {
        let token = self
            .requests
            .get_mut(index)
            .and_then(|pending| pending.fetch_token.take());
        if let Some(token) = token {
            self.tokens.remove(&token);
        }
    }
}
