//! CoAP over UDP and DTLS: all peers of one socket.

use super::answer::Answer;
use super::handler::{Handler, Request};
use super::identity::{IdentityId, NOBODY, PeerSecurity, Standing};
use super::leisure::Leisure;
use super::note::Note;
use super::settings::{CoapCounts, CoapSettings};
use super::side::Side;
use crate::LoginAnswer;
use crate::deferred::{DeferredFront, Effect, Left};
use crate::front::{Cx, Datagram, Fate, FrontSettings};
use crate::protocol::ShowCount;
use core::net::SocketAddr;
use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_coap::{
    Code, Datagrams, Delivery, Event, ExchangeId, Notice, Notified, ObservationEnd, Observe,
    RelationId, Response, ServerSide, SharedBody,
};
use thalweg_kernel::access::Access;
use thalweg_kernel::{CloseReason, LinkId};
use thalweg_model::{Span, Time};

/// Bytes and datagrams of output above which notifications wait until the socket has taken some. Not more than are read
/// at once: acknowledgements must be read in between.
const OUTPUT_HIGH: usize = 256 << 10;
const OUTPUT_COUNT: usize = 256;
/// How often unused sessions are looked for.
const SWEEP_EVERY: Span = Span::from_secs(30);

/// One socket of datagrams, and all who talk to it.
///
/// ```text
///  datagram -> who is it? --known--> machine -> request -> kernel -> answer -> machine -> datagram
///                 `--being asked--> waits             (held until its batch is safe)
/// ```
pub struct CoapFront {
    handler: Handler<DatagramSide>,
    /// Datagrams of peers about whom the server is being asked.
    stash: Vec<Stashed>,
    stash_bytes: usize,
    /// Requests to a group.
    leisure: Leisure,
    sweep_at: Time,
}

/// A datagram that waits until its sender is admitted.
struct Stashed {
    identity: IdentityId,
    from: SocketAddr,
    is_multicast: bool,
    datagram: Box<[u8]>,
}

/// The machine and its output.
pub(super) struct DatagramSide {
    machine: ServerSide,
    out: Datagrams,
}

impl Side for DatagramSide {
    #[inline]
    fn respond(&mut self, exchange: ExchangeId, response: &Response<'_>, now: Time) {
        self.machine.respond(exchange, response, now, &mut self.out);
    }

    fn respond_confirmed(
        &mut self,
        exchange: ExchangeId,
        cookie: u64,
        response: &Response<'_>,
        now: Time,
    ) -> bool {
        self.machine
            .respond_confirmed(exchange, cookie, response, now, &mut self.out)
    }

    fn respond_later(&mut self, exchange: ExchangeId, now: Time) {
        self.machine.respond_later(exchange, now, &mut self.out);
    }

    fn observe(
        &mut self,
        exchange: ExchangeId,
        cookie: u64,
        check: Option<Span>,
        now: Time,
    ) -> Option<u64> {
        self.machine
            .observe(exchange, cookie, check, now)
            .ok()
            .map(RelationId::number)
    }

    #[inline]
    fn notify(
        &mut self,
        relation: u64,
        body: &Arc<SharedBody>,
        delivery: Delivery,
        now: Time,
    ) -> Notified {
        self.machine.notify(
            RelationId::from_number(relation),
            body,
            delivery,
            now,
            &mut self.out,
        )
    }

    fn nothing_to_notify(&mut self, relation: u64) {
        self.machine
            .nothing_to_notify(RelationId::from_number(relation));
    }

    fn end_observation(&mut self, relation: u64, last: Option<&Arc<SharedBody>>, now: Time) {
        self.machine
            .end_observation(RelationId::from_number(relation), last, now, &mut self.out);
    }

    fn has_room(&self) -> bool {
        self.out.len() < OUTPUT_COUNT && self.out.bytes() < OUTPUT_HIGH
    }
}

impl CoapFront {
    /// A socket that has received nothing yet. `seed` is unique in the process and hard to guess. `anonymous` is what
    /// peers without credentials may do; `None` asks the server about them.
    pub fn new(settings: Arc<CoapSettings>, seed: u64, anonymous: Option<Access>) -> Self {
        let machine = ServerSide::new(settings.machine.clone(), seed.rotate_left(17));
        let side = DatagramSide {
            machine,
            out: Datagrams::new(),
        };
        CoapFront {
            handler: Handler::new(side, settings, seed, anonymous),
            stash: Vec::new(),
            stash_bytes: 0,
            leisure: Leisure::new(seed.rotate_left(31)),
            sweep_at: Time::ZERO,
        }
    }

    #[inline]
    fn on_datagram(
        &mut self,
        from: SocketAddr,
        security: PeerSecurity<'_>,
        datagram: &[u8],
        cx: &mut Cx<'_>,
    ) {
        if !is_request(datagram) {
            // Acknowledgements and resets do not depend on the peer's identity.
            let DatagramSide { machine, out } = &mut self.handler.side;
            machine.handle_datagram(from, datagram, cx.now, out);
            return;
        }
        let Some(identity) = self
            .handler
            .identities
            .find(security.identity(), &self.handler.settings)
        else {
            // As if it had been lost: there is no room to know who it is.
            self.handler.counts.dropped_waiting += 1;
            return;
        };
        self.on_datagram_of(identity, from, false, datagram, cx);
    }

    /// A request by which a client looks for nodes waits for a random time. Anything else is not for a group.
    #[cold]
    fn on_group_datagram(&mut self, from: SocketAddr, datagram: &[u8], now: Time) {
        let leisure = self.handler.settings.leisure;
        if !is_request(datagram) || !self.leisure.push(from, datagram, leisure, now) {
            self.handler.counts.dropped_waiting += 1;
        }
    }

    /// Handles the requests to a group that have waited.
    #[cold]
    fn answer_group(&mut self, cx: &mut Cx<'_>) {
        while let Some((from, request)) = self.leisure.pop_due(cx.now) {
            self.on_datagram_of(NOBODY, from, true, &request, cx);
        }
    }

    #[inline]
    fn on_datagram_of(
        &mut self,
        identity: IdentityId,
        from: SocketAddr,
        is_multicast: bool,
        datagram: &[u8],
        cx: &mut Cx<'_>,
    ) {
        let now = cx.now;
        let Handler {
            identities,
            settings,
            side,
            ..
        } = &mut self.handler;
        let session = match identities.standing(identity, cx, settings) {
            Standing::In(session) => Ok(session),
            Standing::Asked => return self.stash(identity, from, is_multicast, datagram),
            Standing::Out(why) => Err(why),
        };
        let DatagramSide { machine, out } = side;
        let event = match is_multicast {
            false => machine.handle_datagram(from, datagram, now, out),
            true => machine.handle_group_datagram(from, datagram, now, out),
        };
        let Some(Event::Request(event)) = event else {
            return;
        };
        let mut relation = event.relation.map(|(_, cookie)| cookie);
        if event.observe == Some(Observe::Deregister)
            && let Some(cookie) = relation.take()
        {
            self.handler.forget_relation(cookie, cx);
        }
        let session = match session {
            Ok(session) => session,
            Err(why) => {
                return self
                    .handler
                    .respond(event.exchange, &Answer::stay_out(why), now);
            }
        };
        let request = Request {
            exchange: event.exchange,
            identity,
            session,
            source: (identity == NOBODY).then_some(from),
            code: event.code,
            confirmable: event.confirmable,
            options: event.options,
            payload: &event.payload,
            observes: event.observe == Some(Observe::Register),
            is_multicast,
            relation,
        };
        self.handler.handle(&request, cx);
    }

    /// A datagram waits until it is known who its sender is.
    fn stash(
        &mut self,
        identity: IdentityId,
        from: SocketAddr,
        is_multicast: bool,
        datagram: &[u8],
    ) {
        let settings = &self.handler.settings;
        if self.stash.len() >= settings.waiting_max
            || self.stash_bytes + datagram.len() > settings.waiting_bytes_max
        {
            // As if it had been lost.
            self.handler.counts.dropped_waiting += 1;
            return;
        }
        self.stash_bytes += datagram.len();
        self.stash.push(Stashed {
            identity,
            from,
            is_multicast,
            datagram: datagram.into(),
        });
    }

    /// What was meant for a peer, or came from it, must not reach the next peer at its address. RFC 7252 §9.1.1
    fn forget_words(&mut self, address: SocketAddr) {
        let out = &mut self.handler.side.out;
        if out.iter().any(|(to, _)| to == address) {
            let mut rest = Datagrams::new();
            for (to, datagram) in out.iter().filter(|(to, _)| *to != address) {
                rest.push(to, |out| out.extend_from_slice(datagram));
            }
            *out = rest;
        }
        self.stash.retain(|stashed| stashed.from != address);
        self.stash_bytes = self
            .stash
            .iter()
            .map(|stashed| stashed.datagram.len())
            .sum();
    }

    /// What the machine says beside requests.
    fn take_notices(&mut self, cx: &mut Cx<'_>) {
        let mut some_are_ready = false;
        while let Some(notice) = self.handler.side.machine.poll_event() {
            match notice {
                Notice::Ready { relation, cookie } => match self.handler.on_ready(cookie) {
                    true => some_are_ready = true,
                    // Registered anew meanwhile, or gone: others of that peer wait for our word.
                    false => self.handler.side.machine.nothing_to_notify(relation),
                },
                Notice::CheckDue { cookie, .. } => self.handler.on_check_due(cookie, cx),
                Notice::ObservationEnded { cookie, why, .. } => {
                    if matches!(why, ObservationEnd::Reset | ObservationEnd::Silent) {
                        self.handler.counts.observers_lost += 1;
                    }
                    let identity = self.handler.forget_relation(cookie, cx);
                    if let (ObservationEnd::Reset | ObservationEnd::Silent, Some(identity)) =
                        (why, identity)
                    {
                        self.handler.identities.vanished(identity, cx);
                    }
                }
                Notice::ResponseConfirmed { cookie } => {
                    self.handler.on_take_ended(cookie, true, cx)
                }
                Notice::ResponseLost { cookie } => self.handler.on_take_ended(cookie, false, cx),
                // A later answer finds no waiting request.
                Notice::ExchangeExpired { .. } => {}
            }
        }
        if some_are_ready {
            self.handler.notify_all(cx);
        }
    }
}

impl CoapFront {
    /// What was counted since it was opened, by its machine, too.
    pub(super) fn total_counts(&self) -> CoapCounts {
        let machine = self.handler.side.machine.counts();
        CoapCounts {
            peers: self.handler.side.machine.peers() as u64,
            observers: self.handler.relations.len() as u64,
            identities: self.handler.identities.open_count() as u64,
            datagrams: machine.datagrams,
            confirmable: machine.confirmable,
            retransmissions: machine.retransmissions,
            duplicates: machine.duplicates,
            timeouts: machine.timeouts,
            resets: machine.resets,
            malformed: machine.malformed + machine.rejected + machine.bad_options,
            rate_limited: machine.rate_limited,
            overloaded: machine.overloaded,
            peers_displaced: machine.peers_displaced,
            refused: self.handler.counts.refused + machine.refused,
            failed: self.handler.counts.failed + machine.failed,
            ..self.handler.counts
        }
    }
}

impl DeferredFront for CoapFront {
    type Note = Note;

    fn name(&self) -> &'static str {
        "coap"
    }

    #[inline]
    fn on_datagrams(&mut self, batch: &mut dyn Iterator<Item = Datagram<'_>>, cx: &mut Cx<'_>) {
        for datagram in batch {
            match datagram.is_multicast {
                false => self.on_datagram(datagram.from, datagram.security, datagram.bytes, cx),
                true => self.on_group_datagram(datagram.from, datagram.bytes, cx.now),
            }
        }
        self.take_notices(cx);
    }

    fn on_peer_gone(&mut self, from: SocketAddr, cx: &mut Cx<'_>) {
        self.handler.side.machine.peer_gone(from);
        self.forget_words(from);
        self.take_notices(cx);
    }

    fn on_login(&mut self, identity: &str, answer: LoginAnswer, cx: &mut Cx<'_>) {
        let Handler {
            identities,
            settings,
            ..
        } = &mut self.handler;
        if !identities.on_verdict(identity, answer, cx, settings) {
            return;
        }
        let Some(who) = identities.find(identity, settings) else {
            return;
        };
        let (theirs, rest) = std::mem::take(&mut self.stash)
            .into_iter()
            .partition(|stashed| stashed.identity == who);
        self.stash = rest;
        let theirs: Vec<_> = theirs;
        for stashed in theirs {
            self.stash_bytes -= stashed.datagram.len();
            let Stashed {
                from, is_multicast, ..
            } = stashed;
            self.on_datagram_of(who, from, is_multicast, &stashed.datagram, cx);
        }
        self.take_notices(cx);
    }

    fn on_notes(&mut self, notes: &mut VecDeque<Note>, changed: &mut Vec<u64>, cx: &mut Cx<'_>) {
        // All sessions are looked at for each, so that many at once are one.
        let mut some_are_ended = false;
        for note in notes.drain(..) {
            match note {
                Note::Kernel(Effect::Disconnected(_)) => some_are_ended = true,
                note => self.handler.on_note(note, cx),
            }
        }
        if some_are_ended {
            self.handler.end_identities(cx);
        }
        for cookie in changed.drain(..) {
            self.handler.relations.mark_ready(cookie);
        }
        self.handler.notify_all(cx);
        self.take_notices(cx);
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        let DatagramSide { machine, out } = &mut self.handler.side;
        machine.handle_timeout(cx.now, out);
        self.handler.see_to_desk(cx);
        self.handler.on_timeout(cx);
        if self.leisure.next() <= cx.now {
            self.answer_group(cx);
        }
        if cx.now >= self.sweep_at {
            self.sweep_at = cx.now + SWEEP_EVERY;
            self.handler.end_identities(cx);
            self.handler.sweep(cx);
        }
        self.take_notices(cx);
    }

    fn on_close(&mut self, _: &mut VecDeque<Note>, cx: &mut Cx<'_>) {
        self.handler.close(cx);
    }

    /// One session among several of a socket.
    fn disconnect(&mut self, _: CloseReason, _: &mut Vec<u8>) -> Fate {
        Fate::LinkStays
    }

    fn take_datagrams(&mut self, spare: &mut Datagrams) -> bool {
        std::mem::swap(&mut self.handler.side.out, spare);
        std::mem::take(&mut self.handler.stalled)
    }

    fn enter(&mut self, link: LinkId, _: usize) {
        self.handler.link = link;
    }

    fn leave(&mut self, _: &mut Vec<u8>) -> Left {
        Left {
            bytes: self.handler.side.out.bytes(),
            ..Left::default()
        }
    }

    #[inline]
    fn needs_start(&self) -> bool {
        self.handler.desk.is_none()
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        self.handler.see_to_desk(cx);
    }

    fn holds_each(&self) -> bool {
        true
    }

    fn has_timers(&self) -> bool {
        true
    }

    fn next_timer(&self) -> Time {
        let side = &self.handler.side;
        // What is due waits for room, too.
        let machine = if side.has_room() {
            side.machine.poll_timeout()
        } else {
            Time::NEVER
        };
        machine
            .min(self.handler.next_timeout())
            .min(self.leisure.next())
            .min(self.sweep_at)
    }

    fn counts(&self, show: &mut ShowCount<'_>) {
        self.total_counts().show(show);
    }

    fn set_settings(&mut self, settings: Arc<dyn FrontSettings>) {
        let settings: Arc<dyn Any + Send + Sync> = settings;
        if let Ok(settings) = settings.downcast::<CoapSettings>() {
            let machine = &mut self.handler.side.machine;
            machine.set_settings(settings.machine.clone());
            self.handler.settings = settings;
        }
    }
}

/// Whether a datagram asks for something, in its acknowledgement, too: some clients do that.
#[inline]
fn is_request(datagram: &[u8]) -> bool {
    datagram.get(1).is_some_and(|code| Code(*code).is_request())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deferred::Deferred;
    use crate::front::Variant;
    use crate::{Links, LinksLimits};
    use thalweg_coap::{Encoder, Token, Type, option};
    use thalweg_kernel::{Kernel, Limits, ShardId};

    #[test]
    fn an_observer_takes_few_bytes() {
        const COUNT: u32 = 20_000;
        let now = Time::from_secs(1_795_000_000);
        let mut kernel = Kernel::new(Limits::default(), ShardId(0), 1, 7);
        let mut links = Links::new(LinksLimits::default());
        let front = CoapFront::new(Arc::default(), 7, Some(Access::ALL));
        let id = links.open(front);
        let mut spare = Datagrams::new();
        for number in 0..COUNT {
            let from = SocketAddr::from((number.to_be_bytes(), 5683));
            let mut request = Vec::new();
            let token = Token::new(&[1, 2, 3, 4]).expect("short");
            let mut encoder = Encoder::start(&mut request, Type::Confirmable, Code::GET, 7, token);
            encoder.option(option::OBSERVE, &[]);
            for level in ["ps", "data", "plant", "temperature"] {
                encoder.option(option::URI_PATH, level.as_bytes());
            }
            let datagram = std::iter::once(Datagram {
                from,
                security: PeerSecurity::None,
                is_multicast: false,
                bytes: &request,
            });
            links.handle_datagrams(id, datagram, now, &mut kernel);
            links.work(now, &mut kernel);
            links.take_datagrams(id, &mut spare);
            spare.clear();
        }
        assert_eq!(
            crate::coap::counts(&links, id).map(|counts| counts.observers),
            Some(u64::from(COUNT))
        );
        let front = Deferred::<CoapFront>::at(&links, id).and_then(Deferred::front);
        let front = front.expect("it is there");
        let machine = front.handler.side.machine.bytes();
        let bytes = machine.total() + front.handler.relations.bytes();
        // The kernel's watch is 48 bytes more.
        assert!(
            bytes / COUNT as usize <= 500,
            "{} bytes, {machine:?}",
            bytes / COUNT as usize
        );
    }
}
