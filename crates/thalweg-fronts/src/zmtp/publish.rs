//! Messages of PUB and PUSH.

use super::header::{self, HeaderFields};
use super::parts::Parts;
use super::{Role, ZmtpFront, ZmtpSettings, address};
use crate::front::{Cx, Variant};
use crate::native;
use crate::probe::Mark;
use crate::stamp;
use thalweg_kernel::{Cut, Draft, Native, Outcome, Run, SessionId, queue_address};
use thalweg_model::{Address, Properties, Reliability, RetainOp, Span, Time};
use thalweg_zmtp::{Message, Traffic, WholeMessage};

/// Buffers that a publish needs now and then.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) address: String,
    /// What a publisher's `address` was read from.
    name: Name,
    /// Frames, one behind the other.
    pub(super) payload: Vec<u8>,
    pub(super) lengths: Vec<u8>,
    /// Where the messages of a run are.
    cuts: Vec<Cut>,
    /// Say where the message was cut.
    pub(super) properties: Properties,
}

impl Scratch {
    /// The buffers of the last message, if this one goes to the same address and says nothing that needs more than
    /// [`ZmtpFront::publish_same`].
    #[inline(always)]
    pub(super) fn take_if_same(
        kept: &mut Option<Box<Scratch>>,
        role: Role,
        is_durable: bool,
        whole: &WholeMessage<'_>,
    ) -> Option<Box<Scratch>> {
        kept.take_if(|scratch| {
            let may_be = !is_durable || role == Role::Publisher;
            may_be
                && !scratch.address.is_empty()
                && !scratch.name.is_retained
                && scratch.name.is_same(role, whole)
        })
    }

    /// Notes where the messages at the start of `bytes` are that are named as the last one was; how many there are.
    #[inline]
    pub(super) fn gather(&mut self, role: Role, bytes: &[u8], traffic: &mut Traffic) -> usize {
        self.cuts.clear();
        let mut end = 0;
        while let Some(whole) = bytes
            .get(end..)
            .and_then(|rest| traffic.whole_message(rest))
        {
            let len = whole.message.raw().len();
            if end + len > RUN_BYTES_MAX
                || self.cuts.len() == RUN_MAX
                || !self.name.is_same(role, &whole)
            {
                break;
            }
            end += len;
            self.cuts.push(Cut {
                payload: (end - self.name.payload_of(role, &whole).len()) as u32,
                end: end as u32,
            });
        }
        self.cuts.len()
    }
}

/// How a publisher's last message was named, so that the same name costs a comparison.
#[derive(Default)]
struct Name {
    /// The beginning of the first frame, with the separator if there is one.
    head: Vec<u8>,
    separator: Option<u8>,
    /// The message had one frame.
    is_single: bool,
    is_retained: bool,
}

impl Name {
    /// Whether a message has it, and goes where the last one went. That of a PUSH has none.
    #[inline]
    fn is_same(&self, role: Role, whole: &WholeMessage<'_>) -> bool {
        match role {
            Role::Publisher => self.is_of(whole.first, whole.second.is_none()),
            Role::Pusher => whole.second.is_none(),
            _ => false,
        }
    }

    /// The payload of such a message.
    #[inline]
    fn payload_of<'b>(&self, role: Role, whole: &WholeMessage<'b>) -> &'b [u8] {
        match whole.second {
            Some(second) => second,
            None if role == Role::Publisher => {
                whole.first.get(self.head.len()..).unwrap_or_default()
            }
            None => whole.first,
        }
    }

    /// Whether a message with this first frame has it.
    #[inline]
    fn is_of(&self, first: &[u8], is_single: bool) -> bool {
        self.is_single == is_single
            && first.starts_with(&self.head)
            && (self.separator.is_some() || first.len() == self.head.len())
    }

    /// The name of a message with this first frame, and its address; an empty one if it has none.
    #[inline(never)]
    fn read(
        &mut self,
        first: &[u8],
        is_single: bool,
        settings: &ZmtpSettings,
        address: &mut String,
    ) {
        let is_end = |byte: &u8| is_single && settings.separators.contains(byte);
        let (name, head) = match first.iter().position(is_end) {
            Some(at) => (&first[..at], &first[..=at]),
            None => (first, first),
        };
        self.separator = head.get(name.len()).copied();
        self.is_single = is_single;
        self.head.clear();
        self.head.extend_from_slice(head);
        address.clear();
        match address::as_it_is(name) {
            Some(plain) => address.push_str(plain),
            None => address::read(name, address),
        }
        if Address::check(address).is_err() {
            // Nothing before its separator, or too long a text: no filter could want it.
            address.clear();
        }
        self.is_retained = settings
            .retains
            .iter()
            .any(|filter| filter.matches(address));
    }
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
    #[inline]
    pub(super) fn publish(cx: &mut Cx<'_>, role: Role, message: Message<'_>) {
        let Some(link) = cx.links.get_mut(cx.id) else {
            return;
        };
        let (Some(session), Some(front)) = (link.session, ZmtpFront::from_any_mut(&mut link.front))
        else {
            return;
        };
        let mut scratch = front.scratch.take().unwrap_or_default();
        let (settings, has_header) = (&*front.settings, front.has_header);
        let Scratch {
            address,
            name,
            payload,
            lengths,
            properties,
            ..
        } = &mut *scratch;
        let (mut frames, is_single) = (message.frames(), message.is_single());
        let mut body = frames.next().unwrap_or_default();
        let (mut parts, mut said) = (Parts::Two, HeaderFields::default());
        let is_publisher = role == Role::Publisher;
        if is_publisher {
            if address.is_empty() || !name.is_of(body, is_single) {
                name.read(body, is_single, settings, address);
            }
            if is_single {
                parts = Parts::One(name.separator);
                body = body.get(name.head.len()..).unwrap_or_default();
            } else {
                body = frames.next().unwrap_or_default();
            }
        } else if address.is_empty() {
            *address = queue_address("", &settings.queue);
            name.is_retained = settings
                .retains
                .iter()
                .any(|filter| filter.matches(address));
        }
        if has_header {
            *properties = Properties::default();
            if !is_publisher || !is_single {
                said = header::read(body, properties);
                body = frames.next().unwrap_or_default();
            }
        }
        if let Some(second) = frames.next() {
            let frames = [body, second].into_iter().chain(frames);
            (body, parts) = join(frames, payload, lengths);
        }
        parts.put(properties);
        let stamp = match has_header {
            true => stamp::take(properties, session, cx.kernel),
            false => None,
        };
        let has_properties = properties.native.is_some() || (has_header && !properties.is_empty());
        let draft = Draft {
            address,
            payload: body,
            reliability: match is_publisher || !settings.durable {
                true => Reliability::AtMostOnce,
                false => Reliability::AtLeastOnce,
            },
            retain: match name.is_retained {
                true => RetainOp::Set,
                false => RetainOp::None,
            },
            expires_in: said.expires_in,
            priority: said.priority,
            properties: has_properties.then_some(properties),
            ticket: 0,
            native: (is_publisher && !has_header).then_some(Native {
                dialect: native::ZMTP,
                frame: message.raw(),
            }),
            stamp,
        };
        let len = draft.payload.len();
        let outcome = match draft.address.is_empty() {
            false => ZmtpFront::publish_draft(cx, session, draft),
            true => Outcome::BadAddress,
        };
        if let Outcome::BadAddress | Outcome::Full = outcome {
            ZmtpFront::unpublished(cx, role, session, outcome, message, len);
        }
        ZmtpFront::keep_scratch(cx, scratch);
    }

    /// [`ZmtpFront::publish`] of a message that [`Scratch::take_if_same`] has recognized.
    #[inline(always)]
    pub(super) fn publish_same(
        cx: &mut Cx<'_>,
        role: Role,
        session: SessionId,
        scratch: Box<Scratch>,
        whole: &WholeMessage<'_>,
    ) {
        let is_publisher = role == Role::Publisher;
        let payload = scratch.name.payload_of(role, whole);
        let draft = Draft {
            native: is_publisher.then_some(Native {
                dialect: native::ZMTP,
                frame: whole.message.raw(),
            }),
            // The message before had the same name, and so was cut at the same place.
            properties: (is_publisher && whole.second.is_none()).then_some(&scratch.properties),
            ..Draft::new(&scratch.address, payload, Reliability::AtMostOnce)
        };
        let outcome = ZmtpFront::publish_draft(cx, session, draft);
        if let Some(front) = ZmtpFront::of(cx.links, cx.id) {
            front.scratch = Some(scratch);
        }
        if let Outcome::BadAddress | Outcome::Full = outcome {
            let message = whole.message;
            ZmtpFront::unpublished(cx, role, session, outcome, message, payload.len());
        }
    }

    /// The same of all messages at the start of `bytes` that have the same name; how many bytes those are that were
    /// published.
    pub(super) fn publish_run(
        cx: &mut Cx<'_>,
        role: Role,
        session: SessionId,
        scratch: Box<Scratch>,
        bytes: &[u8],
    ) -> usize {
        let is_publisher = role == Role::Publisher;
        let has_properties = is_publisher && scratch.name.is_single;
        let like = Draft {
            properties: has_properties.then_some(&scratch.properties),
            ..Draft::new(&scratch.address, &[], Reliability::AtMostOnce)
        };
        let end_of = |count: usize| {
            let last = count.checked_sub(1).and_then(|at| scratch.cuts.get(at));
            last.map_or(0, |cut| cut.end as usize)
        };
        let run = Run {
            like: &like,
            dialect: match is_publisher {
                true => native::ZMTP,
                false => native::ZMTP_PUSHED,
            },
            frames: bytes.get(..end_of(scratch.cuts.len())).unwrap_or(bytes),
            cuts: &scratch.cuts,
        };
        let done = cx.publish_run(session, &run, |cx, outcome, frame, len| {
            if let Outcome::BadAddress | Outcome::Full = outcome {
                let message = Message::from_raw(frame);
                ZmtpFront::unpublished(cx, role, session, outcome, message, len);
            }
        });
        let consumed = end_of(done);
        if let Some(front) = ZmtpFront::of(cx.links, cx.id) {
            front.scratch = Some(scratch);
        }
        consumed
    }

    /// A message was not taken.
    #[cold]
    fn unpublished(
        cx: &mut Cx<'_>,
        role: Role,
        session: SessionId,
        outcome: Outcome,
        message: Message<'_>,
        len: usize,
    ) {
        match outcome {
            Outcome::Full if role == Role::Pusher => ZmtpFront::put_off(cx, message),
            _ => cx.kernel.refuse(session, len),
        }
    }

    /// A queue has no room for a message, and its PUSH cannot be told so: nothing behind it is read until there is room,
    /// and the peer's own queue fills.
    #[cold]
    fn put_off(cx: &mut Cx<'_>, message: Message<'_>) {
        let until = cx.now + FULL_PAUSE;
        if let Some(link) = cx.links.get_mut(cx.id) {
            link.pause_until = link.pause_until.max(Some(until));
        }
        if let Some(front) = ZmtpFront::of(cx.links, cx.id) {
            front.put_off = Some(message.raw().into());
            front.put_off_until = until;
        }
        // It is one message, which has been read already: there is no refusing it.
        let _ = ZmtpFront::has_room(cx);
    }

    /// Publishes what was put off; false if that has to wait still.
    #[cold]
    pub(super) fn catch_up(cx: &mut Cx<'_>) -> bool {
        let Some(front) = ZmtpFront::of(cx.links, cx.id) else {
            return true;
        };
        front.put_off_until = Time::NEVER;
        if let Some(raw) = front.put_off.take() {
            ZmtpFront::publish(cx, Role::Pusher, Message::from_raw(&raw));
        }
        let _ = ZmtpFront::has_room(cx);
        ZmtpFront::of(cx.links, cx.id).is_none_or(|front| front.put_off.is_none())
    }

    /// Keeps buffers for the next message, if they are small.
    pub(super) fn keep_scratch(cx: &mut Cx<'_>, mut scratch: Box<Scratch>) {
        if scratch.payload.capacity() > KEPT_MAX {
            scratch.payload = Vec::new();
        }
        if scratch.name.head.capacity() > KEPT_MAX {
            (scratch.name, scratch.address) = (Name::default(), String::new());
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

/// How long a PUSH is not read when its queue has no room, before that is tried again.
const FULL_PAUSE: Span = Span::from_millis(200);

/// Messages that are published at once, and bytes of them: enough that what is done once costs little for each.
const RUN_MAX: usize = 256;
const RUN_BYTES_MAX: usize = 32 << 10;

/// A larger buffer is not kept for the next message.
pub(super) const KEPT_MAX: usize = 64 << 10;
