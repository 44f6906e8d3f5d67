//! Events of a client, for logs and for programs that react.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use crate::engine::Success;
use crate::ticket::{Ticket, lock};

/// One thing that happened to a client. [`fmt::Display`] writes it as a line for a log. No event holds a payload, a user name
/// or a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A broker accepted a connection.
    Connected {
        /// `mqtt`, `coap`, …
        protocol: &'static str,
        /// Host and port, or a path.
        place: String,
        /// The broker had kept our session.
        session_present: bool,
    },
    /// A connection ended, and the client did not end it. It is made again.
    Lost {
        /// `mqtt`, `coap`, …
        protocol: &'static str,
        /// Host and port, or a path.
        place: String,
        /// Why, in the words of the peer or the system.
        why: String,
        /// The broker does not want us as we are; the client tries again rarely.
        is_final: bool,
    },
    /// A connection could not be made. It is tried again.
    NotReached {
        /// `mqtt`, `coap`, …
        protocol: &'static str,
        /// Host and port, or a path.
        place: String,
        /// Why, in the words of the peer or the system.
        why: String,
        /// The broker does not want us as we are: a wrong password, an unknown version. The client tries again rarely.
        is_final: bool,
    },
    /// The client ended a connection: nothing needs it any more, or the client is being closed.
    Left {
        /// `mqtt`, `coap`, …
        protocol: &'static str,
        /// Host and port, or a path.
        place: String,
    },
    /// Messages are published by another protocol or broker from now on.
    Moved {
        /// Protocol and place before.
        from: (&'static str, String),
        /// Protocol and place now.
        to: (&'static str, String),
    },
    /// A message has its outcome. A failure is always told, the others to [`EventQueue::with_outcomes`].
    Outcome {
        /// The ticket that publishing returned.
        ticket: Ticket,
        /// Never [`Success::Pending`].
        success: Success,
        /// Why it failed, if it did.
        why: Option<String>,
    },
    /// A subscription was refused for good, at once or later on.
    SubscriptionRefused {
        /// The topic filter as it was subscribed.
        filter: String,
        /// The reason that the broker gave.
        why: String,
    },
    /// A subscription that was asked for by a multicast group is served by it from now on, or is an ordinary one.
    Multicast {
        /// Its description is at `$multicast/` and this.
        group: String,
        /// The topic filter as it was subscribed.
        filter: String,
        /// Why it is an ordinary one; empty if the group serves it.
        why_not: String,
    },
    /// The buffer on disk is in trouble, or no longer.
    Buffer {
        /// The error; empty once the disk works again.
        trouble: String,
    },
    /// So many events were dropped here, because they were not taken in time.
    Dropped {
        /// Events dropped since the last one that was taken.
        count: u64,
    },
}

/// Severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For who looks for a fault.
    Debug,
    /// A connection was made or changed, as it usually is.
    Info,
    /// Something is lost or late; the client goes on by itself.
    Warning,
    /// Somebody has to do something.
    Error,
}

impl Event {
    /// Returns the severity of the event.
    pub fn level(&self) -> Level {
        match self {
            Event::Connected { .. } | Event::Moved { .. } => Level::Info,
            Event::Left { .. } => Level::Debug,
            Event::Lost { is_final, .. } | Event::NotReached { is_final, .. } => match is_final {
                true => Level::Error,
                false => Level::Warning,
            },
            Event::Outcome { success, .. } => match success {
                Success::Failed => Level::Warning,
                Success::Pending | Success::Acknowledged | Success::Unknown => Level::Debug,
            },
            Event::SubscriptionRefused { .. } | Event::Dropped { .. } => Level::Warning,
            Event::Buffer { trouble: why } | Event::Multicast { why_not: why, .. }
                if why.is_empty() =>
            {
                Level::Info
            }
            Event::Multicast { .. } => Level::Warning,
            Event::Buffer { .. } => Level::Error,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Connected {
                protocol,
                place,
                session_present,
            } => {
                let session = if *session_present {
                    ", which kept the session"
                } else {
                    ""
                };
                write!(f, "connected to {place} by {protocol}{session}")
            }
            Event::Lost {
                protocol,
                place,
                why,
                ..
            } => write!(f, "connection to {place} by {protocol} lost: {why}"),
            Event::NotReached {
                protocol,
                place,
                why,
                ..
            } => write!(f, "{place} is not reached by {protocol}: {why}"),
            Event::Left { protocol, place } => {
                write!(f, "connection to {place} by {protocol} closed")
            }
            Event::Moved { from, to } => write!(
                f,
                "publishing moved from {} at {} to {} at {}",
                from.0, from.1, to.0, to.1
            ),
            Event::Outcome {
                ticket,
                success,
                why,
            } => {
                let success = match success {
                    Success::Pending => "is pending",
                    Success::Acknowledged => "was acknowledged",
                    Success::Failed => "failed",
                    Success::Unknown => "has left, and its outcome is unknown",
                };
                write!(f, "message {} {success}", ticket.0)?;
                why.iter().try_for_each(|why| write!(f, ": {why}"))
            }
            Event::SubscriptionRefused { filter, why } => {
                write!(f, "subscription to {filter} refused: {why}")
            }
            Event::Multicast {
                group,
                filter,
                why_not,
            } => match why_not.is_empty() {
                true => write!(f, "subscription to {filter} by the multicast group {group}"),
                false => write!(
                    f,
                    "subscription to {filter} without the multicast group {group}: {why_not}"
                ),
            },
            Event::Buffer { trouble } if trouble.is_empty() => {
                write!(f, "buffer on disk: it works again")
            }
            Event::Buffer { trouble } => write!(f, "buffer on disk: {trouble}"),
            Event::Dropped { count } => write!(
                f,
                "{count} events were dropped: they are taken too slowly, or a callback blocks"
            ),
        }
    }
}

/// A queue of events, at most [`EventQueue::CAPACITY`]: then the oldest is dropped and counted. The client never waits
/// for the reader. Give it to [`ClientBuilder::events`](crate::ClientBuilder::events) and read from a clone, in one
/// place; threads that may block use [`blocking::wait`](crate::blocking::wait).
///
/// It ends when its client has ended, and does not keep it alive.
#[derive(Clone, Debug, Default)]
pub struct EventQueue {
    shared: Arc<Mutex<Waiting>>,
    wants_outcomes: bool,
}

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<Event>,
    dropped: u64,
    is_over: bool,
    waker: Option<Waker>,
}

impl EventQueue {
    /// Events that wait at most.
    pub const CAPACITY: usize = 65_536;

    /// A queue that is not told the outcome of every message, only failures.
    pub fn new() -> EventQueue {
        EventQueue::default()
    }

    /// Creates a queue that also gets the outcome of every message.
    pub fn with_outcomes() -> EventQueue {
        EventQueue {
            wants_outcomes: true,
            ..EventQueue::default()
        }
    }

    /// The next event; `None` when the client has ended.
    pub async fn next(&self) -> Option<Event> {
        std::future::poll_fn(|context| {
            let mut waiting = lock(&self.shared);
            if let Some(event) = waiting.take() {
                return Poll::Ready(Some(event));
            }
            if waiting.is_over {
                return Poll::Ready(None);
            }
            match &mut waiting.waker {
                Some(known) => known.clone_from(context.waker()),
                none => *none = Some(context.waker().clone()),
            }
            Poll::Pending
        })
        .await
    }

    /// The next event, if one waits.
    pub fn try_next(&self) -> Option<Event> {
        lock(&self.shared).take()
    }

    /// Whether successes are wanted, too.
    pub(crate) fn wants_outcomes(&self) -> bool {
        self.wants_outcomes
    }

    pub(crate) fn put(&self, event: Event) {
        let mut waiting = lock(&self.shared);
        if waiting.events.len() >= EventQueue::CAPACITY {
            waiting.events.pop_front();
            waiting.dropped += 1;
        }
        waiting.events.push_back(event);
        let waker = waiting.waker.take();
        drop(waiting);
        waker.into_iter().for_each(Waker::wake);
    }

    /// There will be no more.
    pub(crate) fn end(&self) {
        let mut waiting = lock(&self.shared);
        waiting.is_over = true;
        let waker = waiting.waker.take();
        drop(waiting);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Waiting {
    fn take(&mut self) -> Option<Event> {
        match std::mem::take(&mut self.dropped) {
            0 => self.events.pop_front(),
            count => Some(Event::Dropped { count }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(number: u64) -> Event {
        Event::Outcome {
            ticket: Ticket(number),
            success: Success::Acknowledged,
            why: None,
        }
    }

    #[test]
    fn a_queue_that_is_not_emptied_keeps_the_newest_and_counts_the_rest() {
        let queue = EventQueue::with_outcomes();
        let all = EventQueue::CAPACITY as u64 + 3;
        (0..all).for_each(|number| queue.put(outcome(number)));
        queue.end();
        assert_eq!(queue.try_next(), Some(Event::Dropped { count: 3 }));
        for number in 3..all {
            assert_eq!(
                crate::blocking::wait(queue.next()),
                Some(outcome(number)),
                "in order"
            );
        }
        assert_eq!(crate::blocking::wait(queue.next()), None);
    }

    #[test]
    fn who_waits_is_woken_by_an_event_and_by_the_end() {
        let queue = EventQueue::new();
        let other = queue.clone();
        let taker = std::thread::spawn(move || {
            let mut taken = Vec::new();
            while let Some(event) = crate::blocking::wait(other.next()) {
                taken.push(event);
            }
            taken
        });
        queue.put(outcome(1));
        queue.put(outcome(2));
        queue.end();
        assert_eq!(
            taker.join().expect("it does not panic"),
            [outcome(1), outcome(2)]
        );
    }

    #[test]
    fn every_event_is_a_line_and_has_a_level() {
        let lost = |is_final| Event::Lost {
            protocol: "mqtt",
            place: "broker:1883".to_owned(),
            why: "the peer closed it".to_owned(),
            is_final,
        };
        assert_eq!(
            lost(false).to_string(),
            "connection to broker:1883 by mqtt lost: the peer closed it"
        );
        assert_eq!(lost(false).level(), Level::Warning);
        assert_eq!(lost(true).level(), Level::Error);
        let failed = Event::Outcome {
            ticket: Ticket(7),
            success: Success::Failed,
            why: Some("it expired".to_owned()),
        };
        assert_eq!(failed.to_string(), "message 7 failed: it expired");
        assert_eq!(failed.level(), Level::Warning);
        assert_eq!(outcome(1).level(), Level::Debug);
    }
}
