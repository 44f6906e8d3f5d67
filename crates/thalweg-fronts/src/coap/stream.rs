//! CoAP over TCP, TLS and WebSocket: one connection. RFC 8323
//!
//! Requests are those of datagrams (`handler`); what differs is that the transport repeats and puts in order. So an
//! answer leaves when its batch is safe, in whatever order, and an observer that reads slowly is notified only when its
//! output has drained: what comes meanwhile waits with the kernel, where newer takes the place of older.
//!
//! ```text
//!  ExpectCsm --CSM--> Open --Abort, fault, Release and all is answered--> Closed
//!      `--no CSM in time--> closed by the server
//! ```

use super::answer::Answer;
use super::handler::{Handler, Request};
use super::identity::{NOBODY, Standing};
use super::note::Note;
use super::settings::{CoapCounts, CoapSettings};
use super::side::Side;
use crate::LoginAnswer;
use crate::deferred::{DeferredFront, Effect, Left};
use crate::front::{Cx, Fate, Step};
use crate::protocol::ShowCount;
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_coap::stream::{PeerFault, Requests, StreamEvent, StreamRequest, StreamSettings};
use thalweg_coap::{Delivery, ExchangeId, Notified, Observe, RelationId, Response, SharedBody};
use thalweg_kernel::access::Access;
use thalweg_kernel::{CloseReason, LinkId};
use thalweg_model::{Span, Time};

/// Bytes of output above which observers are not notified: a later notification is newer.
const NOTIFY_BELOW: usize = 32 << 10;
/// Bytes of output above which nothing more is read or answered.
const ANSWER_BELOW: usize = 256 << 10;
/// Requests that may wait for their answers; then no more is read.
const WAITING_MAX: usize = 1024;
/// What a message may have beside its payload.
const HEAD_BYTES: usize = 4 << 10;
/// Our own buffer is freed when a burst has made it larger than this.
const BUFFER_KEPT: usize = 4 << 10;
/// After so long without a sweep what was used is looked through.
const SWEEP_AFTER: Span = Span::from_secs(30);

pub struct CoapStreamFront {
    handler: Handler<StreamSide>,
    /// The server is being asked who it is.
    is_asking: bool,
    /// Nothing more is read; what is written still leaves.
    is_ended: bool,
    /// There were as many requests as may wait when it left its link.
    was_full: bool,
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
    /// Observations with a notification that did not fit.
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
    /// A new connection. `nonce` is unique in the process and hard to guess. `anonymous` is what peers without
    /// credentials may do; `None` asks the server about them.
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
            is_asking: false,
            is_ended: false,
            was_full: false,
            heard_at: Time::NEVER,
            is_asked_for_life: false,
            sweep_at: Time::NEVER,
            fault: None,
        }
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

    #[inline]
    fn on_bytes(&mut self, bytes: &[u8], cx: &mut Cx<'_>) -> Step {
        let Handler {
            identities,
            settings,
            side,
            ..
        } = &mut self.handler;
        let is_held = self.is_asking || self.is_ended || side.requests.is_released();
        if is_held || side.requests.waiting() >= WAITING_MAX || !side.may_answer() {
            return Step::Hold;
        }
        let now = cx.now;
        let session = match side.requests.is_open() {
            true => match identities.standing(NOBODY, cx, settings) {
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
                self.on_request(&request, session, cx)
            }
            (StreamEvent::Request(request), Some(Err(why))) => {
                self.handler
                    .respond(request.exchange, &Answer::stay_out(why), now);
            }
            (StreamEvent::Confirmed { cookie }, _) => self.handler.on_take_ended(cookie, true, cx),
            (StreamEvent::Aborted { .. }, _) => self.is_ended = true,
            // No request may come before CSM.
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
        cx: &mut Cx<'_>,
    ) {
        if self.sweep_at == Time::NEVER {
            self.sweep_at = cx.now + SWEEP_AFTER;
        }
        if let Some(cookie) = request.ended {
            self.handler.forget_relation(cookie, cx);
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
            is_multicast: false,
        };
        self.handler.handle(&request, cx);
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

    fn on_note(&mut self, note: Note, cx: &mut Cx<'_>) {
        match note {
            Note::Kernel(Effect::Room) => {
                for (_, cookie) in std::mem::take(&mut self.handler.side.busy) {
                    self.handler.on_ready(cookie);
                }
            }
            // It did so itself, by something that it asked for; otherwise `disconnect` was called.
            Note::Kernel(Effect::Disconnected(_)) => {
                self.handler.end_identities(cx);
                if self.handler.identities.session(NOBODY).is_none() && !self.is_ended {
                    let StreamSide { requests, out, .. } = &mut self.handler.side;
                    requests.abort("the session has been ended", out);
                    self.is_ended = true;
                }
            }
            note => self.handler.on_note(note, cx),
        }
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
}

impl CoapStreamFront {
    /// What was counted since it was opened, by its machine, too.
    pub(super) fn total_counts(&self) -> CoapCounts {
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
}

impl DeferredFront for CoapStreamFront {
    type Note = Note;

    fn name(&self) -> &'static str {
        "coap"
    }

    #[inline]
    fn step(&mut self, bytes: &[u8], cx: &mut Cx<'_>) -> Step {
        let requests = &mut self.handler.side.requests;
        let may_gather = cx.kernel.may_keep(requests.transfer_bytes(), bytes.len());
        requests.set_may_gather(may_gather);
        self.on_bytes(bytes, cx)
    }

    fn kept_bytes(&self) -> Option<usize> {
        Some(self.handler.side.requests.transfer_bytes())
    }

    fn on_login(&mut self, _: &str, answer: LoginAnswer, cx: &mut Cx<'_>) {
        let Handler {
            identities,
            settings,
            ..
        } = &mut self.handler;
        if identities.on_verdict("", answer, cx, settings) {
            self.is_asking = false;
        }
    }

    /// As far as there is room for answers.
    fn on_notes(&mut self, notes: &mut VecDeque<Note>, changed: &mut Vec<u64>, cx: &mut Cx<'_>) {
        for cookie in changed.drain(..) {
            self.handler.relations.mark_ready(cookie);
        }
        while self.handler.side.may_answer()
            && let Some(note) = notes.pop_front()
        {
            self.on_note(note, cx);
        }
        if !self.is_ended && !self.handler.side.requests.is_released() {
            self.handler.notify_all(cx);
        }
        self.end_if_done();
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        if self.is_ended {
            return;
        }
        if self.heard_at == Time::NEVER {
            self.heard_at = cx.now;
        }
        self.handler.see_to_desk(cx);
        self.handler.on_timeout(cx);
        let StreamSide { requests, out, .. } = &mut self.handler.side;
        requests.handle_timeout(cx.now, out);
        if self.ask_for_life_at() <= cx.now {
            self.is_asked_for_life = true;
            let StreamSide { requests, out, .. } = &mut self.handler.side;
            requests.ask_for_life(out);
        }
        if self.sweep_at <= cx.now {
            self.sweep_at = Time::NEVER;
            self.handler.sweep(cx);
        }
        self.end_if_done();
    }

    /// What was taken and not confirmed goes back, observers leave their seats, the session ends.
    fn on_close(&mut self, notes: &mut VecDeque<Note>, cx: &mut Cx<'_>) {
        for note in notes.drain(..) {
            // A message that was taken must not be lost.
            if matches!(note, Note::Kernel(Effect::Taken(..))) {
                self.handler.on_note(note, cx);
            }
        }
        for cookie in self.handler.relations.cookies(|_| true) {
            self.handler.forget_relation(cookie, cx);
        }
        let takes: Vec<u64> = self.handler.takes.keys().copied().collect();
        for cookie in takes {
            self.handler.on_take_ended(cookie, false, cx);
        }
        self.handler.close(cx);
    }

    fn disconnect(&mut self, why: CloseReason, out: &mut Vec<u8>) -> Fate {
        let requests = &mut self.handler.side.requests;
        match why {
            // RFC 8323 §5.5: an orderly end, which is not the peer's fault.
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
        Fate::LinkEnds
    }

    fn on_silence(&mut self, out: &mut Vec<u8>) {
        self.handler.side.requests.abort(
            "nothing was heard for too long, not even an answer to Ping",
            out,
        );
        self.is_ended = true;
    }

    fn enter(&mut self, link: LinkId, waiting: usize) {
        self.handler.link = link;
        self.handler.side.waiting = waiting;
        self.was_full = self.is_full();
    }

    fn leave(&mut self, out: &mut Vec<u8>) -> Left {
        if !self.handler.side.out.is_empty() {
            self.hand_over_output(out);
        }
        Left {
            bytes: 0,
            // Work that waits for room in the output continues when it is flushed.
            flushes: self.is_ended || (self.was_full && !self.is_full()),
            is_ended: self.is_ended,
        }
    }

    #[inline]
    fn needs_start(&self) -> bool {
        self.handler.desk.is_none()
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        self.handler.see_to_desk(cx);
    }

    fn wants_room(&self, is_all_noted: bool, waiting: usize) -> bool {
        let is_stalled =
            self.handler.stalled || !is_all_noted || !self.handler.side.busy.is_empty();
        is_stalled && waiting < NOTIFY_BELOW
    }

    fn holds_each(&self) -> bool {
        true
    }

    /// Whether the peer may send requests.
    fn is_connected(&self) -> bool {
        self.handler.side.requests.is_open()
    }

    fn holds_input(&self) -> bool {
        self.is_asking
    }

    fn fault(&self) -> Option<String> {
        self.fault.as_deref().map(Into::into)
    }

    fn silence_max(&self) -> Option<Span> {
        self.handler.settings.silence_max
    }

    fn has_timers(&self) -> bool {
        true
    }

    fn next_timer(&self) -> Time {
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

    fn counts(&self, show: &mut ShowCount<'_>) {
        self.total_counts().show(show);
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
