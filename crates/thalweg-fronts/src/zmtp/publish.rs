//! Messages of PUB and PUSH.

use super::header::{self, Said};
use super::parts::Parts;
use super::{Role, ZmtpFront, address};
use crate::front::{Cx, Variant};
use crate::native;
use crate::probe::Mark;
use thalweg_kernel::{Draft, Native, Outcome, SessionId, queue_address};
use thalweg_model::{Address, Properties, Reliability, RetainOp};
use thalweg_zmtp::Message;

/// Buffers that a publish needs now and then.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) address: String,
    /// Frames, one behind the other.
    pub(super) payload: Vec<u8>,
    pub(super) lengths: Vec<u8>,
    /// Say where the message was cut.
    pub(super) properties: Properties,
}

/// The payload that several frames are, and where it is cut.
pub(super) fn join<'a, 'f>(
    frames: impl Iterator<Item = &'f [u8]>,
    payload: &'a mut Vec<u8>,
    lengths: &'a mut Vec<u8>,
) -> (&'a [u8], Parts<'a>) {
    payload.clear();
    lengths.clear();
    for frame in frames {
        payload.extend_from_slice(frame);
        // No message is longer than its limit, which a frame's length of four bytes can say.
        lengths.extend_from_slice(&(frame.len() as u32).to_le_bytes());
    }
    (payload, Parts::Several(lengths))
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
        let (mut first, mut said) = (frames.next(), Said::default());
        if settings.header_frame {
            *properties = Properties::default();
            if let Some(frame) = first {
                said = header::read(frame, properties);
                first = Some(frames.next().unwrap_or_default());
            }
        }
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
            let frames = [body, second].into_iter().chain(frames);
            (body, parts) = join(frames, payload, lengths);
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
        let has_properties = properties.native.is_some() || settings.header_frame;
        let draft = Draft {
            address,
            payload: body,
            reliability: match role {
                Role::Pusher if settings.durable => Reliability::AtLeastOnce,
                _ => Reliability::AtMostOnce,
            },
            retain: match settings
                .retains
                .iter()
                .any(|filter| filter.matches(address))
            {
                true => RetainOp::Set,
                false => RetainOp::None,
            },
            expires_in: said.expires_in,
            priority: said.priority,
            properties: (has_properties && !properties.is_empty()).then_some(properties),
            ticket: 0,
            native: (role == Role::Publisher && !settings.header_frame).then_some(Native {
                dialect: native::ZMTP,
                frame: message.raw(),
            }),
            stamp: None,
        };
        if let Some(session) = cx.session() {
            match Address::check(draft.address) {
                Ok(()) => _ = ZmtpFront::publish_draft(cx, session, draft),
                // Nothing before its separator, or too long a text: no filter could want it.
                Err(_) => cx.kernel.refuse(session, draft.payload.len()),
            }
        }
        ZmtpFront::keep_scratch(cx, scratch);
    }

    /// Keeps buffers for the next message, if they are small.
    pub(super) fn keep_scratch(cx: &mut Cx<'_>, mut scratch: Box<Scratch>) {
        if scratch.payload.capacity() > KEPT_MAX {
            scratch.payload = Vec::new();
        }
        if let Some(front) = ZmtpFront::of(cx.links, cx.id) {
            front.scratch = Some(scratch);
        }
    }

    /// Publishes, and stops reading if the peer is over its rate.
    #[inline]
    pub(super) fn publish_draft(cx: &mut Cx<'_>, session: SessionId, draft: Draft<'_>) -> Outcome {
        cx.links.mark(Mark::FrontIn);
        let published = cx.kernel.publish(session, draft, cx.now, cx.links);
        cx.links.mark(Mark::KernelPublish);
        if let Some(until) = published.pause_until
            && let Some(link) = cx.links.get_mut(cx.id)
        {
            link.pause_until = Some(until);
        }
        published.outcome
    }
}

/// A larger buffer is not kept for the next message.
const KEPT_MAX: usize = 64 << 10;
