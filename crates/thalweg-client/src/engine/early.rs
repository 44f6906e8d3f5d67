//! Messages that a peer kept for an earlier process of this client and delivers before any subscription was made: they
//! wait for the subscription that they belong to.

use std::collections::VecDeque;

use thalweg_model::{Span, Time};

use super::lane::{Link, Todo};
use super::{Core, Engine};
use crate::message::Message;
use crate::transport::{DeliveryId, Inbound, SubscriptionId};

/// How long a message waits for a subscription. Then it is settled as unwanted.
const PATIENCE: Span = Span::from_secs(10);

/// A message without a subscription yet.
pub(super) struct Early {
    message: Message,
    lane: usize,
    connection: u32,
    delivery: DeliveryId,
    until: Time,
}

impl Core {
    /// Keeps a message without a subscription, if the client has a session and there is space; `false` if not.
    pub(super) fn keep_early(
        &mut self,
        lane: usize,
        link: &Link,
        message: &Inbound<'_>,
        delivery: DeliveryId,
        now: Time,
    ) -> bool {
        let keeps = link.way == 0
            && self.settings.opening.session > Span::ZERO
            && self.early.len() < self.settings.receive_max as usize;
        if keeps {
            let until = now + PATIENCE;
            let message = Message::new(message);
            self.early.push_back(Early {
                message,
                lane,
                connection: link.connection,
                delivery,
                until,
            });
            self.care_at = self.care_at.min(until);
        }
        keeps
    }
}

impl Engine {
    /// Gives a new subscription what waits for it, in the order in which it came.
    pub(super) fn hand_over_early(&mut self, name: SubscriptionId) {
        if self.core.early.is_empty() {
            return;
        }
        let mut left = VecDeque::new();
        for early in std::mem::take(&mut self.core.early) {
            // Of a connection that has ended it comes again.
            if self
                .lanes
                .get(early.lane)
                .is_none_or(|lane| lane.link.connection != early.connection)
            {
                continue;
            }
            let wanted = self
                .core
                .subscriptions
                .get(&name)
                .and_then(|it| it.matcher.as_ref());
            match wanted.is_some_and(|filter| filter.matches(early.message.topic())) {
                true => {
                    let Early {
                        message,
                        lane,
                        connection,
                        delivery,
                        ..
                    } = early;
                    self.core
                        .hand_over(name, message, lane, connection, Some(delivery));
                }
                false => left.push_back(early),
            }
        }
        self.core.early = left;
    }

    /// Settles messages that no subscription has matched in time.
    pub(super) fn end_early(&mut self, now: Time) {
        while let Some(early) = self.core.early.pop_front_if(|early| early.until <= now) {
            self.core
                .todo
                .push((early.lane, Todo::Settle(early.delivery)));
        }
        if let Some(first) = self.core.early.front() {
            self.core.care_at = self.core.care_at.min(first.until);
        }
    }
}
