//! Both ends with each other.

use super::*;
use thalweg_scram::{ChannelBinding, ExpectClientFinal, ScramHash, ScramServer, ScramVerifier};

/// Two ends and the bytes in flight.
struct Pair {
    client: ClientSide,
    server: ServerSide,
    there: Vec<u8>,
    back: Vec<u8>,
    tree: Tree,
    exchange: Option<ExpectClientFinal>,
    binding: Option<ChannelBinding>,
    password: &'static [u8],
    events: Vec<String>,
    /// State of an earlier stream at the server.
    suspended: Option<(Jid, Management)>,
    offered: Mechanisms,
}

fn client_settings(password: &str) -> ClientSettings {
    ClientSettings {
        limits: Limits::default(),
        framing: Framing::Document,
        domain: "im.example.com".into(),
        tls: TlsPolicy::Required,
        credentials: Credentials::Password {
            user: "juliet".into(),
            password: password.into(),
        },
        resource: Some("balcony".into()),
        nonce: [9; 24],
        management: true,
        acknowledges: true,
    }
}

impl Pair {
    fn new(mechanisms: &[Mechanism], client: ClientSettings) -> Pair {
        let mut pair = Pair {
            server: ServerSide::new(ServerSettings {
                starttls: StartTls::Required,
                framing: client.framing,
                management: true,
                ..ServerSettings::default()
            }),
            client: ClientSide::new(client),
            there: Vec::new(),
            back: Vec::new(),
            tree: Tree::default(),
            exchange: None,
            binding: None,
            password: b"pencil",
            events: Vec::new(),
            suspended: None,
            offered: mechanisms.iter().copied().collect(),
        };
        pair.client.open(&mut pair.there);
        pair
    }

    /// Runs until nothing is on its way.
    fn run(&mut self) -> Result<(), PeerFault> {
        for _ in 0..30 {
            while let Some((len, event)) =
                self.server
                    .handle_input(&self.there, &mut self.tree, &mut self.back)?
            {
                let out = &mut self.back;
                match &event {
                    ServerEvent::StartTls => {
                        self.server.proceed(out);
                        self.server.set_mechanisms(self.offered);
                        self.server.secured();
                    }
                    ServerEvent::Login {
                        mechanism,
                        message: Some(message),
                    } if mechanism.name().starts_with("SCRAM") => {
                        let hash = match mechanism.name().contains("256") {
                            true => ScramHash::Sha256,
                            false => ScramHash::Sha1,
                        };
                        let binding = self
                            .binding
                            .clone()
                            .filter(|_| mechanism.name().ends_with("PLUS"));
                        let verifier = ScramVerifier::derive(hash, self.password, &[5; 16], 4096);
                        let begun =
                            ScramServer::start(&[3; 24], binding).first(message, |_| verifier);
                        let (expect, challenge) = begun.expect("legal");
                        self.exchange = Some(expect);
                        self.server.challenge(&challenge, out);
                    }
                    ServerEvent::Response(message) => {
                        match self.exchange.take().expect("begun").last(message) {
                            Ok(proven) => self.server.success(Some(&proven.server_final), out),
                            Err(_) => self.server.failure(SaslFailure::NotAuthorized, out),
                        }
                    }
                    ServerEvent::Resume { id } => match self.suspended.take() {
                        Some((jid, management)) if *id == "sm-1" => {
                            self.server.resumed("sm-1", jid, management, out)?;
                        }
                        _ => self.server.resume_failed(out),
                    },
                    ServerEvent::Stanza(stanza) => {
                        self.events.push(format!("C {:?}", stanza.element))
                    }
                    event => serve(&mut self.server, event, out),
                }
                self.there.drain(..len);
            }
            while let Some((len, event)) =
                self.client
                    .handle_input(&self.back, &mut self.tree, &mut self.there)?
            {
                match event {
                    ClientEvent::Consumed => {}
                    ClientEvent::StartTls => self.client.secured(&mut self.there),
                    ClientEvent::Stanza(stanza) => {
                        self.events.push(format!("S {:?}", stanza.element))
                    }
                    event => self.events.push(format!("{event:?}")),
                }
                self.back.drain(..len);
            }
        }
        Ok(())
    }

    fn message(&mut self, from_server: bool, text: &str) {
        let content = |out: &mut Vec<u8>| out.extend_from_slice(text.as_bytes());
        match from_server {
            true => self
                .server
                .put(StanzaKind::Message, &[], &mut self.back, content),
            false => self
                .client
                .put(StanzaKind::Message, &[], &mut self.there, content),
        }
    }
}

const BOUND: &str = "Bound(Jid(juliet@im.example.com/balcony))";

#[test]
fn scram_proves_both_ends_to_each_other() {
    use Mechanism::*;
    for (offered, binding) in [
        (&[ScramSha256, Plain][..], None),
        (&[ScramSha1], None),
        (
            &[ScramSha256Plus, ScramSha256],
            Some(ChannelBinding {
                name: "tls-exporter",
                data: vec![1; 32],
            }),
        ),
        (
            &[ScramSha1Plus],
            Some(ChannelBinding {
                name: "tls-exporter",
                data: vec![1; 32],
            }),
        ),
    ] {
        let mut pair = Pair::new(offered, client_settings("pencil"));
        pair.binding = binding.clone();
        binding
            .into_iter()
            .for_each(|binding| pair.client.set_binding(binding));
        pair.run().expect("valid");
        assert_eq!(
            pair.events,
            [BOUND, "Enabled(Some(\"sm-1\"))"],
            "{offered:?}"
        );
    }
    let mut pair = Pair::new(&[ScramSha256], client_settings("pencils"));
    assert_eq!(pair.run(), Err(PeerFault::LOGIN_REFUSED));
    assert_eq!(pair.client.failure(), Some(SaslFailure::NotAuthorized));
}

#[test]
fn a_password_is_never_sent_in_the_clear() {
    let mut settings = client_settings("pencil");
    settings.tls = TlsPolicy::IfOffered;
    let mut client = ClientSide::new(settings.clone());
    let mut out = Vec::new();
    client.open(&mut out);
    let header = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>";
    let features = "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>PLAIN</mechanism></mechanisms></stream:features>";
    let input = [header, features].concat().into_bytes();
    let (events, _) = client_hears(&settings, &input, &[input.len()]);
    assert_eq!(events, [PeerFault::NO_MECHANISM.to_string()]);
    settings.tls = TlsPolicy::Required;
    let (events, _) = client_hears(&settings, &input, &[input.len()]);
    assert_eq!(events, [PeerFault::NO_TLS.to_string()]);
}

#[test]
fn octets_before_the_handshake_are_not_taken_for_octets_behind_it() {
    let header = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>";
    let input = [
        header,
        "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>",
        header,
    ]
    .concat();
    let settings = ServerSettings {
        starttls: StartTls::Offered,
        ..ServerSettings::default()
    };
    let (events, _) = server_hears(&settings, input.as_bytes(), &[input.len()]);
    assert_eq!(events.last(), Some(&PeerFault::EARLY.to_string()));
}

#[test]
fn a_resumed_stream_sends_again_what_was_not_acknowledged_and_nothing_else() {
    let mut pair = Pair::new(&[Mechanism::ScramSha256], client_settings("pencil"));
    pair.run().expect("valid");
    pair.message(true, "<a/>");
    pair.message(false, "<b/>");
    pair.run().expect("valid");
    assert_eq!(
        pair.server.management().map(|m| m.unacknowledged()),
        Some(0)
    );
    assert_eq!(pair.client.management().map(Management::bytes), Some(0));
    // These are lost.
    pair.message(true, "<c/>");
    pair.message(true, "<d/>");
    pair.message(false, "<e/>");
    let jid = pair.server.jid().cloned().expect("bound");
    let kept = pair.server.suspend().expect("on");
    assert_eq!(kept.unacknowledged(), 2);
    let lost = pair.client.suspend().expect("on");

    let mut again = Pair::new(&[Mechanism::ScramSha256], client_settings("pencil"));
    again.suspended = Some((jid, kept));
    again.client.resume("sm-1", lost);
    again.run().expect("valid");
    let message =
        |side: &str, text: &str| format!("{side} {{jabber:client}}<message>{text}</message>");
    let expected = ["Resumed".into(), message("S", "<c/>"), message("S", "<d/>")];
    let (stanzas, rest): (Vec<_>, Vec<_>) = again
        .events
        .iter()
        .cloned()
        .partition(|event| !event.starts_with("C ") && !event.starts_with("Ack"));
    assert_eq!(stanzas, expected);
    assert_eq!(rest.first(), Some(&message("C", "<e/>")));
    again.message(true, "<f/>");
    again.run().expect("valid");
    assert!(again.events.contains(&message("S", "<f/>")));
    assert_eq!(
        again.server.management().map(|m| m.unacknowledged()),
        Some(0)
    );

    // Without an earlier stream the client binds.
    let mut fresh = Pair::new(&[Mechanism::ScramSha256], client_settings("pencil"));
    fresh.client.resume("sm-2", Management::default());
    fresh.run().expect("valid");
    assert_eq!(fresh.events.first().map(|event| &**event), Some(BOUND));
}

#[test]
fn what_its_sender_keeps_comes_back_by_its_number_and_is_not_copied() {
    let mut pair = Pair::new(&[Mechanism::ScramSha256], client_settings("pencil"));
    pair.run().expect("valid");
    let send = |pair: &mut Pair, again| {
        let (server, out) = (&mut pair.server, &mut pair.back);
        server.put_again(again, StanzaKind::Message, &[], out, |out| {
            out.extend_from_slice(b"<x/>")
        });
    };
    for number in 0..5 {
        send(&mut pair, Again::Never);
        send(&mut pair, Again::Never);
        send(&mut pair, Again::Kept(number));
    }
    assert_eq!(pair.server.management().map(Management::bytes), Some(0));
    let mut kept = pair.server.suspend().expect("on");
    assert_eq!(kept.unacknowledged(), 15);
    let mut out = Vec::new();
    assert_eq!(kept.on_acknowledged(3, &mut out), Ok(vec![0]));
    assert_eq!(kept.on_acknowledged(4, &mut out), Ok(vec![]));
    assert_eq!(kept.on_acknowledged(9, &mut out), Ok(vec![1, 2]));
    assert_eq!(
        kept.on_acknowledged(16, &mut out),
        Err(PeerFault::ACKNOWLEDGED_TOO_MUCH)
    );
    out.clear();
    // The rest is its sender's to send.
    assert_eq!(kept.resume(11, Framing::Document, &mut out), Ok(vec![]));
    assert_eq!((kept.unacknowledged(), out.len()), (0, 0));
}

/// Some clients do not count all that they handle: asked again at once, they would say the same, for ever.
#[test]
fn a_client_that_has_handled_nothing_more_is_not_asked_again_at_once() {
    let mut pair = Pair::new(&[Mechanism::ScramSha256], client_settings("pencil"));
    pair.run().expect("legal");
    let mut hear = |h: u32, messages: usize| {
        let mut out = Vec::new();
        for _ in 0..messages {
            pair.server.put(StanzaKind::Message, &[], &mut out, |_| {});
        }
        let says = format!("<a xmlns='{}' h='{h}'/>", ns::MANAGEMENT);
        pair.server
            .handle_input(says.as_bytes(), &mut pair.tree, &mut out)
            .expect("legal");
        let asks = String::from_utf8(out).expect("text").matches("<r ").count();
        (asks, pair.server.is_to_ask())
    };
    assert_eq!(hear(0, 2), (1, true));
    assert_eq!(hear(0, 0), (0, true));
    assert_eq!(hear(1, 0), (1, false), "there is one more");
    assert_eq!(hear(1, 0), (0, true));
    assert_eq!(hear(2, 1), (2, false), "with the next message, and for it");
    let mut out = Vec::new();
    assert_eq!(hear(2, 0), (0, true));
    pair.server.ask(&mut out);
    assert!(out.starts_with(b"<r ") && !pair.server.is_to_ask());
}

#[test]
fn an_error_of_the_stream_says_why() {
    let mut pair = Pair::new(&[Mechanism::ScramSha256], client_settings("pencil"));
    pair.run().expect("valid");
    pair.server.refuse(
        "conflict",
        "another connection has bound the resource",
        &mut pair.back,
    );
    pair.run().expect("valid");
    assert_eq!(
        pair.events.last().map(|event| &**event),
        Some("Closed(Some(\"conflict\"))")
    );
    assert!(pair.server.is_closed());
}
