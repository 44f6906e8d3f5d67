//! `GET /v1/ledger`: where every message went.

use crate::accounts;
use crate::answer::Fault;
use crate::ask::Asker;
use crate::listing::Wanted;
use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::collections::BTreeMap;
use thalweg_kernel::{DropReason, Ledger, Totals};

/// The books of the whole process, and of each shard.
#[derive(Debug, Serialize)]
pub(crate) struct LedgerView {
    #[serde(flatten)]
    all: Books,
    shards: Vec<Books>,
    shards_silent: usize,
}

/// Publishes, and the copies they became.
#[derive(Debug, Serialize)]
pub(crate) struct Books {
    publishes: Publishes,
    copies: Copies,
}

#[derive(Debug, Serialize)]
struct Publishes {
    received: u64,
    received_bytes: u64,
    by_the_broker: u64,
    matched: u64,
    unmatched: u64,
    refused: u64,
    refused_over_rate: u64,
    throttled: u64,
    retain_refused: u64,
    repeated: u64,
    forwarded: u64,
    arrived: u64,
    unaccounted: i64,
}

/// Copies that were sent, wait, or are lost.
#[derive(Debug, Serialize)]
struct Copies {
    routed: u64,
    restored: u64,
    delivered: u64,
    delivered_bytes: u64,
    queued: u64,
    waiting: u64,
    in_flight: u64,
    expired: u64,
    dropped: u64,
    dropped_by_reason: BTreeMap<&'static str, u64>,
    redelivered: u64,
    unaccounted: i64,
}

pub(crate) async fn show(State(asker): State<Asker>, uri: Uri) -> Result<Response, Fault> {
    let wanted = Wanted::from_uri(&uri, &["client", "prefix"])?;
    match (&wanted.client, &wanted.prefix) {
        (None, None) => Ok(whole(&asker).await?.into_response()),
        (Some(_), None) => Ok(accounts::of_clients(&asker, wanted, &uri)
            .await?
            .into_response()),
        (None, Some(_)) => Ok(accounts::of_prefixes(&asker, wanted, &uri)
            .await?
            .into_response()),
        (Some(_), Some(_)) => {
            let mend =
                "ask for ?client= or for ?prefix=; a client's books are not divided by prefix";
            Err(Fault::bad(
                "there are no books of a client and a prefix",
                mend,
            ))
        }
    }
}

async fn whole(asker: &Asker) -> Result<Json<LedgerView>, Fault> {
    let said = asker
        .all(|inside| (inside.kernel.ledger().clone(), inside.kernel.totals()))
        .await?;
    let mut sum = (Ledger::default(), Totals::default());
    for (ledger, totals) in &said.answers {
        add_ledger(&mut sum.0, ledger);
        add_totals(&mut sum.1, totals);
    }
    Ok(Json(LedgerView {
        all: Books::new(&sum.0, &sum.1),
        shards: said
            .answers
            .iter()
            .map(|(ledger, totals)| Books::new(ledger, totals))
            .collect(),
        shards_silent: said.silent,
    }))
}

impl Books {
    pub(crate) fn new(ledger: &Ledger, totals: &Totals) -> Self {
        let (waiting, in_flight) = (totals.waiting as u64, totals.in_flight as u64);
        let dropped = ledger.dropped_total();
        let named = DropReason::ALL
            .iter()
            .zip(ledger.dropped)
            .map(|(reason, count)| (reason.name(), count));
        let ends = ledger.matched + ledger.unmatched + ledger.refused + ledger.repeated;
        let kept = ledger.delivered + waiting + in_flight + ledger.expired + dropped;
        Books {
            publishes: Publishes {
                received: ledger.received,
                received_bytes: ledger.received_bytes,
                by_the_broker: ledger.own,
                matched: ledger.matched,
                unmatched: ledger.unmatched,
                refused: ledger.refused,
                refused_over_rate: ledger.refused_over_rate,
                throttled: ledger.throttled,
                retain_refused: ledger.retain_refused,
                repeated: ledger.repeated,
                forwarded: ledger.forwarded,
                arrived: ledger.arrived,
                unaccounted: (ledger.received + ledger.own).wrapping_sub(ends) as i64,
            },
            copies: Copies {
                routed: ledger.routed,
                restored: ledger.restored,
                delivered: ledger.delivered,
                delivered_bytes: ledger.delivered_bytes,
                queued: waiting + in_flight,
                waiting,
                in_flight,
                expired: ledger.expired,
                dropped,
                dropped_by_reason: named.collect(),
                redelivered: ledger.redelivered,
                unaccounted: (ledger.routed + ledger.restored).wrapping_sub(kept) as i64,
            },
        }
    }
}

/// Adds a shard's books.
pub(crate) fn add_ledger(sum: &mut Ledger, ledger: &Ledger) {
    // Named one by one, so that a new counter of the kernel's cannot be forgotten here.
    let Ledger {
        received,
        received_bytes,
        own,
        matched,
        unmatched,
        refused,
        refused_over_rate,
        throttled,
        retain_refused,
        repeated,
        repeated_stamps,
        outdated_stamps,
        damaged_stamps,
        routed,
        restored,
        delivered,
        delivered_bytes,
        expired,
        dropped,
        sessions_expired,
        subscriptions_downgraded,
        redelivered,
        forwarded,
        arrived,
    } = ledger;
    sum.received += received;
    sum.received_bytes += received_bytes;
    sum.own += own;
    sum.matched += matched;
    sum.unmatched += unmatched;
    sum.refused += refused;
    sum.refused_over_rate += refused_over_rate;
    sum.throttled += throttled;
    sum.retain_refused += retain_refused;
    sum.repeated += repeated;
    sum.repeated_stamps += repeated_stamps;
    sum.outdated_stamps += outdated_stamps;
    sum.damaged_stamps += damaged_stamps;
    sum.routed += routed;
    sum.restored += restored;
    sum.delivered += delivered;
    sum.delivered_bytes += delivered_bytes;
    sum.expired += expired;
    for (sum, count) in sum.dropped.iter_mut().zip(dropped) {
        *sum += count;
    }
    sum.sessions_expired += sessions_expired;
    sum.subscriptions_downgraded += subscriptions_downgraded;
    sum.redelivered += redelivered;
    sum.forwarded += forwarded;
    sum.arrived += arrived;
}

/// Adds a shard's totals. A group that has members on several shards counts on each.
pub(crate) fn add_totals(sum: &mut Totals, totals: &Totals) {
    let Totals {
        sessions_online,
        sessions,
        subscriptions,
        retained,
        kept_messages,
        retained_bytes,
        waiting,
        in_flight,
        queued_bytes,
        groups,
        watches,
        kept_values,
        publishers,
    } = totals;
    sum.sessions_online += sessions_online;
    sum.sessions += sessions;
    sum.subscriptions += subscriptions;
    sum.retained += retained;
    sum.kept_messages += kept_messages;
    sum.retained_bytes += retained_bytes;
    sum.waiting += waiting;
    sum.in_flight += in_flight;
    sum.queued_bytes += queued_bytes;
    sum.groups += groups;
    sum.watches += watches;
    sum.kept_values += kept_values;
    sum.publishers += publishers;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_shows_with_its_sign() {
        let ledger = Ledger {
            routed: 10,
            delivered: 4,
            expired: 1,
            ..Ledger::default()
        };
        let totals = Totals {
            waiting: 2,
            in_flight: 1,
            ..Totals::default()
        };
        assert_eq!(Books::new(&ledger, &totals).copies.unaccounted, 2);
        let totals = Totals {
            waiting: 7,
            ..totals
        };
        assert_eq!(Books::new(&ledger, &totals).copies.unaccounted, -3);
    }
}
