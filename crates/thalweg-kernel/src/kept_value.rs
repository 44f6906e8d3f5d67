//! Values that are remembered although nobody retained them.
//!
//! Who reads an address expects what was last published there, whatever its publisher said about retaining. So addresses
//! can be declared whose every publish is remembered: by filter in the settings, one by one by fronts. Those values are in
//! a store of their own on the address's home, beside that of retained messages: subscribers never get them as retained
//! messages, they are in memory only, and they have limits of their own. Where both stores have a value of an address,
//! this one's is the newer: a retained message that comes takes it away.
//!
//! Whether an address is kept is decided when its route is worked out.

use crate::ids::SessionId;
use crate::publish::Draft;
use crate::shards::ShardMessage;
use crate::{Kernel, home};
use thalweg_model::{Message, RetainOp, Time};

impl Kernel {
    /// Whether every publish to an address is remembered as its last value, retained or not, from now on. All shards are
    /// told; the last word counts, whoever said it. What was remembered is forgotten when this ends. In memory only.
    /// False if there are as many such addresses as may be.
    pub fn keep_last(&mut self, address: &str, keep: bool) -> bool {
        if !self.on_keep_last(address, keep) {
            return false;
        }
        self.tell_shards(|_| ShardMessage::KeepLast {
            address: address.into(),
            keep,
        });
        true
    }

    /// The same, said here or on another shard.
    pub(crate) fn on_keep_last(&mut self, address: &str, keep: bool) -> bool {
        let changed = if keep {
            if self.kept_addresses.len() >= self.env.limits().kept_addresses_max
                && !self.kept_addresses.contains_key(address)
            {
                return false;
            }
            self.kept_addresses.insert(address.into(), ()).is_none()
        } else {
            self.kept_addresses.remove(address).is_some()
        };
        if changed {
            self.routes.have_changed(address);
            if !self.is_kept(address) {
                self.kept_values.clear(address);
            }
        }
        true
    }

    /// Whether whatever is published there is remembered.
    pub(crate) fn is_kept(&self, address: &str) -> bool {
        (!self.kept_addresses.is_empty() && self.kept_addresses.contains_key(address))
            || self
                .env
                .limits()
                .kept_filters
                .iter()
                .any(|filter| filter.matches(address))
    }

    /// Has a publish remembered at its address's home.
    pub(crate) fn remember(
        &mut self,
        publisher: Option<SessionId>,
        draft: &Draft<'_>,
        kept: &mut Option<Message>,
        now: Time,
    ) {
        let message = self.keep(publisher, draft, kept, now);
        let owner = home(draft.address, self.env.shards());
        if owner == self.env.shard() {
            self.remember_here(message);
        } else {
            self.remote.send(owner, ShardMessage::Keep { message });
        }
    }

    pub(crate) fn remember_here(&mut self, message: Message) {
        if message.retain() == RetainOp::Clear {
            self.forget_remembered(&message);
        } else if self.env.drops_waiting() || self.kept_values.set(message).is_err() {
            self.books.retain_refused();
        }
    }

    /// Forgets what was remembered of a message's address.
    pub(crate) fn forget_remembered(&mut self, message: &Message) {
        if self.kept_values.count() > 0 {
            self.kept_values.clear(message.address());
        }
    }

    /// The newest last value of an address whose home is here, retained or remembered.
    pub(crate) fn last_value_of(&self, address: &str, now: Time) -> Option<&Message> {
        self.kept_values
            .get(address, now)
            .or_else(|| self.last_values.get(address, now))
    }

    /// The settings say otherwise now: what is not remembered any more is forgotten.
    pub(crate) fn forget_unkept(&mut self) {
        let all = self.kept_values.addresses();
        let unkept: Vec<Box<str>> = all
            .filter(|address| !self.is_kept(address))
            .map(Into::into)
            .collect();
        for address in unkept {
            self.kept_values.clear(&address);
        }
    }
}
