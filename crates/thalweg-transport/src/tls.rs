//! The TLS layer: rustls' own state machine between two buffers.

use std::fmt;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{Connection, HandshakeKind, ProtocolVersion, RootCertStore};

#[cfg(feature = "server")]
pub use super::acceptor::{
    ClientCertificates, TlsAcceptor, TlsFiles, TlsOldest, client_verifier, name_in, server_chain,
};
use super::{CHANNEL_BINDING_BYTES, TransportFault};

/// One end of a TLS connection.
#[derive(Debug)]
pub struct TlsLayer {
    connection: Connection,
    certificate_name: Option<Arc<str>>,
    /// Part of the certificate to read once the handshake is done; `None` afterwards.
    #[cfg_attr(not(feature = "server"), allow(dead_code))]
    name_from: Option<NameFrom>,
    closed: bool,
}

impl TlsLayer {
    /// One end. `name_from`: what of the peer's certificate is wanted, on the server's side.
    pub(super) fn new(mut connection: Connection, name_from: Option<NameFrom>) -> TlsLayer {
        // Bytes written before the handshake is complete are buffered; the caller limits their number.
        connection.set_buffer_limit(None);
        TlsLayer {
            connection,
            certificate_name: None,
            name_from,
            closed: false,
        }
    }

    /// See [`Filtered::handle_input`](super::Filtered::handle_input).
    pub fn handle_input(
        &mut self,
        mut wire: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<(), TransportFault> {
        while !wire.is_empty() && !self.closed {
            let taken = self
                .connection
                .read_tls(&mut wire)
                .map_err(|error| TransportFault::Tls(error.to_string()))?;
            let state = self
                .connection
                .process_new_packets()
                .map_err(|error| TransportFault::Tls(words(&error)))?;
            self.closed = state.peer_has_closed() || taken == 0;
            let mut reader = self.connection.reader();
            while let Ok(decrypted) = reader.fill_buf() {
                if decrypted.is_empty() {
                    break;
                }
                plain.extend_from_slice(decrypted);
                let taken = decrypted.len();
                reader.consume(taken);
            }
        }
        #[cfg(feature = "server")]
        if let Some(name_from) = self.name_from
            && !self.connection.is_handshaking()
        {
            self.name_from = None;
            let leaf = self
                .connection
                .peer_certificates()
                .and_then(|chain| chain.first());
            self.certificate_name = leaf
                .and_then(|leaf| name_in(leaf, name_from))
                .map(Arc::from);
        }
        Ok(())
    }

    /// See [`Filtered::encode`](super::Filtered::encode).
    pub fn encode(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), TransportFault> {
        let written = self.connection.writer().write_all(plain);
        self.take_output(wire);
        written.map_err(|error| TransportFault::Tls(error.to_string()))
    }

    /// See [`Filtered::take_output`](super::Filtered::take_output).
    pub fn take_output(&mut self, wire: &mut Vec<u8>) {
        // Writing into a vector cannot fail, and each call takes at least one record.
        while self.connection.wants_write()
            && self.connection.write_tls(wire).is_ok_and(|taken| taken > 0)
        {}
    }

    /// True once `close_notify` came in (RFC 8446 §6.1).
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// True until the handshake is complete.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// True once the handshake is done and it took up an earlier session.
    pub fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Appends `close_notify`.
    pub fn close(&mut self, wire: &mut Vec<u8>) {
        self.connection.send_close_notify();
        self.take_output(wire);
    }

    /// Keying material for channel binding (`tls-exporter`, RFC 9266), once the handshake is done. `None` with TLS 1.2,
    /// where it is unique only if both ends have an extended master secret.
    pub fn channel_binding(&self) -> Option<[u8; CHANNEL_BINDING_BYTES]> {
        if self.connection.protocol_version() != Some(ProtocolVersion::TLSv1_3) {
            return None;
        }
        let secret = [0; CHANNEL_BINDING_BYTES];
        let label = b"EXPORTER-Channel-Binding";
        let exported = self
            .connection
            .export_keying_material(secret, label, Some(b""));
        exported.ok()
    }

    /// The name in the peer's verified certificate, once the handshake is done.
    pub fn certificate_name(&self) -> Option<Arc<str>> {
        self.certificate_name.clone()
    }
}

/// Part of a client's certificate that becomes its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameFrom {
    /// The subject's common name, else the first alternative name.
    #[default]
    Either,
    /// The subject's common name.
    CommonName,
    /// The first alternative name that is text: DNS, e-mail or URI.
    AlternativeName,
    /// None: the certificate opens the door and says no more.
    Nowhere,
}

/// Why a certificate, key or authority cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsFault {
    /// The file cannot be read.
    Unreadable {
        file: PathBuf,
        /// Error of the operating system.
        reason: String,
    },
    /// The file is there but holds no PEM section of the kind that is needed.
    Nothing {
        file: PathBuf,
        /// The missing item: `certificate`, `private key`, `revocation list`.
        wanted: &'static str,
    },
    /// A PEM section is damaged or holds something that TLS cannot use.
    Unusable {
        file: PathBuf,
        /// Description of the fault.
        reason: String,
    },
    /// The key is not that of the certificate.
    KeyMismatch { key: PathBuf, certificate: PathBuf },
    /// Client certificates are asked for, but there is no authority to check them against.
    NoAuthority,
    /// The TLS library refuses the combination.
    Setup(String),
}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsFault::Unreadable { file, reason } => {
                write!(f, "cannot read {}: {reason}", file.display())
            }
            TlsFault::Nothing { file, wanted } => {
                write!(
                    f,
                    "no {wanted} in {}: expected a PEM file with a `-----BEGIN …-----` line",
                    file.display()
                )
            }
            TlsFault::Unusable { file, reason } => {
                write!(f, "cannot use {}: {reason}", file.display())
            }
            TlsFault::KeyMismatch { key, certificate } => {
                write!(
                    f,
                    "the key in {} does not match the certificate in {}",
                    key.display(),
                    certificate.display()
                )
            }
            TlsFault::NoAuthority => {
                write!(
                    f,
                    "client certificates are asked for, but no CA file says which of them to trust"
                )
            }
            TlsFault::Setup(reason) => write!(f, "TLS cannot be set up: {reason}"),
        }
    }
}

impl std::error::Error for TlsFault {}

/// The cryptography of all ends.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Reads a chain from a PEM file.
pub fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFault> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&read(file)?)
        .collect::<Result<_, _>>()
        .map_err(|error| TlsFault::Unusable {
            file: file.into(),
            reason: error.to_string(),
        })?;
    if chain.is_empty() {
        Err(TlsFault::Nothing {
            file: file.into(),
            wanted: "certificate",
        })
    } else {
        Ok(chain)
    }
}

/// Reads a private key from a PEM file: PKCS#8, PKCS#1 or SEC1.
pub fn read_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsFault> {
    PrivateKeyDer::from_pem_slice(&read(file)?).map_err(|error| match error {
        rustls::pki_types::pem::Error::NoItemsFound => TlsFault::Nothing {
            file: file.into(),
            wanted: "private key",
        },
        other => TlsFault::Unusable {
            file: file.into(),
            reason: other.to_string(),
        },
    })
}

/// Reads authorities from a PEM file.
pub fn read_authorities(file: &Path) -> Result<RootCertStore, TlsFault> {
    let mut store = RootCertStore::empty();
    for certificate in read_certificates(file)? {
        store.add(certificate).map_err(|error| TlsFault::Unusable {
            file: file.into(),
            reason: error.to_string(),
        })?;
    }
    Ok(store)
}

pub(super) fn read(file: &Path) -> Result<Vec<u8>, TlsFault> {
    std::fs::read(file).map_err(|error| TlsFault::Unreadable {
        file: file.into(),
        reason: error.to_string(),
    })
}

/// The library's words, with advice where a log line alone would puzzle.
pub fn words(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType) => {
            "this is not TLS: the peer speaks plain text to a TLS port".into()
        }
        rustls::Error::NoCertificatesPresented => {
            "a client certificate is required and the peer showed none".into()
        }
        rustls::Error::InvalidCertificate(error) => {
            format!("invalid peer certificate: {}", certificate_words(error))
        }
        other => other.to_string(),
    }
}

/// The same for an error of TLS that arrives as one of its socket; `None` if it is the socket's own.
pub fn words_of_io(error: &std::io::Error) -> Option<String> {
    error.get_ref()?.downcast_ref().map(words)
}

/// Fault of a certificate, and the remedy.
fn certificate_words(error: &rustls::CertificateError) -> String {
    use rustls::CertificateError::*;
    match error {
        UnknownIssuer => "nobody we trust has signed it: name the file of the authority that has (ca)".into(),
        BadSignature => {
            "it is not signed by the authority of that name that we trust: name the file of the one that has signed it (ca)"
                .into()
        }
        Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "it is an authority's own (CA:TRUE), as `openssl req -x509` makes them, and no server may show that: have the \
             authority sign one for the server, or make it with -addext basicConstraints=critical,CA:FALSE"
                .into()
        }
        other => other.to_string(),
    }
}
