//! What a message that is being spread comes from, and the one place that decides whether its acknowledgement waits.
//!
//! A publish is answered when everything that follows from it is safe: copies for sessions, queues and groups, last
//! values, what bindings redirect, dead letters of queues that do not keep it, and what is mailed to other shards for any
//! of these. So the decision is taken when all of that was persisted or sent, by whether anything was (decision 0026).

use crate::Kernel;
use crate::effects::{Effects, Safety};
use crate::ids::SessionId;
use crate::journal::durable::Held;
use crate::publish::pipeline::Draft;
use crate::routes::cached::Route;
use thalweg_model::{Message, Reliability};
use thalweg_records::Record;

/// What a message that is being spread comes from. It travels with everything that follows from the message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cause {
    /// The session that publishes it, if that is here.
    pub publisher: Option<SessionId>,
    /// The number of the publisher's session, wherever that is; 0 if there is none.
    pub number: u64,
    /// How safe all that follows must be before the acknowledgement leaves.
    pub safety: Safety,
    /// The publisher will not repeat it, so a loss between two shards would be final: it stands in a transfer queue
    /// while it is under way.
    pub must_arrive: bool,
    /// The question under which other shards are asked whether they keep it; 0 if there is none.
    pub question: u64,
}

impl Kernel {
    /// The cause of what a session of this shard publishes, or the broker itself.
    #[inline]
    pub(crate) fn cause_of(
        &self,
        publisher: Option<SessionId>,
        route: &Route,
        draft: &Draft<'_>,
    ) -> Cause {
        self.cause_from(publisher, self.number_of(publisher), route, draft)
    }

    /// The number of a publisher's session; 0 for the broker itself.
    #[inline]
    pub(crate) fn number_of(&self, publisher: Option<SessionId>) -> u64 {
        publisher
            .and_then(|id| self.sessions.get(id))
            .map_or(0, |session| session.uid())
    }

    /// The same as [`Kernel::cause_of`], where the number of the publisher's session is known.
    #[inline]
    pub(crate) fn cause_from(
        &self,
        publisher: Option<SessionId>,
        number: u64,
        route: &Route,
        draft: &Draft<'_>,
    ) -> Cause {
        Cause {
            publisher,
            number,
            safety: self.asked_safety(publisher, route, draft),
            must_arrive: self.must_arrive(publisher, draft),
            question: match publisher {
                Some(_) if draft.reliability > Reliability::AtMostOnce => {
                    self.sessions.crowd.question()
                }
                _ => 0,
            },
        }
    }

    /// The cause of what another shard sends. Its publisher's acknowledgement waits for what is written down here, and not
    /// for shards that get something from here, unless they are asked about it, too ([`Kernel::on_stamped`]).
    pub(crate) fn cause_elsewhere(&self, message: &Message, safety: Safety) -> Cause {
        let must_arrive =
            self.env.limits().journal && message.reliability() > Reliability::AtMostOnce;
        Cause {
            publisher: None,
            number: message.publisher(),
            safety,
            must_arrive,
            question: 0,
        }
    }

    /// Everything that follows from a publish was persisted or sent. If that is anything, `before` is not what
    /// [`Kernel::promises`] is now, and the acknowledgement waits.
    #[inline]
    pub(crate) fn await_all<E: Effects>(
        &mut self,
        cause: &Cause,
        reliability: Reliability,
        before: u64,
        fx: &mut E,
    ) {
        if reliability == Reliability::AtMostOnce || self.journal.promises() == before {
            return;
        }
        // Whatever was persisted for reasons of its own asked for less, perhaps.
        self.journal.demand(cause.safety);
        if cause.question != 0 && self.sessions.crowd.asked() > 0 {
            // It is not acknowledged before the batch is complete.
            return;
        }
        if let Some(id) = cause.publisher {
            self.hold(id, fx);
        }
    }

    /// What a session is sent from here on waits for what was persisted.
    #[inline]
    pub(crate) fn hold<E: Effects>(&mut self, id: SessionId, fx: &mut E) {
        if let Some(link) = self.sessions.link_of(id) {
            fx.hold(link, self.journal.awaited());
        }
    }

    /// What an exactly-once publish is written down with, so that its repetition is known.
    pub(crate) fn held_of(&self, cause: &Cause, draft: &Draft<'_>) -> Option<Held> {
        // A will has no ticket.
        if draft.ticket == 0 || draft.reliability != Reliability::ExactlyOnce {
            return None;
        }
        let session = cause
            .publisher
            .and_then(|id| self.sessions.get(id))
            .filter(|session| session.is_durable())?;
        Some((session.uid(), draft.ticket))
    }

    /// Writes that down alone.
    pub(crate) fn persist_held(&mut self, (queue, ticket): Held, safety: Safety) {
        self.journal.promise();
        self.journal
            .persist(&Record::Held { queue, ticket }, safety);
    }
}
