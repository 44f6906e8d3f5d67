//! All that is known about who may connect, in one reloadable place.

use super::jwt::looks_like_token;
use super::password_hash::fill_random;
use super::verdict_cache::VerdictCache;
use super::{
    AccessError, AccessSettings, AclFile, BanFile, BanKind, Login, LoginRequest, PasswordFile,
    Refusal, RefusalReason, TokenError, TokenKeys,
};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Instant, SystemTime};
use thalweg_kernel::ClientIds;
use thalweg_kernel::access::{Otherwise, Rules};
use thalweg_scram::ScramVerifier;

/// Passwords, tokens, SCRAM verifiers and rules, shared by all threads and replaced as a whole on reload.
///
/// Who comes in as whom:
///
/// | offered | known sources | answer |
/// |---|---|---|
/// | a certificate's name | any | that user; user name and password are not looked at |
/// | nothing (or an empty name and no password) | any | anonymous, if the listener allows it |
/// | a user name, a password or both | none | anonymous, if the listener allows it: nothing could prove the name |
/// | a password shaped like a token | tokens | what the token says |
/// | a password that is no token | tokens, and they are required | refused |
/// | user name and password | password file | what the file says |
/// | anything else | any | refused, also where the anonymous are allowed |
pub struct Vault {
    loaded: RwLock<Arc<Loaded>>,
    /// Keys everything that peers must not foresee: fake salts, decoys, remembered verdicts.
    secret: [u8; 32],
}

/// What time it is, on both clocks that matter here.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Seconds since 1970: tokens are judged by it.
    pub unix_seconds: u64,
    /// The monotonic clock: remembered verdicts age by it.
    pub instant: Instant,
}

/// One reading of all files. Remembered verdicts belong to it, so that a verdict which is still being computed during
/// a reload is remembered in the old one and forgotten with it.
struct Loaded {
    passwords: Option<PasswordFile>,
    acl: Option<AclFile>,
    bans: Option<Arc<BanFile>>,
    tokens: Option<TokenKeys>,
    client_ids: ClientIds,
    verdicts: VerdictCache,
    /// Which reading it is: the first is 1.
    generation: u32,
    /// What everybody may do when there is no ACL file.
    without_rules: Arc<Rules>,
}

/// The users of one reading of the password file.
pub struct Users(Arc<Loaded>);

impl Users {
    /// Whether a user was in it.
    pub fn contain(&self, user: &str) -> bool {
        self.0
            .passwords
            .as_ref()
            .is_some_and(|passwords| passwords.contains(user))
    }
}

/// What takes time to verify.
enum Proof<'a> {
    Token(&'a [u8]),
    Password(&'a Arc<str>, &'a [u8]),
}

impl Vault {
    /// Reads everything the settings name; all faults at once, not only the first.
    pub fn load(settings: &AccessSettings) -> Result<Self, Vec<AccessError>> {
        let secret = match settings.scram_secret {
            Some(secret) => secret,
            None => {
                let mut secret = [0; 32];
                fill_random(&mut secret).map_err(|error| {
                    vec![AccessError::file(
                        Path::new(""),
                        error.to_string(),
                        "check the operating system",
                    )]
                })?;
                secret
            }
        };
        Ok(Vault {
            loaded: RwLock::new(Arc::new(Loaded::read(settings, secret)?)),
            secret,
        })
    }

    /// Reads everything again. On an error the old state stays in force. The secret of the first load stays.
    pub fn reload(&self, settings: &AccessSettings) -> Result<(), Vec<AccessError>> {
        let mut loaded = Loaded::read(settings, self.secret)?;
        let mut current = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        loaded.generation = current.generation + 1;
        *current = Arc::new(loaded);
        Ok(())
    }

    /// Judges a peer, now. May take tens of milliseconds: not for an event loop.
    pub fn check(&self, request: &LoginRequest) -> Result<Login, Refusal> {
        self.check_at(request, Moment::now())
    }

    /// Judges a peer at a given moment.
    pub fn check_at(&self, request: &LoginRequest, moment: Moment) -> Result<Login, Refusal> {
        let loaded = self.loaded();
        let verdict = match loaded.check_known(request, moment) {
            Ok(verdict) => verdict,
            Err(Proof::Token(token)) => loaded.check_token(request, token, moment),
            Err(Proof::Password(user, password)) => loaded.verdict(
                request,
                user,
                loaded.verify(&self.secret, user, password, moment.instant),
            ),
        };
        // A hash takes its time: what a reload has changed meanwhile counts.
        if !Arc::ptr_eq(&loaded, &self.loaded()) {
            return self.check_at(request, moment);
        }
        loaded.bind(request, verdict)
    }

    /// The same, if that takes no hash and no signature.
    pub fn check_known(
        &self,
        request: &LoginRequest,
        moment: Moment,
    ) -> Option<Result<Login, Refusal>> {
        let loaded = self.loaded();
        let verdict = loaded.check_known(request, moment).ok()?;
        Some(loaded.bind(request, verdict))
    }

    /// What SCRAM compares a user's proof with; that of an unknown user cannot be distinguished from a known one's.
    /// Cheap.
    pub fn scram_verifier(&self, user: &str) -> ScramVerifier {
        match &self.loaded().passwords {
            Some(passwords) => passwords.scram_verifier(&self.secret, user),
            None => ScramVerifier::fake(&self.secret, user, None),
        }
    }

    /// Whether any login by password or SCRAM can succeed, so that offering SCRAM makes sense.
    pub fn has_passwords(&self) -> bool {
        let loaded = self.loaded();
        !loaded.requires_token()
            && loaded
                .passwords
                .as_ref()
                .is_some_and(|passwords| !passwords.is_empty())
    }

    /// The login of a user whom SCRAM has shown to be who they say; refused if a reload has removed them since.
    pub fn login_proven(&self, request: &LoginRequest, user: &Arc<str>) -> Result<Login, Refusal> {
        let loaded = self.loaded();
        let is_known = loaded
            .passwords
            .as_ref()
            .is_some_and(|passwords| passwords.contains(user));
        let verdict = match is_known && !loaded.requires_token() {
            true => Ok(loaded.login(Some(user.clone()))),
            false => Err(Refusal::about(
                request,
                RefusalReason::NotAuthorized,
                "the user was removed meanwhile",
            )),
        };
        loaded.bind(request, verdict)
    }

    /// What a user may do now; for sessions that live on over a reload. None is the anonymous. Rules that a token
    /// carried do not stand here.
    pub fn rules(&self, user: Option<&str>) -> Arc<Rules> {
        self.loaded().rules(user)
    }

    /// Which reading of the files is in force; each has a higher number than the one before.
    pub fn generation(&self) -> u32 {
        self.loaded().generation
    }

    /// What a peer is banned by now. None for most.
    pub fn ban_of(
        &self,
        client: &str,
        user: Option<&str>,
        peer: Option<IpAddr>,
    ) -> Option<BanKind> {
        self.loaded().ban_of(client, user, peer)
    }

    /// The ban file as it was read last. With one every peer has to be looked up.
    pub fn bans(&self) -> Option<Arc<BanFile>> {
        self.loaded().bans.clone()
    }

    /// The users of the password file as it was read last.
    pub fn users(&self) -> Users {
        Users(self.loaded())
    }

    fn loaded(&self) -> Arc<Loaded> {
        // A reload swaps one pointer under the lock; nothing can be half done.
        self.loaded
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Moment {
    pub fn now() -> Self {
        let unix_seconds = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        Moment {
            unix_seconds,
            instant: Instant::now(),
        }
    }
}

impl Loaded {
    fn read(settings: &AccessSettings, secret: [u8; 32]) -> Result<Self, Vec<AccessError>> {
        let mut errors = Vec::new();
        let passwords = settings.password_file.as_deref().map(PasswordFile::read);
        let passwords =
            passwords.and_then(|read| read.map_err(|mut new| errors.append(&mut new)).ok());
        let otherwise = settings.otherwise.unwrap_or(Otherwise::Deny);
        let read = |path| AclFile::read(path, settings.subscribe_needs_read, otherwise);
        let acl = settings.acl_file.as_deref().map(read);
        let acl = acl.and_then(|read| read.map_err(|mut new| errors.append(&mut new)).ok());
        let bans = settings.ban_file.as_deref().map(BanFile::read);
        let bans = bans
            .and_then(|read| read.map_err(|mut new| errors.append(&mut new)).ok())
            .map(Arc::new);
        let tokens = settings.token.as_ref().map(TokenKeys::load);
        let tokens = tokens.and_then(|read| read.map_err(|mut new| errors.append(&mut new)).ok());
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Loaded {
            passwords,
            acl,
            bans,
            tokens,
            client_ids: settings.client_ids,
            verdicts: VerdictCache::new(secret, settings.verdict_ttl, settings.verdict_count_limit),
            generation: 1,
            without_rules: Arc::new(without_rules(settings)),
        })
    }

    /// Judges what can be judged at once; otherwise says what is to be verified.
    fn check_known<'a>(
        &self,
        request: &'a LoginRequest,
        moment: Moment,
    ) -> Result<Result<Login, Refusal>, Proof<'a>> {
        let password = request.password.as_deref();
        if let Some(name) = &request.certificate_name {
            return Ok(Ok(self.login(Some(name.clone()))));
        }
        let offers_nothing = request.user.as_deref().is_none_or(str::is_empty)
            && password.is_none_or(<[u8]>::is_empty);
        if offers_nothing || !self.knows_anybody() {
            return Ok(match request.anonymous_allowed {
                true => Ok(self.login(None)),
                false => Err(Refusal::about(
                    request,
                    RefusalReason::NotAuthorized,
                    "the anonymous are not allowed here",
                )),
            });
        }
        let bad = |problem: &str| {
            Ok(Err(Refusal::about(
                request,
                RefusalReason::BadUserOrPassword,
                problem,
            )))
        };
        match (&request.user, password) {
            (_, Some(token)) if self.tokens.is_some() && looks_like_token(token) => {
                Err(Proof::Token(token))
            }
            (_, Some(_)) if self.requires_token() => bad("the password is not a token"),
            (Some(user), Some(password)) => match &self.passwords {
                None => bad("there are no passwords, only tokens"),
                Some(_) => match self.verdicts.recall(user, password, moment.instant) {
                    Some(verdict) => Ok(self.verdict(request, user, verdict)),
                    None => Err(Proof::Password(user, password)),
                },
            },
            (Some(_), None) => bad("a user name without a password"),
            (None, _) => bad("a password without a user name"),
        }
    }

    fn verdict(
        &self,
        request: &LoginRequest,
        user: &Arc<str>,
        is_right: bool,
    ) -> Result<Login, Refusal> {
        let problem = "wrong password or unknown user";
        match is_right {
            true => Ok(self.login(Some(user.clone()))),
            false => Err(Refusal::about(
                request,
                RefusalReason::BadUserOrPassword,
                problem,
            )),
        }
    }

    /// Refuses an authenticated peer that is banned, or that may not use the client id it chose.
    fn bind(
        &self,
        request: &LoginRequest,
        verdict: Result<Login, Refusal>,
    ) -> Result<Login, Refusal> {
        let login = verdict?;
        let user = login.user.as_deref();
        if let Some(kind) = self.ban_of(&request.client_id, user, request.peer) {
            let problem = format!("the {kind} is banned (access.ban_file)");
            return Err(Refusal::about(
                request,
                RefusalReason::NotAuthorized,
                problem,
            ));
        }
        if !request.chose_client_id || self.client_ids.allow(&request.client_id, user) {
            return Ok(login);
        }
        let problem = match (self.client_ids, user) {
            (_, None) => {
                "access.client_ids leaves the anonymous no client id of their own choice".to_owned()
            }
            (ClientIds::Prefix, Some(user)) => {
                format!(
                    "user {user:?} may be client {user:?} or \"{}:…\" (access.client_ids)",
                    user.escape_debug()
                )
            }
            (_, Some(user)) => {
                format!("user {user:?} may be client {user:?} only (access.client_ids)")
            }
        };
        Err(Refusal::about(request, RefusalReason::ClientId, problem))
    }

    fn ban_of(&self, client: &str, user: Option<&str>, peer: Option<IpAddr>) -> Option<BanKind> {
        let bans = self.bans.as_ref()?;
        bans.ban_of(client, user, peer, Moment::now().unix_seconds)
    }

    fn requires_token(&self) -> bool {
        self.tokens.as_ref().is_some_and(TokenKeys::are_required)
    }

    fn knows_anybody(&self) -> bool {
        self.passwords.is_some() || self.tokens.is_some()
    }

    fn verify(&self, secret: &[u8; 32], user: &str, password: &[u8], now: Instant) -> bool {
        let Some(passwords) = &self.passwords else {
            return false;
        };
        self.verdicts.verdict(user, password, now, || {
            passwords.verify(secret, user, password)
        })
    }

    fn check_token(
        &self,
        request: &LoginRequest,
        token: &[u8],
        moment: Moment,
    ) -> Result<Login, Refusal> {
        let Some(tokens) = &self.tokens else {
            return Err(Refusal::about(
                request,
                RefusalReason::BadUserOrPassword,
                "tokens are not accepted",
            ));
        };
        let claims = tokens.check(token, moment.unix_seconds).map_err(|error| {
            let reason = match error {
                TokenError::Expired | TokenError::NotYet => RefusalReason::Expired,
                TokenError::BadClaim(_) => RefusalReason::NotAuthorized,
                _ => RefusalReason::BadUserOrPassword,
            };
            Refusal::about(request, reason, error)
        })?;
        let claimed = request.user.as_deref().filter(|user| !user.is_empty());
        if tokens.user_must_match() && claimed.is_some_and(|user| *user != *claims.user) {
            let problem = format!("the token is user {:?}'s", claims.user);
            return Err(Refusal::about(
                request,
                RefusalReason::BadUserOrPassword,
                problem,
            ));
        }
        let rules = claims
            .rules
            .unwrap_or_else(|| self.rules(Some(&claims.user)));
        Ok(Login {
            user: Some(claims.user),
            rules,
            generation: self.generation,
            expires_at_unix: claims.expires_at_unix,
        })
    }

    fn login(&self, user: Option<Arc<str>>) -> Login {
        let rules = self.rules(user.as_deref());
        Login {
            user,
            rules,
            generation: self.generation,
            expires_at_unix: None,
        }
    }

    fn rules(&self, user: Option<&str>) -> Arc<Rules> {
        self.acl
            .as_ref()
            .map_or(&self.without_rules, |acl| acl.rules(user))
            .clone()
    }
}

fn without_rules(settings: &AccessSettings) -> Rules {
    match settings.otherwise.unwrap_or(Otherwise::Allow) {
        Otherwise::Allow => Rules::allow_all(),
        Otherwise::Deny => Rules::new(Vec::new(), Otherwise::Deny)
            .expect("no rule can be malformed where there is none"),
    }
}

#[cfg(test)]
#[path = "vault_tests.rs"]
mod tests;
