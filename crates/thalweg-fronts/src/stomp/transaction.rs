//! BEGIN, COMMIT and ABORT.

use super::publish::{FULL_PAUSE, Handled, outcome_of};
use super::{StompFront, Trouble};
use crate::front::{Cx, Variant};

use thalweg_kernel::{Outcome, Refusal, SessionId};

use thalweg_stomp::TransactionFrame;

/// Open transactions: the peer's names and our numbers.
#[derive(Default)]
pub(super) struct Transactions {
    open: Vec<(Box<str>, u32)>,
    last: u32,
    /// Bytes of memory of those that are open.
    pub(super) bytes: usize,
}

impl Transactions {
    /// Our number of an open transaction.
    pub(super) fn number(&self, name: &str) -> Result<u32, Trouble> {
        let found = self.open.iter().find(|(known, _)| **known == *name);
        found.map(|(_, number)| *number).ok_or_else(|| {
            let body = format!(
                "Invalid transaction identifier: \"{name}\": it has not begun; send BEGIN first\n"
            );
            Trouble::new("Bad transaction", body)
        })
    }

    fn begin(&mut self, name: &str) -> u32 {
        self.last = self.last.wrapping_add(1);
        self.open.push((name.into(), self.last));
        self.bytes += cost(name);
        self.last
    }

    fn end(&mut self, name: &str) {
        self.open.retain(|(known, _)| **known != *name);
        self.bytes -= cost(name);
    }
}

/// Where the messages of a transaction go, for words.
fn what_of(frame: &TransactionFrame<'_>) -> String {
    format!("COMMIT of '{}': a destination", frame.transaction)
}

/// What an open transaction costs, empty, in the kernel, too.
fn cost(name: &str) -> usize {
    256 + name.len()
}

impl StompFront {
    pub(super) fn on_begin(cx: &mut Cx<'_>, frame: &TransactionFrame<'_>) -> Result<(), Trouble> {
        let Some(session) = cx.session() else {
            return Ok(());
        };
        let name = &*frame.transaction;
        if !cx.links.may_keep(cx.id, cost(name), cx.kernel) {
            return Err(Trouble::refused(Refusal::Short, "BEGIN"));
        }
        let Some(front) = StompFront::of(cx.links, cx.id) else {
            return Ok(());
        };
        if front.transactions.number(name).is_ok() {
            let body =
                format!("transaction '{name}' has begun already; COMMIT or ABORT it first\n");
            return Err(Trouble::new("Duplicate transaction", body));
        }
        if front.transactions.open.len() >= front.settings.transactions_max {
            let body = "the connection has as many open transactions as it may have; COMMIT or ABORT some\n";
            return Err(Trouble::new("too many transactions", body));
        }
        let number = front.transactions.begin(name);
        cx.kernel.begin(session, number);
        StompFront::count_kept(cx);
        Ok(())
    }

    pub(super) fn on_commit(cx: &mut Cx<'_>, frame: &TransactionFrame<'_>) -> Handled {
        if cx.links.blocked().is_some()
            && let Some(link) = cx.links.get_mut(cx.id)
        {
            // All of it or nothing: it waits until there is room for all.
            link.pause_until = Some(cx.now + FULL_PAUSE);
            return Handled::Later;
        }
        let before = cx.kernel.last_question();
        let done = StompFront::commit(cx, frame);
        let receipt = frame.receipt.as_deref();
        if let Ok(true) = done {
            let what = what_of(frame);
            StompFront::answer_later(cx, before, cx.kernel.question(), receipt, &what);
        } else {
            StompFront::answer(cx, receipt, done.map(drop));
        }
        Handled::Done
    }

    /// Does all of a transaction; whether other shards are asked about any of it.
    fn commit(cx: &mut Cx<'_>, frame: &TransactionFrame<'_>) -> Result<bool, Trouble> {
        let Some((session, number)) = StompFront::end_transaction(cx, frame)? else {
            return Ok(false);
        };
        let Some(committed) = cx.kernel.commit(session, number, cx.now, cx.links) else {
            return Ok(false);
        };
        if let (Some(until), Some(link)) = (committed.pause_until, cx.links.get_mut(cx.id)) {
            link.pause_until = Some(until);
        }
        let (what, outcomes) = (what_of(frame), committed.outcomes);
        let is_asked = outcomes.contains(&Outcome::Asked);
        outcomes
            .into_iter()
            .try_for_each(|outcome| outcome_of(outcome, &what, true))?;
        Ok(is_asked)
    }

    /// A transaction's name is free again: what the kernel knows it by.
    fn end_transaction(
        cx: &mut Cx<'_>,
        frame: &TransactionFrame<'_>,
    ) -> Result<Option<(SessionId, u32)>, Trouble> {
        let (session, front) = (cx.session(), StompFront::of(cx.links, cx.id));
        let (Some(session), Some(front)) = (session, front) else {
            return Ok(None);
        };
        let number = front.transactions.number(&frame.transaction)?;
        front.transactions.end(&frame.transaction);
        StompFront::count_kept(cx);
        Ok(Some((session, number)))
    }

    pub(super) fn on_abort(cx: &mut Cx<'_>, frame: &TransactionFrame<'_>) -> Result<(), Trouble> {
        let Some((session, number)) = StompFront::end_transaction(cx, frame)? else {
            return Ok(());
        };
        cx.kernel.abort(session, number, cx.now, cx.links);
        Ok(())
    }
}
