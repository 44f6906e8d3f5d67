//! The TLS layer: rustls' own state machine between two buffers, and the server's certificate with its reload.

use std::fmt;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::TLS13;
use rustls::{Connection, HandshakeKind, RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::TransportFault;

/// One end of a TLS connection.
#[derive(Debug)]
pub struct TlsLayer {
    connection: Connection,
    certificate_name: Option<Arc<str>>,
    /// Which name to read once the handshake is done; `None` afterwards.
    name_from: Option<NameFrom>,
    closed: bool,
}

impl TlsLayer {
    pub(super) fn new(mut connection: Connection, name_from: NameFrom) -> TlsLayer {
        // What is written before the handshake is complete waits inside; how much that is, the caller decides.
        connection.set_buffer_limit(None);
        TlsLayer { connection, certificate_name: None, name_from: Some(name_from), closed: false }
    }

    /// See [`Filtered::handle_input`](super::Filtered::handle_input).
    pub fn handle_input(&mut self, mut wire: &[u8], plain: &mut Vec<u8>) -> Result<(), TransportFault> {
        while !wire.is_empty() && !self.closed {
            let taken = self.connection.read_tls(&mut wire).map_err(|error| TransportFault::Tls(error.to_string()))?;
            let state = self.connection.process_new_packets().map_err(|error| TransportFault::Tls(words(&error)))?;
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
        if let Some(name_from) = self.name_from
            && !self.connection.is_handshaking()
        {
            self.name_from = None;
            let leaf = self.connection.peer_certificates().and_then(|chain| chain.first());
            self.certificate_name = leaf.and_then(|leaf| name_in(leaf, name_from)).map(Arc::from);
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
        while self.connection.wants_write() && self.connection.write_tls(wire).is_ok_and(|taken| taken > 0) {}
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

    /// The name in the peer's verified certificate, once the handshake is done.
    pub fn certificate_name(&self) -> Option<Arc<str>> {
        self.certificate_name.clone()
    }
}

/// Whether clients have to show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// They are not asked.
    #[default]
    None,
    /// They are asked; one that shows a certificate which is not trusted is refused, one without is not.
    Optional,
    /// No certificate, no connection.
    Required,
}

/// Which part of a client's certificate becomes its name.
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

/// The oldest version that a TLS listener speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsOldest {
    /// TLS 1.2 (RFC 5246).
    #[default]
    V12,
    /// TLS 1.3 (RFC 8446).
    V13,
}

/// Where a TLS listener finds its certificate and what it asks of clients. All files are PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, followed by the intermediates.
    pub certificate: PathBuf,
    /// Its private key: PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
    /// The authorities that client certificates are checked against; needed unless `client_certificates` is `None`.
    pub client_ca: Option<PathBuf>,
    /// Revocation lists for client certificates.
    pub client_crl: Option<PathBuf>,
    /// Whether clients have to show a certificate.
    pub client_certificates: ClientCertificates,
    /// Which part of it becomes the client's name.
    pub name_from: NameFrom,
    /// The oldest version that is spoken.
    pub oldest: TlsOldest,
}

/// Makes the server's end of TLS connections, and takes a new certificate without dropping any.
pub struct TlsAcceptor {
    files: TlsFiles,
    config: RwLock<Arc<ServerConfig>>,
}

impl TlsAcceptor {
    /// Reads the files.
    pub fn new(files: TlsFiles) -> Result<TlsAcceptor, TlsFault> {
        let config = RwLock::new(Arc::new(server_config(&files)?));
        Ok(TlsAcceptor { files, config })
    }

    /// Reads the files again. New connections get what is in them now, established ones stay as they are. When a file
    /// is not as it must be, everything stays as it was.
    ///
    /// Sessions of before are not resumed: a client that the new authorities do not trust must not come back with a
    /// ticket of the old ones.
    pub fn reload(&self) -> Result<(), TlsFault> {
        let config = Arc::new(server_config(&self.files)?);
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// The files that [`reload`](Self::reload) reads.
    pub fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// The server's end of one new connection.
    pub fn accept(&self) -> Result<TlsLayer, TransportFault> {
        let config = self.config.read().unwrap_or_else(PoisonError::into_inner).clone();
        let connection = ServerConnection::new(config).map_err(|error| TransportFault::Tls(words(&error)))?;
        Ok(TlsLayer::new(Connection::Server(connection), self.files.name_from))
    }
}

/// Names the files and nothing of what is in them.
impl fmt::Debug for TlsAcceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsAcceptor").field("files", &self.files).finish_non_exhaustive()
    }
}

/// Why a certificate, key or authority cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsFault {
    /// The file cannot be read.
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// The file is there but holds no PEM section of the kind that is needed.
    Nothing {
        /// The file.
        file: PathBuf,
        /// What was looked for: `certificate`, `private key`, `revocation list`.
        wanted: &'static str,
    },
    /// A PEM section is damaged or holds something that TLS cannot use.
    Unusable {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The key is not that of the certificate.
    KeyMismatch {
        /// The private key.
        key: PathBuf,
        /// The certificate.
        certificate: PathBuf,
    },
    /// Client certificates are asked for, but there is no authority to check them against.
    NoAuthority,
    /// The TLS library refuses the combination.
    Setup(String),
}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsFault::Unreadable { file, reason } => write!(f, "cannot read {}: {reason}", file.display()),
            TlsFault::Nothing { file, wanted } => {
                write!(f, "no {wanted} in {}: expected a PEM file with a `-----BEGIN …-----` line", file.display())
            }
            TlsFault::Unusable { file, reason } => write!(f, "cannot use {}: {reason}", file.display()),
            TlsFault::KeyMismatch { key, certificate } => {
                write!(f, "the key in {} does not match the certificate in {}", key.display(), certificate.display())
            }
            TlsFault::NoAuthority => {
                write!(f, "client certificates are asked for, but no CA file says which of them to trust")
            }
            TlsFault::Setup(reason) => write!(f, "TLS cannot be set up: {reason}"),
        }
    }
}

impl std::error::Error for TlsFault {}

fn server_config(files: &TlsFiles) -> Result<ServerConfig, TlsFault> {
    let chain = read_certificates(&files.certificate)?;
    let key = read_key(&files.key)?;
    let versions: &[&SupportedProtocolVersion] = match files.oldest {
        TlsOldest::V12 => rustls::ALL_VERSIONS,
        TlsOldest::V13 => &[&TLS13],
    };
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)
        .map_err(|error| TlsFault::Setup(error.to_string()))?;
    let builder = match client_verifier(files)? {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            TlsFault::KeyMismatch { key: files.key.clone(), certificate: files.certificate.clone() }
        }
        rustls::Error::InvalidCertificate(_) => {
            TlsFault::Unusable { file: files.certificate.clone(), reason: error.to_string() }
        }
        other => TlsFault::Unusable { file: files.key.clone(), reason: other.to_string() },
    })?;
    config.ticketer = rustls::crypto::ring::Ticketer::new().map_err(|error| TlsFault::Setup(error.to_string()))?;
    Ok(config)
}

/// What judges the certificates of clients; none when they are not asked for any.
pub(super) fn client_verifier(files: &TlsFiles) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsFault> {
    let authority = match (files.client_certificates, &files.client_ca) {
        (ClientCertificates::None, _) => return Ok(None),
        (_, None) => return Err(TlsFault::NoAuthority),
        (_, Some(authority)) => authority,
    };
    let roots = Arc::new(read_authorities(authority)?);
    let mut verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
    if let Some(revoked) = &files.client_crl {
        verifier = verifier.with_crls(read_revocations(revoked)?);
    }
    if files.client_certificates == ClientCertificates::Optional {
        verifier = verifier.allow_unauthenticated();
    }
    verifier.build().map(Some).map_err(|error| TlsFault::Setup(error.to_string()))
}

pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

pub(super) fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFault> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&read(file)?)
        .collect::<Result<_, _>>()
        .map_err(|error| TlsFault::Unusable { file: file.into(), reason: error.to_string() })?;
    if chain.is_empty() { Err(TlsFault::Nothing { file: file.into(), wanted: "certificate" }) } else { Ok(chain) }
}

pub(super) fn read_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsFault> {
    PrivateKeyDer::from_pem_slice(&read(file)?).map_err(|error| match error {
        rustls::pki_types::pem::Error::NoItemsFound => TlsFault::Nothing { file: file.into(), wanted: "private key" },
        other => TlsFault::Unusable { file: file.into(), reason: other.to_string() },
    })
}

pub(super) fn read_authorities(file: &Path) -> Result<RootCertStore, TlsFault> {
    let mut store = RootCertStore::empty();
    for certificate in read_certificates(file)? {
        store.add(certificate).map_err(|error| TlsFault::Unusable { file: file.into(), reason: error.to_string() })?;
    }
    Ok(store)
}

fn read_revocations(file: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsFault> {
    let lists: Vec<_> = CertificateRevocationListDer::pem_slice_iter(&read(file)?)
        .collect::<Result<_, _>>()
        .map_err(|error| TlsFault::Unusable { file: file.into(), reason: error.to_string() })?;
    if lists.is_empty() { Err(TlsFault::Nothing { file: file.into(), wanted: "revocation list" }) } else { Ok(lists) }
}

fn read(file: &Path) -> Result<Vec<u8>, TlsFault> {
    std::fs::read(file).map_err(|error| TlsFault::Unreadable { file: file.into(), reason: error.to_string() })
}

pub(super) fn name_in(certificate: &CertificateDer<'_>, name_from: NameFrom) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let common = || certificate.subject().iter_common_name().find_map(|name| name.as_str().ok()).map(str::to_owned);
    let alternative = || {
        let alternatives = certificate.subject_alternative_name().ok()??;
        alternatives.value.general_names.iter().find_map(|name| match name {
            GeneralName::DNSName(name) | GeneralName::RFC822Name(name) | GeneralName::URI(name) => {
                Some((*name).to_owned())
            }
            _ => None,
        })
    };
    let name = match name_from {
        NameFrom::Either => common().filter(|name| !name.is_empty()).or_else(alternative),
        NameFrom::CommonName => common(),
        NameFrom::AlternativeName => alternative(),
        NameFrom::Nowhere => None,
    };
    name.filter(|name| !name.is_empty())
}

/// The library's words, with advice where a log line alone would puzzle.
pub(super) fn words(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType) => {
            "this is not TLS: the peer speaks plain text to a TLS port".into()
        }
        rustls::Error::NoCertificatesPresented => "a client certificate is required and the peer showed none".into(),
        other => other.to_string(),
    }
}
