//! A broker of our own per test: the built binary on free loopback ports, with a data folder that is removed with it.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use thalweg_server::access::add_password;

use crate::certificates::Certificates;
use crate::folder::Folder;
use crate::guard::Guarded;

/// Longest time from a broker's start to its `ready` line.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// A running broker; dropping it kills it and, unless the test fails, removes its folder.
#[derive(Debug)]
pub struct Broker {
    child: Child,
    _guard: Guarded,
    kind: BrokerProgram,
    folder: Folder,
    ports: Ports,
    log: Arc<Log>,
}

/// The program that runs as the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerProgram {
    /// The binary of this workspace.
    Thalweg,
    /// Debian's mosquitto, as an oracle for the tests themselves.
    Mosquitto,
}

/// Options of a test's broker.
#[derive(Debug, Default)]
pub struct Options {
    sets: Vec<(String, String)>,
    files: Vec<(String, String)>,
    encrypted: bool,
    guarded: bool,
    queues: bool,
    coap: bool,
    zmtp: bool,
    xmpp: bool,
    namespace: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    mqtt: SocketAddr,
    websocket: SocketAddr,
    tls: SocketAddr,
    secure_websocket: SocketAddr,
    admin: SocketAddr,
    amqp: SocketAddr,
    stomp: SocketAddr,
    stomp_websocket: SocketAddr,
    amqps: SocketAddr,
    stomps: SocketAddr,
    stomp_secure_websocket: SocketAddr,
    coap: SocketAddr,
    zmtp: SocketAddr,
    xmpp: SocketAddr,
}

impl Broker {
    /// A broker with default settings on free ports.
    pub fn start() -> Self {
        Self::with().start()
    }

    /// A broker with settings of the test's own: `Broker::with().set("limits.x", "1").start()`.
    pub fn with() -> Options {
        Options::default()
    }

    /// The program under test; a test of a feature that only Thalweg has returns early for the oracle.
    pub fn kind(&self) -> BrokerProgram {
        self.kind
    }

    /// The plain MQTT listener.
    pub fn mqtt(&self) -> SocketAddr {
        self.ports.mqtt
    }

    pub fn websocket(&self) -> SocketAddr {
        self.ports.websocket
    }

    /// The MQTT-over-TLS listener, when [`Options::encrypted`] asked for it.
    pub fn tls(&self) -> SocketAddr {
        self.ports.tls
    }

    /// The listener for MQTT over WebSocket over TLS, when [`Options::encrypted`] asked for it.
    pub fn secure_websocket(&self) -> SocketAddr {
        self.ports.secure_websocket
    }

    /// The AMQP listener, when [`Options::queues`] asked for it.
    pub fn amqp(&self) -> SocketAddr {
        self.ports.amqp
    }

    /// The STOMP listener, when [`Options::queues`] asked for it.
    pub fn stomp(&self) -> SocketAddr {
        self.ports.stomp
    }

    /// The listener for STOMP over WebSocket, when [`Options::queues`] asked for it.
    pub fn stomp_websocket(&self) -> SocketAddr {
        self.ports.stomp_websocket
    }

    /// The listener for CoAP over UDP, and over TCP on the same port, when [`Options::coap`] asked for it.
    pub fn coap(&self) -> SocketAddr {
        self.ports.coap
    }

    /// The listener for ZeroMQ, when [`Options::zmtp`] asked for it.
    pub fn zmtp(&self) -> SocketAddr {
        self.ports.zmtp
    }

    /// The listener for XMPP, when [`Options::xmpp`] asked for it.
    pub fn xmpp(&self) -> SocketAddr {
        self.ports.xmpp
    }

    /// The listeners for AMQP over TLS, STOMP over TLS, and STOMP over WebSocket over TLS, when both [`Options::queues`] and
    /// [`Options::encrypted`] asked for them.
    pub fn encrypted_queues(&self) -> [SocketAddr; 3] {
        [
            self.ports.amqps,
            self.ports.stomps,
            self.ports.stomp_secure_websocket,
        ]
    }

    /// The authority that signed the encrypted listeners' certificate.
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("authority.pem")
    }

    /// The admin HTTP listener; nothing listens there in oracle mode.
    pub fn admin(&self) -> SocketAddr {
        self.ports.admin
    }

    /// The broker's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The folder that holds the broker's data and the files a test asked for.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Everything the broker has written to its two outputs so far.
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// Waits until a line of the log contains `needle`; false when `within` passes first.
    pub fn wait_for_log(&self, needle: &str, within: Duration) -> bool {
        self.log.wait_for(needle, within)
    }

    /// Asks the broker to stop (SIGTERM) and returns how it ended; kills it after a minute.
    pub fn stop(mut self) -> ExitStatus {
        let _ = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        let deadline = Instant::now() + Duration::from_secs(60);
        // The outputs close when the process ends, and that wakes us: no polling.
        self.log.wait_until_closed(deadline);
        if Instant::now() >= deadline {
            let _ = self.child.kill();
        }
        self.child.wait().expect("the broker was ours to wait for")
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!(
                "--- log of the {:?} broker ---\n{}--- end of log ---",
                self.kind,
                self.log.text()
            );
        }
    }
}

impl Options {
    /// One configuration override, as `--set key=value` takes it. Ignored by the oracle.
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.sets.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Listeners for TLS and secure WebSocket too, with the certificates of this test run.
    pub fn encrypted(mut self) -> Self {
        self.encrypted = true;
        self
    }

    /// Listeners for AMQP and STOMP too.
    pub fn queues(mut self) -> Self {
        self.queues = true;
        self
    }

    /// Listeners for CoAP over UDP and TCP too.
    pub fn coap(mut self) -> Self {
        self.coap = true;
        self
    }

    /// A listener for ZeroMQ too, whose subscribers get last values.
    pub fn zmtp(mut self) -> Self {
        self.zmtp = true;
        self
    }

    /// A listener for XMPP too, for clients without a name, in whose nodes `+` and `#` are wildcards.
    pub fn xmpp(mut self) -> Self {
        self.xmpp = true;
        self
    }

    /// In a network namespace, whose loopback and other links are up already.
    pub fn in_namespace(mut self, name: &str) -> Self {
        self.namespace = Some(name.to_owned());
        self
    }

    /// No anonymous clients: users with mosquitto's password hashes, and their rights in mosquitto's ACL format.
    pub fn guarded(mut self, passwords: &str, acl: &str) -> Self {
        self.guarded = true;
        self.file("users", passwords)
            .file("acl", acl)
            .set("access.password_file", "{folder}/users")
            .set("access.acl_file", "{folder}/acl")
            .set("listeners.mqtt.anonymous", "false")
    }

    /// Users and their passwords, for listeners that ask for them.
    pub fn users(self, users: &[(&str, &[u8])]) -> Self {
        let folder = Folder::new();
        let file = folder.path().join("users");
        for (user, password) in users {
            add_password(&file, user, password).expect("the folder is writable");
        }
        let text = fs::read_to_string(&file).expect("it was just written");
        self.file("users", &text)
            .set("access.password_file", "{folder}/users")
    }

    /// A file to put into the broker's folder before it starts; `{folder}` in a later `set` value stands for that folder.
    pub fn file(mut self, name: &str, content: &str) -> Self {
        self.files.push((name.to_owned(), content.to_owned()));
        self
    }

    /// Starts the broker if it is one that speaks AMQP, STOMP and CoAP.
    pub fn start_for_queues(self) -> Option<Broker> {
        let oracle = std::env::var("THALWEG_TEST_BROKER").is_ok_and(|broker| broker != "thalweg");
        (!oracle).then(|| self.start())
    }

    /// Starts the broker and returns once its log says `ready`.
    pub fn start(self) -> Broker {
        let kind = match std::env::var("THALWEG_TEST_BROKER").as_deref() {
            Ok("mosquitto") => BrokerProgram::Mosquitto,
            Ok("thalweg") | Err(_) => BrokerProgram::Thalweg,
            Ok(other) => {
                panic!("THALWEG_TEST_BROKER={other}: only `thalweg` and `mosquitto` are known")
            }
        };
        self.start_as(kind)
    }

    /// Starts this broker, whichever the run is about: for tests of our own clients.
    pub fn start_as(self, kind: BrokerProgram) -> Broker {
        let folder = Folder::named("broker");
        for (name, content) in &self.files {
            folder.write(name, content);
        }
        if self.encrypted {
            Certificates::shared().write_into(folder.path());
        }
        let ports = Ports {
            mqtt: free_port(),
            websocket: free_port(),
            tls: free_port(),
            secure_websocket: free_port(),
            admin: free_port(),
            amqp: free_port(),
            stomp: free_port(),
            stomp_websocket: free_port(),
            amqps: free_port(),
            stomps: free_port(),
            stomp_secure_websocket: free_port(),
            coap: free_port(),
            zmtp: free_port(),
            xmpp: free_port(),
        };
        let mut command = match kind {
            BrokerProgram::Thalweg => self.thalweg(folder.path(), ports),
            BrokerProgram::Mosquitto => self.mosquitto(folder.path(), ports),
        };
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let log = Log::of(&mut child);
        let broker = Broker {
            _guard: Guarded::new(&child),
            child,
            kind,
            folder,
            ports,
            log,
        };
        let ready = match kind {
            BrokerProgram::Thalweg => "ready",
            BrokerProgram::Mosquitto => " running",
        };
        assert!(
            broker.wait_for_log(ready, READY_WITHIN),
            "the broker did not say `{ready}`: {command:?}"
        );
        broker
    }

    fn thalweg(&self, folder: &Path, ports: Ports) -> Command {
        let mut command = match &self.namespace {
            None => Command::new(thalweg_binary()),
            Some(name) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", name]).arg(thalweg_binary());
                command
            }
        };
        command.arg("serve").arg("--data").arg(folder.join("data"));
        let binds = [
            ("listeners.mqtt.bind", ports.mqtt),
            ("listeners.websocket.bind", ports.websocket),
            ("admin.bind", ports.admin),
        ];
        for (key, address) in binds {
            command.arg("--set").arg(format!("{key}={address}"));
        }
        if self.encrypted {
            for (transport, address) in [("tls", ports.tls), ("wss", ports.secure_websocket)] {
                let key = format!("listeners.{transport}");
                command
                    .arg("--set")
                    .arg(format!("{key}.transport={transport}"));
                command.arg("--set").arg(format!("{key}.bind={address}"));
                command.arg("--set").arg(format!(
                    "{key}.tls.certificate={}",
                    folder.join("server.pem").display()
                ));
                command.arg("--set").arg(format!(
                    "{key}.tls.key={}",
                    folder.join("server.key").display()
                ));
            }
        }
        if self.queues {
            for (key, value) in [
                ("amqp.bind", ports.amqp.to_string()),
                ("stomp.bind", ports.stomp.to_string()),
                ("stomp-ws.kind", "stomp".to_owned()),
                ("stomp-ws.transport", "ws".to_owned()),
                ("stomp-ws.bind", ports.stomp_websocket.to_string()),
            ] {
                command.arg("--set").arg(format!("listeners.{key}={value}"));
            }
        }
        if self.coap {
            command
                .arg("--set")
                .arg(format!("listeners.coap.bind={}", ports.coap));
            command
                .arg("--set")
                .arg(format!("listeners.coap-tcp.bind={}", ports.coap));
        }
        if self.zmtp {
            let bind = format!("listeners.zmtp.bind={}", ports.zmtp);
            command.args(["--set", &bind, "--set", "zmtp.last_value=true"]);
        }
        if self.xmpp {
            let bind = format!("listeners.xmpp.bind={}", ports.xmpp);
            command.args(["--set", &bind, "--set", "xmpp.node_wildcards=true"]);
        }
        if self.queues && self.encrypted {
            for (name, kind, transport, address) in [
                ("amqps", "amqp", "tls", ports.amqps),
                ("stomps", "stomp", "tls", ports.stomps),
                ("stomp-wss", "stomp", "wss", ports.stomp_secure_websocket),
            ] {
                for (key, value) in [
                    ("kind", kind.to_owned()),
                    ("transport", transport.to_owned()),
                    ("bind", address.to_string()),
                    (
                        "tls.certificate",
                        folder.join("server.pem").display().to_string(),
                    ),
                    ("tls.key", folder.join("server.key").display().to_string()),
                ] {
                    command
                        .arg("--set")
                        .arg(format!("listeners.{name}.{key}={value}"));
                }
            }
        }
        // Hundreds of brokers with large files kept ready would only heat the disk.
        command.arg("--set").arg("journal.segment_bytes=1MiB");
        // THALWEG_TEST_SET="shards=2 log.level=debug": the same tests on a broker that is set up otherwise.
        for set in std::env::var("THALWEG_TEST_SET")
            .unwrap_or_default()
            .split_whitespace()
        {
            command.arg("--set").arg(set);
        }
        for (key, value) in &self.sets {
            let value = value.replace("{folder}", &folder.display().to_string());
            command.arg("--set").arg(format!("{key}={value}"));
        }
        command
    }

    fn mosquitto(&self, folder: &Path, ports: Ports) -> Command {
        let mut config = format!(
            "allow_anonymous {}\nuser root\nlog_dest stderr\npersistence false\nmax_queued_messages 10000\n\
             listener {} 127.0.0.1\nlistener {} 127.0.0.1\nprotocol websockets\n",
            !self.guarded,
            ports.mqtt.port(),
            ports.websocket.port(),
        );
        if self.guarded {
            config = format!(
                "password_file {0}/users\nacl_file {0}/acl\n{config}",
                folder.display()
            );
        }
        if self.encrypted {
            let folder = folder.display();
            let keys = format!("certfile {folder}/server.pem\nkeyfile {folder}/server.key\n");
            config += &format!("listener {} 127.0.0.1\n{keys}", ports.tls.port());
            config += &format!(
                "listener {} 127.0.0.1\nprotocol websockets\n{keys}",
                ports.secure_websocket.port()
            );
        }
        let path = folder.join("mosquitto.conf");
        fs::write(&path, config).expect("the test's folder is writable");
        let mut command = Command::new("/usr/sbin/mosquitto");
        command.arg("-c").arg(path);
        command
    }
}

/// The broker to test: `THALWEG_BIN`, or this workspace's, built first so that it is never stale.
pub fn thalweg_binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(path) = std::env::var_os("THALWEG_BIN") {
            return path.into();
        }
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet"])
            // The laboratory lies beside it, for `thalweg bench`.
            .args(["--package", "thalweg", "--package", "thalweg-bench"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .expect("cargo runs");
        assert!(
            built.success(),
            "the broker does not build; run `cargo build -p thalweg`"
        );
        // This program is target/<profile>/deps/all-<hash>; the broker is target/debug/thalweg.
        let tests = std::env::current_exe().expect("a running program has a path");
        let target = tests
            .ancestors()
            .nth(3)
            .expect("test programs live in target/<profile>/deps");
        target.join("debug/thalweg")
    })
}

/// A loopback port that nothing listens on, never the same one twice in this process.
///
/// Ports come from `THALWEG_TEST_PORTS=FIRST-LAST` (21000-21999 when unset), below the range the kernel hands out to
/// outgoing connections, so that no client of another test can take one between our look and the broker's bind.
pub fn free_port() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (first, last) = port_range();
    let count = u32::from(last - first) + 1;
    // Programs that run side by side start at different places.
    let start = std::process::id().wrapping_mul(37) % count;
    for _ in 0..count {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = first + u16::try_from((start + step) % count).expect("smaller than the range");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return address;
        }
    }
    panic!("no free port in {first}-{last}; name others with THALWEG_TEST_PORTS=FIRST-LAST");
}

fn port_range() -> (u16, u16) {
    let Ok(text) = std::env::var("THALWEG_TEST_PORTS") else {
        return (21000, 21999);
    };
    let ends = text
        .split_once('-')
        .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    ends.filter(|(a, b): &(u16, u16)| a <= b)
        .unwrap_or_else(|| panic!("THALWEG_TEST_PORTS={text}: write FIRST-LAST"))
}

/// Output of a process, by lines, with a condition variable for waiting readers.
#[derive(Debug, Default)]
struct Log {
    state: Mutex<LogState>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct LogState {
    text: String,
    outputs_open: usize,
}

impl Log {
    /// Collects both outputs of `child`, each in a thread that ends with it.
    fn of(child: &mut Child) -> Arc<Self> {
        let log = Arc::new(Self::default());
        let outputs: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|o| Box::new(o) as _),
            child.stderr.take().map(|o| Box::new(o) as _),
        ];
        for output in outputs.into_iter().flatten() {
            log.state.lock().expect("no holder panics").outputs_open += 1;
            let log = Arc::clone(&log);
            std::thread::spawn(move || {
                let mut reader = BufReader::new(output);
                let mut line = Vec::new();
                while reader
                    .read_until(b'\n', &mut line)
                    .is_ok_and(|length| length > 0)
                {
                    log.state
                        .lock()
                        .expect("no holder panics")
                        .text
                        .push_str(&String::from_utf8_lossy(&line));
                    log.bell.notify_all();
                    line.clear();
                }
                log.state.lock().expect("no holder panics").outputs_open -= 1;
                log.bell.notify_all();
            });
        }
        log
    }

    fn text(&self) -> String {
        self.state.lock().expect("no holder panics").text.clone()
    }

    /// Waits for `needle`; a process that ends without it answers at once.
    fn wait_for(&self, needle: &str, within: Duration) -> bool {
        let state = self.state.lock().expect("no holder panics");
        let waiting = |state: &mut LogState| state.outputs_open > 0 && !state.text.contains(needle);
        let (state, _) = self
            .bell
            .wait_timeout_while(state, within, waiting)
            .expect("no holder panics");
        state.text.contains(needle)
    }

    fn wait_until_closed(&self, deadline: Instant) {
        let state = self.state.lock().expect("no holder panics");
        let within = deadline.saturating_duration_since(Instant::now());
        let _unused = self
            .bell
            .wait_timeout_while(state, within, |state| state.outputs_open > 0);
    }
}
