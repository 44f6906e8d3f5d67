//! The lanes against a peer made of the wire crate's other end, in memory.

use thalweg_zmtp::{ServerMechanisms, ServerSide};

use super::*;
use crate::pair::{Chunk, FarEnd, Pair, cuts_change_nothing, endpoint};
use crate::transport::{Medium, Transport};
use crate::witness::{EventCall, at_most_once, message};

/// A peer for one lane.
struct Server {
    mechanisms: ServerMechanisms,
    side: ServerSide,
    traffic: Option<Traffic>,
    ours: SocketType,
    /// Subscriptions that a publisher gets at once.
    asks_for: Option<&'static [u8]>,
    refuses: Option<&'static str>,
    is_mute: bool,
    login: Option<(String, String)>,
    heard: Vec<String>,
    out: Vec<u8>,
}

impl FarEnd for Server {
    fn accept(&mut self) {
        self.side = ServerSide::new(Limits::default(), self.mechanisms.clone());
        self.traffic = None;
        self.out.clear();
        self.side.greet(&mut self.out);
    }

    fn hear(&mut self, bytes: &[u8], _: Time) {
        let mut rest = bytes;
        while self.traffic.is_none() {
            let Ok(Some((len, event))) = self.side.handle_input(rest, &mut self.out) else {
                return;
            };
            rest = &rest[len..];
            match (event, self.refuses) {
                (HandshakeEvent::Login(_), Some(code)) => self.side.error(code, &mut self.out),
                (HandshakeEvent::Login(login), None) => {
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    self.login = Some((text(login.username), text(login.password)));
                    self.side.welcome(&mut self.out);
                }
                (HandshakeEvent::Peer(_), _) => {
                    let ours = Announcement::of(self.ours);
                    self.traffic = self.side.ready(&ours, &mut self.out);
                    if let (Some(traffic), Some(prefix)) = (&mut self.traffic, self.asks_for) {
                        traffic.subscribe(prefix, &mut self.out);
                    }
                }
                _ => {}
            }
        }
        let Some(traffic) = &mut self.traffic else {
            return;
        };
        let mut gathered = Gathered::default();
        while let Ok(Some((len, event))) = traffic.handle_input(rest, &mut gathered) {
            let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
            self.heard.push(match event {
                Event::Message(message) => format!("{message:?}"),
                Event::Subscribe(prefix) => format!("+{}", shown(prefix)),
                Event::Cancel(prefix) => format!("-{}", shown(prefix)),
                Event::Pong(context) => format!("pong {}", shown(context)),
                _ => String::new(),
            });
            if let (Event::Ping { context, .. }, false) = (event, self.is_mute) {
                traffic.pong(context, &mut self.out);
            }
            rest = &rest[len..];
        }
    }

    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }
}

type Lane = Pair<Zmtp, Server>;

fn lane(socket: ZmtpSocket) -> Lane {
    let mechanisms = ServerMechanisms {
        null: true,
        plain: true,
        curve: None,
    };
    let server = Server {
        side: ServerSide::new(Limits::default(), mechanisms.clone()),
        mechanisms,
        traffic: None,
        ours: match socket {
            ZmtpSocket::Pub => SocketType::Xsub,
            ZmtpSocket::Sub => SocketType::Xpub,
        },
        asks_for: (socket == ZmtpSocket::Pub).then_some(&b""[..]),
        refuses: None,
        is_mute: false,
        login: None,
        heard: Vec::new(),
        out: Vec::new(),
    };
    let endpoint = endpoint(5555, Medium::Stream);
    Pair::of(
        Zmtp::new(endpoint, socket, ZmtpSettings::default()),
        server,
        "",
    )
}

fn up(socket: ZmtpSocket) -> Lane {
    let mut pair = lane(socket);
    pair.reach();
    assert_eq!(pair.witness.take(), [EventCall::Up(Welcome::default())]);
    pair.server.heard.clear();
    pair
}

fn says(pair: &mut Lane, frames: &[&[u8]]) {
    let Server { traffic, out, .. } = &mut pair.server;
    let traffic = traffic.as_mut().expect("it is open");
    for (at, frame) in frames.iter().enumerate() {
        traffic.frame(frame, at + 1 < frames.len(), out);
    }
}

#[test]
fn a_message_is_address_and_payload_and_goes_at_most_once() {
    let mut pair = up(ZmtpSocket::Pub);
    pair.must_publish(&at_most_once(1, "plant/a%2B", b"21.5"));
    pair.must_publish(&at_most_once(2, "plant", b""));
    assert!(matches!(
        pair.publish(&message(3, "plant", b"")),
        Err(Refusal::Unsupported(_))
    ));
    let large = vec![0; 1 << 20];
    assert!(matches!(
        pair.publish(&at_most_once(4, "plant", &large)),
        Err(Refusal::TooLarge { .. })
    ));
    assert!(pair.subscribe(1, "a", Reliability::AtMostOnce).is_err());
    pair.exchange();
    let heard = [r#"Message["plant/a+", "21.5"]"#, r#"Message["plant", ""]"#];
    assert_eq!(pair.server.heard, heard);
}

#[test]
fn what_the_peer_has_not_asked_for_is_not_sent() {
    let mut pair = lane(ZmtpSocket::Pub);
    pair.server.asks_for = Some(b"plant/");
    pair.reach();
    for address in ["plant", "plant/1", "other"] {
        pair.must_publish(&at_most_once(1, address, b"x"));
    }
    pair.exchange();
    assert_eq!(pair.server.heard, [r#"Message["plant/1", "x"]"#]);

    // A peer that asks for nothing lets us in all the same.
    let mut pair = lane(ZmtpSocket::Pub);
    pair.server.asks_for = None;
    pair.reach();
    assert_eq!(pair.witness.take(), []);
    pair.now = pair.lane.poll_timeout();
    pair.timeout().expect("all is well");
    assert_eq!(pair.witness.take(), [EventCall::Up(Welcome::default())]);
}

#[test]
fn a_subscription_stands_when_the_peer_has_heard_of_it_and_prefixes_are_counted() {
    let mut pair = up(ZmtpSocket::Sub);
    pair.subscribed(1, "a/+");
    pair.subscribed(2, "a/#");
    assert_eq!(pair.witness.granted, [Reliability::AtMostOnce; 2]);
    assert!(pair.publish(&at_most_once(1, "a", b"")).is_err());
    pair.unsubscribe(2);
    pair.unsubscribe(2);
    pair.exchange();
    pair.unsubscribe(1);
    pair.exchange();
    pair.server.heard.retain(|line| !line.is_empty());
    assert_eq!(pair.server.heard, ["+a/", "+a", "-a", "-a/"]);
    // On the next connection nothing is known of it.
    pair.subscribed(3, "b");
    pair.lose();
    pair.reach();
    pair.witness.take();
    pair.server.heard.clear();
    pair.subscribed(3, "b");
    assert_eq!(pair.server.heard[0], "+b");
}

#[test]
fn frames_that_come_are_address_and_payload() {
    let mut pair = up(ZmtpSocket::Sub);
    for frames in [
        &[&b"plant/1"[..], b"21.5"][..],
        &[b"plant/1", b"21", b".5"],
        &[b"plant/1 21.5"],
        &[b"plant/1"],
        &[b"\xFF+", b""],
        &[b"", b"nowhere"],
    ] {
        says(&mut pair, frames);
    }
    let got = pair.received();
    let got: Vec<_> = got
        .iter()
        .map(|got| (got.address.as_str(), got.payload.as_slice()))
        .collect();
    assert_eq!(
        got,
        [
            ("plant/1", &b"21.5"[..]),
            ("plant/1", b"21.5"),
            ("plant/1", b"21.5"),
            ("plant/1", b""),
            ("%FF%2B", b""),
        ]
    );
}

#[test]
fn who_is_not_let_in_is_told_and_knows_whether_to_come_back() {
    for (code, is_final) in [("400", true), ("300", false)] {
        let mut pair = lane(ZmtpSocket::Pub);
        pair.opening.user = Some("alice".to_owned());
        pair.opening.password = Some(b"wrong".to_vec());
        pair.server.refuses = Some(code);
        pair.open();
        pair.talk();
        let fault = pair.fault.take().expect("it is refused");
        assert_eq!(fault.is_final, is_final, "{fault}");
        assert!(fault.words.contains("not authorized"), "{fault}");
    }
    let mut pair = lane(ZmtpSocket::Pub);
    pair.server.mechanisms.null = false;
    pair.open();
    pair.talk();
    let fault = pair.fault.take().expect("it wants a login");
    assert!(
        fault.is_final && fault.words.contains("password"),
        "{fault}"
    );

    let mut pair = lane(ZmtpSocket::Sub);
    pair.opening.user = Some("alice".to_owned());
    pair.opening.password = Some(b"secret".to_vec());
    pair.reach();
    assert_eq!(
        pair.server.login,
        Some(("alice".to_owned(), "secret".to_owned()))
    );
}

#[test]
fn silence_is_broken_by_ping_and_a_dead_peer_is_noticed() {
    let mut pair = up(ZmtpSocket::Pub);
    let start = pair.now;
    pair.now = pair.lane.poll_timeout();
    assert!(pair.now.since(start) <= Span::from_secs(60));
    pair.timeout().expect("it lives");
    pair.exchange();
    pair.server.is_mute = true;
    // Our own output is no sign of life of the peer.
    let mut lived = 0;
    while pair.timeout().is_ok() {
        pair.must_publish(&at_most_once(1, "a", b""));
        pair.now += Span::from_secs(1);
        pair.exchange();
        lived += 1;
        assert!(lived < 120);
    }
    assert!(lived > 60, "{lived}");
}

#[test]
fn a_probe_measures_the_way_and_pings_are_answered() {
    let mut pair = up(ZmtpSocket::Sub);
    pair.witness.round_trips.clear();
    assert!(pair.lane.probe(pair.now, &mut pair.out) > 0);
    assert_eq!(pair.lane.probe(pair.now, &mut pair.out), 0, "one at a time");
    pair.now += Span::from_millis(35);
    pair.exchange();
    assert_eq!(pair.witness.round_trips, [Span::from_millis(35)]);
    pair.server.heard.clear();
    let Server { traffic, out, .. } = &mut pair.server;
    traffic.as_mut().expect("it is open").ping(0, b"x", out);
    pair.exchange();
    assert_eq!(pair.server.heard, ["pong x"]);
}

#[test]
fn it_comes_to_the_same_however_bytes_are_cut() {
    let run = |chunk: Chunk| {
        let mut pair = lane(ZmtpSocket::Sub);
        pair.opening.user = Some("alice".to_owned());
        pair.chunk = chunk;
        pair.reach();
        pair.must_subscribe(1, "a/#", Reliability::AtMostOnce);
        pair.exchange();
        says(&mut pair, &[b"a/b", &[7; 300]]);
        says(&mut pair, &[b"a/c d"]);
        pair.exchange();
        pair.witness.take()
    };
    cuts_change_nothing(120, run);
}

#[test]
fn nonsense_ends_a_connection_at_worst() {
    let mut good = Vec::new();
    let mut pair = up(ZmtpSocket::Sub);
    says(&mut pair, &[b"a/b", b"21.5"]);
    says(&mut pair, &[b"a/c", &[7; 300]]);
    let Server { traffic, out, .. } = &mut pair.server;
    traffic.as_mut().expect("it is open").ping(0, b"x", out);
    good.append(&mut pair.server.out);
    crate::pair::nonsense_ends_a_connection_at_worst(&good, || up(ZmtpSocket::Sub));
}
