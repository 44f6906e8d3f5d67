//! What must happen later.

use crate::Kernel;
use crate::effects::{Effects, Safety};
use crate::ids::{GroupId, QueueId, SessionId};
use crate::session::Session;
use crate::values::read::LISTS_PER_TURN;
use crate::values::recall::STEPS_PER_TURN;
use std::collections::BTreeSet;
use thalweg_model::{Span, Time};

/// What a timer is for, and whose it is. Those of one moment fire in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TimerKey {
    /// The session's will is due.
    Will(SessionId),
    /// The session has had no link for as long as it may.
    SessionExpiry(SessionId),
    /// A session should have settled something that came through a group by now.
    GroupSettle(SessionId),
    /// A session whose receiver was silent may have its first message now.
    GroupTrial(SessionId),
    /// What did not fit into a session's output goes back to its groups.
    GroupUnsent(SessionId),
    /// What was held back for a session's rates may leave.
    HeldBack(SessionId),
    /// The head of a queue has had its time.
    QueueHead(QueueId),
    /// A queue may have been idle for as long as it may.
    QueueIdle(QueueId),
    /// Something that was taken out of a queue by itself should be settled by now.
    TakenSettle,
    /// What waits in a group may have found its member.
    GroupLook(GroupId),
    /// Members of a group may have been silent for too long.
    GroupWatch(GroupId),
    /// A watcher's rate may have room for what waits for it.
    Watch(u32),
    /// What an earlier run left between shards goes on.
    LeftInTransfer,
}

/// Timers in order of time. Setting is cheap and nothing is cancelled: a timer that fires looks whether it still means
/// anything.
#[derive(Default)]
pub(crate) struct Timers(BTreeSet<(Time, TimerKey)>);

impl Timers {
    pub(crate) fn set(&mut self, at: Time, key: TimerKey) {
        self.0.insert((at, key));
    }

    /// The time of the first; [`Time::NEVER`] if there is none.
    pub(crate) fn next(&self) -> Time {
        self.0.first().map_or(Time::NEVER, |(at, _)| *at)
    }

    /// Takes the first one that is due.
    pub(crate) fn due(&mut self, now: Time) -> Option<TimerKey> {
        self.0.first().filter(|(at, _)| *at <= now)?;
        self.0.pop_first().map(|(_, key)| key)
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
        let first = self.agenda.next_timer();
        let has_work = self.sessions.len() > 0
            || self.values.retained_count() + self.values.remembered_count() > 0
            || self.values.history.count() > 0;
        if has_work {
            first.min(self.agenda.sweep_at())
        } else {
            first
        }
    }

    /// Does what is due, or so much of it that other work need not wait long: then [`Kernel::poll_timeout`] is not later
    /// than a moment from now.
    pub fn on_timeout<E: Effects>(&mut self, now: Time, fx: &mut E) {
        let before = self.journal.bytes_written();
        self.agenda.set_in_turn(true);
        for _ in 0..TIMERS_PER_CALL {
            if self.journal.bytes_written() - before > TIMERS_BYTES_MAX
                || !self.agenda.may_expire_more()
            {
                break;
            }
            let Some(key) = self.agenda.timer_due(now) else {
                break;
            };
            self.on_timer(key, now, fx);
            self.end_command(now, fx);
        }
        if self.agenda.may_expire_more() && self.agenda.begin_sweep(now, SWEEP_EVERY) {
            let journal = self.env.limits().journal;
            let left = self.values.expire(now, SWEEP_MAX, |gone| {
                if journal {
                    self.journal.persist(gone, Safety::Lazy);
                }
            });
            for address in left {
                self.let_next_be_last(&address, now);
            }
            for id in self.sessions.sweep_next(SWEEP_SESSIONS_MAX) {
                self.expire_waiting(id, now);
            }
            self.expire_waiting_of_groups(now);
            self.end_command(now, fx);
        }
        self.agenda.set_in_turn(false);
    }

    fn on_timer<E: Effects>(&mut self, key: TimerKey, now: Time, fx: &mut E) {
        match key {
            TimerKey::Will(id) => {
                let session = self.sessions.get(id);
                if session.is_some_and(|it| it.life.will_due() <= now) {
                    self.publish_will(id, now, fx);
                }
            }
            TimerKey::SessionExpiry(id) => {
                let is_over = |it: &Session| it.link().is_none() && it.life.expires_at() <= now;
                if self.sessions.get(id).is_some_and(is_over) {
                    self.books.session_expired();
                    self.end_session(id, now, fx);
                }
            }
            TimerKey::GroupSettle(id) => self.on_group_settle_timeout(id, now, fx),
            TimerKey::GroupTrial(id) => self.on_trial_due(id, now, fx),
            TimerKey::GroupUnsent(id) => self.return_unsent(id, now, fx),
            TimerKey::HeldBack(id) => self.pump(id, now, fx),
            TimerKey::QueueHead(queue) => self.on_queue_head_due(queue, now),
            TimerKey::QueueIdle(queue) => self.on_queue_idle(queue, now, fx),
            TimerKey::TakenSettle => self.on_taken_settle_due(now, fx),
            TimerKey::GroupLook(group) => self.on_group_look(group, now, fx),
            TimerKey::GroupWatch(group) => self.on_group_watch(group, now, fx),
            TimerKey::Watch(watch) => self.tell_watcher_again(watch, fx),
            TimerKey::LeftInTransfer => self.bring_what_was_left(now, fx),
        }
    }

    /// Whether [`Kernel::work`] has something to do.
    pub fn has_work(&self) -> bool {
        self.sessions.has_work()
            || self.agenda.has_work()
            || self.queues.has_work()
            || self.values.watches.needs_recheck()
            || self.remote.seats.has_news()
    }

    /// Goes on with long tasks that were put off so that one turn stays short.
    pub fn work<E: Effects>(&mut self, now: Time, fx: &mut E) {
        self.agenda.set_in_turn(true);
        for id in self.sessions.take_thrown_out() {
            self.after_overflow(id, now, fx);
        }
        for id in self.sessions.take_scanning() {
            self.run_scans(id, now, fx);
        }
        self.agenda.resume();
        self.end_command(now, fx);
        self.go_on_expiring(now, fx);
        self.queues.clear_ended();
        self.sessions.clear_ended();
        for question in self.agenda.take_lists(LISTS_PER_TURN) {
            self.go_on_with_list(question, now, fx);
        }
        self.work_on_recalls(STEPS_PER_TURN, now, fx);
        self.end_command(now, fx);
        if self.values.watches.needs_recheck() {
            self.recheck_watches(fx);
        }
        if self.remote.seats.has_news() {
            self.tell_owners();
        }
        self.agenda.set_in_turn(false);
    }
}
