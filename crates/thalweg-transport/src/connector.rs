//! The client's end of TLS.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, RootCertStore,
    SignatureScheme,
};

use super::TransportFault;
use super::tls::{
    TlsFault, TlsLayer, provider, read_authorities, read_certificates, read_key, words,
};

/// How a client verifies the server and authenticates itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsClientFiles {
    /// Authorities to trust; `None` takes the system's bundle.
    pub ca: Option<PathBuf>,
    /// Authorities to trust, DER, beside those of `ca`; if there are any, the system's bundle is not taken.
    pub authorities: Vec<Vec<u8>>,
    /// A certificate to show, and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Do not check the server's certificate at all.
    pub insecure: bool,
}

/// Makes the client's end of TLS connections.
#[derive(Clone, Debug)]
pub struct TlsConnector {
    config: Arc<ClientConfig>,
}

impl TlsConnector {
    pub fn new(files: &TlsClientFiles) -> Result<TlsConnector, TlsFault> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsFault::Setup(error.to_string()))?;
        let builder = if files.insecure {
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(TrustAnything(provider())))
        } else {
            let mut store = match &files.ca {
                Some(file) => read_authorities(file)?,
                None if !files.authorities.is_empty() => RootCertStore::empty(),
                None => read_authorities(&system_bundle()?)?,
            };
            for authority in &files.authorities {
                let certificate = CertificateDer::from(authority.clone());
                store
                    .add(certificate)
                    .map_err(|error| TlsFault::Setup(format!("an authority: {error}")))?;
            }
            builder.with_root_certificates(store)
        };
        let config = match &files.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder
                .with_client_auth_cert(read_certificates(certificate)?, read_key(key)?)
                .map_err(|error| match error {
                    rustls::Error::InconsistentKeys(_) => TlsFault::KeyMismatch {
                        key: key.clone(),
                        certificate: certificate.clone(),
                    },
                    other => TlsFault::Unusable {
                        file: key.clone(),
                        reason: other.to_string(),
                    },
                })?,
        };
        Ok(TlsConnector {
            config: Arc::new(config),
        })
    }

    /// The client's end of one connection to `host`, a name or an address; its first flight waits in the output.
    pub fn connect(&self, host: &str) -> Result<TlsLayer, TransportFault> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            TransportFault::Tls(format!("`{host}` is neither a host name nor an address"))
        })?;
        let connection = ClientConnection::new(self.config.clone(), name)
            .map_err(|error| TransportFault::Tls(words(&error)))?;
        Ok(TlsLayer::new(Connection::Client(connection), None))
    }
}

/// Reads the authorities to trust, DER, from a PEM file, or from the system's bundle.
pub fn authorities(ca: Option<&Path>) -> Result<Vec<Vec<u8>>, TlsFault> {
    let file = match ca {
        Some(file) => file.to_owned(),
        None => system_bundle()?,
    };
    let certificates = read_certificates(&file)?;
    Ok(certificates.iter().map(|der| der.to_vec()).collect())
}

/// Where the usual systems keep their authorities.
fn system_bundle() -> Result<PathBuf, TlsFault> {
    let known = [
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/cert.pem",
    ];
    known
        .iter()
        .map(PathBuf::from)
        .find(|file| file.is_file())
        .ok_or_else(|| {
            TlsFault::Setup("this system has no bundle of authorities: name a CA file".to_owned())
        })
}

/// Trusts every server; for the `insecure` flag only.
#[derive(Debug)]
struct TrustAnything(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAnything {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
