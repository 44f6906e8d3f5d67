//! Writes down what a transport tells: for the tests of plugins.

use thalweg_model::{Reliability, Span, Stamp};

use crate::transport::{
    DeliveryId, Events, Inbound, MessageId, Opening, Outbound, Properties, Refusal, RequestId,
    Settled, SubscriptionId, Welcome,
};

/// One call of [`Events`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EventCall {
    Up(Welcome),
    Settled(MessageId, Settled),
    Received(Got),
    Subscribed(SubscriptionId, Result<(), Refusal>),
    Unsubscribed(SubscriptionId, Refusal),
    Answered(RequestId, Result<Option<Got>, Refusal>),
    Pressed,
    Room,
}

/// A message that came, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) subscription: Option<SubscriptionId>,
    pub(crate) delivery: Option<DeliveryId>,
    pub(crate) address: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) reliability: Reliability,
    pub(crate) is_last_value: bool,
    pub(crate) repeated: bool,
    pub(crate) content_type: Option<String>,
    pub(crate) properties: Vec<(String, String)>,
    pub(crate) reply_to: Option<String>,
    pub(crate) correlation: Option<Vec<u8>>,
    pub(crate) stamp: Option<Stamp>,
}

impl Got {
    fn of(message: &Inbound<'_>) -> Got {
        Got {
            subscription: message.subscription,
            delivery: message.delivery,
            address: message.address.to_owned(),
            payload: message.payload.to_vec(),
            reliability: message.reliability,
            is_last_value: message.is_last_value,
            repeated: message.repeated,
            content_type: message.content_type.map(str::to_owned),
            properties: message
                .properties
                .iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            reply_to: message.reply_to.map(str::to_owned),
            correlation: message.correlation.map(<[u8]>::to_vec),
            stamp: message.stamp,
        }
    }
}

/// Everything a transport told since it was asked last; round trips apart.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    pub(crate) told: Vec<EventCall>,
    pub(crate) round_trips: Vec<Span>,
    /// Granted reliability of subscriptions, in the order of their confirmations.
    pub(crate) granted: Vec<Reliability>,
}

impl Witness {
    pub(crate) fn take(&mut self) -> Vec<EventCall> {
        std::mem::take(&mut self.told)
    }

    /// The messages that came, and nothing else.
    pub(crate) fn take_received(&mut self) -> Vec<Got> {
        let told = self.take().into_iter();
        told.filter_map(|told| {
            if let EventCall::Received(got) = told {
                Some(got)
            } else {
                None
            }
        })
        .collect()
    }
}

impl Events for Witness {
    fn up(&mut self, welcome: &Welcome) {
        self.told.push(EventCall::Up(welcome.clone()));
    }

    fn settled(&mut self, id: MessageId, outcome: Settled) {
        self.told.push(EventCall::Settled(id, outcome));
    }

    fn received(&mut self, message: &Inbound<'_>) {
        self.told.push(EventCall::Received(Got::of(message)));
    }

    fn subscribed(&mut self, subscription: SubscriptionId, outcome: Result<Reliability, Refusal>) {
        self.granted.extend(outcome.as_ref().ok());
        self.told
            .push(EventCall::Subscribed(subscription, outcome.map(|_| ())));
    }

    fn unsubscribed(&mut self, subscription: SubscriptionId, why: Refusal) {
        self.told.push(EventCall::Unsubscribed(subscription, why));
    }

    fn answered(&mut self, request: RequestId, answer: Result<Option<&Inbound<'_>>, Refusal>) {
        self.told.push(EventCall::Answered(
            request,
            answer.map(|message| message.map(Got::of)),
        ));
    }

    fn round_trip(&mut self, span: Span) {
        self.round_trips.push(span);
    }

    fn pressed(&mut self) {
        self.told.push(EventCall::Pressed);
    }

    fn room(&mut self) {
        self.told.push(EventCall::Room);
    }
}

/// A plain at-least-once message.
pub(crate) fn message<'m>(id: MessageId, address: &'m str, payload: &'m [u8]) -> Outbound<'m> {
    Outbound {
        id,
        address,
        payload,
        reliability: Reliability::AtLeastOnce,
        retain: crate::Retain::No,
        lifespan: Span::FOREVER,
        priority: 4,
        content_type: None,
        is_text: false,
        properties: Properties::default(),
        reply_to: None,
        correlation: None,
        stamp: None,
        repeated: false,
    }
}

pub(crate) fn at_most_once<'m>(id: MessageId, address: &'m str, payload: &'m [u8]) -> Outbound<'m> {
    Outbound {
        reliability: Reliability::AtMostOnce,
        ..message(id, address, payload)
    }
}

pub(crate) fn exactly_once<'m>(id: MessageId, address: &'m str, payload: &'m [u8]) -> Outbound<'m> {
    Outbound {
        reliability: Reliability::ExactlyOnce,
        ..message(id, address, payload)
    }
}

/// A connection of a client with this name and nothing else.
pub(crate) fn opening(client_id: &str) -> Opening {
    Opening {
        client_id: client_id.to_owned(),
        user: None,
        password: None,
        session: Span::ZERO,
        will: None,
        keep_alive: Span::from_secs(60),
    }
}
