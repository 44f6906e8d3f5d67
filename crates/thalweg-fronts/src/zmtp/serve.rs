//! Workers: REP and ROUTER, and a DEALER that says READY as a worker of Majordomo does.
//!
//! All workers of an address share what is asked there, as a group or as consumers of a queue; so do workers of other
//! protocols. A request is settled by its answer. What a worker holds when it is lost goes to another.

use super::envelope::{DISCONNECT, HEARTBEAT, MDP_WORKER, READY, REPLY, REQUEST, split};
use super::parts::Parts;
use super::request::{body_of, write_body};
use super::{CONSUMER, LINE, Role, Stage, ZmtpFront, address};
use crate::front::{Cx, Undelivered, Variant};
use crate::native;
use std::collections::VecDeque;
use thalweg_kernel::{Content, Delivery, Draft, Refusal, SessionId, Tags, Verdict};
use thalweg_model::place::{Place, place};
use thalweg_model::{Address, Properties, Reliability};
use thalweg_zmtp::{Frames, Message, Traffic};

/// What a worker has and has not answered yet.
pub(super) struct Worker {
    held: VecDeque<Held>,
    /// Octets that count for the link because of `held`.
    bytes: usize,
    /// Commands of Majordomo stand before requests and answers.
    is_majordomo: bool,
    /// A frame before the empty one tells requests apart, since it may have several.
    is_tagged: bool,
}

struct Held {
    tag: u64,
    settles: bool,
    reply_to: Option<Box<str>>,
    correlation: Option<Box<[u8]>>,
}

impl Held {
    fn bytes(&self) -> usize {
        let reply_to = self.reply_to.as_ref().map_or(0, |text| text.len());
        let correlation = self.correlation.as_ref().map_or(0, |bytes| bytes.len());
        size_of::<Held>() + reply_to + correlation
    }
}

/// The group that workers of an address are, if that is no queue's.
const GROUP: &str = "zmtp";

impl Worker {
    /// Writes a request, and remembers where its answer goes.
    pub(super) fn ask(
        &mut self,
        content: &Content<'_>,
        delivery: &Delivery<'_>,
        traffic: &mut Traffic,
        out: &mut Vec<u8>,
    ) -> Result<(), Undelivered> {
        let properties = content.properties();
        let said = properties.map(native::neutral);
        let held = Held {
            tag: delivery.tag,
            settles: delivery.settles,
            reply_to: said.as_ref().and_then(|said| said.reply_to.clone()),
            correlation: said.as_ref().and_then(|said| said.correlation.clone()),
        };
        self.bytes += held.bytes();
        self.held.push_back(held);
        let tag = delivery.tag.to_be_bytes();
        if self.is_majordomo {
            for frame in [&b""[..], MDP_WORKER, REQUEST] {
                traffic.frame(frame, true, out);
            }
        }
        if self.is_majordomo || self.is_tagged {
            traffic.frame(&tag, true, out);
        }
        traffic.frame(b"", true, out);
        write_body(Parts::of(properties), content, traffic, out);
        Ok(())
    }

    /// The request that an answer with this tag is for, or the oldest.
    fn take(&mut self, tag: Option<&[u8]>) -> Option<Held> {
        let at = match tag {
            None => 0,
            Some(tag) => {
                let tag = u64::from_be_bytes(tag.try_into().ok()?);
                self.held.iter().position(|held| held.tag == tag)?
            }
        };
        let held = self.held.remove(at)?;
        self.bytes -= held.bytes();
        Some(held)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl ZmtpFront {
    /// Makes the peer a worker of the address that `name` is, or of the configured service. It has up to `window` requests at
    /// once.
    pub(super) fn serve(cx: &mut Cx<'_>, name: &[u8], window: u32) {
        ZmtpFront::begin_to_serve(cx, name, window, false);
    }

    fn begin_to_serve(cx: &mut Cx<'_>, name: &[u8], window: u32, is_majordomo: bool) {
        let (Some(session), Some(front)) = (cx.session(), ZmtpFront::of(cx.links, cx.id)) else {
            return;
        };
        let mut address = String::new();
        match name {
            [] => address.push_str(&front.settings.service),
            name => address::read(name, &mut address),
        }
        front.worker = Some(Box::new(Worker {
            held: VecDeque::new(),
            bytes: 0,
            is_majordomo,
            is_tagged: window > 1,
        }));
        if let Stage::Open(_, role) = &mut front.stage {
            *role = Role::Worker;
        }
        front.said.push(("service".into(), address.as_str().into()));
        if let Err(refusal) = ZmtpFront::join_workers(cx, session, &address, window) {
            ZmtpFront::give_up(cx, &format!("'{address}' cannot be served: {refusal}"));
        }
    }

    fn join_workers(
        cx: &mut Cx<'_>,
        session: SessionId,
        address: &str,
        window: u32,
    ) -> Result<(), Refusal> {
        if let Place::Queue { .. } = place(address) {
            ZmtpFront::make_queue(cx, session, address)?;
            return ZmtpFront::consume(cx, session, address, Some(window));
        }
        let group = format!("$g/{GROUP}/{address}");
        ZmtpFront::consume(cx, session, &group, Some(window))
    }

    /// A message of a worker.
    pub(super) fn on_answer(cx: &mut Cx<'_>, message: Message<'_>) {
        let (envelope, body) = split(message);
        let Some(front) = ZmtpFront::of(cx.links, cx.id) else {
            return;
        };
        let Some(worker) = &mut front.worker else {
            return;
        };
        let mut frames = body.frames();
        if worker.is_majordomo {
            if frames.next() == Some(MDP_WORKER) {
                ZmtpFront::on_majordomo(cx, frames);
            }
            return;
        }
        let tag = worker
            .is_tagged
            .then(|| envelope.frames().next().unwrap_or_default());
        // An answer to nothing, or to what was taken back.
        if let Some(held) = worker.take(tag) {
            ZmtpFront::answer(cx, held, body);
        }
    }

    /// A command of a worker of Majordomo. One that has not said READY is told to begin again. [7#MDP/Worker]
    pub(super) fn on_majordomo(cx: &mut Cx<'_>, mut frames: Frames<'_>) {
        let command = frames.next().unwrap_or_default();
        let Some(front) = ZmtpFront::of(cx.links, cx.id) else {
            return;
        };
        let window = front.settings.worker_window;
        match (command, &mut front.worker) {
            (READY, None) => {
                let service = frames.next().unwrap_or_default();
                ZmtpFront::begin_to_serve(cx, service, window, true);
            }
            (HEARTBEAT, Some(_)) => ZmtpFront::command(cx, HEARTBEAT),
            (REPLY, Some(worker)) => {
                let (envelope, body) = split(frames.rest());
                if let Some(held) = worker.take(envelope.frames().next()) {
                    ZmtpFront::answer(cx, held, body);
                }
            }
            (DISCONNECT, Some(_)) => ZmtpFront::stop_serving(cx),
            _ => {
                ZmtpFront::command(cx, DISCONNECT);
                ZmtpFront::stop_serving(cx);
            }
        }
    }

    fn command(cx: &mut Cx<'_>, command: &[u8]) {
        ZmtpFront::write_traffic(cx, |traffic, out| {
            traffic.frame(b"", true, out);
            traffic.frame(MDP_WORKER, true, out);
            traffic.frame(command, false, out);
        });
    }

    /// The peer is no worker any more; others get what it has not answered.
    fn stop_serving(cx: &mut Cx<'_>) {
        let (Some(session), Some(front)) = (cx.session(), ZmtpFront::of(cx.links, cx.id)) else {
            return;
        };
        if front.worker.take().is_none() {
            return;
        }
        front.said.retain(|(name, _)| &**name != "service");
        if let Stage::Open(_, role) = &mut front.stage {
            *role = Role::Requester;
        }
        let (now, links) = (cx.now, &mut *cx.links);
        cx.kernel.cancel(session, LINE, CONSUMER, now, links);
        cx.kernel
            .settle_line(session, LINE, Tags::All, Verdict::Requeue, now, links);
    }

    /// Publishes an answer where it is wanted, and settles the request. An answer that cannot be published is lost, and counted
    /// by the kernel.
    fn answer(cx: &mut Cx<'_>, held: Held, body: Message<'_>) {
        let (Some(session), Some(front)) = (cx.session(), ZmtpFront::of(cx.links, cx.id)) else {
            return;
        };
        let mut scratch = front.scratch.take().unwrap_or_default();
        if let Some(reply_to) = &held.reply_to
            && Address::check(reply_to).is_ok()
        {
            let (payload, parts) = body_of(body, &mut scratch.payload, &mut scratch.lengths);
            let mut properties = Properties {
                correlation: held.correlation,
                ..Properties::default()
            };
            parts.put(&mut properties);
            let draft = Draft {
                properties: Some(&properties),
                ..Draft::new(reply_to, payload, Reliability::AtLeastOnce)
            };
            ZmtpFront::publish_draft(cx, session, draft);
        }
        ZmtpFront::keep_scratch(cx, scratch);
        if held.settles {
            let tag = Tags::One(held.tag);
            let (now, links) = (cx.now, &mut *cx.links);
            cx.kernel
                .settle_line(session, LINE, tag, Verdict::Accept, now, links);
        }
    }
}
