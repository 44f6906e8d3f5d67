//! A run: cells are measured one by one, some side by side, and written as they end.
//!
//! *Knows:* threads, the folder of results. *Must never know:* what a trial does.
//!
//! ```text
//!  cells ──> pool ──> trial in a thread ──> Run ──> writer   stop (Ctrl-C): nothing begins any more, what runs ends
//! ```

pub mod pool;
pub mod progress;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cell::{Cell, Measured, Standing};
use crate::results::Writer;
use pool::{Room, drive};
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

/// Measures all cells that the folder does not have: those that have to be alone one after the other, then tiny ones side by
/// side. Trials that `stop` has cut short are not written: a resumed run measures them. Whatever was written before an error
/// stays. Returns whether it was stopped before its end.
pub fn run(
    cells: &[Cell],
    writer: &mut Writer,
    manner: Manner,
    stop: &AtomicBool,
    trial: &Trial<'_>,
) -> io::Result<bool> {
    let beside = Room::beside(manner.side_by_side);
    let name = cells.first().map_or("", |cell| cell.experiment.as_str());
    let (mut run, due) = Run::of(name, cells, writer, beside, manner.is_quiet, stop);
    let (tiny, alone): (Vec<Cell>, Vec<Cell>) = due
        .into_iter()
        .partition(|cell| manner.side_by_side > 1 && is_tiny(cell));
    for (cells, room) in [(alone, Room::ALONE), (tiny, beside)] {
        let measure = |cell: &Cell| trial(cell, stop);
        drive(&cells, room, stop, &measure, &mut |cell, measured| {
            run.take(cell, &measured)
        });
    }
    run.end()
}

/// So little load that others beside it do not see it, and a broker that starts without being seen.
fn is_tiny(cell: &Cell) -> bool {
    let light =
        ["thalweg", "mosquitto", "libcoap", "nats", "zmq-proxy"].contains(&cell.system.as_str());
    light && cell.rate().is_some_and(|rate| rate <= TINY_RATE_MAX)
}

/// What becomes of measured cells: they are written, counted and told.
pub struct Run<'r> {
    writer: &'r mut Writer,
    stop: &'r AtomicBool,
    voice: Voice,
    state: State,
    failure: Option<io::Error>,
}

impl<'r> Run<'r> {
    /// A run of those cells that the folder does not have, which are returned; the name is for whom it is told.
    pub fn of(
        name: &str,
        cells: &[Cell],
        writer: &'r mut Writer,
        room: Room,
        is_quiet: bool,
        stop: &'r AtomicBool,
    ) -> (Run<'r>, Vec<Cell>) {
        let due: Vec<Cell> = cells
            .iter()
            .filter(|cell| !writer.has(cell))
            .cloned()
            .collect();
        let state = State {
            all: due.len(),
            planned_left: due.iter().map(Cell::lasts).sum(),
            abreast: room.abreast,
            ..State::default()
        };
        let mut voice = Voice::new(name, due.len(), is_quiet);
        voice.say(&state);
        let run = Run {
            writer,
            stop,
            voice,
            state,
            failure: None,
        };
        (run, due)
    }

    /// Writes what was measured. Returns whether to go on.
    pub fn take(&mut self, cell: &Cell, measured: &Measured) -> bool {
        let standing = &measured.row.standing;
        let is_cut = self.stop.load(Ordering::Relaxed) && *standing != Standing::Valid;
        let written = match is_cut {
            true => self.writer.note(&format!("{} was interrupted", cell.key())),
            false => self.writer.write(cell, measured),
        };
        if let Err(error) = written {
            self.failure.get_or_insert(error);
            // Results of measurements that still run would not be used.
            self.stop.store(true, Ordering::Relaxed);
            return false;
        }
        if is_cut {
            return false;
        }
        let state = &mut self.state;
        state.over += 1;
        state.planned_over += cell.lasts();
        state.planned_left -= cell.lasts();
        if *standing != Standing::Valid {
            state.invalid += 1;
            if state.invalid <= COMPLAINTS_MAX {
                let words = format!("{}: {}: {}", cell.key(), standing.word(), standing.why());
                self.voice.tell(&words);
            }
        }
        self.voice.say(state);
        true
    }

    /// Whether it was stopped before its end, or what could not be written.
    pub fn end(self) -> io::Result<bool> {
        let is_cut = self.stop.load(Ordering::Relaxed) && self.state.over < self.state.all;
        self.failure.map_or(Ok(is_cut), Err)
    }
}

/// Becomes true with Ctrl-C and SIGTERM, which then end nothing by themselves, so that brokers and networks are removed.
pub fn stopper() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // It fails for signals that cannot be caught only.
        let _ = signal_hook::flag::register(signal, Arc::clone(&stop));
    }
    stop
}

/// Messages a second, in and out, of a tiny cell: a percent of a core.
const TINY_RATE_MAX: f64 = 200.0;
/// Trials that do not count are told one by one up to here; the report has all.
const COMPLAINTS_MAX: usize = 20;
