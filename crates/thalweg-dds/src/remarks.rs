//! What a bridge has to say of other participants' endpoints: those that have no opposite, by policy, and topics whose writers fell
//! silent. Its threads write it down, its front shows it.

use crate::counts::Counts;
use crate::nodes::{Guid, Node};
use crate::offered::{Change, Offered};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Endpoints without an opposite that are shown; all are counted.
const SHOWN_MAX: usize = 256;
/// Nodes of ROS 2 that are known at once, and endpoints of theirs.
const NODES_MAX: usize = 1024;
const ENDPOINTS_MAX: usize = 8192;

/// Why an endpoint has no opposite: the policy of DDS by which they exclude each other, or what else it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmatched {
    /// It is in several partitions, or in a pattern of them.
    Partition,
    /// A reader requests TRANSIENT or PERSISTENT.
    Durability,
    /// Readers of one topic take no data representation that all take.
    Representation,
    /// Its topic cannot be an address.
    Address,
    /// There are too many already.
    Limit,
    /// The library refuses; the log says why.
    Failed,
}

impl Unmatched {
    /// All, in the order of their words.
    const ALL: [Unmatched; 6] = [
        Unmatched::Partition,
        Unmatched::Durability,
        Unmatched::Representation,
        Unmatched::Address,
        Unmatched::Limit,
        Unmatched::Failed,
    ];

    /// The values of the metric's label.
    pub(crate) const WORDS: [&'static str; 6] = [
        "partition",
        "durability",
        "data-representation",
        "address",
        "limit",
        "failed",
    ];

    pub fn word(self) -> &'static str {
        Unmatched::WORDS[self as usize]
    }
}

/// Remarks of one bridge.
#[derive(Debug, Default)]
pub struct Remarks {
    counts: [AtomicU64; Unmatched::ALL.len()],
    unmatched: Mutex<BTreeMap<Guid, (String, Unmatched)>>,
    topics: Mutex<BTreeMap<u32, Topic>>,
    offered: Mutex<Offered>,
    /// Readers that were offered less than they requested.
    lowered: AtomicU64,
    /// Nodes of ROS 2, by the writer that says so.
    nodes: Mutex<BTreeMap<Guid, Vec<Node>>>,
    /// Something has changed since the front was last told.
    has_news: AtomicBool,
}

/// A topic whose writers promise a deadline, or to say that they are alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    pub address: String,
    /// A deadline was missed, and no sample came since; or no writer is alive.
    pub is_silent: bool,
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Remarks {
    /// Writes down, once, that an endpoint has no opposite.
    pub fn add_unmatched(&self, guid: &Guid, topic: &str, why: Unmatched) {
        let mut unmatched = locked(&self.unmatched);
        let is_known = unmatched.get(guid).is_some_and(|(_, known)| *known == why);
        if is_known {
            return;
        }
        let (what, peer, policy) = (kind_of(guid), hex(guid), why.word());
        let node = self.node_of(guid);
        tracing::warn!(
            topic,
            peer,
            node,
            policy,
            "a DDS {what} has no opposite in the bridge"
        );
        Counts::add(&self.counts[why as usize]);
        if unmatched.len() < SHOWN_MAX || unmatched.contains_key(guid) {
            unmatched.insert(*guid, (topic.to_owned(), why));
            self.has_news.store(true, Ordering::Relaxed);
        }
    }

    /// An endpoint has gone, or has an opposite now.
    pub fn forget(&self, guid: &Guid) {
        if locked(&self.unmatched).remove(guid).is_some() {
            self.has_news.store(true, Ordering::Relaxed);
        }
    }

    /// Takes note of a reader that requests RELIABLE.
    #[cfg(any(test, feature = "cyclone"))]
    pub(crate) fn add_reliable(&self, guid: &Guid, topic: &str, address: &str) {
        let change = locked(&self.offered).add_reader(*guid, topic, address);
        self.tell(change);
    }

    /// A reader has gone, or requests something else.
    #[cfg(any(test, feature = "cyclone"))]
    pub(crate) fn forget_reliable(&self, guid: &Guid) {
        if locked(&self.offered).remove_reader(guid) {
            self.has_news.store(true, Ordering::Relaxed);
        }
    }

    /// Takes note of whether the broker sends what the bridge subscribed to at most once.
    pub fn set_lowered(&self, filter: &str, is_lowered: bool) {
        let change = locked(&self.offered).set_lowered(filter, is_lowered);
        self.tell(change);
    }

    fn tell(&self, change: Change) {
        if change.has_restored || !change.lowered.is_empty() {
            self.has_news.store(true, Ordering::Relaxed);
        }
        for (guid, topic) in change.lowered {
            let (peer, node) = (hex(&guid), self.node_of(&guid));
            tracing::warn!(
                topic,
                peer,
                node,
                policy = "reliability",
                "a DDS reader requests RELIABLE and is offered BEST_EFFORT: a policy has its topic at most once"
            );
            Counts::add(&self.lowered);
        }
    }

    /// How many readers were offered less than they requested so far.
    pub fn lowered_count(&self) -> u64 {
        Counts::get(&self.lowered)
    }

    /// Readers that are offered less than they request: which, and their topic, and what was requested and offered.
    pub fn lowered(&self) -> Vec<(Box<str>, Box<str>)> {
        let offered = locked(&self.offered);
        let lowered = offered.lowered().take(SHOWN_MAX);
        let shown = lowered.map(|(guid, topic)| {
            let node = self.node_of(guid).map(|node| format!(", of {node}"));
            let text = format!(
                "{topic}: reliability, RELIABLE requested, BEST_EFFORT offered{}",
                node.unwrap_or_default()
            );
            (format!("lowered reader {}", hex(guid)).into(), text.into())
        });
        shown.collect()
    }

    /// How many endpoints had no opposite so far, for one reason.
    pub fn count(&self, why: Unmatched) -> u64 {
        Counts::get(&self.counts[why as usize])
    }

    pub(crate) fn each_count(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Unmatched::ALL
            .into_iter()
            .map(move |why| (why.word(), self.count(why)))
    }

    /// Endpoints without an opposite: which, and their topic and why, and the node that they are of if it is known.
    pub fn unmatched(&self) -> Vec<(Box<str>, Box<str>)> {
        let unmatched = locked(&self.unmatched);
        let shown = |(guid, (topic, why)): (&Guid, &(String, Unmatched))| {
            let name = format!("unmatched {} {}", kind_of(guid), hex(guid));
            let node = self.node_of(guid).map(|node| format!(", of {node}"));
            let text = format!("{topic}: {}{}", why.word(), node.unwrap_or_default());
            (name.into(), text.into())
        };
        unmatched.iter().map(shown).collect()
    }

    /// The nodes that a writer says there are; none if it has gone.
    pub fn set_nodes(&self, writer: Guid, mut nodes: Vec<Node>) {
        let mut known = locked(&self.nodes);
        let before = known.remove(&writer);
        let others = || known.values().flatten();
        let endpoints = |node: &Node| node.readers.len() + node.writers.len();
        nodes.truncate(NODES_MAX.saturating_sub(others().count()));
        let mut room = ENDPOINTS_MAX.saturating_sub(others().map(endpoints).sum());
        for node in &mut nodes {
            node.readers.truncate(room);
            room -= node.readers.len();
            node.writers.truncate(room);
            room -= node.writers.len();
        }
        if before.unwrap_or_default() != nodes {
            self.has_news.store(true, Ordering::Relaxed);
        }
        if !nodes.is_empty() {
            known.insert(writer, nodes);
        }
    }

    /// Nodes of ROS 2, and how many readers and writers each has. Nodes that share a name share a row.
    pub fn nodes(&self) -> Vec<(Box<str>, Box<str>)> {
        let mut rows = BTreeMap::<&str, String>::new();
        let known = locked(&self.nodes);
        for (writer, nodes) in known.iter() {
            let participant = hex(&writer[..PREFIX_BYTES]);
            for node in nodes {
                let row = rows.entry(&node.name).or_default();
                let separator = if row.is_empty() { "" } else { "; " };
                let (readers, writers) = (node.readers.len(), node.writers.len());
                // Writing to a text does not fail.
                let _ = write!(
                    row,
                    "{separator}readers: {readers}, writers: {writers}, participant: {participant}"
                );
            }
        }
        let rows = rows.into_iter().take(SHOWN_MAX);
        rows.map(|(name, row)| (format!("node {name}").into(), row.into()))
            .collect()
    }

    /// The name of the node that an endpoint is of.
    fn node_of(&self, guid: &Guid) -> Option<String> {
        let known = locked(&self.nodes);
        let has = |node: &&Node| node.readers.contains(guid) || node.writers.contains(guid);
        let node = known.values().flatten().find(has);
        node.map(|node| node.name.clone())
    }

    /// `None`: the reader has gone.
    pub fn set_topic(&self, reader: u32, topic: Option<Topic>) {
        let mut topics = locked(&self.topics);
        if topics.get(&reader) == topic.as_ref() {
            return;
        }
        match topic {
            Some(topic) => topics.insert(reader, topic),
            None => topics.remove(&reader),
        };
        self.has_news.store(true, Ordering::Relaxed);
    }

    /// By number of their reader.
    pub fn topics(&self) -> BTreeMap<u32, Topic> {
        locked(&self.topics).clone()
    }

    #[cfg(any(test, feature = "cyclone"))]
    pub(crate) fn take_news(&self) -> bool {
        self.has_news.swap(false, Ordering::Relaxed)
    }
}

/// Bytes that all ids of a participant and its endpoints begin with (DDSI-RTPS 2.5 §9.3.1.1).
const PREFIX_BYTES: usize = 12;

/// By the last byte of its id (DDSI-RTPS 2.5 §9.3.1.2).
fn kind_of(guid: &Guid) -> &'static str {
    match guid[15] & 0x0f {
        2 | 3 => "writer",
        _ => "reader",
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a text does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_word() {
        for (why, word) in Unmatched::ALL.into_iter().zip(Unmatched::WORDS) {
            assert_eq!(why.word(), word);
        }
    }

    #[test]
    fn an_endpoint_is_counted_once_and_forgotten() {
        let remarks = Remarks::default();
        let reader = [7; 16];
        for _ in 0..2 {
            remarks.add_unmatched(&reader, "rt/map", Unmatched::Durability);
        }
        assert_eq!(remarks.count(Unmatched::Durability), 1);
        let name = format!("unmatched reader {}", "07".repeat(16));
        assert_eq!(
            remarks.unmatched(),
            [(name.into(), "rt/map: durability".into())]
        );
        assert!(remarks.take_news() && !remarks.take_news());
        remarks.forget(&reader);
        assert!(remarks.take_news() && remarks.unmatched().is_empty());
    }

    #[test]
    fn a_reliable_reader_of_what_comes_at_most_once_is_shown_and_counted() {
        let remarks = Remarks::default();
        let (early, late) = ([7; 16], [8; 16]);
        let names = || remarks.lowered().into_iter().map(|it| it.0);
        remarks.add_reliable(&early, "rt/map", "ros/map");
        remarks.set_lowered("ros/other", true);
        assert!(remarks.lowered().is_empty() && !remarks.take_news());
        for _ in 0..2 {
            remarks.set_lowered("ros/map/+", true);
        }
        assert_eq!(remarks.lowered_count(), 1);
        remarks.add_reliable(&late, "rt/map", "ros/map");
        assert!(remarks.take_news() && !remarks.take_news());
        let both = ["07", "08"].map(|byte| format!("lowered reader {}", byte.repeat(16)).into());
        assert_eq!(names().collect::<Vec<Box<str>>>(), both);
        let said = "rt/map: reliability, RELIABLE requested, BEST_EFFORT offered";
        assert_eq!(&*remarks.lowered()[0].1, said);
        remarks.forget_reliable(&early);
        assert!(remarks.take_news() && names().eq([both[1].clone()]));
        // After a reload the bridge may be granted more, when it subscribes anew.
        remarks.set_lowered("ros/map/+", false);
        assert!(remarks.take_news() && remarks.lowered().is_empty());
        assert_eq!(remarks.lowered_count(), 2);
    }

    fn node(name: &str, readers: &[Guid]) -> Node {
        Node {
            name: name.into(),
            readers: readers.to_vec(),
            writers: Vec::new(),
        }
    }

    #[test]
    fn nodes_have_rows_and_name_their_endpoints() {
        let remarks = Remarks::default();
        let (one, other, reader) = ([1; 16], [2; 16], [7; 16]);
        remarks.add_unmatched(&reader, "rt/map", Unmatched::Durability);
        assert!(remarks.take_news());
        // Whose endpoint it is may be known later than the endpoint.
        remarks.set_nodes(one, vec![node("/map", &[reader]), node("/talker", &[])]);
        assert!(remarks.take_news());
        assert_eq!(&*remarks.unmatched()[0].1, "rt/map: durability, of /map");
        remarks.set_nodes(other, vec![node("/talker", &[reader])]);
        let participant = |byte: &str| format!("participant: {}", byte.repeat(PREFIX_BYTES));
        let (first, second) = (participant("01"), participant("02"));
        let rows = [
            (
                "node /map".into(),
                format!("readers: 1, writers: 0, {first}").into(),
            ),
            (
                "node /talker".into(),
                format!("readers: 0, writers: 0, {first}; readers: 1, writers: 0, {second}").into(),
            ),
        ];
        assert_eq!(remarks.nodes(), rows);
        assert!(remarks.take_news());
        remarks.set_nodes(other, vec![node("/talker", &[reader])]);
        assert!(!remarks.take_news());
        remarks.set_nodes(one, Vec::new());
        remarks.set_nodes(other, Vec::new());
        assert!(remarks.take_news() && remarks.nodes().is_empty());
        assert_eq!(&*remarks.unmatched()[0].1, "rt/map: durability");
    }

    #[test]
    fn no_more_nodes_and_endpoints_are_kept_than_the_limits() {
        let remarks = Remarks::default();
        let many = vec![[3; 16]; ENDPOINTS_MAX];
        remarks.set_nodes([1; 16], vec![node("/a", &many), node("/b", &many)]);
        remarks.set_nodes([2; 16], vec![node("/c", &many); NODES_MAX]);
        let known = locked(&remarks.nodes);
        assert_eq!(known.values().flatten().count(), NODES_MAX);
        let endpoints = known.values().flatten().map(|it| it.readers.len());
        assert_eq!(endpoints.sum::<usize>(), ENDPOINTS_MAX);
    }
}
