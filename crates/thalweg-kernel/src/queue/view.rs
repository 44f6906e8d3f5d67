//! Queues, as operators see them.

use super::spec::QueueLimits;
use crate::Kernel;
use crate::ids::QueueId;
use std::sync::Arc;

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
                came: queue.came,
                went: queue.went,
            });
        }
    }

    /// What a publish to a queue would meet there.
    pub(crate) fn explain_queue(&self, queue_id: QueueId) -> Option<(Arc<str>, String)> {
        let queue = self.queues.get(queue_id)?;
        let consumers = queue.takers.len();
        let what = format!(
            "{consumers} consumers, {} waiting, {} unsettled",
            queue.backlog.len(),
            queue.unsettled
        );
        Some((queue.terms.address.clone(), what))
    }
}
