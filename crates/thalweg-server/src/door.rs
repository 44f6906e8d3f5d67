//! Who may come in: answers the fronts' questions, slow ones on the vault's threads.

use crate::access::scram::{ExpectClientFinal, ScramServer};
use crate::access::{Login, LoginRequest, Refusal, RefusalReason, Vault, VaultPool};
use crate::clock;
use crate::settings::DoorSettings;
use crate::shard::{Mailbox, ToShard};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use thalweg_fronts::{LoginAnswer, LoginAsk, LoginRefusal};
use thalweg_kernel::{Kernel, LinkId};
use thalweg_model::Time;

/// The only mechanism of challenge and response there is.
const SCRAM: &str = "SCRAM-SHA-256";
/// Bytes of randomness in our part of a nonce.
const NONCE_BYTES: usize = 24;

/// Who asks, as far as the transport knows.
pub(crate) struct Visitor {
    /// The listener it came through.
    pub(crate) listener: Arc<str>,
    /// Where it is, if there is one such place.
    pub(crate) address: Option<IpAddr>,
    /// The name in its verified certificate.
    pub(crate) certificate_name: Option<Arc<str>>,
}

/// A shard's way to the vault.
pub(crate) struct Door {
    pool: Arc<VaultPool>,
    /// The shard's own mailbox, for answers that come later.
    mailbox: Mailbox,
    settings: Arc<DoorSettings>,
    exchanges: HashMap<(LinkId, u64), ExpectClientFinal>,
}

impl Door {
    pub(crate) fn new(pool: Arc<VaultPool>, mailbox: Mailbox) -> Self {
        Door { pool, mailbox, settings: Arc::default(), exchanges: HashMap::new() }
    }

    /// From now on these settings decide.
    pub(crate) fn set_settings(&mut self, settings: Arc<DoorSettings>) {
        self.settings = settings;
    }

    /// Gives every session the rules that are in force now.
    pub(crate) fn renew_access(&self, kernel: &mut Kernel) {
        let vault = self.pool.vault();
        kernel.renew_access(|client, user| vault.rules(user).compile(client, user));
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
            LoginAsk::Password { client, user, password } => {
                let client: Arc<str> = client.into();
                let request = LoginRequest {
                    client_id: client.clone(),
                    user: user.map(Into::into),
                    password: password.map(Into::into),
                    anonymous_allowed: self.settings.open_to_strangers.contains(&visitor.listener),
                    certificate_name: visitor.certificate_name,
                    peer: visitor.address,
                    listener: visitor.listener,
                };
                let mailbox = self.mailbox.clone();
                let reply = Box::new(move |verdict: Result<Login, Refusal>| {
                    let (answer, ends) = answer_of(verdict, &client, None);
                    mailbox.tell(ToShard::Login { link, serial, answer, ends });
                });
                match self.pool.submit(request, reply) {
                    Ok(()) => None,
                    Err(_full) => {
                        tracing::warn!("login refused: too many wait for the vault; we are overloaded");
                        Some((LoginAnswer::Refused(LoginRefusal::Busy), None))
                    }
                }
            }
            LoginAsk::Proven { identity } => Some((self.proven(&identity), None)),
            LoginAsk::Exchange { client, method, data, first } => {
                Some(self.exchange(link, serial, &client, &method, &data, first))
            }
        }
    }

    /// What somebody may do whose identity the transport has proven.
    pub(crate) fn proven(&self, identity: &str) -> LoginAnswer {
        let access = self.pool.vault().rules(Some(identity)).compile(identity, Some(identity));
        LoginAnswer::Allowed { user: Some(identity.into()), access, expires: None, data: None }
    }

    fn exchange(
        &mut self,
        link: LinkId,
        serial: u64,
        client: &str,
        method: &str,
        data: &[u8],
        first: bool,
    ) -> (LoginAnswer, Option<Time>) {
        let vault: &Vault = self.pool.vault();
        if method != SCRAM || !self.settings.scram || !vault.has_passwords() {
            return (LoginAnswer::Refused(LoginRefusal::BadMethod), None);
        }
        if first {
            let mut nonce = [0; NONCE_BYTES];
            crate::random::fill(&mut nonce);
            return match ScramServer::start(&nonce).first(data, |user| vault.scram_verifier(user)) {
                Ok((expect, server_first)) => {
                    self.exchanges.insert((link, serial), expect);
                    (LoginAnswer::Continue { data: server_first.into() }, None)
                }
                Err(error) => {
                    tracing::debug!(%client, %error, "login refused: the peer's SCRAM message is at fault");
                    (LoginAnswer::Refused(LoginRefusal::NotAuthorized), None)
                }
            };
        }
        let Some(expect) = self.exchanges.remove(&(link, serial)) else {
            return (LoginAnswer::Refused(LoginRefusal::NotAuthorized), None);
        };
        match expect.last(data) {
            Ok(proven) => answer_of(vault.login_proven(&proven.user), client, Some(proven.server_final.into())),
            Err(error) => {
                tracing::debug!(%client, %error, "login refused: the peer's proof is wrong");
                (LoginAnswer::Refused(LoginRefusal::BadUserOrPassword), None)
            }
        }
    }

    /// A connection has ended.
    pub(crate) fn forget(&mut self, link: LinkId, serial: u64) {
        if !self.exchanges.is_empty() {
            self.exchanges.remove(&(link, serial));
        }
    }
}

fn answer_of(verdict: Result<Login, Refusal>, client: &str, data: Option<Box<[u8]>>) -> (LoginAnswer, Option<Time>) {
    match verdict {
        Ok(login) => {
            let access = login.rules.compile(client, login.user.as_deref());
            let ends = login.expires_at_unix.map(|unix| clock::time_of_unix(unix, clock::now()));
            let user = login.user.as_deref().map(Into::into);
            (LoginAnswer::Allowed { user, access, expires: ends, data }, ends)
        }
        Err(refusal) => {
            tracing::debug!(%client, why = %refusal, "login refused");
            let why = match refusal.reason {
                RefusalReason::BadUserOrPassword => LoginRefusal::BadUserOrPassword,
                RefusalReason::NotAuthorized | RefusalReason::Expired => LoginRefusal::NotAuthorized,
                RefusalReason::Unavailable => LoginRefusal::Busy,
            };
            (LoginAnswer::Refused(why), None)
        }
    }
}
