//! What a queue gives up goes where its maker said, or nowhere.

use super::exchange::{key_of, write_address};
use super::{Item, queue_address};
use crate::Kernel;
use crate::effects::Effects;
use crate::ledger::DropReason;
use crate::publish::Draft;
use thalweg_model::presence::is_presence;
use thalweg_model::{Death, DeathReason, Message, Properties, RetainOp, Span, Time};

/// A message that a queue gave up, on its way to where such messages go.
pub(crate) struct GivenUp {
    message: Message,
    address: String,
    properties: Properties,
}

impl Kernel {
    /// A queue does not keep an item any longer.
    pub(super) fn give_up<E: Effects>(&mut self, index: u32, item: Item, why: DeathReason, now: Time, fx: &mut E) {
        let address = item.message.address();
        match why {
            DeathReason::Expired => self.book_expired(None, address),
            DeathReason::DeliveryLimit => self.book_drop(None, address, DropReason::DeliveryLimit),
            DeathReason::Overflow | DeathReason::Rejected => self.book_drop(None, address, DropReason::QueueFull),
        }
        self.note_dead_letter(index, item.message.clone(), why, now);
        let journal = self.queue(index).map_or(0, super::Queue::journal_number);
        self.forget_item(journal, &item, false, fx);
    }

    /// Notes a message for [`Kernel::bury`], if its queue has a place for those.
    pub(super) fn note_dead_letter(&mut self, index: u32, message: Message, why: DeathReason, now: Time) {
        let Some(queue) = self.queue(index) else { return };
        let Some(dead_letter) = &queue.limits.dead_letter else { return };
        let from = message.properties().and_then(|properties| properties.details.as_deref());
        let deaths = from.map_or(&[][..], |details| &details.deaths);
        // The latest is first: what has happened since it was here last.
        let round = deaths.iter().position(|death| *death.queue == *queue.address).map(|at| &deaths[..=at]);
        if why != DeathReason::Rejected
            && round.is_some_and(|round| round.iter().all(|death| death.reason != DeathReason::Rejected))
        {
            // Nobody's decision brings it here again and again: it would go round for ever.
            return;
        }
        let key = match &dead_letter.key {
            Some(key) => key.to_string(),
            None => key_of(message.address()),
        };
        let mut address = String::new();
        match &*dead_letter.exchange {
            "" => {
                address = queue_address(tenant_of(&queue.address), &key);
            }
            exchange => {
                // An exchange that is not there loses them, as everywhere.
                let Some((kind, _)) = self.exchange_kind(exchange) else { return };
                write_address(exchange, kind, &key, &mut address);
            }
        }
        if thalweg_model::Address::check(&address).is_err() {
            return;
        }
        let queue_address = Box::<str>::from(&*queue.address);
        let mut properties = message.properties().cloned().unwrap_or_default();
        let details = properties.details.get_or_insert_default();
        let lifetime = message.expires();
        let lifetime_ms = (lifetime != Time::NEVER).then(|| lifetime.since(message.ingress()).millis());
        let known = details.deaths.iter().position(|death| *death.queue == *queue_address && death.reason == why);
        let mut death = match known {
            Some(at) => details.deaths.remove(at),
            None => Death {
                queue: queue_address,
                reason: why,
                count: 0,
                address: message.address().into(),
                first_secs: now.since(Time::ZERO).secs(),
                lifetime_ms,
            },
        };
        death.count += 1;
        details.deaths.insert(0, death);
        self.dead_letters.push_back(GivenUp { message, address, properties });
    }

    /// Publishes what was given up. Not in the middle of another publish: two messages would mix in the journal.
    pub(super) fn bury<E: Effects>(&mut self, now: Time, fx: &mut E) {
        while let Some(GivenUp { message, address, properties }) = self.dead_letters.pop_front() {
            let died_of_age = properties
                .details
                .as_ref()
                .and_then(|details| details.deaths.first())
                .is_some_and(|death| death.reason == DeathReason::Expired);
            let draft = Draft {
                address: &address,
                retain: RetainOp::None,
                // Its life is over: where it is going it has another.
                expires_in: match message.expires() {
                    Time::NEVER => None,
                    _ if died_of_age => None,
                    expires => Some(expires.since(now).max(Span::from_millis(1))),
                },
                properties: Some(&properties),
                ..Draft::of(&message)
            };
            self.ledger.own += 1;
            if is_presence(&address) {
                // Nobody publishes there, not by dying either.
                self.ledger.unmatched += 1;
                continue;
            }
            let route = self.route(&address);
            self.spread_fully(None, &route, &draft, now, fx);
        }
    }
}

/// The tenant whose queue an address names; the default tenant's name is empty.
pub(super) fn tenant_of(queue: &str) -> &str {
    queue.split('/').next().and_then(|first| first.split_once('@')).map_or("", |(_, tenant)| tenant)
}
