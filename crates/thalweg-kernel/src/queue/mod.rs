//! Queues with names, where messages wait for consumers.
//!
//! A queue is found by its address. Its consumers belong to lines of sessions (room `lines/`).
//!
//! Start reading at `accept.rs`: a message comes into a queue; then `dispatch.rs` and `settle.rs`. Queues are all on one shard
//! (see [`Kernel::has_queues`]).

mod accept;
mod apart;
mod backlog;
mod dead_letter;
mod declare;
mod delivered;
mod depth;
mod dispatch;
mod ending;
mod group_feed;
mod pass;
mod queues;
mod recount;
mod select;
mod selectors;
mod settle;
mod spec;
mod take;
mod takers;
mod terms;
mod view;
mod written;

pub use apart::Claim;
pub(crate) use backlog::{Backlog, Item, Place};
pub(crate) use dead_letter::{Dead, GivenUp};
pub(crate) use delivered::Mark;
pub use ending::{Deleted, Purged};
pub(crate) use queues::Queues;
pub(crate) use select::ASKED_PER_CALL;
pub(crate) use selectors::{Screen, Selectors, filter_cost};
pub use spec::{DeadLetter, QueueLimits, QueueOverflow, QueueSpec, QueueStatus, queue_address};
use takers::Takers;
use terms::Terms;
pub use view::QueueView;
pub(crate) use written::flagged;

use crate::ids::{BindingId, GroupId, QueueId, SessionId};
use crate::publish::pace::{Pace, eighths};
use crate::remote::shards::ShardMessage;
use crate::{Kernel, home};
use std::collections::BTreeSet;
use std::sync::Arc;
use thalweg_model::{Message, Span, Time};

pub(crate) struct Queue {
    terms: Terms,
    backlog: Backlog,
    /// Given to consumers and not settled.
    unsettled: usize,
    /// It ends as soon as its dead letters have gone their way, unless it is used again before.
    is_ending: bool,
    takers: Takers,
    /// If one of its consumers has a content filter.
    selectors: Option<Box<Selectors>>,
    /// Bindings that lead here.
    bindings: BTreeSet<BindingId>,
    mark: Mark,
    /// Once publishers have waited for it.
    pace: Option<Box<Pace>>,
    /// Time of its last use.
    used: Time,
    /// Copies that were enqueued since it was made, for reports.
    came: u64,
    /// Copies that were settled.
    went: u64,
}

/// Names the shard of all queues.
pub(crate) const HOME: &str = "$q";

impl Kernel {
    /// Whether this is the shard where queues and exchanges are, and to which connections come that use them.
    pub fn has_queues(&self) -> bool {
        home(HOME, self.env.shards()) == self.env.shard()
    }

    /// Sends to that shard.
    pub(crate) fn send_to_queues(&mut self, mail: ShardMessage) {
        self.remote.send(home(HOME, self.env.shards()), mail);
    }

    /// The number under which a queue's entries are in the journal; 0 if they are not.
    fn queue_number(&self, queue_id: QueueId) -> u64 {
        let queue = self.queues.get(queue_id);
        queue.map_or(0, Queue::journal_number)
    }

    /// How many messages wait in a queue.
    pub(crate) fn ready_in(&self, queue_id: QueueId) -> usize {
        self.queues
            .get(queue_id)
            .map_or(0, |queue| queue.backlog.len())
    }

    /// Whether a queue has a consumer.
    pub(crate) fn is_taken_from(&self, queue_id: QueueId) -> bool {
        let is_there = |group: &GroupId| {
            self.groups.get(*group).is_some_and(|group| {
                group
                    .everybody()
                    .any(|member| self.member_is_there(member.session))
            })
        };
        let takers = self.queues.get(queue_id).map(|queue| &queue.takers);
        takers.is_some_and(|it| !it.consumers().is_empty() || it.groups().iter().any(is_there))
    }
}

/// Whether an address is in the reserved subtree of queues.
pub fn is_queue_address(address: &str) -> bool {
    let Some(rest) = address.strip_prefix("$q") else {
        return false;
    };
    let Some((tenant, name)) = rest.split_once('/') else {
        return false;
    };
    (tenant.is_empty() || tenant.starts_with('@')) && !name.contains('/')
}

impl Queue {
    pub(super) fn new(terms: Terms, now: Time) -> Self {
        Queue {
            backlog: match terms.limits.priority_max {
                0 if terms.limits.priority_shares => Backlog::shared(),
                priority_max => Backlog::new(priority_max),
            },
            terms,
            unsettled: 0,
            is_ending: false,
            takers: Takers::default(),
            selectors: None,
            bindings: BTreeSet::new(),
            mark: Mark::default(),
            used: now,
            came: 0,
            went: 0,
            pace: None,
        }
    }

    /// A message that came into it just now, behind those that did before.
    #[inline]
    fn newest(&mut self, message: Message, serial: u64, now: Time) -> Item {
        self.came += 1;
        Item {
            order: self.backlog.next_order(),
            expires: self.terms.expiry(message.expires(), now),
            ..Item::new(message, serial, 0)
        }
    }

    /// A member of a group was given one of its messages.
    pub(crate) fn gave(&mut self) {
        self.went += 1;
    }

    /// A session that may use it does so: if it was about to end it stays.
    fn use_again(&mut self, now: Time) {
        self.used = now;
        self.is_ending = false;
    }

    pub(crate) fn address(&self) -> &Arc<str> {
        &self.terms.address
    }

    /// Whether one session has it alone.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.terms.owner.is_some()
    }

    /// The session that has it alone.
    pub(crate) fn owner(&self) -> Option<SessionId> {
        self.terms.owner
    }

    /// Whether this session has it alone.
    pub(crate) fn is_of(&self, id: SessionId) -> bool {
        self.terms.owner == Some(id)
    }

    /// A binding leads here from now on.
    pub(crate) fn bound(&mut self, binding: BindingId) {
        self.bindings.insert(binding);
    }

    /// The bindings that lead here.
    pub(crate) fn bindings(&self) -> impl Iterator<Item = BindingId> {
        self.bindings.iter().copied()
    }

    /// It does not any more.
    pub(crate) fn unbound(&mut self, binding: BindingId) {
        self.bindings.remove(&binding);
    }

    /// Whether its entries are written.
    pub(crate) fn is_durable(&self) -> bool {
        self.terms.number != 0
    }

    /// See [`Terms::number`].
    pub(crate) fn journal_number(&self) -> u64 {
        self.terms.number
    }

    /// Whether the bounds that its maker gave it are exceeded with so much more.
    fn exceeds(&self, messages: u64, bytes: u64) -> bool {
        let messages = messages + self.backlog.len() as u64;
        let bytes = bytes + self.backlog.payload_bytes();
        let limits = &self.terms.limits;
        limits.messages_max.is_some_and(|max| messages > max)
            || limits.bytes_max.is_some_and(|max| bytes > max)
    }

    /// How many eighths are filled of what the broker lets wait in it.
    pub(crate) fn eighths(&self, messages_max: u64, bytes_max: u64) -> u32 {
        let of_messages = eighths(self.backlog.len(), messages_max as usize);
        of_messages.max(eighths(
            self.backlog.payload_bytes() as usize,
            bytes_max as usize,
        ))
    }

    /// See [`Pace::pause`].
    pub(crate) fn pause(&mut self, eighths: u32, patience: Span, now: Time) -> Option<Time> {
        let pace = self.pace.get_or_insert_default();
        pace.pause(self.went, eighths, patience, now)
    }
}
