//! Somebody wants to know an address's latest value.

use crate::Kernel;
use crate::effects::Effects;
use crate::ids::{LinkId, SessionId, WatchId};
use thalweg_model::{Message, Time};

/// What has happened at a watched address.
#[derive(Clone, Debug)]
pub enum Change {
    /// This was published there.
    Value(Message),
    /// Its last value was cleared.
    Gone,
}

/// Why there is no watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchRefused {
    /// The access rules do not allow it, or there is no such session with a link.
    Denied,
    /// It is no address, or longer or deeper than one may be.
    BadAddress,
    /// There are as many watches as there may be.
    TooMany,
    /// Memory is short.
    Overloaded,
}

impl Kernel {
    /// Watches an address for a session. With a `depth` of 1 (or 0) a newer value takes the place of one that was not
    /// taken yet; with more the newest so many wait, in their order.
    ///
    /// [`Effects::watch_ready`] comes once every shard routes to it, maybe before this returns, with the value of that
    /// moment; from then on nothing that is published there goes unnoticed. `cookie` is the reader's name for it.
    #[allow(clippy::too_many_arguments)] // Who, what, and the usual.
    pub fn watch<E: Effects>(
        &mut self,
        id: SessionId,
        link: LinkId,
        cookie: u64,
        address: &str,
        depth: u16,
        now: Time,
        fx: &mut E,
    ) -> Result<WatchId, WatchRefused> {
        let _ = (id, address, depth, now);
        fx.watch_ready(link, cookie, None);
        Err(WatchRefused::Denied)
    }

    /// The oldest change that waits in a watch; nothing if there is none. After [`Effects::value_changed`] a reader takes
    /// until there is nothing left, now or later: it is not told again before.
    pub fn take_watched(&mut self, watch: WatchId, now: Time) -> Option<Change> {
        let _ = (watch, now);
        None
    }

    /// Ends a watch.
    pub fn unwatch<E: Effects>(&mut self, watch: WatchId, now: Time, fx: &mut E) {
        let _ = (watch, now, fx);
    }
}
