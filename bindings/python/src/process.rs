//! Which process an object belongs to. A fork copies memory, but neither the client's thread nor the state of its locks: in
//! the child, objects from before say so, and are not dropped.

use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::prelude::*;

use crate::errors::ThalwegError;

/// Forks between the first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// To be called in the child, right after a fork.
#[pyfunction]
pub fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A value for the process that made it.
pub struct Own<T> {
    /// Taken when it is dropped only.
    value: Option<T>,
    forks: u32,
}

impl<T> Own<T> {
    pub fn new(value: T) -> Own<T> {
        Own {
            value: Some(value),
            forks: FORKS.load(Ordering::Relaxed),
        }
    }

    fn is_ours(&self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }

    /// The value; an error in a child of its process.
    pub fn get(&self) -> PyResult<&T> {
        self.value
            .as_ref()
            .filter(|_| self.is_ours())
            .ok_or_else(|| {
                ThalwegError::new_err(
                    "this belongs to the process before the fork, and so does its thread: connect again in this process",
                )
            })
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if !self.is_ours() {
            // Locks in it may be held by threads that do not exist here.
            std::mem::forget(self.value.take());
        }
    }
}
