//! What publishers hear: confirms, refusals and messages that come back.

use super::channel::Mode;
use super::fault::Fault;
use super::publish::Memo;
use super::{AmqpFront, Request};
use crate::front::{Cx, Variant};

use crate::probe::Mark;
use crate::registry::AnyFront;
use thalweg_amqp::methods::{basic, confirm};
use thalweg_amqp::{ContentHeader, Method, Publish, ReplyCode};
use thalweg_kernel::Outcome;

impl Request<'_, '_> {
    pub(super) fn select_confirms(&mut self, select: confirm::Select) -> Result<(), Fault> {
        let Some(channel) = self.channel() else {
            return Ok(());
        };
        match channel.mode {
            Mode::Plain => {
                channel.mode = Mode::Confirm {
                    published: 0,
                    confirmed: 0,
                }
            }
            Mode::Confirm { .. } => {}
            Mode::Transaction(_) => {
                return Err(Fault::precondition("cannot switch from tx to confirm mode"));
            }
        }
        if !select.no_wait {
            self.answer(&Method::ConfirmSelectOk(confirm::SelectOk));
        }
        Ok(())
    }

    /// Tells a publisher what became of its message: at once if it comes back or is refused, and when the input is
    /// done with if it is confirmed. The channel remembers where it went.
    #[inline]
    pub(super) fn acknowledge(&mut self, publish: &Publish<'_>, outcome: Outcome, memo: Box<Memo>) {
        if outcome == Outcome::NoMatch && publish.mandatory {
            self.give_back(
                publish.exchange,
                publish.routing_key,
                publish.header,
                publish.payload,
            );
        }
        let Some(AnyFront::Amqp(front)) = self
            .cx
            .links
            .get_mut(self.cx.id)
            .map(|link| &mut link.front)
        else {
            return;
        };
        let Some(channel) = front.channels.get_mut(self.ch) else {
            return;
        };
        channel.memo = Some(memo);
        let Mode::Confirm {
            published,
            confirmed,
        } = &mut channel.mode
        else {
            return;
        };
        *published += 1;
        if !matches!(outcome, Outcome::Full | Outcome::Refused) {
            if *published - *confirmed == 1 {
                front.owing.push(self.ch);
            }
        } else {
            let number = *published;
            self.refuse(number);
        }
        self.cx.links.mark(Mark::FrontAck);
    }

    /// The publish of that number was not taken; those before it were.
    #[cold]
    fn refuse(&mut self, number: u64) {
        let ch = self.ch;
        AmqpFront::write(self.cx.links, self.cx.id, |front, out| {
            front.confirm(ch, number - 1, out);
            front.machine.nack(ch, number, false, out);
            if let Some(Mode::Confirm { confirmed, .. }) =
                front.channels.get_mut(ch).map(|channel| &mut channel.mode)
            {
                *confirmed = number;
            }
        });
    }

    /// Gives a message back that nobody wanted.
    #[cold]
    pub(super) fn give_back(
        &mut self,
        exchange: &str,
        routing_key: &str,
        header: &[u8],
        payload: &[u8],
    ) {
        let ch = self.ch;
        let (reply_code, reply_text) = (ReplyCode::NoRoute.code(), ReplyCode::NoRoute.name());
        let returned = basic::Return {
            reply_code,
            reply_text,
            exchange,
            routing_key,
        };
        AmqpFront::write(self.cx.links, self.cx.id, |front, out| {
            // It came in frames of the size that it goes out in.
            let _ = front
                .machine
                .return_(ch, &returned, ContentHeader::Raw(header), payload, out);
        });
    }
}

impl AmqpFront {
    /// Confirms a channel's publishes up to that number, if they are not.
    fn confirm(&mut self, ch: u16, to: u64, out: &mut Vec<u8>) {
        let Some(channel) = self.channels.get_mut(ch) else {
            return;
        };
        let Mode::Confirm { confirmed, .. } = &mut channel.mode else {
            return;
        };
        if to > *confirmed {
            self.machine.ack(ch, to, to - *confirmed > 1, out);
            *confirmed = to;
        }
    }

    /// Confirms all that a channel is owed.
    pub(super) fn confirm_all(&mut self, ch: u16, out: &mut Vec<u8>) {
        if let Some(Mode::Confirm { published, .. }) =
            self.channels.get_mut(ch).map(|channel| &channel.mode)
        {
            let published = *published;
            self.confirm(ch, published, out);
        }
    }

    /// The input that was there has been handled: now publishes are confirmed, many at once.
    #[inline]
    pub(super) fn confirm_owing(cx: &mut Cx<'_>) {
        match AmqpFront::at(cx.links, cx.id) {
            Some(front) if !front.owing.is_empty() => {}
            _ => return,
        }
        AmqpFront::write(cx.links, cx.id, |front, out| {
            let mut owing = std::mem::take(&mut front.owing);
            for ch in owing.drain(..) {
                front.confirm_all(ch, out);
            }
            front.owing = owing;
        });
    }
}
