//! The one clock: `CLOCK_MONOTONIC`, in nanoseconds. All processes of a machine read the same.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::Timespec;
use rustix::thread::{clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{ClockId, clock_gettime};

#[inline]
pub fn now() -> u64 {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// Processor time that this thread has used.
pub fn thread_cpu() -> u64 {
    nanos(clock_gettime(ClockId::ThreadCPUTime))
}

/// Processor time that this process has used.
pub fn process_cpu() -> u64 {
    nanos(clock_gettime(ClockId::ProcessCPUTime))
}

/// Sleeps until then; a signal does not end it. The end is not polled for: a machine with two cores needs them for the
/// broker.
pub fn sleep_until(at: u64) {
    let until = timespec(at);
    // Interrupted: once more, until the same moment.
    while now() < at {
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &until);
    }
}

/// Sleeps until then, or until it is to stop.
pub fn wait(until: u64, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) && now() < until {
        sleep_until((now() + LOOK_UP).min(until));
    }
}

/// How often is looked whether it is to stop, nanoseconds.
pub const LOOK_UP: u64 = 20_000_000;

/// Lets this thread's timers be as exact as the hardware's; by default the kernel may be 50 µs late to save wake-ups.
pub fn be_exact() {
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

/// As the system writes it.
pub fn timespec(nanos: u64) -> Timespec {
    Timespec {
        tv_sec: (nanos / 1_000_000_000) as i64,
        tv_nsec: (nanos % 1_000_000_000) as _,
    }
}

fn nanos(time: Timespec) -> u64 {
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}
