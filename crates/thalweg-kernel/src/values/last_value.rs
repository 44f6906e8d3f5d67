//! The last message of each address: what protocols call retained messages, representations or items.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Bound, ControlFlow};
use thalweg_model::filter::prefix_of;
use thalweg_model::{Filter, Message, Time};

/// At most one [`Message`] per address, found by address or by filter, bounded in count and bytes.
///
/// Kept in byte order of the canonical addresses, so that a filter that begins with literal levels looks only at the
/// stretch of the store that begins the same.
#[derive(Debug)]
pub struct LastValues {
    limits: Limits,
    by_address: BTreeMap<Box<str>, Value>,
    /// Only the values that expire at all, soonest first; the serial keeps values of the same moment apart.
    by_expiry: BTreeMap<(Time, u64), Message>,
    serial_next: u64,
    bytes: usize,
    /// Messages and bytes that are kept elsewhere and count against the same limits.
    taken: (usize, usize),
}

#[derive(Debug)]
struct Value {
    message: Message,
    /// Names the entry in `by_expiry`, if the message has one there.
    serial: u64,
}

/// How much [`LastValues`] may hold. Reaching a limit refuses new values and never drops old ones: a last value that
/// silently disappears is worse than one that was refused with a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Addresses that may have a value.
    pub count_max: usize,
    /// Bytes of memory for all values together, as [`LastValues::bytes`] counts them.
    pub bytes_max: usize,
}

impl Limits {
    /// No limit; for tests and for callers that bound the store elsewhere.
    pub const NONE: Limits = Limits {
        count_max: usize::MAX,
        bytes_max: usize::MAX,
    };
}

/// Why a value was not kept. The store is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// [`Limits::count_max`] addresses have a value already, and this one is not among them.
    Count,
    /// The store would grow beyond [`Limits::bytes_max`].
    Bytes,
}

/// Where a [`LastValues::scan`] goes on. Begins at the beginning ([`ScanCursor::default`]); belongs to one filter.
#[derive(Clone, Debug, Default)]
pub struct ScanCursor {
    at: Position,
}

#[derive(Clone, Debug, Default)]
enum Position {
    #[default]
    Start,
    /// Everything up to this address has been looked at.
    After(Box<str>),
    End,
}

impl LastValues {
    pub fn new(limits: Limits) -> Self {
        LastValues {
            limits,
            by_address: BTreeMap::new(),
            by_expiry: BTreeMap::new(),
            serial_next: 0,
            bytes: 0,
            taken: (0, 0),
        }
    }

    /// Makes `message` the last value of its address and returns the one it replaces.
    ///
    /// A replacement counts only the growth against the limits, so a full store still follows its addresses.
    pub fn set(&mut self, message: Message) -> Result<Option<Message>, Refused> {
        let cost = cost(&message);
        let serial = self.serial_next;
        let expiring = (message.expires() != Time::NEVER).then(|| message.clone());
        // Looking at the address costs a check: once is enough. A replacement, which is what happens, needs no new key.
        let address = message.address();
        let previous = match self.by_address.get_mut(address) {
            None => {
                if self.by_address.len() + self.taken.0 >= self.limits.count_max {
                    return Err(Refused::Count);
                }
                if self.bytes.saturating_add(cost + self.taken.1) > self.limits.bytes_max {
                    return Err(Refused::Bytes);
                }
                let key = address.into();
                self.by_address.insert(key, Value { message, serial });
                None
            }
            Some(value) => {
                let freed = self::cost(&value.message);
                // A value that shrinks is welcome even after the limits were lowered below what is held.
                if cost > freed && self.bytes - freed + cost + self.taken.1 > self.limits.bytes_max
                {
                    return Err(Refused::Bytes);
                }
                Some(std::mem::replace(value, Value { message, serial }))
            }
        };
        self.serial_next += 1;
        self.bytes += cost;
        if let Some(message) = expiring {
            self.by_expiry.insert((message.expires(), serial), message);
        }
        Ok(previous.map(|value| self.settle(value)))
    }

    /// Forgets the last value of `address` and returns it.
    pub fn clear(&mut self, address: &str) -> Option<Message> {
        let value = self.by_address.remove(address)?;
        Some(self.settle(value))
    }

    /// The last value of `address`, unless it has expired by `now`.
    pub fn get(&self, address: &str, now: Time) -> Option<&Message> {
        self.by_address
            .get(address)
            .map(|value| &value.message)
            .filter(|message| message.expires() > now)
    }

    /// Hands the values that `filter` matches and that have not expired by `now` to `f`, in byte order of their
    /// addresses, looking at no more than `steps_max` (at least 1) of them. Returns whether the scan is complete;
    /// if not, call again with the same cursor.
    ///
    /// When `f` breaks, the value it was given counts as taken, and the next call goes on behind it. Values may be set
    /// and cleared between calls: a value that is there throughout is handed over exactly once; one that comes or goes
    /// meanwhile may or may not be seen.
    pub fn scan(
        &self,
        filter: &str,
        cursor: &mut ScanCursor,
        steps_max: usize,
        now: Time,
        mut f: impl FnMut(&Message) -> ControlFlow<()>,
    ) -> bool {
        let Ok(filter) = Filter::from_canonical(filter) else {
            return true;
        };
        let (exact, prefix) = literal_part(&filter);
        let mut steps_left = steps_max.max(1);
        if let (Position::Start, Some(exact)) = (&cursor.at, exact) {
            cursor.at = Position::After(exact.into());
            if let Some(message) = self.get(exact, now) {
                steps_left -= 1;
                let enough = f(message).is_break() || steps_left == 0;
                if enough && prefix.is_some() {
                    return false;
                }
            }
        }
        let from = match (&cursor.at, prefix) {
            (Position::End, _) | (_, None) => {
                cursor.at = Position::End;
                return true;
            }
            (Position::After(address), Some(prefix)) if **address >= *prefix => {
                Bound::Excluded(&**address)
            }
            (_, Some(prefix)) => Bound::Included(prefix),
        };
        let prefix = prefix.unwrap_or("");
        let mut last: Option<&str> = None;
        for (address, value) in self.by_address.range::<str, _>((from, Bound::Unbounded)) {
            if !address.starts_with(prefix) {
                break;
            }
            if let (0, Some(last)) = (steps_left, last) {
                cursor.at = Position::After(last.into());
                return false;
            }
            last = Some(address);
            steps_left = steps_left.saturating_sub(1);
            if value.message.expires() > now
                && filter.matches(address)
                && f(&value.message).is_break()
            {
                cursor.at = Position::After(address.clone());
                return false;
            }
        }
        cursor.at = Position::End;
        true
    }

    /// Drops at most `max` values that have expired by `now`, shows `dropped_one` their addresses, and returns how many it
    /// dropped; fewer than `max` means that none is left.
    pub fn expire(&mut self, now: Time, max: usize, mut dropped_one: impl FnMut(&str)) -> usize {
        for dropped in 0..max {
            match self.by_expiry.first_key_value() {
                Some((&(expires, _), message)) if expires <= now => {
                    let message = message.clone();
                    self.clear(message.address());
                    dropped_one(message.address());
                }
                _ => return dropped,
            }
        }
        max
    }

    /// When the next value expires: the time for the next [`expire`](LastValues::expire); [`Time::NEVER`] if none does.
    pub fn expiry_next(&self) -> Time {
        self.by_expiry
            .first_key_value()
            .map_or(Time::NEVER, |(&(expires, _), _)| expires)
    }

    /// The addresses that have a value, in byte order.
    pub fn addresses(&self) -> impl Iterator<Item = &str> {
        self.by_address.keys().map(|address| &**address)
    }

    /// Addresses that have a value, expired ones that are not dropped yet included.
    pub fn count(&self) -> usize {
        self.by_address.len()
    }

    /// Bytes of memory held (an estimate: messages, keys and the order's own cost).
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What [`set`](LastValues::set) holds the store to.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// How many messages and bytes are kept elsewhere under the same limits.
    pub(crate) fn set_taken(&mut self, count: usize, bytes: usize) {
        self.taken = (count, bytes);
    }

    /// Changes the limits. Values held beyond lower ones stay; new ones are refused.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// What [`bytes`](LastValues::bytes) should say, counted value by value.
    pub(crate) fn recount(&self) -> usize {
        let costs = self.by_address.values().map(|value| cost(&value.message));
        costs.sum()
    }

    /// The books of a value that just left the store.
    fn settle(&mut self, value: Value) -> Message {
        let Value { message, serial } = value;
        self.bytes -= cost(&message);
        if message.expires() != Time::NEVER {
            self.by_expiry.remove(&(message.expires(), serial));
        }
        message
    }
}

/// What a filter says literally: the one address without a wildcard that it matches, if there is one, and how all
/// other addresses that it matches begin, if there are others. The first sorts before all of the second.
fn literal_part(filter: &Filter) -> (Option<&str>, Option<&str>) {
    let text = filter.as_str();
    if let Some(prefix) = prefix_of(text) {
        return (None, Some(prefix));
    }
    match text.find(['+', '#']) {
        None => (Some(text), None),
        Some(at) => {
            let prefix = &text[..at];
            // `a/#` matches `a` too (`Many` also matches no level); in byte order `a!` lies between `a` and `a/`.
            let parent = if text[at..].starts_with('#') {
                prefix.strip_suffix('/')
            } else {
                None
            };
            (parent, Some(prefix))
        }
    }
}

/// What a value counts against [`Limits::bytes_max`].
fn cost(message: &Message) -> usize {
    message.bytes()
        + message.address_len()
        + ENTRY_BYTES
        + if message.expires() == Time::NEVER {
            0
        } else {
            EXPIRY_BYTES
        }
}

/// Key, value and allocation header of an entry in a B-tree whose nodes are two thirds full.
const ENTRY_BYTES: usize = 64;

/// The same for the expiry order.
const EXPIRY_BYTES: usize = 36;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Count => "the limit of last values is reached",
            Refused::Bytes => "the memory limit of last values is reached",
        })
    }
}

impl std::error::Error for Refused {}
