//! `$SYS`: the broker's own figures as last values, for plain subscribers.

use crate::observer::Observer;
use crate::shard::LoopCounts;
use std::time::Duration;
use thalweg_fronts::PacketCounts;
use thalweg_kernel::{Draft, Ledger, Totals};
use thalweg_model::{Reliability, RetainOp};

/// What has an average, below `$SYS/broker/load/`.
const LOADS: [&str; 9] = [
    "messages/received",
    "messages/sent",
    "publish/received",
    "publish/sent",
    "publish/dropped",
    "bytes/received",
    "bytes/sent",
    "connections",
    "sockets",
];

/// Over how many minutes.
const SPANS: [(&str, f64); 3] = [("1min", 1.0), ("5min", 5.0), ("15min", 15.0)];

/// Averages of what happens in a minute, over the last 1, 5 and 15: as mosquitto has them, each falls to 1/e of itself when
/// nothing happens for its span.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    uptime: Duration,
    totals: [u64; LOADS.len()],
    averages: [[f64; SPANS.len()]; LOADS.len()],
}

impl Loads {
    /// Takes the totals since the start, in the order of [`LOADS`].
    fn update(&mut self, totals: [u64; LOADS.len()], uptime: Duration) {
        let minutes = uptime.saturating_sub(self.uptime).as_secs_f64() / 60.0;
        if minutes <= 0.0 {
            return;
        }
        for (at, averages) in self.averages.iter_mut().enumerate() {
            let a_minute = totals[at].saturating_sub(self.totals[at]) as f64 / minutes;
            for (average, (_, span)) in averages.iter_mut().zip(SPANS) {
                *average = a_minute + (-minutes / span).exp() * (*average - a_minute);
            }
        }
        (self.totals, self.uptime) = (totals, uptime);
    }

    fn figures(&self) -> impl Iterator<Item = (String, String)> {
        LOADS
            .iter()
            .zip(&self.averages)
            .flat_map(|(name, averages)| {
                let averages = averages.iter().zip(SPANS);
                averages.map(move |(average, (span, _))| {
                    (format!("load/{name}/{span}"), format!("{average:.2}"))
                })
            })
    }
}

/// Publishes one round. Names follow mosquitto's where the meaning is the same.
pub(crate) fn publish(observer: &Observer, loads: &mut Loads) {
    let parts = observer.on_shards(|inside| {
        (
            inside.kernel.totals(),
            inside.kernel.ledger().clone(),
            inside.counts,
            inside.links.packets().collect::<Vec<_>>(),
        )
    });
    let mut figures = vec![
        (
            "$SYS/broker/version".to_owned(),
            format!("thalweg {}", observer.version()),
        ),
        (
            "$SYS/broker/uptime".to_owned(),
            format!("{} seconds", observer.uptime().as_secs()),
        ),
    ];
    let totals = |pick: fn(&Totals) -> usize| {
        parts
            .iter()
            .map(|part| pick(&part.0))
            .sum::<usize>()
            .to_string()
    };
    let booked = |pick: fn(&Ledger) -> u64| parts.iter().map(|part| pick(&part.1)).sum::<u64>();
    let counted =
        |pick: fn(&LoopCounts) -> u64| parts.iter().map(|part| pick(&part.2)).sum::<u64>();
    let packets = |pick: fn(&PacketCounts) -> u64| {
        let each = parts.iter().flat_map(|part| &part.3);
        each.map(|(_, counts)| pick(counts)).sum::<u64>()
    };
    let (packets_in, packets_out) = (packets(|p| p.received), packets(|p| p.sent));
    let ledger = |pick| booked(pick).to_string();
    let lobby = observer.lobby();
    let so_far = [
        packets_in,
        packets_out,
        booked(|l| l.received),
        booked(|l| l.delivered),
        booked(Ledger::dropped_total),
        counted(|c| c.bytes_in),
        counted(|c| c.bytes_out),
        lobby.delivered,
        lobby.accepted,
    ];
    loads.update(so_far, observer.uptime());
    let mut add = |name: &str, value: String| figures.push((format!("$SYS/broker/{name}"), value));
    add("clients/connected", totals(|t| t.sessions_online));
    add("clients/total", totals(|t| t.sessions));
    add(
        "clients/disconnected",
        totals(|t| t.sessions - t.sessions_online),
    );
    add("clients/expired", ledger(|l| l.sessions_expired));
    add("subscriptions/count", totals(|t| t.subscriptions));
    add("retained messages/count", totals(|t| t.retained));
    add("messages/stored", totals(|t| t.waiting + t.in_flight));
    add("messages/inflight", totals(|t| t.in_flight));
    add(
        "store/messages/bytes",
        totals(|t| t.queued_bytes + t.retained_bytes),
    );
    add("publish/messages/received", ledger(|l| l.received));
    add("publish/messages/sent", ledger(|l| l.delivered));
    add("publish/messages/dropped", ledger(Ledger::dropped_total));
    add("publish/messages/expired", ledger(|l| l.expired));
    add("publish/bytes/received", ledger(|l| l.received_bytes));
    add("publish/bytes/sent", ledger(|l| l.delivered_bytes));
    loads.figures().for_each(|(name, value)| add(&name, value));
    observer.on_first_shard(move |inside| {
        for (address, value) in &figures {
            let draft = Draft {
                retain: RetainOp::Set,
                ..Draft::new(address, value.as_bytes(), Reliability::AtMostOnce)
            };
            inside.kernel.publish_own(draft, inside.now, inside.links);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_averages_of_a_minute_that_fall_as_mosquittos_do() {
        let mut loads = Loads::default();
        let of = |loads: &Loads, name: &str| {
            let name = format!("load/bytes/sent/{name}");
            loads
                .figures()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| value)
                .expect("it is there")
        };
        // 100 in ten seconds are 600 a minute: 600 * (1 - e^(-1/6)).
        loads.update([0, 0, 0, 0, 0, 0, 100, 0, 0], Duration::from_secs(10));
        assert_eq!(
            [of(&loads, "1min"), of(&loads, "5min"), of(&loads, "15min")],
            ["92.11", "19.67", "6.63"]
        );
        // As many again and again: all come to the same in the end.
        for round in 2..2000 {
            loads.update(
                [0, 0, 0, 0, 0, 0, 100 * round, 0, 0],
                Duration::from_secs(10 * round),
            );
        }
        assert_eq!(
            [of(&loads, "1min"), of(&loads, "5min"), of(&loads, "15min")],
            ["600.00", "600.00", "600.00"]
        );
        // Nothing for a minute.
        loads.update(
            [0, 0, 0, 0, 0, 0, 199_900, 0, 0],
            Duration::from_secs(19_990 + 60),
        );
        assert_eq!(
            [of(&loads, "1min"), of(&loads, "5min")],
            ["220.73", "491.24"]
        );
        assert_eq!(loads.figures().count(), 27);
    }
}
