//! Notifications, and answers that come from the kernel.

use super::pubsub::{Asked, NO_ROOM};
use super::subscriptions::refusal;
use super::{XmppFront, datetime};
use crate::front::{Fate, Outbound, Undelivered};
use thalweg_kernel::{Answer, CloseReason, Content, Delivery, Recipient, Subscribed, Tag, Ticket};
use thalweg_xmpp::{Again, StanzaKind, put_attribute};

impl Outbound for XmppFront {
    fn deliver(
        &mut self,
        content: &Content<'_>,
        delivery: &Delivery<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Undelivered> {
        if self.side.is_closed() || delivery.to != Recipient::Subscriber {
            return Err(Undelivered::NoConsumer);
        }
        if self.put_contact(content, delivery, out) {
            return Ok(());
        }
        if self.is_message_to(content.address()) {
            self.put_message(content, delivery, out);
            return Ok(());
        }
        if content.address().starts_with('$')
            && delivery.subscription_ids.is_empty()
            && self.put_personal(content, delivery, out).is_some()
        {
            return Ok(());
        }
        let XmppFront {
            side,
            service,
            address,
            ..
        } = self;
        let attributes = [("from", &**service), ("to", &**address)];
        side.put_again(
            again(delivery.tag as Tag),
            StanzaKind::Message,
            &attributes,
            out,
            |out| {
                XmppFront::put_event(content, content.address(), out);
                put_headers(delivery, out);
                if delivery.deliveries > 0 || delivery.retain {
                    put_delay(content, service, out);
                }
            },
        );
        Ok(())
    }

    fn answer(&mut self, ticket: Ticket, answer: Answer<'_>, out: &mut Vec<u8>) {
        let Some(asked) = self.take_asked(ticket) else {
            return;
        };
        match (asked, answer) {
            (
                Asked::Subscribe {
                    id,
                    filter,
                    is_change,
                },
                Answer::Subscribed([subscribed]),
            ) => {
                let granted = match *subscribed {
                    Subscribed::Granted(offered) => Ok(Some(offered)),
                    other => Err(refusal(other).unwrap_or(NO_ROOM)),
                };
                self.put_subscribed(&id, &filter, is_change, granted, out);
            }
            (Asked::Contact { name, answers }, Answer::Subscribed([subscribed])) => {
                self.put_watched(&name, answers, *subscribed, out);
            }
            (
                Asked::Items {
                    id,
                    account,
                    node,
                    wanted,
                    max,
                },
                Answer::Values { values, .. },
            ) => {
                let newest = &values[values.len().saturating_sub(max)..];
                self.put_items(&id, (&account, &node), &wanted, newest, out);
            }
            (Asked::Names { id, account, node }, Answer::Values { values, .. }) => {
                self.put_names(&id, (&account, &node), &values, out);
            }
            (Asked::Retract(retraction), Answer::Values { values, .. }) => {
                self.on_looked_at(retraction, &values, out);
            }
            (Asked::Nodes { id, account }, Answer::Values { values, complete }) => {
                // Too many lists are being put together.
                if values.is_empty() && !complete {
                    let from = self.home(&account);
                    return self.put_answer("error", &id, Some(&from), out, |out| NO_ROOM.put(out));
                }
                let addresses = values.iter().map(|message| message.address());
                self.put_nodes(&id, &account, addresses, out);
            }
            // The kernel answers what it was asked.
            _ => {}
        }
    }

    fn disconnect(&mut self, why: CloseReason, out: &mut Vec<u8>) -> Fate {
        let (condition, text) = match why {
            CloseReason::TakenOver => ("conflict", "another connection has opened the session"),
            CloseReason::Kicked => ("policy-violation", "an operator has ended the connection"),
            CloseReason::NotAuthorized => {
                ("not-authorized", "the credentials or rights have ended")
            }
            CloseReason::ShuttingDown => ("system-shutdown", "the broker is going down"),
            CloseReason::QueueFull => (
                "resource-constraint",
                "too many messages wait for this client",
            ),
            CloseReason::Stalled => ("resource-constraint", "messages were not settled in time"),
            CloseReason::Buffers => (
                "resource-constraint",
                "the output of this connection is too large",
            ),
        };
        self.side.refuse(condition, text, out);
        self.is_closed = true;
        Fate::LinkEnds
    }
}

/// How a delivery with this tag is sent again over the next connection: by the kernel, if at all.
pub(super) fn again(tag: Tag) -> Again {
    match tag {
        0 => Again::Never,
        tag => Again::Kept(tag),
    }
}

/// Headers of XEP-0131: which subscriptions a notification is for, where there are several (XEP-0060, 6.1.6), and that it may have
/// come before, which XMPP has no word for.
pub(super) fn put_headers(delivery: &Delivery<'_>, out: &mut Vec<u8>) {
    let ids = match delivery.subscription_ids {
        [_] => &[],
        ids => ids,
    };
    if ids.is_empty() && delivery.deliveries == 0 {
        return;
    }
    out.extend_from_slice(b"<headers xmlns='http://jabber.org/protocol/shim'>");
    for id in ids {
        out.extend_from_slice(format!("<header name='SubID'>{id}</header>").as_bytes());
    }
    if delivery.deliveries > 0 {
        out.extend_from_slice(b"<header name='Redelivered'>true</header>");
    }
    out.extend_from_slice(b"</headers>");
}

/// When a message came to the broker, `from` (XEP-0203).
pub(super) fn put_delay(content: &Content<'_>, from: &str, out: &mut Vec<u8>) {
    let Some(message) = content.message() else {
        return;
    };
    out.extend_from_slice(b"<delay xmlns='urn:xmpp:delay'");
    put_attribute("from", from, out);
    let stamp = datetime::write(message.ingress().nanos() / 1_000_000_000);
    put_attribute("stamp", &stamp, out);
    out.extend_from_slice(b"/>");
}
