//! What each lasting writer holds, so that an address keeps nothing that no writer holds any more.

use crate::cyclone::{Guid, KeyHash};
use crate::frame::{self, Retain, Sample, ToBroker};
use crate::name;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Bytes that are held of all topics of a bridge. Beyond that it is known who wrote the last value, and no value before it.
const BYTES_MAX: usize = 64 << 20;
/// What an entry costs beside its value.
const ENTRY_BYTES: usize = 128;

/// Bytes that are held, of a whole bridge.
pub(crate) type Held = Arc<AtomicUsize>;

/// Of the writers of a topic.
pub(crate) struct Holders {
    /// The one that wrote last is the last of its address.
    by_address: BTreeMap<String, Vec<Holding>>,
    /// Whether instances share an address, so that there each of a writer is a source of its own.
    is_shared: bool,
    bytes: usize,
    held: Held,
}

/// The latest sample of an instance by a writer.
struct Holding {
    writer: Guid,
    key: KeyHash,
    value: Option<Value>,
}

struct Value {
    is_reliable: bool,
    until: Option<Instant>,
    content_type: Box<str>,
    payload: Box<[u8]>,
}

impl Holding {
    fn bytes(&self) -> usize {
        let of_value = |it: &Value| it.content_type.len() + it.payload.len();
        ENTRY_BYTES + self.value.as_ref().map_or(0, of_value)
    }
}

impl Holders {
    pub(crate) fn of(held: &Held, is_shared: bool) -> Holders {
        Holders {
            by_address: BTreeMap::new(),
            is_shared,
            bytes: 0,
            held: held.clone(),
        }
    }

    /// Appends the source that a writer's samples of an instance are of.
    pub(crate) fn push_source(&self, writer: &Guid, key: &KeyHash, source: &mut String) {
        name::push_key_level(writer, source);
        if self.is_shared {
            name::push_key_level(key, source);
        }
    }

    /// A writer has written a sample, which is the last value of its address. Whether it is held beside those of others there.
    pub(crate) fn add(
        &mut self,
        writer: Guid,
        key: KeyHash,
        sample: &Sample<'_>,
        now: Instant,
    ) -> bool {
        self.take(sample.address, |it| it.writer == writer && it.key == key);
        let lifespan = Some(sample.expires_in).filter(|it| *it > 0);
        let mut holding = Holding {
            writer,
            key,
            value: Some(Value {
                is_reliable: sample.is_reliable,
                until: lifespan.map(|it| now + Duration::from_nanos(it)),
                content_type: sample.content_type.into(),
                payload: sample.payload.into(),
            }),
        };
        let is_held = self.held.load(Ordering::Relaxed) + holding.bytes() <= BYTES_MAX;
        if !is_held {
            holding.value = None;
            self.take(sample.address, |_| true);
        }
        self.count(holding.bytes(), 0);
        let address = sample.address.to_owned();
        let holdings = self.by_address.entry(address).or_default();
        holdings.push(holding);
        is_held
    }

    /// An instance was disposed of, for all writers that hold samples of it. Where instances share an address, the latest of another one is the last value.
    pub(crate) fn dispose(&mut self, key: KeyHash, address: &str, now: Instant, out: &mut Vec<u8>) {
        match self.by_address.contains_key(address) {
            true => self.end(address, |it| it.key == key, now, out),
            // It may be a last value of an earlier run.
            false => clear(address, out),
        }
    }

    /// A writer has gone, and with it all that it held.
    pub(crate) fn forget(&mut self, writer: &Guid, now: Instant, out: &mut Vec<u8>) {
        let addresses: Vec<String> = self.by_address.keys().cloned().collect();
        for address in addresses {
            self.end(&address, |it| it.writer == *writer, now, out);
        }
    }

    fn end(
        &mut self,
        address: &str,
        ends: impl Fn(&Holding) -> bool,
        now: Instant,
        out: &mut Vec<u8>,
    ) {
        let was_last = self.last(address).is_some_and(&ends);
        let holdings = self.by_address.get(address).into_iter().flatten();
        let ended = holdings.filter(|it| ends(it));
        let ended: Vec<_> = ended.map(|it| (it.writer, it.key)).collect();
        self.take(address, ends);
        if was_last {
            let is_over = |it: &Holding| match &it.value {
                Some(value) => value.until.is_some_and(|until| until <= now),
                None => true,
            };
            while self.last(address).is_some_and(is_over) {
                let last = self.last(address).map(|it| (it.writer, it.key));
                self.take(address, |it| last == Some((it.writer, it.key)));
            }
        }
        let Some(last) = self.last(address) else {
            if was_last {
                clear(address, out);
            }
            return;
        };
        let mut source = String::new();
        for (writer, key) in &ended {
            source.clear();
            self.push_source(writer, key, &mut source);
            let source = &source;
            frame::encode(&ToBroker::Withdraw { address, source }, out);
        }
        let Some(value) = last.value.as_ref().filter(|_| was_last) else {
            return;
        };
        source.clear();
        self.push_source(&last.writer, &last.key, &mut source);
        let left = value.until.map(|until| until.duration_since(now));
        let published = Sample {
            is_reliable: value.is_reliable,
            expires_in: left.map_or(0, |it| it.as_nanos() as u64),
            address,
            source: &source,
            content_type: &value.content_type,
            payload: &value.payload,
            ..Sample::default()
        };
        frame::encode(&ToBroker::Publish(published), out);
    }

    fn last(&self, address: &str) -> Option<&Holding> {
        self.by_address.get(address)?.last()
    }

    fn take(&mut self, address: &str, is_meant: impl Fn(&Holding) -> bool) {
        let Some(holdings) = self.by_address.get_mut(address) else {
            return;
        };
        let mut freed = 0;
        holdings.retain(|it| {
            let stays = !is_meant(it);
            freed += if stays { 0 } else { it.bytes() };
            stays
        });
        if holdings.is_empty() {
            self.by_address.remove(address);
        }
        self.count(0, freed);
    }

    fn count(&mut self, more: usize, less: usize) {
        self.bytes = self.bytes + more - less;
        self.held.fetch_add(more, Ordering::Relaxed);
        self.held.fetch_sub(less, Ordering::Relaxed);
    }
}

fn clear(address: &str, out: &mut Vec<u8>) {
    let published = Sample {
        is_reliable: true,
        retain: Retain::Clear,
        address,
        ..Sample::default()
    };
    frame::encode(&ToBroker::Publish(published), out);
}

impl Drop for Holders {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Decoded;

    const ONE: Guid = [1; 16];
    const TWO: Guid = [2; 16];

    fn sample<'a>(address: &'a str, payload: &'a [u8]) -> Sample<'a> {
        Sample {
            address,
            payload,
            ..Sample::default()
        }
    }

    /// Address, payload and lifespan of each message that is published; a payload of nothing clears, and that of a source that ends
    /// is its writer.
    fn published(mut bytes: &[u8]) -> Vec<(String, Option<Vec<u8>>, u64)> {
        let mut all = Vec::new();
        while let Decoded::Frame(frame, length) = frame::decode(bytes, BYTES_MAX) {
            let (address, said, left) = match frame {
                ToBroker::Publish(it) => {
                    let payload = (it.retain == Retain::No).then(|| it.payload.to_vec());
                    (it.address, payload, it.expires_in)
                }
                ToBroker::Withdraw { address, source } => (address, Some(ends(&source[..2])), 0),
                _ => panic!("{frame:?}"),
            };
            all.push((address.to_owned(), said, left));
            bytes = &bytes[length..];
        }
        all
    }

    fn ends(writer: &str) -> Vec<u8> {
        format!("{writer} ends").into()
    }

    #[test]
    fn what_another_writer_holds_becomes_the_last_value() {
        let (held, now, key) = (Held::default(), Instant::now(), [0; 16]);
        let mut holders = Holders::of(&held, false);
        for (writer, payload) in [(ONE, b"old"), (TWO, b"two"), (ONE, b"one")] {
            holders.add(writer, key, &sample("a", payload), now);
        }
        let mut out = Vec::new();
        holders.forget(&ONE, now, &mut out);
        // Again is nothing new.
        holders.forget(&ONE, now, &mut out);
        let told = [ends("01"), b"two".to_vec()];
        assert_eq!(published(&out), told.map(|it| ("a".into(), Some(it), 0)));
        out.clear();
        holders.forget(&TWO, now, &mut out);
        assert_eq!(published(&out), [("a".into(), None, 0)]);
        assert_eq!(held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn each_instance_of_a_writer_is_a_source_where_they_share_an_address() {
        let of = |is_shared| {
            let mut source = String::new();
            Holders::of(&Held::default(), is_shared).push_source(&ONE, &[2; 16], &mut source);
            source
        };
        assert_eq!(of(false), "01".repeat(16));
        assert_eq!(of(true), "01".repeat(16) + &"02".repeat(16));
    }

    #[test]
    fn an_instance_ends_for_all_its_writers_and_no_other_instance_does() {
        let (held, now) = (Held::default(), Instant::now());
        let mut holders = Holders::of(&held, true);
        for (writer, key) in [(ONE, 1), (TWO, 2), (ONE, 2)] {
            holders.add(writer, [key; 16], &sample("shared", &[key]), now);
        }
        let mut out = Vec::new();
        holders.dispose([2; 16], "shared", now, &mut out);
        let told = [ends("02"), ends("01"), vec![1]];
        let told = told.map(|it| ("shared".to_owned(), Some(it), 0));
        assert_eq!(published(&out), told);
        out.clear();
        for _ in 0..2 {
            holders.dispose([1; 16], "shared", now, &mut out);
        }
        // The second time nothing is known of the address.
        let clear = ("shared".into(), None, 0);
        assert_eq!(published(&out), [clear.clone(), clear]);
        assert_eq!(held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_writer_that_did_not_write_last_leaves_the_last_value() {
        let (held, now) = (Held::default(), Instant::now());
        let mut holders = Holders::of(&held, false);
        for (writer, key) in [(ONE, 1), (TWO, 1), (ONE, 2)] {
            let address = key.to_string();
            holders.add(writer, [key; 16], &sample(&address, &[key]), now);
        }
        let mut out = Vec::new();
        holders.forget(&ONE, now, &mut out);
        let told = [("1", Some(ends("01"))), ("2", None)];
        let told = told.map(|(address, it)| (address.to_owned(), it, 0));
        assert_eq!(published(&out), told);
        drop(holders);
        assert_eq!(held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_has_outlived_its_lifespan_does_not_come_back() {
        let (held, now, key) = (Held::default(), Instant::now(), [0; 16]);
        let mut holders = Holders::of(&held, false);
        for (writer, payload, seconds) in [(ONE, b"5", 5), (TWO, b"2", 2), ([3; 16], b"9", 9)] {
            let expires_in = Duration::from_secs(seconds).as_nanos() as u64;
            let sample = Sample {
                expires_in,
                ..sample("a", payload)
            };
            holders.add(writer, key, &sample, now);
        }
        let mut out = Vec::new();
        holders.forget(&[3; 16], now + Duration::from_secs(3), &mut out);
        let left = Duration::from_secs(2).as_nanos() as u64;
        let told = [(ends("03"), 0), (b"5".to_vec(), left)];
        assert_eq!(
            published(&out),
            told.map(|(it, left)| ("a".into(), Some(it), left))
        );
    }

    #[test]
    fn beyond_the_limit_only_who_wrote_last_is_known() {
        let (held, now, key) = (Held::new(BYTES_MAX.into()), Instant::now(), [0; 16]);
        let mut holders = Holders::of(&held, false);
        for writer in [ONE, TWO] {
            holders.add(writer, key, &sample("a", b"value"), now);
        }
        let mut out = Vec::new();
        holders.forget(&ONE, now, &mut out);
        assert!(out.is_empty());
        holders.forget(&TWO, now, &mut out);
        assert_eq!(published(&out), [("a".into(), None, 0)]);
        assert_eq!(held.load(Ordering::Relaxed), BYTES_MAX);
    }
}
