//! Messages of PUB and PUSH.

use super::parts::Parts;
use super::{Role, ZmtpFront, address};
use crate::front::{Cx, Variant};
use crate::native;
use crate::probe::Mark;
use thalweg_kernel::{Draft, Native, queue_address};
use thalweg_model::{Properties, Reliability, RetainOp};
use thalweg_zmtp::Message;

/// Buffers that a publish needs now and then.
#[derive(Default)]
pub(super) struct Scratch {
    address: String,
    /// Frames, one behind the other.
    payload: Vec<u8>,
    lengths: Vec<u8>,
    /// Say where the message was cut.
    properties: Properties,
}

impl ZmtpFront {
    pub(super) fn publish(cx: &mut Cx<'_>, role: Role, message: Message<'_>) {
        let Some(front) = ZmtpFront::of(cx.links, cx.id) else {
            return;
        };
        let settings = front.settings.clone();
        let mut scratch = front.scratch.take().unwrap_or_default();
        let Scratch {
            address,
            payload,
            lengths,
            properties,
        } = &mut *scratch;
        let mut frames = message.frames();
        let (mut name, mut parts) = (&[][..], Parts::Two);
        if role == Role::Publisher {
            name = frames.next().unwrap_or_default();
        }
        let first = frames.next();
        let (mut body, second) = (first.unwrap_or_default(), frames.next());
        if let (Role::Publisher, None) = (role, first) {
            let at = name
                .iter()
                .position(|byte| settings.separators.contains(byte));
            parts = Parts::One(at.map(|at| name[at]));
            if let Some(at) = at {
                (name, body) = (&name[..at], &name[at + 1..]);
            }
        } else if let Some(second) = second {
            payload.clear();
            lengths.clear();
            for frame in [body, second].into_iter().chain(frames) {
                payload.extend_from_slice(frame);
                // No message is longer than its limit, which a frame's length of four bytes can say.
                lengths.extend_from_slice(&(frame.len() as u32).to_le_bytes());
            }
            (body, parts) = (payload, Parts::Several(lengths));
        }
        parts.put(properties);
        let plain = (role == Role::Publisher).then(|| address::as_it_is(name));
        let address = match plain.flatten() {
            Some(plain) => plain,
            None => {
                address.clear();
                match role {
                    Role::Pusher => {
                        address.push_str(&queue_address(&settings.tenant, &settings.queue))
                    }
                    _ => address::read(name, address),
                }
                address
            }
        };
        ZmtpFront::publish_at(cx, address, body, properties, (role, message));
        if scratch.payload.capacity() > KEPT_MAX {
            scratch.payload = Vec::new();
        }
        if let Some(front) = ZmtpFront::of(cx.links, cx.id) {
            front.scratch = Some(scratch);
        }
    }

    fn publish_at(
        cx: &mut Cx<'_>,
        address: &str,
        payload: &[u8],
        properties: &Properties,
        (role, message): (Role, Message<'_>),
    ) {
        let Some(session) = cx.session() else { return };
        if thalweg_model::Address::check(address).is_err() {
            // Nothing before its separator, or too long a text: no filter could want it.
            return cx.kernel.refuse(session, payload.len());
        }
        let draft = Draft {
            address,
            payload,
            reliability: Reliability::AtMostOnce,
            retain: RetainOp::None,
            expires_in: None,
            priority: 0,
            properties: properties.native.is_some().then_some(properties),
            ticket: 0,
            native: (role == Role::Publisher).then_some(Native {
                dialect: native::ZMTP,
                frame: message.raw(),
            }),
            stamp: None,
        };
        cx.links.mark(Mark::FrontIn);
        let published = cx.kernel.publish(session, draft, cx.now, cx.links);
        cx.links.mark(Mark::KernelPublish);
        if let Some(until) = published.pause_until
            && let Some(link) = cx.links.get_mut(cx.id)
        {
            link.pause_until = Some(until);
        }
    }
}

/// A larger buffer is not kept for the next message.
const KEPT_MAX: usize = 64 << 10;
