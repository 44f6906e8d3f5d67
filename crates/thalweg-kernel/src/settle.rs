//! A receiver says what became of a delivery, and room is made for the next.

use crate::Kernel;
use crate::effects::Effects;
use crate::ids::{SessionId, Tag};
use crate::session::{Entry, NO_GROUP};
use crate::window::{SlotState, Window};
use thalweg_model::{Reliability, Time};

/// What a receiver says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// It has the message; nothing more will be said about it.
    Settled,
    /// It has an exactly-once message and must be told that it will not be repeated.
    Received,
    /// It will not have it, and must not be asked again.
    Rejected,
}

/// Whether what a receiver said made sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It did.
    Known,
    /// There is no such delivery, or it is in another state.
    Unknown,
}

impl Kernel {
    /// Settles a delivery and sends what can follow it. For [`Settlement::Received`] the release is asked for through
    /// `fx`, repeated if the receiver repeats itself.
    pub fn settle<E: Effects>(&mut self, id: SessionId, tag: Tag, said: Settlement, now: Time, fx: &mut E) -> Settled {
        let Some(session) = self.sessions.get_mut(id) else { return Settled::Unknown };
        let Some(link) = session.link else { return Settled::Unknown };
        match said {
            Settlement::Received => {
                let Some(slot) = session.window.get_mut(tag) else { return Settled::Unknown };
                let entry = match &slot.state {
                    SlotState::ExpectSettle(entry) if entry.reliability == Reliability::ExactlyOnce => {
                        std::mem::replace(&mut slot.state, SlotState::ExpectReleased)
                    }
                    SlotState::ExpectReleased => SlotState::ExpectReleased,
                    _ => return Settled::Unknown,
                };
                fx.release(link, tag);
                if let SlotState::ExpectSettle(entry) = entry {
                    self.book_settled(id, &entry, true);
                }
                Settled::Known
            }
            Settlement::Settled | Settlement::Rejected => {
                if !may_settle(&mut session.window, tag, said) {
                    return Settled::Unknown;
                }
                let Some(slot) = session.window.remove(tag) else { return Settled::Unknown };
                if let SlotState::ExpectSettle(entry) = slot.state {
                    self.book_settled(id, &entry, said == Settlement::Settled);
                }
                self.repeat(id, now, fx);
                self.pump(id, now, fx);
                Settled::Known
            }
        }
    }

    fn book_settled(&mut self, id: SessionId, entry: &Entry, delivered: bool) {
        self.bytes_held = self.bytes_held.saturating_sub(entry.message.bytes());
        self.unsettled -= 1;
        // A rejected copy reached its receiver, too: the refusal is the receiver's own.
        self.ledger.delivered += 1;
        self.ledger.delivered_bytes += entry.message.payload().len() as u64;
        if let Some(session) = self.sessions.get_mut(id) {
            session.delivered += u64::from(delivered);
            if entry.group != NO_GROUP {
                session.group_in_flight = session.group_in_flight.saturating_sub(1);
            }
        }
    }

    /// Sends what waits for a session as far as credit and output allow: its own queue, then its groups', then last
    /// values it asked for.
    pub(crate) fn pump<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        loop {
            let Some(session) = self.sessions.get_mut(id) else { return };
            if session.link.is_none() || session.congested {
                return;
            }
            let has_credit = session.has_credit();
            match session.waiting.front() {
                None => break,
                Some(entry) if entry.reliability > Reliability::AtMostOnce && !has_credit => return,
                Some(_) => {}
            }
            let Some(entry) = session.waiting.pop_front() else { break };
            let bytes = entry.message.bytes();
            session.waiting_bytes -= bytes;
            self.waiting -= 1;
            self.bytes_held = self.bytes_held.saturating_sub(bytes);
            if entry.message.expires() <= now {
                self.ledger.expired += 1;
                continue;
            }
            self.send_entry(id, entry, now, fx);
        }
        let Some(session) = self.sessions.get_mut(id) else { return };
        if session.waiting.capacity() > 1024 {
            session.waiting.shrink_to(64);
        }
        if !session.groups.is_empty() {
            self.pump_groups(id, now, fx);
        }
        if self.sessions.get(id).is_some_and(|session| !session.scans.is_empty()) {
            self.run_scans(id, now, fx);
        }
    }

    /// Drops everything in a session's queue that has expired; for queues nobody reads.
    pub(crate) fn expire_waiting(&mut self, id: SessionId, now: Time) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let before = (session.waiting.len(), session.waiting_bytes);
        let bytes = &mut session.waiting_bytes;
        session.waiting.retain(|entry| {
            let keep = entry.message.expires() > now;
            if !keep {
                *bytes -= entry.message.bytes();
            }
            keep
        });
        let expired = before.0 - session.waiting.len();
        self.waiting -= expired;
        self.ledger.expired += expired as u64;
        self.bytes_held = self.bytes_held.saturating_sub(before.1 - session.waiting_bytes);
    }
}

/// Whether the slot is in a state that `said` ends.
fn may_settle(window: &mut Window, tag: Tag, said: Settlement) -> bool {
    let Some(slot) = window.get_mut(tag) else { return false };
    match &slot.state {
        SlotState::ExpectSettle(entry) => said == Settlement::Rejected || entry.reliability == Reliability::AtLeastOnce,
        SlotState::ExpectReleased | SlotState::Moved => true,
    }
}
