//! Publishes that carry a stamp: a repetition is answered as the first time, and the message is routed once (decision
//! 0022).
//!
//! What is known of publishers is on the shard of queues, whatever shard they publish on: there every stamped publish is
//! looked up and spread. Other shards check what they must (rights, limits) and send it there, and its acknowledgement
//! waits until it is as safe there as it has to be.

use crate::Kernel;
use crate::effects::{Effects, Safety};
use crate::ids::{SessionId, ShardId, Ticket};
use crate::publish::asked::AskingShard;
use crate::publish::cause::Cause;
use crate::publish::crowd::Fate;
use crate::publish::draft::Admission;
use crate::publish::pipeline::{Draft, Outcome, Published};
use crate::remote::shards::ShardMessage;
use crate::routes::cached::Route;
use std::sync::Arc;
use thalweg_model::{Message, Reliability, Stamp, Time};
use thalweg_records::{Known, Record, Sequences};

/// A stamped publish on its way to the shard that knows its publisher.
#[derive(Debug)]
pub struct StampedPublish {
    message: Message,
    stamp: Stamp,
    /// The publisher's user, empty if it did not say who it is.
    user: Arc<str>,
    /// How safe it must be before the acknowledgement leaves.
    safety: Safety,
    /// The sender's number for its question whether anything keeps it; 0 if it does not ask.
    question: u64,
}

impl StampedPublish {
    pub(crate) fn message(&self) -> &Message {
        &self.message
    }

    pub(crate) fn question(&self) -> u64 {
        self.question
    }

    pub(crate) fn bytes(&self) -> usize {
        self.message.bytes() + size_of::<Self>()
    }
}

impl Kernel {
    /// A publisher's stamp could not be read; the message is one without.
    pub fn note_damaged_stamp(&mut self) {
        self.books.damaged_stamp();
    }

    /// A stamp of a session's peer as the receivers of its message are to see it: a number that only this broker could
    /// make of the publisher's, so that no receiver can publish under it.
    pub fn mask_stamp(&self, id: SessionId, stamp: Stamp) -> Stamp {
        let session = self.sessions.get(id);
        let user = session.and_then(|session| session.user().map(|user| &**user));
        self.dedup.mask(user.unwrap_or_default(), stamp)
    }

    /// Publishes with a stamp: once.
    #[cold]
    #[inline(never)]
    pub(crate) fn publish_stamped<E: Effects>(
        &mut self,
        id: SessionId,
        (draft, admission): (&Draft<'_>, Admission),
        stamp: Stamp,
        now: Time,
        fx: &mut E,
    ) -> Published {
        if !self.has_queues() {
            return self.publish_by_owner(id, (draft, admission), stamp, now, fx);
        }
        self.publish_once(id, draft, stamp, now, fx, |kernel, draft, fx| {
            kernel.publish_now(id, draft, admission, now, fx)
        })
    }

    /// The same to several addresses.
    #[cold]
    pub(crate) fn publish_stamped_to_all<E: Effects>(
        &mut self,
        id: SessionId,
        (draft, admission): (&Draft<'_>, Admission),
        others: &[String],
        stamp: Stamp,
        now: Time,
        fx: &mut E,
    ) -> Published {
        self.publish_once(id, draft, stamp, now, fx, |kernel, draft, fx| {
            kernel.publish_to_all_now(id, (draft, admission), others, now, fx)
        })
    }

    /// Publishes by `publish`, unless the message was taken already.
    fn publish_once<E: Effects>(
        &mut self,
        id: SessionId,
        draft: &Draft<'_>,
        stamp: Stamp,
        now: Time,
        fx: &mut E,
        publish: impl FnOnce(&mut Self, &Draft<'_>, &mut E) -> Published,
    ) -> Published {
        let user = self.user_of(id);
        if let Some(published) = self.answer_repeated(id, &user, draft, stamp, now, fx) {
            return published;
        }
        let (before, reliability) = (self.journal.promises(), draft.reliability);
        let published = publish(self, draft, fx);
        self.took_stamp(&user, stamp, published.outcome, before, now);
        if published.outcome == Outcome::Asked {
            self.ask_of_stamp(&user, stamp);
        } else if self.journal.promises() != before {
            self.hold_for(id, reliability, fx);
        }
        published
    }

    fn user_of(&self, id: SessionId) -> Arc<str> {
        self.sessions
            .get(id)
            .and_then(|session| session.user().cloned())
            .unwrap_or_default()
    }

    /// Answers a publish that is repeated; `None` if it is not.
    fn answer_repeated<E: Effects>(
        &mut self,
        id: SessionId,
        user: &str,
        draft: &Draft<'_>,
        stamp: Stamp,
        now: Time,
        fx: &mut E,
    ) -> Option<Published> {
        let known = self.dedup.look(user, stamp);
        if known == Known::New {
            return None;
        }
        let session = self.sessions.get_mut(id)?;
        session.counts.note_received();
        let pause_until = session.connection.pause(draft.payload.len(), now);
        self.book_repeated(known, draft.payload.len());
        self.hold_ticket(id, draft);
        self.hold_for(id, draft.reliability, fx);
        Some(Published {
            outcome: self.outcome_of_stamp(id, ticket_of(draft), user, stamp),
            pause_until,
        })
    }

    fn book_repeated(&mut self, known: Known, bytes: usize) {
        self.books.received(bytes);
        self.books.repeated_stamp(known == Known::Outdated);
    }

    /// An exactly-once message that this shard does not spread is the publisher's all the same until it is released.
    fn hold_ticket(&mut self, id: SessionId, draft: &Draft<'_>) {
        if draft.reliability != Reliability::ExactlyOnce {
            return;
        }
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        if session.tickets.insert(draft.ticket) && session.is_durable() && self.env.limits().journal
        {
            let queue = session.uid();
            self.journal.persist(
                &Record::Held {
                    queue,
                    ticket: draft.ticket,
                },
                self.session_safety(id),
            );
        }
    }

    /// The acknowledgement does not leave before all that was written so far is safe: the first time may be only a moment
    /// ago.
    fn hold_for<E: Effects>(&mut self, id: SessionId, reliability: Reliability, fx: &mut E) {
        if self.env.limits().journal && reliability > Reliability::AtMostOnce {
            self.hold(id, fx);
        }
    }

    /// A message was spread, or refused; `before`: what [`Kernel::promises`] was before it.
    fn took_stamp(
        &mut self,
        user: &Arc<str>,
        stamp: Stamp,
        outcome: Outcome,
        before: u64,
        now: Time,
    ) {
        if outcome.is_refused() {
            // It may be sent again.
            return;
        }
        self.dedup.take(user, stamp, now);
        if self.journal.promises() != before {
            // Persisted with the message or not at all: no answer waits for this record alone.
            let record = Record::Stamped {
                user,
                publisher: stamp.publisher,
                sequence: stamp.sequence,
            };
            self.journal.persist(&record, Safety::Lazy);
        }
        self.forget_publishers(user, now);
    }

    fn forget_publishers(&mut self, user: &str, now: Time) {
        let (max, expiry) = (
            self.env.limits().publishers_max,
            self.env.limits().publisher_expiry,
        );
        while let Some((user, publisher)) = self.dedup.forget_one(user, max, expiry, now) {
            if self.env.limits().journal {
                self.journal.persist(
                    &Record::PublisherForgotten {
                        user: &user,
                        publisher,
                    },
                    Safety::Lazy,
                );
            }
        }
    }

    /// Publishes through the shard that knows the publisher.
    fn publish_by_owner<E: Effects>(
        &mut self,
        id: SessionId,
        (draft, admission): (&Draft<'_>, Admission),
        stamp: Stamp,
        now: Time,
        fx: &mut E,
    ) -> Published {
        let refused = |outcome| Published {
            outcome,
            pause_until: None,
        };
        if self.env.journal_full() && self.must_refuse(id, draft) {
            return refused(Outcome::Full);
        }
        let Some(session) = self.sessions.get_mut(id) else {
            return refused(Outcome::Denied);
        };
        session.counts.note_received();
        let pause_until = session.connection.pause(draft.payload.len(), now);
        let uid = session.uid();
        let exactly_once = draft.reliability == Reliability::ExactlyOnce;
        if exactly_once && session.tickets.contains(draft.ticket) {
            self.book_repeated(Known::Taken, draft.payload.len());
            self.hold_for(id, draft.reliability, fx);
            return Published {
                outcome: self.outcome_of_ticket(id, draft.ticket),
                pause_until,
            };
        }
        let route = match self.route_for(id, draft.address) {
            Ok(route) => route,
            Err(outcome) => {
                self.books.received(draft.payload.len());
                self.books.refused();
                return Published {
                    outcome,
                    pause_until,
                };
            }
        };
        if let Err(outcome) = self.admit(id, draft.address, &route, (draft, admission), now) {
            self.books.received(draft.payload.len());
            return Published {
                outcome,
                pause_until,
            };
        }
        let is_waited_for = draft.reliability > Reliability::AtMostOnce;
        let on_terms = self.on_terms(&route, draft);
        let draft = on_terms.as_ref().unwrap_or(draft);
        self.hold_ticket(id, draft);
        let safety = self.asked_safety(Some(id), &route, draft);
        let (message, user) = (draft.keep(uid, now), self.user_of(id));
        let is_wanted = route.wants_more_than_queues() || route.has_queues();
        let is_asked = is_wanted && is_waited_for;
        let publish = Box::new(StampedPublish {
            message,
            stamp,
            user,
            safety,
            question: match is_asked {
                true => self.remote.questions.next(),
                false => 0,
            },
        });
        self.send_to_queues(ShardMessage::PublishStamped(publish));
        if is_asked {
            self.journal.demand(safety);
            return Published {
                outcome: self.ask(id, ticket_of(draft), 1, Fate::Unwanted),
                pause_until,
            };
        }
        self.hold_for(id, draft.reliability, fx);
        Published {
            outcome: if is_wanted {
                Outcome::Accepted
            } else {
                Outcome::NoMatch
            },
            pause_until,
        }
    }

    /// A publish that another shard received.
    pub(crate) fn on_stamped<E: Effects>(
        &mut self,
        from: ShardId,
        publish: &StampedPublish,
        now: Time,
        fx: &mut E,
    ) {
        let StampedPublish {
            message,
            stamp,
            user,
            safety,
            question,
        } = publish;
        let asker = AskingShard::new(from, *question);
        let asks = *question != 0;
        let next = self.remote.questions.next();
        self.sessions.crowd.begin(if asks { next } else { 0 });
        let known = self.dedup.look(user, *stamp);
        if known != Known::New {
            if asks {
                self.repeat_for(asker, user, *stamp);
            }
            return self.book_repeated(known, message.payload().len());
        }
        self.books.received(message.payload().len());
        let before = self.journal.promises();
        let draft = Draft {
            stamp: Some(*stamp),
            ..Draft::again(message, now)
        };
        let route = self.route(message.address());
        // What its own listener asked for, and no less than is general here.
        let safety = self.asked_safety(None, &route, &draft).max(*safety);
        let cause = Cause {
            question: self.sessions.crowd.question(),
            ..self.cause_elsewhere(message, safety)
        };
        let outcome = self.spread_caused(&cause, &route, &draft, Some(message.clone()), now, fx);
        let outcome = match asks {
            true => self.answer_stamped(asker, &route, message, outcome),
            false => outcome,
        };
        self.took_stamp(user, *stamp, outcome, before, now);
        if outcome == Outcome::Asked {
            self.ask_of_stamp(user, *stamp);
        }
    }

    /// Says to the shard that asks what became of a stamped publish, or asks the shards that it was sent on to.
    fn answer_stamped(
        &mut self,
        asker: AskingShard,
        route: &Route,
        message: &Message,
        outcome: Outcome,
    ) -> Outcome {
        let own = self.own_receiver(message.publisher(), route);
        let fate = self.fate(route, own, message.retain(), route.groups().len());
        let is_rejected = outcome == Outcome::Refused;
        match self.answer_or_ask(asker, is_rejected, fate) {
            true => Outcome::Asked,
            false if outcome == Outcome::Accepted && fate == Fate::LeftOut => Outcome::Refused,
            false => outcome,
        }
    }

    /// Takes up what an earlier run knew.
    pub(crate) fn restore_publishers(&mut self, known: Vec<(Box<str>, u64, Sequences)>, now: Time) {
        for (user, publisher, sequences) in known {
            self.dedup.insert(&user.into(), publisher, sequences, now);
        }
    }
}

/// What an exactly-once message is held by; 0 of another.
pub(crate) fn ticket_of(draft: &Draft<'_>) -> Ticket {
    match draft.reliability {
        Reliability::ExactlyOnce => draft.ticket,
        _ => 0,
    }
}
