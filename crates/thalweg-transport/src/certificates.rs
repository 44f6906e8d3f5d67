//! Certificates for the tests, made on the spot; what cannot be made ends the test.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use super::tls::{ClientCertificates, NameFrom, TlsFiles, TlsOldest};

/// A folder that goes when the test is over.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "thalweg-transport-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("what tests make themselves is right");
        Folder(path)
    }

    /// A path in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file into it.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        std::fs::write(self.file(name), text).expect("what tests make themselves is right");
        self.file(name)
    }
}

impl Default for Folder {
    fn default() -> Self {
        Folder::new()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A certificate authority whose certificate is in `NAME.pem`, and its key in `NAME.key`.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// `NAME.pem`.
    pub file: PathBuf,
}

impl Authority {
    /// Makes one and writes its certificate.
    pub fn new(folder: &Folder, name: &str) -> Authority {
        let mut params =
            CertificateParams::new(Vec::new()).expect("what tests make themselves is right");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("what tests make themselves is right");
        let certificate = params
            .self_signed(&key)
            .expect("what tests make themselves is right");
        let file = folder.write(&format!("{name}.pem"), &certificate.pem());
        folder.write(&format!("{name}.key"), &key.serialize_pem());
        Authority {
            issuer: Issuer::new(params, key),
            file,
        }
    }

    /// An authority that this one vouches for, with its certificate and key in files of its own.
    pub fn intermediate(&self, folder: &Folder, name: &str) -> Authority {
        let mut params =
            CertificateParams::new(Vec::new()).expect("what tests make themselves is right");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().expect("what tests make themselves is right");
        let certificate = params
            .signed_by(&key, &self.issuer)
            .expect("what tests make themselves is right");
        Authority {
            file: folder.write(&format!("{name}.pem"), &certificate.pem()),
            issuer: Issuer::new(params, key),
        }
    }

    /// Writes `FILE.pem` and `FILE.key` for a common name (none if empty) and an alternative name.
    pub fn issue(
        &self,
        folder: &Folder,
        file: &str,
        common: &str,
        alternative: &str,
    ) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::new(vec![alternative.to_owned()])
            .expect("what tests make themselves is right");
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.use_authority_key_identifier_extension = true;
        if !common.is_empty() {
            params.distinguished_name.push(DnType::CommonName, common);
        }
        let key = KeyPair::generate().expect("what tests make themselves is right");
        let certificate = params
            .signed_by(&key, &self.issuer)
            .expect("what tests make themselves is right");
        (
            folder.write(&format!("{file}.pem"), &certificate.pem()),
            folder.write(&format!("{file}.key"), &key.serialize_pem()),
        )
    }
}

/// A server's files: `server.pem` for `localhost`, and clients checked against `authority`.
pub fn server_files(
    folder: &Folder,
    authority: &Authority,
    wanted: ClientCertificates,
) -> TlsFiles {
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
