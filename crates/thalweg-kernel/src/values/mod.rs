//! Last values of addresses: retained, remembered, and watched.
//!
//! *Knows:* values, which addresses are remembered, what watches an address, lists that are being put together. *Must never
//! know:* a session but by its identifier, a route, another shard's values.

pub(crate) mod cell;
pub(crate) mod history;
pub(crate) mod kept_value;
pub mod last_value;
pub(crate) mod read;
pub(crate) mod recall;
pub(crate) mod retained;
pub(crate) mod watch;
mod watches;

use history::{History, forgotten, name_of};
pub(crate) use watches::{Asking, Cell, NONE, NewWatcher, Offered, Watcher, Watches};

use crate::env::Neutral;
use crate::kernel::Map;
use crate::limits::Limits;
use crate::values::last_value::{LastValues, ScanCursor};
use crate::values::read::List;
use std::ops::ControlFlow;
use thalweg_model::{Message, Time};
use thalweg_records::Record;

/// The last values of this shard's addresses, and who watches or lists values.
pub(crate) struct Values {
    retained: LastValues,
    /// Values that were not retained, of addresses whose every publish is remembered; newer than those in `retained` where
    /// both have one.
    remembered: LastValues,
    /// The kept messages of addresses that keep several.
    pub history: History,
    /// Addresses whose every publish is remembered, beside those of [`Limits::kept_filters`].
    kept_addresses: Map<Box<str>, ()>,
    /// Lists of last values that are being put together, by question.
    lists: Map<u32, List>,
    /// Watches, and the values that they share.
    pub watches: Watches,
}

impl Values {
    pub(crate) fn new(limits: &Limits) -> Self {
        Values {
            retained: LastValues::new(retained_limits(limits)),
            remembered: LastValues::new(remembered_limits(limits)),
            history: History::default(),
            kept_addresses: Map::default(),
            lists: Map::default(),
            watches: Watches::default(),
        }
    }

    /// Applies new limits; values beyond lower ones stay.
    pub(crate) fn set_limits(&mut self, limits: &Limits) {
        self.retained.set_limits(retained_limits(limits));
        self.remembered.set_limits(remembered_limits(limits));
    }

    /// The retained value of an address.
    pub(crate) fn retained(&self, address: &str, now: Time) -> Option<&Message> {
        self.retained.get(address, now)
    }

    /// The newest value of an address, retained or remembered.
    pub(crate) fn latest(&self, address: &str, now: Time) -> Option<&Message> {
        self.remembered
            .get(address, now)
            .or_else(|| self.retained.get(address, now))
    }

    /// Retains a message, which is newer than what was remembered. False if there is no room.
    pub(crate) fn retain(&mut self, message: &Message) -> bool {
        self.retained
            .set_taken(self.history.count(), self.history.bytes());
        let is_set = self.retained.set(message.clone()).is_ok();
        // Looking at the address costs more than the rest.
        if is_set && self.remembered.count() > 0 {
            self.remembered.clear(message.address());
        }
        is_set
    }

    /// Forgets both values of an address, and all that it keeps.
    pub(crate) fn clear(&mut self, address: &str) {
        self.retained.clear(address);
        if self.remembered.count() > 0 {
            self.remembered.clear(address);
        }
        self.history.clear(address);
    }

    /// Forgets a message that was taken out of the history if it is a last value; whether it was the retained one.
    pub(crate) fn forget_if_last(&mut self, message: &Message, neutral: Neutral) -> bool {
        let address = message.address();
        let is_it = |store: &LastValues| {
            store.get(address, Time::ZERO).is_some_and(|value| {
                value.is_same(message)
                    || (watches::is_same(value, message)
                        && name_of(value, neutral) == name_of(message, neutral))
            })
        };
        let (is_retained, is_remembered) = (is_it(&self.retained), is_it(&self.remembered));
        if is_remembered {
            self.remembered.clear(address);
        }
        if is_retained {
            self.retained.clear(address);
        }
        is_retained
    }

    /// The messages that an address keeps, oldest first.
    pub(crate) fn kept(&self, address: &str, now: Time) -> Vec<Message> {
        let all = match self.history.has(address) {
            true => self.history.of(address).cloned().collect(),
            false => Vec::from_iter(self.latest(address, now).cloned()),
        };
        all.into_iter()
            .filter(|message: &Message| message.expires() > now)
            .collect()
    }

    /// Remembers a message of an address that is kept. False if there is no room.
    pub(crate) fn remember(&mut self, message: Message) -> bool {
        self.remembered.set(message).is_ok()
    }

    /// Forgets what was remembered of an address.
    pub(crate) fn forget_remembered(&mut self, address: &str) {
        if self.remembered.count() > 0 {
            self.remembered.clear(address);
        }
        self.history.forget_remembered(address);
    }

    /// Remembers every publish to an address from now on, or no longer. Whether that changes anything; nothing if there are
    /// as many such addresses as may be.
    pub(crate) fn keep_address(&mut self, address: &str, keep: bool, max: usize) -> Option<bool> {
        if !keep {
            return Some(self.kept_addresses.remove(address).is_some());
        }
        if self.kept_addresses.contains_key(address) {
            return Some(false);
        }
        if self.kept_addresses.len() >= max {
            return None;
        }
        self.kept_addresses.insert(address.into(), ());
        Some(true)
    }

    /// Whether every publish to an address is remembered.
    pub(crate) fn is_kept(&self, address: &str, limits: &Limits) -> bool {
        (!self.kept_addresses.is_empty() && self.kept_addresses.contains_key(address))
            || limits.remembers(address)
    }

    /// Forgets what was remembered of addresses that are not kept any more.
    pub(crate) fn forget_unkept(&mut self, limits: &Limits) {
        let all = self.remembered.addresses();
        let unkept: Vec<Box<str>> = all
            .filter(|address| !self.is_kept(address, limits))
            .map(Into::into)
            .collect();
        for address in unkept {
            self.forget_remembered(&address);
        }
    }

    /// Shows retained values that match a filter to `f`; see [`LastValues::scan`].
    pub(crate) fn scan_retained(
        &self,
        filter: &str,
        cursor: &mut ScanCursor,
        steps_max: usize,
        now: Time,
        f: impl FnMut(&Message) -> ControlFlow<()>,
    ) -> bool {
        self.retained.scan(filter, cursor, steps_max, now, f)
    }

    /// What was remembered, and what was retained, as a list looks at them.
    pub(crate) fn stores(&self) -> [&LastValues; 2] {
        [&self.remembered, &self.retained]
    }

    /// Drops up to `max` values of each kind that have expired; shows what is to be written of it. The addresses that still keep
    /// others.
    pub(crate) fn expire(
        &mut self,
        now: Time,
        max: usize,
        mut gone: impl FnMut(&Record<'_>),
    ) -> Vec<Box<str>> {
        let history = &self.history;
        let mut left = Vec::new();
        self.retained.expire(now, max, |address| {
            if history.has(address) {
                left.push(address.into());
                // Its own number goes with the history's.
                gone(&forgotten(address, (1, 0), true));
            } else {
                gone(&Record::Cleared { address });
            }
        });
        self.remembered.expire(now, max, |_| {});
        self.history.expire(now, max, |address, number| {
            gone(&forgotten(address, (number, number), false));
        });
        left
    }

    pub(crate) fn retained_count(&self) -> usize {
        self.retained.count()
    }

    /// Bytes of the retained values, and of what addresses keep beside their last values.
    pub(crate) fn retained_bytes(&self) -> usize {
        self.retained.bytes() + self.history.bytes()
    }

    /// Bytes of the retained values alone.
    pub(crate) fn last_bytes(&self) -> usize {
        self.retained.bytes()
    }

    pub(crate) fn remembered_count(&self) -> usize {
        self.remembered.count()
    }

    /// Bytes of all values, those that watches share among them.
    pub(crate) fn bytes(&self) -> usize {
        self.retained_bytes() + self.remembered.bytes() + self.watches.value_bytes()
    }

    // --- lists

    /// Lists that are being put together.
    pub(crate) fn list_count(&self) -> usize {
        self.lists.len()
    }

    /// Begins a list, under the question that asks for its values.
    pub(crate) fn add_list(&mut self, question: u32, list: List) {
        self.lists.insert(question, list);
    }

    pub(crate) fn list(&self, question: u32) -> Option<&List> {
        self.lists.get(&question)
    }

    pub(crate) fn list_mut(&mut self, question: u32) -> Option<&mut List> {
        self.lists.get_mut(&question)
    }

    pub(crate) fn remove_list(&mut self, question: u32) -> Option<List> {
        self.lists.remove(&question)
    }
}

fn retained_limits(limits: &Limits) -> last_value::Limits {
    last_value::Limits {
        count_max: limits.retained_messages_max,
        bytes_max: limits.retained_bytes_max,
    }
}

fn remembered_limits(limits: &Limits) -> last_value::Limits {
    last_value::Limits {
        count_max: limits.kept_messages_max,
        bytes_max: limits.kept_bytes_max,
    }
}
