//! The endpoints of a bridge: for writers of others readers of ours, for readers of others writers.

use crate::calls::{self, Served, Services};
use crate::cdr;
use crate::counts::Counts;
use crate::cyclone::{Endpoint, Guid, Participant, Reader, SampleKind, Topic};
use crate::frame::{self, Retain, ToBroker};
use crate::gathered::Gathered;
use crate::holders::{Held, Holders};
use crate::instances::Instances;
use crate::left::Left;
use crate::name::{self, Place, Role};
use crate::qos::{Class, Qos};
use crate::relief::Spent;
use crate::remarks::{self, Unmatched};
use crate::settings::DdsSettings;
use crate::target::Target;
use crate::types::Known;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Endpoints of others that are known at once; what is discovered beyond is not bridged.
const ENDPOINTS_MAX: usize = 8192;

/// Interval above which samples are taken in the thread that receives them.
const SELDOM: Duration = Duration::from_micros(250);

/// State behind a lock; no code here panics while it holds one.
pub(crate) fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Properties that endpoints must share to use one of ours.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    topic: Topic,
    partitions: Vec<String>,
    class: Class,
}

/// Readers of ours, in the thread that reads.
pub(crate) struct Incoming {
    settings: Arc<DdsSettings>,
    counts: Arc<Counts>,
    /// The reader that each writer of others is read by.
    remote: HashMap<Guid, Key>,
    tokens: HashMap<Key, u32>,
    readers: HashMap<u32, In>,
    token_next: u32,
    /// Readers in which samples may wait that are not reported: the rest of many, or of a writer that has gone.
    left: Vec<u32>,
    held: Held,
    /// What lasting writers had written before the broker was restarted.
    before: Arc<Mutex<Left>>,
    /// Until then samples come often.
    busy_until: Instant,
}

/// A reader of ours.
struct In {
    reader: Reader,
    address: String,
    role: Role,
    class: Class,
    /// Of samples that stay as they are, in XCDR1 and in XCDR2.
    content_types: [String; 2],
    is_keyless: bool,
    /// Instances have addresses of their own, below this one.
    instances: Option<Instances>,
    /// The address of the last sample, with the level of its instance or writer.
    below: String,
    /// The source of the last sample of a lasting writer.
    source: String,
    /// The type, if its values become JSON.
    json: Option<Known>,
    is_retained: bool,
    remote: HashSet<Guid>,
    /// Whether a deadline was missed since the last sample, and whether a writer is alive.
    is_late: bool,
    is_alive: bool,
    /// The writers of samples; nothing for those that have readers of their own.
    writers: HashMap<u64, Option<Author>>,
    /// The instance that the last value is of.
    last_key: [u8; 16],
    /// What lasting writers hold, if their last values end with them.
    holders: Option<Holders>,
    /// Those have addresses of their own, below this one.
    has_writers: bool,
    /// Writers that have gone, and may have samples here still.
    gone: Vec<Guid>,
}

/// The writer of a sample; of one that has gone nothing is known.
#[derive(Clone, Copy, Debug, Default)]
struct Author {
    guid: Option<Guid>,
    lifespan: Option<Duration>,
    /// Samples of an instance that it holds for readers that come later.
    keeps: u16,
    /// It announces another type of the name.
    is_other: bool,
}

impl Incoming {
    pub(crate) fn new(
        settings: Arc<DdsSettings>,
        counts: Arc<Counts>,
        before: Arc<Mutex<Left>>,
    ) -> Self {
        Incoming {
            settings,
            counts,
            remote: HashMap::new(),
            tokens: HashMap::new(),
            readers: HashMap::new(),
            token_next: 0,
            left: Vec::new(),
            held: Held::default(),
            before,
            busy_until: Instant::now(),
        }
    }

    /// Whether samples come seldom, of all readers, and this one does not end when they are taken.
    pub(crate) fn is_calm(&mut self, token: u32) -> bool {
        let now = Instant::now();
        let is_seldom = now >= self.busy_until;
        self.busy_until = now + SELDOM;
        let found = self.readers.get(&token);
        // With a sample of a lasting writer may come what it wrote before.
        is_seldom && found.is_some_and(|it| !it.remote.is_empty() && it.holders.is_none())
    }

    pub(crate) fn on_writer(&mut self, endpoint: Endpoint, participant: &Participant) {
        self.leave(&endpoint.guid);
        let Some(place) = place_of(&endpoint, &self.settings, &self.counts) else {
            return;
        };
        let Place { address, role } = place;
        // A service of the broker's is offered only where it is known to be one.
        if role == Role::Request && !self.settings.is_served(&address) {
            return;
        }
        let Endpoint {
            guid, topic, qos, ..
        } = endpoint;
        let remarks = &self.counts.remarks;
        if self.remote.len() >= ENDPOINTS_MAX {
            return remarks.add_unmatched(&guid, &topic.name, Unmatched::Limit);
        }
        let key = Key {
            class: qos.class(),
            partitions: qos.partitions.clone(),
            topic,
        };
        if let Some(found) = self
            .tokens
            .get(&key)
            .and_then(|it| self.readers.get_mut(it))
        {
            found.remote.insert(guid);
            self.remote.insert(guid, key);
            return;
        }
        self.token_next = self.token_next.wrapping_add(1);
        let token = self.token_next;
        let request = Qos::of_reader_for(&qos, self.settings.separation_at(&address));
        let is_watched = key.class.is_watched;
        let reader = match participant.reader(&key.topic, &request, token, is_watched) {
            Ok(reader) => reader,
            Err(error) => {
                tracing::warn!(topic = key.topic.name, %error, "a DDS writer is not read");
                return remarks.add_unmatched(&guid, &key.topic.name, Unmatched::Failed);
            }
        };
        tracing::info!(topic = key.topic.name, address, "reading DDS samples");
        let is_json = self.settings.is_json(&address);
        let known = participant.known(&key.topic.type_name, is_json);
        // Of exclusive writers only the strongest is heard, and `dds.retain` outlives writers.
        let has_holders = role == Role::Topic
            && key.class.is_durable
            && !key.class.is_exclusive
            && !self.settings.is_retained(&address);
        let has_instances = self.settings.has_instances(key.topic.is_keyless, &address);
        let is_shared = !key.topic.is_keyless && !has_instances;
        let made = In {
            reader,
            class: key.class,
            content_types: cdr::content_types(&key.topic.type_name),
            is_keyless: key.topic.is_keyless,
            instances: has_instances.then(|| Instances::of(known.as_ref())),
            below: String::new(),
            source: String::new(),
            json: known.filter(|_| is_json),
            is_retained: role == Role::Topic
                && (key.class.is_durable || self.settings.is_retained(&address)),
            role,
            remote: HashSet::from([guid]),
            writers: HashMap::new(),
            last_key: [0; 16],
            is_late: false,
            is_alive: true,
            holders: has_holders.then(|| Holders::of(&self.held, is_shared)),
            has_writers: has_holders && self.settings.has_writers(key.topic.is_keyless, &address),
            gone: Vec::new(),
            address,
        };
        made.remark(token, remarks);
        self.readers.insert(token, made);
        self.tokens.insert(key.clone(), token);
        self.remote.insert(guid, key);
    }

    pub(crate) fn on_gone(&mut self, guid: &Guid) {
        let Some(token) = self.leave(guid) else {
            return;
        };
        if let Some(found) = self.readers.get_mut(&token)
            && found.holders.is_some()
        {
            found.gone.push(*guid);
            self.left.push(token);
        }
    }

    /// A writer has gone, or is announced anew; the reader that it had.
    fn leave(&mut self, guid: &Guid) -> Option<u32> {
        self.counts.remarks.forget(guid);
        let key = self.remote.remove(guid)?;
        let token = *self.tokens.get(&key)?;
        let found = self.readers.get_mut(&token)?;
        found.remote.remove(guid);
        found.writers.clear();
        if found.remote.is_empty() {
            self.tokens.remove(&key);
            self.left.push(token);
            self.counts.remarks.set_topic(token, None);
        }
        Some(token)
    }

    /// Readers that are to be taken from beside those that are reported.
    pub(crate) fn take_left(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.left)
    }

    /// More of what waits in a reader is to be taken later.
    pub(crate) fn leave_rest(&mut self, token: u32) {
        if !self.left.contains(&token) {
            self.left.push(token);
        }
    }

    /// The readers of topics of ROS 2.
    pub(crate) fn of_ros(&self) -> Vec<Guid> {
        let tokens = self.tokens.iter();
        let of_ros = tokens.filter(|(key, _)| name::is_of_ros(&key.topic.name));
        let readers = of_ros.filter_map(|(_, token)| self.readers.get(token));
        readers.map(|it| it.reader.guid).collect()
    }

    /// A watched reader has noticed something of its writers.
    pub(crate) fn notice(&mut self, token: u32) {
        let Some(found) = self.readers.get_mut(&token) else {
            return;
        };
        let noticed = found.reader.noticed();
        let missed = &self.counts.deadlines_missed;
        missed.fetch_add(noticed.deadlines_missed, Ordering::Relaxed);
        let silent = &self.counts.silent;
        silent.fetch_add(noticed.fell_silent, Ordering::Relaxed);
        found.is_late |= noticed.deadlines_missed > 0;
        found.is_alive = noticed.is_alive;
        if !found.remote.is_empty() {
            found.remark(token, &self.counts.remarks);
        }
    }

    /// Appends what waits in a reader, and sends it whenever enough is gathered; false if there may be more.
    pub(crate) fn take(
        &mut self,
        token: u32,
        services: &Mutex<Services>,
        out: &mut Gathered<'_>,
    ) -> bool {
        let Some(found) = self.readers.get_mut(&token) else {
            return true;
        };
        let of = (&*self.settings, &*self.counts, &*self.before);
        let is_empty = found.take(of, services, out);
        if found.class.is_watched && !found.remote.is_empty() {
            found.remark(token, &self.counts.remarks);
        }
        if is_empty && let Some(holders) = &mut found.holders {
            for guid in found.gone.drain(..) {
                holders.forget(&guid, Instant::now(), &mut out.frames);
            }
        }
        if is_empty && found.remote.is_empty() {
            tracing::info!(address = found.address, "no DDS writer is left");
            self.readers.remove(&token);
        }
        is_empty
    }
}

impl In {
    /// Writes down whether the topic's writers keep what they promise, if they promise anything.
    fn remark(&self, token: u32, remarks: &remarks::Remarks) {
        let topic = remarks::Topic {
            address: self.address.clone(),
            is_silent: self.is_late || !self.is_alive,
        };
        remarks.set_topic(token, Some(topic).filter(|_| self.class.is_watched));
    }

    fn take(
        &mut self,
        (settings, counts, before): (&DdsSettings, &Counts, &Mutex<Left>),
        services: &Mutex<Services>,
        out: &mut Gathered<'_>,
    ) -> bool {
        let In {
            reader,
            writers,
            class,
            last_key,
            instances,
            below,
            source,
            is_late,
            holders,
            ..
        } = self;
        let (address, json) = (&self.address, self.json.as_ref());
        let content_types = &self.content_types;
        let (is_keyless, is_retained) = (self.is_keyless, self.is_retained);
        let (role, has_instances) = (self.role, instances.is_some());
        let has_writers = self.has_writers;
        let count = reader.take(|sample| {
            out.send_if_enough();
            let author = *writers.entry(sample.writer).or_insert_with(|| {
                // A reader also receives from writers that offer more than it requests; those have readers of their
                // own.
                match reader.writer(sample.writer) {
                    Some(Endpoint {
                        qos, guid, type_id, ..
                    }) => (qos.class() == *class).then_some(Author {
                        guid: Some(guid),
                        lifespan: qos.lifespan,
                        keeps: qos.depth_for_late(),
                        is_other: json.is_some_and(|it| !it.is_of(type_id)),
                    }),
                    None => Some(Author::default()),
                }
            });
            let Some(author) = author else {
                return;
            };
            let Author { guid, lifespan, .. } = author;
            *is_late = false;
            below.clear();
            below.push_str(address);
            match (instances.as_mut(), guid) {
                (Some(_), _) if author.is_other => {
                    below.push('/');
                    name::push_key_level(&sample.key, below);
                }
                (Some(instances), _) => {
                    below.push('/');
                    instances.push_level(&sample, below);
                }
                (None, Some(guid)) if has_writers => {
                    below.push('/');
                    below.push_str(&name::writer_level(&guid));
                }
                _ => {}
            }
            let mut published = frame::Sample {
                is_reliable: class.is_reliable,
                address: below,
                ..frame::Sample::default()
            };
            if sample.kind == SampleKind::Dispose {
                if let Some(holders) = holders {
                    // What one that has gone held ends with it, and what others hold does not.
                    if guid.is_some() {
                        let now = Instant::now();
                        holders.dispose(sample.key, published.address, now, &mut out.frames);
                    }
                    return;
                }
                // An instance that has gone takes the last value along only if that is its own.
                if is_retained && (is_keyless || has_instances || *last_key == sample.key) {
                    published.retain = Retain::Clear;
                    out.publish(ToBroker::Publish, published);
                }
                return;
            }
            if sample.bytes.len() > settings.payload_max {
                return Counts::add(&counts.too_long);
            }
            *last_key = sample.key;
            // No writer holds what came from a lasting writer that has gone.
            if is_retained {
                published.retain = match (&holders, guid) {
                    (None, _) => Retain::Set,
                    (Some(_), Some(_)) => Retain::Lasting,
                    (Some(_), None) => Retain::No,
                };
            }
            published.expires_in = lifespan.map_or(0, |it| it.as_nanos() as u64);
            let call = match role {
                Role::Topic => None,
                Role::Request | Role::Reply => match calls::cut(sample.bytes) {
                    Some(call) => Some(call),
                    None => return Counts::add(&counts.unreadable),
                },
            };
            let id = call.as_ref().map(|(id, _)| *id);
            let bytes = call.as_ref().map_or(sample.bytes, |(_, bytes)| bytes);
            let text = json.filter(|_| !author.is_other);
            let text = text.and_then(|known| known.text_of(bytes, settings.payload_max));
            published.content_type = match text {
                Some(_) => "application/json",
                None => &content_types[usize::from(cdr::is_xcdr2(bytes))],
            };
            published.payload = text.as_deref().map_or(bytes, str::as_bytes);
            let is_encoded = match (role, id) {
                (Role::Request, Some(id)) => {
                    let address = address.clone();
                    let (correlation, is_full) = locked(services).serve(Served { id, address });
                    if is_full {
                        Counts::add(&counts.unanswered);
                    }
                    published.correlation = correlation.as_bytes();
                    out.publish(ToBroker::Ask, published)
                }
                (Role::Reply, Some(id)) => {
                    let asked = {
                        let mut services = locked(services);
                        if id.client != services.client {
                            // Another client of that service asked.
                            return;
                        }
                        services.asked.take(id.number)
                    };
                    let Some(asked) = asked else {
                        return Counts::add(&counts.unanswered);
                    };
                    published.address = &asked.reply_to;
                    published.correlation = &asked.correlation;
                    out.publish(ToBroker::Publish, published)
                }
                _ => {
                    if let (Some(holders), Some(guid)) = (holders.as_mut(), guid) {
                        let now = Instant::now();
                        source.clear();
                        if holders.add(guid, sample.key, &published, now) {
                            holders.push_source(&guid, &sample.key, source);
                            published.keeps = author.keeps;
                        }
                        published.source = source;
                        if published.keeps > 1 {
                            locked(before).tell_before(&published, now, &mut out.frames);
                        }
                    }
                    out.publish(ToBroker::Publish, published)
                }
            };
            if !is_encoded {
                Counts::add(&counts.too_long);
            }
        });
        count < Reader::TAKEN_MAX
    }
}

/// The place of an endpoint that is bridged.
fn place_of(endpoint: &Endpoint, settings: &DdsSettings, counts: &Counts) -> Option<Place> {
    let topic = &endpoint.topic.name;
    match name::place_of(&endpoint.qos.partitions, topic, &settings.ros) {
        Ok(place) => settings.is_bridged(&place.address).then_some(place),
        Err(name::NoAddress::Private) => None,
        Err(why) => {
            let why = match why {
                name::NoAddress::Partitions => Unmatched::Partition,
                _ => Unmatched::Address,
            };
            counts.remarks.add_unmatched(&endpoint.guid, topic, why);
            None
        }
    }
}

/// Writers of ours: filled by the thread that reads, used by the one that writes.
pub(crate) struct Outgoing {
    settings: Arc<DdsSettings>,
    counts: Arc<Counts>,
    /// Terms under which the other participants' readers are served.
    remote: HashMap<Guid, Key>,
    writers: HashMap<Key, Out>,
    by_address: BTreeMap<String, Vec<Key>>,
    /// By the address of their service: writers of answers, which the broker is not asked for.
    answering: BTreeMap<String, Vec<Key>>,
    spent: Spent,
}

/// The writer that serves some readers.
struct Out {
    address: String,
    role: Role,
    has_levels: bool,
    remote: HashMap<Guid, Qos>,
    offered: Option<Qos>,
    target: Option<Arc<Target>>,
    /// The broker was asked for last values since the writer was made: late readers get them from the writer.
    has_last_values: bool,
}

/// Subscriptions to request of the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    Begins { address: String, is_late: bool },
    Ends { address: String },
}

impl Outgoing {
    pub(crate) fn new(settings: Arc<DdsSettings>, counts: Arc<Counts>) -> Self {
        Outgoing {
            settings,
            counts,
            remote: HashMap::new(),
            writers: HashMap::new(),
            by_address: BTreeMap::new(),
            answering: BTreeMap::new(),
            spent: Spent::default(),
        }
    }

    pub(crate) fn on_reader(
        &mut self,
        endpoint: Endpoint,
        participant: &Participant,
    ) -> Vec<Interest> {
        let mut interests = self.on_gone(&endpoint.guid, participant);
        let Some(place) = place_of(&endpoint, &self.settings, &self.counts) else {
            return interests;
        };
        let Place { address, role } = place;
        if role == Role::Reply && !self.settings.is_served(&address) {
            return interests;
        }
        let Endpoint {
            guid, topic, qos, ..
        } = endpoint;
        let why = match self.remote.len() {
            ENDPOINTS_MAX.. => Some(Unmatched::Limit),
            _ if !qos.is_servable() => Some(Unmatched::Durability),
            _ => None,
        };
        if let Some(why) = why {
            self.counts.remarks.add_unmatched(&guid, &topic.name, why);
            return interests;
        }
        let is_late = qos.class().is_durable;
        let key = Key {
            topic,
            partitions: qos.partitions.clone(),
            class: Class {
                is_exclusive: qos.is_exclusive,
                // A writer serves all of them.
                is_reliable: true,
                is_durable: true,
                deadline: None,
                is_watched: false,
            },
        };
        let has_levels =
            role == Role::Topic && self.settings.has_levels(key.topic.is_keyless, &address);
        let out = self.writers.entry(key.clone()).or_insert_with(|| Out {
            address: address.clone(),
            role,
            has_levels,
            remote: HashMap::new(),
            offered: None,
            target: None,
            has_last_values: false,
        });
        let is_new = out.remote.is_empty();
        if qos.is_reliable && role != Role::Reply {
            let remarks = &self.counts.remarks;
            remarks.add_reliable(&guid, &key.topic.name, &address);
        }
        out.remote.insert(guid, qos);
        self.remote.insert(guid, key.clone());
        self.renew(&key, participant);
        let out = self.writers.get_mut(&key);
        let is_late =
            is_late && out.is_some_and(|out| !std::mem::replace(&mut out.has_last_values, true));
        let by_address = self.by_address_of(role);
        let keys = by_address.entry(address.clone()).or_default();
        if is_new {
            keys.push(key);
        }
        let is_first = is_new && keys.len() == 1;
        if role == Role::Reply {
            return interests;
        }
        if has_levels && (is_late || is_new) {
            let address = levels_of(&address);
            interests.push(Interest::Begins { address, is_late });
        }
        if is_late || is_first {
            interests.push(Interest::Begins { address, is_late });
        }
        interests
    }

    fn by_address_of(&mut self, role: Role) -> &mut BTreeMap<String, Vec<Key>> {
        match role {
            Role::Topic | Role::Request => &mut self.by_address,
            Role::Reply => &mut self.answering,
        }
    }

    pub(crate) fn on_gone(&mut self, guid: &Guid, participant: &Participant) -> Vec<Interest> {
        self.counts.remarks.forget(guid);
        self.counts.remarks.forget_reliable(guid);
        let Some(key) = self.remote.remove(guid) else {
            return Vec::new();
        };
        let Some(out) = self.writers.get_mut(&key) else {
            return Vec::new();
        };
        out.remote.remove(guid);
        if !out.remote.is_empty() {
            self.renew(&key, participant);
            return Vec::new();
        }
        let Some(out) = self.writers.remove(&key) else {
            return Vec::new();
        };
        let Out { address, role, .. } = out;
        let by_address = self.by_address_of(role);
        if let Some(keys) = by_address.get_mut(&address) {
            keys.retain(|it| *it != key);
            if keys.is_empty() {
                tracing::info!(address, "no DDS reader is left");
                by_address.remove(&address);
                return match role {
                    Role::Reply => Vec::new(),
                    _ => [levels_of(&address), address]
                        .map(|address| Interest::Ends { address })
                        .into(),
                };
            }
        }
        Vec::new()
    }

    /// Makes the writer anew if its readers request something else than it offers.
    fn renew(&mut self, key: &Key, participant: &Participant) {
        let Some(out) = self.writers.get_mut(key) else {
            return;
        };
        let topic = &key.topic.name;
        let mut offer = Qos::of_writer_for(out.remote.values());
        if let Some(offer) = &mut offer
            && out.has_levels
            && key.topic.is_keyless
        {
            // What each level has, which is what a late reader gets of each writer.
            offer.late_depth = 1;
        }
        let remarks = &self.counts.remarks;
        for (guid, qos) in &out.remote {
            match offer.as_ref().is_some_and(|it| it.is_taken_by(qos)) {
                true => remarks.forget(guid),
                false => remarks.add_unmatched(guid, topic, Unmatched::Representation),
            }
        }
        let Some(offer) = offer else {
            return;
        };
        if out.offered.as_ref() == Some(&offer) {
            return;
        }
        // One at a time: readers that match both would receive everything twice.
        out.target = None;
        out.has_last_values = false;
        let is_json = self.settings.is_json(&out.address);
        let known = participant.known(&key.topic.type_name, is_json);
        let known = known.as_ref();
        match participant.writer(&key.topic, &offer) {
            Ok(writer) => {
                tracing::info!(topic, address = out.address, "writing DDS samples");
                let json = known.filter(|_| is_json);
                let keyed = known.filter(|_| out.has_levels);
                out.target = Some(Arc::new(Target::of(
                    writer,
                    out.role,
                    json,
                    keyed,
                    key.topic.is_keyless,
                    self.spent.clone(),
                )));
                out.offered = Some(offer);
            }
            Err(error) => {
                tracing::warn!(topic, %error, "a DDS reader is not served");
                for guid in out.remote.keys() {
                    remarks.add_unmatched(guid, topic, Unmatched::Failed);
                }
            }
        }
    }

    /// Subscriptions to request of the broker on a new connection.
    pub(crate) fn interests(&self) -> Vec<Interest> {
        let is_late = |keys: &[Key]| {
            let mut outs = keys.iter().filter_map(|key| self.writers.get(key));
            outs.any(|out| out.remote.values().any(|qos| qos.class().is_durable))
        };
        let has_levels = |keys: &[Key]| {
            let mut outs = keys.iter().filter_map(|key| self.writers.get(key));
            outs.any(|out| out.has_levels)
        };
        let of = |(address, keys): (&String, &Vec<Key>)| {
            let below = has_levels(keys).then(|| levels_of(address));
            let is_late = is_late(keys);
            let begins = move |address| Interest::Begins { address, is_late };
            [Some(address.clone()), below]
                .into_iter()
                .flatten()
                .map(begins)
        };
        self.by_address.iter().flat_map(of).collect()
    }

    /// Where messages of this address are written, and whether its last level says which instance, or whose, they are. A message that asks for an answer is a
    /// request, where there is a service.
    pub(crate) fn targets(&self, address: &str, asks: bool) -> Vec<(Arc<Target>, bool)> {
        let outs = |address: &str| {
            let keys = self.by_address.get(address).into_iter().flatten();
            keys.filter_map(|key| self.writers.get(key))
        };
        let service = outs(address).find(|out| asks && out.role == Role::Request);
        if let Some(target) = service.and_then(|out| out.target.clone()) {
            return vec![(target, false)];
        }
        let here = outs(address).map(|out| (out, false));
        let above = address.rsplit_once('/').into_iter();
        let below = above.flat_map(|(above, _)| outs(above).filter(|out| out.has_levels));
        let all = here.chain(below.map(|out| (out, true)));
        let all = all.filter(|(out, _)| out.role == Role::Topic);
        all.filter_map(|(out, has_level)| Some((out.target.clone()?, has_level)))
            .collect()
    }

    /// The writers of topics of ROS 2.
    pub(crate) fn of_ros(&self) -> Vec<Guid> {
        let writers = self.writers.iter();
        let of_ros = writers.filter(|(key, _)| name::is_of_ros(&key.topic.name));
        let targets = of_ros.filter_map(|(_, out)| out.target.as_ref());
        targets.map(|it| it.guid()).collect()
    }

    /// Where answers of a service of the broker's are written.
    pub(crate) fn answering(&self, address: &str) -> Vec<Arc<Target>> {
        let keys = self.answering.get(address).into_iter().flatten();
        let outs = keys.filter_map(|key| self.writers.get(key));
        outs.filter_map(|out| out.target.clone()).collect()
    }
}

/// The filter of the addresses of a topic's instances, or of its writers.
fn levels_of(address: &str) -> String {
    format!("{address}/+")
}
