//! The server's certificate, and the judgement of a client's: rustls' parts, without its protocol.

use std::sync::Arc;

use rustls::crypto::{ActiveKeyExchange, CryptoProvider};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{CertificateError, SignatureAlgorithm, SignatureScheme};
use thalweg_dtls::alert::{self, Alert};
use thalweg_dtls::{Agreement, Certificate, Exchange};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::super::tls::{ClientCertificates, NameFrom, TlsFault, TlsFiles, TlsOldest};
use super::super::tls::{client_verifier, name_in, provider, read_key, server_chain, words};

/// What a server needs for suites with certificates.
pub(super) struct ServerCertificate {
    chain: Vec<Vec<u8>>,
    key: Arc<dyn SigningKey>,
    provider: Arc<CryptoProvider>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    required: bool,
    name_from: NameFrom,
}

impl ServerCertificate {
    /// Reads the files, the same as a TLS listener's.
    pub fn read(files: &TlsFiles) -> Result<ServerCertificate, TlsFault> {
        if files.oldest == TlsOldest::V13 {
            return Err(TlsFault::Setup(
                "DTLS is spoken in version 1.2 only; allow it on this listener".into(),
            ));
        }
        let provider = provider();
        let signing = provider
            .key_provider
            .load_private_key(read_key(&files.key)?)
            .map_err(|error| TlsFault::Unusable {
                file: files.key.clone(),
                reason: words(&error),
            })?;
        let key = CertifiedKey::new(server_chain(files)?, signing);
        match key.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
            Err(rustls::Error::InconsistentKeys(_)) => {
                let (key, certificate) = (files.key.clone(), files.certificate.clone());
                return Err(TlsFault::KeyMismatch { key, certificate });
            }
            Err(error) => {
                return Err(TlsFault::Unusable {
                    file: files.certificate.clone(),
                    reason: words(&error),
                });
            }
        }
        let required = files.client_certificates == ClientCertificates::Required;
        let chain = key.cert.iter().map(|der| der.to_vec()).collect();
        let (verifier, name_from) = (client_verifier(files)?, files.name_from);
        Ok(ServerCertificate {
            chain,
            key: key.key,
            provider,
            verifier,
            required,
            name_from,
        })
    }
}

impl Certificate for ServerCertificate {
    fn chain(&self) -> &[Vec<u8>] {
        &self.chain
    }

    fn scheme(&self, exchange: Exchange, understood: &[u16]) -> Option<u16> {
        let elliptic = self.key.algorithm() != SignatureAlgorithm::RSA;
        if elliptic != (exchange == Exchange::EcdheEcdsa) {
            return None;
        }
        let schemes: Vec<_> = understood
            .iter()
            .copied()
            .map(SignatureScheme::from)
            .collect();
        self.key
            .choose_scheme(&schemes)
            .map(|signer| signer.scheme().into())
    }

    fn sign(&self, scheme: u16, message: &[u8]) -> Result<Vec<u8>, String> {
        let signer = self
            .key
            .choose_scheme(&[scheme.into()])
            .ok_or("the key does not make such signatures")?;
        signer.sign(message).map_err(|error| error.to_string())
    }

    fn agree(&self, group: u16) -> Option<Box<dyn Agreement>> {
        let group = self
            .provider
            .kx_groups
            .iter()
            .find(|known| u16::from(known.name()) == group)?;
        group
            .start()
            .ok()
            .map(|half| Box::new(Half(half)) as Box<dyn Agreement>)
    }

    fn asks_clients(&self) -> bool {
        self.verifier.is_some()
    }

    fn authorities(&self) -> Vec<&[u8]> {
        self.verifier
            .iter()
            .flat_map(|verifier| verifier.root_hint_subjects())
            .map(|name| name.as_ref())
            .collect()
    }

    fn judge(&self, chain: &[Vec<u8>]) -> Result<Option<Arc<str>>, Alert> {
        let chain: Vec<_> = chain
            .iter()
            .map(|der| CertificateDer::from(der.as_slice()))
            .collect();
        let Some((leaf, intermediates)) = chain.split_first() else {
            let why = "a client certificate is required and the peer showed none";
            return if self.required {
                Err(Alert::new(alert::HANDSHAKE_FAILURE, why))
            } else {
                Ok(None)
            };
        };
        let verifier = self.verifier.as_ref().ok_or(Alert::new(
            alert::UNEXPECTED_MESSAGE,
            "nobody asked for a certificate",
        ))?;
        verifier
            .verify_client_cert(leaf, intermediates, UnixTime::now())
            .map_err(|error| {
                let description = match &error {
                    rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
                        alert::UNKNOWN_CA
                    }
                    rustls::Error::InvalidCertificate(CertificateError::Revoked) => {
                        alert::CERTIFICATE_REVOKED
                    }
                    rustls::Error::InvalidCertificate(
                        CertificateError::Expired
                        | CertificateError::ExpiredContext { .. }
                        | CertificateError::NotValidYet
                        | CertificateError::NotValidYetContext { .. },
                    ) => alert::CERTIFICATE_EXPIRED,
                    rustls::Error::InvalidCertificate(CertificateError::BadEncoding) => {
                        alert::BAD_CERTIFICATE
                    }
                    _ => alert::CERTIFICATE_UNKNOWN,
                };
                Alert::new(description, words(&error))
            })?;
        Ok(name_in(leaf, self.name_from).map(Arc::from))
    }

    fn check_signature(
        &self,
        leaf: &[u8],
        scheme: u16,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), Alert> {
        let scheme = SignatureScheme::from(scheme);
        let Ok((_, parsed)) = X509Certificate::from_der(leaf) else {
            return Err(Alert::new(
                alert::BAD_CERTIFICATE,
                "the certificate cannot be read",
            ));
        };
        let public_key = &parsed.public_key().subject_public_key.data;
        let mut table = self
            .provider
            .signature_verification_algorithms
            .mapping
            .iter();
        let algorithms = table
            .find(|(known, _)| *known == scheme)
            .map_or(&[][..], |(_, algorithms)| *algorithms);
        let good = algorithms
            .iter()
            .any(|it| it.verify_signature(public_key, message, signature).is_ok());
        let wrong = || {
            Alert::new(
                alert::DECRYPT_ERROR,
                "the peer's signature was not made with its certificate's key",
            )
        };
        if good { Ok(()) } else { Err(wrong()) }
    }
}

/// rustls' half of an agreement.
struct Half(Box<dyn ActiveKeyExchange>);

impl Agreement for Half {
    fn public(&self) -> &[u8] {
        self.0.pub_key()
    }

    fn agree(self: Box<Self>, peer: &[u8]) -> Option<Vec<u8>> {
        self.0
            .complete(peer)
            .ok()
            .map(|secret| secret.secret_bytes().to_vec())
    }
}
