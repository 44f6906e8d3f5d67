//! Receivers whose queues fill: who publishes to them is slowed, and is refused what nobody has room for.

use crate::Kernel;
use crate::effects::Effects;
use crate::ids::{SessionId, ShardId, Ticket};
use crate::journal::Record;
use crate::limits::Overflow;
use crate::publish::{Draft, Outcome, Published};
use crate::route_cache::{NO_LOCAL, Route};
use crate::shards::ShardMessage;
use thalweg_model::{Message, Reliability, RetainOp, Span, Time};

/// What a publish met on its way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Crowd {
    /// Copies that their receivers had no room for.
    left_out: u32,
    /// How many eighths of its queue the fullest receiver with a link has filled, from [`SLOW_FROM`] on; 0 for less.
    eighths: u32,
}

impl Crowd {
    /// Whether it met anything.
    #[inline(always)]
    pub(crate) fn is_some(self) -> bool {
        self.left_out | self.eighths != 0
    }
}

/// From half full on publishers are slowed.
const SLOW_FROM: u32 = 4;
/// For how long they wait then, with each message; four times as long for each further eighth.
const PAUSE: Span = Span::from_millis(2);
/// Publishers of other shards that wait are remembered up to this number; those who are not are not slowed.
const PACED_MAX: usize = 4096;

impl Kernel {
    /// A receiver had no room for a copy that has just come.
    pub(crate) fn note_left_out(&mut self) {
        self.crowd.left_out += 1;
    }

    /// A copy waits in a session's queue. Nobody waits for one that is away, nor for one that has taken nothing for
    /// [`Limits::queue_pace_max`](crate::Limits::queue_pace_max).
    pub(crate) fn note_waiting(&mut self, id: SessionId, now: Time) {
        let limits = &self.limits;
        let (messages_max, pace_max) = (limits.queue_messages_max, limits.queue_pace_max);
        if limits.overflow != Overflow::DropNewest {
            // Then the operator has chosen something else than to wait.
            return;
        }
        let Some(session) = self
            .sessions
            .get_mut(id)
            .filter(|session| session.link.is_some())
        else {
            return;
        };
        let bytes_max = limits.session_bytes_max(session.durable);
        let eighths = eighths(session.waiting_len(), messages_max)
            .max(eighths(session.waiting_bytes, bytes_max));
        if eighths < SLOW_FROM {
            return;
        }
        if session.paced.0 != session.delivered || session.paced.1 == Time::ZERO {
            session.paced = (session.delivered, now);
        }
        if session.paced.1 + pace_max > now {
            self.crowd.eighths = self.crowd.eighths.max(eighths);
        }
    }

    /// A message waits in a group that has a member with a link.
    pub(crate) fn note_waiting_in_group(&mut self, index: u32, now: Time) {
        let (messages_max, bytes_max) =
            (self.limits.group_messages_max, self.limits.group_bytes_max);
        let pace_max = self.limits.queue_pace_max;
        let Some(Some(group)) = self.groups.get(index as usize) else {
            return;
        };
        let eighths =
            eighths(group.waiting.len(), messages_max).max(eighths(group.waiting_bytes, bytes_max));
        if eighths < SLOW_FROM
            || !group
                .everybody()
                .any(|member| self.member_is_there(member.session))
        {
            return;
        }
        let Some(group) = self.group_mut(index) else {
            return;
        };
        let given = group.counters.chosen;
        if group.paced.0 != given || group.paced.1 == Time::ZERO {
            group.paced = (given, now);
        }
        if group.paced.1 + pace_max > now {
            self.crowd.eighths = self.crowd.eighths.max(eighths);
        }
    }

    /// Its publisher is refused what nobody has room for, and waits for receivers that fill.
    #[cold]
    pub(crate) fn heed_crowd(
        &mut self,
        id: SessionId,
        route: &Route,
        draft: &Draft<'_>,
        published: &mut Published,
        now: Time,
    ) {
        let (is_refused, until) = self.after_crowd(route, id, draft, now);
        if is_refused && published.outcome == Outcome::Accepted {
            published.outcome = Outcome::Refused;
        }
        published.pause_until = published
            .pause_until
            .max(until)
            .max(self.paced_until(id, now));
    }

    /// A refused message is not held: its ticket is free at once, and it may come again.
    #[cold]
    pub(crate) fn forget_ticket<E: Effects>(&mut self, id: SessionId, ticket: Ticket, fx: &mut E) {
        let safety = self.session_safety(id);
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        session.held.remove(ticket);
        if session.durable {
            // It may have been written down as held.
            fx.persist(
                &Record::Released {
                    queue: session.uid,
                    ticket,
                },
                safety,
            );
        }
    }

    /// A publish met full receivers, or ones that fill: what its publisher is told then, and for how long it waits.
    #[cold]
    fn after_crowd(
        &mut self,
        route: &Route,
        publisher: SessionId,
        draft: &Draft<'_>,
        now: Time,
    ) -> (bool, Option<Time>) {
        let crowd = std::mem::take(&mut self.crowd);
        if draft.reliability == Reliability::AtMostOnce {
            return (false, None);
        }
        let is_own = |flags: u8, session| flags & NO_LOCAL != 0 && session == publisher;
        let receivers = route
            .receivers
            .iter()
            .filter(|receiver| !is_own(receiver.flags, receiver.session))
            .count();
        let others = route.shards.len() + route.queues.len() + usize::from(route.cell.is_some());
        let is_kept =
            draft.retain == RetainOp::Set || route.is_kept || route.has_queues() || others > 0;
        let is_refused = !is_kept
            && crowd.left_out as usize >= receivers + route.groups.len()
            && crowd.left_out > 0;
        (is_refused, crowd.pause(now))
    }

    /// The same of a message of another shard's, whose publisher is told to wait.
    pub(crate) fn after_crowd_elsewhere<E: Effects>(
        &mut self,
        from: ShardId,
        message: &Message,
        now: Time,
        fx: &mut E,
    ) {
        let crowd = std::mem::take(&mut self.crowd);
        let is_sure = message.reliability() > Reliability::AtMostOnce && message.publisher() != 0;
        if let (true, Some(until)) = (is_sure, crowd.pause(now)) {
            fx.send(
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
        if self.paced.len() >= PACED_MAX {
            self.paced.retain(|_, until| *until > now);
        }
        if self.paced.len() < PACED_MAX {
            self.paced.insert(publisher, until);
        }
    }

    /// Until when a publisher waits for receivers on other shards.
    #[cold]
    fn paced_until(&mut self, id: SessionId, now: Time) -> Option<Time> {
        let uid = self.sessions.get(id)?.uid;
        self.paced.remove(&uid).filter(|until| *until > now)
    }
}

impl Crowd {
    fn pause(self, now: Time) -> Option<Time> {
        let above = self.eighths.checked_sub(SLOW_FROM)?.min(3);
        Some(now + Span::from_nanos(PAUSE.nanos() << (2 * above)))
    }
}

fn eighths(filled: usize, max: usize) -> u32 {
    (filled.saturating_mul(8) / max.max(1)).min(8) as u32
}
