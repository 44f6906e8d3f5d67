//! Workers of a group: `thalweg sub --work` at a foreign broker, and Paho for Java with the thesis's extension at ours.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use super::command_line::publish;
use super::puppet::{PATIENCE, installed};
use crate::broker::{Broker, BrokerProgram, thalweg_binary};

/// Carries one connection to the broker; what the client said comes when both have closed.
fn recorded(broker: SocketAddr) -> (SocketAddr, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener
        .local_addr()
        .expect("a bound socket has an address");
    let (teller, told) = channel();
    thread::spawn(move || {
        let Ok((mut client, _)) = listener.accept() else {
            return;
        };
        let Ok(mut broker) = TcpStream::connect(broker) else {
            return;
        };
        let _ = (client.set_nodelay(true), broker.set_nodelay(true));
        let (mut from_broker, mut to_client) = (
            broker.try_clone().expect("shared"),
            client.try_clone().expect("shared"),
        );
        let back = thread::spawn(move || {
            let _ = std::io::copy(&mut from_broker, &mut to_client);
            let _ = to_client.shutdown(Shutdown::Write);
        });
        let (mut said, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(length @ 1..) = client.read(&mut buffer) {
            said.extend_from_slice(&buffer[..length]);
            if broker.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        let _ = broker.shutdown(Shutdown::Write);
        let _ = back.join();
        let _ = teller.send(said);
    });
    (address, told)
}

/// The packets of a connection: first byte and body.
fn packets(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut packets = Vec::new();
    while let [first, rest @ ..] = bytes {
        let (mut length, mut digits) = (0, 0);
        while digits == 0 || rest[digits - 1] >= 0x80 {
            length |= usize::from(rest[digits] & 0x7F) << (7 * digits);
            digits += 1;
        }
        packets.push((*first, rest[digits..digits + length].to_vec()));
        bytes = &rest[digits + length..];
    }
    packets
}

fn worker(address: SocketAddr, arguments: &[&str]) -> Child {
    Command::new(thalweg_binary())
        .args([
            "sub",
            "jobs/#",
            "--share",
            "workers",
            "--work",
            "--url",
            &format!("mqtt://{address}"),
        ])
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("thalweg runs")
}

/// A worker's 40 jobs at a broker that serves it to the end: its reports, and its output.
fn forty_jobs(kind: BrokerProgram, arguments: &[&str]) -> (Vec<(u8, Vec<u8>)>, String) {
    let broker = Broker::with().start_as(kind);
    let (address, told) = recorded(broker.mqtt());
    let worker = worker(
        address,
        &[&["--count", "40", "--timeout", "20s"], arguments].concat(),
    );
    // A publish before the subscription would be lost.
    let deadline = Instant::now() + PATIENCE;
    let mut published = 0;
    let worker = thread::spawn(move || worker.wait_with_output().expect("it was ours to wait for"));
    while !worker.is_finished() && Instant::now() < deadline {
        publish(
            &broker,
            &["-q", "1", "-t", "jobs/x", "-m", &published.to_string()],
        );
        published += 1;
    }
    let output = worker.join().expect("waiting does not panic");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    let packets = packets(
        &told
            .recv_timeout(PATIENCE)
            .expect("the connection has ended"),
    );
    assert_eq!(
        packets.last().map(|(first, _)| *first),
        Some(DISCONNECT),
        "{arguments:?}"
    );
    (
        packets,
        String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

const PINGREQ: u8 = 0xC0;
const PUBLISH: u8 = 0x30;
const PUBACK: u8 = 0x40;
const DISCONNECT: u8 = 0xE0;

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn a_worker_never_sends_the_extension_to_a_broker_that_has_not_announced_it() {
    // Mosquitto 2.0 passes over what is wrong with a PINGREQ, so the packets themselves are looked at.
    let often = ["--work-time", "10ms", "--report-every", "50ms"];
    for (arguments, by_ack) in [
        (&["--keep-alive", "1s"][..], true),
        (&["-q", "2", "--concurrency", "3"], true),
        (
            &["--keep-alive", "1s", "--report", "pingreq", "-q", "0"],
            false,
        ),
        (&["--keep-alive", "1s", "--v", "3.1.1"], false),
    ] {
        let arguments = &[&often, arguments].concat();
        let (packets, printed) = forty_jobs(BrokerProgram::Mosquitto, arguments);
        assert_eq!(printed.lines().count(), 40, "{arguments:?}");
        for (first, body) in &packets {
            assert!(
                *first != PINGREQ || body.is_empty(),
                "{arguments:?}: PINGREQ with {body:02x?}"
            );
            assert!(
                first & 0xF0 != PUBLISH,
                "{arguments:?}: a worker publishes nothing there"
            );
        }
        let reports = packets
            .iter()
            .filter(|(first, body)| *first == PUBACK && body.len() > 3);
        assert_eq!(
            reports.count() > 0,
            by_ack,
            "{arguments:?}: what MQTT 5 allows on PUBACK is used"
        );
    }
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn a_worker_reports_in_pings_to_a_broker_that_announces_it() {
    let (packets, _) = forty_jobs(
        BrokerProgram::Thalweg,
        &["--work-time", "10ms", "--report-every", "50ms"],
    );
    let reports: Vec<_> = packets
        .iter()
        .filter(|(first, body)| *first == PINGREQ && !body.is_empty())
        .collect();
    assert!(reports.len() > 3, "{} reports", reports.len());
    for (_, body) in reports {
        let text = String::from_utf8_lossy(body);
        assert!(text.starts_with("\0{\"numberOfMsgsInQueue\":"), "{text}");
    }
}

/// Compiles the Java example, once; the class path that it runs with.
fn java_example() -> &'static str {
    static CLASS_PATH: OnceLock<String> = OnceLock::new();
    CLASS_PATH.get_or_init(compile_java_example)
}

fn compile_java_example() -> String {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/java-load/src");
    let classes: PathBuf = installed().join("java-load");
    let jars = installed().join("java/lib/*").display().to_string();
    let mut files: Vec<PathBuf> = std::fs::read_dir(sources)
        .expect("the example is there")
        .map(|entry| entry.expect("readable").path())
        .collect();
    files.sort();
    let compiled = Command::new("javac")
        .args(["-Xlint:all", "-Werror", "-cp", &jars, "-d"])
        .arg(&classes)
        .args(files)
        .output();
    let compiled = compiled.expect("javac runs");
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    format!("{}:{jars}", classes.display())
}

/// Final output of the Java example's worker.
#[derive(Debug)]
struct WorkerReport {
    service: u64,
    received: u64,
    processed: u64,
    reports: u64,
    is_announced: bool,
    is_lost: bool,
}

impl WorkerReport {
    fn read(line: &str) -> WorkerReport {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |name: &str| {
            let at = words
                .iter()
                .position(|word| *word == name)
                .unwrap_or_else(|| panic!("no {name} in {line}"));
            words[at + 1].parse().expect("a number")
        };
        WorkerReport {
            service: number("service"),
            received: number("received"),
            processed: number("processed"),
            reports: number("reports"),
            is_announced: words.contains(&"announced"),
            is_lost: words.contains(&"lost"),
        }
    }
}

/// The broker's statistics of its groups.
fn groups(broker: &Broker) -> Value {
    let mut stream = TcpStream::connect(broker.admin()).expect("the admin listener accepts");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a timeout can be set");
    write!(
        stream,
        "GET /v1/groups HTTP/1.0\r\nHost: {}\r\n\r\n",
        broker.admin()
    )
    .expect("it reads");
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .expect("it answers and closes");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

/// Three Java workers take 600 messages, 100 a second, at QoS 0; `look` sees them before they leave.
fn java_workers(broker: &Broker, look: impl FnOnce()) -> Vec<WorkerReport> {
    let url = format!("tcp://{}", broker.mqtt());
    let mut workers = Command::new("java")
        .args([
            "-cp",
            java_example(),
            "Workers",
            &url,
            "$share/workers/jobs",
            "200",
            "10",
            "10",
            "100",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("java runs");
    let mut input = workers.stdin.take().expect("the pipe was asked for");
    let mut output = BufReader::new(workers.stdout.take().expect("the pipe was asked for"));
    let mut line = String::new();
    output
        .read_line(&mut line)
        .expect("the workers say that they are ready");
    assert_eq!(line, "ready\n");
    let published = Command::new(thalweg_binary())
        .args([
            "pub", "jobs", "-m", "job", "--count", "600", "--rate", "100/s",
        ])
        .args(["--url", &format!("mqtt://{}", broker.mqtt())])
        .status()
        .expect("thalweg runs");
    assert!(published.success());
    // A backlog above the workers' capacity shows in the messages that they received, not in those that they completed.
    let deadline = Instant::now() + PATIENCE;
    while line != "600\n" {
        assert!(Instant::now() < deadline, "of 600 have come: {line}");
        writeln!(input).expect("the workers read");
        line.clear();
        output
            .read_line(&mut line)
            .expect("the workers say how many have come");
    }
    look();
    drop(input);
    let mut text = String::new();
    output
        .read_to_string(&mut text)
        .expect("the workers print text");
    assert!(
        workers.wait().expect("it was ours to wait for").success(),
        "{text}"
    );
    text.lines().map(WorkerReport::read).collect()
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn paho_java_with_the_thesis_extension_gets_shares_by_speed() {
    for strategy in ["score", "adaptive"] {
        let broker = Broker::with()
            .set("groups.strategy", strategy)
            .start_as(BrokerProgram::Thalweg);
        let said = java_workers(&broker, || {
            let books = groups(&broker);
            let seats = books["items"][0]["seats"]
                .as_array()
                .unwrap_or_else(|| panic!("no seats in {books}"));
            assert_eq!(seats.len(), 3, "{strategy}: {books}");
            let counted =
                |seat: &Value| seat["reports"].as_u64() >= Some(10) && seat["reports_refused"] == 0;
            assert!(seats.iter().all(counted), "{strategy}: {books}");
        });
        assert!(
            said.iter()
                .all(|worker| worker.is_announced && !worker.is_lost),
            "{strategy}: {said:?}"
        );
        assert!(
            said.iter().all(|worker| worker.reports >= 10),
            "{strategy}: six seconds, five a second: {said:?}"
        );
        assert_eq!(
            said.iter().map(|worker| worker.received).sum::<u64>(),
            600,
            "{strategy}: {said:?}"
        );
        // In six seconds it can do 60; in turns it would get 200.
        let slow = said
            .iter()
            .find(|worker| worker.service == 100)
            .expect("there is a slow one");
        assert!(slow.received < 120, "{strategy}: {said:?}");
        assert!(
            slow.received - slow.processed < 20,
            "{strategy}: little waits at the slow one: {said:?}"
        );
    }
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn paho_java_with_the_extension_is_an_ordinary_client_to_mosquitto() {
    let broker = Broker::with().start_as(BrokerProgram::Mosquitto);
    let said = java_workers(&broker, || ());
    assert!(
        said.iter()
            .all(|worker| !worker.is_announced && !worker.is_lost && worker.reports == 0),
        "{said:?}"
    );
    assert_eq!(
        said.iter().map(|worker| worker.received).sum::<u64>(),
        600,
        "{said:?}"
    );
}
