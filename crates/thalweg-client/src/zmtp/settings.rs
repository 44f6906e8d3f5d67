//! Settings of the ZeroMQ lanes.

use std::fmt;

use thalweg_zmtp::{ClientMechanism, CurveClient, KeyPair, connection_seed, key_from_z85};

use crate::builder::{ClientBuilder, random};
use crate::client::ClientError;
use crate::transport::Opening;

/// Keys of CURVE: the trusted server key, and the client's own.
#[derive(Clone, PartialEq, Eq)]
pub struct CurveKeys {
    server: [u8; 32],
    own: KeyPair,
    /// Connections' keys are derived from it.
    random: [u8; 32],
}

impl CurveKeys {
    /// Keys as Z85, 40 characters each: the public one of the server, and the client's secret one. `random` cannot be guessed.
    /// `None`: one of them is no key.
    pub fn new(server: &str, secret: &str, random: [u8; 32]) -> Option<CurveKeys> {
        Some(CurveKeys {
            server: key_from_z85(server.trim())?,
            own: KeyPair::from_secret(key_from_z85(secret.trim())?),
            random,
        })
    }
}

impl fmt::Debug for CurveKeys {
    /// The public key only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CurveKeys({:?})", self.own)
    }
}

impl ClientBuilder {
    /// Keys of CURVE for `zmtp://`, as Z85: the broker's public one, and the client's secret one.
    pub fn curve(mut self, server: &str, secret: &str) -> Result<Self, ClientError> {
        let keys = CurveKeys::new(server, secret, random()?);
        let curve = Some(keys.ok_or_else(|| {
            ClientError::Settings("a key of CURVE has 40 characters of Z85".into())
        })?);
        let settings = self.plugins.get();
        self.plugins.set(ZmtpSettings { curve, ..settings });
        Ok(self)
    }
}

/// Settings of the ZeroMQ lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZmtpSettings {
    /// Largest payload that is sent, in bytes. A peer that takes less ends the connection; Thalweg takes messages of 1 MiB,
    /// address included.
    pub payload_bytes_max: usize,
    /// Largest message that is taken, in bytes.
    pub message_bytes_max: usize,
    /// Bytes that end the address in a message of one frame.
    pub separators: Vec<u8>,
    /// Keys of CURVE; with them user and password are not shown.
    pub curve: Option<CurveKeys>,
}

impl ZmtpSettings {
    /// Returns the client's authentication for its connection of this number.
    pub(crate) fn mechanism(&self, opening: &Opening, number: u64) -> ClientMechanism {
        if let Some(CurveKeys {
            server,
            own,
            random,
        }) = &self.curve
        {
            return ClientMechanism::Curve(Box::new(CurveClient {
                server: *server,
                keys: own.clone(),
                seed: connection_seed(random, number),
            }));
        }
        match (&opening.user, &opening.password) {
            (None, None) => ClientMechanism::Null,
            (user, password) => ClientMechanism::Plain {
                username: user.clone().unwrap_or_default().into_bytes(),
                password: password.clone().unwrap_or_default(),
            },
        }
    }
}

impl Default for ZmtpSettings {
    fn default() -> Self {
        ZmtpSettings {
            payload_bytes_max: 960 << 10,
            message_bytes_max: 16 << 20,
            separators: b" \0|".to_vec(),
            curve: None,
        }
    }
}
