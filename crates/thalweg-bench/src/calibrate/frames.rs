//! E0 (5): bytes on the wire, counted three times: by the interfaces, by a capture, and by hand.
//!
//! By hand: a client and a broker exchange known messages, each in a frame of its own: 66 bytes of headers over TCP (with
//! its timestamps), 42 over UDP. How many frames only acknowledge is TCP's choice and taken from the capture; everything else
//! has to be as reckoned, to the last byte.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use super::{Finding, Wishes, or_missed};
use crate::brokers::{self, NoBroker};
use crate::cell::{Cell, Driver, Leg, Link, Protocol};
use crate::net::capture::Capture;
use crate::net::network::name_of_ours;
use crate::net::split::Cause;
use crate::net::{CLIENT_HOST, Network, Wire, network};
use crate::studies::plan;

/// Takes about half a minute.
pub fn run(_: &Wishes, _: &AtomicBool) -> Vec<Finding> {
    or_missed("frames", everything("thalweg", &EXCHANGES))
}

/// These, with a broker of this name.
fn everything(system: &str, exchanges: &[Exchange]) -> io::Result<Vec<Finding>> {
    if let Err(why) = network::is_possible() {
        return Ok(vec![Finding::skipped("bytes of exchanges", why)]);
    }
    let mut findings = Vec::new();
    for exchange in exchanges {
        match measured(system, *exchange) {
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
        let mut talk = match protocol {
            Protocol::Coap => coap(address, qos)?,
            _ => mqtt(address, qos)?,
        };
        // What belongs to connecting and subscribing is over, delayed acknowledgements with it.
        thread::sleep(QUIET);
        capture.mark();
        let before = network.reading()?.sum();
        let mut reckoned = Reckoned::default();
        for number in 0..MESSAGES {
            talk(number as u16 + 1, &mut reckoned)?;
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

/// Publisher and subscriber of one protocol: sends one message through, and reckons its frames.
type Talk = Box<dyn FnMut(u16, &mut Reckoned) -> io::Result<()>>;

/// MQTT 3.1.1.
fn mqtt(address: SocketAddr, qos: u8) -> io::Result<Talk> {
    let connected = |name: &[u8]| -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        // CONNECT: protocol, level 4, clean session, no keep-alive, client identifier.
        stream.write_all(&[b"\x10\x0d\0\x04MQTT\x04\x02\0\0\0\x01", name].concat())?;
        packet(&mut stream, 0x20)?;
        Ok(stream)
    };
    let mut legs = [connected(b"p")?, connected(b"s")?];
    let body = [b"\0\x01\0\x09", TOPIC.as_bytes(), &[qos]].concat();
    legs[1].write_all(&[&[0x82, body.len() as u8], &body[..]].concat())?;
    packet(&mut legs[1], 0x90)?;
    Ok(Box::new(move |number, reckoned| {
        let identifier = number.to_be_bytes();
        let identifier = &identifier[..if qos > 0 { 2 } else { 0 }];
        let mut body = [b"\0\x09", TOPIC.as_bytes(), identifier].concat();
        body.resize(body.len() + PAYLOAD, b'x');
        let mut identifier = number;
        for (leg, does, first) in SCRIPTS[usize::from(qos)].iter().copied() {
            let bytes = match (does, first >> 4) {
                ('<', _) => packet(&mut legs[leg], first)?,
                (_, PUBLISH) => [&[first, body.len() as u8], &body[..]].concat(),
                _ => [[first, 2], identifier.to_be_bytes()].concat(),
            };
            reckoned.frame(TCP_HEADERS, bytes.len());
            if does == '>' {
                legs[leg].write_all(&bytes)?;
            }
            // Both legs say the same, with an identifier of their own; there is none at QoS 0, where it is not used.
            if (leg, first >> 4) == (1, PUBLISH) {
                identifier = u16::from_be_bytes([bytes[13], bytes[14]]);
            }
        }
        Ok(())
    }))
}

/// What is said of a message: on the publisher's leg (0) or the subscriber's, by the client (`>`) or to it (`<`), and how the
/// packet begins.
type Script = &'static [(usize, char, u8)];

/// By quality of service.
const SCRIPTS: [Script; 3] = [
    &[(0, '>', 0x30), (1, '<', 0x30)],
    &[
        (0, '>', 0x32),
        (0, '<', 0x40),
        (1, '<', 0x32),
        (1, '>', 0x40),
    ],
    &[
        (0, '>', 0x34),
        (0, '<', 0x50),
        (0, '>', 0x62),
        (0, '<', 0x70),
        (1, '<', 0x34),
        (1, '>', 0x50),
        (1, '<', 0x62),
        (1, '>', 0x70),
    ],
];
const PUBLISH: u8 = 3;

/// The next packet, none of which is longer than 127 bytes, which has to begin so.
fn packet(stream: &mut TcpStream, first: u8) -> io::Result<Vec<u8>> {
    let mut packet = vec![0; 2];
    stream.read_exact(&mut packet)?;
    packet.resize(2 + usize::from(packet[1]), 0);
    stream.read_exact(&mut packet[2..])?;
    match packet[0] == first {
        true => Ok(packet),
        false => Err(io::Error::other(format!(
            "the broker says {packet:02x?} instead of {first:02x}"
        ))),
    }
}

/// CoAP: a resource at the topic's path, an observer of it.
fn coap(address: SocketAddr, qos: u8) -> io::Result<Talk> {
    let socket = || -> io::Result<UdpSocket> {
        let socket = UdpSocket::bind((CLIENT_HOST, 0))?;
        socket.connect(address)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(socket)
    };
    let (publisher, subscriber) = (socket()?, socket()?);
    let put = move |identifier: u16| {
        let kind = if qos == 0 { 0x51 } else { 0x41 };
        let [high, low] = identifier.to_be_bytes();
        // The path is the first option here, and the second behind Observe.
        let head = [&[kind, 0x03, high, low], &b"p\xb2ps\x04data\x01f\xff"[..]];
        let mut message = head.concat();
        message.resize(message.len() + PAYLOAD, b'x');
        message
    };
    // The resource has to exist before it can be observed.
    publisher.send(&put(0x7000))?;
    response(&publisher, &mut Reckoned::default())?;
    subscriber.send(&[b"\x41\x01\x70\x01o\x60", PATH].concat())?;
    let first = response(&subscriber, &mut Reckoned::default())?;
    if first.get(1) != Some(&0x45) {
        return Err(io::Error::other(format!("no observation: {first:02x?}")));
    }
    let talk = move |number: u16, reckoned: &mut Reckoned| {
        let message = put(number);
        reckoned.frame(UDP_HEADERS, message.len());
        publisher.send(&message)?;
        response(&publisher, reckoned)?;
        response(&subscriber, reckoned).map(drop)
    };
    // Before it sends more than it was sent, a broker may ask whether the observer is there.
    talk(0, &mut Reckoned::default())?;
    Ok(Box::new(talk))
}

/// The next response or notification; acknowledged if it wants that.
fn response(socket: &UdpSocket, reckoned: &mut Reckoned) -> io::Result<Vec<u8>> {
    loop {
        let mut buffer = [0; 1500];
        let length = socket.recv(&mut buffer)?;
        let message = buffer[..length].to_vec();
        let Some(&[first, code, high, low]) = message.first_chunk() else {
            return Err(io::Error::other("a packet that is none"));
        };
        let short = wire(UDP_HEADERS + 4, 1);
        let asks = first >> 4 & 3 == 0;
        match (code, asks) {
            // A ping; the answer is a reset (RFC 7252 §4.3).
            (0, true) => {
                reckoned.pings = reckoned.pings + short + short;
                socket.send(&[0x70, 0, high, low])?;
            }
            (0, false) => reckoned.empty = reckoned.empty + short,
            (_, asks) => {
                reckoned.frame(UDP_HEADERS, length);
                if asks {
                    socket.send(&[0x60, 0, high, low])?;
                    reckoned.empty = reckoned.empty + short;
                }
                return Ok(message);
            }
        }
    }
}

/// A cell of which only the broker matters.
pub(crate) fn cell(system: &str, protocol: Protocol, qos: u8) -> Cell {
    let leg = Leg {
        version: 3,
        window: 1,
        ..Leg::of(protocol, qos)
    };
    let cell = plan::cell("frames", system, leg).with(|cell| {
        (cell.driver, cell.link) = (Driver::Bare, Link::CABLE);
        if system == "thalweg" && protocol == Protocol::Coap {
            // Who observes is asked to acknowledge, or not, whatever the publisher did.
            let kind = if qos == 0 { "non" } else { "con" };
            let setting = ("coap.notifications".to_owned(), kind.to_owned());
            cell.broker_settings.extend([setting]);
        }
    });
    cell.into_cell()
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
        for (system, exchanges) in [("thalweg", &EXCHANGES[..]), ("mosquitto", &EXCHANGES[..3])] {
            for finding in everything(system, exchanges).expect(system) {
                println!("{system} {finding:?}");
                let is_skipped = matches!(finding.verdict, Verdict::Skipped(_));
                assert!(is_skipped || finding.verdict == Verdict::Held);
            }
        }
    }
}
