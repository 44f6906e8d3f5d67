//! System calls of a broker, counted by a program beside it: `perf` or `strace`.
//!
//! What cannot be counted is told with the reason and with what would make it possible; it is never nought.
//!
//! ```text
//!  start (attached, counts nothing) ──> begin ──> pause ──> total
//! ```

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, kill_process};

use super::Running;
use super::meter::family;
use crate::cell::{CallCounter, Calls};
use crate::load::clock;
use crate::net::nest;

/// A counter beside a broker. What goes wrong with it is told by [`Counting::total`], and disturbs nothing before.
#[derive(Debug)]
pub struct Counting(Mutex<Result<Counter, String>>);

#[derive(Debug)]
struct Counter {
    by: CallCounter,
    processes: Vec<u32>,
    /// perf is attached in a pause, strace when it counts.
    child: Option<Beside>,
}

impl Counting {
    /// Beside a broker and all that comes from it.
    pub fn of(broker: &Running, by: CallCounter) -> Counting {
        let why = || "the broker is none that was started here".to_owned();
        let counter = broker.process().ok_or_else(why);
        Counting(Mutex::new(counter.and_then(|it| Counter::start(by, it))))
    }

    /// Counts from now on.
    pub fn begin(&self) {
        self.change(|counter| match (counter.by, &mut counter.child) {
            (CallCounter::Perf, Some(perf)) => perf.ask("enable"),
            (_, child) => {
                *child = Some(trace(&counter.processes)?);
                Ok(())
            }
        });
    }

    pub fn pause(&self) {
        self.change(|counter| match (counter.by, &mut counter.child) {
            (CallCounter::Perf, Some(perf)) => perf.ask("disable"),
            (_, child) => {
                child.iter().for_each(Beside::interrupt);
                Ok(())
            }
        });
    }

    /// What was counted; detaches the counter.
    pub fn total(self) -> Calls {
        let counter = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let total = counter.and_then(|counter| {
            let child = counter.child.ok_or("there was no measured phase")?;
            child.total(counter.by)
        });
        total.map_or_else(Calls::Uncounted, Calls::Counted)
    }

    fn change(&self, step: impl FnOnce(&mut Counter) -> Result<(), String>) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(counter) = &mut *held
            && let Err(why) = step(counter)
        {
            *held = Err(why);
        }
    }
}

impl Counter {
    fn start(by: CallCounter, process: u32) -> Result<Counter, String> {
        let processes = family(process);
        let child = match by {
            CallCounter::Perf => Some(perf(&processes)?),
            CallCounter::Strace => None,
        };
        Ok(Counter {
            by,
            processes,
            child,
        })
    }
}

/// Whether system calls can be counted here; if not, why, and what would make it possible.
pub fn is_possible(by: CallCounter) -> Result<(), String> {
    // A child makes calls, as a broker would; it is ours, and ends when its input does.
    let mut child = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cat: {error}"))?;
    let counting = Counting(Mutex::new(Counter::start(by, child.id())));
    counting.begin();
    if let (Some(stdin), Some(stdout)) = (&mut child.stdin, &mut child.stdout) {
        let _ = stdin
            .write_all(b"a")
            .and_then(|()| stdout.read_exact(&mut [0]));
    }
    counting.pause();
    let total = counting.total();
    drop(child.stdin.take());
    let _ = child.wait();
    match total {
        Calls::Counted(_) => Ok(()),
        Calls::Uncounted(why) => Err(why),
    }
}

/// Attaches `perf stat`, and returns when it is: its events are enabled and disabled by words on its standard input, answered
/// on its standard output.
fn perf(processes: &[u32]) -> Result<Beside, String> {
    let mut perf = spawn("perf", PERF, processes, "linux-perf")?;
    match perf.ask("disable") {
        Ok(()) => Ok(perf),
        // It says why.
        Err(unasked) => Err(perf.total(CallCounter::Perf).err().unwrap_or(unasked)),
    }
}

/// Attaches strace, and returns when it is; the processes are stopped for that.
fn trace(processes: &[u32]) -> Result<Beside, String> {
    let mut child = spawn("strace", STRACE, processes, "strace")?;
    let patience = Instant::now() + PATIENCE;
    while !processes.iter().all(|process| is_traced(*process)) {
        if !matches!(child.0.try_wait(), Ok(None)) || Instant::now() > patience {
            let [_, complained] = child.last_words();
            return Err(format!(
                "{}; strace needs to be root or the owner of the broker, and kernel.yama.ptrace_scope below 2",
                without_count("strace", &complained)
            ));
        }
        thread::sleep(LOOK_UP);
    }
    Ok(child)
}

fn is_traced(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let tracer = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}

/// Starts a counter of these processes, whose list its options end with.
fn spawn(program: &str, options: &str, processes: &[u32], package: &str) -> Result<Beside, String> {
    let processes: Vec<String> = processes.iter().map(u32::to_string).collect();
    let spawned = Command::new(program)
        .args(options.split(' '))
        .arg(processes.join(","))
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C is for us.
        .process_group(0)
        .spawn();
    spawned.map(Beside).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            format!("{program} is not installed: apt-get install -y {package}")
        }
        _ => format!("{program}: {error}"),
    })
}

/// A counter's process, ended when dropped: a trial may end before anything is counted.
#[derive(Debug)]
struct Beside(Child);

impl Beside {
    fn interrupt(&self) {
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::INT);
        }
    }

    /// Says a word to perf, and waits until it has answered.
    fn ask(&mut self, word: &str) -> Result<(), String> {
        let (Some(stdin), Some(stdout)) = (&mut self.0.stdin, &mut self.0.stdout) else {
            return Err("perf is not to be controlled".to_owned());
        };
        let asked = stdin.write_all(format!("{word}\n").as_bytes());
        asked.map_err(|error| format!("perf: {error}"))?;
        let patience = clock::timespec(PATIENCE.as_nanos() as u64);
        let wait = || poll(&mut [PollFd::new(stdout, PollFlags::IN)], Some(&patience));
        let is_there = retry_on_intr(wait).is_ok_and(|ready| ready > 0);
        // `ack`, a line and a nought in one piece; nothing if it has ended.
        match is_there && stdout.read(&mut [0; 16]).is_ok_and(|count| count > 0) {
            true => Ok(()),
            false => Err(format!("perf does not answer to `{word}`")),
        }
    }

    fn total(self, by: CallCounter) -> Result<u64, String> {
        let [said, complained] = self.last_words();
        match by {
            CallCounter::Strace => {
                of_strace(&said).ok_or_else(|| without_count("strace", &complained))
            }
            CallCounter::Perf => {
                let unsaid = || Err(without_count("perf", &complained));
                let count = of_perf(&complained).unwrap_or_else(unsaid);
                count.map_err(|why| format!("{why}; {}", remedy()))
            }
        }
    }

    /// Waits until it has ended; it is killed if it does not.
    fn wait(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            self.interrupt();
        }
        let patience = Instant::now() + PATIENCE;
        while matches!(self.0.try_wait(), Ok(None)) {
            if Instant::now() > patience {
                let _ = self.0.kill();
            }
            thread::sleep(LOOK_UP);
        }
    }

    /// Ends it; what it says then, on standard output and on standard error.
    fn last_words(mut self) -> [String; 2] {
        self.wait();
        fn read(pipe: Option<impl Read>) -> String {
            let mut bytes = Vec::new();
            // What cannot be read is no count, which is told.
            pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
            String::from_utf8_lossy(&bytes).into_owned()
        }
        let Child { stdout, stderr, .. } = &mut self.0;
        [read(stdout.take()), read(stderr.take())]
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.wait();
    }
}

/// The count in what `perf stat -x,` says: `4911,,raw_syscalls:sys_enter,60258653,100.00,,`; none if it says nothing of it.
fn of_perf(said: &str) -> Option<Result<u64, String>> {
    let mut lines = said
        .lines()
        .map(|line| line.split(',').collect::<Vec<&str>>());
    let fields = lines.find(|fields| fields.get(2).is_some_and(|name| name.starts_with(EVENT)))?;
    let (value, name) = (*fields.first()?, *fields.get(2)?);
    // Without the right to look into the kernel perf counts, of itself, what happens outside of it: none of these.
    if name != EVENT {
        return Some(Err("perf may not look into the kernel".to_owned()));
    }
    Some(match value.parse() {
        Ok(0) => Err("perf counted none, which no broker can be".to_owned()),
        Ok(count) => Ok(count),
        Err(_) => Err(format!("perf says {value}")),
    })
}

/// The sum below the table of `strace -c -U calls,name`; none if there is none.
fn of_strace(said: &str) -> Option<u64> {
    let mut words = said.lines().last()?.split_whitespace();
    let count = words.next()?.parse().ok()?;
    (words.next()? == "total" && count > 0).then_some(count)
}

/// What a counter complained of, in a line.
fn without_count(program: &str, complained: &str) -> String {
    let mut lines = complained
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let error = lines.clone().find_map(|line| line.strip_prefix("Error:"));
    match error.map(str::trim).or_else(|| lines.next()) {
        Some(line) => format!("{program}: {line}"),
        None => format!("{program} ended without a count"),
    }
}

/// What would make it possible to count by perf.
fn remedy() -> &'static str {
    let is_root = rustix::process::geteuid().is_root() && !nest::is_inside();
    match (is_root, fs::exists(EVENT_FOLDER).unwrap_or(false)) {
        (true, true) => {
            "a container needs CAP_PERFMON and a seccomp profile that allows perf_event_open"
        }
        (true, false) => {
            "mount -t tracefs none /sys/kernel/tracing shows the trace points to perf, if the kernel has them \
             (CONFIG_FTRACE_SYSCALLS)"
        }
        (false, _) => {
            "root may count; root lets a group do it by mount -o remount,mode=750,gid=GROUP /sys/kernel/tracing and sysctl \
             kernel.perf_event_paranoid=1"
        }
    }
}

/// It counts nothing until it is told to.
const PERF: &str = "stat -x, -e raw_syscalls:sys_enter -D -1 --control fd:0,1 -p";
/// The table goes to standard output, messages to standard error.
const STRACE: &str = "-f -c -qq -U calls,name -o /dev/stdout -p";
/// Every system call, as it begins.
const EVENT: &str = "raw_syscalls:sys_enter";
const EVENT_FOLDER: &str = "/sys/kernel/tracing/events/raw_syscalls";
/// How long a counter may take for anything.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_UP: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_perf_says_is_a_count_or_a_reason_and_never_nought() {
        let said = "Events disabled\nEvents enabled\nEvents disabled\n4911,,raw_syscalls:sys_enter,60258653,100.00,,\n";
        assert_eq!(of_perf(said), Some(Ok(4911)));
        for (count, suffix, why) in [
            ("0", "u", "may not look into the kernel"),
            ("17", ":u", "may not look into the kernel"),
            ("0", "", "counted none"),
            ("<not counted>", "", "<not counted>"),
            ("<not supported>", "", "<not supported>"),
        ] {
            let line = format!("{count},,raw_syscalls:sys_enter{suffix},962141,100.00,,");
            let told = of_perf(&line)
                .expect("the event is there")
                .expect_err(&line);
            assert!(told.contains(why), "{line}: {told}");
        }
        assert_eq!(of_perf("Events disabled\n"), None);
        assert_eq!(of_perf(""), None);
    }

    #[test]
    fn what_strace_says_is_its_sum() {
        let table = "    calls syscall\n--------- ----------------\n     8000 futex\n      813 read\n--------- ----------------\n     8813 total\n";
        assert_eq!(of_strace(table), Some(8813));
        for none in [
            "",
            "strace: attach: ptrace(PTRACE_SEIZE, 1): Operation not permitted",
            "0 total",
            "7 read",
        ] {
            assert_eq!(of_strace(none), None, "{none}");
        }
    }

    #[test]
    fn a_complaint_is_told_in_a_line() {
        let perf = "event syntax error: 'raw_syscalls:sys_enter'\n   \\___ can't access trace events\n\nError:\tNo permissions to \
                    read /sys/kernel/tracing/events\nHint:\tTry\n";
        for (complained, told) in [
            (
                perf,
                "perf: No permissions to read /sys/kernel/tracing/events",
            ),
            ("\n  no such thing \n", "perf: no such thing"),
            ("", "perf ended without a count"),
        ] {
            assert_eq!(without_count("perf", complained), told);
        }
    }

    #[test]
    fn every_call_of_a_process_is_counted_between_begin_and_pause() {
        for by in [CallCounter::Perf, CallCounter::Strace] {
            if let Err(why) = is_possible(by) {
                println!("skipped: {by:?}: {why}");
                continue;
            }
            // dd makes a read and a write for each block, and waits for the next one.
            let mut child = Command::new("dd")
                .args(["bs=1", "status=none"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("dd");
            let mut stdin = child.stdin.take().expect("a pipe");
            let mut stdout = child.stdout.take().expect("a pipe");
            let mut copy = |count: usize| {
                for _ in 0..count {
                    stdin.write_all(b"a").expect("it is written");
                    stdout.read_exact(&mut [0]).expect("it comes back");
                }
            };
            copy(10);
            let counting = Counting(Mutex::new(Counter::start(by, child.id())));
            counting.begin();
            copy(BLOCKS);
            counting.pause();
            copy(10);
            let total = counting.total();
            drop(stdin);
            child.wait().expect("it ends");
            let Calls::Counted(count) = total else {
                panic!("{by:?}: {total:?}")
            };
            println!("{by:?}: {count} calls for {BLOCKS} blocks");
            // Strace detaches when it gets to it: what is copied meanwhile may be counted, too. At both borders dd may be
            // in the middle of a read, which strace restarts.
            let (all, meanwhile) = (
                2 * BLOCKS as u64,
                if by == CallCounter::Strace { 20 } else { 0 },
            );
            let is_right = (all - 4..=all + 4 + meanwhile).contains(&count);
            assert!(is_right, "{by:?}: {count} calls for {BLOCKS} blocks");
        }
    }

    #[test]
    fn a_counter_that_nobody_asks_is_ended() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("cat");
        match Counter::start(CallCounter::Perf, child.id()) {
            Ok(counter) => {
                let number = counter.child.as_ref().map(|perf| perf.0.id());
                let file = format!("/proc/{}", number.expect("it is attached"));
                assert!(fs::exists(&file).expect("it can be asked"));
                drop(counter);
                assert!(!fs::exists(&file).expect("it can be asked"));
            }
            Err(why) => println!("skipped: {why}"),
        }
        drop(child.stdin.take());
        child.wait().expect("it ends");
    }

    #[test]
    fn a_process_that_is_not_there_is_not_counted() {
        for by in [CallCounter::Perf, CallCounter::Strace] {
            let mut gone = Command::new("true").spawn().expect("true");
            gone.wait().expect("it ends");
            let counting = Counting(Mutex::new(Counter::start(by, gone.id())));
            counting.begin();
            counting.pause();
            let total = counting.total();
            assert!(
                matches!(&total, Calls::Uncounted(why) if !why.is_empty()),
                "{by:?}: {total:?}"
            );
        }
    }

    const BLOCKS: usize = 100;
}
