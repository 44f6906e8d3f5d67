//! Certificates that are none of X.509: an authority's number, a public key of Ed25519, a code over
//! all, a name. And an agreement that is no
//! Diffie-Hellman: both halves are public. Everything comes from seeds, so that runs are alike.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ring::digest::{SHA256, digest};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use crate::alert::{self, Alert};
use crate::certificate::{Agreement, Certificate};
use crate::cipher::Exchange;

/// Ed25519's number among the signatures.
pub const SIGNS_WITH: u16 = 0x0807;

/// The number of P-256, for which the agreement here stands.
const GROUP: u16 = 23;

/// The authority that is trusted.
pub const AUTHORITY: u8 = 1;

/// A certificate and its key.
#[derive(Clone)]
pub struct Identity {
    key: Arc<Ed25519KeyPair>,
    chain: Vec<Vec<u8>>,
}

impl Identity {
    /// Issued by an authority; names differ in their keys, too.
    pub fn new(authority: u8, name: &str) -> Identity {
        let mut seed = [authority; 32];
        seed.copy_from_slice(digest(&SHA256, &[&[authority], name.as_bytes()].concat()).as_ref());
        let key = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
        let public = key.public_key().as_ref();
        let leaf = [
            &[authority],
            public,
            &code(authority, public, name.as_bytes()),
            name.as_bytes(),
        ]
        .concat();
        // Behind it what would be an intermediate, so that messages are as long as real ones.
        Identity {
            key: Arc::new(key),
            chain: vec![leaf, vec![authority; 400]],
        }
    }

    pub fn chain(&self) -> &[Vec<u8>] {
        &self.chain
    }

    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.key.sign(message).as_ref().to_vec()
    }

    pub fn has_signed(leaf: &[u8], message: &[u8], signature: &[u8]) -> bool {
        let key = leaf
            .get(1..33)
            .map(|key| UnparsedPublicKey::new(&ED25519, key));
        key.is_some_and(|key| key.verify(message, signature).is_ok())
    }
}

/// Stand-in for an authority's signature.
fn code(authority: u8, key: &[u8], name: &[u8]) -> Vec<u8> {
    digest(&SHA256, &[&[authority], key, name].concat())
        .as_ref()
        .to_vec()
}

/// Whether clients have to show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    None,
    Optional,
    Required,
}

pub struct ServerIdentity {
    identity: Identity,
    wanted: Wanted,
    /// Number of requests for a signature that a client understands.
    pub asked: Arc<AtomicUsize>,
}

impl ServerIdentity {
    pub fn new(wanted: Wanted) -> ServerIdentity {
        ServerIdentity {
            identity: Identity::new(AUTHORITY, "the broker"),
            wanted,
            asked: Arc::default(),
        }
    }
}

impl Certificate for ServerIdentity {
    fn chain(&self) -> &[Vec<u8>] {
        self.identity.chain()
    }

    fn scheme(&self, exchange: Exchange, understood: &[u16]) -> Option<u16> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        (exchange == Exchange::EcdheEcdsa && understood.contains(&SIGNS_WITH)).then_some(SIGNS_WITH)
    }

    fn sign(&self, _: u16, message: &[u8]) -> Result<Vec<u8>, String> {
        Ok(self.identity.sign(message))
    }

    fn agree(&self, group: u16) -> Option<Box<dyn Agreement>> {
        (group == GROUP).then(|| agreement(&[5; 32]))
    }

    fn asks_clients(&self) -> bool {
        self.wanted != Wanted::None
    }

    fn authorities(&self) -> Vec<&[u8]> {
        vec![b"the authority"]
    }

    fn judge(&self, chain: &[Vec<u8>]) -> Result<Option<Arc<str>>, Alert> {
        let Some((leaf, intermediates)) = chain.split_first() else {
            let why = "a client certificate is required and the peer showed none";
            let refusal = Err(Alert::new(alert::HANDSHAKE_FAILURE, why));
            return if self.wanted == Wanted::Required {
                refusal
            } else {
                Ok(None)
            };
        };
        let unreadable = || Alert::new(alert::BAD_CERTIFICATE, "the certificate cannot be read");
        let (head, name) = leaf.split_first_chunk::<65>().ok_or_else(unreadable)?;
        let (authority, key, own) = (head[0], &head[1..33], &head[33..]);
        if code(authority, key, name) != own || *intermediates != [vec![authority; 400]] {
            return Err(unreadable());
        }
        if authority != AUTHORITY {
            return Err(Alert::new(alert::UNKNOWN_CA, "UnknownIssuer"));
        }
        Ok(Some(str::from_utf8(name).map_err(|_| unreadable())?.into()))
    }

    fn check_signature(
        &self,
        leaf: &[u8],
        scheme: u16,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), Alert> {
        let wrong = || {
            Alert::new(
                alert::DECRYPT_ERROR,
                "the peer's signature was not made with its certificate's key",
            )
        };
        let good = scheme == SIGNS_WITH && Identity::has_signed(leaf, message, signature);
        if good { Ok(()) } else { Err(wrong()) }
    }
}

/// A point is 4, 32 bytes, and a code over them: not every point is on the curve.
struct Half(Vec<u8>);

/// One half of an agreement.
pub fn agreement(seed: &[u8; 32]) -> Box<dyn Agreement> {
    Box::new(Half(
        [&[4], &seed[..], digest(&SHA256, seed).as_ref()].concat(),
    ))
}

impl Agreement for Half {
    fn public(&self) -> &[u8] {
        &self.0
    }

    fn agree(self: Box<Self>, peer: &[u8]) -> Option<Vec<u8>> {
        let seed = peer
            .strip_prefix(&[4])
            .and_then(|point| point.first_chunk::<32>())?;
        let is_on_the_curve = *peer == *agreement(seed).public();
        let (low, high) = if *self.0 < *peer {
            (&self.0[..], peer)
        } else {
            (peer, &self.0[..])
        };
        is_on_the_curve.then(|| digest(&SHA256, &[low, high].concat()).as_ref().to_vec())
    }
}
