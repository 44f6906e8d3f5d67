//! What peers make us keep, in bytes of memory, and who is let in when that is too much.
//!
//! Messages count where they wait. All else counts here, by [`Kept`]: whoever begins to keep something says what it costs,
//! and says the same when it is gone. Costs are estimates on the high side.
//!
//! Messages and what is kept beside them have bounds of their own, so that neither can take the other's place: messages
//! that would wait are refused from nine tenths of the budget on, transactions have a quarter of it together, and all
//! the rest has half. Little ones are let in beyond that: a consumer that comes to drain a queue needs a session, a filter
//! and maybe a will.

use crate::Kernel;
use crate::cell::Cell;
use crate::group::Group;
use crate::ids::SessionId;
use crate::queue::{Binding, Exchange, Queue};
use crate::session::{Pressure, Session, Will};
use thalweg_model::{Properties, PropertyValue};

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

/// How much memory there is, and how much of it others have taken; whoever sums up all shards says so.
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
    pub(crate) view: MemoryView,
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
}

impl Kernel {
    /// How much memory there is for all.
    pub fn set_memory(&mut self, view: MemoryView) {
        self.memory.view = view;
        self.set_pressure(view.pressure);
    }

    /// How short memory is; whoever sums up all shards decides.
    pub fn set_pressure(&mut self, pressure: Pressure) {
        self.pressure = pressure;
        self.memory.view.pressure = pressure;
        self.is_short = self.journal_full || pressure >= Pressure::DropWaiting;
    }

    /// Bytes of memory that all that peers make us keep takes: messages and the rest.
    pub fn memory_held(&self) -> usize {
        self.bytes_held() + self.memory.total()
    }

    /// Bytes of what is kept beside messages and transactions.
    pub fn kept_beside(&self) -> usize {
        self.memory.total() - self.memory.of(Kept::Transactions)
    }

    /// The same by kind, transactions among them, in the order of [`Kept::ALL`].
    pub fn kept_bytes(&self) -> [usize; Kept::ALL.len()] {
        self.memory.by_kind
    }

    /// What is kept beside messages and transactions on all shards.
    fn beside_everywhere(&self) -> usize {
        self.kept_beside() + self.memory.view.beside_elsewhere
    }

    /// Whether somebody new may come in. Messages are bounded otherwise, so they alone keep nobody out who may come to take
    /// them.
    pub(crate) fn has_room_for_one_more(&self) -> bool {
        self.pressure < Pressure::RefuseSessions
            || self.beside_everywhere() <= self.memory.view.budget / 8
    }

    /// Whether someone who keeps `own` bytes beside messages may keep `more`.
    pub fn may_keep(&self, own: usize, more: usize) -> bool {
        if own + more <= LITTLE {
            return self.has_room_for_one_more();
        }
        self.may_keep_much(more)
    }

    /// Whether someone may keep `more` that others can do without.
    pub(crate) fn may_keep_much(&self, more: usize) -> bool {
        // Filters are kept on every shard.
        let more = more * usize::from(self.shards);
        self.pressure < Pressure::DropWaiting
            && self.beside_everywhere() + more <= self.memory.view.budget / 2
    }

    /// Whether transactions may hold so much more.
    pub(crate) fn may_gather(&self, more: usize) -> bool {
        let gathered = self.memory.of(Kept::Transactions);
        self.pressure < Pressure::DropWaiting && gathered + more <= self.memory.view.budget / 4
    }

    /// Counts a session as it is now; called when it is opened, and when its will or its set of tickets has changed.
    pub(crate) fn weigh_session(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let weight = session_cost(session);
        let before = std::mem::replace(&mut session.weight, weight);
        self.memory.entered(Kept::Sessions, weight);
        self.memory.left(Kept::Sessions, before);
    }
}

fn session_cost(session: &Session) -> usize {
    let will = session.will.as_deref().map_or(0, will_cost);
    let user = session.user.as_deref().map_or(0, str::len);
    // Its name is in the presence address and in the front, too.
    size_of::<Session>() + ENTRY + 3 * session.client.len() + user + will + session.held.bytes()
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
    let has_wildcard = filter.bytes().any(|byte| byte == b'+' || byte == b'#');
    let levels = if has_wildcard {
        1 + filter.bytes().filter(|byte| *byte == b'/').count()
    } else {
        0
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
