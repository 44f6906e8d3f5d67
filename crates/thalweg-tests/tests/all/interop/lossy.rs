//! The adaptive client publishes through a network that loses packets, while `mosquitto_sub` and `coap-client` both receive
//! all of it.
//!
//! Namespaces as `thalweg bench net` makes them; the publisher alone is behind the link, so that what stock clients make of a
//! lossy network is not in question here.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::puppet::PATIENCE;
use crate::broker::thalweg_binary;
use crate::folder::Folder;

const MESSAGES: usize = 100;

/// A named network namespace and its processes; removed on drop.
struct Network {
    name: String,
    children: Vec<Child>,
}

impl Network {
    /// `None` where no namespace can be created.
    fn new(loss: &str) -> Option<Self> {
        let name = format!("{}-lossy", std::process::id());
        let made = Command::new(thalweg_binary())
            .args(["bench", "net", "up", &name, "--loss", loss])
            .output();
        let made = made.expect("the broker's binary runs");
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        match made.status.success() {
            true => Some(Self {
                name,
                children: Vec::new(),
            }),
            false
                if said.contains("is not installed")
                    || said.contains("Operation not permitted") =>
            {
                eprintln!("not run: {said}");
                None
            }
            false => panic!("{said}"),
        }
    }

    fn command(&self, side: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args([
            "netns",
            "exec",
            &format!("thalweg-{}-{side}", self.name),
            program,
        ]);
        command
    }

    /// Starts something whose lines are wanted.
    fn start(
        &mut self,
        side: &str,
        program: &str,
        arguments: &[&str],
        is_log: bool,
    ) -> Receiver<String> {
        let mut command = self.command(side, program);
        command.args(arguments).stdin(Stdio::null());
        // The broker's standard error is captured, and the others' standard output.
        let (output, error) = if is_log {
            (Stdio::null(), Stdio::piped())
        } else {
            (Stdio::piped(), Stdio::inherit())
        };
        let mut child = command
            .stdout(output)
            .stderr(error)
            .spawn()
            .expect("iproute2 is installed");
        let (to_lines, lines) = channel();
        if let Some(output) = child.stdout.take() {
            let to_lines = to_lines.clone();
            thread::spawn(move || forward(BufReader::new(output), &to_lines));
        }
        if let Some(error) = child.stderr.take() {
            thread::spawn(move || forward(BufReader::new(error), &to_lines));
        }
        self.children.push(child);
        lines
    }
}

fn forward(lines: impl BufRead, to: &std::sync::mpsc::Sender<String>) {
    for line in lines.lines().map_while(Result::ok) {
        let _ = to.send(line);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = Command::new(thalweg_binary())
            .args(["bench", "net", "down", &self.name])
            .status();
    }
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn what_the_adaptive_client_publishes_through_a_lossy_network_reaches_mosquitto_sub_and_coap_client()
 {
    let Some(mut network) = Network::new("20%") else {
        return;
    };
    let folder = Folder::new();
    let data = folder.path().join("data");
    let binary = thalweg_binary();
    let program = binary.to_str().expect("an ASCII path");
    let serve = [
        "serve",
        "--data",
        data.to_str().expect("an ASCII path"),
        "--set",
        "listeners.mqtt.bind=0.0.0.0:1883",
        "--set",
        "listeners.mqtt.anonymous=true",
        "--set",
        "listeners.coap.bind=0.0.0.0:5683",
        "--set",
        "listeners.coap.anonymous=true",
        "--set",
        "listeners.websocket.enabled=false",
        "--set",
        "admin.enabled=false",
    ];
    let log = network.start("br", program, &serve, true);
    while !log
        .recv_timeout(PATIENCE)
        .expect("the broker says that it is ready")
        .contains("ready")
    {}

    // Both observe until they are killed. A queue, because an observation is of a state: of quick changes only the
    // newest would be notified. The output of `-d` is buffered when it goes to a pipe.
    let listen = [
        "-oL",
        "mosquitto_sub",
        "-h",
        "127.0.0.1",
        "-t",
        "lossy/+",
        "-q",
        "1",
        "-F",
        "%p",
        "-d",
    ];
    let mqtt = network.start("br", "stdbuf", &listen, false);
    while !mqtt
        .recv_timeout(PATIENCE)
        .expect("mosquitto_sub subscribes")
        .contains("SUBACK")
    {}
    let uri = "coap://127.0.0.1/ps/data/lossy/1?queue=1000";
    let coap = network.start(
        "br",
        "stdbuf",
        &[
            "-o0",
            "coap-client-openssl",
            "-w",
            "-s",
            "120",
            "-m",
            "get",
            uri,
        ],
        false,
    );
    // coap-client prints values only: the first that it prints shows that it observes.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let value = ["-h", "127.0.0.1", "-t", "lossy/1", "-m", "is anybody there"];
        let published = network.command("br", "mosquitto_pub").args(value).status();
        assert!(published.expect("mosquitto_pub runs").success());
        match coap.recv_timeout(Duration::from_millis(100)) {
            Ok(line) if line.contains(value[5]) => break,
            _ => assert!(Instant::now() < deadline, "coap-client observes"),
        }
    }

    let mut publisher = network
        .command("ep", program)
        .args([
            "pub",
            "--via",
            "auto",
            "--url",
            "mqtt://10.80.2.2",
            "--url",
            "coap://10.80.2.2",
        ])
        .args(["--qos", "1", "--stdin-lines", "lossy/1"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("the command line runs");
    let mut input = publisher.stdin.take().expect("the pipe was asked for");
    for number in 0..MESSAGES {
        writeln!(input, "message {number}").expect("the publisher reads");
    }
    drop(input);
    assert!(
        publisher.wait().expect("it ends").success(),
        "everything was acknowledged"
    );

    let wanted: Vec<String> = (0..MESSAGES)
        .map(|number| format!("message {number}"))
        .collect();
    for (who, lines) in [("mosquitto_sub", mqtt), ("coap-client", coap)] {
        let mut got = Vec::new();
        while got.len() < MESSAGES {
            let line = lines.recv_timeout(PATIENCE);
            let line = line
                .unwrap_or_else(|_| panic!("{who} has only {} of {MESSAGES}: {got:?}", got.len()));
            if line.starts_with("message ") {
                got.push(line);
            }
        }
        assert_eq!(got, wanted, "{who}");
    }
}
