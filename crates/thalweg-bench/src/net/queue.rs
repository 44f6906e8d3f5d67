//! What the kernel's queues can do to a link: a rate (tbf), and delay, order and copies where it has netem.

use std::fmt::Write as _;
use std::io;
use std::sync::OnceLock;

use super::emulator::QUEUE_BYTES;
use super::loss::SIDES;
use super::network::name_of_ours;
use super::space::Space;
use super::tools::run;
use super::units::Loss;
use crate::cell::{ALARM_CLASS, Link};

/// Whether the kernel has this kind of queue; if not, what it says.
pub fn has(kind: &'static str) -> Result<(), String> {
    static NETEM: OnceLock<Result<(), String>> = OnceLock::new();
    static TBF: OnceLock<Result<(), String>> = OnceLock::new();
    let (known, arguments) = match kind {
        "netem" => (&NETEM, "netem delay 1ms"),
        _ => (&TBF, "tbf rate 1mbit burst 3000 limit 3000"),
    };
    known.get_or_init(|| try_out(arguments)).clone()
}

/// In a namespace of its own, as it changes a device.
fn try_out(arguments: &str) -> Result<(), String> {
    let name = format!(
        "thalweg-{}-queue-{}",
        name_of_ours("try"),
        arguments.split(' ').next().unwrap_or_default()
    );
    let space = Space::make(&name).map_err(|error| error.to_string())?;
    let tried = space.within(|| tc(&format!("qdisc add dev lo root {arguments}")));
    let _ = space.remove();
    tried.map_err(|error| error.to_string())
}

/// Queues behind the link in both directions, in the namespace between.
pub fn set(space: &Space, link: &Link) -> io::Result<()> {
    let mut lines = Vec::new();
    if link.is_more_than_rate() {
        has("netem").map_err(|words| {
            io::Error::other(format!(
                "this kernel has no netem, so that only the emulator delays packets: {words}"
            ))
        })?;
    }
    // What goes to the broker leaves by its side, and the other way round.
    for device in SIDES {
        let (mut parent, mut handle) = ("root handle 1:", 1);
        if link.is_more_than_rate() {
            lines.push(format!("qdisc add dev {device} {parent} {}", netem(link)));
            (parent, handle) = ("parent 1:1 handle 2:", 2);
        }
        if let Some(rate) = link.rate {
            // A burst of two full frames is the least that keeps up with a rate.
            lines.push(format!("qdisc add dev {device} {parent} tbf rate {rate}bit burst {BURST} limit {QUEUE_BYTES}"));
        }
        if link.classes {
            lines.extend(classes(device, handle));
        }
    }
    match lines.is_empty() {
        true => Ok(()),
        false => space.within(|| lines.iter().try_for_each(|line| tc(line))),
    }
}

/// Two queues below the one of this number, whose packets it sends in the order of their classes. They are htb's, which more
/// kernels have than prio: no rate of its own is ever reached.
fn classes(device: &str, below: u32) -> Vec<String> {
    let first = format!("{:#04x} 0xfc", ALARM_CLASS << 2);
    let mut lines = vec![format!(
        "qdisc add dev {device} parent {below}:1 handle 3: htb default 2"
    )];
    for (class, priority) in [(1, 0), (2, 1)] {
        lines.push(format!(
            "class add dev {device} parent 3: classid 3:{class} htb rate 10gbit prio {priority} quantum 1514"
        ));
    }
    lines.push(format!(
        "filter add dev {device} parent 3: protocol ip u32 match ip dsfield {first} flowid 3:1"
    ));
    lines
}

/// netem's own words for a link. Its jitter is around the mean, ours is on top.
fn netem(link: &Link) -> String {
    let half = link.jitter_ns / 2;
    let mut text = format!(
        "netem limit 100000 delay {}us",
        (link.delay_ns + half) / 1000
    );
    if half > 0 {
        let _ = write!(text, " {}us", half / 1000);
    }
    for (what, part) in [("reorder", link.reorder), ("duplicate", link.duplicate)] {
        if part > 0.0 {
            let _ = write!(text, " {what} {}", Loss::percent(part * 100.0));
        }
    }
    text
}

fn tc(line: &str) -> io::Result<()> {
    let arguments: Vec<&str> = line.split(' ').collect();
    run("tc", &arguments, "").map(drop)
}

const BURST: u64 = 2 * 1514;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn netem_is_told_in_its_own_words() {
        let link = Link {
            delay_ns: 50_000_000,
            ..Link::LOOPBACK
        };
        assert_eq!(netem(&link), "netem limit 100000 delay 50000us");
        let link = Link {
            jitter_ns: 20_000_000,
            reorder: 0.01,
            duplicate: 0.005,
            ..link
        };
        assert_eq!(
            netem(&link),
            "netem limit 100000 delay 60000us 10000us reorder 1% duplicate 0.5%"
        );
    }
}
