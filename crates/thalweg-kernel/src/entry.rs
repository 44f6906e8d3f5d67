//! A copy of a message: of which message, for whom, how surely.

use crate::ids::GroupId;
use crate::spill::Spilled;
use std::sync::Arc;
#[cfg(test)]
use thalweg_model::RetainOp;
use thalweg_model::{Message, Reliability, Time};
use thalweg_records::Stored;

/// A copy of a message, waiting or in flight.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub message: Message,
    pub via: Via,
    /// Names it in the journal, 0 if it is not written down.
    pub serial: u64,
    /// In the journal it is in its group's queue, not in the session's own.
    pub of_group: bool,
    pub reliability: Reliability,
    pub retain: bool,
    /// Deliveries that were not settled.
    pub deliveries: u16,
}

// Each copy that waits for a session has one.
const _: () = assert!(size_of::<Entry>() <= 40);

/// What brought a copy to its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// Subscriptions of its own.
    Own(SubscriptionIds),
    /// A group, in which its membership has an identifier, or 0.
    Group(GroupId, u32),
}

impl Via {
    pub(crate) fn subscription_ids(&self) -> &[u32] {
        match self {
            Via::Own(ids) => ids.as_slice(),
            Via::Group(_, 0) => &[],
            Via::Group(_, id) => std::slice::from_ref(id),
        }
    }

    /// The same, to be kept.
    pub(crate) fn to_subscription_ids(&self) -> SubscriptionIds {
        match self {
            Via::Own(ids) => ids.clone(),
            Via::Group(_, id) => SubscriptionIds::of(*id),
        }
    }
}

impl Entry {
    /// The group it came through.
    #[inline]
    pub(crate) fn group(&self) -> Option<GroupId> {
        match self.via {
            Via::Own(_) => None,
            Via::Group(group, _) => Some(group),
        }
    }

    /// It is its session's own from now on.
    pub(crate) fn leave_group(&mut self) {
        self.via = Via::Own(self.via.to_subscription_ids());
    }

    /// An entry of a session's own with its message again.
    pub(crate) fn restored(stored: Stored, message: Message) -> Self {
        let subscription_ids = match (stored.rare, stored.subscription_id) {
            (Some(rare), _) if !rare.1.is_empty() => SubscriptionIds::Many(Arc::new(rare.1)),
            (_, id) => SubscriptionIds::of(id),
        };
        Entry {
            message,
            via: Via::Own(subscription_ids),
            serial: stored.serial,
            of_group: false,
            reliability: stored.reliability,
            retain: stored.retain,
            deliveries: stored.deliveries,
        }
    }

    #[cfg(test)]
    pub(crate) fn for_test() -> Self {
        let message = Message::new(
            "t",
            b"",
            Reliability::AtLeastOnce,
            RetainOp::None,
            Time::NEVER,
            Time::ZERO,
            0,
            None,
        );
        Entry {
            message,
            via: Via::Own(SubscriptionIds::None),
            serial: 0,
            of_group: false,
            reliability: Reliability::AtLeastOnce,
            retain: false,
            deliveries: 0,
        }
    }
}

impl Spilled for Entry {
    fn serial(&self) -> u64 {
        self.serial
    }

    fn message(&self) -> &Message {
        &self.message
    }

    fn stored(self, place: u64, len: u32) -> Stored {
        let expires = self.message.expires();
        let rare = match &self.via {
            Via::Own(SubscriptionIds::Many(ids)) => Some(Box::new((0, ids.to_vec()))),
            _ => None,
        };
        Stored {
            serial: self.serial,
            place,
            len,
            expires_secs: match expires {
                Time::NEVER => 0,
                at => at.nanos().div_ceil(1_000_000_000).min(u64::from(u32::MAX)) as u32,
            },
            subscription_id: match self.via {
                Via::Own(SubscriptionIds::One(id)) => id,
                _ => 0,
            },
            reliability: self.reliability,
            retain: self.retain,
            deliveries: self.deliveries,
            rare,
        }
    }
}

/// The identifiers of the subscriptions that matched. Nearly always none or one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SubscriptionIds {
    None,
    One(u32),
    // Boxed twice to keep the enum, and with it every queued copy, small.
    Many(Arc<Vec<u32>>),
}

impl SubscriptionIds {
    /// Of one subscription, whose identifier is 0 if it has none.
    pub(crate) fn of(id: u32) -> Self {
        match id {
            0 => SubscriptionIds::None,
            _ => SubscriptionIds::One(id),
        }
    }

    pub(crate) fn as_slice(&self) -> &[u32] {
        match self {
            SubscriptionIds::None => &[],
            SubscriptionIds::One(id) => std::slice::from_ref(id),
            SubscriptionIds::Many(ids) => ids,
        }
    }
}
