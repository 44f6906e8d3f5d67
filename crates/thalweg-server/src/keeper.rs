//! The keeper: a small thread that looks after what belongs to no shard: memory, `$SYS`, and files that
//! change: certificates, passwords, rules, token keys.

use crate::observer::Observer;
use crate::shard::{Mailbox, short_of};
use crate::threads::{self, OnFailure};
use crate::transport::dtls::DtlsAcceptor;
use crate::transport::tls::{TlsAcceptor, TlsFiles};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use thalweg_kernel::Pressure;

/// What the keeper looks after.
pub(crate) struct Duties {
    /// Time between two rounds of `$SYS`; none publishes nothing.
    pub(crate) sys_every: Option<Duration>,
    /// Files that may change at any time.
    pub(crate) watched: Vec<Watched>,
}

/// The running keeper. Dropping it ends its thread.
pub(crate) struct Keeper {
    duties: Option<mpsc::Sender<Duties>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    pub(crate) fn start(
        observer: Observer,
        duties: Duties,
        on_failure: &OnFailure,
    ) -> std::io::Result<Keeper> {
        let (sender, receiver) = mpsc::channel();
        let mut rounds = Rounds::new(observer, duties);
        let thread = threads::spawn("keeper", on_failure, move || {
            loop {
                match receiver.recv_timeout(EVERY) {
                    Ok(duties) => rounds.change(duties),
                    Err(mpsc::RecvTimeoutError::Timeout) => rounds.make(),
                    Err(mpsc::RecvTimeoutError::Disconnected) => return,
                }
            }
        })?;
        Ok(Keeper {
            duties: Some(sender),
            thread: Some(thread),
        })
    }

    /// Other duties from now on.
    pub(crate) fn change(&self, duties: Duties) {
        if let Some(sender) = &self.duties {
            // It fails when the thread is gone, and then they are not carried out.
            let _ = sender.send(duties);
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.duties = None;
        if let Some(thread) = self.thread.take() {
            // A panic was reported by the thread itself.
            let _ = thread.join();
        }
    }
}

struct Rounds {
    observer: Observer,
    sys_every: Option<Duration>,
    sys_at: Instant,
    loads: crate::sys::Loads,
    watched: Vec<Watched>,
    watched_at: Instant,
}

impl Rounds {
    fn new(observer: Observer, duties: Duties) -> Rounds {
        let now = Instant::now();
        let (loads, watched) = (crate::sys::Loads::default(), Vec::new());
        let mut rounds = Rounds {
            observer,
            sys_every: None,
            sys_at: now,
            loads,
            watched,
            watched_at: now,
        };
        rounds.change(duties);
        rounds
    }

    fn change(&mut self, duties: Duties) {
        if self.sys_every != duties.sys_every {
            self.sys_at = Instant::now();
        }
        self.sys_every = duties.sys_every;
        self.watched = duties.watched;
    }

    fn make(&mut self) {
        watch_memory(&self.observer);
        let now = Instant::now();
        if let Some(every) = self.sys_every
            && now >= self.sys_at
        {
            self.sys_at = now + every;
            crate::sys::publish(&self.observer, &mut self.loads);
        }
        if now >= self.watched_at {
            self.watched_at = now + WATCHED_EVERY;
            self.watched.iter_mut().for_each(Watched::look);
        }
    }
}

/// Files that may be replaced at any time, and what reloads them.
pub(crate) struct Watched {
    /// What they are, for the log.
    what: String,
    files: Vec<PathBuf>,
    reload: Reload,
    /// The files as they were when they were last read.
    taken: Vec<Option<Stamp>>,
    /// The files as they were when they were last looked at.
    seen: Vec<Option<Stamp>>,
}

/// Reads the files again; on an error what was read before stays in force.
type Reload = Box<dyn Fn() -> Result<(), String> + Send>;

/// When a file was last written, and its length.
type Stamp = (SystemTime, u64);

impl Watched {
    pub(crate) fn new(what: String, files: Vec<PathBuf>, reload: Reload) -> Watched {
        let taken = stamps(&files);
        Watched {
            what,
            files,
            reload,
            seen: taken.clone(),
            taken,
        }
    }

    /// The certificate files of a TLS listener, or of the admin interface.
    pub(crate) fn tls(name: &str, acceptor: Arc<TlsAcceptor>) -> Watched {
        let files = of_tls(acceptor.files()).cloned().collect();
        let reload = move || acceptor.reload().map_err(|fault| fault.to_string());
        Watched::new(
            format!("certificate files of {name}"),
            files,
            Box::new(reload),
        )
    }

    /// The certificate and key files of a DTLS listener.
    pub(crate) fn dtls(name: &str, acceptor: Arc<DtlsAcceptor>) -> Watched {
        let files = acceptor.files();
        let files = files
            .keys
            .iter()
            .chain(files.certificate.iter().flat_map(of_tls))
            .cloned()
            .collect();
        let reload = move || acceptor.reload().map_err(|fault| fault.to_string());
        Watched::new(
            format!("certificate and key files of {name}"),
            files,
            Box::new(reload),
        )
    }

    /// Takes the files once they have changed and then stayed as they are for a while: certificate and key are two
    /// files, and an editor does not write a file in one step.
    fn look(&mut self) {
        let now = stamps(&self.files);
        let is_settled = now == self.seen;
        self.seen = now;
        if !is_settled || self.seen == self.taken {
            return;
        }
        self.taken = self.seen.clone();
        match (self.reload)() {
            Ok(()) => tracing::info!("{} changed and are in force", self.what),
            Err(fault) => {
                tracing::warn!(
                    "{} changed but cannot be used, the old ones stay in force: {fault}",
                    self.what
                );
            }
        }
    }
}

fn of_tls(files: &TlsFiles) -> impl Iterator<Item = &PathBuf> {
    [&files.certificate, &files.key]
        .into_iter()
        .chain(&files.client_ca)
        .chain(&files.client_crl)
}

fn stamps(files: &[PathBuf]) -> Vec<Option<Stamp>> {
    let stamp = |file: &Path| {
        let metadata = fs::metadata(file).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    files.iter().map(|file| stamp(file)).collect()
}

/// Says how short memory is, for operators; the shards see to it themselves.
fn watch_memory(observer: &Observer) {
    let held: usize = observer.shards.iter().map(Mailbox::bytes_held).sum();
    let budget = observer.memory_bytes_max();
    let before = match observer.pressure() {
        0 => Pressure::None,
        1 => Pressure::DropWaiting,
        _ => Pressure::RefuseSessions,
    };
    let pressure = short_of(held, budget, before);
    if pressure != before {
        observer
            .overall
            .pressure
            .store(pressure as usize, Ordering::Relaxed);
        tracing::warn!(
            held,
            budget,
            ?pressure,
            "memory pressure changed; limits.memory_bytes_max is the budget"
        );
    }
}

/// Three quarters of what the machine has, or of what the container may use.
pub(crate) fn memory_budget() -> usize {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:").map(str::to_owned))?;
        line.trim()
            .trim_end_matches(" kB")
            .trim()
            .parse::<usize>()
            .ok()?
            .checked_mul(1024)
    });
    // cgroup v2, then v1; without a limit the one holds the word `max`, the other a number larger than any machine.
    let containers = [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ];
    let container = containers
        .iter()
        .find_map(|file| fs::read_to_string(file).ok()?.trim().parse::<usize>().ok());
    machine
        .into_iter()
        .chain(container)
        .min()
        .unwrap_or(MEMORY_FALLBACK)
        / 4
        * 3
}

/// How often memory is looked at.
const EVERY: Duration = Duration::from_millis(250);
const WATCHED_EVERY: Duration = Duration::from_secs(1);
/// Where the system does not say how much memory there is.
const MEMORY_FALLBACK: usize = 1 << 30;
