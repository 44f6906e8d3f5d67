//! Queues with names, where messages wait for whoever takes them, and exchanges, which say what goes into which queue.
//!
//! A queue is found by its address. Bindings stand in the route table like subscriptions: an exchange is a reserved
//! subtree of addresses and what is written about it here. A consumer belongs to a *line* of its session: a scope of
//! delivery numbers, of settling many at once and of shared credit.
//!
//! Start reading at `accept.rs`: a message comes into a queue; then `dispatch.rs` and `verdict.rs`. Queues are all on one
//! shard (see [`Kernel::has_queues`]).

mod accept;
mod apart;
mod binding;
mod consume;
mod dead_letter;
mod declare;
mod delivered;
mod depth;
mod dispatch;
mod ending;
mod exchange;
mod group_feed;
mod line;
mod maker;
mod pass;
mod queues;
mod recall;
mod recount;
mod spec;
mod topology;
mod transaction;
mod verdict;
mod view;
mod written;

pub(crate) use accept::Queued;
pub(crate) use apart::TakenApart;
pub use apart::TakenEnd;
pub(crate) use binding::Binding;
pub(crate) use dead_letter::GivenUp;
pub(crate) use delivered::Delivered;
pub use ending::Purged;
pub(crate) use exchange::Exchange;
pub(crate) use line::Lines;
pub(crate) use maker::MadeBy;
pub(crate) use queues::Queues;
pub(crate) use recall::Recalling;
pub use recall::Wanted;
pub use spec::{
    BindSpec, BindTo, ConsumeSpec, DeadLetter, ExchangeKind, ExchangeSpec, QueueLimits,
    QueueOverflow, QueueSpec, QueueStatus, Refusal, Tags, Verdict, exchange_address, queue_address,
};
pub(crate) use topology::Topology;
pub use transaction::Gathered;
pub use view::{BindingView, ExchangeView, QueueView};
pub(crate) use written::StoredTerms;

use crate::given_back::BackId;
use crate::ids::{QueueId, SessionId};
use crate::pace::{Pace, eighths};
use crate::{Kernel, home};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use thalweg_model::{Message, Span, Time};

/// A queue.
pub(crate) struct Queue {
    pub(crate) address: Arc<str>,
    /// Never used again by any other queue.
    pub(crate) number: u64,
    /// Its entries are written down.
    pub(crate) durable: bool,
    /// It was declared to outlive the broker.
    durable_declared: bool,
    pub(crate) auto_delete: bool,
    /// Whose it is alone.
    pub(crate) owner: Option<SessionId>,
    pub(crate) limits: QueueLimits,
    /// Who said where its dead letters go.
    pub(crate) made_by: MadeBy,
    /// What waits, by priority; one lane if there are none.
    lanes: Vec<VecDeque<Item>>,
    /// Messages that wait, in memory and on disk.
    ready: usize,
    /// Their payloads' bytes.
    ready_bytes: u64,
    /// Memory that what waits there takes, and what of it is behind all that on disk.
    memory: usize,
    depth: Option<Box<depth::Depth>>,
    /// Given to consumers and not settled.
    pub(crate) unsettled: usize,
    /// By falling priority; those of one priority in the order in which they came.
    consumers: Vec<Consumer>,
    /// Whose turn it is.
    cursor: usize,
    /// Somebody has it alone.
    taken: bool,
    had_consumer: bool,
    /// Groups that take from it, for sessions that take their messages through subscriptions.
    groups: Vec<u32>,
    /// Bindings that lead here.
    bindings: BTreeSet<u32>,
    /// Rises with each message.
    order_last: i64,
    /// See [`Kernel::note_delivery`]: the highest serial that may have been delivered, how far it is raised ahead, and the
    /// highest of those that waited and left.
    delivered_to: u64,
    delivered_ahead: u64,
    left: u64,
    /// Once publishers have waited for it.
    pace: Option<Box<Pace>>,
    /// The earliest time a timer is set for.
    expiry_timer: Time,
    /// When somebody last did something with it.
    used: Time,
    /// Copies that came, for whoever looks.
    came: u64,
    /// Copies that were settled.
    went: u64,
}

/// A message in a queue.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) message: Message,
    /// Its place in line.
    order: i64,
    /// Names it in the journal; 0 if it is not written down.
    pub(crate) serial: u64,
    expires: Time,
    /// How often it was delivered.
    pub(crate) deliveries: u32,
    /// Of a group: under which it is known who gave it back.
    back: BackId,
}

// Each message that waits in a queue has one.
const _: () = assert!(size_of::<Item>() <= 40);

/// Somebody who takes from a queue. Its credit is with its line.
#[derive(Clone, Copy, Debug)]
struct Consumer {
    session: SessionId,
    line: u16,
    number: u32,
    priority: i32,
}

/// Names the shard of all queues.
pub(crate) const HOME: &str = "$q";

impl Kernel {
    /// Whether this is the shard where queues and exchanges are, and to which connections come that use them.
    pub fn has_queues(&self) -> bool {
        home(HOME, self.shards) == self.shard
    }

    /// How many messages wait in a queue.
    pub(crate) fn ready_in(&self, queue_id: QueueId) -> usize {
        self.queues.get(queue_id).map_or(0, |queue| queue.ready)
    }

    /// Whether somebody is there to take from a queue.
    pub(crate) fn is_taken_from(&self, queue_id: QueueId) -> bool {
        let is_there = |group: &u32| {
            self.groups
                .get(*group as usize)
                .and_then(Option::as_ref)
                .is_some_and(|group| {
                    group
                        .everybody()
                        .any(|member| self.member_is_there(member.session))
                })
        };
        self.queues
            .get(queue_id)
            .is_some_and(|queue| !queue.consumers.is_empty() || queue.groups.iter().any(is_there))
    }
}

/// Whether an address is in the reserved subtree of queues.
pub(crate) fn is_queue_address(address: &str) -> bool {
    let Some(rest) = address.strip_prefix("$q") else {
        return false;
    };
    let Some((tenant, name)) = rest.split_once('/') else {
        return false;
    };
    (tenant.is_empty() || tenant.starts_with('@')) && !name.contains('/')
}

impl Queue {
    /// The number under which its entries are in the journal; 0 if they are not.
    pub(crate) fn journal_number(&self) -> u64 {
        if self.durable { self.number } else { 0 }
    }

    fn lane_of(&self, message: &Message) -> usize {
        usize::from(message.priority().min(self.limits.priority_max))
    }

    /// How many eighths are filled of what the broker lets wait in it.
    pub(crate) fn eighths(&self, messages_max: u64, bytes_max: u64) -> u32 {
        let of_messages = eighths(self.ready, messages_max as usize);
        of_messages.max(eighths(self.ready_bytes as usize, bytes_max as usize))
    }

    /// See [`Pace::pause`].
    pub(crate) fn pause(&mut self, eighths: u32, patience: Span, now: Time) -> Option<Time> {
        let pace = self.pace.get_or_insert_default();
        pace.pause(self.went, eighths, patience, now)
    }

    /// Puts an item where its order says.
    fn insert(&mut self, item: Item) {
        let lane = self.lane_of(&item.message);
        self.ready += 1;
        self.ready_bytes += item.message.payload().len() as u64;
        self.memory += item.message.bytes();
        let Some(lane) = self.lanes.get_mut(lane) else {
            return;
        };
        if lane.back().is_none_or(|last| last.order < item.order) {
            lane.push_back(item);
        } else if lane.front().is_none_or(|first| item.order < first.order) {
            lane.push_front(item);
        } else {
            let at = lane.partition_point(|other| other.order < item.order);
            lane.insert(at, item);
        }
    }

    /// Memory that all takes that waits here.
    fn memory_held(&self) -> usize {
        self.memory + self.depth.as_deref().map_or(0, depth::Depth::recount)
    }

    /// Takes the next: the oldest of the highest priority.
    fn pop(&mut self) -> Option<Item> {
        let item = self.lanes.iter_mut().rev().find_map(VecDeque::pop_front)?;
        self.forget_ready(&item);
        Some(item)
    }

    /// Takes the one that is given up first when there is no room: the oldest of the lowest priority.
    fn pop_least(&mut self) -> Option<Item> {
        let item = self.lanes.iter_mut().find_map(VecDeque::pop_front)?;
        self.forget_ready(&item);
        Some(item)
    }

    fn forget_ready(&mut self, item: &Item) {
        self.ready -= 1;
        self.ready_bytes = self
            .ready_bytes
            .saturating_sub(item.message.payload().len() as u64);
        self.memory = self.memory.saturating_sub(item.message.bytes());
        if self.ready == 0 {
            for lane in &mut self.lanes {
                if lane.capacity() > 1024 {
                    lane.shrink_to(64);
                }
            }
        }
    }

    /// The earliest expiry among the heads.
    fn head_expiry(&self) -> Time {
        self.lanes
            .iter()
            .filter_map(|lane| lane.front())
            .map(|item| item.expires)
            .min()
            .unwrap_or(Time::NEVER)
    }
}
