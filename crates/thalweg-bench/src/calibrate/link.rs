//! E0 (4): links lose, delay and hold back what they say.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Finding, Verdict, Wishes, or_missed};
use crate::cell::{Engine, Link};
use crate::net::check;
use crate::net::network::name_of_ours;
use crate::net::{BROKER_HOST, Loss, Network, network};

pub fn run(wishes: &Wishes, stop: &AtomicBool) -> Vec<Finding> {
    let packets = if wishes.quick { 10_000 } else { 100_000 };
    or_missed("links", everything(packets, DEVIATIONS, stop))
}

/// All of it; `packets` for each loss, direction and engine, of which E0 asks 100,000, and so many deviations that their losses
/// may be off. Takes about a minute.
fn everything(packets: u64, deviations: f64, stop: &AtomicBool) -> io::Result<Vec<Finding>> {
    if let Err(why) = network::is_possible() {
        return Ok(vec![Finding::skipped("links: loss, rate, delay", why)]);
    }
    let mut findings = Vec::new();
    for (engine, who) in ENGINES {
        let link = Link {
            engine,
            ..Link::LOOPBACK
        };
        let network = Network::up(&name_of_ours("cal-link"), &link, 7)?;
        for percent in [5, 10, 15, 20, 25] {
            if stop.load(Ordering::Relaxed) {
                return Ok(findings);
            }
            let loss = Loss::percent(f64::from(percent));
            let found = check::losses(&network, who, loss, packets, deviations)?;
            findings.extend(found.into_iter().map(Finding::from));
        }
        drop(network);
        findings.push(goodput(engine, who, 95_000_000)?);
    }
    findings.push(check::delay(Duration::from_millis(50))?.into());
    Ok(findings)
}

/// How much of a connection's data comes through a link with a rate, when there is always more to send.
fn goodput(engine: Engine, who: &str, rate: u64) -> io::Result<Finding> {
    let link = Link {
        rate: Some(rate),
        engine,
        ..Link::LOOPBACK
    };
    let network = Network::up(&name_of_ours("cal-link"), &link, 1)?;
    let place = (BROKER_HOST, 5001);
    let listener = network.broker().within(|| TcpListener::bind(place))?;
    let mut sender = network.client().within(|| TcpStream::connect(place))?;
    let (mut receiver, _) = listener.accept()?;
    let (received, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let rate_found = thread::scope(|scope| {
        let (received, is_over) = (&received, &is_over);
        scope.spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(length @ 1..) = receiver.read(&mut buffer) {
                received.fetch_add(length as u64, Ordering::Relaxed);
            }
        });
        scope.spawn(move || {
            let block = vec![0; 1 << 16];
            // It ends with the last word of the receiver, too.
            while !is_over.load(Ordering::Relaxed) && sender.write_all(&block).is_ok() {}
        });
        thread::sleep(UNTIL_STEADY);
        let (begun, before) = (Instant::now(), received.load(Ordering::Relaxed));
        thread::sleep(MEASURED);
        let (span, after) = (begun.elapsed(), received.load(Ordering::Relaxed));
        is_over.store(true, Ordering::Relaxed);
        (after - before) as f64 * 8.0 / span.as_secs_f64()
    });
    // Of a full frame of 1,514 bytes, 66 are headers.
    let wanted = rate as f64 * 1448.0 / 1514.0;
    let off = rate_found / wanted - 1.0;
    let finding = Finding::new(
        format!("{who}: data through {} Mbit/s", rate / 1_000_000),
        format!("{:.2} Mbit/s ± 2 %", wanted / 1e6),
        format!("{:.2} Mbit/s ({:+.2} %)", rate_found / 1e6, off * 100.0),
        off.abs() <= 0.02,
    );
    // An emulator that does not get the processor carries less. A trial sees that by what did not fit.
    let is_of_machine = engine == Engine::Emulator && off < -0.02;
    Ok(match is_of_machine {
        true => Finding {
            verdict: Verdict::Told,
            ..finding
        },
        false => finding,
    })
}

const ENGINES: [(Engine, &str); 2] = [(Engine::Kernel, "kernel"), (Engine::Emulator, "emulator")];
/// Twenty intervals that hold together in 99 of 100 runs: each leaves 0.05 % out (Bonferroni).
const DEVIATIONS: f64 = 3.481;
/// A connection's start fills the queue before the link.
const UNTIL_STEADY: Duration = Duration::from_millis(1000);
const MEASURED: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's losses have no seed. One of twenty is more than eight deviations off once in a million million runs.
    const NO_CHANCE: f64 = 8.0;

    fn losses_hold(packets: u64, deviations: f64) {
        let stop = AtomicBool::new(false);
        let findings = everything(packets, deviations, &stop).expect("a link");
        let is_of_loss = |it: &&Finding| it.expected.ends_with("lost");
        let of_losses: Vec<&Finding> = findings.iter().filter(is_of_loss).collect();
        // Rates and delays are a matter of what else runs; losses are not.
        let mut verdicts = of_losses.iter().map(|it| &it.verdict);
        assert!(verdicts.all(|it| *it == Verdict::Held), "{findings:?}");
        let is_skipped = |it: &Finding| matches!(it.verdict, Verdict::Skipped(_));
        assert!(
            of_losses.len() == 20 || findings.iter().all(is_skipped),
            "{findings:?}"
        );
    }

    #[test]
    fn links_do_what_they_say_where_there_may_be_links() {
        losses_hold(2000, NO_CHANCE);
    }

    #[test]
    #[ignore = "a minute or two: what `thalweg bench calibrate` does"]
    fn links_do_what_they_say_over_a_hundred_thousand_packets() {
        losses_hold(100_000, DEVIATIONS);
    }
}
