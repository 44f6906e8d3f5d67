//! Effect of a record on a state.
//!
//! A record that cannot be true of the state (an entry of an unknown queue) means that something was lost or
//! written wrongly. It is noted and the rest goes on: one wrong record must not cost the others.

use super::codec::Input;
use super::decode::{MessageHead, open, other, reference, skip_check};
use super::encode::kind;
use super::record::{
    KeptAs, Message, Record, RecordFault, Reference, SessionRecord, SubscriptionRecord, WillRecord,
};
use super::state::{
    State, Stored, StoredGroup, StoredSession, StoredSlot, StoredSubscription, StoredWill,
};
use super::waiting::Waiting;
use crate::sequences::Sequences;
use std::fmt;
use thalweg_model::{Reliability, RetainOp, Time};

/// Contradictions that are kept; all are counted.
const CONTRADICTIONS_MAX: usize = 100;

/// A record that cannot be true of the state it is applied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// Where the record begins.
    pub place: u64,
    pub what: &'static str,
    /// The queue it speaks of.
    pub queue: u64,
    /// The serial, tag or ticket it speaks of, 0 for none.
    pub number: u64,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Contradiction {
            place,
            what,
            queue,
            number,
        } = self;
        write!(
            f,
            "the record at place {place:#x} speaks of {what}: queue {queue}, number {number}"
        )
    }
}

impl std::error::Error for Contradiction {}

/// A frame whose payload cannot be read although its checksum is right: another version wrote it, or it is our fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateFault {
    /// Place of the invalid record.
    pub place: u64,
    /// Fault of the record.
    pub fault: RecordFault,
}

impl fmt::Display for StateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at place {:#x}: {}", self.place, self.fault)
    }
}

impl std::error::Error for StateFault {}

type Applied = Result<(), Contradiction>;

impl State {
    /// Applies every record of a frame whose payload begins at `place`. Contradictions are noted in the state; bytes
    /// that are no record end it.
    pub fn apply_frame(&mut self, payload: &[u8], place: u64) -> Result<(), StateFault> {
        let mut input = Input::new(payload);
        while !input.is_empty() {
            let at = input.at();
            let record_place = place + at as u64;
            let applied = self
                .apply_next(&mut input, record_place, at)
                .map_err(|fault| {
                    let fault = RecordFault {
                        at: fault.at.saturating_sub(at),
                        ..fault
                    };
                    StateFault {
                        place: record_place,
                        fault,
                    }
                })?;
            if let Err(contradiction) = applied {
                self.note(contradiction);
            }
        }
        Ok(())
    }

    /// Messages are not decoded in full: only their places and receivers count here.
    fn apply_next(
        &mut self,
        input: &mut Input<'_>,
        place: u64,
        at: usize,
    ) -> Result<Applied, RecordFault> {
        let (kind, mut fields) = open(input)?;
        if kind != kind::MESSAGE {
            let record = other(kind, &mut fields)?;
            return Ok(self.apply(&record, place, 0));
        }
        let len = (input.at() - at) as u32;
        skip_check(&mut fields)?;
        let head = MessageHead::read(&mut fields)?;
        let mut applied = Ok(());
        for _ in 0..head.references {
            let (reference, _) = reference(&mut fields)?;
            applied = applied.and(self.enter(&reference, place, len, head.expires, false));
        }
        if head.is_last_value() {
            self.set_last_value(head.address, (head.retain, head.kept), place, len);
        }
        Ok(applied.and(
            head.held
                .map_or(Ok(()), |(queue, ticket)| self.hold(queue, ticket, place)),
        ))
    }

    fn note(&mut self, contradiction: Contradiction) {
        self.contradiction_count += 1;
        if self.contradictions.len() < CONTRADICTIONS_MAX {
            self.contradictions.push(contradiction);
        }
    }

    /// Applies one record that begins at `place` and is `len` bytes long. Of a record that says several things, all
    /// that can be true are applied, and the first that cannot is reported.
    pub fn apply(&mut self, record: &Record<'_>, place: u64, len: u32) -> Applied {
        match record {
            Record::Message(message) => self.message(message, place, len),
            Record::Sent { queue, serial, tag } => self.sent(*queue, *serial, *tag, place),
            Record::Received { queue, tag } => self.received(*queue, *tag, place),
            Record::Settled { queue, tag } => self.settled(*queue, *tag, place),
            // Another shard's record, of an entry that it was sent; the queue may have ended meanwhile.
            Record::Removed { queue, .. }
                if !self.sessions.contains_key(queue) && !self.groups.contains_key(queue) =>
            {
                Ok(())
            }
            Record::Removed { queue, serial } => match self.take_out(*queue, *serial, place)? {
                Some(_) => Ok(()),
                None => contradiction(place, "an unknown entry", *queue, *serial),
            },
            Record::Moved {
                from,
                serial,
                to,
                tag,
                redelivered,
                grant,
            } => {
                let change = |entry: &mut Stored| {
                    entry.deliveries = entry.deliveries.max(u16::from(*redelivered));
                    if let Some((reliability, id)) = *grant {
                        (entry.reliability, entry.subscription_id) = (reliability, id);
                    }
                };
                self.moved(*from, *serial, *to, *tag, change, place)
            }
            Record::Session(session) => self.session(session, place),
            Record::SessionEnded { queue } => match self.sessions.remove(queue) {
                Some(_) => Ok(()),
                None => contradiction(place, "an unknown session", *queue, 0),
            },
            Record::Subscribed(subscription) => self.subscribed(subscription, place),
            Record::Unsubscribed {
                queue,
                filter,
                group,
            } => self.unsubscribed(*queue, filter, *group, place),
            Record::Group {
                queue,
                name,
                filter,
            } => self.group(*queue, name, filter, place),
            Record::Delivered { queue, serial } => match self.groups.get_mut(queue) {
                Some(group) => {
                    group.delivered_to = *serial;
                    Ok(())
                }
                None => contradiction(place, "an unknown group", *queue, *serial),
            },
            Record::Returned {
                queue,
                serial,
                deliveries,
            } => self.returned(*queue, *serial, *deliveries, place),
            Record::GroupEnded { queue } => match self.groups.remove(queue) {
                Some(_) => Ok(()),
                None => contradiction(place, "an unknown group", *queue, 0),
            },
            Record::Held { queue, ticket } => self.hold(*queue, *ticket, place),
            Record::Released { queue, ticket } => {
                let held = &mut self.session_of(*queue, place)?.held;
                match held.binary_search(ticket) {
                    Ok(at) => {
                        held.remove(at);
                        Ok(())
                    }
                    Err(_) => contradiction(
                        place,
                        "a message that is not held",
                        *queue,
                        u64::from(*ticket),
                    ),
                }
            }
            Record::Cleared { address } => {
                self.last_values.remove(*address);
                self.kept.remove(*address);
                Ok(())
            }
            Record::Forgotten {
                address,
                first,
                last,
                and_last,
            } => {
                if *and_last {
                    self.last_values.remove(*address);
                }
                if let Some(kept) = self.kept.get_mut(*address) {
                    kept.retain(|(number, ..)| !(*first..=*last).contains(number));
                    if kept.is_empty() {
                        self.kept.remove(*address);
                    }
                }
                Ok(())
            }
            Record::Kept {
                address,
                number,
                place,
                len,
            } => {
                let kept = self.kept.entry((*address).into()).or_default();
                kept.push_back((*number, *place, *len));
                Ok(())
            }
            Record::Entry {
                reference,
                place: at,
                len,
                expires,
                received,
            } => self
                .enter(reference, *at, *len, *expires, *received)
                .map_err(|wrong| Contradiction { place, ..wrong }),
            Record::LastValue {
                address,
                place,
                len,
            } => {
                self.last_values.insert((*address).into(), (*place, *len));
                Ok(())
            }
            Record::Stamped {
                user,
                publisher,
                sequence,
            } => {
                let known = self.publishers.entry((*user).into()).or_default();
                let sequences = known
                    .entry(*publisher)
                    .or_insert_with(|| Sequences::of(*sequence));
                sequences.take(*sequence);
                Ok(())
            }
            Record::PublisherForgotten { user, publisher } => {
                if let Some(known) = self.publishers.get_mut(*user) {
                    known.remove(publisher);
                    if known.is_empty() {
                        self.publishers.remove(*user);
                    }
                }
                Ok(())
            }
            Record::Publisher {
                user,
                publisher,
                highest,
                runs,
            } => {
                let sequences = Sequences::from_runs(*highest, runs.iter().copied());
                self.publishers
                    .entry((*user).into())
                    .or_default()
                    .insert(*publisher, sequences);
                Ok(())
            }
            Record::Numbers { queue, serial } => {
                self.queue_last = self.queue_last.max(*queue);
                self.serial_last = self.serial_last.max(*serial);
                Ok(())
            }
        }
    }

    fn message(&mut self, message: &Message<'_>, place: u64, len: u32) -> Applied {
        let mut applied = Ok(());
        for reference in message.references.iter() {
            applied = applied.and(self.enter(reference, place, len, message.expires, false));
        }
        if message.is_last_value {
            let to = (message.body.retain, message.kept);
            self.set_last_value(message.body.address, to, place, len);
        }
        applied.and(
            message
                .held
                .map_or(Ok(()), |(queue, ticket)| self.hold(queue, ticket, place)),
        )
    }

    /// Puts an entry into a queue, or into the window if it has a tag.
    fn enter(
        &mut self,
        reference: &Reference<'_>,
        place: u64,
        len: u32,
        expires: Time,
        received: bool,
    ) -> Applied {
        let Reference {
            queue, serial, tag, ..
        } = *reference;
        self.serial_last = self.serial_last.max(serial);
        let entry = if received {
            Stored::received(serial)
        } else {
            Stored::new(reference, place, len, expires)
        };
        if tag != 0 {
            return self.fill_slot(queue, tag, StoredSlot { entry, received }, place);
        }
        match self.waiting(queue, place)?.insert(entry) {
            Ok(()) => Ok(()),
            Err(_) => contradiction(place, "an entry that waits already", queue, serial),
        }
    }

    fn fill_slot(&mut self, queue: u64, tag: u16, slot: StoredSlot, place: u64) -> Applied {
        match self.session_of(queue, place)?.window.insert(tag, slot) {
            None => Ok(()),
            Some(_) => contradiction(place, "a tag that is taken already", queue, u64::from(tag)),
        }
    }

    fn sent(&mut self, queue: u64, serial: u64, tag: u16, place: u64) -> Applied {
        let session = self.session_of(queue, place)?;
        match session.waiting.remove(serial) {
            Some(entry) => self.fill_slot(
                queue,
                tag,
                StoredSlot {
                    entry,
                    received: false,
                },
                place,
            ),
            None => contradiction(place, "an entry that does not wait", queue, serial),
        }
    }

    fn received(&mut self, queue: u64, tag: u16, place: u64) -> Applied {
        match self.session_of(queue, place)?.window.get_mut(&tag) {
            Some(slot) => {
                *slot = StoredSlot {
                    entry: Stored::received(slot.entry.serial),
                    received: true,
                };
                Ok(())
            }
            None => contradiction(place, "a tag that is free", queue, u64::from(tag)),
        }
    }

    fn settled(&mut self, queue: u64, tag: u16, place: u64) -> Applied {
        match self.session_of(queue, place)?.window.remove(&tag) {
            Some(_) => Ok(()),
            None => contradiction(place, "a tag that is free", queue, u64::from(tag)),
        }
    }

    fn moved(
        &mut self,
        from: u64,
        serial: u64,
        to: u64,
        tag: u16,
        change: impl Fn(&mut Stored),
        place: u64,
    ) -> Applied {
        // Nothing is taken out of one queue unless there is another to put it into.
        let is_known =
            self.sessions.contains_key(&to) || (tag == 0 && self.groups.contains_key(&to));
        if !is_known {
            return contradiction(place, "an unknown queue", to, serial);
        }
        let Some(mut entry) = self.take_out(from, serial, place)? else {
            return contradiction(place, "an unknown entry", from, serial);
        };
        change(&mut entry);
        if self.groups.contains_key(&to) {
            entry.set_group(0);
        } else if self.groups.contains_key(&from) {
            entry.set_group(from);
        }
        if tag != 0 {
            return self.fill_slot(
                to,
                tag,
                StoredSlot {
                    entry,
                    received: false,
                },
                place,
            );
        }
        match self.waiting(to, place)?.insert(entry) {
            Ok(()) => Ok(()),
            Err(_) => contradiction(place, "an entry that waits already", to, serial),
        }
    }

    fn returned(&mut self, queue: u64, serial: u64, deliveries: u16, place: u64) -> Applied {
        let waiting = self.waiting(queue, place)?;
        if let Some(entry) = waiting.remove(serial) {
            let _ = waiting.insert(Stored {
                deliveries,
                ..entry
            });
            return Ok(());
        }
        let session = self.sessions.get_mut(&queue);
        let mut slots = session
            .into_iter()
            .flat_map(|session| session.window.values_mut());
        match slots.find(|slot| slot.entry.serial == serial && !slot.received) {
            Some(slot) => {
                slot.entry.deliveries = deliveries;
                Ok(())
            }
            None => contradiction(place, "an unknown entry", queue, serial),
        }
    }

    /// An entry that waits, or is in a window, which has few.
    fn take_out(
        &mut self,
        queue: u64,
        serial: u64,
        place: u64,
    ) -> Result<Option<Stored>, Contradiction> {
        if let Some(entry) = self.waiting(queue, place)?.remove(serial) {
            return Ok(Some(entry));
        }
        let Some(session) = self.sessions.get_mut(&queue) else {
            return Ok(None);
        };
        let tag = session
            .window
            .iter()
            .find(|(_, slot)| slot.entry.serial == serial && !slot.received);
        let tag = tag.map(|(tag, _)| *tag);
        Ok(tag
            .and_then(|tag| session.window.remove(&tag))
            .map(|slot| slot.entry))
    }

    fn session(&mut self, record: &SessionRecord<'_>, place: u64) -> Applied {
        if self.groups.contains_key(&record.queue) {
            return contradiction(place, "a session with a group's number", record.queue, 0);
        }
        self.queue_last = self.queue_last.max(record.queue);
        let session = self.sessions.entry(record.queue).or_default();
        update(&mut session.client, record.client);
        session.user = record.user.map(Into::into);
        session.expiry = record.expiry;
        session.expires_at = record.expires_at;
        session.in_flight_max = record.in_flight_max;
        if *session.access != *record.access {
            session.access = record.access.into();
        }
        session.will = record.will.as_ref().map(StoredWill::of);
        Ok(())
    }

    fn subscribed(&mut self, record: &SubscriptionRecord<'_>, place: u64) -> Applied {
        let subscriptions = &mut self.session_of(record.queue, place)?.subscriptions;
        let subscription = StoredSubscription {
            filter: record.filter.into(),
            group: record.group.map(Into::into),
            reliability: record.reliability,
            no_local: record.no_local,
            retain_as_published: record.retain_as_published,
            id: record.id,
            condition: record.condition.map(Into::into),
        };
        match subscriptions
            .binary_search_by_key(&(record.filter, record.group), StoredSubscription::key)
        {
            Ok(at) => subscriptions[at] = subscription,
            Err(at) => subscriptions.insert(at, subscription),
        }
        Ok(())
    }

    fn unsubscribed(
        &mut self,
        queue: u64,
        filter: &str,
        group: Option<&str>,
        place: u64,
    ) -> Applied {
        let subscriptions = &mut self.session_of(queue, place)?.subscriptions;
        match subscriptions.binary_search_by_key(&(filter, group), StoredSubscription::key) {
            Ok(at) => {
                subscriptions.remove(at);
                Ok(())
            }
            Err(_) => contradiction(place, "an unknown subscription", queue, 0),
        }
    }

    fn group(&mut self, queue: u64, name: &str, filter: &str, place: u64) -> Applied {
        if self.sessions.contains_key(&queue) {
            return contradiction(place, "a group with a session's number", queue, 0);
        }
        self.queue_last = self.queue_last.max(queue);
        let group = self.groups.entry(queue).or_insert_with(|| StoredGroup {
            name: name.into(),
            filter: filter.into(),
            delivered_to: 0,
            waiting: Waiting::default(),
        });
        update(&mut group.name, name);
        update(&mut group.filter, filter);
        Ok(())
    }

    fn hold(&mut self, queue: u64, ticket: u16, place: u64) -> Applied {
        let held = &mut self.session_of(queue, place)?.held;
        match held.binary_search(&ticket) {
            Ok(_) => contradiction(
                place,
                "a message that is held already",
                queue,
                u64::from(ticket),
            ),
            Err(at) => {
                held.insert(at, ticket);
                Ok(())
            }
        }
    }

    fn set_last_value(
        &mut self,
        address: &str,
        (retain, kept): (RetainOp, Option<KeptAs>),
        place: u64,
        len: u32,
    ) {
        match kept {
            Some(as_) => self.keep(address, as_, place, len),
            None if !self.kept.is_empty() && retain != RetainOp::None => {
                self.kept.remove(address);
            }
            None => {}
        }
        match (retain, self.last_values.get_mut(address)) {
            (RetainOp::Set, Some(value)) => *value = (place, len),
            (RetainOp::Set, None) => {
                self.last_values.insert(address.into(), (place, len));
            }
            (RetainOp::Clear, Some(_)) => {
                self.last_values.remove(address);
            }
            _ => {}
        }
    }

    /// Adds a message to those that its address keeps.
    fn keep(&mut self, address: &str, KeptAs { number, oldest }: KeptAs, place: u64, len: u32) {
        let before = self.last_values.get(address).copied();
        let kept = self.kept.entry(address.into()).or_default();
        if let (0, true, Some((place, len))) = (oldest, kept.is_empty(), before) {
            kept.push_back((0, place, len));
        }
        while kept.front().is_some_and(|(number, ..)| *number < oldest) {
            kept.pop_front();
        }
        kept.push_back((number, place, len));
    }

    fn session_of(&mut self, queue: u64, place: u64) -> Result<&mut StoredSession, Contradiction> {
        let unknown = Contradiction {
            place,
            what: "an unknown session",
            queue,
            number: 0,
        };
        self.sessions.get_mut(&queue).ok_or(unknown)
    }

    /// Waiting entries of a session or a group.
    fn waiting(&mut self, queue: u64, place: u64) -> Result<&mut Waiting, Contradiction> {
        let session = self
            .sessions
            .get_mut(&queue)
            .map(|session| &mut session.waiting);
        let waiting =
            session.or_else(|| self.groups.get_mut(&queue).map(|group| &mut group.waiting));
        waiting.ok_or(Contradiction {
            place,
            what: "an unknown queue",
            queue,
            number: 0,
        })
    }
}

fn contradiction(place: u64, what: &'static str, queue: u64, number: u64) -> Applied {
    Err(Contradiction {
        place,
        what,
        queue,
        number,
    })
}

fn update(text: &mut Box<str>, new: &str) {
    if **text != *new {
        *text = new.into();
    }
}

impl StoredSubscription {
    fn key(&self) -> (&str, Option<&str>) {
        (&self.filter, self.group.as_deref())
    }
}

impl StoredWill {
    fn of(record: &WillRecord<'_>) -> Self {
        StoredWill {
            address: record.body.address.into(),
            payload: record.body.payload.into(),
            reliability: record.body.reliability,
            retain: record.body.retain,
            properties: record
                .body
                .properties
                .as_ref()
                .map(|properties| Box::new(properties.clone().into_owned())),
            delay: record.delay,
            due: record.due,
            expires_in: record.expires_in,
        }
    }
}

impl Stored {
    /// Remaining data of an entry that its receiver has.
    fn received(serial: u64) -> Self {
        Stored {
            serial,
            reliability: Reliability::ExactlyOnce,
            ..Stored::default()
        }
    }
}
