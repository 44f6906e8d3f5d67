//! Requests of REQ and DEALER: published to any address, answered in any protocol.
//!
//! Answers come to a queue that is the connection's own, made with the first request; an answer's correlation says which
//! request it is for. A request that is not answered in time is forgotten: ZeroMQ has no word for that.

use super::envelope::{MDP_CLIENT, MDP_WORKER, MMI, MMI_SERVICE, before, split};
use super::parts::Parts;
use super::publish::{Scratch, join};
use super::{ANSWERS, ANSWERS_LINE, ZmtpFront, address};
use crate::front::{Cx, Undelivered, Variant};
use crate::native;
use std::collections::BTreeMap;
use thalweg_kernel::{
    ConsumeSpec, Content, Draft, NameKey, Outcome, QueueLimits, QueueSpec, Refusal, SessionId,
    queue_address,
};
use thalweg_model::place::{Place, place};
use thalweg_model::{Address, Reliability, RetainOp, Time};
use thalweg_zmtp::{Frames, Message, Traffic};

/// What a peer has asked and is not answered yet.
pub(super) struct Calls {
    /// The address of the queue for answers.
    queue: Box<str>,
    key: NameKey,
    /// By their numbers, which rise; so do the times at which they are given up.
    waiting: BTreeMap<u64, Call>,
    asked: u64,
    bytes: usize,
}

struct Call {
    due: Time,
    /// The frames that come before those of the answer, with their heads.
    envelope: Box<[u8]>,
    /// Other shards are asked under this number whether they keep it; 0 if none is.
    question: u64,
}

/// What the table costs beside envelopes.
const ENTRY_BYTES: usize = 96;

impl Calls {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn next_due(&self) -> Time {
        let first = self.waiting.first_key_value();
        first.map_or(Time::NEVER, |(_, call)| call.due)
    }

    /// Forgets requests that were not answered in time.
    pub(super) fn give_up(&mut self, now: Time) {
        while let Some(first) = self.waiting.first_entry()
            && first.get().due <= now
        {
            let number = *first.key();
            self.take(number);
        }
    }

    fn take(&mut self, number: u64) -> Option<Call> {
        let call = self.waiting.remove(&number)?;
        self.bytes -= call.envelope.len() + ENTRY_BYTES;
        Some(call)
    }

    /// Text, since not every protocol carries bytes as they are; who answers one request cannot tell that of another.
    fn correlation(&self, number: u64) -> String {
        let proof = self.key.name("zmtp call", u128::from(number)) as u64;
        format!("{number:x}-{proof:016x}")
    }

    fn number_of(&self, correlation: &[u8]) -> Option<u64> {
        let text = std::str::from_utf8(correlation).ok()?;
        let number = u64::from_str_radix(text.split_once('-')?.0, 16).ok()?;
        (self.correlation(number) == text).then_some(number)
    }

    /// Writes an answer. One that belongs to no request is left out.
    pub(super) fn answer(
        &mut self,
        content: &Content<'_>,
        traffic: &mut Traffic,
        out: &mut Vec<u8>,
    ) -> Result<(), Undelivered> {
        let properties = content.properties();
        let said = properties.map(native::neutral);
        let correlation = said.as_ref().and_then(|said| said.correlation.as_deref());
        let number = correlation.and_then(|text| self.number_of(text));
        let Some(call) = number.and_then(|number| self.take(number)) else {
            return Ok(());
        };
        for frame in Message::from_raw(&call.envelope).frames() {
            traffic.frame(frame, true, out);
        }
        write_body(Parts::of(properties), content, traffic, out);
        Ok(())
    }
}

/// Writes the frames of a message's payload, at least one.
pub(super) fn write_body(
    parts: Parts<'_>,
    content: &Content<'_>,
    traffic: &mut Traffic,
    out: &mut Vec<u8>,
) {
    let mut frames = parts.frames(content.payload()).peekable();
    if frames.peek().is_none() {
        traffic.frame(b"", false, out);
    }
    while let Some(frame) = frames.next() {
        traffic.frame(frame, frames.peek().is_some(), out);
    }
}

impl ZmtpFront {
    /// Behind the envelope: a request of Majordomo names its service; of several frames the first is an address; a single one
    /// is for the configured service.
    pub(super) fn on_request(cx: &mut Cx<'_>, message: Message<'_>) {
        let (Some(session), Some(front)) = (cx.session(), ZmtpFront::of(cx.links, cx.id)) else {
            return;
        };
        let (mut envelope, body) = split(message);
        let mut frames = body.frames();
        let first = frames.next().unwrap_or_default();
        if first == MDP_WORKER {
            return ZmtpFront::on_majordomo(cx, frames);
        }
        let mut scratch = front.scratch.take().unwrap_or_default();
        scratch.address.clear();
        if first == MDP_CLIENT {
            let service = frames.next().unwrap_or_default();
            envelope = before(message, frames.rest());
            if service.starts_with(MMI) {
                let code = ZmtpFront::inquire(cx, session, service, frames, &mut scratch.address);
                ZmtpFront::write_traffic(cx, |traffic, out| {
                    for frame in envelope.frames() {
                        traffic.frame(frame, true, out);
                    }
                    traffic.frame(code, false, out);
                });
                return ZmtpFront::keep_scratch(cx, scratch);
            }
            address::read(service, &mut scratch.address);
        } else if frames.rest().raw().is_empty() {
            scratch.address.push_str(&front.settings.service);
            frames = body.frames();
        } else {
            address::read(first, &mut scratch.address);
        }
        let payload = frames.rest();
        if Address::check(&scratch.address).is_err() || payload.raw().is_empty() {
            cx.kernel.refuse(session, payload.raw().len());
        } else {
            ZmtpFront::ask(cx, session, envelope, payload, &mut scratch);
        }
        scratch.properties = Default::default();
        ZmtpFront::keep_scratch(cx, scratch);
    }

    /// What the broker itself answers to a client of Majordomo: whether a service has a worker that the client may ask. [8]
    #[cold]
    fn inquire(
        cx: &mut Cx<'_>,
        session: SessionId,
        service: &[u8],
        mut body: Frames<'_>,
        address: &mut String,
    ) -> &'static [u8] {
        if service != MMI_SERVICE {
            return b"501";
        }
        address::read(body.next().unwrap_or_default(), address);
        match Address::check(address).is_ok() && cx.kernel.is_served(session, address) {
            true => b"200",
            false => b"404",
        }
    }

    /// Publishes a request to the address that is in `scratch`.
    fn ask(
        cx: &mut Cx<'_>,
        session: SessionId,
        envelope: Message<'_>,
        payload: Message<'_>,
        scratch: &mut Scratch,
    ) {
        if let Err(refusal) = ZmtpFront::take_answers(cx, session) {
            return ZmtpFront::give_up(cx, &format!("answers cannot be taken: {refusal}"));
        }
        let Some(front) = ZmtpFront::of(cx.links, cx.id) else {
            return;
        };
        let timeout = front.settings.request_timeout;
        let Some(calls) = &mut front.calls else {
            return;
        };
        if calls.waiting.len() >= front.settings.requests_max {
            return cx.kernel.refuse(session, payload.raw().len());
        }
        calls.asked += 1;
        let number = calls.asked;
        let call = Call {
            due: cx.now + timeout,
            envelope: envelope.raw().into(),
            question: 0,
        };
        calls.bytes += call.envelope.len() + ENTRY_BYTES;
        calls.waiting.insert(number, call);
        scratch.properties.reply_to = Some(calls.queue.clone());
        scratch.properties.correlation = Some(calls.correlation(number).into_bytes().into());
        let has_room = ZmtpFront::has_room(cx);
        let mut outcome = None;
        if has_room {
            let (body, parts) = body_of(payload, &mut scratch.payload, &mut scratch.lengths);
            parts.put(&mut scratch.properties);
            let draft = Draft {
                address: &scratch.address,
                payload: body,
                reliability: Reliability::AtLeastOnce,
                retain: RetainOp::None,
                // A request whose asker no longer waits need not be served.
                expires_in: Some(timeout),
                priority: 0,
                properties: Some(&scratch.properties),
                ticket: 0,
                native: None,
                stamp: None,
            };
            outcome = Some(ZmtpFront::publish_draft(cx, session, draft));
            if outcome == Some(Outcome::Full) {
                cx.kernel.refuse(session, body.len());
            }
        } else {
            cx.kernel.refuse(session, payload.raw().len());
        }
        let question = cx.kernel.question();
        let Some(calls) = ZmtpFront::of(cx.links, cx.id).and_then(|front| front.calls.as_mut())
        else {
            return;
        };
        match outcome {
            Some(Outcome::Accepted) => {}
            Some(Outcome::Asked) => {
                if let Some(call) = calls.waiting.get_mut(&number) {
                    call.question = question;
                }
            }
            // Nobody will answer.
            _ => _ = calls.take(number),
        }
    }

    /// What other shards say of a publish is known: a request that is refused has no answer.
    pub(super) fn on_decided(cx: &mut Cx<'_>, question: u64, is_refused: bool) {
        let front = ZmtpFront::of(cx.links, cx.id).filter(|_| is_refused);
        let Some(calls) = front.and_then(|front| front.calls.as_mut()) else {
            return;
        };
        let mut waiting = calls.waiting.iter();
        if let Some(number) =
            waiting.find_map(|(n, call)| (call.question == question).then_some(*n))
        {
            calls.take(number);
        }
    }

    /// Makes the queue for answers, and takes from it, unless that is done.
    fn take_answers(cx: &mut Cx<'_>, session: SessionId) -> Result<(), Refusal> {
        let Some(front) = ZmtpFront::of(cx.links, cx.id) else {
            return Ok(());
        };
        if front.calls.is_some() {
            return Ok(());
        }
        let (key, service) = (
            cx.kernel.name_key(front.nonce),
            front.settings.service.clone(),
        );
        let name = format!("amq.gen-{:032x}", key.name("zmtp answers", 0));
        let queue = queue_address("", &name);
        let spec = QueueSpec {
            address: &queue,
            durable: false,
            exclusive: true,
            is_named_by_broker: true,
            auto_delete: true,
            limits: QueueLimits::default(),
        };
        cx.kernel.declare_queue(session, &spec, cx.now, cx.links)?;
        let consume = ConsumeSpec {
            source: &queue,
            line: ANSWERS_LINE,
            consumer: ANSWERS,
            credit: 0,
            settles: false,
            exclusive: true,
            priority: 0,
            no_local: false,
        };
        cx.kernel.consume(session, &consume, cx.now, cx.links)?;
        if let Place::Queue { .. } = place(&service) {
            // Requests may come before their workers. Who may not make it finds it or does not.
            let _ = ZmtpFront::make_queue(cx, session, &service);
        }
        if let Some(front) = ZmtpFront::of(cx.links, cx.id) {
            front.calls = Some(Box::new(Calls {
                queue: queue.into(),
                key,
                waiting: BTreeMap::new(),
                asked: 0,
                bytes: 0,
            }));
        }
        Ok(())
    }
}

/// The payload that these frames are, and where it is cut.
pub(super) fn body_of<'a>(
    message: Message<'a>,
    payload: &'a mut Vec<u8>,
    lengths: &'a mut Vec<u8>,
) -> (&'a [u8], Parts<'a>) {
    let mut frames = message.frames();
    match (frames.next(), frames.rest().raw()) {
        (only, []) => (only.unwrap_or_default(), Parts::Two),
        _ => join(message.frames(), payload, lengths),
    }
}
