//! What is said while a run goes on: one line, and how long it still takes.

use std::io::IsTerminal;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// The bars of all runs of this process: `suite all` has several at a time.
static BARS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// Where a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct State {
    /// Trials over in this run.
    pub over: usize,
    pub all: usize,
    /// Over that do not count.
    pub invalid: usize,
    /// Seconds that what is not over takes as planned, one after the other.
    pub planned_left: f64,
    /// Seconds that what is over took as planned.
    pub planned_over: f64,
    /// Trials that may run at once.
    pub abreast: usize,
}

impl State {
    /// Seconds that are left, by how long the others took.
    pub fn left(&self, elapsed: Duration) -> f64 {
        let abreast = self.abreast.max(1) as f64;
        // Set-up, brokers that start slowly and drains that end early are in no plan: what is over tells. Trials that were
        // refused at once must not make the rest look short.
        let seen = if self.over >= 3 && self.planned_over > 0.0 {
            elapsed.as_secs_f64() / self.planned_over
        } else {
            1.1 / abreast
        };
        self.planned_left * seen.clamp(0.8 / abreast, 5.0)
    }

    pub fn words(&self, elapsed: Duration) -> String {
        let invalid = match self.invalid {
            0 => String::new(),
            count => format!(", {count} do not count"),
        };
        let left = if self.over < self.all {
            format!(", {} left", span(self.left(elapsed)))
        } else {
            String::new()
        };
        format!("{}/{} trials{invalid}{left}", self.over, self.all)
    }
}

/// `45 s`, `12 min`, `3.5 h`
pub fn span(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 90.0 => format!("{seconds:.0} s"),
        seconds if seconds < 5400.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.1} h", seconds / 3600.0),
    }
}

/// Says it: a bar on a terminal, a line a second elsewhere, nothing if asked to be quiet.
#[derive(Debug)]
pub struct Voice {
    /// Study or scenario: several may run at once.
    name: String,
    bar: Option<ProgressBar>,
    is_quiet: bool,
    begun: Instant,
    said: String,
}

impl Voice {
    /// For so many trials of something with a name.
    pub fn new(name: &str, all: usize, is_quiet: bool) -> Voice {
        let bar = (!is_quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = BARS.add(ProgressBar::new(all as u64));
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}") {
                bar.set_style(style);
            }
            bar
        });
        Voice {
            name: name.to_owned(),
            bar,
            is_quiet,
            begun: Instant::now(),
            said: String::new(),
        }
    }

    /// Where it is now; the same words are not said twice where there is no terminal.
    pub fn say(&mut self, state: &State) {
        let words = format!("{}: {}", self.name, state.words(self.begun.elapsed()));
        match &self.bar {
            Some(bar) => {
                bar.set_position(state.over as u64);
                bar.set_message(words);
            }
            None if !self.is_quiet && words != self.said => {
                eprintln!("{words}");
                self.said = words;
            }
            None => {}
        }
    }

    /// Something that does not wait for the end.
    pub fn tell(&self, words: &str) {
        match &self.bar {
            Some(bar) => bar.println(words),
            None if !self.is_quiet => eprintln!("{words}"),
            None => {}
        }
    }
}

impl Drop for Voice {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_what_was_seen() {
        let state = State {
            over: 10,
            all: 20,
            invalid: 1,
            planned_left: 100.0,
            planned_over: 50.0,
            abreast: 1,
        };
        assert!((state.left(Duration::from_secs(75)) - 150.0).abs() < 1e-9);
        assert_eq!(
            state.words(Duration::from_secs(75)),
            "10/20 trials, 1 do not count, 2 min left"
        );
        let new = State {
            over: 0,
            invalid: 0,
            ..state
        };
        assert!((new.left(Duration::ZERO) - 110.0).abs() < 1e-9);
        assert!(
            (state.left(Duration::from_secs(1)) - 80.0).abs() < 1e-9,
            "trials that were refused at once"
        );
        let beside = State {
            abreast: 40,
            ..state
        };
        assert!((beside.left(Duration::from_secs(5)) - 10.0).abs() < 1e-9);
        let end = State {
            over: 20,
            invalid: 0,
            ..state
        };
        assert_eq!(end.words(Duration::from_secs(75)), "20/20 trials");
        assert_eq!(
            (span(45.0), span(7200.0)),
            ("45 s".to_owned(), "2.0 h".to_owned())
        );
    }
}
