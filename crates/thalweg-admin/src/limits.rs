//! `GET /v1/limits`: bounds, and how far they are used.

use crate::answer::Answer;
use crate::ask::Asker;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use thalweg_kernel::{Limits, Totals};
use thalweg_model::Span;

#[derive(Debug, Serialize)]
pub(crate) struct LimitsView {
    items: Vec<LimitRow>,
    shards_silent: usize,
}

/// A limit: its object, its value, and the used part where one number can express it.
#[derive(Debug, Serialize)]
struct LimitRow {
    key: &'static str,
    /// The limited object: each `session`, `group`, `queue`, `address`, `transaction`, or the whole `process`.
    per: &'static str,
    unit: &'static str,
    /// Nothing if there is no limit.
    max: Option<u64>,
    used: Option<u64>,
}

/// Answer of one shard.
#[derive(Clone, Default)]
struct Part {
    limits: Limits,
    totals: Totals,
    held: usize,
    fullest: Fullest,
    counts: Counts,
}

/// The most that any one session or group uses.
#[derive(Clone, Copy, Default)]
struct Fullest {
    session_messages: usize,
    session_bytes: usize,
    subscriptions: usize,
    group_messages: usize,
    group_bytes: usize,
    queue_messages: usize,
    queue_bytes: usize,
}

/// Number of objects on the shard that has them.
#[derive(Clone, Copy, Default)]
struct Counts {
    queues: usize,
    exchanges: usize,
    bindings: usize,
}

pub(crate) async fn show(State(asker): State<Asker>) -> Answer<LimitsView> {
    let said = asker.all(|inside| {
        let mut fullest = Fullest::default();
        inside.kernel.for_each_session(|session| {
            fullest.session_messages = fullest.session_messages.max(session.waiting);
            fullest.session_bytes = fullest.session_bytes.max(session.waiting_bytes);
            fullest.subscriptions = fullest.subscriptions.max(session.subscriptions);
        });
        inside.kernel.for_each_group(inside.now, |group| {
            fullest.group_messages = fullest.group_messages.max(group.waiting);
            fullest.group_bytes = fullest.group_bytes.max(group.waiting_bytes);
        });
        let mut counts = Counts::default();
        inside.kernel.for_each_queue(|queue| {
            counts.queues += 1;
            fullest.queue_messages = fullest.queue_messages.max(queue.messages);
            fullest.queue_bytes = fullest.queue_bytes.max(queue.bytes as usize);
        });
        inside.kernel.for_each_exchange(|exchange| {
            counts.exchanges += usize::from(inside.kernel.has_queues());
            counts.bindings += exchange.bindings.len();
        });
        let (limits, totals) = (inside.kernel.limits().clone(), inside.kernel.totals());
        Part {
            limits,
            totals,
            held: inside.kernel.bytes_held(),
            fullest,
            counts,
        }
    });
    let said = said.await?;
    let memory_max = asker.observer().memory_bytes_max();
    Ok(Json(LimitsView {
        items: rows(&said.answers, memory_max),
        shards_silent: said.silent,
    }))
}

fn rows(parts: &[Part], memory_max: usize) -> Vec<LimitRow> {
    let sum =
        |pick: fn(&Part) -> usize| Some(parts.iter().map(|part| pick(part) as u64).sum::<u64>());
    let top =
        |pick: fn(&Fullest) -> usize| parts.iter().map(|part| pick(&part.fullest) as u64).max();
    // The limits are the same on every shard, except for shares of limits that apply to all of them together.
    let Limits {
        queue_messages_max,
        queue_bytes_max,
        queue_volatile_bytes_max,
        queue_pace_max,
        in_flight_max,
        subscriptions_max,
        levels_max,
        session_expiry_max,
        publish_rate,
        publish_bytes_rate,
        retained_expiry_max,
        group_messages_max,
        group_bytes_max,
        group_settle_timeout,
        queues_max,
        named_queue_messages_max,
        named_queue_bytes_max,
        named_queue_memory_bytes_max,
        exchanges_max,
        bindings_max,
        transaction_bytes_max,
        ..
    } = parts
        .first()
        .map(|part| part.limits.clone())
        .unwrap_or_default();
    let row = |key, per, unit, max: u64, used| LimitRow {
        key,
        per,
        unit,
        max: Some(max),
        used,
    };
    let rate = |key, unit, max: u64| LimitRow {
        key,
        per: "session",
        unit,
        max: (max > 0).then_some(max),
        used: None,
    };
    let time = |key, per, max: Span| LimitRow {
        key,
        per,
        unit: "seconds",
        max: (max != Span::FOREVER).then(|| max.secs()),
        used: None,
    };
    let whole = |pick| sum(pick).unwrap_or_default();
    vec![
        row(
            "limits.memory_bytes_max",
            "process",
            "bytes",
            memory_max as u64,
            sum(|part| part.held),
        ),
        row(
            "session.count_max",
            "process",
            "sessions",
            whole(|part| part.limits.sessions_max),
            sum(|part| part.totals.sessions),
        ),
        row(
            "retained.messages_max",
            "process",
            "messages",
            whole(|part| part.limits.retained_messages_max),
            sum(|part| part.totals.retained + part.totals.kept_messages),
        ),
        row(
            "retained.bytes_max",
            "process",
            "bytes",
            whole(|part| part.limits.retained_bytes_max),
            sum(|part| part.totals.retained_bytes),
        ),
        time("retained.expiry_max", "message", retained_expiry_max),
        time("session.expiry_max", "session", session_expiry_max),
        row(
            "queue.messages_max",
            "session",
            "messages",
            queue_messages_max as u64,
            top(|f| f.session_messages),
        ),
        row(
            "queue.bytes_max",
            "session",
            "bytes",
            queue_bytes_max as u64,
            top(|f| f.session_bytes),
        ),
        row(
            "queue.volatile_bytes_max",
            "session",
            "bytes",
            queue_volatile_bytes_max as u64,
            None,
        ),
        time("queue.publisher_pace_max", "session", queue_pace_max),
        row(
            "mqtt.inflight_max",
            "session",
            "messages",
            u64::from(in_flight_max),
            None,
        ),
        row(
            "limits.subscriptions_per_session_max",
            "session",
            "subscriptions",
            subscriptions_max as u64,
            top(|f| f.subscriptions),
        ),
        rate("limits.publish_rate", "messages/s", publish_rate),
        rate("limits.publish_bytes_rate", "bytes/s", publish_bytes_rate),
        row(
            "limits.topic_levels_max",
            "address",
            "levels",
            levels_max as u64,
            None,
        ),
        row(
            "groups.messages_max",
            "group",
            "messages",
            group_messages_max as u64,
            top(|f| f.group_messages),
        ),
        row(
            "groups.bytes_max",
            "group",
            "bytes",
            group_bytes_max as u64,
            top(|f| f.group_bytes),
        ),
        time("groups.settle_timeout", "group", group_settle_timeout),
        row(
            "queues.count_max",
            "process",
            "queues",
            queues_max as u64,
            sum(|part| part.counts.queues),
        ),
        row(
            "queues.messages_max",
            "queue",
            "messages",
            named_queue_messages_max,
            top(|f| f.queue_messages),
        ),
        row(
            "queues.bytes_max",
            "queue",
            "bytes",
            named_queue_bytes_max,
            top(|f| f.queue_bytes),
        ),
        row(
            "queues.memory_bytes_max",
            "queue",
            "bytes",
            named_queue_memory_bytes_max as u64,
            None,
        ),
        row(
            "queues.exchanges_max",
            "process",
            "exchanges",
            exchanges_max as u64,
            sum(|part| part.counts.exchanges),
        ),
        row(
            "queues.bindings_max",
            "process",
            "bindings",
            bindings_max as u64,
            sum(|part| part.counts.bindings),
        ),
        row(
            "queues.transaction_bytes_max",
            "transaction",
            "bytes",
            transaction_bytes_max as u64,
            None,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_one_of_the_configuration() {
        let reference = include_str!("../../../docs/reference/config.md");
        for row in rows(&[Part::default()], 1) {
            assert!(
                reference.contains(row.key),
                "{} is not in docs/reference/config.md",
                row.key
            );
        }
    }
}
