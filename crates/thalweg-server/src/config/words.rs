//! The words a setting may take when it is one of a few: each enum and its spellings, side by side.

use super::kind::Value;
use super::landing::Landing;
use thalweg_kernel::GroupStrategy;

/// An enum whose variants each have one spelling in the configuration.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_meta])* $variant,)+ }

        /// What it is before a value has landed: no default of the configuration.
        impl Default for $name {
            fn default() -> Self {
                [$($name::$variant),+][0]
            }
        }

        impl $name {
            /// Every spelling, in the order of the variants.
            pub const WORDS: &'static [&'static str] = &[$($word,)+];

            /// The spelling of this value in the configuration.
            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)+ }
            }

            /// The value spelled `word`.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some($name::$variant),)+ _ => None }
            }
        }

        impl Landing for $name {
            fn from_value(value: Value) -> Option<Self> {
                match value {
                    Value::Text(word) => Self::from_word(&word),
                    _ => None,
                }
            }
            fn to_value(&self) -> Value {
                Value::Text(self.word().to_owned())
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}

pub(super) use words;

words! {
    /// How much the broker writes to its log.
    LogLevel {
        Off = "off",
        /// What an operator must act on.
        Error = "error",
        /// What an operator should look at.
        Warn = "warn",
        /// Starts, stops and changes of configuration.
        Info = "info",
        /// Each connection and each refusal.
        Debug = "debug",
        Trace = "trace",
    }
}

words! {
    /// The shape of a log line.
    LogFormat {
        Text = "text",
        /// One JSON object per line, for collectors.
        Json = "json",
    }
}

words! {
    /// What carries the bytes of a listener.
    Transport {
        Tcp = "tcp",
        Tls = "tls",
        Ws = "ws",
        /// WebSocket over TLS over TCP.
        Wss = "wss",
        /// A Unix domain stream socket.
        Unix = "unix",
        /// TCP until the client asks for TLS.
        StartTls = "starttls",
        Udp = "udp",
        Dtls = "dtls",
    }
}

words! {
    /// Whether a TLS listener asks its peers for a certificate.
    ClientCertificate {
        /// It does not ask.
        None = "none",
        /// It asks, and verifies what it is given.
        Optional = "optional",
        /// It refuses peers that bring none.
        Required = "required",
    }
}

words! {
    /// Which part of a verified client certificate names the user.
    CertificateIdentity {
        /// None: the user comes from the CONNECT packet.
        None = "none",
        /// The subject's common name.
        CommonName = "common_name",
        /// The first subject alternative name (e-mail, DNS or URI).
        San = "san",
    }
}

words! {
    /// The oldest TLS version a listener accepts.
    TlsVersion {
        /// TLS 1.2 (RFC 5246).
        V12 = "1.2",
        /// TLS 1.3 (RFC 8446).
        V13 = "1.3",
    }
}

words! {
    /// Whether, and in which version, connections open with a PROXY protocol header.
    ProxyProtocol {
        Off = "off",
        V1 = "v1",
        V2 = "v2",
        /// Either, told apart by the first bytes.
        Any = "any",
    }
}

words! {
    /// When what the journal has written is forced to stable storage, from the most durable to the least.
    Fsync {
        /// Before anything that rests on it is acknowledged.
        Always = "always",
        /// In the background, every `journal.fsync_interval`.
        Interval = "interval",
        /// When the operating system sees fit.
        Never = "never",
    }
}

words! {
    /// How the signature of a JSON Web Token is made.
    JwtAlgorithm {
        /// HMAC with SHA-256.
        Hs256 = "HS256",
        /// RSA PKCS#1 v1.5 with SHA-256.
        Rs256 = "RS256",
        /// ECDSA on P-256 with SHA-256.
        Es256 = "ES256",
        /// Ed25519.
        EdDsa = "EdDSA",
    }
}

words! {
    /// What happens to an action that no access rule mentions.
    AccessDefault {
        Allow = "allow",
        Deny = "deny",
    }
}

words! {
    /// Which client identifiers a user's MQTT clients may have.
    ClientIds {
        /// Any client id that no session of another user has.
        Any = "any",
        /// The user's name and no other.
        User = "user",
        /// The user's name, or that with a colon and more behind it.
        Prefix = "prefix",
    }
}

words! {
    /// What a full queue does with the next message.
    Overflow {
        /// Drops the message that has waited longest.
        DropOldest = "drop-oldest",
        /// Drops the message that arrives.
        DropNewest = "drop-newest",
        /// Closes the receiver's connection; the message that arrives is dropped.
        Disconnect = "disconnect",
    }
}

words! {
    /// What of a shared subscription must stay in order.
    GroupOrder {
        Publisher = "publisher",
        /// The messages of one topic.
        Topic = "topic",
        /// What members ask for.
        Off = "off",
    }
}

impl Landing for GroupStrategy {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Text(name) => GroupStrategy::named(&name),
            _ => None,
        }
    }
    fn to_value(&self) -> Value {
        Value::Text(self.name().to_owned())
    }
}

impl Fsync {
    /// The one of the two that loses less.
    pub const fn more_durable(self, other: Fsync) -> Fsync {
        match (self, other) {
            (Fsync::Always, _) | (_, Fsync::Always) => Fsync::Always,
            (Fsync::Interval, _) | (_, Fsync::Interval) => Fsync::Interval,
            (Fsync::Never, Fsync::Never) => Fsync::Never,
        }
    }
}

impl JwtAlgorithm {
    /// Whether the algorithm signs with a shared secret instead of a key pair.
    pub const fn is_symmetric(self) -> bool {
        matches!(self, JwtAlgorithm::Hs256)
    }
}

impl Transport {
    /// Whether the broker's end of TLS or DTLS has a certificate or keys; see [`Transport::StartTls`].
    pub const fn is_encrypted(self) -> bool {
        self.opens_encrypted() || matches!(self, Transport::StartTls)
    }

    /// Whether the transport opens with a handshake of TLS or DTLS.
    pub const fn opens_encrypted(self) -> bool {
        matches!(self, Transport::Tls | Transport::Wss | Transport::Dtls)
    }

    /// Whether there are no connections, but datagrams.
    pub const fn is_datagrams(self) -> bool {
        matches!(self, Transport::Udp | Transport::Dtls)
    }

    /// Whether the transport carries WebSocket frames.
    pub const fn is_websocket(self) -> bool {
        matches!(self, Transport::Ws | Transport::Wss)
    }
}
