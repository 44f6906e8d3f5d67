//! What the CoAP fronts of a shard have in common: what the kernel told them and they have not looked at yet, and the
//! session at whose desk topics and answers to `/rpc` arrive.

use super::desk::Desk;
use super::topics::TopicId;
use std::collections::VecDeque;
use thalweg_kernel::{Answer, Delivery, LinkId, Refusal, TakenId, Ticket, WatchEnd};
use thalweg_model::{Message, RetainOp, Time};

/// What the kernel told a front while its code, or somebody else's, was running.
pub(crate) enum Told {
    /// A last value that was asked for.
    Read {
        ticket: Ticket,
        value: Option<Message>,
    },
    /// Last values that were asked for.
    Listed {
        ticket: Ticket,
        values: Vec<Message>,
        complete: bool,
    },
    /// A watch is in force.
    WatchReady { cookie: u64, value: Option<Message> },
    /// A watch has ended.
    WatchEnded { cookie: u64, why: WatchEnd },
    /// A message of a queue that was asked for.
    Taken {
        ticket: Ticket,
        taken: Result<Option<(TakenId, Message)>, Refusal>,
    },
    /// A queue that was to be made is there, or is not.
    QueueMade {
        ticket: Ticket,
        made: Result<(), Refusal>,
    },
    /// An answer to a request that went out as a message. For the front that asked.
    Reply { call: u64, message: Message },
    /// A message for the desk.
    Desk { message: Message },
    /// Subscriptions are in force.
    Subscribed,
    /// A topic has more observers than it allows.
    Surplus(TopicId),
    /// A topic counts its observers, and those at its address were not counted before.
    Counts(TopicId),
    /// Batches have become safe.
    Safe,
    /// A batch was not kept, nor what waits for it.
    NotKept(u64),
    /// A session was ended.
    Disconnected,
    /// The output has room again.
    Room,
}

impl Told {
    pub(crate) fn answer(ticket: Ticket, answer: Answer<'_>) -> Self {
        match answer {
            Answer::Subscribed(_) | Answer::Unsubscribed(_) => Told::Subscribed,
            Answer::Value(value) => Told::Read {
                ticket,
                value: value.cloned(),
            },
            Answer::Values { values, complete } => Told::Listed {
                ticket,
                values,
                complete,
            },
            Answer::Taken(taken) => Told::Taken {
                ticket,
                taken: taken.map(|taken| taken.map(|taken| (taken.id, taken.message.clone()))),
            },
            Answer::QueueMade(made) => Told::QueueMade { ticket, made },
        }
    }
}

/// What all fronts are to be told, of a topic.
#[derive(Clone, Copy, Debug)]
pub(super) enum ForAll {
    Surplus(TopicId),
    Counts(TopicId),
}

/// Entries that a buffer keeps room for.
const BUFFER_KEPT: usize = 4096;

/// See the module.
#[derive(Default)]
pub(crate) struct Shared {
    /// What was told, and to whom.
    pub(super) inbox: VecDeque<(LinkId, Told)>,
    /// Watches in which something waits.
    pub(crate) changed: Vec<(LinkId, u64)>,
    /// The batch that the answer to the current command waits for.
    pub(crate) hold: Option<u64>,
    /// The last batch that is safe.
    pub(crate) completed: u64,
    /// One for each tenant.
    pub(super) desks: Vec<Desk>,
    /// What all fronts are to be told.
    pub(super) for_all: Vec<ForAll>,
    /// Before this time nobody tries again to delete topics that have ended: there was no room to write it down.
    pub(super) expire_from: Time,
}

impl Shared {
    pub(crate) fn tell(&mut self, link: LinkId, told: Told) {
        self.inbox.push_back((link, told));
    }

    /// Empty buffers are used again, unless a burst has made them large.
    pub(super) fn keep_buffers(
        &mut self,
        inbox: VecDeque<(LinkId, Told)>,
        changed: Vec<(LinkId, u64)>,
    ) {
        if self.inbox.is_empty() && inbox.capacity() <= BUFFER_KEPT {
            self.inbox = inbox;
        }
        if self.changed.is_empty() && changed.capacity() <= BUFFER_KEPT {
            self.changed = changed;
        }
    }

    /// A link is going: what it has not looked at.
    pub(super) fn forget(&mut self, link: LinkId) -> Vec<Told> {
        self.changed.retain(|(of, _)| *of != link);
        let (its, others) = std::mem::take(&mut self.inbox)
            .into_iter()
            .partition::<Vec<_>, _>(|(of, _)| *of == link);
        self.inbox = others.into();
        its.into_iter().map(|(_, told)| told).collect()
    }

    #[inline]
    pub(super) fn has_work(&self) -> bool {
        !self.inbox.is_empty() || !self.changed.is_empty() || !self.for_all.is_empty()
    }

    /// A delivery to the desk's own subscriptions.
    pub(crate) fn deliver(&mut self, link: LinkId, delivery: &Delivery<'_>) {
        let retain = if delivery.retain {
            RetainOp::Set
        } else {
            RetainOp::None
        };
        let message = Message::new(
            delivery.address,
            delivery.payload,
            delivery.reliability,
            retain,
            Time::NEVER,
            Time::ZERO,
            0,
            delivery.properties.cloned().map(Box::new),
        );
        self.tell(link, Told::Desk { message });
    }
}
