//! What a kernel has to do with other shards: mail, questions, members of groups, messages under way.
//!
//! *Knows:* what was sent, asked and promised. *Must never know:* a session or a group of this shard, but by its number.

use crate::ids::ShardId;
use crate::kernel::Map;
use crate::publish::asked::Questions;
use crate::publish::crowd::PacedElsewhere;
use crate::remote::aways::Aways;
use crate::remote::seats_away::SeatsAway;
use crate::remote::shards::ShardMessage;
use crate::remote::transfer::{Destination, LeftInTransfer};
use crate::session::subscribe::PendingSubscribe;
use std::collections::VecDeque;

/// What concerns other shards.
#[derive(Default)]
pub(crate) struct Remote {
    /// Members of groups that are owned here, where their sessions are on other shards.
    pub aways: Aways,
    /// What owners of groups on other shards know of members here.
    pub seats: SeatsAway,
    /// Publishers that receivers on other shards have asked to wait, and until when.
    pub paced: PacedElsewhere,
    /// Publishes whose publishers wait for what other shards say.
    pub questions: Questions,
    /// Messages for other shards, in order.
    outbox: Vec<(ShardId, ShardMessage)>,
    /// Where exactly-once messages stand that are under way to other shards, by where they go.
    transfers: Vec<(Destination, u64)>,
    /// What an earlier run left under way, until all shards know each other's routes.
    left_in_transfer: VecDeque<LeftInTransfer>,
    /// Subscribes that wait for other shards, by question.
    pending: Map<u32, PendingSubscribe>,
    question_last: u32,
}

impl Remote {
    /// Hands a message to another shard's kernel.
    #[inline]
    pub(crate) fn send(&mut self, shard: ShardId, message: ShardMessage) {
        self.outbox.push((shard, message));
    }

    pub(crate) fn has_outbox(&self) -> bool {
        !self.outbox.is_empty()
    }

    pub(crate) fn take_outbox(&mut self) -> Vec<(ShardId, ShardMessage)> {
        std::mem::take(&mut self.outbox)
    }

    /// A number for a question to other shards; never 0.
    pub(crate) fn next_question(&mut self) -> u32 {
        self.question_last = self.question_last.wrapping_add(1).max(1);
        self.question_last
    }

    // --- subscribes

    /// A subscribe waits until all shards have answered the question.
    pub(crate) fn wait_for(&mut self, question: u32, pending: PendingSubscribe) {
        self.pending.insert(question, pending);
    }

    /// Whether a subscribe waits for the answers to a question.
    pub(crate) fn is_pending(&self, question: u32) -> bool {
        self.pending.contains_key(&question)
    }

    /// One more shard has answered a question; the subscribe that waited for it, if that was the last.
    pub(crate) fn answered(&mut self, question: u32) -> Option<PendingSubscribe> {
        let pending = self.pending.get_mut(&question)?;
        pending.answers_missing -= 1;
        match pending.answers_missing {
            0 => self.pending.remove(&question),
            _ => None,
        }
    }

    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    // --- transfer queues

    /// The number of the transfer queue to a destination.
    pub(crate) fn transfer_to(&self, to: &Destination) -> Option<u64> {
        let known = self.transfers.iter().find(|(known, _)| known == to);
        known.map(|(_, number)| *number)
    }

    pub(crate) fn add_transfer(&mut self, to: Destination, number: u64) {
        self.transfers.push((to, number));
    }

    pub(crate) fn push_left(&mut self, left: LeftInTransfer) {
        self.left_in_transfer.push_back(left);
    }

    pub(crate) fn pop_left(&mut self) -> Option<LeftInTransfer> {
        self.left_in_transfer.pop_front()
    }
}
