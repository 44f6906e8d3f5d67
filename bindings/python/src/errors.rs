//! What goes wrong, as Python's exceptions.

use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use crate::ClientError;

pyo3::create_exception!(
    thalweg,
    ThalwegError,
    PyException,
    "Something went wrong; the words say what."
);
pyo3::create_exception!(
    thalweg,
    BufferFull,
    ThalwegError,
    "As much waits here as may."
);
pyo3::create_exception!(
    thalweg,
    Refused,
    ThalwegError,
    "A broker said no, or no broker we know can do this."
);
pyo3::create_exception!(thalweg, TimedOut, ThalwegError, "It took too long.");
pyo3::create_exception!(thalweg, Closed, ThalwegError, "The client was closed.");

/// The exception for an error.
pub fn raised(error: &ClientError) -> PyErr {
    let words = error.to_string();
    match error {
        ClientError::Full | ClientError::TooLarge { .. } => BufferFull::new_err(words),
        ClientError::Refused(_) => Refused::new_err(words),
        ClientError::TimedOut => TimedOut::new_err(words),
        ClientError::Closed => Closed::new_err(words),
        _ => ThalwegError::new_err(words),
    }
}
