//! Threads of the server: spawning them, and what happens when one panics.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt;
use std::io::{self, Write as _};
use std::panic::{self, PanicHookInfo};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// A part of a running server that has failed for good; the process should end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFailure {
    /// The part: the journal, or a thread by its name.
    pub what: String,
    pub why: String,
}

impl fmt::Display for ServerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.what, self.why)
    }
}

/// Receives each failure, on the thread where it happened.
pub type OnFailure = Arc<dyn Fn(&ServerFailure) + Send + Sync>;

/// Exit code of a process that ended because one of its threads panicked: `EX_SOFTWARE` of `sysexits.h`.
pub const EXIT_PANICKED: u8 = 70;

/// From now on a panic in any thread of this process is logged, printed to standard error, and ends the process at once
/// with [`EXIT_PANICKED`]: nothing unwinds, no handler for the end of the process runs, and nothing is acknowledged by what
/// a dead thread has left behind. The next start recovers the journal, as after `kill -9`.
pub fn end_process_on_panic() {
    panic::set_hook(Box::new(|panic| {
        let line = in_words(panic);
        // Nothing can be done about errors here, and `eprintln!` would panic.
        let mut stderr = io::stderr();
        let _ = writeln!(stderr, "error: {line}");
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            let _ = writeln!(stderr, "{backtrace}");
        }
        tracing::error!("{line}");
        signal_hook::low_level::exit(EXIT_PANICKED.into());
    }));
}

/// One line: thread, place, message. The message may quote what a peer sent, so it is escaped and cut.
fn in_words(panic: &PanicHookInfo<'_>) -> String {
    let message: String = panic
        .payload_as_str()
        .unwrap_or("no message")
        .chars()
        .take(MESSAGE_CHARS_MAX)
        .collect();
    let place = panic
        .location()
        .map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    format!(
        "{} panicked at {place}: {message:?}; this is a bug in Thalweg, please report it; the process ends with exit code \
         {EXIT_PANICKED}, start it again",
        current()
    )
}

fn current() -> String {
    format!(
        "thread {}",
        thread::current().name().unwrap_or("without a name")
    )
}

/// Spawns a thread of the server. If it panics, `on_failure` is called on it.
pub(crate) fn spawn<T: Send + 'static>(
    name: impl Into<String>,
    on_failure: &OnFailure,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let guard = PanicGuard::new(on_failure);
    thread::Builder::new().name(name.into()).spawn(move || {
        let _guard = guard;
        work()
    })
}

/// Reports the thread that drops it while unwinding. A callback that owns one reports threads that another crate spawns.
pub(crate) struct PanicGuard(OnFailure);

impl PanicGuard {
    pub(crate) fn new(on_failure: &OnFailure) -> PanicGuard {
        PanicGuard(on_failure.clone())
    }

    /// Reports a failure that is not a panic.
    pub(crate) fn report(&self, what: impl Into<String>, why: impl Into<String>) {
        (self.0)(&ServerFailure {
            what: what.into(),
            why: why.into(),
        });
    }
}

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if thread::panicking() {
            self.report(current(), "it panicked");
        }
    }
}

const MESSAGE_CHARS_MAX: usize = 1000;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::mpsc;

    /// A callback, and the failures that it received.
    pub(crate) fn failures() -> (OnFailure, mpsc::Receiver<ServerFailure>) {
        let (sender, receiver) = mpsc::channel();
        (
            Arc::new(move |failure: &ServerFailure| _ = sender.send(failure.clone())),
            receiver,
        )
    }

    #[test]
    fn a_thread_that_panics_is_reported_by_name_and_one_that_returns_is_not() {
        let (on_failure, failures) = failures();
        assert_eq!(
            spawn("returns", &on_failure, || 7)
                .expect("it starts")
                .join()
                .ok(),
            Some(7)
        );
        // `resume_unwind` unwinds like a panic, without its message in the test output.
        let panics = spawn("panics", &on_failure, || {
            panic::resume_unwind(Box::new("a bug"))
        })
        .expect("it starts");
        assert!(panics.join().is_err());
        let guard = PanicGuard::new(&on_failure);
        drop(on_failure);
        let callback = move || {
            let _owned = &guard;
            panic::resume_unwind(Box::new("a bug"))
        };
        let elsewhere = thread::Builder::new()
            .name("elsewhere".into())
            .spawn(callback)
            .expect("it starts");
        assert!(elsewhere.join().is_err());
        let names: Vec<String> = failures.iter().map(|failure| failure.to_string()).collect();
        assert_eq!(
            names,
            [
                "thread panics failed: it panicked",
                "thread elsewhere failed: it panicked"
            ]
        );
    }
}
