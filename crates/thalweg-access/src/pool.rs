//! A few threads that verify credentials, so that no event loop waits for a slow hash.
//!
//! Four things keep one peer from taking them all: what is known already is answered before the queue; the queue takes
//! turns between networks and users; a peer that has closed its side comes behind the others of its network; and one
//! that has failed repeatedly waits longer before each next attempt.

use super::failures::{Failures, Lines, LogLine};
use super::fair_queue::{Asker, Bounds, FairQueue, Verdict, network_of};
use super::{Login, LoginRequest, Moment, Refusal, RefusalReason, Vault};
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// How the answer leaves the pool: it typically sends on a channel and wakes an event loop. It must not block. It is
/// called on a vault thread, or on the thread that shuts the pool down or fills its queue.
pub type Reply = Box<dyn FnOnce(Result<Login, Refusal>) + Send>;

/// What a thread of the pool does, from its start to its end.
pub type Work = Box<dyn FnOnce() + Send>;

/// Threads around one [`Vault`], with a bounded queue in front of them.
///
/// Every queued request is answered exactly once, also when the pool shuts down, unless its peer is gone. Dropping the
/// pool shuts it down, which joins the threads: a reply must not own the pool.
pub struct VaultPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// What has become of the peer whose log-in waits. Its connection sets it, the pool reads it.
#[derive(Debug, Default)]
pub struct PeerState(AtomicU8);

impl PeerState {
    /// The peer has closed its side. It may still want the answer, but comes behind the others of its network.
    pub fn set_half_closed(&self) {
        self.0.fetch_max(HALF_CLOSED, Ordering::Relaxed);
    }

    /// The connection has ended: the request is dropped without an answer.
    pub fn set_gone(&self) {
        self.0.store(GONE, Ordering::Relaxed);
    }

    fn is_half_closed(&self) -> bool {
        self.0.load(Ordering::Relaxed) == HALF_CLOSED
    }

    fn is_gone(&self) -> bool {
        self.0.load(Ordering::Relaxed) == GONE
    }
}

const HALF_CLOSED: u8 = 1;
const GONE: u8 = 2;

/// Counts of log-ins since the start.
#[derive(Clone, Debug, Default)]
pub struct LoginCounts {
    /// Log-ins that wait for a vault thread, now.
    pub waiting: u64,
    /// Refused log-ins by reason: every reason, also those that have not occurred.
    pub by_reason: Vec<(&'static str, u64)>,
    /// Refused log-ins by protocol: those that have occurred.
    pub by_protocol: BTreeMap<&'static str, u64>,
}

/// Default number of threads.
pub const VAULT_THREADS_DEFAULT: usize = 2;

/// Default bound of waiting requests: a reconnect storm of 10,000 fits.
pub const VAULT_QUEUE_LIMIT_DEFAULT: usize = 16_384;

/// Bytes of waiting requests: passwords may have 64 KiB.
const QUEUE_BYTES_MAX: usize = 32 << 20;

struct Shared {
    vault: Arc<Vault>,
    state: Mutex<State>,
    work: Condvar,
    /// Makes hashes of user names that peers cannot foresee.
    hasher: RandomState,
}

struct State {
    queue: FairQueue<Waiting>,
    failures: Failures,
    handshakes: Lines,
    by_reason: [u64; RefusalReason::ALL.len()],
    by_protocol: BTreeMap<&'static str, u64>,
    closed: bool,
}

struct Waiting {
    request: LoginRequest,
    peer: Arc<PeerState>,
    reply: Reply,
}

impl VaultPool {
    /// Has `spawn` start `count` (at least one) threads, by their names; at most `queue_limit` requests wait for them.
    pub fn new(
        vault: Arc<Vault>,
        count: usize,
        queue_limit: usize,
        spawn: impl Fn(String, Work) -> std::io::Result<JoinHandle<()>>,
    ) -> std::io::Result<Self> {
        let state = State {
            queue: FairQueue::new(Bounds {
                count: queue_limit,
                bytes: QUEUE_BYTES_MAX,
            }),
            failures: Failures::default(),
            handshakes: Lines::default(),
            by_reason: Default::default(),
            by_protocol: BTreeMap::new(),
            closed: false,
        };
        let shared = Arc::new(Shared {
            vault,
            state: Mutex::new(state),
            work: Condvar::new(),
            hasher: RandomState::new(),
        });
        // Threads join the pool as they start, so that a failure to start the next one stops the earlier ones.
        let mut pool = VaultPool {
            shared,
            threads: Vec::new(),
        };
        for index in 0..count.max(1) {
            let shared = pool.shared.clone();
            let work = Box::new(move || shared.work_until_closed());
            pool.threads.push(spawn(format!("vault-{index}"), work)?);
        }
        Ok(pool)
    }

    /// Answers what takes no time. Everything else is queued, and `reply` is called later, unless the peer is gone by
    /// then. Never blocks for longer than the queue's lock.
    pub fn ask(
        &self,
        request: LoginRequest,
        peer: Arc<PeerState>,
        reply: Reply,
    ) -> Option<Result<Login, Refusal>> {
        let shared = &self.shared;
        let moment = Moment::now();
        if let Some(verdict) = shared.vault.check_known(&request, moment) {
            shared.take_note(&request, &verdict, moment.instant);
            return Some(verdict);
        }
        let (asker, bytes) = (shared.asker(&request), request.bytes());
        let lost = {
            let mut state = shared.lock();
            if state.closed {
                return Some(Err(shutting_down()));
            }
            let is_dead = |waiting: &Waiting| waiting.peer.is_gone();
            let welcome = state.failures.is_welcome(asker);
            state.queue.push(
                asker,
                bytes,
                Waiting {
                    request,
                    peer,
                    reply,
                },
                welcome,
                is_dead,
            )
        };
        shared.work.notify_one();
        for Waiting {
            request,
            peer,
            reply,
        } in lost
        {
            if !peer.is_gone() {
                let refusal = Refusal::about(
                    &request,
                    RefusalReason::Unavailable,
                    "too many log-ins wait",
                );
                shared.note_refusal(&request, &refusal, moment.instant);
                reply(Err(refusal));
            }
        }
        None
    }

    /// Whether a user has failed so often from its network that the next attempt has to wait. For log-ins that are judged
    /// elsewhere.
    pub fn is_held(&self, request: &LoginRequest) -> bool {
        let asker = self.shared.asker(request);
        self.shared
            .lock()
            .failures
            .is_user_held(asker, Instant::now())
    }

    /// Counts and logs the verdict on a log-in that was judged elsewhere.
    pub fn take_note(&self, request: &LoginRequest, verdict: &Result<Login, Refusal>) {
        self.shared.take_note(request, verdict, Instant::now());
    }

    /// Logs a handshake that failed, at a limited rate. The transport counts them.
    pub fn note_handshake(&self, listener: &str, peer: SocketAddr, why: &dyn fmt::Display) {
        let line = self.shared.lock().handshakes.any(Instant::now());
        match line {
            Some(LogLine { left_out, .. }) => {
                tracing::warn!(listener, %peer, left_out, "DTLS handshake failed: {why}");
            }
            None => tracing::debug!(listener, %peer, "DTLS handshake failed: {why}"),
        }
    }

    /// The vault the threads ask.
    pub fn vault(&self) -> &Arc<Vault> {
        &self.shared.vault
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.shared.lock().queue.len()
    }

    pub fn counts(&self) -> LoginCounts {
        let state = self.shared.lock();
        let names = RefusalReason::ALL.iter().map(|reason| reason.name());
        LoginCounts {
            waiting: state.queue.len() as u64,
            by_reason: names.zip(state.by_reason).collect(),
            by_protocol: state.by_protocol.clone(),
        }
    }

    /// Answers what waits with [`RefusalReason::Unavailable`], finishes what has begun, and joins the threads.
    pub fn shutdown(self) {
        drop(self);
    }
}

impl Drop for VaultPool {
    fn drop(&mut self) {
        let waiting = {
            let mut state = self.shared.lock();
            state.closed = true;
            state.queue.drain()
        };
        self.shared.work.notify_all();
        for Waiting { reply, .. } in waiting {
            reply(Err(shutting_down()));
        }
        for thread in self.threads.drain(..) {
            // A panic was reported by the thread itself.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn work_until_closed(&self) {
        while let Some(Waiting { request, reply, .. }) = self.next() {
            let verdict = self.vault.check_at(&request, Moment::now());
            self.take_note(&request, &verdict, Instant::now());
            reply(verdict);
        }
    }

    fn next(&self) -> Option<Waiting> {
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            let State {
                queue, failures, ..
            } = &mut *state;
            let next = queue.pop(now, |asker, waiting| {
                if waiting.peer.is_gone() {
                    return Verdict::Drop;
                }
                match failures.held_until(asker, now) {
                    None if waiting.peer.is_half_closed() => Verdict::TakeLast,
                    None => Verdict::Take,
                    Some(until) if failures.is_user_held(asker, now) => Verdict::Hold(until),
                    Some(until) => Verdict::HoldNetwork(until),
                }
            });
            let held_until = queue.held_until();
            if let Some((_, waiting)) = next {
                return Some(waiting);
            }
            if state.closed {
                return None;
            }
            state = match held_until {
                None => self
                    .work
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let wait = until.saturating_duration_since(now);
                    self.work
                        .wait_timeout(state, wait)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
    }

    fn take_note(&self, request: &LoginRequest, verdict: &Result<Login, Refusal>, now: Instant) {
        match verdict {
            Ok(Login { user: None, .. }) => {}
            Ok(_) => {
                let asker = self.asker(request);
                let mut state = self.lock();
                state.failures.forgive(asker);
                state.queue.welcome(asker);
            }
            Err(refusal) => self.note_refusal(request, refusal, now),
        }
    }

    fn note_refusal(&self, request: &LoginRequest, refusal: &Refusal, now: Instant) {
        let asker = self.asker(request);
        let mut state = self.lock();
        state.by_reason[refusal.reason as usize] += 1;
        *state.by_protocol.entry(request.protocol).or_default() += 1;
        let line = match refusal.reason {
            // That was our fault, not the peer's.
            RefusalReason::Unavailable => state.failures.line(now),
            _ => state.failures.note(asker, now),
        };
        drop(state);
        let protocol = request.protocol;
        match line {
            Some(LogLine { failures, left_out }) => {
                tracing::warn!(protocol, failures, left_out, "log-in refused: {refusal}");
            }
            None => tracing::debug!(protocol, "log-in refused: {refusal}"),
        }
    }

    fn asker(&self, request: &LoginRequest) -> Asker {
        Asker {
            network: request.peer.map(network_of),
            user: self.hasher.hash_one(&request.user),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held, and the state is whole between any two of its operations.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shutting_down() -> Refusal {
    Refusal::new(RefusalReason::Unavailable, "the broker is shutting down")
}
