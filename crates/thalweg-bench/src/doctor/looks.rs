//! Looks at the machine.

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
    vec![
        cores(),
        kernel(),
        governor(),
        clock_source(),
        clock(),
        sleep(),
        load(),
        steal(),
        memory(),
        files(),
        spaces(),
        tun(),
        queue_of("tbf"),
        queue_of("netem"),
        raw_sockets(),
        calls(),
    ]
}

fn look(what: &'static str, found: impl Into<String>, state: State, means: &str) -> Look {
    let means = if state == State::Good {
        String::new()
    } else {
        means.to_owned()
    };
    Look {
        what,
        found: found.into(),
        state,
        means,
    }
}

fn good_if(is_good: bool) -> State {
    if is_good { State::Good } else { State::Limited }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

fn cores() -> Look {
    let count = thread::available_parallelism().map_or(1, usize::from);
    let info = read("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| {
        line.strip_prefix("model name")?
            .split_once(": ")
            .map(|(_, name)| name)
    });
    look(
        "cores",
        format!("{count}, {}", model.unwrap_or("of unknown make")),
        good_if(count >= 2),
        "broker and clients share one core: throughput is that of both together, and latency waits for the other's turn",
    )
}

fn kernel() -> Look {
    look(
        "kernel",
        format!(
            "Linux {}",
            read("/proc/sys/kernel/osrelease").unwrap_or_default()
        ),
        State::Good,
        "",
    )
}

fn governor() -> Look {
    match read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") {
        Some(name) => {
            let state = good_if(name == "performance");
            look(
                "frequency",
                name,
                state,
                "clock rates follow the load: processor seconds of small loads are too large",
            )
        }
        None => look(
            "frequency",
            "not to be seen (a virtual machine?)",
            State::Limited,
            "the host decides; processor seconds compare within one sitting only",
        ),
    }
}

fn clock_source() -> Look {
    let name = read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        .unwrap_or_default();
    let is_quick = [
        "tsc",
        "kvm-clock",
        "arch_sys_counter",
        "hyperv_clocksource_tsc_page",
    ]
    .contains(&name.as_str());
    look(
        "clock source",
        name,
        good_if(is_quick),
        "reading the clock is a system call, once or twice for each message",
    )
}

fn clock() -> Look {
    let begun = Instant::now();
    for _ in 0..READS {
        std::hint::black_box(Instant::now());
    }
    let each = begun.elapsed().as_secs_f64() * 1e9 / f64::from(READS);
    look(
        "reading the clock",
        format!("{each:.0} ns"),
        good_if(each < 200.0),
        "each message costs the generator that much, twice",
    )
}

/// How late a sleeper wakes, as schedules are kept by sleeping.
fn sleep() -> Look {
    let mut late: Vec<f64> = (0..SLEEPS)
        .map(|_| {
            let wanted = Duration::from_millis(1);
            let begun = Instant::now();
            thread::sleep(wanted);
            (begun.elapsed() - wanted).as_secs_f64() * 1e6
        })
        .collect();
    late.sort_by(f64::total_cmp);
    let at = |part: f64| {
        late.get((part * f64::from(SLEEPS - 1)) as usize)
            .copied()
            .unwrap_or(f64::NAN)
    };
    let (half, most) = (at(0.5), at(0.99));
    look(
        "waking up",
        format!("{half:.0} µs late, 99 %: {most:.0} µs"),
        good_if(most < 1000.0),
        "messages leave late; trials whose 99th percentile of that is above 1 ms do not count (generator-limited)",
    )
}

fn load() -> Look {
    let text = read("/proc/loadavg").unwrap_or_default();
    let one = text
        .split(' ')
        .next()
        .and_then(|first| first.parse::<f64>().ok())
        .unwrap_or(f64::NAN);
    look(
        "load of the last minute",
        format!("{one}"),
        good_if(one < 0.5),
        "something else is running: latencies are too high",
    )
}

fn steal() -> Look {
    let ticks = || {
        let text = read("/proc/stat").unwrap_or_default();
        let all = text
            .lines()
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .skip(1);
        let all: Vec<f64> = all.filter_map(|field| field.parse().ok()).collect();
        (
            all.get(7).copied().unwrap_or(0.0),
            all.iter().take(8).sum::<f64>(),
        )
    };
    let before = ticks();
    thread::sleep(STOLEN_IN);
    let after = ticks();
    let part = 100.0 * (after.0 - before.0) / (after.1 - before.1).max(1.0);
    look(
        "time that the host took",
        format!("{part:.1} %"),
        good_if(part < 1.0),
        "other machines of the host take time: latencies have gaps that no broker causes, rates are too low",
    )
}

fn memory() -> Look {
    let info = read("/proc/meminfo").unwrap_or_default();
    let kib = info.lines().find_map(|line| {
        line.strip_prefix("MemAvailable:")?
            .split_whitespace()
            .next()?
            .parse::<u64>()
            .ok()
    });
    let mib = kib.unwrap_or(0) / 1024;
    look(
        "free memory",
        format!("{mib} MiB"),
        good_if(mib >= 2048),
        "queues that do not drop may not have room in a flood",
    )
}

fn files() -> Look {
    let limit = getrlimit(Resource::Nofile);
    let words = |limit: Option<u64>| limit.map_or("no limit".to_owned(), |count| count.to_string());
    let found = format!("{}, at most {}", words(limit.current), words(limit.maximum));
    let is_enough = limit.current.is_none_or(|count| count >= FILES);
    look(
        "open files",
        found,
        good_if(is_enough),
        "600 pairs need more connections: `ulimit -n 65536` before",
    )
}

fn spaces() -> Look {
    spaces_of(network::is_possible(), &tools::absent())
}

/// What only lacks a program that can be installed is a restriction; what this machine does not allow is missing.
fn spaces_of(found: Result<(), String>, absent: &[&str]) -> Look {
    match found {
        Ok(()) if nest::is_inside() => look(
            "networks in namespaces",
            "yes, in a user namespace",
            State::Good,
            "",
        ),
        Ok(()) => look("networks in namespaces", "yes", State::Good, ""),
        Err(why) => look(
            "networks in namespaces",
            format!("no: {why}"),
            if absent.is_empty() {
                State::Missing
            } else {
                State::Limited
            },
            "no loss, delay or bytes: E2, E3 and parts of E4 cannot be run",
        ),
    }
}

fn tun() -> Look {
    match tun::is_there() {
        Ok(()) => look("TUN devices", "yes", State::Good, ""),
        Err(why) => look(
            "TUN devices",
            format!("no: {why}"),
            State::Missing,
            "no emulated links: no delay, jitter, reordering, no loss by a seed",
        ),
    }
}

fn queue_of(kind: &'static str) -> Look {
    let what = if kind == "tbf" {
        "queue tbf"
    } else {
        "queue netem"
    };
    match queue::has(kind) {
        Ok(()) => look(what, "yes", State::Good, ""),
        Err(why) => look(
            what,
            format!("no: {}", why.lines().next().unwrap_or_default()),
            State::Limited,
            match kind {
                "tbf" => "rates are emulated: up to some tens of thousands of packets a second",
                _ => {
                    "delay is emulated, by a seed; the emulator carries some tens of thousands of packets a second"
                }
            },
        ),
    }
}

fn raw_sockets() -> Look {
    let every = Protocol::from(i32::from(3_u16.to_be()));
    match Socket::new(Domain::PACKET, Type::RAW, Some(every)) {
        Ok(_) => look("capture by raw sockets", "yes", State::Good, ""),
        Err(error) => look(
            "capture by raw sockets",
            format!("no: {error}"),
            State::Limited,
            "bytes are counted, but not told apart by what they are there for (E2b)",
        ),
    }
}

fn calls() -> Look {
    let what = "counting system calls";
    match calls::is_possible(CallCounter::Perf) {
        Ok(()) => look(what, "yes, by perf", State::Good, ""),
        Err(why) => {
            let means = match calls::is_possible(CallCounter::Strace) {
                Ok(()) => {
                    "none with --count-system-calls; =strace counts them, and slows the broker"
                }
                Err(_) => "none with --count-system-calls",
            };
            look(what, format!("no: {why}"), State::Limited, means)
        }
    }
}

const READS: u32 = 100_000;
const SLEEPS: u32 = 200;
const STOLEN_IN: Duration = Duration::from_millis(500);
/// Both ends of 600 pairs, broker and clients, and some.
const FILES: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_can_be_installed_makes_no_suite_impossible() {
        let of = |absent: &[&str]| spaces_of(Err("no".to_owned()), absent).state;
        assert_eq!(of(&["nft"]), State::Limited);
        assert_eq!(of(&[]), State::Missing);
        assert_eq!(spaces_of(Ok(()), &[]).state, State::Good);
    }

    #[test]
    fn every_lack_says_what_it_means() {
        for look in everything() {
            assert!(!look.found.is_empty(), "{}", look.what);
            assert_eq!(
                look.means.is_empty(),
                look.state == State::Good,
                "{}: {}",
                look.what,
                look.means
            );
        }
    }
}
