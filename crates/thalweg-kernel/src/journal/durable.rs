//! What is written down, and when: the kernel's side of the journal.
//!
//! Only sessions that outlive their link, groups that have such a session as a member, and last values are written
//! down. A message is written once, with a reference for each queue it went into; what becomes of the references later
//! takes a few bytes each.

use crate::Kernel;
use crate::effects::{Holder, Safety, Spot};
use crate::entry::{Entry, SubscriptionIds};
use crate::ids::{GroupId, SessionId, Tag};
use crate::publish::pipeline::Draft;
use crate::routes::cached::Route;
use smallvec::SmallVec;
use std::borrow::Cow;
use thalweg_model::{Message, Reliability, RetainOp, Time};
use thalweg_records::{
    BodyRecord, KeptAs, MessageRecord, Record, Reference, SessionRecord, SubscriptionRecord,
    WillRecord,
};

/// A reference to the message being spread, until it is written down.
#[derive(Debug)]
pub(crate) struct Pending {
    pub queue: u64,
    pub serial: u64,
    pub tag: Tag,
    pub reliability: Reliability,
    pub retain: bool,
    /// It has left for a receiver that the journal does not know; found again, it may have been delivered.
    pub handed: bool,
    /// The group it came through, 0 for none.
    pub group: u64,
    pub subscription_ids: SubscriptionIds,
    /// Whose queue keeps it in memory only until it is written.
    pub to_disk: Option<Holder>,
}

impl Pending {
    /// A reference of queue `queue` that waits and that no subscription with an identifier brought.
    pub(crate) fn new(queue: u64, serial: u64, reliability: Reliability, group: u64) -> Self {
        let subscription_ids = SubscriptionIds::None;
        let (tag, retain, handed) = (0, false, false);
        Pending {
            queue,
            serial,
            tag,
            reliability,
            retain,
            handed,
            group,
            subscription_ids,
            to_disk: None,
        }
    }

    /// The same of one that has left.
    #[inline]
    pub(crate) fn that_left(self) -> Self {
        Pending {
            handed: true,
            ..self
        }
    }

    /// As it is written down.
    #[inline]
    fn reference(&self) -> Reference<'_> {
        Reference {
            queue: self.queue,
            serial: self.serial,
            tag: self.tag,
            reliability: self.reliability,
            retain: self.retain,
            redelivered: self.handed,
            group: self.group,
            subscription_ids: Cow::Borrowed(self.subscription_ids.as_slice()),
        }
    }
}

/// The references to one message, and how safe it must be for what was sent of it.
#[derive(Debug, Default)]
pub(crate) struct References {
    pending: Vec<Pending>,
    safety: Safety,
}

impl References {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    pub(crate) fn push(&mut self, pending: Pending) {
        self.pending.push(pending);
    }

    pub(crate) fn demand(&mut self, safety: Safety) {
        self.safety = self.safety.max(safety);
    }
}

/// What became of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// In flight under this tag.
    Sent(Tag),
    Waits,
    /// It waits, in memory only until it is written.
    WaitsForDisk,
    /// Delivered at most once, or dropped: nothing remains to be persisted.
    Done,
}

/// Under which number of which session an exactly-once message is known until it is released.
pub(crate) type Held = (u64, u16);

/// What a message is among the last values of its address, as it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AsValue {
    /// It is the last one now, or it cleared that.
    pub is_last: bool,
    /// Its place, where the address keeps several.
    pub kept: Option<KeptAs>,
}

impl AsValue {
    /// A message that is in queues alone.
    pub(crate) const NONE: AsValue = AsValue {
        is_last: false,
        kept: None,
    };
}

/// What is written of a message.
pub(crate) struct Written<'a> {
    pub draft: &'a Draft<'a>,
    pub publisher: u64,
    pub value: AsValue,
    pub held: Option<Held>,
}

impl Kernel {
    /// A serial for a new entry of a session's queue; 0 if it is not written down.
    #[inline]
    pub(crate) fn serial_for(&mut self, id: SessionId) -> u64 {
        match self.sessions.get(id) {
            Some(session) if session.is_durable() => self.journal.next_serial(),
            _ => 0,
        }
    }

    /// How safe a publish must be before it is acknowledged: by the policy of the matching filters, else of the
    /// listener, else of the broker.
    pub(crate) fn safety_of(&self, publisher: Option<SessionId>, route: &Route) -> Safety {
        route.safety().unwrap_or_else(|| {
            publisher.map_or(self.env.limits().safety, |id| self.session_safety(id))
        })
    }

    /// How safe the broker's answers to a session must be: by its listener, else by the broker's setting.
    pub(crate) fn session_safety(&self, id: SessionId) -> Safety {
        self.sessions
            .get(id)
            .and_then(|session| session.connection.grants().safety)
            .unwrap_or(self.env.limits().safety)
    }

    /// Notes that a copy went into a queue; written down with the message.
    pub(crate) fn refer(&mut self, id: SessionId, pending: Pending, put: Put) {
        let (tag, to_disk) = match put {
            Put::Sent(tag) => {
                if pending.reliability == Reliability::ExactlyOnce {
                    // Its receiver tells a repetition by the tag, whatever the publisher asked for.
                    let safety = self.session_safety(id);
                    self.journal.refer_safely(safety);
                }
                (tag, None)
            }
            Put::Waits => (0, None),
            Put::WaitsForDisk => (0, Some(Holder::Session(id))),
            Put::Done => return,
        };
        self.journal.refer(Pending {
            tag,
            to_disk,
            ..pending
        });
    }

    /// Writes a message down with all that was referred since the last one.
    pub(crate) fn persist_message(&mut self, written: &Written<'_>, safety: Safety, now: Time) {
        let expires = written
            .draft
            .expires_in
            .map_or(Time::NEVER, |span| now + span);
        self.persist_written(written, expires, now, safety);
    }

    /// Writes a kept message down with what was referred to it.
    pub(crate) fn persist_kept(&mut self, message: &Message, safety: Safety) {
        self.persist_value(message, AsValue::NONE, safety);
    }

    /// The same of one that may be a last value.
    pub(crate) fn persist_value(&mut self, message: &Message, value: AsValue, safety: Safety) {
        let draft = Draft::of(message);
        let written = Written {
            draft: &draft,
            publisher: message.publisher(),
            value,
            held: None,
        };
        self.persist_written(&written, message.expires(), message.ingress(), safety);
    }

    /// Writes a kept message down for one entry of a session that was not written down before and now must be.
    pub(crate) fn persist_entry(
        &mut self,
        id: SessionId,
        message: &Message,
        pending: Pending,
        put: Put,
    ) {
        // Another message may be just being spread.
        let others = self.journal.take_references();
        self.refer(id, pending, put);
        if self.journal.has_references() {
            let safety = self.session_safety(id);
            self.persist_kept(message, safety);
        }
        self.journal.set_references(others);
    }

    fn persist_written(
        &mut self,
        written: &Written<'_>,
        expires: Time,
        ingress: Time,
        safety: Safety,
    ) {
        self.journal.will_write(written.draft.payload.len());
        let mut gathered = self.journal.take_references();
        let (draft, safety) = (written.draft, safety.max(gathered.safety));
        let mut write = |references: &[Reference<'_>]| {
            let record = MessageRecord {
                body: BodyRecord {
                    address: draft.address,
                    payload: draft.payload,
                    reliability: draft.reliability,
                    retain: draft.retain,
                    priority: draft.priority,
                    properties: draft.properties.map(Cow::Borrowed),
                },
                expires,
                ingress,
                publisher: written.publisher,
                is_last_value: written.value.is_last,
                kept: written.value.kept,
                held: written.held,
                references: Cow::Borrowed(references),
            };
            self.journal.persist_message(&record, safety)
        };
        let spot = match &gathered.pending[..] {
            // Nearly all.
            [only] => write(&[only.reference()]),
            all => {
                let all: SmallVec<[Reference<'_>; 4]> =
                    all.iter().map(Pending::reference).collect();
                write(&all)
            }
        };
        let mut is_pinned = false;
        for pending in gathered
            .pending
            .iter()
            .filter(|pending| pending.to_disk.is_some())
        {
            if !std::mem::replace(&mut is_pinned, true) {
                self.journal.pin();
            }
            self.found_spot(pending, spot);
        }
        // Its memory is used again.
        gathered.pending.clear();
        gathered.safety = Safety::Lazy;
        self.journal.set_references(gathered);
    }

    fn found_spot(&mut self, pending: &Pending, spot: Spot) {
        match pending.to_disk {
            None => {}
            Some(Holder::Session(id)) => {
                if let Some(session) = self.sessions.get_mut(id) {
                    session.backlog.found_spot(pending.serial, spot);
                }
            }
            Some(holder) => self.found_backlog_spot(holder, pending.serial, spot),
        }
    }

    /// Writes a session down as it is now.
    pub(crate) fn persist_session(&mut self, id: SessionId, safety: Safety) {
        let Some(session) = self.sessions.get(id).filter(|session| session.is_durable()) else {
            return;
        };
        let access = session.access().written();
        let will = session.life.will().map(|will| WillRecord {
            body: BodyRecord {
                address: &will.address,
                payload: &will.payload,
                reliability: will.reliability,
                retain: will.retain,
                priority: 0,
                properties: will.properties.as_deref().map(Cow::Borrowed),
            },
            delay: will.delay,
            due: session.life.will_due(),
            expires_in: will.expires_in,
        });
        let record = Record::Session(SessionRecord {
            queue: session.uid(),
            client: session.client(),
            user: session.user().map(|user| &**user),
            expiry: session.life.expiry(),
            expires_at: session.life.expires_at(),
            in_flight_max: session.connection.in_flight_max(),
            access: &access,
            will,
        });
        self.journal.persist(&record, safety);
    }

    /// Writes down that a session is gone.
    pub(crate) fn persist_session_ended(&mut self, number: u64, safety: Safety) {
        self.journal
            .persist(&Record::SessionEnded { queue: number }, safety);
    }

    /// Writes a subscription down.
    pub(crate) fn persist_subscription(
        &mut self,
        id: SessionId,
        wish: &crate::Wish<'_>,
        reliability: Reliability,
        condition: Option<&thalweg_filter::Predicate>,
    ) {
        let Some(session) = self.sessions.get(id).filter(|session| session.is_durable()) else {
            return;
        };
        let record = Record::Subscribed(SubscriptionRecord {
            queue: session.uid(),
            filter: wish.filter,
            group: wish.group,
            reliability,
            no_local: wish.no_local,
            retain_as_published: wish.retain_as_published,
            id: wish.id,
            condition: condition.map(|it| it.text()),
        });
        let safety = self.session_safety(id);
        self.journal.persist(&record, safety);
    }

    /// Records that a waiting entry of a session was sent or has ended.
    pub(crate) fn persist_put(
        &mut self,
        id: SessionId,
        serial: u64,
        reliability: Reliability,
        put: Put,
    ) {
        if serial == 0 {
            return;
        }
        let Some(session) = self.sessions.get(id).filter(|session| session.is_durable()) else {
            return;
        };
        let queue = session.uid();
        match put {
            Put::Sent(tag) => {
                // The tag of an exactly-once delivery must be known after a loss of power: its receiver tells a
                // repetition by it. `send_entry` has the delivery held.
                let exactly_once = reliability == Reliability::ExactlyOnce;
                let safety = if exactly_once {
                    self.session_safety(id)
                } else {
                    Safety::Lazy
                };
                self.journal
                    .persist(&Record::Sent { queue, serial, tag }, safety);
            }
            Put::Done => {
                // The same of an at-most-once delivery that waited: it must not be sent again.
                let at_most_once = reliability == Reliability::AtMostOnce;
                let safety = if at_most_once {
                    self.session_safety(id)
                } else {
                    Safety::Lazy
                };
                self.journal.remove(queue, serial, safety);
            }
            Put::Waits | Put::WaitsForDisk => {}
        }
    }

    /// Records that an entry in flight under `tag` has ended.
    pub(crate) fn persist_settled(&mut self, id: SessionId, entry: &Entry, tag: Tag) {
        if entry.serial == 0 {
            return;
        }
        if entry.of_group {
            return self.persist_of_group_removed(entry);
        }
        let Some(session) = self.sessions.get(id).filter(|session| session.is_durable()) else {
            return;
        };
        self.journal.forget(session.uid(), entry.serial, tag);
    }

    /// Records that a waiting entry has ended.
    pub(crate) fn persist_removed(&mut self, id: SessionId, entry: &Entry) {
        match entry.of_group {
            true => self.persist_of_group_removed(entry),
            // It was not sent, so nothing waits for this.
            false => self.persist_put(id, entry.serial, Reliability::AtLeastOnce, Put::Done),
        }
    }

    /// Records that a session's entry in its group's queue has ended.
    pub(crate) fn persist_of_group_removed(&mut self, entry: &Entry) {
        if let Some(group) = entry.group() {
            self.persist_group_removed(group, entry.serial);
        }
    }

    /// Records that an entry of a group has ended.
    pub(crate) fn persist_group_removed(&mut self, group: GroupId, serial: u64) {
        let number = self.group_number(group);
        self.journal.remove(number, serial, Safety::Lazy);
    }

    /// Writes down how often an entry of a queue was delivered that waits there again.
    pub(crate) fn persist_returned(&mut self, queue: u64, serial: u64, deliveries: u16) {
        if queue != 0 && serial != 0 {
            let returned = Record::Returned {
                queue,
                serial,
                deliveries,
            };
            self.journal.persist(&returned, Safety::Lazy);
        }
    }

    /// Records that a session, group or queue is gone, with all its entries.
    pub(crate) fn persist_ended(&mut self, number: u64) {
        if number != 0 {
            let safety = self.env.limits().safety;
            self.journal.end_group(number, safety);
        }
    }

    /// The number of a group that holds entries of its own; 0 if it does not.
    pub(crate) fn group_number(&self, group: GroupId) -> u64 {
        self.groups.get(group).map_or(0, |group| group.number())
    }
}

impl<'a> Draft<'a> {
    /// A kept message that is spread again, with the life that it has left.
    pub(crate) fn again(message: &'a Message, now: Time) -> Draft<'a> {
        let expires = message.expires();
        Draft {
            expires_in: (expires != Time::NEVER).then(|| expires.since(now)),
            ..Draft::of(message)
        }
    }

    /// The same as if it lived for ever.
    pub(crate) fn of(message: &'a Message) -> Draft<'a> {
        Draft {
            address: message.address(),
            payload: message.payload(),
            reliability: message.reliability(),
            retain: message.retain(),
            expires_in: None,
            priority: message.priority(),
            properties: message.properties(),
            ticket: 0,
            native: None,
            stamp: None,
        }
    }
}

/// Whether the journal keeps last values of this address: not what the broker says about itself, which it will say
/// again.
pub(crate) fn is_kept(publisher: Option<SessionId>, draft: &Draft<'_>) -> bool {
    draft.retain != RetainOp::None && (publisher.is_some() || !draft.address.starts_with('$'))
}
