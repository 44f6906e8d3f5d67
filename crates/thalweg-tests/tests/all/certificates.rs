//! A throw-away certificate authority per test program, for loopback TLS.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// PEM texts: an authority, a server certificate for loopback, and a client certificate named `interop`.
#[derive(Debug)]
pub struct Certificates {
    /// The authority that signed both others.
    pub authority: String,
    /// For `127.0.0.1`, `::1` and `localhost`.
    pub server: String,
    /// The server's private key, PKCS#8.
    pub server_key: String,
    /// Common name `interop`.
    pub client: String,
    /// The client's private key, PKCS#8.
    pub client_key: String,
}

impl Certificates {
    /// The same certificates for every test of this run: signing is the slow part.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Certificates> = OnceLock::new();
        SHARED.get_or_init(Self::new)
    }

    /// A new authority with new certificates, for a test of reloading.
    pub fn new() -> Self {
        let mut authority = parameters("Thalweg test authority", &[]);
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority_key = KeyPair::generate().expect("a key can be made");
        let authority_pem = authority
            .self_signed(&authority_key)
            .expect("self-signing works")
            .pem();
        let issuer = Issuer::new(authority, authority_key);

        let mut server = parameters("localhost", &["127.0.0.1", "::1", "localhost"]);
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let server_key = KeyPair::generate().expect("a key can be made");
        let mut client = parameters("interop", &[]);
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let client_key = KeyPair::generate().expect("a key can be made");
        Self {
            authority: authority_pem,
            server: server
                .signed_by(&server_key, &issuer)
                .expect("signing works")
                .pem(),
            server_key: server_key.serialize_pem(),
            client: client
                .signed_by(&client_key, &issuer)
                .expect("signing works")
                .pem(),
            client_key: client_key.serialize_pem(),
        }
    }

    /// Writes `authority.pem`, `server.pem`, `server.key`, `client.pem` and `client.key` into `folder`.
    pub fn write_into(&self, folder: &Path) {
        for (name, text) in [
            ("authority.pem", &self.authority),
            ("server.pem", &self.server),
            ("server.key", &self.server_key),
            ("client.pem", &self.client),
            ("client.key", &self.client_key),
        ] {
            fs::write(folder.join(name), text).expect("the test's folder is writable");
        }
    }
}

fn parameters(common_name: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut parameters = CertificateParams::new(names).expect("the names are well-formed");
    parameters
        .distinguished_name
        .push(DnType::CommonName, common_name);
    parameters
}
