//! The client's end of all conversations over one datagram socket.

mod event;
mod order;
mod pending;
mod receive;
mod send;
mod settings;

use core::net::SocketAddr;
use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::quality::FixedState;
use hashbrown::HashMap;
use thalweg_wire::{Span, Time};

pub use event::*;
pub use settings::ClientSettings;

use self::pending::{Pending, Phase};
use self::send::Say;
use crate::dedup::Remembered;
use crate::endpoint::{Content, Due, Endpoint, Owner};
use crate::outgoing::put;
use crate::slots::{NONE, Slots};
use crate::timers::TimerKind;
use crate::{Block, Code, Datagrams, Encoder, OptionOut, Token, Type};

/// The client's end of all conversations over one datagram socket: requests go out, responses and notifications come
/// in; block-wise transfers both ways and repetitions are the machine's.
///
/// Call [`ClientSide::poll_event`] until nothing comes after each call of `handle_datagram` and `handle_timeout`.
#[derive(Debug)]
pub struct ClientSide {
    settings: Arc<ClientSettings>,
    endpoint: Endpoint,
    requests: Slots<Pending>,
    tokens: HashMap<Token, u32, FixedState>,
    /// Responses that were acknowledged: the acknowledgement may be lost, and the request has ended.
    acknowledged: Remembered,
    hasher: FixedState,
    notices: VecDeque<ClientNotice>,
    telling: Telling,
}

/// Tells apart messages without an answer that have the same id: there are 65,536 ids, and a receiver takes one that comes
/// again within NON_LIFETIME with the same bytes for a repetition. RFC 7252 §4.5
#[derive(Debug, Default)]
struct Telling {
    /// Number of messages sent in this round.
    count: u32,
    round: u8,
    began: Time,
}

impl Telling {
    /// None in the first round, and in all that begin late enough; else the number of the round.
    fn token(&mut self, lifetime: Span, now: Time) -> Token {
        if self.count >= IDS_OF_A_ROUND {
            let is_late = now.since(self.began) > lifetime;
            self.round = if is_late {
                0
            } else {
                self.round.checked_add(1).unwrap_or(1)
            };
            self.count = 0;
        }
        if self.count == 0 {
            self.began = now;
        }
        self.count += 1;
        Token::from_number(self.round.into())
    }
}

/// Fewer than there are ids, since some are of confirmable messages.
const IDS_OF_A_ROUND: u32 = 60_000;

impl ClientSide {
    /// A machine without peers. `seed` chooses message ids and tokens; it must be secret.
    pub fn new(settings: Arc<ClientSettings>, seed: u64) -> Self {
        let transmission = settings.transmission.clone();
        let mut endpoint = Endpoint::new(transmission, settings.waiting_per_peer, usize::MAX, seed);
        let hasher = FixedState::with_seed(endpoint.throw());
        ClientSide {
            settings,
            endpoint,
            requests: Slots::default(),
            tokens: HashMap::with_hasher(hasher.clone()),
            acknowledged: Remembered::default(),
            hasher,
            notices: VecDeque::new(),
            telling: Telling::default(),
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> &Arc<ClientSettings> {
        &self.settings
    }

    /// Sends a request, or queues it behind others to the same peer.
    pub fn request(
        &mut self,
        to: SocketAddr,
        request: &RequestOut<'_>,
        now: Time,
        out: &mut Datagrams,
    ) -> Result<RequestId, RequestRefused> {
        self.request_after(to, request, None, now, out)
    }

    /// As [`ClientSide::request`], of a peer that understands [`option::AFTER`]: it takes this one after `before`, which goes
    /// to the same peer, has nothing behind it, and need not have been answered. Both are confirmable. If `before` is not
    /// taken, this one fails by [`Failure::Order`].
    pub fn request_after(
        &mut self,
        to: SocketAddr,
        request: &RequestOut<'_>,
        before: Option<RequestId>,
        now: Time,
        out: &mut Datagrams,
    ) -> Result<RequestId, RequestRefused> {
        let size_exponent = self
            .settings
            .block_exponent_max
            .min(Block::SIZE_EXPONENT_MAX);
        let mut options = self.endpoint.buffer();
        let mut encoder = Encoder::body(&mut options);
        for (number, value) in request.options {
            put(&mut encoder, *number, *value);
        }
        if request.payload.len() >> (size_exponent + 4) > Block::NUMBER_MAX as usize
            || options.len() > OPTIONS_BYTES_MAX
        {
            return Err(RequestRefused::TooLarge);
        }
        let peer = self.peer(to, now)?;
        if !request.confirmable {
            self.probe(peer, 16 + options.len() + request.payload.len(), now)?;
        }
        let mut pending = Pending::new(
            peer,
            to,
            self.fresh_token(),
            request.code,
            Phase::ExpectResponse,
        );
        pending.is_confirmable = request.confirmable;
        pending.wants_observe = request.observe;
        pending.options = options;
        pending.payload = self.endpoint.buffer();
        pending.payload.extend_from_slice(request.payload);
        pending.size_exponent = size_exponent;
        let index = self.begin(pending);
        self.put_behind(index, before);
        if !self.say(index, Say::Request, now, out) {
            self.end(index, now, out);
            return Err(RequestRefused::TooMany);
        }
        Ok(self.id_of(index))
    }

    /// Sends a message that needs no response: non-confirmable, without a token as long as there are ids, and not
    /// tracked afterwards. `options` ought to have No-Response. Writes one datagram to `out`, addressed to `to`. A
    /// response that comes all the same is ignored.
    ///
    /// `Err(Probing)`: so many bytes were sent without a sign of life that the peer must answer first; a ping asks for
    /// that.
    pub fn tell(
        &mut self,
        to: SocketAddr,
        code: Code,
        options: &[OptionOut<'_>],
        payload: &[u8],
        now: Time,
        out: &mut Vec<u8>,
    ) -> Result<(), RequestRefused> {
        if payload.len()
            > 16 << self
                .settings
                .block_exponent_max
                .min(Block::SIZE_EXPONENT_MAX)
        {
            return Err(RequestRefused::TooLarge);
        }
        let start = out.len();
        let peer = self.peer(to, now)?;
        let id = self.endpoint.next_id(peer);
        let token = self
            .telling
            .token(self.settings.transmission.non_lifetime(), now);
        let mut encoder = Encoder::start(out, Type::NonConfirmable, code, id, token);
        for (number, value) in options {
            put(&mut encoder, *number, *value);
        }
        encoder.payload(payload);
        let probed = self.probe(peer, out.len() - start, now);
        if probed.is_err() {
            out.truncate(start);
        }
        probed
    }

    /// Bytes sent to this peer since its last datagram, by `tell` and in requests that are not confirmable.
    pub fn unanswered(&self, to: SocketAddr) -> u32 {
        let peers = &self.endpoint.peers;
        let peer = peers
            .find(to, peers.hash(to))
            .and_then(|peer| peers.slots.get(peer));
        peer.map_or(0, |peer| peer.unanswered)
    }

    /// Pings a peer: an empty confirmable message, for which the answer is a reset.
    pub fn ping(
        &mut self,
        to: SocketAddr,
        now: Time,
        out: &mut Datagrams,
    ) -> Result<RequestId, RequestRefused> {
        let peer = self.peer(to, now)?;
        let token = self.fresh_token();
        let index = self.begin(Pending::new(
            peer,
            to,
            token,
            Code::EMPTY,
            Phase::ExpectPong,
        ));
        let id = self.endpoint.next_id(peer);
        let Some(sending) =
            self.endpoint
                .send(peer, id, Owner::Request(index), Content::Empty, now, out)
        else {
            self.end(index, now, out);
            return Err(RequestRefused::TooMany);
        };
        if let Some(pending) = self.requests.get_mut(index) {
            (pending.sending, pending.id) = (sending, id);
        }
        Ok(self.id_of(index))
    }

    /// Ends a request or an observation.
    pub fn cancel(&mut self, request: RequestId, how: Cancel, now: Time, out: &mut Datagrams) {
        let Some(pending) = self.requests.get_of(request.index, request.generation) else {
            return;
        };
        let observes = pending.wants_observe && pending.phase != Phase::ExpectEnd;
        if how == Cancel::Forget || !observes {
            self.end(request.index, now, out);
            return;
        }
        if let Some(pending) = self.requests.get_mut(request.index) {
            pending.phase = Phase::ExpectEnd;
        }
        self.go_on(request.index, Say::Deregister, now, out);
    }

    /// Whether a response or a notification is being fetched in blocks.
    pub fn is_gathering(&self, request: RequestId) -> bool {
        self.requests
            .get_of(request.index, request.generation)
            .is_some_and(|pending| pending.is_gathering)
    }

    /// Makes every notification of this observation count, not only the newest state. When it is registered again and
    /// the server continues it, the answer's state does not outdate notifications that are still to come, and is not
    /// reported.
    pub fn keep_all(&mut self, request: RequestId) {
        if self
            .requests
            .get_of(request.index, request.generation)
            .is_some()
            && let Some(pending) = self.requests.get_mut(request.index)
        {
            pending.keeps_all = true;
        }
    }

    /// Registers an observation again, with the same token. RFC 7641 §3.3.1
    pub fn register_again(&mut self, request: RequestId, now: Time, out: &mut Datagrams) {
        let found = self.requests.get_of(request.index, request.generation);
        if found.is_some_and(|pending| pending.phase == Phase::Observing) {
            self.go_on(request.index, Say::Request, now, out);
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time, out: &mut Datagrams) {
        if self.endpoint.timers.are_many() {
            let mut timers = std::mem::take(&mut self.endpoint.timers);
            timers.tidy(|timer| match timer.kind {
                TimerKind::Sending => timer.is_of(self.endpoint.sendings.generation(timer.index)),
                _ => timer.is_of(self.requests.generation(timer.index)),
            });
            self.endpoint.timers = timers;
        }
        while let Some(timer) = self.endpoint.timers.pop(now) {
            let index = timer.index;
            match timer.kind {
                TimerKind::Sending if timer.is_of(self.endpoint.sendings.generation(index)) => {
                    if let Due::GivenUp {
                        owner: Owner::Request(index),
                        ..
                    } = self.endpoint.due(index, now, out)
                    {
                        if let Some(pending) = self.requests.get_mut(index) {
                            pending.sending = NONE;
                        }
                        self.fail(index, Failure::Unacknowledged, now, out);
                    }
                }
                TimerKind::Request if timer.is_of(self.requests.generation(index)) => {
                    self.waited(index, now, out)
                }
                _ => {}
            }
        }
        self.acknowledged
            .forget_old(self.settings.transmission.exchange_lifetime(), now, 1024);
    }

    /// When something will be due; [`Time::NEVER`] if nothing will.
    pub fn poll_timeout(&self) -> Time {
        self.endpoint.timers.next()
    }

    /// Returns the next event that no datagram reports.
    pub fn poll_event(&mut self) -> Option<ClientNotice> {
        self.notices.pop_front()
    }

    /// Number of requests and observations.
    pub fn requests(&self) -> usize {
        self.requests.len()
    }

    /// Number of confirmable messages sent, without repetitions.
    pub fn confirmable(&self) -> u64 {
        self.endpoint.counts.confirmable
    }

    /// The last round trip that was measured since this was asked: of a message that was answered before it was repeated.
    pub fn take_round_trip(&mut self) -> Option<Span> {
        self.endpoint.sample.take()
    }

    /// Number of confirmable messages that were acknowledged or rejected.
    pub fn answered(&self) -> u64 {
        self.endpoint.counts.answered
    }

    /// From now on so many confirmable messages to one peer are in flight at a time, instead of `Transmission::nstart`.
    pub fn set_nstart(&mut self, nstart: u8) {
        self.endpoint.transmission.nstart = nstart;
    }

    /// Number of repetitions sent.
    pub fn retransmissions(&self) -> u64 {
        self.endpoint.counts.retransmissions
    }

    /// The timer of a request came up.
    fn waited(&mut self, index: u32, now: Time, out: &mut Datagrams) {
        let Some(pending) = self.requests.get_mut(index) else {
            return;
        };
        let deadline = pending.deadline;
        pending.timer_at = Time::NEVER;
        match pending.phase {
            _ if deadline == Time::NEVER => {}
            // While a message is in flight its own timer decides.
            Phase::Observing if pending.sending != NONE => {
                self.wait_until(index, now + self.settings.transmission.ack_timeout);
            }
            _ if pending.sending != NONE => {}
            _ if deadline > now => self.wait_until(index, deadline),
            Phase::Observing => {
                self.forget_fetch(index);
                self.go_on(index, Say::Request, now, out);
            }
            _ => self.fail(index, Failure::NoResponse, now, out),
        }
    }

    fn begin(&mut self, pending: Pending) -> u32 {
        let (peer, token) = (pending.peer, pending.token);
        let index = self.requests.insert(pending);
        self.tokens.insert(token, index);
        if let Some(peer) = self.endpoint.peers.slots.get_mut(peer) {
            peer.exchange_count = peer.exchange_count.saturating_add(1);
        }
        index
    }

    fn peer(&mut self, to: SocketAddr, now: Time) -> Result<u32, RequestRefused> {
        if self.requests.len() >= self.settings.requests_max.min(usize::from(u16::MAX)) {
            return Err(RequestRefused::TooMany);
        }
        let peers = &mut self.endpoint.peers;
        let hash = peers.hash(to);
        let found = peers
            .find(to, hash)
            .or_else(|| peers.insert(to, hash, true, self.settings.peers_max, now));
        found.ok_or(RequestRefused::TooMany)
    }

    /// Whether so many bytes more may go to a peer from which nothing comes. RFC 7252 §4.7
    fn probe(&mut self, peer: u32, bytes: usize, now: Time) -> Result<(), RequestRefused> {
        let rate = u64::from(self.settings.transmission.probing_rate);
        let Some(record) = self.endpoint.peers.slots.get_mut(peer) else {
            return Err(RequestRefused::TooMany);
        };
        let over = now.since(record.requests_until).secs().saturating_mul(rate);
        let sent = u64::from(record.unanswered).saturating_sub(over) + bytes as u64;
        if record.unanswered > 0 && sent > u64::from(self.settings.probing_allowance) {
            return Err(RequestRefused::Probing);
        }
        record.unanswered = sent.min(u64::from(u32::MAX)) as u32;
        record.requests_until = now;
        Ok(())
    }

    /// A token that is not in use and cannot be guessed without the seed. RFC 7252 §5.3.1
    fn fresh_token(&mut self) -> Token {
        let mut tries = 0;
        loop {
            // Short tokens may all be in use.
            let len = usize::from(self.settings.token_bytes.clamp(1, 8)).max(if tries > 64 {
                4
            } else {
                1
            });
            let bytes = self.endpoint.throw().to_be_bytes();
            let token = bytes
                .get(..len)
                .and_then(Token::new)
                .unwrap_or(Token::EMPTY);
            if !self.tokens.contains_key(&token) {
                return token;
            }
            tries += 1;
        }
    }
}

/// Bytes that the options of a request may have: with the largest block they fit into a datagram of 2048.
const OPTIONS_BYTES_MAX: usize = 960;
