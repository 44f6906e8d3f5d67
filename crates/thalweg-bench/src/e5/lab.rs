//! The loop that runs cells side by side: one thread, one clock, sockets and times.
//!
//! The loads of this study are tiny, and each cell lasts as long as it lasts; so many cells run at once, up to a rate of
//! messages for all of them together. All workers and publishers sleep in one place, so that no thread of ours is in the
//! way of another, and what the machine adds is measured in one place, too.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::stage::{Around, Due, PUBLISHER, Stage};
use super::task::Task;
use crate::sim::random::Random;

/// Something due for a stage: time, order, which stage.
type Later = Reverse<(u64, u64, usize, Order)>;

/// A [`Due`] in a heap, where its own order does not matter.
#[derive(Clone, Copy, Debug)]
struct Order(Due);

impl PartialEq for Order {
    fn eq(&self, _: &Order) -> bool {
        true
    }
}
impl Eq for Order {}
impl PartialOrd for Order {
    fn partial_cmp(&self, other: &Order) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Order {
    fn cmp(&self, _: &Order) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

pub struct Lab {
    epoll: OwnedFd,
    timer: OwnedFd,
    clock: Instant,
    later: BinaryHeap<Later>,
    order: u64,
    stages: Vec<Option<Stage>>,
    address: SocketAddr,
}

impl Lab {
    /// A loop whose clients connect to `address`.
    pub fn new(address: SocketAddr) -> io::Result<Lab> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        epoll::add(
            &epoll,
            &timer,
            epoll::EventData::new_u64(TIMER),
            epoll::EventFlags::IN,
        )?;
        let (later, stages) = (BinaryHeap::new(), Vec::new());
        Ok(Lab {
            epoll,
            timer,
            clock: Instant::now(),
            later,
            order: 0,
            stages,
            address,
        })
    }

    /// Runs all cells, so many at once that their rates do not exceed `rate_max` messages a second (but one at least), and
    /// gives each away as it ends. Ends early if `stop` says so, or if nobody takes what ended: cells that run are given up.
    pub fn run(
        &mut self,
        tasks: Vec<Task>,
        rate_max: f64,
        stop: &AtomicBool,
        ended: &Sender<Stage>,
    ) -> io::Result<()> {
        let mut tasks: VecDeque<Task> = tasks.into();
        let mut phase = Random::new(tasks.front().map_or(0, |task| task.scenario.seed));
        let mut running = 0;
        let mut rate = 0.0;
        let mut next_start = 0;
        let mut is_wanted = true;
        let mut buffer = Vec::with_capacity(256);
        while (running > 0 || !tasks.is_empty()) && is_wanted && !stop.load(Ordering::Relaxed) {
            let now = self.now();
            if now >= next_start
                && let Some(task) =
                    tasks.pop_front_if(|task| running == 0 || rate + task.scenario.rate <= rate_max)
            {
                rate += task.scenario.rate;
                running += 1;
                // Cells of one period must not beat in time.
                next_start = now + (phase.unit() * START_GAP_MAX) as u64;
                self.start(task, now);
            }
            let until = match tasks.is_empty() {
                true => now + SECOND,
                false => next_start.max(now + START_GAP_MIN),
            };
            self.wait(until, &mut buffer)?;
            self.sockets(&buffer);
            self.times();
            for slot in 0..self.stages.len() {
                if self
                    .stages
                    .get(slot)
                    .and_then(Option::as_ref)
                    .is_some_and(Stage::is_over)
                    && let Some(stage) = self.stages[slot].take()
                {
                    rate -= stage.rate();
                    running -= 1;
                    is_wanted &= ended.send(stage.leave(&self.epoll)).is_ok();
                }
            }
        }
        for stage in self.stages.drain(..).flatten() {
            drop(stage.leave(&self.epoll));
        }
        Ok(())
    }

    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    fn start(&mut self, task: Task, now: u64) {
        // A slot is used once: what is due for a stage that is over must not reach another.
        let slot = self.stages.len();
        let mut later = Vec::new();
        let mut around = Around {
            epoll: &self.epoll,
            later: &mut later,
            now,
        };
        let stage = Stage::new(task, self.address, (slot as u64) << 16, &mut around);
        self.stages.push(Some(stage));
        self.keep(slot, later);
    }

    fn keep(&mut self, slot: usize, later: Vec<(u64, Due)>) {
        for (at, due) in later {
            self.order += 1;
            self.later.push(Reverse((at, self.order, slot, Order(due))));
        }
    }

    /// Sleeps until a socket has something or something is due, but not longer than `until`.
    fn wait(&self, until: u64, buffer: &mut Vec<epoll::Event>) -> io::Result<()> {
        let until = self
            .later
            .peek()
            .map_or(until, |Reverse((at, ..))| until.min(*at));
        // Zero would switch the timer off.
        let left = Duration::from_nanos(until.saturating_sub(self.now()).max(1));
        let value = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        timerfd_settime(
            &self.timer,
            TimerfdTimerFlags::empty(),
            &Itimerspec {
                it_interval: once,
                it_value: value,
            },
        )?;
        buffer.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(buffer), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn sockets(&mut self, events: &[epoll::Event]) {
        for event in events {
            let token = event.data.u64();
            if token == TIMER {
                continue;
            }
            let (slot, line) = ((token >> 16) as usize, (token & PUBLISHER as u64) as usize);
            let flags = event.flags;
            let can_write = flags.contains(epoll::EventFlags::OUT);
            self.with(slot, |stage, around| stage.ready(line, can_write, around));
        }
    }

    fn times(&mut self) {
        // What is due by now; what comes due meanwhile has its turn after the sockets.
        let now = self.now();
        while let Some(Reverse((_, _, slot, Order(due)))) = self.later.pop_if_due(now) {
            self.with(slot, |stage, around| stage.due(due, around));
        }
    }

    fn with(&mut self, slot: usize, does: impl FnOnce(&mut Stage, &mut Around<'_>)) {
        let now = self.now();
        let mut later = Vec::new();
        if let Some(Some(stage)) = self.stages.get_mut(slot) {
            does(
                stage,
                &mut Around {
                    epoll: &self.epoll,
                    later: &mut later,
                    now,
                },
            );
        }
        self.keep(slot, later);
    }
}

/// Pops what a heap holds if its time has come.
trait PopIfDue {
    fn pop_if_due(&mut self, now: u64) -> Option<Later>;
}

impl PopIfDue for BinaryHeap<Later> {
    fn pop_if_due(&mut self, now: u64) -> Option<Later> {
        match self.peek() {
            Some(Reverse((at, ..))) if *at <= now => self.pop(),
            _ => None,
        }
    }
}

const SECOND: u64 = 1_000_000_000;
/// Between the starts of two cells.
const START_GAP_MAX: f64 = 80e6;
/// How often is looked whether another cell may start.
const START_GAP_MIN: u64 = 5_000_000;
/// The token of the timer, beyond those of lines.
const TIMER: u64 = u64::MAX;
