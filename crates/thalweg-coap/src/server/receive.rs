//! Handling of a server's received datagrams.

use core::net::SocketAddr;
use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher};

use thalweg_wire::{Span, Time};

use super::ServerSide;
use super::exchange::{Exchange, is_safe};
use crate::blockwise::{Gathered, Part, key_of};
use crate::dedup::{Again, Key};
use crate::endpoint::Owner;
use crate::outgoing::{Cut, etag_of, merged, put};
use crate::slots::NONE;
use crate::why::{self, CROWDED_SECONDS, OVERLOADED_SECONDS};
use crate::{
    Block, Code, Datagrams, DecodeError, EchoForObserve, Encoder, Event, Message, NoResponse,
    ObservationEnd, Observe, PeerId, RelationId, Request, Token, Type, Value, empty, option,
};

/// Sender and request: everything that a response needs besides the application's part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) from: SocketAddr,
    pub(super) peer: u32,
    pub(super) key: Key,
    pub(super) is_confirmable: bool,
    pub(super) token: Token,
    /// Answers that are not sent, whatever the request says of it.
    pub(super) unwanted: NoResponse,
}

/// Result of handling Block1.
enum Body {
    /// The payload of the message is all there is.
    Inline,
    /// This is the whole payload.
    Whole(Vec<u8>),
    /// The block has been answered.
    Answered,
}

/// For how long a message is remembered for those that have to come after it: shorter than it takes to use an id again.
const AFTER_WITHIN: Span = Span::from_secs(2);

/// Largest block exponent of a kept body for an unproven address: 128 bytes, the most that its first block had.
const UNPROVEN_EXPONENT_MAX: u8 = 3;

impl ServerSide {
    /// Takes one datagram. The event borrows from the datagram only, so the machine can be used while it is held.
    pub fn handle_datagram<'b>(
        &mut self,
        from: SocketAddr,
        datagram: &'b [u8],
        now: Time,
        out: &mut Datagrams,
    ) -> Option<Event<'b>> {
        self.now = now;
        self.counts.datagrams += 1;
        self.tidy_timers();
        match Message::decode(datagram) {
            Ok(message) if message.code.is_request() => match message.kind {
                Type::Confirmable | Type::NonConfirmable => {
                    return self.on_request(from, &message, datagram, now, out);
                }
                // An acknowledgement or a reset cannot ask for something. RFC 7252 §4.2
                Type::Acknowledgement | Type::Reset => self.counts.rejected += 1,
            },
            Ok(message) => self.on_other(from, &message, now, out),
            Err(error) => self.on_malformed(from, error, out),
        }
        None
    }

    /// Takes one request that was sent to a group of which we are a member: no answer says that it failed. Ignores whatever
    /// else is sent to a group; a request there must not be confirmable. RFC 7252 §8.1, §8.2
    pub fn handle_group_datagram<'b>(
        &mut self,
        from: SocketAddr,
        datagram: &'b [u8],
        now: Time,
        out: &mut Datagrams,
    ) -> Option<Event<'b>> {
        match Message::decode(datagram) {
            Ok(message) if message.code.is_request() && message.kind == Type::NonConfirmable => {
                self.unwanted = NoResponse::CLIENT_ERROR.and(NoResponse::SERVER_ERROR);
                let event = self.handle_datagram(from, datagram, now, out);
                self.unwanted = NoResponse::NONE;
                return event;
            }
            Ok(_) => self.counts.rejected += 1,
            Err(_) => self.counts.malformed += 1,
        }
        self.counts.datagrams += 1;
        None
    }

    /// Rejects a malformed confirmable message, and ignores any other. RFC 7252 §4.2, §4.3
    #[cold]
    fn on_malformed(&mut self, from: SocketAddr, error: DecodeError, out: &mut Datagrams) {
        self.counts.malformed += 1;
        if let (Some(Type::Confirmable), Some(id)) = (error.kind, error.id) {
            out.push(from, |out| empty(out, Type::Reset, id));
        }
    }

    /// Handles acknowledgements, resets, pings, and messages that are invalid here.
    fn on_other(
        &mut self,
        from: SocketAddr,
        message: &Message<'_>,
        now: Time,
        out: &mut Datagrams,
    ) {
        let peer = self
            .endpoint
            .peers
            .find(from, self.endpoint.peers.hash(from));
        if let Some(peer) = peer {
            self.endpoint.peers.touch(peer, now);
        }
        match (message.kind, peer) {
            (Type::Acknowledgement, Some(peer)) => {
                self.on_acknowledgement(peer, message.id, now, out)
            }
            (Type::Reset, Some(peer)) => self.on_reset(peer, message.id, now, out),
            // An unknown peer has nothing to acknowledge.
            (Type::Acknowledgement | Type::Reset, None) => {}
            (Type::Confirmable, _) => {
                // A ping; or a response that was not asked for.
                self.counts.rejected += u64::from(message.code != Code::EMPTY);
                out.push(from, |out| empty(out, Type::Reset, message.id));
            }
            (Type::NonConfirmable, _) => self.counts.rejected += 1,
        }
    }

    fn on_acknowledgement(&mut self, peer: u32, id: u16, now: Time, out: &mut Datagrams) {
        match self.endpoint.answered(peer, id, now, out) {
            Some(Owner::Relation(index)) => {
                let fetching = self.relations.get_mut(index).map_or(NONE, |relation| {
                    relation.confirm(now);
                    relation.fetching
                });
                self.fetch_goes_on(fetching);
                self.has_landed(index);
            }
            Some(Owner::Awaited(awaited)) => self.tell_fate(awaited, true),
            _ => {}
        }
        self.wake(peer, now);
    }

    fn on_reset(&mut self, peer: u32, id: u16, now: Time, out: &mut Datagrams) {
        if let Some(record) = self.endpoint.peers.slots.get_mut(peer)
            && record.asked == Some(id)
        {
            record.asked = None;
            record.proven = true;
            return;
        }
        self.counts.resets += 1;
        match self.endpoint.answered(peer, id, now, out) {
            Some(Owner::Relation(index)) => self.end(index, Some(ObservationEnd::Reset), now, out),
            Some(Owner::Awaited(awaited)) => self.tell_fate(awaited, false),
            Some(_) => {}
            None => {
                if let Some(index) = self.find_relation(peer, |relation| relation.sent(id)) {
                    self.end(index, Some(ObservationEnd::Reset), now, out);
                }
            }
        }
        self.wake(peer, now);
    }

    #[inline]
    fn on_request<'b>(
        &mut self,
        from: SocketAddr,
        message: &Message<'b>,
        datagram: &[u8],
        now: Time,
        out: &mut Datagrams,
    ) -> Option<Event<'b>> {
        let hash = self.endpoint.peers.hash(from);
        let is_confirmable = message.kind == Type::Confirmable;
        let Some(peer) = self.peer(from, hash, now) else {
            self.refuse_stranger(from, message, out);
            return None;
        };
        let name = self.endpoint.peers.name(peer, hash);
        let key = Key {
            peer: name,
            id: message.id,
            fingerprint: self.fingerprint(datagram),
        };
        let asked = Asked {
            from,
            peer,
            key,
            is_confirmable,
            token: message.token,
            unwanted: self.unwanted,
        };
        if self.is_repetition(&asked, now, out) || !self.admit(&asked, now, out) {
            return None;
        }
        if !self.check_options(&asked, message, now, out) {
            return None;
        }
        if let Some(before) = message.options.uint(option::AFTER)
            && !self.has_taken(&asked, before as u16, now)
        {
            self.comes_too_soon(&asked, now, out);
            return None;
        }
        let is_safe = is_safe(message.code);
        let cache_key = key_of(name, message.code, &message.options);
        let mut block1 = None;
        let payload = match self.take_block1(&asked, message, cache_key, &mut block1, now, out) {
            Body::Inline => Cow::Borrowed(message.payload),
            Body::Whole(body) => Cow::Owned(body),
            Body::Answered => return None,
        };
        let block2 = match message.options.uint(option::BLOCK2) {
            Some(value) => match Block::decode(value) {
                Some(block) if block.number > 0 && (!is_safe || self.kept.has(cache_key)) => {
                    self.serve_kept(&asked, cache_key, block, now, out);
                    return None;
                }
                Some(_) => Some(value),
                None => {
                    self.refuse(&asked, Code::BAD_REQUEST, &[], why::BLOCK_OPTION, now, out);
                    return None;
                }
            },
            None => None,
        };
        let observe = message
            .options
            .uint(option::OBSERVE)
            .filter(|_| is_safe)
            .and_then(Observe::decode);
        let mut relation = None;
        if observe.is_some() {
            if observe == Some(Observe::Register) && self.must_prove(peer) {
                self.demand_echo(&asked, now, out);
                return None;
            }
            if let Some(index) =
                self.find_relation(peer, |relation| relation.token == message.token)
            {
                let generation = self.relations.generation(index);
                let cookie = self
                    .relations
                    .get(index)
                    .map_or(0, |relation| relation.cookie);
                relation = Some((RelationId { index, generation }, cookie));
                if observe == Some(Observe::Deregister) {
                    self.end(index, None, now, out);
                }
            }
        }
        let exchange = Exchange {
            peer,
            next: NONE,
            key,
            cache_key,
            relation: NONE,
            relation_generation: 0,
            awaited: NONE,
            block1,
            block2,
            len: datagram.len().min(usize::from(u16::MAX)) as u16,
            token: message.token,
            code: message.code,
            observe,
            no_response: message
                .options
                .uint(option::NO_RESPONSE)
                .map_or(asked.unwanted, |value| {
                    NoResponse::decode(value).and(asked.unwanted)
                }),
            is_confirmable,
            is_acknowledged: false,
        };
        let Some(exchange) = self.open(exchange, now) else {
            self.overloaded(&asked, why::EXCHANGES, OVERLOADED_SECONDS, now, out);
            return None;
        };
        self.counts.requests += 1;
        Some(Event::Request(Request {
            peer: PeerId(peer),
            from,
            exchange,
            code: message.code,
            confirmable: is_confirmable,
            token: message.token,
            options: message.options,
            payload,
            observe,
            relation,
        }))
    }

    /// The record of a peer, perhaps a new one.
    #[inline]
    fn peer(&mut self, from: SocketAddr, hash: u64, now: Time) -> Option<u32> {
        let peers = &mut self.endpoint.peers;
        if let Some(peer) = peers.find(from, hash) {
            peers.touch(peer, now);
            return Some(peer);
        }
        peers.forget_idle(self.settings.peer_idle, now, 2);
        peers.insert(
            from,
            hash,
            self.settings.addresses_are_proven,
            self.settings.peers_max,
            now,
        )
    }

    /// There is no room to know one more peer.
    #[cold]
    fn refuse_stranger(&mut self, from: SocketAddr, message: &Message<'_>, out: &mut Datagrams) {
        self.counts.overloaded += 1;
        if message.kind == Type::Confirmable {
            out.push(from, |out| {
                let code = Code::SERVICE_UNAVAILABLE;
                let mut encoder =
                    Encoder::start(out, Type::Acknowledgement, code, message.id, message.token);
                encoder.uint(option::MAX_AGE, OVERLOADED_SECONDS);
            });
        }
    }

    #[inline]
    fn fingerprint(&self, datagram: &[u8]) -> u32 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(datagram);
        hasher.finish() as u32
    }

    /// Deals with a message that came before. RFC 7252 §4.5
    #[inline]
    fn is_repetition(&mut self, asked: &Asked, now: Time, out: &mut Datagrams) -> bool {
        let first = self
            .endpoint
            .peers
            .slots
            .get(asked.peer)
            .map_or(NONE, |peer| peer.exchanges);
        if first != NONE
            && let Some(exchange) = self.exchanges.find(first, asked.key)
        {
            self.counts.duplicates += 1;
            if self
                .exchanges
                .get(exchange)
                .is_some_and(|e| e.is_confirmable && e.is_acknowledged)
            {
                out.push(asked.from, |out| {
                    empty(out, Type::Acknowledgement, asked.key.id)
                });
            }
            return true;
        }
        let lifetime = if asked.is_confirmable {
            self.exchange_lifetime
        } else {
            self.non_lifetime
        };
        let Some((again, body)) = self.remembered.find(asked.key, lifetime, now) else {
            return false;
        };
        self.counts.duplicates += 1;
        match again {
            Again::Respond(code) => out.push(asked.from, |out| {
                Encoder::start(out, Type::Acknowledgement, code, asked.key.id, asked.token);
                body.iter().for_each(|part| out.extend_from_slice(part));
            }),
            Again::Acknowledge => out.push(asked.from, |out| {
                empty(out, Type::Acknowledgement, asked.key.id)
            }),
            Again::Ignore => {}
        }
        true
    }

    /// Whether the peer's rate allows one more request. RFC 8516
    #[inline]
    fn admit(&mut self, asked: &Asked, now: Time, out: &mut Datagrams) -> bool {
        let rate = self.settings.requests_per_second;
        if rate == 0 {
            return true;
        }
        let each = 1_000_000_000 / u64::from(rate).min(1_000_000_000);
        let burst = Span::from_nanos(each * u64::from(self.settings.request_burst.max(1)));
        let Some(peer) = self.endpoint.peers.slots.get_mut(asked.peer) else {
            return false;
        };
        let next = peer.requests_until.max(now) + Span::from_nanos(each);
        if next.since(now) <= burst {
            peer.requests_until = next;
            return true;
        }
        let wait = next.since(now + burst).secs_ceil().clamp(1, 3600) as u32;
        self.counts.rate_limited += 1;
        if asked.is_confirmable {
            let age = (option::MAX_AGE, Value::Uint(wait));
            self.refuse(
                asked,
                Code::TOO_MANY_REQUESTS,
                &[Some(age)],
                why::RATE,
                now,
                out,
            );
        }
        false
    }

    /// Whether the options can be dealt with; and Echo.
    fn check_options(
        &mut self,
        asked: &Asked,
        message: &Message<'_>,
        now: Time,
        out: &mut Datagrams,
    ) -> bool {
        let refused = message.options.refused(|number| self.understands(number));
        if let Some(number) = refused {
            self.counts.bad_options += 1;
            let code = match number {
                // RFC 7252 §5.10.2
                option::PROXY_URI | option::PROXY_SCHEME => Code::PROXYING_NOT_SUPPORTED,
                _ => Code::BAD_OPTION,
            };
            // A message that is not confirmable is rejected by ignoring it. RFC 7252 §5.4.1
            if asked.is_confirmable {
                self.refuse(asked, code, &[], &why::option(number), now, out);
            }
            return false;
        }
        // 0 is not legal. RFC 8768 §3
        if message.options.uint(option::HOP_LIMIT) == Some(0) {
            self.refuse(asked, Code::BAD_REQUEST, &[], why::HOP_LIMIT, now, out);
            return false;
        }
        if self.is_unproven(asked.peer)
            && let Some(value) = message.options.get(option::ECHO)
            && self.echo.is_valid(value, asked.from, now)
        {
            self.prove(PeerId(asked.peer));
        }
        true
    }

    fn understands(&self, number: u16) -> bool {
        match number {
            0..64 => self.understood & 1 << number != 0,
            option::AFTER => true,
            _ => self.settings.understood_options.contains(&number),
        }
    }

    /// Whether this peer must show where it is before it may observe.
    fn must_prove(&self, peer: u32) -> bool {
        let crowded = || self.endpoint.peers.slots.len() > self.settings.peers_max / 2;
        let wanted = match self.settings.echo_for_observe {
            EchoForObserve::Never => false,
            EchoForObserve::Auto => crowded(),
            EchoForObserve::Always => true,
        };
        wanted && self.is_unproven(peer)
    }

    /// Whether this peer must show that it is where it seems to be before a body of it is gathered: an attacker with invented addresses
    /// could take all places, and one with a peer's address all of the peer's.
    fn must_prove_for_body(&self, asked: &Asked, message: &Message<'_>, now: Time) -> bool {
        let settings = &self.settings;
        if settings.addresses_are_proven || settings.echo_for_observe == EchoForObserve::Never {
            return false;
        }
        let all_are_crowded = self.transfers.len() > settings.transfers_max / 2;
        if all_are_crowded && self.is_unproven(asked.peer) {
            return true;
        }
        let own = self.transfers.count_of(asked.key.peer);
        let shows_echo = || {
            let echo = message.options.get(option::ECHO);
            echo.is_some_and(|value| self.echo.is_valid(value, asked.from, now))
        };
        own > usize::from(settings.transfers_per_peer) / 2 && !shows_echo()
    }

    fn is_unproven(&self, peer: u32) -> bool {
        let peer = self.endpoint.peers.slots.get(peer);
        peer.is_some_and(|peer| !peer.proven)
    }

    /// Takes a block of a request. RFC 7959 §2.3, §2.9
    #[inline]
    fn take_block1(
        &mut self,
        asked: &Asked,
        message: &Message<'_>,
        cache_key: u64,
        block1: &mut Option<u32>,
        now: Time,
        out: &mut Datagrams,
    ) -> Body {
        let Some(value) = message.options.uint(option::BLOCK1) else {
            return Body::Inline;
        };
        let Some(block) = Block::decode(value) else {
            self.refuse(asked, Code::BAD_REQUEST, &[], why::BLOCK_OPTION, now, out);
            return Body::Answered;
        };
        let most = self.settings.transfer_bytes_max;
        let announced = message.options.uint(option::SIZE1).unwrap_or(0) as usize;
        *block1 = Some(
            Block {
                more: false,
                ..block
            }
            .encode(),
        );
        if block.number == 0 && !block.more {
            self.transfers.forget(cache_key);
            return Body::Inline;
        }
        if block.more && message.payload.len() != block.size() {
            self.refuse(asked, Code::BAD_REQUEST, &[], why::BLOCK_SIZE, now, out);
            return Body::Answered;
        }
        if block.number == 0 && self.must_prove_for_body(asked, message, now) {
            self.demand_echo(asked, now, out);
            return Body::Answered;
        }
        let part = Part {
            key: cache_key,
            peer: asked.key.peer,
            offset: block.offset(),
            bytes: message.payload,
            more: block.more,
        };
        let gathered = match announced > most {
            true => Gathered::TooLarge,
            false => self.transfers.gather(part, &self.settings, now),
        };
        let size_exponent = block.size_exponent.min(self.settings.block_exponent_max);
        let own = Some((
            option::BLOCK1,
            Value::Uint(
                Block {
                    size_exponent,
                    ..block
                }
                .encode(),
            ),
        ));
        match gathered {
            Gathered::Whole(body) => return Body::Whole(body),
            // Remembered, because the same block again would not fit behind itself.
            Gathered::More => self.answer(asked, Code::CONTINUE, &[own], &[], true, now, out),
            Gathered::Gap => self.refuse(
                asked,
                Code::REQUEST_ENTITY_INCOMPLETE,
                &[own],
                why::GAP,
                now,
                out,
            ),
            Gathered::TooLarge => {
                let size = Some((
                    option::SIZE1,
                    Value::Uint(most.min(u32::MAX as usize) as u32),
                ));
                self.refuse(
                    asked,
                    Code::REQUEST_ENTITY_TOO_LARGE,
                    &[own, size],
                    &why::too_large(most),
                    now,
                    out,
                );
            }
            Gathered::Crowded => self.overloaded(asked, why::CROWDED, CROWDED_SECONDS, now, out),
            Gathered::Full => self.overloaded(asked, why::TRANSFERS, OVERLOADED_SECONDS, now, out),
        }
        Body::Answered
    }

    /// Whether a message of this peer has been taken: it waits for its answer, or was answered without being refused.
    fn has_taken(&self, asked: &Asked, id: u16, now: Time) -> bool {
        let peer = self.endpoint.peers.slots.get(asked.peer);
        let waiting = peer.map_or(NONE, |peer| peer.exchanges);
        let answer = || {
            self.remembered
                .find_id(asked.key.peer, id, AFTER_WITHIN, now)
        };
        self.exchanges.has_id(waiting, id)
            || match answer() {
                Some(Again::Respond(code)) => code.is_success() && code != Code::CONTINUE,
                Some(Again::Acknowledge | Again::Ignore) => true,
                None => false,
            }
    }

    /// Refuses a message whose predecessor is missing. The refusal is recorded: a late copy of it must not be accepted
    /// after its sender has sent it anew.
    #[cold]
    fn comes_too_soon(&mut self, asked: &Asked, now: Time, out: &mut Datagrams) {
        self.counts.refused += 1;
        let mut payload = Vec::new();
        Encoder::body(&mut payload).payload(why::AFTER.as_bytes());
        self.answer(
            asked,
            Code::PRECONDITION_FAILED,
            &[],
            &payload,
            true,
            now,
            out,
        );
    }

    /// Serves a further block of a response that was kept.
    fn serve_kept(
        &mut self,
        asked: &Asked,
        cache_key: u64,
        block: Block,
        now: Time,
        out: &mut Datagrams,
    ) {
        let is_proven = self
            .endpoint
            .peers
            .slots
            .get(asked.peer)
            .is_some_and(|peer| peer.proven);
        // An unproven address was sent small blocks, and asks for such.
        let most = if is_proven {
            Block::SIZE_EXPONENT_MAX
        } else {
            UNPROVEN_EXPONENT_MAX
        };
        let exponent = block
            .size_exponent
            .min(self.settings.block_exponent_max)
            .min(most);
        let number = block.number << (block.size_exponent - exponent);
        let mut bytes = self.endpoint.buffer();
        let mut is_last = false;
        let code = self
            .kept
            .get(cache_key, asked.token, now)
            .and_then(|(kept, is_newest)| {
                kept.with_parts(|options, payload| {
                    let cut = Cut::part(payload, number, exponent)?;
                    is_last = is_newest && cut.block.is_none_or(|block| !block.more);
                    let mut tag = [0; 8];
                    let has_tag = options.iter().any(|(number, _)| *number == option::ETAG);
                    let own = [
                        (!has_tag)
                            .then(|| (option::ETAG, Value::Opaque(etag_of(payload, &mut tag)))),
                        cut.block
                            .map(|block| (option::BLOCK2, Value::Uint(block.encode()))),
                    ];
                    let mut encoder = Encoder::body(&mut bytes);
                    for (number, value) in merged(options, &own) {
                        put(&mut encoder, number, value);
                    }
                    encoder.payload(cut.bytes);
                    Some(kept.code())
                })
            });
        match code {
            Some(code) => self.answer(asked, code, &[], &bytes, false, now, out),
            None => self.refuse(
                asked,
                Code::REQUEST_ENTITY_INCOMPLETE,
                &[],
                why::NOT_KEPT,
                now,
                out,
            ),
        }
        self.endpoint.give_back(bytes);
        match self.kept.awaited(cache_key) {
            NONE => {}
            awaited if is_last => self.body_fetched(awaited),
            awaited => self.fetch_goes_on(awaited),
        }
    }
}
