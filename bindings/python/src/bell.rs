//! Tells an event loop of Python's that something has happened: a number in a list, a byte in a pipe. Whoever rings never
//! waits for Python's lock, and never for a full pipe: one byte is enough for all numbers.

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use pyo3::prelude::*;

/// A bell that one event loop listens to.
#[pyclass(frozen)]
pub struct Bell {
    ear: Mutex<PipeReader>,
    rope: Arc<Rope>,
}

struct Rope {
    rung: Mutex<Rung>,
}

struct Rung {
    numbers: Vec<u64>,
    pipe: PipeWriter,
}

#[pymethods]
impl Bell {
    #[new]
    fn new() -> PyResult<Bell> {
        let (ear, pipe) = pipe()?;
        Ok(Bell {
            ear: Mutex::new(ear),
            rope: Arc::new(Rope {
                rung: Mutex::new(Rung {
                    numbers: Vec::new(),
                    pipe,
                }),
            }),
        })
    }

    /// Becomes readable when the bell rings.
    fn fileno(&self) -> i32 {
        self.ear
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_raw_fd()
    }

    /// What it rang for since the last call. To be called when `fileno()` is readable.
    fn take(&self) -> PyResult<Vec<u64>> {
        let mut rung = self
            .rope
            .rung
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !rung.numbers.is_empty() {
            // One byte was written when the first number came.
            self.ear
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .read_exact(&mut [0])?;
        }
        Ok(std::mem::take(&mut rung.numbers))
    }
}

impl Bell {
    /// Rings for a number.
    pub fn waker(&self, number: u64) -> Waker {
        Waker::from(Arc::new(Pull {
            rope: self.rope.clone(),
            number,
        }))
    }
}

struct Pull {
    rope: Arc<Rope>,
    number: u64,
}

impl Wake for Pull {
    fn wake(self: Arc<Self>) {
        let mut rung = self
            .rope
            .rung
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if rung.numbers.is_empty() {
            // A loop that has ended does not listen any more.
            let _ = rung.pipe.write_all(&[0]);
        }
        rung.numbers.push(self.number);
    }
}
