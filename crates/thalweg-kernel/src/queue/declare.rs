//! Queues are made and ended.

use super::Queue;
use super::ending::Deleted;
use super::spec::{DeadLetter, QueueLimits, QueueSpec, QueueStatus, queue_address};
use super::terms::Terms;
use crate::Kernel;
use crate::access::{Access, Permission};
use crate::effects::Effects;
use crate::ids::{QueueId, SessionId};
use crate::memory::{Kept, queue_cost};
use crate::routes::cached::SinkKind;
use crate::timers::TimerKey;
use crate::topology::{MadeBy, subtree, write_address};
use crate::verdict::Refusal;
use thalweg_model::{Address, Time};

impl Kernel {
    /// Declares a queue; nothing changes if it is there already just so. Only where queues are: [`Kernel::has_queues`].
    pub fn declare_queue<E: Effects>(
        &mut self,
        id: SessionId,
        spec: &QueueSpec<'_>,
        now: Time,
        fx: &mut E,
    ) -> Result<QueueStatus, Refusal> {
        if !self.has_queues() {
            return Err(Refusal::Invalid("this is not the shard of queues"));
        }
        if let Some(queue_id) = self.queues.find(spec.address) {
            self.may_use_queue(id, queue_id)?;
            let queue = self.queues.get_mut(queue_id).ok_or(Refusal::NoQueue)?;
            if let Some(what) = queue.terms.difference(spec) {
                return Err(Refusal::Differs(what));
            }
            queue.use_again(now);
            let status = QueueStatus {
                existed: true,
                ..queue.status()
            };
            self.declare_queue_anew(id, queue_id, fx);
            return Ok(status);
        }
        if !super::is_queue_address(spec.address) || Address::check(spec.address).is_err() {
            return Err(Refusal::Invalid("no queue can have this name"));
        }
        let session = self.sessions.get(id).ok_or(Refusal::Denied)?;
        // A queue whose name the broker made up takes no other client's name.
        let is_free = spec.exclusive && spec.is_named_by_broker;
        if !is_free && !session.access().may_configure(spec.address) {
            return Err(Refusal::Denied);
        }
        if let Some(dead_letter) = &spec.limits.dead_letter
            && !self.may_bury(session.access(), dead_letter, spec.address)
        {
            return Err(Refusal::Denied);
        }
        if self.queues.count() >= self.env.limits().queues_max {
            return Err(Refusal::TooMany);
        }
        if !self.may_keep(0, queue_cost(spec.address)) {
            return Err(Refusal::Short);
        }
        let (link, made_by) = (session.link(), MadeBy::session(session));
        // What ends with its link is not worth writing down.
        let durable = spec.durable && !spec.exclusive;
        if durable && self.env.journal_full() {
            return Err(Refusal::Full);
        }
        let owner = spec.exclusive.then_some(id);
        let terms = Terms {
            durable,
            auto_delete: spec.auto_delete,
            owner,
            limits: spec.limits.clone(),
            ..Terms::plain(spec.address, self.journal.next_number())
        };
        let queue_id = self.add_queue(terms, now);
        self.set_queues_maker(queue_id, made_by);
        if durable && self.env.limits().journal {
            let safety = self.session_safety(id);
            self.persist_queue(queue_id, safety);
            if let Some(link) = link {
                fx.hold(link, self.journal.awaited());
            }
        }
        if owner.is_some()
            && let Some(lines) = self.lines_mut(id)
        {
            lines.own(queue_id);
        }
        if let Some(idle) = spec.limits.idle_expiry {
            self.agenda
                .set_timer(now + idle, TimerKey::QueueIdle(queue_id));
        }
        Ok(QueueStatus {
            existed: false,
            messages: 0,
            consumers: 0,
        })
    }

    /// A session declares a queue again. If the queue's maker may not publish where its dead letters go any more and this
    /// session may, the session is its maker from now on.
    fn declare_queue_anew<E: Effects>(&mut self, id: SessionId, queue_id: QueueId, fx: &mut E) {
        let (Some(queue), Some(session)) = (self.queues.get(queue_id), self.sessions.get(id))
        else {
            return;
        };
        let (Some(dead_letter), Some(known)) = (
            &queue.terms.limits.dead_letter,
            queue.terms.made_by.access(),
        ) else {
            return;
        };
        let may = |access: &Access| self.may_bury(access, dead_letter, &queue.terms.address);
        if may(known) || !may(session.access()) || self.may_configure_queue(id, queue_id).is_err() {
            return;
        }
        let (link, made_by, number) = (
            session.link(),
            MadeBy::session(session),
            queue.journal_number(),
        );
        self.set_queues_maker(queue_id, made_by);
        if number != 0 {
            let safety = self.session_safety(id);
            self.persist_queue(queue_id, safety);
            link.into_iter()
                .for_each(|link| fx.hold(link, self.journal.awaited()));
        }
    }

    /// Whose rights decide where the dead letters of a queue go, if they go anywhere.
    pub(super) fn set_queues_maker(&mut self, queue_id: QueueId, made_by: MadeBy) {
        let Some(queue) = self
            .queues
            .get_mut(queue_id)
            .filter(|queue| queue.terms.limits.dead_letter.is_some())
        else {
            return;
        };
        let entered = made_by.bytes();
        let left = std::mem::replace(&mut queue.terms.made_by, made_by).bytes();
        self.env.entered(Kept::Topology, entered);
        self.env.left(Kept::Topology, left);
    }

    pub(super) fn add_queue(&mut self, mut terms: Terms, now: Time) -> QueueId {
        if !(terms.durable && self.env.limits().journal) {
            terms.number = 0;
        }
        let address = terms.address.clone();
        let queue_id = self.queues.insert(Queue::new(terms, now));
        self.env.entered(Kept::Topology, queue_cost(&address));
        self.add_sink(&address, SinkKind::Queue, queue_id.index());
        self.link_groups_again(&address);
        queue_id
    }

    /// Messages and consumers of a queue.
    pub fn inspect_queue(&self, id: SessionId, address: &str) -> Result<QueueStatus, Refusal> {
        let queue_id = self.queues.find(address).ok_or(Refusal::NoQueue)?;
        self.may_use_queue(id, queue_id)?;
        self.queues
            .get(queue_id)
            .map(Queue::status)
            .ok_or(Refusal::NoQueue)
    }

    /// Whether a message of this session to this address would come to a subscriber, a member of a group or a queue with a
    /// consumer. Where the session may not publish, it would not.
    pub fn is_served(&mut self, id: SessionId, address: &str) -> bool {
        let Ok(route) = self.route_for(id, address) else {
            return false;
        };
        let has_consumers = |queue| {
            let status = self.queues.get(queue).map(Queue::status);
            status.is_some_and(|status| status.consumers > 0)
        };
        route.wants_more_than_queues() || route.queues().iter().copied().any(has_consumers)
    }

    /// Counts as a use of a queue that ends when it is not used: [`QueueLimits::idle_expiry`] starts anew.
    pub fn note_queue_use(&mut self, address: &str, now: Time) {
        if let Some(queue) = self
            .queues
            .find(address)
            .and_then(|queue_id| self.queues.get_mut(queue_id))
        {
            queue.use_again(now);
        }
    }

    /// The bounds and choices of a queue.
    pub fn queue_limits(&self, address: &str) -> Option<&QueueLimits> {
        self.queues
            .get(self.queues.find(address)?)
            .map(|queue| &queue.terms.limits)
    }

    /// Deletes a queue; how many messages went with it.
    pub fn delete_queue<E: Effects>(
        &mut self,
        id: SessionId,
        address: &str,
        if_unused: bool,
        if_empty: bool,
        now: Time,
        fx: &mut E,
    ) -> Result<Deleted, Refusal> {
        let queue_id = self.queues.find(address).ok_or(Refusal::NoQueue)?;
        self.may_configure_queue(id, queue_id)?;
        let queue = self.queues.get(queue_id).ok_or(Refusal::NoQueue)?;
        if if_unused && !queue.takers.is_empty() {
            return Err(Refusal::InUse);
        }
        if if_empty && !queue.backlog.is_empty() {
            return Err(Refusal::NotEmpty);
        }
        let messages = queue.backlog.len() as u64;
        if !self.agenda.can_end(queue.journal_number()) {
            self.bury_some(now, fx);
            self.end_command(now, fx);
            return Ok(Deleted::InPart);
        }
        if queue.is_durable() {
            self.hold(id, fx);
        }
        self.end_queue(queue_id, now, fx);
        self.end_command(now, fx);
        Ok(Deleted::Gone(messages))
    }

    /// The timer of queues that end when they are unused, or when their dead letters have gone their way.
    pub(crate) fn on_queue_idle<E: Effects>(&mut self, queue_id: QueueId, now: Time, fx: &mut E) {
        let Some(queue) = self.queues.get(queue_id) else {
            return;
        };
        if queue.is_ending {
            if self.agenda.can_end(queue.journal_number()) {
                return self.end_queue(queue_id, now, fx);
            }
            self.bury_some(now, fx);
            return self
                .agenda
                .set_timer_soon(now, TimerKey::QueueIdle(queue_id));
        }
        let Some(idle) = queue.terms.limits.idle_expiry else {
            return;
        };
        if !queue.takers.is_empty() {
            return;
        }
        let due = queue.used + idle;
        if due <= now {
            self.end_queue_soon(queue_id, now, fx);
        } else {
            self.agenda.set_timer(due, TimerKey::QueueIdle(queue_id));
        }
    }

    /// Whether a session may see a queue.
    pub(super) fn may_use_queue(&self, id: SessionId, queue_id: QueueId) -> Result<(), Refusal> {
        self.judge_queue(id, queue_id, may_use)
    }

    /// Whether a session may bind, purge and delete a queue.
    pub(crate) fn may_configure_queue(
        &self,
        id: SessionId,
        queue_id: QueueId,
    ) -> Result<(), Refusal> {
        self.judge_queue(id, queue_id, |session, address| {
            session.access().may_configure(address)
        })
    }

    /// The owner of an exclusive queue may do anything with it and others nothing; for the rest the rules decide.
    fn judge_queue(
        &self,
        id: SessionId,
        queue_id: QueueId,
        may: impl Fn(&crate::session::Session, &str) -> bool,
    ) -> Result<(), Refusal> {
        let queue = self.queues.get(queue_id).ok_or(Refusal::NoQueue)?;
        match queue.terms.owner {
            Some(owner) if owner == id => Ok(()),
            Some(_) => Err(Refusal::Locked),
            None => match self.sessions.get(id) {
                Some(session) if may(session, &queue.terms.address) => Ok(()),
                _ => Err(Refusal::Denied),
            },
        }
    }

    /// Whether `access` permits to publish wherever dead letters of a queue may go, as far as that is known without a
    /// message.
    fn may_bury(&self, access: &Access, to: &DeadLetter, queue: &str) -> bool {
        match (&*to.exchange, &to.key) {
            // The key is each message's: the queue of that name, which may be any.
            ("", None) => {
                access.is_allow_all() || access.covers(Permission::Publish, &queues_of(queue))
            }
            ("", Some(key)) => {
                let address = queue_address(super::dead_letter::tenant_of(queue), key);
                access.allows(Permission::Publish, &address)
            }
            (exchange, key) => self.may_publish_in(access, exchange, key.as_deref()),
        }
    }

    /// Whether `access` permits to publish to an exchange with a key, or for `None` with any, as far as that is known.
    pub(crate) fn may_publish_in(
        &self,
        access: &Access,
        exchange: &str,
        key: Option<&str>,
    ) -> bool {
        if let (Some(key), Some((kind, _))) = (key, self.topology.kind_of(exchange)) {
            let mut address = String::new();
            write_address(exchange, kind, key, &mut address);
            return access.allows(Permission::Publish, &address);
        }
        let mut all = String::new();
        subtree(exchange, &mut all);
        all.push('#');
        access.covers(Permission::Publish, &all)
    }

    /// Whether a session may take messages out of a queue.
    pub(super) fn may_take_from(&self, id: SessionId, queue_id: QueueId) -> Result<(), Refusal> {
        self.judge_queue(id, queue_id, |session, address| {
            session.access().allows(Permission::Take, address)
        })
    }

    /// Creates a durable queue if a consumer asks for one that has not been declared.
    pub(crate) fn ensure_queue(&mut self, address: &str) {
        if !self.has_queues()
            || !super::is_queue_address(address)
            || self.queues.find(address).is_some()
        {
            return;
        }
        // If it cannot be made, the consumer finds no queue.
        let _ = self.add_plain_queue(address, None);
    }

    /// Makes a queue that outlives the broker and has no terms, but for how many messages may wait; it refuses more.
    pub(super) fn add_plain_queue(
        &mut self,
        address: &str,
        messages_max: Option<u64>,
    ) -> Result<(), Refusal> {
        if self.queues.count() >= self.env.limits().queues_max {
            return Err(Refusal::TooMany);
        }
        if !self.may_keep(0, queue_cost(address)) {
            return Err(Refusal::Short);
        }
        if self.env.journal_full() {
            return Err(Refusal::Full);
        }
        let mut terms = Terms::plain(address, self.journal.next_number());
        if messages_max.is_some() {
            terms.limits.messages_max = messages_max;
            terms.limits.overflow = super::QueueOverflow::RejectPublish;
        }
        let queue_id = self.add_queue(terms, Time::ZERO);
        if self.env.limits().journal {
            self.persist_queue(queue_id, self.env.limits().safety);
        }
        self.routes.all_have_changed();
        Ok(())
    }
}

pub(super) fn may_use(session: &crate::session::Session, address: &str) -> bool {
    let rights = [Permission::Publish, Permission::Take, Permission::Configure];
    rights
        .into_iter()
        .any(|right| session.access().allows(right, address))
}

/// A filter of all queues of a queue's tenant.
fn queues_of(queue: &str) -> String {
    format!("{}/#", queue.split('/').next().unwrap_or_default())
}

impl Queue {
    fn status(&self) -> QueueStatus {
        let consumers = self.takers.len() as u32;
        QueueStatus {
            existed: true,
            messages: self.backlog.len() as u64,
            consumers,
        }
    }
}
