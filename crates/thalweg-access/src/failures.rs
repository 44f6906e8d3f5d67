//! What failed log-ins are remembered for: a growing pause before the next attempt, and how often they are logged.

use super::fair_queue::Asker;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Failures by network, and by network and user: password guesses from another network do not delay the user. Bounded:
/// two generations of at most [`GENERATION_MAX`] entries, each forgotten at the latest when the next is full.
#[derive(Default)]
pub(super) struct Failures {
    young: HashMap<Key, Record>,
    old: HashMap<Key, Record>,
    young_since: Option<Instant>,
    lines: Lines,
    welcome: Welcome,
}

/// Users who have shown a right password, each in its network. They need not suffer from what others of their network do.
/// Bounded: two generations, the older of which is forgotten when the younger is full.
#[derive(Default)]
struct Welcome {
    young: HashSet<Asker>,
    old: HashSet<Asker>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Network(Option<IpAddr>),
    Asker(Asker),
}

#[derive(Clone, Copy)]
struct Record {
    count: u32,
    held_until: Instant,
}

/// Log lines of the current minute.
#[derive(Default)]
pub(super) struct Lines {
    since: Option<Instant>,
    written: u32,
    left_out: u64,
}

/// What a log line about a failure says beside its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogLine {
    /// Failures of the network, as far as they are remembered.
    pub(super) failures: u32,
    /// Failures since the last line that none was written for.
    pub(super) left_out: u64,
}

impl Failures {
    /// Counts a failure; returns what to log about it, if anything.
    pub(super) fn note(&mut self, asker: Asker, now: Instant) -> Option<LogLine> {
        self.raise(Key::Asker(asker), now, OF_ASKER);
        let failures = self.raise(Key::Network(asker.network), now, OF_NETWORK);
        self.lines.line(failures, now)
    }

    /// A right password ends the pause of its user in its network, and from then on the network's is none of this user's;
    /// for others it stays, for a guesser may have a password, too.
    pub(super) fn forgive(&mut self, asker: Asker) {
        self.welcome.add(asker);
        self.young.remove(&Key::Asker(asker));
        self.old.remove(&Key::Asker(asker));
    }

    /// What to log about something that is no peer's failure, if anything.
    pub(super) fn line(&mut self, now: Instant) -> Option<LogLine> {
        self.lines.any(now)
    }

    /// When the next attempt may be judged; `None` is now.
    pub(super) fn held_until(&self, asker: Asker, now: Instant) -> Option<Instant> {
        let both = [Key::Asker(asker), Key::Network(asker.network)];
        let count = if self.is_welcome(asker) { 1 } else { 2 };
        let until = both
            .iter()
            .take(count)
            .filter_map(|key| self.record(key))
            .map(|record| record.held_until)
            .max();
        until.filter(|until| *until > now)
    }

    /// Whether this user has shown a right password in this network before.
    pub(super) fn is_welcome(&self, asker: Asker) -> bool {
        self.welcome.young.contains(&asker) || self.welcome.old.contains(&asker)
    }

    /// Whether this user has to wait, whatever holds for its network.
    pub(super) fn is_user_held(&self, asker: Asker, now: Instant) -> bool {
        self.record(&Key::Asker(asker))
            .is_some_and(|record| record.held_until > now)
    }

    fn record(&self, key: &Key) -> Option<Record> {
        self.young.get(key).or_else(|| self.old.get(key)).copied()
    }

    fn raise(&mut self, key: Key, now: Instant, pauses: Pauses) -> u32 {
        let since = *self.young_since.get_or_insert(now);
        let is_over = now.saturating_duration_since(since) >= GENERATION;
        if is_over || self.young.len() >= GENERATION_MAX {
            let was_idle = now.saturating_duration_since(since) >= 2 * GENERATION;
            self.old = std::mem::take(&mut self.young);
            if was_idle {
                self.old.clear();
            }
            self.young_since = Some(now);
        }
        let count = self
            .record(&key)
            .map_or(0, |record| record.count)
            .saturating_add(1);
        self.young.insert(
            key,
            Record {
                count,
                held_until: now + pauses.after(count),
            },
        );
        count
    }
}

impl Welcome {
    fn add(&mut self, asker: Asker) {
        if self.young.contains(&asker) {
            return;
        }
        if self.young.len() >= GENERATION_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(asker);
    }
}

/// Pauses that double from failure to failure.
#[derive(Clone, Copy)]
struct Pauses {
    /// Failures without a pause.
    free: u32,
    first: Duration,
    longest: Duration,
}

impl Pauses {
    fn after(self, count: u32) -> Duration {
        match count.saturating_sub(self.free) {
            0 => Duration::ZERO,
            more => self
                .first
                .saturating_mul(1 << (more - 1).min(16))
                .min(self.longest),
        }
    }
}

impl Lines {
    /// What to log about something of no network's, if anything.
    pub(super) fn any(&mut self, now: Instant) -> Option<LogLine> {
        self.line(1, now)
    }

    /// A network's first failure, second, fourth, eighth … gets a line, and all together so many in a minute.
    fn line(&mut self, failures: u32, now: Instant) -> Option<LogLine> {
        if self
            .since
            .is_none_or(|since| now.saturating_duration_since(since) >= Duration::from_secs(60))
        {
            (self.since, self.written) = (Some(now), 0);
        }
        if !failures.is_power_of_two() || self.written >= LINES_PER_MINUTE {
            self.left_out += 1;
            return None;
        }
        self.written += 1;
        Some(LogLine {
            failures,
            left_out: std::mem::take(&mut self.left_out),
        })
    }
}

/// One user from one network: some typing errors, then guessing is slow.
const OF_ASKER: Pauses = Pauses {
    free: 3,
    first: Duration::from_millis(250),
    longest: Duration::from_secs(4),
};

/// All users from one network: it takes no more than a part of one core. Many devices may share it.
const OF_NETWORK: Pauses = Pauses {
    free: 50,
    first: Duration::from_millis(5),
    longest: Duration::from_millis(40),
};

/// How long failures are remembered at least, if there are not too many.
const GENERATION: Duration = Duration::from_secs(60);
const GENERATION_MAX: usize = 16_384;

const LINES_PER_MINUTE: u32 = 60;

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(network: u8, user: u64) -> Asker {
        Asker {
            network: Some([10, 0, 0, network].into()),
            user,
        }
    }

    #[test]
    fn pauses_grow_and_are_the_askers_own() {
        let (mut failures, now) = (Failures::default(), Instant::now());
        let pause = |failures: &Failures, asker| {
            failures
                .held_until(asker, now)
                .map(|until| (until - now).as_millis())
        };
        let mut pauses = Vec::new();
        for _ in 0..10 {
            failures.note(asker(1, 1), now);
            pauses.push(pause(&failures, asker(1, 1)).unwrap_or(0));
        }
        assert_eq!(pauses, [0, 0, 0, 250, 500, 1000, 2000, 4000, 4000, 4000]);
        assert_eq!(
            pause(&failures, asker(1, 2)),
            None,
            "another user of the network"
        );
        assert_eq!(pause(&failures, asker(2, 1)), None, "the user elsewhere");
        failures.forgive(asker(1, 1));
        assert_eq!(pause(&failures, asker(1, 1)), None);
        for user in 0..100 {
            failures.note(asker(1, user), now);
        }
        assert_eq!(
            pause(&failures, asker(1, 1_000)),
            Some(40),
            "the network as a whole"
        );
        assert!(!failures.is_user_held(asker(1, 1_000), now));
        let later = now + 2 * GENERATION;
        assert_eq!(failures.held_until(asker(1, 1), later), None);
        failures.note(asker(1, 1), later);
        failures.note(asker(2, 1), later + GENERATION);
        assert_eq!(
            failures
                .record(&Key::Network(asker(1, 1).network))
                .map(|record| record.count),
            Some(1),
            "forgotten"
        );
    }

    #[test]
    fn who_has_shown_a_right_password_does_not_wait_for_its_network() {
        let (mut failures, now) = (Failures::default(), Instant::now());
        failures.forgive(asker(1, 1));
        for user in 100..200 {
            failures.note(asker(1, user), now);
        }
        assert!(failures.is_welcome(asker(1, 1)));
        assert_eq!(failures.held_until(asker(1, 1), now), None);
        assert!(failures.held_until(asker(1, 2), now).is_some());
        assert!(!failures.is_welcome(asker(2, 1)), "the user elsewhere");
        // Its own failures count as everybody's do.
        (0..4).for_each(|_| _ = failures.note(asker(1, 1), now));
        assert!(failures.held_until(asker(1, 1), now).is_some());
        for user in 0..100_000 {
            failures.forgive(asker(3, user));
        }
        let welcome = &failures.welcome;
        assert!(welcome.young.len() <= GENERATION_MAX && welcome.old.len() <= GENERATION_MAX);
    }

    #[test]
    fn guessing_does_not_grow_the_memory() {
        let (mut failures, now) = (Failures::default(), Instant::now());
        for user in 0..100_000 {
            failures.note(asker((user % 200) as u8, user), now);
        }
        assert!(failures.young.len() <= GENERATION_MAX && failures.old.len() <= GENERATION_MAX);
        assert_eq!(
            failures
                .record(&Key::Network(asker(7, 0).network))
                .map(|record| record.count),
            Some(500)
        );
    }

    #[test]
    fn the_log_gets_fewer_lines_the_more_failures_there_are() {
        let (mut failures, now) = (Failures::default(), Instant::now());
        let lines: Vec<LogLine> = (0..1_000)
            .filter_map(|user| failures.note(asker(1, user), now))
            .collect();
        let counts: Vec<u32> = lines.iter().map(|line| line.failures).collect();
        assert_eq!(counts, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
        assert_eq!(lines.last().map(|line| line.left_out), Some(255));
        let others = (2..=255)
            .filter_map(|network| failures.note(asker(network, 1), now))
            .count();
        assert_eq!(others, 50, "sixty a minute in all");
        let line = Lines::default().any(now);
        assert_eq!(
            line,
            Some(LogLine {
                failures: 1,
                left_out: 0
            })
        );
        let next = failures.note(asker(1, 1), now + Duration::from_secs(60));
        assert_eq!(next, None, "the thousand and first");
        assert!(
            failures
                .note(
                    Asker {
                        network: None,
                        user: 1
                    },
                    now + Duration::from_secs(60)
                )
                .is_some()
        );
    }
}
