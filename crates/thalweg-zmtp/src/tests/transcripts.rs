//! Recorded connections against both ends: each line is understood by one end and said again by the other.

use thalweg_wire::testkit::{Mark, Side, TranscriptLine, parse_transcript};

use super::*;
use crate::command;

/// A file of `transcripts/`, and its two sides.
pub(super) struct Transcript {
    pub(super) name: &'static str,
    text: &'static str,
    mechanism: fn() -> ClientMechanism,
    client: Announcement<'static>,
    server: SocketType,
}

pub(super) const ALL: &[Transcript] = &[
    Transcript {
        name: "null",
        text: include_str!("../../transcripts/null.txt"),
        mechanism: || ClientMechanism::Null,
        client: Announcement::of(SocketType::Sub),
        server: SocketType::Xpub,
    },
    Transcript {
        name: "null30",
        text: include_str!("../../transcripts/null30.txt"),
        mechanism: || ClientMechanism::Null,
        client: Announcement::of(SocketType::Sub),
        server: SocketType::Xpub,
    },
    Transcript {
        name: "dealer",
        text: include_str!("../../transcripts/dealer.txt"),
        mechanism: || ClientMechanism::Null,
        client: Announcement {
            socket_type: SocketType::Dealer,
            identity: b"dev-1",
            more: &[],
        },
        server: SocketType::Router,
    },
    Transcript {
        name: "plain",
        text: include_str!("../../transcripts/plain.txt"),
        mechanism: plain,
        client: Announcement::of(SocketType::Sub),
        server: SocketType::Xpub,
    },
];

impl Transcript {
    pub(super) fn lines(&self) -> Vec<TranscriptLine> {
        parse_transcript(self.text).unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }

    /// Valid lines of one side.
    pub(super) fn said_by(&self, side: Side) -> Vec<u8> {
        self.lines()
            .into_iter()
            .filter(|l| l.side == side && !matches!(l.mark, Mark::Faulty(_)))
            .flat_map(|l| l.bytes)
            .collect()
    }
}

/// Writes the received events.
fn mirror(event: &Event<'_>, by: &mut Traffic, out: &mut Vec<u8>) {
    match event {
        Event::Message(message) => {
            let mut frames = message.frames().peekable();
            while let Some(body) = frames.next() {
                by.frame(body, frames.peek().is_some(), out);
            }
        }
        Event::Subscribe(prefix) => by.subscribe(prefix, out),
        Event::Cancel(prefix) => by.cancel(prefix, out),
        Event::Ping { ttl, context } => by.ping(*ttl, context, out),
        Event::Pong(context) => by.pong(context, out),
        Event::Consumed => {}
        Event::Unknown { name, data } => command::put(name, &[data], out),
    }
}

/// Both ends of a transcript, which write what the lines say.
struct Conversation {
    client: ClientSide,
    server: ServerSide,
    /// Output of the ends' handshake that no line has consumed yet.
    client_said: Vec<u8>,
    server_said: Vec<u8>,
    announced_by_server: SocketType,
    client_traffic: Option<Traffic>,
    server_traffic: Option<Traffic>,
    /// Octets of lines that end within a message.
    left: Vec<u8>,
}

impl Conversation {
    fn of(transcript: &Transcript) -> Self {
        let mechanism = (transcript.mechanism)();
        let mut conversation = Conversation {
            client: ClientSide::new(Limits::default(), mechanism, &transcript.client),
            server: ServerSide::new(Limits::default(), mechanisms()),
            client_said: Vec::new(),
            server_said: Vec::new(),
            announced_by_server: transcript.server,
            client_traffic: None,
            server_traffic: None,
            left: Vec::new(),
        };
        conversation.client.greet(&mut conversation.client_said);
        conversation.server.greet(&mut conversation.server_said);
        conversation
    }

    fn line(&mut self, line: &TranscriptLine, at: &str) {
        if self.client_traffic.is_some() {
            self.line_of_traffic(line, at);
        } else {
            self.line_of_handshake(line, at);
        }
    }

    fn line_of_handshake(&mut self, line: &TranscriptLine, at: &str) {
        let said = match line.side {
            Side::Client => &mut self.client_said,
            Side::Server => &mut self.server_said,
        };
        let len = line.bytes.len().min(said.len());
        let ours: Vec<u8> = said.drain(..len).collect();
        if line.mark == Mark::Canonical {
            assert_eq!(text(&ours), text(&line.bytes), "{at}");
        }
        let mut rest = &line.bytes[..];
        match line.side {
            Side::Client => {
                let out = &mut self.server_said;
                while let Some((consumed, event)) = self.server.handle_input(rest, out).expect(at) {
                    rest = &rest[consumed..];
                    match event {
                        HandshakeEvent::Login(_) => self.server.welcome(out),
                        HandshakeEvent::Peer(_) => {
                            let ours = Announcement::of(self.announced_by_server);
                            self.server_traffic = self.server.ready(&ours, out);
                        }
                        _ => {}
                    }
                }
            }
            Side::Server => {
                let out = &mut self.client_said;
                while let Some((consumed, _)) = self.client.handle_input(rest, out).expect(at) {
                    rest = &rest[consumed..];
                }
                self.client_traffic = self.client.traffic();
            }
        }
        assert!(rest.is_empty(), "{at}");
    }

    fn line_of_traffic(&mut self, line: &TranscriptLine, at: &str) {
        let client = self.client_traffic.as_mut().expect("behind the handshake");
        let server = self.server_traffic.as_mut().expect("behind the handshake");
        let (from, to) = match line.side {
            Side::Client => (client, server),
            Side::Server => (server, client),
        };
        let mut gathered = Gathered::default();
        if let Mark::Faulty(clause) = &line.mark {
            let fault = to.handle_input(&line.bytes, &mut gathered).expect_err(at);
            assert_eq!(fault.clause, clause, "{at}");
            return;
        }
        self.left.extend_from_slice(&line.bytes);
        let mut again = Vec::new();
        while let Some((consumed, event)) = to.handle_input(&self.left, &mut gathered).expect(at) {
            mirror(&event, from, &mut again);
            self.left.drain(..consumed);
        }
        if line.mark == Mark::Canonical {
            assert_eq!(text(&again), text(&line.bytes), "{at}");
        }
    }
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

#[test]
fn every_line_of_every_transcript_is_understood_and_said_again_octet_for_octet() {
    for transcript in ALL {
        let mut conversation = Conversation::of(transcript);
        for line in transcript.lines() {
            let at = format!("transcripts/{}.txt:{}", transcript.name, line.number);
            conversation.line(&line, &at);
        }
        assert!(conversation.client_traffic.is_some() && conversation.left.is_empty());
    }
}
