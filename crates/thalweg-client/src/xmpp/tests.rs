//! The lane against the server's end of the same codec.

use std::net::SocketAddr;

use super::*;
use crate::transport::{Output, Properties, Transport};
use thalweg_model::Time;
use thalweg_xmpp::{Again, Mechanism, ServerEvent, ServerSettings, ServerSide, StartTls};

/// A server that accepts every login and stores its requests.
struct Server {
    side: ServerSide,
    /// The stream of the connection before.
    kept: Option<Management>,
    asked: Vec<String>,
    acknowledged: Vec<u16>,
}

impl Server {
    fn new(framing: Framing) -> Server {
        Server {
            side: ServerSide::new(ServerSettings {
                framing,
                secured: true,
                mechanisms: [Mechanism::Plain, Mechanism::Anonymous]
                    .into_iter()
                    .collect(),
                management: true,
                ..ServerSettings::default()
            }),
            kept: None,
            asked: Vec::new(),
            acknowledged: Vec::new(),
        }
    }

    fn receive(&mut self, input: &[u8], out: &mut Vec<u8>) {
        let (mut tree, mut used) = (Tree::default(), 0);
        let jid = || Jid::parse("juliet@verona/r").expect("an address");
        while let Some((len, event)) = self
            .side
            .handle_input(&input[used..], &mut tree, out)
            .expect("a stream")
        {
            used += len;
            match event {
                ServerEvent::Open(_) => self.side.open("s", "verona", out),
                ServerEvent::StartTls => {
                    self.side.proceed(out);
                    let offered = [Mechanism::Plain].into_iter().collect();
                    self.side.set_mechanisms(offered);
                    self.side.secured();
                }
                ServerEvent::Login { message: None, .. } => self.side.challenge(b"", out),
                ServerEvent::Login { .. } | ServerEvent::Response(_) => {
                    self.side.success(None, out);
                }
                ServerEvent::Bind(_) => self.side.bound(jid(), out),
                ServerEvent::Enable { .. } => self.side.enabled(Some("stream"), 300, out),
                ServerEvent::Resume { .. } => match self.kept.take() {
                    Some(kept) => {
                        let kept = self.side.resumed("stream", jid(), kept, out);
                        self.acknowledged.extend(kept.expect("a count"));
                    }
                    None => self.side.resume_failed(out),
                },
                ServerEvent::Stanza(stanza) => self.asked.push(stanza.element.raw().into()),
                ServerEvent::Acknowledged(numbers) => self.acknowledged.extend(numbers),
                _ => {}
            }
        }
        assert_eq!(used, input.len());
    }

    fn answer(&mut self, id: &str, type_: &str, content: &str, out: &mut Vec<u8>) {
        let attributes = [("type", type_), ("id", id), ("from", "pubsub.verona")];
        self.side.put(StanzaKind::Iq, &attributes, out, |out| {
            out.extend_from_slice(content.as_bytes());
        });
    }

    /// Notifies of an item, under this number.
    fn notify(&mut self, number: u16, node: &str, item: &str, out: &mut Vec<u8>) {
        let attributes = [("from", "pubsub.verona")];
        let again = Again::Kept(number);
        self.side
            .put_again(again, StanzaKind::Message, &attributes, out, |out| {
                let items =
                    format!("<event xmlns='{EVENT}'><items node='{node}'>{item}</items></event>");
                out.extend_from_slice(items.as_bytes());
            });
    }
}

/// Output of a lane.
#[derive(Default)]
struct Calls(Vec<String>, Vec<DeliveryId>);

impl Events for Calls {
    fn up(&mut self, welcome: &Welcome) {
        self.0.push(format!("up {}", welcome.session_present));
    }
    fn settled(&mut self, id: u64, outcome: Settled) {
        self.0.push(format!("settled {id} {outcome:?}"));
    }
    fn received(&mut self, message: &Inbound<'_>) {
        self.1.extend(message.delivery);
        let payload = String::from_utf8_lossy(message.payload);
        self.0
            .push(format!("received {} {payload}", message.address));
    }
    fn subscribed(&mut self, id: SubscriptionId, outcome: Result<Reliability, Refusal>) {
        self.0.push(format!("subscribed {} {outcome:?}", id.0));
    }
    fn unsubscribed(&mut self, _: SubscriptionId, _: Refusal) {}
    fn answered(&mut self, _: RequestId, answer: Result<Option<&Inbound<'_>>, Refusal>) {
        let payload = answer.map(|value| value.map(|value| value.payload.to_vec()));
        self.0.push(format!("answered {payload:?}"));
    }
    fn round_trip(&mut self, _: Span) {}
    fn pressed(&mut self) {}
    fn room(&mut self) {}
}

struct World {
    lane: Xmpp,
    server: Server,
    said: Calls,
    framing: Framing,
}

impl World {
    /// A lane to the usual port, before it has connected.
    fn in_the_clear(starttls: StartTls, tls_required: bool) -> World {
        let mut world = World::new(Framing::Document);
        world.said();
        let endpoint = Endpoint {
            port: 5222,
            is_encrypted: false,
            ..world.lane.conn.endpoint().clone()
        };
        let settings = XmppSettings {
            tls_required,
            ..XmppSettings::default()
        };
        world.lane = Xmpp::new(endpoint, settings);
        world.server.side = ServerSide::new(ServerSettings {
            starttls,
            mechanisms: [Mechanism::Plain, Mechanism::ScramSha256]
                .into_iter()
                .collect(),
            ..ServerSettings::default()
        });
        world
    }

    fn new(framing: Framing) -> World {
        let websocket = matches!(framing, Framing::Elements).then(|| ("/".to_owned(), "xmpp"));
        let endpoint = Endpoint {
            host: "verona".into(),
            port: 5223,
            medium: crate::transport::Medium::Stream,
            is_encrypted: true,
            websocket,
        };
        let mut world = World {
            lane: Xmpp::new(endpoint, XmppSettings::default()),
            server: Server::new(framing),
            said: Calls::default(),
            framing,
        };
        world.connect();
        world
    }

    fn connect(&mut self) {
        let opening = Opening {
            client_id: "r".into(),
            user: Some("juliet@verona".into()),
            password: Some(b"x".to_vec()),
            session: Span::ZERO,
            will: None,
            keep_alive: Span::ZERO,
        };
        let peer = SocketAddr::from(([127, 0, 0, 1], 5223));
        self.run(|lane, _, out| lane.open(&opening, peer, Time::ZERO, out));
    }

    /// The connection is lost, and the next one goes on.
    fn reconnect(&mut self) {
        self.lane.closed();
        let kept = self.server.side.suspend();
        self.server = Server {
            kept,
            asked: std::mem::take(&mut self.server.asked),
            acknowledged: std::mem::take(&mut self.server.acknowledged),
            ..Server::new(self.framing)
        };
        self.connect();
    }

    /// Does something, and carries octets until there are none.
    fn run<R>(&mut self, act: impl FnOnce(&mut Xmpp, &mut Server, &mut Output) -> R) -> R {
        let (mut up, mut down) = (Output::default(), Vec::new());
        let done = act(&mut self.lane, &mut self.server, &mut up);
        while !up.bytes.is_empty() || !down.is_empty() {
            self.server
                .receive(&std::mem::take(&mut up.bytes), &mut down);
            let input = std::mem::take(&mut down);
            let used = self
                .lane
                .handle_input(&input, Time::ZERO, &mut up, &mut self.said);
            assert_eq!(used, Ok(input.len()));
            if self.lane.wants_tls() {
                self.said.0.push("handshake".into());
                self.lane.secured(&mut up);
            }
        }
        done
    }

    fn serve(&mut self, act: impl FnOnce(&mut Server, &mut Vec<u8>)) {
        let mut down = Vec::new();
        act(&mut self.server, &mut down);
        self.run(|_, _, _| ());
        let mut up = Output::default();
        let used = self
            .lane
            .handle_input(&down, Time::ZERO, &mut up, &mut self.said);
        assert_eq!(used, Ok(down.len()));
        self.server.receive(&up.bytes, &mut Vec::new());
    }

    fn said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said.0)
    }
}

fn message(id: u64, payload: &[u8], repeated: bool) -> Outbound<'_> {
    Outbound {
        id,
        address: "a/b",
        payload,
        reliability: Reliability::AtLeastOnce,
        retain: Retain::No,
        lifespan: Span::from_secs(30),
        priority: 4,
        content_type: None,
        is_text: false,
        properties: Properties::default(),
        reply_to: None,
        correlation: None,
        stamp: None,
        repeated,
    }
}

const ITEM: &str = "<item id='i'><text xmlns='urn:thalweg:payload:0'>1</text></item>";

#[test]
fn what_is_published_is_settled_by_its_answer_over_either_framing() {
    for framing in [Framing::Document, Framing::Elements] {
        let mut world = World::new(framing);
        assert_eq!(world.said(), ["up false"]);
        for id in [1, 2] {
            let gone = world
                .run(|lane, _, out| lane.publish(&message(id, b"1 < 2", false), Time::ZERO, out));
            assert_eq!(gone, Ok(Departure::Awaited));
        }
        let asked = std::mem::take(&mut world.server.asked);
        let expected = "<publish node='a/b'><item><text xmlns='urn:thalweg:payload:0'>1 &lt; 2</text></item></publish>";
        assert!(
            asked[0].contains(expected) && asked[0].contains("<value>30</value>"),
            "{asked:?}"
        );
        let error = "<error type='wait'><resource-constraint xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>";
        world.serve(|server, out| {
            server.answer("p2", "error", error, out);
            server.answer("p1", "result", "", out);
        });
        assert_eq!(
            world.said(),
            [
                "settled 2 Refused(Busy(\"resource-constraint\"))",
                "settled 1 Acknowledged"
            ]
        );
    }
}

#[test]
fn what_is_received_is_acknowledged_once_it_is_settled() {
    let mut world = World::new(Framing::Document);
    let wish = SubscribeWish {
        subscription: SubscriptionId(7),
        filter: "a/+",
        reliability: Reliability::AtLeastOnce,
        last_values: true,
    };
    world
        .run(|lane, _, out| lane.subscribe(&wish, Time::ZERO, out))
        .expect("a filter");
    assert!(world.server.asked[0].contains("<subscribe node='a' jid='juliet@verona/r'/>"));
    let granted = format!("<pubsub xmlns='{PUBSUB}'><subscription subid='5'/></pubsub>");
    world.serve(|server, out| server.answer("s7", "result", &granted, out));
    world.serve(|server, out| {
        for number in [1, 2, 3] {
            server.notify(number, "a/b", ITEM, out);
        }
    });
    assert_eq!(
        world.said()[1..],
        [
            "subscribed 7 Ok(AtLeastOnce)",
            "received a/b 1",
            "received a/b 1",
            "received a/b 1"
        ]
    );
    assert_eq!(world.server.acknowledged, [0_u16; 0]);
    let deliveries = std::mem::take(&mut world.said.1);
    for (settled, acknowledged) in [(1, &[][..]), (0, &[1, 2]), (2, &[1, 2, 3])] {
        world.run(|lane, _, out| lane.settle(deliveries[settled], Time::ZERO, out));
        assert_eq!(world.server.acknowledged, acknowledged);
    }
}

#[test]
fn a_lost_connection_is_gone_on_with() {
    let mut world = World::new(Framing::Document);
    world
        .run(|lane, _, out| lane.publish(&message(1, b"x", false), Time::ZERO, out))
        .expect("room");
    world.serve(|server, out| {
        server.notify(1, "a", ITEM, out);
        server.notify(2, "a", ITEM, out);
    });
    let first = world.said.1[0];
    world.run(|lane, _, out| lane.settle(first, Time::ZERO, out));
    world.said();
    world.reconnect();
    assert_eq!(world.said(), ["up true"]);
    // The second was not settled, and the server sends it again.
    assert_eq!(world.server.acknowledged, [1]);
    let before = world.server.asked.len();
    let again = world.run(|lane, _, out| lane.publish(&message(1, b"x", true), Time::ZERO, out));
    assert_eq!(
        (again, world.server.asked.len()),
        (Ok(Departure::Awaited), before)
    );
    world.serve(|server, out| {
        server.notify(2, "a", ITEM, out);
        server.answer("p1", "result", "", out);
    });
    assert_eq!(world.said(), ["received a 1", "settled 1 Acknowledged"]);
}

#[test]
fn last_values_are_read_and_filters_judged() {
    let mut world = World::new(Framing::Document);
    world.said();
    for (items, expected) in [
        (
            format!("<items node='a'>{ITEM}</items>"),
            "answered Ok(Some([49]))",
        ),
        ("<items node='a'/>".to_owned(), "answered Ok(None)"),
    ] {
        world
            .run(|lane, _, out| lane.read(RequestId(3), "a", Time::ZERO, out))
            .expect("a connection");
        let answer = format!("<pubsub xmlns='{PUBSUB}'>{items}</pubsub>");
        world.serve(|server, out| server.answer("r3", "result", &answer, out));
        assert_eq!(world.said(), [expected]);
    }
    for (filter, is_said) in [
        ("a", true),
        ("a/+", true),
        ("a/b/#", true),
        ("$q/work", true),
        ("#", false),
        ("+/a", false),
        ("a/+/b", false),
        ("$share/g/a", false),
    ] {
        assert_eq!(node_of(filter).is_ok(), is_said, "{filter}");
    }
}

#[test]
fn tls_begins_within_the_stream_where_the_broker_offers_it() {
    for starttls in [StartTls::Offered, StartTls::Required] {
        for tls_required in [false, true] {
            let mut world = World::in_the_clear(starttls, tls_required);
            world.connect();
            assert_eq!(world.said(), ["handshake", "up false"], "{starttls:?}");
            assert!(world.server.side.is_secured());
        }
    }
}

/// A client that has named an authority to trust does not log in without TLS, whatever an attacker makes of the offer.
#[test]
fn without_tls_a_lane_that_requires_it_gives_up() {
    let mut world = World::in_the_clear(StartTls::Off, true);
    let opening = Opening {
        client_id: "r".into(),
        user: Some("juliet@verona".into()),
        password: Some(b"x".to_vec()),
        session: Span::ZERO,
        will: None,
        keep_alive: Span::ZERO,
    };
    let (mut up, mut down) = (Output::default(), Vec::new());
    let peer = SocketAddr::from(([127, 0, 0, 1], 5222));
    world.lane.open(&opening, peer, Time::ZERO, &mut up);
    world
        .server
        .receive(&std::mem::take(&mut up.bytes), &mut down);
    let heard = world
        .lane
        .handle_input(&down, Time::ZERO, &mut up, &mut world.said);
    assert!(heard.is_err_and(|fault| fault.is_final), "it gives up");
    assert!(!String::from_utf8_lossy(&up.bytes).contains("auth"));
}

#[test]
fn a_user_may_name_its_domain_and_a_domain_alone_is_anonymous() {
    let at = |host: &str, user: Option<&str>| {
        let endpoint = Endpoint {
            host: host.into(),
            port: 5222,
            medium: crate::transport::Medium::Stream,
            is_encrypted: false,
            websocket: None,
        };
        let lane = Xmpp::new(endpoint, XmppSettings::default());
        let opening = Opening {
            client_id: "r".into(),
            user: user.map(Into::into),
            password: None,
            session: Span::ZERO,
            will: None,
            keep_alive: Span::ZERO,
        };
        let settings = lane.client_settings(&opening);
        let user = match settings.credentials {
            Credentials::Password { user, .. } => Some(user.to_string()),
            _ => None,
        };
        (user, settings.domain)
    };
    let named = |user: &str, domain: &str| (Some(user.to_owned()), domain.to_owned());
    let anonymous = |domain: &str| (None, domain.to_owned());
    assert_eq!(at("verona", Some("juliet")), named("juliet", "verona"));
    assert_eq!(at("127.0.0.1", Some("juliet")), named("juliet", ""));
    assert_eq!(
        at("127.0.0.1", Some("juliet@Verona")),
        named("juliet", "verona")
    );
    assert_eq!(at("127.0.0.1", Some("@verona")), anonymous("verona"));
    assert_eq!(at("verona", None), anonymous("verona"));
}
