//! Log-ins of XMPP by what TLS has shown.

use super::{Authority, XMPP_HEADER, read_until, start, tcp};
use crate::support::folder::Folder;
use crate::support::pipe::Pipe;
use std::io::{Read, Write};
use thalweg_scram::ChannelBinding;
use thalweg_server::access::add_scram_verifier;
use thalweg_server::transport::Filtered;
use thalweg_server::transport::client::{TlsClientFiles, TlsConnector};
use thalweg_xmpp::{
    ClientEvent, ClientSettings, ClientSide, Credentials, Framing, Limits, SaslFailure, TlsPolicy,
    Tree,
};

/// A log-in over a connection that is encrypted: the address, or why it failed.
fn log_in(
    pipe: &mut Pipe,
    credentials: Credentials,
    binding: Option<ChannelBinding>,
) -> Result<String, Option<SaslFailure>> {
    let mut side = ClientSide::new(ClientSettings {
        limits: Limits::default(),
        framing: Framing::Document,
        domain: "localhost".into(),
        tls: TlsPolicy::Direct,
        credentials,
        resource: None,
        nonce: [7; 24],
        management: false,
        acknowledges: true,
    });
    if let Some(binding) = binding {
        side.set_binding(binding);
    }
    let (mut tree, mut got, mut out) = (Tree::default(), Vec::new(), Vec::new());
    side.open(&mut out);
    loop {
        pipe.write_all(&out).expect("it leaves");
        out.clear();
        let mut bytes = [0; 4096];
        let count = pipe.read(&mut bytes).expect("an answer");
        got.extend_from_slice(&bytes[..count]);
        while let Some((used, event)) = side
            .handle_input(&got, &mut tree, &mut out)
            .map_err(|_| side.failure())?
        {
            if let ClientEvent::Bound(jid) = event {
                return Ok(jid.to_string());
            }
            got.drain(..used);
        }
    }
}

/// EXTERNAL is offered to those whose certificate has a name, SCRAM-SHA-256-PLUS to all with TLS 1.3.
#[test]
fn clients_of_xmpp_log_in_by_what_tls_has_shown() {
    let folder = Folder::new("queues");
    let authority = Authority::new(&folder);
    authority.issue(&folder, "server", "the broker");
    authority.issue(&folder, "client", "pump-7");
    let users = folder.0.join("users");
    std::fs::write(&users, "").expect("the folder is writable");
    add_scram_verifier(&users, "juliet", b"secret").expect("a user");
    let mut sets = vec![
        "access.password_file={folder}/users".to_owned(),
        "xmpp.scram=true".to_owned(),
    ];
    for (name, transport) in [("x", "starttls"), ("xs", "tls")] {
        let keys = [
            ("kind", "xmpp"),
            ("transport", transport),
            ("bind", "127.0.0.1:0"),
            ("anonymous", "true"),
            ("tls.certificate", "{folder}/server.pem"),
            ("tls.key", "{folder}/server.key"),
            ("tls.client_ca", "{folder}/authority.pem"),
            ("tls.client_certificate", "optional"),
            ("tls.identity", "common_name"),
        ];
        sets.extend(keys.map(|(key, value)| format!("listeners.{name}.{key}={value}")));
    }
    let server = start(
        &folder,
        &sets.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let connect = |listener: &str, shows: bool| {
        let files = TlsClientFiles {
            ca: Some(folder.0.join("authority.pem")),
            identity: shows.then(|| (folder.0.join("client.pem"), folder.0.join("client.key"))),
            ..TlsClientFiles::default()
        };
        let tls = TlsConnector::new(&files).expect("files");
        let tls = tls.connect("localhost").expect("a name");
        let mut socket = tcp(&server, listener);
        if listener == "x" {
            socket.write_all(XMPP_HEADER).expect("it leaves");
            read_until(&mut socket, "</stream:features>");
            let request = b"<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>";
            socket.write_all(request).expect("it leaves");
            read_until(&mut socket, "/>");
        }
        Pipe::new(socket, Filtered::stack(Some(tls), None))
    };
    let binding = |pipe: &Pipe| ChannelBinding {
        name: "tls-exporter",
        data: pipe.filters.channel_binding().expect("TLS 1.3").into(),
    };
    let asked = |pipe: &mut Pipe, mechanism: &str, message: &str, end: &str| {
        let auth = format!(
            "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='{mechanism}'>{message}</auth>"
        );
        pipe.write_all(auth.as_bytes()).expect("it leaves");
        let answer = read_until(pipe, end);
        assert!(answer.ends_with(end), "{answer}");
    };
    let juliet = || Credentials::Password {
        user: "juliet".into(),
        password: "secret".into(),
    };
    for listener in ["x", "xs"] {
        for shows in [true, false] {
            let mut pipe = connect(listener, shows);
            pipe.write_all(XMPP_HEADER).expect("it leaves");
            let features = read_until(&mut pipe, "</stream:features>");
            assert_eq!(features.contains("EXTERNAL"), shows, "{features}");
            assert!(
                features.contains("<mechanism>SCRAM-SHA-256-PLUS</mechanism>")
                    && features.contains("<channel-binding type='tls-exporter'/>"),
                "{features}"
            );
            // Another's address; then a client that holds its binding back because it has not seen ours.
            if shows {
                let failure = "<invalid-authzid/></failure>";
                asked(&mut pipe, "EXTERNAL", "cm9tZW9AbG9jYWxob3N0", failure);
            }
            let first = "eSwsbj1qdWxpZXQscj1yT3ByTkdmd0ViZVJXZ2JORWtxTw==";
            let failure = "<not-authorized/></failure>";
            asked(&mut pipe, "SCRAM-SHA-256", first, failure);
            if shows {
                let own = "cHVtcC03QGxvY2FsaG9zdA==";
                asked(&mut pipe, "EXTERNAL", own, "</success>");
            }

            let by_certificate = log_in(&mut connect(listener, shows), Credentials::External, None);
            match by_certificate {
                Ok(jid) => assert!(shows && jid.starts_with("pump-7@localhost/"), "{jid}"),
                // The client finds no mechanism.
                Err(failure) => assert!(!shows && failure.is_none(), "{failure:?}"),
            }
            for is_right in [true, false] {
                let (mut pipe, mut other) = (connect(listener, shows), connect(listener, shows));
                handshake(&mut pipe);
                handshake(&mut other);
                let bound = binding(if is_right { &pipe } else { &other });
                match log_in(&mut pipe, juliet(), Some(bound)) {
                    Ok(jid) => assert!(is_right && jid.starts_with("juliet@localhost/"), "{jid}"),
                    Err(failure) => {
                        assert!(!is_right && failure == Some(SaslFailure::NotAuthorized));
                    }
                }
            }
        }
    }
}

/// Completes the handshake of TLS.
fn handshake(pipe: &mut Pipe) {
    while pipe.filters.is_handshaking() {
        let mut wire = Vec::new();
        pipe.filters.take_output(&mut wire);
        pipe.socket.write_all(&wire).expect("it leaves");
        if pipe.filters.is_handshaking() {
            let mut bytes = [0; 4096];
            let count = pipe.socket.read(&mut bytes).expect("an answer");
            let taken = pipe.filters.handle_input(&bytes[..count], &mut pipe.plain);
            taken.expect("a handshake");
        }
    }
    let mut wire = Vec::new();
    pipe.filters.take_output(&mut wire);
    pipe.socket.write_all(&wire).expect("it leaves");
}
