//! `mosquitto_pub` and `mosquitto_sub`, Debian's, as people use them in shells.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use super::puppet::{Message, PATIENCE};
use crate::broker::{Broker, BrokerProgram};

/// A running `mosquitto_sub`; dropping it kills it.
pub struct Subscriber {
    child: Child,
    messages: Receiver<Message>,
    subscribed: Receiver<()>,
}

impl Subscriber {
    /// Starts `mosquitto_sub` with these arguments and returns once the broker has granted all of its filters.
    pub fn start(broker: &Broker, arguments: &[&str]) -> Self {
        let subscriber = Self::start_at(
            &["-h", "127.0.0.1", "-p", &broker.mqtt().port().to_string()],
            arguments,
        );
        subscriber
            .subscribed
            .recv_timeout(PATIENCE)
            .expect("mosquitto_sub is subscribed in time");
        subscriber
    }

    fn start_at(place: &[&str], arguments: &[&str]) -> Self {
        // Into a pipe, mosquitto_sub would keep its lines until it has a block of them.
        let mut child = Command::new("stdbuf")
            .args(["-oL", "mosquitto_sub"])
            .args(place)
            // Debug lines tell when the subscription is in place, so that no test has to guess.
            .args(["-d", "-F", "MESSAGE|%q|%r|%t|%x|%P"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("mosquitto_sub runs (Debian package mosquitto-clients)");
        let output = child.stdout.take().expect("the pipe was asked for");
        let (to_messages, messages) = channel();
        let (to_subscribed, subscribed) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Some(message) = parse(&line) {
                    let _ = to_messages.send(message);
                } else if line.starts_with("Subscribed") {
                    let _ = to_subscribed.send(());
                }
            }
        });
        Self {
            child,
            messages,
            subscribed,
        }
    }

    /// The next message, in time or the test fails.
    pub fn receive(&self) -> Message {
        self.messages
            .recv_timeout(PATIENCE)
            .expect("mosquitto_sub prints a message in time")
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `mosquitto_pub`, which ends once the broker has acknowledged.
pub fn publish(broker: &Broker, arguments: &[&str]) {
    let output = run(
        "mosquitto_pub",
        &["-h", "127.0.0.1", "-p", &broker.mqtt().port().to_string()],
        arguments,
    );
    assert!(
        output.status.success(),
        "mosquitto_pub {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

pub(super) fn run(program: &str, place: &[&str], arguments: &[&str]) -> Output {
    let run = Command::new(program)
        .args(place)
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    run.expect("the program runs (Debian package mosquitto-clients)")
}

fn parse(line: &str) -> Option<Message> {
    let mut fields = line.strip_prefix("MESSAGE|")?.splitn(5, '|');
    let (qos, retain, topic) = (fields.next()?, fields.next()?, fields.next()?);
    let digits = fields.next()?.as_bytes();
    let payload = digits
        .chunks(2)
        .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    let mut message = Message::new(topic, payload.collect::<Vec<u8>>(), qos.parse().ok()?);
    message.retain = retain == "1";
    let pairs = fields.next().unwrap_or_default();
    if !pairs.is_empty() {
        message = message.property("user", pairs.into());
    }
    Some(message)
}

const VERSIONS: [&str; 3] = ["mqttv31", "mqttv311", "mqttv5"];

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn mosquitto_tools_exchange_each_qos_with_wildcards_in_every_version() {
    let broker = Broker::start();
    for from in VERSIONS {
        for to in VERSIONS {
            let subscriber = Subscriber::start(
                &broker,
                &["-V", to, "-q", "2", "-t", "tools/+/x", "-t", "deep/#"],
            );
            for qos in ["0", "1", "2"] {
                publish(
                    &broker,
                    &["-V", from, "-q", qos, "-t", "tools/a/no", "-m", "no"],
                );
                publish(
                    &broker,
                    &[
                        "-V",
                        from,
                        "-q",
                        qos,
                        "-t",
                        "tools/a/x",
                        "-m",
                        "plain | text",
                    ],
                );
                publish(
                    &broker,
                    &["-V", from, "-q", qos, "-t", "deep/down/here", "-n"],
                );
                let level = qos.parse().expect("a digit");
                assert_eq!(
                    subscriber.receive(),
                    Message::new("tools/a/x", "plain | text", level),
                    "{from} to {to}"
                );
                assert_eq!(
                    subscriber.receive(),
                    Message::new("deep/down/here", "", level),
                    "{from} to {to}"
                );
            }
        }
    }
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn mosquitto_tools_send_a_file_and_receive_it_exactly() {
    let broker = Broker::start();
    let bytes: Vec<u8> = (0..=255).cycle().take(50_000).collect();
    let path = broker.folder().join("payload");
    std::fs::write(&path, &bytes).expect("the test's folder is writable");
    let subscriber = Subscriber::start(&broker, &["-q", "1", "-t", "file"]);
    publish(
        &broker,
        &[
            "-q",
            "1",
            "-t",
            "file",
            "-f",
            path.to_str().expect("an ASCII path"),
        ],
    );
    assert!(subscriber.receive().payload == bytes, "every byte arrives");
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn mosquitto_tools_set_read_and_clear_retained_messages() {
    let broker = Broker::start();
    publish(&broker, &["-q", "1", "-r", "-t", "kept/a", "-m", "one"]);
    publish(&broker, &["-q", "1", "-r", "-t", "kept/b", "-m", "two"]);
    let first = Subscriber::start(&broker, &["-q", "1", "-t", "kept/a"]);
    assert_eq!(first.receive(), Message::new("kept/a", "one", 1).retained());
    publish(&broker, &["-q", "1", "-r", "-t", "kept/a", "-n"]);
    let second = Subscriber::start(&broker, &["-q", "1", "-t", "kept/#"]);
    assert_eq!(
        second.receive(),
        Message::new("kept/b", "two", 1).retained()
    );
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn a_killed_mosquitto_sub_leaves_its_will() {
    let broker = Broker::start();
    let observer = Subscriber::start(&broker, &["-q", "1", "-t", "will"]);
    let will = [
        "--will-topic",
        "will",
        "--will-payload",
        "gone",
        "--will-qos",
        "1",
    ];
    drop(Subscriber::start(
        &broker,
        &[["-t", "other"].as_slice(), &will].concat(),
    ));
    assert_eq!(observer.receive(), Message::new("will", "gone", 1));
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn mosquitto_sub_resumes_its_session() {
    let broker = Broker::start();
    for version in ["mqttv311", "mqttv5"] {
        let mut session = vec![
            "-V", version, "-q", "1", "-i", "resumer", "-c", "-t", "queue/#",
        ];
        if version == "mqttv5" {
            session.extend(["-x", "300"]);
        }
        drop(Subscriber::start(&broker, &session));
        publish(&broker, &["-q", "1", "-t", "queue/1", "-m", "while away"]);
        let resumed = Subscriber::start(&broker, &session);
        assert_eq!(resumed.receive(), Message::new("queue/1", "while away", 1));
        drop(resumed);
        // A clean start ends it.
        drop(Subscriber::start(
            &broker,
            &["-V", version, "-i", "resumer", "-t", "other"],
        ));
    }
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn mosquitto_tools_carry_properties_and_user_properties_in_order() {
    let broker = Broker::start();
    let subscriber = Subscriber::start(&broker, &["-V", "mqttv5", "-q", "1", "-t", "p"]);
    let user = |name, value| ["-D", "publish", "user-property", name, value];
    let properties = [user("b", "1"), user("a", "2"), user("b", "3")].concat();
    let topic = [
        "-V",
        "mqttv5",
        "-q",
        "1",
        "-t",
        "p",
        "-m",
        "x",
        "-D",
        "publish",
        "content-type",
        "text/plain",
    ];
    publish(&broker, &[topic.as_slice(), &properties].concat());
    let message = subscriber.receive();
    assert_eq!(message.properties["user"], "b:1 a:2 b:3");
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn mosquitto_tools_speak_tls() {
    let broker = Broker::with().encrypted().start();
    let (port, authority) = (broker.tls().port().to_string(), broker.authority());
    let authority = authority.to_str().expect("an ASCII path");
    let place = ["-h", "127.0.0.1", "-p", &port, "--cafile", authority];
    for version in ["tlsv1.2", "tlsv1.3"] {
        let subscriber = Subscriber::start_at(
            &place,
            &["--tls-version", version, "-q", "1", "-t", "secret"],
        );
        subscriber
            .subscribed
            .recv_timeout(PATIENCE)
            .expect("mosquitto_sub is subscribed in time");
        let sent = run(
            "mosquitto_pub",
            &place,
            &[
                "--tls-version",
                version,
                "-q",
                "1",
                "-t",
                "secret",
                "-m",
                "x",
            ],
        );
        assert!(
            sent.status.success(),
            "{}",
            String::from_utf8_lossy(&sent.stderr)
        );
        assert_eq!(subscriber.receive(), Message::new("secret", "x", 1));
    }
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn mosquitto_tools_show_client_certificates() {
    let broker = Broker::with()
        .encrypted()
        .set("listeners.tls.tls.client_ca", "{folder}/authority.pem")
        .set("listeners.tls.tls.client_certificate", "required")
        .start();
    if broker.kind() == BrokerProgram::Mosquitto {
        return; // The oracle's listener does not ask for certificates.
    }
    let port = broker.tls().port().to_string();
    let file = |name: &str| broker.folder().join(name).display().to_string();
    let (authority, certificate, key) = (
        file("authority.pem"),
        file("client.pem"),
        file("client.key"),
    );
    let place = ["-h", "127.0.0.1", "-p", &port, "--cafile", &authority];
    let message = ["-q", "1", "-t", "secret", "-m", "x"];
    assert!(
        !run("mosquitto_pub", &place, &message).status.success(),
        "without a certificate nobody enters"
    );
    let shown = [place.as_slice(), &["--cert", &certificate, "--key", &key]].concat();
    let sent = run("mosquitto_pub", &shown, &message);
    assert!(
        sent.status.success(),
        "{}",
        String::from_utf8_lossy(&sent.stderr)
    );
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn mosquitto_tools_log_in_with_what_mosquitto_passwd_hashed_and_obey_its_acl() {
    // `mosquitto_passwd -b users sensor geheim`, version 2.0.11.
    let users = "sensor:$7$101$0vBvoHXFKPm1a/5d$2mnmCs+foA7RSJhmfYUCC5/zh7MT7OcnYqFQN+F48mj2MusU8zJBKvesuEvyGtCm3bROaYr7nOPK1EAYs9oZAQ==\n";
    let acl = "user sensor\ntopic read up/#\n\npattern write up/%u/#\n";
    let broker = Broker::with().guarded(users, acl).start();
    let port = broker.mqtt().port().to_string();
    let place = ["-h", "127.0.0.1", "-p", &port];
    let message = ["-q", "1", "-t", "up/sensor/x", "-m", "allowed"];
    assert!(
        !run("mosquitto_pub", &place, &message).status.success(),
        "nobody enters without a name"
    );
    let wrong = [message.as_slice(), &["-u", "sensor", "-P", "falsch"]].concat();
    assert!(
        !run("mosquitto_pub", &place, &wrong).status.success(),
        "nobody enters with a wrong password"
    );

    let login = ["-u", "sensor", "-P", "geheim"];
    let subscriber = Subscriber::start(
        &broker,
        &[login.as_slice(), &["-q", "1", "-t", "up/#"]].concat(),
    );
    publish(
        &broker,
        &[
            login.as_slice(),
            &["-q", "0", "-t", "up/other/x", "-m", "not allowed"],
        ]
        .concat(),
    );
    publish(&broker, &[login.as_slice(), &message].concat());
    assert_eq!(
        subscriber.receive(),
        Message::new("up/sensor/x", "allowed", 1)
    );
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn mosquitto_tools_speak_over_a_unix_socket() {
    let socket = "{folder}/broker.sock";
    let broker = Broker::with()
        .set("listeners.local.transport", "unix")
        .set("listeners.local.bind", socket)
        .start();
    if broker.kind() == BrokerProgram::Mosquitto {
        return; // The oracle has no such listener here.
    }
    let path = broker.folder().join("broker.sock").display().to_string();
    let subscriber = Subscriber::start_at(&["--unix", &path], &["-q", "1", "-t", "near"]);
    subscriber
        .subscribed
        .recv_timeout(PATIENCE)
        .expect("mosquitto_sub is subscribed in time");
    let sent = run(
        "mosquitto_pub",
        &["--unix", &path],
        &["-q", "1", "-t", "near", "-m", "x"],
    );
    assert!(
        sent.status.success(),
        "{}",
        String::from_utf8_lossy(&sent.stderr)
    );
    assert_eq!(subscriber.receive(), Message::new("near", "x", 1));
}
