//! DTLS 1.2 (RFC 6347): what both ends share, records, messages and ciphers; and the client's end with a pre-shared key.
//! The server's end is the server's, with its limits and its cookies (ADR 0018).

#[doc(hidden)]
pub mod cipher;
mod client;
#[doc(hidden)]
pub mod message;
#[doc(hidden)]
pub mod record;
#[cfg(test)]
mod tests;

pub use client::DtlsClient;
