//! What each byte of a frame is there for, without I/O: payload, protocol, headers, repetition, acknowledgement, keep-alive.
//!
//! It looks at frames where they are *sent*, before anything is lost. There new bytes of a TCP connection come in order, so
//! that whatever is below the highest is a repetition.

use std::collections::{BTreeMap, BTreeSet};

use super::Wire;
use super::speech::Speech;

/// Bytes and frames by what they are there for. Every byte is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// What was published, in data frames that were sent for the first time.
    pub payload: u64,
    /// What MQTT, CoAP, AMQP or STOMP say about it, in the same frames.
    pub protocol: u64,
    /// Headers of Ethernet, IP and TCP or UDP of the same frames.
    pub transport: u64,
    pub data_frames: u64,
    /// Frames that only acknowledge: TCP without data, CoAP's empty acknowledgements.
    pub acknowledgements: Wire,
    /// Frames with nothing new in them.
    pub repeated: Wire,
    /// Frames with pings, heartbeats and their answers only.
    pub keep_alive: Wire,
    /// Frames that begin and end connections.
    pub connection: Wire,
    pub other: Wire,
}

impl Split {
    pub fn total(&self) -> Wire {
        let data = Wire {
            bytes: self.payload + self.protocol + self.transport,
            frames: self.data_frames,
        };
        data + self.acknowledgements
            + self.repeated
            + self.keep_alive
            + self.connection
            + self.other
    }

    pub fn with(&self, other: &Split) -> Split {
        Split {
            payload: self.payload + other.payload,
            protocol: self.protocol + other.protocol,
            transport: self.transport + other.transport,
            data_frames: self.data_frames + other.data_frames,
            acknowledgements: self.acknowledgements + other.acknowledgements,
            repeated: self.repeated + other.repeated,
            keep_alive: self.keep_alive + other.keep_alive,
            connection: self.connection + other.connection,
            other: self.other + other.other,
        }
    }
}

/// Who has sent a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sender {
    Client,
    Broker,
}

/// What the connection of one client's port has carried. UDP has none; there a port is as good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Talk {
    pub up: Split,
    pub down: Split,
}

/// What was sent, by the client's port (0: without ports).
pub type Talks = BTreeMap<u16, Talk>;

/// What both sides have sent.
pub fn sum(talks: &Talks) -> Split {
    talks.values().fold(Split::default(), |sum, talk| {
        sum.with(&talk.up).with(&talk.down)
    })
}

/// The part of [`sum`] that belongs to clients who published something.
pub fn publishing(talks: &Talks) -> Split {
    let publishers = talks.values().filter(|talk| talk.up.payload > 0);
    publishers.fold(Split::default(), |sum, talk| {
        sum.with(&talk.up).with(&talk.down)
    })
}

/// One direction of a connection.
#[derive(Debug)]
struct Direction {
    /// The next new byte of TCP.
    next: Option<u32>,
    speech: Speech,
    /// Message identifiers of CoAP, with what they were about.
    sent: BTreeSet<Vec<u8>>,
}

#[derive(Debug, Default)]
pub struct Sorter {
    lines: BTreeMap<(Sender, u16), Direction>,
    /// Whether a datagram in fragments was a repetition, by who sent it and its identifier.
    fragments: BTreeMap<(Sender, u16), (u16, bool)>,
    /// Of which version a client's port speaks MQTT.
    versions: BTreeMap<u16, u8>,
}

impl Sorter {
    /// Takes the IP packet of a frame of `length` bytes, and adds it to the talk that it belongs to.
    pub fn take(&mut self, sender: Sender, packet: &[u8], length: u64, talks: &mut Talks) {
        let sorted = self.sorted(sender, packet, length);
        let (port, split) = sorted.unwrap_or((
            0,
            Split {
                other: Wire {
                    bytes: length,
                    frames: 1,
                },
                ..Split::default()
            },
        ));
        let talk = talks.entry(port).or_default();
        match sender {
            Sender::Client => talk.up = talk.up.with(&split),
            Sender::Broker => talk.down = talk.down.with(&split),
        }
    }

    fn sorted(&mut self, sender: Sender, packet: &[u8], length: u64) -> Option<(u16, Split)> {
        let first = *packet.first()?;
        let header = usize::from(first & 15) * 4;
        let total = usize::from(two(packet, 2)?);
        let (rest, protocol) = (packet.get(header..total)?, *packet.get(9)?);
        let (fragment, identifier) = (two(packet, 6)?, two(packet, 4)?);
        let (offset, has_more) = (fragment & 0x1fff, fragment & 0x2000 != 0);
        let wire = Wire {
            bytes: length,
            frames: 1,
        };
        match (first >> 4, protocol) {
            (4, UDP) if offset > 0 => {
                let &(port, is_repeated) = self.fragments.get(&(sender, identifier))?;
                let headers = length - rest.len() as u64;
                Some((
                    port,
                    match is_repeated {
                        true => Split {
                            repeated: wire,
                            ..Split::default()
                        },
                        // Only a payload is as long as that.
                        false => Split {
                            payload: rest.len() as u64,
                            transport: headers,
                            data_frames: 1,
                            ..Split::default()
                        },
                    },
                ))
            }
            (4, UDP) => {
                let (from, to) = (two(rest, 0)?, two(rest, 2)?);
                let port = if sender == Sender::Client { from } else { to };
                let split = self.datagram(sender, port, rest.get(8..)?, wire);
                if has_more {
                    self.fragments
                        .insert((sender, identifier), (port, split.repeated.frames > 0));
                }
                Some((port, split))
            }
            (4, TCP) => {
                let (from, to) = (two(rest, 0)?, two(rest, 2)?);
                let (client, broker) = if sender == Sender::Client {
                    (from, to)
                } else {
                    (to, from)
                };
                Some((client, self.segment(sender, client, broker, rest, wire)?))
            }
            _ => None,
        }
    }

    fn segment(
        &mut self,
        sender: Sender,
        client: u16,
        broker: u16,
        segment: &[u8],
        wire: Wire,
    ) -> Option<Split> {
        let sequence = u32::from_be_bytes(*segment.get(4..8)?.first_chunk()?);
        let header = usize::from(*segment.get(12)? >> 4) * 4;
        let flags = *segment.get(13)?;
        let data = segment.get(header..)?;
        if flags & SYN != 0 {
            // A port may be used again.
            self.lines.remove(&(sender, client));
            self.line(sender, client, broker).next = Some(sequence.wrapping_add(1));
        }
        if flags & (SYN | FIN | RST) != 0 && data.is_empty() {
            return Some(Split {
                connection: wire,
                ..Split::default()
            });
        }
        if data.is_empty() {
            return Some(Split {
                acknowledgements: wire,
                ..Split::default()
            });
        }
        let line = self.line(sender, client, broker);
        let next = *line.next.get_or_insert(sequence);
        let end = sequence.wrapping_add(data.len() as u32);
        // Serial numbers: less than half of the circle ahead is new (RFC 1982).
        let new = (end.wrapping_sub(next) as i32).clamp(0, data.len() as i32) as usize;
        if new == 0 {
            return Some(Split {
                repeated: wire,
                ..Split::default()
            });
        }
        line.next = Some(end);
        let data = data.get(data.len() - new..)?;
        let said = line.speech.hear(data);
        if let Some(version) = said.version {
            self.versions.insert(client, version);
            self.line(Sender::Broker, client, broker)
                .speech
                .set_version(version);
        }
        if said.keep_alive == data.len() as u64 {
            return Some(Split {
                keep_alive: wire,
                ..Split::default()
            });
        }
        // What is sent again beside something new is rare, and counts as its header.
        let app = data.len() as u64;
        Some(Split {
            payload: said.payload,
            protocol: app - said.payload,
            transport: wire.bytes - app,
            data_frames: 1,
            ..Split::default()
        })
    }

    fn datagram(&mut self, sender: Sender, port: u16, message: &[u8], wire: Wire) -> Split {
        let split = Split::default();
        let (Some(&first), Some(&code)) = (message.first(), message.get(1)) else {
            return Split {
                other: wire,
                ..split
            };
        };
        // RFC 7252 3: version, type, length of the token; an empty message has code 0.00.
        let kind = (first >> 4) & 3;
        if code == 0 {
            return match kind {
                ACK => Split {
                    acknowledgements: wire,
                    ..split
                },
                // A ping, and the reset that answers it.
                _ => Split {
                    keep_alive: wire,
                    ..split
                },
            };
        }
        let line = self.line(sender, port, COAP);
        // The same message has the same identifier within its lifetime (4.4), and says the same.
        if !line.sent.insert(
            message
                .get(..message.len().min(SAME))
                .unwrap_or_default()
                .to_vec(),
        ) {
            return Split {
                repeated: wire,
                ..split
            };
        }
        let payload = coap_payload(message).unwrap_or(0) as u64;
        let app = message.len() as u64;
        Split {
            payload,
            protocol: app - payload,
            transport: wire.bytes - app,
            data_frames: 1,
            ..split
        }
    }

    fn line(&mut self, sender: Sender, client: u16, broker: u16) -> &mut Direction {
        let version = self.versions.get(&client).copied();
        self.lines
            .entry((sender, client))
            .or_insert_with(|| Direction {
                next: None,
                speech: Speech::at(broker, version),
                sent: BTreeSet::new(),
            })
    }
}

/// Bytes behind the marker of a CoAP message.
fn coap_payload(message: &[u8]) -> Option<usize> {
    let mut rest = message.get(4 + usize::from(message.first()? & 15)..)?;
    while let Some((&first, mut more)) = rest.split_first() {
        if first == 0xff {
            return Some(more.len());
        }
        // RFC 7252 3.1: 13 and 14 announce one byte and two.
        let mut length = 0;
        for (nibble, is_length) in [(first >> 4, false), (first & 15, true)] {
            let value = match nibble {
                13 => usize::from(*more.first()?) + 13,
                14 => usize::from(two(more, 0)?) + 269,
                small => usize::from(small),
            };
            more = more.get(
                match nibble {
                    13 => 1,
                    14 => 2,
                    _ => 0,
                }..,
            )?;
            if is_length {
                length = value;
            }
        }
        rest = more.get(length..)?;
    }
    Some(0)
}

fn two(bytes: &[u8], at: usize) -> Option<u16> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|two| u16::from_be_bytes(*two))
}

const TCP: u8 = 6;
const UDP: u8 = 17;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 2;
const COAP: u16 = 5683;
/// So much of a CoAP message is kept to know it again: identifier, token and options.
const SAME: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(protocol: u8, fragment: u16, rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0];
        packet.extend_from_slice(&(20 + rest.len() as u16).to_be_bytes());
        packet.extend_from_slice(&[0, 7]);
        packet.extend_from_slice(&fragment.to_be_bytes());
        packet.extend_from_slice(&[64, protocol, 0, 0, 10, 80, 1, 2, 10, 80, 2, 2]);
        packet.extend_from_slice(rest);
        packet
    }

    fn tcp(from: u16, to: u16, sequence: u32, flags: u8, data: &[u8]) -> Vec<u8> {
        let mut segment = [from.to_be_bytes(), to.to_be_bytes()].concat();
        segment.extend_from_slice(&sequence.to_be_bytes());
        segment.extend_from_slice(&[0, 0, 0, 0, 0x80, flags]);
        segment.extend_from_slice(&[0; 18]);
        segment.extend_from_slice(data);
        ip(TCP, 0x4000, &segment)
    }

    fn udp(from: u16, to: u16, data: &[u8]) -> Vec<u8> {
        let mut datagram = [from.to_be_bytes(), to.to_be_bytes(), [0, 0], [0, 0]].concat();
        datagram.extend_from_slice(data);
        ip(UDP, 0, &datagram)
    }

    struct Bench {
        sorter: Sorter,
        talks: Talks,
    }

    impl Bench {
        fn new() -> Bench {
            Bench {
                sorter: Sorter::default(),
                talks: Talks::new(),
            }
        }

        fn up(&mut self, packet: &[u8]) -> Split {
            self.sorter.take(
                Sender::Client,
                packet,
                packet.len() as u64 + 14,
                &mut self.talks,
            );
            sum(&self.talks)
        }

        fn down(&mut self, packet: &[u8]) -> Split {
            self.sorter.take(
                Sender::Broker,
                packet,
                packet.len() as u64 + 14,
                &mut self.talks,
            );
            sum(&self.talks)
        }
    }

    fn publish(payload: usize) -> Vec<u8> {
        let mut packet = vec![0x32, (4 + 9 + payload) as u8, 0, 9];
        packet.extend_from_slice(b"cal/frame\0\x01");
        packet.resize(packet.len() + payload, b'x');
        packet
    }

    #[test]
    fn a_publish_with_qos_1_is_a_frame_of_141_one_of_70_and_an_acknowledgement() {
        let mut bench = Bench::new();
        bench.up(&tcp(40_000, 1883, 99, SYN, b""));
        bench.down(&tcp(1883, 40_000, 499, SYN, b""));
        bench.up(&tcp(40_000, 1883, 100, 16, &publish(60)));
        bench.down(&tcp(1883, 40_000, 500, 16, &[0x40, 2, 0, 1]));
        let all = bench.up(&tcp(40_000, 1883, 175, 16, b""));
        assert_eq!(
            all.connection,
            Wire {
                bytes: 132,
                frames: 2
            }
        );
        assert_eq!(
            (all.payload, all.protocol, all.transport, all.data_frames),
            (60, 15 + 4, 132, 2)
        );
        assert_eq!(
            all.acknowledgements,
            Wire {
                bytes: 66,
                frames: 1
            }
        );
        assert_eq!(all.total().bytes, 132 + 277);
        assert_eq!(publishing(&bench.talks), all);
    }

    #[test]
    fn what_is_sent_again_is_a_repetition_also_where_numbers_begin_anew() {
        let mut bench = Bench::new();
        let start = u32::MAX - 10;
        bench.up(&tcp(40_000, 1883, start, 16, &publish(60)));
        bench.up(&tcp(40_000, 1883, start.wrapping_add(75), 16, &publish(60)));
        let all = bench.up(&tcp(40_000, 1883, start, 16, &publish(60)));
        assert_eq!(
            (all.payload, all.data_frames, all.repeated),
            (
                120,
                2,
                Wire {
                    bytes: 141,
                    frames: 1
                }
            )
        );
    }

    #[test]
    fn messages_may_begin_and_end_anywhere_in_segments() {
        let stream = [publish(60), publish(100), vec![0xc0, 0], publish(1)].concat();
        for step in [1, 2, 3, 7, 50, 1000] {
            let mut bench = Bench::new();
            let mut sequence = 5;
            for part in stream.chunks(step) {
                bench.up(&tcp(40_000, 1883, sequence, 16, part));
                sequence += part.len() as u32;
            }
            let all = sum(&bench.talks);
            assert_eq!(all.payload, 161, "{step}");
            assert_eq!(
                all.payload + all.protocol + all.keep_alive.bytes % 66,
                stream.len() as u64,
                "{step}"
            );
        }
    }

    #[test]
    fn pings_alone_in_their_frames_are_keep_alive() {
        let mut bench = Bench::new();
        bench.up(&tcp(40_000, 1883, 1, 16, &[0xc0, 0]));
        let all = bench.down(&tcp(1883, 40_000, 1, 16, &[0xd0, 0]));
        assert_eq!(
            (all.keep_alive, all.data_frames),
            (
                Wire {
                    bytes: 136,
                    frames: 2
                },
                0
            )
        );
    }

    #[test]
    fn mqtt_5_has_properties_between_topic_and_payload() {
        let mut bench = Bench::new();
        // CONNECT, version 5; the broker's side of the connection is the same version.
        bench.up(&tcp(
            40_000,
            1883,
            1,
            16,
            b"\x10\x0d\0\x04MQTT\x05\x02\0\x0a\0\0\0",
        ));
        let message = b"\x30\x0c\0\x01t\x03\x01\x01\x01hello";
        let mut longer = message.to_vec();
        longer[1] = 12;
        bench.down(&tcp(1883, 40_000, 1, 16, &longer));
        assert_eq!(sum(&bench.talks).payload, 5);
    }

    #[test]
    fn coap_repeats_acknowledges_and_fragments() {
        let mut bench = Bench::new();
        let mut put = b"\x41\x03\x12\x34t\xb1a\xff".to_vec();
        put.resize(put.len() + 60, b'x');
        bench.up(&udp(50_000, 5683, &put));
        bench.up(&udp(50_000, 5683, &put));
        bench.down(&udp(5683, 50_000, b"\x61\x44\x12\x34t"));
        let all = bench.down(&udp(5683, 50_000, b"\x60\0\x12\x34"));
        assert_eq!(
            (all.payload, all.protocol, all.transport, all.data_frames),
            (60, 8 + 5, 84, 2)
        );
        assert_eq!(
            all.repeated,
            Wire {
                bytes: 110,
                frames: 1
            }
        );
        assert_eq!(
            all.acknowledgements,
            Wire {
                bytes: 46,
                frames: 1
            }
        );
        // Another identifier is another message, in two fragments.
        put[3] = 0x35;
        let datagram = udp(50_000, 5683, &put);
        let (first, second) = datagram.split_at(60);
        let mut first = first.to_vec();
        first[2..4].copy_from_slice(&60_u16.to_be_bytes());
        first[6] = 0x20;
        bench.up(&first);
        let all = bench.up(&ip(UDP, 5, second));
        assert_eq!((all.payload, all.data_frames), (120, 4));
    }

    #[test]
    fn options_of_any_length_are_passed() {
        assert_eq!(coap_payload(b"\x40\x03\0\x01\xff12"), Some(2));
        let mut message = b"\x40\x03\0\x01\xbd\x01".to_vec();
        message.resize(message.len() + 14, b'a');
        message.extend_from_slice(b"\xe1\0\0b\xff123");
        assert_eq!(coap_payload(&message), Some(3));
        assert_eq!(coap_payload(b"\x40\x03\0\x01\xb1"), None);
    }

    #[test]
    fn what_is_no_ip_is_something_else() {
        let mut bench = Bench::new();
        for wrong in [&b""[..], b"\x45", &[0x60; 60], &ip(1, 0, b"ping")] {
            bench.up(wrong);
        }
        assert_eq!(sum(&bench.talks).other.frames, 4);
    }
}
