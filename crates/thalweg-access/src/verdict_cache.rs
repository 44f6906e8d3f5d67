//! Remembers for some time which passwords were right and which were wrong.
//!
//! After a power cut ten thousand devices come back with the same few credentials; hashing each time would take
//! minutes. Kept are keyed hashes of user and password, never the password; right and wrong are bounded apart, so that
//! guessing cannot push the right ones out.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A bounded, thread-safe memory of verdicts.
pub struct VerdictCache {
    secret: [u8; 32],
    ttl: Duration,
    count_limit: usize,
    verdicts: Mutex<Verdicts>,
}

#[derive(Default)]
struct Verdicts {
    right: Generation,
    wrong: Generation,
}

/// Keys with the moment at which they were learned, oldest first in `order`.
#[derive(Default)]
struct Generation {
    learned: HashMap<Key, Instant>,
    order: VecDeque<Key>,
}

type Key = [u8; 32];

impl VerdictCache {
    /// Keeps at most `count_limit` right and as many wrong verdicts, each for `ttl`. `secret` must be unknown to peers.
    pub fn new(secret: [u8; 32], ttl: Duration, count_limit: usize) -> Self {
        VerdictCache {
            secret,
            ttl,
            count_limit,
            verdicts: Mutex::default(),
        }
    }

    /// The remembered verdict, if there is one.
    pub fn recall(&self, user: &str, password: &[u8], now: Instant) -> Option<bool> {
        if self.ttl.is_zero() || self.count_limit == 0 {
            return None;
        }
        self.remembered(&self.key(user, password), now)
    }

    /// The remembered verdict, or `verify`'s, which runs outside the lock and is remembered.
    pub fn verdict(
        &self,
        user: &str,
        password: &[u8],
        now: Instant,
        verify: impl FnOnce() -> bool,
    ) -> bool {
        if self.ttl.is_zero() || self.count_limit == 0 {
            return verify();
        }
        let key = self.key(user, password);
        if let Some(verdict) = self.remembered(&key, now) {
            return verdict;
        }
        let verdict = verify();
        let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = if verdict {
            &mut verdicts.right
        } else {
            &mut verdicts.wrong
        };
        generation.learn(key, now, self.count_limit);
        verdict
    }

    fn remembered(&self, key: &Key, now: Instant) -> Option<bool> {
        let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        verdicts.right.forget_older(now, self.ttl);
        verdicts.wrong.forget_older(now, self.ttl);
        if verdicts.right.learned.contains_key(key) {
            return Some(true);
        }
        verdicts.wrong.learned.contains_key(key).then_some(false)
    }

    fn key(&self, user: &str, password: &[u8]) -> Key {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret)
            .expect("HMAC takes keys of any length (RFC 2104 §2)");
        // The length keeps ("ab", "c") and ("a", "bc") apart.
        mac.update(&(user.len() as u64).to_be_bytes());
        mac.update(user.as_bytes());
        mac.update(password);
        mac.finalize().into_bytes().into()
    }
}

impl Generation {
    fn learn(&mut self, key: Key, now: Instant, count_limit: usize) {
        // Two threads may have verified the same credentials at once; the first moment stands.
        if self.learned.contains_key(&key) {
            return;
        }
        if self.order.len() >= count_limit
            && let Some(oldest) = self.order.pop_front()
        {
            self.learned.remove(&oldest);
        }
        self.learned.insert(key, now);
        self.order.push_back(key);
    }

    fn forget_older(&mut self, now: Instant, ttl: Duration) {
        while let Some(oldest) = self.order.front() {
            let learned = self.learned.get(oldest);
            if learned.is_some_and(|learned| now.saturating_duration_since(*learned) < ttl) {
                return;
            }
            self.learned.remove(oldest);
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const TTL: Duration = Duration::from_secs(10);

    #[test]
    fn a_verdict_is_computed_once_within_its_time() {
        let (cache, start, calls) = (
            VerdictCache::new([1; 32], TTL, 8),
            Instant::now(),
            Cell::new(0),
        );
        let ask = |user: &str, password: &str, seconds: u64, verdict: bool| {
            cache.verdict(
                user,
                password.as_bytes(),
                start + Duration::from_secs(seconds),
                || {
                    calls.set(calls.get() + 1);
                    verdict
                },
            )
        };
        assert!(ask("a", "bc", 0, true));
        assert!(ask("a", "bc", 9, false), "remembered as right");
        assert!(!ask("ab", "c", 9, false), "other credentials");
        assert!(!ask("ab", "c", 9, true), "remembered as wrong");
        assert_eq!(calls.get(), 2);
        assert!(
            !ask("a", "bc", 10, false),
            "asked again: using a verdict does not prolong it"
        );
        assert_eq!(calls.get(), 3);
    }

    #[test]
    fn guessing_neither_grows_the_memory_nor_pushes_right_verdicts_out() {
        let (cache, now) = (VerdictCache::new([1; 32], TTL, 8), Instant::now());
        assert!(cache.verdict("a", b"right", now, || true));
        for number in 0..100 {
            assert!(!cache.verdict("a", format!("wrong{number}").as_bytes(), now, || false));
        }
        assert!(cache.verdict("a", b"right", now, || panic!("forgotten")));
        let verdicts = cache.verdicts.lock().expect("whole");
        assert_eq!(
            (verdicts.wrong.learned.len(), verdicts.wrong.order.len()),
            (8, 8)
        );
        assert_eq!(verdicts.right.learned.len(), 1);
    }

    #[test]
    fn without_a_time_nothing_is_remembered() {
        let (cache, now) = (
            VerdictCache::new([1; 32], Duration::ZERO, 8),
            Instant::now(),
        );
        assert!(cache.verdict("a", b"x", now, || true));
        assert!(!cache.verdict("a", b"x", now, || false));
    }
}
