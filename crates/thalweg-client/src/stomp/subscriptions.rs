//! Subscriptions of one connection.

use thalweg_model::Reliability;
use thalweg_stomp::{AckMode, ClientSide, SubscribeOut};

use super::destination::{Idiom, Source};
use crate::queues::Session;
use crate::transport::{Events, Refusal, SubscribeWish, SubscriptionId};

/// State that all subscriptions of a connection share.
#[derive(Clone, Debug, Default)]
pub(super) struct Common {
    /// Deliveries of each that may be unsettled.
    pub(super) prefetch: u16,
    pub(super) session: Session,
    /// One at a time, and nothing beside it.
    pub(super) is_careful: bool,
}

/// The subscriptions of one connection.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    entries: Vec<Subscription>,
}

#[derive(Debug)]
struct Subscription {
    id: SubscriptionId,
    /// Its name on the wire.
    name: String,
    stage: Stage,
    source: Source,
    /// The queue that outlives the connection.
    kept: Option<String>,
    settles: bool,
    last_values: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// SUBSCRIBE was not written yet.
    Waiting,
    Asked,
    Active,
}

impl Subscriptions {
    /// The connection is another one.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Number of subscriptions that wait for their receipt.
    pub(super) fn asked_count(&self) -> usize {
        self.entries
            .iter()
            .filter(|it| it.stage == Stage::Asked)
            .count()
    }

    /// Whether any has not been confirmed.
    pub(super) fn are_any_asked(&self) -> bool {
        self.entries.iter().any(|it| it.stage != Stage::Active)
    }

    /// Notes a subscription; [`Subscriptions::pump`] writes it.
    pub(super) fn begin(
        &mut self,
        wish: &SubscribeWish<'_>,
        idiom: Idiom,
        common: &Common,
    ) -> Result<(), Refusal> {
        let source = idiom.source(wish.filter)?;
        let is_bound = matches!(source, Source::Bound(_));
        let taken = self.entries.iter().filter_map(|it| it.kept.as_deref());
        let kept = match is_bound {
            true => common.session.queue(wish.filter, taken),
            false => None,
        };
        self.entries.retain(|it| it.id != wish.subscription);
        self.entries.push(Subscription {
            id: wish.subscription,
            name: wish.subscription.0.to_string(),
            stage: Stage::Waiting,
            source,
            kept,
            settles: wish.reliability != Reliability::AtMostOnce,
            last_values: wish.last_values,
        });
        Ok(())
    }

    /// Writes what waits, as far as that may go now beside so many unconfirmed publishes.
    pub(super) fn pump(
        &mut self,
        unconfirmed: usize,
        common: &Common,
        machine: &ClientSide,
        out: &mut Vec<u8>,
    ) {
        loop {
            let is_busy = unconfirmed > 0 || self.asked_count() > 0;
            if common.is_careful && is_busy {
                return;
            }
            let Some(it) = self
                .entries
                .iter_mut()
                .find(|it| it.stage == Stage::Waiting)
            else {
                return;
            };
            it.stage = Stage::Asked;
            it.ask(common, machine, out);
        }
    }

    pub(super) fn end(&mut self, id: SubscriptionId, machine: &ClientSide, out: &mut Vec<u8>) {
        let Some(place) = self.entries.iter().position(|it| it.id == id) else {
            return;
        };
        let it = self.entries.swap_remove(place);
        if it.stage == Stage::Waiting {
            return;
        }
        match &it.kept {
            // The queue goes, too.
            Some(queue) => {
                let headers = [("durable", "true"), ("x-queue-name", queue.as_str())];
                machine.unsubscribe(&it.name, None, &headers, out);
            }
            None => machine.unsubscribe(&it.name, None, &[], out),
        }
    }

    /// A receipt that is no number came.
    pub(super) fn on_receipt(&mut self, receipt: &str, events: &mut dyn Events) {
        let name = receipt.strip_prefix(RECEIPT);
        let asked = self
            .entries
            .iter_mut()
            .find(|it| it.stage == Stage::Asked && name == Some(it.name.as_str()));
        if let Some(it) = asked {
            it.stage = Stage::Active;
            let granted = if it.settles {
                Reliability::AtLeastOnce
            } else {
                Reliability::AtMostOnce
            };
            events.subscribed(it.id, Ok(granted));
        }
    }

    /// The frame with this receipt was refused.
    pub(super) fn on_refused(&mut self, receipt: &str, why: Refusal, events: &mut dyn Events) {
        let name = receipt.strip_prefix(RECEIPT);
        if let Some(it) = self
            .entries
            .iter()
            .find(|it| name == Some(it.name.as_str()))
        {
            events.subscribed(it.id, Err(why));
        }
    }

    /// The only one that was asked for was refused.
    pub(super) fn on_last_refused(&mut self, why: &Refusal, events: &mut dyn Events) {
        if let Some(it) = self.entries.iter().find(|it| it.stage == Stage::Asked) {
            events.subscribed(it.id, Err(why.clone()));
        }
    }

    /// Returns the subscription that a message belongs to.
    #[inline]
    pub(super) fn receiver(&self, name: &str) -> Option<SubscriptionId> {
        self.entries
            .iter()
            .find(|it| it.name == name)
            .map(|it| it.id)
    }
}

/// Begins the receipts of SUBSCRIBE: those of SEND are numbers.
const RECEIPT: &str = "s";

impl Subscription {
    fn ask(&self, common: &Common, machine: &ClientSide, out: &mut Vec<u8>) {
        let prefetch = common.prefetch.to_string();
        let expires = common.session.expires().map(|millis| millis.to_string());
        let mut headers: Vec<(&str, &str)> = Vec::new();
        if self.settles {
            headers.push(("prefetch-count", &prefetch));
        }
        if self.last_values && matches!(self.source, Source::Bound(_)) {
            headers.push(("x-last-value", "true"));
        }
        if let Some(queue) = &self.kept {
            headers.extend([
                ("x-queue-name", queue.as_str()),
                ("durable", "true"),
                ("auto-delete", "false"),
            ]);
            headers.push(("exclusive", "false"));
        }
        let outlives = self.kept.is_some() || matches!(self.source, Source::Shared { .. });
        if let Some(expires) = expires
            .as_deref()
            .filter(|_| outlives && common.session.lives_on())
        {
            headers.push(("x-expires", expires));
        }
        let destination = match &self.source {
            Source::Queue(destination) | Source::Bound(destination) => destination,
            Source::Shared { destination, queue } => {
                headers.extend([("x-queue-name", queue.as_str()), ("exclusive", "false")]);
                let (durable, auto_delete) = if common.session.lives_on() {
                    ("true", "false")
                } else {
                    ("false", "true")
                };
                headers.extend([("durable", durable), ("auto-delete", auto_delete)]);
                destination
            }
        };
        let receipt = format!("{RECEIPT}{}", self.name);
        let subscribe = SubscribeOut {
            id: Some(&self.name),
            destination,
            ack: if self.settles {
                AckMode::ClientIndividual
            } else {
                AckMode::Auto
            },
            receipt: Some(&receipt),
            headers: &headers,
        };
        machine.subscribe(&subscribe, out);
    }
}
