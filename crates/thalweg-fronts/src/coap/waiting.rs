//! Requests whose answer the kernel has not given yet, by the ticket under which it was asked.

use super::answer::Answer;
use super::representation::Representation;
use thalweg_coap::{ExchangeId, Options, option};
use thalweg_kernel::{Draft, Ticket};
use thalweg_model::{Properties, Reliability, RetainOp, Span, Stamp, Time};

/// What the answer to a publish waits for. Of two publishes' the greater is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hold {
    /// That this batch is safe.
    Batch(u64),
    /// What other shards say to this question.
    Question(u64),
}

/// What a question is about.
pub(super) enum Asked {
    /// Nothing is to be answered yet.
    Publish,
    /// A publish is answered by this, or refused.
    Answer(ExchangeId, Answer),
    /// A request that a receiver answers.
    Call(u64),
    /// It is decided, and the publish that it is about is to be answered later.
    Decided(bool),
}

/// What is to be done with the kernel's answer.
pub(super) enum Waiting {
    /// Its requester is gone.
    Nobody,
    /// It is the value that was asked for.
    Get { exchange: ExchangeId, ask: Ask },
    /// It says whether a publish, which has been done, was the first; its answer waits for that batch.
    Created {
        exchange: ExchangeId,
        batch: Option<Hold>,
        key: u64,
    },
    /// It decides whether a publish is done at all.
    Condition {
        exchange: ExchangeId,
        put: Box<KeptPut>,
    },
    /// It says whether there is a queue now to publish to.
    MakeQueue {
        exchange: ExchangeId,
        put: Box<KeptPut>,
    },
    /// They are the values that were asked for.
    List { exchange: ExchangeId, format: u16 },
    /// It is a message of a queue.
    Take { exchange: ExchangeId, identity: u32 },
}

/// A publish that waits.
pub(super) struct KeptPut {
    pub(super) identity: u32,
    /// What must be so.
    pub(super) condition: Option<Condition>,
    pub(super) address: Box<str>,
    pub(super) payload: Box<[u8]>,
    pub(super) reliability: Reliability,
    pub(super) retain: RetainOp,
    pub(super) expires_in: Option<Span>,
    pub(super) priority: u8,
    pub(super) properties: Option<Properties>,
    pub(super) stamp: Option<Stamp>,
}

impl KeptPut {
    pub(super) fn draft(&self) -> Draft<'_> {
        Draft {
            address: &self.address,
            payload: &self.payload,
            reliability: self.reliability,
            retain: self.retain,
            expires_in: self.expires_in,
            priority: self.priority,
            properties: self.properties.as_ref(),
            ticket: 0,
            native: None,
            stamp: self.stamp,
        }
    }
}

/// What a request that reads wants to see, and has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ask {
    /// The Content-Format it wants.
    accept: Option<u16>,
    /// Representations it has: those that can be ours.
    etags: [Option<[u8; 4]>; ETAGS_MAX],
    /// What a value is whose publisher did not say: its topic may.
    pub(super) format: Option<u16>,
}

/// How many ETags of a request are looked at: a client rarely caches more of one resource.
const ETAGS_MAX: usize = 4;

impl Ask {
    /// Reads a request for a value that is of `format` if its publisher did not say.
    pub(super) fn read(options: &Options<'_>, format: Option<u16>) -> Self {
        let mut ask = Ask {
            accept: accept(options),
            format,
            ..Ask::default()
        };
        let ours = options
            .all(option::ETAG)
            .filter_map(|etag| etag.try_into().ok());
        for (slot, etag) in ask.etags.iter_mut().zip(ours) {
            *slot = Some(etag);
        }
        ask
    }

    /// Whether it takes a value of that format. One whose publisher did not say what it is may be anything.
    pub(super) fn accepts(&self, format: Option<u16>) -> bool {
        self.accept
            .is_none_or(|accept| format.is_none_or(|format| format == accept))
    }

    /// Whether it has this representation already.
    pub(super) fn has(&self, representation: &Representation) -> bool {
        self.etags.contains(&Some(representation.etag))
    }
}

/// The Content-Format that a request wants.
pub(super) fn accept(options: &Options<'_>) -> Option<u16> {
    options
        .uint(option::ACCEPT)
        .and_then(|format| u16::try_from(format).ok())
}

/// What must be so for a request to be done. RFC 7252 §5.10.8
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// There is no value.
    Nothing,
    Something,
    /// It is one of these.
    OneOf(Vec<Box<[u8]>>),
}

impl Condition {
    /// The condition of a request, if it has one.
    pub(super) fn read(options: &Options<'_>) -> Option<Self> {
        if options.has(option::IF_NONE_MATCH) {
            return Some(Condition::Nothing);
        }
        if !options.has(option::IF_MATCH) {
            return None;
        }
        let tags: Vec<Box<[u8]>> = options.all(option::IF_MATCH).map(Into::into).collect();
        Some(if tags.iter().any(|tag| tag.is_empty()) {
            Condition::Something
        } else {
            Condition::OneOf(tags)
        })
    }

    /// Whether it is so.
    pub(super) fn holds(&self, value: Option<&Representation>) -> bool {
        match self {
            Condition::Nothing => value.is_none(),
            Condition::Something => value.is_some(),
            Condition::OneOf(tags) => {
                value.is_some_and(|value| tags.iter().any(|tag| **tag == value.etag))
            }
        }
    }
}

/// Longer than any machine lets a request wait.
pub(super) const WAITING_MAX: Span = Span::from_secs(600);

/// All of a link, by ticket.
#[derive(Default)]
pub(super) struct Waitings {
    slots: Vec<Option<(Waiting, Time)>>,
    free: Vec<Ticket>,
}

impl Waitings {
    /// Adds one; its ticket, or nothing if there is none left.
    pub(super) fn insert(&mut self, waiting: Waiting, now: Time) -> Option<Ticket> {
        let ticket = match self.free.pop() {
            Some(ticket) => ticket,
            None => {
                let ticket = Ticket::try_from(self.slots.len()).ok()?;
                self.slots.push(None);
                ticket
            }
        };
        *self.slots.get_mut(usize::from(ticket))? = Some((waiting, now));
        Some(ticket)
    }

    pub(super) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Waiting> {
        self.slots
            .get_mut(usize::from(ticket))?
            .as_mut()
            .map(|(waiting, _)| waiting)
    }

    /// The kernel has answered.
    pub(super) fn take(&mut self, ticket: Ticket) -> Option<Waiting> {
        let (waiting, _) = self.slots.get_mut(usize::from(ticket))?.take()?;
        self.free.push(ticket);
        Some(waiting)
    }

    /// The kernel's answer will be ignored.
    pub(super) fn forget(&mut self, ticket: Ticket) {
        if let Some(waiting) = self.get_mut(ticket) {
            *waiting = Waiting::Nobody;
        }
    }

    /// Removes requests that the kernel will not answer any more because their requester is gone.
    pub(super) fn sweep(&mut self, now: Time) {
        for (ticket, slot) in self.slots.iter_mut().enumerate() {
            if slot
                .as_ref()
                .is_some_and(|(_, since)| now.since(*since) > WAITING_MAX)
            {
                *slot = None;
                self.free.push(ticket as Ticket);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
