//! What peers make us keep, in bytes of memory, and who is let in when that is too much.
//!
//! Messages count where they wait. All else counts here, by [`Kept`]: code that begins to keep something adds its cost,
//! and subtracts the same when it is gone. Costs are estimates on the high side.
//!
//! Messages and what is kept beside them have bounds of their own, so that neither can take the other's place: messages
//! that would wait are refused from nine tenths of the budget on, transactions have a quarter of it together, and all
//! the rest has half. Little ones are let in beyond that: a consumer that comes to drain a queue needs a session, a filter
//! and maybe a will.

use crate::Kernel;
use crate::groups::group::Group;
use crate::ids::SessionId;
use crate::queue::Queue;
use crate::session::{Pressure, Session, Will};
use crate::topology::{Binding, Exchange};
use crate::values::Cell;
use thalweg_model::filter::kind_of;
use thalweg_model::{FilterKind, Properties, PropertyValue};

/// What is kept beside messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Sessions with their names and wills.
    Sessions,
    /// Filters that sessions of this shard want, alone or in groups.
    Subscriptions,
    /// Filters that other shards want.
    Interest,
    /// Queues with names, exchanges and bindings.
    Topology,
    /// Watches and the addresses that are watched.
    Watches,
    /// Publishes of transactions that are not committed.
    Transactions,
}

impl Kept {
    /// All of them, in the order of [`Kernel::kept_bytes`].
    pub const ALL: [Kept; 6] = [
        Kept::Sessions,
        Kept::Subscriptions,
        Kept::Interest,
        Kept::Topology,
        Kept::Watches,
        Kept::Transactions,
    ];
}

/// How much memory there is, and how much of it others use; set by the housekeeping thread, which sums up all shards.
#[derive(Clone, Copy, Debug)]
pub struct MemoryView {
    /// How short it is.
    pub pressure: Pressure,
    /// The budget of the whole process.
    pub budget: usize,
    /// What is kept beside messages and transactions on other shards, and on this one outside of the kernel.
    pub beside_elsewhere: usize,
}

impl Default for MemoryView {
    fn default() -> Self {
        MemoryView {
            pressure: Pressure::None,
            budget: usize::MAX,
            beside_elsewhere: 0,
        }
    }
}

/// Counts what is kept beside messages.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    by_kind: [usize; Kept::ALL.len()],
    view: MemoryView,
}

/// What one session may keep although memory is short: enough for some filters of ordinary length, and a will.
const LITTLE: usize = 4 << 10;
/// What an entry of a table costs beside its text.
const ENTRY: usize = 160;
/// What a watcher costs.
pub(crate) const WATCHER: usize = 96;
/// What a level of a filter with wildcards costs beside its text.
const LEVEL: usize = 64;

impl Memory {
    pub(crate) fn entered(&mut self, kind: Kept, bytes: usize) {
        self.by_kind[kind as usize] += bytes;
    }

    pub(crate) fn left(&mut self, kind: Kept, bytes: usize) {
        let held = &mut self.by_kind[kind as usize];
        debug_assert!(*held >= bytes, "more of {kind:?} leaves than entered");
        *held = held.saturating_sub(bytes);
    }

    pub(crate) fn of(&self, kind: Kept) -> usize {
        self.by_kind[kind as usize]
    }

    pub(crate) fn total(&self) -> usize {
        self.by_kind.iter().sum()
    }

    /// Bytes by kind, in the order of [`Kept::ALL`].
    fn by_kind(&self) -> [usize; Kept::ALL.len()] {
        self.by_kind
    }

    pub(crate) fn view(&self) -> MemoryView {
        self.view
    }

    pub(crate) fn set_view(&mut self, view: MemoryView) {
        self.view = view;
    }

    #[inline]
    pub(crate) fn pressure(&self) -> Pressure {
        self.view.pressure
    }

    /// Bytes of what is kept beside messages and transactions.
    fn beside(&self) -> usize {
        self.total() - self.of(Kept::Transactions)
    }

    /// The same on all shards.
    fn beside_everywhere(&self) -> usize {
        self.beside() + self.view.beside_elsewhere
    }

    /// Whether one more session or the like may come in. Messages are bounded otherwise, so they alone keep out no
    /// consumer that may come to drain them.
    pub(crate) fn has_room_for_one_more(&self) -> bool {
        self.view.pressure < Pressure::RefuseSessions
            || self.beside_everywhere() <= self.view.budget / 8
    }

    /// Whether `more` bytes may be kept that others can do without.
    pub(crate) fn may_keep_much(&self, more: usize) -> bool {
        self.view.pressure < Pressure::DropWaiting
            && self.beside_everywhere() + more <= self.view.budget / 2
    }

    /// Whether transactions may hold `more` bytes.
    pub(crate) fn may_gather(&self, more: usize) -> bool {
        let gathered = self.of(Kept::Transactions);
        self.view.pressure < Pressure::DropWaiting && gathered + more <= self.view.budget / 4
    }
}

impl Kernel {
    /// Sets how much memory there is for all.
    pub fn set_memory(&mut self, view: MemoryView) {
        self.env.set_memory(view);
    }

    /// Sets how short memory is, as the sum over all shards says.
    pub fn set_pressure(&mut self, pressure: Pressure) {
        self.env.set_pressure(pressure);
    }

    /// Bytes of memory that all that peers make us keep takes: messages and the rest.
    pub fn memory_held(&self) -> usize {
        self.bytes_held() + self.env.memory().total()
    }

    /// Bytes of what is kept beside messages and transactions.
    pub fn kept_beside(&self) -> usize {
        self.env.memory().beside()
    }

    /// The same by kind, transactions among them, in the order of [`Kept::ALL`].
    pub fn kept_bytes(&self) -> [usize; Kept::ALL.len()] {
        self.env.memory().by_kind()
    }

    /// Whether a session that keeps `own` bytes beside messages may keep `more`.
    pub fn may_keep(&self, own: usize, more: usize) -> bool {
        if own + more <= LITTLE {
            return self.env.memory().has_room_for_one_more();
        }
        self.env.may_keep_much(more)
    }

    /// Counts a session as it is now; called when it is opened, and when its will or its set of tickets has changed.
    pub(crate) fn weigh_session(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let (before, weight) = session.weigh();
        self.env.entered(Kept::Sessions, weight);
        self.env.left(Kept::Sessions, before);
    }
}

/// What a session costs, but for its subscriptions.
pub(crate) fn session_cost(session: &Session) -> usize {
    let will = session.life.will().map_or(0, will_cost);
    let user = session.user().map_or(0, |user| user.len());
    // Its name is in the presence address and in the front, too.
    size_of::<Session>()
        + ENTRY
        + 3 * session.client().len()
        + user
        + will
        + session.tickets.bytes()
}

/// What a will costs.
pub(crate) fn will_cost(will: &Will) -> usize {
    let properties = will.properties.as_deref().map_or(0, Properties::bytes);
    size_of::<Will>() + will.address.len() + will.payload.len() + properties
}

fn pair_cost(name: &str, value: &PropertyValue) -> usize {
    size_of::<(Box<str>, PropertyValue)>() + name.len() + value_cost(value)
}

fn value_cost(value: &PropertyValue) -> usize {
    match value {
        PropertyValue::Text(text) => text.len(),
        PropertyValue::Bytes(bytes) => bytes.len(),
        PropertyValue::Bool(_)
        | PropertyValue::Integer(_)
        | PropertyValue::Float(_)
        | PropertyValue::Nothing => 0,
    }
}

/// What a filter costs a shard that routes to it.
pub(crate) fn route_cost(filter: &str) -> usize {
    let levels = match kind_of(filter) {
        FilterKind::Exact => 0,
        FilterKind::Wild => 1 + filter.bytes().filter(|byte| *byte == b'/').count(),
        // Its own node, and one where it parts from others.
        FilterKind::Prefix => 2,
    };
    ENTRY + filter.len() + LEVEL * levels
}

/// What a subscription costs: its session remembers it, too.
pub(crate) fn subscription_cost(filter: &str) -> usize {
    route_cost(filter) + filter.len()
}

/// What a group costs, empty.
pub(crate) fn group_cost(key: &str, filter: &str) -> usize {
    size_of::<Group>() + ENTRY + key.len() + route_cost(filter) + filter.len()
}

/// What a binding costs.
pub(crate) fn binding_cost(
    exchange: &str,
    key: &str,
    filter: &str,
    arguments: &[(Box<str>, PropertyValue)],
) -> usize {
    let arguments: usize = arguments
        .iter()
        .map(|(name, value)| pair_cost(name, value))
        .sum();
    size_of::<Binding>()
        + exchange.len()
        + key.len()
        + 2 * filter.len()
        + route_cost(filter)
        + arguments
}

/// What an exchange costs, without its bindings.
pub(crate) fn exchange_cost(address: &str, alternate: Option<&str>) -> usize {
    size_of::<Exchange>()
        + ENTRY
        + address.len()
        + alternate.map_or(0, |to| to.len() + route_cost(address))
}

/// What a watched address costs, without its watchers.
pub(crate) fn cell_cost(address: &str) -> usize {
    size_of::<Cell>() + route_cost(address) + address.len()
}

/// What a queue with a name costs, empty.
pub(crate) fn queue_cost(address: &str) -> usize {
    size_of::<Queue>() + route_cost(address) + 2 * address.len()
}
