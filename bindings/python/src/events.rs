//! What happens to a client, for the callbacks and the log of `python/thalweg/_events.py`.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use thalweg_client::{Event, Level, Success, blocking};

use crate::answer::{Answer, word};
use crate::pending::Pending;
use crate::process::Own;

/// Events that one call takes at most: callbacks get Python's lock in between anyway.
const TAKEN_MAX: usize = 1024;

/// Events of one client, in order. Python takes them; the client's own thread never waits for that.
#[pyclass(frozen)]
pub struct EventQueue(Own<thalweg_client::EventQueue>);

impl EventQueue {
    pub fn inner(&self) -> PyResult<&thalweg_client::EventQueue> {
        self.0.get()
    }
}

#[pymethods]
impl EventQueue {
    #[new]
    fn new(outcomes: bool) -> EventQueue {
        EventQueue(Own::new(match outcomes {
            true => thalweg_client::EventQueue::with_outcomes(),
            false => thalweg_client::EventQueue::new(),
        }))
    }

    /// Waits for events, without Python's lock and without waking up in between; `None`: the client has ended. Not for the
    /// main thread, as Ctrl-C is not heard.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let queue = self.0.get()?;
        let events = py.detach(|| blocking::wait(some(queue)));
        into_python(py, events)
    }

    /// The same for an event loop.
    fn next(&self) -> PyResult<Pending> {
        let queue = self.0.get()?.clone();
        Ok(Pending::new(async move {
            Ok(Answer::Events(some(&queue).await))
        }))
    }
}

/// Those that wait, or the next one.
async fn some(queue: &thalweg_client::EventQueue) -> Option<Vec<Event>> {
    let mut events = vec![queue.next().await?];
    while events.len() < TAKEN_MAX
        && let Some(event) = queue.try_next()
    {
        events.push(event);
    }
    Some(events)
}

/// Events as tuples: level, line for the log, kind, and what its callback is given.
pub fn into_python(py: Python<'_>, events: Option<Vec<Event>>) -> PyResult<Py<PyAny>> {
    let Some(events) = events else {
        return Ok(py.None());
    };
    let tuples: Vec<Py<PyAny>> = events
        .into_iter()
        .map(|event| {
            // As `logging` has them.
            let level = match event.level() {
                Level::Debug => 10,
                Level::Info => 20,
                Level::Warning => 30,
                Level::Error => 40,
            };
            let line = match &event {
                // Only failures of single messages are worth a line.
                Event::Outcome { success, .. } if *success != Success::Failed => String::new(),
                event => event.to_string(),
            };
            let (kind, given) = match event {
                Event::Connected {
                    protocol,
                    place,
                    session_present,
                } => (
                    "connected",
                    (protocol, place, session_present).into_py_any(py)?,
                ),
                Event::Lost {
                    protocol,
                    place,
                    why,
                    is_final,
                } => ("lost", (protocol, place, why, is_final).into_py_any(py)?),
                Event::Moved { from, to } => {
                    ("moved", (from.0, from.1, to.0, to.1).into_py_any(py)?)
                }
                Event::Outcome {
                    ticket,
                    success,
                    why,
                } => ("outcome", (ticket.0, word(success), why).into_py_any(py)?),
                Event::Multicast {
                    group,
                    filter,
                    why_not,
                } => ("multicast", (group, filter, why_not).into_py_any(py)?),
                _ => ("", py.None()),
            };
            (level, line, kind, given).into_py_any(py)
        })
        .collect::<PyResult<_>>()?;
    tuples.into_py_any(py)
}
