//! XMPP: clients of RFC 6120, and publish-subscribe by XEP-0060 in the one message space.
//!
//! The service `pubsub.DOMAIN` has a node for every address; an item is a message, and the items of a node are its last value
//! ([`pubsub`]). How payloads become elements is in [`payload`]. A client's session lasts as long as its connection, or longer if it
//! has asked for that ([`resume`]).

mod capabilities;
mod chat;
mod connect;
mod datetime;
mod deliver;
mod directed;
mod disco;
mod forms;
mod items;
mod node;
pub mod payload;
mod pep;
mod presence;
mod pubsub;
mod resume;
mod rpc;
mod settings;
mod subscriptions;

use crate::front::{Cx, Front, FrontSettings, Step, Variant};
use crate::{AnyFront, LoginAnswer, link};
use chat::Availability;
use presence::Contacts;
use pubsub::{Asked, NO_ROOM, Retraction};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use subscriptions::Nodes;
use thalweg_kernel::access::Access;
use thalweg_kernel::{Closing, Ticket};
use thalweg_model::{Span, Time};
use thalweg_xmpp::{
    ErrorType, Mechanism, PeerFault, ServerEvent, ServerSide, Stanza, StanzaError, StanzaKind, Tree,
};

pub use settings::XmppSettings;

pub(crate) use capabilities::PROTOCOL;
pub use capabilities::XMPP;

thread_local! {
    /// The tree of the stanza that is handled. One for each shard, which is a thread; empty between two stanzas.
    static TREE: Cell<Tree> = Cell::default();
}

/// XMPP's side of a link.
pub struct XmppFront {
    settings: Arc<XmppSettings>,
    /// Unique in the process and hard to guess.
    nonce: u64,
    /// What peers without credentials may do; `None`: the server is asked.
    anonymous: Option<Access>,
    side: ServerSide,
    /// Streams that were opened on this connection.
    streams: u32,
    /// TLS begins with the next octet.
    upgrades: bool,
    login: Option<Login>,
    /// The address that a client with a certificate asks for.
    acts_as: Option<Box<str>>,
    /// SCRAM was offered with channel binding.
    is_bindable: bool,
    /// What the log-in came to: the user, and what it may do then.
    allowed: Option<(Option<Box<str>>, Access)>,
    /// The client's full address; empty before it is bound.
    address: Box<str>,
    /// `pubsub.DOMAIN`.
    service: Box<str>,
    nodes: Nodes,
    contacts: Contacts,
    interests: pep::Interests,
    availability: Availability,
    /// Requests that wait for the kernel's answer.
    asked: HashMap<Ticket, Asked>,
    /// Octets that those requests take.
    asked_bytes: usize,
    /// Requests to other clients; none before the first.
    calls: Option<Box<rpc::Calls>>,
    /// Items that were looked for and are there; the next turn forgets them.
    retracting: Vec<Retraction>,
    ticket_last: Ticket,
    /// Names of subscriptions and items that were given out.
    names: u32,
    is_closed: bool,
    /// The name by which the stream can be resumed, which is its session's; none if it cannot be.
    resume: Option<Box<str>>,
    resuming: Option<resume::Resuming>,
    has_failed_to_resume: bool,
    /// When the client is asked again what it has handled.
    ask_at: Option<Time>,
    /// The session of an earlier run that the client has asked for, and that it gets if it enables resumption.
    inherits: Option<Box<str>>,
    fault: Option<Box<str>>,
}

impl XmppFront {
    /// A front for a new connection; see [`FrontSettings::stream_front`].
    pub fn new(settings: Arc<XmppSettings>, nonce: u64, anonymous: Option<Access>) -> Self {
        let side = ServerSide::new(connect::offer(&settings, anonymous.is_some()));
        XmppFront {
            service: format!("pubsub.{}", settings.domain).into(),
            settings,
            nonce,
            anonymous,
            side,
            streams: 0,
            upgrades: false,
            login: None,
            acts_as: None,
            is_bindable: false,
            allowed: None,
            address: "".into(),
            nodes: Nodes::default(),
            contacts: Contacts::default(),
            interests: pep::Interests::default(),
            availability: Availability::default(),
            asked: HashMap::new(),
            asked_bytes: 0,
            calls: None,
            retracting: Vec::new(),
            ticket_last: 0,
            names: 0,
            is_closed: false,
            resume: None,
            resuming: None,
            has_failed_to_resume: false,
            ask_at: None,
            inherits: None,
            fault: None,
        }
    }

    /// Lets the machine write.
    fn say<R>(cx: &mut Cx<'_>, say: impl FnOnce(&mut ServerSide, &mut Vec<u8>) -> R) -> Option<R> {
        XmppFront::write(cx.links, cx.id, |front, out| say(&mut front.side, out))
    }

    fn on_event(cx: &mut Cx<'_>, event: ServerEvent<'_>) {
        match event {
            ServerEvent::Consumed => {}
            ServerEvent::Acknowledged(tags) => {
                XmppFront::on_acknowledged(cx, &tags);
                let later = cx.now + ASK_AGAIN_AFTER;
                if let Some(front) = XmppFront::of(cx.links, cx.id) {
                    front.ask_at = front.side.is_to_ask().then_some(later);
                }
            }
            ServerEvent::Open(header) => XmppFront::on_open(cx, header.to.as_deref()),
            ServerEvent::Login { mechanism, message } => {
                if let Some(front) = XmppFront::of(cx.links, cx.id) {
                    front.login = Some(Login {
                        mechanism,
                        has_begun: false,
                        is_waiting: false,
                    });
                }
                XmppFront::on_login_message(cx, message.as_deref());
            }
            ServerEvent::Response(message) => XmppFront::on_login_message(cx, Some(&message)),
            ServerEvent::Aborted => {
                if let Some(front) = XmppFront::of(cx.links, cx.id) {
                    front.login = None;
                }
            }
            ServerEvent::Bind(resource) => XmppFront::on_bind(cx, resource.as_deref()),
            ServerEvent::Stanza(stanza) => XmppFront::on_stanza(cx, stanza),
            ServerEvent::Closed => {
                XmppFront::say(cx, ServerSide::close);
                XmppFront::close(cx, Closing::Clean);
            }
            ServerEvent::StartTls => {
                XmppFront::write(cx.links, cx.id, |front, out| {
                    front.side.proceed(out);
                    front.side.secured();
                    front.upgrades = true;
                });
            }
            ServerEvent::Resume { id } => XmppFront::on_resume(cx, &id),
            ServerEvent::Enable { resume } => XmppFront::on_enable(cx, resume),
        }
        let is_over = XmppFront::of(cx.links, cx.id).is_some_and(|front| front.side.is_closed());
        if is_over {
            XmppFront::close(cx, Closing::Cut);
        }
    }

    fn on_stanza(cx: &mut Cx<'_>, stanza: Stanza<'_>) {
        let Some(front) = XmppFront::of(cx.links, cx.id) else {
            return;
        };
        let to = stanza.to().unwrap_or_default();
        let is_ours = to.is_empty() || *to == *front.settings.domain || front.is_own(&to);
        match stanza.kind {
            StanzaKind::Iq if front.rpc_node(&to).is_some_and(|node| !node.is_empty()) => {
                let node = front.rpc_node(&to).unwrap_or_default();
                XmppFront::on_rpc(cx, stanza, node);
            }
            StanzaKind::Iq if !is_ours && to.contains('/') => {
                XmppFront::on_message(cx, stanza, &to)
            }
            StanzaKind::Iq if !stanza.is_request() => XmppFront::on_capabilities(cx, stanza),
            StanzaKind::Iq => match front.account_of(&to) {
                Some(account) => XmppFront::on_pubsub(cx, stanza, &account),
                None if is_ours || front.rpc_node(&to).is_some() => {
                    XmppFront::on_request(cx, stanza, &None)
                }
                None => {
                    let unavailable = StanzaError::new(ErrorType::Cancel, "service-unavailable");
                    XmppFront::reply_error(cx, stanza, unavailable);
                }
            },
            StanzaKind::Presence => XmppFront::on_presence(cx, stanza),
            StanzaKind::Message => XmppFront::on_message(cx, stanza, &to),
        }
    }

    /// The user who has logged in.
    fn user(&self) -> Option<&str> {
        self.allowed.as_ref()?.0.as_deref()
    }

    /// Whether an address is the client's, with or without its resource.
    fn is_own(&self, address: &str) -> bool {
        let rest = self.address.strip_prefix(address);
        let is_it = |rest: &str| rest.is_empty() || rest.starts_with('/') && !address.contains('/');
        !address.is_empty() && rest.is_some_and(is_it)
    }

    fn reply(cx: &mut Cx<'_>, request: Stanza<'_>, content: impl FnOnce(&mut Vec<u8>)) {
        let (id, from) = (request.id().unwrap_or_default(), request.to());
        XmppFront::write(cx.links, cx.id, |front, out| {
            front.put_answer("result", &id, from.as_deref(), out, content);
        });
    }

    /// Answers a stanza by an error.
    fn reply_error(cx: &mut Cx<'_>, stanza: Stanza<'_>, error: StanzaError) {
        let (id, from) = (stanza.id().unwrap_or_default(), stanza.to());
        XmppFront::write(cx.links, cx.id, |front, out| {
            front.put_error(stanza.kind, &id, from.as_deref(), error, out);
        });
    }

    /// The same of one that was sent to `from`; to the server itself if that is `None`.
    fn put_error(
        &mut self,
        kind: StanzaKind,
        id: &str,
        from: Option<&str>,
        error: StanzaError,
        out: &mut Vec<u8>,
    ) {
        let attributes = [
            ("type", "error"),
            ("id", id),
            ("to", &*self.address),
            ("from", from.unwrap_or(&self.settings.domain)),
        ];
        self.side.put(kind, &attributes, out, |out| error.put(out));
    }

    /// Writes the answer to a request that was sent to `from`; to the server itself if that is `None`.
    fn put_answer(
        &mut self,
        kind: &str,
        id: &str,
        from: Option<&str>,
        out: &mut Vec<u8>,
        content: impl FnOnce(&mut Vec<u8>),
    ) {
        let attributes = [
            ("type", kind),
            ("id", id),
            ("to", &*self.address),
            ("from", from.unwrap_or(&self.settings.domain)),
        ];
        self.side.put(StanzaKind::Iq, &attributes, out, content);
    }

    /// A name that this connection has not given out; no other connection does.
    fn new_name(&mut self) -> Box<str> {
        self.names += 1;
        format!("{:x}-{}", self.nonce, self.names).into()
    }

    /// Whether either end has ended the stream: what was written last may never have left, or its sender is not trusted.
    fn is_over(&self) -> bool {
        self.is_closed || self.side.is_closed()
    }

    /// Whether another request of so many octets may wait for the kernel.
    fn may_ask(&self, bytes: usize) -> bool {
        let is_full = self.asked_bytes + bytes > ASKED_BYTES_MAX && !self.asked.is_empty();
        !is_full && self.asked.len() < ASKED_MAX
    }

    /// A number for a request to the kernel; none if too many wait already.
    fn ask(&mut self, asked: Asked) -> Option<Ticket> {
        let bytes = asked.bytes();
        if !self.may_ask(bytes) {
            return None;
        }
        // The table is far from holding all numbers.
        while self.ticket_last == 0 || self.asked.contains_key(&self.ticket_last) {
            self.ticket_last = self.ticket_last.wrapping_add(1);
        }
        self.asked_bytes += bytes;
        self.asked.insert(self.ticket_last, asked);
        Some(self.ticket_last)
    }

    fn take_asked(&mut self, ticket: Ticket) -> Option<Asked> {
        let asked = self.asked.remove(&ticket)?;
        self.asked_bytes -= asked.bytes();
        Some(asked)
    }

    /// Octets that the next answer may have so that not too much waits for the client.
    fn room(&self, out: &[u8]) -> usize {
        match self.side.management() {
            Some(management) => {
                let unacknowledged = management.bytes() + ENVELOPE_BYTES;
                (self.settings.unacknowledged_bytes_max).saturating_sub(unacknowledged)
            }
            // A value of any size can be had, as any message can.
            None if out.is_empty() => usize::MAX,
            None => OUTPUT_BYTES_MAX.saturating_sub(out.len()),
        }
    }

    /// Answers a request by what may be long, or by an error if there is no room for it: `content` may have so many octets, and is
    /// `None` if it would have more.
    fn put_long_answer(
        &mut self,
        id: &str,
        from: Option<&str>,
        out: &mut Vec<u8>,
        content: impl FnOnce(&mut Self, usize, &mut Vec<u8>) -> Option<()>,
    ) {
        let room = self.room(out);
        let mut written = Vec::new();
        let is_whole = content(self, room, &mut written).is_some();
        if !is_whole || written.len() > room {
            return self.put_answer("error", id, from, out, |out| NO_ROOM.put(out));
        }
        self.put_answer("result", id, from, out, |out| {
            out.extend_from_slice(&written)
        });
    }

    /// The peer broke the protocol; the machine has said so.
    fn fail(cx: &mut Cx<'_>, fault: &PeerFault) {
        XmppFront::give_up(cx, &fault.to_string());
    }

    fn give_up(cx: &mut Cx<'_>, why: &str) {
        if let Some(front) = XmppFront::of(cx.links, cx.id) {
            front.fault = Some(why.into());
        }
        XmppFront::close(cx, Closing::Cut);
    }

    fn close(cx: &mut Cx<'_>, how: Closing) {
        let was_closed = XmppFront::of(cx.links, cx.id)
            .is_none_or(|front| std::mem::replace(&mut front.is_closed, true));
        if was_closed {
            return;
        }
        XmppFront::take_leave(cx, true);
        if how != Closing::Clean {
            return cx.end(how, None);
        }
        let name = XmppFront::of(cx.links, cx.id).and_then(|front| front.resume.take());
        if let Some(name) = name {
            cx.links.forget_earlier(&name);
        }
        cx.end(how, Some(Span::ZERO));
    }
}

/// A log-in that has begun.
#[derive(Clone, Copy)]
struct Login {
    mechanism: Mechanism,
    /// The client has sent a message of the mechanism.
    has_begun: bool,
    /// A message was handed on and is not answered yet.
    is_waiting: bool,
}

/// How operators see a session of this protocol.
const DIALECT: &str = "XMPP 1.0";

/// How long a client is left alone that has handled nothing since it was asked the last time.
const ASK_AGAIN_AFTER: Span = Span::from_secs(5);
/// Requests of one connection that wait for the kernel; more are refused.
const ASKED_MAX: usize = 1000;
/// Octets of those, unless there is but one.
const ASKED_BYTES_MAX: usize = 1 << 20;
/// Octets of a list, and of output above which answers are errors without XEP-0198.
const OUTPUT_BYTES_MAX: usize = 8 << 20;
/// What a stanza takes beside its content at the most, roughly.
const ENVELOPE_BYTES: usize = 16 << 10;

impl Front for XmppFront {
    fn on_published(cx: &mut Cx<'_>, question: u64, is_refused: bool) {
        XmppFront::on_call_decided(cx, question, is_refused);
        XmppFront::on_decided(cx, question, is_refused);
    }

    fn step(cx: &mut Cx<'_>, input: &[u8]) -> Step {
        let Some(front) = XmppFront::of(cx.links, cx.id) else {
            return Step::Hold;
        };
        if front.is_closed {
            return Step::Hold;
        }
        if let Some(step) = XmppFront::resume(cx) {
            return step;
        }
        let mut tree = TREE.take();
        let heard = XmppFront::say(cx, |side, out| side.handle_input(input, &mut tree, out));
        let step = match heard {
            Some(Ok(Some((len, event)))) => {
                XmppFront::on_event(cx, event);
                Step::Consumed(len)
            }
            None | Some(Ok(None)) => Step::NeedMore,
            Some(Err(fault)) => {
                XmppFront::fail(cx, &fault);
                Step::Hold
            }
        };
        tree.clear();
        TREE.set(tree);
        let upgrades =
            XmppFront::of(cx.links, cx.id).is_some_and(|front| std::mem::take(&mut front.upgrades));
        if upgrades { Step::Upgrade } else { step }
    }

    fn after_input(cx: &mut Cx<'_>) {
        XmppFront::watch_unacknowledged(cx);
    }

    fn on_wake(cx: &mut Cx<'_>) {
        XmppFront::watch_unacknowledged(cx);
        XmppFront::retract(cx);
        XmppFront::follow_accepted(cx);
    }

    fn is_to_wake(&self) -> bool {
        self.is_behind() || !self.retracting.is_empty() || self.interests.has_accepted()
    }

    fn has_timers(&self) -> bool {
        true
    }

    fn next_timer(&self) -> Time {
        let calls = self
            .calls
            .as_ref()
            .map_or(Time::NEVER, |calls| calls.next_due());
        let due = self.nodes.expiry_next().min(calls);
        self.ask_at.map_or(due, |ask| due.min(ask))
    }

    fn on_timer(cx: &mut Cx<'_>) {
        XmppFront::end_leases(cx);
        XmppFront::give_up_calls(cx);
        let now = cx.now;
        XmppFront::write(cx.links, cx.id, |front, out| {
            if front.ask_at.is_some_and(|ask| ask <= now) {
                front.ask_at = None;
                front.side.ask(out);
            }
        });
    }

    fn on_close(cx: &mut Cx<'_>) {
        XmppFront::take_leave(cx, false);
    }

    fn on_login(cx: &mut Cx<'_>, _: &str, answer: LoginAnswer) {
        XmppFront::on_verdict(cx, answer);
    }

    fn kept_bytes(&self) -> Option<usize> {
        Some(XmppFront::kept_bytes(self))
    }

    fn gathered_bytes(&self) -> usize {
        self.side.gathered_bytes()
    }

    fn is_connected(&self) -> bool {
        !self.address.is_empty() && !self.is_closed
    }

    fn holds_input(&self) -> bool {
        self.login.is_some_and(|login| login.is_waiting)
    }

    fn resumable(&self) -> Option<(&str, Span)> {
        let span = match self.is_over() {
            true => Span::ZERO,
            false => self.settings.resume_max,
        };
        Some((self.resume.as_deref()?, span))
    }

    fn bequeath(&mut self) -> Option<link::Estate> {
        Some(Box::new(XmppFront::bequeath(self)?))
    }

    fn fault(&self) -> Option<String> {
        self.fault.as_deref().map(Into::into)
    }
}

impl FrontSettings for XmppSettings {
    fn stream_front(self: Arc<Self>, nonce: u64, anonymous: Option<Access>) -> Option<AnyFront> {
        Some(XmppFront::new(self, nonce, anonymous).into())
    }
}
