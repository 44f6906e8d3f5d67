//! What the kernel asks of the world. The kernel never calls a socket, a disk or another thread: it calls one of
//! these verbs, and whoever implements them (the server, the simulator) carries them out in batches.

use crate::ids::{LinkId, SessionId, ShardId, Tag, TakenId, Ticket};
use crate::journal::Record;
use crate::publish::Draft;
use crate::queue::Refusal;
use crate::shards::ShardMessage;
use thalweg_model::{Message, Properties, Reliability, Span, Time};

/// The verbs the kernel may use while it handles a command.
///
/// Order matters only per link (deliveries and answers leave in the order in which they were asked for), per shard
/// (messages arrive in the order in which they were sent, and after the records that were persisted before them are in
/// the journal's hands) and among records. All records of one command are kept together or not at all.
pub trait Effects {
    /// Puts a delivery into the link's output.
    fn deliver(&mut self, link: LinkId, delivery: &Delivery<'_>) -> Sent;
    /// The second half of an exactly-once delivery: tells the peer that `tag` will not be repeated.
    fn release(&mut self, link: LinkId, tag: Tag);
    /// Answers a subscribe or unsubscribe: one outcome per filter, in order.
    fn answer(&mut self, link: LinkId, ticket: Ticket, answer: &Answer);
    /// Ends a link; the kernel has already forgotten it.
    fn disconnect(&mut self, link: LinkId, why: CloseReason);
    /// Ends one line of a link, whose consumers have not settled what they were given in time; the kernel forgets the line
    /// right after. False if that cannot be said apart: then the whole link ends.
    fn end_line(&mut self, _link: LinkId, _line: u16) -> bool {
        false
    }
    /// Hands a message to another shard's kernel.
    fn send(&mut self, shard: ShardId, message: ShardMessage);
    /// Puts a message out of a queue into the output of a consumer's link.
    fn hand_over(&mut self, link: LinkId, handover: &Handover<'_>) -> Sent;
    /// A consumer's queue is gone, and with it the consumer. For consumer 0: the message that was asked for has expired
    /// before it came, and the queue is empty.
    fn consumer_ended(&mut self, link: LinkId, line: u16, consumer: u32);
    /// Appends a record to the journal; returns where it stands, unless it is left out later.
    fn persist(&mut self, record: &Record<'_>, safety: Safety) -> Spot;
    /// Somebody remembers where the record stands that was persisted last: it must be written, and there.
    fn pin(&mut self);
    /// Persists that the entry `serial` of queue `queue`, in flight under `tag` (0 if it has none), is done with. If its
    /// message was persisted at most moments ago and has not left yet, neither has to be written.
    fn forget(&mut self, queue: u64, serial: u64, tag: Tag);
    /// What this command has forgotten is to be so safe before anything that is held from here on leaves. Without this
    /// nobody waits for it.
    fn demand(&mut self, _safety: Safety) {}
    /// What is sent on this link from here on leaves only after all records of this command, and of all before it, are
    /// as safe as was asked for them, here and on the shards that were sent something.
    fn hold(&mut self, link: LinkId);
    /// Asks for [`Kernel::delivery_left`](crate::Kernel::delivery_left) with this tag as soon as what the last
    /// [`Effects::hold`] of this link holds may leave.
    fn tell_when_left(&mut self, _link: LinkId, _tag: Tag) {}
    /// Wants messages back that wait on disk only; they come through [`Kernel::on_fetched`](crate::Kernel::on_fetched).
    fn fetch(&mut self, fetch: Fetch);
    /// The answer to [`Kernel::read_last_value`](crate::Kernel::read_last_value).
    fn last_value_read(&mut self, link: LinkId, ticket: Ticket, value: Option<&Message>);
    /// The answer to [`Kernel::list_last_values`](crate::Kernel::list_last_values): values in byte order of their
    /// addresses, and whether these are all.
    fn last_values_listed(
        &mut self,
        link: LinkId,
        ticket: Ticket,
        values: Vec<Message>,
        complete: bool,
    );
    /// A watch is in force on every shard; the value of this moment, if there is one.
    fn watch_ready(&mut self, link: LinkId, cookie: u64, value: Option<&Message>);
    /// Something waits in a watch where nothing waited before.
    fn value_changed(&mut self, link: LinkId, cookie: u64);
    /// A watch has ended, and not because its reader said so. Its number names nothing any more.
    fn watch_ended(&mut self, link: LinkId, cookie: u64, why: WatchEnd);
    /// The answer to [`Kernel::take_apart`](crate::Kernel::take_apart); nothing if the queue is empty.
    fn taken(&mut self, link: LinkId, ticket: Ticket, taken: Result<Option<Taken<'_>>, Refusal>);
    /// The answer to [`Kernel::make_queue`](crate::Kernel::make_queue). What this shard publishes from now on finds the queue.
    fn queue_made(&mut self, link: LinkId, ticket: Ticket, made: Result<(), Refusal>);
}

/// Why a watch has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEnd {
    /// Its session may not see the address any more.
    NotAuthorized,
    /// Its session, or that session's link, has ended.
    SessionEnded,
}

/// A message that was taken out of a queue by itself.
#[derive(Debug)]
pub struct Taken<'a> {
    /// What to settle it by, within [`Limits::take_settle_timeout`](crate::Limits::take_settle_timeout).
    pub id: TakenId,
    /// The message.
    pub message: &'a Message,
    /// How often it was given to somebody before.
    pub deliveries: u32,
    /// What is left in the queue.
    pub left: u64,
}

/// How safe a record must be before what waits for it may leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Safety {
    /// Nothing waits for it; if it is lost with the machine, something is repeated.
    #[default]
    Lazy,
    /// In the operating system's hands: survives the end of the process.
    Written,
    /// On stable storage: survives the loss of power.
    Durable,
}

/// Where a record stands in what a shard has persisted: in which batch, and where in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spot {
    /// Number of the shard's batch; batches are written in their order.
    pub batch: u64,
    /// Offset in its bytes.
    pub offset: u32,
    /// Bytes of the record.
    pub len: u32,
}

/// Whose messages wait on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A session's.
    Session(SessionId),
    /// Those of a queue with a name, by its number among this shard's.
    Queue(u32),
}

/// Messages that a queue wants back.
#[derive(Debug)]
pub struct Fetch {
    /// Whose queue.
    pub holder: Holder,
    /// Tells this fetch's answer from that of an earlier one, or of an earlier holder of that number.
    pub question: u64,
    /// Place and length of each message's record, oldest first.
    pub places: Vec<(u64, u32)>,
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
    /// Its priority.
    pub priority: u8,
    /// The metadata, if any.
    pub properties: Option<&'a Properties>,
    /// The identifiers of the subscriptions that matched, where given.
    pub subscription_ids: &'a [u32],
    /// The publisher's own encoding, if a receiver of the same dialect may get it unchanged.
    pub native: Option<Native<'a>>,
}

/// A message on its way out of a queue to a consumer.
#[derive(Clone, Copy)]
pub struct Handover<'a> {
    /// The consumer's line.
    pub line: u16,
    /// The consumer; 0 if one message was asked for without one.
    pub consumer: u32,
    /// Its number: rises by one with each message of a line.
    pub tag: u64,
    /// It is to be settled under that number.
    pub settles: bool,
    /// How often it was delivered before.
    pub deliveries: u32,
    /// The message.
    pub message: Content<'a>,
    /// How long it is still worth delivering, if it expires.
    pub expires_in: Option<Span>,
    /// Messages that wait behind it.
    pub left: u64,
}

/// What a handover hands over: a message that somebody keeps, or one that is still in its publisher's buffer.
#[derive(Clone, Copy)]
pub enum Content<'a> {
    /// It waited or will be settled.
    Kept(&'a Message),
    /// It goes straight through, and expires then.
    Passing(&'a Draft<'a>, Time),
}

impl<'a> Content<'a> {
    /// The canonical address.
    pub fn address(self) -> &'a str {
        match self {
            Content::Kept(message) => message.address(),
            Content::Passing(draft, _) => draft.address,
        }
    }

    /// Whether its address is this one; costs less than looking at a kept message's address.
    #[inline]
    pub fn is_at(self, address: &str) -> bool {
        match self {
            Content::Kept(message) => message.is_at(address),
            Content::Passing(draft, _) => draft.address == address,
        }
    }

    /// Bytes of its address.
    #[inline]
    pub fn address_len(self) -> usize {
        match self {
            Content::Kept(message) => message.address_len(),
            Content::Passing(draft, _) => draft.address.len(),
        }
    }

    /// The payload, byte for byte.
    #[inline]
    pub fn payload(self) -> &'a [u8] {
        match self {
            Content::Kept(message) => message.payload(),
            Content::Passing(draft, _) => draft.payload,
        }
    }

    /// What the publisher asked for.
    #[inline]
    pub fn reliability(self) -> Reliability {
        match self {
            Content::Kept(message) => message.reliability(),
            Content::Passing(draft, _) => draft.reliability,
        }
    }

    /// Its priority.
    #[inline]
    pub fn priority(self) -> u8 {
        match self {
            Content::Kept(message) => message.priority(),
            Content::Passing(draft, _) => draft.priority,
        }
    }

    /// When the message itself expires.
    #[inline]
    pub fn expires(self) -> Time {
        match self {
            Content::Kept(message) => message.expires(),
            Content::Passing(_, expires) => expires,
        }
    }

    /// The metadata, if any.
    #[inline]
    pub fn properties(self) -> Option<&'a Properties> {
        match self {
            Content::Kept(message) => message.properties(),
            Content::Passing(draft, _) => draft.properties,
        }
    }
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
    /// It has not settled what it was given through a group for longer than it may, and others would take it.
    Stalled,
    /// Its buffers hold most of what those of all connections may hold together.
    Buffers,
}
