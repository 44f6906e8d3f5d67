//! A thread that keeps as many spare files ready as are wanted, so that the committer never waits for one to be filled.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::disk::Disk;
use crate::inventory::Inventory;

/// Pause after there was no space for a spare, or creating one failed.
const RETRY: Duration = Duration::from_secs(2);

/// The thread; dropping it ends it, at most one spare file later.
pub struct SpareKeeper {
    is_stopping: Arc<AtomicBool>,
    look_again: Box<dyn Fn() + Send + Sync>,
    thread: Option<JoinHandle<()>>,
}

impl SpareKeeper {
    pub fn start<D: Disk>(inventory: Arc<Inventory<D>>) -> io::Result<Self> {
        let is_stopping = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&is_stopping);
        let waited_on = Arc::clone(&inventory);
        let work = move || {
            while !stopping.load(Ordering::Acquire) {
                inventory.wait_for_want(&stopping);
                if stopping.load(Ordering::Acquire) {
                    break;
                }
                // Without a spare the journal makes its own segments: slower, and no reason to complain.
                if !inventory.make_spare().unwrap_or(false) && inventory.wants_spare() {
                    thread::park_timeout(RETRY);
                }
            }
        };
        let thread = thread::Builder::new()
            .name("thalweg-spares".to_owned())
            .spawn(work)?;
        Ok(Self {
            is_stopping,
            look_again: Box::new(move || waited_on.look_again()),
            thread: Some(thread),
        })
    }
}

impl Drop for SpareKeeper {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            (self.look_again)();
            thread.thread().unpark();
            // A panic there was already printed.
            let _ = thread.join();
        }
    }
}
