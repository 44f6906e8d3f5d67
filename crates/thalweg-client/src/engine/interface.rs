//! Types between an engine, its driver and the handles.

use thalweg_model::Reliability;

use crate::message::Message;
use crate::spool::SpoolError;
use crate::transport::{
    DeliveryId, Endpoint, MessageId, Refusal, RequestId, SubscriptionId, Transport,
};

/// A lane that an engine may use.
pub struct LaneSpec {
    /// The plugin of the protocol that it speaks.
    pub transport: Box<dyn Transport>,
    /// Purpose of the lane.
    pub role: Role,
}

/// Purpose of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// One of those that carry what is published to the client's brokers; one of them at a time.
    #[default]
    Candidate,
}

/// There is no room for a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Full {
    /// As many messages or bytes wait as [`EngineSettings`] allows.
    Buffer,
    /// It is larger than there can ever be room for, or a part of it is too long.
    TooLarge,
    /// The disk does not take it.
    Spool(SpoolError),
}

/// Outcome of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Success {
    /// It waits, or it was sent and its acknowledgement is awaited.
    Pending,
    /// The broker has it.
    Acknowledged,
    /// It was refused, has expired, or was dropped to make room.
    Failed,
    /// Sent without an acknowledgement, or so long ago that the outcome is not stored any more.
    Unknown,
}

/// A request to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Connect a lane to [`Engine::endpoint`], then say [`Engine::connected`] or [`Engine::connect_failed`].
    Connect(usize),
    /// Write what [`Engine::unwritten`] still has, if that goes at once, then close the lane's socket. Nothing is to be said.
    Disconnect(usize),
}

/// A notification for a handle.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// A message has its outcome; `why`, if it failed.
    Settled {
        /// The message that was published.
        id: MessageId,
        /// The outcome, never [`Success::Pending`].
        success: Success,
        /// Why it failed; None unless `success` is [`Success::Failed`].
        why: Option<Refusal>,
    },
    /// All messages of these numbers, both included, were sent at most once and have left: [`Success::Unknown`].
    Gone {
        /// The lowest number of the range.
        first: MessageId,
        /// The highest number of the range.
        last: MessageId,
    },
    /// All messages up to this one are taken: on disk, if there is one.
    Stored {
        /// The highest number that is stored.
        through: MessageId,
    },
    /// There is room again, after [`Full::Buffer`].
    Room,
    /// A message came. The handle that takes it lets the driver call [`Engine::settle`] with the token.
    Delivered {
        /// The subscription whose filter matches it.
        subscription: SubscriptionId,
        /// Names it in [`Engine::settle`].
        token: DeliveryToken,
        /// The message with its properties.
        message: Message,
    },
    /// A subscription stands, or was refused for good. Told once; what happens to it later is the engine's affair, unless it
    /// is refused after all.
    Subscribed {
        /// The number that [`Wish::subscription`] gave.
        subscription: SubscriptionId,
        /// The highest reliability of its deliveries, or the reason for the failure.
        outcome: Result<Reliability, Refusal>,
    },
    /// The answer to a request or a read; `Ok(None)`: there is no value.
    Answered {
        /// The number that the request was made with.
        request: RequestId,
        /// The answer, None where there is no value, or why there is none.
        answer: Result<Option<Message>, Refusal>,
    },
    /// A lane is up.
    Up {
        /// Its index at the engine.
        lane: usize,
        /// The peer had kept our session.
        session_present: bool,
    },
    /// A lane's connection was lost or could not be made.
    Down {
        /// Its index at the engine.
        lane: usize,
        /// Why, in the words of the peer or the system.
        words: String,
        /// Trying again as we are makes no sense; it is tried again all the same, but rarely.
        is_final: bool,
    },
    /// We ended a lane's connection: it is not needed, or the client is being closed.
    Left {
        /// Its index at the engine.
        lane: usize,
    },
    /// From now on another lane publishes.
    Switched {
        /// The brokers in question: 0 are the client's.
        way: u32,
        /// The lane that published before; None at the first.
        from: Option<usize>,
        /// The lane that publishes from now on.
        to: usize,
    },
}

/// Names a delivered message until it is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryToken {
    pub(super) subscription: SubscriptionId,
    pub(super) lane: u32,
    pub(super) connection: u32,
    pub(super) delivery: Option<DeliveryId>,
    /// Counts what the subscription was given.
    pub(super) number: u64,
    /// Memory of its message.
    pub(super) bytes: u32,
}

#[cfg(feature = "multicast")]
impl DeliveryToken {
    /// Of a message that no lane has brought: the engine has nothing to settle.
    pub(crate) fn of_none(subscription: SubscriptionId, bytes: usize) -> DeliveryToken {
        DeliveryToken {
            subscription,
            lane: 0,
            connection: 0,
            delivery: None,
            number: 0,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        }
    }

    pub(crate) fn subscription(&self) -> SubscriptionId {
        self.subscription
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes as usize
    }
}

/// A subscription to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish<'m> {
    /// A number of the handle's choice, unique at the engine.
    pub subscription: SubscriptionId,
    /// At which brokers: 0 are the client's.
    pub way: u32,
    /// An MQTT topic filter; the lane's plugin translates it.
    pub filter: &'m str,
    /// The surest delivery that is wanted.
    pub reliability: Reliability,
    /// Last values come first.
    pub last_values: bool,
    /// Every message is wanted, not just the newest state.
    pub keeps_all: bool,
    /// The handle settles messages by itself: only lanes with [`crate::Capabilities::settles`] are used.
    pub settle_by_hand: bool,
}

/// State of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaneState {
    /// Not connected, because nothing needs it.
    #[default]
    Idle,
    /// The driver connects it.
    Connecting,
    /// Connected; the peer has not let us in yet.
    Opening,
    /// The peer has let us in: messages may go.
    Up,
    /// Waits before it is connected again.
    Waiting,
}

/// Messages and bytes in an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Messages taken from handles and not settled.
    pub messages: usize,
    /// Bytes that they take.
    pub bytes: usize,
    /// Of these messages, those that have left and are not acknowledged.
    pub under_way: usize,
}

/// Counters of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages taken from handles.
    pub published: u64,
    /// Acknowledged by the broker.
    pub acknowledged: u64,
    /// Failed, expired and dropped ones included.
    pub failed: u64,
    /// Of the failed ones, expired.
    pub expired: u64,
    /// Of the failed ones, dropped to make room.
    pub dropped: u64,
    /// Sent, and whether they arrived cannot be known.
    pub unknown: u64,
    /// Sent again after a loss or a switch.
    pub repeated: u64,
    /// Messages delivered to handles.
    pub received: u64,
    /// Received repetitions that were recognized.
    pub duplicates: u64,
    /// Received at most once and dropped because the handle did not keep up.
    pub receive_dropped: u64,
    /// Switches to another lane for publishing.
    pub switches: u64,
}

/// A lane, for status and `explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneStatus<'e> {
    /// The protocol as `--via` names it.
    pub protocol: &'static str,
    /// The host, port and medium that it connects to.
    pub endpoint: &'e Endpoint,
    /// Whether it is connected, and if not, what it waits for.
    pub state: LaneState,
    /// Messages are published over this lane now; one lane of a way at a time.
    pub publishes: bool,
    /// Subscriptions that it carries.
    pub subscriptions: usize,
    /// Messages under way on it.
    pub under_way: usize,
    /// Connections that were up.
    pub connections: u64,
    /// Why it was lost, or could not be made, the last time; empty before.
    pub words: &'e str,
}
