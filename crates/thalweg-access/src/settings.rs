//! What the vault is built from. Plain values: configuration fills them in.

use std::path::PathBuf;
use std::time::Duration;

use thalweg_kernel::ClientIds;
use thalweg_kernel::access::Otherwise;

/// Where credentials and rules come from. The default has no users and allows anonymous clients everything; whether
/// they are admitted at all is a field of each [`LoginRequest`](super::LoginRequest).
#[derive(Clone, Debug)]
pub struct AccessSettings {
    /// Password file (mosquitto's format and ours); none: log-in by password is not possible.
    pub password_file: Option<PathBuf>,
    /// ACL file (mosquitto's format); none: `otherwise` holds for all.
    pub acl_file: Option<PathBuf>,
    /// Clients, users and networks that may not connect.
    pub ban_file: Option<PathBuf>,
    /// What holds where no rule speaks; none: with an ACL file it is denied, without one it is allowed.
    pub otherwise: Option<Otherwise>,
    /// Whether subscribing needs `read` on everything that the filter can match. False is what mosquitto means:
    /// anything may be subscribed to, and each message is judged before it is delivered.
    pub subscribe_needs_read: bool,
    /// Which client ids a user may bear.
    pub client_ids: ClientIds,
    /// Tokens as passwords; none: a token is just a wrong password.
    pub token: Option<TokenSettings>,
    /// Keys the fake SCRAM salts of unknown users. Keep it stable over restarts (a file in the data directory), else a
    /// restart tells known from unknown users apart. None: made up at start.
    pub scram_secret: Option<[u8; 32]>,
    /// How long a password verdict is remembered, so that a reconnect storm does not pay for hashing each time.
    /// Zero: never.
    pub verdict_ttl: Duration,
    /// How many right, and how many wrong, verdicts are remembered at most.
    pub verdict_count_limit: usize,
}

impl Default for AccessSettings {
    fn default() -> Self {
        AccessSettings {
            password_file: None,
            acl_file: None,
            ban_file: None,
            otherwise: None,
            subscribe_needs_read: false,
            client_ids: ClientIds::Any,
            token: None,
            scram_secret: None,
            verdict_ttl: Duration::from_secs(600),
            verdict_count_limit: 4096,
        }
    }
}

/// How tokens (JWT, RFC 7519) are judged.
#[derive(Clone, Debug)]
pub struct TokenSettings {
    /// Keys a token may be signed with; at least one. Several let keys roll over.
    pub keys: Vec<TokenKeySettings>,
    /// Accepted `iss` values; empty: any, also none.
    pub issuers: Vec<String>,
    /// Accepted `aud` values; empty: any, also none.
    pub audiences: Vec<String>,
    /// Which claim names the user.
    pub user_claim: String,
    /// Which claim may carry `{publish: [...], subscribe: [...]}`. A token that has it is not looked up in the ACL file.
    pub acl_claim: String,
    /// Clock difference forgiven for `exp` and `nbf`, in seconds.
    pub leeway_seconds: u64,
    /// Whether a token without `exp` is refused.
    pub expiry_required: bool,
    /// Whether a user name sent beside the token must equal the token's user.
    pub user_must_match: bool,
    /// Whether log-ins by a password that is not a token, and by SCRAM, are refused.
    pub required: bool,
}

impl Default for TokenSettings {
    fn default() -> Self {
        TokenSettings {
            keys: Vec::new(),
            issuers: Vec::new(),
            audiences: Vec::new(),
            user_claim: "sub".into(),
            acl_claim: "thalweg_acl".into(),
            leeway_seconds: 5,
            expiry_required: true,
            user_must_match: true,
            required: false,
        }
    }
}

/// The signature algorithms of tokens (RFC 7518 §3.1, RFC 8037).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenAlgorithm {
    /// HMAC with SHA-256 and a shared secret of at least 32 bytes (RFC 7518 §3.2).
    Hs256,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// ECDSA with P-256 and SHA-256.
    Es256,
    /// Ed25519.
    EdDsa,
}

/// One key, for exactly one algorithm, so that a public key can never be taken for a shared secret.
#[derive(Clone, Debug)]
pub struct TokenKeySettings {
    /// Compared with the token's `kid` when both have one.
    pub id: Option<String>,
    /// The only algorithm this key serves.
    pub algorithm: TokenAlgorithm,
    pub source: TokenKeySource,
}

/// Where a key's bytes are.
#[derive(Clone)]
pub enum TokenKeySource {
    /// In these bytes: the secret itself, or a PEM public key.
    Bytes(Vec<u8>),
    /// In a file: the secret (one trailing line break is dropped), or a PEM public key.
    File(PathBuf),
}

impl std::fmt::Debug for TokenKeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // The bytes may be a secret, and settings get logged.
            TokenKeySource::Bytes(bytes) => write!(f, "Bytes({} hidden)", bytes.len()),
            TokenKeySource::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}
