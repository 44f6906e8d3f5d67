//! The maker of a binding, an alternate exchange or a place for dead letters.
//!
//! Messages follow these without their maker, so they do what the maker may do now and no more: a binding receives where
//! it stands, and what leads on publishes there. Routes are judged when they are worked out, dead letters one by one; rules
//! that change reach the makers as they reach sessions (decision 0027).

use crate::Kernel;
use crate::access::{Access, Permission};
use crate::journal::terms::{TermLines, from_hex};
use crate::session::Session;
use std::fmt::Write;
use std::sync::Arc;

/// The maker of a binding, queue or exchange, with its present rights. What was declared before makers were written down has
/// none and may do all that its declaration reaches.
#[derive(Default)]
pub(crate) struct MadeBy(Option<Box<Maker>>);

/// A client that declared what messages follow.
pub(crate) struct Maker {
    client: Arc<str>,
    user: Option<Arc<str>>,
    access: Access,
}

impl MadeBy {
    pub(crate) fn session(session: &Session) -> MadeBy {
        let (client, user, access) = (
            session.client().clone(),
            session.user().cloned(),
            session.access().clone(),
        );
        MadeBy(Some(Box::new(Maker {
            client,
            user,
            access,
        })))
    }

    /// What the maker may do; `None` if no maker is known, who may do all.
    pub(crate) fn access(&self) -> Option<&Access> {
        self.0.as_ref().map(|maker| &maker.access)
    }

    pub(crate) fn may(&self, permission: Permission, target: &str) -> bool {
        self.access()
            .is_none_or(|access| access.allows(permission, target))
    }

    /// Bytes of memory that it costs beside itself.
    pub(crate) fn bytes(&self) -> usize {
        let user = |maker: &Maker| maker.user.as_ref().map_or(0, |user| user.len());
        self.0.as_ref().map_or(0, |maker| {
            size_of::<Maker>() + maker.client.len() + user(maker)
        })
    }

    pub(crate) fn write(&self, lines: &mut TermLines) {
        let Some(maker) = &self.0 else { return };
        lines.add("client", &maker.client);
        if let Some(user) = &maker.user {
            lines.add("user", user);
        }
        let mut rules = String::new();
        for byte in maker.access.written() {
            let _ = write!(rules, "{byte:02x}");
        }
        if !rules.is_empty() {
            lines.add("rules", &rules);
        }
    }

    fn renew(&mut self, access: &impl Fn(&Maker) -> Option<Access>) {
        if let Some(maker) = &mut self.0
            && let Some(access) = access(maker)
        {
            maker.access = access.in_tenant(maker.access.tenant());
        }
    }
}

/// A maker in the journal.
#[derive(Default)]
pub(crate) struct StoredMaker {
    client: Option<Arc<str>>,
    user: Option<Arc<str>>,
    /// The rules that it brought itself, as [`Access::written`] wrote them; empty if the operator's hold.
    rules: Box<[u8]>,
}

impl StoredMaker {
    /// Takes a term that is about it.
    pub(crate) fn read(&mut self, name: &str, value: &str) {
        match name {
            "client" => self.client = Some(value.into()),
            "user" => self.user = Some(value.into()),
            "rules" => self.rules = from_hex(value),
            _ => {}
        }
    }

    /// With its rights of now: those of the rules, or those that it brought itself.
    pub(crate) fn compile(self, access: &dyn Fn(&str, Option<&str>) -> Access) -> MadeBy {
        let Some(client) = self.client else {
            return MadeBy::default();
        };
        let access = Access::restored(&self.rules, || access(&client, self.user.as_deref()));
        MadeBy(Some(Box::new(Maker {
            client,
            user: self.user,
            access,
        })))
    }
}

impl Kernel {
    /// Replaces what makers may do, after the rules have changed; those who brought their own keep them.
    pub(crate) fn renew_makers(&mut self, access: impl Fn(&str, Option<&str>) -> Access) {
        let of_rules = |maker: &Maker| {
            (!maker.access.is_own()).then(|| access(&maker.client, maker.user.as_deref()))
        };
        self.for_each_maker(of_rules);
    }

    /// Replaces what a session's client may do with what it made.
    pub(crate) fn renew_makers_of(
        &mut self,
        (client, user): &(Arc<str>, Option<Arc<str>>),
        access: &Access,
    ) {
        self.for_each_maker(|maker| {
            let is_same = maker.client == *client
                && maker.user == *user
                && maker.access.tenant() == access.tenant();
            is_same.then(|| access.clone())
        });
    }

    fn for_each_maker(&mut self, access: impl Fn(&Maker) -> Option<Access>) {
        self.topology
            .makers_mut()
            .for_each(|made_by| made_by.renew(&access));
        self.queues
            .makers_mut()
            .for_each(|made_by| made_by.renew(&access));
    }
}
