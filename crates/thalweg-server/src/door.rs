//! Log-ins of a shard: answers the fronts' questions, slow ones on the vault's threads.

use crate::access::{
    BanFile, Login, LoginRequest, PeerState, Refusal, RefusalReason, Users, Vault, VaultPool,
};
use crate::clock;
use crate::settings::DoorSettings;
use crate::shard::{Mailbox, ToShard};
use crate::transport::CHANNEL_BINDING_BYTES;
use std::collections::HashMap;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use thalweg_fronts::{Links, LoginAnswer, LoginAsk, LoginRefusal};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Kernel, LinkId};
use thalweg_model::Time;
use thalweg_scram::{ChannelBinding, ExpectClientFinal, ScramHash, ScramServer};

/// The only mechanism of challenge and response there is.
const SCRAM: &str = ScramHash::Sha256.mechanism();
/// Behind the name of a mechanism that is bound to its connection.
pub(crate) const PLUS: &str = "-PLUS";
/// Bytes of randomness in our part of a nonce.
const NONCE_BYTES: usize = 24;

/// With so many log-ins waiting, those of peers that have closed their side are dropped.
const MANY: usize = 32;

/// The peer of a log-in, as far as the transport knows it.
pub(crate) struct Visitor {
    /// The listener it came through.
    pub(crate) listener: Arc<str>,
    /// Where it is, if there is one such place.
    pub(crate) address: Option<IpAddr>,
    /// The name in its verified certificate.
    pub(crate) certificate_name: Option<Arc<str>>,
    /// What binds a log-in to its connection, where one asks for that.
    pub(crate) channel_binding: Option<[u8; CHANNEL_BINDING_BYTES]>,
}

/// A shard's way to the vault.
pub(crate) struct Door {
    pool: Arc<VaultPool>,
    /// The shard's own mailbox, for answers that come later.
    mailbox: Mailbox,
    settings: Arc<DoorSettings>,
    /// The users of the password file when the sessions' rules were renewed last.
    users: Users,
    /// The bans that were in force then.
    bans: Option<Arc<BanFile>>,
    /// What peers without credentials may do, if that is everything for all of them, so that no check is needed.
    anonymous: Option<Access>,
    exchanges: HashMap<(LinkId, u64), ExpectClientFinal>,
    /// Log-ins that the pool has not answered.
    pending: HashMap<(LinkId, u64), Arc<PeerState>>,
}

impl Door {
    pub(crate) fn new(pool: Arc<VaultPool>, mailbox: Mailbox) -> Self {
        let vault = pool.vault();
        let (users, bans, anonymous) = (vault.users(), vault.bans(), free_access(vault));
        Door {
            pool,
            mailbox,
            settings: Arc::default(),
            users,
            bans,
            anonymous,
            exchanges: HashMap::new(),
            pending: HashMap::new(),
        }
    }

    /// From now on these settings decide.
    pub(crate) fn set_settings(&mut self, settings: Arc<DoorSettings>) {
        self.settings = settings;
    }

    /// Gives every session the rules that are in force now, and ends the links of users that the password file has no
    /// more and of those that are banned; `address` says where a link comes from. Peers that were admitted by earlier
    /// rules and have not opened a session must log in again.
    pub(crate) fn renew_access(
        &mut self,
        kernel: &mut Kernel,
        address: impl Fn(LinkId) -> Option<IpAddr>,
        now: Time,
        links: &mut Links,
    ) {
        let vault = self.pool.vault();
        // The number first: what is read after it is at least as new.
        kernel.set_rules_generation(vault.generation());
        self.anonymous = free_access(vault);
        kernel.renew_access(|client, user| vault.rules(user).compile(client, user));
        let before = std::mem::replace(&mut self.users, vault.users());
        let is_removed = |user: &str| before.contain(user) && !self.users.contain(user);
        let by_name = |_: &str, user: Option<&str>, _| user.is_some_and(is_removed);
        let ended = kernel.disconnect(by_name, now, links);
        if ended > 0 {
            tracing::warn!(
                ended,
                "connections of users ended that access.password_file does not have any more"
            );
        }
        self.bans = vault.bans();
        if let Some(bans) = &self.bans {
            let seconds = clock::unix_seconds();
            let is_banned = |client: &str, user: Option<&str>, link| {
                bans.ban_of(client, user, address(link), seconds).is_some()
            };
            let ended = kernel.disconnect(is_banned, now, links);
            if ended > 0 {
                tracing::warn!(ended, "connections ended that access.ban_file bans");
            }
        }
    }

    /// The bans by address, if there are any: datagrams from and to there are dropped.
    pub(crate) fn banned_addresses(&self) -> Option<Arc<BanFile>> {
        self.bans
            .as_ref()
            .filter(|bans| bans.names_addresses())
            .cloned()
    }

    /// What peers without credentials may do, if that is everything for all of them; otherwise the server is to be asked.
    pub(crate) fn anonymous(&self) -> Option<&Access> {
        self.anonymous.as_ref()
    }

    /// The answer, with when it ends, if it is known at once; otherwise it comes through the mailbox.
    pub(crate) fn ask(
        &mut self,
        link: LinkId,
        serial: u64,
        visitor: Visitor,
        ask: LoginAsk,
    ) -> Option<(LoginAnswer, Option<Time>)> {
        match ask {
            LoginAsk::Password {
                client,
                chosen,
                user,
                password,
            } => {
                let client: Arc<str> = client.into();
                let mut request = self.request(visitor, client.clone(), user.map(Into::into));
                request.password = password.map(Into::into);
                request.chose_client_id = chosen;
                let mailbox = self.mailbox.clone();
                let name = client.clone();
                let reply = Box::new(move |verdict: Result<Login, Refusal>| {
                    let (answer, ends) = answer_of(verdict, &name, None);
                    mailbox.tell(ToShard::Login {
                        link,
                        serial,
                        answer,
                        ends,
                    });
                });
                let peer: Arc<PeerState> = Arc::default();
                let verdict = self.pool.ask(request, peer.clone(), reply);
                if verdict.is_none() {
                    self.pending.insert((link, serial), peer);
                }
                verdict.map(|verdict| answer_of(verdict, &client, None))
            }
            LoginAsk::Proven { identity } => Some((self.proven(&identity, visitor.address), None)),
            LoginAsk::Exchange {
                client,
                chosen,
                method,
                data,
                first,
            } => {
                let binding = visitor.channel_binding;
                let mut request = self.request(visitor, client.into(), None);
                // What it shows here is judged here.
                request.certificate_name = None;
                request.chose_client_id = chosen;
                let method = (&*method, binding);
                Some(self.exchange((link, serial), request, method, &data, first))
            }
        }
    }

    fn request(
        &self,
        visitor: Visitor,
        client_id: Arc<str>,
        user: Option<Arc<str>>,
    ) -> LoginRequest {
        LoginRequest {
            client_id,
            chose_client_id: false,
            user,
            password: None,
            anonymous_allowed: self.settings.open_to_strangers.contains(&visitor.listener),
            certificate_name: visitor.certificate_name,
            peer: visitor.address,
            protocol: self
                .settings
                .protocols
                .get(&visitor.listener)
                .copied()
                .unwrap_or_default(),
            listener: visitor.listener,
        }
    }

    /// Logs a DTLS handshake that failed.
    pub(crate) fn note_handshake(&self, listener: &str, peer: SocketAddr, why: &dyn Display) {
        self.pool.note_handshake(listener, peer, why);
    }

    /// The rights of a client whose identity the transport has proven, at its address if that is known.
    pub(crate) fn proven(&self, identity: &str, address: Option<IpAddr>) -> LoginAnswer {
        let vault = self.pool.vault();
        let generation = vault.generation();
        if vault.ban_of(identity, Some(identity), address).is_some() {
            return LoginAnswer::Refused(LoginRefusal::NotAuthorized);
        }
        let rules = vault.rules(Some(identity));
        let access = rules.compile(identity, Some(identity));
        LoginAnswer::Allowed {
            user: Some(identity.into()),
            access: access.of_generation(generation),
            expires: None,
            data: None,
        }
    }

    fn exchange(
        &mut self,
        asker: (LinkId, u64),
        mut request: LoginRequest,
        (method, binding): (&str, Option<[u8; CHANNEL_BINDING_BYTES]>),
        data: &[u8],
        first: bool,
    ) -> (LoginAnswer, Option<Time>) {
        let vault: &Vault = self.pool.vault();
        let (method, is_bound) = match method.strip_suffix(PLUS) {
            Some(method) => (method, true),
            None => (method, false),
        };
        let binding = binding.filter(|_| is_bound).map(|data| ChannelBinding {
            name: "tls-exporter",
            data: data.into(),
        });
        if method != SCRAM
            || is_bound != binding.is_some()
            || !self.settings.scram
            || !vault.has_passwords()
        {
            self.refuse(
                &request,
                RefusalReason::NotAuthorized,
                "the authentication method is not offered",
            );
            return (LoginAnswer::Refused(LoginRefusal::BadMethod), None);
        }
        if first {
            let mut nonce = [0; NONCE_BYTES];
            crate::random::fill(&mut nonce);
            let (expect, server_first) = match ScramServer::start(&nonce, binding)
                .first(data, |user| vault.scram_verifier(user))
            {
                Ok(begun) => begun,
                Err(error) => {
                    let problem = format!("malformed SCRAM message: {error}");
                    return self.refuse(&request, RefusalReason::NotAuthorized, problem);
                }
            };
            request.user = Some(expect.user().into());
            if self.pool.is_held(&request) {
                let problem = "too many failed log-ins of this user from this network; try again in some seconds";
                return self.refuse(&request, RefusalReason::Unavailable, problem);
            }
            self.exchanges.insert(asker, expect);
            return (
                LoginAnswer::Continue {
                    data: server_first.into(),
                },
                None,
            );
        }
        let Some(expect) = self.exchanges.remove(&asker) else {
            return self.refuse(
                &request,
                RefusalReason::NotAuthorized,
                "no SCRAM exchange is going on",
            );
        };
        request.user = Some(expect.user().into());
        match expect.last(data) {
            Ok(proven) => {
                let verdict = vault.login_proven(&request, &proven.user);
                self.pool.take_note(&request, &verdict);
                answer_of(
                    verdict,
                    &request.client_id,
                    Some(proven.server_final.into()),
                )
            }
            Err(error) => self.refuse(&request, RefusalReason::BadUserOrPassword, error),
        }
    }

    /// Refuses what the pool has not judged; it is counted and logged all the same.
    fn refuse(
        &self,
        request: &LoginRequest,
        reason: RefusalReason,
        problem: impl Display,
    ) -> (LoginAnswer, Option<Time>) {
        let verdict = Err(Refusal::about(request, reason, problem));
        self.pool.take_note(request, &verdict);
        answer_of(verdict, &request.client_id, None)
    }

    /// A peer has closed its side; returns whether its log-in waits, and many others do.
    pub(crate) fn on_half_close(&self, link: LinkId, serial: u64) -> bool {
        let Some(peer) = self.pending.get(&(link, serial)) else {
            return false;
        };
        peer.set_half_closed();
        self.pool.waiting() > MANY
    }

    /// The pool has answered.
    pub(crate) fn answered(&mut self, link: LinkId, serial: u64) {
        self.pending.remove(&(link, serial));
    }

    /// A connection has ended.
    pub(crate) fn forget(&mut self, link: LinkId, serial: u64) {
        if !self.exchanges.is_empty() {
            self.exchanges.remove(&(link, serial));
        }
        if let Some(peer) = self.pending.remove(&(link, serial)) {
            peer.set_gone();
        }
    }
}

/// Everything, if the anonymous may do that, and none of them is to be looked up among the banned.
fn free_access(vault: &Vault) -> Option<Access> {
    let generation = vault.generation();
    let access = vault.rules(None).compile("", None);
    (access.is_allow_all() && vault.bans().is_none()).then(|| access.of_generation(generation))
}

fn answer_of(
    verdict: Result<Login, Refusal>,
    client: &str,
    data: Option<Box<[u8]>>,
) -> (LoginAnswer, Option<Time>) {
    match verdict {
        Ok(login) => {
            let access = login.rules.compile(client, login.user.as_deref());
            let access = access.of_generation(login.generation);
            let ends = login
                .expires_at_unix
                .map(|unix| clock::time_of_unix(unix, clock::now()));
            let user = login.user.as_deref().map(Into::into);
            (
                LoginAnswer::Allowed {
                    user,
                    access,
                    expires: ends,
                    data,
                },
                ends,
            )
        }
        Err(refusal) => {
            let why = match refusal.reason {
                RefusalReason::BadUserOrPassword => LoginRefusal::BadUserOrPassword,
                RefusalReason::NotAuthorized | RefusalReason::Expired => {
                    LoginRefusal::NotAuthorized
                }
                RefusalReason::ClientId => LoginRefusal::ClientId,
                RefusalReason::Unavailable => LoginRefusal::Busy,
            };
            (LoginAnswer::Refused(why), None)
        }
    }
}
