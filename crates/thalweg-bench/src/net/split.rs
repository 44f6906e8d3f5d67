//! What each byte of a frame is there for, without I/O: payload, protocol, headers, repetition, acknowledgement, keep-alive.
//!
//! It looks at frames where they are *sent*, before anything is lost. There new bytes of a TCP connection come in order, so
//! that whatever is below the highest is a repetition.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Add;

use thalweg_coap::Message;

use super::Wire;
use super::speech::Speech;

/// What a frame is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Something new, sent for the first time.
    Data,
    /// It only acknowledges: TCP without data, CoAP's empty acknowledgements.
    Acknowledgement,
    /// There is nothing new in it.
    Repetition,
    /// Pings, heartbeats and their answers only.
    KeepAlive,
    /// It begins or ends a connection.
    Connection,
    Other,
}

/// Bytes and frames by what they are there for. Every byte is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// What was published, in frames with data.
    pub payload: u64,
    /// What MQTT, CoAP, AMQP or STOMP say about it, in the same frames.
    pub protocol: u64,
    /// In the order of [`Cause`].
    frames: [Wire; 6],
}

impl Split {
    pub fn of(&self, cause: Cause) -> Wire {
        self.frames[cause as usize]
    }

    /// Headers of Ethernet, IP and TCP or UDP of frames with data.
    pub fn transport(&self) -> u64 {
        self.of(Cause::Data).bytes - self.payload - self.protocol
    }

    pub fn total(&self) -> Wire {
        self.frames
            .iter()
            .fold(Wire::default(), |sum, wire| sum + *wire)
    }
}

impl Add for Split {
    type Output = Split;
    fn add(mut self, other: Split) -> Split {
        self.payload += other.payload;
        self.protocol += other.protocol;
        for (frames, more) in self.frames.iter_mut().zip(other.frames) {
            *frames = *frames + more;
        }
        self
    }
}

/// Who has sent a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sender {
    Client,
    Broker,
}

/// What the connection of each client's port has carried, by sender (port 0: without ports). UDP has no connection; there a
/// port is as good.
pub type Talks = BTreeMap<u16, [Split; 2]>;

/// What both sides have sent.
pub fn sum(talks: &Talks) -> Split {
    talks
        .values()
        .flatten()
        .fold(Split::default(), |sum, split| sum + *split)
}

/// The part of [`sum`] that belongs to clients who published something.
pub fn publishing(talks: &Talks) -> Split {
    let publishers = talks.values().filter(|[up, _]| up.payload > 0);
    publishers
        .flatten()
        .fold(Split::default(), |sum, split| sum + *split)
}

/// A frame as it was sorted: its cause, and bytes of payload and of the protocol in it.
type Sorted = (Cause, u64, u64);

fn fresh(payload: u64, all: usize) -> Sorted {
    (Cause::Data, payload, all as u64 - payload)
}

fn only(cause: Cause) -> Sorted {
    (cause, 0, 0)
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
        let sorted = self.sorted(sender, packet);
        let (port, (cause, payload, protocol)) = sorted.unwrap_or((0, only(Cause::Other)));
        let split = &mut talks.entry(port).or_default()[sender as usize];
        split.payload += payload;
        split.protocol += protocol;
        let frames = &mut split.frames[cause as usize];
        frames.bytes += length;
        frames.frames += 1;
    }

    fn sorted(&mut self, sender: Sender, packet: &[u8]) -> Option<(u16, Sorted)> {
        let first = *packet.first()?;
        let header = usize::from(first & 15) * 4;
        let total = usize::from(two(packet, 2)?);
        let (rest, protocol) = (packet.get(header..total)?, *packet.get(9)?);
        let (fragment, identifier) = (two(packet, 6)?, two(packet, 4)?);
        let (offset, has_more) = (fragment & 0x1fff, fragment & 0x2000 != 0);
        if (first >> 4, protocol) == (4, UDP) && offset > 0 {
            let &(port, is_repeated) = self.fragments.get(&(sender, identifier))?;
            return Some(match is_repeated {
                true => (port, only(Cause::Repetition)),
                // Only a payload is as long as that.
                false => (port, fresh(rest.len() as u64, rest.len())),
            });
        }
        let (from, to) = (two(rest, 0)?, two(rest, 2)?);
        let (client, broker) = match sender {
            Sender::Client => (from, to),
            Sender::Broker => (to, from),
        };
        let sorted = match (first >> 4, protocol) {
            (4, UDP) => {
                let sorted = self.datagram(sender, client, rest.get(8..)?);
                if has_more {
                    let is_repeated = sorted.0 == Cause::Repetition;
                    self.fragments
                        .insert((sender, identifier), (client, is_repeated));
                }
                sorted
            }
            (4, TCP) => self.segment(sender, client, broker, rest)?,
            _ => return None,
        };
        Some((client, sorted))
    }

    fn segment(
        &mut self,
        sender: Sender,
        client: u16,
        broker: u16,
        segment: &[u8],
    ) -> Option<Sorted> {
        let sequence = u32::from_be_bytes(*segment.get(4..8)?.first_chunk()?);
        let header = usize::from(*segment.get(12)? >> 4) * 4;
        let flags = *segment.get(13)?;
        let data = segment.get(header..)?;
        if flags & SYN != 0 {
            // A port may be used again.
            self.lines.remove(&(sender, client));
            self.line(sender, client, broker).next = Some(sequence.wrapping_add(1));
        }
        if data.is_empty() {
            return Some(match flags & (SYN | FIN | RST) {
                0 => only(Cause::Acknowledgement),
                _ => only(Cause::Connection),
            });
        }
        let line = self.line(sender, client, broker);
        let next = *line.next.get_or_insert(sequence);
        let end = sequence.wrapping_add(data.len() as u32);
        // Serial numbers: less than half of the circle ahead is new (RFC 1982).
        let new = (end.wrapping_sub(next) as i32).clamp(0, data.len() as i32) as usize;
        if new == 0 {
            return Some(only(Cause::Repetition));
        }
        line.next = Some(end);
        let data = data.get(data.len() - new..)?;
        let said = line.speech.hear(data);
        if let Some(version) = said.version {
            self.versions.insert(client, version);
            let other = self.line(Sender::Broker, client, broker);
            other.speech.version = version;
        }
        // What is sent again beside something new is rare, and counts as its header.
        Some(match said.keep_alive == data.len() as u64 {
            true => only(Cause::KeepAlive),
            false => fresh(said.payload, data.len()),
        })
    }

    fn datagram(&mut self, sender: Sender, port: u16, message: &[u8]) -> Sorted {
        let (Some(&first), Some(&code)) = (message.first(), message.get(1)) else {
            return only(Cause::Other);
        };
        // RFC 7252 3: version, type, length of the token; an empty message has code 0.00.
        match ((first >> 4) & 3, code) {
            (ACK, 0) => return only(Cause::Acknowledgement),
            // A ping, and the reset that answers it.
            (_, 0) => return only(Cause::KeepAlive),
            _ => {}
        }
        // The same message has the same identifier within its lifetime (4.4), and says the same.
        let same = message.get(..message.len().min(SAME)).unwrap_or_default();
        if !self.line(sender, port, COAP).sent.insert(same.to_vec()) {
            return only(Cause::Repetition);
        }
        let payload = Message::decode(message).map_or(0, |it| it.payload.len());
        fresh(payload as u64, message.len())
    }

    fn line(&mut self, sender: Sender, client: u16, broker: u16) -> &mut Direction {
        let version = self.versions.get(&client).copied();
        let line = self.lines.entry((sender, client));
        line.or_insert_with(|| Direction {
            next: None,
            speech: Speech::at(broker, version),
            sent: BTreeSet::new(),
        })
    }
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

    #[derive(Default)]
    struct Bench {
        sorter: Sorter,
        talks: Talks,
    }

    impl Bench {
        fn sent(&mut self, sender: Sender, packet: &[u8]) -> Split {
            let length = packet.len() as u64 + 14;
            self.sorter.take(sender, packet, length, &mut self.talks);
            sum(&self.talks)
        }

        fn up(&mut self, packet: &[u8]) -> Split {
            self.sent(Sender::Client, packet)
        }

        fn down(&mut self, packet: &[u8]) -> Split {
            self.sent(Sender::Broker, packet)
        }
    }

    /// What came of one cause, as a pair.
    fn of(split: &Split, cause: Cause) -> (u64, u64) {
        let Wire { bytes, frames } = split.of(cause);
        (bytes, frames)
    }

    fn publish(payload: usize) -> Vec<u8> {
        let mut packet = vec![0x32, (4 + 9 + payload) as u8, 0, 9];
        packet.extend_from_slice(b"cal/frame\0\x01");
        packet.resize(packet.len() + payload, b'x');
        packet
    }

    #[test]
    fn a_publish_with_qos_1_is_a_frame_of_141_one_of_70_and_an_acknowledgement() {
        let mut bench = Bench::default();
        bench.up(&tcp(40_000, 1883, 99, SYN, b""));
        bench.down(&tcp(1883, 40_000, 499, SYN, b""));
        bench.up(&tcp(40_000, 1883, 100, 16, &publish(60)));
        bench.down(&tcp(1883, 40_000, 500, 16, &[0x40, 2, 0, 1]));
        let all = bench.up(&tcp(40_000, 1883, 175, 16, b""));
        assert_eq!(of(&all, Cause::Connection), (132, 2));
        assert_eq!(
            (all.payload, all.protocol, all.transport()),
            (60, 15 + 4, 132)
        );
        assert_eq!(of(&all, Cause::Data), (211, 2));
        assert_eq!(of(&all, Cause::Acknowledgement), (66, 1));
        assert_eq!(all.total().bytes, 132 + 277);
        assert_eq!(publishing(&bench.talks), all);
    }

    #[test]
    fn what_is_sent_again_is_a_repetition_also_where_numbers_begin_anew() {
        let mut bench = Bench::default();
        let start = u32::MAX - 10;
        bench.up(&tcp(40_000, 1883, start, 16, &publish(60)));
        bench.up(&tcp(40_000, 1883, start.wrapping_add(75), 16, &publish(60)));
        let all = bench.up(&tcp(40_000, 1883, start, 16, &publish(60)));
        assert_eq!((all.payload, all.of(Cause::Data).frames), (120, 2));
        assert_eq!(of(&all, Cause::Repetition), (141, 1));
    }

    #[test]
    fn pings_alone_in_their_frames_are_keep_alive() {
        let mut bench = Bench::default();
        bench.up(&tcp(40_000, 1883, 1, 16, &[0xc0, 0]));
        let all = bench.down(&tcp(1883, 40_000, 1, 16, &[0xd0, 0]));
        assert_eq!(of(&all, Cause::KeepAlive), (136, 2));
        assert_eq!(of(&all, Cause::Data), (0, 0));
    }

    #[test]
    fn mqtt_5_has_properties_between_topic_and_payload() {
        let mut bench = Bench::default();
        // CONNECT, version 5; the broker's side of the connection is the same version.
        let connect = b"\x10\x0d\0\x04MQTT\x05\x02\0\x0a\0\0\0";
        bench.up(&tcp(40_000, 1883, 1, 16, connect));
        let message = b"\x30\x0c\0\x01t\x03\x01\x01\x01hello";
        let mut longer = message.to_vec();
        longer[1] = 12;
        bench.down(&tcp(1883, 40_000, 1, 16, &longer));
        assert_eq!(sum(&bench.talks).payload, 5);
    }

    #[test]
    fn coap_repeats_acknowledges_and_fragments() {
        let mut bench = Bench::default();
        let mut put = b"\x41\x03\x12\x34t\xb1a\xff".to_vec();
        put.resize(put.len() + 60, b'x');
        bench.up(&udp(50_000, 5683, &put));
        bench.up(&udp(50_000, 5683, &put));
        bench.down(&udp(5683, 50_000, b"\x61\x44\x12\x34t"));
        let all = bench.down(&udp(5683, 50_000, b"\x60\0\x12\x34"));
        assert_eq!(
            (all.payload, all.protocol, all.transport()),
            (60, 8 + 5, 84)
        );
        assert_eq!(of(&all, Cause::Data), (157, 2));
        assert_eq!(of(&all, Cause::Repetition), (110, 1));
        assert_eq!(of(&all, Cause::Acknowledgement), (46, 1));
        // Another identifier is another message, in two fragments.
        put[3] = 0x35;
        let datagram = udp(50_000, 5683, &put);
        let (first, second) = datagram.split_at(60);
        let mut first = first.to_vec();
        first[2..4].copy_from_slice(&60_u16.to_be_bytes());
        first[6] = 0x20;
        bench.up(&first);
        let all = bench.up(&ip(UDP, 5, second));
        assert_eq!((all.payload, all.of(Cause::Data).frames), (120, 4));
    }

    #[test]
    fn what_is_no_ip_is_something_else() {
        let mut bench = Bench::default();
        for wrong in [&b""[..], b"\x45", &[0x60; 60], &ip(1, 0, b"ping")] {
            bench.up(wrong);
        }
        assert_eq!(sum(&bench.talks).of(Cause::Other).frames, 4);
    }
}
