//! External parts of the suites with certificates: a certificate library, and randomness for ephemeral keys.

use std::sync::Arc;

use crate::alert::Alert;
use crate::cipher::Exchange;

/// The signatures that are understood in a CertificateVerify and made in a ServerKeyExchange (RFC 8446 §4.2.3 has all
/// numbers): ECDSA with P-256 and P-384, Ed25519, RSA-PSS with SHA-256, RSA with PKCS #1 and SHA-256, RSA-PSS with SHA-384.
pub const SCHEMES: [u16; 6] = [0x0403, 0x0503, 0x0807, 0x0804, 0x0401, 0x0805];

/// A server's certificate, its key, and the judgement of clients' certificates.
pub trait Certificate: Send + Sync {
    /// The certificate and its intermediates, as DER.
    fn chain(&self) -> &[Vec<u8>];

    /// Returns the signature scheme for this exchange among those that the client understands; `None`: the key does not
    /// fit. Only those in [`SCHEMES`] are passed.
    fn scheme(&self, exchange: Exchange, understood: &[u16]) -> Option<u16>;

    /// Signs a message. The error is for the log.
    fn sign(&self, scheme: u16, message: &[u8]) -> Result<Vec<u8>, String>;

    /// Our half of an agreement in a named group (RFC 8422 §5.1.1), made for one handshake; none: the group is not known.
    fn agree(&self, group: u16) -> Option<Box<dyn Agreement>>;

    /// Whether clients are asked for their certificates.
    fn asks_clients(&self) -> bool;

    /// The subjects of the authorities that a client's certificate may come from, as DER.
    fn authorities(&self) -> Vec<&[u8]>;

    /// Judges a client's certificates, its own first; the name in it, if there is one. No certificate is judged as well.
    fn judge(&self, chain: &[Vec<u8>]) -> Result<Option<Arc<str>>, Alert>;

    /// Checks that a message was signed with the private key of a client's certificate (RFC 5246 §7.4.8).
    fn check_signature(
        &self,
        leaf: &[u8],
        scheme: u16,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), Alert>;
}

/// One half of an ephemeral Diffie-Hellman agreement.
pub trait Agreement: Send + Sync {
    /// The point that the peer gets.
    fn public(&self) -> &[u8];

    /// The secret that both come to; none: the peer's point is not on the curve.
    fn agree(self: Box<Self>, peer: &[u8]) -> Option<Vec<u8>>;
}
