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

    /// Answers a publish: at once if it is returned or rejected, at the end of the input if it is confirmed. The channel
    /// remembers where it went.
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
        match outcome {
            Outcome::Full | Outcome::Refused | Outcome::OverRate(_) => {
                let number = *published;
                self.refuse(number);
            }
            Outcome::Asked => {
                let number = *published;
                let question = self.cx.kernel.question();
                front.asked.push_back(Asked {
                    before: question - 1,
                    last: question,
                    ch: self.ch,
                    number,
                    is_refused: false,
                });
            }
            _ if front.asked.is_empty() => {
                if *published - *confirmed == 1 {
                    front.owing.push(self.ch);
                }
            }
            // Those before it may have been owed already.
            _ => front.owe(self.ch),
        }
        self.cx.links.mark(Mark::FrontAck);
    }

    /// The publish of that number was not taken; those before it were.
    #[cold]
    fn refuse(&mut self, number: u64) {
        let ch = self.ch;
        AmqpFront::write(self.cx.links, self.cx.id, |front, out| {
            match front.asked.back().map(|asked| asked.last) {
                None => front.refuse(ch, number, out),
                // Nothing that is published before it may be confirmed with it.
                Some(last) => front.asked.push_back(Asked {
                    before: last,
                    last,
                    ch,
                    number,
                    is_refused: true,
                }),
            }
        });
    }

    /// Returns an unroutable message with `basic.return`.
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

/// A confirm that waits for the answers of other shards, or for one that does.
pub(super) struct Asked {
    /// The number of the question about the last of its messages, or about one before it.
    last: u64,
    /// Its questions have greater numbers.
    before: u64,
    pub(super) ch: u16,
    /// The publish's on its channel; 0 for a transaction.
    number: u64,
    is_refused: bool,
}

impl AmqpFront {
    /// Answers a transaction once all questions after `before` up to `last` are decided.
    pub(super) fn commit_later(&mut self, ch: u16, before: u64, last: u64) {
        self.asked.push_back(Asked {
            before,
            last,
            ch,
            number: 0,
            is_refused: false,
        });
    }

    /// Answers publishes and commits up to a question that is decided now. Questions are decided in their order.
    pub(super) fn on_decided(cx: &mut Cx<'_>, question: u64, is_refused: bool) {
        let Some(front) = AmqpFront::of(cx.links, cx.id) else {
            return;
        };
        if is_refused {
            let at = front.asked.partition_point(|asked| asked.last < question);
            if let Some(asked) = front.asked.get_mut(at) {
                asked.is_refused |= asked.before < question;
            }
        }
        while let Some(asked) = AmqpFront::of(cx.links, cx.id)
            .and_then(|front| front.asked.pop_front_if(|asked| asked.last <= question))
        {
            let Asked {
                ch,
                number,
                is_refused,
                ..
            } = asked;
            match (number, is_refused) {
                (0, _) => AmqpFront::end_commit(cx, ch, is_refused),
                (_, false) => {
                    if let Some(front) = AmqpFront::of(cx.links, cx.id) {
                        front.owe(ch);
                    }
                }
                (_, true) => {
                    _ = AmqpFront::write(cx.links, cx.id, |front, out| {
                        front.refuse(ch, number, out);
                        front.owe(ch);
                    })
                }
            }
        }
    }

    /// Confirms a channel's publishes at the end of the input.
    fn owe(&mut self, ch: u16) {
        if !self.owing.contains(&ch) {
            self.owing.push(ch);
        }
    }

    fn refuse(&mut self, ch: u16, number: u64, out: &mut Vec<u8>) {
        self.confirm(ch, number - 1, out);
        self.machine.nack(ch, number, false, out);
        if let Some(Mode::Confirm { confirmed, .. }) =
            self.channels.get_mut(ch).map(|channel| &mut channel.mode)
        {
            *confirmed = number;
        }
    }

    /// Confirms a channel's publishes up to that number, if they are not, and up to the first that waits for other shards.
    fn confirm(&mut self, ch: u16, to: u64, out: &mut Vec<u8>) {
        let first = self.asked.iter().find(|asked| asked.ch == ch);
        let to = first.map_or(to, |asked| to.min(asked.number.saturating_sub(1)));
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
