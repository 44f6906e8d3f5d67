//! The native part of the Python package `thalweg`: thalweg-client as Python's objects. Whatever waits, waits without
//! Python's lock; what Python code sees is in `python/thalweg`.
#![forbid(unsafe_code)]

mod answer;
mod bell;
mod client;
mod errors;
mod events;
mod pending;
mod process;
mod subscription;

use answer::Answer;
use pyo3::prelude::*;
use thalweg_client::ClientError;

#[pymodule]
mod _thalweg {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::bell::Bell;
    #[pymodule_export]
    use crate::client::Client;
    #[pymodule_export]
    use crate::errors::{BufferFull, Closed, Refused, ThalwegError, TimedOut};
    #[pymodule_export]
    use crate::events::EventQueue;
    #[pymodule_export]
    use crate::pending::Pending;
    #[pymodule_export]
    use crate::process::forked;
    #[pymodule_export]
    use crate::subscription::{PresenceSubscription, Subscription};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
