//! Connections in numbers.

use std::io::{Read, Write};

use thalweg_zmtp::key_to_z85;

use super::*;
use crate::broker::free_port;

/// Connects, says hello and waits for CONNACK.
fn connect(address: SocketAddr, client: &str) -> Option<TcpStream> {
    let mut stream = abrupt(address).ok()?;
    stream.write_all(&hello(client)).ok()?;
    let mut head = [0; 4];
    stream.read_exact(&mut head).ok()?;
    (head[0] == 0x20 && head[3] == 0).then_some(stream)
}

/// Longest time for ten thousand connections, which a debug build on a busy machine serves within seconds.
const LONG: Duration = Duration::from_secs(300);

#[test]
fn ten_thousand_connections_come_and_go_and_leave_nothing_behind() {
    const MANY: usize = 10_000;
    // However slow the machine is, none is too late.
    let options = Broker::with()
        .set("limits.handshakes_max", "20000")
        .set("limits.connect_timeout", "1h");
    let Some(victim) = Victim::with(options) else {
        return;
    };
    let address = victim.broker.mqtt();
    // KiB in each round while they are there, and once they have gone.
    let (mut during, mut after) = (Vec::new(), Vec::new());
    for round in 0..4 {
        let begun = Instant::now();
        let threads: Vec<_> = (0..2)
            .map(|half| {
                std::thread::spawn(move || {
                    let mut streams = Vec::new();
                    // Many at once on the way: what is measured is the broker, not the way there and back.
                    for number in 0..MANY / 2 {
                        let name = format!("many{half}-{number}");
                        let mut stream = abrupt(address).expect("it accepts");
                        stream
                            .set_read_timeout(Some(LONG))
                            .expect("a socket takes options");
                        let subscription = subscribe(V5, 1, &[], &[(&format!("to/{name}"), 0)]);
                        stream
                            .write_all(&[hello(&name), subscription].concat())
                            .expect("it reads");
                        streams.push(stream);
                    }
                    for stream in &mut streams {
                        let mut head = [0; 4];
                        stream.read_exact(&mut head).expect("it answers");
                        assert_eq!((head[0], head[3]), (0x20, 0));
                    }
                    streams
                })
            })
            .collect();
        let streams: Vec<_> = threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("all are let in"))
            .collect();
        victim.wait_long_for("thalweg_subscriptions", LONG, |count| {
            count == MANY as u64 + 1
        });
        let growth = victim.growth();
        println!(
            "round {round}: {MANY} connections in {:?}, {} bytes each",
            begun.elapsed(),
            growth * 1024 / MANY as u64
        );
        during.push(growth);
        drop(streams);
        victim.wait_long_for("thalweg_sessions", LONG, |sessions| sessions == 2);
        victim.wait_long_for("thalweg_subscriptions", LONG, |count| count == 1);
        after.push(victim.growth());
    }
    // When the allocator gives memory back is its own affair. What a round left behind would be added to all that the next ones need.
    let most = |rounds: &[u64]| rounds.iter().copied().max().unwrap_or(0);
    let needed = most(&during[..2]);
    assert!(
        most(&during[2..]).max(most(&after)) <= needed + (16 << 10),
        "{during:?} KiB during each round, {after:?} after it"
    );
    victim.assert_unharmed("10,000 connections, four times", 160 << 10);
}

/// Connects from another address of this machine, which is another network.
fn connect_from(address: &str, to: SocketAddr) -> TcpStream {
    let socket =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    let from = SocketAddr::new(address.parse().expect("an address"), 0);
    socket.bind(&from.into()).expect("all of 127/8 is ours");
    socket.connect(&to.into()).expect("it accepts");
    let stream = TcpStream::from(socket);
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a socket takes options");
    stream
}

/// Whether the broker has not closed it.
fn is_open(stream: &mut TcpStream) -> bool {
    stream
        .set_read_timeout(Some(Duration::from_millis(1)))
        .expect("a socket takes options");
    loop {
        match stream.read(&mut [0; 1_024]) {
            Ok(0) => return false,
            // The broker's answer to every new connection.
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
        }
    }
}

const CURVE_SECRET: [u8; 32] = [7; 32];

/// The last step of a connection, and the bytes of a whole login.
struct HalfWay {
    protocol: &'static str,
    address: SocketAddr,
    first: Vec<u8>,
    log_in: Vec<Vec<u8>>,
    answer: &'static [u8],
}

#[test]
fn handshakes_that_stop_half_way_are_bounded_in_every_protocol() {
    const PLACES: usize = 32;
    // Longer than the test: connections are closed to free space, and not for a timeout.
    let options = Broker::with()
        .set("limits.handshakes_max", &PLACES.to_string())
        .set("limits.connect_timeout", "1h")
        .queues()
        .coap()
        .zmtp();
    let xmpp = free_port();
    let options = options.set("listeners.xmpp.bind", &xmpp.to_string()).set(
        "listeners.zmtp.curve.secret_key",
        &key_to_z85(&CURVE_SECRET),
    );
    let Some(victim) = Victim::with(options) else {
        return;
    };
    let broker = &victim.broker;
    // CSM without options: its length, code 7.01 (RFC 8323 §5.3).
    const CSM: &[u8] = b"\x00\xe1";
    let half_way = [
        HalfWay {
            protocol: "AMQP",
            address: broker.amqp(),
            first: b"AMQP\x00\x00\x09\x01".to_vec(),
            log_in: memory::amqp_log_in(),
            // connection.open-ok
            answer: &[0, 10, 0, 41],
        },
        HalfWay {
            protocol: "STOMP",
            address: broker.stomp(),
            first: b"CONNECT\naccept-version:1.2\nhost:/\n".to_vec(),
            log_in: vec![b"CONNECT\naccept-version:1.2\nhost:/\n\n\0".to_vec()],
            answer: b"CONNECTED",
        },
        // GET of something that is not there: its answer is 4.04.
        HalfWay {
            protocol: "CoAP over TCP",
            address: broker.coap(),
            first: CSM[..1].to_vec(),
            log_in: vec![[CSM, b"\x21\x01\x07\xb1x"].concat()],
            answer: b"\x84\x07",
        },
        HalfWay {
            protocol: "ZMTP",
            address: broker.zmtp(),
            first: sockets::GREETING[..11].to_vec(),
            log_in: vec![[&sockets::GREETING[..], &sockets::ready("SUB")].concat()],
            answer: b"READY",
        },
        // The broker has answered with WELCOME, which cost it multiplications on the curve, and waits for INITIATE.
        HalfWay {
            protocol: "ZMTP with CURVE",
            address: broker.zmtp(),
            first: sockets::curve_hello(&CURVE_SECRET),
            log_in: vec![[&sockets::GREETING[..], &sockets::ready("SUB")].concat()],
            answer: b"READY",
        },
        HalfWay {
            protocol: "XMPP",
            address: xmpp,
            first: sockets::STREAM.to_vec(),
            log_in: sockets::xmpp_log_in(),
            answer: b"</jid>",
        },
    ];
    for HalfWay {
        protocol,
        address,
        first,
        log_in,
        answer,
    } in half_way
    {
        let mut strangers: Vec<_> = (0..PLACES * 4)
            .map(|_| {
                let mut stream = TcpStream::connect(address).expect("it accepts");
                // It may be closed at once.
                let _ = stream.write_all(&first);
                stream
            })
            .collect();
        let deadline = Instant::now() + PATIENCE;
        let open = loop {
            strangers.retain_mut(is_open);
            if strangers.len() <= PLACES || Instant::now() > deadline {
                break strangers.len();
            }
        };
        assert!(open <= PLACES, "{protocol}: {open} are half-open");
        // Of another network, and of the same once those before are silent.
        for from in ["127.0.0.2", "127.0.0.1"] {
            if from == "127.0.0.1" {
                std::thread::sleep(Duration::from_millis(1_100));
            }
            let mut newcomer = connect_from(from, address);
            log_in
                .iter()
                .for_each(|part| newcomer.write_all(part).expect("it reads"));
            let mut said = Vec::new();
            while !said.windows(answer.len()).any(|part| part == answer) {
                let mut more = [0; 1_024];
                let count = newcomer.read(&mut more).expect("it answers");
                assert!(count > 0, "{protocol}: {from} is turned away");
                said.extend_from_slice(&more[..count]);
            }
        }
        println!("{protocol}: {open} of {} stay half-open", PLACES * 4);
    }
    victim.assert_unharmed("handshakes that stop half way", 48 << 10);
}

#[test]
fn log_ins_that_wait_for_their_verdict_have_places_among_the_handshakes() {
    const PLACES: usize = 32;
    // The password is `geheim`.
    let users = "sensor:$7$101$0vBvoHXFKPm1a/5d$2mnmCs+foA7RSJhmfYUCC5/zh7MT7OcnYqFQN+F48mj2MusU8zJBKvesuEvyGtCm3bROaYr7nOPK1EAYs9oZAQ==\n";
    let options = Broker::with()
        .set("limits.handshakes_max", &PLACES.to_string())
        .set("limits.connect_timeout", "1h")
        .file("users", users)
        .set("access.password_file", "{folder}/users")
        .set("admin.token", TOKEN)
        .set("listeners.mqtt.anonymous", "true");
    let Some(victim) = Victim::with(options) else {
        return;
    };
    let address = victim.broker.mqtt();
    let log_in = |password: &str| {
        let connect = Connect::new(V5, "").user_name("sensor");
        connect.password(password).bytes()
    };
    // After a few wrong passwords of a user each further one waits, in the end for four seconds. One that is known to be wrong is
    // answered at once, so each is another.
    let mut waiting = Vec::new();
    let deadline = Instant::now() + duration();
    while Instant::now() < deadline || waiting.len() < PLACES * 4 {
        let mut stream = TcpStream::connect(address).expect("it accepts");
        let wrong = log_in(&format!("falsch {}", waiting.len()));
        // It may be closed at once.
        let _ = stream.write_all(&wrong);
        waiting.push(stream);
        // Its shard sees it before the next one comes.
        std::thread::sleep(Duration::from_millis(5));
    }
    let (opened, deadline) = (waiting.len(), Instant::now() + PATIENCE);
    let open = loop {
        waiting.retain_mut(is_open);
        if waiting.len() <= PLACES || Instant::now() > deadline {
            break waiting.len();
        }
    };
    println!("{open} of {opened} wait");
    assert!(open <= PLACES, "{open} of {opened} wait");
    // Without places they would be fewer in the end, too: each is answered after its wait.
    victim.wait_for("thalweg_lobby_turned_away_total", |count| count > 0);
    let mut newcomer = connect_from("127.0.0.2", address);
    newcomer.write_all(&log_in("geheim")).expect("it reads");
    let mut head = [0; 4];
    newcomer.read_exact(&mut head).expect("it answers");
    assert_eq!((head[0], head[3]), (0x20, 0));
    victim.assert_unharmed("log-ins that wait", 48 << 10);
}

#[test]
fn a_storm_of_connects_does_not_disturb_those_who_are_here() {
    let Some(victim) = Victim::with(Broker::with()) else {
        return;
    };
    let address = victim.broker.mqtt();
    let begun = Instant::now();
    let connects = again_and_again(4, move |number, luck| {
        // Some under a new name, some under one that is in use: take-overs.
        let name = format!("storm{number}-{}", luck.below(50));
        let kept: Vec<_> = (0..20).filter_map(|_| connect(address, &name)).collect();
        drop(kept);
    }) * 20;
    println!(
        "{:.0} connects per second",
        connects as f64 / begun.elapsed().as_secs_f64()
    );
    victim.wait_for("thalweg_sessions", |sessions| sessions == 2);
    victim.assert_unharmed("connect storm", 64 << 10);
}

#[test]
fn connects_that_are_given_up_at_once_do_not_disturb_those_who_are_here() {
    let Some(victim) = Victim::with(Broker::with().encrypted()) else {
        return;
    };
    let (plain, tls) = (victim.broker.mqtt(), victim.broker.tls());
    let begun = Instant::now();
    let times = again_and_again(2, move |_, luck| {
        let address = if luck.below(2) == 0 { plain } else { tls };
        let _ = abrupt(address);
    });
    println!(
        "{:.0} connections per second",
        times as f64 / begun.elapsed().as_secs_f64()
    );
    victim.wait_for("thalweg_lobby_waiting", |waiting| waiting == 0);
    victim.assert_unharmed("connections given up", 48 << 10);
}

#[test]
fn sessions_left_behind_are_bounded_and_end() {
    let options = Broker::with()
        .set("session.count_max", "3000")
        .set("session.expiry_max", "2s");
    let Some(victim) = Victim::with(options) else {
        return;
    };
    let address = victim.broker.mqtt();
    let (mut taken, mut refused) = (0, 0);
    for number in 0..5000 {
        let session = Connect::new(V5, format!("left{number}"))
            .with(property::four(property::SESSION_EXPIRY, 1000));
        let mut stream = abrupt(address).expect("it accepts");
        let filter = format!("left/{}", number % 10);
        stream
            .write_all(&[session.bytes(), subscribe(V5, 1, &[], &[(&filter, 1)])].concat())
            .expect("it reads");
        let mut head = [0; 4];
        stream.read_exact(&mut head).expect("it answers");
        match head[3] {
            0 => taken += 1,
            0x97 => refused += 1,
            other => panic!("{other:#04x}"),
        }
    }
    let most = victim.figure("thalweg_sessions");
    println!("{taken} sessions were taken, {refused} refused; {most} are there");
    assert!(most <= 3002, "{most}");
    victim.wait_for("thalweg_sessions", |sessions| sessions == 2);
    victim.wait_for("thalweg_subscriptions", |count| count == 1);
    victim.assert_unharmed("sessions left behind", 64 << 10);
}
