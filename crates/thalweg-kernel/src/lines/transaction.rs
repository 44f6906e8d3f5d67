//! Publishes and settlements that happen all at once, at their transaction's end, or not at all.

use super::line::{Step, Transaction};
use super::spec::Tags;
use crate::Kernel;
use crate::effects::Effects;
use crate::ids::SessionId;
use crate::memory::Kept;
use crate::publish::draft::Admission;
use crate::publish::pipeline::{Draft, Outcome};
use crate::session::Pressure;
use crate::session::settle::Settled;
use crate::verdict::Verdict;
use thalweg_model::Time;

/// What became of a publish that is part of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gathered {
    /// It is in, and happens at the transaction's end.
    In,
    /// The transactions of its session are as large as they may be together.
    TooLarge,
    /// Memory is short, or transactions have all of it that they may have.
    Short,
    /// There is no such transaction.
    Nowhere,
}

/// What became of a transaction.
#[derive(Debug, PartialEq, Eq)]
pub struct Committed {
    /// Of its publishes, in their order.
    pub outcomes: Vec<Outcome>,
    /// If set, they are more than a rate allows: read nothing from the publisher before this time.
    pub pause_until: Option<Time>,
}

impl Kernel {
    /// Begins a transaction under a number that its session chooses; false if there is one.
    pub fn begin(&mut self, id: SessionId, number: u32) -> bool {
        self.lines_mut(id).is_some_and(|lines| lines.begin(number))
    }

    fn transaction_mut(&mut self, id: SessionId, number: u32) -> Option<&mut Transaction> {
        self.lines_of(id)?.transaction_mut(number)
    }

    /// Adds a publish, to `others` as well as [`Kernel::publish_to_all`] does it. `kept` are bytes that the front keeps of it
    /// until the transaction ends; they count, too.
    pub fn publish_in(
        &mut self,
        id: SessionId,
        number: u32,
        draft: &Draft<'_>,
        others: &[String],
        kept: usize,
        now: Time,
    ) -> Gathered {
        let texts: usize = others
            .iter()
            .map(|address| size_of::<String>() + address.len())
            .sum();
        let message = self.keep(Some(id), draft, &mut None, now);
        let bytes = message.bytes() + size_of::<Step>() + texts + kept;
        let Some(lines) = self
            .sessions
            .get(id)
            .and_then(|session| session.lines.as_deref())
        else {
            return Gathered::Nowhere;
        };
        if lines.transaction_bytes() + bytes > self.env.limits().transaction_bytes_max {
            return Gathered::TooLarge;
        }
        if !self.env.memory().may_gather(bytes) {
            return Gathered::Short;
        }
        let Some(transaction) = self.transaction_mut(id, number) else {
            return Gathered::Nowhere;
        };
        transaction.bytes += bytes;
        transaction
            .steps
            .push(Step::Publish(message, others.into(), draft.stamp));
        self.env.entered(Kept::Transactions, bytes);
        Gathered::In
    }

    /// Adds a settlement; see [`Kernel::settle_line`].
    pub fn settle_in(
        &mut self,
        id: SessionId,
        number: u32,
        line: u16,
        tags: Tags,
        verdict: Verdict,
    ) -> Settled {
        if self.transaction_mut(id, number).is_none() {
            return Settled::Unknown;
        }
        let Some(taken) = self.take_unsettled(id, line, tags) else {
            return Settled::Unknown;
        };
        if let Some(transaction) = self.transaction_mut(id, number) {
            let steps = taken.into_iter().map(|unsettled| Step::Settle {
                line,
                unsettled,
                verdict,
            });
            transaction.steps.extend(steps);
        }
        Settled::Known
    }

    /// Does all of a transaction and ends it; what became of its publishes. Nothing if there is none. If there is no room to
    /// write them down, nothing is done and all are [`Outcome::Full`]. It is not for a rate that some of it is left out:
    /// the publisher waits.
    ///
    /// Its records are those of one command, so they are kept together or not at all.
    pub fn commit<E: Effects>(
        &mut self,
        id: SessionId,
        number: u32,
        now: Time,
        fx: &mut E,
    ) -> Option<Committed> {
        let publishes = self
            .transaction_mut(id, number)?
            .steps
            .iter()
            .filter(|step| matches!(step, Step::Publish(..)));
        let publishes = publishes.count();
        if self.env.journal_full() && publishes > 0 {
            // All or nothing: what must be written down cannot be.
            self.abort(id, number, now, fx);
            return Some(Committed {
                outcomes: vec![Outcome::Full; publishes],
                pause_until: None,
            });
        }
        let transaction = self.take_transaction(id, number)?;
        // What it brings takes no more memory than it did before.
        let pressure = self.env.pressure();
        self.set_pressure(Pressure::None);
        let (mut outcomes, mut pause_until) = (Vec::new(), None);
        let mut lines: Vec<u16> = Vec::new();
        for step in transaction.steps {
            match step {
                Step::Publish(message, others, stamp) => {
                    let draft = Draft {
                        stamp,
                        // A message lives from the commit on.
                        ..Draft::again(&message, message.ingress())
                    };
                    let whole = Admission::Certain;
                    let published = match others.is_empty() {
                        true => self.publish_admitted(id, &draft, whole, now, fx),
                        false => {
                            self.publish_to_all_admitted(id, (&draft, whole), &others, now, fx)
                        }
                    };
                    outcomes.push(published.outcome);
                    pause_until = pause_until.max(published.pause_until);
                }
                Step::Settle {
                    line,
                    unsettled,
                    verdict,
                } => {
                    if !lines.contains(&line) {
                        lines.push(line);
                    }
                    let taken = std::iter::once(unsettled).collect();
                    self.judge_all(id, line, taken, verdict, now, fx);
                    self.end_command(now, fx);
                }
            }
        }
        self.set_pressure(pressure);
        for line in lines {
            self.pump_line(id, line, now, fx);
        }
        self.end_command(now, fx);
        if self.env.limits().journal && self.sessions.link_of(id).is_some() {
            // What was settled must not come again after the answer.
            self.journal.demand(self.session_safety(id));
            self.hold(id, fx);
        }
        Some(Committed {
            outcomes,
            pause_until,
        })
    }

    /// Forgets a transaction: nothing was published, and what it settled is unsettled again. False if there is none.
    pub fn abort<E: Effects>(&mut self, id: SessionId, number: u32, _: Time, _: &mut E) -> bool {
        let Some(transaction) = self.take_transaction(id, number) else {
            return false;
        };
        if let Some(lines) = self.lines_of(id) {
            lines.undo(transaction.steps);
        }
        true
    }

    fn take_transaction(&mut self, id: SessionId, number: u32) -> Option<Transaction> {
        let transaction = self.lines_of(id)?.take_transaction(number)?;
        self.env.left(Kept::Transactions, transaction.bytes);
        Some(transaction)
    }
}
