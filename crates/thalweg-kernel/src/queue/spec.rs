//! What peers say about queues, exchanges and consumers, and what they are told.

use std::fmt;
use thalweg_model::Span;
use thalweg_model::syntax::write_level;

/// A queue, as somebody declares it.
#[derive(Clone, Debug)]
pub struct QueueSpec<'a> {
    /// Its canonical address, see [`queue_address`].
    pub address: &'a str,
    /// It outlives the broker.
    pub durable: bool,
    /// It is the declaring session's alone and ends with its link.
    pub exclusive: bool,
    /// The broker made its name up, so that nobody else can need it: to declare it exclusively is no right.
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
    /// The highest priority that is told apart; 0 for none.
    pub priority_max: u8,
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

/// What is told of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueStatus {
    /// It was there before.
    pub existed: bool,
    pub messages: u64,
    pub consumers: u32,
}

/// What a receiver says of a message it was given, through whatever it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is done with.
    Accept,
    /// Somebody, maybe the same consumer, is to be given it again.
    Requeue,
    /// Nobody is to be given it again: it becomes a dead letter, if the queue has a place for those.
    Reject,
}

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such queue.
    NoQueue,
    /// There is no such exchange.
    NoExchange,
    /// The access rules do not allow it.
    Denied,
    /// It belongs to another session.
    Locked,
    /// It has consumers, or bindings, or somebody has it alone.
    InUse,
    NotEmpty,
    /// It exists and is not what was declared; this differs.
    Differs(&'static str),
    /// Names like this one are the broker's own.
    Reserved,
    /// There are as many as there may be.
    TooMany,
    /// What was said makes no sense.
    Invalid(&'static str),
    /// There is no room to write it down.
    Full,
    /// There is no memory to keep it.
    Short,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoQueue => f.write_str("there is no such queue"),
            Refusal::NoExchange => f.write_str("there is no such exchange"),
            Refusal::Denied => f.write_str("the access rules do not allow it"),
            Refusal::Locked => f.write_str("it belongs to another connection"),
            Refusal::InUse => f.write_str("it is in use"),
            Refusal::NotEmpty => f.write_str("it is not empty"),
            Refusal::Differs(what) => write!(f, "it exists with another {what}"),
            Refusal::Reserved => f.write_str("such names are the broker's own"),
            Refusal::TooMany => f.write_str("there are as many as there may be"),
            Refusal::Invalid(why) => f.write_str(why),
            Refusal::Full => f.write_str("the journal is full"),
            Refusal::Short => f.write_str("memory is short"),
        }
    }
}

/// The address of the queue `name` of a tenant; the default tenant's name is empty.
pub fn queue_address(tenant: &str, name: &str) -> String {
    reserved_address('q', tenant, name)
}

/// The address of something that only the broker makes, by its kind.
pub(crate) fn reserved_address(kind: char, tenant: &str, name: &str) -> String {
    let level = write_level(name);
    match tenant {
        "" => format!("${kind}/{level}"),
        _ => format!("${kind}@{tenant}/{level}"),
    }
}
