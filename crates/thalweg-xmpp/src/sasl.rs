//! SASL's words in XMPP, RFC 6120, 6.

/// A mechanism that this crate knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mechanism {
    /// RFC 7677 with channel binding.
    ScramSha256Plus,
    /// RFC 7677.
    ScramSha256,
    /// RFC 5802 with channel binding.
    ScramSha1Plus,
    /// RFC 5802.
    ScramSha1,
    /// A certificate has shown who the peer is.
    External,
    /// RFC 4616, only behind TLS.
    Plain,
    /// RFC 4505.
    Anonymous,
}

impl Mechanism {
    /// All of them, the best first.
    pub const ALL: [Mechanism; 7] = [
        Mechanism::ScramSha256Plus,
        Mechanism::ScramSha256,
        Mechanism::ScramSha1Plus,
        Mechanism::ScramSha1,
        Mechanism::External,
        Mechanism::Plain,
        Mechanism::Anonymous,
    ];

    /// The name that is registered.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::ScramSha256Plus => "SCRAM-SHA-256-PLUS",
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
            Mechanism::ScramSha1Plus => "SCRAM-SHA-1-PLUS",
            Mechanism::ScramSha1 => "SCRAM-SHA-1",
            Mechanism::External => "EXTERNAL",
            Mechanism::Plain => "PLAIN",
            Mechanism::Anonymous => "ANONYMOUS",
        }
    }

    /// The mechanism of this name.
    pub fn from_name(name: &str) -> Option<Mechanism> {
        Mechanism::ALL
            .into_iter()
            .find(|known| known.name() == name)
    }

    /// Whether an exchange by it is bound to its TLS connection.
    pub fn is_bound(self) -> bool {
        matches!(self, Mechanism::ScramSha1Plus | Mechanism::ScramSha256Plus)
    }

    /// Whether an exchange by it must not be read on its way.
    pub(crate) fn needs_tls(self) -> bool {
        use Mechanism::*;
        matches!(self, Plain | External | ScramSha1Plus | ScramSha256Plus)
    }
}

/// A set of mechanisms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mechanisms(u8);

impl Mechanisms {
    /// Whether a mechanism is in it.
    pub fn contains(self, mechanism: Mechanism) -> bool {
        self.0 & 1 << mechanism as u8 != 0
    }

    /// Mechanisms in the set, the best first.
    pub fn iter(self) -> impl Iterator<Item = Mechanism> {
        Mechanism::ALL
            .into_iter()
            .filter(move |mechanism| self.contains(*mechanism))
    }
}

impl FromIterator<Mechanism> for Mechanisms {
    fn from_iter<I: IntoIterator<Item = Mechanism>>(mechanisms: I) -> Self {
        Mechanisms(
            mechanisms
                .into_iter()
                .fold(0, |set, mechanism| set | 1 << mechanism as u8),
        )
    }
}

/// The message of PLAIN, RFC 4616.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Plain<'b> {
    /// Authorization identity of the peer; empty: its own.
    pub authorization: &'b str,
    /// User name, never empty.
    pub user: &'b str,
    /// Password, never empty; readable to everyone with access to the message.
    pub password: &'b str,
}

impl std::fmt::Debug for Plain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Plain({})", self.user.escape_debug())
    }
}

impl<'b> Plain<'b> {
    /// Reads a message; `None` if it is malformed.
    pub fn decode(message: &'b [u8]) -> Option<Plain<'b>> {
        let mut parts = std::str::from_utf8(message).ok()?.split('\0');
        let (authorization, user, password) = (parts.next()?, parts.next()?, parts.next()?);
        let is_whole = parts.next().is_none() && !user.is_empty() && !password.is_empty();
        is_whole.then_some(Plain {
            authorization,
            user,
            password,
        })
    }

    /// The message, as [`Plain::decode`] reads it.
    pub fn encode(&self) -> Vec<u8> {
        [self.authorization, self.user, self.password]
            .join("\0")
            .into_bytes()
    }
}

/// Why a log-in fails. [6120#6.5]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaslFailure {
    /// The peer has given up.
    Aborted,
    /// The account must not log in.
    AccountDisabled,
    /// The mechanism needs TLS.
    EncryptionRequired,
    /// The data is not valid base64.
    IncorrectEncoding,
    /// The peer may not use that authorization identity.
    InvalidAuthzid,
    /// The mechanism is not offered.
    InvalidMechanism,
    /// The message is malformed.
    MalformedRequest,
    /// User or password are wrong.
    NotAuthorized,
    /// The log-in cannot be checked now.
    TemporaryAuthFailure,
}

impl SaslFailure {
    /// All failures, in the order of RFC 6120.
    pub const ALL: [SaslFailure; 9] = [
        SaslFailure::Aborted,
        SaslFailure::AccountDisabled,
        SaslFailure::EncryptionRequired,
        SaslFailure::IncorrectEncoding,
        SaslFailure::InvalidAuthzid,
        SaslFailure::InvalidMechanism,
        SaslFailure::MalformedRequest,
        SaslFailure::NotAuthorized,
        SaslFailure::TemporaryAuthFailure,
    ];

    /// The element that says so.
    pub fn name(self) -> &'static str {
        match self {
            SaslFailure::Aborted => "aborted",
            SaslFailure::AccountDisabled => "account-disabled",
            SaslFailure::EncryptionRequired => "encryption-required",
            SaslFailure::IncorrectEncoding => "incorrect-encoding",
            SaslFailure::InvalidAuthzid => "invalid-authzid",
            SaslFailure::InvalidMechanism => "invalid-mechanism",
            SaslFailure::MalformedRequest => "malformed-request",
            SaslFailure::NotAuthorized => "not-authorized",
            SaslFailure::TemporaryAuthFailure => "temporary-auth-failure",
        }
    }

    /// The failure of this name; one that is not known is [`SaslFailure::NotAuthorized`].
    pub fn from_name(name: &str) -> SaslFailure {
        let found = SaslFailure::ALL
            .into_iter()
            .find(|known| known.name() == name);
        found.unwrap_or(SaslFailure::NotAuthorized)
    }
}
