//! Queues, exchanges and bindings, as operators see them.

use super::binding::To;
use super::exchange::PREDECLARED;
use super::spec::{ExchangeKind, QueueLimits};
use crate::Kernel;
use crate::ids::QueueId;
use std::sync::Arc;
use thalweg_model::PropertyValue;

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

#[derive(Clone, Debug)]
pub struct ExchangeView {
    pub address: Box<str>,
    pub kind: ExchangeKind,
    /// It outlives the broker.
    pub durable: bool,
    /// It ends with its last binding.
    pub auto_delete: bool,
    /// Peers cannot publish to it.
    pub internal: bool,
    /// The address of the exchange that gets what nobody wants.
    pub alternate: Option<Box<str>>,
    pub bindings: Vec<BindingView>,
}

#[derive(Clone, Debug)]
pub struct BindingView {
    /// The address of the queue or exchange that it leads to.
    pub to: Box<str>,
    /// The key, as its maker wrote it.
    pub key: Box<str>,
    pub arguments: Box<[(Box<str>, PropertyValue)]>,
}

impl Kernel {
    /// Shows `f` every queue; in no particular order.
    pub fn for_each_queue(&self, mut f: impl FnMut(QueueView)) {
        for queue in self.queues.iter() {
            let owner = queue
                .owner
                .and_then(|owner| self.sessions.get(owner))
                .map(|session| session.client().clone());
            f(QueueView {
                address: queue.address.clone(),
                durable: queue.durable_declared,
                auto_delete: queue.auto_delete,
                owner,
                limits: queue.limits.clone(),
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
        Some((queue.address.clone(), what))
    }

    /// Shows `f` every exchange: those of the default tenant that are always there, and all that were declared or bound.
    pub fn for_each_exchange(&self, mut f: impl FnMut(ExchangeView)) {
        for (name, kind) in PREDECLARED {
            let address = super::exchange_address("", name);
            if self.topology.exchange(&address).is_none() {
                f(ExchangeView {
                    address: address.into(),
                    kind,
                    durable: true,
                    auto_delete: false,
                    internal: false,
                    alternate: None,
                    bindings: Vec::new(),
                });
            }
        }
        for (address, exchange) in self.topology.exchanges() {
            let bindings = exchange
                .bindings
                .iter()
                .filter_map(|index| self.binding(*index));
            f(ExchangeView {
                address: address.into(),
                kind: exchange.kind,
                durable: exchange.durable,
                auto_delete: exchange.auto_delete,
                internal: exchange.internal,
                alternate: exchange.alternate.clone(),
                bindings: bindings
                    .map(|binding| BindingView {
                        to: match &binding.to {
                            To::Queue(index) => self
                                .queues
                                .get(*index)
                                .map_or("".into(), |queue| Box::from(&*queue.address)),
                            To::Exchange(address) => Box::from(&**address),
                        },
                        key: binding.key.clone(),
                        arguments: binding.arguments.clone(),
                    })
                    .collect(),
            });
        }
    }
}
