//! What a protocol is to everything else: [`Front`]. The list of them is in `registry`.
//!
//! *Input verbs* are associated functions, not methods: the kernel delivers to the same link while they run. They may command
//! the kernel. *Output verbs* ([`Outbound`]) run inside a kernel command and only write or note; a front that must act
//! because of one asks to be woken. *Facts* say how things are. What only one protocol has is a default method.

use crate::link::{Estate, Link, Links};
use crate::probe::Mark;
use crate::protocol::{Protocol, ShowCount};
use crate::registry::AnyFront;
use crate::{LoginAnswer, LoginAsk};
use core::net::SocketAddr;
use std::any::Any;
use std::sync::Arc;
use thalweg_kernel::access::Access;
use thalweg_kernel::{
    Answer, CloseReason, Closing, ConsumerEnd, Content, Delivery, Draft, Kernel, LinkId, Observed,
    OpenRefusal, OpenSession, Opened, Outcome, Run, SessionId, Tag, Ticket,
};
use thalweg_model::{Span, Time};

/// What a front has at hand while it handles something of one link.
pub struct Cx<'a> {
    /// All links of the shard; the kernel's [`Effects`](thalweg_kernel::Effects).
    pub links: &'a mut Links,
    pub kernel: &'a mut Kernel,
    /// The front's own link.
    pub id: LinkId,
    /// The time of this turn.
    pub now: Time,
}

impl Cx<'_> {
    /// The session that the link is the connection of.
    pub fn session(&self) -> Option<SessionId> {
        self.links.session(self.id)
    }

    /// Opens a session, of which the link is the connection from now on. Once the peer has its answer, [`Cx::start`] lets
    /// deliveries begin.
    pub fn open_session(&mut self, open: OpenSession<'_>) -> Result<Opened, OpenRefusal> {
        let opened = self.kernel.open_session(open, self.now, self.links)?;
        if let Some(link) = self.links.get_mut(self.id) {
            link.session = Some(opened.session);
        }
        Ok(opened)
    }

    pub fn start(&mut self, session: SessionId) {
        self.kernel.start(session, self.now, self.links);
    }

    /// Publishes. Of a peer that is over its rate nothing more is read for a while.
    #[inline]
    pub fn publish(&mut self, session: SessionId, draft: Draft<'_>) -> Outcome {
        self.links.mark(Mark::FrontIn);
        let published = self.kernel.publish(session, draft, self.now, self.links);
        self.links.mark(Mark::KernelPublish);
        if let Some(until) = published.pause_until
            && let Some(link) = self.links.get_mut(self.id)
        {
            link.pause_until = Some(until);
        }
        published.outcome
    }

    /// Publishes the first messages of a run: at once where that can be, or else one by one, up to where input has to wait; how many.
    /// `on_each` has the outcome of those that were published one by one, with the message as it came and the length of its payload.
    pub fn publish_run(
        &mut self,
        session: SessionId,
        run: &Run<'_>,
        mut on_each: impl FnMut(&mut Self, Outcome, &[u8], usize),
    ) -> usize {
        let bytes_max = self.links.room_before_flush();
        let mut done = (self.kernel).publish_run(session, *run, bytes_max, self.now, self.links);
        if done == 0 {
            for draft in run.drafts() {
                let (len, native) = (draft.payload.len(), draft.native);
                let outcome = self.publish(session, draft);
                on_each(self, outcome, native.map_or(&[], |it| it.frame), len);
                done += 1;
                let has_to_wait = |link: &Link| link.closing || link.pause_until.is_some();
                if self.links.should_flush() || self.links.get(self.id).is_none_or(has_to_wait) {
                    break;
                }
            }
        }
        self.links.count_received(self.id, done.saturating_sub(1));
        done
    }

    /// Writes into the link's output.
    pub fn send(&mut self, bytes: &[u8]) {
        self.links
            .write(self.id, |_, out| out.extend_from_slice(bytes));
    }

    /// Appends to the link's output; what `append` says, and true if the link has gone.
    pub fn send_by(&mut self, append: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        let appended = self.links.write(self.id, |_, out| append(out));
        appended.unwrap_or(true)
    }

    /// Ends the link from our side, and its session's connection; what is in the output is still sent.
    pub fn end(&mut self, how: Closing, expiry: Option<Span>) {
        let Some(link) = self.links.get_mut(self.id) else {
            return;
        };
        link.closing = true;
        let session = link.session.take();
        self.links.mark_dirty(self.id);
        if let Some(session) = session {
            self.kernel
                .close_link(session, self.id, how, expiry, self.now, self.links);
        }
    }

    /// Asks the server who the peer is; the answer comes to [`Front::on_login`].
    pub fn ask_login(&mut self, ask: LoginAsk) {
        self.links.ask_login(self.id, ask);
    }

    /// The same of a peer that offers a user name and a password, or neither, and whose session's name we made up.
    pub fn ask_password(
        &mut self,
        client: Box<str>,
        user: Option<Box<str>>,
        password: Option<Box<[u8]>>,
    ) {
        self.ask_login(LoginAsk::Password {
            client,
            chosen: false,
            user,
            password,
        });
    }
}

/// What one step of a front did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A packet of so many bytes was processed.
    Consumed(usize),
    /// There is no whole packet.
    NeedMore,
    /// The next packet must wait.
    Hold,
    /// What follows is a TLS handshake on the same connection (STARTTLS). Input that is there already is discarded, and the next
    /// step has input that was encrypted.
    Upgrade,
    /// The link belongs on the home shard of this key, which its first bytes do not hold (where they do, the server's
    /// `protocols/` reads it from them). Before a session is opened, and at most once for each link: the front is asked
    /// again wherever the link is then.
    Rehome(u64),
}

/// Why a message was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undelivered {
    /// The peer does not take packets of this size.
    TooLarge,
    /// Nothing of the front's takes it: its protocol has no deliveries of this kind, or the consumer is gone.
    NoConsumer,
    /// The front has noted as much as it may and was not woken since.
    Full,
}

/// What became of a consumer's end that the kernel decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerFate {
    /// The protocol has no way to say it.
    Unsaid,
    /// The peer was told.
    Said,
    /// The peer was notified, and the link ends with it.
    EndsLink,
}

/// What ends when the kernel ends the connection of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    LinkEnds,
    /// One session of several; the link stays.
    LinkStays,
}

/// A datagram that a socket received.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'d> {
    /// Where it came from.
    pub from: SocketAddr,
    /// What is known of its sender.
    pub security: crate::PeerSecurity<'d>,
    /// It was sent to a group that the socket is in.
    pub is_multicast: bool,
    /// What the socket received, or what DTLS made of it.
    pub bytes: &'d [u8],
}

/// Output verbs. They are called within a kernel command, so they only write or note.
pub trait Outbound {
    /// Writes a message for one recipient.
    fn deliver(
        &mut self,
        _: &Content<'_>,
        _: &Delivery<'_>,
        _: &mut Vec<u8>,
    ) -> Result<(), Undelivered> {
        Err(Undelivered::NoConsumer)
    }

    /// Writes all messages of a run as they came; false, and nothing is written, if it has to get them one by one.
    #[inline]
    fn deliver_run(&mut self, _: &Run<'_>, _: &mut Vec<u8>) -> bool {
        false
    }

    /// Writes the second half of an exactly-once delivery.
    fn release(&mut self, _: Tag, _: &mut Vec<u8>) {}

    /// The answer to something that the front asked the kernel.
    fn answer(&mut self, _: Ticket, _: Answer<'_>, _: &mut Vec<u8>) {}

    /// Something happened to a watch.
    fn observe(&mut self, _: u64, _: Observed<'_>, _: &mut Vec<u8>) {}

    /// The kernel has ended a consumer of a line.
    fn consumer_ended(&mut self, _: u16, _: ConsumerEnd, _: &mut Vec<u8>) -> ConsumerFate {
        ConsumerFate::Unsaid
    }

    /// The kernel has ended a session's connection, or the broker stops.
    fn disconnect(&mut self, why: CloseReason, out: &mut Vec<u8>) -> Fate;

    /// The peer was silent for [`Front::silence_max`]; the link ends.
    fn on_silence(&mut self, _: &mut Vec<u8>) {}

    /// Nothing was sent for [`Front::idle_write`]: writes a keep-alive packet.
    fn on_idle(&mut self, _: &mut Vec<u8>) {}

    /// Publishes that must be kept are refused from now on, or (`None`) no more.
    fn on_blocked(&mut self, _: Option<&str>, _: &mut Vec<u8>) {}

    /// Batches up to this one are safe. Only where [`Front::holds_each`].
    fn safe(&mut self, _: u64) {}

    /// This batch could not be kept. Only where [`Front::holds_each`].
    fn not_kept(&mut self, _: u64) {}

    /// Swaps the datagrams that may leave now with `spare`, which is empty. True if there is more to say, so that the front
    /// is to be woken.
    fn take_datagrams(&mut self, _: &mut crate::Datagrams) -> bool {
        false
    }
}

/// A protocol. See the module.
pub trait Front: Outbound + Variant + Send {
    /// Whether deliveries to it are worth a path of their own. Nothing else depends on it.
    const DELIVERS_MUCH: bool = false;

    // --- input verbs

    /// Handles the next packet of a byte stream.
    fn step(cx: &mut Cx<'_>, input: &[u8]) -> Step;

    /// The input that was there has been handled as far as it goes.
    #[inline]
    fn after_input(_: &mut Cx<'_>) {}

    /// Handles what a socket of datagrams received.
    fn on_datagrams(_: &mut Cx<'_>, _: &mut dyn Iterator<Item = Datagram<'_>>) {}

    /// The peer at an address is gone.
    fn on_peer_gone(_: &mut Cx<'_>, _: SocketAddr) {}

    /// The answer to a [`LoginAsk`]; `identity` is that of [`LoginAsk::Proven`], else empty.
    fn on_login(cx: &mut Cx<'_>, identity: &str, answer: LoginAnswer);

    /// An output verb asked for this, by [`Front::defers`] or [`Links::wake`].
    fn on_wake(_: &mut Cx<'_>) {}

    /// A publish whose outcome was [`Outcome::Asked`] is refused, or else accepted; in the order of their questions.
    /// [`Front::after_input`] follows.
    fn on_published(_: &mut Cx<'_>, _question: u64, _is_refused: bool) {}

    /// [`Front::next_timer`] has come.
    fn on_timer(_: &mut Cx<'_>) {}

    /// The output of a link without a session has room again.
    fn on_drained(_: &mut Cx<'_>) {}

    /// The link ends; its session, if it has one, is closed right after.
    fn on_close(_: &mut Cx<'_>) {}

    // --- facts

    /// The protocol, in lower case.
    fn name(&self) -> &'static str {
        Self::PROTOCOL.name
    }

    /// Whether the peer has been let in.
    fn is_connected(&self) -> bool {
        true
    }

    /// Whether input must wait, because it is being checked who the peer is.
    fn holds_input(&self) -> bool {
        false
    }

    /// What the peer did wrong, if that is why the link ends.
    fn fault(&self) -> Option<String> {
        None
    }

    /// The longest the peer may be silent.
    fn silence_max(&self) -> Option<Span> {
        None
    }

    /// The longest the peer may be left without a byte.
    fn idle_write(&self) -> Option<Span> {
        None
    }

    /// Bytes of messages that came in pieces and are not complete.
    fn gathered_bytes(&self) -> usize {
        0
    }

    /// The name under which [`Links::take_earlier`] finds it, and for how long after its link is gone: another link may go on
    /// where it ended; not at all if that is zero. Nothing if there is no such thing in its protocol.
    fn resumable(&self) -> Option<(&str, Span)> {
        None
    }

    /// What another link needs to go on where it has ended; it is resumable no more. Nothing if it has ended in another way than
    /// by the loss of its link.
    fn bequeath(&mut self) -> Option<Estate> {
        None
    }

    /// Bytes that it keeps for its peer beside messages: after input, a timer and what the kernel delivers from queues or
    /// answers the link's count follows them. Nothing where the front counts by itself, with [`Links::count_kept`].
    #[inline]
    fn kept_bytes(&self) -> Option<usize> {
        None
    }

    /// The same after a delivery; nothing where that cannot have changed it.
    #[inline]
    fn kept_after_delivery(&self) -> Option<usize> {
        self.kept_bytes()
    }

    /// What the peer says of itself, for operators.
    fn client_properties(&self) -> &[(Box<str>, Box<str>)] {
        &[]
    }

    /// Whether [`Front::next_timer`] is ever anything but never.
    fn has_timers(&self) -> bool {
        false
    }

    /// When [`Front::on_timer`] is to be called.
    fn next_timer(&self) -> Time {
        Time::NEVER
    }

    /// Whether it is woken after every output verb, because these only note.
    #[inline]
    fn defers(&self) -> bool {
        false
    }

    /// Whether it is to be woken after an answer of the kernel that it has written or noted.
    #[inline]
    fn is_to_wake(&self) -> bool {
        false
    }

    /// Whether answers wait for the journal one by one ([`Links::take_hold`]), not all output from a place on.
    #[inline]
    fn holds_each(&self) -> bool {
        false
    }

    /// Shows what it has counted since its link was opened, for the metrics that its protocol declares.
    fn counts(&self, _: &mut ShowCount<'_>) {}

    /// Replaces the settings of a link that is never closed.
    fn set_settings(&mut self, _: Arc<dyn FrontSettings>) {}
}

/// A type that is one of [`AnyFront`]'s; implemented by the list below.
pub trait Variant: Sized + 'static {
    /// Its place in the list.
    const INDEX: usize;
    const PROTOCOL: &'static Protocol;
    /// It, if that is what this is.
    fn from_any(any: &AnyFront) -> Option<&Self>;
    /// It, if that is what this is.
    fn from_any_mut(any: &mut AnyFront) -> Option<&mut Self>;

    /// The front of a link, if it is one of these.
    #[inline]
    fn at(links: &Links, id: LinkId) -> Option<&Self> {
        Self::from_any(&links.get(id)?.front)
    }

    /// The front of a link, if it is one of these.
    #[inline]
    fn of(links: &mut Links, id: LinkId) -> Option<&mut Self> {
        Self::from_any_mut(&mut links.get_mut(id)?.front)
    }

    /// Lets the front of a link write, if it is one of these.
    #[inline]
    fn write<R>(
        links: &mut Links,
        id: LinkId,
        write: impl FnOnce(&mut Self, &mut Vec<u8>) -> R,
    ) -> Option<R> {
        links.write(id, |front, out| {
            Self::from_any_mut(front).map(|front| write(front, out))
        })?
    }
}

/// What the operator decides about the fronts of one listener.
pub trait FrontSettings: Any + Send + Sync {
    /// A front for a connection. `nonce` is unique in the process and hard to guess. `anonymous` is what peers without
    /// credentials may do; `None` asks the server about each.
    fn stream_front(self: Arc<Self>, nonce: u64, anonymous: Option<Access>) -> Option<AnyFront>;

    /// A front for a connection that the broker has opened. It begins with its first step, which may have no input.
    fn dialed_front(self: Arc<Self>, _: u64) -> Option<AnyFront> {
        None
    }

    /// A front for a socket of datagrams.
    fn datagram_front(self: Arc<Self>, _: u64, _: Option<Access>) -> Option<AnyFront> {
        None
    }

    /// Whether any byte counts as a sign of the peer's life; otherwise only whole packets do.
    fn hears_parts(&self) -> bool {
        true
    }
}
