//! Responses of a server: in the acknowledgement, separate, in blocks, or none.

use thalweg_wire::Time;

use super::ServerSide;
use super::awaited::Awaited;
use super::exchange::Exchange;
use crate::blockwise::KeptBody;
use crate::dedup::Again;
use crate::endpoint::{Content, Owner};
use crate::outgoing::{Cut, etag_of, merged, put};
use crate::slots::NONE;
use crate::why;
use crate::{
    Block, Code, Datagrams, Encoder, ExchangeId, Notice, ObservationEnd, OptionOut, Response,
    Token, Type, Value, empty, option,
};

/// An outgoing response: the application's part and the options that are added here.
#[derive(Clone, Copy)]
struct Shape<'r> {
    code: Code,
    options: &'r [OptionOut<'r>],
    own: &'r [Option<OptionOut<'r>>],
    payload: &'r [u8],
}

impl Shape<'_> {
    #[inline]
    fn write(&self, kind: Type, id: u16, token: Token, out: &mut Vec<u8>) {
        let mut encoder = Encoder::start(out, kind, self.code, id, token);
        for (number, value) in merged(self.options, self.own) {
            put(&mut encoder, number, value);
        }
        encoder.payload(self.payload);
    }
}

/// Assumed bytes of a response's head and options.
const OPTIONS_BYTES: usize = 64;

impl ServerSide {
    /// Begins to wait for the application.
    #[inline]
    pub(super) fn open(&mut self, mut exchange: Exchange, now: Time) -> Option<ExchangeId> {
        let peer = self.endpoint.peers.slots.get_mut(exchange.peer)?;
        if self.exchanges.slots.len() >= self.settings.exchanges_max
            || peer.exchange_count >= self.settings.exchanges_per_peer.max(1)
        {
            return None;
        }
        exchange.next = peer.exchanges;
        let acknowledge_at = now + self.settings.acknowledge_within;
        let id = self
            .exchanges
            .open(exchange, acknowledge_at, now + self.settings.answer_within);
        peer.exchanges = id.index;
        peer.exchange_count += 1;
        Some(id)
    }

    #[inline]
    pub(super) fn close(&mut self, id: ExchangeId) -> Option<Exchange> {
        let mut exchange = self.exchanges.close(id)?;
        if self
            .relations
            .get_of(exchange.relation, exchange.relation_generation)
            .is_none()
        {
            exchange.relation = NONE;
        }
        if let Some(peer) = self.endpoint.peers.slots.get_mut(exchange.peer) {
            self.exchanges
                .unlink(&mut peer.exchanges, id.index, exchange.next);
            peer.exchange_count -= 1;
        }
        Some(exchange)
    }

    /// Answers a request: in its acknowledgement if that has not left, separately (confirmable or not as the request
    /// was) otherwise. Says whether the request still waited.
    pub fn respond(
        &mut self,
        exchange: ExchangeId,
        response: &Response<'_>,
        now: Time,
        out: &mut Datagrams,
    ) -> bool {
        let Some(mut exchange) = self.close(exchange) else {
            return false;
        };
        let is_success = response.code.is_success();
        let mut observe = None;
        if exchange.relation != NONE {
            observe = self.answer_registration(&mut exchange, is_success, now, out);
        }
        if exchange.no_response.suppresses(response.code) {
            self.say_nothing(&exchange, now, out);
            return true;
        }
        let asked = exchange.block2.and_then(Block::decode);
        let most = self
            .settings
            .block_exponent_max
            .min(Block::SIZE_EXPONENT_MAX);
        let exponent = asked.map_or(most, |block| block.size_exponent.min(most));
        let is_small = response.payload.len() <= 16 << exponent;
        // More than an unproven peer may get goes in small blocks: few clients answer a demand for Echo by themselves.
        let may_shrink = response.payload.len() + OPTIONS_BYTES > self.allowed(&exchange);
        if is_small && (asked.is_none() || !is_success) && !may_shrink {
            let own = [
                observe.map(|sequence| (option::OBSERVE, Value::Uint(sequence))),
                exchange
                    .block1
                    .map(|block| (option::BLOCK1, Value::Uint(block))),
            ];
            let shape = Shape {
                code: response.code,
                options: response.options,
                own: &own,
                payload: response.payload,
            };
            self.send_response(&exchange, &shape, now, out);
        } else {
            let number = asked.map_or(0, |block| block.number << (block.size_exponent - exponent));
            self.respond_in_blocks(&exchange, response, observe, number, exponent, now, out);
        }
        true
    }

    /// As [`ServerSide::respond`], but in a confirmable message of its own whose outcome is reported: exactly one of
    /// [`Notice::ResponseConfirmed`] and [`Notice::ResponseLost`] comes, with this cookie. A body in several blocks is
    /// confirmed when the first was acknowledged and the last was requested; later blocks are served without the
    /// application. It is lost if no block is requested within
    /// [`ServerSettings::transfer_idle`](crate::ServerSettings::transfer_idle), or the last not within
    /// [`ServerSettings::fetch_within`](crate::ServerSettings::fetch_within), or if the memory is needed for others;
    /// then no block of it is served any more.
    pub fn respond_confirmed(
        &mut self,
        exchange: ExchangeId,
        cookie: u64,
        response: &Response<'_>,
        now: Time,
        out: &mut Datagrams,
    ) -> bool {
        if self.exchanges.get(exchange).is_none() {
            return false;
        }
        self.respond_later(exchange, now, out);
        self.now = now;
        let awaited = self.awaited.insert(Awaited::new(cookie));
        if let Some(waiting) = self.exchanges.get_mut(exchange) {
            waiting.awaited = awaited;
        }
        self.respond(exchange, response, now, out)
    }

    /// Says that the answer will take long: the acknowledgement leaves now.
    pub fn respond_later(&mut self, exchange: ExchangeId, now: Time, out: &mut Datagrams) {
        let Some(waiting) = self.exchanges.get(exchange) else {
            return;
        };
        if !waiting.is_confirmable || waiting.is_acknowledged {
            return;
        }
        let (peer, id) = (waiting.peer, waiting.key.id);
        self.exchanges
            .acknowledged(exchange, now + self.settings.answer_within);
        if let Some(peer) = self.endpoint.peers.slots.get(peer) {
            out.push(peer.address, |out| empty(out, Type::Acknowledgement, id));
        }
    }

    /// Says that there will be no answer: a confirmable request is acknowledged and no more.
    pub fn ignore(&mut self, exchange: ExchangeId, now: Time, out: &mut Datagrams) {
        let Some(exchange) = self.close(exchange) else {
            return;
        };
        if exchange.relation != NONE {
            self.end(exchange.relation, Some(ObservationEnd::Refused), now, out);
        }
        self.say_nothing(&exchange, now, out);
    }

    /// Answers requests that the application has taken too long for, and acknowledges those it takes long for.
    pub(super) fn attend_exchanges(&mut self, now: Time, out: &mut Datagrams) {
        while let Some(exchange) = self.exchanges.acknowledgement_due(now) {
            self.respond_later(exchange, now, out);
        }
        while let Some(exchange) = self.exchanges.answer_due(now) {
            self.counts.expired += 1;
            self.counts.failed += 1;
            let payload = why::LATE.as_bytes();
            let late = Response {
                code: Code::SERVICE_UNAVAILABLE,
                options: &[],
                payload,
            };
            self.respond(exchange, &late, now, out);
            self.notices.push_back(Notice::ExchangeExpired { exchange });
        }
    }

    /// The response to a registration is its first notification, or its end. RFC 7641 §4.1
    fn answer_registration(
        &mut self,
        exchange: &mut Exchange,
        is_success: bool,
        now: Time,
        out: &mut Datagrams,
    ) -> Option<u32> {
        if !is_success {
            self.end(exchange.relation, Some(ObservationEnd::Refused), now, out);
            exchange.relation = NONE;
            return None;
        }
        let relation = self.relations.get_mut(exchange.relation)?;
        relation.is_active = true;
        let sequence = relation.advance();
        if relation.is_outdated && relation.sending == NONE {
            // `notify` came before this response.
            relation.is_outdated = false;
            self.want(exchange.relation, false, now);
            self.wake(exchange.peer, now);
        }
        Some(sequence)
    }

    /// A body that is larger than a block, or of which a block was asked for.
    #[allow(clippy::too_many_arguments)]
    fn respond_in_blocks(
        &mut self,
        exchange: &Exchange,
        response: &Response<'_>,
        observe: Option<u32>,
        number: u32,
        mut exponent: u8,
        now: Time,
        out: &mut Datagrams,
    ) {
        let allowed = self.allowed(exchange);
        let mut tag = [0; 8];
        let tag = etag_of(response.payload, &mut tag);
        let has_tag = response
            .options
            .iter()
            .any(|(number, _)| *number == option::ETAG);
        let whole = Value::Uint(response.payload.len() as u32);
        // A response that fits after all is sent without blocks, unless one was requested.
        let was_asked = exchange.block2.and_then(Block::decode).is_some();
        let mut is_shrunk = false;
        loop {
            let Some(cut) = Cut::part(response.payload, number, exponent) else {
                let payload = why::BLOCK_BEYOND.as_bytes();
                let shape = Shape {
                    code: Code::BAD_REQUEST,
                    options: &[],
                    own: &[],
                    payload,
                };
                return self.send_response(exchange, &shape, now, out);
            };
            let block = cut.block.unwrap_or(Block {
                number,
                more: false,
                size_exponent: exponent,
            });
            let in_parts = block.more || number > 0;
            let is_body = response.code.is_success() && (!response.payload.is_empty() || in_parts);
            let own = [
                (in_parts && is_body && !has_tag).then_some((option::ETAG, Value::Opaque(tag))),
                observe.map(|sequence| (option::OBSERVE, Value::Uint(sequence))),
                (in_parts || (is_body && was_asked))
                    .then_some((option::BLOCK2, Value::Uint(block.encode()))),
                exchange
                    .block1
                    .map(|block| (option::BLOCK1, Value::Uint(block))),
                (block.more && number == 0).then_some((option::SIZE2, whole)),
            ];
            let shape = Shape {
                code: response.code,
                options: response.options,
                own: &own,
                payload: cut.bytes,
            };
            // The first block is an answer however small it is.
            if number == 0 && exponent > 0 {
                let mut bytes = self.endpoint.buffer();
                shape.write(Type::NonConfirmable, 0, exchange.token, &mut bytes);
                if bytes.len() > allowed {
                    exponent -= 1;
                    is_shrunk = true;
                    continue;
                }
            }
            // A body that is kept for the same question is not mixed with this one.
            let keeps =
                !exchange.is_safe() || observe.is_some() || self.kept.has(exchange.cache_key);
            // A client that registers again while it fetches an insistent notification continues that, and reads this
            // response later.
            let is_fetching = self
                .relations
                .get(exchange.relation)
                .is_some_and(|relation| relation.fetching != NONE);
            if block.more && number == 0 && keeps && !is_fetching {
                let mut options = Vec::new();
                let mut encoder = Encoder::body(&mut options);
                let own = [own[0]];
                for (number, value) in merged(response.options, &own) {
                    put(&mut encoder, number, value);
                }
                let body = KeptBody::Response {
                    code: response.code,
                    options,
                    payload: response.payload.to_vec(),
                };
                self.kept
                    .insert(exchange.cache_key, body, &self.settings, now);
                self.tell_dropped();
                self.body_kept(exchange);
            }
            self.send_response(exchange, &shape, now, out);
            if is_shrunk {
                self.ask_where(exchange.peer, out);
            }
            return;
        }
    }

    /// Asks a peer, once and in four bytes, whether it is where it seems to be: its reset is the answer, and then what it
    /// asks for next need not be cut.
    fn ask_where(&mut self, peer: u32, out: &mut Datagrams) {
        let id = self.endpoint.next_id(peer);
        if let Some(record) = self.endpoint.peers.slots.get_mut(peer) {
            record.asked = Some(id);
            out.push(record.address, |out| empty(out, Type::Confirmable, id));
        }
    }

    /// Largest size of a response.
    fn allowed(&self, exchange: &Exchange) -> usize {
        if self
            .endpoint
            .peers
            .slots
            .get(exchange.peer)
            .is_none_or(|peer| peer.proven)
        {
            return usize::MAX;
        }
        let times = usize::from(self.settings.amplification_factor) * usize::from(exchange.len);
        times.max(usize::from(self.settings.amplification_allowance))
    }

    /// Sends a response and remembers it.
    #[inline]
    fn send_response(
        &mut self,
        exchange: &Exchange,
        shape: &Shape<'_>,
        now: Time,
        out: &mut Datagrams,
    ) {
        let Some(peer) = self.endpoint.peers.slots.get(exchange.peer) else {
            return;
        };
        let (address, is_proven) = (peer.address, peer.proven);
        if exchange.awaited != NONE || (exchange.is_confirmable && exchange.is_acknowledged) {
            return self.send_separately(exchange, shape, now, out);
        }
        let (kind, id) = match exchange.is_confirmable {
            true => (Type::Acknowledgement, exchange.key.id),
            false => (Type::NonConfirmable, self.endpoint.next_id(exchange.peer)),
        };
        out.push(address, |out| shape.write(kind, id, exchange.token, out));
        let mut code = shape.code;
        if !is_proven && out.last().len() > self.allowed(exchange) {
            out.retract();
            code = self.shorten(exchange, shape, kind, id, now, out);
        }
        if !exchange.is_confirmable
            && let Some(relation) = self.relations.get_mut(exchange.relation)
        {
            relation.note_id(id);
        }
        if !exchange.is_safe() {
            let again = if exchange.is_confirmable {
                Again::Respond(code)
            } else {
                Again::Ignore
            };
            let body = match exchange.is_confirmable {
                true => out
                    .last()
                    .get(4 + exchange.token.len()..)
                    .unwrap_or_default(),
                false => &[],
            };
            let (most, most_bytes) = (
                self.settings.remembered_max,
                self.settings.remembered_bytes_max,
            );
            self.remembered.forget_some_old(self.exchange_lifetime, now);
            self.remembered
                .insert(exchange.key, again, body, now, most, most_bytes);
        }
    }

    /// Shortens a response that is too large for an unproven address: the client proves its address and asks again. The
    /// request was already executed and must not be repeated, so the response loses its payload. RFC 9175 §2.4
    #[cold]
    fn shorten(
        &mut self,
        exchange: &Exchange,
        shape: &Shape<'_>,
        kind: Type,
        id: u16,
        now: Time,
        out: &mut Datagrams,
    ) -> Code {
        let Some(address) = self
            .endpoint
            .peers
            .slots
            .get(exchange.peer)
            .map(|peer| peer.address)
        else {
            return shape.code;
        };
        if !exchange.is_safe() {
            out.push(address, |out| {
                Encoder::start(out, kind, shape.code, id, exchange.token);
            });
            return shape.code;
        }
        self.counts.echo_demanded += 1;
        if exchange.relation != NONE {
            self.end(exchange.relation, Some(ObservationEnd::Refused), now, out);
        }
        let value = self.echo.value(address, now);
        out.push(address, |out| {
            let mut encoder = Encoder::start(out, kind, Code::UNAUTHORIZED, id, exchange.token);
            encoder.option(option::ECHO, &value);
        });
        Code::UNAUTHORIZED
    }

    /// Sends a response after its acknowledgement, in a confirmable message of its own. RFC 7252 §5.2.2
    #[inline(never)]
    fn send_separately(
        &mut self,
        exchange: &Exchange,
        shape: &Shape<'_>,
        now: Time,
        out: &mut Datagrams,
    ) {
        let id = self.endpoint.next_id(exchange.peer);
        let mut bytes = self.endpoint.buffer();
        let mut awaited = exchange.awaited;
        shape.write(Type::Confirmable, id, exchange.token, &mut bytes);
        if bytes.len() > self.allowed(exchange) {
            bytes.clear();
            if exchange.is_safe() {
                self.counts.echo_demanded += 1;
                let address = self
                    .endpoint
                    .peers
                    .slots
                    .get(exchange.peer)
                    .map(|peer| peer.address);
                let value = address
                    .map(|address| self.echo.value(address, now))
                    .unwrap_or_default();
                Encoder::start(
                    &mut bytes,
                    Type::Confirmable,
                    Code::UNAUTHORIZED,
                    id,
                    exchange.token,
                )
                .option(option::ECHO, &value);
                if exchange.relation != NONE {
                    self.end(exchange.relation, Some(ObservationEnd::Refused), now, out);
                }
            } else {
                Encoder::start(
                    &mut bytes,
                    Type::Confirmable,
                    shape.code,
                    id,
                    exchange.token,
                );
                self.tell_fate(awaited, false);
                awaited = NONE;
            }
        }
        let relation = self.relations.get_mut(exchange.relation).map(|relation| {
            relation.note_id(id);
            std::mem::replace(&mut relation.sending, NONE)
        });
        if let Some(older) = relation.filter(|older| *older != NONE) {
            // An older notification in flight is as good as told by this one.
            self.endpoint.remove(older, now, out);
        }
        let owner = match (awaited, relation) {
            (NONE, Some(_)) => Owner::Relation(exchange.relation),
            (NONE, None) => Owner::Nobody,
            (awaited, _) => Owner::Awaited(awaited),
        };
        match self
            .endpoint
            .send(exchange.peer, id, owner, Content::Encoded(bytes), now, out)
        {
            Some(sending) => {
                if let Some(relation) = self
                    .relations
                    .get_mut(exchange.relation)
                    .filter(|_| exchange.awaited == NONE)
                {
                    relation.sending = sending;
                }
            }
            None => {
                self.counts.responses_dropped += 1;
                self.tell_fate(awaited, false);
            }
        }
        self.remember_acknowledged(exchange, now);
    }

    /// No response: of a confirmable request only the acknowledgement.
    fn say_nothing(&mut self, exchange: &Exchange, now: Time, out: &mut Datagrams) {
        self.tell_fate(exchange.awaited, false);
        if exchange.is_confirmable
            && !exchange.is_acknowledged
            && let Some(peer) = self.endpoint.peers.slots.get(exchange.peer)
        {
            out.push(peer.address, |out| {
                empty(out, Type::Acknowledgement, exchange.key.id)
            });
        }
        self.remember_acknowledged(exchange, now);
    }

    fn remember_acknowledged(&mut self, exchange: &Exchange, now: Time) {
        if !exchange.is_safe() {
            let again = if exchange.is_confirmable {
                Again::Acknowledge
            } else {
                Again::Ignore
            };
            let (most, most_bytes) = (
                self.settings.remembered_max,
                self.settings.remembered_bytes_max,
            );
            self.remembered.forget_some_old(self.exchange_lifetime, now);
            self.remembered
                .insert(exchange.key, again, &[], now, most, most_bytes);
        }
    }
}
