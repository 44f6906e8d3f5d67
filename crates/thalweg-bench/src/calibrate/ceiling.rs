//! E0.1: what each driver can send, and the books can take, if the other end costs next to nothing. A broker that is found
//! to take half of that is measured; one that takes as much may not be.

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::{Finding, Wishes};
use crate::cell::{Cell, Driver, Leg, Protocol};
use crate::drivers::{self, Job};
use crate::load::header::{Header, Layout};
use crate::load::schedule::Sizes;
use crate::load::{Gave, Got, Pacer, SideTable, Times, clock};
use crate::speed::sink::{self, Sink};
use crate::speed::sinks::Mqtt;

pub fn run(wishes: &Wishes, stop: &AtomicBool) -> Vec<Finding> {
    let lasts = if wishes.quick { SECOND / 2 } else { 2 * SECOND };
    let mut findings = vec![bare(lasts, stop)];
    for (protocol, qos) in [
        (Protocol::Mqtt, 0),
        (Protocol::Mqtt, 1),
        (Protocol::Amqp, 1),
        (Protocol::Stomp, 1),
        (Protocol::Coap, 0),
    ] {
        if !stop.load(Ordering::Relaxed) {
            findings.push(common(protocol, qos, lasts, stop));
        }
    }
    findings.push(books());
    findings
}

/// How fast something was.
#[derive(Clone, Copy, Debug)]
struct Speed {
    messages: u64,
    seconds: f64,
    /// Processor seconds of the thread that sends.
    cpu_s: f64,
}

impl Speed {
    fn rate(&self) -> f64 {
        self.messages as f64 / self.seconds.max(1e-9)
    }

    fn per_core(&self) -> f64 {
        self.messages as f64 / self.cpu_s.max(1e-9)
    }
}

fn bare(lasts: u64, stop: &AtomicBool) -> Finding {
    let what = "bare driver, MQTT QoS 0, 36 B into a null sink, one thread and core";
    let sink = match NullSink::start() {
        Ok(sink) => sink,
        Err(error) => return Finding::skipped(what, error.to_string()),
    };
    let speed = match flood(Driver::Bare, Protocol::Mqtt, 0, sink.address, lasts, stop) {
        Ok((speed, _)) => speed,
        Err(fault) => return Finding::skipped(what, fault),
    };
    let taken = sink.bytes.load(Ordering::Acquire);
    let sink_s = sink.cpu.load(Ordering::Acquire) as f64 / 1e9;
    let (busy, sink_busy) = (speed.cpu_s / speed.seconds, sink_s / speed.seconds);
    let limit = match (busy > 0.9, sink_busy > 0.9) {
        (true, _) => "the sending thread is the limit",
        (_, true) => "the sink is the limit",
        (false, false) => {
            "neither thread was busy all the time: other work on this machine, or the kernel between them"
        }
    };
    let build = match cfg!(debug_assertions) {
        true => "; a build without optimisation",
        false => "",
    };
    let words = format!(
        "{:.1} million/s ({:.1} million per second of its processor time; sender {:.0} %, sink {:.0} % busy; {limit}{build})",
        speed.rate() / 1e6,
        speed.per_core() / 1e6,
        busy * 100.0,
        sink_busy * 100.0,
    );
    Finding::new(what, "10 million/s or more", words, speed.rate() >= BAR)
        .with("messages_per_s", speed.rate())
        .with("messages_per_core_s", speed.per_core())
        .with("sender_busy", busy)
        .with("sink_busy", sink_busy)
        .with("sink_bytes", taken as f64)
}

fn common(protocol: Protocol, qos: u8, lasts: u64, stop: &AtomicBool) -> Finding {
    let what = format!(
        "common driver, {protocol:?} at {} once, 36 B into a sink",
        ["most", "least"][usize::from(qos > 0)]
    );
    let begun = clock::process_cpu();
    let measured = sink::open(protocol, 0, drop)
        .map_err(|error| error.to_string())
        .and_then(|address| flood(Driver::Common, protocol, qos, address, lasts, stop));
    match measured {
        Ok((speed, unsettled)) => {
            let all = (clock::process_cpu() - begun) as f64 / 1e9;
            let words = format!(
                "{:.0} thousand/s ({:.0} thousand per second of processor time, client's thread and sink included; {unsettled} \
                 not settled at the end)",
                speed.rate() / 1e3,
                speed.messages as f64 / all / 1e3,
            );
            Finding::told(what, words).with("messages_per_s", speed.rate())
        }
        Err(fault) => Finding::skipped(what, fault),
    }
}

/// Sends as fast as it goes for a while; what is counted has left, or is acknowledged.
fn flood(
    driver: Driver,
    protocol: Protocol,
    qos: u8,
    address: SocketAddr,
    lasts: u64,
    stop: &AtomicBool,
) -> Result<(Speed, u64), String> {
    let leg = Leg {
        window: WINDOW,
        ..Leg::of(protocol, qos)
    };
    let cell = Cell {
        publish: leg,
        subscribe: leg,
        seed: 1,
        ..Cell::blank()
    };
    let job = Job {
        role: "ceiling".to_owned(),
        ..Job::of(&cell, 1, address, address)
    };
    let mut publisher = drivers::publisher(driver, &job)?;
    let (begin, cpu) = (clock::now(), clock::thread_cpu());
    let times = Times {
        begin,
        measure: begin,
        end: begin + lasts,
        give_up: begin + 4 * lasts,
    };
    let mut pacer = Pacer::flood(1, Sizes::Fixed(36), 1, times);
    let mut buffer = Vec::new();
    while clock::now() < times.end && !stop.load(Ordering::Relaxed) {
        let mut is_full = false;
        pacer.turn(&mut clock::now, &mut |item, now| {
            let header = Header {
                run: 1,
                flow: 0,
                seq: item.seq,
                intended: item.at,
                sent: now,
            };
            Layout::Binary.write(&header, item.size as usize, &mut buffer);
            let gave = publisher.publish(0, &buffer)?;
            is_full |= gave == Gave::Full;
            Ok::<_, String>(gave)
        })?;
        let until = if is_full { clock::now() + MS } else { 0 };
        publisher.turn(until, is_full, &mut |_| {})?;
    }
    // What is given and has not left does not count.
    while publisher.unsettled() > 0 && clock::now() < times.give_up {
        publisher.turn(clock::now() + MS, true, &mut |_| {})?;
    }
    let unsettled = publisher.unsettled();
    let speed = Speed {
        messages: pacer.sent().all.saturating_sub(unsettled),
        seconds: (clock::now() - begin) as f64 / 1e9,
        cpu_s: (clock::thread_cpu() - cpu) as f64 / 1e9,
    };
    Ok((speed, unsettled))
}

/// What the receiver's side takes for a message: to read its header, to judge its number, to enter its times.
fn books() -> Finding {
    let times = Times {
        begin: 0,
        measure: 0,
        end: u64::MAX,
        give_up: u64::MAX,
    };
    let (mut got, table, mut buffer) = (Got::new(times, 1, 1), SideTable::default(), Vec::new());
    let header = Header {
        run: 1,
        flow: 0,
        seq: 0,
        intended: 1,
        sent: 1,
    };
    Layout::Binary.write(&header, 36, &mut buffer);
    let begun = clock::thread_cpu();
    for seq in 0..BOOKED {
        buffer[8..12].copy_from_slice(&seq.to_be_bytes());
        if let Some(header) = Layout::Binary.read(1, "lab/0", &buffer, &table) {
            got.came(0, &header, 36, 50_000 + u64::from(seq));
        }
    }
    let nanos = (clock::thread_cpu() - begun) as f64 / f64::from(BOOKED);
    let what = "books: a received message read, judged and entered";
    Finding::told(what, format!("{nanos:.0} ns of processor time")).with("ns_per_message", nanos)
}

/// A listener that answers CONNECT and throws everything else away, unread.
struct NullSink {
    address: SocketAddr,
    bytes: Arc<AtomicU64>,
    /// Processor nanoseconds of its thread.
    cpu: Arc<AtomicU64>,
}

impl NullSink {
    fn start() -> io::Result<NullSink> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (bytes, cpu) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (taken, used) = (bytes.clone(), cpu.clone());
        // It ends with its connection.
        thread::spawn(move || {
            let begun = clock::thread_cpu();
            if let Ok((stream, _)) = listener.accept() {
                // A publisher that is gone has ended its connection.
                let _ = swallow(stream, &taken, &used, begun);
            }
        });
        Ok(NullSink {
            address,
            bytes,
            cpu,
        })
    }
}

fn swallow(
    mut stream: TcpStream,
    taken: &AtomicU64,
    used: &AtomicU64,
    begun: u64,
) -> io::Result<()> {
    let (mut first, mut answer) = ([0; 4096], Vec::new());
    let count = stream.read(&mut first)?;
    let hello = first.get(..count).unwrap_or_default();
    Mqtt::default().take(hello, &mut answer, &mut 0);
    stream.write_all(&answer)?;
    let socket = socket2::SockRef::from(&stream);
    let mut room = vec![MaybeUninit::uninit(); SWALLOWED];
    loop {
        // The kernel does not even copy it (tcp(7)).
        match socket.recv_with_flags(&mut room, MSG_TRUNC)? {
            0 => return Ok(()),
            count => taken.fetch_add(count as u64, Ordering::AcqRel),
        };
        used.store(clock::thread_cpu() - begun, Ordering::Release);
    }
}

const BAR: f64 = 1e7;
/// Messages under way, where they are acknowledged.
const WINDOW: u32 = 1000;
const BOOKED: u32 = 1_000_000;
const SWALLOWED: usize = 1 << 20;
/// `recv(2)`.
const MSG_TRUNC: i32 = 0x20;
const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_driver_reaches_its_sink() {
        let stop = AtomicBool::new(false);
        let sink = NullSink::start().expect("a port is free");
        let (driver, address, lasts) = (Driver::Bare, sink.address, 100 * MS);
        let (speed, unsettled) =
            flood(driver, Protocol::Mqtt, 0, address, lasts, &stop).expect("it sends");
        assert!(speed.messages > 100 && unsettled == 0, "{speed:?}");
        let protocols = ["mqtt", "amqp", "stomp", "coap"];
        for protocol in protocols.map(|it| Protocol::from_str(it, false).expect("one of them")) {
            let address = sink::open(protocol, 0, drop).expect("a port is free");
            let (speed, _) =
                flood(Driver::Common, protocol, 1, address, lasts, &stop).expect("it sends");
            assert!(speed.messages > 0, "{protocol:?} {speed:?}");
        }
    }
}
