//! What a publisher hands in, and how it is answered.

use crate::effects::Native;
use crate::ids::Ticket;
use thalweg_model::{Message, Properties, Reliability, RetainOp, Span, Stamp, Time};

/// A message as its publisher's front sees it: borrowed, and copied only if a receiver must keep it.
pub struct Draft<'a> {
    /// The canonical address; the front has checked it.
    pub address: &'a str,
    pub payload: &'a [u8],
    /// The reliability that the publisher asks for.
    pub reliability: Reliability,
    /// What it does to the last value.
    pub retain: RetainOp,
    /// How long it is worth delivering.
    pub expires_in: Option<Span>,
    /// Higher goes first where a queue orders by it.
    pub priority: u8,
    pub properties: Option<&'a Properties>,
    /// The publisher's number for an exactly-once message; not routed twice until released.
    pub ticket: Ticket,
    pub native: Option<Native<'a>>,
    /// Names the publish for ever: a repetition is answered as the first was, and not routed again.
    pub stamp: Option<Stamp>,
}

impl<'a> Draft<'a> {
    /// A draft without anything that a message need not have.
    #[inline]
    pub fn new(address: &'a str, payload: &'a [u8], reliability: Reliability) -> Self {
        Draft {
            address,
            payload,
            reliability,
            retain: RetainOp::None,
            expires_in: None,
            priority: 0,
            properties: None,
            ticket: 0,
            native: None,
            stamp: None,
        }
    }
}

/// What became of a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The answer to the publisher.
    pub outcome: Outcome,
    /// If set, the publisher is over its rate: read nothing from it before this time.
    pub pause_until: Option<Time>,
}

/// The answer to a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Processed, and at least one receiver matched.
    Accepted,
    /// Processed; no receiver matched.
    NoMatch,
    /// The access rules do not allow it.
    Denied,
    /// The address is longer or deeper than it may be.
    BadAddress,
    /// It would have to be kept and there is no room; nothing has happened. The publisher may try again later.
    Full,
    /// A queue that refuses messages when it is full is full; other receivers may have got it.
    Refused,
    /// It is beyond the rate of its address, which the publisher is to be told; nothing has happened. There is room for it in
    /// so many seconds.
    OverRate(u32),
    /// Other shards are asked whether they keep it. [`Answer::Published`](crate::Answer::Published) will say whether it is
    /// accepted or refused, under the number [`Kernel::question`](crate::Kernel::question), and nothing is acknowledged
    /// before.
    Asked,
}

/// Whether a rate can keep a message out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// As its route says.
    ByRate,
    /// It is part of a whole that is taken: its publisher waits afterwards.
    Certain,
}

impl Outcome {
    /// Whether it was not taken.
    pub(crate) fn is_refused(self) -> bool {
        match self {
            Outcome::Accepted | Outcome::NoMatch | Outcome::Asked => false,
            Outcome::Denied
            | Outcome::BadAddress
            | Outcome::Full
            | Outcome::Refused
            | Outcome::OverRate(_) => true,
        }
    }
}

impl Draft<'_> {
    /// The addresses under which it was published before its present one; nearly always none.
    pub(crate) fn origins(&self) -> &[Box<str>] {
        self.properties
            .and_then(|properties| properties.details.as_deref())
            .map_or(&[], |details| &details.origins)
    }

    /// In a form that can be kept.
    pub(crate) fn keep(&self, publisher: u64, now: Time) -> Message {
        let message = Message::new(
            self.address,
            self.payload,
            self.reliability,
            self.retain,
            self.expires_in.map_or(Time::NEVER, |span| now + span),
            now,
            publisher,
            self.properties.cloned().map(Box::new),
        );
        if self.priority > 0 {
            message.with_priority(self.priority)
        } else {
            message
        }
    }
}
