//! The server's end of a connection with its requests: those that wait for a response, observations, and bodies in
//! blocks. Counterpart of the message layer of datagrams. §5.4, §6, §7

mod blocks;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::quality::FixedState;
use hashbrown::HashMap;
use thalweg_wire::{Span, Time};

use super::reply::{Extent, Reply};
use super::{Event, NotSent, PeerFault, ServerSide, StreamMessage, StreamSettings};
use crate::blockwise::{KeptBody, KeptResponses, Transfers, key_of};
use crate::observe::SEQUENCE;
use crate::outgoing::{merged, put};
use crate::why;
use crate::{
    Block, Code, Encoder, ExchangeId, NoResponse, Notified, Observe, ObserveRefused, OptionOut,
    Options, RelationId, Response, ServerSettings, SharedBody, Token, Value, option,
};

/// A message on a connection that concerns the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEvent<'b> {
    /// A request: [`Requests::respond`] to it now or later.
    Request(StreamRequest<'b>),
    /// The client has sent its CSM; requests may follow.
    Opened,
    /// The client has got the response of [`Requests::respond_confirmed`] that has this cookie.
    Confirmed {
        /// The application's identifier of the observation.
        cookie: u64,
    },
    /// The client asks to end the connection: close it when [`Requests::is_done`].
    Released,
    /// The client has ended the connection, and said why.
    Aborted {
        /// In words for a person.
        diagnostic: &'b [u8],
    },
    /// Nothing that the application would have to do with.
    Nothing,
}

/// A request on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamRequest<'b> {
    /// Names the exchange when it is answered.
    pub exchange: ExchangeId,
    /// The method, which may be unknown.
    pub code: Code,
    /// Its options; of a request in blocks, those of its last block.
    pub options: Options<'b>,
    /// Its payload, put together if it came in blocks.
    pub payload: Cow<'b, [u8]>,
    /// Observe option of the request.
    pub observe: Option<Observe>,
    /// The application's identifier of an observation that had this token. It has ended.
    pub ended: Option<u64>,
}

/// The server's end of one connection: bytes in, events out; verbs append bytes to the caller's buffer.
///
/// [`ServerSettings`] say what holds for its requests, as far as it has to do with streams: options that are understood,
/// rates, blocks, observations of a peer, and how long an answer may take.
#[derive(Debug)]
pub struct Requests {
    settings: Arc<ServerSettings>,
    machine: ServerSide,
    /// Seed of the cache keys.
    seed: u64,
    /// Those that wait for an answer, by number; numbers rise.
    exchanges: HashMap<u64, Exchange, FixedState>,
    /// Observations by number, and their numbers by token.
    relations: HashMap<u64, Relation, FixedState>,
    by_token: HashMap<Token, u64, FixedState>,
    /// The last number of an exchange or an observation.
    number: u64,
    /// When exchanges must be looked at; may be early.
    look_at: Time,
    transfers: Transfers,
    /// Requests in blocks may take more memory.
    may_gather: bool,
    kept: KeptResponses,
    /// Kept responses that are to be confirmed when their last block has left: key and cookie.
    to_confirm: Vec<(u64, u64)>,
    /// Our unanswered Pings: cookies of the responses before them, or 0.
    pinged: VecDeque<u64>,
    /// Pings whose Pong waits for all exchanges up to a number.
    pings: VecDeque<(u64, Token)>,
    /// Until when the requests that came use the client's rate up.
    requests_until: Time,
    refused: u32,
    failed: u32,
    is_released: bool,
}

/// A request that waits for its answer.
#[derive(Debug)]
struct Exchange {
    token: Token,
    code: Code,
    observe: Option<Observe>,
    no_response: NoResponse,
    relation: Option<u64>,
    block1: Option<Block>,
    block2: Option<Block>,
    /// Key by which requests for further blocks are recognized.
    key: u64,
    /// When it is answered with 5.03.
    until: Time,
}

#[derive(Debug)]
struct Relation {
    token: Token,
    cookie: u64,
    /// The number of the last notification.
    sequence: u32,
    /// The blocks that the observer asked for.
    block2: Option<Block>,
}

impl Relation {
    fn advance(&mut self) -> u32 {
        self.sequence = (self.sequence + 1) & SEQUENCE;
        self.sequence
    }
}

/// Result of handling Block1.
enum Body<'b> {
    /// This is the whole payload.
    Whole(Cow<'b, [u8]>),
    /// The block has been answered.
    Answered,
}

/// Pings that may wait; further ones are answered at once, without Custody.
const PINGS_MAX: usize = 16;

impl Requests {
    /// A connection that waits for CSM. `seed` is the key of hashes; it must be secret.
    pub fn new(settings: Arc<ServerSettings>, stream: StreamSettings, seed: u64) -> Requests {
        let hasher = FixedState::with_seed(seed);
        Requests {
            settings,
            machine: ServerSide::new(stream),
            exchanges: HashMap::with_hasher(hasher.clone()),
            relations: HashMap::with_hasher(hasher.clone()),
            by_token: HashMap::with_hasher(hasher),
            seed,
            number: 0,
            look_at: Time::NEVER,
            transfers: Transfers::default(),
            may_gather: true,
            kept: KeptResponses::default(),
            to_confirm: Vec::new(),
            pinged: VecDeque::new(),
            pings: VecDeque::new(),
            requests_until: Time::ZERO,
            refused: 0,
            failed: 0,
            is_released: false,
        }
    }

    /// Requests that were answered without the application: with 4.xx, and with 5.xx.
    pub fn errors(&self) -> (u32, u32) {
        (self.refused, self.failed)
    }

    /// Whether the client's CSM came and the connection has not ended.
    pub fn is_open(&self) -> bool {
        self.machine.is_open()
    }

    /// Whether the client has asked for the end, and everything is answered.
    pub fn is_done(&self) -> bool {
        self.is_released && self.exchanges.is_empty()
    }

    /// Whether the client has asked for the end.
    pub fn is_released(&self) -> bool {
        self.is_released
    }

    /// Number of requests that wait for a response.
    pub fn waiting(&self) -> usize {
        self.exchanges.len()
    }

    /// Number of current observations.
    pub fn relations(&self) -> usize {
        self.relations.len()
    }

    /// The next message out of `bytes`; as [`ServerSide::handle_input`].
    pub fn handle_input<'b>(
        &mut self,
        bytes: &'b [u8],
        now: Time,
        out: &mut Vec<u8>,
    ) -> Result<Option<(usize, StreamEvent<'b>)>, PeerFault> {
        let Some((consumed, event)) = self.machine.handle_input(bytes)? else {
            return Ok(None);
        };
        let event = match event {
            Event::Request(message) => self
                .on_request(message, now, out)
                .map_or(StreamEvent::Nothing, StreamEvent::Request),
            Event::Csm(_) => {
                self.machine.open(out);
                StreamEvent::Opened
            }
            Event::Ping { token, custody } => {
                self.on_ping(token, custody, out);
                StreamEvent::Nothing
            }
            Event::Pong { token, .. } => match self.on_pong(token) {
                Some(cookie @ 1..) => StreamEvent::Confirmed { cookie },
                _ => StreamEvent::Nothing,
            },
            Event::Release(_) => {
                self.is_released = true;
                StreamEvent::Released
            }
            Event::Abort(abort) => StreamEvent::Aborted {
                diagnostic: abort.diagnostic,
            },
            Event::Ignored => StreamEvent::Nothing,
        };
        Ok(Some((consumed, event)))
    }

    fn on_request<'b>(
        &mut self,
        message: StreamMessage<'b>,
        now: Time,
        out: &mut Vec<u8>,
    ) -> Option<StreamRequest<'b>> {
        if !self.check(&message, now, out) {
            return None;
        }
        let StreamMessage {
            code,
            token,
            options,
            ..
        } = message;
        let block2 = match options.uint(option::BLOCK2) {
            None => None,
            Some(value) => match Block::decode_bert(value) {
                Some(block) => Some(block),
                None => {
                    self.answer(&message, Code::BAD_REQUEST, &[], why::BLOCK_OPTION, out);
                    return None;
                }
            },
        };
        let is_further = block2.is_some_and(|block| block.number > 0);
        let is_safe = code == Code::GET || code == Code::FETCH;
        let key = key_of(0, code, &options);
        let (block1, payload) = match self.take_block1(&message, key, now, out) {
            (block1, Body::Whole(payload)) => (block1, payload),
            (_, Body::Answered) => return None,
        };
        if is_further
            && let Some(block) = block2
            && self.serve_kept(&message, is_safe, key, block, now, out)
        {
            return None;
        }
        // Some say Observe again in requests for further blocks; these neither begin nor end anything.
        let observe = options
            .uint(option::OBSERVE)
            .filter(|_| is_safe && !is_further)
            .and_then(Observe::decode);
        let ended = match observe {
            Some(_) => self
                .by_token
                .get(&token)
                .copied()
                .and_then(|number| self.end(number)),
            None => None,
        };
        self.number += 1;
        let exchange = Exchange {
            token,
            code,
            observe,
            no_response: no_response(&options),
            relation: None,
            block1,
            block2,
            key,
            until: now + self.settings.answer_within,
        };
        self.look_at = self.look_at.min(exchange.until);
        self.exchanges.insert(self.number, exchange);
        Some(StreamRequest {
            exchange: exchange_id(self.number),
            code,
            options,
            payload,
            observe,
            ended: ended.map(|relation| relation.cookie),
        })
    }

    /// Whether a request may be carried out, by its options and the client's rate.
    #[inline]
    fn check(&mut self, message: &StreamMessage<'_>, now: Time, out: &mut Vec<u8>) -> bool {
        if let Some(wait) = self.over_rate(now) {
            let age = (
                option::MAX_AGE,
                Value::Uint(wait.secs_ceil().clamp(1, 3600) as u32),
            );
            self.answer(
                message,
                Code::TOO_MANY_REQUESTS,
                &[Some(age)],
                why::RATE,
                out,
            );
            return false;
        }
        let understood = &self.settings.understood_options;
        let understands = |number| {
            matches!(number, option::BLOCK1 | option::BLOCK2) || understood.contains(&number)
        };
        let refusal = match message.options.refused(understands) {
            // RFC 7252 §5.10.2
            Some(number @ (option::PROXY_URI | option::PROXY_SCHEME)) => (
                Code::PROXYING_NOT_SUPPORTED,
                Cow::Owned(why::option(number)),
            ),
            Some(number) => (Code::BAD_OPTION, Cow::Owned(why::option(number))),
            // RFC 8768 §3
            None if message.options.uint(option::HOP_LIMIT) == Some(0) => {
                (Code::BAD_REQUEST, Cow::Borrowed(why::HOP_LIMIT))
            }
            None => return true,
        };
        let (code, why) = refusal;
        self.answer(message, code, &[], &why, out);
        false
    }

    /// Pause for a client that exceeds its request rate; `None` if it does not. RFC 8516
    #[inline]
    fn over_rate(&mut self, now: Time) -> Option<Span> {
        let rate = u64::from(self.settings.requests_per_second);
        if rate == 0 {
            return None;
        }
        let each = 1_000_000_000 / rate.min(1_000_000_000);
        let burst = Span::from_nanos(each * u64::from(self.settings.request_burst.max(1)));
        let next = self.requests_until.max(now) + Span::from_nanos(each);
        if next.since(now) <= burst {
            self.requests_until = next;
            return None;
        }
        Some(next.since(now + burst))
    }

    /// Answers a request without the application; `why`: the diagnostic payload of an error. RFC 7252 §5.5.2
    fn answer(
        &mut self,
        message: &StreamMessage<'_>,
        code: Code,
        options: &[Option<OptionOut<'_>>],
        why: &str,
        out: &mut Vec<u8>,
    ) {
        match code.class() {
            4 => self.refused = self.refused.wrapping_add(1),
            5 => self.failed = self.failed.wrapping_add(1),
            _ => {}
        }
        if !no_response(&message.options).suppresses(code) {
            let write = |encoder: &mut Encoder<'_>| {
                options
                    .iter()
                    .flatten()
                    .for_each(|(number, value)| put(encoder, *number, *value));
            };
            let said = self
                .machine
                .respond(message.token, code, write, why.as_bytes(), out);
            if said.is_err() {
                // Without words it is as small as a message can be: every peer takes that.
                let _ = self.machine.respond(message.token, code, write, &[], out);
            }
        }
    }

    /// Answers a request. Says whether it still waited.
    pub fn respond(
        &mut self,
        exchange: ExchangeId,
        response: &Response<'_>,
        now: Time,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(exchange) = self.exchanges.remove(&number_of(exchange)) else {
            return false;
        };
        self.say(&exchange, response, now, out);
        self.end_exchange(out);
        true
    }

    /// Answers a request and asks for a sign that the answer has arrived: [`StreamEvent::Confirmed`] with this cookie, which
    /// is not 0. The client has got it when it answers a Ping behind it. False if the answer is not awaited.
    pub fn respond_confirmed(
        &mut self,
        exchange: ExchangeId,
        cookie: u64,
        response: &Response<'_>,
        now: Time,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(exchange) = self.exchanges.remove(&number_of(exchange)) else {
            return false;
        };
        let is_wanted = !exchange.no_response.suppresses(response.code);
        let said = if is_wanted {
            self.say(&exchange, response, now, out)
        } else {
            Extent::Nothing
        };
        match said {
            Extent::Whole => self.ping(cookie, out),
            Extent::Part => {
                // Of two responses to the same request only the later has further blocks.
                self.to_confirm.retain(|(key, _)| *key != exchange.key);
                self.keep(exchange.key, response, now);
                self.to_confirm.push((exchange.key, cookie));
            }
            Extent::Nothing => {}
        }
        self.end_exchange(out);
        said != Extent::Nothing
    }

    /// The answer of a request will take long; the caller bounds how long.
    pub fn respond_later(&mut self, exchange: ExchangeId) {
        if let Some(exchange) = self.exchanges.get_mut(&number_of(exchange)) {
            exchange.until = Time::NEVER;
        }
    }

    fn say(
        &mut self,
        exchange: &Exchange,
        response: &Response<'_>,
        now: Time,
        out: &mut Vec<u8>,
    ) -> Extent {
        let observe = match exchange.relation {
            Some(relation) if response.code.is_success() => {
                self.relations.get_mut(&relation).map(Relation::advance)
            }
            Some(relation) => {
                self.end(relation);
                None
            }
            None => None,
        };
        if exchange.no_response.suppresses(response.code) {
            return Extent::Nothing;
        }
        let reply = Reply {
            token: exchange.token,
            code: response.code,
            options: response.options,
            observe,
            block1: exchange.block1,
            block2: exchange.block2,
            payload: response.payload,
        };
        let said = reply.say(&mut self.machine, self.settings.block_exponent_max, out);
        let is_safe = exchange.code == Code::GET || exchange.code == Code::FETCH;
        if said == Extent::Part && !is_safe {
            self.keep(exchange.key, response, now);
        }
        said
    }

    /// Keeps a response for further blocks, because its request must not be carried out again.
    fn keep(&mut self, key: u64, response: &Response<'_>, now: Time) {
        let mut options = Vec::new();
        let mut encoder = Encoder::body(&mut options);
        for (number, value) in merged(response.options, &[]) {
            put(&mut encoder, number, value);
        }
        let body = KeptBody::Response {
            code: response.code,
            options,
            payload: response.payload.to_vec(),
        };
        self.kept.insert(key, body, &self.settings, now);
    }

    /// Accepts the observation that this request asked for; `respond` to it with 2.05 or 2.03 is the first notification.
    pub fn observe(
        &mut self,
        exchange: ExchangeId,
        cookie: u64,
    ) -> Result<RelationId, ObserveRefused> {
        let exchange = self
            .exchanges
            .get_mut(&number_of(exchange))
            .ok_or(ObserveRefused::NotAsked)?;
        if exchange.observe != Some(Observe::Register) {
            return Err(ObserveRefused::NotAsked);
        }
        if self.relations.len() >= usize::from(self.settings.relations_per_peer) {
            return Err(ObserveRefused::TooManyOfPeer);
        }
        self.number += 1;
        let number = self.number;
        exchange.relation = Some(number);
        let (token, block2) = (exchange.token, exchange.block2);
        if let Some(before) = self.by_token.insert(token, number) {
            self.relations.remove(&before);
        }
        self.relations.insert(
            number,
            Relation {
                token,
                cookie,
                sequence: 0,
                block2,
            },
        );
        Ok(RelationId::from_number(number))
    }

    /// The application's identifier of an observation; `None` if it does not exist.
    pub fn cookie(&self, relation: RelationId) -> Option<u64> {
        self.relations
            .get(&relation.number())
            .map(|relation| relation.cookie)
    }

    /// Tells an observer of a new state.
    pub fn notify(
        &mut self,
        relation: RelationId,
        body: &SharedBody,
        out: &mut Vec<u8>,
    ) -> Notified {
        let Some(relation) = self.relations.get_mut(&relation.number()) else {
            return Notified::Gone;
        };
        let (token, block2, sequence) = (relation.token, relation.block2, relation.advance());
        self.notify_at(token, block2, Some(sequence), body, out);
        Notified::Sent { confirmable: false }
    }

    /// Ends an observation, with a last word or without one.
    pub fn end_observation(
        &mut self,
        relation: RelationId,
        last: Option<&SharedBody>,
        out: &mut Vec<u8>,
    ) {
        if let (Some(relation), Some(last)) = (self.end(relation.number()), last) {
            self.notify_at(relation.token, relation.block2, None, last, out);
        }
    }

    fn notify_at(
        &mut self,
        token: Token,
        block2: Option<Block>,
        observe: Option<u32>,
        body: &SharedBody,
        out: &mut Vec<u8>,
    ) {
        if !body.is_large() {
            let exponent = block2.map_or(Block::SIZE_EXPONENT_MAX, |block| block.size_exponent);
            let write = |out: &mut Vec<u8>| body.write(observe, exponent, out);
            match self
                .machine
                .respond_encoded(token, body.code(), body.bytes(), write, out)
            {
                Err(NotSent::TooLarge { .. }) => {}
                Ok(()) | Err(_) => return,
            }
        }
        let most = self.settings.block_exponent_max;
        body.with_parts(|options, payload| {
            // A Block2 of number 0 says how large blocks are to be.
            let block2 = block2
                .filter(|block| block.size_exponent < Block::BERT && payload.len() > block.size());
            let reply = Reply {
                token,
                code: body.code(),
                options,
                observe,
                block1: None,
                block2,
                payload,
            };
            reply.say(&mut self.machine, most, out);
        });
    }

    fn end(&mut self, relation: u64) -> Option<Relation> {
        let relation = self.relations.remove(&relation)?;
        self.by_token.remove(&relation.token);
        Some(relation)
    }

    /// Asks for a sign that everything so far has arrived.
    fn ping(&mut self, cookie: u64, out: &mut Vec<u8>) {
        self.pinged.push_back(cookie);
        self.machine
            .ping(Token::from_number(cookie), cookie != 0, out);
    }

    /// Finds the Ping that a Pong answers. libcoap's Pongs have no token, against §5.4: they come in the order of the
    /// Pings.
    fn on_pong(&mut self, token: Token) -> Option<u64> {
        let at = match token.number()? {
            0 => 0,
            cookie => self.pinged.iter().position(|pinged| *pinged == cookie)?,
        };
        self.pinged.remove(at)
    }

    /// A Ping is answered at once, unless it asks whether everything before it has been dealt with. §5.4.1
    fn on_ping(&mut self, token: Token, custody: bool, out: &mut Vec<u8>) {
        if custody && !self.exchanges.is_empty() && self.pings.len() < PINGS_MAX {
            return self.pings.push_back((self.number, token));
        }
        self.machine
            .pong(token, custody && self.exchanges.is_empty(), out);
    }

    /// An exchange has ended: answers Pings before which everything is answered now.
    #[inline]
    fn end_exchange(&mut self, out: &mut Vec<u8>) {
        if self.exchanges.is_empty() {
            self.look_at = Time::NEVER;
        }
        while let Some((last, token)) = self.pings.front().copied() {
            if self.exchanges.keys().any(|number| *number <= last) {
                return;
            }
            self.pings.pop_front();
            self.machine.pong(token, true, out);
        }
    }

    /// When something will be due; [`Time::NEVER`] if nothing will.
    pub fn poll_timeout(&self) -> Time {
        self.look_at
            .min(self.transfers.next())
            .min(self.kept.next())
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time, out: &mut Vec<u8>) {
        self.transfers.forget_old(self.settings.transfer_idle, now);
        self.kept.forget_old(self.settings.transfer_idle, now);
        if now < self.look_at {
            return;
        }
        let due = self
            .exchanges
            .iter()
            .filter(|(_, exchange)| exchange.until <= now);
        let due: Vec<u64> = due.map(|(number, _)| *number).collect();
        for number in due {
            self.failed = self.failed.wrapping_add(1);
            let payload = why::LATE.as_bytes();
            let late = Response {
                code: Code::SERVICE_UNAVAILABLE,
                options: &[],
                payload,
            };
            self.respond(exchange_id(number), &late, now, out);
        }
        self.look_at = self
            .exchanges
            .values()
            .map(|exchange| exchange.until)
            .min()
            .unwrap_or(Time::NEVER);
    }

    /// Asks whether the client is there; whatever it says then is an answer.
    pub fn ask_for_life(&mut self, out: &mut Vec<u8>) {
        self.ping(0, out);
    }

    /// As [`ServerSide::release`].
    pub fn release(&mut self, hold_off_seconds: Option<u32>, out: &mut Vec<u8>) {
        self.machine.release(&[], hold_off_seconds, out);
    }

    /// As [`ServerSide::abort`].
    pub fn abort(&mut self, diagnostic: &str, out: &mut Vec<u8>) {
        self.machine.abort(diagnostic, out);
    }

    /// As [`ServerSide::fault`].
    pub fn fault(&mut self, fault: &PeerFault, out: &mut Vec<u8>) {
        self.machine.fault(fault, out);
    }
}

fn no_response(options: &Options<'_>) -> NoResponse {
    options
        .uint(option::NO_RESPONSE)
        .map_or(NoResponse::NONE, NoResponse::decode)
}

fn exchange_id(number: u64) -> ExchangeId {
    ExchangeId {
        index: number as u32,
        generation: (number >> 32) as u32,
    }
}

fn number_of(exchange: ExchangeId) -> u64 {
    u64::from(exchange.generation) << 32 | u64::from(exchange.index)
}
