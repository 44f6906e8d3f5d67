//! CoAP over DTLS, with clients on two foreign implementations: libcoap's on OpenSSL and on GnuTLS, and OpenSSL's own.

use std::fs;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::broker::{Broker, Options, free_port};
use crate::certificates::Certificates;
use crate::coap_command::{self, Observer};

const KEYS: &str =
    "# two devices\nwriter:\"correct horse\"\nreader:00112233445566778899aabbccddeeff\n";
const WRITER: (&str, &str) = ("writer", "correct horse");
const RULES: &str = "user writer\ntopic readwrite sensors/#\nuser reader\ntopic read sensors/#\nuser interop\n\
                     topic readwrite sensors/#\n";

/// libcoap's client on either library.
const CLIENTS: [&str; 2] = ["coap-client-openssl", "coap-client-gnutls"];

/// A broker with a DTLS listener, and where that is.
struct Bench {
    broker: Broker,
    address: String,
}

/// `None`: the oracle is being tested, which does not speak CoAP.
fn bench(change: impl FnOnce(Options) -> Options) -> Option<Bench> {
    let address = free_port().to_string();
    let options = Broker::with()
        .file("keys", KEYS)
        .file("rules", RULES)
        .set("listeners.coap.bind", &address)
        .set("listeners.coap.transport", "dtls")
        .set("listeners.coap.tls.psk_file", "{folder}/keys")
        .set("listeners.coap.tls.psk_bytes_min", "1")
        .set("access.acl_file", "{folder}/rules")
        .set("log.level", "debug");
    let broker = change(options).start_for_queues()?;
    Some(Bench { broker, address })
}

fn with_certificate(options: Options) -> Options {
    [
        ("certificate", "{folder}/server.pem"),
        ("key", "{folder}/server.key"),
        ("client_ca", "{folder}/authority.pem"),
        ("client_certificate", "required"),
        ("identity", "common_name"),
    ]
    .into_iter()
    .fold(options.encrypted(), |options, (key, value)| {
        options.set(&format!("listeners.coap.tls.{key}"), value)
    })
}

impl Bench {
    fn ask(&self, client: &str, arguments: &[&str], path: &str) -> String {
        coap_command::ask(
            client,
            arguments,
            &format!("coaps://{}{path}", self.address),
        )
    }

    fn ask_with_key(
        &self,
        client: &str,
        (identity, key): (&str, &str),
        arguments: &[&str],
        path: &str,
    ) -> String {
        self.ask(
            client,
            &[&["-u", identity, "-k", key], arguments].concat(),
            path,
        )
    }

    /// Pings by CoAP's empty message through `openssl s_client`; true when the Reset comes (RFC 7252 §4.3).
    fn is_answered_under(&self, suite: &str, arguments: &[&str]) -> bool {
        let mut client = Command::new("openssl")
            .args(["s_client", "-quiet", "-dtls1_2", "-connect", &self.address])
            .args(["-cipher", &format!("{suite}:@SECLEVEL=0")])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl runs");
        let mut input = client.stdin.take().expect("the pipe was asked for");
        let mut output = client.stdout.take().expect("the pipe was asked for");
        let (tell, told) = channel();
        thread::spawn(move || {
            let mut answer = [0; 4];
            let _ = tell
                .send(output.read_exact(&mut answer).is_ok() && answer == [0x70, 0, 0x12, 0x34]);
        });
        let asked = input
            .write_all(&[0x40, 0, 0x12, 0x34])
            .and_then(|()| input.flush());
        let answered = asked.is_ok() && told.recv_timeout(Duration::from_secs(30)).unwrap_or(false);
        let _ = client.kill();
        let _ = client.wait();
        answered
    }
}

#[test]
fn a_key_publishes_and_reads_and_the_rules_know_its_identity() {
    let Some(bench) =
        bench(|options| options.file("keys", "writer:\"correct horse\"\nreader:\"battery\"\n"))
    else {
        return;
    };
    let reader = ("reader", "battery");
    for client in CLIENTS {
        let path = format!("/ps/data/sensors/{client}");
        assert_eq!(
            bench.ask_with_key(client, WRITER, &["-m", "put", "-e", "21.5"], &path),
            ""
        );
        assert_eq!(
            bench.ask_with_key(client, WRITER, &["-m", "get"], &path),
            "21.5"
        );
        assert_eq!(
            bench.ask_with_key(client, reader, &["-m", "get"], &path),
            "21.5"
        );
        let refused = bench.ask_with_key(client, reader, &["-m", "put", "-e", "0"], &path);
        assert!(refused.contains("4.03"), "{refused}");
        let elsewhere = bench.ask_with_key(
            client,
            WRITER,
            &["-m", "put", "-e", "0"],
            "/ps/data/elsewhere",
        );
        assert!(elsewhere.contains("4.03"), "{elsewhere}");
        assert_eq!(
            bench.ask_with_key(client, reader, &["-m", "get"], &path),
            "21.5"
        );
    }
}

#[test]
fn texts_of_many_blocks_go_both_ways() {
    let Some(bench) = bench(|options| options) else {
        return;
    };
    let text: String = (0..3_000).map(|number| format!("{number} ")).collect();
    let file = bench.broker.folder().join("text");
    fs::write(&file, &text).expect("the test's folder is writable");
    for client in CLIENTS {
        let path = format!("/ps/data/sensors/long/{client}");
        let file = file.to_str().expect("the folder's name is text");
        assert_eq!(
            bench.ask_with_key(client, WRITER, &["-m", "put", "-f", file], &path),
            ""
        );
        assert_eq!(
            bench.ask_with_key(client, WRITER, &["-m", "get"], &path),
            text.trim_end()
        );
    }
}

#[test]
fn an_observer_is_notified_under_its_key() {
    let Some(bench) = bench(|options| options) else {
        return;
    };
    for client in CLIENTS {
        let path = format!("/ps/data/sensors/{client}");
        assert_eq!(
            bench.ask_with_key(client, WRITER, &["-m", "put", "-e", "<first>"], &path),
            ""
        );
        let uri = format!("coaps://{}{path}", bench.address);
        let observer = Observer::start(client, &["-u", WRITER.0, "-k", WRITER.1], &uri);
        let mut seen = Vec::new();
        for next in ["<second>", "<third>"] {
            seen.extend(observer.value());
            assert_eq!(
                bench.ask_with_key(client, WRITER, &["-m", "put", "-e", next], &path),
                ""
            );
        }
        seen.extend(observer.value());
        assert_eq!(seen, ["<first>", "<second>", "<third>"], "{client}");
    }
}

#[test]
fn a_wrong_key_and_an_unknown_identity_are_refused_alike_and_at_once() {
    let Some(bench) = bench(|options| options) else {
        return;
    };
    for client in CLIENTS {
        for (identity, key) in [("writer", "wrong horse"), ("nobody", "correct horse")] {
            let since = Instant::now();
            let words = bench.ask_with_key(
                client,
                (identity, key),
                &["-m", "get"],
                "/ps/data/sensors/a",
            );
            assert!(
                words.to_lowercase().contains("decrypt error"),
                "{client} {identity}: {words}"
            );
            assert!(
                since.elapsed() < Duration::from_secs(30),
                "{client} {identity} waited"
            );
        }
    }
    assert!(bench.broker.wait_for_log(
        "another key, or nobody is known by its identity",
        Duration::from_secs(60)
    ));
    let log = bench.broker.log();
    assert!(
        log.lines()
            .any(|line| line.contains(" WARN ") && line.contains("DTLS handshake failed")),
        "{log}"
    );
}

#[test]
fn a_certificate_publishes_and_reads_beside_keys() {
    let Some(bench) = bench(with_certificate) else {
        return;
    };
    let file = |name: &str| bench.broker.folder().join(name).display().to_string();
    let foreign = bench.broker.folder().join("foreign");
    fs::create_dir(&foreign).expect("the test's folder is writable");
    Certificates::new().write_into(&foreign);
    let foreign = |name: &str| foreign.join(name).display().to_string();
    for client in CLIENTS {
        let path = format!("/ps/data/sensors/{client}");
        let own = [
            "-c",
            &file("client.pem"),
            "-j",
            &file("client.key"),
            "-C",
            &file("authority.pem"),
        ];
        assert_eq!(
            bench.ask(
                client,
                &[&own[..], &["-m", "put", "-e", "by certificate"]].concat(),
                &path
            ),
            ""
        );
        assert_eq!(
            bench.ask(client, &[&own[..], &["-m", "get"]].concat(), &path),
            "by certificate"
        );
        assert_eq!(
            bench.ask_with_key(client, WRITER, &["-m", "get"], &path),
            "by certificate"
        );
        let impostor = [
            "-c",
            &foreign("client.pem"),
            "-j",
            &foreign("client.key"),
            "-R",
            &file("authority.pem"),
        ];
        let words = bench.ask(client, &[&impostor[..], &["-m", "get"]].concat(), &path);
        assert!(
            !words.contains("by certificate") && words.to_lowercase().contains("alert"),
            "{client}: {words}"
        );
    }
    assert!(
        bench
            .broker
            .wait_for_log("invalid peer certificate", Duration::from_secs(60))
    );
}

#[test]
fn each_suite_is_understood_by_openssl() {
    let Some(bench) = bench(with_certificate) else {
        return;
    };
    let file = |name: &str| bench.broker.folder().join(name).display().to_string();
    let key = [
        "-psk_identity",
        "reader",
        "-psk",
        "00112233445566778899aabbccddeeff",
    ];
    for suite in ["PSK-AES128-CCM8", "PSK-AES128-CCM", "PSK-AES128-GCM-SHA256"] {
        assert!(bench.is_answered_under(suite, &key), "{suite}");
    }
    let certificate = [
        "-cert",
        &file("client.pem"),
        "-key",
        &file("client.key"),
        "-CAfile",
        &file("authority.pem"),
    ];
    for suite in [
        "ECDHE-ECDSA-AES128-CCM8",
        "ECDHE-ECDSA-AES128-CCM",
        "ECDHE-ECDSA-AES128-GCM-SHA256",
    ] {
        assert!(bench.is_answered_under(suite, &certificate), "{suite}");
        // The client's messages in pieces.
        assert!(
            bench.is_answered_under(suite, &[&certificate[..], &["-mtu", "300"]].concat()),
            "{suite} in pieces"
        );
    }
    assert!(!bench.is_answered_under(
        "PSK-AES128-CCM8",
        &["-psk_identity", "reader", "-psk", "00"]
    ));
    assert!(
        !bench.is_answered_under("ECDHE-ECDSA-AES128-CCM8", &[]),
        "without a certificate"
    );
    assert!(
        !bench.is_answered_under("PSK-AES128-CBC-SHA256", &key),
        "a suite that is not spoken"
    );
}

#[test]
fn a_changed_key_file_is_taken_over_without_being_asked() {
    let Some(bench) = bench(|options| options) else {
        return;
    };
    let client = CLIENTS[0];
    let path = "/ps/data/sensors/a";
    assert_eq!(
        bench.ask_with_key(client, WRITER, &["-m", "put", "-e", "old"], path),
        ""
    );
    let file = bench.broker.folder().join("keys");
    fs::write(&file, "writer\n").expect("the test's folder is writable");
    assert!(
        bench
            .broker
            .wait_for_log("there is no colon", Duration::from_secs(60)),
        "what is wrong is logged"
    );
    assert_eq!(
        bench.ask_with_key(client, WRITER, &["-m", "get"], path),
        "old",
        "and the old keys serve"
    );
    fs::write(&file, "writer:\"another\"\n").expect("the test's folder is writable");
    let deadline = Instant::now() + Duration::from_secs(60);
    while bench.ask_with_key(client, ("writer", "another"), &["-m", "get"], path) != "old" {
        assert!(Instant::now() < deadline, "the new key is known in time");
    }
    let words = bench.ask_with_key(client, WRITER, &["-m", "get"], path);
    assert!(words.to_lowercase().contains("decrypt error"), "{words}");
}
