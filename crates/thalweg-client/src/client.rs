//! The handle: publish, subscribe, ask. Cheap to clone, used from any thread and any async runtime.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::Poll;
use std::time::Duration;

use thalweg_model::Reliability;

use crate::adaptive::{Explanation, NetworkReading};
use crate::builder::ClientBuilder;
use crate::driver::handle::Handle;
use crate::driver::inbox::Command;
use crate::driver::reply::reply;
use crate::engine::{Counts, LaneState, Load, Success};
use crate::message::{Message, Options};
use crate::presence::{self, PresenceSubscription};
use crate::spool::{SpoolError, SpoolStatus};
use crate::subscription::{Mailbox, SubscribeOptions, Subscription};
use crate::ticket::Ticket;
use crate::transport::Refusal;
use crate::url::UrlError;

/// A client of one or more brokers. All clones are one client; when the last of them and of its subscriptions is dropped,
/// it says goodbye without waiting for anything ([`Client::close`] waits).
#[derive(Clone)]
pub struct Client {
    pub(crate) handle: Handle,
}

impl Client {
    /// Returns a builder with default settings.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Gives a message to the client and returns at once: it is sent by the client's own thread, by the protocol that is
    /// chosen, and kept until it is acknowledged. Does not wait, and in the steady state makes no system call and
    /// allocates nothing. [`ClientError::Full`] if the buffer has no room.
    ///
    /// `destination` is empty for the client's brokers, or the URL of another one, which is connected when it is first
    /// named; at most 64 of them.
    ///
    /// With a buffer on disk the message is safe a little later: [`Client::stored`].
    pub fn publish_message(
        &self,
        message: &[u8],
        destination: &str,
        topic: &str,
        options: &Options,
    ) -> Result<Ticket, ClientError> {
        self.handle
            .publish(message, destination, topic, options, None)
    }

    /// Outcome of a publish. Takes no lock.
    pub fn is_publish_success(&self, ticket: Ticket) -> Success {
        self.handle.shared.tickets.outcome(ticket.0)
    }

    /// Publishes and waits for space in the buffer and for the outcome. An at-most-once message is [`Success::Unknown`]
    /// once it was sent.
    ///
    /// If the future is dropped before, the message is published all the same, if there was room already.
    pub async fn publish(
        &self,
        topic: &str,
        payload: &[u8],
        options: &Options,
    ) -> Result<Success, ClientError> {
        let ticket = self.give(payload, "", topic, options).await?;
        Ok(self.outcome(ticket).await)
    }

    /// As [`Client::publish_message`], but waits for room in the buffer.
    pub async fn give(
        &self,
        message: &[u8],
        destination: &str,
        topic: &str,
        options: &Options,
    ) -> Result<Ticket, ClientError> {
        std::future::poll_fn(|context| {
            match self
                .handle
                .publish(message, destination, topic, options, Some(context.waker()))
            {
                Err(ClientError::Full) => Poll::Pending,
                done => Poll::Ready(done),
            }
        })
        .await
    }

    /// Why a message failed, in the broker's words where it had some. The last 1,024 are remembered.
    pub fn why_failed(&self, ticket: Ticket) -> Option<String> {
        self.handle.why_failed(ticket)
    }

    /// Waits until something has become of a publish. After [`Client::close`] the rest is [`Success::Unknown`].
    pub async fn outcome(&self, ticket: Ticket) -> Success {
        let wait = self.handle.shared.tickets.wait(ticket.0);
        std::future::poll_fn(|context| wait.poll(context.waker())).await
    }

    /// Whether a message would survive the end of this process. With a buffer on disk: whether it is stored; it is then
    /// sent by this process or by the next one with the same folder. Without a disk: `true` as soon as the message is
    /// accepted, because nothing more will be done for it. The answer is per ticket: failed messages are not stored,
    /// and at-most-once messages and those to other destinations are never on disk.
    pub fn is_stored(&self, ticket: Ticket) -> bool {
        self.handle.is_stored(ticket)
    }

    /// Waits for [`Client::is_stored`]: after that a gateway may forget its own copy. [`ClientError::NotStored`] as soon as
    /// it is known that it will not be: the words say why.
    pub async fn stored(&self, ticket: Ticket) -> Result<(), ClientError> {
        std::future::poll_fn(|context| self.handle.poll_stored(ticket, context.waker())).await
    }

    /// Wants what is published at the topics of a filter (`+`, `#`, `$share/<group>/<filter>`, `$q/<queue>`). Waits until
    /// the broker has confirmed it; while there is no connection, that is until there is one.
    pub async fn subscribe(
        &self,
        filter: &str,
        options: SubscribeOptions,
    ) -> Result<Subscription, ClientError> {
        self.subscribe_all(&[filter], options).await
    }

    /// As [`Client::subscribe`], for several filters: their messages come in one queue, in the order of their arrival. A
    /// message that several of them match may come once for each. If one is refused, none is subscribed.
    pub async fn subscribe_all(
        &self,
        filters: &[&str],
        options: SubscribeOptions,
    ) -> Result<Subscription, ClientError> {
        let is_filter = |filter: &&str| {
            !filter.is_empty() && filter.len() <= usize::from(u16::MAX) && !filter.contains('\0')
        };
        if filters.is_empty() || !filters.iter().all(is_filter) {
            return Err(ClientError::Invalid(
                "a filter has 1 to 65,535 bytes and no NUL",
            ));
        }
        if options.settle_by_hand && options.reliability == Reliability::AtMostOnce {
            return Err(ClientError::Invalid(
                "what comes at most once cannot be settled by hand: subscribe at least once",
            ));
        }
        // Made before the wait: a future that is dropped ends its subscription.
        let mut subscription = Subscription {
            handle: self.handle.clone(),
            ids: Vec::with_capacity(filters.len()),
            mailbox: Arc::new(Mailbox::default()),
            settle_by_hand: options.settle_by_hand,
            taken: Default::default(),
            granted: options.reliability,
        };
        let mut answers = Vec::with_capacity(filters.len());
        for filter in filters {
            let (answer_to, answer) = reply();
            let id = self.handle.next_subscription();
            subscription.ids.push(id);
            self.handle.command(Command::Subscribe {
                id,
                filter: (*filter).to_owned(),
                options: options.clone(),
                mailbox: subscription.mailbox.clone(),
                reply: answer_to,
            })?;
            answers.push(answer);
        }
        for answer in answers {
            match answer.await {
                None => return Err(ClientError::Closed),
                Some(Err(refusal)) => return Err(ClientError::Refused(refusal)),
                Some(Ok(granted)) => subscription.granted = subscription.granted.min(granted),
            }
        }
        Ok(subscription)
    }

    /// Publishes a question and waits for its answer. The protocol says where the answer goes; `reply_to` and
    /// `correlation` of the options are not used.
    pub async fn request(
        &self,
        topic: &str,
        payload: &[u8],
        options: &Options,
        timeout: Duration,
    ) -> Result<Message, ClientError> {
        self.handle.request(topic, payload, options, timeout).await
    }

    /// The last value of a topic; none if it has none. [`ClientError::TimedOut`] after 10 s without an answer.
    pub async fn last_value(&self, topic: &str) -> Result<Option<Message>, ClientError> {
        crate::driver::handle::check_topic(topic)?;
        let (answer_to, answer) = reply();
        let timeout = Duration::from_secs(10);
        self.handle.command(Command::Read {
            address: topic.to_owned(),
            timeout,
            reply: answer_to,
        })?;
        match answer.await {
            None => Err(ClientError::Closed),
            Some(Ok(message)) => Ok(message),
            Some(Err(Refusal::NoAnswer)) => Err(ClientError::TimedOut),
            Some(Err(refusal)) => Err(ClientError::Refused(refusal)),
        }
    }

    /// Presence of the clients with this name (`+`: all): first those that are connected, then each change. Thalweg
    /// only, with `presence.enabled`; other brokers refuse, or do not answer if they speak MQTT 3.1.1.
    pub async fn presence(&self, clients: &str) -> Result<PresenceSubscription, ClientError> {
        let inner = self
            .subscribe(&presence::filter(clients), SubscribeOptions::default())
            .await?;
        Ok(PresenceSubscription { inner })
    }

    /// Waits until something has become of all that was published before, at most so long.
    pub async fn flush(&self, timeout: Duration) -> Result<(), ClientError> {
        let (answer_to, answer) = reply();
        self.handle.command(Command::Flush {
            timeout,
            reply: answer_to,
        })?;
        answer.await.unwrap_or(Err(ClientError::Closed))
    }

    /// Waits as [`Client::flush`] does, disconnects from the brokers and ends everything, subscriptions too.
    /// Disconnecting takes a second more at most. [`ClientError::TimedOut`] means that messages have no outcome: those
    /// on disk are sent by the next process, others are lost. Closing a closed client succeeds. When it returns, the
    /// folder of a buffer on disk is free for the next client.
    pub async fn close(&self, timeout: Duration) -> Result<(), ClientError> {
        let (answer_to, answer) = reply();
        match self.handle.command(Command::Close {
            timeout,
            reply: Some(answer_to),
        }) {
            Err(_) => Ok(()),
            Ok(()) => answer.await.unwrap_or(Ok(())),
        }
    }

    /// Returns the client's status. Waits for the client's thread, some microseconds usually.
    pub fn status(&self) -> Result<Status, ClientError> {
        self.ask(Command::Status)
    }

    /// Why messages go by the protocol by which they go, in words. Waits for the client's thread, some microseconds
    /// usually.
    pub fn explain(&self) -> Result<Explanation, ClientError> {
        self.ask(Command::Explain)
    }

    fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Result<T, ClientError> {
        let (answer_to, answer) = channel();
        self.handle.command(command(answer_to))?;
        answer.recv().map_err(|_| ClientError::Closed)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// Status of a client, a snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// Its lanes, in the order in which brokers were named; further destinations follow.
    pub lanes: Vec<Lane>,
    /// Messages that wait or are in flight.
    pub load: Load,
    /// Messages counted since the client was made.
    pub counts: Counts,
    /// State of the buffer on disk.
    pub buffer: SpoolStatus,
    /// The last 64 messages that failed, the oldest first.
    pub failures: Vec<Failure>,
    /// Connections of a client in peer mode; zero of any other.
    pub peers: PeerCounts,
    /// Subscriptions that were asked for by a multicast group.
    pub groups: Vec<GroupStatus>,
}

/// A subscription that was asked for by a multicast group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupStatus {
    /// Its description is at `$multicast/` and this.
    pub group: String,
    /// Messages come by multicast.
    pub is_heard: bool,
    /// Why it is an ordinary subscription; empty if it is none.
    pub why_not: String,
    /// What became of the group's datagrams.
    pub counts: GroupCounts,
}

/// What became of the datagrams of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCounts {
    /// Datagrams of data that came for the first time.
    pub datagrams: u64,
    /// Datagrams that had come before, or came too late.
    pub duplicates: u64,
    /// Datagrams that are not of the group's present start.
    pub refused: u64,
    /// Requests for lost datagrams.
    pub requests: u64,
    /// Datagrams that never came, even when they were asked for.
    pub lost: u64,
    /// Messages that the broker did not send to the group: more came than its rate allows, or they were too large for it.
    pub unsent: u64,
    /// Messages that were dropped because the application did not take what came before.
    pub dropped: u64,
}

/// Connections of a client in peer mode, to peers and brokers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerCounts {
    /// Those that subscribe to something that this client publishes.
    pub subscribers: usize,
    /// Those that this client subscribes to.
    pub publishers: usize,
}

/// A message that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The ticket that publishing returned.
    pub ticket: Ticket,
    /// Why, in the broker's words where it had some.
    pub why: String,
}

/// A way to a broker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lane {
    /// The protocol as `--via` names it: `mqtt`, `coap`, …
    pub protocol: &'static str,
    /// Where: host and port, or a path.
    pub place: String,
    /// Whether it is connected, and if not, what it waits for.
    pub state: LaneState,
    /// Messages are published over this lane now; one lane at a time.
    pub publishes: bool,
    /// Subscriptions that it carries.
    pub subscriptions: usize,
    /// The broker had kept our session when it let us in the last time.
    pub session_present: bool,
    /// Messages under way on it.
    pub under_way: usize,
    /// Connections that were up.
    pub connections: u64,
    /// Error that ended the last connection; empty if there was none.
    pub trouble: String,
    /// Bytes that were written to its sockets.
    pub bytes_sent: u64,
    /// Bytes that came from them.
    pub bytes_received: u64,
    /// The system's counters of the connection, as of the last second.
    pub network: Option<NetworkReading>,
}

/// Why a client did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientError {
    /// The buffer has no room: as many messages or bytes wait as its settings allow.
    Full,
    /// The message is larger than the buffer may ever be, in bytes.
    TooLarge {
        /// The largest payload that the buffer takes, in bytes.
        limit: usize,
    },
    /// The client was closed.
    Closed,
    /// Not in the time that was given.
    TimedOut,
    /// An invalid argument, with the reason.
    Invalid(&'static str),
    /// Not the address of a broker.
    Url(UrlError),
    /// Invalid settings; the text names them and the remedy.
    Settings(String),
    /// The buffer on disk cannot be used.
    Spool(SpoolError),
    /// The message is not in the buffer on disk and will not be; the words say why.
    NotStored(String),
    /// The broker, or its protocol, refuses.
    Refused(Refusal),
    /// The system refuses something: a thread, a socket.
    System(String),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Full => f.write_str("the buffer is full: wait, or give it more room"),
            ClientError::TooLarge { limit } => write!(
                f,
                "the message is larger than the {limit} bytes of the buffer"
            ),
            ClientError::Closed => f.write_str("the client is closed"),
            ClientError::TimedOut => f.write_str("not in the time that was given"),
            ClientError::Invalid(words) => f.write_str(words),
            ClientError::Url(error) => error.fmt(f),
            ClientError::Settings(words) => f.write_str(words),
            ClientError::NotStored(words) => write!(f, "not on disk: {words}"),
            ClientError::Spool(error) => error.fmt(f),
            ClientError::Refused(refusal) => refusal.fmt(f),
            ClientError::System(words) => f.write_str(words),
        }
    }
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ClientError::Url(error) => Some(error),
            ClientError::Spool(error) => Some(error),
            ClientError::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}
