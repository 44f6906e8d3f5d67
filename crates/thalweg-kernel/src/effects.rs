//! What the kernel asks of the world. The kernel never calls a socket, a disk or another thread: it calls one of
//! these verbs, and whoever implements them (the server, the simulator) carries them out in batches.

use crate::ids::{LinkId, ShardId, Tag, Ticket};
use crate::shards::ShardMessage;
use thalweg_model::{Properties, Reliability};

/// The verbs the kernel may use while it handles a command.
///
/// Order matters only per link (deliveries and answers leave in the order in which they were asked for) and per shard
/// (messages arrive in the order in which they were sent).
pub trait Effects {
    /// Puts a delivery into the link's output.
    fn deliver(&mut self, link: LinkId, delivery: &Delivery<'_>) -> Sent;
    /// The second half of an exactly-once delivery: tells the peer that `tag` will not be repeated.
    fn release(&mut self, link: LinkId, tag: Tag);
    /// Answers a subscribe or unsubscribe: one outcome per filter, in order.
    fn answer(&mut self, link: LinkId, ticket: Ticket, answer: &Answer);
    /// Ends a link; the kernel has already forgotten it.
    fn disconnect(&mut self, link: LinkId, why: CloseReason);
    /// Hands a message to another shard's kernel.
    fn send(&mut self, shard: ShardId, message: ShardMessage);
}

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is in the output, and there is room for more.
    Room,
    /// It is in the output, but more should wait until [`Kernel::link_writable`](crate::Kernel::link_writable).
    Congested,
    /// It did not fit and was not taken; the output is full.
    Full,
    /// The receiver said that it does not take packets of this size.
    TooLarge,
    /// The link is gone.
    Gone,
}

/// A message on its way to one receiver.
#[derive(Debug)]
pub struct Delivery<'a> {
    /// The canonical address.
    pub address: &'a str,
    /// The payload, byte for byte.
    pub payload: &'a [u8],
    /// How surely it must arrive at this receiver.
    pub reliability: Reliability,
    /// It is a last value, or the receiver wants to see that it became one.
    pub retain: bool,
    /// It may have been delivered before.
    pub redelivered: bool,
    /// What to settle; 0 when nothing is to be settled.
    pub tag: Tag,
    /// Whole seconds it is still worth delivering, if it expires.
    pub expires_in_secs: Option<u32>,
    /// The metadata, if any.
    pub properties: Option<&'a Properties>,
    /// The identifiers of the subscriptions that matched, where given.
    pub subscription_ids: &'a [u32],
    /// The publisher's own encoding, if a receiver of the same dialect may get it unchanged.
    pub native: Option<Native<'a>>,
}

/// Bytes as they came from the publisher.
#[derive(Clone, Copy, Debug)]
pub struct Native<'a> {
    /// Which encoding; fronts agree among themselves on the numbers.
    pub dialect: u8,
    /// A whole frame.
    pub frame: &'a [u8],
}

/// The answer to a question that was asked with a [`Ticket`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// One outcome per filter of a subscribe.
    Subscribed(Vec<Subscribed>),
    /// One outcome per filter of an unsubscribe: whether there was such a subscription.
    Unsubscribed(Vec<bool>),
}

/// What became of one filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subscribed {
    /// In force on every shard, at most this reliable.
    Granted(Reliability),
    /// The access rules do not allow it.
    Denied,
    /// The session holds as many subscriptions as it may.
    TooMany,
    /// The filter is not legal.
    BadFilter,
    /// Shared subscriptions are switched off.
    NoShared,
    /// Wildcards are switched off.
    NoWildcards,
}

/// Why the kernel ends a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// Another connection opened the same session.
    TakenOver,
    /// Somebody with the right to do so ended it.
    Kicked,
    /// The peer's credentials or rights have ended.
    NotAuthorized,
    /// The broker is going down.
    ShuttingDown,
    /// Its queue is full and its policy is to end the link then.
    QueueFull,
}
