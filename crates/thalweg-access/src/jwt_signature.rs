//! The signatures of tokens, computed by *ring*, which TLS brings along anyway. (`jsonwebtoken`'s own backends would
//! add forty crates, or a second C library.)
//!
//! Only verification, and only the four algorithms of [`TokenAlgorithm`](super::TokenAlgorithm): a broker issues nothing.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, EncodingKey};
use ring::hmac;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
    VerificationAlgorithm,
};

/// Makes `jsonwebtoken` use this module in the whole process; calling it again changes nothing.
pub(super) fn install() {
    // An error says that a provider is installed already: this one, or the program's own choice.
    let _ = PROVIDER.install_default();
}

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: no_signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// A key together with the only algorithm it serves.
struct RingVerifier {
    algorithm: Algorithm,
    key: RingKey,
}

enum RingKey {
    Secret(hmac::Key),
    Public(UnparsedPublicKey<Vec<u8>>),
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let verdict = match &self.key {
            RingKey::Secret(key) => hmac::verify(key, message, signature),
            RingKey::Public(key) => key.verify(message, signature),
        };
        verdict.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    let bytes = key.try_get_as_bytes()?;
    let public = |scheme: &'static dyn VerificationAlgorithm| {
        RingKey::Public(UnparsedPublicKey::new(scheme, bytes.to_vec()))
    };
    let key = match (*algorithm, key.family()) {
        (Algorithm::HS256, AlgorithmFamily::Hmac) => {
            RingKey::Secret(hmac::Key::new(hmac::HMAC_SHA256, bytes))
        }
        (Algorithm::RS256, AlgorithmFamily::Rsa) if bytes.len() >= RSA_2048_BYTES => {
            public(&RSA_PKCS1_2048_8192_SHA256)
        }
        (Algorithm::ES256, AlgorithmFamily::Ec) if bytes.len() == P256_BYTES => {
            public(&ECDSA_P256_SHA256_FIXED)
        }
        (Algorithm::EdDSA, AlgorithmFamily::Ed) if bytes.len() == ED25519_BYTES => public(&ED25519),
        _ => return Err(ErrorKind::InvalidKeyFormat.into()),
    };
    Ok(Box::new(RingVerifier {
        algorithm: *algorithm,
        key,
    }))
}

fn no_signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    Err(ErrorKind::UnsupportedAlgorithm.into())
}

/// The shortest DER `RSAPublicKey` with a modulus of 2,048 bits, the fewest that RFC 7518 §3.3 allows.
const RSA_2048_BYTES: usize = 264;

/// An uncompressed point of P-256.
const P256_BYTES: usize = 65;

/// An Ed25519 public key.
const ED25519_BYTES: usize = 32;
