//! The question and the two answers.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use thalweg_kernel::access::Rules;

/// What a peer says about itself when it connects. Debug output hides the password.
#[derive(Clone)]
pub struct LoginRequest {
    /// The client id, after the broker assigned one if the peer left it empty; `%c` in ACL patterns.
    pub client_id: Arc<str>,
    /// The peer chose its client id.
    pub chose_client_id: bool,
    /// The user name it claims.
    pub user: Option<Arc<str>>,
    /// The password or token it offers.
    pub password: Option<Arc<[u8]>>,
    /// The user name its TLS client certificate proves, if the listener takes user names from certificates.
    pub certificate_name: Option<Arc<str>>,
    /// Whether the listener lets peers in that offer no credentials.
    pub anonymous_allowed: bool,
    /// Where it comes from; none for unix sockets.
    pub peer: Option<IpAddr>,
    /// The listener's name in the configuration.
    pub listener: Arc<str>,
    /// The protocol that is spoken there, as the configuration calls it.
    pub protocol: &'static str,
}

impl LoginRequest {
    /// Bytes of memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        let text = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| text.len());
        let password = self.password.as_ref().map_or(0, |password| password.len());
        size_of::<Self>()
            + self.client_id.len()
            + text(&self.user)
            + text(&self.certificate_name)
            + password
    }
}

impl fmt::Debug for LoginRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginRequest")
            .field("client_id", &self.client_id)
            .field("chose_client_id", &self.chose_client_id)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "hidden"))
            .field("certificate_name", &self.certificate_name)
            .field("anonymous_allowed", &self.anonymous_allowed)
            .field("peer", &self.peer)
            .field("listener", &self.listener)
            .field("protocol", &self.protocol)
            .finish()
    }
}

/// An accepted log-in: the user and its compiled rights.
#[derive(Clone, Debug)]
pub struct Login {
    /// The user; none for anonymous peers.
    pub user: Option<Arc<str>>,
    /// What it may do.
    pub rules: Arc<Rules>,
    /// The reading of the access files by which it was judged; see [`Vault::generation`](super::Vault::generation).
    pub generation: u32,
    /// When its credentials end, in seconds since 1970: the broker disconnects it then. None: never.
    pub expires_at_unix: Option<u64>,
}

/// A refused log-in: the reason for the peer and the text for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason that the peer gets, by its protocol's code.
    pub reason: RefusalReason,
    /// The text for the log; never sent to the peer, never holds a password.
    pub log: String,
}

/// Why a log-in was refused; fronts have one table from this to their protocol's codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// The user is unknown, the password is wrong or the token is not ours. Which one, only the log knows.
    BadUserOrPassword,
    /// No credentials were offered where they are needed, or who was recognised has no business here.
    NotAuthorized,
    /// A token that was good once, or is not good yet.
    Expired,
    /// The user may not bear this client id.
    ClientId,
    /// The vault could not decide now (a full queue, a failed thread); trying again is sensible.
    Unavailable,
}

impl RefusalReason {
    /// All, in the order of their numbers.
    pub const ALL: [RefusalReason; 5] = [
        RefusalReason::BadUserOrPassword,
        RefusalReason::NotAuthorized,
        RefusalReason::Expired,
        RefusalReason::ClientId,
        RefusalReason::Unavailable,
    ];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            RefusalReason::BadUserOrPassword => "bad_credentials",
            RefusalReason::NotAuthorized => "not_authorized",
            RefusalReason::Expired => "expired",
            RefusalReason::ClientId => "client_id",
            RefusalReason::Unavailable => "unavailable",
        }
    }
}

impl Refusal {
    /// A refusal of a peer's request: the text for the log says who asked, quoted and cut, so that names cannot forge a
    /// log line.
    pub fn about(
        request: &LoginRequest,
        reason: RefusalReason,
        problem: impl fmt::Display,
    ) -> Self {
        let quoted = |name: &str| match cut(name) {
            whole if whole.len() == name.len() => format!("{name:?}"),
            part => format!("{part:?}…"),
        };
        let mut log = format!("client {}", quoted(&request.client_id));
        if let Some(user) = &request.user {
            log += &format!(", user {}", quoted(user));
        }
        if let Some(peer) = request.peer {
            log += &format!(", from {peer}");
        }
        log += &format!(", on listener {}: {problem}", request.listener);
        Refusal::new(reason, log)
    }

    /// A refusal with its text for the log.
    pub fn new(reason: RefusalReason, log: impl Into<String>) -> Self {
        Refusal {
            reason,
            log: log.into(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.log)
    }
}

impl std::error::Error for Refusal {}

/// As much of a peer's text as is logged. Log it as a `str` value or with `{:?}`, which escape it, never with `%`.
pub fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(LOGGED_BYTES_MAX))
        .unwrap_or("")
}

/// Of a client id, user name or filter at most so many bytes are logged.
const LOGGED_BYTES_MAX: usize = 80;
