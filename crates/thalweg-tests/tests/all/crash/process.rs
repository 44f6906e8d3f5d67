//! A broker process on a folder that outlives it and is removed with its last [`Home`]: started, killed, and started again on the same ports and data.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::supervisor::Promises;
use crate::broker::{BrokerProgram, free_port, thalweg_binary};
use crate::folder::Folder;
use crate::guard::Guarded;

/// From start to `ready`; a restart replays what was there.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// Everything a broker needs to start again as it was.
#[derive(Clone, Debug)]
pub struct Home {
    pub kind: BrokerProgram,
    pub mqtt: SocketAddr,
    pub admin: SocketAddr,
    /// Where its data lies.
    pub data: PathBuf,
    folder: Arc<Folder>,
    pub promises: Promises,
    sets: Vec<String>,
    flags: Vec<String>,
    /// A program and its arguments that runs the broker's command line.
    wrapper: Vec<String>,
}

/// A broker that runs.
#[derive(Debug)]
pub struct Process {
    child: Child,
    _guard: Guarded,
    said: Arc<Printed>,
    pub ready_after: Duration,
}

/// Output of a process, with a condition variable for waiting readers.
#[derive(Debug, Default)]
struct Printed {
    state: Mutex<(String, usize)>,
    bell: Condvar,
}

impl Home {
    /// A fresh folder and free ports. `THALWEG_CRASH_SET="key=value …"` has the last word in every broker's settings.
    pub fn new(name: &str) -> Self {
        let folder = Folder::named(name);
        let kind = match std::env::var("THALWEG_TEST_BROKER").as_deref() {
            Ok("mosquitto") => BrokerProgram::Mosquitto,
            _ => BrokerProgram::Thalweg,
        };
        if kind == BrokerProgram::Thalweg {
            // Built now if it must be: clients wait only so long for an answer.
            thalweg_binary();
        }
        Self {
            kind,
            mqtt: free_port(),
            admin: free_port(),
            data: folder.path().join("data"),
            folder: Arc::new(folder),
            promises: Promises::default(),
            sets: Vec::new(),
            flags: Vec::new(),
            wrapper: Vec::new(),
        }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Other data than the folder's own.
    pub fn on(mut self, data: PathBuf) -> Self {
        self.data = data;
        self
    }

    pub fn set(mut self, set: &str) -> Self {
        self.sets.push(set.to_owned());
        self
    }

    /// Whether this was set.
    pub fn has(&self, set: &str) -> bool {
        self.sets.iter().any(|it| it == set)
    }

    /// A setting that gives way to those there are.
    pub fn set_before(mut self, set: &str) -> Self {
        self.sets.insert(0, set.to_owned());
        self
    }

    /// A flag of `thalweg serve`.
    pub fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
    }

    pub fn wrapped(mut self, wrapper: &[&str]) -> Self {
        self.wrapper = wrapper.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    fn command(&self) -> Command {
        let mut words = self.wrapper.clone();
        match self.kind {
            BrokerProgram::Thalweg => {
                words.push(thalweg_binary().display().to_string());
                words.extend(["serve", "--data"].map(str::to_owned));
                words.push(self.data.display().to_string());
                words.extend(self.flags.iter().cloned());
                let own = [
                    format!("listeners.mqtt.bind={}", self.mqtt),
                    "listeners.websocket.enabled=false".to_owned(),
                    format!("admin.bind={}", self.admin),
                ];
                // Last, so that it counts.
                let given = std::env::var("THALWEG_CRASH_SET").unwrap_or_default();
                let given: Vec<String> = given.split_whitespace().map(str::to_owned).collect();
                words.extend(
                    own.iter()
                        .chain(&self.sets)
                        .chain(&given)
                        .flat_map(|set| ["--set".to_owned(), set.clone()]),
                );
            }
            BrokerProgram::Mosquitto => {
                // As Debian ships it: the state is written at the end and every half hour.
                let _ = std::fs::create_dir_all(&self.data);
                let config = format!(
                    "allow_anonymous true\nuser root\nlog_dest stderr\npersistence true\npersistence_location {}/\n\
                     max_queued_messages 0\nallow_duplicate_messages false\nlistener {} 127.0.0.1\n",
                    self.data.display(),
                    self.mqtt.port(),
                );
                let path = self.folder().join("mosquitto.conf");
                std::fs::write(&path, config).expect("the folder is writable");
                words.extend([
                    "/usr/sbin/mosquitto".to_owned(),
                    "-c".to_owned(),
                    path.display().to_string(),
                ]);
            }
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    }

    /// Starts it and does not wait.
    pub fn spawn(&self) -> Process {
        let mut command = self.command();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let said = Printed::of(&mut child);
        Process {
            _guard: Guarded::new(&child),
            child,
            said,
            ready_after: Duration::ZERO,
        }
    }

    /// Starts it and waits for `ready`; otherwise returns its exit status and output.
    pub fn start(&self) -> Result<Process, String> {
        let begun = Instant::now();
        let mut process = self.spawn();
        let ready = match self.kind {
            BrokerProgram::Thalweg => "ready: ",
            BrokerProgram::Mosquitto => " running",
        };
        if process.wait_for(ready, READY_WITHIN) {
            process.ready_after = begun.elapsed();
            return Ok(process);
        }
        let ended = process
            .ended()
            .map_or("is still starting".to_owned(), |status| {
                format!("ended with {status}")
            });
        Err(format!(
            "the broker {ended} without `{ready}`; it said:\n{}",
            process.log()
        ))
    }
}

impl Process {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> String {
        self.said.state.lock().expect("no holder panics").0.clone()
    }

    /// State of its threads: names, states, system calls.
    pub fn threads(&self) -> String {
        let mut all = String::new();
        for task in std::fs::read_dir(format!("/proc/{}/task", self.pid()))
            .into_iter()
            .flatten()
            .flatten()
        {
            let of =
                |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
            let stat = of("stat");
            let state = stat.rsplit_once(") ").map_or("?", |(_, rest)| &rest[..1]);
            all += &format!(
                "  {:<16} {state} {}\n",
                of("comm").trim(),
                of("syscall").trim()
            );
        }
        all
    }

    /// Waits until a line says `needle`; a process that ends without it answers at once.
    pub fn wait_for(&self, needle: &str, within: Duration) -> bool {
        let state = self.said.state.lock().expect("no holder panics");
        let waiting = |state: &mut (String, usize)| state.1 > 0 && !state.0.contains(needle);
        let (state, _) = self
            .said
            .bell
            .wait_timeout_while(state, within, waiting)
            .expect("no holder panics");
        state.0.contains(needle)
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child
            .try_wait()
            .expect("the broker is ours to wait for")
    }

    /// Waits until it ends by itself; `None` if it goes on.
    pub fn wait_for_end(&mut self, within: Duration) -> Option<ExitStatus> {
        let state = self.said.state.lock().expect("no holder panics");
        let open = |state: &mut (String, usize)| state.1 > 0;
        let (state, waited) = self
            .said
            .bell
            .wait_timeout_while(state, within, open)
            .expect("no holder panics");
        drop(state);
        // Its outputs are closed, so the end is near.
        if waited.timed_out() {
            self.ended()
        } else {
            self.child.wait().ok()
        }
    }

    /// Sends SIGKILL. Returns the output up to then.
    pub fn kill(mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.log()
    }

    /// SIGTERM, and how it ended.
    pub fn stop(mut self) -> Option<ExitStatus> {
        self.signal("TERM");
        self.wait_for_end(Duration::from_secs(20))
    }

    pub fn signal(&self, name: &str) {
        let _ = Command::new("kill")
            .arg(format!("-{name}"))
            .arg(self.pid().to_string())
            .status();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Printed {
    fn of(child: &mut Child) -> Arc<Self> {
        let said = Arc::new(Self::default());
        let outputs: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|o| Box::new(o) as _),
            child.stderr.take().map(|o| Box::new(o) as _),
        ];
        for output in outputs.into_iter().flatten() {
            said.state.lock().expect("no holder panics").1 += 1;
            let said = Arc::clone(&said);
            std::thread::spawn(move || {
                let mut reader = BufReader::new(output);
                let mut line = Vec::new();
                while reader
                    .read_until(b'\n', &mut line)
                    .is_ok_and(|length| length > 0)
                {
                    said.state
                        .lock()
                        .expect("no holder panics")
                        .0
                        .push_str(&String::from_utf8_lossy(&line));
                    said.bell.notify_all();
                    line.clear();
                }
                said.state.lock().expect("no holder panics").1 -= 1;
                said.bell.notify_all();
            });
        }
        said
    }
}
