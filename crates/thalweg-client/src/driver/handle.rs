//! State that a client's clones, subscriptions and futures share, and their way to the driver.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use thalweg_model::{Span, Time};

use super::inbox::{Command, Inbox};
use super::reply::reply;
use super::stored::{Stored, Storing};
use crate::client::{ClientError, Failure};
use crate::engine::{DeliveryToken, Draft, Success};
use crate::events::EventQueue;
use crate::message::{Message, Options};
use crate::ticket::{Ticket, Tickets, lock};
use crate::transport::{Properties, Refusal, SubscriptionId};
use crate::url::BrokerUrl;

/// State shared by handles and driver.
pub(crate) struct Shared {
    pub(crate) inbox: Mutex<Inbox>,
    pub(crate) tickets: Tickets,
    /// Tickets of the messages that are in the buffer, on disk if it has one.
    pub(crate) stored: Stored,
    /// The last messages that failed, the oldest first.
    pub(crate) failures: Mutex<VecDeque<Failure>>,
    pub(crate) limits: Limits,
    /// Queue of events, if the application asked for one.
    pub(crate) events: Option<EventQueue>,
    /// Set while the driver sleeps or is about to: a handle that puts something into the inbox must wake it.
    pub(crate) is_asleep: AtomicBool,
    pub(crate) bell: mio::Waker,
    /// Moments are counted from here, by handles and driver alike.
    pub(crate) clock: Clock,
    next_subscription: AtomicU32,
}

/// Limits of the messages that a handle accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Messages that may wait or be under way.
    pub(crate) messages_max: usize,
    /// Bytes that they may take.
    pub(crate) bytes_max: usize,
    /// The engine makes room by itself: a handle refuses only when the driver does not keep up.
    pub(crate) drops_oldest: bool,
    /// Messages are on disk when [`Shared::stored`] says so; without a disk they are stored when they are given.
    pub(crate) has_disk: bool,
}

/// The system's monotonic clock as [`Time`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock(Instant::now())
    }

    /// Never zero, so that something lies before.
    pub(crate) fn now(self) -> Time {
        Time::from_nanos(
            u64::try_from(self.0.elapsed().as_nanos())
                .unwrap_or(u64::MAX)
                .saturating_add(1),
        )
    }
}

/// Places beside the client's own brokers, at most.
const DESTINATIONS_MAX: usize = 64;

impl Shared {
    pub(crate) fn new(
        inbox: Inbox,
        limits: Limits,
        events: Option<EventQueue>,
        bell: mio::Waker,
        clock: Clock,
    ) -> Shared {
        let first = inbox.next_id;
        Shared {
            inbox: Mutex::new(inbox),
            tickets: Tickets::new(first),
            stored: Stored::new(first),
            failures: Mutex::default(),
            limits,
            events,
            is_asleep: AtomicBool::new(false),
            bell,
            clock,
            next_subscription: AtomicU32::new(1),
        }
    }

    /// Wakes the driver if it sleeps. To be called after the inbox was unlocked: the driver sets `is_asleep` before it
    /// looks into the inbox for the last time, so it either finds the new entry or is woken.
    pub(crate) fn ring(&self) {
        if self.is_asleep.load(Ordering::SeqCst) && self.is_asleep.swap(false, Ordering::SeqCst) {
            // It fails only if the driver is gone.
            let _ = self.bell.wake();
        }
    }
}

/// One of a client's handles. When the last is dropped, the driver says goodbye and ends.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    _owner: Arc<Owner>,
}

struct Owner(Arc<Shared>);

impl Drop for Owner {
    fn drop(&mut self) {
        lock(&self.0.inbox).commands.push(Command::Close {
            timeout: Duration::ZERO,
            reply: None,
        });
        self.0.ring();
    }
}

impl Handle {
    pub(crate) fn new(shared: Arc<Shared>) -> Handle {
        Handle {
            _owner: Arc::new(Owner(shared.clone())),
            shared,
        }
    }

    /// Takes a message; see [`crate::Client::publish_message`].
    pub(crate) fn publish(
        &self,
        payload: &[u8],
        destination: &str,
        topic: &str,
        options: &Options,
        room: Option<&Waker>,
    ) -> Result<Ticket, ClientError> {
        check_topic(topic)?;
        check_texts(options)?;
        let expires = match options.lifespan {
            None => Time::NEVER,
            Some(span) => self.shared.clock.now() + span_of(span),
        };
        let mut guard = lock(&self.shared.inbox);
        let inbox = &mut *guard;
        if inbox.is_closed {
            return Err(ClientError::Closed);
        }
        let limits = self.shared.limits;
        let (mut messages, mut bytes) = (inbox.messages, inbox.drafts.len());
        if !limits.drops_oldest {
            (messages, bytes) = (messages + inbox.behind_messages, bytes + inbox.behind_bytes);
        }
        if messages >= limits.messages_max
            || bytes.saturating_add(topic.len() + payload.len()) > limits.bytes_max
        {
            if topic.len() + payload.len() > limits.bytes_max {
                return Err(ClientError::TooLarge {
                    limit: limits.bytes_max,
                });
            }
            if let Some(waker) = room
                && !inbox.room_wakers.iter().any(|known| known.will_wake(waker))
            {
                inbox.room_wakers.push(waker.clone());
            }
            return Err(ClientError::Full);
        }
        let way = match destination.is_empty() {
            true => 0,
            false => destination_number(inbox, destination)?,
        };
        let id = inbox.next_id;
        inbox.scratch.clear();
        for (name, value) in &options.properties {
            if !Properties::push(name, value, &mut inbox.scratch) {
                return Err(ClientError::Invalid(
                    "a property is longer than 65,535 bytes",
                ));
            }
        }
        let draft = draft(
            id,
            way,
            topic,
            payload,
            options,
            expires,
            Properties(&inbox.scratch),
        );
        if !draft.encode(&mut inbox.drafts) {
            return Err(ClientError::TooLarge {
                limit: u32::MAX as usize,
            });
        }
        inbox.next_id = id + 1;
        inbox.messages += 1;
        self.shared.tickets.given(id + 1);
        drop(guard);
        self.shared.ring();
        Ok(Ticket(id))
    }

    /// Gives the driver something to do.
    pub(crate) fn command(&self, command: Command) -> Result<(), ClientError> {
        let mut inbox = lock(&self.shared.inbox);
        // A second close waits for the end, too.
        if inbox.is_over || inbox.is_closed && !matches!(command, Command::Close { .. }) {
            return Err(ClientError::Closed);
        }
        inbox.commands.push(command);
        drop(inbox);
        self.shared.ring();
        Ok(())
    }

    /// Asks a question; see [`crate::Client::request`].
    pub(crate) async fn request(
        &self,
        topic: &str,
        payload: &[u8],
        options: &Options,
        timeout: Duration,
    ) -> Result<Message, ClientError> {
        check_topic(topic)?;
        check_texts(options)?;
        let (answer_to, answer) = reply();
        {
            let mut inbox = lock(&self.shared.inbox);
            if inbox.is_closed {
                return Err(ClientError::Closed);
            }
            let mut properties = Vec::new();
            for (name, value) in &options.properties {
                if !Properties::push(name, value, &mut properties) {
                    return Err(ClientError::Invalid(
                        "a property is longer than 65,535 bytes",
                    ));
                }
            }
            let id = inbox.next_id;
            let expires = self.shared.clock.now() + span_of(timeout);
            let mut bytes = Vec::new();
            let draft = draft(
                id,
                0,
                topic,
                payload,
                options,
                expires,
                Properties(&properties),
            );
            if !draft.encode(&mut bytes) {
                return Err(ClientError::TooLarge {
                    limit: u32::MAX as usize,
                });
            }
            // It counts as a message.
            inbox.next_id = id + 1;
            self.shared.tickets.given(id + 1);
            inbox.commands.push(Command::Request {
                draft: bytes,
                timeout,
                reply: answer_to,
            });
        }
        self.shared.ring();
        match answer.await {
            None => Err(ClientError::Closed),
            Some(Ok(Some(message))) => Ok(message),
            Some(Ok(None)) | Some(Err(Refusal::NoAnswer)) => Err(ClientError::TimedOut),
            Some(Err(refusal)) => Err(ClientError::Refused(refusal)),
        }
    }

    pub(crate) fn next_subscription(&self) -> SubscriptionId {
        SubscriptionId(
            self.shared
                .next_subscription
                .fetch_add(1, Ordering::Relaxed),
        )
    }

    /// Settles a message that the application has finished with.
    pub(crate) fn settle(&self, token: DeliveryToken) {
        lock(&self.shared.inbox).taken.push(token);
        self.shared.ring();
    }

    pub(crate) fn unsubscribe(&self, id: SubscriptionId) {
        // A closed client has no subscriptions.
        let _ = self.command(Command::Unsubscribe(id));
    }

    /// Whether a message is in the buffer, as durably as that is.
    pub(crate) fn is_stored(&self, ticket: Ticket) -> bool {
        self.storing(ticket) == Storing::Done
    }

    fn storing(&self, ticket: Ticket) -> Storing {
        match self.shared.stored.of(ticket.0, self.shared.limits.has_disk) {
            Storing::Done if ticket.0 >= lock(&self.shared.inbox).next_id => Storing::Pending,
            known => known,
        }
    }

    /// Waits for [`Handle::is_stored`].
    pub(crate) fn poll_stored(
        &self,
        ticket: Ticket,
        waker: &Waker,
    ) -> Poll<Result<(), ClientError>> {
        if self.storing(ticket) == Storing::Pending {
            // First said, then looked.
            self.shared.stored.wait(waker);
        }
        match self.storing(ticket) {
            Storing::Done => Poll::Ready(Ok(())),
            Storing::Never => Poll::Ready(Err(self.never_stored(ticket))),
            Storing::Pending if lock(&self.shared.inbox).is_closed => {
                Poll::Ready(Err(ClientError::Closed))
            }
            Storing::Pending => Poll::Pending,
        }
    }

    /// Why a message is not on disk and will not be.
    fn never_stored(&self, ticket: Ticket) -> ClientError {
        if let Some(why) = self.why_failed(ticket) {
            return ClientError::NotStored(format!("the message failed: {why}"));
        }
        ClientError::NotStored(match self.shared.tickets.outcome(ticket.0) {
            Success::Failed => "the message failed".to_owned(),
            Success::Acknowledged | Success::Pending | Success::Unknown => {
                "only what goes to the client's own brokers at least once or exactly once is kept on disk, and nobody \
                 remembers a message of long ago"
                    .to_owned()
            }
        })
    }

    /// Reason why a message failed, while it is remembered.
    pub(crate) fn why_failed(&self, ticket: Ticket) -> Option<String> {
        let failures = lock(&self.shared.failures);
        failures
            .iter()
            .rev()
            .find(|failure| failure.ticket == ticket)
            .map(|failure| failure.why.clone())
    }
}

/// The number of a destination, which is opened if it is new.
fn destination_number(inbox: &mut Inbox, destination: &str) -> Result<u32, ClientError> {
    if let Some(at) = inbox
        .destinations
        .iter()
        .position(|known| known == destination)
    {
        return Ok(at as u32 + 1);
    }
    if inbox.destinations.len() >= DESTINATIONS_MAX {
        return Err(ClientError::Invalid(
            "one client sends to at most 64 destinations beside its own brokers",
        ));
    }
    let url: BrokerUrl = destination.parse().map_err(ClientError::Url)?;
    crate::builder::check_feature(&url)?;
    inbox.destinations.push(destination.to_owned());
    inbox.commands.push(Command::Open(Box::new(url)));
    Ok(inbox.destinations.len() as u32)
}

fn draft<'m>(
    id: u64,
    way: u32,
    topic: &'m str,
    payload: &'m [u8],
    options: &'m Options,
    expires: Time,
    properties: Properties<'m>,
) -> Draft<'m> {
    Draft {
        id,
        way,
        address: topic,
        payload,
        reliability: options.reliability,
        retain: options.retain,
        expires,
        priority: options.priority,
        content_type: options.content_type.as_deref(),
        is_text: options.is_text,
        properties,
        reply_to: options.reply_to.as_deref(),
        correlation: options.correlation.as_deref(),
    }
}

/// A topic is an address: it has no wildcards and no NUL.
pub(crate) fn check_topic(topic: &str) -> Result<(), ClientError> {
    if topic.is_empty() || topic.len() > usize::from(u16::MAX) {
        return Err(ClientError::Invalid("a topic has 1 to 65,535 bytes"));
    }
    // All three are ASCII, so they are no part of another letter.
    if topic.bytes().any(|byte| matches!(byte, b'+' | b'#' | 0)) {
        return Err(ClientError::Invalid(
            "a topic to publish to has no wildcards (+, #) and no NUL",
        ));
    }
    Ok(())
}

fn check_texts(options: &Options) -> Result<(), ClientError> {
    let texts = [options.content_type.as_deref(), options.reply_to.as_deref()];
    let is_long = |len: usize| len > usize::from(u16::MAX);
    if texts.into_iter().flatten().any(|text| is_long(text.len()))
        || options
            .correlation
            .as_ref()
            .is_some_and(|bytes| is_long(bytes.len()))
    {
        return Err(ClientError::Invalid(
            "content type, reply address and correlation have at most 65,535 bytes",
        ));
    }
    Ok(())
}

/// As [`Span`]; what is too long is for ever.
pub(crate) fn span_of(duration: Duration) -> Span {
    Span::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
