//! Who the peers of a socket are, and the kernel's session of each: one per identity, opened when it is needed and
//! closed when it has not been used for a while.
//!
//! ```text
//!  Unknown --request--> Asking --allowed--> Open --unused, ended, expired--> Unknown
//!     |    (datagrams wait)  `--refused--> Refused --after a while--> Unknown
//!     `--request, anonymous may come in--> Open
//! ```

use super::settings::CoapSettings;
use crate::front::Cx;
use crate::{LoginAnswer, LoginAsk, LoginRefusal};
use hashbrown::HashMap;
use thalweg_kernel::access::Access;
use thalweg_kernel::{Closing, Grants, KnownAs, OpenRefusal, OpenSession, SessionId};
use thalweg_model::{Span, Time};

/// What the transport below says of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerSecurity<'a> {
    None,
    /// It is encrypted, and the peer is anonymous.
    Encrypted,
    /// The peer has proved to be this one.
    Identified(&'a str),
}

impl<'a> PeerSecurity<'a> {
    /// The identity; empty if the peer is anonymous.
    pub fn identity(self) -> &'a str {
        match self {
            PeerSecurity::None | PeerSecurity::Encrypted => "",
            PeerSecurity::Identified(identity) => identity,
        }
    }
}

/// A known identity's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct IdentityId(pub(super) u32);

pub(super) const NOBODY: IdentityId = IdentityId(0);

/// How long a refusal is remembered.
const REFUSAL: Span = Span::from_secs(10);

/// Everybody who is known on one link.
pub(super) struct Identities {
    /// What anonymous peers may do, if they are admitted without asking the server.
    anonymous: Option<Access>,
    by_name: HashMap<Box<str>, IdentityId, foldhash::fast::RandomState>,
    known: Vec<Option<Identity>>,
    free: Vec<u32>,
    nonce: u64,
}

struct Identity {
    name: Box<str>,
    state: State,
    /// Observations and takes that need its session.
    users: u32,
    used: Time,
    /// It is over its rate until then.
    busy_until: Time,
    expires: Time,
}

enum State {
    Unknown,
    Asking,
    Open {
        session: SessionId,
        client: Box<str>,
    },
    Refused {
        why: LoginRefusal,
        until: Time,
    },
}

/// Whether a peer is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    In(SessionId),
    /// The server is being asked.
    Asked,
    Out(LoginRefusal),
}

impl Identities {
    pub(super) fn new(anonymous: Option<Access>, nonce: u64) -> Self {
        let nobody = Identity::new("".into());
        let mut by_name = HashMap::default();
        by_name.insert("".into(), NOBODY);
        Identities {
            anonymous,
            by_name,
            known: vec![Some(nobody)],
            free: Vec::new(),
            nonce,
        }
    }

    /// The place of an identity; nothing if there are as many as there may be.
    #[inline]
    pub(super) fn find(&mut self, identity: &str, settings: &CoapSettings) -> Option<IdentityId> {
        if identity.is_empty() {
            return Some(NOBODY);
        }
        if let Some(id) = self.by_name.get(identity) {
            return Some(*id);
        }
        if self.by_name.len() > settings.identities_max {
            return None;
        }
        let new = Identity::new(identity.into());
        let id = match self.free.pop() {
            Some(free) => IdentityId(free),
            None => {
                self.known.push(None);
                IdentityId(self.known.len() as u32 - 1)
            }
        };
        if let Some(slot) = self.known.get_mut(id.0 as usize) {
            *slot = Some(new);
        }
        self.by_name.insert(identity.into(), id);
        Some(id)
    }

    #[inline]
    fn get_mut(&mut self, id: IdentityId) -> Option<&mut Identity> {
        self.known.get_mut(id.0 as usize)?.as_mut()
    }

    /// Whether an identity is admitted; opens its session or asks the server if that has not been done.
    #[inline]
    pub(super) fn standing(
        &mut self,
        id: IdentityId,
        cx: &mut Cx<'_>,
        settings: &CoapSettings,
    ) -> Standing {
        let Some(identity) = self.get_mut(id) else {
            return Standing::Out(LoginRefusal::Busy);
        };
        identity.used = cx.now;
        match &identity.state {
            State::Open { session, .. } if cx.now < identity.expires => Standing::In(*session),
            State::Asking => Standing::Asked,
            State::Refused { why, until } if cx.now < *until => Standing::Out(*why),
            _ => self.come_in(id, cx, settings),
        }
    }

    #[cold]
    fn come_in(&mut self, id: IdentityId, cx: &mut Cx<'_>, settings: &CoapSettings) -> Standing {
        self.close(id, Closing::Cut, cx);
        if id == NOBODY
            && let Some(access) = self.anonymous.clone()
        {
            return self.open(id, None, access, Time::NEVER, cx, settings);
        }
        let Some(identity) = self.get_mut(id) else {
            return Standing::Out(LoginRefusal::Busy);
        };
        identity.state = State::Asking;
        let ask = match &*identity.name {
            "" => LoginAsk::Password {
                client: "".into(),
                chosen: false,
                user: None,
                password: None,
            },
            name => LoginAsk::Proven {
                identity: name.into(),
            },
        };
        cx.ask_login(ask);
        Standing::Asked
    }

    /// The server's verdict. False if no identity has asked for it.
    pub(super) fn on_verdict(
        &mut self,
        identity: &str,
        answer: LoginAnswer,
        cx: &mut Cx<'_>,
        settings: &CoapSettings,
    ) -> bool {
        let Some(&id) = self.by_name.get(identity) else {
            return false;
        };
        let Some(entry) = self
            .get_mut(id)
            .filter(|entry| matches!(entry.state, State::Asking))
        else {
            return false;
        };
        match answer {
            LoginAnswer::Allowed {
                user,
                access,
                expires,
                ..
            } => {
                let user = user.or_else(|| (!identity.is_empty()).then(|| identity.into()));
                let expires = expires.unwrap_or(Time::NEVER);
                self.open(id, user, access, expires, cx, settings);
            }
            // Nothing was begun that could go on.
            LoginAnswer::Continue { .. } => {
                entry.state = State::Refused {
                    why: LoginRefusal::BadMethod,
                    until: cx.now + REFUSAL,
                };
            }
            LoginAnswer::Refused(why) => {
                entry.state = State::Refused {
                    why,
                    until: cx.now + REFUSAL,
                }
            }
        }
        true
    }

    fn open(
        &mut self,
        id: IdentityId,
        user: Option<Box<str>>,
        access: Access,
        expires: Time,
        cx: &mut Cx<'_>,
        settings: &CoapSettings,
    ) -> Standing {
        // Many strangers have one session: each has a rate elsewhere.
        let shared = id == NOBODY && settings.publish_rate.is_some();
        let client = cx
            .kernel
            .unused_client_id(self.nonce.wrapping_add(u64::from(id.0)));
        let name = self
            .get_mut(id)
            .map(|identity| identity.name.clone())
            .filter(|name| !name.is_empty());
        let open = OpenSession {
            tenant: &settings.tenant,
            user: user.map(Into::into),
            known_as: name.as_deref().map(|name| KnownAs {
                tenant: &settings.tenant,
                name,
                claimed_in: None,
            }),
            grants: Grants::of_listener(
                if shared {
                    Some(0)
                } else {
                    settings.publish_rate
                },
                settings.safety,
            ),
            ..OpenSession::of_link(&client, cx.id, access, "CoAP")
        };
        let opened = cx.kernel.open_session(open, cx.now, cx.links);
        // Nothing is said to the peer that would have to wait for the journal.
        cx.links.take_hold();
        if opened == Err(OpenRefusal::Outdated) && self.anonymous.take().is_some() {
            // What strangers may do now is the server's to say.
            return self.come_in(id, cx, settings);
        }
        let Some(identity) = self.get_mut(id) else {
            return Standing::Out(LoginRefusal::Busy);
        };
        match opened {
            Ok(opened) => {
                identity.expires = expires;
                identity.state = State::Open {
                    session: opened.session,
                    client,
                };
                cx.start(opened.session);
                Standing::In(opened.session)
            }
            Err(_) => {
                let why = LoginRefusal::Busy;
                identity.state = State::Refused {
                    why,
                    until: cx.now + Span::from_secs(1),
                };
                Standing::Out(why)
            }
        }
    }

    /// The session of an identity, if it is open.
    pub(super) fn session(&self, id: IdentityId) -> Option<SessionId> {
        match self.known.get(id.0 as usize)?.as_ref()?.state {
            State::Open { session, .. } => Some(session),
            _ => None,
        }
    }

    /// The identity is over its rate until then.
    pub(super) fn set_busy_until(&mut self, id: IdentityId, until: Time) {
        if let Some(identity) = self.get_mut(id) {
            identity.busy_until = until;
        }
    }

    /// Until when an identity is over its rate, if it is.
    #[inline]
    pub(super) fn busy_until(&mut self, id: IdentityId, now: Time) -> Option<Time> {
        self.get_mut(id)
            .map(|identity| identity.busy_until)
            .filter(|until| *until > now)
    }

    /// Something needs the identity's session from now on.
    pub(super) fn hold(&mut self, id: IdentityId) {
        if let Some(identity) = self.get_mut(id) {
            identity.users += 1;
        }
    }

    /// And does no more.
    pub(super) fn let_go(&mut self, id: IdentityId) {
        if let Some(identity) = self.get_mut(id) {
            identity.users = identity.users.saturating_sub(1);
        }
    }

    /// Identities whose session is gone or whose proof has ended; their sessions are closed.
    pub(super) fn take_ended(&mut self, cx: &mut Cx<'_>) -> Vec<IdentityId> {
        let mut ended = Vec::new();
        for (at, identity) in self.known.iter().enumerate() {
            if let Some(Identity {
                state: State::Open { session, client },
                expires,
                ..
            }) = identity
                && (*expires <= cx.now
                    || cx
                        .kernel
                        .client_of(*session)
                        .is_none_or(|name| **name != **client))
            {
                ended.push(IdentityId(at as u32));
            }
        }
        for id in &ended {
            self.close(*id, Closing::Cut, cx);
        }
        ended
    }

    /// Closes and removes identities that were silent for `idle`.
    pub(super) fn forget_unused(&mut self, idle: Span, cx: &mut Cx<'_>) {
        for at in 0..self.known.len() {
            let id = IdentityId(at as u32);
            let Some(identity) = self.get_mut(id) else {
                continue;
            };
            if identity.users > 0
                || cx.now.since(identity.used) < idle
                || matches!(identity.state, State::Asking)
            {
                continue;
            }
            self.close(id, Closing::Silent, cx);
            if id != NOBODY
                && let Some(identity) = self.known.get_mut(at).and_then(Option::take)
            {
                self.by_name.remove(&identity.name);
                self.free.push(id.0);
            }
        }
    }

    /// An observer of this identity does not answer any more: unless others are there, it is taken for gone. One that
    /// was only away opens its session again.
    pub(super) fn vanished(&mut self, id: IdentityId, cx: &mut Cx<'_>) {
        if id != NOBODY
            && cx.kernel.limits().presence
            && self.get_mut(id).is_some_and(|identity| identity.users == 0)
        {
            self.close(id, Closing::Silent, cx);
        }
    }

    pub(super) fn close_all(&mut self, cx: &mut Cx<'_>) {
        for at in 0..self.known.len() {
            self.close(IdentityId(at as u32), Closing::Cut, cx);
        }
    }

    fn close(&mut self, id: IdentityId, how: Closing, cx: &mut Cx<'_>) {
        let Some(identity) = self.get_mut(id) else {
            return;
        };
        if let State::Open { session, client } =
            std::mem::replace(&mut identity.state, State::Unknown)
            && cx
                .kernel
                .client_of(session)
                .is_some_and(|name| **name == *client)
        {
            cx.kernel
                .close_link(session, cx.id, how, None, cx.now, cx.links);
        }
    }

    /// How many sessions are open.
    pub(super) fn open_count(&self) -> usize {
        self.known
            .iter()
            .flatten()
            .filter(|identity| matches!(identity.state, State::Open { .. }))
            .count()
    }
}

impl Identity {
    fn new(name: Box<str>) -> Self {
        let state = State::Unknown;
        Identity {
            name,
            state,
            users: 0,
            used: Time::ZERO,
            busy_until: Time::ZERO,
            expires: Time::NEVER,
        }
    }
}
