//! Auto-throttle: as much under way as the other side confirms in time, and no more.
//!
//! A window of unconfirmed messages grows while it is used up and confirmations come soon, and shrinks when the peer
//! says so or takes its time. Within the window messages are paced, so that a publisher waits in small steps.
//!
//! The rule for each period: by 0.7 when the peer pressed or the smoothed delay is above the shortest plus
//! what is allowed, by 1.05 and 1 when the window was used up. Two things are ours. At the beginning, and when the delay
//! has been close to the shortest for a period, the window grows with each confirmation, as TCP's does: by 5 % in 100 ms a
//! fast peer would be used after ten seconds only. And every two seconds at most it shrinks so far that nothing of ours stands
//! in a queue, and a little further: who came when others had filled the queue takes it for the way, and would push them
//! aside for ever; so each time it sees a part of it go.

use thalweg_model::{Span, Time};

/// Limits of the publish rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThrottleSettings {
    /// As fast as the transport takes it.
    Off,
    /// As fast as confirmations say.
    Auto {
        /// So many unconfirmed messages at least, however slow the peer; at least 1.
        window_min: u32,
        /// So many at most.
        window_max: u32,
        /// Allowed delay of a confirmation above the shortest.
        target_delay: Span,
        /// Interval at which the window is adapted; longer where confirmations take longer.
        period: Span,
    },
}

impl ThrottleSettings {
    /// 16 to 4096 messages, 20 ms, looked at every 100 ms.
    pub const AUTO: ThrottleSettings = ThrottleSettings::Auto {
        window_min: 16,
        window_max: 4096,
        target_delay: Span::from_millis(20),
        period: Span::from_millis(100),
    };
}

/// Weight of one confirmation in the smoothed delay.
const SHARE: f64 = 0.125;
/// Factor of the window after a period that was too slow.
const SHRINK: f64 = 0.7;
/// Factor of the window after a fully used period.
const GROW: f64 = 1.05;
/// The window counts as used up when so much of it was under way.
const USED: f64 = 0.8;
/// Messages are paced a little faster than they are confirmed: otherwise the window would never be used up.
const GAIN: f64 = 1.2;
/// So long messages may be sent without a pause between them, beyond an eighth of the window: timers are no better.
const BURST: f64 = 2e6;
/// The shortest delay is kept for one to two times this long.
const MEMORY: Span = Span::from_secs(10);
/// Interval at which the window shrinks until no message of ours is queued.
const DRAIN: Span = Span::from_secs(2);

/// Paces what is sent over one lane and confirmed one by one.
#[derive(Clone, Debug)]
pub struct Throttle {
    settings: ThrottleSettings,
    window: f64,
    under_way: u32,
    /// The most that was under way in this period.
    most: u32,
    /// Smoothed delay of confirmations, in nanoseconds; none before the first.
    smoothed: Option<f64>,
    /// The shortest delay in these ten seconds and in the ten before, in nanoseconds.
    shortest: (f64, f64),
    remembers_until: Time,
    /// From then on it may shrink deeply again.
    drains_at: Time,
    period_ends: Time,
    /// It was shrunk in this period already.
    has_shrunk: bool,
    /// The window grows with each confirmation.
    is_opening: bool,
    /// When the next message would leave, if all were spaced evenly.
    due: f64,
}

impl Throttle {
    /// Nothing is under way.
    pub const fn new(settings: ThrottleSettings) -> Self {
        let window = match settings {
            ThrottleSettings::Off => f64::MAX,
            ThrottleSettings::Auto { window_min, .. } => window_min as f64,
        };
        Throttle {
            settings,
            window,
            under_way: 0,
            most: 0,
            smoothed: None,
            shortest: (f64::INFINITY, f64::INFINITY),
            remembers_until: Time::ZERO,
            drains_at: Time::ZERO,
            period_ends: Time::ZERO,
            has_shrunk: false,
            is_opening: true,
            due: 0.0,
        }
    }

    /// Largest number of unconfirmed messages.
    pub fn window(&self) -> u32 {
        self.window as u32
    }

    /// A message was confirmed, or refused, so long after it was sent.
    pub fn confirmed(&mut self, delay: Span, now: Time) {
        self.under_way = self.under_way.saturating_sub(1);
        let ThrottleSettings::Auto {
            window_max,
            target_delay,
            ..
        } = self.settings
        else {
            return;
        };
        let delay = delay.nanos() as f64;
        self.shortest.0 = self.shortest.0.min(delay);
        let smoothed = self
            .smoothed
            .map_or(delay, |smoothed| smoothed + SHARE * (delay - smoothed));
        self.smoothed = Some(smoothed);
        if self.is_opening && smoothed > self.base() + target_delay.nanos() as f64 / 2.0 {
            self.is_opening = false;
        }
        if self.is_opening && f64::from(self.under_way + 1) >= self.window * USED {
            self.window = (self.window + 1.0).min(f64::from(window_max));
        }
        self.look(now);
    }

    /// The peer asks to go slower: a refusal for want of room, a repetition, 4.29, 0x97, a blocked connection.
    pub fn pressed(&mut self, now: Time) {
        self.look(now);
        self.shrink(now);
    }

    /// When the next message may be sent: `now` or before, at once; [`Time::NEVER`]: when another one was confirmed.
    pub fn next_send(&self, now: Time) -> Time {
        let ThrottleSettings::Auto { .. } = self.settings else {
            return now;
        };
        if f64::from(self.under_way) + 1.0 > self.window.max(1.0) {
            return Time::NEVER;
        }
        Time::from_nanos((self.due - self.burst()).max(0.0) as u64)
    }

    /// A message that will be confirmed was sent.
    pub fn sent(&mut self, now: Time) {
        self.under_way = self.under_way.saturating_add(1);
        self.most = self.most.max(self.under_way);
        self.due = self.due.max(now.nanos() as f64) + self.interval();
        self.look(now);
    }

    /// The connection has ended: nothing in flight will be confirmed. The measured delays are reset.
    pub fn closed(&mut self) {
        *self = Throttle::new(self.settings);
    }

    /// Nanoseconds between two messages.
    fn interval(&self) -> f64 {
        self.smoothed
            .map_or(0.0, |smoothed| smoothed / (self.window * GAIN))
    }

    /// How far messages may be ahead of their due times, in nanoseconds.
    fn burst(&self) -> f64 {
        (self.interval() * (self.window / 8.0).max(1.0)).max(BURST)
    }

    /// The shortest delay that is known.
    fn base(&self) -> f64 {
        self.shortest.0.min(self.shortest.1)
    }

    fn shrink(&mut self, now: Time) {
        let ThrottleSettings::Auto { window_min, .. } = self.settings else {
            return;
        };
        self.is_opening = false;
        if !self.has_shrunk {
            self.has_shrunk = true;
            let mut left = self.window * SHRINK;
            if now >= self.drains_at {
                self.drains_at = now + DRAIN;
                left *= self
                    .smoothed
                    .map_or(1.0, |smoothed| (self.base() / smoothed).min(1.0));
            }
            self.window = left.max(f64::from(window_min)).max(1.0);
        }
    }

    /// Looks at the window, if a period is over.
    fn look(&mut self, now: Time) {
        let ThrottleSettings::Auto {
            window_max,
            target_delay,
            period,
            ..
        } = self.settings
        else {
            return;
        };
        let Some(smoothed) = self.smoothed else {
            return;
        };
        if now < self.period_ends {
            return;
        }
        let is_first = self.period_ends == Time::ZERO;
        // A change is seen a delay later: until then the same cause must not count again.
        self.period_ends = now + period.max(Span::from_nanos(smoothed as u64));
        let target = target_delay.nanos() as f64;
        let is_used = f64::from(self.most) >= self.window * USED;
        if is_first {
            // Not a period of its own.
        } else if smoothed > self.base() + target {
            self.shrink(now);
        } else if is_used && !self.is_opening && !self.has_shrunk {
            self.window = (self.window * GROW + 1.0).min(f64::from(window_max));
            self.is_opening = smoothed < self.base() + target / 4.0;
        }
        self.has_shrunk = false;
        self.most = self.under_way;
        if now >= self.remembers_until {
            self.shortest = (f64::INFINITY, self.shortest.0);
            self.remembers_until = now + MEMORY;
        }
    }
}
