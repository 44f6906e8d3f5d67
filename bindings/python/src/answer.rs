//! What was waited for, on its way to Python.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use thalweg_client::{Message, Presence, Success};

use crate::subscription::{PresenceSubscription, Subscription};

/// What a [`crate::pending::Pending`] becomes.
pub enum Answer {
    /// Nothing more to say.
    Done,
    Truth(bool),
    /// What became of a message.
    Success(Success),
    /// A message, if there is one.
    Message(Option<Message>),
    /// A change, if there will be one.
    Presence(Option<Presence>),
    /// Events, in order; none if there will be no more.
    Events(Option<Vec<thalweg_client::Event>>),
    /// A subscription that stands.
    Subscription(Subscription),
    /// One to who comes and goes.
    PresenceSubscription(PresenceSubscription),
}

impl Answer {
    /// As Python has it: messages as the fields of `thalweg.Message`, in order.
    pub fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Answer::Done => Ok(py.None()),
            Answer::Truth(truth) => truth.into_py_any(py),
            Answer::Success(success) => word(success).into_py_any(py),
            Answer::Events(events) => crate::events::into_python(py, events),
            Answer::Message(None) | Answer::Presence(None) => Ok(py.None()),
            Answer::Message(Some(message)) => fields(py, &message),
            Answer::Presence(Some(change)) => {
                let since = change
                    .since
                    .duration_since(std::time::UNIX_EPOCH)
                    .unwrap_or_default()
                    .as_secs_f64();
                let why = change.why.map(thalweg_client::Leaving::word);
                (
                    change.client_id,
                    change.online,
                    change.protocol,
                    since,
                    why,
                    change.claimed,
                )
                    .into_py_any(py)
            }
            Answer::Subscription(subscription) => subscription.into_py_any(py),
            Answer::PresenceSubscription(subscription) => subscription.into_py_any(py),
        }
    }
}

/// The value of `thalweg.Success`.
pub fn word(success: Success) -> &'static str {
    match success {
        Success::Pending => "pending",
        Success::Acknowledged => "acknowledged",
        Success::Failed => "failed",
        Success::Unknown => "unknown",
    }
}

fn fields(py: Python<'_>, message: &Message) -> PyResult<Py<PyAny>> {
    // The classes are Python's; they are looked up once per message, which costs less than the message itself.
    let reliability = py
        .import("thalweg._words")?
        .getattr("Reliability")?
        .call1((message.reliability() as u8,))?;
    let properties: Vec<(&str, &str)> = message.properties().collect();
    (
        message.topic(),
        PyBytes::new(py, message.payload()),
        reliability,
        message.is_last_value(),
        message.is_repeated(),
        message.content_type(),
        pyo3::types::PyTuple::new(py, properties)?,
        message.reply_to(),
        message.correlation().map(|bytes| PyBytes::new(py, bytes)),
    )
        .into_py_any(py)
}
