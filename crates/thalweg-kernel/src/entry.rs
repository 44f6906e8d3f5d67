//! A copy of a message: of which message, for whom, how surely.

use std::sync::Arc;
use thalweg_model::{Message, Reliability};
#[cfg(test)]
use thalweg_model::{RetainOp, Time};

/// No group: the copy came through a subscription of the session's own.
pub(crate) const NO_GROUP: u32 = u32::MAX;

/// A copy of a message, waiting or in flight.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) message: Message,
    pub(crate) subscription_ids: SubscriptionIds,
    /// The group it came through, [`NO_GROUP`] if none.
    pub(crate) group: u32,
    /// Names it in the journal, 0 if it is not written down.
    pub(crate) serial: u64,
    /// In the journal it is in its group's queue, not in the session's own.
    pub(crate) of_group: bool,
    pub(crate) reliability: Reliability,
    pub(crate) retain: bool,
    /// How often it was delivered to somebody who did not settle it.
    pub(crate) deliveries: u8,
}

// Each copy that waits for a session has one.
const _: () = assert!(size_of::<Entry>() <= 40);

impl Entry {
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
            subscription_ids: SubscriptionIds::None,
            group: NO_GROUP,
            serial: 0,
            of_group: false,
            reliability: Reliability::AtLeastOnce,
            retain: false,
            deliveries: 0,
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
    pub(crate) fn as_slice(&self) -> &[u32] {
        match self {
            SubscriptionIds::None => &[],
            SubscriptionIds::One(id) => std::slice::from_ref(id),
            SubscriptionIds::Many(ids) => ids,
        }
    }
}
