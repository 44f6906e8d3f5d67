//! CoAP over TCP, TLS and WebSocket: one connection. RFC 8323
//!
//! Requests are those of datagrams (`handler`); what differs is that the transport repeats and puts in order. So an answer
//! leaves when its batch is safe, in whatever order, and an observer that reads slowly is told only when its output has
//! drained: what comes meanwhile waits with the kernel, where newer takes the place of older.
//!
//! ```text
//!  ExpectCsm --CSM--> Open --Abort, fault, Release and all is answered--> Closed
//!      `--no CSM in time--> closed by the server
//! ```

use super::answer::Answer;
use super::handler::{Handler, Request, Scene};
use super::identity::{NOBODY, Standing};
use super::settings::{CoapCounts, CoapSettings};
use super::shared::Told;
use super::side::Side;
use crate::LoginAnswer;
use crate::link::{Front, Links, Step};
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_coap::stream::{PeerFault, Requests, StreamEvent, StreamRequest, StreamSettings};
use thalweg_coap::{Delivery, ExchangeId, Notified, Observe, RelationId, Response, SharedBody};
use thalweg_kernel::access::Access;
use thalweg_kernel::{CloseReason, Kernel, LinkId};
use thalweg_model::{Span, Time};

/// Bytes of output above which observers are not told more: what they are told then is newer.
const NOTIFY_BELOW: usize = 32 << 10;
/// Bytes of output above which nothing more is read or answered.
const ANSWER_BELOW: usize = 256 << 10;
/// Requests that may wait for their answers; then no more is read.
const WAITING_MAX: usize = 1024;
/// What a message may have beside its payload.
const HEAD_BYTES: usize = 4 << 10;
/// Our own buffer is given back when a burst has made it larger than this.
const BUFFER_KEPT: usize = 4 << 10;
/// After so long without a sweep what was used is looked through.
const SWEEP_AFTER: Span = Span::from_secs(30);

/// One connection.
pub struct CoapStreamFront {
    handler: Handler<StreamSide>,
    /// What it was told and has no room to answer yet.
    told: VecDeque<Told>,
    /// The server is being asked who it is.
    is_asking: bool,
    /// Nothing more is read; what is written still leaves.
    is_ended: bool,
    /// When something came last, and whether it has been asked since whether it is there.
    heard_at: Time,
    is_asked_for_life: bool,
    sweep_at: Time,
    fault: Option<Box<str>>,
}

/// The machine and its output.
pub(super) struct StreamSide {
    requests: Requests,
    out: Vec<u8>,
    /// Bytes that wait in the link's output already.
    waiting: usize,
    /// Observations that could not be told of something.
    busy: Vec<(u64, u64)>,
}

impl Side for StreamSide {
    #[inline]
    fn respond(&mut self, exchange: ExchangeId, response: &Response<'_>, now: Time) {
        self.requests
            .respond(exchange, response, now, &mut self.out);
    }

    fn respond_confirmed(
        &mut self,
        exchange: ExchangeId,
        cookie: u64,
        response: &Response<'_>,
        now: Time,
    ) -> bool {
        self.requests
            .respond_confirmed(exchange, cookie, response, now, &mut self.out)
    }

    fn respond_later(&mut self, exchange: ExchangeId, _: Time) {
        self.requests.respond_later(exchange);
    }

    fn observe(
        &mut self,
        exchange: ExchangeId,
        cookie: u64,
        _: Option<Span>,
        _: Time,
    ) -> Option<u64> {
        self.requests
            .observe(exchange, cookie)
            .ok()
            .map(RelationId::number)
    }

    fn notify(&mut self, relation: u64, body: &Arc<SharedBody>, _: Delivery, _: Time) -> Notified {
        let relation = RelationId::from_number(relation);
        match self.requests.cookie(relation) {
            Some(cookie) if !self.has_room() => {
                self.busy.push((relation.number(), cookie));
                Notified::Busy
            }
            Some(_) => self.requests.notify(relation, body, &mut self.out),
            None => Notified::Gone,
        }
    }

    fn nothing_to_notify(&mut self, relation: u64) {
        self.busy.retain(|(number, _)| *number != relation);
    }

    fn end_observation(&mut self, relation: u64, last: Option<&Arc<SharedBody>>, _: Time) {
        let last = last.map(|last| &**last);
        self.requests
            .end_observation(RelationId::from_number(relation), last, &mut self.out);
    }

    fn has_room(&self) -> bool {
        self.waiting + self.out.len() < NOTIFY_BELOW
    }
}

impl StreamSide {
    fn may_answer(&self) -> bool {
        self.waiting + self.out.len() < ANSWER_BELOW
    }
}

impl CoapStreamFront {
    /// A connection that has not said anything yet. `nonce` is unique in the process and hard to guess. `anonymous` is what
    /// peers may do who are nobody in particular; `None` asks the server about them.
    pub fn new(settings: Arc<CoapSettings>, nonce: u64, anonymous: Option<Access>) -> Self {
        let bytes_max = settings
            .machine
            .transfer_bytes_max
            .saturating_add(HEAD_BYTES);
        let stream = StreamSettings {
            message_bytes_max: u32::try_from(bytes_max).unwrap_or(u32::MAX),
            ..StreamSettings::default()
        };
        let requests = Requests::new(settings.machine.clone(), stream, nonce.rotate_left(17));
        let side = StreamSide {
            requests,
            out: Vec::new(),
            waiting: 0,
            busy: Vec::new(),
        };
        CoapStreamFront {
            handler: Handler::new(side, settings, nonce, anonymous),
            told: VecDeque::new(),
            is_asking: false,
            is_ended: false,
            heard_at: Time::NEVER,
            is_asked_for_life: false,
            sweep_at: Time::NEVER,
            fault: None,
        }
    }

    /// What the peer did wrong, if that is why it ended.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Whether the peer may send requests.
    pub fn is_connected(&self) -> bool {
        self.handler.side.requests.is_open()
    }

    pub(crate) fn holds_input(&self) -> bool {
        self.is_asking
    }

    pub(super) fn counts(&self) -> CoapCounts {
        let (refused, failed) = self.handler.side.requests.errors();
        CoapCounts {
            peers: u64::from(self.is_connected()),
            observers: self.handler.relations.len() as u64,
            identities: self.handler.identities.open_count() as u64,
            malformed: u64::from(self.fault.is_some()),
            refused: self.handler.counts.refused + u64::from(refused),
            failed: self.handler.counts.failed + u64::from(failed),
            ..self.handler.counts
        }
    }

    /// Lets the front of a link do something, if it is one of ours; it is away from its link meanwhile.
    fn with<R>(
        links: &mut Links,
        id: LinkId,
        now: Time,
        kernel: &mut Kernel,
        what: impl FnOnce(&mut CoapStreamFront, &mut Scene<'_>) -> R,
    ) -> Option<R> {
        let link = links.get_mut(id)?;
        let waiting = link.waiting();
        let mut front = match std::mem::replace(&mut link.front, Front::CoapAway) {
            Front::CoapStream(front) => front,
            other => {
                link.front = other;
                return None;
            }
        };
        front.handler.link = id;
        front.handler.side.waiting = waiting;
        let was_full = front.is_full();
        let result = what(&mut front, &mut Scene { now, kernel, links });
        let is_ended = front.is_ended;
        // Whoever waits for room in us looks when the output is flushed.
        let must_flush = is_ended || (was_full && !front.is_full());
        if front.handler.side.out.is_empty() {
            links.put_back(id, Front::CoapStream(front), 0);
        } else {
            links.write(id, |place, out| {
                front.hand_over_output(out);
                *place = Front::CoapStream(front);
            });
        }
        if is_ended && let Some(link) = links.get_mut(id) {
            link.closing = true;
        }
        if must_flush {
            links.mark_dirty(id);
        }
        Some(result)
    }

    fn hand_over_output(&mut self, out: &mut Vec<u8>) {
        let own = &mut self.handler.side.out;
        match out.is_empty() {
            true => std::mem::swap(own, out),
            false => out.append(own),
        }
        if own.capacity() > BUFFER_KEPT {
            *own = Vec::new();
        }
    }

    fn is_full(&self) -> bool {
        self.handler.side.requests.waiting() >= WAITING_MAX
    }

    /// Handles the next message.
    #[inline]
    pub(crate) fn step(
        links: &mut Links,
        id: LinkId,
        bytes: &[u8],
        now: Time,
        kernel: &mut Kernel,
    ) -> Step {
        if bytes.is_empty() {
            return Step::NeedMore;
        }
        // The desk is there before anything that needs it. Usually the first timeout has opened it.
        if let Some(Front::CoapStream(front)) = links.get(id).map(|link| &link.front)
            && front.handler.desk.is_none()
        {
            CoapStreamFront::with(links, id, now, kernel, |front, scene| {
                front.handler.see_to_desk(scene)
            });
            links.work(now, kernel);
        }
        CoapStreamFront::with(links, id, now, kernel, |front, scene| {
            front.on_bytes(bytes, scene)
        })
        .unwrap_or(Step::Hold)
    }

    #[inline]
    fn on_bytes(&mut self, bytes: &[u8], scene: &mut Scene<'_>) -> Step {
        let Handler {
            identities,
            settings,
            link,
            side,
            ..
        } = &mut self.handler;
        let is_held = self.is_asking || self.is_ended || side.requests.is_released();
        if is_held || side.requests.waiting() >= WAITING_MAX || !side.may_answer() {
            return Step::Hold;
        }
        let Scene { now, kernel, links } = scene;
        let now = *now;
        let session = match side.requests.is_open() {
            true => match identities.standing(NOBODY, *link, settings, now, kernel, links) {
                Standing::In(session) => Some(Ok(session)),
                Standing::Out(why) => Some(Err(why)),
                Standing::Asked => {
                    self.is_asking = true;
                    return Step::Hold;
                }
            },
            false => None,
        };
        let (consumed, event) = match side.requests.handle_input(bytes, now, &mut side.out) {
            Ok(Some(heard)) => heard,
            Ok(None) => return Step::NeedMore,
            Err(fault) => {
                self.fail(&fault);
                return Step::Hold;
            }
        };
        self.handler.counts.datagrams += 1;
        self.heard_at = now;
        self.is_asked_for_life = false;
        match (event, session) {
            (StreamEvent::Request(request), Some(Ok(session))) => {
                self.on_request(&request, session, scene)
            }
            (StreamEvent::Request(request), Some(Err(why))) => {
                self.handler
                    .respond(request.exchange, &Answer::stay_out(why), now);
            }
            (StreamEvent::Confirmed { cookie }, _) => {
                self.handler.on_take_ended(cookie, true, scene)
            }
            (StreamEvent::Aborted { .. }, _) => self.is_ended = true,
            // Nobody may ask before CSM.
            (StreamEvent::Request(_), None) => {}
            (StreamEvent::Opened | StreamEvent::Released | StreamEvent::Nothing, _) => {}
        }
        self.end_if_done();
        Step::Consumed(consumed)
    }

    #[inline]
    fn on_request(
        &mut self,
        request: &StreamRequest<'_>,
        session: thalweg_kernel::SessionId,
        scene: &mut Scene<'_>,
    ) {
        if self.sweep_at == Time::NEVER {
            self.sweep_at = scene.now + SWEEP_AFTER;
        }
        if let Some(cookie) = request.ended {
            self.handler.forget_relation(cookie, scene);
        }
        let request = Request {
            exchange: request.exchange,
            identity: NOBODY,
            session,
            source: None,
            code: request.code,
            // What the transport repeats until it is there has arrived at least once.
            confirmable: true,
            options: request.options,
            payload: &request.payload,
            observes: request.observe == Some(Observe::Register),
            relation: None,
        };
        self.handler.handle(&request, scene);
    }

    /// After a Release of the peer everything is answered, and nothing more.
    fn end_if_done(&mut self) {
        self.is_ended |= self.handler.side.requests.is_done();
    }

    /// The peer broke the protocol: tell it, and end the link.
    #[cold]
    fn fail(&mut self, fault: &PeerFault) {
        let StreamSide { requests, out, .. } = &mut self.handler.side;
        requests.fault(fault, out);
        self.fault = Some(fault.to_string().into());
        self.is_ended = true;
    }

    pub(crate) fn on_login(
        links: &mut Links,
        id: LinkId,
        answer: LoginAnswer,
        now: Time,
        kernel: &mut Kernel,
    ) {
        CoapStreamFront::with(links, id, now, kernel, |front, scene| {
            let Handler {
                identities,
                settings,
                link,
                ..
            } = &mut front.handler;
            let Scene { now, kernel, links } = scene;
            if identities.on_verdict("", answer, *link, settings, *now, kernel, links) {
                front.is_asking = false;
            }
        });
    }

    /// Handles what it was told, as far as there is room for answers, and then what follows from that.
    pub(super) fn on_told(
        links: &mut Links,
        id: LinkId,
        told: impl Iterator<Item = Told>,
        changed: impl Iterator<Item = u64>,
        now: Time,
        kernel: &mut Kernel,
    ) {
        CoapStreamFront::with(links, id, now, kernel, |front, scene| {
            front.told.extend(told);
            changed.for_each(|cookie| front.handler.relations.mark_ready(cookie));
            while front.handler.side.may_answer()
                && let Some(told) = front.told.pop_front()
            {
                front.on_one_told(told, scene);
            }
            if !front.is_ended && !front.handler.side.requests.is_released() {
                front.handler.notify_all(scene);
            }
            front.end_if_done();
        });
    }

    fn on_one_told(&mut self, told: Told, scene: &mut Scene<'_>) {
        match told {
            Told::Room => {
                for (_, cookie) in std::mem::take(&mut self.handler.side.busy) {
                    self.handler.on_ready(cookie);
                }
            }
            // It did so itself, by something that it asked for; otherwise `disconnect` was called.
            Told::Disconnected => {
                self.handler.end_identities(scene);
                if self.handler.identities.session(NOBODY).is_none() && !self.is_ended {
                    let StreamSide { requests, out, .. } = &mut self.handler.side;
                    requests.abort("the session has been ended", out);
                    self.is_ended = true;
                }
            }
            told => self.handler.told(told, scene),
        }
    }

    /// The output has drained: whoever waited for room has it.
    pub(crate) fn on_drained(links: &mut Links, id: LinkId) {
        let Some(link) = links.get(id) else { return };
        let Front::CoapStream(front) = &link.front else {
            return;
        };
        let is_stalled =
            front.handler.stalled || !front.told.is_empty() || !front.handler.side.busy.is_empty();
        if is_stalled && link.waiting() < NOTIFY_BELOW {
            links.coap.tell(id, Told::Room);
        }
    }

    /// The kernel has ended the session, or the broker stops.
    pub(crate) fn disconnect(&mut self, why: CloseReason, out: &mut Vec<u8>) {
        let requests = &mut self.handler.side.requests;
        match why {
            // RFC 8323 §5.5: an orderly end, which is nobody's fault.
            CloseReason::ShuttingDown => requests.release(None, out),
            CloseReason::TakenOver => {
                requests.abort("another connection has taken this session over", out)
            }
            CloseReason::Kicked => requests.abort("an operator has ended the connection", out),
            CloseReason::NotAuthorized => {
                requests.abort("your credentials or rights have ended", out)
            }
            CloseReason::QueueFull => {
                requests.abort("what waits for this connection has filled its queue", out)
            }
            CloseReason::Stalled => {
                requests.abort("messages were not settled in time and go to others", out)
            }
            CloseReason::Buffers => {
                requests.abort("memory for buffers is short and yours are the largest", out)
            }
        }
        self.is_ended = true;
    }

    pub(crate) fn silence_max(&self) -> Option<Span> {
        self.handler.settings.silence_max
    }

    pub(crate) fn on_silence(&mut self, out: &mut Vec<u8>) {
        self.handler.side.requests.abort(
            "nothing was heard for too long, not even an answer to Ping",
            out,
        );
        self.is_ended = true;
    }

    pub(super) fn poll_timeout(&self) -> Time {
        if self.is_ended {
            return Time::NEVER;
        }
        let desk = if self.handler.desk.is_none() && self.heard_at == Time::NEVER {
            Time::ZERO
        } else {
            Time::NEVER
        };
        let requests = self.handler.side.requests.poll_timeout();
        desk.min(requests)
            .min(self.handler.next_timeout())
            .min(self.sweep_at)
            .min(self.ask_for_life_at())
    }

    /// When the peer is asked whether it is there: half the time that it may be silent.
    fn ask_for_life_at(&self) -> Time {
        match self.handler.settings.silence_max {
            Some(max)
                if !self.is_asked_for_life
                    && self.is_connected()
                    && self.heard_at != Time::NEVER =>
            {
                self.heard_at + Span::from_nanos(max.nanos() / 2)
            }
            _ => Time::NEVER,
        }
    }

    pub(super) fn on_timeout(links: &mut Links, id: LinkId, now: Time, kernel: &mut Kernel) {
        CoapStreamFront::with(links, id, now, kernel, |front, scene| {
            if front.is_ended {
                return;
            }
            if front.heard_at == Time::NEVER {
                front.heard_at = now;
            }
            front.handler.see_to_desk(scene);
            front.handler.on_timeout(scene);
            let StreamSide { requests, out, .. } = &mut front.handler.side;
            requests.handle_timeout(now, out);
            if front.ask_for_life_at() <= now {
                front.is_asked_for_life = true;
                let StreamSide { requests, out, .. } = &mut front.handler.side;
                requests.ask_for_life(out);
            }
            if front.sweep_at <= now {
                front.sweep_at = Time::NEVER;
                front.handler.sweep(scene);
            }
            front.end_if_done();
        });
    }

    /// The link ends: what was taken and not confirmed goes back, observers leave their seats, the session ends.
    pub(super) fn close(links: &mut Links, id: LinkId, now: Time, kernel: &mut Kernel) {
        CoapStreamFront::with(links, id, now, kernel, |front, scene| {
            for told in std::mem::take(&mut front.told)
                .into_iter()
                .chain(scene.links.coap.forget(id))
            {
                // A message that was taken must not be lost.
                if matches!(told, Told::Taken { .. }) {
                    front.handler.told(told, scene);
                }
            }
            for cookie in front.handler.relations.cookies(|_| true) {
                front.handler.forget_relation(cookie, scene);
            }
            let takes: Vec<u64> = front.handler.takes.keys().copied().collect();
            for cookie in takes {
                front.handler.on_take_ended(cookie, false, scene);
            }
            front.handler.close(scene);
        });
        // The number of the link is used again: what was meant for this one must not reach the next.
        drop(links.coap.forget(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_is_small() {
        let bytes = size_of::<CoapStreamFront>();
        assert!(bytes <= 1600, "{bytes} bytes");
    }
}
