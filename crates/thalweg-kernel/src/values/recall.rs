//! Last values come into a queue that was just bound.

use crate::Kernel;
use crate::access::{Access, Permission};
use crate::effects::Effects;
use crate::ids::{QueueId, SessionId, ShardId};
use crate::publish::subject::Subject;
use crate::remote::shards::ShardMessage;
use crate::topology::{BindSpec, BindTo, ExchangeKind, filter_of, pattern_matches, predicate_of};
use crate::values::last_value::ScanCursor;
use crate::verdict::Refusal;
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_filter::Predicate;
use thalweg_model::{Filter, Message, Time};

/// Which last values are wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// A filter of the route table.
    filter: Box<str>,
    /// What is really wanted, if that is less.
    pattern: Option<Box<str>>,
    /// What the session that asked for them may have.
    access: Access,
    /// What they must say.
    predicate: Option<Arc<Predicate>>,
}

/// Last values that a queue here is still to be given.
pub(crate) struct Recalling {
    queue: QueueId,
    wanted: Wanted,
    cursor: ScanCursor,
}

/// How many of them go on by a step in one turn.
pub(crate) const STEPS_PER_TURN: usize = 4;

impl Recalling {
    pub(crate) fn new(queue: QueueId, wanted: Wanted) -> Self {
        Recalling {
            queue,
            wanted,
            cursor: ScanCursor::default(),
        }
    }

    pub(crate) fn is_of(&self, queue: QueueId, wanted: &Wanted) -> bool {
        self.queue == queue && self.wanted == *wanted
    }

    pub(crate) fn begin_again(&mut self) {
        self.cursor = ScanCursor::default();
    }
}

impl Kernel {
    /// Puts the last values of all addresses that a binding to a queue wants, and that the session may receive, into a queue, as if they were published now to
    /// that queue alone. A few come at once, the others in [`Kernel::work`], and those whose home is another shard when that
    /// has found them.
    pub fn recall<E: Effects>(
        &mut self,
        id: SessionId,
        spec: &BindSpec<'_>,
        now: Time,
        fx: &mut E,
    ) -> Result<(), Refusal> {
        let BindTo::Queue(queue) = spec.to else {
            return Err(Refusal::NoQueue);
        };
        let (exchange, key) = (spec.exchange, spec.key);
        let queue_id = self.queues.find(queue).ok_or(Refusal::NoQueue)?;
        self.may_configure_queue(id, queue_id)?;
        let (kind, _) = self.topology.kind_of(exchange).ok_or(Refusal::NoExchange)?;
        if kind == ExchangeKind::Headers {
            return Err(Refusal::Invalid(
                "an exchange that compares headers has no last values",
            ));
        }
        let (filter, pattern) = filter_of(exchange, kind, key);
        let session = self.sessions.get(id).ok_or(Refusal::Denied)?;
        if Filter::check(&filter).is_err()
            || !session.access().allows(Permission::Subscribe, &filter)
        {
            return Err(Refusal::Denied);
        }
        let wanted = Wanted {
            filter: filter.into(),
            pattern: pattern.map(Into::into),
            access: session.access().clone(),
            predicate: predicate_of(spec.arguments)?.map(Arc::new),
        };
        let recalls = self.queues.add_recall(queue_id, &wanted);
        let recalls = recalls.ok_or(Refusal::TooMany)?;
        self.tell_shards(|_| ShardMessage::Recall {
            queue: queue_id,
            wanted: wanted.clone(),
            cursor: ScanCursor::default(),
        });
        if recalls == 1 {
            self.work_on_recalls(1, now, fx);
        }
        self.end_command(now, fx);
        Ok(())
    }

    /// Goes on with what queues are still to be given.
    pub(crate) fn work_on_recalls<E: Effects>(&mut self, steps: usize, now: Time, fx: &mut E) {
        for _ in 0..steps {
            let Some(mut recalling) = self.queues.next_recall() else {
                return;
            };
            let queue_id = recalling.queue;
            if self.queues.get(queue_id).is_none() {
                continue;
            }
            let (found, done) = self.look_for(&recalling.wanted, &mut recalling.cursor, now);
            self.accept_last_values(queue_id, found, now, fx);
            if !done {
                self.queues.put_off_recall(recalling);
            }
        }
    }

    /// Some of this shard's last values, and whether they are the last.
    fn look_for(
        &self,
        wanted: &Wanted,
        cursor: &mut ScanCursor,
        now: Time,
    ) -> (Vec<Message>, bool) {
        let mut found = VecDeque::new();
        let done = self.look(&wanted.filter, cursor, now, &mut found);
        let is_meant = |message: &Message| {
            wanted
                .pattern
                .as_deref()
                .is_none_or(|it| pattern_matches(it, message.address()))
                && wanted.access.may_receive(message)
                && wanted
                    .predicate
                    .as_ref()
                    .is_none_or(|it| it.matches(&Subject::of_message(message, self.env.neutral())))
        };
        (found.into_iter().filter(is_meant).collect(), done)
    }

    fn accept_last_values<E: Effects>(
        &mut self,
        queue_id: QueueId,
        messages: Vec<Message>,
        now: Time,
        fx: &mut E,
    ) {
        for message in messages {
            self.accept(queue_id, &message, now, fx);
            if self.journal.has_references() {
                self.persist_kept(&message, self.env.limits().safety);
            }
        }
    }

    /// Another shard wants last values for a queue of its own.
    pub(crate) fn on_recall(
        &mut self,
        from: ShardId,
        queue: QueueId,
        wanted: Wanted,
        mut cursor: ScanCursor,
        now: Time,
    ) {
        let (messages, done) = self.look_for(&wanted, &mut cursor, now);
        let more = (!done).then(|| {
            Box::new(ShardMessage::Recall {
                queue,
                wanted,
                cursor,
            })
        });
        self.remote.send(
            from,
            ShardMessage::Recalled {
                queue,
                messages,
                more,
            },
        );
    }

    /// Another shard has found some.
    pub(crate) fn on_recalled<E: Effects>(
        &mut self,
        from: ShardId,
        queue_id: QueueId,
        messages: Vec<Message>,
        more: Option<Box<ShardMessage>>,
        now: Time,
        fx: &mut E,
    ) {
        if self.queues.get(queue_id).is_none() {
            return;
        }
        self.accept_last_values(queue_id, messages, now, fx);
        if let Some(more) = more {
            self.remote.send(from, *more);
        }
    }
}
