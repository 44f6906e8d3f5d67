//! What comes.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;

use crate::answer::Answer;
use crate::pending::Pending;

/// Messages of a filter.
#[pyclass(frozen)]
pub struct Subscription(Arc<Mutex<thalweg_client::Subscription>>);

/// Who comes and goes.
#[pyclass(frozen)]
pub struct PresenceSubscription {
    inner: Arc<Mutex<Option<thalweg_client::PresenceSubscription>>>,
}

impl From<thalweg_client::Subscription> for Subscription {
    fn from(subscription: thalweg_client::Subscription) -> Self {
        Subscription(Arc::new(Mutex::new(subscription)))
    }
}

impl From<thalweg_client::PresenceSubscription> for PresenceSubscription {
    fn from(subscription: thalweg_client::PresenceSubscription) -> Self {
        PresenceSubscription {
            inner: Arc::new(Mutex::new(Some(subscription))),
        }
    }
}

#[pymethods]
impl Subscription {
    /// The next one; `None` when there will be none. Who gives up waiting has taken none.
    fn next(&self) -> Pending {
        let subscription = self.0.clone();
        Pending::new(async move {
            // Nothing is kept between two looks, so the lock is not either.
            let next = std::future::poll_fn(move |context| {
                let mut subscription = subscription.lock().unwrap_or_else(PoisonError::into_inner);
                pin!(subscription.next()).poll(context)
            });
            Ok(Answer::Message(next.await))
        })
    }

    fn unsubscribe(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .unsubscribe();
    }
}

#[pymethods]
impl PresenceSubscription {
    /// The next change; `None` when there will be none.
    fn next(&self) -> Pending {
        let subscription = self.inner.clone();
        Pending::new(async move {
            let next = std::future::poll_fn(move |context| {
                match subscription
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .as_mut()
                {
                    Some(subscription) => pin!(subscription.next()).poll(context),
                    None => std::task::Poll::Ready(None),
                }
            });
            Ok(Answer::Presence(next.await))
        })
    }

    fn unsubscribe(&self) {
        *self.inner.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
