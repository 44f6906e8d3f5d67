//! Requests of REQ and DEALER: published to any address, answered in any protocol.
//!
//! Answers come to a queue that is the connection's own, made with the first request; an answer's correlation says which
//! request it is for. A request that is not answered in time is forgotten: ZeroMQ has no word for that.

use super::envelope::{MDP_CLIENT, MDP_WORKER, MMI, MMI_SERVICE, before, split};
use super::parts::Parts;
use super::publish::{Scratch, join};
use super::{ANSWERS, ANSWERS_LINE, ZmtpFront, address};
use crate::calls::take_answers;
use crate::front::{Cx, Undelivered, Variant};
use crate::native;
use thalweg_kernel::{Content, Draft, Outcome, Refusal, SessionId};
use thalweg_model::place::{Place, place};
use thalweg_model::{Address, Reliability, RetainOp};
use thalweg_zmtp::{Frames, Message, Traffic};

/// Requests by the frames that come before those of the answer, with their heads.
pub(super) type Calls = crate::calls::Calls<Box<[u8]>>;

/// Writes an answer. One that belongs to no request is left out.
pub(super) fn answer(
    calls: &mut Calls,
    content: &Content<'_>,
    traffic: &mut Traffic,
    out: &mut Vec<u8>,
) -> Result<(), Undelivered> {
    let properties = content.properties();
    let said = properties.map(native::neutral);
    let correlation = said.as_ref().and_then(|said| said.correlation.as_deref());
    let Some(envelope) = correlation.and_then(|text| calls.take_answered(text)) else {
        return Ok(());
    };
    for frame in Message::from_raw(&envelope).frames() {
        traffic.frame(frame, true, out);
    }
    write_body(Parts::of(properties), content, traffic, out);
    Ok(())
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
        if calls.len() >= front.settings.requests_max {
            return cx.kernel.refuse(session, payload.raw().len());
        }
        let envelope: Box<[u8]> = envelope.raw().into();
        let bytes = envelope.len();
        let number = calls.add(cx.now + timeout, envelope, bytes);
        scratch.properties.reply_to = Some(calls.reply_to());
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
            Some(Outcome::Asked) => calls.is_asked_of_shards(number, question),
            // No answer will come.
            _ => _ = calls.take(number),
        }
    }

    /// What other shards say of a publish is known: a request that is refused has no answer.
    pub(super) fn on_decided(cx: &mut Cx<'_>, question: u64, is_refused: bool) {
        let front = ZmtpFront::of(cx.links, cx.id).filter(|_| is_refused);
        let Some(calls) = front.and_then(|front| front.calls.as_mut()) else {
            return;
        };
        calls.take_refused(question);
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
        let name = key.name("zmtp answers", 0);
        let queue = take_answers(cx, session, name, (ANSWERS_LINE, ANSWERS))?;
        if let Place::Queue { .. } = place(&service) {
            // Requests may come before their workers. Who may not make it finds it or does not.
            let _ = ZmtpFront::make_queue(cx, session, &service);
        }
        if let Some(front) = ZmtpFront::of(cx.links, cx.id) {
            front.calls = Some(Box::new(Calls::new(&queue, key)));
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
