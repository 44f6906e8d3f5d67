//! `GET /v1/overview`: the numbers at a glance, as `thalweg top` shows them.

use crate::answer::{Answer, Fault};
use crate::ask::Asker;
use crate::groups::GroupRow;
use crate::journal::JournalView;
use crate::ledger::{Books, add_ledger, add_totals};
use crate::sessions::SessionRow;
use crate::trace::{mean, quantile};
use axum::Json;
use axum::extract::{Query, State};
use axum::http::Uri;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use thalweg_kernel::{Ledger, SessionView, Totals};
use thalweg_server::stages::{SPANS, Stages};
use thalweg_server::{LoopCounts, clock};

/// The most sessions that can be asked for.
const SESSIONS_MAX: usize = 100;

const GROUPS_MAX: usize = 100;

/// The most members of each of them.
const SEATS_MAX: usize = 100;

/// Parameters of the overview.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    /// Number of sessions with the longest queues to show.
    #[serde(default)]
    sessions: usize,
    /// Number of groups with most waiting messages or activity to show.
    #[serde(default)]
    groups: usize,
}

/// Everything at a glance. Rates follow from two of these and the difference of their `monotonic_nanos`.
#[derive(Debug, Serialize)]
pub(crate) struct Overview {
    version: &'static str,
    ready: bool,
    uptime_seconds: u64,
    unix_seconds: u64,
    monotonic_nanos: u64,
    pressure: &'static str,
    journal: Option<JournalView>,
    memory_bytes: usize,
    memory_bytes_max: usize,
    sessions_online: usize,
    sessions: usize,
    sessions_expired: u64,
    subscriptions: usize,
    retained: usize,
    retained_bytes: usize,
    groups: usize,
    queued_bytes: usize,
    #[serde(flatten)]
    books: Books,
    lobby: BTreeMap<&'static str, u64>,
    stages: Vec<StageRow>,
    shards: Vec<ShardRow>,
    shards_silent: usize,
    longest_queues: Vec<SessionRow>,
    busiest_groups: Vec<GroupRow>,
}

/// A stage's samples since the start.
#[derive(Debug, Serialize)]
struct StageRow {
    span: &'static str,
    samples: u64,
    nanos_mean: Option<u64>,
    nanos_p50: Option<u64>,
    nanos_p99: Option<u64>,
}

#[derive(Debug, Serialize)]
struct ShardRow {
    shard: u16,
    connections: usize,
    sessions: usize,
    received: u64,
    delivered: u64,
    dropped: u64,
    turns: u64,
    reads: u64,
    writes: u64,
    sleeps: u64,
    paces: u64,
    slow_receivers: u64,
    buffers_closed: u64,
}

/// Answer of one shard.
struct Part {
    shard: u16,
    connections: usize,
    totals: Totals,
    ledger: Ledger,
    held: usize,
    counts: LoopCounts,
    stages: Stages,
    longest: Vec<SessionView>,
    groups: Vec<GroupRow>,
}

pub(crate) async fn show(State(asker): State<Asker>, uri: Uri) -> Answer<Overview> {
    let mend = format!(
        "?sessions=N shows the N sessions with the longest queues, {SESSIONS_MAX} at the most, and ?groups=N the N busiest \
         groups, {GROUPS_MAX} at the most"
    );
    let Query(Question { sessions, groups }) = match Query::try_from_uri(&uri) {
        Ok(question) => question,
        Err(rejection) => return Err(Fault::bad(rejection.body_text(), mend)),
    };
    if sessions > SESSIONS_MAX {
        return Err(Fault::bad("?sessions= is out of range", mend));
    }
    if groups > GROUPS_MAX {
        return Err(Fault::bad("?groups= is out of range", mend));
    }
    let said = asker.all(move |inside| {
        let mut longest: Vec<SessionView> = Vec::new();
        if sessions > 0 {
            inside.kernel.for_each_session(|view| {
                if view.waiting + view.in_flight as usize > 0 || view.account.dropped_total() > 0 {
                    longest.push(view);
                    // Cut back now and then, so that this stays small however many sessions there are.
                    if longest.len() >= 4 * SESSIONS_MAX {
                        keep_longest(&mut longest, sessions);
                    }
                }
            });
            keep_longest(&mut longest, sessions);
        }
        let mut busiest: Vec<GroupRow> = Vec::new();
        if groups > 0 {
            inside.kernel.for_each_group(inside.now, |view| {
                busiest.push(GroupRow::new(view, inside.shard, SEATS_MAX));
                if busiest.len() >= 4 * GROUPS_MAX {
                    keep_busiest(&mut busiest, GROUPS_MAX);
                }
            });
            // More than requested: a row with few messages here may have many elsewhere.
            keep_busiest(&mut busiest, GROUPS_MAX);
        }
        Part {
            shard: inside.shard,
            connections: inside.links.len(),
            totals: inside.kernel.totals(),
            ledger: inside.kernel.ledger().clone(),
            held: inside.kernel.memory_held()
                + inside.links.kept_bytes()
                + inside.connections.buffered(),
            counts: inside.counts,
            stages: inside.stages.clone(),
            longest,
            groups: busiest,
        }
    });
    let mut said = said.await?;
    let busiest = busiest_of(
        said.answers
            .iter_mut()
            .flat_map(|part| std::mem::take(&mut part.groups)),
        groups,
    );
    let observer = asker.observer();
    let mut totals = Totals::default();
    let mut ledger = Ledger::default();
    let mut stages = Stages::default();
    for part in &said.answers {
        add_totals(&mut totals, &part.totals);
        add_ledger(&mut ledger, &part.ledger);
        stages.merge(&part.stages);
    }
    let all = said
        .answers
        .iter()
        .flat_map(|part| part.longest.iter().map(|view| (part.shard, view.clone())));
    let mut longest: Vec<(u16, SessionView)> = all.collect();
    longest.sort_by_key(|(_, view)| std::cmp::Reverse(rank(view)));
    longest.truncate(sessions);
    Ok(Json(Overview {
        version: observer.version(),
        ready: observer.is_ready(),
        uptime_seconds: observer.uptime().as_secs(),
        unix_seconds: clock::unix_seconds(),
        monotonic_nanos: clock::nanos(),
        pressure: pressure_name(observer.pressure()),
        journal: observer.journal().map(|status| JournalView::new(&status)),
        memory_bytes: said.answers.iter().map(|part| part.held).sum(),
        memory_bytes_max: observer.memory_bytes_max(),
        sessions_online: totals.sessions_online,
        sessions: totals.sessions,
        sessions_expired: ledger.sessions_expired,
        subscriptions: totals.subscriptions,
        retained: totals.retained,
        retained_bytes: totals.retained_bytes,
        groups: totals.groups,
        queued_bytes: totals.queued_bytes,
        books: Books::new(&ledger, &totals),
        lobby: observer.lobby().named().collect(),
        stages: stage_rows(&stages),
        shards: said.answers.iter().map(ShardRow::new).collect(),
        shards_silent: said.silent,
        longest_queues: longest
            .into_iter()
            .map(|(shard, view)| SessionRow::new(view, shard))
            .collect(),
        busiest_groups: busiest,
    }))
}

/// The level's name; see [`thalweg_kernel::Pressure`].
pub(crate) fn pressure_name(level: usize) -> &'static str {
    match level {
        0 => "none",
        1 => "drop_waiting",
        _ => "refuse_sessions",
    }
}

/// Waiting messages count most, then lost ones.
fn rank(view: &SessionView) -> (usize, u64) {
    (
        view.waiting + view.in_flight as usize,
        view.account.dropped_total(),
    )
}

fn keep_longest(views: &mut Vec<SessionView>, count: usize) {
    views.sort_by_key(|view| std::cmp::Reverse(rank(view)));
    views.truncate(count);
}

fn keep_busiest(rows: &mut Vec<GroupRow>, count: usize) {
    rows.sort_by_key(|row| std::cmp::Reverse(row.rank()));
    rows.truncate(count);
}

/// The busiest groups of all shards' parts, in the order of their names, so that they keep their places.
fn busiest_of(parts: impl Iterator<Item = GroupRow>, count: usize) -> Vec<GroupRow> {
    let mut merged: BTreeMap<(Box<str>, Box<str>), GroupRow> = BTreeMap::new();
    for row in parts {
        let (group, filter) = row.name();
        match merged.entry((group.into(), filter.into())) {
            Entry::Occupied(mut there) => there.get_mut().merge(row, SEATS_MAX),
            Entry::Vacant(place) => drop(place.insert(row)),
        }
    }
    let mut rows: Vec<GroupRow> = merged.into_values().collect();
    keep_busiest(&mut rows, count);
    rows.sort_by(|one, other| one.name().cmp(&other.name()));
    rows
}

fn stage_rows(stages: &Stages) -> Vec<StageRow> {
    let rows = SPANS
        .iter()
        .zip(&stages.histograms)
        .filter(|(_, histogram)| histogram.count > 0);
    let rows = rows.map(|(span, histogram)| StageRow {
        span,
        samples: histogram.count,
        nanos_mean: mean(histogram),
        nanos_p50: quantile(histogram, 50),
        nanos_p99: quantile(histogram, 99),
    });
    rows.collect()
}

impl ShardRow {
    fn new(part: &Part) -> Self {
        let LoopCounts {
            turns,
            reads,
            writes,
            sleeps,
            paces,
            slow_receivers,
            buffers_closed,
            ..
        } = part.counts;
        ShardRow {
            shard: part.shard,
            connections: part.connections,
            sessions: part.totals.sessions,
            received: part.ledger.received,
            delivered: part.ledger.delivered,
            dropped: part.ledger.dropped_total(),
            turns,
            reads,
            writes,
            sleeps,
            paces,
            slow_receivers,
            buffers_closed,
        }
    }
}
