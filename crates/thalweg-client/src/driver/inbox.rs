//! Input of the driver from handles: publishes, encoded one after the other in one buffer, and commands.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::task::Waker;
use std::time::Duration;

use thalweg_model::Reliability;

use super::reply::Reply;
use super::resolve::Resolved;
use crate::adaptive::Explanation;
use crate::client::{ClientError, Status};
use crate::engine::DeliveryToken;
use crate::message::Message;
use crate::subscription::{Mailbox, SubscribeOptions};
use crate::transport::{MessageId, Refusal, SubscriptionId};
use crate::url::BrokerUrl;

/// Entries that wait for the driver.
#[derive(Default)]
pub(crate) struct Inbox {
    /// [`crate::engine::Draft`]s, encoded. Their ways are numbers of destinations here.
    pub(crate) drafts: Vec<u8>,
    /// Number of encoded messages.
    pub(crate) messages: usize,
    pub(crate) commands: Vec<Command>,
    /// Messages that users have taken.
    pub(crate) taken: Vec<DeliveryToken>,
    /// Results of the resolver.
    pub(crate) resolved: Vec<Resolved>,
    /// Number of the next publish.
    pub(crate) next_id: MessageId,
    /// Messages in the engine, as of its last turn.
    pub(crate) behind_messages: usize,
    /// Bytes in the engine, as of its last turn.
    pub(crate) behind_bytes: usize,
    /// Wakers of publishers that wait for space.
    pub(crate) room_wakers: Vec<Waker>,
    /// Where messages were sent to beside the client's own brokers; their numbers begin at 1.
    pub(crate) destinations: Vec<String>,
    /// Properties of one message while they are encoded; empty between calls.
    pub(crate) scratch: Vec<u8>,
    /// Set when the inbox accepts nothing but further close commands.
    pub(crate) is_closed: bool,
    /// The thread has ended.
    pub(crate) is_over: bool,
}

/// A command of a handle to the driver.
pub(crate) enum Command {
    /// Another broker: the next destination.
    Open(Box<BrokerUrl>),
    Subscribe {
        id: SubscriptionId,
        filter: String,
        options: SubscribeOptions,
        mailbox: Arc<Mailbox>,
        reply: Reply<Result<Reliability, Refusal>>,
    },
    #[cfg(feature = "multicast")]
    SubscribeByGroup(Box<ByGroup>),
    Unsubscribe(SubscriptionId),
    /// Asks; the draft is the question.
    Request {
        draft: Vec<u8>,
        timeout: Duration,
        reply: Reply<Result<Option<Message>, Refusal>>,
    },
    /// Asks for a last value.
    Read {
        address: String,
        timeout: Duration,
        reply: Reply<Result<Option<Message>, Refusal>>,
    },
    /// Wants to know when everything given before has its outcome.
    Flush {
        timeout: Duration,
        reply: Reply<Result<(), ClientError>>,
    },
    /// Ends everything; before that, waits so long for outcomes.
    Close {
        timeout: Duration,
        reply: Option<Reply<Result<(), ClientError>>>,
    },
    Status(Sender<Status>),
    Explain(Sender<Explanation>),
}

/// A subscription by a multicast group.
#[cfg(feature = "multicast")]
pub(crate) struct ByGroup {
    pub(crate) id: SubscriptionId,
    /// Subscribes to the group's description.
    pub(crate) description: SubscriptionId,
    pub(crate) group: String,
    pub(crate) filter: String,
    pub(crate) options: SubscribeOptions,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) reply: Reply<Result<Reliability, Refusal>>,
}
