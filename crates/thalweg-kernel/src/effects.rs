//! What the kernel asks of its surroundings. It never calls a socket, a disk or another thread: it calls one of these
//! verbs, and their implementation (the server's, the simulator's) carries them out in batches.

use crate::ids::{GroupId, LinkId, QueueId, SessionId, Tag, TakenId, Ticket};
use crate::publish::pipeline::Draft;
use crate::publish::run::Run;
use crate::verdict::Refusal;
use thalweg_model::{Message, Properties, Reliability, RetainOp, Span, Time};

/// The verbs the kernel may use while it handles a command.
///
/// Order matters only per link: deliveries and answers leave in the order in which they were asked for.
///
/// What the kernel has for others than its peers waits in the kernel until it is taken: records of the journal
/// ([`Kernel::take_batch`](crate::Kernel::take_batch)), messages for other shards
/// ([`Kernel::take_outbox`](crate::Kernel::take_outbox)) and messages wanted back from disk
/// ([`Kernel::take_fetches`](crate::Kernel::take_fetches)).
pub trait Effects {
    /// Puts a message for one recipient into the link's output.
    fn deliver(&mut self, link: LinkId, content: &Content<'_>, delivery: &Delivery<'_>) -> Sent;
    /// Puts all messages of a run into the link's output, as they came. Neither [`Sent::Room`] nor [`Sent::Congested`]: none of
    /// them is there, because there is no room for all, or because the recipient's encoding of them is another.
    fn deliver_run(&mut self, _link: LinkId, _run: &Run<'_>) -> Sent {
        Sent::Full
    }
    /// Messages with priorities are for this link: from now on little goes into its output and its socket at once, since what
    /// is there cannot be overtaken.
    fn prioritize(&mut self, _link: LinkId) {}
    /// The second half of an exactly-once delivery: tells the peer that `tag` will not be repeated.
    fn release(&mut self, link: LinkId, tag: Tag);
    /// Answers what was asked with a ticket.
    fn answer(&mut self, link: LinkId, ticket: Ticket, answer: Answer<'_>);
    /// Says something of a watch, by the cookie that its reader gave it.
    fn observe(&mut self, link: LinkId, cookie: u64, observed: Observed<'_>);
    /// Ends a link; the kernel has already forgotten it.
    fn disconnect(&mut self, link: LinkId, why: CloseReason);
    /// A consumer of a line was ended by the kernel. False if the protocol has no message for that: where
    /// [`ConsumerEnd::Stalled`] cannot be reported by itself, the whole link ends.
    fn consumer_ended(&mut self, link: LinkId, line: u16, ended: ConsumerEnd) -> bool;
    /// What is sent on this link from here on leaves only when batch `batch` of the journal, and all before it, are as
    /// safe as was asked for them, here and on the shards that were sent something: see
    /// [`Kernel::take_batch`](crate::Kernel::take_batch).
    fn hold(&mut self, link: LinkId, batch: u64);
}

/// What is said of a watch.
#[derive(Clone, Copy, Debug)]
pub enum Observed<'a> {
    /// It is in force on every shard; the value of this moment, if there is one.
    Ready(Option<&'a Message>),
    /// Something waits in it where nothing waited before.
    Changed,
    /// It has ended, and not because its reader said so. Its number names nothing any more.
    Ended(WatchEnd),
}

/// Why a consumer has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerEnd {
    /// The queue of this consumer is gone.
    QueueGone(u32),
    /// One message was asked for without a consumer; it has expired before it came, and the queue is empty.
    NothingCame,
    /// The line's deliveries were not settled in time: all its consumers end, and the kernel removes the line right
    /// after.
    Stalled,
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
    pub message: &'a Message,
    /// Earlier deliveries of this message, to any consumer.
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

/// Where a record stands in what a shard has persisted: in which frame, and where in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spot {
    /// Number of the shard's frame ([`Batch::frame`](crate::Batch::frame)); frames are written in their order.
    pub frame: u64,
    /// Offset in its bytes.
    pub offset: u32,
    /// Bytes of the record.
    pub len: u32,
}

/// Whose messages wait on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    Session(SessionId),
    /// Those of a queue with a name.
    Queue(QueueId),
    /// Those of a group.
    Group(GroupId),
}

/// Messages that a queue wants back.
#[derive(Debug)]
pub struct Fetch {
    pub holder: Holder,
    /// Tells this fetch's answer from that of an earlier one, or of an earlier holder of that number.
    pub question: u64,
    /// Place and length of each message's record, oldest first.
    pub places: Vec<(u64, u32)>,
}

/// [`Effects::deliver`] off the paths that every message takes: what it is for `E` is compiled into this, and not into each
/// caller.
#[inline(never)]
pub(crate) fn deliver_apart<E: Effects>(
    link: LinkId,
    content: &Content<'_>,
    delivery: &Delivery<'_>,
    fx: &mut E,
) -> Sent {
    fx.deliver(link, content, delivery)
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

/// A message on its way out, without what differs between its recipients.
#[derive(Clone, Copy)]
pub enum Content<'a> {
    /// It waited or will be settled. With its address, where that is at hand as text: checking that its bytes are text is
    /// otherwise left to those who read it.
    Kept(&'a Message, Option<&'a str>),
    /// It is still in its publisher's buffer; the time is now.
    Passing(&'a Draft<'a>, Time),
}

impl<'a> Content<'a> {
    /// The message, if it is kept.
    pub fn message(&self) -> Option<&'a Message> {
        match self {
            Content::Kept(message, _) => Some(message),
            Content::Passing(..) => None,
        }
    }

    #[inline]
    pub fn address(&self) -> &'a str {
        match self {
            Content::Kept(_, Some(address)) => address,
            Content::Kept(message, None) => message.address(),
            Content::Passing(draft, _) => draft.address,
        }
    }

    /// Whether its address is this one; costs less than [`Content::address`].
    #[inline]
    pub fn is_at(&self, address: &str) -> bool {
        match self {
            Content::Kept(message, _) => message.is_at(address),
            Content::Passing(draft, _) => draft.address == address,
        }
    }

    /// Bytes of its address.
    #[inline]
    pub fn address_len(&self) -> usize {
        match self {
            Content::Kept(message, _) => message.address_len(),
            Content::Passing(draft, _) => draft.address.len(),
        }
    }

    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        match self {
            Content::Kept(message, _) => message.payload(),
            Content::Passing(draft, _) => draft.payload,
        }
    }

    /// What it does to the last value.
    #[inline]
    pub fn retain(&self) -> RetainOp {
        match self {
            Content::Kept(message, _) => message.retain(),
            Content::Passing(draft, _) => draft.retain,
        }
    }

    /// The reliability that the publisher chose.
    #[inline]
    pub fn reliability(&self) -> Reliability {
        match self {
            Content::Kept(message, _) => message.reliability(),
            Content::Passing(draft, _) => draft.reliability,
        }
    }

    #[inline]
    pub fn priority(&self) -> u8 {
        match self {
            Content::Kept(message, _) => message.priority(),
            Content::Passing(draft, _) => draft.priority,
        }
    }

    /// When the message itself expires; a queue may drop it earlier ([`Delivery::expires_in`]).
    #[inline]
    pub fn expires(&self) -> Time {
        match self {
            Content::Kept(message, _) => message.expires(),
            Content::Passing(draft, now) => {
                draft.expires_in.map_or(Time::NEVER, |span| *now + span)
            }
        }
    }

    #[inline]
    pub fn properties(&self) -> Option<&'a Properties> {
        match self {
            Content::Kept(message, _) => message.properties(),
            Content::Passing(draft, _) => draft.properties,
        }
    }

    /// The publisher's own encoding, which a recipient of the same dialect may get unchanged.
    #[inline]
    pub fn native(&self) -> Option<Native<'a>> {
        match self {
            Content::Kept(..) => None,
            Content::Passing(draft, _) => draft.native,
        }
    }
}

/// One recipient's part of a message on its way out.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    pub to: Recipient,
    /// The reliability granted to this recipient.
    pub reliability: Reliability,
    /// It is a last value, or the recipient asked to see that it became one.
    pub retain: bool,
    /// The recipient is to settle it under `tag`.
    pub settles: bool,
    /// Rises by one with each message of a consumer's line; for subscribers 0 where nothing is to be settled.
    pub tag: u64,
    /// How often it was delivered before.
    pub deliveries: u32,
    /// Messages that wait behind it in its queue.
    pub left: u64,
    /// How long it is still worth delivering, if it expires.
    pub expires_in: Option<Span>,
    /// The identifiers of the subscriptions that matched, where given.
    pub subscription_ids: &'a [u32],
}

/// What receives a delivery on its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// The session, by its subscriptions.
    Subscriber,
    /// A consumer of a queue.
    Consumer { line: u16, number: u32 },
    /// One message of a queue was asked for.
    Get { line: u16 },
}

impl Delivery<'_> {
    /// Returns a first delivery that settles nothing.
    #[inline(always)]
    pub fn unsettled(to: Recipient, reliability: Reliability) -> Self {
        Delivery {
            to,
            reliability,
            retain: false,
            settles: false,
            tag: 0,
            deliveries: 0,
            left: 0,
            expires_in: None,
            subscription_ids: &[],
        }
    }

    /// Whole seconds that it is still worth delivering, if it expires.
    pub fn expires_in_secs(&self) -> Option<u32> {
        self.expires_in.map(|left| {
            // What was written down has been rounded up to a millisecond; that must not become a second.
            let whole = Span::from_nanos(left.nanos().saturating_sub(1_000_000)).secs_ceil();
            whole.clamp(u64::from(left > Span::ZERO), u64::from(u32::MAX)) as u32
        })
    }
}

/// Bytes as they came from the publisher.
#[derive(Clone, Copy, Debug)]
pub struct Native<'a> {
    /// Which encoding; fronts agree among themselves on the numbers.
    pub dialect: u8,
    pub frame: &'a [u8],
}

/// The answer to a question that was asked with a [`Ticket`].
#[derive(Debug)]
pub enum Answer<'a> {
    /// One outcome per filter of a subscribe, in order.
    Subscribed(&'a [Subscribed]),
    /// One outcome per filter of an unsubscribe: whether there was such a subscription.
    Unsubscribed(&'a [bool]),
    /// To [`Kernel::read_last_value`](crate::Kernel::read_last_value).
    Value(Option<&'a Message>),
    /// To [`Kernel::list_last_values`](crate::Kernel::list_last_values) and to
    /// [`Kernel::read_kept`](crate::Kernel::read_kept).
    Values {
        /// In byte order of their addresses, or oldest first.
        values: Vec<Message>,
        complete: bool,
    },
    /// To [`Kernel::take_apart`](crate::Kernel::take_apart); nothing if the queue is empty.
    Taken(Result<Option<Taken<'a>>, Refusal>),
    /// To [`Kernel::make_queue`](crate::Kernel::make_queue). What this shard publishes from now on finds the queue.
    QueueMade(Result<(), Refusal>),
    /// To a publish whose outcome was [`Outcome::Asked`](crate::Outcome::Asked); its ticket is 0 unless it is exactly once.
    /// Those of a link are answered in the order of their questions.
    Published {
        /// What [`Kernel::question`](crate::Kernel::question) was after the publish.
        question: u64,
        /// Otherwise it is accepted, and as safe as was asked for.
        is_refused: bool,
    },
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
    /// An administrator ended it.
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
