//! Queues, as operators see them.

use super::spec::QueueLimits;
use super::{Queue, Selectors};
use crate::Kernel;
use crate::ids::QueueId;
use crate::publish::subject::Subject;
use std::fmt::Write;
use std::sync::Arc;
use thalweg_filter::Predicate;

/// Consumers of one queue whose content filters are shown at the most.
const FILTERS_SHOWN_MAX: usize = 100;

#[derive(Clone, Debug)]
pub struct QueueView {
    pub address: Arc<str>,
    /// It outlives the broker.
    pub durable: bool,
    /// It ends with its last consumer.
    pub auto_delete: bool,
    /// The client whose it is alone.
    pub owner: Option<Arc<str>>,
    /// Its bounds and choices.
    pub limits: QueueLimits,
    pub messages: usize,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Messages given and not settled.
    pub unsettled: usize,
    pub consumers: usize,
    /// Clients and content filters of consumers and members that have one, 100 at the most.
    pub filters: Vec<(Arc<str>, Arc<Predicate>)>,
    /// Messages that ever came, since the broker started.
    pub came: u64,
    /// Messages that consumers settled or were sent for good.
    pub went: u64,
}

impl Kernel {
    /// Shows `f` every queue; in no particular order.
    pub fn for_each_queue(&self, mut f: impl FnMut(QueueView)) {
        for queue in self.queues.iter() {
            let owner = queue
                .terms
                .owner
                .and_then(|owner| self.sessions.get(owner))
                .map(|session| session.client().clone());
            f(QueueView {
                address: queue.terms.address.clone(),
                durable: queue.terms.durable,
                auto_delete: queue.terms.auto_delete,
                owner,
                limits: queue.terms.limits.clone(),
                messages: queue.backlog.len(),
                bytes: queue.backlog.payload_bytes(),
                unsettled: queue.unsettled,
                consumers: queue.takers.len(),
                filters: self.shown_filters(self.selectors_of(queue)).collect(),
                came: queue.came,
                went: queue.went,
            });
        }
    }

    /// The content filters of a queue's consumers, and of the members of groups that take from it.
    fn selectors_of<'a>(&'a self, queue: &'a Queue) -> impl Iterator<Item = &'a Selectors> {
        let groups = queue.takers.groups().iter();
        let of_groups = groups.filter_map(|group| self.groups.get(*group)?.selectors());
        queue.selectors.as_deref().into_iter().chain(of_groups)
    }

    fn shown_filters<'a>(
        &'a self,
        selectors: impl Iterator<Item = &'a Selectors> + 'a,
    ) -> impl Iterator<Item = (Arc<str>, Arc<Predicate>)> + 'a {
        let filters = selectors.flat_map(Selectors::filters);
        let named = filters
            .filter_map(|((id, ..), filter)| Some((self.member_client(id)?, filter.clone())));
        named.take(FILTERS_SHOWN_MAX)
    }

    /// Adds the filters of consumers or members to what is said, and what they say of a message if there is one.
    pub(crate) fn say_filters<'a>(
        &'a self,
        said: &mut String,
        selectors: impl Iterator<Item = &'a Selectors> + 'a,
        subject: Option<&Subject<'_>>,
    ) {
        for (client, filter) in self.shown_filters(selectors) {
            let passes = match subject {
                None => "takes what passes",
                Some(subject) if filter.matches(subject) => "may take it, for it passes",
                Some(_) => "does not take it, for it does not pass",
            };
            let _ = write!(said, "; {client} {passes} the filter {}", filter.text());
        }
    }

    /// What a publish to a queue would meet there. Without a subject, filters are only named.
    pub(crate) fn explain_queue(
        &self,
        queue_id: QueueId,
        subject: Option<&Subject<'_>>,
    ) -> Option<(Arc<str>, String)> {
        let queue = self.queues.get(queue_id)?;
        let mut what = format!(
            "{} consumers, {} waiting, {} unsettled",
            queue.takers.len(),
            queue.backlog.len(),
            queue.unsettled
        );
        self.say_filters(&mut what, self.selectors_of(queue), subject);
        Some((queue.terms.address.clone(), what))
    }
}
