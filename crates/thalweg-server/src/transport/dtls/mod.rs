//! What DTLS listeners know their peers by, from files: `thalweg-dtls` does the rest.

mod acceptor;
mod certificate;
#[cfg(test)]
mod tests;

pub use acceptor::{DtlsAcceptor, DtlsFault, DtlsFiles};
