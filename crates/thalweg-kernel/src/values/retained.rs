//! Last values: kept by the shard that is their address's home, delivered to new subscribers.
//!
//! Each address has one home shard, so that two publishers on two shards agree on which value is the last. A scan asks
//! the shards one after the other and goes on only while the subscriber has credit: `#` over millions of values neither
//! truncates nor floods.

use crate::effects::{Content, Effects, Safety, deliver_apart};
use crate::entry::{Entry, SubscriptionIds, Via};
use crate::ids::{SessionId, ShardId};
use crate::journal::durable::{AsValue, Pending};
use crate::publish::cause::Cause;
use crate::publish::pipeline::Draft;
use crate::publish::subject::Subject;
use crate::remote::shards::ShardMessage;
use crate::remote::transfer::From;
use crate::values::history::retracted_by;
use crate::values::last_value::ScanCursor;
use crate::{Kernel, LastValueWish, Wish, home};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use thalweg_filter::Predicate;
use thalweg_model::filter::kind_of;
use thalweg_model::{FilterKind, Message, Reliability, RetainOp, Time};
use thalweg_records::KeptAs;

/// Values looked at in one go.
const STEPS_MAX: usize = 512;
/// Values taken out in one go.
const TAKE_MAX: usize = 64;

/// A subscriber's way through the last values that match its filter.
#[derive(Debug)]
pub(crate) struct Scan {
    filter: Box<str>,
    reliability: Reliability,
    id: u32,
    /// What a value must say.
    predicate: Option<Arc<Predicate>>,
    /// With what addresses keep beside them.
    wants_all: bool,
    /// Without what the subscriber has published itself.
    no_local: bool,
    /// Found and not yet sent.
    ready: VecDeque<Message>,
    /// The shards still to ask; the last one is being asked.
    shards: Vec<ShardId>,
    cursor: ScanCursor,
    /// Another shard has been asked and has not answered.
    asked: bool,
    /// Tells this scan's answers from those of one that ended with its link.
    serial: u32,
}

impl Scan {
    pub(crate) fn filter(&self) -> &str {
        &self.filter
    }

    /// Whether an answer with this serial is for this one.
    pub(crate) fn is(&self, serial: u32) -> bool {
        self.serial == serial
    }
}

/// What became of a retain operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retained {
    /// Here, and the message is to be written as that.
    Here(Option<KeptAs>),
    /// Here, and all is written.
    Done,
    /// Another shard, the address's home, applies it.
    Elsewhere,
    /// There is no room, or last values are not kept.
    Refused,
}

/// Where a scan stands after some work.
enum Progress {
    Done,
    /// The subscriber cannot take more now.
    Blocked,
    /// Another shard will answer.
    Asked,
    /// There is more to do than fits into one turn.
    Later,
}

impl Kernel {
    /// Applies the retain operation of a publish.
    pub(crate) fn retain(
        &mut self,
        cause: &Cause,
        draft: &Draft<'_>,
        kept: &mut Option<Message>,
        now: Time,
    ) -> Retained {
        if !self.env.limits().retain_enabled {
            return Retained::Refused;
        }
        let owner = home(draft.address, self.env.shards());
        if owner != self.env.shard() {
            let message = self.keep(cause.publisher, draft, kept, now);
            self.send_last_value_home(owner, message, cause);
            return Retained::Elsewhere;
        }
        let message = self.kept(cause.publisher, draft, kept, now);
        self.keep_last_value(message, cause.safety)
    }

    /// Applies the retain operation of a message whose home this shard is.
    pub(crate) fn keep_last_value(&mut self, message: &Message, safety: Safety) -> Retained {
        match message.retain() {
            RetainOp::None => Retained::Done,
            RetainOp::Clear => match retracted_by(message, self.env.neutral()) {
                Some(name) => {
                    self.forget_named(message, &name, safety);
                    Retained::Done
                }
                None => {
                    self.values.clear(message.address());
                    Retained::Here(None)
                }
            },
            RetainOp::Set => {
                let known = || self.values.retained(message.address(), Time::ZERO);
                if self.env.drops_waiting()
                    && known().is_none_or(|old| old.bytes() < message.bytes())
                {
                    return Retained::Refused;
                }
                let capped = self.capped(message);
                let message = capped.as_ref().unwrap_or(message);
                let before = self.values_before(message);
                if self.values.retain(message) {
                    let kept = before.map(|before| self.keep_beside(message, before, safety));
                    return Retained::Here(kept);
                }
                if self.values.is_kept(message.address(), self.env.limits()) {
                    self.remember_here(message.clone());
                }
                Retained::Refused
            }
        }
    }

    /// The same message with a shorter life, if it would be retained for longer than it may be.
    pub(crate) fn capped(&self, message: &Message) -> Option<Message> {
        let cap = message.ingress() + self.env.limits().retained_expiry_max;
        (message.expires() > cap).then(|| expiring(message, cap))
    }

    pub(crate) fn scan_for(
        &mut self,
        wish: &Wish<'_>,
        reliability: Reliability,
        predicate: Option<Arc<Predicate>>,
    ) -> Scan {
        let (filter, id) = (wish.filter, wish.id);
        let shards = if kind_of(filter) != FilterKind::Exact {
            (0..self.env.shards()).map(ShardId).collect()
        } else {
            vec![home(filter, self.env.shards())]
        };
        Scan {
            filter: filter.into(),
            reliability,
            id,
            predicate,
            wants_all: wish.last_values == LastValueWish::AllKept,
            no_local: wish.no_local && wish.last_values != LastValueWish::AllKept,
            ready: VecDeque::new(),
            shards,
            cursor: ScanCursor::default(),
            asked: false,
            serial: self.remote.next_question(),
        }
    }

    /// Goes on with a session's scans as far as it can take what they find.
    pub(crate) fn run_scans<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let mut scans = session.subscriptions.take_scans();
        while let Some(scan) = scans.first_mut() {
            match self.run_scan(id, scan, now, fx) {
                Progress::Done => {
                    scans.remove(0);
                }
                Progress::Blocked | Progress::Asked => break,
                Progress::Later => {
                    self.sessions.scan_later(id);
                    break;
                }
            }
        }
        if let Some(session) = self.sessions.get_mut(id) {
            // Sending cannot subscribe, so nothing was added meanwhile.
            session.subscriptions.set_scans(scans);
        }
    }

    fn run_scan<E: Effects>(
        &mut self,
        id: SessionId,
        scan: &mut Scan,
        now: Time,
        fx: &mut E,
    ) -> Progress {
        let mut budget = 4;
        let own = self.sessions.get(id).filter(|_| scan.no_local);
        let own = own.map(|session| session.uid());
        loop {
            while let Some(message) = scan.ready.pop_front() {
                if self.is_outdated(&message, scan.wants_all, now)
                    || own == Some(message.publisher())
                {
                    continue;
                }
                let is_wanted = |it: &Arc<Predicate>| {
                    it.matches(&Subject::of_message(&message, self.env.neutral()))
                };
                if !scan.predicate.as_ref().is_none_or(is_wanted) {
                    continue;
                }
                if let Err(message) =
                    self.send_last_value(id, message, scan.reliability, scan.id, now, fx)
                {
                    scan.ready.push_front(message);
                    return Progress::Blocked;
                }
            }
            let Some(&shard) = scan.shards.last() else {
                return Progress::Done;
            };
            if shard != self.env.shard() {
                if !scan.asked {
                    scan.asked = true;
                    let (filter, cursor) = (scan.filter.clone(), scan.cursor.clone());
                    let wants_all = scan.wants_all;
                    self.remote.send(
                        shard,
                        ShardMessage::Scan {
                            session: id,
                            serial: scan.serial,
                            filter,
                            wants_all,
                            cursor,
                        },
                    );
                }
                return Progress::Asked;
            }
            if budget == 0 {
                return Progress::Later;
            }
            budget -= 1;
            let Scan {
                filter,
                cursor,
                ready,
                wants_all,
                ..
            } = scan;
            let is_done = match wants_all {
                true => self.look_for_kept(filter, cursor, now, ready),
                false => self.look(filter, cursor, now, ready),
            };
            if is_done {
                scan.shards.pop();
                scan.cursor = ScanCursor::default();
            }
        }
    }

    /// Whether a value of this shard has been replaced since it was found. The subscriber has got the newer one live, and
    /// must not get the older one after it. (A value of another shard may be outdated by the time it takes to come.) Of several that
    /// an address keeps, those are that it has dropped.
    fn is_outdated(&self, message: &Message, wants_all: bool, now: Time) -> bool {
        let address = message.address();
        let is_it = |value: &Message| value.is_same(message);
        home(address, self.env.shards()) == self.env.shard()
            && !self.values.retained(address, now).is_some_and(is_it)
            && !(wants_all && self.values.history.of(address).any(is_it))
    }

    /// Takes some matching values of this shard; true when there are no more.
    pub(crate) fn look(
        &self,
        filter: &str,
        cursor: &mut ScanCursor,
        now: Time,
        found: &mut VecDeque<Message>,
    ) -> bool {
        self.values
            .scan_retained(filter, cursor, STEPS_MAX, now, |message| {
                found.push_back(message.clone());
                if found.len() >= TAKE_MAX {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
    }

    /// The same with what each address keeps before its last value, oldest first.
    pub(crate) fn look_for_kept(
        &self,
        filter: &str,
        cursor: &mut ScanCursor,
        now: Time,
        found: &mut VecDeque<Message>,
    ) -> bool {
        let mut last_values = VecDeque::new();
        let is_done = self.look(filter, cursor, now, &mut last_values);
        for last in last_values {
            let kept = self.values.history.of(last.address());
            let is_before = |it: &&Message| it.retain() == RetainOp::Set && !it.is_same(&last);
            found.extend(kept.filter(is_before).cloned());
            found.push_back(last);
        }
        is_done
    }

    /// Gives the message back if the session cannot take it now.
    fn send_last_value<E: Effects>(
        &mut self,
        id: SessionId,
        message: Message,
        reliability: Reliability,
        subscription: u32,
        now: Time,
        fx: &mut E,
    ) -> Result<(), Message> {
        let Some(session) = self.sessions.get(id) else {
            return Ok(());
        };
        let Some(link) = session.link() else {
            return Ok(());
        };
        if message.expires() <= now || !session.access().may_receive(&message) {
            return Ok(());
        }
        let limits = self.env.limits();
        let reliability = reliability.min(message.reliability());
        let reliability = limits.reliability_at(message.address(), reliability);
        let ready = if reliability == Reliability::AtMostOnce {
            !session.connection.is_congested()
        } else {
            session.can_take()
        };
        if !ready {
            return Err(message);
        }
        self.book_routed(Some(id), message.address());
        // An exactly-once delivery is written down: its receiver will tell a repetition by its tag. Others are not: if
        // the broker ends, so does the scan, and a new subscription brings the value again.
        let exactly_once = reliability == Reliability::ExactlyOnce;
        let serial = if exactly_once { self.serial_for(id) } else { 0 };
        let entry = Entry {
            message,
            via: Via::Own(SubscriptionIds::of(subscription)),
            serial,
            of_group: false,
            reliability,
            retain: true,
            deliveries: 0,
        };
        if reliability == Reliability::AtMostOnce {
            let content = Content::Kept(&entry.message, None);
            let sent = deliver_apart(link, &content, &entry.delivery(0, now), fx);
            if sent == crate::effects::Sent::Full {
                self.unbook_routed(Some(id), entry.message.address());
                if let Some(session) = self.sessions.get_mut(id) {
                    session.connection.congest();
                }
                return Err(entry.message);
            }
            self.book_at_most_once(
                id,
                sent,
                entry.message.address(),
                entry.message.payload().len(),
            );
        } else if serial == 0 {
            self.send_entry(id, entry, now, fx);
        } else {
            let (message, ids) = (entry.message.clone(), entry.via.to_subscription_ids());
            let put = self.send_entry(id, entry, now, fx);
            let Some(queue) = self.sessions.get(id).map(|session| session.uid()) else {
                return Ok(());
            };
            let pending = Pending {
                retain: true,
                subscription_ids: ids,
                ..Pending::new(queue, serial, reliability, 0)
            };
            self.persist_entry(id, &message, pending, put);
        }
        Ok(())
    }

    /// Another shard's answer to a scan.
    pub(crate) fn on_found<E: Effects>(
        &mut self,
        id: SessionId,
        serial: u32,
        messages: Vec<Message>,
        cursor: Option<ScanCursor>,
        now: Time,
        fx: &mut E,
    ) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let Some(scan) = session.subscriptions.scan_mut(serial) else {
            return;
        };
        scan.asked = false;
        scan.ready.extend(messages);
        match cursor {
            Some(cursor) => scan.cursor = cursor,
            None => {
                scan.shards.pop();
                scan.cursor = ScanCursor::default();
            }
        }
        self.run_scans(id, now, fx);
    }

    /// Applies a retain operation that came to another shard.
    pub(crate) fn on_retain(&mut self, message: Message, safety: Safety, from: From) {
        // What the broker says about itself it will say again.
        let is_kept = self.env.limits().journal
            && (message.publisher() != 0 || !message.address().starts_with('$'));
        match self.keep_last_value(&message, safety) {
            Retained::Here(kept) if is_kept => {
                let is_last = true;
                self.persist_value(&message, AsValue { is_last, kept }, safety);
            }
            Retained::Refused => self.books.retain_refused(),
            _ => {}
        }
        self.took_over(from);
    }
}

fn expiring(message: &Message, at: Time) -> Message {
    Message::new(
        message.address(),
        message.payload(),
        message.reliability(),
        message.retain(),
        at,
        message.ingress(),
        message.publisher(),
        message.properties().cloned().map(Box::new),
    )
}
