//! Selection of the lanes that can carry a subscription.

use thalweg_model::Reliability;

use super::subscriptions::Subscription;
use crate::transport::Capabilities;

impl Subscription {
    /// Whether a lane can carry it as it is wanted.
    pub(super) fn fits(&self, can: &Capabilities) -> bool {
        // Repetitions are recognized by their stamps: at least once is enough for exactly once.
        let needed = if can.carries_stamps {
            self.reliability.min(Reliability::AtLeastOnce)
        } else {
            self.reliability
        };
        self.can_be_at(can) && (can.keeps_all || !self.keeps_all) && can.receive_max >= needed
    }

    /// Whether a lane can carry it at all.
    pub(super) fn can_be_at(&self, can: &Capabilities) -> bool {
        self.misses(can).is_none()
    }

    /// Returns a required capability that the lane does not have.
    pub(super) fn misses(&self, can: &Capabilities) -> Option<&'static str> {
        if !can.subscribes {
            return Some("subscriptions");
        }
        if !can.wildcards && self.filter.contains(['+', '#']) {
            return Some("filters with wildcards");
        }
        (self.settle_by_hand && !can.settles).then_some(
            "messages that the application settles: a message counts as received when it comes",
        )
    }
}
