//! CoAP over a network that loses a quarter of all packets, each way: what a client saw acknowledged reaches a subscriber
//! exactly once.
//!
//! Two network namespaces with a link between them: the broker is in one, ten clients are in the other, and nftables
//! drops packets on arrival. The subscriber uses MQTT with QoS 1 over a unix socket, which loses nothing. Clients are
//! `thalweg_coap::ClientSide` with the default timers of RFC 7252 (2 to 3 s, four repetitions, NSTART 1). An exchange
//! takes 3.6 s on average and 93 s until it is given up, so each client has many endpoints, which work side by side.
//!
//! `cargo xtask test` sends 1,000 messages, which takes up to three minutes of waiting. All 10,000:
//! `THALWEG_LOSS_MESSAGES=10000 cargo test -p thalweg-tests coap_loss -- --nocapture`. The report goes to standard output and to
//! `target/loss/report.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_coap::{
    ClientEvent, ClientNotice, ClientSettings, ClientSide, Code, Datagrams, RequestId, RequestOut,
    Value, option,
};
use thalweg_wire::Time;

use crate::broker::Broker;
use crate::conformance::packet::Version::V5;
use crate::conformance::packet::{Connect, PUBACK, Packet, ack, read, subscribe};

const CLIENTS: usize = 10;
const ENDPOINTS_EACH: usize = 100;
/// Of one message: after these it is left.
const EXCHANGES_MAX: u32 = 4;
const LOSS_PERCENT: u32 = 25;
const BROKER: &str = "10.77.0.1:5683";

/// Two namespaces with a link that loses packets; gone when dropped.
struct Network {
    broker: String,
    clients: String,
}

impl Network {
    /// `None` where no namespace can be created, with the reason.
    fn new() -> Result<Self, String> {
        let process = std::process::id();
        let network = Self {
            broker: format!("thalweg-b{process}"),
            clients: format!("thalweg-c{process}"),
        };
        let Self { broker, clients } = &network;
        ip(&["netns", "add", broker])?;
        ip(&["netns", "add", clients])?;
        ip(&[
            "link", "add", "lossy", "netns", broker, "type", "veth", "peer", "name", "lossy",
            "netns", clients,
        ])?;
        for (name, address) in [(broker, "10.77.0.1/24"), (clients, "10.77.0.2/24")] {
            ip(&["-n", name, "addr", "add", address, "dev", "lossy"])?;
            ip(&["-n", name, "link", "set", "lossy", "up"])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
            let rule = format!(
                "add table inet loss; add counter inet loss came; add counter inet loss lost; \
                 add chain inet loss arriving {{ type filter hook input priority 0; }}; \
                 add rule inet loss arriving iifname lossy meta l4proto udp counter name came; \
                 add rule inet loss arriving iifname lossy meta l4proto udp numgen random mod 100 < {LOSS_PERCENT} counter name lost drop"
            );
            run(Command::new("ip").args(["netns", "exec", name, "nft", &rule]))?;
        }
        Ok(network)
    }

    /// Packets that came to a namespace, and those of them that were dropped.
    fn counts(name: &str) -> (u64, u64) {
        let listed =
            run(Command::new("ip").args(["netns", "exec", name, "nft", "list", "counters"]))
                .unwrap_or_default();
        let packets: Vec<u64> = listed
            .lines()
            .filter_map(|line| line.trim().strip_prefix("packets "))
            .filter_map(|rest| rest.split(' ').next()?.parse().ok())
            .collect();
        match packets[..] {
            [came, lost] => (came, lost),
            _ => panic!("two counters: {listed}"),
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in [&self.broker, &self.clients] {
            let _ = ip(&["netns", "del", name]);
        }
    }
}

fn ip(arguments: &[&str]) -> Result<String, String> {
    run(Command::new("ip").args(arguments))
}

fn run(command: &mut Command) -> Result<String, String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!(
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

/// An endpoint's record of one message: a line of the clients' report.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    payload: String,
    /// Number of new publishes after an unacknowledged one.
    given_up: u32,
    acknowledged: bool,
    /// From the first datagram to the last answer.
    millis: u64,
}

impl Outcome {
    fn to_line(&self) -> String {
        format!(
            "{} {} {} {}\n",
            self.payload, self.given_up, self.acknowledged, self.millis
        )
    }

    fn of_line(line: &str) -> Self {
        let fields: Vec<&str> = line.split(' ').collect();
        let [payload, given_up, acknowledged, millis] = fields[..] else {
            panic!("not an outcome: {line}")
        };
        let number = |text: &str| text.parse().expect("a number");
        Self {
            payload: payload.to_owned(),
            given_up: u32::try_from(number(given_up)).expect("a few"),
            acknowledged: acknowledged == "true",
            millis: number(millis),
        }
    }
}

/// One endpoint: a machine, a socket, one message after the other.
struct Endpoint {
    side: ClientSide,
    socket: UdpSocket,
    broker: SocketAddr,
    began: Instant,
    out: Datagrams,
}

impl Endpoint {
    fn new(broker: SocketAddr, seed: u64) -> Self {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a namespace has free ports");
        let side = ClientSide::new(Arc::new(ClientSettings::default()), seed);
        Self {
            side,
            socket,
            broker,
            began: Instant::now(),
            out: Datagrams::new(),
        }
    }

    fn now(&self) -> Time {
        Time::from_nanos(
            u64::try_from(self.began.elapsed().as_nanos()).expect("an hour is less") + 1,
        )
    }

    /// Publishes until it is acknowledged, anew when the machine has given up.
    fn publish(&mut self, level: &str, payload: &str) -> Outcome {
        let started = Instant::now();
        let mut outcome = Outcome {
            payload: payload.to_owned(),
            given_up: 0,
            acknowledged: false,
            millis: 0,
        };
        let path = ["ps", "data", "loss", level]
            .map(|level| (option::URI_PATH, Value::Opaque(level.as_bytes())));
        let request = RequestOut {
            code: Code::PUT,
            confirmable: true,
            options: &path,
            payload: payload.as_bytes(),
            observe: false,
        };
        for _ in 0..EXCHANGES_MAX {
            let now = self.now();
            let id = self
                .side
                .request(self.broker, &request, now, &mut self.out)
                .expect("nothing else is under way");
            if self.finish(id) {
                outcome.acknowledged = true;
                break;
            }
            outcome.given_up += 1;
        }
        outcome.millis = u64::try_from(started.elapsed().as_millis()).expect("an hour is less");
        outcome
    }

    /// Whether an answer came, before the machine gave up.
    fn finish(&mut self, id: RequestId) -> bool {
        let mut datagram = [0; 1500];
        loop {
            for (to, bytes) in self.out.iter() {
                // A full buffer loses a packet, as the network does.
                let _ = self.socket.send_to(bytes, to);
            }
            self.out.clear();
            while let Some(notice) = self.side.poll_event() {
                if matches!(notice, ClientNotice::Failed { request, .. } if request == id) {
                    return false;
                }
            }
            let left = self
                .side
                .poll_timeout()
                .since(self.now())
                .nanos()
                .max(100_000);
            self.socket
                .set_read_timeout(Some(Duration::from_nanos(left).min(Duration::from_secs(3))))
                .expect("not zero");
            let received = self.socket.recv_from(&mut datagram);
            let now = self.now();
            match received {
                Ok((length, from)) => {
                    let event =
                        self.side
                            .handle_datagram(from, &datagram[..length], now, &mut self.out);
                    if let Some(ClientEvent::Response(response)) = event {
                        assert_eq!(
                            response.code.class(),
                            2,
                            "the broker refuses: {}",
                            response.code
                        );
                        if response.request == id {
                            return true;
                        }
                    }
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                // Nobody listened for a moment: ICMP.
                Err(_) => {}
            }
            self.side.handle_timeout(now, &mut self.out);
        }
    }
}

/// The other program of this test, in the clients' namespace: `THALWEG_LOSS_CLIENTS` says how many messages an endpoint sends,
/// the seed, and where the report goes.
#[test]
#[ignore = "started by the test of the loss, in a namespace of its own"]
fn clients_behind_the_loss() {
    let Ok(order) = std::env::var("THALWEG_LOSS_CLIENTS") else {
        return;
    };
    let fields: Vec<&str> = order.split(';').collect();
    let [each, seed, report] = fields[..] else {
        panic!("THALWEG_LOSS_CLIENTS={order}")
    };
    let each: usize = each.parse().expect("a number");
    let seed: u64 = seed.parse().expect("a number");
    let broker: SocketAddr = BROKER.parse().expect("an address");
    rlimit::increase_nofile_limit(8192).expect("sockets for all endpoints");
    let endpoints =
        (0..CLIENTS).flat_map(|client| (0..ENDPOINTS_EACH).map(move |endpoint| (client, endpoint)));
    let workers: Vec<_> = endpoints
        .map(|(client, number)| {
            let work = move || {
                let own_seed = seed
                    ^ ((client * ENDPOINTS_EACH + number + 1) as u64)
                        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let mut endpoint = Endpoint::new(broker, own_seed);
                let level = format!("client{client}");
                (0..each)
                    .map(|message| {
                        endpoint.publish(&level, &format!("{client}.{number}.{message}"))
                    })
                    .collect::<Vec<_>>()
            };
            thread::Builder::new()
                .stack_size(256 << 10)
                .spawn(work)
                .expect("threads are to be had")
        })
        .collect();
    let mut lines = String::new();
    for worker in workers {
        worker
            .join()
            .expect("an endpoint ends well")
            .iter()
            .for_each(|outcome| lines.push_str(&outcome.to_line()));
    }
    fs::write(report, lines).expect("the report can be written");
}

/// Number of deliveries of each payload to a subscriber with QoS 1.
fn subscribed(
    socket: &Path,
    is_over: Arc<AtomicBool>,
) -> thread::JoinHandle<BTreeMap<String, u32>> {
    let mut stream = UnixStream::connect(socket).expect("the broker listens");
    let mut unread = Vec::new();
    let mut next = move |stream: &mut UnixStream| loop {
        if let Some(packet) = read(V5, &mut unread) {
            return Some(packet);
        }
        let mut buffer = [0; 16384];
        match stream.read(&mut buffer) {
            Ok(0) => panic!("the broker closed the subscriber's connection"),
            Ok(length) => unread.extend_from_slice(&buffer[..length]),
            Err(_) => return None,
        }
    };
    let patience = |stream: &UnixStream, time| {
        stream.set_read_timeout(Some(time)).expect("not zero");
    };
    patience(&stream, Duration::from_secs(60));
    stream
        .write_all(&Connect::new(V5, "lossless").keep_alive(0).bytes())
        .expect("the broker reads");
    assert!(
        matches!(next(&mut stream), Some(Packet::Connack { code: 0, .. })),
        "CONNACK"
    );
    stream
        .write_all(&subscribe(V5, 1, &[], &[("loss/#", 1)]))
        .expect("the broker reads");
    assert!(
        matches!(next(&mut stream), Some(Packet::Suback { codes, .. }) if codes == [1]),
        "SUBACK"
    );
    patience(&stream, Duration::from_secs(2));
    thread::spawn(move || {
        let mut times = BTreeMap::new();
        loop {
            match next(&mut stream) {
                Some(Packet::Publish(message)) => {
                    assert_eq!(message.qos, 1, "a confirmable publish is at least once");
                    stream
                        .write_all(&ack(PUBACK, message.id))
                        .expect("the broker reads");
                    *times
                        .entry(String::from_utf8_lossy(&message.payload).into_owned())
                        .or_default() += 1;
                }
                Some(_) => {}
                // Two seconds of silence after the clients' end.
                None if is_over.load(Ordering::Relaxed) => return times,
                None => {}
            }
        }
    })
}

#[test]
fn what_a_client_saw_acknowledged_arrives_exactly_once_though_a_quarter_of_all_packets_is_lost() {
    let wanted = std::env::var("THALWEG_LOSS_MESSAGES")
        .ok()
        .map(|text| text.parse().expect("a number of messages"));
    let each = wanted
        .unwrap_or(CLIENTS * ENDPOINTS_EACH)
        .div_ceil(CLIENTS * ENDPOINTS_EACH);
    let seed = std::env::var("THALWEG_LOSS_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(u64::from(std::process::id()));
    let network = match Network::new() {
        Ok(network) => network,
        Err(why) => {
            eprintln!("left out: no network namespaces here: {why}");
            return;
        }
    };
    let options = Broker::with()
        .in_namespace(&network.broker)
        .set("listeners.coap.bind", BROKER)
        .set("listeners.coap.anonymous", "true")
        .set("listeners.local.transport", "unix")
        .set("listeners.local.bind", "{folder}/broker.sock");
    let Some(broker) = options.start_for_queues() else {
        return;
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let subscriber = subscribed(&broker.folder().join("broker.sock"), Arc::clone(&is_over));
    let outcomes = broker.folder().join("outcomes");
    let this = std::env::current_exe().expect("a running program has a path");
    let started = Instant::now();
    run(Command::new("ip")
        .args(["netns", "exec", &network.clients])
        .arg(this)
        .args([
            "--exact",
            "coap_loss::clients_behind_the_loss",
            "--ignored",
            "--nocapture",
        ])
        .env(
            "THALWEG_LOSS_CLIENTS",
            format!("{each};{seed};{}", outcomes.display()),
        ))
    .unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    let took = started.elapsed();
    is_over.store(true, Ordering::Relaxed);
    let times = subscriber.join().expect("the subscriber ends well");
    let outcomes = fs::read_to_string(outcomes).expect("the clients reported");
    let outcomes: Vec<Outcome> = outcomes.lines().map(Outcome::of_line).collect();
    assert_eq!(
        outcomes.len(),
        each * CLIENTS * ENDPOINTS_EACH,
        "every message has an outcome"
    );
    let verdict = Verdict::of(&outcomes, &times);
    let report = report(&outcomes, &verdict, &network, took, seed);
    println!("{report}");
    write_report(&report);
    let some = verdict
        .wrong
        .iter()
        .take(20)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        verdict.wrong.is_empty(),
        "seed {seed}: {} are wrong, among them\n{some}\n{report}",
        verdict.wrong.len()
    );
    assert!(
        verdict.once > 0 && Network::counts(&network.broker).1 > 0,
        "something was lost on the way: seed {seed}\n{report}"
    );
}

/// Outcomes of all messages.
#[derive(Debug, Default, PartialEq, Eq)]
struct Verdict {
    /// Acknowledged at once, and received exactly once.
    once: u64,
    /// Published anew after giving up, by how often they came.
    repeated: BTreeMap<u32, u64>,
    /// Never acknowledged, by how often they came.
    unacknowledged: BTreeMap<u32, u64>,
    /// Outcomes that are errors.
    wrong: Vec<String>,
}

impl Verdict {
    fn of(outcomes: &[Outcome], times: &BTreeMap<String, u32>) -> Self {
        let mut verdict = Self::default();
        let mut known = 0;
        for outcome in outcomes {
            let came = times.get(&outcome.payload).copied().unwrap_or_default();
            known += u64::from(came);
            let may_come = match (outcome.acknowledged, outcome.given_up) {
                (true, 0) => 1..=1,
                (true, again) => 1..=again + 1,
                (false, again) => 0..=again,
            };
            if !may_come.contains(&came) {
                verdict.wrong.push(format!("{outcome:?} came {came} times"));
            } else if !outcome.acknowledged {
                *verdict.unacknowledged.entry(came).or_default() += 1;
            } else if outcome.given_up > 0 {
                *verdict.repeated.entry(came).or_default() += 1;
            } else {
                verdict.once += 1;
            }
        }
        let all: u64 = times.values().copied().map(u64::from).sum();
        if all != known {
            verdict
                .wrong
                .push(format!("{} messages that nobody sent", all - known));
        }
        verdict
    }
}

fn report(
    outcomes: &[Outcome],
    verdict: &Verdict,
    network: &Network,
    took: Duration,
    seed: u64,
) -> String {
    let mut millis: Vec<u64> = outcomes.iter().map(|outcome| outcome.millis).collect();
    millis.sort_unstable();
    let at = |percent: usize| {
        millis
            .get(millis.len() * percent / 100)
            .copied()
            .unwrap_or_default()
    };
    let mean = millis.iter().sum::<u64>() / millis.len().max(1) as u64;
    let given_up: u32 = outcomes.iter().map(|outcome| outcome.given_up).sum();
    let mut out = format!(
        "# CoAP at a loss of {LOSS_PERCENT} % each way\n\n\
         {} confirmable publishes from {CLIENTS} clients with {ENDPOINTS_EACH} endpoints each, default timers, seed {seed}; took {:.0} s.\n\n\
         | | |\n|---|--:|\n\
         | acknowledged, received exactly once | {} |\n",
        outcomes.len(),
        took.as_secs_f64(),
        verdict.once,
    );
    for (came, count) in &verdict.repeated {
        let _ = writeln!(
            out,
            "| published anew after giving up, acknowledged, received {came} times | {count} |"
        );
    }
    for (came, count) in &verdict.unacknowledged {
        let _ = writeln!(
            out,
            "| never acknowledged, received {came} times | {count} |"
        );
    }
    let _ = writeln!(
        out,
        "| wrong: acknowledged and lost, or doubled | {} |",
        verdict.wrong.len()
    );
    let _ = writeln!(out, "| exchanges given up | {given_up} |");
    for (what, name) in [
        ("to the broker", &network.broker),
        ("to the clients", &network.clients),
    ] {
        let (came, lost) = Network::counts(name);
        let percent = 100.0 * lost as f64 / came.max(1) as f64;
        let _ = writeln!(
            out,
            "| packets {what} | {came}, of them lost {lost} ({percent:.1} %) |"
        );
    }
    let _ = writeln!(
        out,
        "| until acknowledged: mean / p50 / p90 / p99 / most | {mean} / {} / {} / {} / {} ms |",
        at(50),
        at(90),
        at(99),
        millis.last().copied().unwrap_or_default()
    );
    out
}

fn write_report(report: &str) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/loss");
    let written =
        fs::create_dir_all(&folder).and_then(|()| fs::write(folder.join("report.md"), report));
    written.unwrap_or_else(|error| eprintln!("the report is not kept: {error}"));
}

#[test]
fn what_is_acknowledged_must_come_once_and_what_is_repeated_may_come_more_often() {
    let outcome = |payload: &str, given_up, acknowledged| Outcome {
        payload: payload.to_owned(),
        given_up,
        acknowledged,
        millis: 1,
    };
    let came = |list: &[(&str, u32)]| {
        list.iter()
            .map(|(payload, times)| ((*payload).to_owned(), *times))
            .collect()
    };
    let fine = Verdict::of(
        &[
            outcome("a", 0, true),
            outcome("b", 1, true),
            outcome("c", 1, true),
            outcome("d", 4, false),
        ],
        &came(&[("a", 1), ("b", 1), ("c", 2)]),
    );
    assert_eq!((fine.once, fine.wrong.len()), (1, 0), "{fine:?}");
    assert_eq!(
        (fine.repeated, fine.unacknowledged),
        (BTreeMap::from([(1, 1), (2, 1)]), BTreeMap::from([(0, 1)]))
    );
    for (outcome, times) in [
        (outcome("lost", 0, true), 0),
        (outcome("doubled", 0, true), 2),
        (outcome("repeated and lost", 1, true), 0),
        (outcome("once too often", 1, true), 3),
    ] {
        assert_eq!(
            Verdict::of(
                std::slice::from_ref(&outcome),
                &came(&[(&outcome.payload, times)])
            )
            .wrong
            .len(),
            1,
            "{outcome:?}"
        );
    }
    assert_eq!(
        Verdict::of(&[], &came(&[("x", 1)])).wrong.len(),
        1,
        "nobody sent it"
    );
}
