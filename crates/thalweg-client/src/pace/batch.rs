//! Turbo batching: one write takes all that is ready, and waits for more only where waiting pays.
//!
//! While a write is under way the next batch forms by itself; this costs no time. Beyond that, a batch is held back only
//! if by the rate of late at least two more messages come within the delay that is allowed.

use thalweg_model::{Span, Time};

/// When writes are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchSettings {
    /// Every message leaves as it comes.
    Off,
    /// Held back until so much has gathered or so long has passed.
    Fixed {
        /// Bytes of one batch, at most.
        max_bytes: usize,
        /// Longest wait of the first message of a batch.
        max_delay: Span,
    },
    /// As [`BatchSettings::Fixed`], but only where more messages are about to come.
    Turbo {
        /// Bytes of one batch, at most.
        max_bytes: usize,
        /// Longest wait of the first message of a batch.
        max_delay: Span,
    },
}

impl BatchSettings {
    /// Turbo with 64 KiB and 2 ms.
    pub const TURBO: BatchSettings = BatchSettings::Turbo {
        max_bytes: 64 << 10,
        max_delay: Span::from_millis(2),
    };
}

/// Weight of one arrival in the smoothed gap and size.
const SHARE: f64 = 0.125;
/// The rate is judged by so many arrivals, if they came faster than the smoothed gap says: a step is noticed at once, and
/// so many do not come together by chance.
const RECENT: usize = 6;
/// After so many gaps without an arrival no further one is expected.
const SILENT_GAPS: f64 = 8.0;
/// After a wait that brought nothing, so many batches leave at once at most before the next is tried.
const SKIPS_MAX: u32 = 64;

/// Decides when what has gathered for one lane is written.
#[derive(Clone, Debug)]
pub struct Batcher {
    settings: BatchSettings,
    /// Smoothed time between arrivals, in nanoseconds; none before the second one.
    smoothed: Option<f64>,
    /// The time between arrivals that is expected now.
    gap: Option<f64>,
    /// Smoothed size, in bytes.
    size: f64,
    last_arrival: Option<Time>,
    /// The last arrivals but this one, a ring, and where the oldest is.
    recent: [Time; RECENT],
    oldest: usize,
    /// When the first message of this batch came, and how many have come.
    began: Option<Time>,
    messages: u32,
    /// This batch has a message that waits for nothing.
    is_express: bool,
    /// So many batches are let go at once, and so many after the next wait in vain.
    skips: (u32, u32),
}

impl Batcher {
    /// Nothing has arrived yet.
    pub const fn new(settings: BatchSettings) -> Self {
        Batcher {
            settings,
            smoothed: None,
            gap: None,
            size: 0.0,
            last_arrival: None,
            recent: [Time::ZERO; RECENT],
            oldest: 0,
            began: None,
            messages: 0,
            is_express: false,
            skips: (0, 1),
        }
    }

    /// Adds a message of `bytes`. `express`: priority 9, or a caller waits for it.
    pub fn arrived(&mut self, bytes: usize, express: bool, now: Time) {
        if let Some(last) = self.last_arrival {
            let gap = now.since(last).nanos() as f64;
            let smoothed = self
                .smoothed
                .map_or(gap, |smoothed| smoothed + SHARE * (gap - smoothed));
            self.smoothed = Some(smoothed);
            let oldest = self.recent.get(self.oldest).copied().unwrap_or_default();
            self.gap = Some(smoothed.min(now.since(oldest).nanos() as f64 / RECENT as f64));
            self.size += SHARE * (bytes as f64 - self.size);
        } else {
            self.size = bytes as f64;
        }
        self.last_arrival = Some(now);
        if let Some(oldest) = self.recent.get_mut(self.oldest) {
            *oldest = now;
        }
        self.oldest = (self.oldest + 1) % RECENT;
        self.began.get_or_insert(now);
        self.messages = self.messages.saturating_add(1);
        self.is_express |= express;
    }

    /// When what has gathered is to be written: `now` or before, at once; [`Time::NEVER`] while nothing has, or while an
    /// earlier write is under way (to be asked again when it is done).
    pub fn flush_at(&self, pending_bytes: usize, is_writing: bool, now: Time) -> Time {
        if pending_bytes == 0 {
            return Time::NEVER;
        }
        let began = self.began.unwrap_or(now);
        match self.settings {
            BatchSettings::Off => now,
            _ if is_writing => Time::NEVER,
            _ if self.is_express => now,
            BatchSettings::Fixed { max_bytes, .. } if pending_bytes >= max_bytes => now,
            BatchSettings::Fixed { max_delay, .. } => began + max_delay,
            BatchSettings::Turbo {
                max_bytes,
                max_delay,
            } => {
                let linger = self.linger(pending_bytes, max_bytes, max_delay);
                let gap = self.gap.unwrap_or(0.0);
                // Nobody waits for those who should have come long ago.
                let silence =
                    self.last_arrival.unwrap_or(now) + Span::from_nanos((SILENT_GAPS * gap) as u64);
                (began + linger).min(silence)
            }
        }
    }

    /// The batch is being written, except for `left_bytes`.
    pub fn flushed(&mut self, left_bytes: usize, now: Time) {
        if let (BatchSettings::Turbo { max_delay, .. }, Some(began)) = (self.settings, self.began) {
            let (left, next) = self.skips;
            let has_waited = now > began && !self.is_express;
            self.skips = match self.messages {
                _ if left > 0 => (left - 1, next),
                // The batch waited and no other message came: the publisher may be waiting for the answer.
                1 if has_waited && self.pays(max_delay) => (next, (next * 2).min(SKIPS_MAX)),
                1 => (left, next),
                _ => (0, 1),
            };
        }
        self.began = (left_bytes > 0).then_some(now);
        self.messages = u32::from(left_bytes > 0);
        self.is_express &= left_bytes > 0;
    }

    /// Most bytes of one write.
    pub const fn max_bytes(&self) -> usize {
        match self.settings {
            BatchSettings::Off => usize::MAX,
            BatchSettings::Fixed { max_bytes, .. } | BatchSettings::Turbo { max_bytes, .. } => {
                max_bytes
            }
        }
    }

    /// Whether by the rate of late at least two more messages come within the delay that is allowed.
    fn pays(&self, max_delay: Span) -> bool {
        self.gap
            .is_some_and(|gap| max_delay.nanos() as f64 >= 2.0 * gap)
    }

    /// How long the first message of the batch waits for others.
    fn linger(&self, pending_bytes: usize, max_bytes: usize, max_delay: Span) -> Span {
        let (skips, _) = self.skips;
        let Some(gap) = self.gap.filter(|_| skips == 0 && self.pays(max_delay)) else {
            return Span::ZERO;
        };
        let expected = max_delay.nanos() as f64 / gap.max(1.0);
        let target = (expected * self.size).max(self.size).min(max_bytes as f64);
        let missing = target - pending_bytes as f64;
        if missing <= 0.0 {
            return Span::ZERO;
        }
        // From now on, as far as we know: the last one has just come.
        let waited = self
            .began
            .zip(self.last_arrival)
            .map_or(Span::ZERO, |(began, last)| last.since(began));
        let more = (missing / self.size.max(1.0) * gap) as u64;
        Span::from_nanos(waited.nanos().saturating_add(more)).min(max_delay)
    }
}
