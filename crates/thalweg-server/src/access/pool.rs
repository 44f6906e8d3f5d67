//! A few threads that verify credentials, so that no event loop waits for a slow hash.

use super::{Login, LoginRequest, Moment, Refusal, RefusalReason, Vault};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// How the answer leaves the pool: it typically sends on a channel and wakes an event loop. It must not block. It is
/// called on a vault thread, or on the thread that shuts the pool down.
pub type Reply = Box<dyn FnOnce(Result<Login, Refusal>) + Send>;

/// Threads around one [`Vault`], with a bounded queue in front of them.
///
/// Every accepted request is answered exactly once, also when the pool shuts down or a check panics. Dropping the
/// pool shuts it down, which joins the threads: a reply must not own the pool.
pub struct VaultPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// The queue is full (or the pool is shutting down): the broker is overloaded, the peer should try again later.
/// The reply was dropped unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Threads, unless somebody wants another number.
pub const VAULT_THREADS_DEFAULT: usize = 2;

/// Waiting requests, unless somebody wants another number: a reconnect storm of 10,000 fits.
pub const VAULT_QUEUE_LIMIT_DEFAULT: usize = 16_384;

struct Shared {
    vault: Arc<Vault>,
    queue: Mutex<Queue>,
    work: Condvar,
    queue_limit: usize,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(LoginRequest, Reply)>,
    closed: bool,
}

impl VaultPool {
    /// Starts `threads` (at least one) threads; at most `queue_limit` requests wait for them.
    pub fn new(vault: Arc<Vault>, threads: usize, queue_limit: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared { vault, queue: Mutex::default(), work: Condvar::new(), queue_limit });
        // Threads join the pool as they start, so that a failure to start the next one stops the earlier ones.
        let mut pool = VaultPool { shared, threads: Vec::new() };
        for index in 0..threads.max(1) {
            let shared = pool.shared.clone();
            let thread =
                std::thread::Builder::new().name(format!("vault-{index}")).spawn(move || shared.work_until_closed())?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Queues a request; `reply` is called on a vault thread. Never blocks for longer than the queue's lock.
    pub fn submit(&self, request: LoginRequest, reply: Reply) -> Result<(), Full> {
        let mut queue = self.shared.lock();
        if queue.closed || queue.waiting.len() >= self.shared.queue_limit {
            return Err(Full);
        }
        queue.waiting.push_back((request, reply));
        drop(queue);
        self.shared.work.notify_one();
        Ok(())
    }

    /// The vault the threads ask.
    pub fn vault(&self) -> &Arc<Vault> {
        &self.shared.vault
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.shared.lock().waiting.len()
    }

    /// Answers what waits with [`RefusalReason::Unavailable`], finishes what has begun, and joins the threads.
    pub fn shutdown(self) {
        drop(self);
    }
}

impl Drop for VaultPool {
    fn drop(&mut self) {
        let waiting = {
            let mut queue = self.shared.lock();
            queue.closed = true;
            std::mem::take(&mut queue.waiting)
        };
        self.shared.work.notify_all();
        for (_, reply) in waiting {
            answer(reply, Err(Refusal::new(RefusalReason::Unavailable, "the broker is shutting down")));
        }
        for thread in self.threads.drain(..) {
            // A vault thread catches panics of its work; one that ended anyhow has nothing left to say.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn work_until_closed(&self) {
        while let Some((request, reply)) = self.next() {
            let verdict = catch_unwind(AssertUnwindSafe(|| self.vault.check_at(&request, Moment::now())));
            let verdict = verdict.unwrap_or_else(|_| {
                Err(Refusal::new(RefusalReason::Unavailable, "checking the credentials failed: a bug in the broker"))
            });
            answer(reply, verdict);
        }
    }

    fn next(&self) -> Option<(LoginRequest, Reply)> {
        let mut queue = self.lock();
        loop {
            if let Some(next) = queue.waiting.pop_front() {
                return Some(next);
            }
            if queue.closed {
                return None;
            }
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing panics while the lock is held, and a queue is whole between any two of its operations.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reply that panics must not take a vault thread, and with it a share of all later logins, along.
fn answer(reply: Reply, verdict: Result<Login, Refusal>) {
    let _ = catch_unwind(AssertUnwindSafe(|| reply(verdict)));
}
