//! MESSAGE.

use super::address::{write_address, write_for_exchange};
use super::headers;
use super::subscription::Shows;
use super::{State, StompFront};
use crate::front::{ConsumerFate, Fate, Outbound, Undelivered};
use crate::native::neutral;
use std::borrow::Cow;
use std::io::Write as _;
use thalweg_kernel::{Answer, CloseReason, ConsumerEnd, Content, Delivery, Recipient, Ticket};
use thalweg_model::Properties;
use thalweg_stomp::{AckMode, MessageOut};

/// Room for a line, a dash, an `a` and a number.
const NAME_BYTES_MAX: usize = 5 + 2 + 20;

/// Names a delivery for ACK; `tag` is 0 if it is not to be settled, and then `number` tells it from others.
pub(super) fn write_name(
    line: u16,
    tag: u64,
    number: u64,
    buffer: &mut [u8; NAME_BYTES_MAX],
) -> &str {
    let mut rest = &mut buffer[..];
    let written = match tag {
        0 => write!(rest, "{line}-a{number}"),
        tag => write!(rest, "{line}-{tag}"),
    };
    let left = rest.len();
    let len = if written.is_ok() {
        NAME_BYTES_MAX - left
    } else {
        0
    };
    std::str::from_utf8(&buffer[..len]).unwrap_or_default()
}

impl Outbound for StompFront {
    fn deliver(
        &mut self,
        content: &Content<'_>,
        delivery: &Delivery<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Undelivered> {
        let dialect = self.settings.dialect;
        let Recipient::Consumer { line, .. } = delivery.to else {
            return Ok(());
        };
        let Some(subscription) = self.subscriptions.get_mut(line) else {
            return Ok(());
        };
        let tag = if subscription.ack == AckMode::Auto {
            0
        } else {
            delivery.tag
        };
        if tag > 0 {
            subscription.tag_last = tag;
        } else {
            self.unsettled_names += 1;
        }
        let mut buffer = [0; NAME_BYTES_MAX];
        let name = write_name(line, tag, self.unsettled_names, &mut buffer);
        self.scratch.clear();
        match &subscription.shows {
            Shows::AsSubscribed => {}
            Shows::Queue(address) if **address == *content.address() => {}
            Shows::Queue(_) | Shows::Topic => {
                write_address(content.address(), dialect, &mut self.scratch)
            }
            Shows::Exchange => write_for_exchange(content.address(), dialect, &mut self.scratch),
        }
        let destination = if self.scratch.is_empty() {
            &*subscription.destination
        } else {
            &self.scratch
        };
        let properties: Option<Cow<'_, Properties>> = content.properties().map(neutral);
        let out_message = MessageOut {
            subscription: subscription.id.as_deref(),
            message_id: name,
            ack: (tag > 0).then_some(name),
            destination,
            content_type: properties
                .as_ref()
                .and_then(|properties| properties.content_type.as_deref()),
            redelivered: delivery.deliveries > 0,
            body: content.payload(),
        };
        let nothing;
        let properties = match &properties {
            Some(properties) => properties,
            None => {
                nothing = Properties::default();
                &nothing
            }
        };
        self.machine.message(
            &out_message,
            |w| headers::write(content, delivery, properties, dialect, w),
            out,
        );
        Ok(())
    }

    /// It asks for nothing but last values: queues are bound.
    fn answer(&mut self, ticket: Ticket, answer: Answer<'_>, out: &mut Vec<u8>) {
        if let Answer::Value(value) = answer {
            self.last_value_read(ticket, value, out);
        }
    }

    fn disconnect(&mut self, why: CloseReason, out: &mut Vec<u8>) -> Fate {
        let (message, body) = match why {
            CloseReason::TakenOver => (
                "taken over",
                "another connection has taken this session over",
            ),
            CloseReason::Kicked => ("connection_forced", "an operator has ended the connection"),
            CloseReason::NotAuthorized => (
                "access_refused",
                "your credentials or rights have ended; log in again",
            ),
            CloseReason::ShuttingDown => (
                "connection_forced",
                "the broker is going down; try again later",
            ),
            CloseReason::QueueFull => (
                "resource_error",
                "what waits for this connection has filled its queue",
            ),
            CloseReason::Stalled => (
                "resource_error",
                "messages were not acknowledged in time and go to others",
            ),
            CloseReason::Buffers => (
                "resource_error",
                "memory for buffers is short and yours are the largest",
            ),
        };
        self.state = State::Closed;
        self.machine.error(message, None, body, out);
        Fate::LinkEnds
    }

    /// STOMP has no word for a queue that is gone but ERROR, and the peer would wait in vain.
    fn consumer_ended(&mut self, line: u16, ended: ConsumerEnd, out: &mut Vec<u8>) -> ConsumerFate {
        let ConsumerEnd::QueueGone(_) = ended else {
            return ConsumerFate::Unsaid;
        };
        let Some(ended) = self.subscriptions.remove(line) else {
            return ConsumerFate::Unsaid;
        };
        let body = format!(
            "the queue of {} was deleted; nothing more will come from it\n",
            ended.destination
        );
        self.state = State::Closed;
        self.machine
            .error("Server cancelled subscription", None, &body, out);
        self.fault = Some(body.trim_end().into());
        ConsumerFate::EndsLink
    }

    fn on_silence(&mut self, out: &mut Vec<u8>) {
        let what = "no sign of life came for three of the intervals that heart-beat promised";
        self.state = State::Closed;
        self.machine.error("heart-beat timeout", None, what, out);
        self.fault = Some(what.into());
    }

    fn on_idle(&mut self, out: &mut Vec<u8>) {
        self.machine.heart_beat(out);
    }
}
