//! What must not be lost between two shards although its publisher will not have it spread again.
//!
//! An exactly-once message is written down with its publisher's number for it, and from then on a repetition is not
//! routed again. If another shard is to get the message, too, and the process ends before that shard has written it
//! down, it would never arrive there. So it also stands in a queue of the sender's, a *transfer queue*; the receiver
//! takes it out in the same batch in which it writes the message down for its own queues. What is left in transfer
//! queues is brought to its receivers when a new process takes up. The same is true of wills, which are not repeated.
//!
//! In the journal a transfer queue is a group without a name whose filter says whereto.

use crate::Kernel;
use crate::effects::{Effects, Safety};
use crate::ids::{SessionId, ShardId};
use crate::journal::durable::Pending;
use crate::publish::cause::Cause;
use crate::publish::pipeline::Draft;
use crate::remote::shards::ShardMessage;
use crate::timers::TimerKey;
use smallvec::SmallVec;
use thalweg_model::{Message, Reliability, RetainOp, Time};
use thalweg_records::StoredGroup;

/// Names an entry that another queue has until the receiver has written the message down: number and serial, 0 for none.
pub(crate) type From = (u64, u64);

/// An entry in a queue of the journal; nothing of one that is not written down.
pub(crate) fn entry_in(queue: u64, serial: u64) -> From {
    if serial == 0 { (0, 0) } else { (queue, serial) }
}

/// What tells sessions by their homes: those whose home is a certain shard when there are so many, for each of these.
pub(crate) type Homes = SmallVec<[(u16, u16); 1]>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// Sessions; the last of their homes is the shard that has them.
    Sessions(Homes),
    /// The home of the address's last value.
    LastValue,
}

impl Destination {
    /// The sessions of one shard of so many.
    pub(crate) fn sessions_of(shard: u16, shards: u16) -> Self {
        Destination::Sessions(SmallVec::from_buf([(shard, shards)]))
    }

    /// How it stands in the journal.
    fn filter(&self) -> Box<str> {
        match self {
            Destination::Sessions(homes) => {
                let homes: String = homes
                    .iter()
                    .map(|(shard, shards)| format!("/{shard}/{shards}"))
                    .collect();
                format!("sessions{homes}").into()
            }
            Destination::LastValue => "last-value".into(),
        }
    }

    /// Whereto a group's entries are under way; nothing if it is an ordinary group.
    pub(crate) fn of(group: &StoredGroup) -> Option<Self> {
        if !group.name.is_empty() {
            return None;
        }
        let Some(homes) = group.filter.strip_prefix("sessions/") else {
            return Some(Destination::LastValue);
        };
        let numbers: Vec<u16> = homes
            .split('/')
            .filter_map(|number| number.parse().ok())
            .collect();
        let (pairs, _) = numbers.as_chunks();
        let homes = pairs
            .iter()
            .map(|[shard, shards]| (*shard, *shards))
            .collect();
        Some(Destination::Sessions(homes))
    }

    /// The shard of now `shards` that brings what is left there.
    pub(crate) fn bringer(&self, shards: u16) -> u16 {
        match self {
            Destination::Sessions(homes) => homes
                .last()
                .filter(|(_, before)| *before == shards)
                .map_or(0, |(shard, _)| *shard),
            Destination::LastValue => 0,
        }
    }
}

/// What an earlier run left in transfer queues.
pub(crate) enum LeftInTransfer {
    /// A message on its way, and its entry.
    Message(Destination, From, Message),
    /// That was all of one queue.
    End(Destination, u64),
}

/// How many of them are brought on in one call.
const BROUGHT_PER_CALL: usize = 256;

impl Kernel {
    /// Whether what a publish sends to other shards must stand in a transfer queue meanwhile.
    pub(crate) fn must_arrive(&self, publisher: Option<SessionId>, draft: &Draft<'_>) -> bool {
        if !self.env.limits().journal {
            return false;
        }
        // A message without a ticket is a will.
        let nobody_repeats = draft.reliability == Reliability::ExactlyOnce
            || (draft.reliability == Reliability::AtLeastOnce && draft.ticket == 0);
        // A repeated stamp is acknowledged as taken.
        let is_stamped = draft.stamp.is_some() && draft.reliability > Reliability::AtMostOnce;
        is_stamped
            || nobody_repeats
                && publisher
                    .and_then(|id| self.sessions.get(id))
                    .is_some_and(|session| session.is_durable())
    }

    /// Notes that the message being spread is under way; written down with it.
    pub(crate) fn refer_transfer(&mut self, to: Destination, reliability: Reliability) -> From {
        let known = self.remote.transfer_to(&to);
        let number = known.unwrap_or_else(|| {
            let number = self.journal.next_number();
            self.journal
                .write_group(number, "", &to.filter(), Safety::Lazy);
            self.remote.add_transfer(to, number);
            number
        });
        let serial = self.journal.next_serial();
        self.journal
            .refer(Pending::new(number, serial, reliability, 0));
        (number, serial)
    }

    /// The message of a mail is written down, or will not be: the sender's queue need not keep it.
    pub(crate) fn took_over(&mut self, from: From) {
        self.journal.remove(from.0, from.1, Safety::Lazy);
    }

    /// Takes up what an earlier run left in a transfer queue. It goes on when all shards know what the others want.
    pub(crate) fn restore_transfer(
        &mut self,
        number: u64,
        stored: StoredGroup,
        read: &mut dyn FnMut(u64, u32) -> Option<Message>,
        now: Time,
    ) {
        let Some(to) = Destination::of(&stored) else {
            return;
        };
        for entry in stored.waiting {
            let from = (number, entry.serial);
            match read(entry.place, entry.len) {
                Some(message) => {
                    self.remote
                        .push_left(LeftInTransfer::Message(to.clone(), from, message))
                }
                None => self.took_over(from),
            }
        }
        self.remote.push_left(LeftInTransfer::End(to, number));
        self.agenda.set_timer(now, TimerKey::LeftInTransfer);
    }

    /// The timer of [`Kernel::restore_transfer`]: brings some of what was left to where it was going.
    pub(crate) fn bring_what_was_left<E: Effects>(&mut self, now: Time, fx: &mut E) {
        for _ in 0..BROUGHT_PER_CALL {
            match self.remote.pop_left() {
                Some(LeftInTransfer::Message(to, from, message)) => {
                    self.bring(&to, from, message, now, fx)
                }
                // What is mailed is taken out of it when it is written down there.
                Some(LeftInTransfer::End(to, number)) if self.is_all_here(&to) => {
                    self.journal.end_group(number, Safety::Lazy);
                }
                Some(LeftInTransfer::End(..)) => {}
                None => return,
            }
        }
        self.agenda.set_timer_soon(now, TimerKey::LeftInTransfer);
    }

    fn is_all_here(&self, to: &Destination) -> bool {
        matches!(to, Destination::Sessions(_)) || self.env.shards() == 1
    }

    fn bring<E: Effects>(
        &mut self,
        to: &Destination,
        from: From,
        message: Message,
        now: Time,
        fx: &mut E,
    ) {
        match to {
            Destination::Sessions(homes)
                if homes.last() == Some(&(self.env.shard().0, self.env.shards())) =>
            {
                let only = &homes[..homes.len() - 1];
                self.on_publish(
                    self.no_asking_shard(),
                    &message,
                    Safety::Lazy,
                    only,
                    now,
                    fx,
                );
                self.took_over(from);
            }
            Destination::Sessions(homes) => self.transfer_to_all(&message, homes, from, now, fx),
            Destination::LastValue => {
                let home = crate::home(message.address(), self.env.shards());
                if home == self.env.shard() {
                    self.on_retain(message, Safety::Lazy, from);
                } else {
                    self.remote.send(
                        home,
                        ShardMessage::Retain {
                            message,
                            safety: Safety::Lazy,
                            from,
                        },
                    );
                }
            }
        }
    }

    /// The number of shards has changed, and the sessions that a message was meant for have other homes now: each shard
    /// gets it for those of them that it has. All of that is one record, so that it happens wholly or not at all.
    fn transfer_to_all<E: Effects>(
        &mut self,
        message: &Message,
        homes: &Homes,
        from: From,
        now: Time,
        fx: &mut E,
    ) {
        let mut mails = Vec::new();
        let own = self.env.shard().0;
        for shard in (0..self.env.shards()).filter(|shard| *shard != own) {
            let mut to = homes.clone();
            to.push((shard, self.env.shards()));
            let from = self.refer_transfer(Destination::Sessions(to), message.reliability());
            mails.push((ShardId(shard), from));
        }
        self.on_publish(
            self.no_asking_shard(),
            message,
            Safety::Lazy,
            homes,
            now,
            fx,
        );
        self.took_over(from);
        for (shard, from) in mails {
            let (message, only) = (message.clone(), Some(homes.as_slice().into()));
            self.remote.send(
                shard,
                ShardMessage::Publish {
                    message,
                    safety: Safety::Lazy,
                    from,
                    only,
                    question: 0,
                },
            );
        }
    }

    /// Hands a last value to its home on another shard.
    pub(crate) fn send_last_value_home(&mut self, home: ShardId, message: Message, cause: &Cause) {
        debug_assert!(message.retain() != RetainOp::None);
        self.journal.promise();
        let safety = cause.safety;
        let from = match cause.must_arrive {
            true => self.refer_transfer(Destination::LastValue, message.reliability()),
            false => (0, 0),
        };
        self.remote.send(
            home,
            ShardMessage::Retain {
                message,
                safety,
                from,
            },
        );
    }
}
