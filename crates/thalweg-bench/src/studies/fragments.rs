//! CoAP as the study had it: a message that is larger than a packet goes as IP fragments, not block by block. Stock clients
//! and our own use RFC 7959 above 1,024 bytes, so this is the smallest thing that speaks the exchange by itself: a
//! publisher that PUTs confirmably, a relay that answers and notifies confirmably, a subscriber that acknowledges. Bytes are
//! real, through the real network; what a broker does besides is not in it.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::cell::{Cell, Load, Measured, Row, Standing};
use crate::load::{Books, Got, Header, Sent, Times};
use crate::net::network::name_of_ours;
use crate::net::{BROKER_HOST, CLIENT_HOST, Network};
use crate::sim::random::Random;

/// Its name among systems.
pub const SYSTEM: &str = "coap-fragments";

/// Measures a cell of [`SYSTEM`].
pub fn run(cell: &Cell, stop: &AtomicBool) -> Measured {
    let failed = |error: io::Error| Measured::nothing(Standing::Invalid(error.to_string()));
    attempt(cell, stop).unwrap_or_else(failed)
}

fn attempt(cell: &Cell, stop: &AtomicBool) -> io::Result<Measured> {
    let Load::Open { rate, flows, .. } = cell.load else {
        return Err(io::Error::other("an open loop is expected"));
    };
    let bytes = super::group::payload(cell).unwrap_or_default();
    let name = format!("f{bytes}-{:.0}-{}", cell.link.loss * 1000.0, cell.repeat);
    let network = Network::up(&name_of_ours(&name), &cell.link, cell.seed)?;
    let open = |host: &str, port: u16| {
        let socket = UdpSocket::bind((host, port))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    let relay = network.broker().within(|| open(BROKER_HOST, PORT))?;
    let [publisher, subscriber] = [
        network.client().within(|| open(CLIENT_HOST, 0))?,
        network.client().within(|| open(CLIENT_HOST, 0))?,
    ];
    let listens = subscriber.local_addr()?;
    let relay_at: SocketAddr = relay.local_addr()?;
    let before = network.reading()?.sum();
    let lost_before = network.lost()?.unwrap_or_default();

    let measure = Duration::from_nanos(cell.phases.measure_ns);
    let drain = Duration::from_nanos(cell.phases.drain_ns);
    let gap = Duration::from_secs_f64(1.0 / (rate * f64::from(flows)));
    let count = (measure.as_secs_f64() / gap.as_secs_f64()).round() as u16;
    let mut legs = [Leg::new(cell.seed), Leg::new(cell.seed + 1)];
    let mut came: BTreeMap<u16, Duration> = BTreeMap::new();
    let mut forwarded: HashSet<u16> = HashSet::new();
    let (begun, mut sent, mut twice) = (Instant::now(), 0_u16, 0);
    let mut buffer = vec![0; 65_536];
    loop {
        let now = begun.elapsed();
        if stop.load(Ordering::Relaxed) || now >= measure + drain {
            break;
        }
        while sent < count && now >= gap * u32::from(sent) {
            legs[0].begin(sent, put(sent, bytes), now);
            sent += 1;
        }
        let [first, second] = &mut legs;
        first.repeat(now, |datagram| {
            publisher.send_to(datagram, relay_at).map(drop)
        })?;
        second.repeat(now, |datagram| relay.send_to(datagram, listens).map(drop))?;
        for (at, socket) in [&relay, &publisher, &subscriber].into_iter().enumerate() {
            while let Some((length, from)) = received(socket, &mut buffer)? {
                let Some(&[kind, code, high, low]) = buffer.first_chunk::<4>() else {
                    continue;
                };
                let number = u16::from_be_bytes([high, low]);
                match (at, kind >> 4 & 3, length) {
                    // A confirmable request: the answer is in the acknowledgement; the notification follows once.
                    (0, 0, _) if code == PUT => {
                        socket.send_to(&[0x62, CHANGED, high, low, high, low], from)?;
                        if forwarded.insert(number) {
                            second.begin(number, notification(number, bytes), now);
                        }
                    }
                    (0, 2, _) => second.end(number),
                    (1, 2, _) => first.end(number),
                    (2, 0, _) => {
                        socket.send_to(&[0x60, 0, high, low], from)?;
                        if came.insert(number, begun.elapsed()).is_some() {
                            twice += 1;
                        }
                    }
                    _ => {}
                }
            }
        }
        if sent == count && legs.iter().all(|leg| leg.open.is_empty()) {
            break;
        }
        thread::sleep(LOOK_AGAIN);
    }
    if stop.load(Ordering::Relaxed) {
        return Err(io::Error::other("interrupted"));
    }
    let carried = network.reading()?.sum() - before;
    let lost_after = network.lost()?.unwrap_or_default();
    let times = Times::new(0, &cell.phases);
    let mut books = Books {
        sent: Sent::new(times),
        got: Got::new(times, 1, 1),
    };
    for seq in 0..u32::from(sent) {
        let due = (gap * seq).as_nanos() as u64;
        books.sent.tried(due, due);
        books.sent.sent(due, due);
    }
    for (number, at) in &came {
        let due = (gap * u32::from(*number)).as_nanos() as u64;
        let header = Header {
            run: 0,
            flow: 0,
            seq: (*number).into(),
            intended: due,
            sent: due,
        };
        let at = at.as_nanos() as u64;
        books.got.came(0, &header, bytes as usize, at);
    }
    books.got.duplicates = twice;
    let mut measured = Measured {
        row: Row {
            unacknowledged: legs[0].given_up,
            seconds: measure.as_secs_f64(),
            wire_bytes: Some(carried.bytes),
            wire_frames: Some(carried.frames),
            link_lost: Some((lost_after.0 - lost_before.0, lost_after.1 - lost_before.1)),
            ..books.row(1, Standing::Valid)
        },
        response: books.got.response,
        service: books.got.service,
        ..Measured::nothing(Standing::Valid)
    };
    measured.events.push((
        0,
        "no broker: a publisher, a relay and a subscriber of this laboratory".to_owned(),
    ));
    Ok(measured)
}

/// One direction of exchanges: what is under way and when it is sent again (RFC 7252 §4.2).
struct Leg {
    /// By message ID: the datagram, transmissions so far, when the next is due, how long to wait after that.
    open: BTreeMap<u16, (Vec<u8>, u32, Duration, Duration)>,
    given_up: u64,
    random: Random,
}

impl Leg {
    fn new(seed: u64) -> Leg {
        Leg {
            open: BTreeMap::new(),
            given_up: 0,
            random: Random::new(seed),
        }
    }

    fn begin(&mut self, number: u16, datagram: Vec<u8>, now: Duration) {
        let first = ACK_TIMEOUT.mul_f64(1.0 + 0.5 * self.random.unit());
        self.open.insert(number, (datagram, 0, now, first));
    }

    fn end(&mut self, number: u16) {
        self.open.remove(&number);
    }

    fn repeat(
        &mut self,
        now: Duration,
        mut send: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut over = Vec::new();
        for (number, (datagram, tries, due, wait)) in &mut self.open {
            if now < *due {
                continue;
            }
            if *tries > MAX_RETRANSMIT {
                over.push(*number);
                continue;
            }
            send(datagram)?;
            *tries += 1;
            *due = now + *wait;
            *wait *= 2;
        }
        for number in over {
            self.open.remove(&number);
            self.given_up += 1;
        }
        Ok(())
    }
}

/// CON PUT with a token of two bytes and the path `lab/NN`.
fn put(number: u16, bytes: u32) -> Vec<u8> {
    let [high, low] = number.to_be_bytes();
    let mut datagram = vec![
        0x42, PUT, high, low, high, low, 0xb3, b'l', b'a', b'b', 0x02,
    ];
    datagram.extend(format!("{:02}", number % 100).bytes());
    filled(datagram, bytes)
}

/// CON 2.05 with the Observe option.
fn notification(number: u16, bytes: u32) -> Vec<u8> {
    let [high, low] = number.to_be_bytes();
    filled(
        vec![0x42, CONTENT, high, low, high, low, 0x63, 0, high, low],
        bytes,
    )
}

fn filled(mut datagram: Vec<u8>, bytes: u32) -> Vec<u8> {
    datagram.push(0xff);
    let length = datagram.len() + bytes as usize;
    datagram.resize(length, b'x');
    datagram
}

fn received(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Option<(usize, SocketAddr)>> {
    match socket.recv_from(buffer) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

const PORT: u16 = 5683;
const PUT: u8 = 0x03;
const CHANGED: u8 = 0x44;
const CONTENT: u8 = 0x45;
/// A tenth of RFC 7252's: how often something is sent does not depend on it, and a run is over sooner.
const ACK_TIMEOUT: Duration = Duration::from_millis(200);
const MAX_RETRANSMIT: u32 = 4;
const LOOK_AGAIN: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_is_repeated_four_times_and_then_given_up() {
        let mut leg = Leg::new(1);
        leg.begin(7, put(7, 10), Duration::ZERO);
        let mut times = Vec::new();
        for ms in 0..20_000 {
            let now = Duration::from_millis(ms);
            leg.repeat(now, |_| {
                times.push(ms);
                Ok(())
            })
            .expect("it can be sent");
        }
        assert_eq!((times.len(), leg.given_up), (5, 1));
        let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(
            (200..=301).contains(&gaps[0])
                && gaps
                    .windows(2)
                    .all(|pair| pair[1].abs_diff(2 * pair[0]) <= 2),
            "{gaps:?}"
        );
    }

    #[test]
    fn what_was_acknowledged_is_not_sent_again() {
        let mut leg = Leg::new(1);
        leg.begin(7, put(7, 10), Duration::ZERO);
        leg.end(7);
        leg.repeat(Duration::from_secs(9), |_| panic!("it was acknowledged"))
            .expect("nothing is sent");
    }

    #[test]
    fn a_datagram_is_its_head_and_its_payload() {
        assert_eq!(put(5, 60).len(), 13 + 1 + 60);
        assert_eq!(notification(5, 60).len(), 10 + 1 + 60);
    }
}
