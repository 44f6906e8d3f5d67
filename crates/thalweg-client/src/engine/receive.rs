//! Received messages: the subscriptions that they belong to, and the handling of those without one.

use thalweg_model::{Reliability, Time};

use super::Core;
use super::lane::{Link, Todo};
use crate::message::Message;
use crate::transport::{Inbound, SubscriptionId};

impl Core {
    /// A message came over a lane.
    pub(super) fn receive(&mut self, lane: usize, link: &Link, message: &Inbound<'_>, now: Time) {
        if let Some(chooser) = &mut self.chooser
            && link.way == 0
        {
            chooser.received(lane, message.payload.len(), now);
        }
        let mut delivery = message.delivery;
        let mut is_anybodys = false;
        match message.subscription {
            Some(name) => {
                if self.is_for(name, lane, link) {
                    is_anybodys = true;
                    self.deliver(name, lane, link, message, &mut delivery, now);
                }
            }
            None => {
                // The protocol does not name the subscription: every matching one gets the message, and only one of
                // them settles it.
                let mut from = SubscriptionId(0);
                while let Some(name) = self.next_match(from, lane, link, message.address) {
                    is_anybodys = true;
                    self.deliver(name, lane, link, message, &mut delivery, now);
                    let Some(next) = name.0.checked_add(1) else {
                        break;
                    };
                    from = SubscriptionId(next);
                }
            }
        }
        if let Some(delivery) = delivery.filter(|_| !is_anybodys)
            && !self.keep_early(lane, link, message, delivery, now)
        {
            self.todo.push((lane, Todo::Settle(delivery)));
        }
    }

    /// Whether a subscription may get messages of a lane.
    fn is_for(&self, name: SubscriptionId, lane: usize, link: &Link) -> bool {
        let Some(it) = self.subscriptions.get(&name) else {
            return false;
        };
        // A peer that kept messages for us may deliver them before it is asked again.
        let is_awaited = it.lost.is_some_and(|(lost, _)| lost == lane);
        // Nor does the lane wait for that with messages kept for an earlier process of this client.
        let is_early =
            it.lane().is_none() && it.lost.is_none() && it.moving.is_none() && it.way == link.way;
        it.is_at(lane)
            || is_awaited
            || is_early
            || it.tail == Some(lane)
            || link.remnants.iter().any(|(remnant, _)| *remnant == name)
    }

    /// Returns the first subscription from `from` on that matches an address on a lane.
    fn next_match(
        &self,
        from: SubscriptionId,
        lane: usize,
        link: &Link,
        address: &str,
    ) -> Option<SubscriptionId> {
        let mut from_there = self.subscriptions.range(from..);
        let wants = |matcher: &Option<thalweg_model::Filter>| {
            matcher.as_ref().is_some_and(|it| it.matches(address))
        };
        from_there
            .find(|(name, it)| wants(&it.matcher) && self.is_for(**name, lane, link))
            .map(|(name, _)| *name)
    }

    /// Gives a message to a subscription, holds it, or drops it. Takes `delivery` if it will be settled later.
    fn deliver(
        &mut self,
        name: SubscriptionId,
        lane: usize,
        link: &Link,
        message: &Inbound<'_>,
        delivery: &mut Option<crate::transport::DeliveryId>,
        now: Time,
    ) {
        let Some(it) = self.subscriptions.get_mut(&name) else {
            return;
        };
        let held = it.moving.as_mut().filter(|moving| moving.to == lane);
        let has_room = it.outstanding_bytes < self.settings.receive_bytes_max
            && held
                .as_ref()
                .is_none_or(|moving| moving.held.len() < self.settings.receive_max as usize);
        if message.reliability == Reliability::AtMostOnce && !has_room {
            self.books.counts.receive_dropped += 1;
            return;
        }
        if let Some(moving) = held {
            // While both lanes bring messages: what has no stamp and must not come twice comes over the old lane only; so
            // does the last value that the new lane begins with, as the old lane has brought it already.
            let is_again =
                message.stamp.is_none() && message.reliability == Reliability::AtMostOnce;
            // Nor can what is surer be recognized without a stamp, as long as the old lane brings it as well.
            let is_twice = message.stamp.is_none() && moving.state.is_both();
            if is_again || is_twice || message.is_last_value {
                self.books.counts.receive_dropped += u64::from(is_again && !message.is_last_value);
                if let Some(delivery) = delivery.take() {
                    self.todo.push((lane, Todo::Settle(delivery)));
                }
                return;
            }
            moving
                .held
                .push_back((Message::new(message), link.connection, delivery.take()));
            if moving.state.is_both() && moving.is_full(&self.settings) {
                self.care_at = now;
            }
            return;
        }
        if let Some(moving) = it.moving.as_mut() {
            // The old lane is not at its end yet.
            moving.old_lane_spoke();
            self.care_at = now;
        }
        let is_deaf = it
            .deaf
            .is_some_and(|(answers, until)| link.answers < answers && now < until);
        it.deaf = it.deaf.filter(|_| is_deaf);
        if message.stamp.is_none()
            && message.reliability == Reliability::AtMostOnce
            && (is_deaf || it.lane().or(it.lost.map(|(lost, _)| lost)) != Some(lane))
        {
            // Another lane has brought it, or will.
            self.books.counts.receive_dropped += 1;
            return;
        }
        self.hand_over(
            name,
            Message::new(message),
            lane,
            link.connection,
            delivery.take(),
        );
    }
}
