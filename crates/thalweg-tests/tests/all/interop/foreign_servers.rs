//! The client library against servers of others: mosquitto (3.1.1 and 5), and libcoap's coap-server with its plain
//! resources.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use thalweg_client::blocking::{Client, Subscription};
use thalweg_client::coap::{Coap, CoapSettings};
use thalweg_client::transport::Medium;
use thalweg_client::{Endpoint, Options, Reliability, Retain, SubscribeOptions, Success};

use crate::broker::free_port;

/// Longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program that serves at a port of this machine; dropping it kills it.
struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(program: &str, arguments: &[&str]) -> Child {
    Command::new(program)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("{program} runs: {error}"))
}

fn mosquitto() -> Server {
    let port = free_port().port();
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
    // Without a password file mosquitto accepts any client of this machine.
    let child = Command::new("mosquitto")
        .env("PATH", path)
        .args(["-p", &port.to_string()])
        .stderr(Stdio::null())
        .spawn()
        .expect("mosquitto runs (Debian package mosquitto)");
    Server { child, port }
}

/// It makes resources when they are put.
fn coap_server() -> Server {
    let port = free_port().port();
    let child = run(
        "coap-server-notls",
        &["-A", "127.0.0.1", "-p", &port.to_string(), "-d", "100"],
    );
    Server { child, port }
}

fn mqtt(server: &Server, version: u8, name: &str) -> Client {
    let url = format!("mqtt://127.0.0.1:{}", server.port);
    let builder = Client::builder()
        .broker(&url)
        .expect("a URL")
        .mqtt_version(version)
        .client_id(name);
    builder.connect_blocking().expect("it starts")
}

fn coap(server: &Server) -> Client {
    let endpoint = Endpoint {
        host: "127.0.0.1".to_owned(),
        port: server.port,
        medium: Medium::Datagrams,
        is_encrypted: false,
        websocket: None,
    };
    let lane = Coap::new(endpoint, CoapSettings::plain());
    Client::builder()
        .transport(Box::new(lane))
        .connect_blocking()
        .expect("it starts")
}

fn next(subscription: &mut Subscription) -> (String, Vec<u8>) {
    let message = subscription
        .next_timeout(PATIENCE)
        .expect("it goes on")
        .expect("a message comes");
    (message.topic().to_owned(), message.payload().to_vec())
}

/// Publishes until it is taken: the server may not listen yet.
fn publish(client: &Client, topic: &str, payload: &[u8], options: &Options) {
    let ticket = client
        .give(payload, "", topic, options)
        .expect("there is room");
    assert_eq!(
        client.outcome(ticket, PATIENCE),
        Success::Acknowledged,
        "{topic}"
    );
}

#[test]
#[ignore = "needs foreign servers: cargo xtask interop"]
fn mosquitto_carries_every_reliability_in_both_versions() {
    let server = mosquitto();
    for version in [4, 5] {
        let (from, to) = (mqtt(&server, version, "from"), mqtt(&server, version, "to"));
        let options = SubscribeOptions {
            reliability: Reliability::ExactlyOnce,
            ..SubscribeOptions::default()
        };
        let topics = format!("v{version}/+/#");
        let mut heard = to
            .subscribe_timeout(&topics, options, PATIENCE)
            .expect("mosquitto grants it");
        for (name, reliability) in [
            ("one", Reliability::AtLeastOnce),
            ("two", Reliability::ExactlyOnce),
            ("zero", Reliability::AtMostOnce),
        ] {
            let topic = format!("v{version}/{name}");
            for number in 0..100 {
                let options = Options {
                    reliability,
                    ..Options::default()
                };
                from.give(format!("{number}").as_bytes(), "", &topic, &options)
                    .expect("there is room");
            }
            for number in 0..100 {
                assert_eq!(
                    next(&mut heard),
                    (topic.clone(), format!("{number}").into_bytes())
                );
            }
        }
        from.close(PATIENCE).expect("nothing is outstanding");
    }
}

#[test]
#[ignore = "needs foreign servers: cargo xtask interop"]
fn mosquitto_keeps_last_values_and_carries_questions() {
    let server = mosquitto();
    for version in [4, 5] {
        let client = mqtt(&server, version, "asker");
        let topic = format!("v{version}/kept");
        publish(
            &client,
            &topic,
            b"21.5",
            &Options {
                retain: Retain::Set,
                ..Options::default()
            },
        );
        let value = client
            .last_value(&topic)
            .expect("it is asked")
            .expect("there is one");
        assert_eq!(value.payload(), b"21.5");
        publish(
            &client,
            &topic,
            b"",
            &Options {
                retain: Retain::Clear,
                ..Options::default()
            },
        );
        assert!(client.last_value(&topic).expect("it is asked").is_none());
    }
    let (client, worker) = (mqtt(&server, 5, "asker"), mqtt(&server, 5, "worker"));
    let mut questions = worker
        .subscribe_timeout("rpc/add", SubscribeOptions::default(), PATIENCE)
        .expect("it is granted");
    let answering = std::thread::spawn(move || {
        for _ in 0..3 {
            let question = questions
                .next_timeout(PATIENCE)
                .expect("it goes on")
                .expect("a question comes");
            let answer = Options {
                correlation: question.correlation().map(<[u8]>::to_vec),
                ..Options::default()
            };
            publish(
                &worker,
                question.reply_to().expect("a way back"),
                question.payload(),
                &answer,
            );
        }
    });
    for number in ["1", "2", "3"] {
        let answer = client
            .request("rpc/add", number.as_bytes(), &Options::default(), PATIENCE)
            .expect("an answer");
        assert_eq!(answer.payload(), number.as_bytes());
    }
    answering.join().expect("all were answered");
}

#[test]
#[ignore = "needs foreign servers: cargo xtask interop"]
fn mosquitto_keeps_a_session_while_the_client_is_away() {
    let server = mosquitto();
    for version in [4, 5] {
        let url = format!("mqtt://127.0.0.1:{}", server.port);
        let away = || {
            let builder = Client::builder()
                .broker(&url)
                .expect("a URL")
                .mqtt_version(version);
            builder
                .client_id("sleeper")
                .session(Duration::from_secs(600))
                .connect_blocking()
                .expect("it starts")
        };
        let topic = format!("v{version}/job");
        let sleeper = away();
        let heard = sleeper
            .subscribe_timeout(&topic, SubscribeOptions::default(), PATIENCE)
            .expect("it is granted");
        // Gone without a word: the session stays.
        drop(heard);
        drop(sleeper);
        let awake = mqtt(&server, version, "awake");
        publish(&awake, &topic, b"while away", &Options::default());
        let sleeper = away();
        let mut heard = sleeper
            .subscribe_timeout(&topic, SubscribeOptions::default(), PATIENCE)
            .expect("it is granted");
        publish(&awake, &topic, b"after", &Options::default());
        let mut payloads = vec![next(&mut heard).1];
        if payloads[0] != b"after" {
            payloads.push(next(&mut heard).1);
        }
        assert_eq!(
            payloads.last().map(Vec::as_slice),
            Some(&b"after"[..]),
            "{payloads:?}"
        );
    }
}

#[test]
#[ignore = "needs foreign servers: cargo xtask interop"]
fn libcoaps_server_takes_values_and_tells_of_them() {
    let server = coap_server();
    let (from, to) = (coap(&server), coap(&server));
    publish(&from, "lamp/1", b"off", &Options::default());
    let value = to
        .last_value("lamp/1")
        .expect("it is asked")
        .expect("it was put");
    assert_eq!(value.payload(), b"off");
    let options = SubscribeOptions {
        keeps_all: false,
        ..SubscribeOptions::default()
    };
    let mut heard = to
        .subscribe_timeout("lamp/1", options, PATIENCE)
        .expect("it lets itself be observed");
    assert_eq!(next(&mut heard).1, b"off");
    let began = Instant::now();
    for number in 0..20 {
        let value = format!("{number}");
        publish(&from, "lamp/1", value.as_bytes(), &Options::default());
        assert_eq!(next(&mut heard).1, value.as_bytes());
    }
    assert!(began.elapsed() < PATIENCE, "nothing was repeated");
    // At most once asks for no answer, and gets there all the same.
    let reading = Options {
        reliability: Reliability::AtMostOnce,
        ..Options::default()
    };
    from.give(b"blink", "", "lamp/1", &reading)
        .expect("there is room");
    assert_eq!(next(&mut heard).1, b"blink");
    publish(&from, "lamp/1", &vec![b'x'; 5000], &Options::default());
    assert_eq!(next(&mut heard).1.len(), 5000);
    assert!(
        to.last_value("nothing/here")
            .expect("it is asked")
            .is_none()
    );
}
