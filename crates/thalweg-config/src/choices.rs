//! The words a setting may take when it is one of a few: each enum and its spellings, side by side.

use thalweg_access::TokenAlgorithm;
use thalweg_kernel::access::Otherwise;
use thalweg_kernel::{ClientIds, Exceed, LastValueRule, Overflow, RatePer};
use thalweg_model::Reliability;

use thalweg_transport::tls::{ClientCertificates, NameFrom, TlsOldest};

/// An enum whose variants each have one spelling in the configuration.
pub trait Words: Copy + PartialEq + 'static {
    /// Every value with its spelling.
    const ALL: &'static [(Self, &'static str)];
    /// Every spelling, in the same order.
    const WORDS: &'static [&'static str];

    /// The spelling of this value in the configuration.
    fn word(self) -> &'static str {
        let own = Self::ALL.iter().find(|(value, _)| *value == self);
        own.map_or("", |(_, word)| word)
    }

    /// The value spelled `word`.
    fn from_word(word: &str) -> Option<Self> {
        let own = Self::ALL.iter().find(|(_, known)| *known == word);
        own.map(|(value, _)| *value)
    }
}

/// Declares an enum with its spellings, or with `for` gives them to one that belongs to another part of the broker.
macro_rules! words {
    ($($(#[$meta:meta])* pub enum $Name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+ })+) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $Name { $($(#[$variant_meta])* $variant,)+ }

        $crate::choices::words! { for $Name { $($variant = $word,)+ } }

        impl std::fmt::Display for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str($crate::Words::word(*self))
            }
        }
    )+};
    (for $Name:ty { $($variant:ident = $word:literal,)+ }) => {
        impl $crate::Words for $Name {
            const ALL: &'static [(Self, &'static str)] = &[$((<$Name>::$variant, $word),)+];
            const WORDS: &'static [&'static str] = &[$($word,)+];
        }
    };
}

pub(super) use words;

words! {
    /// How much the broker writes to its log.
    pub enum LogLevel {
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

    /// The shape of a log line.
    pub enum LogFormat {
        Text = "text",
        /// One JSON object per line, for collectors.
        Json = "json",
    }

    /// What carries the bytes of a listener.
    pub enum Transport {
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

    /// Whether, and in which version, connections open with a PROXY protocol header.
    pub enum ProxyProtocol {
        Off = "off",
        V1 = "v1",
        V2 = "v2",
        /// Either, told apart by the first bytes.
        Any = "any",
    }

    /// When what the journal has written is forced to stable storage, from the most durable to the least.
    pub enum Fsync {
        /// Before anything that rests on it is acknowledged.
        Always = "always",
        /// In the background, every `journal.fsync_interval`.
        Interval = "interval",
        /// When the operating system sees fit.
        Never = "never",
    }

    /// What of a shared subscription must stay in order.
    pub enum GroupOrder {
        Publisher = "publisher",
        /// The messages of one topic.
        Topic = "topic",
        /// What members ask for.
        Off = "off",
    }
}

words! { for ClientCertificates { None = "none", Optional = "optional", Required = "required", } }
words! { for NameFrom { Nowhere = "none", CommonName = "common_name", AlternativeName = "san", } }
words! { for TlsOldest { V12 = "1.2", V13 = "1.3", } }
words! { for TokenAlgorithm { Hs256 = "HS256", Rs256 = "RS256", Es256 = "ES256", EdDsa = "EdDSA", } }
words! { for Otherwise { Allow = "allow", Deny = "deny", } }
words! { for ClientIds { Any = "any", User = "user", Prefix = "prefix", } }
words! { for LastValueRule { Keep = "keep", Off = "off", } }
words! { for Reliability { AtMostOnce = "at-most-once", AtLeastOnce = "at-least-once", ExactlyOnce = "exactly-once", } }
words! { for RatePer { Publisher = "publisher", Address = "topic", Subscriber = "subscriber", } }
words! { for Exceed { Throttle = "throttle", Drop = "drop", Reject = "reject", } }
words! { for Overflow { DropOldest = "drop-oldest", DropNewest = "drop-newest", Disconnect = "disconnect", } }

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
