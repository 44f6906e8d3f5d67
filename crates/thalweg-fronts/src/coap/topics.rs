//! The topics of the pubsub draft that a shard knows: by id, by the address of their data. Pure data.
//!
//! What is known comes from messages, so that every shard knows the same and it survives the process: a topic's
//! configuration is the last value of `$ps/<id>`, made and changed by publishing there, deleted by clearing it. A
//! change is first worked out ([`Topics::plan`], [`Topics::plan_change`]), then published, and takes effect when that
//! message arrives, here as on every other shard ([`Topics::apply`]).
//!
//! A topic may say how many observe its data at most. Observers are on several shards, so each shard publishes how many it
//! has to `$ps/<id>/<shard>`, kept by nobody ([`Topics::take_announcements`], [`Topics::apply_count`]). If two shards let
//! in the last one at the same time, both see it a moment later and the higher one takes it back ([`Topics::surplus`]).
//!
//! *Must never know:* the kernel, a link, a peer, what time it is.

use super::data_uri::{DataUri, in_its_tenant};
use hashbrown::HashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use thalweg_coap::Code;
use thalweg_coap::pubsub::{Configuration, Refusal, TopicFilter};

/// A topic's name in paths: eight letters and digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId([u8; 8]);

#[derive(Debug)]
pub(super) struct Topic {
    /// What is said about it.
    pub(super) configuration: Configuration,
    /// The canonical address of its data; nothing if another server has them.
    pub(super) address: Option<Box<str>>,
    /// Observers of its data, on this shard.
    observers: u32,
    /// The number that was last published to the other shards.
    announced: u32,
    /// Observers of its data on other shards, by shard.
    elsewhere: BTreeMap<u16, u32>,
}

/// All topics of a tenant, as one shard knows them.
#[derive(Debug)]
pub(super) struct Topics {
    tenant: Box<str>,
    shard: u16,
    by_id: BTreeMap<TopicId, Topic>,
    by_address: HashMap<Box<str>, TopicId, foldhash::fast::RandomState>,
    expiring: BTreeSet<(u64, TopicId)>,
    /// Topics whose address another topic has as well; only made by two shards at the same moment.
    contested: usize,
    changed_counts: BTreeSet<TopicId>,
}

/// What a message about a topic has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Applied {
    /// There is a new topic.
    New,
    /// It is another now than before; observers may be too many.
    Changed,
    /// It is what it was.
    Same,
    /// It is gone, and so are the data at this address; nothing if it had none here.
    Gone(Option<Box<str>>),
    Unknown,
}

/// What to do with a request to observe an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seat {
    /// Admitted; to be counted down at the end if there is a topic.
    Taken,
    /// There are as many as the topic allows: answer without Observe. Draft §3.2.2
    None,
}

/// How a topic is to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// By POST: what is not said goes back to its default.
    Replace,
    /// By iPATCH: what is not said stays.
    Patch,
}

/// Why a topic cannot be made or changed so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unplanned {
    /// The map is wrong.
    Refused(Refusal),
    /// The reference to its data is wrong.
    DataUri(&'static str),
    /// A first value for data that another server has.
    InitializeElsewhere,
    /// Another topic is called so.
    NameInUse,
    /// Another topic has its data there.
    AddressInUse,
    /// There are as many topics as there may be.
    Full,
    /// There is no such topic.
    NoTopic,
}

impl Topics {
    /// No topics yet, as the shard of this number knows them.
    pub(super) fn new(tenant: &str, shard: u16) -> Self {
        Topics {
            tenant: tenant.into(),
            shard,
            by_id: BTreeMap::new(),
            by_address: HashMap::default(),
            expiring: BTreeSet::new(),
            contested: 0,
            changed_counts: BTreeSet::new(),
        }
    }

    /// The topic whose data are at a canonical address. Asked with every publish.
    #[inline]
    pub(super) fn at(&self, address: &str) -> Option<&Topic> {
        if self.by_address.is_empty() {
            return None;
        }
        self.by_address
            .get(address)
            .and_then(|id| self.by_id.get(id))
    }

    /// The id of that topic.
    pub(super) fn id_at(&self, address: &str) -> Option<TopicId> {
        self.by_address.get(address).copied()
    }

    /// The topic of an id, as paths say it.
    pub(super) fn find(&self, id: &str) -> Option<(TopicId, &Topic)> {
        let id = TopicId::parse(id)?;
        self.by_id.get(&id).map(|topic| (id, topic))
    }

    /// The topic of an id.
    pub(super) fn get(&self, id: TopicId) -> Option<&Topic> {
        self.by_id.get(&id)
    }

    /// All of them that a filter wants, in the order of their ids.
    pub(super) fn matching(&self, filter: &TopicFilter) -> impl Iterator<Item = (TopicId, &Topic)> {
        self.by_id
            .iter()
            .filter(|(_, topic)| filter.matches(&topic.configuration))
            .map(|(id, topic)| (*id, topic))
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The address where a topic's configuration is kept.
    pub(super) fn kept_at(&self, id: TopicId) -> Box<str> {
        in_its_tenant(&self.tenant, &format!("$ps/{id}"))
    }

    /// The address where this shard says how many observers it has.
    pub(super) fn counted_at(&self, id: TopicId) -> Box<str> {
        in_its_tenant(&self.tenant, &format!("$ps/{id}/{}", self.shard))
    }

    /// What a new topic would be, with everything chosen that its maker has left open. Draft §2.4.3
    pub(super) fn plan(
        &self,
        mut configuration: Configuration,
        topics_max: usize,
        now_secs: u64,
    ) -> Result<(TopicId, Configuration), Unplanned> {
        configuration
            .check_expiration(now_secs)
            .map_err(Unplanned::Refused)?;
        let id = self.unused_id(&configuration.name)?;
        if self.by_id.len() >= topics_max {
            return Err(Unplanned::Full);
        }
        if configuration.data.is_empty() {
            configuration.data =
                DataUri::write(&self.unused_address(&configuration.name, id)).into();
            return Ok((id, configuration));
        }
        match DataUri::read(&configuration.data, &self.tenant).map_err(Unplanned::DataUri)? {
            DataUri::Here(address) if self.by_address.contains_key(&address) => {
                return Err(Unplanned::AddressInUse);
            }
            DataUri::Here(_) if !configuration.data.starts_with('/') => {
                configuration.data = format!("/{}", configuration.data).into();
            }
            DataUri::Here(_) => {}
            DataUri::Elsewhere if configuration.initialize.is_some() => {
                return Err(Unplanned::InitializeElsewhere);
            }
            DataUri::Elsewhere => {}
        }
        Ok((id, configuration))
    }

    /// What would become of a topic. Draft §2.5.3, §2.5.4
    pub(super) fn plan_change(
        &self,
        id: TopicId,
        how: Change,
        payload: &[u8],
        now_secs: u64,
    ) -> Result<Configuration, Unplanned> {
        let is = &self.by_id.get(&id).ok_or(Unplanned::NoTopic)?.configuration;
        let becomes = match how {
            Change::Replace => is.replaced_by(payload),
            Change::Patch => is.patched_by(payload),
        }
        .map_err(Unplanned::Refused)?;
        if becomes.expiration != is.expiration {
            becomes
                .check_expiration(now_secs)
                .map_err(Unplanned::Refused)?;
        }
        Ok(becomes)
    }

    /// Takes note of what was published to `$ps/<id>`: a configuration, or nothing if it was cleared. It may come from
    /// any publisher; the error says why it is no topic, and then everything stays as it was.
    pub(super) fn apply(&mut self, id: &str, payload: Option<&[u8]>) -> Result<Applied, Unplanned> {
        let id = TopicId::parse(id).ok_or(Unplanned::NoTopic)?;
        let Some(payload) = payload else {
            return Ok(match self.remove(id) {
                Some(topic) => Applied::Gone(topic.address),
                None => Applied::Unknown,
            });
        };
        let configuration = Configuration::decode(payload).map_err(Unplanned::Refused)?;
        let address =
            match DataUri::read(&configuration.data, &self.tenant).map_err(Unplanned::DataUri)? {
                DataUri::Here(address) => Some(address),
                DataUri::Elsewhere => None,
            };
        let before = self.by_id.get(&id);
        if before.is_some_and(|topic| topic.configuration == configuration) {
            return Ok(Applied::Same);
        }
        // Observers stay with the data's address; a topic that is moved by hand leaves them behind.
        let kept = before
            .filter(|topic| topic.address == address)
            .map(|topic| {
                let Topic {
                    observers,
                    announced,
                    elsewhere,
                    ..
                } = topic;
                (*observers, *announced, elsewhere.clone())
            });
        let applied = if before.is_some() {
            Applied::Changed
        } else {
            Applied::New
        };
        self.remove(id);
        let (observers, announced, elsewhere) = kept.unwrap_or_default();
        if let Some(end) = configuration.expiration {
            self.expiring.insert((end, id));
        }
        if let Some(address) = &address {
            match self.by_address.get_mut(address) {
                // The same one on every shard, in whatever order they hear of both.
                Some(other) => {
                    *other = id.min(*other);
                    self.contested += 1;
                }
                None => {
                    self.by_address.insert(address.clone(), id);
                }
            }
        }
        self.by_id.insert(
            id,
            Topic {
                configuration,
                address,
                observers,
                announced,
                elsewhere,
            },
        );
        self.note_count(id);
        Ok(applied)
    }

    fn remove(&mut self, id: TopicId) -> Option<Topic> {
        let topic = self.by_id.remove(&id)?;
        self.changed_counts.remove(&id);
        if let Some(end) = topic.configuration.expiration {
            self.expiring.remove(&(end, id));
        }
        let Some(address) = &topic.address else {
            return Some(topic);
        };
        let heir = match self.contested {
            0 => None,
            _ => self
                .by_id
                .iter()
                .find(|(_, other)| other.address.as_ref() == Some(address))
                .map(|(id, _)| *id),
        };
        match heir {
            Some(heir) => {
                self.contested -= 1;
                if let Some(owner) = self.by_address.get_mut(address) {
                    *owner = heir;
                }
            }
            None => {
                self.by_address.remove(address);
            }
        }
        Some(topic)
    }

    /// When the next topic ends, in seconds since 1970.
    pub(super) fn next_expiry(&self) -> Option<u64> {
        self.expiring.first().map(|(end, _)| *end)
    }

    /// Topics that have expired: the caller deletes them, as a peer would. They are returned again until they are gone.
    pub(super) fn expired(&self, now_secs: u64) -> impl Iterator<Item = TopicId> {
        self.expiring
            .iter()
            .take_while(move |(end, _)| *end <= now_secs)
            .map(|(_, id)| *id)
    }

    /// Counts a new observer of a canonical address, if there is room for it.
    pub(super) fn take_seat(&mut self, address: &str) -> Seat {
        let Some((id, topic)) = self.at_mut(address) else {
            return Seat::Taken;
        };
        if topic.is_full() {
            return Seat::None;
        }
        topic.observers += 1;
        self.note_count(id);
        Seat::Taken
    }

    /// Counts an observer that has left.
    pub(super) fn give_seat_back(&mut self, address: &str) {
        let Some((id, topic)) = self.at_mut(address) else {
            return;
        };
        topic.observers = topic.observers.saturating_sub(1);
        self.note_count(id);
    }

    /// So many observe a canonical address: to be said when a topic is new at an address that was observed before.
    pub(super) fn set_observers(&mut self, address: &str, observers: u32) {
        let Some((id, topic)) = self.at_mut(address) else {
            return;
        };
        topic.observers = observers;
        self.note_count(id);
    }

    /// What has to be published to the other shards: topics whose observers here have changed in number. Only of topics
    /// that limit them.
    pub(super) fn take_announcements(&mut self) -> Vec<(TopicId, u32)> {
        let mut announcements = Vec::new();
        for id in std::mem::take(&mut self.changed_counts) {
            if let Some(topic) = self.by_id.get_mut(&id) {
                topic.announced = topic.observers;
                announcements.push((id, topic.observers));
            }
        }
        announcements
    }

    /// Takes note of what was published to `$ps/<id>/<shard>`: a number as text. False if that is nothing of the kind, or
    /// our own.
    pub(super) fn apply_count(&mut self, id: &str, shard: &str, payload: &[u8]) -> bool {
        let count = std::str::from_utf8(payload)
            .ok()
            .and_then(|text| text.parse().ok());
        let (Some(id), Ok(shard), Some(count)) = (TopicId::parse(id), shard.parse::<u16>(), count)
        else {
            return false;
        };
        let Some(topic) = self
            .by_id
            .get_mut(&id)
            .filter(|_| shard != self.shard && shard < SHARDS_MAX)
        else {
            return false;
        };
        match count {
            0 => topic.elsewhere.remove(&shard),
            count => topic.elsewhere.insert(shard, count),
        };
        true
    }

    /// How many of a topic's observers on this shard are too many. They end with 4.04 (draft §2.5.3), the newest first; the
    /// draft leaves that to us. Shards of lower numbers keep theirs, so that all come to the same end.
    pub(super) fn surplus(&self, id: TopicId) -> u32 {
        let Some(topic) = self.by_id.get(&id) else {
            return 0;
        };
        let Some(max) = topic.configuration.max_subscribers else {
            return 0;
        };
        let before_us = topic
            .elsewhere
            .range(..self.shard)
            .map(|(_, count)| *count)
            .fold(0, u32::saturating_add);
        topic
            .observers
            .saturating_sub(max.saturating_sub(before_us))
    }

    fn at_mut(&mut self, address: &str) -> Option<(TopicId, &mut Topic)> {
        let id = *self.by_address.get(address)?;
        self.by_id.get_mut(&id).map(|topic| (id, topic))
    }

    fn note_count(&mut self, id: TopicId) {
        let Some(topic) = self.by_id.get(&id) else {
            return;
        };
        if topic.configuration.max_subscribers.is_some() && topic.observers != topic.announced {
            self.changed_counts.insert(id);
        } else {
            self.changed_counts.remove(&id);
        }
    }

    /// The id of a new topic. It follows from the name, so that two shards that make the same topic at the same moment
    /// have made one.
    fn unused_id(&self, name: &str) -> Result<TopicId, Unplanned> {
        let ids = (0..ID_ATTEMPTS).map(|attempt| TopicId::of(name, attempt));
        let mut unused = None;
        for id in ids {
            match self.by_id.get(&id) {
                Some(topic) if *topic.configuration.name == *name => {
                    return Err(Unplanned::NameInUse);
                }
                Some(_) => {}
                None => unused = unused.or(Some(id)),
            }
        }
        unused.ok_or(Unplanned::Full)
    }

    /// Where a topic's data are by default, without the tenant: at the address of its name, so that peers of other
    /// protocols find them; else at an unused address.
    fn unused_address(&self, name: &str, id: TopicId) -> String {
        let unused = |address: &&str| {
            !self
                .by_address
                .contains_key(&*in_its_tenant(&self.tenant, address))
        };
        DataUri::of_name(name)
            .filter(unused)
            .map_or_else(|| format!("topics/{id}"), str::to_owned)
    }
}

/// Ids that are tried for a name; that so many are taken by other names does not happen by chance.
const ID_ATTEMPTS: u64 = 4;

/// There are never so many shards; a peer that may write to `$ps/#` must not fill our memory with made-up ones.
const SHARDS_MAX: u16 = 1_024;

impl Topic {
    fn is_full(&self) -> bool {
        let elsewhere = self
            .elsewhere
            .values()
            .copied()
            .fold(0, u32::saturating_add);
        self.configuration
            .max_subscribers
            .is_some_and(|max| self.observers.saturating_add(elsewhere) >= max)
    }

    /// The observers of its data on this shard.
    pub(super) fn observers(&self) -> u32 {
        self.observers
    }
}

impl TopicId {
    /// 32 characters that cannot be mistaken for each other.
    const SIGNS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

    /// The id a name has at this attempt.
    fn of(name: &str, attempt: u64) -> TopicId {
        let mut hash = scatter(name.as_bytes(), attempt);
        TopicId([(); 8].map(|()| {
            let sign = TopicId::SIGNS[(hash & 31) as usize];
            hash >>= 5;
            sign
        }))
    }

    /// The id that stands in a path.
    pub(super) fn parse(text: &str) -> Option<TopicId> {
        let id: [u8; 8] = text.as_bytes().try_into().ok()?;
        id.iter()
            .all(|sign| TopicId::SIGNS.contains(sign))
            .then_some(TopicId(id))
    }

    /// As paths have it.
    pub(super) fn as_str(&self) -> &str {
        // Only `of` and `parse` make ids, of signs of ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// FNV-1a and a last mixing. Nothing depends on it being hard to invert: a client that may make topics may also make
/// two with the same hash, and the second gets another id.
fn scatter(bytes: &[u8], seed: u64) -> u64 {
    let start = 0xCBF2_9CE4_8422_2325 ^ seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut hash = bytes.iter().fold(start, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3)
    });
    for _ in 0..2 {
        hash = (hash ^ hash >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    }
    hash ^ hash >> 32
}

impl Unplanned {
    /// The code of the answer; this is its diagnostic payload.
    pub(super) fn code(self) -> Code {
        match self {
            Unplanned::Refused(refusal) => refusal.code(),
            Unplanned::DataUri(_) | Unplanned::InitializeElsewhere => Code::BAD_REQUEST,
            // Draft §2.4.3 wants a 4.xx; this one says which.
            Unplanned::NameInUse | Unplanned::AddressInUse => Code::CONFLICT,
            Unplanned::Full => Code::SERVICE_UNAVAILABLE,
            Unplanned::NoTopic => Code::NOT_FOUND,
        }
    }
}

impl fmt::Display for Unplanned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unplanned::Refused(refusal) => refusal.fmt(f),
            Unplanned::DataUri(why) => f.write_str(why),
            Unplanned::InitializeElsewhere => {
                f.write_str("initialize is for topic-data at this broker")
            }
            Unplanned::NameInUse => f.write_str("topic-name is in use"),
            Unplanned::AddressInUse => f.write_str("topic-data is in use by another topic"),
            Unplanned::Full => f.write_str("there is no room for another topic"),
            Unplanned::NoTopic => f.write_str("there is no such topic"),
        }
    }
}

#[cfg(test)]
#[path = "topics_tests.rs"]
mod tests;
