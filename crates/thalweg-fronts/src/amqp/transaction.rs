//! `tx`: publishes and settlements that are gathered and happen at once. The kernel gathers; here are only the
//! answers.

use super::channel::Mode;
use super::fault::Fault;
use super::{AmqpFront, Request};
use crate::front::Cx;
use thalweg_amqp::methods::tx;
use thalweg_amqp::{Method, Publish};
use thalweg_kernel::{Committed, Outcome, Refusal};

/// An answer to a transaction's peer.
#[derive(Default)]
pub(super) struct Transaction {
    published: usize,
    /// Messages published as mandatory, which are returned if unroutable; the kernel counts their bytes.
    mandatory: Vec<Mandatory>,
}

struct Mandatory {
    /// Its place among the transaction's publishes.
    place: usize,
    exchange: Box<str>,
    key: Box<str>,
    header: Box<[u8]>,
    payload: Box<[u8]>,
}

impl Request<'_, '_> {
    pub(super) fn select_transactions(&mut self) -> Result<(), Fault> {
        let tx = u32::from(self.ch);
        let Some(channel) = self.channel() else {
            return Ok(());
        };
        match channel.mode {
            Mode::Plain => {
                channel.mode = Mode::Transaction(Box::default());
                // A channel of this number may have been closed from here within one.
                self.cx
                    .kernel
                    .abort(self.session, tx, self.cx.now, self.cx.links);
                self.cx.kernel.begin(self.session, tx);
            }
            Mode::Transaction(_) => {}
            Mode::Confirm { .. } => {
                return Err(Fault::precondition("cannot switch from confirm to tx mode"));
            }
        }
        self.answer(&Method::TxSelectOk(tx::SelectOk));
        Ok(())
    }

    pub(super) fn gather(&mut self, publish: &Publish<'_>) {
        let Some(transaction) = self.transaction() else {
            return;
        };
        if publish.mandatory {
            transaction.mandatory.push(Mandatory {
                place: transaction.published,
                exchange: publish.exchange.into(),
                key: publish.routing_key.into(),
                header: publish.header.into(),
                payload: publish.payload.into(),
            });
        }
        transaction.published += 1;
    }

    pub(super) fn in_transaction(&mut self) -> bool {
        self.transaction().is_some()
    }

    fn transaction(&mut self) -> Option<&mut Transaction> {
        match &mut self.channel()?.mode {
            Mode::Transaction(transaction) => Some(transaction),
            _ => None,
        }
    }

    pub(super) fn commit(&mut self) -> Result<(), Fault> {
        let Some(transaction) = self.transaction().map(std::mem::take) else {
            return Err(not_transactional());
        };
        let tx = u32::from(self.ch);
        let before = self.cx.kernel.last_question();
        let committed = self
            .cx
            .kernel
            .commit(self.session, tx, self.cx.now, self.cx.links);
        self.cx.kernel.begin(self.session, tx);
        let Some(Committed {
            outcomes,
            pause_until,
        }) = committed
        else {
            return Err(not_transactional());
        };
        if let (Some(until), Some(link)) = (pause_until, self.cx.links.get_mut(self.cx.id)) {
            link.pause_until = Some(until);
        }
        if outcomes.contains(&Outcome::Denied) {
            return Err(self.about_exchange("", "write").fault(Refusal::Denied));
        }
        for Mandatory {
            place,
            exchange,
            key,
            header,
            payload,
        } in transaction.mandatory
        {
            if outcomes.get(place) == Some(&Outcome::NoMatch) {
                self.give_back(&exchange, &key, &header, &payload);
            }
        }
        if outcomes
            .iter()
            .any(|outcome| matches!(outcome, Outcome::Full | Outcome::Refused))
        {
            return Err(partial());
        }
        if outcomes.contains(&Outcome::Asked) {
            let (ch, last) = (self.ch, self.cx.kernel.question());
            if let Some(front) = self.front() {
                front.commit_later(ch, before, last);
            }
            return Ok(());
        }
        self.answer(&Method::TxCommitOk(tx::CommitOk));
        Ok(())
    }

    pub(super) fn roll_back(&mut self) -> Result<(), Fault> {
        if self.transaction().map(std::mem::take).is_none() {
            return Err(not_transactional());
        }
        let tx = u32::from(self.ch);
        self.cx
            .kernel
            .abort(self.session, tx, self.cx.now, self.cx.links);
        self.cx.kernel.begin(self.session, tx);
        self.answer(&Method::TxRollbackOk(tx::RollbackOk));
        Ok(())
    }
}

impl AmqpFront {
    /// Answers a transaction that waited for other shards.
    pub(super) fn end_commit(cx: &mut Cx<'_>, ch: u16, is_refused: bool) {
        let Some(session) = cx.session() else {
            return;
        };
        let mut request = Request {
            cx,
            session,
            ch,
            cause: tx::Commit::ID,
            is_in_part: false,
        };
        match is_refused {
            true => request.fail(&partial()),
            false => request.answer(&Method::TxCommitOk(tx::CommitOk)),
        }
    }
}

fn partial() -> Fault {
    Fault::precondition("partial tx completion")
}

fn not_transactional() -> Fault {
    Fault::precondition("channel is not transactional")
}
