//! The server's certificate, and the judgement of a client's: rustls' parts, without its protocol.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, Signer};
use rustls::{CertificateError, SignatureAlgorithm, SignatureScheme};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::super::tls::{ClientCertificates, NameFrom, TlsFault, TlsFiles, TlsOldest};
use super::super::tls::{client_verifier, name_in, provider, read_certificates, read_key, words};
use super::alert::{self, Alert};
use super::cipher::Exchange;

/// What a server needs for suites with certificates.
pub(super) struct ServerCertificate {
    key: CertifiedKey,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    required: bool,
    name_from: NameFrom,
}

/// The signatures that are understood in a CertificateVerify and made in a ServerKeyExchange.
pub(super) const SCHEMES: [SignatureScheme; 6] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PKCS1_SHA256,
    SignatureScheme::RSA_PSS_SHA384,
];

impl ServerCertificate {
    /// Reads the files, the same as a TLS listener's.
    pub fn read(files: &TlsFiles) -> Result<ServerCertificate, TlsFault> {
        if files.oldest == TlsOldest::V13 {
            return Err(TlsFault::Setup("DTLS is spoken in version 1.2 only; allow it on this listener".into()));
        }
        let signing = provider()
            .key_provider
            .load_private_key(read_key(&files.key)?)
            .map_err(|error| TlsFault::Unusable { file: files.key.clone(), reason: words(&error) })?;
        let key = CertifiedKey::new(read_certificates(&files.certificate)?, signing);
        match key.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
            Err(rustls::Error::InconsistentKeys(_)) => {
                let (key, certificate) = (files.key.clone(), files.certificate.clone());
                return Err(TlsFault::KeyMismatch { key, certificate });
            }
            Err(error) => {
                return Err(TlsFault::Unusable { file: files.certificate.clone(), reason: words(&error) });
            }
        }
        let required = files.client_certificates == ClientCertificates::Required;
        Ok(ServerCertificate { key, verifier: client_verifier(files)?, required, name_from: files.name_from })
    }

    /// What signs in an exchange with a client that understands these schemes.
    pub fn signer(&self, exchange: Exchange, understood: impl Iterator<Item = u16>) -> Option<Box<dyn Signer>> {
        let elliptic = self.key.key.algorithm() != SignatureAlgorithm::RSA;
        if elliptic != (exchange == Exchange::EcdheEcdsa) {
            return None;
        }
        let schemes: Vec<_> = understood.map(SignatureScheme::from).filter(|scheme| SCHEMES.contains(scheme)).collect();
        self.key.key.choose_scheme(&schemes)
    }

    /// The certificate and its intermediates.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.key.cert
    }

    /// Whether clients are asked for theirs.
    pub fn asks_clients(&self) -> bool {
        self.verifier.is_some()
    }

    /// The subjects of the authorities that a client's certificate may come from, as DER.
    pub fn authorities(&self) -> impl Iterator<Item = &[u8]> {
        self.verifier.iter().flat_map(|verifier| verifier.root_hint_subjects()).map(|name| name.as_ref())
    }

    /// Judges a client's certificates; its name, if it has one. No certificate is judged as well.
    pub fn judge(&self, chain: &[CertificateDer<'_>]) -> Result<Option<Arc<str>>, Alert> {
        let Some((leaf, intermediates)) = chain.split_first() else {
            let why = "a client certificate is required and the peer showed none";
            return if self.required { Err(Alert::new(alert::HANDSHAKE_FAILURE, why)) } else { Ok(None) };
        };
        let verifier =
            self.verifier.as_ref().ok_or(Alert::new(alert::UNEXPECTED_MESSAGE, "nobody asked for a certificate"))?;
        verifier.verify_client_cert(leaf, intermediates, UnixTime::now()).map_err(|error| {
            let description = match &error {
                rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => alert::UNKNOWN_CA,
                rustls::Error::InvalidCertificate(CertificateError::Revoked) => alert::CERTIFICATE_REVOKED,
                rustls::Error::InvalidCertificate(
                    CertificateError::Expired
                    | CertificateError::ExpiredContext { .. }
                    | CertificateError::NotValidYet
                    | CertificateError::NotValidYetContext { .. },
                ) => alert::CERTIFICATE_EXPIRED,
                rustls::Error::InvalidCertificate(CertificateError::BadEncoding) => alert::BAD_CERTIFICATE,
                _ => alert::CERTIFICATE_UNKNOWN,
            };
            Alert::new(description, words(&error))
        })?;
        Ok(name_in(leaf, self.name_from).map(Arc::from))
    }
}

/// Checks that whoever signed `message` has the private key of a certificate (RFC 5246 §7.4.8).
pub(super) fn check_signature(
    certificate: &CertificateDer<'_>,
    scheme: u16,
    message: &[u8],
    signature: &[u8],
) -> Result<(), Alert> {
    let scheme = SignatureScheme::from(scheme);
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
        return Err(Alert::new(alert::BAD_CERTIFICATE, "the certificate cannot be read"));
    };
    if !SCHEMES.contains(&scheme) {
        return Err(Alert::new(alert::ILLEGAL_PARAMETER, "a signature of a kind that was not asked for"));
    }
    let public_key = &parsed.public_key().subject_public_key.data;
    let mut table = provider().signature_verification_algorithms.mapping.iter();
    let algorithms = table.find(|(known, _)| *known == scheme).map_or(&[][..], |(_, algorithms)| *algorithms);
    let good = algorithms.iter().any(|it| it.verify_signature(public_key, message, signature).is_ok());
    let wrong = || Alert::new(alert::DECRYPT_ERROR, "the peer's signature was not made with its certificate's key");
    if good { Ok(()) } else { Err(wrong()) }
}
