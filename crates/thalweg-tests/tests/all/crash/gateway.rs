//! A gateway with its buffer on disk that is killed with `kill -9`, online and offline: what was said to be stored
//! arrives, once and in order.
//!
//! The gateway is this program again, in a process of its own: [`as_a_gateway`]. The network goes and comes by a relay
//! between it and the broker; a client by hand listens at the broker itself.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_client::{BufferSettings, Options, blocking};

use super::hand::{Answer, Hand};
use super::luck::Luck;
use crate::broker::Broker;

/// For what has to come.
const PATIENCE: Duration = Duration::from_secs(60);
/// Published when the gateway has delivered all, so that nothing comes behind it.
const MARK: &str = "gateway/end";
/// Each process numbers its messages from a multiple of this on.
const NUMBERS: u64 = 1_000_000;
const TOPICS: u64 = 3;

const SHORT_KILLS: u64 = 15;

#[test]
fn a_gateway_that_is_killed_delivers_what_it_has_stored_once_and_in_order() {
    let Some(toll) = run(1, true, |life, _| life < SHORT_KILLS) else {
        return;
    };
    println!("{toll:?}");
    assert!(toll.stored > 100, "too few to mean anything: {toll:?}");
    assert_eq!(
        (toll.lost, toll.twice, toll.disordered),
        (0, 0, 0),
        "{toll:?}"
    );
}

#[test]
fn a_gateway_without_a_disk_is_found_out() {
    let Some(toll) = run(2, false, |life, _| life < 6) else {
        return;
    };
    assert!(
        toll.lost > 0,
        "messages in memory only survived kill -9: {toll:?}"
    );
}

#[test]
#[ignore = "takes minutes: cargo xtask soak kills"]
fn for_minutes() {
    let (seconds, seed) = super::asked_for();
    let until = Instant::now() + Duration::from_secs(seconds);
    let Some(toll) = run(seed, true, |_, _| Instant::now() < until) else {
        return;
    };
    println!("THALWEG_CRASH_SEED={seed}: {toll:?}");
    assert_eq!(
        (toll.lost, toll.twice, toll.disordered),
        (0, 0, 0),
        "{toll:?}"
    );
}

/// Results of a run.
#[derive(Debug, Default)]
struct Toll {
    kills: u64,
    /// Messages that the gateway said to be stored.
    stored: usize,
    received: usize,
    /// Stored and never received.
    lost: usize,
    /// Received more than once.
    twice: usize,
    /// Received after a later one of the same topic.
    disordered: usize,
}

/// Lets gateways live and die on one folder, and compares. `goes_on` says whether there is another life to be cut short.
fn run(seed: u64, has_disk: bool, goes_on: impl Fn(u64, &Toll) -> bool) -> Option<Toll> {
    let broker = Broker::with().start_for_queues()?;
    let relay = Relay::before(broker.mqtt());
    let mut hand = Hand::passing(broker.mqtt(), "listener").subscribe("gateway/#");
    let (received, heard) = channel();
    let listener = thread::spawn(move || {
        while let Some(message) = hand.take_one(PATIENCE) {
            if received.send(message).is_err() {
                return;
            }
        }
    });
    let folder = broker.folder().join("gateway");
    let mut luck = Luck::new(seed);
    let mut toll = Toll::default();
    let mut stored = BTreeSet::new();
    let mut life = 0;
    while goes_on(life, &toll) {
        relay.switch(luck.chance(0.5));
        let mut gateway = Gateway::start(
            relay.address,
            has_disk.then_some(folder.as_path()),
            life,
            luck.next(),
        );
        // Some die before they have said anything, most in the middle.
        for _ in 0..luck.below(60) {
            if luck.chance(0.05) {
                relay.switch(luck.chance(0.5));
            }
            stored.extend(gateway.stored());
        }
        thread::sleep(Duration::from_micros(luck.below(20_000) as u64));
        stored.extend(gateway.kill());
        toll.kills += 1;
        life += 1;
    }
    // The last one delivers all there is.
    relay.switch(true);
    let gateway = Gateway::start(
        relay.address,
        has_disk.then_some(folder.as_path()),
        life,
        luck.next(),
    );
    stored.extend(gateway.drain());
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    let mut newest: BTreeMap<String, u64> = BTreeMap::new();
    let mut marker = Hand::passing(broker.mqtt(), "marker");
    assert_eq!(marker.publish(MARK, b"", PATIENCE), Answer::Puback(0));
    loop {
        let (topic, payload) = heard.recv_timeout(PATIENCE).expect("the mark comes");
        if topic == MARK {
            break;
        }
        let text = String::from_utf8_lossy(&payload);
        let number: u64 = text
            .split('|')
            .next()
            .and_then(|text| text.parse().ok())
            .expect("nobody sent this");
        let count = counts.entry(number).or_default();
        *count += 1;
        let newest = newest.entry(topic).or_default();
        if *count == 1 && *newest > number {
            toll.disordered += 1;
            println!("{number} came after {newest}");
        }
        *newest = number.max(*newest);
    }
    drop(heard);
    drop(broker);
    let _ = listener.join();
    toll.stored = stored.len();
    toll.received = counts.len();
    toll.lost = stored
        .iter()
        .filter(|number| !counts.contains_key(number))
        .count();
    toll.twice = counts.values().filter(|count| **count > 1).count();
    Some(toll)
}

/// The gateway's process: publishes and says what is stored, until it is killed or told to drain.
#[test]
#[ignore = "a part of the tests of this file, in a process of its own"]
fn as_a_gateway() {
    let Ok(wish) = std::env::var("THALWEG_TEST_GATEWAY") else {
        return;
    };
    let mut words = wish.split(' ');
    let mut word = || words.next().expect("four words");
    let (url, life, seed, folder) = (word(), word(), word(), word());
    let disk = (folder != "-").then(|| folder.into());
    let client = blocking::Client::builder()
        .broker(url)
        .expect("a URL")
        .client_id("gateway")
        .buffer(BufferSettings {
            disk,
            ..BufferSettings::default()
        })
        .backoff(Duration::from_millis(5), Duration::from_millis(50))
        .connect_blocking()
        .expect("a client starts without a network");
    let ends = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&ends);
    thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        asked.store(true, Ordering::SeqCst);
    });
    let mut luck = Luck::new(seed.parse().expect("a number"));
    let mut next = life.parse::<u64>().expect("a number") * NUMBERS;
    while !ends.load(Ordering::SeqCst) {
        let first = next;
        let mut last_ticket = None;
        for _ in 0..1 + luck.below(8) {
            let topic = format!("gateway/{}", next % TOPICS);
            let mut payload = format!("{next}|").into_bytes();
            payload.resize(payload.len() + luck.below(400), b'.');
            last_ticket = client
                .publish_message(&payload, "", &topic, &Options::default())
                .ok();
            if last_ticket.is_none() {
                break;
            }
            next += 1;
        }
        if let Some(ticket) = last_ticket
            && client.stored(ticket).is_ok()
        {
            println!("stored {first} {next}");
        }
        thread::sleep(Duration::from_micros(luck.below(3_000) as u64));
    }
    client.flush(PATIENCE).expect("everything leaves");
    println!("drained");
    client.close(PATIENCE).expect("an orderly end");
}

struct Gateway {
    child: Child,
    lines: Receiver<String>,
}

impl Gateway {
    fn start(broker: SocketAddr, folder: Option<&Path>, life: u64, seed: u64) -> Self {
        let folder = folder.map_or("-".into(), |folder| folder.display().to_string());
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program)
            .args([
                "crash::gateway::as_a_gateway",
                "--exact",
                "--ignored",
                "--nocapture",
            ])
            .env(
                "THALWEG_TEST_GATEWAY",
                format!("mqtt://{broker} {life} {seed} {folder}"),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program starts again");
        let (sender, lines) = channel();
        let said = BufReader::new(child.stdout.take().expect("piped"));
        thread::spawn(move || {
            said.lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        Self { child, lines }
    }

    /// The numbers that it says next to be stored.
    fn stored(&mut self) -> std::ops::Range<u64> {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.starts_with("stored ") => return range(&line),
                Ok(_) => {}
                Err(error) => panic!("the gateway says nothing more: {error}"),
            }
        }
    }

    /// `kill -9`; what it had said by then.
    fn kill(mut self) -> Vec<u64> {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it is ours");
        let said = self.lines.iter().filter(|line| line.starts_with("stored "));
        said.flat_map(|line| range(&line)).collect()
    }

    /// Lets it deliver everything; what it said to be stored.
    fn drain(mut self) -> Vec<u64> {
        let mut stored: Vec<u64> = self.stored().collect();
        self.child
            .stdin
            .take()
            .expect("piped")
            .write_all(b"\n")
            .expect("it listens");
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.starts_with("stored ") => stored.extend(range(&line)),
                Ok(line) if line == "drained" => break,
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    panic!("the gateway does not get rid of its messages")
                }
                Err(RecvTimeoutError::Disconnected) => panic!("the gateway ended without a word"),
            }
        }
        assert!(self.child.wait().expect("it is ours").success());
        stored
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `stored 3 7`: 3 to 6. A line that was cut short by the kill says nothing.
fn range(line: &str) -> std::ops::Range<u64> {
    let mut numbers = line
        .split(' ')
        .skip(1)
        .filter_map(|number| number.parse().ok());
    numbers.next().unwrap_or(0)..numbers.next().unwrap_or(0)
}

/// Between the gateway and its broker: a network that is there or not.
struct Relay {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    is_open: bool,
    is_over: bool,
    streams: Vec<TcpStream>,
}

impl Relay {
    fn before(broker: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let mut state = shared.lock().expect("nobody panics here");
                if state.is_over {
                    return;
                }
                // Closed at once, if there is no network.
                if !state.is_open {
                    continue;
                }
                let Ok(server) = TcpStream::connect(broker) else {
                    continue;
                };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (
                        from.try_clone().expect("handles"),
                        to.try_clone().expect("handles"),
                    );
                    thread::spawn(move || pass(from, to));
                }
                state.streams = vec![client, server];
            }
        });
        Self { address, state }
    }

    fn switch(&self, is_open: bool) {
        let mut state = self.state.lock().expect("nobody panics here");
        state.is_open = is_open;
        if !is_open {
            for stream in state.streams.drain(..) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.switch(false);
        self.state.lock().expect("nobody panics here").is_over = true;
        let _ = TcpStream::connect(self.address);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
