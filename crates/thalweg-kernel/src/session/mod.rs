//! Sessions: their owners, subscriptions, backlogs and windows.
//!
//! *Knows:* who opened a session, its subscriptions, what waits for it and what it has not settled; each part keeps its
//! own counts. *Must never know:* another store; what follows is the flows' part.

mod backlog;
mod close;
mod connection;
mod counts;
mod held_back;
mod lanes;
mod life;
mod membership;
mod meters;
mod open;
pub(crate) mod presence;
pub(crate) mod settle;
mod spill;
mod state;
mod store;
pub(crate) mod subscribe;
mod subscriptions;
mod tickets;
mod window;

pub(crate) use backlog::Oldest;
pub use close::{Closing, Will};
pub(crate) use connection::Connection;
pub(crate) use counts::Counts;
pub(crate) use held_back::{Records, Rest};
pub(crate) use life::Life;
pub(crate) use membership::Trial;
pub(crate) use meters::Meters;
pub use open::{Grants, OpenRefusal, OpenSession, Opened};
pub(crate) use state::{Left, Session, Who};
pub(crate) use store::Sessions;
pub(crate) use subscriptions::Held;
pub(crate) use tickets::HeldTickets;
pub(crate) use window::{Received, Slot, SlotState, Window};

/// How short memory is, process-wide. Each level includes those below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// Memory is within its budget: nothing is refused for it.
    #[default]
    None,
    /// What would have to wait in memory is refused, and so is all that is kept beside messages and is not little. What can
    /// leave at once, or wait on disk, still does.
    DropWaiting,
    /// Nothing more waits on disk either, whose entries take memory, too. New sessions are refused if it is not messages
    /// alone that take the memory.
    RefuseSessions,
}
