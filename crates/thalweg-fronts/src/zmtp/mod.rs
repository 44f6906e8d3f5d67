//! ZeroMQ: sockets of ZMTP 3.0 and 3.1 in the one message space.
//!
//! One port serves all: the peer's socket type says what it is here. PUB publishes, SUB subscribes to prefixes, PUSH sends to
//! a queue and PULL takes from it; XPUB and XSUB are PUB and SUB. REQ and DEALER ask, REP and ROUTER answer; a DEALER answers,
//! too, once it says READY as a worker of Majordomo does.

mod capabilities;
mod connect;
mod deliver;
mod dial;
mod envelope;
mod header;
mod parts;
mod publish;
mod request;
mod serve;
mod settings;
mod subscribe;

use crate::AnyFront;
use crate::LoginAnswer;
use crate::front::{Cx, Front, FrontSettings, Step, Variant};
use connect::Handshake;
use core::hint::cold_path;
use publish::{KEPT_MAX, Scratch};
use request::Calls;
use serve::Worker;
use std::sync::Arc;
use subscribe::Subscriptions;
use thalweg_kernel::Closing;
use thalweg_kernel::access::Access;
use thalweg_model::{Span, Time, octets as address};
use thalweg_zmtp::{Event, Gathered, PeerFault, SocketType, Traffic, Version};

pub(crate) use capabilities::PROTOCOL;
pub use capabilities::ZMTP;
pub use dial::ZmtpDial;
pub use settings::{CurveSettings, ZmtpSettings};

/// The consumer of a PULL or a worker, and its line.
const CONSUMER: u32 = 1;
const LINE: u16 = 1;
/// Those of the answers to a connection's requests.
const ANSWERS: u32 = 2;
const ANSWERS_LINE: u16 = 2;
/// Times a sign of life may fail to come.
const BEATS_MISSED: u64 = 3;

/// ZMTP's side of a link.
pub struct ZmtpFront {
    settings: Arc<ZmtpSettings>,
    /// What the broker connected for, if it did.
    dial: Option<Arc<ZmtpDial>>,
    /// Unique in the process and hard to guess.
    nonce: u64,
    /// What peers without credentials may do; `None`: they have to log in.
    anonymous: Option<Access>,
    stage: Stage,
    /// Messages have a header frame behind the address.
    has_header: bool,
    /// What could not be borrowed from the input; between two steps a buffer of at most [`KEPT_MAX`] bytes, for the next one.
    gathered: Gathered,
    subscriptions: Subscriptions,
    /// What the peer has asked; nothing until it asks.
    calls: Option<Box<Calls>>,
    /// What it is asked, if it is a worker.
    worker: Option<Box<Worker>>,
    /// Buffers of a publish; away during one.
    scratch: Option<Box<Scratch>>,
    /// A message of a PUSH for which there was no room, as it was framed.
    put_off: Option<Box<[u8]>>,
    /// When that is tried again.
    put_off_until: Time,
    /// The first frame of a delivery.
    head: Vec<u8>,
    /// What the peer says of itself, for operators.
    said: Vec<(Box<str>, Box<str>)>,
    /// How long the peer wants to be thought alive after its last byte; zero: as long as we like.
    time_to_live: Span,
    ping_due: Time,
    fault: Option<Box<str>>,
}

enum Stage {
    Handshake(Box<Handshake>),
    Open(Traffic, Role),
    Closed,
}

/// What a peer is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Publisher,
    Subscriber,
    /// It sends to the queue.
    Pusher,
    /// It takes from the queue.
    Puller,
    /// Its messages are requests, to any address.
    Requester,
    /// It is sent requests; its messages are answers.
    Worker,
}

impl Role {
    /// What a peer of this socket type is, and the type of socket that it finds here.
    fn of(peer: SocketType) -> Option<(Role, SocketType)> {
        match peer {
            SocketType::Pub | SocketType::Xpub => Some((Role::Publisher, SocketType::Xsub)),
            SocketType::Sub | SocketType::Xsub => Some((Role::Subscriber, SocketType::Xpub)),
            SocketType::Push => Some((Role::Pusher, SocketType::Pull)),
            SocketType::Pull => Some((Role::Puller, SocketType::Push)),
            SocketType::Req | SocketType::Dealer => Some((Role::Requester, SocketType::Router)),
            SocketType::Rep | SocketType::Router => Some((Role::Worker, SocketType::Dealer)),
            _ => None,
        }
    }

    /// Whether it has to do with topics, not with queues.
    fn uses_topics(self) -> bool {
        matches!(self, Role::Publisher | Role::Subscriber)
    }
}

impl ZmtpFront {
    /// A front for a new connection; see [`FrontSettings::stream_front`].
    pub fn new(settings: Arc<ZmtpSettings>, nonce: u64, anonymous: Option<Access>) -> Self {
        let handshake = Handshake::new(&settings, nonce);
        ZmtpFront::begin(settings, None, handshake, nonce, anonymous)
    }

    /// A front for a connection that the broker has opened.
    fn dialed(dial: Arc<ZmtpDial>, nonce: u64) -> Self {
        let handshake = Handshake::dialed(&dial);
        ZmtpFront::begin(dial.settings.clone(), Some(dial), handshake, nonce, None)
    }

    fn begin(
        settings: Arc<ZmtpSettings>,
        dial: Option<Arc<ZmtpDial>>,
        handshake: Handshake,
        nonce: u64,
        anonymous: Option<Access>,
    ) -> Self {
        let subscriptions = Subscriptions::new(settings.invert_matching);
        ZmtpFront {
            has_header: settings.header_frame,
            settings,
            dial,
            nonce,
            anonymous,
            stage: Stage::Handshake(Box::new(handshake)),
            gathered: Gathered::default(),
            subscriptions,
            calls: None,
            worker: None,
            scratch: None,
            put_off: None,
            put_off_until: Time::NEVER,
            head: Vec::new(),
            said: Vec::new(),
            time_to_live: Span::ZERO,
            ping_due: Time::NEVER,
            fault: None,
        }
    }

    /// Lets the front write traffic, if it is open.
    fn write_traffic(cx: &mut Cx<'_>, write: impl FnOnce(&mut Traffic, &mut Vec<u8>)) {
        ZmtpFront::write(cx.links, cx.id, |front, out| {
            if let Stage::Open(traffic, _) = &mut front.stage {
                write(traffic, out);
            }
        });
    }

    fn on_event(cx: &mut Cx<'_>, role: Role, event: Event<'_>) {
        match event {
            Event::Consumed | Event::Pong(_) | Event::Unknown { .. } => {}
            Event::Message(message) => match role {
                Role::Publisher | Role::Pusher => ZmtpFront::publish(cx, role, message),
                Role::Requester => ZmtpFront::on_request(cx, message),
                Role::Worker => ZmtpFront::on_answer(cx, message),
                // XSUB may send messages up to its publishers; here there is no receiver for them.
                Role::Subscriber | Role::Puller => {}
            },
            Event::Subscribe(prefix) => ZmtpFront::on_subscribe(cx, prefix),
            Event::Cancel(prefix) => ZmtpFront::on_cancel(cx, prefix),
            Event::Ping { ttl, context } => {
                if let Some(front) = ZmtpFront::of(cx.links, cx.id) {
                    front.time_to_live = Span::from_millis(u64::from(ttl) * 100);
                }
                ZmtpFront::write_traffic(cx, |traffic, out| traffic.pong(context, out));
            }
        }
    }

    fn kept(&self) -> usize {
        let calls = self.calls.as_ref().map_or(0, |calls| calls.bytes());
        let requests = self.worker.as_ref().map_or(0, |worker| worker.bytes());
        let put_off = self.put_off.as_ref().map_or(0, |raw| raw.len());
        self.subscriptions.bytes() + calls + requests + put_off
    }

    /// Counts what is kept. Whether there is memory for what is more than before.
    fn has_room(cx: &mut Cx<'_>) -> bool {
        let kept = ZmtpFront::at(cx.links, cx.id).map_or(0, ZmtpFront::kept);
        cx.links.count_kept(cx.id, kept, cx.kernel)
    }

    /// The peer broke the protocol: the link ends without a word, as the specification wants it.
    fn fail(cx: &mut Cx<'_>, fault: &PeerFault) {
        ZmtpFront::give_up(cx, &fault.to_string());
    }

    fn give_up(cx: &mut Cx<'_>, why: &str) {
        if let Some(front) = ZmtpFront::of(cx.links, cx.id) {
            front.stage = Stage::Closed;
            front.fault = Some(why.into());
        }
        cx.end(Closing::Cut, None);
    }
}

impl Front for ZmtpFront {
    #[inline]
    fn step(cx: &mut Cx<'_>, bytes: &[u8]) -> Step {
        let Some(link) = cx.links.get_mut(cx.id) else {
            return Step::Hold;
        };
        let session = link.session;
        let Some(mut front) = ZmtpFront::from_any_mut(&mut link.front) else {
            return Step::Hold;
        };
        if front.put_off.is_some() {
            cold_path();
            if !ZmtpFront::catch_up(cx) {
                return Step::Hold;
            }
            let Some(same) = ZmtpFront::of(cx.links, cx.id) else {
                return Step::Hold;
            };
            front = same;
        }
        let (traffic, role) = match &mut front.stage {
            Stage::Open(traffic, role) => (traffic, *role),
            Stage::Handshake(_) => return ZmtpFront::shake_hands(cx, bytes),
            Stage::Closed => return Step::Hold,
        };
        if matches!(role, Role::Publisher | Role::Pusher)
            && let Some(session) = session
            && let Some(whole) = traffic.whole_message(bytes)
            && !front.has_header
            && let Some(mut scratch) =
                Scratch::take_if_same(&mut front.scratch, role, front.settings.durable, &whole)
        {
            let len = whole.message.raw().len();
            if bytes.len() > len
                && scratch.gather(role, bytes, traffic) > 1
                && !cx.links.is_probing()
            {
                return Step::Consumed(ZmtpFront::publish_run(cx, role, session, scratch, bytes));
            }
            ZmtpFront::publish_same(cx, role, session, scratch, &whole);
            return Step::Consumed(len);
        }
        let mut gathered = std::mem::take(&mut front.gathered);
        let step = match traffic.handle_input(bytes, &mut gathered) {
            Ok(None) => Step::NeedMore,
            Ok(Some((len, event))) => {
                ZmtpFront::on_event(cx, role, event);
                Step::Consumed(len)
            }
            Err(fault) => {
                ZmtpFront::fail(cx, &fault);
                Step::Hold
            }
        };
        // What a large message needed is not kept for the next one.
        if gathered.capacity() <= KEPT_MAX
            && let Some(front) = ZmtpFront::of(cx.links, cx.id)
        {
            front.gathered = gathered;
        }
        step
    }

    fn on_published(cx: &mut Cx<'_>, question: u64, is_refused: bool) {
        ZmtpFront::on_decided(cx, question, is_refused);
    }

    fn on_login(cx: &mut Cx<'_>, _: &str, answer: LoginAnswer) {
        ZmtpFront::on_verdict(cx, answer);
    }

    fn on_timer(cx: &mut Cx<'_>) {
        let now = cx.now;
        if ZmtpFront::at(cx.links, cx.id).is_some_and(|front| front.put_off_until <= now) {
            ZmtpFront::catch_up(cx);
        }
        ZmtpFront::write(cx.links, cx.id, |front, out| {
            if let Stage::Open(traffic, _) = &mut front.stage
                && front.ping_due <= now
            {
                front.ping_due = now + front.settings.heart_beat;
                traffic.ping(0, b"", out);
            }
            if let Some(calls) = &mut front.calls {
                while calls.take_due(now).is_some() {}
            }
        });
    }

    fn is_connected(&self) -> bool {
        matches!(self.stage, Stage::Open(..))
    }

    fn holds_input(&self) -> bool {
        matches!(&self.stage, Stage::Handshake(handshake) if handshake.is_waiting())
    }

    fn fault(&self) -> Option<String> {
        self.fault.as_deref().map(Into::into)
    }

    /// What the peer asked for itself, or what it was promised to be asked.
    fn silence_max(&self) -> Option<Span> {
        if self.time_to_live > Span::ZERO {
            return Some(self.time_to_live);
        }
        (self.ping_due != Time::NEVER)
            .then(|| Span::from_nanos(self.settings.heart_beat.nanos() * BEATS_MISSED))
    }

    fn gathered_bytes(&self) -> usize {
        match &self.stage {
            Stage::Open(traffic, _) => traffic.gathered_bytes() + self.gathered.capacity(),
            Stage::Handshake(_) | Stage::Closed => 0,
        }
    }

    fn kept_bytes(&self) -> Option<usize> {
        Some(self.kept())
    }

    /// What is delivered to subscribers is not kept.
    #[inline]
    fn kept_after_delivery(&self) -> Option<usize> {
        (self.calls.is_some() || self.worker.is_some()).then(|| self.kept())
    }

    fn client_properties(&self) -> &[(Box<str>, Box<str>)] {
        &self.said
    }

    fn has_timers(&self) -> bool {
        true
    }

    fn next_timer(&self) -> Time {
        let calls = self.calls.as_ref();
        self.ping_due
            .min(self.put_off_until)
            .min(calls.map_or(Time::NEVER, |calls| calls.next_due()))
    }
}

impl FrontSettings for ZmtpSettings {
    fn stream_front(self: Arc<Self>, nonce: u64, anonymous: Option<Access>) -> Option<AnyFront> {
        Some(ZmtpFront::new(self, nonce, anonymous).into())
    }
}

/// How operators see a peer.
fn dialect(version: Version) -> &'static str {
    match version {
        Version::V30 => "ZMTP 3.0",
        Version::V31 => "ZMTP 3.1",
    }
}
