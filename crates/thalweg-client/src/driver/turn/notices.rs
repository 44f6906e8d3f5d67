//! Notices of the engine: to tickets, subscriptions, waiting handles, and the queue of events.

use thalweg_model::Time;

use super::{Driver, FAILURES_KEPT, place};
use crate::client::Failure;
use crate::engine::{Notice, Success};
use crate::events::Event;
use crate::ticket::{Ticket, lock};
use crate::transport::MessageId;

impl Driver {
    pub(super) fn note_failure(&mut self, id: MessageId, why: String) {
        let mut failures = lock(&self.shared.failures);
        if failures.len() >= FAILURES_KEPT {
            failures.pop_front();
        }
        failures.push_back(Failure {
            ticket: Ticket(id),
            why,
        });
    }

    pub(super) fn settle(&mut self, id: MessageId, success: Success, why: Option<String>) {
        let settle = || self.shared.tickets.settle(id, success);
        match success {
            // At once: what is reported as failed is not reported as stored, and who hears that it is not stored can ask why.
            Success::Failed => self.shared.stored.never(id, settle),
            _ => settle(),
        }
        self.shared.tickets.wake(id, success);
        match success {
            Success::Failed => self.shared.stored.wake(),
            Success::Acknowledged => self.shared.stored.acknowledged(id),
            Success::Pending | Success::Unknown => {}
        }
        if let Some(events) = &self.shared.events
            && (success == Success::Failed || events.wants_outcomes())
        {
            events.put(Event::Outcome {
                ticket: Ticket(id),
                success,
                why,
            });
        }
        for flush in self.flushes.iter_mut().filter(|flush| id <= flush.through) {
            flush.outstanding = flush.outstanding.saturating_sub(1);
        }
    }

    pub(super) fn tell(&mut self, notice: Notice, now: Time) {
        match notice {
            Notice::Settled { id, success, why } => {
                let why = why.map(|why| why.to_string());
                if let Some(why) = &why {
                    self.note_failure(id, why.clone());
                }
                self.settle(id, success, why);
            }
            Notice::Gone { first, last } => {
                (first..=last).for_each(|id| self.settle(id, Success::Unknown, None))
            }
            Notice::Stored { through } => self.shared.stored.reached(through),
            Notice::Room => self.is_full = false,
            Notice::Delivered {
                subscription,
                token,
                message,
            } => match self.subscriptions.get(&subscription) {
                Some(entry) => entry.mailbox.put(message, token),
                None => self.engine.settle(token, now),
            },
            Notice::Subscribed {
                subscription,
                outcome,
            } => {
                let Some(entry) = self.subscriptions.get_mut(&subscription) else {
                    return;
                };
                let reply = entry.reply.take();
                if let Err(refusal) = &outcome {
                    entry.mailbox.end(Some(refusal.to_string()));
                    if let Some(events) = &self.shared.events {
                        events.put(Event::SubscriptionRefused {
                            filter: std::mem::take(&mut entry.filter),
                            why: refusal.to_string(),
                        });
                    }
                    self.subscriptions.remove(&subscription);
                }
                if let Some(reply) = reply {
                    reply.send(outcome);
                }
            }
            Notice::Answered { request, answer } => {
                if let Some(reply) = self.questions.remove(&request) {
                    reply.send(answer);
                }
            }
            Notice::Up {
                lane,
                session_present,
            } => {
                self.up.insert(lane);
                if let Some(line) = self.lines.get_mut(lane) {
                    line.session_present = session_present;
                }
                self.tell_event(lane, |protocol, place| Event::Connected {
                    protocol,
                    place,
                    session_present,
                });
            }
            Notice::Down {
                lane,
                words: why,
                is_final,
            } => {
                let was_up = self.up.remove(&lane);
                self.tell_event(lane, |protocol, place| match was_up {
                    true => Event::Lost {
                        protocol,
                        place,
                        why,
                        is_final,
                    },
                    false => Event::NotReached {
                        protocol,
                        place,
                        why,
                        is_final,
                    },
                });
            }
            Notice::Left { lane } => {
                self.up.remove(&lane);
                self.tell_event(lane, |protocol, place| Event::Left { protocol, place });
            }
            Notice::Switched { from, to, .. } => {
                let from = from.and_then(|from| self.name_of(from));
                if let Some(from) = from {
                    self.tell_event(to, |protocol, place| Event::Moved {
                        from,
                        to: (protocol, place),
                    });
                }
            }
        }
    }

    /// Protocol and place of a lane.
    fn name_of(&self, lane: usize) -> Option<(&'static str, String)> {
        let status = self.engine.lane_status(lane)?;
        Some((status.protocol, place(status.endpoint)))
    }

    /// Reports an event of a lane if there is an event queue.
    fn tell_event(&self, lane: usize, event: impl FnOnce(&'static str, String) -> Event) {
        if let Some(events) = &self.shared.events
            && let Some((protocol, place)) = self.name_of(lane)
        {
            events.put(event(protocol, place));
        }
    }

    /// Tells when something is wrong with the disk, or something else than before, or nothing any more.
    pub(super) fn watch_buffer(&mut self) {
        let Some(events) = &self.shared.events else {
            return;
        };
        let trouble = self.engine.spool_trouble();
        if trouble != self.trouble {
            trouble.clone_into(&mut self.trouble);
            let trouble = trouble.to_owned();
            events.put(Event::Buffer { trouble });
        }
    }
}
