//! Declarations of queues by peers, and the answers to them.

use crate::made_up::reserved_address;
use thalweg_model::Span;

/// A queue, as a client declares it.
#[derive(Clone, Debug)]
pub struct QueueSpec<'a> {
    /// Its canonical address, see [`queue_address`].
    pub address: &'a str,
    /// It outlives the broker.
    pub durable: bool,
    /// It is the declaring session's alone and ends with its link.
    pub exclusive: bool,
    /// The broker made its name up, so no other client can need it: declaring it exclusively needs no right.
    pub is_named_by_broker: bool,
    /// It ends when its last consumer leaves.
    pub auto_delete: bool,
    /// Its bounds and choices.
    pub limits: QueueLimits,
}

/// A queue's bounds and choices. Declaring a queue again with others is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueLimits {
    /// How long a message may wait.
    pub message_ttl: Option<Span>,
    /// How long the queue lives without consumers, without being declared again and without [`Kernel::take_one`].
    ///
    /// [`Kernel::take_one`]: crate::Kernel::take_one
    pub idle_expiry: Option<Span>,
    /// Messages that may wait.
    pub messages_max: Option<u64>,
    /// Bytes of payload that may wait.
    pub bytes_max: Option<u64>,
    /// What happens beyond those.
    pub overflow: QueueOverflow,
    /// Where messages go that the queue gives up.
    pub dead_letter: Option<DeadLetter>,
    /// The highest priority that is distinguished; 0 for none.
    pub priority_max: u8,
    /// Each priority has a share of what leaves, as in a session's backlog; without effect if `priority_max` is above 0.
    pub priority_shares: bool,
    /// One consumer has them all, until it leaves.
    pub single_active: bool,
    /// Deliveries of a message before it is given up.
    pub deliveries_max: Option<u32>,
    /// What kind of queue its maker called it, empty for the usual kind; compared and shown, nothing else.
    pub label: Box<str>,
}

/// What a full queue does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueOverflow {
    /// Gives the oldest message up.
    #[default]
    DropHead,
    RejectPublish,
    /// Refuses the newcomer, which becomes a dead letter.
    RejectPublishDeadLetter,
}

/// Where messages go that a queue gives up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The exchange's address; empty if the key names a queue.
    pub exchange: Box<str>,
    /// The key; nothing for the one the message came with.
    pub key: Option<Box<str>>,
}

/// The state of a queue in the answer to its declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueStatus {
    /// It was there before.
    pub existed: bool,
    pub messages: u64,
    pub consumers: u32,
}

/// The address of the queue `name` of a tenant; the default tenant's name is empty.
pub fn queue_address(tenant: &str, name: &str) -> String {
    reserved_address('q', tenant, name)
}
