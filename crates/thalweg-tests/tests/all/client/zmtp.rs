//! ZeroMQ's lanes against the real broker, and towards MQTT.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use thalweg_client::blocking::{Client, Subscription};
use thalweg_client::{ClientBuilder, Options, PeerSettings, Reliability, Success};

use super::{PATIENCE, builder, connect, subscribe};
use crate::broker::{Broker, free_port, thalweg_binary};

fn at_most() -> Options {
    Options {
        reliability: Reliability::AtMostOnce,
        ..Options::default()
    }
}

fn broker_at(mqtt: SocketAddr, zmtp: SocketAddr) -> Option<Broker> {
    Broker::with()
        .queues()
        .set("listeners.mqtt.bind", &mqtt.to_string())
        .set("listeners.zmtp.bind", &zmtp.to_string())
        .start_for_queues()
}

/// Publishes until it arrives; SUBSCRIBE reaches other shards some time after it was answered.
fn until_heard(client: &Client, topic: &str, heard: &mut Subscription) {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let own = format!("?{}", RUNS.fetch_add(1, Ordering::Relaxed));
    for _ in 0..600 {
        client
            .publish(topic, own.as_bytes(), &at_most())
            .expect("it goes");
        // An earlier message may arrive by a longer path.
        while let Ok(Some(message)) = heard.next_timeout(Duration::from_millis(100)) {
            if message.payload() == own.as_bytes() {
                return;
            }
        }
    }
    panic!("nothing came at {topic}");
}

/// Nothing comes for a while but what [`until_heard`] has published.
fn assert_nothing_more(heard: &mut Subscription, whose: &str) {
    while let Ok(Some(message)) = heard.next_timeout(Duration::from_millis(200)) {
        assert!(message.payload().starts_with(b"?"), "{whose}: {message:?}");
    }
}

/// The next so many messages that are not of [`until_heard`].
fn take(heard: &mut Subscription, count: usize) -> Vec<String> {
    let mut came = Vec::new();
    while came.len() < count {
        came.extend(super::take(heard, 1));
        came.retain(|payload| !payload.starts_with('?'));
    }
    came
}

#[test]
fn messages_cross_between_zmtp_and_mqtt_and_each_comes_once() {
    let (mqtt, zmtp) = (free_port(), free_port());
    let Some(_broker) = broker_at(mqtt, zmtp) else {
        return;
    };
    let clients = [format!("zmtp://{zmtp}"), format!("mqtt://{mqtt}")].map(|url| connect(&[&url]));
    for (publisher, listener) in [(0, 1), (1, 0), (0, 0)] {
        let (publisher, listener) = (&clients[publisher], &clients[listener]);
        for (filter, topics, other) in [
            ("plant/#", ["plant", "plant/1"], "planted"),
            ("plant/+/x", ["plant/1/x", "plant/2/x"], "plant/1/y"),
            (
                "caf\u{e9}/a",
                ["caf\u{e9}/a", "caf\u{e9}/a"],
                "caf\u{e9}/ab",
            ),
        ] {
            let mut heard = subscribe(listener, filter);
            until_heard(publisher, topics[0], &mut heard);
            for (topic, payload) in [(other, "not"), (topics[0], "one"), (topics[1], "two")] {
                publisher
                    .publish(topic, payload.as_bytes(), &at_most())
                    .expect("it goes");
            }
            assert_eq!(take(&mut heard, 2), ["one", "two"], "{filter}");
            assert_nothing_more(&mut heard, filter);
        }
    }
    // A message above at most once cannot be sent over ZeroMQ, and the error says so.
    assert_eq!(
        clients[0].publish("plant", b"x", &Options::default()),
        Ok(Success::Failed)
    );
}

#[test]
fn lanes_and_subscriptions_come_back_with_the_broker() {
    let (mqtt, zmtp) = (free_port(), free_port());
    let Some(broker) = broker_at(mqtt, zmtp) else {
        return;
    };
    let client = connect(&[&format!("zmtp://{zmtp}")]);
    let mut heard = subscribe(&client, "back/#");
    until_heard(&client, "back/a", &mut heard);
    broker.stop();
    let Some(_broker) = broker_at(mqtt, zmtp) else {
        return;
    };
    until_heard(&client, "back/a", &mut heard);
}

#[test]
fn a_user_logs_in_by_plain_and_others_are_refused() {
    let zmtp = free_port();
    let guarded = Broker::with()
        .queues()
        .users(&[("alice", b"secret")])
        .set("listeners.zmtp.anonymous", "false")
        .set("listeners.zmtp.bind", &zmtp.to_string());
    let Some(_broker) = guarded.start_for_queues() else {
        return;
    };
    let client = connect(&[&format!("zmtp://alice:secret@{zmtp}")]);
    let mut heard = subscribe(&client, "in/#");
    until_heard(&client, "in/a", &mut heard);
    for (login, words) in [("alice:wrong@", "not authorized"), ("", "password")] {
        let client = connect(&[&format!("zmtp://{login}{zmtp}")]);
        let trouble = || client.status().expect("it runs").lanes[0].trouble.clone();
        let until = std::time::Instant::now() + PATIENCE;
        while trouble().is_empty() && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(trouble().contains(words), "{}", trouble());
    }
}

#[test]
fn the_command_line_speaks_zmtp() {
    let (mqtt, zmtp) = (free_port(), free_port());
    let Some(_broker) = broker_at(mqtt, zmtp) else {
        return;
    };
    let listener = Command::new(thalweg_binary())
        .args(["sub", "--count", "1", "--timeout", "20s"])
        .arg(format!("zmtp://{zmtp}/shell/a"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    // As often as it takes until the subscription stands.
    for _ in 0..20 {
        let publisher = Command::new(thalweg_binary())
            .args(["pub", "-m", "hello"])
            .arg(format!("zmtp://{zmtp}/shell/a"))
            .status()
            .expect("it runs");
        assert!(publisher.success());
        std::thread::sleep(Duration::from_millis(200));
    }
    let output = listener.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("hello"));
}

/// A client that is a peer, and knows a broker.
fn peer(own: SocketAddr, peers: &[SocketAddr], broker: SocketAddr) -> Client {
    let settings = PeerSettings {
        bind: own.to_string(),
        peers: peers.iter().map(SocketAddr::to_string).collect(),
    };
    let builder = builder(&[&format!("zmtp://{broker}")]);
    builder
        .peer(settings)
        .connect_blocking()
        .expect("the port is free")
}

/// A publishes a hundred numbers: each subscription gets each once, in order.
fn each_comes_once(publisher: &Client, topic: &str, heard: &mut [&mut Subscription]) {
    let numbers: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    for number in &numbers {
        publisher
            .publish(topic, number.as_bytes(), &at_most())
            .expect("it goes");
    }
    for (at, subscription) in heard.iter_mut().enumerate() {
        assert_eq!(take(subscription, 100), numbers, "{topic}, receiver {at}");
        assert_nothing_more(subscription, &format!("{topic}, receiver {at}"));
    }
}

#[test]
fn peers_meet_without_a_broker_and_join_everybody_while_it_is_there() {
    let (mqtt, zmtp) = (free_port(), free_port());
    let at = [free_port(), free_port(), free_port()];
    // Two that know each other, and one that knows the broker only.
    let peers = [
        peer(at[0], &[at[1]], zmtp),
        peer(at[1], &[at[0]], zmtp),
        peer(at[2], &[], zmtp),
    ];
    let mut heard = [0, 1, 2].map(|at| subscribe(&peers[at], "plant/#"));
    let [first, second, third] = &mut heard;
    until_heard(&peers[0], "plant/a", second);
    until_heard(&peers[1], "plant/a", first);
    each_comes_once(&peers[0], "plant/a", &mut [first, second]);
    for turn in 0..2 {
        let Some(broker) = broker_at(mqtt, zmtp) else {
            return;
        };
        let device = connect(&[&format!("mqtt://{mqtt}")]);
        let mut by_mqtt = subscribe(&device, "plant/#");
        until_heard(&peers[0], "plant/a", &mut by_mqtt);
        until_heard(&peers[1], "plant/a", third);
        until_heard(&device, "plant/a", first);
        until_heard(&device, "plant/a", second);
        let all = &mut [&mut *first, second, third, &mut by_mqtt];
        each_comes_once(&peers[0], "plant/0", all);
        each_comes_once(&peers[1], "plant/1", all);
        each_comes_once(&device, "plant/mqtt", all);
        broker.stop();
        each_comes_once(&peers[turn], "plant/alone", &mut [first, second]);
    }
    for client in &peers {
        client.close(PATIENCE).expect("it ends");
    }
}

/// `thalweg pub` in peer mode, a message for each line that is written to it.
struct Speaker {
    process: Child,
    lines: ChildStdin,
}

impl Speaker {
    fn start(own: SocketAddr, broker: SocketAddr) -> Speaker {
        let mut process = Command::new(thalweg_binary())
            .args([
                "pub",
                "plant/a",
                "--stdin-lines",
                "--connect-timeout",
                "60s",
            ])
            .args(["--peer-bind", &own.to_string()])
            .args(["--url", &format!("zmtp://{broker}")])
            .stdin(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = process.stdin.take().expect("it is piped");
        Speaker { process, lines }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.lines, "{line}").expect("it reads");
    }
}

/// A process that ends with this.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It fails only if the process has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_command_line_is_a_peer_and_joins_the_broker_when_it_comes() {
    let (mqtt, zmtp, own) = (free_port(), free_port(), free_port());
    let listener = Command::new(thalweg_binary())
        .args(["sub", "plant/#", "--format", "%p", "--peer"])
        .arg(format!("tcp://{own}"))
        .args(["--url", &format!("zmtp://{zmtp}")])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut listener = Killed(listener);
    let output = listener.0.stdout.take().expect("it is piped");
    let (printed, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let _ = printed.send(line);
        }
    });
    // The device's come by the broker, however late.
    let next = || loop {
        let line = lines.recv_timeout(PATIENCE).expect("it prints");
        if !line.starts_with("device") {
            break line;
        }
    };

    // Without a broker: what is written first waits until the listener has subscribed.
    let mut speaker = Speaker::start(own, zmtp);
    for line in ["alone", "and again"] {
        speaker.say(line);
        assert_eq!(next(), line);
    }

    for turn in 0..2 {
        let Some(broker) = broker_at(mqtt, zmtp) else {
            return;
        };
        let device = connect(&[&format!("mqtt://{mqtt}")]);
        let mut by_mqtt = subscribe(&device, "plant/#");
        // The listener prints each line once, although it comes directly and by the broker.
        let mut number = 0;
        loop {
            speaker.say(&format!("{turn}-{number}"));
            assert_eq!(next(), format!("{turn}-{number}"));
            number += 1;
            if let Ok(Some(_)) = by_mqtt.next_timeout(Duration::from_millis(100)) {
                break;
            }
            assert!(number < 300, "the speaker does not join the broker");
        }
        let printed = (0..300).find_map(|number| {
            device
                .publish("plant/b", format!("device {number}").as_bytes(), &at_most())
                .ok()?;
            lines.recv_timeout(Duration::from_millis(100)).ok()
        });
        assert!(printed.is_some_and(|line| line.starts_with("device")));
        broker.stop();
        speaker.say("alone");
        assert_eq!(next(), "alone");
    }
    drop(speaker.lines);
    assert!(speaker.process.wait().expect("it ends").success());
}

#[test]
fn a_peer_that_has_no_subscriber_says_so() {
    let output = Command::new(thalweg_binary())
        .args(["pub", "a", "-m", "x", "--connect-timeout", "100ms"])
        .args(["--peer-bind", &free_port().to_string()])
        .output()
        .expect("it runs");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && words.contains("no peer has subscribed"),
        "{words}"
    );
}

// The keys of ZeroMQ's manual.
const SERVER: &str = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7";
const SERVER_SECRET: &str = "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6";
const CLIENT: &str = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";
const CLIENT_SECRET: &str = "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs";

/// A broker that knows the client's key, and the text of its ban file.
fn guarded_by_keys(zmtp: SocketAddr, bans: &str) -> Option<Broker> {
    Broker::with()
        .queues()
        .file("bans", bans)
        .set("access.ban_file", "{folder}/bans")
        .file("clients", &format!("{CLIENT} meter"))
        .file("server.key", SERVER_SECRET)
        .set("listeners.zmtp.anonymous", "false")
        .set(
            "listeners.zmtp.curve.secret_key_file",
            "{folder}/server.key",
        )
        .set("listeners.zmtp.curve.clients_file", "{folder}/clients")
        .set("listeners.zmtp.bind", &zmtp.to_string())
        .start_for_queues()
}

fn with_key(zmtp: SocketAddr, secret: &str) -> ClientBuilder {
    let builder = builder(&[&format!("zmtp://{zmtp}")]);
    builder.curve(SERVER, secret).expect("keys")
}

/// Why a client's lane does not stand; empty if nothing is wrong for some time.
fn trouble(client: &Client) -> String {
    let until = std::time::Instant::now() + PATIENCE;
    loop {
        let trouble = client.status().expect("it runs").lanes[0].trouble.clone();
        if !trouble.is_empty() || std::time::Instant::now() > until {
            return trouble;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_ban_of_an_address_holds_for_users_by_key() {
    for (bans, is_banned) in [("address 127.0.0.0/8\n", true), ("user other\n", false)] {
        let zmtp = free_port();
        let Some(_broker) = guarded_by_keys(zmtp, bans) else {
            return;
        };
        let client = with_key(zmtp, CLIENT_SECRET).connect_blocking();
        let client = client.expect("it starts");
        if is_banned {
            let trouble = trouble(&client);
            assert!(trouble.contains("not authorized"), "{trouble}");
        } else {
            let mut heard = subscribe(&client, "in/#");
            until_heard(&client, "in/a", &mut heard);
        }
    }
}

#[test]
fn keys_of_curve_are_users() {
    let zmtp = free_port();
    let Some(_broker) = guarded_by_keys(zmtp, "") else {
        return;
    };
    let with = |secret: &str| with_key(zmtp, secret);
    let client = with(CLIENT_SECRET).connect_blocking().expect("it starts");
    let mut heard = subscribe(&client, "in/#");
    until_heard(&client, "in/a", &mut heard);
    // A peer shows the broker the same.
    let bind = PeerSettings {
        bind: "127.0.0.1:0".into(),
        peers: Vec::new(),
    };
    let peer = with(CLIENT_SECRET).peer(bind).connect_blocking();
    until_heard(&peer.expect("it starts"), "in/a", &mut heard);
    let stranger = with(SERVER_SECRET).connect_blocking().expect("it starts");
    let trouble = trouble(&stranger);
    assert!(trouble.contains("not authorized"), "{trouble}");
}
