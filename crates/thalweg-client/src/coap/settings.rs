//! Settings of the CoAP lanes.

/// Settings of both CoAP lanes; what only concerns datagrams says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoapSettings {
    /// The levels of the path before those of an address; `ps/data` is where Thalweg keeps data. Empty for a server with
    /// plain resources: the address `a/b` is then the resource `/a/b`, and no queries are added.
    pub base: String,
    /// The levels before those of an address in a request. Empty: the question goes to the resource itself.
    pub rpc_base: String,
    /// Confirmable messages under way at a time (datagrams), 1 to 255. RFC 7252 §4.7 says 1 where nothing is known of the
    /// network; here waits adapt to it. To a broker that keeps the order of messages under way it is what the number never
    /// falls below: that begins with 2.5 times as many and grows up to 250 while nothing is lost. With 1 it stays 1.
    pub nstart: u8,
    /// Whether waits before repetitions follow the measured round trip (datagrams), from 100 ms on; otherwise they are RFC
    /// 7252's 2 to 3 seconds.
    pub adaptive_timeout: bool,
    /// Bytes of a token in plain datagrams, 1 to 8; encrypted ones have one byte. An off-path attacker must guess port,
    /// message id and token to forge an answer.
    pub token_bytes: u8,
    /// Changes that Thalweg is to keep for a subscription while we do not take them.
    pub queue: u16,
    /// Largest body that is taken, in bytes.
    pub body_bytes_max: usize,
    /// Makes message ids and tokens repeatable, for tests; None: by chance, as they should be.
    pub seed: Option<u64>,
}

impl Default for CoapSettings {
    fn default() -> Self {
        CoapSettings {
            base: "ps/data".to_owned(),
            rpc_base: "rpc".to_owned(),
            nstart: 16,
            adaptive_timeout: true,
            token_bytes: 2,
            queue: 1024,
            body_bytes_max: 1 << 20,
            seed: None,
        }
    }
}

impl CoapSettings {
    /// For a server with plain resources.
    pub fn plain() -> Self {
        CoapSettings {
            base: String::new(),
            rpc_base: String::new(),
            ..CoapSettings::default()
        }
    }

    pub(super) fn is_plain(&self) -> bool {
        self.base.is_empty()
    }

    pub(super) fn seed(&self) -> u64 {
        use std::hash::{BuildHasher, Hasher};
        self.seed
            .unwrap_or_else(|| std::hash::RandomState::new().build_hasher().finish())
    }
}
