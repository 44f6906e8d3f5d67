//! A broker to measure: a child process of our own on the loopback, or one that runs elsewhere.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::brokers::guard::Guard;

/// The strategies that cells ask for; each has its own part of the address space.
pub const STRATEGIES: [&str; 8] = [
    "random",
    "round-robin",
    "sticky",
    "hash-topic",
    "weighted",
    "least-outstanding",
    "score",
    "adaptive",
];

/// The settings by which a broker gives each of them its part of the address space.
pub fn policies() -> String {
    let mut text = String::new();
    for strategy in STRATEGIES {
        let _ = writeln!(
            text,
            "[[groups.policies]]\nfilter = \"e5/{strategy}/#\"\nstrategy = \"{strategy}\"\n"
        );
    }
    text
}

#[derive(Debug)]
pub struct Broker {
    address: SocketAddr,
    child: Option<Child>,
    guard: Option<Guard>,
    folder: Option<PathBuf>,
}

impl Broker {
    /// One that runs: `mqtt://HOST[:PORT]`.
    pub fn at(url: &str) -> io::Result<Broker> {
        let rest = url
            .strip_prefix("mqtt://")
            .unwrap_or(url)
            .trim_end_matches('/');
        let place = if rest.contains(':') {
            rest.to_owned()
        } else {
            format!("{rest}:1883")
        };
        let address = place
            .to_socket_addrs()?
            .next()
            .ok_or_else(|| io::Error::other(format!("{url}: no address")))?;
        TcpStream::connect_timeout(&address, ANSWERS_WITHIN)
            .map_err(|error| io::Error::new(error.kind(), format!("{url}: {error}")))?;
        Ok(Broker {
            address,
            child: None,
            guard: None,
            folder: None,
        })
    }

    /// Starts `program serve` with nothing but MQTT on a free port of the loopback, and waits until it is ready.
    pub fn start(program: &Path) -> io::Result<Broker> {
        let folder = std::env::temp_dir().join(format!("thalweg-bench-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let config = folder.join("thalweg.toml");
        fs::write(&config, policies())?;
        // It is unlikely that another process takes it within the moment until the broker has it; if so the broker says
        // so.
        let address = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
        let mut child = Command::new(program)
            .arg("serve")
            .arg("--config")
            .arg(&config)
            .arg("--data")
            .arg(folder.join("data"))
            .args(["--set", &format!("listeners.mqtt.bind={address}")])
            .args(SETTINGS.iter().flat_map(|setting| ["--set", setting]))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Ctrl-C is for us: the broker stays until we have written what we know.
            .process_group(0)
            .spawn()?;
        let stderr = child.stderr.take();
        let guard = Some(Guard::of_group(child.id(), &folder)?);
        let broker = Broker {
            address,
            child: Some(child),
            guard,
            folder: Some(folder),
        };
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            for line in stderr
                .into_iter()
                .flat_map(|stderr| BufReader::new(stderr).lines().map_while(Result::ok))
            {
                // The receiver is gone after the first lines.
                let _ = tell.send(line);
            }
        });
        let mut said = Vec::new();
        loop {
            match told.recv_timeout(READY_WITHIN) {
                Ok(line) if line.contains("ready") => return Ok(broker),
                Ok(line) => said.push(line),
                Err(_) => {
                    return Err(io::Error::other(format!(
                        "the broker did not start: {}",
                        said.join("; ")
                    )));
                }
            }
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Processor time it has used, in seconds, if it is ours.
    pub fn cpu(&self) -> Option<f64> {
        cpu_of(&self.child.as_ref()?.id().to_string())
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.guard = None;
        if let Some(child) = &mut self.child {
            // It keeps nothing that is wanted.
            let _ = child.kill();
            let _ = child.wait();
        }
        if let Some(folder) = &self.folder {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// Processor time of a process in seconds, user and system; `self` for our own.
pub fn cpu_of(process: &str) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in parentheses may hold anything; what follows it are fields 3 and on.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some(ticks / TICKS)
}

/// Clock ticks per second, which Linux has fixed for programs.
const TICKS: f64 = 100.0;
/// How long a broker that runs may take to accept a connection.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
const READY_WITHIN: Duration = Duration::from_secs(20);
/// Nothing on disk, no other traffic on the wire; one shard, so that a group and its members are in one place.
const SETTINGS: [&str; 6] = [
    "groups.adaptive_eviction=true",
    "listeners.websocket.enabled=false",
    "admin.enabled=false",
    "journal.enabled=false",
    "sys.interval=off",
    "shards=1",
];
