//! What sessions may do is replaced while they are here.

use crate::Kernel;
use crate::access::Access;
use crate::ids::SessionId;
use crate::publish::Memo;
use crate::session::Session;

impl Session {
    /// Replaces what it may do; what waits for it was routed by what it might do then.
    pub(crate) fn take_access(&mut self, access: Access) {
        if self.access != access {
            self.judges_again = !access.is_allow_all();
            self.access = access;
        }
    }
}

impl Kernel {
    /// Replaces what a session may do, e.g. after its peer proved anew who it is.
    pub fn set_access(&mut self, id: SessionId, access: Access) {
        if let Some(session) = self.sessions.get_mut(id) {
            let access = access.in_tenant(session.access.tenant());
            session.take_access(access);
            session.memo = Memo::default();
            self.access_epoch += 1;
            self.seats_away.has_changed(id);
            self.watches.recheck = self.watches.count > 0;
        }
    }

    /// Replaces what every session may do, online or not, after the rules have changed; `access` is given client and
    /// user. Sessions whose peer brought its own rules keep them.
    pub fn renew_access(&mut self, access: impl Fn(&str, Option<&str>) -> Access) {
        for (_, session) in self.sessions.iter_mut() {
            if !session.access.is_own() {
                let access = access(&session.client, session.user.as_deref()).in_tenant(session.access.tenant());
                session.take_access(access);
                session.memo = Memo::default();
            }
        }
        self.access_epoch += 1;
        self.seats_away.have_changed();
        self.watches.recheck = self.watches.count > 0;
    }
}
