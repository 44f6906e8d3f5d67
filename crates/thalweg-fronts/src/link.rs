//! Connections without their sockets: protocol machine and output buffer of each, by number.

mod earlier;
mod effects;
mod held;
mod output;

pub(crate) use earlier::Estate;

use crate::deferred::Left;
use crate::front::{Cx, Datagram, Front, FrontSettings, Step};
use crate::probe::{Mark, Probe};
use crate::protocol::FrontCounts;
use crate::registry::{AnyFront, KINDS, each_front, protocol_at};
use crate::{Datagrams, LoginAnswer, LoginAsk, LoginRefusal};
use core::net::SocketAddr;
use std::collections::VecDeque;
use std::ops::AddAssign;
use std::sync::Arc;
use thalweg_kernel::{CloseReason, Closing, Effects, Kernel, LinkId, SessionId};
use thalweg_model::{Span, Time};

/// Bounds of output buffers, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct LinksLimits {
    /// Above this, copies that can wait do, and at-most-once copies still go in.
    pub output_high: usize,
    /// Above this, at-most-once copies are dropped.
    pub output_max: usize,
    /// Unflushed output of all links together above which [`Links::drive`] stops early so that the server can flush:
    /// keeps a fan-out inside the processor's cache.
    pub unflushed_max: usize,
}

impl Default for LinksLimits {
    fn default() -> Self {
        LinksLimits {
            output_high: 256 << 10,
            output_max: 1 << 20,
            unflushed_max: 8 << 20,
        }
    }
}

/// What may be in the output of a link that is sent messages with priorities: they wait behind it.
const PRIORITIZED_BYTES: usize = 4 << 10;
/// Outputs above this grow with care.
const LARGE_BYTES: usize = 128 << 10;
/// Bytes that a delivery's head takes at the most, beside its address, unless it has properties.
const HEAD_BYTES: usize = 16;

/// What TLS says of a link's peer, as far as its protocol may offer log-ins by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkSecurity {
    /// A verified certificate names the peer.
    pub has_name: bool,
    /// A log-in can be bound to the connection (`tls-exporter`, RFC 9266).
    pub has_binding: bool,
}

/// A connection without its socket.
pub struct Link {
    pub front: AnyFront,
    /// Bytes for the peer, those that are sent already first.
    out: Vec<u8>,
    /// How many bytes of `out` are sent already.
    sent: usize,
    /// Bytes that were taken from the front of `out` so far.
    gone: u64,
    /// From where on bytes must wait (counted from the link's beginning), and for which batch of the journal.
    held: VecDeque<(u64, u64)>,
    /// The batch that one of its answers waited for last, where they wait one by one.
    held_last: u64,
    /// Set when nothing more will be read: flush, then close.
    pub closing: bool,
    /// Set by the server once TLS is established.
    pub security: LinkSecurity,
    /// Nothing is read before this time: the peer is over its rate.
    pub pause_until: Option<Time>,
    pub(crate) session: Option<SessionId>,
    /// It ends because the peer was silent for too long.
    silent: bool,
    /// Bytes that its front keeps for its peer, as they were counted.
    kept: usize,
    /// Its own high-water mark, if that is lower than everybody's.
    high: usize,
    /// Above this, at-most-once copies do not go in.
    max: usize,
    /// It is sent messages with priorities.
    prioritized: bool,
    dirty: bool,
    /// It is in [`Links::woken`].
    woken: bool,
}

/// How far [`Links::drive`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Driven {
    /// Bytes that are done with.
    pub consumed: usize,
    pub stopped: Stopped,
}

/// Why [`Links::drive`] stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// What is left is not a whole packet.
    NeedMore,
    /// There is more, but the output should be flushed first; go on right after.
    FlushFirst,
    /// There may be more, but it must wait: for a login, for a rate, or for ever.
    Hold,
    /// See [`Step::Upgrade`].
    Upgrade,
    /// See [`Step::Rehome`].
    Rehome(u64),
}

/// Packets of one protocol, of all types, over all links so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// Those of connections that were received and handled.
    pub received: u64,
    /// Those that were written into an output.
    pub sent: u64,
}

impl AddAssign for PacketCounts {
    fn add_assign(&mut self, other: Self) {
        self.received += other.received;
        self.sent += other.sent;
    }
}

/// All links of a shard. Carries out what the kernel asks for.
pub struct Links {
    links: Vec<Option<Box<Link>>>,
    free: Vec<u32>,
    limits: LinksLimits,
    /// Links with output that has not been flushed since it was written.
    dirty: Vec<LinkId>,
    /// Bytes written since the last [`Links::take_dirty`].
    unflushed: usize,
    /// What `unflushed` may be at the most before a delivery, and before more input is handled.
    unflushed_most: usize,
    flush_at: usize,
    /// A link is above its own high-water mark, which is low so that it is flushed often.
    flush_first: bool,
    /// Links whose output was above the high-water mark while the current input was handled.
    congested: Vec<LinkId>,
    logins: Vec<(LinkId, LoginAsk)>,
    /// Links that [`Effects::prioritize`] has named.
    prioritized: Vec<LinkId>,
    /// Links that [`Effects::disconnect`] has ended.
    ended: Vec<(LinkId, CloseReason)>,
    /// Links whose output waits for a batch, by rising batch.
    holding: VecDeque<(u64, LinkId)>,
    /// Why publishes that must be kept are refused now.
    blocked: Option<&'static str>,
    /// Bytes that fronts keep for their peers as long as these are connected.
    kept: usize,
    /// Links whose fronts are to be woken.
    woken: Vec<LinkId>,
    /// What was decided of publishes that other shards were asked about: link, question, and whether it is refused. Their
    /// fronts get it when they are woken.
    decided: Vec<(LinkId, u64, bool)>,
    /// Links without a socket.
    internal: Vec<LinkId>,
    earlier: earlier::EarlierFronts,
    /// The batch that the answer to the current command waits for, on a link where answers wait one by one.
    hold: Option<u64>,
    /// The last batch that is safe.
    completed: u64,
    pub(crate) load: crate::LoadCounts,
    packets: [PacketCounts; KINDS],
    /// What fronts of closed links had counted.
    ended_counts: FrontCounts,
    /// Measures the stages of the next message, if that was sampled.
    pub(crate) probe: Option<Box<Probe>>,
}

impl Links {
    pub fn new(limits: LinksLimits) -> Self {
        Links {
            links: Vec::new(),
            free: Vec::new(),
            limits,
            dirty: Vec::new(),
            unflushed: 0,
            unflushed_most: usize::MAX,
            flush_at: limits.unflushed_max,
            flush_first: false,
            congested: Vec::new(),
            logins: Vec::new(),
            prioritized: Vec::new(),
            ended: Vec::new(),
            holding: VecDeque::new(),
            blocked: None,
            kept: 0,
            woken: Vec::new(),
            decided: Vec::new(),
            internal: Vec::new(),
            earlier: earlier::EarlierFronts::default(),
            hold: None,
            completed: 0,
            load: crate::LoadCounts::default(),
            packets: [PacketCounts::default(); KINDS],
            ended_counts: FrontCounts::default(),
            probe: None,
        }
    }

    /// Replaces the limits, for links that exist too.
    pub fn set_limits(&mut self, limits: LinksLimits) {
        self.limits = limits;
        for link in self.links.iter_mut().flatten() {
            link.max = limits.output_max.min(link.max_of_its_own());
        }
        self.set_unflushed_max(self.unflushed_most);
    }

    pub fn open(&mut self, front: impl Into<AnyFront>) -> LinkId {
        let link = Link {
            front: front.into(),
            out: Vec::new(),
            sent: 0,
            gone: 0,
            held: VecDeque::new(),
            held_last: 0,
            closing: false,
            security: LinkSecurity::default(),
            pause_until: None,
            session: None,
            silent: false,
            kept: 0,
            high: usize::MAX,
            max: self.limits.output_max,
            prioritized: false,
            dirty: false,
            woken: false,
        };
        match self.free.pop() {
            Some(free) => {
                self.links[free as usize] = Some(Box::new(link));
                LinkId(free)
            }
            None => {
                self.links.push(Some(Box::new(link)));
                LinkId(self.links.len() as u32 - 1)
            }
        }
    }

    /// Adds a link without a socket: a session of the shard's own. Its timers are looked at together with those of others.
    pub(crate) fn open_internal(&mut self, front: impl Into<AnyFront>) -> LinkId {
        let id = self.open(front);
        self.internal.push(id);
        id
    }

    /// Removes a link whose socket is closed, and closes it in the kernel. Its number may be used again afterwards.
    pub fn close(&mut self, id: LinkId, kernel: &mut Kernel, now: Time) {
        let Some(link) = self.get(id) else { return };
        each_front!(type of link.front, F => F::on_close(&mut self.cx(id, now, kernel)));
        self.internal.retain(|internal| *internal != id);
        let Some(link) = self.get_mut(id) else { return };
        let kept = std::mem::take(&mut link.kept);
        let how = if link.silent {
            Closing::Silent
        } else {
            Closing::Lost
        };
        if let Some(session) = link.session.take() {
            kernel.close_link(session, id, how, None, now, self);
        }
        if let Some(slot) = self.links.get_mut(id.0 as usize)
            && let Some(link) = slot.take()
        {
            self.free.push(id.0);
            // What was there is there no more; what has happened has happened.
            each_front!(&link.front, front => Front::counts(&**front, &mut |metric, value, count| {
                if metric.is_counter() {
                    self.ended_counts.add(metric, value, count);
                }
            }));
            self.kept -= kept;
            let held = link.held.iter().map(|(_, batch)| *batch).collect();
            self.park(id, link.front, held, now);
        }
    }

    /// Bytes that fronts keep for their peers as long as these are connected.
    pub fn kept_bytes(&self) -> usize {
        self.kept
    }

    /// Removes a link that goes on elsewhere: its front, and what was not sent yet. Nothing if it has a session, which cannot
    /// move, or if it has ended.
    pub fn detach(&mut self, id: LinkId) -> Option<(AnyFront, Vec<u8>)> {
        let slot = self.links.get_mut(id.0 as usize)?;
        let mut link = slot.take_if(|link| link.session.is_none() && !link.closing)?;
        self.free.push(id.0);
        self.kept -= link.kept;
        link.out.drain(..link.sent);
        Some((link.front, link.out))
    }

    /// Counts what a front keeps for its peer now; whether there is memory for what that is more than before.
    pub(crate) fn count_kept(&mut self, id: LinkId, kept: usize, kernel: &Kernel) -> bool {
        let Some(Some(link)) = self.links.get_mut(id.0 as usize) else {
            return true;
        };
        let before = link.keeps(kept, &mut self.kept);
        kept <= before || kernel.may_keep(before, kept - before)
    }

    /// The count of what is kept for a link follows its front.
    #[inline]
    fn count_again(&mut self, id: LinkId) {
        let Some(Some(link)) = self.links.get_mut(id.0 as usize) else {
            return;
        };
        if let Some(kept) = each_front!(&link.front, front => Front::kept_bytes(&**front)) {
            link.keeps(kept, &mut self.kept);
        }
    }

    /// Packets by protocol, also of protocols without a connection.
    pub fn packets(&self) -> impl Iterator<Item = (&'static str, PacketCounts)> + '_ {
        let of_kind = |(index, counts): (usize, &PacketCounts)| (protocol_at(index).name, *counts);
        self.packets.iter().enumerate().map(of_kind)
    }

    fn cx<'a>(&'a mut self, id: LinkId, now: Time, kernel: &'a mut Kernel) -> Cx<'a> {
        Cx {
            links: self,
            kernel,
            id,
            now,
        }
    }

    /// A link by number.
    #[inline]
    pub fn get(&self, id: LinkId) -> Option<&Link> {
        self.links.get(id.0 as usize)?.as_deref()
    }

    /// A link by number.
    #[inline]
    pub fn get_mut(&mut self, id: LinkId) -> Option<&mut Link> {
        self.links.get_mut(id.0 as usize)?.as_deref_mut()
    }

    /// All links, by rising number.
    pub(crate) fn ids(&self) -> impl Iterator<Item = LinkId> + use<> {
        let there = self.links.iter().enumerate();
        let there = there.filter_map(|(at, link)| link.as_ref().map(|_| LinkId(at as u32)));
        there.collect::<Vec<_>>().into_iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.links.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Handles received bytes, packet by packet.
    #[inline]
    pub fn drive(&mut self, id: LinkId, bytes: &[u8], now: Time, kernel: &mut Kernel) -> Driven {
        let Some(link) = self.get(id) else {
            return Driven {
                consumed: 0,
                stopped: Stopped::Hold,
            };
        };
        each_front!(type of link.front, F => self.drive_as::<F>(id, bytes, now, kernel))
    }

    /// A loop of its own for each protocol, and a function of its own, so that none makes another slower.
    #[inline(never)]
    fn drive_as<F: Front>(
        &mut self,
        id: LinkId,
        bytes: &[u8],
        now: Time,
        kernel: &mut Kernel,
    ) -> Driven {
        let mut cx = self.cx(id, now, kernel);
        let mut consumed = 0;
        let stopped = loop {
            // Not before anything is done: a server that does not take batches makes progress, too.
            if cx.links.should_flush() || (cx.kernel.is_batch_large() && consumed > 0) {
                break Stopped::FlushFirst;
            }
            let Some(link) = cx.links.get_mut(id) else {
                break Stopped::Hold;
            };
            if link.closing || link.pause_until.is_some() {
                break Stopped::Hold;
            }
            match F::step(&mut cx, &bytes[consumed..]) {
                Step::Consumed(n) => {
                    consumed += n;
                    cx.links.packets[F::INDEX].received += 1;
                }
                Step::NeedMore => break Stopped::NeedMore,
                Step::Hold => break Stopped::Hold,
                Step::Upgrade => break Stopped::Upgrade,
                Step::Rehome(key) => break Stopped::Rehome(key),
            }
        };
        F::after_input(&mut cx);
        self.count_again(id);
        Driven { consumed, stopped }
    }

    /// Handles what a socket received, each datagram with where it came from and what is known of who sent it.
    pub fn handle_datagrams<'d>(
        &mut self,
        id: LinkId,
        mut datagrams: impl Iterator<Item = Datagram<'d>>,
        now: Time,
        kernel: &mut Kernel,
    ) {
        let Some(link) = self.get(id) else { return };
        each_front!(type of link.front, F => F::on_datagrams(&mut self.cx(id, now, kernel), &mut datagrams));
    }

    /// Swaps the datagrams of a socket that may leave now with `spare`, which should be empty. Answers that wait for the
    /// journal are not among them.
    pub fn take_datagrams(&mut self, id: LinkId, spare: &mut Datagrams) {
        if let Some(link) = self.get_mut(id)
            && link.front.outbound().take_datagrams(spare)
        {
            self.wake(id);
        }
    }

    /// The peer at an address is gone, as the layer below the datagrams (DTLS) reports.
    pub fn on_peer_gone(&mut self, id: LinkId, from: SocketAddr, now: Time, kernel: &mut Kernel) {
        let Some(link) = self.get(id) else { return };
        each_front!(type of link.front, F => F::on_peer_gone(&mut self.cx(id, now, kernel), from));
    }

    /// Other settings for a link that never closes, and so never sees them otherwise.
    pub fn set_settings(&mut self, id: LinkId, settings: Arc<dyn FrontSettings>) {
        if let Some(link) = self.get_mut(id) {
            each_front!(&mut link.front, front => Front::set_settings(&mut **front, settings));
        }
    }

    /// What fronts have counted, those of closed links included.
    pub fn front_counts(&self) -> FrontCounts {
        let mut sums = self.ended_counts.clone();
        for link in self.links.iter().flatten() {
            each_front!(&link.front, front => {
                Front::counts(&**front, &mut |metric, value, count| sums.add(metric, value, count))
            });
        }
        sums
    }

    /// When [`Links::on_timer`] is to be called for a link: for its own front, and for links without a socket.
    pub fn next_timer(&self, id: LinkId) -> Time {
        match self.get(id) {
            Some(link) if link.front.has_timers() => {
                let internal = self.internal.iter().filter_map(|id| self.get(*id));
                let all = std::iter::once(link).chain(internal);
                all.map(|link| each_front!(&link.front, front => front.next_timer()))
                    .min()
                    .unwrap_or(Time::NEVER)
            }
            _ => Time::NEVER,
        }
    }

    /// Does what is due on a link, and on links without a socket.
    pub fn on_timer(&mut self, id: LinkId, now: Time, kernel: &mut Kernel) {
        let Some(link) = self.get(id) else { return };
        each_front!(type of link.front, F => F::on_timer(&mut self.cx(id, now, kernel)));
        self.count_again(id);
        for at in 0..self.internal.len() {
            let Some(&id) = self.internal.get(at) else {
                break;
            };
            let Some(link) = self.get(id) else { continue };
            if each_front!(&link.front, front => front.next_timer()) <= now {
                each_front!(type of link.front, F => F::on_timer(&mut self.cx(id, now, kernel)));
            }
        }
        self.work(now, kernel);
    }

    /// A front is to be woken: [`Front::on_wake`].
    #[inline]
    pub fn wake(&mut self, id: LinkId) {
        if let Some(link) = self.get_mut(id)
            && !std::mem::replace(&mut link.woken, true)
        {
            self.woken.push(id);
        }
    }

    /// Wakes fronts that are to be woken. To be called before outputs are flushed.
    #[inline]
    pub fn work(&mut self, now: Time, kernel: &mut Kernel) {
        if self.has_work() {
            self.wake_all(now, kernel);
        }
    }

    /// Whether [`Links::work`] would do anything.
    #[inline]
    pub fn has_work(&self) -> bool {
        !self.woken.is_empty()
    }

    fn wake_all(&mut self, now: Time, kernel: &mut Kernel) {
        let mut woken = Vec::new();
        // Their work makes new work: values read here are answered at once. It ends, because each request asks once.
        while !self.woken.is_empty() {
            if !self.decided.is_empty() {
                self.hand_on_decided(now, kernel);
            }
            std::mem::swap(&mut self.woken, &mut woken);
            woken.sort_unstable();
            for id in woken.drain(..) {
                let Some(link) = self.get_mut(id) else {
                    continue;
                };
                if std::mem::take(&mut link.woken) {
                    each_front!(type of link.front, F => F::on_wake(&mut self.cx(id, now, kernel)));
                }
            }
        }
        if self.woken.capacity() < woken.capacity() {
            self.woken = woken;
        }
    }

    #[cold]
    fn hand_on_decided(&mut self, now: Time, kernel: &mut Kernel) {
        let decided = std::mem::take(&mut self.decided);
        for (at, &(id, question, is_refused)) in decided.iter().enumerate() {
            let is_last = decided.get(at + 1).is_none_or(|(next, ..)| *next != id);
            let Some(link) = self.get(id) else { continue };
            let defers = link.front.defers();
            each_front!(type of link.front, F => {
                let mut cx = self.cx(id, now, kernel);
                F::on_published(&mut cx, question, is_refused);
                if is_last && !defers {
                    F::after_input(&mut cx);
                }
            });
        }
    }

    /// What the current command has asked to be held on a link where answers wait one by one: the batch that its answer must
    /// wait for.
    #[inline]
    pub fn take_hold(&mut self) -> Option<u64> {
        self.hold.take()
    }

    /// The last batch that is safe.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// The answer to a [`LoginAsk`]; ignored if the link is gone or asked something else meanwhile.
    pub fn on_login(&mut self, id: LinkId, answer: LoginAnswer, now: Time, kernel: &mut Kernel) {
        self.on_proven(id, "", answer, now, kernel);
    }

    /// The answer to a [`LoginAsk::Proven`]; with `""`, to one without a user.
    pub fn on_proven(
        &mut self,
        id: LinkId,
        identity: &str,
        answer: LoginAnswer,
        now: Time,
        kernel: &mut Kernel,
    ) {
        let Some(link) = self.get(id) else { return };
        let answer = match answer {
            // The rules were replaced while it was on its way.
            LoginAnswer::Allowed { access, .. } if kernel.is_access_outdated(&access) => {
                LoginAnswer::Refused(LoginRefusal::Busy)
            }
            answer => answer,
        };
        each_front!(type of link.front, F => F::on_login(&mut self.cx(id, now, kernel), identity, answer));
    }

    /// The longest a link may be silent, if there is such a limit.
    pub fn silence_max(&self, id: LinkId) -> Option<Span> {
        each_front!(&self.get(id)?.front, front => Front::silence_max(&**front))
    }

    /// A link has been silent for too long: notifies the peer and ends the link.
    pub fn on_silence(&mut self, id: LinkId) {
        if let Some(link) = self.get_mut(id) {
            link.front.outbound().on_silence(&mut link.out);
            link.closing = true;
            link.silent = true;
            self.mark_dirty(id);
        }
    }

    /// The longest a peer may be left without a byte, if there is such a limit: then [`Links::on_idle`] is called. Asked
    /// again whenever that time is over, so it may change.
    pub fn idle_write(&self, id: LinkId) -> Option<Span> {
        each_front!(&self.get(id)?.front, front => Front::idle_write(&**front))
    }

    /// Nothing has been sent to a peer for [`Links::idle_write`]: lets the front send a keep-alive packet.
    pub fn on_idle(&mut self, id: LinkId, _now: Time) {
        self.write(id, |front, out| front.outbound().on_idle(out));
    }

    /// From now on publishes that must be kept are refused or will be, because of `why`; or no more (`None`). Fronts
    /// whose protocol has a message for it notify their peers; links that open later read [`Links::blocked`].
    pub fn on_blocked(&mut self, why: Option<&'static str>) {
        self.blocked = why;
        for at in 0..self.links.len() {
            let Some(Some(link)) = self.links.get_mut(at) else {
                continue;
            };
            let before = link.out.len();
            link.front.outbound().on_blocked(why, &mut link.out);
            if link.out.len() > before {
                self.unflushed += link.out.len() - before;
                self.mark_dirty(LinkId(at as u32));
            }
        }
    }

    /// Why publishes that must be kept are refused now, if they are.
    pub fn blocked(&self) -> Option<&'static str> {
        self.blocked
    }

    /// The peer's proof of who it is has ended, whether or not it has opened a session with it.
    pub fn on_login_expired(&mut self, id: LinkId, kernel: &mut Kernel, now: Time) {
        let Some(link) = self.get(id).filter(|link| !link.closing) else {
            return;
        };
        let session = link.session;
        self.disconnect(id, CloseReason::NotAuthorized);
        if let Some(session) = session {
            kernel.close_link(session, id, Closing::Cut, None, now, self);
        }
    }

    /// From now on a link whose output is above so many bytes is congested, and all are flushed before more is read.
    pub fn limit_output(&mut self, id: LinkId, high: usize) {
        if let Some(link) = self.get_mut(id) {
            link.high = high.min(link.max_of_its_own());
        }
    }

    /// Links that are sent messages with priorities since this was last asked: little should be in their sockets, too.
    pub fn take_prioritized(&mut self) -> Vec<LinkId> {
        std::mem::take(&mut self.prioritized)
    }

    /// The session of a link.
    pub fn session(&self, id: LinkId) -> Option<SessionId> {
        self.get(id)?.session
    }

    /// Whether the link's session is a member of any group.
    pub fn is_in_group(&self, id: LinkId, kernel: &Kernel) -> bool {
        self.get(id)
            .and_then(|link| link.session)
            .is_some_and(|session| kernel.is_in_group(session))
    }

    /// What the network takes for a round trip to the link's peer.
    pub fn on_round_trip(&mut self, id: LinkId, least: Span, jitter: Span, kernel: &mut Kernel) {
        if let Some(session) = self.get(id).and_then(|link| link.session) {
            kernel.round_trip_measured(session, least, jitter);
        }
    }

    /// The link's socket takes nothing more, however little waits in its output; until [`Links::on_drained`].
    pub fn on_full(&mut self, id: LinkId, kernel: &mut Kernel) {
        if let Some(session) = self.get(id).and_then(|link| link.session) {
            kernel.link_blocked(session, id);
        }
    }

    /// The link's output has drained.
    pub fn on_drained(&mut self, id: LinkId, now: Time, kernel: &mut Kernel) {
        if let Some(session) = self.get(id).and_then(|link| link.session) {
            kernel.link_writable(session, id, now, self);
        } else if let Some(link) = self.get(id) {
            each_front!(type of link.front, F => F::on_drained(&mut self.cx(id, now, kernel)));
        }
    }

    /// Links to flush, into a buffer of the caller's.
    pub fn take_dirty(&mut self, into: &mut Vec<LinkId>) {
        std::mem::swap(&mut self.dirty, into);
        self.dirty.clear();
        self.unflushed = 0;
        self.flush_first = false;
        for id in into.iter() {
            if let Some(link) = self.get_mut(*id) {
                link.dirty = false;
            }
        }
    }

    /// So many packets more were handled than steps were done.
    pub(crate) fn count_received(&mut self, id: LinkId, more: usize) {
        if let Some(link) = self.get(id) {
            let index = link.front.index();
            self.packets[index].received += more as u64;
        }
    }

    /// Bytes that may be written before [`Links::should_flush`].
    pub(crate) fn room_before_flush(&self) -> usize {
        self.flush_at.saturating_sub(self.unflushed)
    }

    /// Whether so much waits to be flushed that it should be flushed before more is written.
    #[inline]
    pub fn should_flush(&self) -> bool {
        self.unflushed >= self.flush_at || self.flush_first
    }

    /// Whether any link has something to flush.
    pub fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Whether a link was found above the high-water mark since [`Links::take_congested`].
    #[inline]
    pub fn is_congested(&self) -> bool {
        !self.congested.is_empty()
    }

    /// Links that were found above the high-water mark since this was last asked.
    pub fn take_congested(&mut self, into: &mut Vec<LinkId>) {
        into.clear();
        if !self.congested.is_empty() {
            std::mem::swap(&mut self.congested, into);
        }
    }

    pub fn take_logins(&mut self) -> Vec<(LinkId, LoginAsk)> {
        std::mem::take(&mut self.logins)
    }

    /// Links that the kernel has ended since this was last asked.
    pub fn take_ended(&mut self) -> Vec<(LinkId, CloseReason)> {
        std::mem::take(&mut self.ended)
    }

    /// Measures the stages of the next message with this clock, which gives nanoseconds.
    pub fn probe(&mut self, clock: fn() -> u64) {
        self.probe = Some(Box::new(Probe::new(clock)));
    }

    /// Whether a probe is on.
    pub fn is_probing(&self) -> bool {
        self.probe.is_some()
    }

    /// What the probe found; nothing if there was no message.
    pub fn take_probe(&mut self) -> Option<Probe> {
        self.probe.take().map(|probe| *probe)
    }

    #[inline]
    pub(crate) fn mark(&mut self, mark: Mark) {
        if let Some(probe) = &mut self.probe {
            probe.mark(mark);
        }
    }

    pub(crate) fn ask_login(&mut self, id: LinkId, ask: LoginAsk) {
        self.logins.push((id, ask));
    }

    /// Lets a front write, and remembers to flush.
    #[inline]
    pub(crate) fn write<R>(
        &mut self,
        id: LinkId,
        write: impl FnOnce(&mut AnyFront, &mut Vec<u8>) -> R,
    ) -> Option<R> {
        let link = self.links.get_mut(id.0 as usize)?.as_deref_mut()?;
        let before = link.out.len();
        let result = write(&mut link.front, &mut link.out);
        let written = link.out.len() - before;
        self.unflushed += written;
        self.packets[link.front.index()].sent += u64::from(written > 0);
        if !link.dirty {
            link.dirty = true;
            self.dirty.push(id);
        }
        Some(result)
    }

    /// Takes back what was written since the output had `len` bytes, if none of it has left.
    pub(crate) fn take_back(&mut self, id: LinkId, len: usize) {
        if let Some(link) = self.get_mut(id)
            && len >= link.sent
        {
            link.out.truncate(len);
        }
    }

    /// Lets a front return to its link.
    pub(crate) fn put_back<R>(
        &mut self,
        id: LinkId,
        back: impl FnOnce(&mut AnyFront, &mut Vec<u8>) -> (Left, R),
    ) -> Option<R> {
        let link = self.links.get_mut(id.0 as usize)?.as_deref_mut()?;
        let before = link.out.len();
        let (left, result) = back(&mut link.front, &mut link.out);
        let written = link.out.len() - before + left.bytes;
        link.closing |= left.is_ended;
        self.unflushed += written;
        if (written > 0 || left.flushes) && !std::mem::replace(&mut link.dirty, true) {
            self.dirty.push(id);
        }
        Some(result)
    }

    /// Calls an output verb that may end in a note; then the front is woken.
    fn tell<R>(
        &mut self,
        id: LinkId,
        tell: impl FnOnce(&mut AnyFront, &mut Vec<u8>) -> R,
    ) -> Option<R> {
        let link = self.links.get_mut(id.0 as usize)?.as_deref_mut()?;
        if !link.front.defers() {
            return self.write(id, tell);
        }
        let before = link.out.len();
        let result = tell(&mut link.front, &mut link.out);
        if link.out.len() > before {
            self.unflushed += link.out.len() - before;
            self.mark_dirty(id);
        }
        self.wake(id);
        Some(result)
    }

    pub(crate) fn mark_dirty(&mut self, id: LinkId) {
        self.write(id, |_, _| ());
    }
}
