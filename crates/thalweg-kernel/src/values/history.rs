//! The kept messages of addresses that keep several, as a policy ([`Policy::last_value_depth`](crate::Policy::last_value_depth)) or else
//! the newest of them ([`Details::keeps`]) says. Where messages have sources ([`Details::source`]) that is how many of each.
//!
//! The last value is among them and shares its memory with the stores of last values, so that those, and all code that reads one
//! value, need not know of this. An address that keeps one message has nothing here.
//!
//! What an address had before the last value does not become the last value again when that is retracted or expires: who has
//! followed the address was told that there is none.

use crate::access::Permission;
use crate::effects::{Effects, Safety};
use crate::env::Neutral;
use crate::ids::{SessionId, ShardId};
use crate::journal::durable::AsValue;
use crate::limits::Limits;
use crate::publish::pipeline::Draft;
use crate::remote::shards::ShardMessage;
use crate::values::last_value;
use crate::{Kernel, home};
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use thalweg_model::{Details, Message, Properties, Reliability, RetainOp, Time};
use thalweg_records::{KeptAs, Record};

/// Kept messages by address, oldest first.
#[derive(Debug, Default)]
pub(crate) struct History {
    by_address: BTreeMap<Box<str>, VecDeque<Kept>>,
    totals: Totals,
    serial_last: u64,
}

#[derive(Debug, Default)]
struct Totals {
    /// Those that expire at all, soonest first.
    by_expiry: BTreeMap<(Time, u64), Message>,
    count: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    /// Its number in the journal; rises within an address.
    number: u64,
    /// Names the entry in `by_expiry`.
    serial: u64,
    message: Message,
    /// The name that its publisher gave it.
    id: Option<Box<str>>,
}

/// What an entry costs beside its message.
const ENTRY_BYTES: usize = 48;
/// Messages of an address whose messages have sources: for each that comes all are looked at.
const APART_MAX: usize = 1024;

impl Kept {
    fn cost(&self) -> usize {
        let id = self.id.as_ref().map_or(0, |id| id.len());
        self.message.bytes() + ENTRY_BYTES + id
    }

    fn name(&self) -> &str {
        self.id.as_deref().unwrap_or(Details::UNNAMED)
    }

    fn source(&self) -> Option<&str> {
        source_of(&self.message)
    }
}

/// What became of a message that an address keeps.
struct Added {
    kept: KeptAs,
    /// Numbers above the oldest that have given way to it.
    gone: Vec<u64>,
}

impl Totals {
    fn enter(&mut self, kept: &Kept) {
        self.count += 1;
        self.bytes += kept.cost();
        if kept.message.expires() != Time::NEVER {
            let at = (kept.message.expires(), kept.serial);
            self.by_expiry.insert(at, kept.message.clone());
        }
    }

    fn leave(&mut self, kept: &Kept) {
        self.count -= 1;
        self.bytes -= kept.cost();
        self.by_expiry
            .remove(&(kept.message.expires(), kept.serial));
    }

    fn is_beyond(&self, room: last_value::Limits) -> bool {
        self.count > room.count_max || self.bytes > room.bytes_max
    }
}

impl History {
    pub(crate) fn count(&self) -> usize {
        self.totals.count
    }

    pub(crate) fn bytes(&self) -> usize {
        self.totals.bytes
    }

    pub(crate) fn recount(&self) -> usize {
        self.by_address.values().flatten().map(Kept::cost).sum()
    }

    /// Whether an address has kept messages here.
    pub(crate) fn has(&self, address: &str) -> bool {
        self.totals.count > 0 && self.by_address.contains_key(address)
    }

    /// The kept messages of an address, oldest first.
    pub(crate) fn of(&self, address: &str) -> impl Iterator<Item = &Message> {
        let kept = self.by_address.get(address).into_iter().flatten();
        kept.map(|kept| &kept.message)
    }

    /// Adds the newest message of an address; `number` is its number in the journal if it has one already. Drops the oldest
    /// beyond `depth`, of its source if it has one, and those for which there is no room.
    fn add(
        &mut self,
        number: Option<u64>,
        message: Message,
        id: Option<Box<str>>,
        depth: usize,
        room: last_value::Limits,
    ) -> Added {
        self.serial_last = self.serial_last.max(number.unwrap_or(0)) + 1;
        let serial = self.serial_last;
        let number = number.unwrap_or(serial);
        let newest = message.clone();
        let ring = self.by_address.entry(newest.address().into()).or_default();
        let kept = Kept {
            number,
            serial,
            message,
            id,
        };
        self.totals.enter(&kept);
        ring.push_back(kept);
        let source = source_of(&newest);
        // What has no source gives way to any.
        let is_counted =
            |it: &Kept| source.is_none() || it.source().is_none() || it.source() == source;
        let count = ring.iter().filter(|it| is_counted(it)).count();
        let mut gone = Vec::new();
        for _ in depth..count {
            if let Some(at) = ring.iter().position(is_counted)
                && let Some(dropped) = ring.remove(at)
            {
                self.totals.leave(&dropped);
                gone.extend((at > 0).then_some(dropped.number));
            }
        }
        let has_too_many =
            |ring: &VecDeque<Kept>| source.is_some() && ring.len() > APART_MAX.max(depth);
        while (has_too_many(ring) || self.totals.is_beyond(room))
            && let Some(oldest) = ring.pop_front()
        {
            self.totals.leave(&oldest);
        }
        let oldest = ring.front().map_or(number, |oldest| oldest.number);
        if ring.is_empty() {
            // There is no room for even one; the newest is the last value all the same.
            self.by_address.remove(newest.address());
        }
        let kept = KeptAs { number, oldest };
        Added { kept, gone }
    }

    /// Takes out the newest message of an address for which `is_meant` holds.
    fn take(&mut self, address: &str, is_meant: impl Fn(&Kept) -> bool) -> Option<Kept> {
        let ring = self.by_address.get_mut(address)?;
        let at = ring.iter().rposition(is_meant)?;
        let taken = ring.remove(at)?;
        if ring.is_empty() {
            self.by_address.remove(address);
        }
        self.totals.leave(&taken);
        Some(taken)
    }

    /// Forgets what an address keeps.
    pub(crate) fn clear(&mut self, address: &str) {
        if self.totals.count > 0 {
            self.retain(address, |_| false);
        }
    }

    /// Forgets what an address keeps that was not retained.
    pub(crate) fn forget_remembered(&mut self, address: &str) {
        if self.totals.count > 0 {
            self.retain(address, |message| message.retain() == RetainOp::Set);
        }
    }

    fn retain(&mut self, address: &str, is_kept: impl Fn(&Message) -> bool) {
        let Some(ring) = self.by_address.get_mut(address) else {
            return;
        };
        let totals = &mut self.totals;
        ring.retain(|kept| {
            let stays = is_kept(&kept.message);
            if !stays {
                totals.leave(kept);
            }
            stays
        });
        if ring.is_empty() {
            self.by_address.remove(address);
        }
    }

    /// Drops what lower depths leave no place for; the addresses and numbers of what is gone. The depth is that of the newest
    /// message of each source; nothing, and the address keeps its newest alone.
    fn shorten(&mut self, depth_of: impl Fn(&Message) -> Option<usize>) -> Vec<(Box<str>, u64)> {
        let mut gone = Vec::new();
        for (address, ring) in &mut self.by_address {
            let mut left = BTreeMap::new();
            let mut stays: Vec<bool> = Vec::with_capacity(ring.len());
            for kept in ring.iter().rev() {
                let depth = || depth_of(&kept.message).unwrap_or(0);
                let left = left.entry(kept.source()).or_insert_with(depth);
                stays.push(*left > 0);
                *left = left.saturating_sub(1);
            }
            let totals = &mut self.totals;
            ring.retain(|kept| {
                let is_kept = stays.pop().unwrap_or(true);
                if !is_kept {
                    totals.leave(kept);
                    gone.push((address.clone(), kept.number));
                }
                is_kept
            });
        }
        self.by_address.retain(|_, ring| !ring.is_empty());
        gone
    }

    /// Takes out all of a source that an address keeps.
    fn take_source(&mut self, address: &str, source: &str) -> Vec<u64> {
        let mut numbers = Vec::new();
        while let Some(kept) = self.take(address, |it| it.source() == Some(source)) {
            numbers.push(kept.number);
        }
        numbers
    }

    /// Drops up to `max` messages that have expired; shows their addresses and numbers.
    pub(crate) fn expire(&mut self, now: Time, max: usize, mut gone: impl FnMut(&str, u64)) {
        for _ in 0..max {
            let first = self.totals.by_expiry.first_key_value();
            let Some((&(_, serial), message)) = first.filter(|((at, _), _)| *at <= now) else {
                return;
            };
            let message = message.clone();
            if let Some(kept) = self.take(message.address(), |kept| kept.serial == serial) {
                gone(message.address(), kept.number);
            }
        }
    }
}

/// The name of a message, as its publisher gave it.
pub(crate) fn name_of(message: &Message, neutral: Neutral) -> Option<Box<str>> {
    let properties: Cow<'_, _> = message.properties().map(neutral)?;
    properties.details.as_ref()?.message_id.clone()
}

/// The name of the one message that this one forgets, if it does not clear its address.
pub(crate) fn retracted_by(message: &Message, neutral: Neutral) -> Option<Box<str>> {
    if message.retain() != RetainOp::Clear {
        return None;
    }
    let properties: Cow<'_, _> = message.properties().map(neutral)?;
    properties.details.as_ref()?.retracts().map(Into::into)
}

/// Whether a message that clears is about another one than this value.
pub(crate) fn is_about_another(message: &Message, value: &Message, neutral: Neutral) -> bool {
    retracted_by(message, neutral).is_some_and(|name| {
        let known = name_of(value, neutral);
        known.as_deref().unwrap_or(Details::UNNAMED) != &*name
    })
}

/// What an address that keeps several messages had before the newest.
pub(crate) struct Before {
    depth: usize,
    /// Of an address that has kept one up to now.
    values: [Option<Message>; 2],
}

impl Limits {
    /// How many messages an address keeps.
    pub fn last_value_depth(&self, address: &str) -> usize {
        let depth = self.policy_field(address, |policy| policy.last_value_depth);
        depth.map_or(1, |depth| usize::from(depth.max(1)))
    }

    /// How many an address keeps whose newest is this one, of its source if it has one; nothing if it keeps the newest alone.
    fn depth_with(&self, newest: &Message) -> Option<usize> {
        let policy = self.policy_field(newest.address(), |policy| policy.last_value_depth);
        let is_apart = policy.is_none() && source_of(newest).is_some();
        let depth = usize::from(policy.unwrap_or(asked_by(newest)).max(1));
        (depth > 1 || is_apart).then_some(depth)
    }
}

/// How many messages its address is to keep, if no policy says; 0 if it is nothing special.
fn asked_by(message: &Message) -> u16 {
    details_of(message).map_or(0, |details| details.keeps)
}

fn source_of(message: &Message) -> Option<&str> {
    details_of(message)?.source.as_deref()
}

fn details_of(message: &Message) -> Option<&Details> {
    message.properties()?.details.as_deref()
}

impl Kernel {
    /// Keeps a message, which is the newest of its address, beside those before it.
    #[cold]
    pub(crate) fn keep_beside(
        &mut self,
        message: &Message,
        Before { depth, values }: Before,
        safety: Safety,
    ) -> KeptAs {
        let (neutral, room) = (self.env.neutral(), self.room_for_history());
        let history = &mut self.values.history;
        if !history.has(message.address()) {
            for value in values.into_iter().flatten() {
                let number = (value.retain() == RetainOp::Set).then_some(0);
                let id = name_of(&value, neutral);
                history.add(number, value, id, depth, room);
            }
        }
        let id = name_of(message, neutral);
        let same = id
            .as_deref()
            .and_then(|id| history.take(message.address(), |kept| kept.id.as_deref() == Some(id)));
        // While memory is short nothing is added.
        let depth = match self.env.drops_waiting() {
            true => depth.min(history.of(message.address()).count().max(1)),
            false => depth,
        };
        let Added { kept, gone } = history.add(None, message.clone(), id, depth, room);
        for number in gone.into_iter().chain(same.map(|same| same.number)) {
            let record = forgotten(message.address(), (number, number), false);
            self.persist_of(message, &record, safety);
        }
        kept
    }

    /// What the values themselves leave of their limits.
    fn room_for_history(&self) -> last_value::Limits {
        let limits = self.env.limits();
        last_value::Limits {
            count_max: limits
                .retained_messages_max
                .saturating_sub(self.values.retained_count()),
            bytes_max: limits
                .retained_bytes_max
                .saturating_sub(self.values.last_bytes()),
        }
    }

    /// What [`Kernel::keep_beside`] is to know before a message replaces another; nothing for an address that keeps one. To look
    /// at the address costs more than to see that nothing asks for several, and no address has them.
    #[inline]
    pub(crate) fn values_before(&self, message: &Message) -> Option<Before> {
        let mut policies = self.env.limits().policies.iter();
        let says = |it: &Details| it.keeps > 1 || it.source.is_some();
        let is_asked = details_of(message).is_some_and(says)
            || self.values.history.count() > 0
            || policies.any(|policy| policy.last_value_depth.is_some());
        match is_asked {
            true => self.values_of(message),
            false => None,
        }
    }

    #[cold]
    fn values_of(&self, message: &Message) -> Option<Before> {
        let address = message.address();
        let depth = self.env.limits().depth_with(message);
        let value = |store: &last_value::LastValues| store.get(address, Time::ZERO).cloned();
        let is_other =
            |it: &Message| source_of(it).is_some_and(|it| Some(it) != source_of(message));
        // Where there were several, and this one asks for no more than itself, they give way to it.
        let (is_kept_alone, values) = match self.values.history.has(address) {
            true => (false, [None, None]),
            false => {
                let values = self.values.stores().map(value);
                let is_alone = match depth {
                    None => true,
                    Some(1) => !values.iter().flatten().any(is_other),
                    Some(_) => false,
                };
                (is_alone, values)
            }
        };
        let depth = depth.unwrap_or(1);
        (!is_kept_alone).then_some(Before { depth, values })
    }

    /// Forgets what an address keeps of a source, for a session that may publish there; false if it may not. Only subscribers that
    /// asked for all that addresses keep are told, by a message that clears and is of that source. If it was the last value, the newest
    /// of the other sources is.
    pub fn withdraw<E: Effects>(
        &mut self,
        id: SessionId,
        address: &str,
        source: &str,
        now: Time,
        fx: &mut E,
    ) -> bool {
        let session = self.sessions.get(id);
        if !session.is_some_and(|it| it.access().allows(Permission::Publish, address)) {
            return false;
        }
        let (route, owner) = (self.route(address), home(address, self.env.shards()));
        let beyond = route.shards().iter().map(|shard| ShardId(*shard));
        let beyond = beyond.filter(|shard| *shard != owner).chain([owner]);
        for shard in beyond.filter(|shard| *shard != self.env.shard()) {
            let (address, source) = (address.into(), source.into());
            self.remote
                .send(shard, ShardMessage::Withdraw { address, source });
        }
        self.on_withdraw(Some(id), address, source, now, fx);
        self.end_command(now, fx);
        true
    }

    /// The same on each shard that it concerns.
    pub(crate) fn on_withdraw<E: Effects>(
        &mut self,
        publisher: Option<SessionId>,
        address: &str,
        source: &str,
        now: Time,
        fx: &mut E,
    ) {
        if home(address, self.env.shards()) == self.env.shard() {
            self.withdraw_here(address, source, now);
        }
        let properties = Properties {
            details: Some(Box::new(Details {
                source: Some(source.into()),
                ..Details::default()
            })),
            ..Properties::default()
        };
        let draft = Draft {
            retain: RetainOp::Clear,
            properties: Some(&properties),
            ..Draft::new(address, b"", Reliability::AtLeastOnce)
        };
        self.spread_to_followers(publisher, &draft, now, fx);
    }

    /// The part of an address's home.
    fn withdraw_here(&mut self, address: &str, source: &str, now: Time) {
        let last = self.values.retained(address, Time::ZERO);
        let was_last = last.is_some_and(|last| source_of(last) == Some(source));
        for number in self.values.history.take_source(address, source) {
            self.persist_if_journal(&forgotten(address, (number, number), false), Safety::Lazy);
        }
        if was_last && !self.let_next_be_last(address, now) {
            self.values.clear(address);
            self.persist_if_journal(&Record::Cleared { address }, Safety::Lazy);
        }
    }

    /// The last value of an address has ended, and with it what its source said: the newest of another source is the last. False if
    /// there is none.
    pub(crate) fn let_next_be_last(&mut self, address: &str, now: Time) -> bool {
        let is_next = |it: &Kept| {
            let is_over = it.message.expires() <= now;
            it.source().is_some() && it.message.retain() == RetainOp::Set && !is_over
        };
        let next = self.values.history.take(address, is_next);
        let Some(next) = next.filter(|next| self.values.retain(&next.message)) else {
            return false;
        };
        // It is written once more, as the newest.
        let record = forgotten(address, (next.number, next.number), true);
        self.persist_if_journal(&record, Safety::Lazy);
        let (id, any) = (next.id, usize::MAX);
        let room = last_value::Limits {
            count_max: any,
            bytes_max: any,
        };
        let history = &mut self.values.history;
        let added = history.add(None, next.message.clone(), id, any, room);
        if self.env.limits().journal {
            let value = AsValue {
                is_last: true,
                kept: Some(added.kept),
            };
            self.persist_value(&next.message, value, Safety::Lazy);
        }
        true
    }

    /// Forgets the message of an address that has this name. It leaves no last value if it was that.
    pub(crate) fn forget_named(&mut self, message: &Message, name: &str, safety: Safety) {
        let address = message.address();
        let neutral = self.env.neutral();
        let named = |value: &Message| {
            name_of(value, neutral)
                .as_deref()
                .unwrap_or(Details::UNNAMED)
                == name
        };
        let Some(kept) = self
            .values
            .history
            .take(address, |kept| kept.name() == name)
        else {
            let is_alone = !self.values.history.has(address);
            if is_alone && self.values.latest(address, Time::ZERO).is_some_and(named) {
                self.values.clear(address);
                self.persist_of(message, &Record::Cleared { address }, safety);
            }
            return;
        };
        let and_last = self.values.forget_if_last(&kept.message, neutral);
        let record = forgotten(address, (kept.number, kept.number), and_last);
        self.persist_of(message, &record, safety);
    }

    /// Drops what the limits, which are new, leave no place for.
    pub(crate) fn shorten_history(&mut self) {
        if self.values.history.count() == 0 {
            return;
        }
        let limits = self.env.limits();
        let gone = self
            .values
            .history
            .shorten(|newest| limits.depth_with(newest));
        for (address, number) in gone {
            self.persist_if_journal(&forgotten(&address, (number, number), false), Safety::Lazy);
        }
    }

    /// Takes up what an earlier run has kept of an address, by number, oldest first.
    pub(crate) fn restore_kept(
        &mut self,
        address: &str,
        kept: &[(u64, Option<Message>)],
        now: Time,
    ) {
        let (limits, neutral) = (self.env.limits(), self.env.neutral());
        let messages = kept.iter().filter_map(|(_, it)| it.as_ref());
        // The newest of each source counts.
        let depth_of = |it| (source_of(it), limits.depth_with(it));
        let depths: BTreeMap<_, _> = messages.clone().map(depth_of).collect();
        let newest = messages.clone().next_back();
        let is_alone = newest.is_none_or(|it| depth_of(it).1.is_none());
        let mut oldest = 0;
        for (number, message) in kept.iter().cloned() {
            match message {
                _ if is_alone => oldest = number + 1,
                Some(message) if message.expires() <= now => {
                    let record = forgotten(address, (number, number), false);
                    self.persist_if_journal(&record, Safety::Lazy);
                }
                Some(message) => {
                    let (id, room) = (name_of(&message, neutral), self.room_for_history());
                    let history = &mut self.values.history;
                    let depth = depths.get(&source_of(&message)).copied().flatten();
                    let depth = depth.unwrap_or(1);
                    let Added { kept, gone } = history.add(Some(number), message, id, depth, room);
                    oldest = oldest.max(kept.oldest);
                    for number in gone {
                        let record = forgotten(address, (number, number), false);
                        self.persist_if_journal(&record, Safety::Lazy);
                    }
                }
                None => {}
            }
        }
        if oldest > 0 {
            let record = forgotten(address, (0, oldest - 1), false);
            self.persist_if_journal(&record, Safety::Lazy);
        }
    }

    /// Writes down what a message has changed of its address.
    fn persist_of(&mut self, message: &Message, record: &Record<'_>, safety: Safety) {
        if message.publisher() != 0 || !message.address().starts_with('$') {
            // Who is answered for it waits until it is written.
            self.journal.promise();
            self.persist_if_journal(record, safety);
        }
    }

    fn persist_if_journal(&mut self, record: &Record<'_>, safety: Safety) {
        if self.env.limits().journal {
            self.journal.persist(record, safety);
        }
    }
}

/// The record of kept messages that are gone, from the first of these numbers to the last.
pub(crate) fn forgotten(address: &str, (first, last): (u64, u64), and_last: bool) -> Record<'_> {
    Record::Forgotten {
        address,
        first,
        last,
        and_last,
    }
}
