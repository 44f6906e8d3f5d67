//! Receivers whose queues fill: their publishers are slowed, and refused a message for which no receiver has room.

use crate::Kernel;
use crate::ids::{GroupId, QueueId, SessionId, ShardId, Ticket};
use crate::journal::durable::Put;
use crate::kernel::Map;
use crate::limits::Overflow;
use crate::publish::pace::{SLOW_FROM, eighths};
use crate::publish::pipeline::{Draft, Published};
use crate::remote::shards::ShardMessage;
use crate::routes::cached::{NO_LOCAL, Route};
use thalweg_model::{Message, Reliability, RetainOp, Span, Time};
use thalweg_records::Record;

/// What a publish met on its way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Crowd {
    /// Copies that their receivers had no room for.
    left_out: u32,
    /// Receivers that exchanges lead to further on, beside those of the route; of other shards the groups.
    further: u32,
    /// One of those keeps it in any case, or may: it is on another shard, which is not asked.
    is_kept_further: bool,
    /// Until when its publisher waits for a receiver that fills.
    until: Option<Time>,
    /// The question under which other shards are asked about it; 0 if its publisher does not wait for an answer.
    question: u64,
    /// Shards that were asked, each once for its sessions and once for each of its groups.
    asked: u16,
    /// Those among them that were asked for a group.
    asked_groups: u16,
    /// The shard of queues is among them.
    asks_queues: bool,
}

/// What became of a message on one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// A receiver has it.
    Kept,
    /// All its receivers are full.
    LeftOut,
    /// It has no receiver.
    Unwanted,
}

impl Crowd {
    /// Whether it met anything.
    #[inline(always)]
    pub(crate) fn is_some(self) -> bool {
        self.left_out != 0 || self.until.is_some() || self.asked != 0
    }

    /// Whether a receiver had no room.
    pub(crate) fn has_left_out(self) -> bool {
        self.left_out != 0
    }

    /// Another message is spread; `question` is 0 if its publisher does not wait for other shards.
    #[inline(always)]
    pub(crate) fn begin(&mut self, question: u64) {
        *self = Crowd {
            question,
            ..Crowd::default()
        };
    }

    /// Its publisher does not wait for other shards after all.
    pub(crate) fn ask_nobody(&mut self) {
        self.question = 0;
    }

    /// The question under which other shards are asked about it; 0 if there is none.
    #[inline]
    pub(crate) fn question(&self) -> u64 {
        self.question
    }

    /// Shards that were asked about it, once for its sessions and once for each of its groups.
    pub(crate) fn asked(&self) -> u16 {
        self.asked
    }

    /// Whether the shard of queues is among them.
    pub(crate) fn asks_queues(&self) -> bool {
        self.asks_queues
    }

    /// Another shard is sent it for its sessions and queues.
    pub(crate) fn note_asked(&mut self, of_queues: bool) {
        self.asked = self.asked.saturating_add(1);
        self.asks_queues |= of_queues;
    }

    /// Another shard is sent it for a group.
    pub(crate) fn note_asked_for_group(&mut self) {
        self.asked = self.asked.saturating_add(1);
        self.asked_groups = self.asked_groups.saturating_add(1);
    }

    /// A receiver had no room for a copy that has just come.
    pub(crate) fn note_left_out(&mut self) {
        self.left_out += 1;
    }

    /// An exchange leads to where the message has so many more receivers and is kept in any case, or not.
    pub(crate) fn note_further(&mut self, receivers: usize, is_kept: bool) {
        self.further = self.further.saturating_add(receivers as u32);
        self.is_kept_further |= is_kept;
    }

    /// Another message was spread meanwhile, of which this one's publisher only waits for receivers that fill.
    pub(crate) fn resume(&mut self, before: Crowd) {
        let until = self.until;
        *self = before;
        self.wait_until(until);
    }

    /// Its publisher waits until then for one of its receivers.
    pub(crate) fn wait_until(&mut self, until: Option<Time>) {
        self.until = self.until.max(until);
    }
}

/// Publishers that wait for receivers of other shards are remembered up to this number; those who are not are not slowed.
const PACED_MAX: usize = 4096;
/// Behind a pause for a receiver on another shard a publisher waits this long with each message, so that the next pause
/// reaches it before it has sent all its messages.
const PROBE: Span = Span::from_millis(2);
const PROBES_FOR: Span = Span::from_millis(20);

/// Publishers that wait for receivers on other shards.
#[derive(Default)]
pub(crate) struct PacedElsewhere {
    /// Until when, by number.
    publishers: Map<u64, Time>,
    /// When the last of them goes on.
    last: Time,
}

impl PacedElsewhere {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.publishers.is_empty()
    }

    fn add(&mut self, publisher: u64, until: Time, now: Time) {
        if self.publishers.len() >= PACED_MAX {
            self.publishers.retain(|_, until| *until + PROBES_FOR > now);
        }
        if self.publishers.len() < PACED_MAX {
            let known = self.publishers.entry(publisher).or_insert(until);
            *known = until.max(*known);
            self.last = self.last.max(until);
        }
    }

    /// Until when a publisher waits that has sent something; `leaves` if that goes to another shard.
    fn until(&mut self, publisher: u64, leaves: bool, now: Time) -> Option<Time> {
        if self.last + PROBES_FOR <= now {
            self.publishers.clear();
        }
        let until = *self.publishers.get(&publisher)?;
        if until + PROBES_FOR <= now {
            self.publishers.remove(&publisher);
            return None;
        }
        if until > now {
            return Some(until);
        }
        leaves.then(|| now + PROBE)
    }
}

impl Kernel {
    /// A copy was put somewhere for a session, which is not its publisher; `before` it was.
    #[inline]
    pub(crate) fn note_put(&mut self, id: SessionId, put: Put, before: Crowd, now: Time) {
        let waits = matches!(put, Put::Waits | Put::WaitsForDisk);
        if waits || self.sessions.crowd.left_out != before.left_out {
            self.note_waiting(id, now);
        }
    }

    /// A copy waits in a session's queue, or has no room there. A publisher does not wait for a receiver that is away,
    /// nor for one that has received nothing for [`Limits::queue_pace_max`](crate::Limits::queue_pace_max), nor for one that
    /// the operator holds back.
    fn note_waiting(&mut self, id: SessionId, now: Time) {
        let limits = self.env.limits();
        if limits.overflow != Overflow::DropNewest {
            // Then the operator has chosen something else than to wait.
            return;
        }
        let session = self.sessions.get_mut(id);
        if let Some(session) = session.filter(|it| it.link().is_some() && !it.backlog.holds_back())
        {
            let until = session.pause_publishers(limits, now);
            self.sessions.crowd.wait_until(until);
        }
    }

    /// A message waits in a named queue that has consumers, or was refused there. The declaration says what happens at
    /// its own bounds; publishers wait only for the broker's bounds.
    pub(crate) fn note_waiting_in_queue(&mut self, queue_id: QueueId, now: Time) {
        let limits = &self.env.limits();
        let (messages_max, bytes_max) = (
            limits.named_queue_messages_max,
            limits.named_queue_bytes_max,
        );
        let pace_max = limits.queue_pace_max;
        let Some(queue) = self.queues.get(queue_id) else {
            return;
        };
        let eighths = queue.eighths(messages_max, bytes_max);
        if eighths < SLOW_FROM || !self.is_taken_from(queue_id) {
            return;
        }
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return;
        };
        let until = queue.pause(eighths, pace_max, now);
        self.sessions.crowd.wait_until(until);
    }

    /// A message waits in a group that has a member with a link.
    pub(crate) fn note_waiting_in_group(&mut self, group_id: GroupId, now: Time) {
        let (messages_max, bytes_max) = (
            self.env.limits().group_messages_max,
            self.env.limits().group_bytes_max,
        );
        let pace_max = self.env.limits().queue_pace_max;
        let Some(group) = self.groups.get(group_id) else {
            return;
        };
        let eighths = eighths(group.waiting.len(), messages_max)
            .max(eighths(group.waiting.bytes(), bytes_max));
        if eighths < SLOW_FROM
            || !group
                .everybody()
                .any(|member| self.member_is_there(member.session))
        {
            return;
        }
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        // Some of what was given comes back; but members may settle nothing.
        let taken = match group.counters.settled {
            0 => group.counters.chosen,
            settled => settled,
        };
        let until = group.pace_mut().pause(taken, eighths, pace_max, now);
        self.sessions.crowd.wait_until(until);
    }

    /// Its publisher is refused a message for which no receiver has room, and waits for receivers that fill.
    #[cold]
    pub(crate) fn heed_crowd(
        &mut self,
        id: SessionId,
        route: &Route,
        draft: &Draft<'_>,
        published: &mut Published,
        now: Time,
    ) {
        if draft.reliability == Reliability::AtMostOnce {
            self.sessions.crowd.begin(0);
        }
        let until = self.sessions.crowd.until;
        let fate = self.fate(route, Some(id), draft.retain, route.groups().len());
        self.outcome_after(id, draft, fate, published);
        published.pause_until = published
            .pause_until
            .max(until)
            .max(self.paced_until(id, route, now));
    }

    /// A refused message is not held: its ticket is free at once, and it may come again.
    #[cold]
    pub(crate) fn forget_ticket(&mut self, id: SessionId, ticket: Ticket) {
        let safety = self.session_safety(id);
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        session.tickets.remove(ticket);
        if session.is_durable() {
            // It may have been written down as held.
            self.journal.persist(
                &Record::Released {
                    queue: session.uid(),
                    ticket,
                },
                safety,
            );
        }
    }

    /// What became of the message that was spread, on this shard; it was spread to so many groups of its route.
    #[cold]
    pub(crate) fn fate(
        &self,
        route: &Route,
        publisher: Option<SessionId>,
        retain: RetainOp,
        groups: usize,
    ) -> Fate {
        let crowd = &self.sessions.crowd;
        let is_own = |flags: u8, session| flags & NO_LOCAL != 0 && Some(session) == publisher;
        let receivers = route
            .receivers()
            .iter()
            .filter(|receiver| !is_own(receiver.flags, receiver.session))
            .count();
        let asked = usize::from(crowd.asked_groups);
        let here = (receivers + groups + crowd.further as usize).saturating_sub(asked);
        let left_out = crowd.left_out as usize;
        let keeps_value = route.terms().is_none_or(|terms| !terms.keeps_no_value());
        let is_kept = (retain == RetainOp::Set && keeps_value)
            || !route.queues().is_empty()
            || crowd.is_kept_further
            || is_kept_anyway(route);
        if is_kept || left_out < here {
            Fate::Kept
        } else if left_out > 0 {
            Fate::LeftOut
        } else {
            Fate::Unwanted
        }
    }

    /// A message of another shard's met receivers that fill: its publisher has to wait.
    pub(crate) fn after_crowd_elsewhere(&mut self, from: ShardId, message: &Message) {
        let crowd = self.sessions.crowd;
        let is_sure = message.reliability() > Reliability::AtMostOnce && message.publisher() != 0;
        if let (true, Some(until)) = (is_sure, crowd.until) {
            self.remote.send(
                from,
                ShardMessage::Pace {
                    publisher: message.publisher(),
                    until,
                },
            );
        }
    }

    /// A receiver on another shard fills.
    pub(crate) fn on_pace(&mut self, publisher: u64, until: Time, now: Time) {
        self.remote.paced.add(publisher, until, now);
    }

    /// Until when a publisher waits for receivers on other shards.
    #[cold]
    fn paced_until(&mut self, id: SessionId, route: &Route, now: Time) -> Option<Time> {
        let uid = self.sessions.get(id)?.uid();
        let leaves = !route.shards().is_empty() || !route.groups().is_empty();
        self.remote.paced.until(uid, leaves, now)
    }
}

/// Whether a message that is published there is kept on this shard whatever its sessions and groups have room for.
pub(crate) fn is_kept_anyway(route: &Route) -> bool {
    route.is_kept() || route.cell().is_some()
}
