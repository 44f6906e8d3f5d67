//! Hostile, broken and very many peers at a broker that serves ordinary clients.
//!
//! Each test does one kind of harm to a broker of its own, while a [`Pair`] of ordinary clients exchanges messages
//! there. At the end the pair has lost no message and no connection, the broker has grown less than a bound, there was
//! no panic, and an ordinary client is served. Figures go to standard output (`--nocapture`).
//!
//! `THALWEG_ABUSE_SECONDS=60` makes each test last that long; otherwise each is done within seconds. Random choices come
//! from a seed that is printed; `THALWEG_ABUSE_SEED=n` repeats it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::broker::{Broker, BrokerProgram, Options};
use crate::conformance::packet::Version::V5;
use crate::conformance::packet::*;
use crate::server::talker::{PATIENCE, Talker};

mod buffers;
mod coap;
mod connections;
mod garbage;
mod groups;
mod memory;
mod readers;
mod sockets;
mod stores;

/// A broker under abuse, alone: tests of this module take turns, so that one's figures are not another's.
struct Victim {
    broker: Arc<Broker>,
    pair: Option<Pair>,
    rss_before: u64,
    _turn: MutexGuard<'static, ()>,
}

impl Victim {
    /// A broker with settings of the test's own; `None` if another program plays the broker.
    fn with(options: Options) -> Option<Victim> {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // Ten thousand sockets are ours, too. A system that allows fewer fails the test that needs them.
        let _ = rlimit::increase_nofile_limit(u64::MAX);
        let broker = Arc::new(
            options
                .set("shards", "2")
                .set("sys.interval", "off")
                .set("log.level", "warn")
                .start(),
        );
        if broker.kind() == BrokerProgram::Mosquitto {
            return None;
        }
        let pair = Some(Pair::start(broker.mqtt()));
        let mut victim = Victim {
            broker,
            pair,
            rss_before: 0,
            _turn: turn,
        };
        victim.begin_here();
        Some(victim)
    }

    /// Growth is counted from here on: without the cost of the ordinary clients, and without the first page of metrics,
    /// which permanently takes 7 to 9 MB in a debug build.
    fn begin_here(&mut self) {
        self.figure("thalweg_shards_answering");
        self.rss_before = rss(&self.broker);
    }

    /// KiB that the broker has grown by.
    fn growth(&self) -> u64 {
        rss(&self.broker).saturating_sub(self.rss_before)
    }

    /// The sum of a metric over its labels.
    fn figure(&self, metric: &str) -> u64 {
        figure(self.broker.admin(), metric)
    }

    /// Waits for a metric to have a value.
    fn wait_for(&self, metric: &str, is_it: impl Fn(u64) -> bool) {
        self.wait_long_for(metric, PATIENCE, is_it);
    }

    fn wait_long_for(&self, metric: &str, patience: Duration, is_it: impl Fn(u64) -> bool) {
        let deadline = Instant::now() + patience;
        loop {
            let value = self.figure(metric);
            if is_it(value) {
                return;
            }
            assert!(Instant::now() < deadline, "{metric} stays at {value}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Checks the broker's invariants after any abuse. `growth_max` is in KiB.
    fn assert_unharmed(mut self, what: &str, growth_max: u64) {
        admitted(self.broker.mqtt(), "an ordinary client").vanish();
        let growth = self.growth();
        let exchanged = self.pair.take().expect("it runs until here").stop();
        let (rss, peak) = (rss(&self.broker), peak(&self.broker));
        println!(
            "{what}: the broker grew by {growth} KiB to {rss} KiB, at most {peak} KiB; pair: {exchanged}"
        );
        assert!(
            growth <= growth_max,
            "the broker grew by {growth} KiB, more than {growth_max}"
        );
        let log = self.broker.log();
        assert!(!log.contains("panicked"), "{log}");
        // A shard that the machine has no time for answers at another time.
        self.wait_for("thalweg_shards_answering", |count| count == 2);
    }
}

/// Two clients that exchange QoS 1 messages, one at a time, and fail at the first that is lost, doubled or late.
struct Pair {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Duration>>>,
}

/// Results of the pair.
struct Exchanged(Vec<Duration>);

impl Pair {
    fn start(broker: SocketAddr) -> Pair {
        let mut sender = Talker::tcp(broker).named("pair sender");
        // Of another shard than the sender, if the hash is kind; either way is a way that ordinary clients go.
        let mut receiver = Talker::tcp(broker).named("pair receiver");
        assert_eq!(receiver.subscribe("pair/data", 1), 1);
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut took = Vec::new();
            while !stopping.load(Ordering::Relaxed) {
                let text = took.len().to_string();
                let begun = Instant::now();
                assert_eq!(sender.publish("pair/data", &text, 1), 0);
                assert_eq!(receiver.message().text(), text);
                took.push(begun.elapsed());
                // A thousand a second is a load; as fast as it goes would be another flood.
                std::thread::park_timeout(Duration::from_millis(1));
            }
            took
        });
        Pair {
            stop,
            thread: Some(thread),
        }
    }

    fn stop(mut self) -> Exchanged {
        self.stop.store(true, Ordering::Relaxed);
        let mut took = self
            .thread
            .take()
            .expect("stopped once")
            .join()
            .expect("the pair lost nothing");
        assert!(!took.is_empty());
        took.sort();
        Exchanged(took)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl std::fmt::Display for Exchanged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = |part: f64| self.0[((self.0.len() - 1) as f64 * part) as usize];
        write!(
            f,
            "{} messages, p50 {:?}, p99 {:?}, longest {:?}",
            self.0.len(),
            at(0.5),
            at(0.99),
            at(1.0)
        )
    }
}

/// An ordinary client, which comes again as long as the broker is busy. The broker counts its memory four times a
/// second, so that it may refuse sessions for a moment after the abuser has gone; and a newcomer from the abuser's own network
/// finds no place for its handshake, and no answer, while that network's are taken.
fn admitted(broker: SocketAddr, name: &str) -> Talker {
    const SERVER_BUSY: u8 = 0x89;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut talker = Talker::tcp(broker);
        let connack = talker.try_connect(&Connect::new(V5, name));
        match connack.as_ref().map(|it| it.code) {
            Some(0) => return talker,
            None | Some(SERVER_BUSY) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            _ => panic!("refused: {connack:?}"),
        }
    }
}

/// Duration of the abuse.
fn duration() -> Duration {
    let seconds = std::env::var("THALWEG_ABUSE_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(1.5))
}

/// Runs `harm` in so many threads, again and again until time is up; it is given the thread's number and luck.
fn again_and_again(threads: usize, harm: impl Fn(usize, &mut Luck) + Send + Sync + 'static) -> u64 {
    let (harm, until) = (Arc::new(harm), Instant::now() + duration());
    let seed = Luck::seed();
    let threads: Vec<_> = (0..threads)
        .map(|number| {
            let harm = Arc::clone(&harm);
            std::thread::spawn(move || {
                let mut luck = Luck::new(seed + number as u64);
                let mut times = 0;
                while Instant::now() < until {
                    harm(number, &mut luck);
                    times += 1;
                }
                times
            })
        })
        .collect();
    threads
        .into_iter()
        .map(|thread| thread.join().expect("the abuser does not fail"))
        .sum()
}

/// Reproducible chance (xorshift64).
struct Luck(u64);

impl Luck {
    fn seed() -> u64 {
        let given = std::env::var("THALWEG_ABUSE_SEED")
            .ok()
            .and_then(|text| text.parse().ok());
        let seed = given.unwrap_or_else(|| u64::from(std::process::id()) << 16);
        println!("THALWEG_ABUSE_SEED={seed}");
        seed
    }

    fn new(seed: u64) -> Luck {
        Luck(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }
}

/// A socket that is given up without lingering, so that thousands leave no trace in the system's tables.
fn abrupt(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Resident memory of the broker's process in KiB.
fn rss(broker: &Broker) -> u64 {
    of_status(broker, "VmRSS:")
}

/// The most that [`rss`] ever was.
fn peak(broker: &Broker) -> u64 {
    of_status(broker, "VmHWM:")
}

fn of_status(broker: &Broker, name: &str) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", broker.pid())).expect("the broker runs");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .expect("Linux says so");
    line.trim()
        .trim_end_matches(" kB")
        .trim()
        .parse()
        .expect("a number of KiB")
}

/// The admin token of a broker with log-ins; others ask for none.
const TOKEN: &str = "a-token-of-the-abuse-tests";

pub fn figure(admin: SocketAddr, metric: &str) -> u64 {
    let mut stream = TcpStream::connect(admin).expect("the admin interface accepts");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a fresh socket takes options");
    write!(
        stream,
        "GET /metrics HTTP/1.1\r\nHost: {admin}\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
    )
    .expect("it reads");
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .expect("it answers and closes");
    let of_metric = |line: &&str| {
        line.strip_prefix(metric)
            .is_some_and(|rest| rest.starts_with([' ', '{']))
    };
    let value = |line: &str| {
        line.rsplit(' ')
            .next()
            .and_then(|value| value.parse::<f64>().ok())
    };
    assert!(
        answer.lines().any(|line| of_metric(&line)),
        "no {metric} in {answer}"
    );
    answer
        .lines()
        .filter(of_metric)
        .filter_map(value)
        .sum::<f64>() as u64
}

/// Everything that `stream` has to say, read until it is silent for good.
fn drain(mut stream: TcpStream) -> Vec<u8> {
    let mut said = Vec::new();
    // A reset is an end, too.
    let _ = stream.read_to_end(&mut said);
    said
}

/// CONNECT of a clean MQTT 5 session.
fn hello(client: &str) -> Vec<u8> {
    Connect::new(V5, client).bytes()
}
