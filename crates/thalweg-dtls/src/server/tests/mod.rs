//! A listener and clients in memory, on a clock of their own and with a network that loses, repeats and mixes.

mod both_sides;
mod mutations;
mod review;

use core::net::SocketAddr;
use std::collections::VecDeque;
use std::sync::Arc;

use thalweg_wire::{Span, Time};

use super::*;
use crate::RECORD_OVERHEAD_MAX;
use crate::message;
use crate::testkit::certificate::{AUTHORITY, Identity, ServerIdentity, Wanted};
use crate::testkit::client::{Client, Plan};

/// A server, what it said, and the time.
struct Bench {
    listener: ServerSide,
    now: Time,
    events: Vec<Event>,
    texts: Vec<(PeerIdentity, Vec<u8>)>,
}

impl Bench {
    fn new(limits: ServerLimits) -> Bench {
        Bench::with(limits, None)
    }

    fn with(limits: ServerLimits, certificate: Option<ServerIdentity>) -> Bench {
        let config = config("dev1:\"secret\"\ndev2:\"other\"\n", certificate);
        let listener = ServerSide::new(config, limits, [3; 32]);
        Bench {
            listener,
            now: Time::from_secs(100),
            events: Vec::new(),
            texts: Vec::new(),
        }
    }

    /// A server with a certificate for which clients need one, too, or not.
    fn with_certificate(wanted: Wanted) -> Bench {
        Bench::with(ServerLimits::default(), Some(ServerIdentity::new(wanted)))
    }

    /// Other keys are in force.
    fn renew(&mut self, keys: &str) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut out = Output::default();
        self.listener.renew(config(keys, None), &mut out);
        self.note(&out)
    }

    /// Gives datagrams to the listener; what it says in return.
    fn take(&mut self, from: SocketAddr, datagram: &[u8]) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut out = Output::default();
        self.listener
            .handle_datagram(from, datagram, self.now, &mut out);
        self.note(&out)
    }

    fn tick(&mut self, span: Span) -> Vec<(SocketAddr, Vec<u8>)> {
        self.now += span;
        let mut out = Output::default();
        self.listener.handle_timeout(self.now, &mut out);
        assert!(self.listener.poll_timeout() > self.now);
        self.note(&out)
    }

    fn note(&mut self, out: &Output) -> Vec<(SocketAddr, Vec<u8>)> {
        for event in out.events() {
            if let Event::Received { identity, text, .. } = event {
                self.texts.push((identity.clone(), out.text(text).to_vec()));
            }
        }
        self.events.extend(
            out.events()
                .iter()
                .filter(|it| !matches!(it, Event::Received { .. }))
                .cloned(),
        );
        out.datagrams()
            .map(|(to, datagram)| (to, datagram.to_vec()))
            .collect()
    }

    /// Carries datagrams between the two until both are silent.
    fn exchange(&mut self, client: &mut Client) {
        while !client.out.is_empty() {
            for datagram in std::mem::take(&mut client.out) {
                let answers = self.take(client.address, &datagram);
                let here = client.address;
                answers
                    .iter()
                    .filter(|(to, _)| *to == here)
                    .for_each(|(_, answer)| client.handle_datagram(answer));
            }
        }
    }

    /// A client that has an association.
    fn connect(&mut self, address: &str, plan: Plan) -> Client {
        let mut client = Client::new(at(address), 1, plan);
        self.exchange(&mut client);
        assert!(client.is_done, "{:?} {:?}", client.alerts, self.events);
        client
    }

    /// The server sends a text.
    fn say(&mut self, client: &mut Client, text: &[u8]) {
        let mut datagram = Vec::new();
        self.listener
            .encrypt(client.address, text, &mut datagram)
            .unwrap();
        assert!(datagram.len() <= text.len() + RECORD_OVERHEAD_MAX);
        client.handle_datagram(&datagram);
    }

    /// Both directions carry what they should.
    fn check(&mut self, client: &mut Client, identity: &PeerIdentity) {
        self.texts.clear();
        client.send_text(b"to the server");
        self.exchange(client);
        assert_eq!(self.texts, [(identity.clone(), b"to the server".to_vec())]);
        self.say(client, b"to the client");
        assert_eq!(
            client.received.pop().as_deref(),
            Some(&b"to the client"[..])
        );
    }

    /// Text of the last refusal.
    fn refusal(&self) -> &str {
        match self.events.last() {
            Some(Event::Refused { why, .. }) => why,
            other => panic!("{other:?}"),
        }
    }
}

fn config(keys: &str, certificate: Option<ServerIdentity>) -> Arc<ServerConfig> {
    let certificate = certificate.map(|it| Box::new(it) as Box<dyn Certificate>);
    Arc::new(ServerConfig::new(Some(PskTable::parse(keys).unwrap()), certificate, "").unwrap())
}

fn sensor_7() -> Identity {
    Identity::new(AUTHORITY, "sensor 7")
}

fn at(address: &str) -> SocketAddr {
    address.parse().unwrap()
}

fn psk(name: &str) -> PeerIdentity {
    PeerIdentity::Psk(name.into())
}

fn named(name: &str) -> PeerIdentity {
    PeerIdentity::Certificate(name.into())
}

const HERE: &str = "127.0.0.1:7001";
const PSK_SUITES: [u16; 3] = [0xc0a8, 0xc0a4, 0x00a8];
const ECDHE_SUITES: [u16; 3] = [0xc0ae, 0xc0ac, 0xc02b];

#[test]
fn a_key_lets_in_under_each_suite_with_and_without_the_extended_secret() {
    for suite in PSK_SUITES {
        for extended_master_secret in [true, false] {
            let mut bench = Bench::new(ServerLimits::default());
            let plan = Plan {
                suites: vec![0x1301, suite],
                extended_master_secret,
                ..Plan::default()
            };
            let mut client = bench.connect(HERE, plan);
            assert_eq!(
                bench.events,
                [Event::Ready {
                    peer: at(HERE),
                    identity: psk("dev1")
                }],
                "{suite:x}"
            );
            assert_eq!(client.extended, extended_master_secret);
            bench.check(&mut client, &psk("dev1"));
        }
    }
}

#[test]
fn a_certificate_lets_in_under_each_suite_and_in_small_pieces() {
    let mut bench = Bench::with_certificate(Wanted::Required);
    let certificate = sensor_7();
    for (number, suite) in ECDHE_SUITES.into_iter().enumerate() {
        for piece_max in [1000, 37] {
            bench.events.clear();
            let plan = Plan {
                suites: vec![suite],
                certificate: Some(certificate.clone()),
                piece_max,
                ..Plan::default()
            };
            let mut client = bench.connect(
                &format!("127.0.0.1:{}", 7100 + number * 1000 + piece_max),
                plan,
            );
            bench.check(&mut client, &named("sensor 7"));
        }
    }
}

#[test]
fn without_client_certificates_peers_are_encrypted_and_unnamed() {
    for (wanted, shows, expected) in [
        (Wanted::None, true, PeerIdentity::Unnamed),
        (Wanted::Optional, false, PeerIdentity::Unnamed),
        (Wanted::Optional, true, named("sensor 7")),
    ] {
        let mut bench = Bench::with_certificate(wanted);
        let certificate = shows.then(sensor_7);
        let mut client = bench.connect(
            HERE,
            Plan {
                suites: vec![0xc02b],
                certificate,
                ..Plan::default()
            },
        );
        bench.check(&mut client, &expected);
    }
}

#[test]
fn certificates_that_are_missing_foreign_or_somebody_elses_are_refused_and_keys_still_serve() {
    let mut bench = Bench::with_certificate(Wanted::Required);
    let (own, foreign) = (sensor_7(), Identity::new(AUTHORITY + 1, "sensor 7"));
    for (certificate, forges, alert, words) in [
        (
            None,
            false,
            alert::HANDSHAKE_FAILURE,
            "a client certificate is required",
        ),
        (Some(foreign), false, alert::UNKNOWN_CA, "UnknownIssuer"),
        (
            Some(own),
            true,
            alert::DECRYPT_ERROR,
            "signature was not made",
        ),
    ] {
        let plan = Plan {
            suites: vec![0xc0ae],
            certificate,
            forges,
            ..Plan::default()
        };
        let mut client = Client::new(at(HERE), 1, plan);
        bench.exchange(&mut client);
        assert_eq!(
            (client.is_done, client.alerts.first()),
            (false, Some(&(2, alert)))
        );
        assert!(bench.refusal().contains(words), "{}", bench.refusal());
        assert_eq!(
            (bench.listener.peers(), bench.listener.handshakes()),
            (0, 0)
        );
    }
    let mut client = bench.connect(HERE, Plan::default());
    bench.check(&mut client, &psk("dev1"));
}

#[test]
fn handshakes_get_through_loss_repetition_and_disorder() {
    let (mut completed, mut seconds) = (0, 0);
    for seed in 0..200 {
        let mut bench = Bench::with_certificate(Wanted::Required);
        bench.listener.limits.mtu = 300;
        let certificate = Some(sensor_7());
        let suites = vec![if seed % 2 == 0 { 0xc0a8 } else { 0xc02b }];
        let mut client = Client::new(
            at(HERE),
            1,
            Plan {
                suites,
                certificate,
                ..Plan::default()
            },
        );
        let mut dice = Dice(seed);
        let mut under_way = VecDeque::new();
        for _ in 0..25 {
            for _ in 0..20 {
                under_way.extend(client.out.drain(..).map(|datagram| (true, datagram)));
                let Some(which) = dice.below(under_way.len()) else {
                    break;
                };
                let (to_server, datagram) = under_way.remove(which).unwrap();
                match dice.below(10) {
                    Some(0..=2) => {}
                    Some(3) => under_way.push_back((to_server, datagram)),
                    _ if to_server => {
                        under_way.extend(
                            bench
                                .take(at(HERE), &datagram)
                                .into_iter()
                                .map(|(_, sent)| (false, sent)),
                        );
                    }
                    _ => client.handle_datagram(&datagram),
                }
            }
            if client.is_done {
                break;
            }
            seconds += 1;
            client.send();
            under_way.extend(
                bench
                    .tick(Span::from_secs(1))
                    .into_iter()
                    .map(|(_, sent)| (false, sent)),
            );
        }
        if client.is_done {
            completed += 1;
            assert_eq!(bench.listener.peers(), 1, "seed {seed}");
            client.out.clear();
            let expected = if seed % 2 == 0 {
                psk("dev1")
            } else {
                named("sensor 7")
            };
            bench.check(&mut client, &expected);
        }
    }
    assert!(completed >= 195, "{completed} of 200, {seconds} seconds");
}

#[test]
fn a_wrong_key_and_an_unknown_identity_look_the_same() {
    let mut seen = Vec::new();
    for (identity, key) in [
        (&b"dev1"[..], &b"Secret"[..]),
        (b"dev2", b"secret"),
        (b"dev9", b"secret"),
        (b"\xff", b"x"),
    ] {
        let mut bench = Bench::new(ServerLimits::default());
        let plan = Plan {
            identity: identity.to_vec(),
            key: key.to_vec(),
            ..Plan::default()
        };
        let mut client = Client::new(at(HERE), 1, plan);
        bench.exchange(&mut client);
        assert!(
            !client.is_done && bench.refusal().contains("another key"),
            "{}",
            bench.refusal()
        );
        assert_eq!(
            (bench.listener.peers(), bench.listener.handshakes()),
            (0, 0)
        );
        assert!(
            bench
                .listener
                .encrypt(at(HERE), b"text", &mut Vec::new())
                .is_err()
        );
        seen.push(client.alerts);
    }
    assert!(
        seen.iter()
            .all(|alerts| *alerts == [(2, alert::DECRYPT_ERROR)]),
        "{seen:?}"
    );
}

#[test]
fn a_peer_without_anything_in_common_is_told() {
    let mut bench = Bench::new(ServerLimits::default());
    let mut client = Client::new(
        at(HERE),
        1,
        Plan {
            suites: vec![0xc02b, 0x1301],
            ..Plan::default()
        },
    );
    bench.exchange(&mut client);
    assert_eq!(client.alerts, [(2, alert::HANDSHAKE_FAILURE)]);
    assert!(
        bench.refusal().contains("keys and no certificate"),
        "{}",
        bench.refusal()
    );
}

#[test]
fn a_flood_without_cookies_costs_no_memory_and_less_than_it_sends() {
    let mut bench = Bench::new(ServerLimits::default());
    for port in 1..=20_000 {
        let client = Client::new(SocketAddr::from(([10, 0, 0, 1], port)), 1, Plan::default());
        for (to, answer) in bench.take(client.address, &client.out[0]) {
            assert!(to == client.address && answer.len() < client.out[0].len());
        }
    }
    assert_eq!(
        (bench.listener.peers(), bench.listener.handshakes()),
        (0, 0)
    );
    assert_eq!(
        (bench.listener.counts().cookies, bench.events.len()),
        (20_000, 0)
    );
    assert_eq!(bench.listener.peers.addresses(), 0);
    assert_eq!(bench.listener.poll_timeout(), Time::NEVER);
}

#[test]
fn one_peer_has_one_handshake_in_two_seconds() {
    let mut bench = Bench::new(ServerLimits::default());
    half_open(&mut bench, 1);
    let mut again = hello_twice(&mut bench, 1, 2);
    assert_eq!(
        (bench.listener.handshakes(), bench.listener.counts().crowded),
        (1, 1)
    );
    bench.tick(Span::from_secs(2));
    again.send();
    bench.exchange(&mut again);
    assert!(again.is_done);
    assert_eq!(
        (bench.listener.handshakes(), bench.listener.peers()),
        (0, 1)
    );
}

fn half_open(bench: &mut Bench, port: u16) -> Client {
    hello_twice(bench, port, 1)
}

/// Says hello twice and nothing more.
fn hello_twice(bench: &mut Bench, port: u16, seed: u8) -> Client {
    let mut client = Client::new(
        SocketAddr::from(([127, 0, 0, 1], port)),
        seed,
        Plan::default(),
    );
    for _ in 0..2 {
        for (_, answer) in bench.take(client.address, &client.out.remove(0)) {
            client.handle_datagram(&answer);
        }
    }
    client
}

#[test]
fn handshakes_under_way_are_bounded_and_the_oldest_goes() {
    let mut bench = Bench::new(ServerLimits {
        handshakes_max: 10,
        ..ServerLimits::default()
    });
    for port in 1..=20 {
        half_open(&mut bench, port);
    }
    assert_eq!(
        (bench.listener.handshakes(), bench.listener.counts().crowded),
        (10, 10),
        "all are young"
    );
    bench.tick(Span::from_secs(2));
    let mut late = half_open(&mut bench, 21);
    assert_eq!(bench.listener.handshakes(), 10);
    assert!(bench.refusal().contains("oldest"), "{}", bench.refusal());
    bench.exchange(&mut late);
    assert!(late.is_done);
    bench.tick(Span::from_secs(31));
    assert_eq!(
        (bench.listener.handshakes(), bench.listener.peers()),
        (0, 1)
    );
    assert!(bench.refusal().contains("in time"), "{}", bench.refusal());
    assert_eq!(bench.listener.peers.addresses(), 1);
}

#[test]
fn an_answer_leaves_again_a_few_times_and_no_more() {
    let mut bench = Bench::new(ServerLimits::default());
    let mut client = half_open(&mut bench, 1);
    client.out.clear();
    let (mut sent, mut when) = (0, Vec::new());
    for second in 1..=29 {
        let leaves = bench.tick(Span::from_secs(1)).len();
        sent += leaves;
        when.extend((leaves > 0).then_some(second));
    }
    assert_eq!((sent, when), (4, vec![1, 3, 7, 15]));
}

#[test]
fn records_pass_once_and_in_any_order() {
    let mut bench = Bench::new(ServerLimits::default());
    let mut client = bench.connect(HERE, Plan::default());
    for text in [&b"one"[..], b"two", b"three"] {
        client.send_text(text);
    }
    let datagrams = std::mem::take(&mut client.out);
    for which in [2, 0, 0, 1, 2, 1, 0] {
        bench.take(at(HERE), &datagrams[which]);
    }
    let texts: Vec<_> = bench.texts.iter().map(|(_, text)| &text[..]).collect();
    assert_eq!(texts, [&b"three"[..], b"one", b"two"]);
    assert_eq!(bench.listener.counts().discarded, 4);
    bench.take(at("127.0.0.1:7002"), &datagrams[0]);
    assert_eq!(
        (bench.texts.len(), bench.listener.counts().discarded),
        (3, 5),
        "from another address"
    );
}

#[test]
fn texts_are_as_long_as_a_record_and_no_longer() {
    let mut bench = Bench::new(ServerLimits::default());
    for (port, suite) in (7001..).zip(PSK_SUITES) {
        let plan = Plan {
            suites: vec![suite],
            ..Plan::default()
        };
        let mut client = bench.connect(&format!("127.0.0.1:{port}"), plan);
        let long: Vec<u8> = (0..PLAIN_MAX).map(|byte| byte as u8).collect();
        for text in [&long[..], b""] {
            client.send_text(text);
            bench.exchange(&mut client);
            assert_eq!(bench.texts.pop().unwrap().1, text);
            bench.say(&mut client, text);
            assert_eq!(client.received.pop().unwrap(), text);
        }
        let mut datagram = Vec::new();
        assert_eq!(
            bench
                .listener
                .encrypt(client.address, &[0; PLAIN_MAX + 1], &mut datagram),
            Err(NotSent)
        );
        assert!(datagram.is_empty());
    }
}

/// RFC 6347 §4.2.8.
#[test]
fn a_new_association_replaces_the_old_one_only_when_it_is_complete() {
    let mut bench = Bench::new(ServerLimits::default());
    let mut old = bench.connect(HERE, Plan::default());
    bench.events.clear();
    // Another peer at the same address, or one that spoofs it.
    let wrong = Plan {
        key: b"wrong".to_vec(),
        ..Plan::default()
    };
    let mut impostor = Client::new(at(HERE), 2, wrong);
    for _ in 0..2 {
        let hello = impostor.out.remove(0);
        bench
            .take(at(HERE), &hello)
            .into_iter()
            .for_each(|(_, answer)| impostor.handle_datagram(&answer));
        bench.check(&mut old, &psk("dev1"));
    }
    assert_eq!(bench.listener.handshakes(), 1);
    bench.exchange(&mut impostor);
    assert!(bench.refusal().contains("another key"));
    bench.check(&mut old, &psk("dev1"));
    bench.events.clear();
    // The device began again.
    let plan = Plan {
        identity: b"dev2".to_vec(),
        key: b"other".to_vec(),
        ..Plan::default()
    };
    let mut new = Client::new(at(HERE), 3, plan);
    bench.exchange(&mut new);
    assert!(new.is_done);
    let (peer, why) = (at(HERE), Ended::Replaced);
    assert_eq!(
        bench.events,
        [
            Event::Closed { peer, why },
            Event::Ready {
                peer,
                identity: psk("dev2")
            }
        ]
    );
    bench.check(&mut new, &psk("dev2"));
    bench.texts.clear();
    old.send_text(b"from before");
    bench.exchange(&mut old);
    assert_eq!((bench.texts.len(), bench.listener.peers()), (0, 1));
}

#[test]
fn a_copy_of_the_hello_that_began_an_association_starts_nothing() {
    let mut bench = Bench::new(ServerLimits::default());
    let mut client = Client::new(at(HERE), 1, Plan::default());
    let first = client.out.remove(0);
    bench
        .take(at(HERE), &first)
        .into_iter()
        .for_each(|(_, answer)| client.handle_datagram(&answer));
    let hello = client.out[0].clone();
    bench.exchange(&mut client);
    assert!(client.is_done);
    assert!(bench.take(at(HERE), &hello).is_empty());
    assert_eq!(bench.listener.handshakes(), 0);
    bench.check(&mut client, &psk("dev1"));
}

#[test]
fn a_lost_last_flight_is_sent_again_when_the_client_repeats_its_own() {
    let mut bench = Bench::new(ServerLimits::default());
    let mut client = half_open(&mut bench, 1);
    for datagram in std::mem::take(&mut client.out) {
        // The server's last flight is lost.
        bench.take(client.address, &datagram);
    }
    assert_eq!(bench.listener.peers(), 1);
    client.send();
    bench.exchange(&mut client);
    assert!(client.is_done);
    bench.check(&mut client, &psk("dev1"));
    client.send();
    bench.exchange(&mut client);
    bench.check(&mut client, &psk("dev1"));
}

#[test]
fn renegotiation_is_declined_and_goodbyes_are_answered() {
    let mut bench = Bench::new(ServerLimits::default());
    let mut client = bench.connect(HERE, Plan::default());
    let mut hello = Vec::new();
    message::write_header(&mut hello, CLIENT_HELLO, 1, 0, 0, 1);
    hello.push(0);
    client.send_record(content::HANDSHAKE, true, &hello);
    bench.exchange(&mut client);
    assert_eq!(client.alerts, [(alert::WARNING, alert::NO_RENEGOTIATION)]);
    bench.check(&mut client, &psk("dev1"));
    // An unprotected alert can come from any sender.
    client.send_record(
        content::ALERT,
        false,
        &[alert::FATAL, alert::HANDSHAKE_FAILURE],
    );
    client.send_record(
        content::ALERT,
        false,
        &[alert::WARNING, alert::CLOSE_NOTIFY],
    );
    bench.exchange(&mut client);
    bench.check(&mut client, &psk("dev1"));
    client.send_record(content::ALERT, true, &[alert::WARNING, alert::CLOSE_NOTIFY]);
    bench.exchange(&mut client);
    assert_eq!(
        client.alerts.last(),
        Some(&(alert::WARNING, alert::CLOSE_NOTIFY))
    );
    assert_eq!(
        bench.events.last(),
        Some(&Event::Closed {
            peer: at(HERE),
            why: Ended::ByPeer
        })
    );
    assert_eq!(bench.listener.peers.addresses(), 0);
}

#[test]
fn who_is_silent_too_long_and_who_is_one_too_many_goes() {
    let limits = ServerLimits {
        peers_max: 3,
        idle_timeout: Span::from_secs(100),
        ..ServerLimits::default()
    };
    let mut bench = Bench::new(limits);
    let address = |number: usize| format!("127.0.0.1:{}", 7000 + number);
    let mut clients: Vec<_> = (0..3)
        .map(|number| {
            bench.tick(Span::from_secs(1));
            bench.connect(&address(number), Plan::default())
        })
        .collect();
    clients[0].send_text(b"still here");
    bench.exchange(&mut clients[0]);
    bench.connect(&address(3), Plan::default());
    let closed = |number: usize, why| Event::Closed {
        peer: at(&address(number)),
        why,
    };
    assert_eq!(bench.events.last(), Some(&closed(1, Ended::Crowded)));
    assert_eq!(bench.listener.peers(), 3);
    bench.tick(Span::from_secs(50));
    clients[2].send_text(b"still here");
    bench.exchange(&mut clients[2]);
    let told = bench.tick(Span::from_secs(50));
    assert_eq!(
        told.iter().map(|(to, _)| *to).collect::<Vec<_>>(),
        [at(&address(0)), at(&address(3))]
    );
    assert_eq!(
        bench.events[bench.events.len() - 2..],
        [closed(0, Ended::Idle), closed(3, Ended::Idle)]
    );
    assert_eq!(
        (bench.listener.peers(), bench.listener.poll_timeout()),
        (1, bench.now + Span::from_secs(50))
    );
}

#[test]
fn a_key_that_is_changed_ends_its_association() {
    let mut bench = Bench::new(ServerLimits::default());
    let mut one = bench.connect(HERE, Plan::default());
    let other = Plan {
        identity: b"dev2".to_vec(),
        key: b"other".to_vec(),
        ..Plan::default()
    };
    let mut two = bench.connect("127.0.0.1:7002", other.clone());
    bench.check(&mut two, &psk("dev2"));
    bench.renew("dev2:\"new\"\ndev1:\"secret\"\n");
    let closed = Event::Closed {
        peer: two.address,
        why: Ended::KeyChanged,
    };
    assert_eq!(
        (bench.events.last(), bench.listener.peers()),
        (Some(&closed), 1)
    );
    bench.check(&mut one, &psk("dev1"));
    let mut again = Client::new(two.address, 9, other);
    bench.exchange(&mut again);
    assert!(!again.is_done);
}

#[test]
fn servers_without_anything_to_know_peers_by_are_refused() {
    assert_eq!(
        ServerConfig::new(None, None, "").err(),
        Some(ConfigFault::Nobody)
    );
    let table = PskTable::parse("dev1:61").unwrap();
    assert_eq!(
        ServerConfig::new(Some(table), None, &"x".repeat(129)).err(),
        Some(ConfigFault::LongHint)
    );
}

/// No input of a peer can panic the server, and no modified datagram authenticates a peer as another.
#[test]
fn damaged_datagrams_do_no_harm() {
    let mut bench = Bench::with_certificate(Wanted::Optional);
    let certificate = Some(sensor_7());
    for seed in 0..400 {
        let mut dice = Dice(1_000 + seed);
        let suites = vec![[PSK_SUITES, ECDHE_SUITES][seed as usize % 2][seed as usize % 3]];
        let plan = Plan {
            suites,
            certificate: certificate.clone(),
            ..Plan::default()
        };
        let mut client = Client::new(
            SocketAddr::from(([127, 0, 0, 1], 8000 + seed as u16)),
            1,
            plan,
        );
        bench.events.clear();
        for _ in 0..30 {
            for mut datagram in std::mem::take(&mut client.out) {
                if dice.below(3) == Some(0) {
                    let place = dice.below(datagram.len()).unwrap();
                    match dice.below(3) {
                        Some(0) => datagram.truncate(place),
                        Some(1) => datagram[place] ^= 1 << dice.below(8).unwrap(),
                        _ => datagram.insert(place, dice.below(256).unwrap() as u8),
                    }
                }
                for (_, answer) in bench.take(client.address, &datagram) {
                    // Answers to damaged messages are meant for their sender; our client need not understand them.
                    if client.alerts.is_empty() {
                        client.handle_datagram(&answer);
                    }
                }
            }
            if client.is_done {
                client.send_text(b"text");
            }
            client.send();
        }
        for event in &bench.events {
            if let Event::Ready { identity, .. } = event {
                assert!(
                    [psk("dev1"), named("sensor 7")].contains(identity),
                    "seed {seed}: {identity:?}"
                );
            }
        }
        bench.tick(Span::from_secs(60));
    }
    assert_eq!(bench.listener.handshakes(), 0);
    assert!(bench.texts.iter().all(|(_, text)| text == b"text"));
    assert!(
        bench.listener.counts().completed > 100,
        "{:?}",
        bench.listener.counts()
    );
}

/// Memory of an association, besides 50 to 90 bytes in the index of addresses; its name is that of its key's entry.
#[test]
fn an_association_is_small() {
    let bytes = peers::PEER_BYTES;
    assert!(bytes <= 192, "{bytes}");
}

/// Numbers that look as if they were random, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> Option<usize> {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) as usize).checked_rem(end)
    }
}
