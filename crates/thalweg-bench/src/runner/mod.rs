//! A run: cells are measured one by one, tiny ones side by side, and written as they end.
//!
//! *Knows:* threads, signals, the folder of results. *Must never know:* what a trial does.
//!
//! ```text
//!  cells ──> queue ──> trial in a thread ──> writer          stop (Ctrl-C): nothing begins any more, what runs ends
//! ```

pub mod progress;
mod queue;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

pub use queue::Queue;

use crate::cell::{Cell, Measured, Standing};
use crate::results::Writer;
use progress::{State, Voice};

/// What measures: `trial::run`, or something that only pretends.
pub type Trial<'a> = dyn Fn(&Cell, &AtomicBool) -> Measured + Sync + 'a;

/// How a run goes.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Tiny cells at once; 1 is one after the other.
    pub side_by_side: usize,
    pub is_quiet: bool,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Trials that were there already.
    pub kept: usize,
    /// Trials that were measured now.
    pub measured: usize,
    /// Of these, trials that do not count.
    pub invalid: usize,
    /// Whether it was stopped before its end.
    pub is_interrupted: bool,
}

/// Measures all cells that the folder does not have. Trials that `stop` has cut short are not written: a resumed run measures
/// them. Whatever was written before an error stays.
pub fn run(
    cells: &[Cell],
    writer: &mut Writer,
    manner: Manner,
    stop: &AtomicBool,
    trial: &Trial<'_>,
) -> io::Result<Ended> {
    let left: Vec<Cell> = cells
        .iter()
        .filter(|cell| !writer.has(cell))
        .cloned()
        .collect();
    let mut ended = Ended {
        kept: cells.len() - left.len(),
        ..Ended::default()
    };
    let all = left.len();
    let mut queue = Queue::new(left, manner.side_by_side);
    let mut voice = Voice::new(all, manner.is_quiet);
    let (tell, told) = mpsc::channel::<(Cell, Measured)>();
    let whole = queue.seconds_left();
    // When what runs will be over, by the plan.
    let mut ends: HashMap<String, Instant> = HashMap::new();
    let result = thread::scope(|scope| {
        loop {
            while !stop.load(Ordering::Relaxed)
                && let Some(cell) = queue.begin()
            {
                let tell = tell.clone();
                ends.insert(
                    cell.key(),
                    Instant::now() + Duration::from_secs_f64(cell.lasts()),
                );
                scope.spawn(move || {
                    let measured = trial(&cell, stop);
                    // The receiver is gone only after an error that is reported.
                    let _ = tell.send((cell, measured));
                });
            }
            if queue.running() == 0 {
                return Ok(());
            }
            match told.recv_timeout(TICK) {
                Ok((cell, measured)) => {
                    queue.ended(&cell);
                    ends.remove(&cell.key());
                    if let Err(error) = take(&cell, &measured, writer, &mut ended, stop, &voice) {
                        // Results of measurements that still run would not be used.
                        stop.store(true, Ordering::Relaxed);
                        return Err(error);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                // We hold a sender ourselves.
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            let now = Instant::now();
            let running = ends
                .values()
                .map(|end| end.saturating_duration_since(now).as_secs_f64())
                .fold(0.0, f64::max);
            let waiting = queue.seconds_left();
            voice.say(&State {
                over: ended.measured,
                all,
                running: queue.running(),
                invalid: ended.invalid,
                waiting,
                planned_over: (whole - waiting - running).max(0.0),
                planned_running: running,
            });
        }
    });
    ended.is_interrupted =
        stop.load(Ordering::Relaxed) && ended.kept + ended.measured < cells.len();
    result.map(|()| ended)
}

fn take(
    cell: &Cell,
    measured: &Measured,
    writer: &mut Writer,
    ended: &mut Ended,
    stop: &AtomicBool,
    voice: &Voice,
) -> io::Result<()> {
    let standing = &measured.row.standing;
    if stop.load(Ordering::Relaxed) && *standing != Standing::Valid {
        return writer.note(&format!("{} was interrupted", cell.key()));
    }
    ended.measured += 1;
    if *standing != Standing::Valid {
        ended.invalid += 1;
        if ended.invalid <= COMPLAINTS_MAX {
            voice.tell(&format!(
                "{}: {}: {}",
                cell.key(),
                standing.word(),
                standing.why()
            ));
        }
    }
    writer.write(cell, measured)
}

/// Ctrl-C and SIGTERM, as long as it lives. A second Ctrl-C does nothing more: brokers and namespaces are cleared away first.
#[derive(Debug)]
pub struct Signals {
    stop: Arc<AtomicBool>,
    ids: Vec<signal_hook::SigId>,
}

impl Signals {
    /// Listens from now on.
    pub fn new() -> io::Result<Signals> {
        let stop = Arc::new(AtomicBool::new(false));
        let signals = [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];
        let ids = signals.map(|signal| signal_hook::flag::register(signal, Arc::clone(&stop)));
        Ok(Signals {
            stop,
            ids: ids.into_iter().collect::<io::Result<_>>()?,
        })
    }

    pub fn stop(&self) -> &AtomicBool {
        &self.stop
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}

/// How often something is said.
const TICK: Duration = Duration::from_secs(1);
/// Trials that do not count are told one by one up to here; the report has all.
const COMPLAINTS_MAX: usize = 20;
