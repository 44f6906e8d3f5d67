//! Which trial may begin. No clock, no threads.

use std::collections::VecDeque;

use crate::cell::Cell;

/// Cells that wait and cells that are measured.
#[derive(Debug)]
pub struct Queue {
    alone: VecDeque<Cell>,
    beside: VecDeque<Cell>,
    running: Vec<Cell>,
    side_by_side: usize,
}

impl Queue {
    /// Cells in their order, of which so many tiny ones may be measured side by side. Those that have to be alone come first.
    pub fn new(cells: impl IntoIterator<Item = Cell>, side_by_side: usize) -> Queue {
        let (beside, alone) = cells
            .into_iter()
            .partition(|cell| side_by_side > 1 && is_tiny(cell));
        Queue {
            alone,
            beside,
            running: Vec::new(),
            side_by_side,
        }
    }

    /// The next one, if it may begin now: it runs then.
    pub fn begin(&mut self) -> Option<Cell> {
        let first = match self.alone.is_empty() {
            false if self.running.is_empty() => self.alone.pop_front(),
            false => None,
            true => {
                let rate = |cell: &Cell| cell.rate().unwrap_or(f64::INFINITY);
                let together: f64 = self.running.iter().map(rate).sum();
                let fits = |cell: &Cell| {
                    let room =
                        self.running.len() < self.side_by_side && together + rate(cell) <= RATE_MAX;
                    room && self.running.iter().all(|other| !meets(cell, other))
                };
                let at = self.beside.iter().position(fits)?;
                self.beside.remove(at)
            }
        }?;
        self.running.push(first.clone());
        Some(first)
    }

    pub fn ended(&mut self, cell: &Cell) {
        if let Some(at) = self
            .running
            .iter()
            .position(|other| other.key() == cell.key())
        {
            self.running.swap_remove(at);
        }
    }

    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Trials that have not begun.
    pub fn waiting(&self) -> usize {
        self.alone.len() + self.beside.len()
    }

    /// Seconds that what waits takes, as far as the phases say.
    pub fn seconds_left(&self) -> f64 {
        let sum = |cells: &VecDeque<Cell>| cells.iter().map(Cell::lasts).sum::<f64>();
        sum(&self.alone) + sum(&self.beside) / self.side_by_side.max(1) as f64
    }
}

/// So little load that others beside it do not see it, and a broker that starts without being seen.
fn is_tiny(cell: &Cell) -> bool {
    let light =
        ["thalweg", "mosquitto", "libcoap", "nats", "zmq-proxy"].contains(&cell.system.as_str());
    light && cell.rate().is_some_and(|rate| rate <= RATE_MAX / 2.0)
}

/// Whether two would disturb each other: they use one broker that was started outside the laboratory.
fn meets(one: &Cell, other: &Cell) -> bool {
    one.system == other.system && one.system.contains(':')
}

/// Messages a second, in and out, of all that are measured side by side: some percent of a core.
const RATE_MAX: f64 = 400.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Load;
    use crate::results::tests::cell;

    fn open(name: &str, rate: f64) -> Cell {
        Cell {
            load: Load::Open {
                rate,
                flows: 1,
                arrivals: "periodic".to_owned(),
            },
            ..cell(name, 0)
        }
    }

    #[test]
    fn tiny_ones_run_side_by_side_and_big_ones_alone() {
        let cells = [
            open("tiny1", 10.0),
            open("big", 5000.0),
            open("tiny2", 10.0),
            open("tiny3", 10.0),
        ];
        let flood = Cell {
            load: Load::Flood { flows: 1 },
            ..cell("flood", 0)
        };
        let mut queue = Queue::new(cells.into_iter().chain([flood]), 2);
        let name = |cell: Option<Cell>| cell.map(|cell| cell.axes["size"].clone());
        let big = queue.begin().expect("the first");
        assert_eq!((big.axes["size"].as_str(), queue.begin()), ("big", None));
        queue.ended(&big);
        let flood = queue.begin().expect("the second");
        assert_eq!(
            (flood.axes["size"].as_str(), queue.begin()),
            ("flood", None)
        );
        queue.ended(&flood);
        let first = queue.begin().expect("a tiny one");
        assert_eq!(
            (name(queue.begin()), name(queue.begin())),
            (Some("tiny2".to_owned()), None),
            "two at once"
        );
        queue.ended(&first);
        assert_eq!(
            (name(queue.begin()), queue.waiting(), queue.running()),
            (Some("tiny3".to_owned()), 0, 2)
        );
    }

    #[test]
    fn rates_add_up_to_a_bound() {
        let mut queue = Queue::new((0..9).map(|n| open(&n.to_string(), 75.0)), 8);
        // 75 in and 75 out each: two have 300, a third would have 450.
        let begun = std::iter::from_fn(|| queue.begin()).count();
        assert_eq!((begun, queue.waiting()), (2, 7));
        assert!((queue.seconds_left() - 7.0 * 5.0 / 8.0).abs() < 1e-9);
    }
}
