//! State after applying the records.

use super::fold::Contradiction;
use super::record::{BodyRecord, Record, Reference, SessionRecord, SubscriptionRecord, WillRecord};
use super::waiting::Waiting;
use crate::sequences::Sequences;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use thalweg_model::{Properties, Reliability, RetainOp, Span, Time};

/// A map whose keys are the broker's own numbers.
type ByNumber<T> = HashMap<u64, T, foldhash::fast::RandomState>;

/// The state that a run of records leads to. Messages stay where they were written; the state only says where.
#[derive(Debug, Default)]
pub struct State {
    pub sessions: ByNumber<StoredSession>,
    pub groups: ByNumber<StoredGroup>,
    /// Last values by address: place and length of their messages' records.
    pub last_values: BTreeMap<Box<str>, (u64, u32)>,
    /// Kept messages of addresses that keep several, oldest first: number, place and length of the record. The last value is
    /// among them, unless it alone is gone.
    pub kept: BTreeMap<Box<str>, VecDeque<(u64, u64, u32)>>,
    /// Accepted messages of stamping publishers, by user and publisher.
    pub publishers: BTreeMap<Box<str>, BTreeMap<u64, Sequences>>,
    /// The highest queue number that was used.
    pub queue_last: u64,
    /// The highest serial that was used.
    pub serial_last: u64,
    /// The first contradiction in the records.
    pub contradictions: Vec<Contradiction>,
    /// Number of contradictions in the records.
    pub contradiction_count: u64,
}

/// Two states are the same if they hold the same; how they came about does not matter.
impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.sessions == other.sessions
            && self.groups == other.groups
            && self.last_values == other.last_values
            && self.kept == other.kept
            && self.publishers == other.publishers
            && self.queue_last == other.queue_last
            && self.serial_last == other.serial_last
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredSession {
    /// The name under which it is found again.
    pub client: Box<str>,
    pub user: Option<Box<str>>,
    /// How long it outlives its link.
    pub expiry: Span,
    /// When it ends; never if it had a link.
    pub expires_at: Time,
    /// Unsettled deliveries its receiver allowed last.
    pub in_flight_max: u16,
    /// Rights of its own; empty if the rule files decide.
    pub access: Box<[u8]>,
    /// The will of the session.
    pub will: Option<StoredWill>,
    /// Its subscriptions, by filter and group.
    pub subscriptions: Vec<StoredSubscription>,
    /// Exactly-once messages of its own that it may repeat, by rising number.
    pub held: Vec<u16>,
    /// Waiting entries, by rising serial.
    pub waiting: Waiting,
    /// Entries sent and not settled, by tag.
    pub window: BTreeMap<u16, StoredSlot>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StoredWill {
    pub address: Box<str>,
    pub payload: Box<[u8]>,
    pub reliability: Reliability,
    /// Whether it becomes the last value.
    pub retain: RetainOp,
    pub properties: Option<Box<Properties>>,
    /// Delay after the loss of the link.
    pub delay: Span,
    /// When it is due; never if the session had a link.
    pub due: Time,
    /// Lifespan from the time of publishing.
    pub expires_in: Option<Span>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StoredSubscription {
    pub filter: Box<str>,
    /// The group it is shared with.
    pub group: Option<Box<str>>,
    /// The most reliable it is granted.
    pub reliability: Reliability,
    /// Leave out what the session publishes itself.
    pub no_local: bool,
    /// Show the publisher's retain flag.
    pub retain_as_published: bool,
    /// Its identifier, 0 for none.
    pub id: u32,
    /// The content filter that messages must pass.
    pub condition: Option<Box<str>>,
}

/// A group that holds entries of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredGroup {
    pub name: Box<str>,
    pub filter: Box<str>,
    /// Entries up to this serial may have been delivered.
    pub delivered_to: u64,
    /// Waiting entries, by rising serial.
    pub waiting: Waiting,
}

/// An entry whose message is on disk. 40 bytes, because there are millions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stored {
    /// Names it in its queue.
    pub serial: u64,
    /// Where its message's record begins.
    pub place: u64,
    /// Length of that record in bytes.
    pub len: u32,
    /// When it expires, in seconds since 1970, rounded up; 0 for never.
    pub expires_secs: u32,
    /// The subscription that matched, 0 for none; the first if several did.
    pub subscription_id: u32,
    /// Reliability of the delivery.
    pub reliability: Reliability,
    /// The receiver sees that it is a last value.
    pub retain: bool,
    /// Number of possible deliveries without a settlement.
    pub deliveries: u16,
    /// Rare fields: the group it came through (0 for none), and all subscriptions if several matched.
    pub rare: Option<Box<(u64, Vec<u32>)>>,
}

/// An entry that was sent.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredSlot {
    pub entry: Stored,
    /// Its receiver has it: only the release is still to be confirmed, and `entry` names no message.
    pub received: bool,
}

/// Size of a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub sessions: usize,
    pub subscriptions: usize,
    /// Entries that wait or are in flight.
    pub entries: usize,
    pub last_values: usize,
    /// Groups with entries of their own.
    pub groups: usize,
}

impl Stored {
    /// The group it came through, 0 for none.
    pub fn group(&self) -> u64 {
        self.rare.as_ref().map_or(0, |rare| rare.0)
    }

    /// The subscriptions that matched.
    pub fn subscription_ids(&self) -> Cow<'_, [u32]> {
        match &self.rare {
            Some(rare) if !rare.1.is_empty() => Cow::Borrowed(&rare.1),
            _ if self.subscription_id == 0 => Cow::Borrowed(&[]),
            _ => Cow::Borrowed(std::slice::from_ref(&self.subscription_id)),
        }
    }

    /// When it expires; never earlier than its message.
    pub fn expires(&self) -> Time {
        if self.expires_secs == 0 {
            Time::NEVER
        } else {
            Time::from_secs(u64::from(self.expires_secs))
        }
    }

    pub(super) fn new(reference: &Reference<'_>, place: u64, len: u32, expires: Time) -> Self {
        let ids = &reference.subscription_ids;
        let several = if ids.len() > 1 {
            ids.to_vec()
        } else {
            Vec::new()
        };
        let is_rare = reference.group != 0 || !several.is_empty();
        Stored {
            serial: reference.serial,
            place,
            len,
            expires_secs: expires_secs(expires),
            subscription_id: ids.first().copied().unwrap_or(0),
            reliability: reference.reliability,
            retain: reference.retain,
            deliveries: u16::from(reference.redelivered),
            rare: is_rare.then(|| Box::new((reference.group, several))),
        }
    }

    pub(super) fn set_group(&mut self, group: u64) {
        match &mut self.rare {
            Some(rare) if group == 0 && rare.1.is_empty() => self.rare = None,
            Some(rare) => rare.0 = group,
            None if group == 0 => {}
            None => self.rare = Some(Box::new((group, Vec::new()))),
        }
    }

    /// Writes the records of an entry of queue `queue`.
    fn write(&self, queue: u64, tag: u16, received: bool, out: &mut dyn FnMut(&Record<'_>)) {
        out(&self.record(queue, tag, received));
        if self.deliveries > 1 {
            out(&Record::Returned {
                queue,
                serial: self.serial,
                deliveries: self.deliveries,
            });
        }
    }

    fn record(&self, queue: u64, tag: u16, received: bool) -> Record<'_> {
        let reference = Reference {
            queue,
            serial: self.serial,
            tag,
            reliability: self.reliability,
            retain: self.retain,
            redelivered: self.deliveries > 0,
            group: self.group(),
            subscription_ids: self.subscription_ids(),
        };
        Record::Entry {
            reference,
            place: self.place,
            len: self.len,
            expires: self.expires(),
            received,
        }
    }
}

/// Seconds, rounded up; what would come after the year 2106 never comes.
fn expires_secs(expires: Time) -> u32 {
    u32::try_from(expires.nanos().div_ceil(1_000_000_000)).map_or(0, |secs| secs.max(1))
}

impl StoredSession {
    fn record(&self, queue: u64) -> Record<'_> {
        Record::Session(SessionRecord {
            queue,
            client: &self.client,
            user: self.user.as_deref(),
            expiry: self.expiry,
            expires_at: self.expires_at,
            in_flight_max: self.in_flight_max,
            access: &self.access,
            will: self.will.as_ref().map(StoredWill::record),
        })
    }
}

impl StoredWill {
    fn record(&self) -> WillRecord<'_> {
        WillRecord {
            body: BodyRecord {
                address: &self.address,
                payload: &self.payload,
                reliability: self.reliability,
                retain: self.retain,
                priority: 0,
                properties: self.properties.as_deref().map(Cow::Borrowed),
            },
            delay: self.delay,
            due: self.due,
            expires_in: self.expires_in,
        }
    }
}

impl StoredSubscription {
    fn record(&self, queue: u64) -> Record<'_> {
        Record::Subscribed(SubscriptionRecord {
            queue,
            filter: &self.filter,
            group: self.group.as_deref(),
            reliability: self.reliability,
            no_local: self.no_local,
            retain_as_published: self.retain_as_published,
            id: self.id,
            condition: self.condition.as_deref(),
        })
    }
}

impl State {
    /// Writes the shortest run of records that leads to this state.
    pub fn write(&self, out: &mut dyn FnMut(&Record<'_>)) {
        out(&Record::Numbers {
            queue: self.queue_last,
            serial: self.serial_last,
        });
        for (queue, group) in by_rising_number(&self.groups) {
            out(&Record::Group {
                queue,
                name: &group.name,
                filter: &group.filter,
            });
            if group.delivered_to > 0 {
                out(&Record::Delivered {
                    queue,
                    serial: group.delivered_to,
                });
            }
            group
                .waiting
                .iter()
                .for_each(|entry| entry.write(queue, 0, false, out));
        }
        for (queue, session) in by_rising_number(&self.sessions) {
            out(&session.record(queue));
            session
                .subscriptions
                .iter()
                .for_each(|subscription| out(&subscription.record(queue)));
            session.held.iter().for_each(|ticket| {
                out(&Record::Held {
                    queue,
                    ticket: *ticket,
                })
            });
            session
                .window
                .iter()
                .for_each(|(tag, slot)| slot.entry.write(queue, *tag, slot.received, out));
            session
                .waiting
                .iter()
                .for_each(|entry| entry.write(queue, 0, false, out));
        }
        for (address, &(place, len)) in &self.last_values {
            out(&Record::LastValue {
                address,
                place,
                len,
            });
        }
        for (address, kept) in &self.kept {
            for &(number, place, len) in kept {
                out(&Record::Kept {
                    address,
                    number,
                    place,
                    len,
                });
            }
        }
        for (user, known) in &self.publishers {
            for (publisher, sequences) in known {
                let (highest, runs) = (sequences.highest(), Cow::Owned(sequences.runs()));
                out(&Record::Publisher {
                    user,
                    publisher: *publisher,
                    highest,
                    runs,
                });
            }
        }
    }

    /// Where the messages' records are that are still needed, and how long each is. One may come several times.
    pub fn live(&self) -> impl Iterator<Item = (u64, u32)> {
        let groups = self.groups.values().flat_map(|group| group.waiting.iter());
        let waiting = self
            .sessions
            .values()
            .flat_map(|session| session.waiting.iter());
        let in_flight = self
            .sessions
            .values()
            .flat_map(|session| session.window.values());
        let in_flight = in_flight
            .filter(|slot| !slot.received)
            .map(|slot| (slot.entry.place, slot.entry.len));
        let entries = groups
            .chain(waiting)
            .map(|entry| (entry.place, entry.len))
            .chain(in_flight);
        let kept = self.kept.values().flatten();
        entries
            .chain(self.last_values.values().copied())
            .chain(kept.map(|&(_, place, len)| (place, len)))
    }

    /// Forgets every entry and last value whose message is lost; how many they were.
    pub fn forget(&mut self, mut is_lost: impl FnMut(u64) -> bool) -> usize {
        let before = self.live().count();
        let waiting = self
            .sessions
            .values_mut()
            .map(|session| &mut session.waiting);
        for waiting in waiting.chain(self.groups.values_mut().map(|group| &mut group.waiting)) {
            waiting.retain(|entry| !is_lost(entry.place));
        }
        for session in self.sessions.values_mut() {
            session
                .window
                .retain(|_, slot| slot.received || !is_lost(slot.entry.place));
        }
        self.last_values.retain(|_, (place, _)| !is_lost(*place));
        self.kept.retain(|_, kept| {
            kept.retain(|(_, place, _)| !is_lost(*place));
            !kept.is_empty()
        });
        before - self.live().count()
    }

    /// Returns the size of the state.
    pub fn counts(&self) -> Counts {
        let sessions = self.sessions.values();
        let of_sessions = sessions
            .clone()
            .map(|session| session.waiting.len() + session.window.len())
            .sum::<usize>();
        Counts {
            sessions: self.sessions.len(),
            subscriptions: sessions.map(|session| session.subscriptions.len()).sum(),
            entries: of_sessions
                + self
                    .groups
                    .values()
                    .map(|group| group.waiting.len())
                    .sum::<usize>(),
            last_values: self.last_values.len(),
            // Those without a name hold what was under way between shards.
            groups: self
                .groups
                .values()
                .filter(|group| !group.name.is_empty())
                .count(),
        }
    }
}

/// So that equal states are written alike.
fn by_rising_number<T>(map: &ByNumber<T>) -> impl Iterator<Item = (u64, &T)> {
    let mut numbers: Vec<u64> = map.keys().copied().collect();
    numbers.sort_unstable();
    numbers
        .into_iter()
        .filter_map(|number| Some((number, map.get(&number)?)))
}
