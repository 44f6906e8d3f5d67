//! What a queue gives up goes where its maker said, or nowhere.

use super::{Item, queue_address};
use crate::Kernel;
use crate::access::{Permission, is_brokers};
use crate::books::Delta;
use crate::effects::Effects;
use crate::ids::{GroupId, QueueId};
use crate::ledger::DropReason;
use crate::publish::cause::Cause;
use crate::publish::onward::moved;
use crate::publish::pipeline::Draft;
use crate::topology::{key_of, write_address};
use thalweg_model::{Death, DeathReason, Message, Properties, Reliability, RetainOp, Span, Time};

/// A message that a queue gave up, on its way to where such messages go.
pub(crate) struct GivenUp {
    message: Message,
    address: String,
    properties: Properties,
    original: Original,
}

impl GivenUp {
    /// Memory that it takes: the message, and what is said of its death beside it.
    pub(crate) fn bytes(&self) -> usize {
        self.message.bytes() + self.address.len() + self.properties.bytes()
    }

    /// The queue in whose entries in the journal it stands; 0 for none.
    pub(crate) fn stands_in(&self) -> u64 {
        match self.original {
            Original::Kept { queue, serial } if serial != 0 => queue,
            _ => 0,
        }
    }
}

/// Where a message stood before it became a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Original {
    /// Nowhere: it has just come, and its publisher waits for what becomes of it.
    New,
    /// In a queue, and if that is written down under this number and serial. It is forgotten there when the dead letter is
    /// written down where it goes, so that it is never in neither.
    Kept { queue: u64, serial: u64 },
}

impl Original {
    /// In a queue of that number; both are 0 if it is not written down.
    fn kept(queue: u64, serial: u64) -> Self {
        match queue == 0 || serial == 0 {
            true => Original::Kept {
                queue: 0,
                serial: 0,
            },
            false => Original::Kept { queue, serial },
        }
    }
}

/// A message that a queue or group does not keep, and why.
pub(crate) struct Dead {
    message: Message,
    why: DeathReason,
    original: Original,
}

impl Dead {
    /// One that stands nowhere else.
    pub(crate) fn new(message: Message, why: DeathReason) -> Self {
        Dead {
            message,
            why,
            original: Original::New,
        }
    }
}

impl Kernel {
    /// A queue does not keep an item any longer.
    pub(super) fn give_up(&mut self, queue_id: QueueId, item: Item, why: DeathReason, now: Time) {
        let address = item.message.address();
        match why {
            DeathReason::Expired => self.book_expired(None, address),
            DeathReason::DeliveryLimit => self.book_drop(None, address, DropReason::DeliveryLimit),
            DeathReason::Overflow | DeathReason::Rejected => {
                self.book_drop(None, address, DropReason::QueueFull)
            }
        }
        self.leave_to_die(queue_id, &item, why, now);
    }

    /// An item becomes a dead letter, or is forgotten at once if its queue has no place for those.
    pub(super) fn leave_to_die(
        &mut self,
        queue_id: QueueId,
        item: &Item,
        why: DeathReason,
        now: Time,
    ) {
        let journal = self.queue_number(queue_id);
        let dead = Dead {
            original: Original::kept(journal, item.serial),
            ..Dead::new(item.message.clone(), why)
        };
        if !self.note_dead_letter(queue_id, dead, now) {
            self.forget_item(journal, item, false);
        }
    }

    /// Notes a message for the end of the command; false if its queue has no place for those.
    pub(crate) fn note_dead_letter(&mut self, queue_id: QueueId, dead: Dead, now: Time) -> bool {
        let Some(queue) = self.queues.get(queue_id) else {
            return false;
        };
        let Some(dead_letter) = &queue.terms.limits.dead_letter else {
            return false;
        };
        if goes_round(&queue.terms.address, &dead) {
            return false;
        }
        let key = match &dead_letter.key {
            Some(key) => key.to_string(),
            None => key_of(dead.message.address()),
        };
        let mut address = String::new();
        match &*dead_letter.exchange {
            "" => {
                address = queue_address(tenant_of(&queue.terms.address), &key);
            }
            exchange => {
                // An exchange that is not there loses them, as everywhere.
                let Some((kind, _)) = self.topology.kind_of(exchange) else {
                    return false;
                };
                write_address(exchange, kind, &key, &mut address);
            }
        }
        if thalweg_model::Address::check(&address).is_err() {
            return false;
        }
        if !queue.terms.made_by.may(Permission::Publish, &address) {
            // A publish in the name of who said where it goes: the rules refuse it.
            self.books.own();
            self.books.refused();
            return false;
        }
        let from = queue.terms.address.clone();
        self.note_dead_letter_at(address, dead, &from, now);
        true
    }

    /// Notes a message for the end of the command that a group does not keep, of which `serial` is the name in the group's
    /// queue in the journal or 0. One that goes nowhere is forgotten at once.
    pub(crate) fn leave_group_to_die(
        &mut self,
        group_id: GroupId,
        message: Message,
        serial: u64,
        why: DeathReason,
        now: Time,
    ) {
        let dead = Dead {
            original: Original::kept(self.group_number(group_id), serial),
            ..Dead::new(message, why)
        };
        if !self.note_dead_letter_of_group(group_id, dead, now) {
            self.persist_group_removed(group_id, serial);
        }
    }

    /// The same of one that stands elsewhere; false if the group, or the queue it takes from, has no place for dead letters.
    pub(crate) fn note_dead_letter_of_group(
        &mut self,
        group_id: GroupId,
        dead: Dead,
        now: Time,
    ) -> bool {
        let Some(group) = self.groups.get(group_id) else {
            return false;
        };
        if let Some(queue) = group.feed() {
            return self.note_dead_letter(queue, dead, now);
        }
        let Some(address) = &group.policy().dead_letter else {
            return false;
        };
        let from = format!("$g/{}", group.key());
        if goes_round(&from, &dead) {
            return false;
        }
        let address = String::from(&**address);
        self.note_dead_letter_at(address, dead, &from, now);
        true
    }

    /// Notes a message for the end of the command that was in `from` and goes to `address`.
    fn note_dead_letter_at(&mut self, address: String, dead: Dead, from: &str, now: Time) {
        let Dead {
            message,
            why,
            original,
        } = dead;
        let mut properties = message.properties().cloned().unwrap_or_default();
        let details = properties.add_origin(message.address());
        let lifetime = message.expires();
        let lifetime_ms =
            (lifetime != Time::NEVER).then(|| lifetime.since(message.ingress()).millis());
        let known = details
            .deaths
            .iter()
            .position(|death| *death.queue == *from && death.reason == why);
        let mut death = match known {
            Some(at) => details.deaths.remove(at),
            None => Death {
                queue: from.into(),
                reason: why,
                count: 0,
                address: message.address().into(),
                first_secs: now.since(Time::ZERO).secs(),
                lifetime_ms,
            },
        };
        death.count += 1;
        details.deaths.insert(0, death);
        let given_up = GivenUp {
            message,
            address,
            properties,
            original,
        };
        match original {
            Original::New => self.agenda.bury(given_up),
            Original::Kept { .. } => {
                self.books.entered(Delta::memory(given_up.bytes()));
                self.agenda.bury_kept(given_up);
            }
        }
    }

    /// Publishes a dead letter that could wait, and removes the record under which it waited.
    pub(crate) fn bury_kept<E: Effects>(&mut self, given_up: GivenUp, now: Time, fx: &mut E) {
        self.books.left(Delta::memory(given_up.bytes()));
        let original = given_up.original;
        self.bury(given_up, now, fx);
        if let Original::Kept { queue, serial } = original
            && serial != 0
        {
            self.journal.forget(queue, serial, 0);
        }
    }

    /// A queue ends, and with it the records of its messages: its dead letters need not wait any longer. They are few
    /// ([`Agenda::can_end`](crate::agenda::Agenda::can_end)).
    pub(crate) fn bury_soon(&mut self, number: u64) {
        for mut given_up in self.agenda.take_kept_of(number) {
            self.books.left(Delta::memory(given_up.bytes()));
            given_up.original = Original::New;
            self.agenda.bury(given_up);
        }
    }

    /// Publishes a dead letter.
    pub(crate) fn bury<E: Effects>(&mut self, given_up: GivenUp, now: Time, fx: &mut E) {
        let GivenUp {
            message,
            address,
            properties,
            original,
        } = given_up;
        let died_of_age = properties
            .details
            .as_ref()
            .and_then(|details| details.deaths.first())
            .is_some_and(|death| death.reason == DeathReason::Expired);
        self.books.own();
        if is_brokers(&address) {
            // Clients may not publish there, and so neither may dead letters.
            self.books.unmatched();
            return;
        }
        // The expiry that it died of does not apply to the dead letter.
        let expires = match message.expires() {
            Time::NEVER => Time::NEVER,
            _ if died_of_age => Time::NEVER,
            expires => expires.max(now + Span::from_millis(1)),
        };
        let route = self.route(&address);
        let expires = route.expires(expires, now);
        let message = moved(
            &message,
            &address,
            Some(properties),
            (RetainOp::None, expires),
            now,
        );
        let draft = Draft::again(&message, now);
        let is_kept = !matches!(original, Original::Kept { serial: 0, .. });
        let must_arrive =
            is_kept && self.env.limits().journal && draft.reliability > Reliability::AtMostOnce;
        let cause = Cause {
            must_arrive,
            number: message.publisher(),
            ..self.cause_of(None, &route, &draft)
        };
        let before = self.journal.promises();
        // Where there is no room for a dead letter it is dropped: the publisher of this command has published another message.
        let crowd = self.sessions.crowd;
        self.sessions.crowd.begin(0);
        self.spread_message(&cause, &route, &draft, Some(message.clone()), now, fx);
        self.sessions.crowd.resume(crowd);
        if self.env.limits().journal {
            self.await_all(&cause, draft.reliability, before, fx);
        }
    }
}

/// Whether a message has come back to where it was without a receiver's decision: it would go round for ever.
fn goes_round(place: &str, dead: &Dead) -> bool {
    let details = dead
        .message
        .properties()
        .and_then(|properties| properties.details.as_deref());
    let deaths = details.map_or(&[][..], |details| &details.deaths);
    let is_decided = |death: &Death| death.reason == DeathReason::Rejected;
    // The latest is first: what has happened since it was here last.
    let last = deaths.iter().position(|death| *death.queue == *place);
    dead.why != DeathReason::Rejected
        && last.is_some_and(|last| !deaths.iter().take(last + 1).any(is_decided))
}

/// The tenant whose queue an address names; the default tenant's name is empty.
pub(super) fn tenant_of(queue: &str) -> &str {
    queue
        .split('/')
        .next()
        .and_then(|first| first.split_once('@'))
        .map_or("", |(_, tenant)| tenant)
}
