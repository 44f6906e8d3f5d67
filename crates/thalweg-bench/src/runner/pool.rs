//! Cells side by side: as many as there are, as long as all of them together leave most of the machine idle.

use std::collections::HashMap;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

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
    let (next, running) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let gate = Mutex::new(Gate {
        load: Load::default(),
        last: None,
    });
    let take = Mutex::new(take);
    let is_over = AtomicBool::new(false);
    let run_some = || {
        loop {
            if !admitted(&gate, room, &running, || {
                stop.load(Ordering::Relaxed) || is_over.load(Ordering::Relaxed)
            }) {
                return;
            }
            let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) else {
                running.fetch_sub(1, Ordering::Relaxed);
                // The others need not wait for a place for nothing.
                is_over.store(true, Ordering::Relaxed);
                return;
            };
            let measured = measure(cell);
            running.fetch_sub(1, Ordering::Relaxed);
            let mut take = take.lock().unwrap_or_else(PoisonError::into_inner);
            if !take(cell, measured) {
                is_over.store(true, Ordering::Relaxed);
                return;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..room.abreast.clamp(1, cells.len().max(1)) {
            scope.spawn(run_some);
        }
    });
}

struct Gate {
    load: Load,
    /// When the last cell was let in.
    last: Option<Instant>,
}

/// Waits for a place; false if there will be none. The place is counted as running.
fn admitted(
    gate: &Mutex<Gate>,
    room: Room,
    running: &AtomicUsize,
    is_over: impl Fn() -> bool,
) -> bool {
    loop {
        if is_over() {
            return false;
        }
        {
            let mut gate = gate.lock().unwrap_or_else(PoisonError::into_inner);
            let is_alone = running.load(Ordering::Relaxed) == 0;
            // What has just begun is not seen in the load yet.
            let is_settled = gate.last.is_none_or(|last| last.elapsed() >= BETWEEN);
            if is_alone
                || (is_settled && (room.busy_max.is_infinite() || gate.load.part() < room.busy_max))
            {
                gate.last = Some(Instant::now());
                running.fetch_add(1, Ordering::Relaxed);
                return true;
            }
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// What this process and all that it has started take of all cores.
#[derive(Debug, Default)]
struct Load {
    before: Option<(Instant, f64)>,
    part: f64,
}

impl Load {
    /// Over the last second or so.
    fn part(&mut self) -> f64 {
        let now = Instant::now();
        match self.before {
            Some((at, spent)) if now - at >= SPAN => {
                let more = family_ticks() - spent;
                let cores = thread::available_parallelism().map_or(1, usize::from) as f64;
                self.part = (more / TICKS / (now - at).as_secs_f64() / cores).max(0.0);
                self.before = Some((now, spent + more));
            }
            Some(_) => {}
            None => self.before = Some((now, family_ticks())),
        }
        self.part
    }
}

/// Processor time of this process and of its descendants, those that have ended too, in ticks.
fn family_ticks() -> f64 {
    let mut all: HashMap<u32, (u32, f64)> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let Ok(text) = fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        if let Some(found) = parent_and_ticks(&text) {
            all.insert(id, found);
        }
    }
    let own = std::process::id();
    let is_ours = |mut id: u32| {
        // No family is deeper than there are processes.
        for _ in 0..all.len() {
            match all.get(&id) {
                _ if id == own => return true,
                Some((parent, _)) => id = *parent,
                None => return false,
            }
        }
        false
    };
    all.iter()
        .filter(|(id, _)| is_ours(**id))
        .map(|(_, (_, ticks))| ticks)
        .sum()
}

/// A line of /proc/PID/stat: the parent, and user and system time with those of ended children (proc(5), fields 4, 14 to 17).
fn parent_and_ticks(line: &str) -> Option<(u32, f64)> {
    // The name may have spaces and parentheses.
    let rest = line.rsplit_once(')')?.1;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let parent = fields.get(1)?.parse().ok()?;
    let times = fields
        .get(11..15)?
        .iter()
        .filter_map(|text| text.parse::<f64>().ok());
    Some((parent, times.sum()))
}

/// Of all cores, by everything that runs side by side.
const BUSY_MAX: f64 = 0.3;
/// A second of one core; Linux has said 100 to user space since there is Linux.
const TICKS: f64 = 100.0;
const SPAN: Duration = Duration::from_millis(1000);
const BETWEEN: Duration = Duration::from_millis(250);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::cell::{Cell, Measured, Standing};
    use crate::studies::plan::{self, Budget};

    fn cells(count: u32) -> Vec<Cell> {
        let mut plan = plan::Plan::new(Budget::Quick, 1);
        plan::cell("E9", "thalweg", plan::mqtt(0)).repeats(count, &mut plan);
        plan.cells
    }

    fn nothing() -> Measured {
        Measured::nothing(Standing::Valid)
    }

    #[test]
    fn every_cell_is_measured_once_and_some_at_the_same_time() {
        let all = cells(8);
        // A barrier of two: this ends only if two are measured side by side.
        let barrier = Barrier::new(2);
        let mut taken = Vec::new();
        let measure = |_: &Cell| {
            barrier.wait();
            nothing()
        };
        let room = Room {
            abreast: 2,
            busy_max: f64::INFINITY,
        };
        drive(
            &all,
            room,
            &AtomicBool::new(false),
            &measure,
            &mut |cell, _| {
                taken.push(cell.repeat);
                true
            },
        );
        taken.sort_unstable();
        assert_eq!(taken, (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn one_after_the_other_keeps_the_order_and_ends_when_told() {
        let (all, stop) = (cells(5), AtomicBool::new(false));
        let mut taken = Vec::new();
        drive(&all, Room::ALONE, &stop, &|_| nothing(), &mut |cell, _| {
            taken.push(cell.repeat);
            taken.len() < 3
        });
        assert_eq!(taken, [0, 1, 2]);
        stop.store(true, Ordering::Relaxed);
        drive(&all, Room::ALONE, &stop, &|_| nothing(), &mut |_, _| {
            panic!("it was stopped")
        });
    }

    #[test]
    fn a_line_of_a_process_with_a_strange_name_is_read() {
        let line = "42 (a b) c)) S 7 42 42 0 -1 4194560 1 0 0 0 10 20 3 4 20 0 1 0 5 6 7";
        assert_eq!(parent_and_ticks(line), Some((7, 37.0)));
        assert!(family_ticks() >= 0.0);
    }
}
