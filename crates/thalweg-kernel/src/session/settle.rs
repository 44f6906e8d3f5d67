//! A receiver says what became of a delivery, and room is made for the next.

use crate::Kernel;
use crate::books::Delta;
use crate::effects::{Effects, Holder, Safety};
use crate::entry::Entry;
use crate::ids::{GroupId, LinkId, SessionId, Tag};
use crate::ledger::DropReason;
use crate::limits::Limits;
use crate::queue::Dead;
use crate::session::{Received, SlotState};
use crate::verdict::Verdict;
use thalweg_balance::Step;
use thalweg_model::{DeathReason, Message, Reliability, Time};
use thalweg_records::Record;

/// Whether what a receiver said made sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    Known,
    /// There is no such delivery, or it is in another state.
    Unknown,
    /// It did, and covers so many that some are left: repeat it before any other command of the same link.
    InPart,
}

impl Kernel {
    /// Settles a delivery and sends what can follow it. What came through a subscription cannot be given back: that is
    /// [`Settled::Unknown`], and an exactly-once delivery is [received](Kernel::receive) before it is accepted.
    pub fn settle<E: Effects>(
        &mut self,
        id: SessionId,
        tag: Tag,
        verdict: Verdict,
        now: Time,
        fx: &mut E,
    ) -> Settled {
        let Some(session) = self.sessions.get_mut(id) else {
            return Settled::Unknown;
        };
        if session.link().is_none() {
            return Settled::Unknown;
        }
        let may_settle = |state: &SlotState| may_settle(state, verdict);
        let Some(slot) = session.window.remove_if(tag, may_settle) else {
            return Settled::Unknown;
        };
        let repeats = session.window.has_repeats();
        match slot.state {
            SlotState::ExpectSettle(entry) => {
                if entry.group().is_some() {
                    session.made_progress(slot.sent_at, now);
                }
                self.book_settled(id, &entry);
                let mut stays = false;
                if let Some(group) = entry.group() {
                    if verdict == Verdict::Reject {
                        stays = self.group_copy_refused(id, group, &entry, now);
                    }
                    self.group_copy_done(id, group, tag, &entry.message, now);
                }
                if !stays {
                    self.persist_settled(id, &entry, tag);
                }
            }
            SlotState::ExpectReleased { durable, of_group } => {
                let queue = session.uid();
                if durable {
                    self.journal
                        .persist(&Record::Settled { queue, tag }, Safety::Lazy);
                }
                if let Some((group, message)) = of_group {
                    self.group_copy_done(id, group, tag, &message, now);
                }
            }
        }
        if repeats {
            self.repeat(id, now, fx);
        }
        self.pump(id, now, fx);
        self.end_command(now, fx);
        Settled::Known
    }

    /// A receiver has an exactly-once delivery; `fx` confirms that it will not be repeated, again for each repetition.
    /// The receiver accepts the delivery after that confirmation.
    pub fn receive<E: Effects>(
        &mut self,
        id: SessionId,
        tag: Tag,
        now: Time,
        fx: &mut E,
    ) -> Settled {
        let Some(session) = self.sessions.get_mut(id) else {
            return Settled::Unknown;
        };
        let Some(link) = session.link() else {
            return Settled::Unknown;
        };
        let (queue, is_durable) = (session.uid(), session.is_durable());
        let durable = |entry: &Entry| is_durable && entry.serial != 0 && !entry.of_group;
        let entry = match session.window.receive(tag, durable) {
            Received::Unknown => return Settled::Unknown,
            Received::Again => {
                fx.release(link, tag);
                return Settled::Known;
            }
            Received::Now(entry) => entry,
        };
        let group = entry.group();
        if durable(&entry) {
            let safety = self.session_safety(id);
            self.journal
                .persist(&Record::Received { queue, tag }, safety);
            fx.hold(link, self.journal.awaited());
            if group.is_some() {
                self.journal.tell_when_left(id, tag);
            }
        } else if entry.of_group {
            self.persist_of_group_removed(&entry);
        }
        self.book_settled(id, &entry);
        fx.release(link, tag);
        if let Some(group) = group
            && self.group_copy_stepped(group, id, tag, Step::Recorded, now)
        {
            self.pump_groups(id, now, fx);
            self.end_command(now, fx);
        }
        Settled::Known
    }

    fn book_settled(&mut self, id: SessionId, entry: &Entry) {
        self.books.settled(Delta::copy(entry.message.bytes()));
        self.book_had(id, &entry.message);
    }

    /// A member of a group is done with a copy. Receivers of exactly-once messages may begin to work only when they
    /// know that it will not be repeated, so the copy counts as done at their second answer.
    fn group_copy_done(
        &mut self,
        id: SessionId,
        group: GroupId,
        tag: Tag,
        message: &Message,
        now: Time,
    ) {
        self.end_trial(id);
        self.group_copy_settled(id, group, tag, message, now);
    }

    /// A member of a group rejects a message for good. Returns whether its record stays until another shard has it;
    /// otherwise it is removed in the batch in which its dead letter is persisted.
    #[cold]
    fn group_copy_refused(
        &mut self,
        id: SessionId,
        group: GroupId,
        entry: &Entry,
        now: Time,
    ) -> bool {
        let is_elsewhere = self.is_of_queue_elsewhere(group);
        if is_elsewhere {
            self.bring_dead_home(id, group, entry);
        } else {
            let dead = Dead::new(entry.message.clone(), DeathReason::Rejected);
            self.note_dead_letter_of_group(group, dead, now);
        }
        is_elsewhere
    }

    /// What was held of a delivery has left: the message, or its release.
    pub(crate) fn delivery_left(&mut self, id: SessionId, tag: Tag, now: Time) {
        let Some(slot) = self
            .sessions
            .get(id)
            .and_then(|session| session.window.get(tag))
        else {
            return;
        };
        let (group, step) = match &slot.state {
            SlotState::ExpectSettle(entry) => match entry.group() {
                Some(group) => (group, Step::Left),
                None => return,
            },
            SlotState::ExpectReleased {
                of_group: Some((group, _)),
                ..
            } => (*group, Step::Released),
            SlotState::ExpectReleased { of_group: None, .. } => return,
        };
        self.group_copy_stepped(group, id, tag, step, now);
    }

    /// The link's output has drained below its low-water mark.
    pub fn link_writable<E: Effects>(
        &mut self,
        id: SessionId,
        link: LinkId,
        now: Time,
        fx: &mut E,
    ) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        if session.link() == Some(link) && session.connection.is_congested() {
            session.connection.set_congested(false);
            self.output_changed(id);
            self.pump(id, now, fx);
            self.end_command(now, fx);
        }
    }

    /// Messages with priorities are for a session: what its link's output and socket do not take at once waits here, where the
    /// highest goes first.
    pub(crate) fn prioritize<E: Effects>(&mut self, id: SessionId, fx: &mut E) {
        let session = self.sessions.get_mut(id);
        if let Some(link) = session.and_then(|session| session.connection.prioritize()) {
            fx.prioritize(link);
        }
    }

    /// As [`Kernel::set_limits`]; what is ahead of topics that have priorities by other policies is kept short from now on.
    pub fn change_limits<E: Effects>(&mut self, limits: Limits, fx: &mut E) {
        let has_policies = self.env.limits().policies == limits.policies;
        self.set_limits(limits);
        if has_policies {
            return;
        }
        let limits = self.env.limits();
        let found = self
            .sessions
            .iter()
            .filter(|(_, session)| session.link().is_some() && session.is_prioritized_by(limits));
        let ids: Vec<SessionId> = found.map(|(id, _)| id).collect();
        for id in ids {
            self.prioritize(id, fx);
        }
    }

    /// The link takes nothing more for now, however little waits in its output.
    pub fn link_blocked(&mut self, id: SessionId, link: LinkId) {
        if let Some(session) = self.sessions.get_mut(id)
            && session.link() == Some(link)
        {
            session.connection.congest();
            self.output_changed(id);
        }
    }

    /// Sends what waits for a session as far as credit and output allow: its own queue, then its groups', then last
    /// values it asked for.
    pub(crate) fn pump<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        loop {
            let Some(session) = self.sessions.get_mut(id) else {
                return;
            };
            if session.link().is_none() || session.connection.is_congested() {
                return;
            }
            let has_credit = session.has_credit();
            let due = session.backlog.due(now);
            match session.backlog.next(due) {
                None if !session.backlog.is_on_disk() => break,
                None => {
                    // What is fetched comes with `on_fetched`.
                    if !self.refill(id)
                        && self
                            .sessions
                            .get(id)
                            .is_some_and(|session| session.backlog.is_on_disk())
                    {
                        return;
                    }
                    continue;
                }
                Some(entry) if entry.group().is_some() => {
                    // It did not fit before; others may have it, too.
                    self.return_unsent(id, now, fx);
                    continue;
                }
                Some(entry) if entry.reliability > Reliability::AtMostOnce && !has_credit => return,
                Some(entry)
                    if entry.message.expires() <= now
                        && !self.agenda.may_expire(Holder::Session(id)) =>
                {
                    return;
                }
                Some(_) => {}
            }
            let Some(entry) = session.backlog.pop_next(due) else {
                break;
            };
            let bytes = entry.message.bytes();
            self.books.left(Delta::copy(bytes));
            if entry.message.expires() <= now {
                self.book_expired(Some(id), entry.message.address());
                self.persist_removed(id, &entry);
                continue;
            }
            if !session.may_have(&entry.message) {
                self.book_drop(Some(id), entry.message.address(), DropReason::AccessDenied);
                self.persist_removed(id, &entry);
                continue;
            }
            if session.backlog.is_on_disk() {
                self.refill(id);
            }
            let price = match self.env.rates_subscribers() {
                false => None,
                true => {
                    let said = (&entry.message, entry.message.address());
                    self.price_of(id, said, due.is_some(), now)
                }
            };
            if let Some(rest) = price.as_ref().and_then(|price| price.rest) {
                if self.hold_back(id, rest, entry, due.is_some(), now) {
                    continue;
                }
                return self.pump_groups(id, now, fx);
            }
            let (serial, reliability, of_group) = (entry.serial, entry.reliability, entry.of_group);
            let put = self.send_entry(id, entry, now, fx);
            if !of_group {
                self.persist_put(id, serial, reliability, put);
            }
            if let Some(price) = price {
                self.pay(id, &price, put, now);
            }
        }
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        if !session.backlog.holds_back() {
            session.has_judged();
        }
        session.backlog.shrink();
        if !session.membership.groups().is_empty() {
            self.pump_groups(id, now, fx);
        }
        if self
            .sessions
            .get(id)
            .is_some_and(|session| session.subscriptions.has_scans() || session.lines.is_some())
        {
            self.pump_rest(id, now, fx);
        }
    }

    /// What few sessions have: last values to come, lines.
    #[inline(never)]
    fn pump_rest<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        let session = self.sessions.get(id);
        if session.is_some_and(|session| session.subscriptions.has_scans()) {
            self.run_scans(id, now, fx);
        }
        let session = self.sessions.get(id);
        if session.is_some_and(|session| session.lines.is_some()) {
            self.pump_lines(id, now, fx);
        }
    }

    /// Drops what has expired in a session's queue, as far as this call may; for queues that are not read. What is on
    /// disk is looked at when it is fetched.
    pub(crate) fn expire_waiting(&mut self, id: SessionId, now: Time) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let before = session.backlog.bytes();
        let is_over = |entry: &Entry| entry.message.expires() <= now;
        let may_expire = || self.agenda.may_expire(Holder::Session(id));
        let expired = session.backlog.extract_while(is_over, may_expire);
        let bytes = before - session.backlog.bytes();
        self.books.left(Delta::copies(expired.len(), bytes));
        for entry in expired {
            self.book_expired(Some(id), entry.message.address());
            self.persist_removed(id, &entry);
        }
    }
}

/// Whether a verdict ends what is in such a state.
fn may_settle(state: &SlotState, verdict: Verdict) -> bool {
    match (state, verdict) {
        (_, Verdict::Requeue) => false,
        (_, Verdict::Reject) | (SlotState::ExpectReleased { .. }, Verdict::Accept) => true,
        (SlotState::ExpectSettle(entry), Verdict::Accept) => {
            entry.reliability == Reliability::AtLeastOnce
        }
    }
}
