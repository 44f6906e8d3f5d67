//! What comes.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;

use crate::answer::Answer;
use crate::pending::Pending;
use crate::process::Own;

/// Messages of a filter.
#[pyclass(frozen)]
pub struct Subscription(Own<Arc<Mutex<thalweg_client::Subscription>>>);

/// Who comes and goes.
#[pyclass(frozen)]
pub struct PresenceSubscription {
    inner: Own<Arc<Mutex<Option<thalweg_client::PresenceSubscription>>>>,
}

impl From<thalweg_client::Subscription> for Subscription {
    fn from(subscription: thalweg_client::Subscription) -> Self {
        Subscription(Own::new(Arc::new(Mutex::new(subscription))))
    }
}

impl From<thalweg_client::PresenceSubscription> for PresenceSubscription {
    fn from(subscription: thalweg_client::PresenceSubscription) -> Self {
        PresenceSubscription {
            inner: Own::new(Arc::new(Mutex::new(Some(subscription)))),
        }
    }
}

impl Subscription {
    fn lock(&self) -> PyResult<MutexGuard<'_, thalweg_client::Subscription>> {
        let inner = self.0.get()?;
        Ok(inner.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl Subscription {
    /// The next one; `None` when there will be none. Who gives up waiting has taken none.
    fn next(&self) -> PyResult<Pending> {
        let subscription = self.0.get()?.clone();
        Ok(Pending::new(async move {
            // Nothing is kept between two looks, so the lock is not either.
            let next = std::future::poll_fn(move |context| {
                let mut subscription = subscription.lock().unwrap_or_else(PoisonError::into_inner);
                pin!(subscription.next()).poll(context)
            });
            Ok(Answer::Message(next.await))
        }))
    }

    /// The message that was taken longest ago is done with.
    fn settle(&self) -> PyResult<()> {
        self.lock()?.settle();
        Ok(())
    }

    /// How surely messages come.
    fn granted(&self) -> PyResult<u8> {
        Ok(self.lock()?.granted() as u8)
    }

    /// Why it has ended by itself, in words.
    fn ended(&self) -> PyResult<Option<String>> {
        Ok(self.lock()?.ended())
    }

    fn unsubscribe(&self) -> PyResult<()> {
        self.lock()?.unsubscribe();
        Ok(())
    }
}

#[pymethods]
impl PresenceSubscription {
    /// The next change; `None` when there will be none.
    fn next(&self) -> PyResult<Pending> {
        let subscription = self.inner.get()?.clone();
        Ok(Pending::new(async move {
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
        }))
    }

    fn unsubscribe(&self) -> PyResult<()> {
        let inner = self.inner.get()?;
        *inner.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }
}
