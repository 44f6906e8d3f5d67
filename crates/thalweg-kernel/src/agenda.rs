//! What must happen after the command that brought it about, or later: dead letters go their way, queues give to groups,
//! timers fire, and long tasks go on.
//!
//! A flow that brings something about for another message, or for a queue that is in the middle of something, writes it
//! here instead of doing it. The command does it at its end ([`Kernel::drain_agenda`]): two messages never mix in the
//! journal, and no flow comes back to itself.

use crate::Kernel;
use crate::effects::{Effects, Holder};
use crate::ids::{GroupId, QueueId};
use crate::kernel::Map;
use crate::queue::GivenUp;
use crate::timers::{TimerKey, Timers};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use thalweg_model::{Span, Time};

/// What waits for the end of a command, for [`Kernel::work`] or for its time.
#[derive(Default)]
pub(crate) struct Agenda {
    /// What queues did not take during this command.
    dead_letters: VecDeque<GivenUp>,
    /// What queues gave up: it stands in the journal until it has gone its way, so it can wait.
    dead_letters_kept: Waiting,
    /// Queues and groups that have something for members since this command began.
    to_pump: Vec<Holder>,
    /// There are so many kept dead letters that only [`Kernel::work`] goes on with them.
    puts_burial_off: bool,
    /// The journal does not keep up: what can wait does.
    journal_behind: bool,
    /// Something is to be done at the end of the command.
    is_due: bool,
    timers: Timers,
    /// When expired last values and copies are looked for next.
    sweep_at: Time,
    /// Lists of last values that go on with values of this shard, by question.
    lists: Vec<u32>,
    expiring: Expiring,
}

/// Expired messages of sessions and groups that one call gives up.
const EXPIRED_PER_CALL: usize = 1024;

/// Sessions and groups that had more expired messages than one call gives up.
#[derive(Default)]
struct Expiring {
    holders: BTreeSet<Holder>,
    /// The last of them that [`Kernel::work`] has served: the one behind it is next.
    served: Option<Holder>,
    /// Messages that this call has given up.
    given_up: usize,
    /// [`Kernel::on_timeout`] or [`Kernel::work`] is running: one call, in which several commands end.
    is_in_turn: bool,
}

/// Dead letters that can wait, in their order.
#[derive(Default)]
struct Waiting {
    all: VecDeque<GivenUp>,
    bytes: usize,
    /// How many stand in the entries of each queue in the journal.
    by_queue: Map<u64, usize>,
}

impl Waiting {
    fn push(&mut self, given_up: GivenUp) {
        self.bytes += given_up.bytes();
        match given_up.stands_in() {
            0 => {}
            queue => *self.by_queue.entry(queue).or_default() += 1,
        }
        self.all.push_back(given_up);
    }

    fn pop(&mut self) -> Option<GivenUp> {
        let given_up = self.all.pop_front()?;
        self.bytes -= given_up.bytes();
        let queue = given_up.stands_in();
        if let Some(count) = self.by_queue.get_mut(&queue) {
            *count -= 1;
            if *count == 0 {
                self.by_queue.remove(&queue);
            }
        }
        Some(given_up)
    }

    /// Takes those that stand in the entries of a queue.
    fn take_of(&mut self, queue: u64) -> VecDeque<GivenUp> {
        if self.by_queue.remove(&queue).is_none() {
            return VecDeque::new();
        }
        let all = std::mem::take(&mut self.all);
        let (taken, others) = all.into_iter().partition(|it| it.stands_in() == queue);
        self.all = others;
        self.bytes = self.all.iter().map(GivenUp::bytes).sum();
        taken
    }
}

/// The next thing to do.
enum Task {
    Bury(GivenUp),
    BuryKept(GivenUp),
    Pump(Holder),
}

/// How many dead letters one command still buries of those that can wait, and how many bytes.
struct Burials {
    count: usize,
    bytes: usize,
}

impl Burials {
    const ALL: Burials = Burials {
        count: 1024,
        bytes: 4 << 20,
    };
    const NONE: Burials = Burials { count: 0, bytes: 0 };
}

impl Agenda {
    /// Adds a dead letter whose publisher waits for what becomes of it.
    pub(crate) fn bury(&mut self, given_up: GivenUp) {
        self.dead_letters.push_back(given_up);
        self.is_due = true;
    }

    /// Adds a dead letter that stands in the journal, or nowhere, and can wait.
    pub(crate) fn bury_kept(&mut self, given_up: GivenUp) {
        self.dead_letters_kept.push(given_up);
        self.is_due |= !self.puts_burial_off;
    }

    /// Takes the dead letters that can wait and stand in the entries of this queue: they must not wait any longer.
    pub(crate) fn take_kept_of(&mut self, queue: u64) -> VecDeque<GivenUp> {
        self.dead_letters_kept.take_of(queue)
    }

    /// Whether the journal's entries of this queue may end now: none of the dead letters that can wait stands there, or
    /// all that wait are no more than one command buries.
    pub(crate) fn can_end(&self, queue: u64) -> bool {
        let Waiting {
            all,
            bytes,
            by_queue,
        } = &self.dead_letters_kept;
        !by_queue.contains_key(&queue)
            || all.len() <= Burials::ALL.count && *bytes <= Burials::ALL.bytes
    }

    /// Bytes of memory of the dead letters that can wait.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.dead_letters_kept.bytes
    }

    /// Adds a queue that has messages for its consumers.
    pub(crate) fn pump(&mut self, queue: QueueId) {
        self.pump_holder(Holder::Queue(queue));
    }

    /// The same of a group.
    pub(crate) fn pump_group(&mut self, group: GroupId) {
        self.pump_holder(Holder::Group(group));
    }

    fn pump_holder(&mut self, holder: Holder) {
        self.to_pump.push(holder);
        self.is_due = true;
    }

    /// Whether there is something to do at the end of this command.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.is_due
    }

    /// Sets a timer; it is never cancelled, and means nothing when what it is for has changed.
    pub(crate) fn set_timer(&mut self, at: Time, key: TimerKey) {
        self.timers.set(at, key);
    }

    /// Sets a timer that fires when timers are looked at next, though not in this call.
    pub(crate) fn set_timer_soon(&mut self, now: Time, key: TimerKey) {
        self.timers.set(now + Span::from_nanos(1), key);
    }

    /// The time of the next timer; [`Time::NEVER`] if there is none.
    pub(crate) fn next_timer(&self) -> Time {
        self.timers.next()
    }

    /// Takes the next timer if it is due.
    pub(crate) fn timer_due(&mut self, now: Time) -> Option<TimerKey> {
        self.timers.due(now)
    }

    /// When the next sweep is due.
    pub(crate) fn sweep_at(&self) -> Time {
        self.sweep_at
    }

    /// Whether a sweep is due; the next one is then `every` later.
    pub(crate) fn begin_sweep(&mut self, now: Time, every: Span) -> bool {
        let is_due = now >= self.sweep_at;
        if is_due {
            self.sweep_at = now + every;
        }
        is_due
    }

    /// Puts off the rest of a list of last values.
    pub(crate) fn put_off_list(&mut self, question: u32) {
        self.lists.push(question);
    }

    /// Takes up to `max` lists that were put off, the oldest first.
    pub(crate) fn take_lists(&mut self, max: usize) -> Vec<u32> {
        let count = self.lists.len().min(max);
        self.lists.drain(..count).collect()
    }

    /// Whether this call may give up another expired message, of this holder. If not, [`Kernel::work`] goes on with it.
    pub(crate) fn may_expire(&mut self, holder: Holder) -> bool {
        if !self.may_expire_more() {
            self.expiring.holders.insert(holder);
            return false;
        }
        self.expiring.given_up += 1;
        // The next command begins to count anew.
        self.is_due = true;
        true
    }

    /// Whether this call may give up more expired messages.
    pub(crate) fn may_expire_more(&self) -> bool {
        self.expiring.given_up < EXPIRED_PER_CALL
    }

    /// A call begins or ends in which several commands end.
    pub(crate) fn set_in_turn(&mut self, is_in_turn: bool) {
        self.expiring.is_in_turn = is_in_turn;
        self.expiring.given_up = 0;
    }

    /// The next session or group that goes on with its expired messages, while this call may give up any.
    pub(crate) fn next_expiring(&mut self) -> Option<Holder> {
        if !self.may_expire_more() {
            return None;
        }
        let Expiring {
            holders, served, ..
        } = &mut self.expiring;
        let behind = served.and_then(|it| {
            let behind = (Bound::Excluded(it), Bound::Unbounded);
            holders.range(behind).next().copied()
        });
        let next = behind.or_else(|| holders.first().copied())?;
        holders.remove(&next);
        *served = Some(next);
        Some(next)
    }

    /// A command has ended.
    fn end_expiry(&mut self) {
        if !self.expiring.is_in_turn {
            self.expiring.given_up = 0;
        }
    }

    /// Whether [`Kernel::work`] has something to do that is on the agenda.
    pub(crate) fn has_work(&self) -> bool {
        self.has_tasks() || !self.lists.is_empty() || !self.expiring.holders.is_empty()
    }

    /// Whether there is something to do that may go on now.
    fn has_tasks(&self) -> bool {
        !self.dead_letters.is_empty()
            || !self.to_pump.is_empty()
            || (!self.dead_letters_kept.all.is_empty() && !self.journal_behind)
    }

    /// Whether a dead letter is left whose publisher waits, or that stands nowhere else.
    pub(crate) fn has_dead_letters(&self) -> bool {
        !self.dead_letters.is_empty()
    }

    /// Dead letters that can wait.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &GivenUp> {
        self.dead_letters_kept.all.iter()
    }

    /// Whether the journal keeps up.
    pub(crate) fn set_journal_behind(&mut self, behind: bool) {
        self.journal_behind = behind;
    }

    /// What was put off goes on, unless the journal is behind.
    pub(crate) fn resume(&mut self) {
        self.puts_burial_off = self.journal_behind && !self.dead_letters_kept.all.is_empty();
        self.is_due = self.has_tasks();
    }

    fn burials(&self) -> Burials {
        match self.puts_burial_off || self.journal_behind {
            true => Burials::NONE,
            false => Burials::ALL,
        }
    }

    /// What is to be done next; dead letters that can wait come last, as long as there are burials left.
    fn next(&mut self, left: &mut Burials) -> Option<Task> {
        if let Some(given_up) = self.dead_letters.pop_front() {
            return Some(Task::Bury(given_up));
        }
        if let Some(holder) = self.to_pump.pop() {
            return Some(Task::Pump(holder));
        }
        self.is_due = false;
        self.next_kept(left).map(Task::BuryKept)
    }

    /// The next dead letter that can wait, as long as there are burials left.
    fn next_kept(&mut self, left: &mut Burials) -> Option<GivenUp> {
        let may_bury = left.count > 0 && left.bytes > 0;
        self.puts_burial_off = !may_bury && !self.dead_letters_kept.all.is_empty();
        if !may_bury {
            return None;
        }
        let given_up = self.dead_letters_kept.pop()?;
        *left = Burials {
            count: left.count - 1,
            bytes: left.bytes.saturating_sub(given_up.bytes()),
        };
        Some(given_up)
    }
}

impl Kernel {
    /// Ends a command: does what it has brought about.
    #[inline]
    pub(crate) fn end_command<E: Effects>(&mut self, now: Time, fx: &mut E) {
        if self.agenda.is_due() {
            self.drain_agenda(now, fx);
        }
    }

    /// Buries so many of the dead letters that can wait as one command may, although the journal may be behind: something
    /// waits for them.
    pub(crate) fn bury_some<E: Effects>(&mut self, now: Time, fx: &mut E) {
        let mut left = Burials::ALL;
        while let Some(given_up) = self.agenda.next_kept(&mut left) {
            self.bury_kept(given_up, now, fx);
        }
    }

    /// Does what is on the agenda, and what that puts there.
    #[cold]
    pub(crate) fn drain_agenda<E: Effects>(&mut self, now: Time, fx: &mut E) {
        let mut left = self.agenda.burials();
        while let Some(task) = self.agenda.next(&mut left) {
            match task {
                Task::Bury(given_up) => self.bury(given_up, now, fx),
                Task::BuryKept(given_up) => self.bury_kept(given_up, now, fx),
                Task::Pump(Holder::Queue(queue)) => {
                    self.serve_marked(queue, now, fx);
                    self.pump_queue(queue, now, fx);
                }
                Task::Pump(Holder::Group(group)) => self.hand_over_waiting(group, now, fx),
                Task::Pump(Holder::Session(_)) => {}
            }
        }
        self.agenda.end_expiry();
    }

    /// Goes on with sessions and groups that had more expired messages than one call gives up.
    pub(crate) fn go_on_expiring<E: Effects>(&mut self, now: Time, fx: &mut E) {
        while let Some(holder) = self.agenda.next_expiring() {
            match holder {
                Holder::Group(id) => {
                    self.expire_heads(id, now);
                    // Live ones behind them have waited.
                    self.hand_over_waiting(id, now, fx);
                }
                Holder::Session(id) => {
                    self.expire_waiting(id, now);
                    self.pump(id, now, fx);
                }
                Holder::Queue(_) => {}
            }
            self.end_command(now, fx);
        }
    }
}
