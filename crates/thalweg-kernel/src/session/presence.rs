//! Presence: the last value of an address of its own says whether a peer is connected ([ADR
//! 0025](../../../docs/adr/0025-presence-is-told-at-an-address.md)).
//!
//! ```text
//!  {"state":"online","protocol":"…","since_ms":1763823921123}
//!  {"state":"offline","protocol":"…","since_ms":1763823988001,"why":"silent"}
//! ```
//!
//! A peer may say more of itself ([`Kernel::describe`]), below that address and until its link ends.
//!
//! A peer's name is not its session's: several sessions, on several shards, may be of one name. So the home of the address
//! keeps who of that name is here, each other shard tells it of its own sessions, and it publishes what that adds up to.

use crate::access::client_ids::owner_of;
use crate::effects::Effects;
use crate::ids::{SessionId, ShardId};
use crate::publish::pipeline::Draft;
use crate::remote::shards::ShardMessage;
use crate::session::{Closing, OpenSession, Session};
use crate::{Kernel, home};
use hashbrown::hash_map::Entry;
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_model::{Properties, Reliability, RetainOp, Span, Time, presence};

/// How a peer is known to others, beside its session's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownAs<'a> {
    /// In which tenant; empty for the default one.
    pub tenant: &'a str,
    /// The name that the peer gave itself, or has proved to have.
    pub name: &'a str,
    /// The protocol, as addresses name it, if in that a name is only a claim: nothing is owned or found by it, and any
    /// number of peers may say it. Its presence then has an address below that protocol, unless the name is that of the
    /// peer's user.
    pub claimed_in: Option<&'static str>,
}

/// A session's peer came or left; for the home of the address at which that is published.
#[derive(Clone, Debug)]
pub struct PresenceNews {
    address: Box<str>,
    /// The session's name; no other session has it meanwhile.
    client: Arc<str>,
    dialect: &'static str,
    at: Time,
    /// Why it left; nothing if it came.
    left: Option<Closing>,
}

impl PresenceNews {
    /// Bytes of memory it holds, roughly.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<PresenceNews>() + self.address.len()
    }
}

/// Presence of all peers whose address has its home on this shard.
#[derive(Default)]
pub(crate) struct Presences {
    here: crate::kernel::Map<Box<str>, Vec<Here>>,
    /// When the values of those who left will be gone, the first in front.
    kept_until: VecDeque<Time>,
}

/// One session of a name.
struct Here {
    client: Arc<str>,
    dialect: &'static str,
    since: Time,
}

/// What it changes that a session of a name has left.
enum Left {
    /// Nothing that was published: another session of that name has come since, or it was not known.
    Unseen,
    /// Another session's presence is published from now on.
    Other(String),
    /// No session of that name is here.
    Last,
}

impl Presences {
    /// A session of a name has come, or goes on over another link.
    fn came(&mut self, address: &str, client: Arc<str>, dialect: &'static str, since: Time) {
        let here = self.here.entry(address.into()).or_default();
        // One of the same client has taken its place.
        here.retain(|one| one.client != client);
        here.push(Here {
            client,
            dialect,
            since,
        });
    }

    fn left(&mut self, address: &str, client: &str) -> Left {
        let Entry::Occupied(mut entry) = self.here.entry(address.into()) else {
            return Left::Unseen;
        };
        let was_last = entry
            .get()
            .last()
            .is_some_and(|last| *last.client == *client);
        entry.get_mut().retain(|one| *one.client != *client);
        match entry.get().last() {
            Some(_) if !was_last => Left::Unseen,
            Some(other) => Left::Other(online(other.dialect, other.since)),
            None => {
                entry.remove();
                Left::Last
            }
        }
    }

    /// For how long it can be remembered that one more has left, up to `max` of them; nothing if not at all.
    fn keep_offline(&mut self, span: Span, max: usize, now: Time) -> Option<Span> {
        let kept = &mut self.kept_until;
        while kept.front().is_some_and(|until| *until <= now) {
            kept.pop_front();
        }
        // Who has come back meanwhile still counts: that is on the safe side, and costs no list of names.
        if span == Span::ZERO || kept.len() >= max {
            return None;
        }
        kept.push_back(now + span);
        Some(span)
    }
}

impl Session {
    pub(crate) fn presence_news(&self, now: Time, left: Option<Closing>) -> Option<PresenceNews> {
        let (address, client) = (self.connection.presence()?.into(), self.client().clone());
        Some(PresenceNews {
            address,
            client,
            dialect: self.connection.dialect(),
            at: now,
            left,
        })
    }
}

impl Kernel {
    /// Whether a filter may be subscribed to: those of presence are refused while presence is off.
    pub(crate) fn is_told_here(&self, filter: &str) -> bool {
        self.env.limits().presence || !presence::is_presence(filter)
    }

    /// The address at which a peer's presence will be published, if any: that of `taken`, if it takes the place of that
    /// session.
    pub(crate) fn presence_of(
        &self,
        open: &OpenSession<'_>,
        taken: &Option<PresenceNews>,
    ) -> Option<Box<str>> {
        if let Some(news) = taken {
            return Some(news.address.clone());
        }
        let known = open.known_as.filter(|_| self.env.limits().presence)?;
        let address = match known.claimed_in {
            Some(protocol) if open.user.as_deref() != Some(owner_of(known.name)) => {
                presence::claimed_address(known.tenant, protocol, known.name)
            }
            _ => presence::address(known.tenant, known.name),
        };
        (address.len() <= self.env.limits().address_bytes_max).then(|| address.into())
    }

    /// Publishes the presence of a peer without a session, of which a session knows: at the address of a name that is
    /// claimed in its protocol. Several speakers may know of one name, which is there while one says so.
    pub fn tell_for<E: Effects>(
        &mut self,
        session: SessionId,
        known: KnownAs<'_>,
        speaker: &str,
        left: Option<Closing>,
        now: Time,
        fx: &mut E,
    ) {
        let Some(session) = self.sessions.get(session) else {
            return;
        };
        let dialect = session.connection.dialect();
        let protocol = known.claimed_in.unwrap_or_default();
        let address = presence::claimed_address(known.tenant, protocol, known.name);
        let limits = self.env.limits();
        if !limits.presence || address.len() > limits.address_bytes_max {
            return;
        }
        let news = PresenceNews {
            address: address.into(),
            client: speaker.into(),
            dialect,
            at: now,
            left,
        };
        self.tell_presence(Some(news), now, fx);
    }

    /// The link of a session will end; only the caller publishes its presence, from what this returns.
    pub(crate) fn take_presence(&mut self, id: SessionId, now: Time) -> Option<PresenceNews> {
        let session = self
            .sessions
            .get_mut(id)
            .filter(|session| session.link().is_some())?;
        let news = session.presence_news(now, Some(Closing::Cut));
        session.connection.forget_presence();
        news
    }

    /// A session's link is in force.
    pub(crate) fn tell_came<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        let session = self.sessions.get(id);
        let news = session.and_then(|session| session.presence_news(now, None));
        self.tell_presence(news, now, fx);
    }

    /// Reports to the home of the address, which may be here.
    pub(crate) fn tell_presence<E: Effects>(
        &mut self,
        news: Option<PresenceNews>,
        now: Time,
        fx: &mut E,
    ) {
        let Some(news) = news else { return };
        match home(&news.address, self.env.shards()) {
            ShardId(shard) if shard == self.env.shard().0 => self.on_presence(news, now, fx),
            shard => self
                .remote
                .send(shard, ShardMessage::Presence(Box::new(news))),
        }
    }

    pub(crate) fn on_presence<E: Effects>(&mut self, news: PresenceNews, now: Time, fx: &mut E) {
        let PresenceNews {
            address,
            client,
            dialect,
            at,
            left,
        } = news;
        let Some(why) = left else {
            self.sessions.presences.came(&address, client, dialect, at);
            return self.publish_presence(
                &address,
                &online(dialect, at),
                RetainOp::Set,
                None,
                now,
                fx,
            );
        };
        match self.sessions.presences.left(&address, &client) {
            Left::Unseen => {}
            Left::Other(told) => {
                self.publish_presence(&address, &told, RetainOp::Set, None, now, fx);
            }
            Left::Last => {
                let told = offline(dialect, at, why);
                let limits = self.env.limits();
                let (span, max) = (limits.presence_offline, limits.presence_offline_max);
                match self.sessions.presences.keep_offline(span, max, now) {
                    Some(span) => {
                        self.publish_presence(&address, &told, RetainOp::Set, Some(span), now, fx)
                    }
                    None => self.publish_presence(&address, &told, RetainOp::Clear, None, now, fx),
                }
            }
        }
    }

    /// What a session's peer says of itself becomes the last value of `level`, one or more levels below the address of its presence,
    /// where no peer can publish. Empty, or when the link ends, it is forgotten. Returns when the peer may go on if it has exceeded
    /// its rate of publishes; nothing is published if its presence is not.
    pub fn describe<E: Effects>(
        &mut self,
        id: SessionId,
        level: &str,
        (payload, properties): (&[u8], Option<&Properties>),
        now: Time,
        fx: &mut E,
    ) -> Option<Time> {
        let session = self.sessions.get_mut(id)?;
        let address = format!("{}/{level}", session.connection.presence()?);
        if address.len() > self.env.limits().address_bytes_max {
            return None;
        }
        match payload {
            [] => _ = session.connection.take_described(),
            _ => session.connection.describe(&address),
        }
        let pause_until = session.connection.pause(payload.len(), now);
        self.publish_description(&address, payload, properties, now, fx);
        self.end_command(now, fx);
        pause_until
    }

    pub(super) fn publish_description<E: Effects>(
        &mut self,
        address: &str,
        payload: &[u8],
        properties: Option<&Properties>,
        now: Time,
        fx: &mut E,
    ) {
        let retain = match (self.env.limits().retain_enabled, payload) {
            (false, _) => RetainOp::None,
            (true, []) => RetainOp::Clear,
            (true, _) => RetainOp::Set,
        };
        let draft = Draft {
            retain,
            properties,
            ..Draft::new(address, payload, Reliability::AtLeastOnce)
        };
        self.publish_own(draft, now, fx);
    }

    fn publish_presence<E: Effects>(
        &mut self,
        address: &str,
        told: &str,
        retain: RetainOp,
        expires_in: Option<Span>,
        now: Time,
        fx: &mut E,
    ) {
        let draft = Draft {
            address,
            payload: told.as_bytes(),
            reliability: Reliability::AtLeastOnce,
            retain: if self.env.limits().retain_enabled {
                retain
            } else {
                RetainOp::None
            },
            expires_in,
            priority: 0,
            properties: None,
            ticket: 0,
            native: None,
            stamp: None,
        };
        self.publish_own(draft, now, fx);
    }
}

// All parts are our own words, so that nothing has to be escaped.
fn online(dialect: &str, since: Time) -> String {
    format!(
        r#"{{"state":"online","protocol":"{dialect}","since_ms":{}}}"#,
        since.nanos() / 1_000_000
    )
}

fn offline(dialect: &str, since: Time, why: Closing) -> String {
    let (since, why) = (since.nanos() / 1_000_000, why.word());
    format!(r#"{{"state":"offline","protocol":"{dialect}","since_ms":{since},"why":"{why}"}}"#)
}

impl Closing {
    /// The word in the published value.
    fn word(self) -> &'static str {
        match self {
            Closing::Clean | Closing::CleanWithWill => "goodbye",
            Closing::Lost => "lost",
            Closing::Silent => "silent",
            Closing::Cut => "cut",
        }
    }
}
