//! The server's end of TLS: its certificate with its reload, and the verification of clients.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::TLS13;
use rustls::{Connection, ServerConfig, ServerConnection, SupportedProtocolVersion};
use x509_parser::prelude::{FromDer, GeneralName, ParsedExtension, X509Certificate};

use super::TransportFault;
use super::tls::{
    NameFrom, TlsFault, TlsLayer, provider, read, read_authorities, read_certificates, read_key,
    words,
};

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

/// The oldest version that a TLS listener speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsOldest {
    /// TLS 1.2 (RFC 5246).
    #[default]
    V12,
    /// TLS 1.3 (RFC 8446).
    V13,
}

/// Certificate of a TLS listener and its requirements on clients. All files are PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, followed by the intermediates; without any, those in `client_ca` are taken.
    pub certificate: PathBuf,
    /// Its private key: PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
    /// The authorities that client certificates are checked against; needed unless `client_certificates` is `None`.
    pub client_ca: Option<PathBuf>,
    /// Revocation lists for client certificates.
    pub client_crl: Option<PathBuf>,
    /// Whether clients have to show a certificate.
    pub client_certificates: ClientCertificates,
    /// Part of the certificate that becomes the client's name.
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

    /// Current configuration for new connections, for callers that bring their own I/O.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The server's end of one new connection.
    pub fn accept(&self) -> Result<TlsLayer, TransportFault> {
        let connection = ServerConnection::new(self.config())
            .map_err(|error| TransportFault::Tls(words(&error)))?;
        Ok(TlsLayer::new(
            Connection::Server(connection),
            Some(self.files.name_from),
        ))
    }
}

/// Shows the names of the files and none of their contents.
impl fmt::Debug for TlsAcceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsAcceptor")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

fn server_config(files: &TlsFiles) -> Result<ServerConfig, TlsFault> {
    let chain = server_chain(files)?;
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
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => TlsFault::KeyMismatch {
                key: files.key.clone(),
                certificate: files.certificate.clone(),
            },
            rustls::Error::InvalidCertificate(_) => TlsFault::Unusable {
                file: files.certificate.clone(),
                reason: error.to_string(),
            },
            other => TlsFault::Unusable {
                file: files.key.clone(),
                reason: other.to_string(),
            },
        })?;
    config.ticketer = rustls::crypto::ring::Ticketer::new()
        .map_err(|error| TlsFault::Setup(error.to_string()))?;
    Ok(config)
}

/// Reads the chain to show. If the certificate's file holds no intermediates, those in `client_ca` complete it, as OpenSSL does
/// and as files of mosquitto's users rely on. The root stays away: a client that lacks it does not trust it.
pub fn server_chain(files: &TlsFiles) -> Result<Vec<CertificateDer<'static>>, TlsFault> {
    let mut chain = read_certificates(&files.certificate)?;
    if let (1, Some(ca)) = (chain.len(), &files.client_ca) {
        let mut known = read_certificates(ca)?;
        while let Some(at) = known
            .iter()
            .position(|ca| issued(ca, &chain[chain.len() - 1]))
        {
            chain.push(known.swap_remove(at));
        }
    }
    Ok(chain)
}

/// Whether an intermediate authority issued a certificate: by names, and by key identifiers where both have them.
fn issued(authority: &CertificateDer<'_>, certificate: &CertificateDer<'_>) -> bool {
    let (Ok((_, authority)), Ok((_, certificate))) = (
        X509Certificate::from_der(authority),
        X509Certificate::from_der(certificate),
    ) else {
        return false;
    };
    let key =
        authority
            .iter_extensions()
            .find_map(|extension| match extension.parsed_extension() {
                ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0),
                _ => None,
            });
    let signer =
        certificate
            .iter_extensions()
            .find_map(|extension| match extension.parsed_extension() {
                ParsedExtension::AuthorityKeyIdentifier(id) => id.key_identifier.as_ref()?.0.into(),
                _ => None,
            });
    authority.subject().as_raw() == certificate.issuer().as_raw()
        && authority.subject().as_raw() != authority.issuer().as_raw()
        && (key.is_none() || signer.is_none() || key == signer)
}

/// Verifier of clients' certificates; `None` when they are not asked for any.
pub fn client_verifier(files: &TlsFiles) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsFault> {
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
    verifier
        .build()
        .map(Some)
        .map_err(|error| TlsFault::Setup(error.to_string()))
}

fn read_revocations(file: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsFault> {
    let lists: Vec<_> = CertificateRevocationListDer::pem_slice_iter(&read(file)?)
        .collect::<Result<_, _>>()
        .map_err(|error| TlsFault::Unusable {
            file: file.into(),
            reason: error.to_string(),
        })?;
    if lists.is_empty() {
        Err(TlsFault::Nothing {
            file: file.into(),
            wanted: "revocation list",
        })
    } else {
        Ok(lists)
    }
}

/// The name in a certificate, as the listener is configured; none if it has none of that kind.
pub fn name_in(certificate: &CertificateDer<'_>, name_from: NameFrom) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let common = || {
        certificate
            .subject()
            .iter_common_name()
            .find_map(|name| name.as_str().ok())
            .map(str::to_owned)
    };
    let alternative = || {
        let alternatives = certificate.subject_alternative_name().ok()??;
        alternatives
            .value
            .general_names
            .iter()
            .find_map(|name| match name {
                GeneralName::DNSName(name)
                | GeneralName::RFC822Name(name)
                | GeneralName::URI(name) => Some((*name).to_owned()),
                _ => None,
            })
    };
    let name = match name_from {
        NameFrom::Either => common()
            .filter(|name| !name.is_empty())
            .or_else(alternative),
        NameFrom::CommonName => common(),
        NameFrom::AlternativeName => alternative(),
        NameFrom::Nowhere => None,
    };
    name.filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests;
