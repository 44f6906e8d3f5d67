//! E0 (5): bytes on the wire, counted three times: by the interfaces, by a capture, and by hand.
//!
//! By hand: a client and a broker exchange known messages, each in a frame of its own: 66 bytes of headers over TCP (with
//! its timestamps), 42 over UDP. How many frames only acknowledge is TCP's choice and taken from the capture; everything else
//! has to be as reckoned, to the last byte.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use super::{Finding, Wishes, or_missed};
use crate::brokers::{self, NoBroker};
use crate::cell::{Cell, Driver, Leg, Link, Load, Protocol, Workload};
use crate::net::capture::Capture;
use crate::net::network::name_of_ours;
use crate::net::split::Cause;
use crate::net::{CLIENT_HOST, Network, Wire, network};

/// Takes about half a minute.
pub fn run(_: &Wishes, _: &AtomicBool) -> Vec<Finding> {
    or_missed("frames", everything("thalweg"))
}

/// All of it, with a broker of this name.
fn everything(system: &str) -> io::Result<Vec<Finding>> {
    if let Err(why) = network::is_possible() {
        return Ok(vec![Finding::skipped("bytes of exchanges", why)]);
    }
    let mut findings = Vec::new();
    for exchange in EXCHANGES {
        match measured(system, exchange) {
            Ok(found) => findings.extend(found),
            Err(NoBroker::Absent(install)) => {
                let why = format!("{system} is not installed; {install}");
                return Ok(vec![Finding::skipped("bytes of exchanges", why)]);
            }
            Err(NoBroker::Failed(error)) => return Err(error),
        }
    }
    Ok(findings)
}

/// One kind of message: its name, protocol and quality, and the bytes of frames for a message of 60 bytes, both legs, computed
/// from the protocols' rules.
type Exchange = (&'static str, Protocol, u8, u64);

const EXCHANGES: [Exchange; 5] = [
    ("MQTT QoS 0", Protocol::Mqtt, 0, 410),
    ("MQTT QoS 1", Protocol::Mqtt, 1, 554),
    ("MQTT QoS 2", Protocol::Mqtt, 2, 834),
    ("CoAP CON", Protocol::Coap, 1, 334),
    ("CoAP NON", Protocol::Coap, 0, 288),
];

/// What was exchanged, as counted by the program that wrote and read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reckoned {
    /// Frames with something in them.
    data: Wire,
    empty: Wire,
    /// CoAP's pings, and their answers.
    pings: Wire,
}

impl Reckoned {
    fn frame(&mut self, headers: u64, length: usize) {
        self.data = self.data + wire(headers + length as u64, 1);
    }
}

fn wire(bytes: u64, frames: u64) -> Wire {
    Wire { bytes, frames }
}

fn measured(system: &str, exchange: Exchange) -> Result<Vec<Finding>, NoBroker> {
    let (name, protocol, qos, study) = exchange;
    let network = Network::up(&name_of_ours("cal-frames"), &Link::LOOPBACK, 1)?;
    let capture = Capture::start(&network)?;
    let broker = brokers::start(&cell(system, protocol, qos), Some(network.broker()))?;
    let address = broker.address(protocol);
    let address = address.ok_or_else(|| io::Error::other("the broker has no address"))?;
    let (reckoned, before, after, captured) = network.client().within(|| {
        let mut talk: Box<dyn Talk> = match protocol {
            Protocol::Coap => Box::new(Coap::begin(address, qos)?),
            _ => Box::new(Mqtt::begin(address, qos)?),
        };
        // What belongs to connecting and subscribing is over, delayed acknowledgements with it.
        thread::sleep(QUIET);
        capture.mark();
        let before = network.reading()?.sum();
        let mut reckoned = Reckoned::default();
        for number in 0..MESSAGES {
            talk.message(number as u16 + 1, &mut reckoned)?;
            thread::sleep(BETWEEN);
        }
        thread::sleep(QUIET);
        let after = network.reading()?.sum();
        Ok((reckoned, before, after, capture.mark()))
    })?;
    let (all, counted) = (captured.all(), after - before);
    let pure = all.of(Cause::Acknowledgement) - reckoned.empty;
    let acknowledging = wire(pure.frames * ACKNOWLEDGEMENT, pure.frames);
    let wanted = reckoned.data + reckoned.empty + reckoned.pings + acknowledging;
    let data = all.of(Cause::Data);
    let payload = 2 * MESSAGES * PAYLOAD as u64;
    let [again, other] = [Cause::Repetition, Cause::Other].map(|cause| all.of(cause).frames);
    let total = all.total();
    let each = counted.bytes as f64 / MESSAGES as f64;
    // The study's reckoning has one frame that only acknowledges on each leg.
    let acknowledged = pure.frames as f64 / MESSAGES as f64;
    let off = each - study as f64;
    let (differs, is_as_reckoned) = match protocol {
        Protocol::Coap => (
            format!("{off:+.1} B: tokens and options"),
            off.abs() <= OPTIONS,
        ),
        _ => (
            format!("{acknowledged:.2} acknowledgements instead of 2"),
            (off - (acknowledged - 2.0) * ACKNOWLEDGEMENT as f64).abs() < 0.01,
        ),
    };
    let words = |of: Wire| format!("{} B in {}", of.bytes, of.frames);
    Ok(vec![
        Finding::new(
            format!("{name}: {MESSAGES} messages of {PAYLOAD} B, interfaces"),
            format!(
                "{} frames, {} of them only acknowledge",
                words(wanted),
                pure.frames
            ),
            words(counted),
            counted == wanted,
        ),
        Finding::new(
            format!("{name}: the same, capture"),
            format!("{} frames", words(counted)),
            words(total),
            total == counted,
        ),
        Finding::new(
            format!("{name}: by cause"),
            format!(
                "{payload} B payload in {} B of {} data frames, nothing sent again",
                reckoned.data.bytes, reckoned.data.frames
            ),
            format!(
                "{} B payload, {} protocol, {} headers: {}; {again} sent again, {other} else",
                all.payload,
                all.protocol,
                all.transport(),
                words(data),
            ),
            (all.payload, data, again + other) == (payload, reckoned.data, 0)
                && all.of(Cause::Acknowledgement).bytes
                    == reckoned.empty.bytes + acknowledging.bytes,
        ),
        Finding::new(
            format!("{name}: a message of {PAYLOAD} B, both legs"),
            format!("{study} B (EXPERIMENTS 3.2)"),
            format!("{each:.1} B; {differs}"),
            is_as_reckoned,
        ),
    ])
}

/// Publisher and subscriber of one protocol.
trait Talk {
    /// Sends one message through, and reckons its frames.
    fn message(&mut self, number: u16, reckoned: &mut Reckoned) -> io::Result<()>;
}

/// MQTT 3.1.1.
struct Mqtt {
    publisher: TcpStream,
    subscriber: TcpStream,
    qos: u8,
}

impl Mqtt {
    fn begin(address: SocketAddr, qos: u8) -> io::Result<Mqtt> {
        let mut ends = Vec::new();
        for name in ["p", "s"] {
            let mut stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            // CONNECT: protocol, level 4, clean session, no keep-alive, client identifier.
            stream
                .write_all(&[b"\x10\x0d\0\x04MQTT\x04\x02\0\0\0\x01", name.as_bytes()].concat())?;
            expect(&packet(&mut stream)?, 0x20)?;
            ends.push(stream);
        }
        let (Some(mut subscriber), Some(publisher)) = (ends.pop(), ends.pop()) else {
            return Err(gone());
        };
        let body = [b"\0\x01\0\x09", TOPIC.as_bytes(), &[qos]].concat();
        subscriber.write_all(&[&[0x82, body.len() as u8], &body[..]].concat())?;
        expect(&packet(&mut subscriber)?, 0x90)?;
        Ok(Mqtt {
            publisher,
            subscriber,
            qos,
        })
    }
}

impl Talk for Mqtt {
    fn message(&mut self, number: u16, reckoned: &mut Reckoned) -> io::Result<()> {
        let mut body = [b"\0\x09", TOPIC.as_bytes()].concat();
        if self.qos > 0 {
            body.extend_from_slice(&number.to_be_bytes());
        }
        body.resize(body.len() + PAYLOAD, b'x');
        let message = [&[0x30 | (self.qos << 1), body.len() as u8], &body[..]].concat();
        let publish = 0x30 | (self.qos << 1);
        let mut identifier = number;
        for (leg, does, first) in SCRIPTS[usize::from(self.qos)] {
            let stream = match leg {
                'p' => &mut self.publisher,
                _ => &mut self.subscriber,
            };
            let first = if *first == 0x30 { publish } else { *first };
            let bytes = match (does, first == publish) {
                ('>', true) => message.clone(),
                ('>', false) => answer(first, identifier).to_vec(),
                _ => packet(stream)?,
            };
            reckoned.frame(TCP_HEADERS, bytes.len());
            match does {
                '>' => stream.write_all(&bytes)?,
                _ => expect(&bytes, first)?,
            }
            // Both legs say the same, with an identifier of their own; there is none at QoS 0, where it is not used.
            if (*leg, *does, first) == ('s', '<', publish) {
                identifier = u16::from_be_bytes([bytes[13], bytes[14]]);
            }
        }
        Ok(())
    }
}

/// What is said of a message: on the publisher's leg or the subscriber's, by the client (`>`) or to it (`<`), and how the packet
/// begins (PUBLISH without its flags).
type Script = &'static [(char, char, u8)];

/// By quality of service.
const SCRIPTS: [Script; 3] = [
    &[('p', '>', 0x30), ('s', '<', 0x30)],
    &[
        ('p', '>', 0x30),
        ('p', '<', 0x40),
        ('s', '<', 0x30),
        ('s', '>', 0x40),
    ],
    &[
        ('p', '>', 0x30),
        ('p', '<', 0x50),
        ('p', '>', 0x62),
        ('p', '<', 0x70),
        ('s', '<', 0x30),
        ('s', '>', 0x50),
        ('s', '<', 0x62),
        ('s', '>', 0x70),
    ],
];

fn answer(first: u8, identifier: u16) -> [u8; 4] {
    let [high, low] = identifier.to_be_bytes();
    [first, 2, high, low]
}

/// The next packet, none of which is longer than 127 bytes.
fn packet(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = [0; 2];
    stream.read_exact(&mut head)?;
    let mut packet = head.to_vec();
    packet.resize(2 + usize::from(head[1]), 0);
    stream.read_exact(&mut packet[2..])?;
    Ok(packet)
}

fn expect(packet: &[u8], first: u8) -> io::Result<()> {
    match packet.first() {
        Some(byte) if *byte == first => Ok(()),
        _ => Err(io::Error::other(format!(
            "the broker says {packet:02x?} instead of {first:02x}"
        ))),
    }
}

fn gone() -> io::Error {
    io::Error::other("the connection is gone")
}

/// CoAP: a resource at the topic's path, an observer of it.
struct Coap {
    publisher: UdpSocket,
    subscriber: UdpSocket,
    qos: u8,
}

impl Coap {
    fn begin(address: SocketAddr, qos: u8) -> io::Result<Coap> {
        let socket = || -> io::Result<UdpSocket> {
            let socket = UdpSocket::bind((CLIENT_HOST, 0))?;
            socket.connect(address)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            Ok(socket)
        };
        let mut talk = Coap {
            publisher: socket()?,
            subscriber: socket()?,
            qos,
        };
        // The resource has to exist before it can be observed.
        talk.publisher.send(&talk.put(0x7000))?;
        response(&talk.publisher, &mut Reckoned::default())?;
        talk.subscriber
            .send(&[b"\x41\x01\x70\x01o\x60", PATH].concat())?;
        let first = response(&talk.subscriber, &mut Reckoned::default())?;
        if first.get(1) != Some(&0x45) {
            return Err(io::Error::other(format!("no observation: {first:02x?}")));
        }
        // Before it sends more than it was sent, a broker may ask whether the observer is there.
        talk.message(0, &mut Reckoned::default())?;
        Ok(talk)
    }

    fn put(&self, identifier: u16) -> Vec<u8> {
        let kind = if self.qos == 0 { 0x51 } else { 0x41 };
        let mut message = vec![kind, 0x03];
        message.extend_from_slice(&identifier.to_be_bytes());
        message.push(b'p');
        // The path is the first option here, and the second behind Observe.
        message.extend_from_slice(b"\xb2ps\x04data\x01f\xff");
        message.resize(message.len() + PAYLOAD, b'x');
        message
    }
}

impl Talk for Coap {
    fn message(&mut self, number: u16, reckoned: &mut Reckoned) -> io::Result<()> {
        let message = self.put(number);
        reckoned.frame(UDP_HEADERS, message.len());
        self.publisher.send(&message)?;
        response(&self.publisher, reckoned)?;
        response(&self.subscriber, reckoned)?;
        Ok(())
    }
}

/// The next response or notification; acknowledged if it wants that.
fn response(socket: &UdpSocket, reckoned: &mut Reckoned) -> io::Result<Vec<u8>> {
    loop {
        let mut buffer = [0; 1500];
        let length = socket.recv(&mut buffer)?;
        let message = buffer[..length].to_vec();
        let Some(&[first, code, high, low]) = message.first_chunk() else {
            return Err(gone());
        };
        let short = wire(UDP_HEADERS + 4, 1);
        let asks = first >> 4 & 3 == 0;
        match (code, asks) {
            // A ping; the answer is a reset (RFC 7252 §4.3).
            (0, true) => {
                reckoned.pings = reckoned.pings + short + short;
                socket.send(&[0x70, 0, high, low])?;
                continue;
            }
            (0, false) => {
                reckoned.empty = reckoned.empty + short;
                continue;
            }
            _ => {}
        }
        reckoned.frame(UDP_HEADERS, length);
        if asks {
            socket.send(&[0x60, 0, high, low])?;
            reckoned.empty = reckoned.empty + short;
        }
        return Ok(message);
    }
}

/// A cell of which only the broker matters.
pub(crate) fn cell(system: &str, protocol: Protocol, qos: u8) -> Cell {
    let leg = Leg {
        version: 3,
        window: 1,
        ..Leg::of(protocol, qos)
    };
    let mut broker_settings = BTreeMap::new();
    if system == "thalweg" && protocol == Protocol::Coap {
        // Who observes is asked to acknowledge, or not, whatever the publisher did.
        let kind = if qos == 0 { "non" } else { "con" };
        broker_settings.insert("coap.notifications".to_owned(), kind.to_owned());
    }
    Cell {
        experiment: "frames".to_owned(),
        seed: 1,
        system: system.to_owned(),
        broker_settings,
        driver: Driver::Bare,
        publish: leg,
        subscribe: leg,
        link: Link {
            namespaces: true,
            ..Link::LOOPBACK
        },
        workload: Workload::Fixed {
            bytes: PAYLOAD as u32,
        },
        load: Load::Closed {
            think_ns: 0,
            flows: 1,
        },
        ..Cell::blank()
    }
}

const TOPIC: &str = "cal/frame";
/// `/ps/data/f` as options behind an Observe of no bytes.
const PATH: &[u8] = b"\x52ps\x04data\x01f";
const PAYLOAD: usize = 60;
const MESSAGES: u64 = 20;
/// Ethernet 14, IP 20, TCP 32 with its timestamps.
const TCP_HEADERS: u64 = 66;
const ACKNOWLEDGEMENT: u64 = 66;
/// Ethernet 14, IP 20, UDP 8.
const UDP_HEADERS: u64 = 42;
/// Longer than the 40 ms for which Linux holds an acknowledgement back.
const BETWEEN: Duration = Duration::from_millis(60);
const QUIET: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(20);
/// What tokens and options may differ by, both legs.
const OPTIONS: f64 = 40.0;

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn every_byte_is_counted_where_there_may_be_links() {
        if let Err(why) = network::is_possible() {
            return println!("skipped: {why}");
        }
        for (system, exchanges) in [("thalweg", &EXCHANGES[..]), ("mosquitto", &EXCHANGES[..3])] {
            for exchange in exchanges {
                match measured(system, *exchange) {
                    Ok(findings) => {
                        for finding in findings {
                            println!("{system} {finding:?}");
                            assert_eq!(finding.verdict, Verdict::Held);
                        }
                    }
                    Err(NoBroker::Absent(install)) => {
                        println!("skipped: {system} is not installed; {install}")
                    }
                    Err(NoBroker::Failed(error)) => panic!("{system}: {error}"),
                }
            }
        }
    }
}
