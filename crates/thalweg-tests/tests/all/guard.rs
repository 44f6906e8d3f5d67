//! Ends the brokers of a test program that dies without ending them itself: by SIGKILL, or when a test's panic aborts it.
//!
//! One shell guards the whole program. It gets the ids of the processes over a pipe, and kills them when the pipe
//! closes. PR_SET_PDEATHSIG would not do: it fires when the thread that started a process ends, and tests share
//! brokers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use crate::broker::{Broker, BrokerProgram};

const WATCH: &str = r#"
pids=" "
while read -r change pid; do
    case $change in
        started) pids="$pids$pid " ;;
        ended) pids="${pids%% $pid *} ${pids#* $pid }" ;;
    esac
done
for pid in $pids; do kill -KILL "$pid"; done
"#;

/// A process that ends with this program. To be dropped when it has been waited for.
#[derive(Debug)]
pub struct Guarded(u32);

impl Guarded {
    pub fn new(child: &Child) -> Self {
        tell("started", child.id());
        Guarded(child.id())
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        tell("ended", self.0);
    }
}

fn tell(change: &str, pid: u32) {
    static WATCHER: OnceLock<Mutex<Child>> = OnceLock::new();
    let watcher = WATCHER.get_or_init(|| {
        let shell = Command::new("sh")
            .args(["-c", WATCH])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A signal to our process group must not end it.
            .process_group(0)
            .spawn();
        Mutex::new(shell.expect("a shell runs"))
    });
    let mut watcher = watcher.lock().expect("no holder panics");
    let input = watcher.stdin.as_mut().expect("it is piped");
    writeln!(input, "{change} {pid}").expect("the shell reads as long as we live");
}

/// The program that the next test kills.
#[test]
#[ignore = "it waits for its end"]
fn holds_a_broker_until_its_input_ends() {
    let broker = Broker::start();
    println!("{} {}", broker.folder().display(), broker.mqtt());
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn a_broker_ends_with_the_test_program_that_started_it() {
    // The guard must drop the id of the second when it ends, and keep that of the first.
    let (first, second) = (Broker::start(), Broker::start());
    if first.kind() != BrokerProgram::Thalweg {
        return;
    }
    drop(second);

    let program = std::env::current_exe().expect("a running program has a path");
    let mut dying = Command::new(program)
        .args(["guard::holds_a_broker_until_its_input_ends", "--exact"])
        .args(["--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program runs");
    let output = BufReader::new(dying.stdout.take().expect("it is piped"));
    let place = |line: String| {
        let (folder, address) = line.rsplit_once(' ')?;
        Some((folder.to_owned(), address.parse().ok()?))
    };
    let (folder, address): (String, SocketAddr) = output
        .lines()
        .find_map(|line| place(line.ok()?))
        .expect("it prints where its broker is");
    let mut client = TcpStream::connect(address).expect("the broker accepts");
    client
        .write_all(b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01a")
        .expect("there is room for CONNECT");
    client.read_exact(&mut [0; 4]).expect("CONNACK");
    client
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a time-out");

    dying.kill().expect("it runs");
    dying.wait().expect("it is ours to wait for");
    let ended = client.read(&mut [0]);
    assert!(
        !matches!(&ended, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock),
        "the broker at {address} outlives its test program"
    );
    std::fs::remove_dir_all(folder).expect("the broker that would write into it is gone");
    TcpStream::connect(first.mqtt()).expect("a broker of another program stays");
}
