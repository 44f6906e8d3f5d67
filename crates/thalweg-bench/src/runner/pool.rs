//! Cells side by side: as many as there are, as long as all of them together leave most of the machine idle.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::brokers::family_cpu_s;

/// How cells may share the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Room {
    /// Cells at the same time, from 1.
    pub abreast: usize,
    /// No cell begins while all that this program has started takes more than this part of all cores, unless nothing runs.
    pub busy_max: f64,
}

impl Room {
    /// One after the other, whatever they take.
    pub const ALONE: Room = Room {
        abreast: 1,
        busy_max: f64::INFINITY,
    };

    /// So many that take next to nothing each.
    pub fn beside(abreast: usize) -> Room {
        match abreast {
            0 | 1 => Room::ALONE,
            abreast => Room {
                abreast,
                busy_max: BUSY_MAX,
            },
        }
    }
}

/// Measures all cells in their order and passes each result to the consumer, which says whether to go on.
pub fn drive<C: Sync, M>(
    cells: &[C],
    room: Room,
    stop: &AtomicBool,
    measure: &(dyn Fn(&C) -> M + Sync),
    take: &mut (dyn FnMut(&C, M) -> bool + Send),
) {
    drive_by(cells, room, &|_| 1, stop, measure, take);
}

/// The same where a cell may take more than one place.
pub fn drive_by<'c, C: Sync, M>(
    cells: &'c [C],
    room: Room,
    places: &dyn Fn(&C) -> usize,
    stop: &AtomicBool,
    measure: &(dyn Fn(&'c C) -> M + Sync),
    take: &mut (dyn FnMut(&'c C, M) -> bool + Send),
) {
    let (taken, is_free) = (Mutex::new(0), Condvar::new());
    let (take, is_over) = (Mutex::new(take), AtomicBool::new(false));
    let mut gate = Gate::default();
    thread::scope(|scope| {
        for cell in cells {
            let (taken, is_free, take, is_over) = (&taken, &is_free, &take, &is_over);
            let places = places(cell);
            let mut now = taken.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                if stop.load(Ordering::Relaxed) || is_over.load(Ordering::Relaxed) {
                    return;
                }
                if gate.admits(room, *now, places) {
                    break;
                }
                let waited = is_free.wait_timeout(now, LOOK_AGAIN);
                now = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            *now += places;
            drop(now);
            let place = Place(taken, is_free, places);
            scope.spawn(move || {
                let _place = place;
                let measured = measure(cell);
                let mut take = take.lock().unwrap_or_else(PoisonError::into_inner);
                if !take(cell, measured) {
                    is_over.store(true, Ordering::Relaxed);
                }
            });
        }
    });
}

/// Places that a cell has, until it is over, however that comes.
struct Place<'a>(&'a Mutex<usize>, &'a Condvar, usize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) -= self.2;
        self.1.notify_one();
    }
}

/// What lets cells in.
#[derive(Default)]
struct Gate {
    /// When the last cell was let in.
    last: Option<Instant>,
    /// When the load was looked at, and what this process and all that it has started had spent then.
    looked: Option<(Instant, f64)>,
    /// A part of all cores.
    load: f64,
}

impl Gate {
    /// Whether a cell that needs so many places may begin beside what has taken some.
    fn admits(&mut self, room: Room, taken: usize, places: usize) -> bool {
        // What has just begun is not seen in the load yet.
        let is_settled = self.last.is_none_or(|last| last.elapsed() >= BETWEEN);
        let may = taken == 0
            || taken + places <= room.abreast
                && is_settled
                && (room.busy_max.is_infinite() || self.load() < room.busy_max);
        if may {
            self.last = Some(Instant::now());
        }
        may
    }

    /// The load of the last second or so.
    fn load(&mut self) -> f64 {
        let now = Instant::now();
        let (at, spent) = *self.looked.get_or_insert_with(|| (now, family_cpu_s()));
        if now - at >= SPAN {
            let more = family_cpu_s() - spent;
            let cores = thread::available_parallelism().map_or(1, usize::from) as f64;
            self.load = (more / (now - at).as_secs_f64() / cores).max(0.0);
            self.looked = Some((now, spent + more));
        }
        self.load
    }
}

/// Of all cores, by everything that runs side by side.
const BUSY_MAX: f64 = 0.3;
const SPAN: Duration = Duration::from_millis(1000);
const BETWEEN: Duration = Duration::from_millis(250);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn some_are_measured_at_the_same_time_or_one_after_the_other_until_told() {
        let cells: Vec<u32> = (0..8).collect();
        let (stop, barrier) = (AtomicBool::new(false), Barrier::new(2));
        let mut taken = Vec::new();
        let abreast = Room {
            abreast: 2,
            busy_max: f64::INFINITY,
        };
        // A barrier of two: this ends only if two are measured side by side.
        let meet = |_: &u32| {
            barrier.wait();
        };
        drive(&cells, abreast, &stop, &meet, &mut |cell, ()| {
            taken.push(*cell);
            true
        });
        taken.sort_unstable();
        assert_eq!(taken, cells);
        taken.clear();
        let alone = &mut |cell: &u32, ()| {
            taken.push(*cell);
            taken.len() < 3
        };
        drive(&cells, Room::ALONE, &stop, &|_| (), alone);
        assert_eq!(taken, [0, 1, 2]);
        stop.store(true, Ordering::Relaxed);
        drive(&cells, Room::ALONE, &stop, &|_| (), &mut |_, ()| {
            panic!("it was stopped")
        });
    }
}
