//! What a bridge has to say of other participants' endpoints: those that have no opposite, by policy, and topics whose writers fell
//! silent. Its threads write it down, its front shows it.

use crate::counts::Counts;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Globally unique id of an endpoint.
type Guid = [u8; 16];

/// Endpoints without an opposite that are shown; all are counted.
const SHOWN_MAX: usize = 256;

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
        tracing::warn!(
            topic,
            peer,
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

    /// How many endpoints had no opposite so far, for one reason.
    pub fn count(&self, why: Unmatched) -> u64 {
        Counts::get(&self.counts[why as usize])
    }

    pub(crate) fn each_count(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Unmatched::ALL
            .into_iter()
            .map(move |why| (why.word(), self.count(why)))
    }

    /// Endpoints without an opposite: which, and their topic and why.
    pub fn unmatched(&self) -> Vec<(Box<str>, Box<str>)> {
        let unmatched = locked(&self.unmatched);
        let shown = |(guid, (topic, why)): (&Guid, &(String, Unmatched))| {
            let name = format!("unmatched {} {}", kind_of(guid), hex(guid));
            (name.into(), format!("{topic}: {}", why.word()).into())
        };
        unmatched.iter().map(shown).collect()
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

    pub(crate) fn take_news(&self) -> bool {
        self.has_news.swap(false, Ordering::Relaxed)
    }
}

/// By the last byte of its id (DDSI-RTPS 2.5 §9.3.1.2).
fn kind_of(guid: &Guid) -> &'static str {
    match guid[15] & 0x0f {
        2 | 3 => "writer",
        _ => "reader",
    }
}

fn hex(guid: &Guid) -> String {
    guid.iter().fold(String::new(), |mut text, byte| {
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
}
