//! Certificates for the tests, made on the spot.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use super::tls::{ClientCertificates, NameFrom, TlsFiles, TlsOldest};

/// A folder that goes when the test is over.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("thalweg-transport-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        std::fs::write(self.file(name), text).unwrap();
        self.file(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A certificate authority whose certificate is in `NAME.pem`.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) file: PathBuf,
}

impl Authority {
    pub(crate) fn new(folder: &Folder, name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let file = folder.write(&format!("{name}.pem"), &certificate.pem());
        Authority { issuer: Issuer::new(params, key), file }
    }

    /// Writes `FILE.pem` and `FILE.key` for a common name (none if empty) and an alternative name.
    pub(crate) fn issue(&self, folder: &Folder, file: &str, common: &str, alternative: &str) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::new(vec![alternative.to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        if !common.is_empty() {
            params.distinguished_name.push(DnType::CommonName, common);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (
            folder.write(&format!("{file}.pem"), &certificate.pem()),
            folder.write(&format!("{file}.key"), &key.serialize_pem()),
        )
    }
}

/// A server's files: `server.pem` for `localhost`, and clients checked against `authority`.
pub(crate) fn server_files(folder: &Folder, authority: &Authority, wanted: ClientCertificates) -> TlsFiles {
    let (certificate, key) = authority.issue(folder, "server", "the broker", "localhost");
    TlsFiles {
        certificate,
        key,
        client_ca: Some(Path::to_owned(&authority.file)),
        client_crl: None,
        client_certificates: wanted,
        name_from: NameFrom::Either,
        oldest: TlsOldest::V12,
    }
}
