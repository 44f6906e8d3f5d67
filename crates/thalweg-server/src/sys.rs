//! `$SYS`: the broker's own figures as last values, for whoever watches with a plain subscriber.

use crate::observer::Observer;
use thalweg_kernel::{Draft, Ledger, Totals};
use thalweg_model::{Reliability, RetainOp};

/// Publishes one round. Names follow mosquitto's where the meaning is the same.
pub(crate) fn publish(observer: &Observer) {
    let parts = observer.on_shards(|inside| (inside.kernel.totals(), inside.kernel.ledger().clone()));
    let mut figures = vec![
        ("$SYS/broker/version".to_owned(), format!("thalweg {}", observer.version())),
        ("$SYS/broker/uptime".to_owned(), format!("{} seconds", observer.uptime().as_secs())),
    ];
    let totals = |pick: fn(&Totals) -> usize| parts.iter().map(|(totals, _)| pick(totals)).sum::<usize>().to_string();
    let ledger = |pick: fn(&Ledger) -> u64| parts.iter().map(|(_, ledger)| pick(ledger)).sum::<u64>().to_string();
    let mut add = |name: &str, value: String| figures.push((format!("$SYS/broker/{name}"), value));
    add("clients/connected", totals(|t| t.sessions_online));
    add("clients/total", totals(|t| t.sessions));
    add("clients/disconnected", totals(|t| t.sessions - t.sessions_online));
    add("clients/expired", ledger(|l| l.sessions_expired));
    add("subscriptions/count", totals(|t| t.subscriptions));
    add("retained messages/count", totals(|t| t.retained));
    add("messages/stored", totals(|t| t.waiting + t.in_flight));
    add("messages/inflight", totals(|t| t.in_flight));
    add("store/messages/bytes", totals(|t| t.queued_bytes + t.retained_bytes));
    add("publish/messages/received", ledger(|l| l.received));
    add("publish/messages/sent", ledger(|l| l.delivered));
    add("publish/messages/dropped", ledger(Ledger::dropped_total));
    add("publish/messages/expired", ledger(|l| l.expired));
    add("publish/bytes/received", ledger(|l| l.received_bytes));
    add("publish/bytes/sent", ledger(|l| l.delivered_bytes));
    observer.on_first_shard(move |inside| {
        for (address, value) in &figures {
            let draft = Draft {
                address,
                payload: value.as_bytes(),
                reliability: Reliability::AtMostOnce,
                retain: RetainOp::Set,
                priority: 0,
                expires_in: None,
                properties: None,
                ticket: 0,
                native: None,
                stamp: None,
            };
            inside.kernel.publish_own(draft, inside.now, inside.links);
        }
    });
}
