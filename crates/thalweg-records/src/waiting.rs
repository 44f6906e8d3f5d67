//! A queue of entries by rising serial, in chunks: neither growing nor taking one out of the middle moves millions. A
//! chunk in the middle of a long queue is packed into a few bytes for each entry, since each is much like the one before.

use super::codec::{Input, put_number};
use super::state::Stored;
use std::collections::{VecDeque, vec_deque};
use std::fmt;
use thalweg_model::Reliability;

/// Entries in a chunk, unless something is inserted into it.
const CHUNK: usize = 512;

/// Entries that wait, by rising serial.
#[derive(Clone, Default)]
pub struct Waiting {
    /// None is empty; serials rise within each and from each to the next.
    chunks: VecDeque<Chunk>,
    len: usize,
}

#[derive(Clone)]
enum Chunk {
    Open(VecDeque<Stored>),
    Packed(Packed),
}

/// Entries as bytes: numbers as differences to the entry before, and only what is not zero.
#[derive(Clone)]
struct Packed {
    last: u64,
    len: usize,
    bytes: Box<[u8]>,
}

/// Flags of a packed entry besides its reliability (bits 0 and 1).
mod flag {
    pub const RETAIN: u8 = 1 << 2;
    pub const REDELIVERED: u8 = 1 << 3;
    pub const EXPIRES: u8 = 1 << 4;
    pub const ID: u8 = 1 << 5;
    pub const RARE: u8 = 1 << 6;
    /// It was delivered more than once.
    pub const COUNT: u8 = 1 << 7;
}

impl Waiting {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entries, by rising serial.
    pub fn iter(&self) -> impl Iterator<Item = Stored> {
        self.chunks.iter().flat_map(Chunk::iter)
    }

    /// Takes the first out.
    pub fn pop_front(&mut self) -> Option<Stored> {
        let first = self.chunks.front_mut()?.open();
        let entry = first.pop_front();
        if first.is_empty() {
            self.chunks.pop_front();
        }
        self.len -= usize::from(entry.is_some());
        entry
    }

    /// Inserts an entry by its serial, usually at the end. Returns one with the same serial.
    pub fn insert(&mut self, entry: Stored) -> Result<(), Stored> {
        if self
            .chunks
            .back()
            .is_none_or(|chunk| chunk.last() < entry.serial)
        {
            self.push_back(entry);
            return Ok(());
        }
        let at = self.chunk_of(entry.serial);
        let Some(chunk) = self.chunks.get_mut(at).map(Chunk::open) else {
            return Err(entry);
        };
        let Err(within) = chunk.binary_search_by_key(&entry.serial, |entry| entry.serial) else {
            return Err(entry);
        };
        chunk.insert(within, entry);
        self.len += 1;
        if chunk.len() >= 2 * CHUNK {
            let second = chunk.split_off(CHUNK);
            self.chunks.insert(at + 1, Chunk::Open(second));
        }
        Ok(())
    }

    /// Takes the entry with this serial out, usually the first.
    pub fn remove(&mut self, serial: u64) -> Option<Stored> {
        let at = self.chunk_of(serial);
        let chunk = self.chunks.get_mut(at)?.open();
        let within = match chunk.front() {
            Some(first) if first.serial == serial => 0,
            _ => chunk
                .binary_search_by_key(&serial, |entry| entry.serial)
                .ok()?,
        };
        let entry = chunk.remove(within)?;
        self.len -= 1;
        if chunk.is_empty() {
            self.chunks.remove(at);
        } else if within > 0 && chunk.len() < CHUNK / 4 {
            self.merge(at);
        }
        Some(entry)
    }

    /// Keeps only what `keep` says.
    pub fn retain(&mut self, mut keep: impl FnMut(&Stored) -> bool) {
        for chunk in &mut self.chunks {
            match chunk {
                Chunk::Open(entries) => entries.retain(&mut keep),
                Chunk::Packed(packed) => {
                    let kept: VecDeque<Stored> =
                        packed.iter().filter(|entry| keep(entry)).collect();
                    if kept.len() < packed.len {
                        *chunk = Chunk::Open(kept);
                    }
                }
            }
        }
        self.chunks.retain(|chunk| chunk.len() > 0);
        self.len = self.chunks.iter().map(Chunk::len).sum();
    }

    fn push_back(&mut self, entry: Stored) {
        self.len += 1;
        match self.chunks.back_mut() {
            Some(Chunk::Open(chunk)) if chunk.len() < CHUNK => chunk.push_back(entry),
            // The first grows as it must, because most queues are short.
            None => self.chunks.push_back(Chunk::Open(VecDeque::from([entry]))),
            Some(full) => {
                let mut room = full.pack();
                room.push_back(entry);
                self.chunks.push_back(Chunk::Open(room));
            }
        }
    }

    /// The first chunk that ends at this serial or behind it; usually the first of all.
    fn chunk_of(&self, serial: u64) -> usize {
        if self
            .chunks
            .front()
            .is_some_and(|first| first.last() >= serial)
        {
            return 0;
        }
        self.chunks.partition_point(|chunk| chunk.last() < serial)
    }

    /// Puts a chunk that has become short together with its successor, if both are open.
    fn merge(&mut self, at: usize) {
        let is_short = |chunk: Option<&Chunk>| matches!(chunk, Some(Chunk::Open(chunk)) if chunk.len() <= CHUNK / 2);
        if is_short(self.chunks.get(at))
            && is_short(self.chunks.get(at + 1))
            && let Some(Chunk::Open(mut second)) = self.chunks.remove(at + 1)
            && let Some(Chunk::Open(first)) = self.chunks.get_mut(at)
        {
            first.append(&mut second);
        }
    }
}

impl Chunk {
    fn len(&self) -> usize {
        match self {
            Chunk::Open(entries) => entries.len(),
            Chunk::Packed(packed) => packed.len,
        }
    }

    fn last(&self) -> u64 {
        match self {
            Chunk::Open(entries) => entries.back().map_or(0, |entry| entry.serial),
            Chunk::Packed(packed) => packed.last,
        }
    }

    fn iter(&self) -> Entries<'_> {
        match self {
            Chunk::Open(entries) => Entries::Open(entries.iter()),
            Chunk::Packed(packed) => Entries::Packed(packed.iter()),
        }
    }

    /// The entries, to be changed; they stay open.
    fn open(&mut self) -> &mut VecDeque<Stored> {
        if let Chunk::Packed(packed) = self {
            *self = Chunk::Open(packed.iter().collect());
        }
        match self {
            Chunk::Open(entries) => entries,
            Chunk::Packed(_) => unreachable!("it was just opened"),
        }
    }

    /// Packs the entries; their memory can be used again.
    fn pack(&mut self) -> VecDeque<Stored> {
        let Chunk::Open(entries) = self else {
            return VecDeque::with_capacity(CHUNK);
        };
        let mut entries = std::mem::take(entries);
        *self = Chunk::Packed(Packed::new(&entries));
        entries.clear();
        entries.reserve(CHUNK);
        entries
    }
}

impl Packed {
    fn new(entries: &VecDeque<Stored>) -> Self {
        let mut bytes = Vec::with_capacity(entries.len() * 8);
        let (mut serial, mut end) = (0, 0);
        for entry in entries {
            let bit = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
            bytes.push(
                entry.reliability as u8
                    | bit(entry.retain, flag::RETAIN)
                    | bit(entry.deliveries > 0, flag::REDELIVERED)
                    | bit(entry.deliveries > 1, flag::COUNT)
                    | bit(entry.expires_secs != 0, flag::EXPIRES)
                    | bit(entry.subscription_id != 0, flag::ID)
                    | bit(entry.rare.is_some(), flag::RARE),
            );
            put_number(&mut bytes, entry.serial.wrapping_sub(serial));
            // Usually right behind the one before, but a moved one may be anywhere.
            let step = entry.place.wrapping_sub(end) as i64;
            put_number(&mut bytes, (step << 1 ^ step >> 63) as u64);
            put_number(&mut bytes, u64::from(entry.len));
            if entry.expires_secs != 0 {
                put_number(&mut bytes, u64::from(entry.expires_secs));
            }
            if entry.subscription_id != 0 {
                put_number(&mut bytes, u64::from(entry.subscription_id));
            }
            if let Some(rare) = &entry.rare {
                put_number(&mut bytes, rare.0);
                put_number(&mut bytes, rare.1.len() as u64);
                rare.1
                    .iter()
                    .for_each(|id| put_number(&mut bytes, u64::from(*id)));
            }
            if entry.deliveries > 1 {
                put_number(&mut bytes, u64::from(entry.deliveries));
            }
            (serial, end) = (entry.serial, entry.place.wrapping_add(u64::from(entry.len)));
        }
        Packed {
            last: serial,
            len: entries.len(),
            bytes: bytes.into(),
        }
    }

    fn iter(&self) -> Unpacking<'_> {
        Unpacking {
            input: Input::new(&self.bytes),
            serial: 0,
            end: 0,
        }
    }
}

/// The entries of a chunk.
enum Entries<'a> {
    Open(vec_deque::Iter<'a, Stored>),
    Packed(Unpacking<'a>),
}

impl Iterator for Entries<'_> {
    type Item = Stored;

    fn next(&mut self) -> Option<Stored> {
        match self {
            Entries::Open(entries) => entries.next().cloned(),
            Entries::Packed(entries) => entries.next(),
        }
    }
}

struct Unpacking<'a> {
    input: Input<'a>,
    serial: u64,
    end: u64,
}

impl Iterator for Unpacking<'_> {
    type Item = Stored;

    /// Our own bytes: what cannot be read is their end.
    fn next(&mut self) -> Option<Stored> {
        let input = &mut self.input;
        let flags = input.byte().ok()?;
        let is = |flag: u8| flags & flag != 0;
        self.serial = self.serial.wrapping_add(input.number().ok()?);
        let step = input.number().ok()?;
        let place = self
            .end
            .wrapping_add((step >> 1) ^ (step & 1).wrapping_neg());
        let len = input.small().ok()?;
        self.end = place.wrapping_add(u64::from(len));
        let mut entry = Stored {
            serial: self.serial,
            place,
            len,
            reliability: input.reliability(flags).unwrap_or(Reliability::ExactlyOnce),
            retain: is(flag::RETAIN),
            deliveries: u16::from(is(flag::REDELIVERED)),
            ..Stored::default()
        };
        if is(flag::EXPIRES) {
            entry.expires_secs = input.small().ok()?;
        }
        if is(flag::ID) {
            entry.subscription_id = input.small().ok()?;
        }
        if is(flag::RARE) {
            let group = input.number().ok()?;
            let count = input.count(1).ok()?;
            let ids = (0..count).map(|_| input.small().unwrap_or(0)).collect();
            entry.rare = Some(Box::new((group, ids)));
        }
        if is(flag::COUNT) {
            entry.deliveries = input.small().ok()?;
        }
        Some(entry)
    }
}

impl IntoIterator for Waiting {
    type Item = Stored;
    type IntoIter = IntoEntries;

    fn into_iter(self) -> IntoEntries {
        IntoEntries(self)
    }
}

/// The entries of a queue that is given up.
pub struct IntoEntries(Waiting);

impl Iterator for IntoEntries {
    type Item = Stored;

    fn next(&mut self) -> Option<Stored> {
        self.0.pop_front()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len, Some(self.0.len))
    }
}

impl FromIterator<Stored> for Waiting {
    /// By rising serial; one whose serial was there before is left out.
    fn from_iter<I: IntoIterator<Item = Stored>>(entries: I) -> Self {
        let mut waiting = Waiting::default();
        for entry in entries {
            let _ = waiting.insert(entry);
        }
        waiting
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
