//! Last values that are asked for by themselves.

use super::{StompFront, Trouble, headers};
use crate::native::neutral;
use std::borrow::Cow;
use thalweg_kernel::{Content, Delivery, Recipient, Ticket};
use thalweg_model::{Message, Properties};
use thalweg_stomp::MessageOut;

/// Questions of one connection that may wait for their answers at once.
const READS_MAX: usize = 1024;

/// Questions that wait for their answers.
#[derive(Default)]
pub(super) struct Reads {
    waiting: Vec<Read>,
    ticket_last: Ticket,
}

struct Read {
    ticket: Ticket,
    /// The subscription's id in the answer.
    id: Box<str>,
    destination: Box<str>,
}

impl Reads {
    pub(super) fn add(&mut self, id: &str, destination: &str) -> Result<Ticket, Trouble> {
        if self.waiting.len() >= READS_MAX {
            return Err(Trouble::new(
                "too many questions",
                "wait for answers before asking for more last values\n",
            ));
        }
        // There are more tickets than may wait.
        while {
            self.ticket_last = self.ticket_last.wrapping_add(1);
            self.waiting
                .iter()
                .any(|read| read.ticket == self.ticket_last)
        } {}
        let ticket = self.ticket_last;
        self.waiting.push(Read {
            ticket,
            id: id.into(),
            destination: destination.into(),
        });
        Ok(ticket)
    }

    pub(super) fn take(&mut self, ticket: Ticket) -> Option<(Box<str>, Box<str>)> {
        let at = self.waiting.iter().position(|read| read.ticket == ticket)?;
        let read = self.waiting.swap_remove(at);
        Some((read.id, read.destination))
    }
}

impl StompFront {
    /// The answer to a question for a last value.
    pub(crate) fn last_value_read(
        &mut self,
        ticket: Ticket,
        value: Option<&Message>,
        out: &mut Vec<u8>,
    ) {
        let Some((id, destination)) = self.reads.take(ticket) else {
            return;
        };
        self.unsettled_names += 1;
        let name = format!("last-{}", self.unsettled_names);
        let properties: Option<Cow<'_, Properties>> =
            value.and_then(Message::properties).map(neutral);
        let answer = MessageOut {
            subscription: (!id.is_empty()).then_some(&*id),
            message_id: &name,
            ack: None,
            destination: &destination,
            content_type: properties
                .as_ref()
                .and_then(|properties| properties.content_type.as_deref()),
            redelivered: false,
            body: value.map_or(b"", Message::payload),
        };
        let nothing = Properties::default();
        let properties = properties.as_deref().unwrap_or(&nothing);
        let dialect = self.settings.dialect;
        self.machine.message(
            &answer,
            |w| {
                w.put("x-last-value", if value.is_some() { "set" } else { "none" });
                if let Some(value) = value {
                    let content = Content::Kept(value, None);
                    let delivery =
                        Delivery::unsettled(Recipient::Subscriber, content.reliability());
                    headers::write(&content, &delivery, properties, dialect, w);
                }
            },
            out,
        );
    }
}
