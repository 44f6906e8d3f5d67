//! What must happen later.

use crate::Kernel;
use crate::effects::{Effects, Safety};
use crate::ids::SessionId;
use crate::read::LISTS_PER_TURN;
use std::collections::BTreeSet;
use thalweg_model::{Span, Time};
use thalweg_records::Record;

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TimerKind {
    /// The session's will is due.
    Will,
    /// The session has had no link for as long as it may.
    SessionExpiry,
    /// A session should have settled something that came through a group by now.
    GroupSettle,
    /// A session whose receiver was silent may have its first message now.
    GroupTrial,
    /// What did not fit into a session's output goes back to its groups.
    GroupUnsent,
    /// The head of a queue has had its time; the number is the queue's.
    QueueHead,
    /// A queue may have been idle for as long as it may; the number is the queue's.
    QueueIdle,
    /// Something that was taken out of a queue by itself should be settled by now.
    TakenSettle,
    /// What waits in a group may have found its member; the number is the group's.
    GroupLook,
    /// Members of a group may have been silent for too long; the number is the group's.
    GroupWatch,
    /// What an earlier run left between shards goes on.
    LeftInTransfer,
}

/// Timers in order of time. Setting is cheap and nothing is cancelled: a timer that fires looks whether it still means
/// anything.
#[derive(Default)]
pub(crate) struct Timers(BTreeSet<(Time, u32, TimerKind)>);

impl Timers {
    pub(crate) fn set(&mut self, at: Time, session: SessionId, kind: TimerKind) {
        self.0.insert((at, session.0, kind));
    }

    /// The next time that timers are looked at, though not in this call.
    pub(crate) fn set_soon(&mut self, now: Time, session: SessionId, kind: TimerKind) {
        self.set(now + Span::from_nanos(1), session, kind);
    }

    fn due(&mut self, now: Time) -> Option<(SessionId, TimerKind)> {
        let first = self.0.first().copied()?;
        if first.0 > now {
            return None;
        }
        self.0.pop_first();
        Some((SessionId(first.1), first.2))
    }
}

/// How many timers fire in one call at the most. A will and the end of a session are among the longest.
const TIMERS_PER_CALL: usize = 256;
/// How many bytes of messages they may have written down before the others wait.
const TIMERS_BYTES_MAX: u64 = 4 << 20;
/// How often expired last values and queued copies are looked for.
const SWEEP_EVERY: Span = Span::from_secs(5);
/// How many last values one sweep drops at the most.
const SWEEP_MAX: usize = 4096;
/// How many sessions' queues one sweep looks through at the most.
const SWEEP_SESSIONS_MAX: usize = 256;

impl Kernel {
    /// When [`Kernel::on_timeout`] should be called next.
    pub fn poll_timeout(&self) -> Time {
        let first = self.timers.0.first().map_or(Time::NEVER, |first| first.0);
        let has_work =
            self.sessions.len() > 0 || self.last_values.count() + self.kept_values.count() > 0;
        if has_work {
            first.min(self.sweep_at)
        } else {
            first
        }
    }

    /// Does what is due, or so much of it that other work need not wait long: then [`Kernel::poll_timeout`] is not later
    /// than a moment from now.
    pub fn on_timeout<E: Effects>(&mut self, now: Time, fx: &mut E) {
        let before = self.bytes_written;
        for _ in 0..TIMERS_PER_CALL {
            if self.bytes_written - before > TIMERS_BYTES_MAX {
                break;
            }
            let Some((id, kind)) = self.timers.due(now) else {
                break;
            };
            match kind {
                TimerKind::QueueHead => {
                    if let Some(queue) = self.queues.at(id.0) {
                        self.on_queue_head_due(queue, now);
                    }
                }
                TimerKind::QueueIdle => {
                    if let Some(queue) = self.queues.at(id.0) {
                        self.on_queue_idle(queue, now, fx);
                    }
                }
                TimerKind::TakenSettle => self.on_taken_settle_due(now, fx),
                TimerKind::GroupLook => {
                    if let Some(group) = self.groups.at(id.0) {
                        self.on_group_look(group, now, fx);
                    }
                }
                TimerKind::GroupWatch => {
                    if let Some(group) = self.groups.at(id.0) {
                        self.on_group_watch(group, now, fx);
                    }
                }
                TimerKind::LeftInTransfer => self.bring_what_was_left(now, fx),
                _ => self.on_session_timer(id, kind, now, fx),
            }
            self.end_command(now, fx);
        }
        if now >= self.sweep_at {
            self.sweep_at = now + SWEEP_EVERY;
            let journal = self.env.limits().journal;
            self.last_values.expire(now, SWEEP_MAX, |address| {
                if journal {
                    self.journal
                        .persist(&Record::Cleared { address }, Safety::Lazy);
                }
            });
            self.kept_values.expire(now, SWEEP_MAX, |_| {});
            for id in self.sessions.sweep_next(SWEEP_SESSIONS_MAX) {
                self.expire_waiting(id, now);
            }
        }
    }

    fn on_session_timer<E: Effects>(
        &mut self,
        id: SessionId,
        kind: TimerKind,
        now: Time,
        fx: &mut E,
    ) {
        let Some(session) = self.sessions.get(id) else {
            return;
        };
        match kind {
            TimerKind::Will if session.will_due <= now => self.publish_will(id, now, fx),
            TimerKind::SessionExpiry if session.link.is_none() && session.expires_at <= now => {
                self.books.session_expired();
                self.end_session(id, now, fx);
            }
            TimerKind::GroupSettle => self.on_group_settle_timeout(id, now, fx),
            TimerKind::GroupTrial => self.on_trial_due(id, now, fx),
            TimerKind::GroupUnsent => self.return_unsent(id, now, fx),
            _ => {}
        }
    }

    /// Whether [`Kernel::work`] has something to do.
    pub fn has_work(&self) -> bool {
        self.sessions.has_work()
            || self.agenda.has_work()
            || !self.queues_ended.is_empty()
            || !self.lists_here.is_empty()
            || !self.recalls.is_empty()
            || self.watches.recheck
            || self.remote.seats.has_news()
    }

    /// Goes on with long tasks that were put off so that one turn stays short.
    pub fn work<E: Effects>(&mut self, now: Time, fx: &mut E) {
        for id in self.sessions.take_thrown_out() {
            self.after_overflow(id, now, fx);
        }
        for id in self.sessions.take_scanning() {
            self.run_scans(id, now, fx);
        }
        self.agenda.resume();
        self.end_command(now, fx);
        self.clear_ended();
        let lists = self.lists_here.len().min(LISTS_PER_TURN);
        for question in self.lists_here.drain(..lists).collect::<Vec<u32>>() {
            self.go_on_with_list(question, now, fx);
        }
        self.work_on_recalls(now, fx);
        self.end_command(now, fx);
        if self.watches.recheck {
            self.recheck_watches(fx);
        }
        if self.remote.seats.has_news() {
            self.tell_owners();
        }
    }
}
