//! A message leaves through a line.

use super::line::{Source, Turn, Unsettled};
use crate::Kernel;
use crate::books::Delta;
use crate::effects::{Content, Delivery, Effects, Recipient, Sent};
use crate::groups::seats::Key;
use crate::ledger::DropReason;
use crate::queue::{Dead, Item};
use thalweg_model::{DeathReason, Time};

/// What became of a message that was handed over.
pub(crate) enum HandedOver {
    /// It is to be settled, under this tag.
    Unsettled(u64),
    /// The item was delivered or dropped.
    Done(Item),
}

impl Kernel {
    /// Puts an item into a line of a session's output, under a consumer's number or, for 0, for one who asked for one
    /// message that it will settle.
    pub(crate) fn hand_over<E: Effects>(
        &mut self,
        (id, line_number, number): Key,
        source: Source,
        item: Item,
        left: u64,
        now: Time,
        fx: &mut E,
    ) -> Result<HandedOver, Item> {
        let Some(session) = self.sessions.get_mut(id) else {
            return Err(item);
        };
        let Some(link) = session.link() else {
            return Err(item);
        };
        let uid = session.uid();
        let Some(line) = session
            .lines
            .as_deref_mut()
            .and_then(|lines| lines.get_mut(line_number))
        else {
            return Err(item);
        };
        let Turn {
            tag,
            settles,
            no_local,
            ..
        } = line.any_turn_of(number);
        if no_local && item.message.publisher() == uid {
            // It counts as had: its receiver made it.
            session.counts.note_routed();
            self.book_delivered(id, item.message.address(), 0);
            return Ok(HandedOver::Done(item));
        }
        let to = match number {
            0 => Recipient::Get { line: line_number },
            number => Recipient::Consumer {
                line: line_number,
                number,
            },
        };
        let expires_in = (item.expires != Time::NEVER).then(|| item.expires.since(now));
        let delivery = Delivery {
            settles,
            tag,
            deliveries: u32::from(item.deliveries),
            left,
            expires_in,
            ..Delivery::unsettled(to, item.message.reliability())
        };
        let sent = fx.deliver(link, &Content::Kept(&item.message, None), &delivery);
        match sent {
            Sent::Room => {}
            Sent::Congested => session.connection.congest(),
            Sent::Full | Sent::Gone => {
                session.connection.congest();
                return Err(item);
            }
            Sent::TooLarge => {
                session.counts.note_routed();
                self.book_drop(Some(id), item.message.address(), DropReason::TooLarge);
                if let Source::Queue(queue_id) = source {
                    // As if this receiver had refused it.
                    let dead = Dead::new(item.message.clone(), DeathReason::Rejected);
                    self.note_dead_letter(queue_id, dead, now);
                }
                return Ok(HandedOver::Done(item));
            }
        }
        session.counts.note_routed();
        self.books.redelivered(item.deliveries > 0);
        if !settles {
            line.sent(tag);
            self.book_had(id, &item.message);
            return Ok(HandedOver::Done(item));
        }
        self.books.sent(Delta::copy(item.message.bytes()));
        line.sent_unsettled(Unsettled {
            tag,
            consumer: number,
            source,
            item,
        });
        Ok(HandedOver::Unsettled(tag))
    }
}
