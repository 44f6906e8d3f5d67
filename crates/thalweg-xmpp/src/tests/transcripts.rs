//! Streams of specifications, and others, against both ends: each line is understood by one end and, where it says so, written
//! by the other.

use thalweg_wire::testkit::{Mark, Side, TranscriptLine, parse_transcript};

use super::*;

/// A file of `transcripts/`, and its two sides.
pub(super) struct Transcript {
    pub(super) name: &'static str,
    text: &'static str,
    starttls: StartTls,
    framing: Framing,
    mechanisms: &'static [Mechanism],
    tls: TlsPolicy,
    credentials: fn() -> Credentials,
}

/// That of the client of RFC 6120, "oMsTAAwAAAAMAAAANP0TAAAAAABPU0AA".
const NONCE: [u8; 24] = [
    0xA0, 0xCB, 0x13, 0x00, 0x0C, 0x00, 0x00, 0x00, 0x0C, 0x00, 0x00, 0x00, 0x34, 0xFD, 0x13, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x4F, 0x53, 0x40, 0x00,
];

fn password() -> Credentials {
    Credentials::Password {
        user: "juliet".into(),
        password: "r0m30myr0m30".into(),
    }
}

pub(super) const ALL: &[Transcript] = &[
    Transcript {
        name: "rfc6120",
        text: include_str!("../../transcripts/rfc6120.txt"),
        starttls: StartTls::Required,
        framing: Framing::Document,
        mechanisms: &[Mechanism::Plain],
        tls: TlsPolicy::Required,
        credentials: password,
    },
    Transcript {
        name: "management",
        text: include_str!("../../transcripts/management.txt"),
        starttls: StartTls::Off,
        framing: Framing::Document,
        mechanisms: &[Mechanism::Plain],
        tls: TlsPolicy::Direct,
        credentials: password,
    },
    Transcript {
        name: "websocket",
        text: include_str!("../../transcripts/websocket.txt"),
        starttls: StartTls::Off,
        framing: Framing::Elements,
        mechanisms: &[Mechanism::Anonymous, Mechanism::Plain],
        tls: TlsPolicy::IfOffered,
        credentials: || Credentials::Anonymous,
    },
];

impl Transcript {
    pub(super) fn lines(&self) -> Vec<TranscriptLine> {
        let lines = parse_transcript(self.text);
        let mut lines = lines.unwrap_or_else(|e| panic!("{}: {e}", self.name));
        if self.framing == Framing::Elements {
            lines
                .iter_mut()
                .for_each(|line| line.bytes.push(MESSAGE_END));
        }
        lines
    }

    /// Valid lines of one side, up to this line.
    pub(super) fn sent_by(&self, side: Side, before: usize) -> Vec<u8> {
        self.lines()
            .into_iter()
            .filter(|l| l.side == side && !matches!(l.mark, Mark::Faulty(_)) && l.number < before)
            .flat_map(|l| l.bytes)
            .collect()
    }

    pub(super) fn server(&self) -> ServerSettings {
        ServerSettings {
            limits: limits(),
            framing: self.framing,
            secured: self.tls == TlsPolicy::Direct,
            starttls: self.starttls,
            mechanisms: self.mechanisms.iter().copied().collect(),
            management: self.name == "management",
        }
    }

    pub(super) fn client(&self) -> ClientSettings {
        ClientSettings {
            limits: limits(),
            framing: self.framing,
            domain: "im.example.com".into(),
            tls: self.tls,
            credentials: (self.credentials)(),
            resource: Some("balcony".into()),
            nonce: NONCE,
            management: self.name == "management",
            acknowledges: true,
        }
    }
}

/// Writes a stanza again.
fn mirror(stanza: &Stanza<'_>, put: impl FnOnce(StanzaKind, &[(&str, &str)], &str)) {
    let attributes: Vec<(String, String)> = stanza
        .element
        .attributes()
        .map(|(name, namespace, value)| {
            let prefix = if namespace == ns::XML { "xml:" } else { "" };
            (format!("{prefix}{name}"), value.into_owned())
        })
        .collect();
    let attributes: Vec<(&str, &str)> = attributes.iter().map(|(n, v)| (&**n, &**v)).collect();
    put(stanza.kind, &attributes, stanza.element.content());
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// Every line goes to the other end. A canonical line equals the output of its own end by then, after all its input.
#[test]
fn every_line_is_understood_and_written_again() {
    for transcript in ALL {
        let mut client = ClientSide::new(transcript.client());
        let mut server = ServerSide::new(transcript.server());
        let (mut by_client, mut by_server) = (Vec::new(), Vec::new());
        let mut tree = Tree::default();
        client.open(&mut by_client);
        let lines = transcript.lines();
        for (index, line) in lines.iter().enumerate() {
            if matches!(line.mark, Mark::Faulty(_)) {
                continue;
            }
            let at = format!("transcripts/{}.txt:{}", transcript.name, line.number);
            let own = match line.side {
                Side::Client => &mut by_client,
                Side::Server => &mut by_server,
            };
            // A line that our end would not write is for the reader only.
            let is_ours = own.starts_with(&line.bytes);
            if is_ours {
                own.drain(..line.bytes.len());
            } else if line.mark == Mark::Valid {
                // Our end's output in its place ends where its next canonical line begins.
                let next = lines[index + 1..]
                    .iter()
                    .find(|next| next.side == line.side && next.mark == Mark::Canonical);
                let until = next.and_then(|next| {
                    own.windows(next.bytes.len())
                        .position(|window| window == next.bytes)
                });
                own.drain(..until.unwrap_or(own.len()));
            }
            let mut again = Vec::new();
            let mut rest = &line.bytes[..];
            match line.side {
                Side::Client => {
                    while let Some((len, event)) = server
                        .handle_input(rest, &mut tree, &mut by_server)
                        .expect(&at)
                    {
                        rest = &rest[len..];
                        serve(&mut server, &event, &mut by_server);
                        if let ServerEvent::Closed = event {
                            client.close(&mut again);
                        }
                        if let ServerEvent::Stanza(stanza) = event {
                            mirror(&stanza, |kind, attributes, content| {
                                client.put(kind, attributes, &mut again, |out| {
                                    out.extend_from_slice(content.as_bytes());
                                });
                            });
                        }
                    }
                }
                Side::Server => {
                    while let Some((len, event)) = client
                        .handle_input(rest, &mut tree, &mut by_client)
                        .expect(&at)
                    {
                        rest = &rest[len..];
                        if let ClientEvent::StartTls = event {
                            client.secured(&mut by_client);
                        }
                        if let ClientEvent::Stanza(stanza) = event {
                            mirror(&stanza, |kind, attributes, content| {
                                server.put(kind, attributes, &mut again, |out| {
                                    out.extend_from_slice(content.as_bytes());
                                });
                            });
                        }
                    }
                }
            }
            assert!(rest.is_empty(), "{at}");
            if line.mark == Mark::Canonical && !is_ours {
                let own = if line.side == Side::Client {
                    &by_client
                } else {
                    &by_server
                };
                assert_eq!(text(&again), text(&line.bytes), "{at}: {}", text(own));
            }
        }
    }
}

#[test]
fn every_faulty_line_breaks_the_clause_that_it_names() {
    for transcript in ALL {
        for line in transcript.lines() {
            let Mark::Faulty(clause) = &line.mark else {
                continue;
            };
            let at = format!("transcripts/{}.txt:{}", transcript.name, line.number);
            let mut input = transcript.sent_by(line.side, line.number);
            if transcript.name == "websocket" && clause.ends_with("4.9.3.10") {
                input.clear();
            }
            input.extend_from_slice(&line.bytes);
            input.extend_from_slice(b"</stream:stream>");
            let each: Vec<usize> = (1..=input.len()).collect();
            let (events, out) = server_hears(&transcript.server(), &input, &each);
            let last = events.last().expect(&at);
            assert!(last.contains(&format!("[{clause}]")), "{at}: {last}");
            let fault = PeerFault::ALL
                .iter()
                .find(|fault| fault.to_string() == *last);
            let condition = fault.expect(&at).condition;
            assert!(
                text(&out).contains(&format!("<{condition} xmlns")),
                "{at}: {}",
                text(&out)
            );
        }
    }
}
