//! MESSAGE.

use super::StompFront;
use super::destination::{write_address, write_for_exchange};
use super::headers;
use super::subscription::Shows;
use crate::native::neutral;
use std::borrow::Cow;
use std::io::Write as _;
use thalweg_kernel::Handover;
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

impl StompFront {
    pub(crate) fn hand_over(&mut self, handover: &Handover<'_>, out: &mut Vec<u8>) {
        let dialect = self.settings.dialect;
        let Some(subscription) = self.subscriptions.get_mut(handover.line) else {
            return;
        };
        let message = handover.message;
        let tag = if subscription.ack == AckMode::Auto {
            0
        } else {
            handover.tag
        };
        if tag > 0 {
            subscription.tag_last = tag;
        } else {
            self.unsettled_names += 1;
        }
        let mut buffer = [0; NAME_BYTES_MAX];
        let name = write_name(handover.line, tag, self.unsettled_names, &mut buffer);
        self.scratch.clear();
        match &subscription.shows {
            Shows::AsSubscribed => {}
            Shows::Queue(address) if **address == *message.address() => {}
            Shows::Queue(_) | Shows::Topic => {
                write_address(message.address(), dialect, &mut self.scratch)
            }
            Shows::Exchange => write_for_exchange(message.address(), dialect, &mut self.scratch),
        }
        let destination = if self.scratch.is_empty() {
            &*subscription.destination
        } else {
            &self.scratch
        };
        let properties: Option<Cow<'_, Properties>> = message.properties().map(neutral);
        let out_message = MessageOut {
            subscription: subscription.id.as_deref(),
            message_id: name,
            ack: (tag > 0).then_some(name),
            destination,
            content_type: properties
                .as_ref()
                .and_then(|properties| properties.content_type.as_deref()),
            redelivered: handover.deliveries > 0,
            body: message.payload(),
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
            |w| headers::write(handover, properties, dialect, w),
            out,
        );
    }
}
