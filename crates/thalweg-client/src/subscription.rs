//! Subscriptions, and the queue of their received messages.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use thalweg_model::Reliability;

use crate::driver::handle::Handle;
use crate::engine::DeliveryToken;
use crate::message::Message;
use crate::ticket::lock;
use crate::transport::SubscriptionId;

/// Options of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscribeOptions {
    /// The surest delivery that is wanted. Default: at least once.
    pub reliability: Reliability,
    /// Last values come first. Default: yes.
    pub last_values: bool,
    /// Every message is wanted, not just the newest state: then no protocol is chosen that skips states (CoAP's Observe).
    /// Default: yes.
    pub keeps_all: bool,
    /// Messages are settled by [`Subscription::settle`] and not when they are taken: a process that ends before has them
    /// again, if the broker keeps them meanwhile (a session, or a queue). Only over protocols where receiving is not
    /// settling ([`Capabilities::settles`](crate::Capabilities), not CoAP), and not at most once. Default: no.
    pub settle_by_hand: bool,
}

impl Default for SubscribeOptions {
    fn default() -> Self {
        SubscribeOptions {
            reliability: Reliability::AtLeastOnce,
            last_values: true,
            keeps_all: true,
            settle_by_hand: false,
        }
    }
}

/// The messages of a filter, as they come: a [`Stream`], or [`Subscription::next`] in a loop. Ends when it was
/// unsubscribed, when the client is closed, or when the broker refuses it later on. Dropping it unsubscribes.
///
/// A subscription. If its messages are not taken, they queue up: at-most-once messages are dropped and counted while 4
/// MiB of them wait ([`Status::dropped`](crate::Status)), others stay with the broker.
pub struct Subscription {
    pub(crate) handle: Handle,
    /// One for each of its filters.
    pub(crate) ids: Vec<SubscriptionId>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) settle_by_hand: bool,
    /// Of messages that were taken and are not settled, oldest first.
    pub(crate) taken: VecDeque<DeliveryToken>,
    pub(crate) granted: Reliability,
}

impl Subscription {
    /// The next message; `None` when there will be none.
    pub async fn next(&mut self) -> Option<Message> {
        std::future::poll_fn(|context| self.poll(context.waker())).await
    }

    /// The next message, if one waits.
    pub fn try_next(&mut self) -> Option<Message> {
        let (message, token) = self.mailbox.take()?;
        self.note(token);
        Some(message)
    }

    /// Settles the message that was taken longest ago: the broker may remove it. Only with
    /// [`SubscribeOptions::settle_by_hand`]; otherwise it does nothing.
    pub fn settle(&mut self) {
        if let Some(token) = self.taken.pop_front() {
            self.handle.settle(token);
        }
    }

    /// Ends the subscription. Waiting messages can still be taken.
    pub fn unsubscribe(&self) {
        self.ids.iter().for_each(|id| self.handle.unsubscribe(*id));
    }

    /// Best delivery guarantee: the requested one, or the broker's at its first confirmation if that is lower; of
    /// several filters the lowest. At least once is as good as exactly once for stamped messages (`docs/client.md`):
    /// duplicates are dropped here.
    pub fn granted(&self) -> Reliability {
        self.granted
    }

    /// Why it has ended, in words; none if it has not, or was asked to.
    pub fn ended(&self) -> Option<String> {
        lock(&self.mailbox.inner).ended.clone().flatten()
    }

    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Option<Message>> {
        self.mailbox.poll(waker).map(|taken| {
            let (message, token) = taken?;
            self.note(token);
            Some(message)
        })
    }

    fn note(&mut self, token: DeliveryToken) {
        match self.settle_by_hand {
            true => self.taken.push_back(token),
            false => self.handle.settle(token),
        }
    }
}

impl Stream for Subscription {
    type Item = Message;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Message>> {
        self.get_mut().poll(context.waker())
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.unsubscribe();
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subscription").field(&self.ids).finish()
    }
}

/// Where the driver puts messages and a user takes them. The engine bounds it: it gives no more than
/// [`EngineSettings::receive_max`](crate::engine::EngineSettings) and `receive_bytes_max` allow to be not taken.
#[derive(Default)]
pub(crate) struct Mailbox {
    inner: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    messages: VecDeque<(Message, DeliveryToken)>,
    waker: Option<Waker>,
    /// Set when the subscription has ended; the text is the reason, if the application did not end it.
    ended: Option<Option<String>>,
}

impl Mailbox {
    /// Puts a message behind those that wait.
    pub(crate) fn put(&self, message: Message, token: DeliveryToken) {
        let mut inner = lock(&self.inner);
        inner.messages.push_back((message, token));
        let waker = inner.waker.take();
        drop(inner);
        waker.into_iter().for_each(Waker::wake);
    }

    /// There will be no more.
    pub(crate) fn end(&self, words: Option<String>) {
        let mut inner = lock(&self.inner);
        inner.ended.get_or_insert(words);
        let waker = inner.waker.take();
        drop(inner);
        waker.into_iter().for_each(Waker::wake);
    }

    fn take(&self) -> Option<(Message, DeliveryToken)> {
        lock(&self.inner).messages.pop_front()
    }

    fn poll(&self, waker: &Waker) -> Poll<Option<(Message, DeliveryToken)>> {
        let mut inner = lock(&self.inner);
        if let Some(taken) = inner.messages.pop_front() {
            return Poll::Ready(Some(taken));
        }
        if inner.ended.is_some() {
            return Poll::Ready(None);
        }
        match &mut inner.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        Poll::Pending
    }
}
