//! Looks at the machine.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};
use socket2::{Domain, Protocol, Socket, Type};

use super::{Look, State};
use crate::brokers::calls;
use crate::cell::CallCounter;
use crate::net::{nest, network, queue, tools, tun};

/// Everything; takes about a second.
pub fn everything() -> Vec<Look> {
    LOOKS.map(|(what, look)| look_of(what, look())).to_vec()
}

/// How it is, as found, and the word under which `means.toml` says what it means if it is not good.
type Found = (State, String, &'static str);

type LookAt = fn() -> Found;

const LOOKS: [(&str, LookAt); 16] = [
    ("cores", cores),
    ("kernel", kernel),
    ("frequency", governor),
    ("clock source", clock_source),
    ("reading the clock", clock),
    ("waking up", sleep),
    ("load of the last minute", load),
    ("time that the host took", steal),
    ("free memory", memory),
    ("open files", files),
    ("networks in namespaces", || {
        spaces_of(network::is_possible(), &tools::absent())
    }),
    ("TUN devices", || {
        presence(tun::is_there(), State::Missing, "tun")
    }),
    ("queue tbf", || queue_of("tbf")),
    ("queue netem", || queue_of("netem")),
    ("capture by raw sockets", raw_sockets),
    ("counting system calls", calls),
];

fn look_of(what: &'static str, (state, found, word): Found) -> Look {
    let mut means: BTreeMap<String, String> =
        toml::from_str(include_str!("means.toml")).expect("it is read by the tests");
    means.retain(|_, _| state != State::Good);
    Look {
        what,
        found,
        state,
        means: means.remove(word).unwrap_or_default(),
    }
}

/// Something that is there or not.
fn presence(found: Result<(), String>, lack: State, word: &'static str) -> Found {
    match found {
        Ok(()) => (State::Good, "yes".to_owned(), word),
        Err(why) => (lack, format!("no: {why}"), word),
    }
}

fn good_if(is_good: bool) -> State {
    if is_good { State::Good } else { State::Limited }
}

fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

fn cores() -> Found {
    let count = thread::available_parallelism().map_or(1, usize::from);
    let info = read("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| {
        let (_, name) = line.strip_prefix("model name")?.split_once(": ")?;
        Some(name)
    });
    let found = format!("{count}, {}", model.unwrap_or("of unknown make"));
    (good_if(count >= 2), found, "cores")
}

fn kernel() -> Found {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
    (State::Good, format!("Linux {release}"), "kernel")
}

fn governor() -> Found {
    match read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") {
        Some(name) => (good_if(name == "performance"), name, "frequency"),
        None => {
            let hidden = "not to be seen (a virtual machine?)".to_owned();
            (State::Limited, hidden, "hidden-frequency")
        }
    }
}

fn clock_source() -> Found {
    let name = read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let name = name.unwrap_or_default();
    let is_quick = QUICK_CLOCKS.contains(&name.as_str());
    (good_if(is_quick), name, "clock-source")
}

fn clock() -> Found {
    let begun = Instant::now();
    for _ in 0..READS {
        std::hint::black_box(Instant::now());
    }
    let each = begun.elapsed().as_secs_f64() * 1e9 / f64::from(READS);
    (good_if(each < 200.0), format!("{each:.0} ns"), "clock")
}

/// How late a sleeper wakes, as schedules are kept by sleeping.
fn sleep() -> Found {
    let mut late = [0.0; SLEEPS];
    for late in &mut late {
        let wanted = Duration::from_millis(1);
        let begun = Instant::now();
        thread::sleep(wanted);
        *late = (begun.elapsed() - wanted).as_secs_f64() * 1e6;
    }
    late.sort_by(f64::total_cmp);
    let at = |part: f64| late[(part * (SLEEPS - 1) as f64) as usize];
    let (half, most) = (at(0.5), at(0.99));
    let found = format!("{half:.0} µs late, 99 %: {most:.0} µs");
    (good_if(most < 1000.0), found, "waking")
}

fn load() -> Found {
    let text = read("/proc/loadavg").unwrap_or_default();
    let first = text.split(' ').next();
    let one: f64 = first.and_then(|it| it.parse().ok()).unwrap_or(f64::NAN);
    (good_if(one < 0.5), one.to_string(), "load")
}

fn steal() -> Found {
    let ticks = || {
        let text = read("/proc/stat").unwrap_or_default();
        let fields = text.lines().next().unwrap_or_default().split_whitespace();
        let all: Vec<f64> = fields.skip(1).filter_map(|it| it.parse().ok()).collect();
        let stolen = all.get(7).copied().unwrap_or(0.0);
        (stolen, all.iter().take(8).sum::<f64>())
    };
    let before = ticks();
    thread::sleep(STOLEN_IN);
    let after = ticks();
    let part = 100.0 * (after.0 - before.0) / (after.1 - before.1).max(1.0);
    (good_if(part < 1.0), format!("{part:.1} %"), "stolen")
}

fn memory() -> Found {
    let info = read("/proc/meminfo").unwrap_or_default();
    let mut lines = info.lines();
    let kib = lines.find_map(|line| line.strip_prefix("MemAvailable:")?.strip_suffix("kB"));
    let kib: Option<u64> = kib.and_then(|it| it.trim().parse().ok());
    let mib = kib.unwrap_or(0) / 1024;
    (good_if(mib >= 2048), format!("{mib} MiB"), "memory")
}

fn files() -> Found {
    let limit = getrlimit(Resource::Nofile);
    let words = |limit: Option<u64>| limit.map_or("no limit".to_owned(), |count| count.to_string());
    let found = format!("{}, at most {}", words(limit.current), words(limit.maximum));
    let is_enough = limit.current.is_none_or(|count| count >= FILES);
    (good_if(is_enough), found, "files")
}

/// What only lacks a program that can be installed is a restriction; what this machine does not allow is missing.
fn spaces_of(found: Result<(), String>, absent: &[&str]) -> Found {
    if found.is_ok() && nest::is_inside() {
        let found = "yes, in a user namespace".to_owned();
        return (State::Good, found, "namespaces");
    }
    let lack = match absent.is_empty() {
        true => State::Missing,
        false => State::Limited,
    };
    presence(found, lack, "namespaces")
}

fn queue_of(kind: &'static str) -> Found {
    let first_line = |why: String| why.lines().next().unwrap_or_default().to_owned();
    let found = queue::has(kind).map_err(first_line);
    presence(found, State::Limited, kind)
}

fn raw_sockets() -> Found {
    let every = Protocol::from(i32::from(3_u16.to_be()));
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(every));
    let found = socket.map(drop).map_err(|error| error.to_string());
    presence(found, State::Limited, "capture")
}

fn calls() -> Found {
    let found = calls::is_possible(CallCounter::Perf);
    if found.is_ok() {
        return (State::Good, "yes, by perf".to_owned(), "perf");
    }
    let word = match calls::is_possible(CallCounter::Strace) {
        Ok(()) => "perf-but-strace",
        Err(_) => "perf",
    };
    presence(found, State::Limited, word)
}

/// Clocks that are read without a system call.
const QUICK_CLOCKS: [&str; 4] = [
    "tsc",
    "kvm-clock",
    "arch_sys_counter",
    "hyperv_clocksource_tsc_page",
];
const READS: u32 = 100_000;
const SLEEPS: usize = 200;
const STOLEN_IN: Duration = Duration::from_millis(500);
/// Both ends of 600 pairs, broker and clients, and some.
const FILES: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_can_be_installed_makes_no_suite_impossible() {
        let of = |absent: &[&str]| spaces_of(Err("no".to_owned()), absent).0;
        assert_eq!(of(&["nft"]), State::Limited);
        assert_eq!(of(&[]), State::Missing);
        assert_eq!(spaces_of(Ok(()), &[]).0, State::Good);
    }

    #[test]
    fn every_lack_says_what_it_means() {
        for (what, look) in LOOKS {
            let (state, found, word) = look();
            assert!(!found.is_empty(), "{what}");
            let means = |state| look_of(what, (state, String::new(), word)).means;
            assert!(means(State::Good).is_empty(), "{what}");
            assert!(
                word == "kernel" || !means(State::Limited).is_empty(),
                "{what}"
            );
            assert!(word != "kernel" || state == State::Good);
        }
    }
}
