//! A broker's processes: started in a namespace and on a core, waited for, metered, ended.

use std::fs::{self, File};
use std::io;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::guard::Guard;
use super::launch::{Launch, Order};
use super::meter::{born, family, usage};
use super::ports::Ports;
use super::site::Site;
use super::{Ends, Usage};
use crate::cell::Protocol;
use crate::net::space::Space;

/// A broker, and what has to run beside it; ended when dropped.
#[derive(Debug)]
pub struct Process {
    children: Vec<Child>,
    /// One for each child.
    guards: Vec<Guard>,
    folder: PathBuf,
    beside: Option<PathBuf>,
    _ports: Ports,
}

impl Process {
    /// Starts it, and returns when it is ready.
    pub fn start(launch: Launch, site: Site<'_>) -> io::Result<Process> {
        let Site {
            cell,
            space,
            folder,
            ports,
            ..
        } = site;
        let mut process = Process {
            children: Vec::new(),
            guards: Vec::new(),
            folder,
            beside: launch.beside.clone(),
            _ports: ports,
        };
        for order in launch.before.iter().chain([&launch.broker]) {
            let child = process.spawn(order, space, cell.cpus.0)?;
            let folders = process.beside.iter().chain([&process.folder]);
            let guard = Guard::of_group(child.id(), folders);
            process.children.push(child);
            process.guards.push(guard?);
        }
        let patience = Instant::now() + launch.patience;
        while !process.is_ready(&launch, space) {
            let broker = process.children.last_mut().map(Child::try_wait);
            let has_ended = broker.is_some_and(|it| !matches!(it, Ok(None)));
            if has_ended || Instant::now() > patience {
                let said = fs::read_to_string(process.log()).unwrap_or_default();
                let lines: Vec<&str> = said.lines().collect();
                let last = lines.get(lines.len().saturating_sub(LINES)..);
                let (system, last) = (&cell.system, last.unwrap_or_default().join("; "));
                return Err(io::Error::other(format!("{system} did not start: {last}")));
            }
            thread::sleep(LOOK_UP);
        }
        Ok(process)
    }

    fn spawn(&self, order: &Order, space: Option<&Space>, cpu: Option<usize>) -> io::Result<Child> {
        let log = File::options().create(true).append(true).open(self.log())?;
        let mut command = Command::new(&order.program);
        command
            .args(&order.arguments)
            .envs(&order.environment)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .current_dir(&self.folder)
            // Ctrl-C is for us: the broker stays until we have written what we know.
            .process_group(0);
        // A process begins in the namespace and on the cores of the thread that starts it.
        let start = move || {
            if let Some(cpu) = cpu.filter(|cpu| *cpu < CpuSet::MAX_CPU) {
                let mut set = CpuSet::new();
                set.set(cpu);
                sched_setaffinity(None, &set).map_err(|error| {
                    io::Error::other(format!("no broker on core {cpu}: {error}"))
                })?;
            }
            command.spawn().map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!("{}: {error}", command.get_program().to_string_lossy()),
                )
            })
        };
        inside(space, start)
    }

    fn is_ready(&self, launch: &Launch, space: Option<&Space>) -> bool {
        let has_said = launch.says.as_ref().is_none_or(|words| {
            fs::read_to_string(self.log()).is_ok_and(|text| text.contains(words))
        });
        has_said && inside(space, || Ok(launch.addresses.iter().all(accepts))).unwrap_or(false)
    }

    #[cfg(test)]
    pub fn folder(&self) -> PathBuf {
        self.folder.clone()
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// The number of the broker's first process.
    pub fn id(&self) -> Option<u32> {
        self.children.last().map(Child::id)
    }

    /// What it has used since it was started.
    pub fn usage(&self) -> Usage {
        self.id().map(usage).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A number that is free may go to another process: it is not guarded from here on.
        self.guards.clear();
        // It keeps nothing that is wanted.
        for child in self.children.iter_mut().rev() {
            end(child.id());
            let _ = child.wait();
        }
        for folder in self.beside.iter().chain([&self.folder]) {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// Ends a process, its group and all that come from it.
fn end(process: u32) {
    let all: Vec<(u32, Option<u64>)> = family(process)
        .into_iter()
        .map(|one| (one, born(one)))
        .collect();
    let pid = |process: u32| i32::try_from(process).ok().and_then(Pid::from_raw);
    if let Some(group) = pid(process) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    for (one, when) in all {
        // Erlang starts helpers in groups of their own.
        if let (Some(pid), true) = (pid(one), when.is_some() && born(one) == when) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Does something in a namespace or where we are, on a thread of its own either way.
fn inside<T: Send>(
    space: Option<&Space>,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    match space {
        Some(space) => space.within(work),
        None => thread::scope(|scope| {
            scope
                .spawn(work)
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("what started the broker panicked")))
        }),
    }
}

/// Whether connections are accepted at both ends. UDP has nothing to accept; there the kernel's table of sockets is
/// read.
fn accepts((protocol, ends): (&Protocol, &Ends)) -> bool {
    match protocol {
        Protocol::Coap => {
            let wanted = format!(":{:04X}", ends.publish.port());
            ["udp", "udp6"].iter().any(|table| {
                let text = fs::read_to_string(format!("/proc/thread-self/net/{table}"))
                    .unwrap_or_default();
                let mut locals = text
                    .lines()
                    .filter_map(|line| line.split_whitespace().nth(1));
                locals.any(|local| local.ends_with(&wanted))
            })
        }
        _ => [ends.publish, ends.subscribe]
            .iter()
            .all(|address| TcpStream::connect_timeout(address, Duration::from_secs(1)).is_ok()),
    }
}

/// A file system in memory.
pub const MEMORY: &str = "/dev/shm";
const LOOK_UP: Duration = Duration::from_millis(20);
/// What is told of what a broker said that did not start.
const LINES: usize = 12;
