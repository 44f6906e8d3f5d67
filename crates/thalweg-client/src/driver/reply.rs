//! One answer from the driver to a waiting handle, in any runtime or none.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::ticket::lock;

/// The end that answers. Dropping it without an answer is an answer, too: [`Answer`] is `None`.
pub(crate) struct Reply<T>(Arc<Mutex<Cell<T>>>);

/// The end that waits: a future.
pub(crate) struct Answer<T>(Arc<Mutex<Cell<T>>>);

struct Cell<T> {
    value: Option<T>,
    is_over: bool,
    waker: Option<Waker>,
}

pub(crate) fn reply<T>() -> (Reply<T>, Answer<T>) {
    let cell = Arc::new(Mutex::new(Cell {
        value: None,
        is_over: false,
        waker: None,
    }));
    (Reply(cell.clone()), Answer(cell))
}

impl<T> Reply<T> {
    pub(crate) fn send(self, value: T) {
        lock(&self.0).value = Some(value);
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        let mut cell = lock(&self.0);
        cell.is_over = true;
        let waker = cell.waker.take();
        drop(cell);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<T> Future for Answer<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut cell = lock(&self.0);
        if cell.is_over {
            return Poll::Ready(cell.value.take());
        }
        match &mut cell.waker {
            Some(known) => known.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}
