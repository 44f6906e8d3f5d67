//! The same client for threads that may wait.
//!
//! ```no_run
//! use thalweg_client::{Options, Success, blocking::Client};
//!
//! let client = Client::builder().broker("mqtt://127.0.0.1")?.connect_blocking()?;
//! let success = client.publish("plant/1/temperature", b"21.5", &Options::default())?;
//! assert_eq!(success, Success::Acknowledged);
//! # Ok::<(), thalweg_client::ClientError>(())
//! ```

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use thalweg_model::Reliability;

use crate::adaptive::Explanation;
use crate::builder::ClientBuilder;
use crate::client::{ClientError, Status};
use crate::engine::Success;
use crate::message::{Message, Options};
use crate::presence::Presence;
use crate::subscription::SubscribeOptions;
use crate::ticket::Ticket;

/// A client whose calls wait. Cheap to clone; all clones are one client.
#[derive(Clone, Debug)]
pub struct Client {
    inner: crate::Client,
}

impl From<crate::Client> for Client {
    fn from(inner: crate::Client) -> Client {
        Client { inner }
    }
}

impl Client {
    /// Returns a builder with default settings; [`ClientBuilder::connect_blocking`] connects.
    pub fn builder() -> ClientBuilder {
        crate::Client::builder()
    }

    /// The same client for async code.
    pub fn asynchronous(&self) -> &crate::Client {
        &self.inner
    }

    /// [`crate::Client::publish_message`]: does not wait.
    pub fn publish_message(
        &self,
        message: &[u8],
        destination: &str,
        topic: &str,
        options: &Options,
    ) -> Result<Ticket, ClientError> {
        self.inner
            .publish_message(message, destination, topic, options)
    }

    /// [`crate::Client::is_publish_success`]: does not wait.
    pub fn is_publish_success(&self, ticket: Ticket) -> Success {
        self.inner.is_publish_success(ticket)
    }

    /// [`crate::Client::publish`].
    pub fn publish(
        &self,
        topic: &str,
        payload: &[u8],
        options: &Options,
    ) -> Result<Success, ClientError> {
        wait(self.inner.publish(topic, payload, options))
    }

    /// [`crate::Client::give`].
    pub fn give(
        &self,
        message: &[u8],
        destination: &str,
        topic: &str,
        options: &Options,
    ) -> Result<Ticket, ClientError> {
        wait(self.inner.give(message, destination, topic, options))
    }

    /// [`crate::Client::outcome`], but at most so long: then it is [`Success::Pending`].
    pub fn outcome(&self, ticket: Ticket, timeout: Duration) -> Success {
        wait_until(
            self.inner.outcome(ticket),
            Instant::now().checked_add(timeout),
        )
        .unwrap_or(Success::Pending)
    }

    /// [`crate::Client::why_failed`]: does not wait.
    pub fn why_failed(&self, ticket: Ticket) -> Option<String> {
        self.inner.why_failed(ticket)
    }

    /// [`crate::Client::is_stored`]: does not wait.
    pub fn is_stored(&self, ticket: Ticket) -> bool {
        self.inner.is_stored(ticket)
    }

    /// [`crate::Client::stored`].
    pub fn stored(&self, ticket: Ticket) -> Result<(), ClientError> {
        wait(self.inner.stored(ticket))
    }

    /// [`crate::Client::subscribe`].
    pub fn subscribe(
        &self,
        filter: &str,
        options: SubscribeOptions,
    ) -> Result<Subscription, ClientError> {
        wait(self.inner.subscribe(filter, options)).map(|inner| Subscription { inner })
    }

    /// [`crate::Client::subscribe`], but at most so long: then [`ClientError::TimedOut`], and there is no subscription.
    pub fn subscribe_timeout(
        &self,
        filter: &str,
        options: SubscribeOptions,
        timeout: Duration,
    ) -> Result<Subscription, ClientError> {
        wait_until(
            self.inner.subscribe(filter, options),
            Instant::now().checked_add(timeout),
        )
        .unwrap_or(Err(ClientError::TimedOut))
        .map(|inner| Subscription { inner })
    }

    /// [`crate::Client::subscribe_all`], but at most so long.
    pub fn subscribe_all(
        &self,
        filters: &[&str],
        options: SubscribeOptions,
        timeout: Duration,
    ) -> Result<Subscription, ClientError> {
        wait_until(
            self.inner.subscribe_all(filters, options),
            Instant::now().checked_add(timeout),
        )
        .unwrap_or(Err(ClientError::TimedOut))
        .map(|inner| Subscription { inner })
    }

    /// [`crate::Client::subscribe_by_multicast`].
    #[cfg(feature = "multicast")]
    pub fn subscribe_by_multicast(
        &self,
        group: &str,
        filter: &str,
        options: SubscribeOptions,
    ) -> Result<Subscription, ClientError> {
        wait(self.inner.subscribe_by_multicast(group, filter, options))
            .map(|inner| Subscription { inner })
    }

    /// [`crate::Client::request`].
    pub fn request(
        &self,
        topic: &str,
        payload: &[u8],
        options: &Options,
        timeout: Duration,
    ) -> Result<Message, ClientError> {
        wait(self.inner.request(topic, payload, options, timeout))
    }

    /// [`crate::Client::last_value`].
    pub fn last_value(&self, topic: &str) -> Result<Option<Message>, ClientError> {
        wait(self.inner.last_value(topic))
    }

    /// [`crate::Client::presence`].
    pub fn presence(&self, clients: &str) -> Result<PresenceSubscription, ClientError> {
        wait(self.inner.presence(clients)).map(|inner| PresenceSubscription { inner })
    }

    /// The same, for so long at most.
    pub fn presence_timeout(
        &self,
        clients: &str,
        timeout: Duration,
    ) -> Result<PresenceSubscription, ClientError> {
        let asked = wait_until(
            self.inner.presence(clients),
            Instant::now().checked_add(timeout),
        );
        asked
            .ok_or(ClientError::TimedOut)?
            .map(|inner| PresenceSubscription { inner })
    }

    /// [`crate::Client::flush`].
    pub fn flush(&self, timeout: Duration) -> Result<(), ClientError> {
        wait(self.inner.flush(timeout))
    }

    /// [`crate::Client::close`].
    pub fn close(&self, timeout: Duration) -> Result<(), ClientError> {
        wait(self.inner.close(timeout))
    }

    /// [`crate::Client::status`].
    pub fn status(&self) -> Result<Status, ClientError> {
        self.inner.status()
    }

    /// [`crate::Client::explain`].
    pub fn explain(&self) -> Result<Explanation, ClientError> {
        self.inner.explain()
    }
}

/// The messages of a filter, as they come: an [`Iterator`] that waits.
#[derive(Debug)]
pub struct Subscription {
    inner: crate::Subscription,
}

impl Subscription {
    /// The next message, if one comes in time; `Ok(None)` when there will be none.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<Message>, ClientError> {
        wait_until(self.inner.next(), Instant::now().checked_add(timeout))
            .ok_or(ClientError::TimedOut)
    }

    /// [`crate::Subscription::try_next`].
    pub fn try_next(&mut self) -> Option<Message> {
        self.inner.try_next()
    }

    /// [`crate::Subscription::settle`].
    pub fn settle(&mut self) {
        self.inner.settle();
    }

    /// [`crate::Subscription::unsubscribe`].
    pub fn unsubscribe(&self) {
        self.inner.unsubscribe();
    }

    /// [`crate::Subscription::granted`].
    pub fn granted(&self) -> Reliability {
        self.inner.granted()
    }

    /// [`crate::Subscription::ended`].
    pub fn ended(&self) -> Option<String> {
        self.inner.ended()
    }
}

impl Iterator for Subscription {
    type Item = Message;

    fn next(&mut self) -> Option<Message> {
        wait(self.inner.next())
    }
}

/// Presence of other clients: an [`Iterator`] that waits.
#[derive(Debug)]
pub struct PresenceSubscription {
    inner: crate::PresenceSubscription,
}

impl PresenceSubscription {
    /// As the iterator's `next`, for so long at most.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<Presence>, ClientError> {
        wait_until(self.inner.next(), Instant::now().checked_add(timeout))
            .ok_or(ClientError::TimedOut)
    }
}

impl Iterator for PresenceSubscription {
    type Item = Presence;

    fn next(&mut self) -> Option<Presence> {
        wait(self.inner.next())
    }
}

/// Waits for a future of this library; for those of others too, if they need no runtime of their own.
pub fn wait<F: Future>(future: F) -> F::Output {
    loop_until(future, None)
        .unwrap_or_else(|| unreachable!("without an end of time there is no end but the future's"))
}

/// As [`wait`]; none if the moment has passed. No moment is never.
fn wait_until<F: Future>(future: F, end: Option<Instant>) -> Option<F::Output> {
    loop_until(future, end)
}

fn loop_until<F: Future>(future: F, end: Option<Instant>) -> Option<F::Output> {
    let mut future = pin!(future);
    let parked = Arc::new(Parked {
        thread: std::thread::current(),
        is_woken: AtomicBool::new(false),
    });
    let waker = Waker::from(parked.clone());
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        // A thread is unparked by others, too; only the flag counts.
        while !parked.is_woken.swap(false, Ordering::Acquire) {
            match end {
                None => std::thread::park(),
                Some(end) => {
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return None;
                    }
                    std::thread::park_timeout(left);
                }
            }
        }
    }
}

struct Parked {
    thread: Thread,
    is_woken: AtomicBool,
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}
