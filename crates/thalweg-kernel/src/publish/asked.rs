//! Publishes that other shards are asked about: whether anything there keeps them (decision 0061).
//!
//! A shard that keeps nothing of what it was sent answers so before it confirms the mail that brought it. So when the batch of a
//! publish is complete all answers have come, and its publisher's shard reports whether it is refused
//! ([`Answer::Published`]).
//!
//! *Knows:* publishers by session or shard, batches, answers of shards. *Must never know:* a receiver.

use crate::Kernel;
use crate::effects::{Answer, Effects};
use crate::ids::{SessionId, ShardId, Ticket};
use crate::publish::crowd::Fate;
use crate::publish::draft::{Draft, Outcome, Published};
use crate::publish::stamped::ticket_of;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_model::Stamp;
use thalweg_records::Record;

/// Why a shard keeps nothing of a message that it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unkept {
    /// It has no receiver there any more.
    Unwanted,
    /// All its receivers there are full.
    LeftOut,
    /// A queue rejects it; others may have got it.
    Rejected,
}

/// The shard that sent a message, and its number for the question whether anything here keeps it; 0 if it does not ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AskingShard {
    pub shard: ShardId,
    pub question: u64,
}

impl AskingShard {
    pub(crate) fn new(shard: ShardId, question: u64) -> Self {
        Self { shard, question }
    }
}

/// Where the answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Publisher {
    /// With its ticket if it is exactly once, else 0.
    Session(SessionId, Ticket),
    Shard(AskingShard),
}

#[derive(Debug)]
struct Question {
    number: u64,
    /// The batch that is complete only when all shards that were asked have answered.
    batch: u64,
    publisher: Publisher,
    /// Answers without which it counts as kept; [`KEPT`] if it is kept here.
    missing: u16,
    /// A receiver had no room for it, here or elsewhere.
    is_left_out: bool,
    /// A queue rejects it, or it cannot be kept.
    is_rejected: bool,
    /// What its repetition is known by.
    stamp: Option<Box<(Arc<str>, Stamp)>>,
    /// The question about the message that this one repeats; 0 if it repeats none.
    repeats: u64,
}

/// More than are asked.
const KEPT: u16 = u16::MAX;

impl Question {
    /// Why nothing keeps it, if nothing does or a queue rejects it.
    fn unkept(&self) -> Option<Unkept> {
        match (self.missing, self.is_left_out) {
            _ if self.is_rejected => Some(Unkept::Rejected),
            (0, true) => Some(Unkept::LeftOut),
            (0, false) => Some(Unkept::Unwanted),
            _ => None,
        }
    }
}

/// Questions that are not decided.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    /// By rising numbers, and so by rising batches.
    open: VecDeque<Question>,
    last: u64,
    /// The question of the last publish whose outcome was [`Outcome::Asked`].
    named: u64,
    /// One was opened for another shard's publish since [`Kernel::take_forwarded`] was last called.
    has_forwarded: bool,
    /// Open ones about messages that repeat others.
    repeating: usize,
}

impl Questions {
    /// The number of the next question.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.last + 1
    }

    /// No later question has the next number: messages carry it.
    pub(crate) fn pass_over(&mut self) {
        self.last += 1;
    }

    fn open(&mut self, publisher: Publisher, batch: u64, missing: u16, is_left_out: bool) {
        self.last += 1;
        self.has_forwarded |= matches!(publisher, Publisher::Shard(..));
        self.open.push_back(Question {
            number: self.last,
            batch,
            publisher,
            missing,
            is_left_out,
            is_rejected: false,
            stamp: None,
            repeats: 0,
        });
    }

    /// The question about a session's exactly-once message.
    fn of_ticket(&mut self, id: SessionId, ticket: Ticket) -> Option<u64> {
        let is = |question: &&Question| question.publisher == Publisher::Session(id, ticket);
        Some(self.open.iter().find(is)?.number)
    }

    /// The question about a stamped message.
    fn of_stamp(&self, user: &str, stamp: Stamp) -> Option<u64> {
        let is = |question: &&Question| {
            let known = question.stamp.as_deref();
            known.is_some_and(|(of, known)| **of == *user && *known == stamp)
        };
        Some(self.open.iter().find(is)?.number)
    }

    /// The next question whose answers have all come.
    fn pop_complete(&mut self, batch: u64) -> Option<Question> {
        let question = self.open.pop_front_if(|question| question.batch <= batch)?;
        self.repeating -= usize::from(question.repeats != 0);
        Some(question)
    }
}

impl Kernel {
    /// The number that [`Answer::Published`] will name the last publish by whose outcome was [`Outcome::Asked`].
    pub fn question(&self) -> u64 {
        self.remote.questions.named
    }

    /// The number of the last question so far. Those of the commands that follow are greater.
    pub fn last_question(&self) -> u64 {
        self.remote.questions.last
    }

    /// Whether anything that came from another shard since this was last called has made this shard ask others: that mail is
    /// confirmed when the batch being gathered is complete, not as soon as it is safe.
    pub fn take_forwarded(&mut self) -> bool {
        std::mem::take(&mut self.remote.questions.has_forwarded)
    }

    /// A message of this shard's own that is spread as another's, and about which it does not ask.
    pub(crate) fn no_asking_shard(&self) -> AskingShard {
        AskingShard::new(self.env.shard(), 0)
    }

    /// A batch cannot be kept: what is asked about with it is refused.
    pub fn batch_not_kept(&mut self, number: u64) {
        for question in &mut self.remote.questions.open {
            question.is_rejected |= question.batch == number;
        }
    }

    /// A publish of a session's has gone to other shards.
    pub(crate) fn ask(&mut self, id: SessionId, ticket: Ticket, asked: u16, fate: Fate) -> Outcome {
        self.open_question(Publisher::Session(id, ticket), asked, fate);
        Outcome::Asked
    }

    /// Another shard's question about a message that was spread here, with this fate: it is answered, or handed on to the shards
    /// that were sent the message from here. Whether it was handed on.
    pub(crate) fn answer_or_ask(
        &mut self,
        asker: AskingShard,
        is_rejected: bool,
        fate: Fate,
    ) -> bool {
        let asked = self.sessions.crowd.asked();
        if asked > 0 && !is_rejected && fate != Fate::Kept {
            self.open_question(Publisher::Shard(asker), asked, fate);
            return true;
        }
        if asked > 0 {
            self.remote.questions.pass_over();
        }
        let unkept = match fate {
            _ if is_rejected => Some(Unkept::Rejected),
            Fate::Kept => None,
            Fate::LeftOut => Some(Unkept::LeftOut),
            Fate::Unwanted => Some(Unkept::Unwanted),
        };
        self.answer_question(asker, unkept);
        false
    }

    fn open_question(&mut self, publisher: Publisher, asked: u16, fate: Fate) {
        let batch = self.journal.awaited();
        let questions = &mut self.remote.questions;
        let missing = match fate {
            Fate::Kept => KEPT,
            Fate::LeftOut | Fate::Unwanted => asked,
        };
        questions.open(publisher, batch, missing, fate == Fate::LeftOut);
        questions.named = questions.last;
    }

    /// The message of the last question has a stamp.
    pub(crate) fn ask_of_stamp(&mut self, user: &Arc<str>, stamp: Stamp) {
        if let Some(question) = self.remote.questions.open.back_mut() {
            question.stamp = Some(Box::new((user.clone(), stamp)));
        }
    }

    /// The outcome of an exactly-once message that is repeated.
    pub(crate) fn outcome_of_ticket(&mut self, id: SessionId, ticket: Ticket) -> Outcome {
        match self.remote.questions.of_ticket(id, ticket) {
            None => Outcome::Accepted,
            Some(number) => {
                self.remote.questions.named = number;
                Outcome::Asked
            }
        }
    }

    /// The outcome of a stamped message that a session repeats.
    pub(crate) fn outcome_of_stamp(
        &mut self,
        id: SessionId,
        ticket: Ticket,
        user: &str,
        stamp: Stamp,
    ) -> Outcome {
        match self.repeat_question(Publisher::Session(id, ticket), user, stamp) {
            true => Outcome::Asked,
            false => Outcome::Accepted,
        }
    }

    /// One of another shard's does.
    pub(crate) fn repeat_for(&mut self, asker: AskingShard, user: &str, stamp: Stamp) {
        self.repeat_question(Publisher::Shard(asker), user, stamp);
    }

    fn repeat_question(&mut self, publisher: Publisher, user: &str, stamp: Stamp) -> bool {
        let Some(repeated) = self.remote.questions.of_stamp(user, stamp) else {
            return false;
        };
        self.open_question(publisher, KEPT, Fate::Kept);
        if let Some(question) = self.remote.questions.open.back_mut() {
            question.repeats = repeated;
            self.remote.questions.repeating += 1;
        }
        true
    }

    /// A shard that was asked keeps nothing.
    pub(crate) fn on_unkept(&mut self, number: u64, why: Unkept) {
        let open = &mut self.remote.questions.open;
        let Ok(at) = open.binary_search_by_key(&number, |question| question.number) else {
            return;
        };
        let Some(question) = open.get_mut(at) else {
            return;
        };
        if question.missing != KEPT {
            question.missing = question.missing.saturating_sub(1);
        }
        question.is_left_out |= why == Unkept::LeftOut;
        question.is_rejected |= why == Unkept::Rejected;
    }

    /// Batches up to this one are complete: what was asked with them is decided.
    pub(crate) fn decide<E: Effects>(&mut self, batch: u64, fx: &mut E) {
        while let Some(question) = self.remote.questions.pop_complete(batch) {
            let unkept = question.unkept();
            let is_refused = matches!(unkept, Some(Unkept::Rejected | Unkept::LeftOut));
            if is_refused {
                self.forget_refused(&question);
            }
            match question.publisher {
                Publisher::Session(id, ticket) => {
                    if is_refused && ticket != 0 {
                        self.forget_ticket(id, ticket);
                        // Its number may be used again once it is refused.
                        if self.sessions.get(id).is_some_and(|it| it.is_durable()) {
                            self.hold(id, fx);
                        }
                    }
                    if let Some(link) = self.sessions.link_of(id) {
                        let answer = Answer::Published {
                            question: question.number,
                            is_refused,
                        };
                        fx.answer(link, ticket, answer);
                    }
                }
                Publisher::Shard(asker) => self.answer_question(asker, unkept),
            }
        }
    }

    /// A message was refused: so are its repetitions, and after that it may come again.
    #[cold]
    fn forget_refused(&mut self, refused: &Question) {
        if self.remote.questions.repeating > 0 {
            for question in &mut self.remote.questions.open {
                question.is_rejected |= question.repeats == refused.number;
            }
        }
        let Some((user, stamp)) = refused.stamp.as_deref() else {
            return;
        };
        let Some(left) = self.dedup.take_back(user, *stamp) else {
            return;
        };
        if self.env.limits().journal {
            let (publisher, highest) = (stamp.publisher, left.highest());
            let record = Record::Publisher {
                user,
                publisher,
                highest,
                runs: Cow::Owned(left.runs()),
            };
            self.journal.persist(&record, self.env.limits().safety);
        }
    }

    /// What a publish that met full receivers, or went to other shards, comes to.
    pub(crate) fn outcome_after(
        &mut self,
        id: SessionId,
        draft: &Draft<'_>,
        fate: Fate,
        published: &mut Published,
    ) {
        let crowd = std::mem::take(&mut self.sessions.crowd);
        if crowd.asked() == 0 {
            if fate == Fate::LeftOut && published.outcome == Outcome::Accepted {
                published.outcome = Outcome::Refused;
            }
            return;
        }
        // Nothing waits for other shards where nothing is written down and no queue can reject it.
        let is_decided = fate == Fate::Kept && !self.env.limits().journal && !crowd.asks_queues();
        if published.outcome == Outcome::Accepted && !is_decided {
            published.outcome = self.ask(id, ticket_of(draft), crowd.asked(), fate);
        } else {
            self.remote.questions.pass_over();
        }
    }
}
