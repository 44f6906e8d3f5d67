//! `admin.*` and `access.*`: who may do what.

use std::net::SocketAddr;
use std::path::PathBuf;

use thalweg_access::TokenAlgorithm;
use thalweg_kernel::ClientIds;
use thalweg_kernel::access::Otherwise;
use thalweg_model::Span;

use super::section::section;

section! {
    pub struct Admin {
        /// Whether the admin HTTP interface is served: /metrics, /healthz, /readyz and /v1.
        enabled: bool = Flag, "true", Restart;
        /// IP address and port of the admin HTTP interface. Beyond loopback it needs `admin.token` or
        /// `admin.token_file`, and should have `admin.tls.certificate`.
        bind: SocketAddr = SOCKET, "127.0.0.1:7883", Restart;
        /// Path of a Unix socket on which the admin interface is served as well. A process that may open it has the
        /// role `admin` without a token.
        unix_socket: Option<PathBuf> = Path, "", Restart;
        /// Permission bits of `admin.unix_socket`, in octal.
        unix_mode: u32 = Mode, "0600", Restart;
        /// Bearer token of the role `admin`, which may ask and change everything. Better set through the environment
        /// (THALWEG_ADMIN__TOKEN) or as `admin.token_file` than in a file that others can read. Without a token, every
        /// process on this machine has that role, unless log-in is configured (`access.password_file`,
        /// `access.acl_file` or `access.jwt.*`): then only /healthz and /readyz are answered on `admin.bind`.
        token: Option<String> = Secret, "", Restart;
        /// File whose first line is the token of the role `admin`, in place of `admin.token`.
        token_file: Option<PathBuf> = File, "", Restart;
        /// Bearer token of the role `read`, which may ask everything and change nothing; for metrics and dashboards.
        read_token: Option<String> = Secret, "", Restart;
        /// File whose first line is the token of the role `read`, in place of `admin.read_token`.
        read_token_file: Option<PathBuf> = File, "", Restart;
        in "tls." tls: AdminTls;
    }

    pub struct AdminTls {
        /// PEM file with the certificate chain of the admin interface; with `admin.tls.key` it speaks HTTPS on
        /// `admin.bind`. A renewed file is taken over within seconds.
        certificate: Option<PathBuf> = File, "", Restart;
        /// PEM file with the private key of `admin.tls.certificate`.
        key: Option<PathBuf> = File, "", Restart;
    }

    pub struct Access {
        /// File with users and password hashes, one `user:hash` per line: argon2id, or the hashes of mosquitto_passwd.
        /// Setting it turns on log-in by password.
        password_file: Option<PathBuf> = File, "", Now;
        /// File with the rules for who may publish and subscribe where, in mosquitto's format, with %c for the client
        /// id and %u for the user name.
        acl_file: Option<PathBuf> = File, "", Now;
        /// File with client ids, users and networks that may not connect, one `client ID`, `user NAME` or `address
        /// NETWORK` per line, with `until=TIME` before the name for a time; `thalweg ban` writes it. Connections that a
        /// new line names end at once. Datagrams are not refused by address.
        ban_file: Option<PathBuf> = File, "", Now;
        /// What happens to an action that no rule of `access.acl_file` mentions. `automatic` denies it when there is
        /// such a file and allows it when there is none. With `deny` and no file, only tokens that carry rules can do
        /// anything.
        default: Option<Otherwise> = Word(Otherwise::WORDS), "automatic" or "automatic", Now;
        /// Which client ids a user's MQTT clients may have. `user`: the user's name only, so one connection at a time.
        /// `prefix`: that, or the user's name, a colon and whatever else has no colon (`ada`, `ada:phone`); for log-ins
        /// that groups of devices share. Others are refused (MQTT 5: 0x85, MQTT 3: return code 2), the anonymous may
        /// send an empty client id only, and a session under a client id that the broker makes up ends with its
        /// connection. With `any` a client id belongs to the user whose session has it, as long as that lives.
        client_ids: ClientIds = Word(ClientIds::WORDS), "any", NewConnections;
        /// Whether a subscription is refused unless the client may read everything its filter can match. If not,
        /// subscriptions are accepted and each message is judged before it is delivered, as in mosquitto. Two kinds of
        /// filters are refused all the same: those that lie wholly under a `deny` line, and those of a `$` tree
        /// (`$SYS/#`) of which no `read` line speaks.
        subscribe_needs_read: bool = Flag, "false", Now;
        /// How long the verdict on a password is remembered, so that a storm of reconnects does not pay for hashing
        /// each time, and returning clients are accepted at once during a guessing attack. A reload that changes the
        /// rules or the passwords forgets all. 0s remembers none.
        verdict_ttl: Span = seconds(0, 86_400), "10m", Now;
        /// Whether MQTT 5 clients may log in with SCRAM-SHA-256, where the password never crosses the network. Needs
        /// SCRAM entries in `access.password_file`; without them it has no effect.
        scram: bool = Flag, "true", NewConnections;
        in "jwt." jwt: Jwt;
    }

    pub struct Jwt {
        /// File with the secret shared with the token issuer, for HS256: at least 32 bytes. Setting it turns on log-in
        /// by JSON Web Token, sent as the password.
        secret_file: Option<PathBuf> = File, "", Now;
        /// PEM file with the token issuer's public key, for all other algorithms. Setting it turns on log-in by JSON
        /// Web Token, sent as the password.
        public_key_file: Option<PathBuf> = File, "", Now;
        /// The one signature algorithm accepted. A token cannot choose another.
        algorithm: TokenAlgorithm = Word(TokenAlgorithm::WORDS), "HS256", Now;
        /// Value that a token's `aud` claim must contain. Not set: not checked.
        audience: Option<String> = Text, "", Now;
        /// Value that a token's `iss` claim must have. Not set: not checked.
        issuer: Option<String> = Text, "", Now;
        /// Claim of the token that names the user.
        user_claim: String = Text, "sub", Now;
        /// Whether a user name sent beside the token must be the token's user.
        user_must_match: bool = Flag, "true", Now;
        /// Claim of the token that may carry the client's rules, as {"publish": [filters], "subscribe": [filters]}. A
        /// token that has it is not looked up in `access.acl_file`.
        acl_claim: String = Text, "thalweg_acl", Now;
        /// Whether tokens without an `exp` claim are refused.
        expiry_required: bool = Flag, "true", Now;
        /// Difference between the clocks of broker and token issuer that is forgiven in `exp` and `nbf`.
        leeway: Span = whole_seconds(0, 3600), "5s", Now;
        /// Whether every password must be a token, so that `access.password_file` accepts no log-in, by SCRAM neither.
        required: bool = Flag, "false", Now;
    }
}

impl Access {
    /// What happens to an action no rule mentions: the setting, or refusal once there are rules.
    pub fn default_verdict(&self) -> Otherwise {
        let by_rules = match self.acl_file {
            Some(_) => Otherwise::Deny,
            None => Otherwise::Allow,
        };
        self.default.unwrap_or(by_rules)
    }
}
