//! What a queue was declared as.

use super::spec::{QueueLimits, QueueSpec};
use crate::ids::SessionId;
use crate::topology::MadeBy;
use std::sync::Arc;
use thalweg_model::{Message, Time};

/// A queue's names, and what was asked of it. Nothing of that changes, but who decides about its dead letters may.
pub(crate) struct Terms {
    pub address: Arc<str>,
    /// The number under which its entries are in the journal, never used again by any other queue; 0 if they are not.
    pub number: u64,
    /// It was declared to outlive the broker.
    pub durable: bool,
    /// It ends with its last consumer.
    pub auto_delete: bool,
    /// The session that has it alone, and that it ends with.
    pub owner: Option<SessionId>,
    pub limits: QueueLimits,
    /// The maker of the setting where its dead letters go.
    pub made_by: MadeBy,
}

impl Terms {
    /// Those of a queue that outlives the broker and of which nothing else was said.
    pub(super) fn plain(address: &str, number: u64) -> Self {
        Terms {
            address: address.into(),
            number,
            durable: true,
            auto_delete: false,
            owner: None,
            limits: QueueLimits::default(),
            made_by: MadeBy::default(),
        }
    }

    /// When a message expires that came into the queue at `since`.
    #[inline]
    pub(super) fn expiry(&self, expires: Time, since: Time) -> Time {
        let ttl = self.limits.message_ttl;
        ttl.map_or(expires, |ttl| expires.min(since + ttl))
    }

    /// The same of one that came when it was published.
    pub(super) fn expiry_of(&self, message: &Message) -> Time {
        self.expiry(message.expires(), message.ingress())
    }

    /// Whether it is another session's alone than `id`, which is `None` for one on another shard.
    pub(super) fn is_locked_for(&self, id: Option<SessionId>) -> bool {
        self.owner.is_some() && self.owner != id
    }

    /// Whether a message is given up that was delivered so often and not settled.
    pub(super) fn is_too_often(&self, deliveries: u16) -> bool {
        let max = self.limits.deliveries_max;
        max.is_some_and(|max| u32::from(deliveries) > max)
    }

    /// What is said of it otherwise than when it was declared first.
    pub(super) fn difference(&self, spec: &QueueSpec<'_>) -> Option<&'static str> {
        let (known, said) = (&self.limits, &spec.limits);
        match () {
            // An exclusive queue is never written down, whatever was said.
            () if self.owner.is_some() != spec.exclusive => Some("exclusive"),
            () if self.owner.is_none() && self.durable != spec.durable => Some("durable"),
            () if self.auto_delete != spec.auto_delete => Some("auto_delete"),
            () if known.label != said.label => Some("label"),
            () if known.message_ttl != said.message_ttl => Some("message_ttl"),
            () if known.idle_expiry != said.idle_expiry => Some("idle_expiry"),
            () if known.messages_max != said.messages_max => Some("messages_max"),
            () if known.bytes_max != said.bytes_max => Some("bytes_max"),
            () if known.overflow != said.overflow => Some("overflow"),
            () if known.dead_letter.as_ref().map(|it| &it.exchange)
                != said.dead_letter.as_ref().map(|it| &it.exchange) =>
            {
                Some("dead_letter")
            }
            () if known.dead_letter != said.dead_letter => Some("dead_letter_key"),
            () if known.priority_max != said.priority_max => Some("priority_max"),
            () if known.single_active != said.single_active => Some("single_active"),
            () if known.deliveries_max != said.deliveries_max => Some("deliveries_max"),
            () => None,
        }
    }
}
