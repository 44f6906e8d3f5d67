//! Connections without their sockets: protocol machine and output buffer of each, by number.

mod held;
mod output;

use crate::amqp::AmqpFront;
use crate::coap::{self, CoapFront, CoapStreamFront, Told};
use crate::mqtt::MqttFront;
use crate::probe::{Mark, Probe};
use crate::stomp::StompFront;
use crate::{LoginAnswer, LoginAsk};
use std::collections::VecDeque;
use thalweg_kernel::{
    Answer, CloseReason, Closing, ConsumerEnd, Delivery, Effects, Handover, Kernel, LinkId,
    Observed, Sent, SessionId, Tag, Ticket,
};
use thalweg_model::{Reliability, Span, Time};

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

/// Outputs above this grow with care.
const LARGE_BYTES: usize = 128 << 10;
/// Bytes that a delivery's head takes at the most, beside its address, unless it has properties.
const HEAD_BYTES: usize = 16;

/// A protocol's side of a link.
pub enum Front {
    /// MQTT of any version.
    Mqtt(Box<MqttFront>),
    /// AMQP 0-9-1.
    Amqp(Box<AmqpFront>),
    /// STOMP 1.0 to 1.2.
    Stomp(Box<StompFront>),
    /// CoAP over UDP or DTLS: all peers of one socket.
    CoapDatagrams(Box<CoapFront>),
    /// CoAP over TCP, TLS or WebSocket.
    CoapStream(Box<CoapStreamFront>),
    /// The session that the CoAP fronts of a shard have in common. It has no peer.
    CoapDesk,
    /// A CoAP front whose own code is running.
    CoapAway,
}

impl Front {
    /// Whether what the kernel says to it is handled later, by [`Links::work`].
    fn is_coap(&self) -> bool {
        matches!(
            self,
            Front::CoapDatagrams(_) | Front::CoapStream(_) | Front::CoapDesk | Front::CoapAway
        )
    }
}

/// A connection without its socket.
pub struct Link {
    /// Translates.
    pub front: Front,
    /// Bytes for the peer, those that are sent already first.
    out: Vec<u8>,
    /// How many bytes of `out` are sent already.
    sent: usize,
    /// Bytes that were taken from the front of `out` so far.
    gone: u64,
    /// From where on bytes must wait (counted from the link's beginning), and for which batch of the journal.
    held: VecDeque<(u64, u64)>,
    /// The batch that something of a CoAP front waited for last.
    held_last: u64,
    /// Set when nothing more will be read: flush, then close.
    pub closing: bool,
    /// Nothing is read before this time: the peer is over its rate.
    pub pause_until: Option<Time>,
    pub(crate) session: Option<SessionId>,
    /// It ends because nothing was heard for too long.
    silent: bool,
    /// Bytes that its front keeps for its peer, as they were counted.
    kept: usize,
    /// Its own high-water mark, if that is lower than everybody's.
    high: usize,
    dirty: bool,
}

/// How far [`Links::drive`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Driven {
    /// Bytes that are done with.
    pub consumed: usize,
    /// Why it stopped.
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
}

/// MQTT packets of all types over all links so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// Those that were received and handled.
    pub received: u64,
    /// Those that were written into an output.
    pub sent: u64,
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
    /// Links that [`Effects::disconnect`] has ended.
    ended: Vec<(LinkId, CloseReason)>,
    /// Links whose output waits for a batch, by rising batch.
    holding: VecDeque<(u64, LinkId)>,
    /// Why publishes that must be kept are refused now.
    blocked: Option<&'static str>,
    /// Bytes that fronts keep for their peers as long as these are connected.
    kept: usize,
    /// What the CoAP fronts have in common.
    pub(crate) coap: coap::Shared,
    pub(crate) load: crate::LoadCounts,
    packets: PacketCounts,
    /// Measures the next message, if somebody wants to know.
    pub(crate) probe: Option<Box<Probe>>,
}

impl Links {
    /// No links yet.
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
            ended: Vec::new(),
            holding: VecDeque::new(),
            blocked: None,
            kept: 0,
            coap: coap::Shared::default(),
            load: crate::LoadCounts::default(),
            packets: PacketCounts::default(),
            probe: None,
        }
    }

    /// Replaces the limits, for links that exist too.
    pub fn set_limits(&mut self, limits: LinksLimits) {
        self.limits = limits;
        self.set_unflushed_max(self.unflushed_most);
    }

    /// Adds a link.
    pub fn open(&mut self, front: Front) -> LinkId {
        let link = Link {
            front,
            out: Vec::new(),
            sent: 0,
            gone: 0,
            held: VecDeque::new(),
            held_last: 0,
            closing: false,
            pause_until: None,
            session: None,
            silent: false,
            kept: 0,
            high: usize::MAX,
            dirty: false,
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

    /// Removes a link whose socket is closed, and tells the kernel. Its number may be used again afterwards.
    pub fn close(&mut self, id: LinkId, kernel: &mut Kernel, now: Time) {
        coap::close(self, id, now, kernel);
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
            && slot.take().is_some()
        {
            self.free.push(id.0);
        }
        self.kept -= kept;
    }

    /// Bytes that fronts keep for their peers as long as these are connected.
    pub fn kept_bytes(&self) -> usize {
        self.kept
    }

    /// Counts what a front keeps for its peer now; whether there is memory for what that is more than before.
    pub(crate) fn count_kept(&mut self, id: LinkId, kept: usize, kernel: &Kernel) -> bool {
        let Some(link) = self.get_mut(id) else {
            return true;
        };
        let before = std::mem::replace(&mut link.kept, kept);
        self.kept = self.kept + kept - before;
        kept <= before || kernel.may_keep(before, kept - before)
    }

    /// Counts of MQTT packets.
    pub fn packets(&self) -> PacketCounts {
        self.packets
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

    /// All CoAP fronts.
    pub(crate) fn coap_fronts(&self) -> Vec<LinkId> {
        let links = self.links.iter().enumerate();
        let coap = links.filter(|(_, link)| link.as_ref().is_some_and(|link| link.front.is_coap()));
        coap.map(|(at, _)| LinkId(at as u32)).collect()
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
        match self.get(id).map(|link| &link.front) {
            Some(Front::Mqtt(_)) => {
                let counted = |links: &mut Links, id, bytes: &[u8], now, kernel: &mut Kernel| {
                    let step = MqttFront::step(links, id, bytes, now, kernel);
                    links.packets.received += u64::from(matches!(step, Step::Consumed(_)));
                    step
                };
                let driven = self.drive_by(counted, id, bytes, now, kernel);
                MqttFront::on_driven(self, id, now, kernel);
                driven
            }
            Some(Front::Amqp(_)) => {
                let driven = self.drive_by(AmqpFront::step, id, bytes, now, kernel);
                AmqpFront::on_driven(self, id);
                driven
            }
            Some(Front::Stomp(_)) => self.drive_by(StompFront::step, id, bytes, now, kernel),
            Some(Front::CoapStream(_)) => {
                let driven = self.drive_by(CoapStreamFront::step, id, bytes, now, kernel);
                self.work(now, kernel);
                driven
            }
            Some(Front::CoapDatagrams(_) | Front::CoapDesk | Front::CoapAway) | None => Driven {
                consumed: 0,
                stopped: Stopped::Hold,
            },
        }
    }

    /// A loop of its own for each protocol, and a function of its own, so that none makes another slower.
    #[inline(never)]
    fn drive_by(
        &mut self,
        step: impl Fn(&mut Links, LinkId, &[u8], Time, &mut Kernel) -> Step,
        id: LinkId,
        bytes: &[u8],
        now: Time,
        kernel: &mut Kernel,
    ) -> Driven {
        let mut consumed = 0;
        let stopped = loop {
            // Not before anything is done: who does not take batches goes on, too.
            if self.should_flush() || (kernel.is_batch_large() && consumed > 0) {
                break Stopped::FlushFirst;
            }
            let Some(link) = self.get_mut(id) else {
                break Stopped::Hold;
            };
            if link.closing || link.pause_until.is_some() {
                break Stopped::Hold;
            }
            match step(self, id, &bytes[consumed..], now, kernel) {
                Step::Consumed(n) => consumed += n,
                Step::NeedMore => break Stopped::NeedMore,
                Step::Hold => break Stopped::Hold,
            }
        };
        Driven { consumed, stopped }
    }

    /// The answer to a [`LoginAsk`]; ignored if the link is gone or asked something else meanwhile.
    pub fn on_login(&mut self, id: LinkId, answer: LoginAnswer, now: Time, kernel: &mut Kernel) {
        match self.get_mut(id).map(|link| &mut link.front) {
            Some(Front::Mqtt(_)) => MqttFront::on_login(self, id, answer, now, kernel),
            Some(Front::Amqp(_)) => AmqpFront::on_login(self, id, answer, now, kernel),
            Some(Front::Stomp(_)) => StompFront::on_login(self, id, answer, now, kernel),
            Some(Front::CoapStream(_)) => CoapStreamFront::on_login(self, id, answer, now, kernel),
            Some(Front::CoapDatagrams(_)) => self.on_proven(id, "", answer, now, kernel),
            Some(Front::CoapDesk | Front::CoapAway) | None => {}
        }
    }

    /// The longest a link may be silent, if there is such a limit.
    pub fn silence_max(&self, id: LinkId) -> Option<Span> {
        match &self.get(id)?.front {
            Front::Mqtt(front) => front.silence_max(),
            Front::Amqp(front) => front.silence_max(),
            Front::Stomp(front) => front.silence_max(),
            Front::CoapStream(front) => front.silence_max(),
            Front::CoapDatagrams(_) | Front::CoapDesk | Front::CoapAway => None,
        }
    }

    /// A link has been silent for too long: says so to the peer and ends the link.
    pub fn on_silence(&mut self, id: LinkId) {
        if let Some(link) = self.get_mut(id) {
            match &mut link.front {
                Front::Mqtt(front) => front.on_silence(&mut link.out),
                Front::Amqp(front) => front.on_silence(&mut link.out),
                Front::Stomp(front) => front.on_silence(&mut link.out),
                Front::CoapStream(front) => front.on_silence(&mut link.out),
                Front::CoapDatagrams(_) | Front::CoapDesk | Front::CoapAway => return,
            }
            link.closing = true;
            link.silent = true;
            self.mark_dirty(id);
        }
    }

    /// The longest a peer may be left without a byte, if there is such a limit: then [`Links::on_idle`] is called. Asked
    /// again whenever that time is over, so it may change.
    pub fn idle_write(&self, id: LinkId) -> Option<Span> {
        match &self.get(id)?.front {
            Front::Mqtt(_)
            | Front::CoapDatagrams(_)
            | Front::CoapStream(_)
            | Front::CoapDesk
            | Front::CoapAway => None,
            Front::Amqp(front) => front.idle_write(),
            Front::Stomp(front) => front.idle_write(),
        }
    }

    /// Nothing has been sent to a peer for [`Links::idle_write`]: lets the front send a sign of life.
    pub fn on_idle(&mut self, id: LinkId, _now: Time) {
        match self.get(id).map(|link| &link.front) {
            Some(Front::Amqp(_)) => AmqpFront::on_idle(self, id),
            Some(Front::Stomp(_)) => StompFront::on_idle(self, id),
            _ => {}
        }
    }

    /// From now on publishes that must be kept are refused or will be, because of `why`; or no more (`None`). Fronts
    /// whose protocol has words for it tell those who are here; who comes later looks at [`Links::blocked`].
    pub fn on_blocked(&mut self, why: Option<&'static str>) {
        self.blocked = why;
        for at in 0..self.links.len() {
            let id = LinkId(at as u32);
            if let Some(Front::Amqp(_)) = self.get(id).map(|link| &link.front) {
                AmqpFront::on_blocked(self, id, why);
            }
        }
    }

    /// Why publishes that must be kept are refused now, if they are.
    pub fn blocked(&self) -> Option<&'static str> {
        self.blocked
    }

    /// The peer's proof of who it is has ended.
    pub fn on_login_expired(&mut self, id: LinkId, kernel: &mut Kernel, now: Time) {
        if let Some(session) = self.get(id).and_then(|link| link.session) {
            self.disconnect(id, CloseReason::NotAuthorized);
            kernel.close_link(session, id, Closing::Cut, None, now, self);
        }
    }

    /// From now on a link whose output is above so many bytes is congested, and all are flushed before more is read.
    pub fn limit_output(&mut self, id: LinkId, high: usize) {
        if let Some(link) = self.get_mut(id) {
            link.high = high;
        }
    }

    /// Who is connected by a link.
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
        } else {
            CoapStreamFront::on_drained(self, id);
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

    /// Questions about peers.
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
        write: impl FnOnce(&mut Front, &mut Vec<u8>) -> R,
    ) -> Option<R> {
        let link = self.links.get_mut(id.0 as usize)?.as_deref_mut()?;
        let before = link.out.len();
        let result = write(&mut link.front, &mut link.out);
        let written = link.out.len() - before;
        self.unflushed += written;
        self.packets.sent += u64::from(written > 0 && matches!(link.front, Front::Mqtt(_)));
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

    /// A front returns to its link, and has so many bytes to send.
    pub(crate) fn put_back(&mut self, id: LinkId, front: Front, bytes: usize) {
        let Some(Some(link)) = self.links.get_mut(id.0 as usize) else {
            return;
        };
        link.front = front;
        self.unflushed += bytes;
        if bytes > 0 && !std::mem::replace(&mut link.dirty, true) {
            self.dirty.push(id);
        }
    }

    pub(crate) fn mark_dirty(&mut self, id: LinkId) {
        self.write(id, |_, _| ());
    }
}

/// What one step of a front did.
pub(crate) enum Step {
    /// A packet of so many bytes is done with.
    Consumed(usize),
    /// There is no whole packet.
    NeedMore,
    /// The next packet must wait.
    Hold,
}

impl Effects for Links {
    #[inline]
    fn deliver(&mut self, id: LinkId, delivery: &Delivery<'_>) -> Sent {
        self.mark(Mark::KernelDeliver);
        let sent = self.encode(id, delivery);
        self.mark(Mark::FrontOut);
        sent
    }

    fn release(&mut self, id: LinkId, tag: Tag) {
        // Nothing is exactly once for the others.
        self.write(id, |front, out| {
            if let Front::Mqtt(front) = front {
                front.release(tag, out);
            }
        });
    }

    fn answer(&mut self, id: LinkId, ticket: Ticket, answer: Answer<'_>) {
        if self.is_coap(id) {
            return self.coap.tell(id, Told::answer(ticket, answer));
        }
        self.write(id, |front, out| match (front, answer) {
            (Front::Mqtt(front), answer) => front.answer(ticket, answer, out),
            (Front::Amqp(front), Answer::Value(value)) => front.last_value_read(ticket, value, out),
            (Front::Stomp(front), Answer::Value(value)) => {
                front.last_value_read(ticket, value, out)
            }
            // They ask for nothing else: queues are bound.
            _ => {}
        });
    }

    #[inline]
    fn observe(&mut self, id: LinkId, cookie: u64, observed: Observed<'_>) {
        // Nobody else has words for what is only the latest.
        match observed {
            Observed::Changed => self.coap.changed.push((id, cookie)),
            Observed::Ready(value) => {
                let value = value.cloned();
                self.coap.tell(id, Told::WatchReady { cookie, value });
            }
            Observed::Ended(why) => self.coap.tell(id, Told::WatchEnded { cookie, why }),
        }
    }

    fn disconnect(&mut self, id: LinkId, why: CloseReason) {
        // One session among several of a socket; a stream ends, too, unless it is itself what ends it just now.
        if self.is_coap(id)
            && !matches!(
                self.get(id).map(|link| &link.front),
                Some(Front::CoapStream(_))
            )
        {
            return self.coap.tell(id, Told::Disconnected);
        }
        self.write(id, |front, out| match front {
            Front::Mqtt(front) => front.disconnect(why, out),
            Front::Amqp(front) => front.disconnect(why, out),
            Front::Stomp(front) => front.disconnect(why, out),
            Front::CoapStream(front) => front.disconnect(why, out),
            _ => {}
        });
        if let Some(link) = self.get_mut(id) {
            link.closing = true;
            link.session = None;
            self.ended.push((id, why));
        }
    }

    #[inline]
    fn hand_over(&mut self, id: LinkId, handover: &Handover<'_>) -> Sent {
        let limits = self.limits;
        let Some(Some(link)) = self.links.get_mut(id.0 as usize) else {
            return Sent::Gone;
        };
        if link.closing {
            return Sent::Gone;
        }
        // Who asks for one is answered: "there is none" would not be true. Nothing is read above the greater limit.
        let is_asked_for = handover.consumer == 0;
        let high = if is_asked_for {
            limits.output_max
        } else {
            limits.output_high
        };
        if link.waiting() > high || (self.unflushed > self.unflushed_most && !is_asked_for) {
            self.congested.push(id);
            return Sent::Full;
        }
        let needed = handover.message.payload().len() + handover.message.address_len() + HEAD_BYTES;
        if link.out.len() > LARGE_BYTES && link.out.len() + needed > link.out.capacity() {
            link.make_room(needed, limits.output_max);
        }
        let before = link.out.len();
        let taken: Result<(), ()> = match &mut link.front {
            // They take what they want by subscriptions, or by themselves.
            Front::Mqtt(_)
            | Front::CoapDatagrams(_)
            | Front::CoapStream(_)
            | Front::CoapDesk
            | Front::CoapAway => {
                return Sent::Gone;
            }
            Front::Amqp(front) => front.hand_over(handover, &mut link.out).map_err(drop),
            Front::Stomp(front) => {
                front.hand_over(handover, &mut link.out);
                Ok(())
            }
        };
        if taken.is_err() {
            link.out.truncate(before);
            return Sent::TooLarge;
        }
        self.unflushed += link.out.len() - before;
        let (waiting, high) = (link.waiting(), link.high);
        if !link.dirty {
            link.dirty = true;
            self.dirty.push(id);
        }
        self.wrote(id, waiting, high)
    }

    fn consumer_ended(&mut self, id: LinkId, line: u16, ended: ConsumerEnd) -> bool {
        let told = self.write(id, |front, out| match (front, ended) {
            (Front::Amqp(front), ended) => front.consumer_ended(line, ended, out),
            (Front::Stomp(front), ConsumerEnd::QueueGone(_)) => front.consumer_ended(line, out),
            _ => false,
        });
        // STOMP has no word for it but ERROR, which ends the connection.
        if let Some(link) = self.get_mut(id)
            && matches!(&link.front, Front::Stomp(front) if !front.is_connected())
        {
            link.closing = true;
        }
        told == Some(true)
    }

    #[inline]
    fn hold(&mut self, id: LinkId, number: u64) {
        let Some(Some(link)) = self.links.get_mut(id.0 as usize) else {
            return;
        };
        if link.front.is_coap() {
            // Not what follows on the link waits, but one answer: its front asks for the number.
            self.coap.hold = Some(number);
            if std::mem::replace(&mut link.held_last, number) < number {
                self.holding.push_back((number, id));
            }
            return;
        }
        if link.held.back().is_none_or(|(_, batch)| *batch < number) {
            link.held
                .push_back((link.gone + link.out.len() as u64, number));
            self.holding.push_back((number, id));
        }
    }
}

impl Links {
    fn is_coap(&self, id: LinkId) -> bool {
        self.get(id).is_some_and(|link| link.front.is_coap())
    }

    #[inline]
    fn encode(&mut self, id: LinkId, delivery: &Delivery<'_>) -> Sent {
        let limits = self.limits;
        let Some(Some(link)) = self.links.get_mut(id.0 as usize) else {
            return Sent::Gone;
        };
        if link.closing {
            return Sent::Gone;
        }
        let waiting = link.waiting();
        let room = if delivery.reliability == Reliability::AtMostOnce {
            // One message larger than the whole buffer still goes into an empty one.
            waiting + delivery.payload.len() <= limits.output_max || waiting == 0
        } else {
            waiting <= limits.output_high || delivery.redelivered
        };
        if !room {
            self.congested.push(id);
            return Sent::Full;
        }
        let needed = delivery.payload.len() + delivery.address.len() + HEAD_BYTES;
        if link.out.len() > LARGE_BYTES && link.out.len() + needed > link.out.capacity() {
            link.make_room(needed, limits.output_max);
        }
        let before = link.out.len();
        let front = match &mut link.front {
            Front::Mqtt(front) => front,
            _ => return self.deliver_to_desk(id, delivery),
        };
        // Repeats leave whatever there is: the window bounds them.
        if self.unflushed > self.unflushed_most && !delivery.redelivered {
            self.congested.push(id);
            return Sent::Full;
        }
        if front.deliver(delivery, &mut link.out).is_err() {
            return Sent::TooLarge;
        }
        self.packets.sent += 1;
        self.unflushed += link.out.len() - before;
        let (waiting, high) = (link.waiting(), link.high);
        if !link.dirty {
            link.dirty = true;
            self.dirty.push(id);
        }
        self.wrote(id, waiting, high)
    }

    /// Others get theirs out of queues, or watch.
    #[cold]
    fn deliver_to_desk(&mut self, id: LinkId, delivery: &Delivery<'_>) -> Sent {
        if !matches!(self.get(id).map(|link| &link.front), Some(Front::CoapDesk)) {
            return Sent::Gone;
        }
        self.coap.deliver(id, delivery);
        Sent::Room
    }

    /// A delivery is in the output of a link in which so much waits now.
    #[inline(always)]
    fn wrote(&mut self, id: LinkId, waiting: usize, high: usize) -> Sent {
        if waiting <= self.limits.output_high.min(high) {
            return Sent::Room;
        }
        self.flush_first |= high != usize::MAX;
        if self.congested.last() != Some(&id) {
            self.congested.push(id);
        }
        Sent::Congested
    }
}
