//! Last values that are kept without a retained publish.
//!
//! Who reads an address expects what was last published there, whatever its publisher said about retaining. So addresses
//! can be declared whose every publish is remembered: by filter in the settings, one by one by fronts. Those values are in
//! a store of their own on the address's home, beside that of retained messages: subscribers never get them as retained
//! messages, they are in memory only, and they have limits of their own. Where both stores have a value of an address,
//! this one's is the newer: a retained message that comes takes it away.
//!
//! Whether an address is kept is decided when its route is worked out.

use crate::effects::Safety;
use crate::ids::SessionId;
use crate::publish::pipeline::Draft;
use crate::remote::shards::ShardMessage;
use crate::{Kernel, home};
use thalweg_model::{Message, RetainOp, Time};

impl Kernel {
    /// Whether every publish to an address is remembered as its last value, retained or not, from now on. All shards
    /// are told; the last call counts, on whichever shard. What was remembered is forgotten when this ends. In memory
    /// only. False if there are as many such addresses as may be.
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
        let max = self.env.limits().kept_addresses_max;
        let Some(changed) = self.values.keep_address(address, keep, max) else {
            return false;
        };
        if changed {
            self.routes.have_changed(address);
            if !self.values.is_kept(address, self.env.limits()) {
                self.values.forget_remembered(address);
            }
        }
        true
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
            return self.values.forget_remembered(message.address());
        }
        let before = self.values_before(&message);
        if self.env.drops_waiting() || !self.values.remember(message.clone()) {
            self.books.retain_refused();
        } else if let Some(before) = before {
            // It is in memory only, and so is its place.
            self.keep_beside(&message, before, Safety::Lazy);
        }
    }
}
