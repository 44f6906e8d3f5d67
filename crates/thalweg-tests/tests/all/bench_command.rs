//! `thalweg bench` as a person meets it: a short run of E5 in real time. Counts and files, never times: how busy the
//! machine is that tests this is not for a test to say.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::Value;

use crate::broker::{free_port, thalweg_binary};
use crate::folder::Folder;

fn bench(args: &[&str]) -> Output {
    // A run that hangs ends here.
    Command::new("timeout")
        .args(["--signal=KILL", "120"])
        .arg(thalweg_binary())
        .arg("bench")
        .args(args)
        .output()
        .expect("coreutils' timeout runs")
}

#[test]
fn a_short_run_of_e5_leaves_every_message_and_a_report() {
    let folder = Folder::new();
    let out = folder.path().join("e5");
    let out = out
        .to_str()
        .expect("a temporary folder has a name in ASCII");
    let run = bench(&[
        "suite", "E5", "--smoke", "--json", "--quiet", "--seed", "7", "--out", out,
    ]);
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    // 2 and 3 are for machines that are too busy to keep time; all else is a fault.
    assert!(
        matches!(run.status.code(), Some(0 | 2 | 3)),
        "{}: {said}",
        run.status
    );
    let found: Value = serde_json::from_slice(&run.stdout).expect("--json prints JSON");
    assert_eq!(found["about"]["seed"], 7);
    assert_eq!(found["about"]["trials"], 2);

    let messages = fs::read_to_string(format!("{out}/messages.csv")).expect("it was written");
    let mut rows = messages.lines();
    let head: Vec<&str> = rows.next().expect("a head").split(',').collect();
    let column = |name: &str| head.iter().position(|column| *column == name).expect(name);
    let (trial, deliveries, processed) = (column("key"), column("deliveries"), column("processed"));
    let (member, done) = (column("member"), column("t_done_us"));
    let rows: Vec<Vec<&str>> = rows.map(|row| row.split(',').collect()).collect();
    assert_eq!(rows.len(), 2 * 200, "two cells of two hundred messages");
    for row in &rows {
        assert_eq!(
            (row[deliveries], row[processed]),
            ("1", "1"),
            "exactly once: {row:?}"
        );
        assert_ne!(row[done], "");
    }
    // In one of them members came in turn: 67, 67 and 66.
    let mut counts = [0; 3];
    for row in rows.iter().filter(|row| row[trial].contains("round-robin")) {
        counts[row[member].parse::<usize>().expect("a member")] += 1;
    }
    counts.sort_unstable();
    assert_eq!(counts, [66, 67, 67]);

    let html = fs::read_to_string(format!("{out}/report.html")).expect("it was written");
    assert!(html.contains("S5.4") && !html.contains("<script"));
    let before = fs::read_to_string(format!("{out}/summary.md")).expect("it was written");
    fs::remove_file(format!("{out}/summary.md")).expect("it was there");
    bench(&["report", out]);
    assert_eq!(
        fs::read_to_string(format!("{out}/summary.md")).expect("written anew"),
        before,
        "a report is made of raw files only"
    );
}

#[test]
fn results_are_not_written_over_others() {
    let folder = Folder::new();
    fs::write(folder.path().join("precious"), "").expect("the folder is writable");
    let out = folder
        .path()
        .to_str()
        .expect("a temporary folder has a name in ASCII");
    let run = bench(&["suite", "E5", "--smoke", "--out", out]);
    assert_eq!(run.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&run.stderr).contains("is not empty"));
    let run = bench(&["report", out]);
    assert_eq!(run.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&run.stderr).contains("run.json"));
}

#[test]
fn a_broker_that_is_not_there_is_named() {
    let folder = Folder::new();
    let out = folder.path().join("e5");
    let url = format!("mqtt://{}", free_port());
    let out = out
        .to_str()
        .expect("a temporary folder has a name in ASCII");
    let run = bench(&["suite", "E5", "--smoke", "--broker", &url, "--out", out]);
    assert_eq!(run.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&run.stderr).contains(&url));
}

/// Runs a scenario of forty messages, with these keys set, against a broker of its own; returns the cell and its
/// results.
fn tiny(sets: &[&str]) -> (Value, Value) {
    let folder = Folder::new();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(
        path("tiny.yaml"),
        "name: tiny\nrepeats: 1\nprotocol: {publish: mqtt, qos: 1}\nworkload: {size: 60B}\n\
         load: {rate: 20/s, flows: 4}\n\
         phases: {settle: 0ms, warmup: 0ms, measure: 500ms, drain: 20s}\n",
    )
    .expect("the folder is writable");
    // Value of `workload.payload`, besides the scenario.
    fs::write(path("body.json"), [b'j'; 200]).expect("the folder is writable");
    let (scenario, out) = (path("tiny.yaml"), path("out"));
    let mut args = vec!["run", &scenario, "--quiet", "--out", &out];
    args.extend(sets.iter().flat_map(|set| ["--set", *set]));
    let run = bench(&args);
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    // 2 is for a machine that is too busy to keep time.
    assert!(
        matches!(run.status.code(), Some(0 | 2)),
        "{sets:?}: {} {said}",
        run.status
    );
    let cells = fs::read_to_string(path("out/cells.jsonl")).expect("it was written");
    let line: Value = serde_json::from_str(cells.lines().next().expect("a trial")).expect("JSON");
    (line["cell"].clone(), line["row"].clone())
}

#[test]
fn a_scenario_goes_over_tls_and_websocket() {
    for set in [
        "protocol.transport=tls",
        "protocol.transport=ws",
        "protocol.transport=wss",
    ] {
        let (cell, row) = tiny(&[set]);
        assert_eq!(
            (&row["delivered"], &row["lost"]),
            (&40.into(), &0.into()),
            "{set}: {row}"
        );
        assert!(set.ends_with(cell["extras"]["carrier"].as_str().expect("it is named")));
    }
    for protocol in ["amqp", "stomp"] {
        let publish = format!("protocol.publish={protocol}");
        let (_, row) = tiny(&["protocol.transport=tls", &publish]);
        assert_eq!(row["delivered"], 40, "{protocol}: {row}");
    }
}

#[test]
fn subscribers_share_messages_or_take_them_by_a_wildcard() {
    let received = |kind: &str| {
        let kind = format!("load.subscriptions={kind}");
        let (_, row) = tiny(&[&kind, "load.fan_out=3"]);
        assert_eq!(
            (&row["lost"], &row["duplicates"]),
            (&0.into(), &0.into()),
            "{kind}: {row}"
        );
        row["delivered"].as_u64()
    };
    assert_eq!(received("topics"), Some(120));
    assert_eq!(received("wildcard"), Some(120));
    assert_eq!(received("shared"), Some(40));
    assert_eq!(received("shared-wildcard"), Some(40));
}

#[test]
fn retained_messages_are_fetched_and_a_backlog_is_drained() {
    let (_, row) = tiny(&["load.retained=700", "load.backlog=600"]);
    assert_eq!(
        (&row["delivered"], &row["lost"]),
        (&40.into(), &0.into()),
        "{row}"
    );
    let more = &row["more"];
    assert_eq!(
        (&more["retained_messages"], &more["backlog_messages"]),
        (&700.0.into(), &600.0.into())
    );
    for rate in ["retained_per_s", "backlog_per_s"] {
        assert!(more[rate].as_f64().is_some_and(|rate| rate > 0.0), "{more}");
    }
}

#[test]
fn a_payload_is_that_of_a_file() {
    let (cell, row) = tiny(&["workload={payload: body.json}"]);
    assert_eq!(cell["workload"]["fixed"]["bytes"], 200, "{cell}");
    assert_eq!(
        (&row["delivered"], &row["payload_bytes"]),
        (&40.into(), &8000.into()),
        "{row}"
    );
}

/// Why no network can be made here; None if one can.
fn no_network() -> Option<String> {
    let run = bench(&["net", "check", "--packets", "100"]);
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    (said.contains("need root") || said.contains("is not installed") || said.contains("no TUN"))
        .then_some(said)
}

/// Columns of a table by name.
fn table(path: &str, names: &[&str]) -> Vec<Vec<String>> {
    let text = fs::read_to_string(path).expect("it was written");
    let mut rows = text.lines();
    let head: Vec<&str> = rows.next().expect("a head").split(',').collect();
    let columns: Vec<usize> = names
        .iter()
        .map(|name| head.iter().position(|column| column == name).expect(name))
        .collect();
    rows.map(|row| {
        let fields: Vec<&str> = row.split(',').collect();
        columns
            .iter()
            .map(|column| fields[*column].to_owned())
            .collect()
    })
    .collect()
}

#[test]
fn networks_lose_and_count_what_they_say() {
    if let Some(why) = no_network() {
        eprintln!("not run: {why}");
        return;
    }
    let run = bench(&["net", "check", "--packets", "10000"]);
    let found = String::from_utf8_lossy(&run.stdout);
    // 3: a rate was off, which is a matter of what else runs here, or chance took more than its interval.
    let is_over = matches!(run.status.code(), Some(0 | 3));
    assert!(is_over, "{found}{}", String::from_utf8_lossy(&run.stderr));
    let (mut bytes, mut losses) = (0, 0);
    let lines: Vec<&str> = found.lines().collect();
    // A finding has three lines: what it is about, what was expected, and what was measured.
    for at in (0..lines.len()).filter(|at| lines[*at].contains(" kernel: ")) {
        let (row, [wanted, came]) = (lines[at], [lines[at + 1], lines[at + 2]].map(numbers));
        if row.contains(": bytes of ") {
            bytes += 1;
            assert_eq!(came, wanted, "{row}");
        }
        // Its losses have no seed: twice the interval, of more than four deviations, is beyond chance.
        if let ([sent, expected, half], [arrived, lost]) = (&wanted[..], &came[..]) {
            losses += 1;
            let is_near = (lost - expected).abs() <= 2.0 * half;
            assert!(arrived == sent && is_near, "{row}");
        }
    }
    assert_eq!((bytes, losses), (1, 12), "{found}");
}

/// The numbers in a text.
fn numbers(text: &str) -> Vec<f64> {
    text.split(' ')
        .filter_map(|word| word.parse().ok())
        .collect()
}

/// At least once over a link that loses a quarter of all packets, each way, both legs: everything arrives, over MQTT and
/// over CoAP. `THALWEG_E2_MESSAGES=10000` is the whole of it; else it is 100 messages.
#[test]
fn a_quarter_of_all_packets_is_lost_and_no_message() {
    if let Some(why) = no_network() {
        eprintln!("not run: {why}");
        return;
    }
    let messages: usize =
        std::env::var("THALWEG_E2_MESSAGES").map_or(100, |count| count.parse().expect("a number"));
    let folder = Folder::new();
    let out = folder.path().join("e2");
    let out = out
        .to_str()
        .expect("a temporary folder has a name in ASCII");
    let step = format!("{}s", messages.div_ceil(100).max(10));
    let rate = format!(
        "{}/s",
        messages as f64 / messages.div_ceil(100).max(10) as f64
    );
    // Ten seconds between two of a topic, as CoAP needs them: an exchange of states, not a stream.
    let topics = messages.clamp(10, 1000).to_string();
    let run = Command::new("timeout")
        .args(["--signal=KILL", "500"])
        .arg(thalweg_binary())
        .args([
            "bench",
            "suite",
            "E2d",
            "--fixed-only",
            "--losses",
            "25%",
            "--step",
            &step,
            "--rate",
            &rate,
        ])
        .args(["--topics", &topics, "--quiet", "--out", out])
        .output()
        .expect("coreutils' timeout runs");
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    // 2: messages were published late, on a machine that is too busy for exact times; they have to arrive all the same.
    assert!(
        matches!(run.status.code(), Some(0 | 2)),
        "{}: {said}{}",
        run.status,
        String::from_utf8_lossy(&run.stdout)
    );
    let rows = table(&format!("{out}/messages.csv"), &["copies", "outcome"]);
    assert_eq!(rows.len(), 2 * messages);
    let missing = rows.iter().filter(|row| row[0] == "0").count();
    assert_eq!(missing, 0, "of {} messages", rows.len());
    for losses in table(&format!("{out}/trials.csv"), &["link_seen", "link_lost"]) {
        let [came, lost] =
            [&losses[0], &losses[1]].map(|count| count.parse::<f64>().expect("a number"));
        assert!(lost > came * 0.15, "packets were lost: {lost} of {came}");
    }
}

#[test]
fn a_short_run_of_e2d_leaves_every_message_once_and_in_order() {
    if let Some(why) = no_network() {
        eprintln!("not run: {why}");
        return;
    }
    let folder = Folder::new();
    let out = folder.path().join("e2d");
    let out = out
        .to_str()
        .expect("a temporary folder has a name in ASCII");
    let run_args = [
        "suite",
        "E2d",
        "--step",
        "5s",
        "--losses",
        "0%,20%,0%",
        "--topics",
        "10",
        "--rate",
        "4/s",
        "--objective",
        "bytes",
        "--quiet",
        "--json",
        "--out",
        out,
    ];
    let run = bench(&run_args);
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    // 3: steps as short as these are no time to choose in, so regret may be anything.
    assert!(
        matches!(run.status.code(), Some(0 | 2 | 3)),
        "{}: {said}",
        run.status
    );
    let trials = table(
        &format!("{out}/trials.csv"),
        &["key", "delivered_count", "lost", "dup", "reordered"],
    );
    assert_eq!(trials.len(), 3 * 3, "three ways, three steps");
    for trial in trials {
        assert_eq!(trial[1..], ["20", "0", "0", "0"], "{trial:?}");
    }
    let html = fs::read_to_string(format!("{out}/report.html")).expect("it was written");
    assert!(html.contains("S2d.2") && !html.contains("<script"));
    let before = fs::read_to_string(format!("{out}/summary.md")).expect("it was written");
    fs::remove_file(format!("{out}/summary.md")).expect("it was there");
    bench(&["report", out]);
    assert_eq!(
        fs::read_to_string(format!("{out}/summary.md")).expect("written anew"),
        before,
        "a report is made of raw files only"
    );
    // One step of one course was lost: that course is run again, and that step alone is written.
    let cells = fs::read_to_string(format!("{out}/cells.jsonl")).expect("it was written");
    let (rest, _) = cells.trim_end().rsplit_once('\n').expect("lines");
    fs::write(format!("{out}/cells.jsonl"), format!("{rest}\n")).expect("it can be written");
    bench(&[&run_args[..], &["--resume"]].concat());
    let keys = |text: &str| -> Vec<String> {
        let of = |line: &str| {
            let trial: Value = serde_json::from_str(line).expect("JSON");
            trial["cell"]["axes"].to_string()
        };
        text.lines().map(of).collect()
    };
    let again = fs::read_to_string(format!("{out}/cells.jsonl")).expect("it was written");
    assert_eq!(keys(&again), keys(&cells));
    let messages = table(&format!("{out}/messages.csv"), &["copies"]);
    assert_eq!(
        messages,
        vec![["1"]; 3 * 60],
        "each message of each course once"
    );
}

/// Sockets of libzmq through our broker and through its own proxy: everything arrives.
#[test]
fn a_tiny_scenario_of_zeromq_runs_on_our_broker_and_on_a_proxy() {
    const SCENARIO: &str = "\
name: zeromq
repeats: 1
topology: {kind: loopback}
system: {driver: stock}
protocol: {publish: zmtp, qos: 0}
workload: {class: fixed, size: 60B}
load: {model: open, rate: 20/s, flows: 3}
phases: {settle: 200ms, warmup: 200ms, measure: 1s, drain: 20s}
sweep: {system.name: [own, zmq-proxy]}
";
    let folder = Folder::new();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (scenario, out) = (path("zeromq.yaml"), path("zeromq"));
    fs::write(&scenario, SCENARIO).expect("the folder is writable");
    let run = bench(&["run", &scenario, "--quiet", "--out", &out]);
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    // 2 and 3 are for machines that are too busy to keep time; all else is a fault.
    assert!(
        matches!(run.status.code(), Some(0 | 2 | 3)),
        "{}: {said}",
        run.status
    );
    let lines = fs::read_to_string(format!("{out}/cells.jsonl")).expect("it was written");
    let trials: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(trials.len(), 2, "{lines}");
    for trial in trials {
        let row = &trial["row"];
        if row["standing"].get("absent").is_some() {
            eprintln!("not run: libzmq is not installed");
            continue;
        }
        assert!(row["sent"].as_u64() >= Some(57), "{trial}");
        assert_eq!(row["delivered"], row["expected"], "{trial}");
    }
}

/// `bench speed sink` on four ports that were free, and its lines.
struct Sinks {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    shift: u16,
}

impl Sinks {
    fn start() -> Sinks {
        let first = u16::try_from(10_000 + std::process::id() % 8_000).expect("it is below 18,000");
        for shift in (first..).step_by(61).take(50) {
            let mut process = Command::new(thalweg_binary())
                .args(["bench", "speed", "sink", "--shift", &shift.to_string()])
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .expect("thalweg runs");
            let mut lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
            if let Some(Ok(line)) = lines.next() {
                assert_eq!(line, "ready");
                return Sinks {
                    process,
                    lines,
                    shift,
                };
            }
            process.wait().expect("it ended by itself");
        }
        panic!("fifty times one of four ports was in use");
    }
}

impl Drop for Sinks {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn sinks_count_what_publishers_sent_as_fast_as_they_could() {
    let mut sinks = Sinks::start();
    for (protocol, port) in [
        ("mqtt", 1883),
        ("amqp", 5672),
        ("stomp", 41_613),
        ("coap", 5683),
    ] {
        let url = format!("{protocol}://127.0.0.1:{}", port + sinks.shift);
        let run = bench(&[
            "speed",
            "publish",
            &url,
            "--messages",
            "500",
            "--reliability",
            "at-least-once",
        ]);
        assert!(
            run.status.success(),
            "{protocol}: {}",
            String::from_utf8_lossy(&run.stderr)
        );
        let line = sinks.lines.next().expect("the sink runs").expect("UTF-8");
        let said: Value = serde_json::from_str(&line).expect("a line of JSON");
        assert_eq!(
            (said["sink"].as_str(), said["messages"].as_u64()),
            (Some(protocol), Some(500)),
            "{line}"
        );
    }
}
