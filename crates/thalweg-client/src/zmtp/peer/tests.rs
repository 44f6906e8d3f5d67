//! The hub against sockets made of the wire crate's ends, in memory, and two clients that are peers.

use thalweg_zmtp::{
    Announcement, ClientMechanism, ClientSide, Event, Gathered, HEADER_FRAME, HandshakeEvent,
    Limits, ServerMechanisms, ServerSide, SocketType, Traffic,
};

use super::hub::{Hub, Secrets};

const HEADERS: [(&str, &[u8]); 1] = [(HEADER_FRAME, b"1")];

enum Side {
    Connects(ClientSide),
    Binds(ServerSide, SocketType),
}

/// The other end of a connection of the hub.
struct Far {
    number: usize,
    side: Side,
    announces: &'static [(&'static str, &'static [u8])],
    traffic: Option<Traffic>,
    input: Vec<u8>,
    out: Vec<u8>,
    got: Vec<String>,
    asked: Vec<String>,
    is_refused: bool,
}

/// The hub, and the sockets connected to it.
struct World {
    hub: Hub,
    ends: Vec<Far>,
}

impl World {
    fn new() -> World {
        let secrets = Secrets {
            user: "client".into(),
            password: "secret".into(),
            publisher: 0xA,
        };
        World {
            hub: Hub::new(secrets),
            ends: Vec::new(),
        }
    }

    fn add(&mut self, side: Side, takes_header: bool) -> usize {
        let number = self.ends.len();
        let mut out = Vec::new();
        match &side {
            Side::Connects(side) => side.greet(&mut out),
            Side::Binds(..) => {}
        }
        self.ends.push(Far {
            number,
            side,
            announces: if takes_header { &HEADERS } else { &[] },
            traffic: None,
            input: Vec::new(),
            out,
            got: Vec::new(),
            asked: Vec::new(),
            is_refused: false,
        });
        number
    }

    fn connect(&mut self, socket: SocketType, password: &str, takes_header: bool) -> usize {
        let mechanism = match password {
            "" => ClientMechanism::Null,
            password => ClientMechanism::Plain {
                username: b"client".to_vec(),
                password: password.as_bytes().to_vec(),
            },
        };
        let ours = Announcement {
            more: if takes_header { &HEADERS } else { &[] },
            ..Announcement::of(socket)
        };
        let side = ClientSide::new(Limits::default(), mechanism, &ours);
        let number = self.add(Side::Connects(side), takes_header);
        self.hub.accept(number);
        self.rest();
        number
    }

    /// The hub connects, as a socket of one type, to a peer's of another that binds.
    fn bind(&mut self, ours: SocketType, theirs: SocketType, takes_header: bool) -> usize {
        self.dial(ours, theirs, takes_header, true)
    }

    fn dial(
        &mut self,
        ours: SocketType,
        theirs: SocketType,
        takes_header: bool,
        is_direct: bool,
    ) -> usize {
        let mechanisms = ServerMechanisms {
            null: true,
            ..ServerMechanisms::default()
        };
        let mut side = ServerSide::new(Limits::default(), mechanisms);
        let mut out = Vec::new();
        side.greet(&mut out);
        let number = self.add(Side::Binds(side, theirs), takes_header);
        self.ends[number].out = out;
        self.hub
            .dial(number, ours, ClientMechanism::Null, is_direct);
        self.rest();
        number
    }

    fn write(&mut self, number: usize, write: impl FnOnce(&mut Traffic, &mut Vec<u8>)) {
        let end = &mut self.ends[number];
        write(end.traffic.as_mut().expect("it is open"), &mut end.out);
        self.rest();
    }

    fn send(&mut self, number: usize, frames: &[&str]) {
        self.write(number, |traffic, out| {
            for (at, frame) in frames.iter().enumerate() {
                traffic.frame(frame.as_bytes(), at + 1 < frames.len(), out);
            }
        });
    }

    fn subscribe(&mut self, number: usize, prefix: &str) {
        self.write(number, |traffic, out| {
            traffic.subscribe(prefix.as_bytes(), out)
        });
    }

    fn lose(&mut self, number: usize) {
        self.hub.closed(number);
        self.rest();
    }

    /// Carries bytes until none is left.
    fn rest(&mut self) {
        while self.ends.iter_mut().any(|end| end.turn(&mut self.hub)) {}
    }

    fn got(&mut self, number: usize) -> Vec<String> {
        std::mem::take(&mut self.ends[number].got)
    }

    fn asked(&mut self, number: usize) -> Vec<String> {
        std::mem::take(&mut self.ends[number].asked)
    }
}

impl Far {
    fn turn(&mut self, hub: &mut Hub) -> bool {
        let down = hub.unsent(self.number).to_vec();
        hub.wrote(self.number, down.len());
        self.input.extend(&down);
        self.hear();
        let used = hub
            .handle_input(self.number, &self.out)
            .expect("it is ZMTP");
        self.out.drain(..used);
        used + down.len() > 0
    }

    fn hear(&mut self) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        while self.traffic.is_none() {
            let handled = match &mut self.side {
                Side::Connects(side) => side.handle_input(&self.input, &mut self.out),
                Side::Binds(side, _) => side.handle_input(&self.input, &mut self.out),
            };
            let Some((len, event)) = handled.expect("the hub speaks ZMTP") else {
                return;
            };
            match event {
                HandshakeEvent::Peer(_) => {
                    self.traffic = match &mut self.side {
                        Side::Connects(side) => side.traffic(),
                        Side::Binds(side, socket) => {
                            let ours = Announcement {
                                more: self.announces,
                                ..Announcement::of(*socket)
                            };
                            side.ready(&ours, &mut self.out)
                        }
                    }
                }
                HandshakeEvent::Error(_) => self.is_refused = true,
                HandshakeEvent::Consumed | HandshakeEvent::Login(_) => {}
            }
            self.input.drain(..len);
        }
        let Some(traffic) = &mut self.traffic else {
            return;
        };
        let (mut used, mut gathered) = (0, Gathered::default());
        while let Some((len, event)) = traffic
            .handle_input(&self.input[used..], &mut gathered)
            .expect("the hub speaks ZMTP")
        {
            used += len;
            match event {
                Event::Message(message) => {
                    let frames: Vec<String> = message.frames().map(text).collect();
                    self.got.push(frames.join("|"));
                }
                Event::Subscribe(prefix) => self.asked.push(format!("+{}", text(prefix))),
                Event::Cancel(prefix) => self.asked.push(format!("-{}", text(prefix))),
                _ => {}
            }
        }
        self.input.drain(..used);
    }
}

#[test]
fn what_the_client_publishes_goes_to_those_that_asked_and_to_itself() {
    let mut world = World::new();
    let publisher = world.connect(SocketType::Pub, "secret", false);
    assert_eq!(world.asked(publisher), ["+"]);
    let own = world.connect(SocketType::Sub, "secret", false);
    let peer = world.connect(SocketType::Sub, "", true);
    let stock = world.connect(SocketType::Xsub, "", false);
    let broker = world.bind(SocketType::Pub, SocketType::Xsub, true);
    for (number, prefix) in [(own, "a/"), (peer, "a/"), (stock, "a/b"), (broker, "")] {
        world.subscribe(number, prefix);
    }
    world.send(publisher, &["a/b", "1"]);
    world.send(publisher, &["a/c", "2"]);
    world.send(publisher, &["c", "3"]);
    let counts = world.hub.counts();
    assert_eq!((counts.subscribers, counts.publishers), (3, 0));
    assert_eq!(world.got(own), ["a/b|1", "a/c|2"]);
    assert_eq!(world.got(stock), ["a/b|1"]);
    let numbered = ["a/b|x-peer-stamp:a-1\n|1", "a/c|x-peer-stamp:a-2\n|2"];
    assert_eq!(world.got(peer), numbered);
    assert_eq!(world.got(broker)[2], "c|x-peer-stamp:a-3\n|3");
    // The hub does not forward a peer's messages to other peers.
    let source = world.bind(SocketType::Sub, SocketType::Pub, true);
    assert_eq!(world.hub.counts().publishers, 1);
    world.send(source, &["a/b", "x-peer-stamp:b-1\n", "4"]);
    assert_eq!(world.got(own), ["a/b|4"]);
    for number in [peer, stock, broker] {
        assert!(world.got(number).is_empty());
    }
}

#[test]
fn what_comes_directly_and_by_the_broker_comes_once() {
    let mut world = World::new();
    let publisher = world.connect(SocketType::Pub, "secret", false);
    let own = world.connect(SocketType::Sub, "secret", false);
    world.subscribe(own, "a");
    let peer = world.bind(SocketType::Sub, SocketType::Xpub, true);
    let broker = world.dial(SocketType::Sub, SocketType::Xpub, true, false);
    let stock = world.bind(SocketType::Sub, SocketType::Pub, false);
    let stamped = |number: u32| format!("k:v\nx-peer-stamp:b-{number:x}\n");
    // Whichever way is the faster.
    for (number, ways) in [(1, [peer, broker]), (2, [broker, peer])] {
        for way in ways {
            world.send(way, &["a", &stamped(number), "text"]);
        }
        assert_eq!(world.got(own), ["a|text"], "{number}");
    }
    // Two messages that are alike are two, and one that is not numbered is new.
    for way in [peer, broker, peer, broker] {
        world.send(way, &["a", "k:v\n", "same"]);
    }
    world.send(stock, &["a", "x-peer-stamp:b-1\n", "same"]);
    world.send(stock, &["a same"]);
    assert_eq!(world.got(own).len(), 6);
    // A stamp below a later message of the peer comes too late.
    for (way, number) in [(peer, 4), (broker, 3), (broker, 4)] {
        world.send(way, &["a", &stamped(number), "text"]);
    }
    assert_eq!(world.got(own).len(), 1);
    // A way that was lost is caught up on by the other.
    world.lose(peer);
    for number in [4, 5] {
        world.send(broker, &["a", &stamped(number), "text"]);
    }
    assert_eq!(world.got(own).len(), 1);
    // Another publisher has numbers of its own, and the client's own come back from the broker.
    world.send(broker, &["a", "x-peer-stamp:c-1\n", "other", "frames"]);
    assert_eq!(world.got(own), ["a|other|frames"]);
    world.send(publisher, &["a", "own"]);
    world.send(broker, &["a", "x-peer-stamp:a-1\n", "own"]);
    assert_eq!(world.got(own), ["a|own"]);
}

#[test]
fn subscriptions_reach_peers_that_come_later_and_end_with_the_client() {
    let mut world = World::new();
    let own = world.connect(SocketType::Sub, "secret", false);
    let early = world.bind(SocketType::Sub, SocketType::Pub, false);
    for prefix in ["a", "b", "a"] {
        world.subscribe(own, prefix);
    }
    assert_eq!(world.asked(early), ["+a", "+b"]);
    let late = world.bind(SocketType::Sub, SocketType::Pub, false);
    assert_eq!(world.asked(late), ["+a", "+b"]);
    world.write(own, |traffic, out| traffic.cancel(b"a", out));
    assert!(world.asked(early).is_empty());
    world.write(own, |traffic, out| traffic.cancel(b"a", out));
    assert_eq!(world.asked(early), ["-a"]);
    world.lose(own);
    assert_eq!(world.asked(early), ["-b"]);
    assert!(!world.hub.has_client());
}

#[test]
fn only_the_client_itself_publishes_by_its_hub() {
    let mut world = World::new();
    for (socket, password) in [
        (SocketType::Pub, ""),
        (SocketType::Pub, "guess"),
        (SocketType::Sub, "guess"),
        (SocketType::Push, "secret"),
    ] {
        let number = world.connect(socket, password, false);
        let end = &world.ends[number];
        let is_refused = end.is_refused && end.traffic.is_none();
        assert!(is_refused, "{socket:?} {password}");
    }
}

#[test]
fn a_peer_that_does_not_read_costs_a_bounded_memory() {
    let mut world = World::new();
    let sink = world.connect(SocketType::Sub, "", true);
    world.got(sink);
    // PINGs whose answers it leaves unread.
    let (mut input, mut more) = (Vec::new(), Vec::new());
    let traffic = world.ends[sink].traffic.as_mut().expect("it is open");
    for _ in 0..10_000 {
        traffic.ping(0, &[7; 16], &mut more);
    }
    for _ in 0..60 {
        input.extend_from_slice(&more);
        let used = world.hub.handle_input(sink, &input).expect("no fault");
        input.drain(..used);
    }
    let waits = world.hub.unsent(sink).len();
    assert!((1 << 20..9 << 20).contains(&waits), "{waits}");
}

#[test]
fn a_peer_that_asks_for_too_much_is_ended() {
    let mut world = World::new();
    let mut asks = |password: &str| {
        let sink = world.connect(SocketType::Sub, password, true);
        (0..40_u8).find(|number| {
            let mut input = Vec::new();
            let traffic = world.ends[sink].traffic.as_mut().expect("it is open");
            traffic.subscribe(&[*number; 60_000], &mut input);
            world.hub.handle_input(sink, &input).is_err()
        })
    };
    assert_eq!(asks(""), Some(17));
    assert_eq!(asks("secret"), None, "the client itself");
}
