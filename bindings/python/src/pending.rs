//! Something that will be known later: waited for by a thread, or polled by an event loop.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::bell::Bell;
use crate::errors::{TimedOut, raised};
use crate::process::Own;
use crate::{Answer, ClientError};

type Coming = Pin<Box<dyn Future<Output = Result<Answer, ClientError>> + Send>>;

/// An answer that is on its way.
#[pyclass(frozen)]
pub struct Pending(Own<Mutex<Option<Coming>>>);

impl Pending {
    pub fn new(
        coming: impl Future<Output = Result<Answer, ClientError>> + Send + 'static,
    ) -> Pending {
        Pending(Own::new(Mutex::new(Some(Box::pin(coming)))))
    }

    fn coming(&self) -> PyResult<MutexGuard<'_, Option<Coming>>> {
        let coming = self.0.get()?;
        Ok(coming.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn look(&self, waker: &Waker) -> PyResult<Poll<Result<Answer, ClientError>>> {
        let mut coming = self.coming()?;
        let Some(future) = coming.as_mut() else {
            return Err(PyRuntimeError::new_err(
                "this was answered already, or given up",
            ));
        };
        let poll = future.as_mut().poll(&mut Context::from_waker(waker));
        if poll.is_ready() {
            *coming = None;
        }
        Ok(poll)
    }
}

#[pymethods]
impl Pending {
    /// Waits, without Python's lock; at most so many seconds. Ctrl-C is heard.
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        let until = match timeout {
            Some(seconds) => Instant::now().checked_add(
                Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX),
            ),
            None => None,
        };
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        loop {
            match py.detach(|| self.look(&waker))? {
                Poll::Ready(Ok(answer)) => return answer.into_python(py),
                Poll::Ready(Err(error)) => return Err(raised(&error)),
                Poll::Pending => {}
            }
            let left = until.map_or(GLANCE, |until| {
                until.saturating_duration_since(Instant::now()).min(GLANCE)
            });
            if left.is_zero() {
                *self.coming()? = None;
                let seconds = timeout.unwrap_or_default();
                return Err(TimedOut::new_err(format!("nothing after {seconds} s")));
            }
            py.detach(|| std::thread::park_timeout(left));
            py.check_signals()?;
        }
    }

    /// Looks; if it is not there yet, the bell rings for `number` when it is worth looking again.
    fn poll(&self, py: Python<'_>, bell: &Bell, number: u64) -> PyResult<(bool, Py<PyAny>)> {
        let waker = bell.waker(number);
        match py.detach(|| self.look(&waker))? {
            Poll::Ready(Ok(answer)) => Ok((true, answer.into_python(py)?)),
            Poll::Ready(Err(error)) => Err(raised(&error)),
            Poll::Pending => Ok((false, py.None())),
        }
    }

    /// Nobody wants to know any more.
    fn cancel(&self) -> PyResult<()> {
        *self.coming()? = None;
        Ok(())
    }
}

/// How long Ctrl-C may go unheard.
const GLANCE: Duration = Duration::from_millis(100);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
