//! Whether a network does here what it says: realised loss, bytes to the last one, delay. Items 4 and 5 of the calibration.

use std::io;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use super::loss::Tally;
use super::network::{BROKER_HOST, CLIENT_HOST, Network, name_of_ours};
use super::space::Space;
use super::units::Loss;
use crate::cell::{Engine, Link, word};

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub what: String,
    /// What it should be.
    pub wanted: String,
    pub found: String,
    /// Whether that is right; None where it only says how good this machine is.
    pub is_right: Option<bool>,
}

/// Checks everything; `packets` for each loss and direction.
pub fn everything(packets: u64) -> io::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for engine in [Engine::Kernel, Engine::Emulator] {
        let link = Link {
            engine,
            ..Link::LOOPBACK
        };
        let network = Network::up(&name_of_ours("check"), &link, 7)?;
        let who = word(engine);
        let who = who.as_str();
        findings.push(bytes(&network, who)?);
        for percent in [0, 5, 10, 15, 20, 25] {
            findings.extend(losses(
                &network,
                who,
                Loss::percent(f64::from(percent)),
                packets,
                INTERVAL,
            )?);
        }
    }
    findings.push(delay(Duration::from_millis(50))?);
    Ok(findings)
}

/// A thousand datagrams of 60 bytes: 102 bytes each with headers of UDP, IP and Ethernet.
pub(crate) fn bytes(network: &Network, who: &str) -> io::Result<Finding> {
    let before = network.reading()?;
    send(network, 0, 1000)?;
    let after = network.reading()?;
    let (up, down) = (after.up - before.up, after.down - before.down);
    let found = format!(
        "{} B in {} frames, back {} B",
        up.bytes, up.frames, down.bytes
    );
    let is_right = (up.bytes, up.frames, down.bytes) == (102_000, 1000, 0);
    Ok(Finding {
        what: format!("{who}: bytes of 1,000 datagrams of 60 B"),
        wanted: "102000 B in 1000 frames, back 0 B".to_owned(),
        found,
        is_right: Some(is_right),
    })
}

/// Packets lost in each direction, within so many deviations of a binomial distribution.
pub(crate) fn losses(
    network: &Network,
    who: &str,
    loss: Loss,
    packets: u64,
    deviations: f64,
) -> io::Result<Vec<Finding>> {
    network.set_loss(loss)?;
    let mut findings = Vec::new();
    for (side, direction) in [(0, "to the broker"), (1, "to the client")] {
        let before = tally(network, side)?;
        send(network, side, packets)?;
        let after = tally(network, side)?;
        let (came, lost) = (after.came - before.came, after.lost - before.lost);
        let part = loss.part();
        let expected = came as f64 * part;
        let half = deviations * (expected * (1.0 - part)).sqrt();
        findings.push(Finding {
            what: format!("{who}: {loss} of {packets} packets {direction}"),
            wanted: format!("{packets} came, {expected:.0} ± {half:.0} lost"),
            found: format!("{came} came, {lost} lost"),
            is_right: Some(came == packets && (lost as f64 - expected).abs() <= half),
        });
    }
    network.set_loss(Loss::NONE)?;
    Ok(findings)
}

/// How much later than it says the emulator lets packets out.
pub(crate) fn delay(wanted: Duration) -> io::Result<Finding> {
    let link = Link {
        delay_ns: wanted.as_nanos() as u64,
        ..Link::LOOPBACK
    };
    let network = Network::up(&name_of_ours("delay"), &link, 1)?;
    let receiver = socket_in(network.broker(), &format!("{BROKER_HOST}:9"))?;
    receiver.set_read_timeout(Some(Duration::from_secs(5)))?;
    let sender = socket_in(network.client(), &format!("{CLIENT_HOST}:9"))?;
    let mut late = Vec::new();
    thread::scope(|scope| -> io::Result<()> {
        let begun = Instant::now();
        let received = scope.spawn(move || {
            let mut buffer = [0; 64];
            let mut times = Vec::new();
            while times.len() < DELAYED && receiver.recv(&mut buffer).is_ok() {
                times.push(begun.elapsed());
            }
            times
        });
        let mut sent = Vec::new();
        for _ in 0..DELAYED {
            sent.push(begun.elapsed());
            sender.send_to(&[0; 60], (BROKER_HOST, 9))?;
            thread::sleep(Duration::from_millis(5));
        }
        let received = received.join().unwrap_or_default();
        late.extend(
            sent.iter()
                .zip(&received)
                .map(|(sent, received)| (*received - *sent).as_secs_f64() * 1e3),
        );
        Ok(())
    })?;
    late.sort_by(f64::total_cmp);
    let last = late.len().saturating_sub(1) as f64;
    let at = |part: f64| late.get((last * part) as usize).map_or(f64::NAN, |ms| *ms);
    let [least, median, most, nearly_all] = [0.0, 0.5, 0.9, 0.99].map(at);
    let wanted_ms = wanted.as_secs_f64() * 1e3;
    let is_never_early = late.len() == DELAYED && least >= wanted_ms;
    Ok(Finding {
        what: format!("emulator: delay of {wanted_ms} ms, one way, {DELAYED} packets"),
        wanted: "never early; late by at most 0.2 ms on a machine without other work".to_owned(),
        found: format!(
            "{} arrived; least {least:.3} ms, median {median:.3}, 90 % {most:.3}, 99 % {nearly_all:.3}",
            late.len()
        ),
        // Late is a matter of what else runs.
        is_right: match median <= wanted_ms + 0.2 {
            _ if !is_never_early => Some(false),
            true => Some(true),
            false => None,
        },
    })
}

/// Sends datagrams of 60 bytes from one side; returns when the link has seen them all, or no more come.
fn send(network: &Network, side: usize, packets: u64) -> io::Result<()> {
    let (client, broker) = (network.client(), network.broker());
    let (space, own, there, other) = match side {
        0 => (client, CLIENT_HOST, broker, BROKER_HOST),
        _ => (broker, BROKER_HOST, client, CLIENT_HOST),
    };
    // A listening socket: without one the other side's system would refuse the connection.
    let _listener = socket_in(there, &format!("{other}:9"))?;
    let socket = socket_in(space, &format!("{own}:10"))?;
    let before = tally(network, side)?.came;
    let is_emulated = network.is_emulated();
    for number in 1..=packets {
        socket.send_to(&[0; 60], (other, 9))?;
        // A TUN device keeps 10,000 packets for who reads from it; more would be lost before the link.
        if is_emulated && number % 1000 == 0 {
            settle(network, side, before + number)?;
        }
    }
    settle(network, side, before + packets)
}

fn settle(network: &Network, side: usize, wanted: u64) -> io::Result<()> {
    let patience = Instant::now() + Duration::from_secs(5);
    while tally(network, side)?.came < wanted && Instant::now() < patience {
        thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

fn tally(network: &Network, side: usize) -> io::Result<Tally> {
    let tallies = network
        .tallies()?
        .ok_or_else(|| io::Error::other("another process counts this link's losses"))?;
    Ok(tallies.get(side).copied().unwrap_or_default())
}

fn socket_in(space: &Space, address: &str) -> io::Result<UdpSocket> {
    space.within(|| UdpSocket::bind(address))
}

/// Deviations: 24 intervals hold together in 999 of 1,000 runs.
const INTERVAL: f64 = 4.2;
const DELAYED: usize = 200;
