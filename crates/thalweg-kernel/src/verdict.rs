//! What receivers say of messages, and why something was not done.

use std::fmt;

/// A receiver's verdict on a message, whether it came by subscription, queue or group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is done with.
    Accept,
    /// It is delivered again, maybe to the same consumer.
    Requeue,
    /// It is not delivered again: it becomes a dead letter, if the queue has a place for those.
    Reject,
}

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such queue.
    NoQueue,
    /// There is no such exchange.
    NoExchange,
    /// The access rules do not allow it.
    Denied,
    /// It belongs to another session.
    Locked,
    /// It has consumers or bindings, or a consumer has it alone.
    InUse,
    NotEmpty,
    /// It exists and is not what was declared; this differs.
    Differs(&'static str),
    /// Names like this one are the broker's own.
    Reserved,
    /// There are as many as there may be.
    TooMany,
    /// The command contradicts the state.
    Invalid(&'static str),
    /// There is no room to write it down.
    Full,
    /// There is no memory to keep it.
    Short,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoQueue => f.write_str("there is no such queue"),
            Refusal::NoExchange => f.write_str("there is no such exchange"),
            Refusal::Denied => f.write_str("the access rules do not allow it"),
            Refusal::Locked => f.write_str("it belongs to another connection"),
            Refusal::InUse => f.write_str("it is in use"),
            Refusal::NotEmpty => f.write_str("it is not empty"),
            Refusal::Differs(what) => write!(f, "it exists with another {what}"),
            Refusal::Reserved => f.write_str("such names are the broker's own"),
            Refusal::TooMany => f.write_str("there are as many as there may be"),
            Refusal::Invalid(why) => f.write_str(why),
            Refusal::Full => f.write_str("the journal is full"),
            Refusal::Short => f.write_str("memory is short"),
        }
    }
}
