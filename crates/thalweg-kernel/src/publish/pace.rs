//! How long publishers wait for a receiver whose queue fills: so long that they are no faster than it is.

use thalweg_model::{Span, Time};

/// From half full on publishers are slowed, in eighths.
pub(crate) const SLOW_FROM: u32 = 4;
/// For how long they wait with each message while the receiver's rate is unknown, or the receiver has stopped; four
/// times as long for each further eighth.
const PAUSE: Span = Span::from_millis(2);
/// The longest that a publisher waits with one message.
const PAUSE_MAX: Span = Span::from_secs(1);
/// A receiver that has taken nothing for so long has stopped; and one of which nothing was noted may be another.
const STOPPED: Span = Span::from_secs(1);
/// What it takes is measured over so many messages, or over some in so long.
const SAMPLE: u64 = 16;
const SAMPLE_FOR: Span = Span::from_millis(100);

/// What is known of a receiver that publishers wait for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// How many it has taken in all, and when that was last more than before.
    taken: u64,
    moved: Time,
    /// How many it had taken when a sample began, and when that was.
    sampled: u64,
    since: Time,
    noted: Time,
    /// Between one that it takes and the next; zero while that is not known.
    each: Span,
    /// When it will have taken what came since its queue is half full.
    next: Time,
}

impl Pace {
    /// Another message waits for the receiver, which has `taken` so many so far and whose queue is so full. Until when its
    /// publisher waits: not for one that has taken nothing for `patience`.
    pub(crate) fn pause(
        &mut self,
        taken: u64,
        eighths: u32,
        patience: Span,
        now: Time,
    ) -> Option<Time> {
        self.learn(taken, now);
        if self.moved + patience <= now {
            return None;
        }
        let above = eighths.saturating_sub(SLOW_FROM).min(3);
        let is_known = self.each > Span::ZERO && now.since(self.moved) < STOPPED;
        if !is_known {
            return Some(now + Span::from_nanos(PAUSE.nanos() << (2 * above)));
        }
        // At half full as fast as it takes, at the end half as fast, however many publishers there are.
        let share = self.each.nanos() * u64::from(3 + above) / 3;
        self.next = (self.next.max(now) + Span::from_nanos(share)).min(now + PAUSE_MAX);
        Some(self.next)
    }

    fn learn(&mut self, taken: u64, now: Time) {
        if now.since(self.noted) > STOPPED {
            // Its queue may have been empty in between.
            (self.sampled, self.since, self.each, self.next) = (taken, now, Span::ZERO, now);
        }
        if taken != self.taken || self.moved == Time::ZERO {
            (self.taken, self.moved) = (taken, now);
        }
        self.noted = now;
        let (count, passed) = (taken.saturating_sub(self.sampled), now.since(self.since));
        if count >= SAMPLE || (count > 0 && passed >= SAMPLE_FOR) {
            let sample = passed.nanos() / count;
            let each = match self.each.nanos() {
                0 => sample,
                each => (3 * each + sample) / 4,
            };
            self.each = Span::from_nanos(each.max(1));
            (self.sampled, self.since) = (taken, now);
        }
    }
}

/// How many eighths of it are filled.
pub(crate) fn eighths(filled: usize, max: usize) -> u32 {
    (filled.saturating_mul(8) / max.max(1)).min(8) as u32
}
