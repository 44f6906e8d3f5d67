//! The files, and rustls' part of handshakes. Handshakes are tested in `thalweg-dtls`, and with foreign clients against the
//! running broker in `thalweg-tests`.

use thalweg_dtls::alert;
use thalweg_dtls::{Certificate, ConfigFault, Exchange, SCHEMES};

use super::super::certificates::{Authority, Folder, server_files};
use super::super::tls::{
    ClientCertificates, TlsFault, TlsFiles, provider, read_certificates, read_key,
};
use super::certificate::ServerCertificate;
use super::*;

fn leaf_and_key(folder: &Folder, authority: &Authority) -> (Vec<u8>, std::path::PathBuf) {
    let (certificate, key) = authority.issue(folder, "client", "sensor 7", "client.test");
    (read_certificates(&certificate).unwrap()[0].to_vec(), key)
}

#[test]
fn listeners_without_anything_to_know_peers_by_are_refused() {
    assert_eq!(
        DtlsAcceptor::new(DtlsFiles::default()).unwrap_err(),
        DtlsFault::Config(ConfigFault::Nobody)
    );
    let missing = DtlsFiles {
        keys: Some("/nowhere/keys".into()),
        ..DtlsFiles::default()
    };
    let words = DtlsAcceptor::new(missing).unwrap_err().to_string();
    assert!(
        words.contains("/nowhere/keys") && words.contains("check the path"),
        "{words}"
    );
    let folder = Folder::new();
    let keys = folder.write(
        "keys",
        "long:00112233445566778899aabbccddeeff\nshort:\"secret\"\n",
    );
    let with = |key_bytes_min| DtlsFiles {
        keys: Some(keys.clone()),
        key_bytes_min,
        ..DtlsFiles::default()
    };
    let words = DtlsAcceptor::new(with(16)).unwrap_err().to_string();
    assert!(
        words.contains("shorter than 16 bytes") && words.contains("1 (\"short\")"),
        "{words}"
    );
    assert!(!words.contains("secret"), "{words}");
    assert!(DtlsAcceptor::new(with(6)).is_ok());
    let authority = Authority::new(&folder, "authority");
    let mut tls = server_files(&folder, &authority, ClientCertificates::None);
    (_, tls.key) = authority.issue(&folder, "other", "other", "localhost");
    let mixed = DtlsFiles {
        certificate: Some(tls),
        ..DtlsFiles::default()
    };
    assert!(matches!(
        DtlsAcceptor::new(mixed).unwrap_err(),
        DtlsFault::Tls(TlsFault::KeyMismatch { .. })
    ));
}

#[test]
fn a_bad_key_file_changes_nothing_and_a_good_one_is_told() {
    let folder = Folder::new();
    let keys = folder.write("keys", "dev1:\"secret\"\ndev2:\"other\"\n");
    let acceptor = DtlsAcceptor::new(DtlsFiles {
        keys: Some(keys),
        ..DtlsFiles::default()
    })
    .unwrap();
    let (before, reloads) = (acceptor.loaded(), acceptor.reloads());
    folder.write("keys", "dev1:\"secret\"\ndev2\n");
    let fault = acceptor.reload().unwrap_err().to_string();
    assert!(
        fault.contains(":2: ") && fault.contains("no colon"),
        "{fault}"
    );
    assert!(std::sync::Arc::ptr_eq(&before, &acceptor.loaded()) && acceptor.reloads() == reloads);
    folder.write("keys", "dev2:\"new\"\n");
    acceptor.reload().unwrap();
    assert!(!std::sync::Arc::ptr_eq(&before, &acceptor.loaded()) && acceptor.reloads() != reloads);
}

#[test]
fn certificates_that_are_missing_foreign_or_somebody_elses_are_refused() {
    let folder = Folder::new();
    let authority = Authority::new(&folder, "authority");
    let judges =
        |wanted| ServerCertificate::read(&server_files(&folder, &authority, wanted)).unwrap();
    let (own, _) = leaf_and_key(&folder, &authority);
    let (foreign, _) = leaf_and_key(&folder, &Authority::new(&folder, "foreign"));
    let required = judges(ClientCertificates::Required);
    assert_eq!(
        required
            .judge(std::slice::from_ref(&own))
            .unwrap()
            .as_deref(),
        Some("sensor 7")
    );
    for (chain, description, words) in [
        (
            vec![],
            alert::HANDSHAKE_FAILURE,
            "a client certificate is required",
        ),
        (
            vec![foreign],
            alert::UNKNOWN_CA,
            "nobody we trust has signed it",
        ),
        (vec![b"nonsense".to_vec()], alert::BAD_CERTIFICATE, ""),
    ] {
        let alert = required.judge(&chain).unwrap_err();
        assert_eq!(alert.description, description, "{}", alert.why);
        assert!(alert.why.contains(words), "{}", alert.why);
    }
    assert!(required.asks_clients() && required.authorities().len() == 1);
    assert_eq!(
        judges(ClientCertificates::Optional).judge(&[]).unwrap(),
        None
    );
    let silent = judges(ClientCertificates::None);
    assert!(!silent.asks_clients() && silent.judge(&[own]).is_err());
}

#[test]
fn signatures_and_agreements_fit_each_other_and_nothing_else() {
    let folder = Folder::new();
    let authority = Authority::new(&folder, "authority");
    let files = server_files(&folder, &authority, ClientCertificates::Required);
    let server = ServerCertificate::read(&files).unwrap();
    // Its own certificate serves as a peer's.
    assert_eq!(server.scheme(Exchange::EcdheRsa, &SCHEMES), None);
    let scheme = server
        .scheme(Exchange::EcdheEcdsa, &SCHEMES)
        .expect("a key on a curve signs");
    let signature = server.sign(scheme, b"a message").unwrap();
    let check = |scheme, message: &[u8], signature: &[u8]| {
        server
            .check_signature(&server.chain()[0], scheme, message, signature)
            .map_err(|alert| alert.description)
    };
    assert_eq!(check(scheme, b"a message", &signature), Ok(()));
    assert_eq!(
        check(scheme, b"another", &signature),
        Err(alert::DECRYPT_ERROR)
    );
    assert_eq!(
        check(0x0807, b"a message", &signature),
        Err(alert::DECRYPT_ERROR)
    );
    assert_eq!(
        check(scheme, b"a message", &signature[1..]),
        Err(alert::DECRYPT_ERROR)
    );
    let (other, key) = leaf_and_key(&folder, &authority);
    let key = provider()
        .key_provider
        .load_private_key(read_key(&key).unwrap())
        .unwrap();
    let foreign = key
        .choose_scheme(&[scheme.into()])
        .unwrap()
        .sign(b"a message")
        .unwrap();
    assert_eq!(
        check(scheme, b"a message", &foreign),
        Err(alert::DECRYPT_ERROR)
    );
    assert!(
        server
            .check_signature(&other, scheme, b"a message", &foreign)
            .is_ok()
    );
    // P-256, P-384 and X25519 (RFC 8422 §5.1.1).
    for group in [23, 24, 29] {
        let [one, other] = [(); 2].map(|()| server.agree(group).expect("a known group"));
        let (point, others_point) = (one.public().to_vec(), other.public().to_vec());
        assert_ne!(point, others_point);
        assert_eq!(
            one.agree(&others_point).expect("a point"),
            other.agree(&point).expect("a point")
        );
        let again = server.agree(group).expect("a known group");
        assert_eq!(again.agree(&point[1..]), None, "cut short");
    }
    assert_eq!(
        server
            .agree(23)
            .unwrap()
            .agree(&[&[4], &[1; 64][..]].concat()),
        None,
        "not on the curve"
    );
    assert_eq!(server.agree(29).unwrap().agree(&[0; 32]), None, "all zero");
    assert!(server.agree(25).is_none());
    let newer = TlsFiles {
        oldest: super::super::tls::TlsOldest::V13,
        ..files
    };
    assert!(matches!(
        ServerCertificate::read(&newer),
        Err(TlsFault::Setup(_))
    ));
}
