//! SCRAM-SHA-256 and SCRAM-SHA-1 (RFC 5802, RFC 7677) as two machines without I/O, for every protocol that has SASL.
//!
//! ```text
//! ScramClient::start ──client-first──▶ ScramServer::first          (looks the verifier up)
//! ExpectServerFirst::last ◀──server-first── ExpectClientFinal
//!                   ──client-final──▶ ExpectClientFinal::last      (the client is proven)
//! ExpectServerFinal::finish ◀──server-final──                      (the server is proven)
//! ```
//!
//! Nonces come from the caller, and so does what binds an exchange to its TLS connection ([`ChannelBinding`], the `-PLUS`
//! mechanisms). User names and passwords are used as the UTF-8 that they are: SASLprep changes
//! nothing for ASCII, and its tables are not carried here.

#![forbid(unsafe_code)]

mod client;
mod hash;
mod server;
mod verifier;

pub use client::{ExpectServerFinal, ExpectServerFirst, ScramClient};
pub use hash::ScramHash;
pub use server::{ExpectClientFinal, Proven, ScramServer};
pub use verifier::ScramVerifier;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hash::Key;
use std::fmt;

/// What both ends of a TLS connection know and nobody between them: RFC 5056. Only the same type and data on both ends prove
/// that it is one connection.
#[derive(Clone, PartialEq, Eq)]
pub struct ChannelBinding {
    /// The registered name, e.g. `tls-exporter` (RFC 9266).
    pub name: &'static str,
    /// For `tls-exporter` 32 octets of keying material.
    pub data: Vec<u8>,
}

impl fmt::Debug for ChannelBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChannelBinding({})", self.name)
    }
}

/// Base64 of `cbind-input`, RFC 5802 §7: the header of the first message, and the binding if there is one.
fn bound_header(header: &str, binding: Option<&ChannelBinding>) -> String {
    let data = binding.map_or(&[][..], |binding| &binding.data);
    STANDARD.encode([header.as_bytes(), data].concat())
}

/// Why an exchange ended. [`ScramError::server_final`] is what a server may still say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScramError {
    /// The message does not follow the grammar of RFC 5802 §7.
    InvalidEncoding,
    /// It is longer than any honest one (4,096 bytes).
    TooLong,
    /// A mandatory extension (`m=`) is asked for (RFC 5802 §5.1).
    ExtensionsNotSupported,
    /// The client insists on a channel binding (`p=`) that this exchange does not have, or has none where it must.
    ChannelBindingNotSupported,
    /// The client's final message repeats another channel-binding header than its first.
    ChannelBindingsDontMatch,
    /// The client wants to act for somebody else (`a=`).
    OtherAuthorizationIdentity,
    /// The nonce is not the one agreed on, or not a continuation of the client's.
    WrongNonce,
    /// The proof is wrong: wrong password or unknown user, which one is not told.
    InvalidProof,
    /// The server asks for fewer than 4,096 iterations, or for so many that it would hold the client up.
    IterationsOutOfRange,
    /// The server said that it refuses.
    ServerRefused,
    /// The server does not know the password: it is not the one the client meant to talk to.
    ServerNotProven,
}

impl ScramError {
    /// The server's last message after this error (RFC 5802 §7 `server-error`).
    pub fn server_final(self) -> &'static [u8] {
        match self {
            ScramError::InvalidEncoding | ScramError::TooLong => b"e=invalid-encoding",
            ScramError::ExtensionsNotSupported => b"e=extensions-not-supported",
            ScramError::ChannelBindingNotSupported => b"e=channel-binding-not-supported",
            ScramError::ChannelBindingsDontMatch => b"e=channel-bindings-dont-match",
            ScramError::InvalidProof => b"e=invalid-proof",
            ScramError::OtherAuthorizationIdentity
            | ScramError::WrongNonce
            | ScramError::IterationsOutOfRange
            | ScramError::ServerRefused
            | ScramError::ServerNotProven => b"e=other-error",
        }
    }
}

impl fmt::Display for ScramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ScramError::InvalidEncoding => "the SCRAM message is malformed",
            ScramError::TooLong => "the SCRAM message is longer than 4,096 bytes",
            ScramError::ExtensionsNotSupported => {
                "a SCRAM extension is asked for that is not known"
            }
            ScramError::ChannelBindingNotSupported => {
                "the client insists on a channel binding that is not offered"
            }
            ScramError::ChannelBindingsDontMatch => {
                "the client changed its mind about channel binding"
            }
            ScramError::OtherAuthorizationIdentity => "the client wants to act for another user",
            ScramError::WrongNonce => "the nonce is not the one agreed on",
            ScramError::InvalidProof => "wrong password or unknown user",
            ScramError::IterationsOutOfRange => {
                "the server asks for an unacceptable number of iterations"
            }
            ScramError::ServerRefused => "the server refused the login",
            ScramError::ServerNotProven => "the server could not prove that it knows the password",
        })
    }
}

impl std::error::Error for ScramError {}

/// The fewest iterations that RFC 7677 §4 accepts, and what fresh verifiers use.
pub const ITERATIONS_MIN: u32 = 4096;

/// The most iterations a verifier or a server may ask for, about a second of work.
pub const ITERATIONS_LIMIT: u32 = 2_000_000;

/// The longest message either side reads, in bytes.
pub const MESSAGE_BYTES_LIMIT: usize = 4096;

/// A message as text, if it may be one.
fn text(message: &[u8]) -> Result<&str, ScramError> {
    if message.len() > MESSAGE_BYTES_LIMIT {
        return Err(ScramError::TooLong);
    }
    let text = std::str::from_utf8(message).map_err(|_| ScramError::InvalidEncoding)?;
    match text.contains('\0') {
        true => Err(ScramError::InvalidEncoding),
        false => Ok(text),
    }
}

/// The value of the attribute `name=`, which must come next.
fn attribute<'a>(
    fields: &mut impl Iterator<Item = &'a str>,
    name: char,
) -> Result<&'a str, ScramError> {
    let field = fields.next().ok_or(ScramError::InvalidEncoding)?;
    field
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix('='))
        .ok_or(ScramError::InvalidEncoding)
}

/// RFC 5802 §7: `nonce` is printable ASCII without a comma (which the field separator already keeps out).
fn is_nonce(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b',')
}

/// The RFC 7677 §3 example, which both sides are tested against.
#[cfg(test)]
mod example {
    pub const USER: &str = "user";
    pub const PASSWORD: &[u8] = b"pencil";
    pub const SALT: &str = "W22ZaJ0SNY7soEsUEjb6gQ==";
    pub const CLIENT_NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    pub const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    pub const CLIENT_FIRST: &[u8] = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    pub const SERVER_FIRST: &[u8] =
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    pub const CLIENT_FINAL: &[u8] =
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    pub const SERVER_FINAL: &[u8] = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
}
