//! `GET /v1/groups`, and the groups of the overview.

use crate::answer::{Answer, Fault};
use crate::ask::Asker;
use crate::listing::{LIMIT_MAX, Page, Part, Wanted, page};
use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;
use std::sync::Arc;
use thalweg_kernel::{GroupCounters, GroupMemberView, GroupView, OrderKey, Signal, Waits};
use thalweg_model::Span;

/// Members of all groups of a page together.
const MEMBERS_MAX: usize = 100_000;

/// Members of each group, unless `?members=` says otherwise or the page is long.
const MEMBERS_DEFAULT: usize = 100;

/// A shared subscription: one name on one filter. Each shard has its share of the members and of the waiting messages.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct GroupRow {
    group: Box<str>,
    filter: Box<str>,
    strategy: &'static str,
    order: Option<&'static str>,
    members: usize,
    members_online: usize,
    waiting: usize,
    waiting_bytes: usize,
    oldest_millis: Option<u64>,
    counters: CountersRow,
    seats: Vec<SeatRow>,
    seats_left_out: usize,
    shards: Vec<u16>,
}

/// Outcomes of a group's messages since it was created.
#[derive(Clone, Debug, Serialize)]
struct CountersRow {
    arrived: u64,
    chosen: u64,
    held: u64,
    nobody: u64,
    settled: u64,
    returned: u64,
    stalls: u64,
    expired: u64,
    dropped: u64,
    reports: u64,
    reports_refused: u64,
    waited: u64,
    waited_millis: u64,
    waits: Vec<WaitRow>,
    #[serde(skip)]
    sum: GroupCounters,
}

/// Number of messages that waited up to this time, and longer than the row before.
#[derive(Clone, Debug, Serialize)]
struct WaitRow {
    /// Nothing in the last row: all beyond.
    millis_max: Option<u64>,
    messages: u64,
}

#[derive(Clone, Debug, Serialize)]
struct SeatRow {
    client: Arc<str>,
    condition: Option<Box<str>>,
    online: bool,
    signal: Option<&'static str>,
    service_micros: Option<u64>,
    round_trip_micros: Option<u64>,
    unsettled: usize,
    suspended: bool,
    chosen: u64,
    settled: u64,
    reports: u64,
    reports_refused: u64,
    stalls: u32,
    shard: u16,
}

impl GroupRow {
    /// One shard's part of a group, with so many of its members.
    pub(crate) fn new(view: GroupView, shard: u16, seats_max: usize) -> Self {
        let mut row = GroupRow {
            group: view.name,
            filter: view.filter,
            strategy: view.strategy.name(),
            order: view.ordered.map(|order| match order {
                OrderKey::Publisher => "publisher",
                OrderKey::Address => "topic",
            }),
            members: view.members,
            members_online: view.seats.iter().filter(|seat| seat.online).count(),
            waiting: view.waiting,
            waiting_bytes: view.waiting_bytes,
            oldest_millis: view.oldest.map(millis),
            counters: CountersRow::new(view.counters),
            seats: view
                .seats
                .into_iter()
                .map(|seat| SeatRow::new(seat, shard))
                .collect(),
            seats_left_out: 0,
            shards: vec![shard],
        };
        row.keep_seats(seats_max);
        row
    }

    /// Another shard's part of the same group.
    pub(crate) fn merge(&mut self, other: GroupRow, seats_max: usize) {
        // Only the shard that owns it has this.
        self.order = self.order.or(other.order);
        self.members += other.members;
        self.members_online += other.members_online;
        self.waiting += other.waiting;
        self.waiting_bytes += other.waiting_bytes;
        self.oldest_millis = self.oldest_millis.max(other.oldest_millis);
        let mut sum = self.counters.sum;
        sum += other.counters.sum;
        self.counters = CountersRow::new(sum);
        self.seats.extend(other.seats);
        self.seats_left_out += other.seats_left_out;
        self.shards.extend(other.shards);
        self.keep_seats(seats_max);
    }

    /// Identifies it among the members.
    pub(crate) fn name(&self) -> (&str, &str) {
        (&self.group, &self.filter)
    }

    /// Waiting messages count most, then processed ones.
    pub(crate) fn rank(&self) -> (usize, u64) {
        (self.waiting, self.counters.chosen)
    }

    fn keep_seats(&mut self, max: usize) {
        self.seats
            .sort_by(|one, other| one.client.cmp(&other.client));
        self.seats_left_out += self.seats.len().saturating_sub(max);
        self.seats.truncate(max);
    }
}

impl CountersRow {
    fn new(sum: GroupCounters) -> Self {
        let bounds = Waits::BOUNDS_MS
            .iter()
            .map(|bound| Some(*bound))
            .chain([None]);
        CountersRow {
            arrived: sum.arrived,
            chosen: sum.chosen,
            held: sum.held,
            nobody: sum.nobody,
            settled: sum.settled,
            returned: sum.returned,
            stalls: sum.stalls,
            expired: sum.expired,
            dropped: sum.dropped,
            reports: sum.reports,
            reports_refused: sum.reports_refused,
            waited: sum.wait.count(),
            waited_millis: millis(sum.wait.sum),
            waits: bounds
                .zip(sum.wait.counts)
                .map(|(millis_max, messages)| WaitRow {
                    millis_max,
                    messages,
                })
                .collect(),
            sum,
        }
    }
}

impl SeatRow {
    fn new(seat: GroupMemberView, shard: u16) -> Self {
        SeatRow {
            client: seat.client,
            condition: seat.condition.map(|it| it.text().into()),
            online: seat.online,
            signal: seat.signal.map(|signal| match signal {
                Signal::Acknowledges => "acknowledgements",
                Signal::Reports => "reports",
                Signal::Silent => "silent",
            }),
            service_micros: seat.service.map(micros),
            round_trip_micros: seat.round_trip.map(micros),
            unsettled: seat.unsettled,
            suspended: seat.suspended,
            chosen: seat.chosen,
            settled: seat.settled,
            reports: seat.reports,
            reports_refused: seat.reports_refused,
            stalls: seat.stalls,
            shard,
        }
    }
}

pub(crate) async fn list(State(asker): State<Asker>, uri: Uri) -> Answer<Page<GroupRow>> {
    let wanted = Wanted::from_uri(&uri, &["group", "filter", "members"])?;
    let (limit, after) = (wanted.limit(), wanted.after()?);
    let seats_max = match wanted.members {
        None => MEMBERS_DEFAULT.min(MEMBERS_MAX / limit),
        Some(members) if members * limit <= MEMBERS_MAX => members,
        Some(_) => {
            let mend = format!(
                "?limit= times ?members= may be {MEMBERS_MAX}, and ?members= {LIMIT_MAX} at the most"
            );
            return Err(Fault::bad("?members= is out of range", mend));
        }
    };
    let said = asker.all(move |inside| {
        let mut part = Part::new(limit, after.clone());
        inside.kernel.for_each_group(inside.now, |view| {
            let is_wanted = wanted
                .filter
                .as_deref()
                .is_none_or(|filter| *view.filter == *filter);
            if is_wanted && wanted.wants_group(&view.name) {
                let (group, filter) = (view.name.clone(), view.filter.clone());
                part.offer(&[&group, &filter], || {
                    GroupRow::new(view, inside.shard, seats_max)
                });
            }
        });
        part
    });
    Ok(Json(page(said.await?, &uri, limit, |there, other| {
        there.merge(other, seats_max)
    })))
}

fn millis(span: Span) -> u64 {
    span.nanos() / 1_000_000
}

fn micros(span: Span) -> u64 {
    span.nanos() / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_kernel::GroupStrategy;

    fn seat(client: &str) -> GroupMemberView {
        GroupMemberView {
            client: client.into(),
            condition: None,
            online: client != "c",
            signal: Some(Signal::Reports),
            service: Some(Span::from_millis(25)),
            round_trip: None,
            unsettled: 1,
            suspended: false,
            chosen: 7,
            settled: 6,
            reports: 2,
            reports_refused: 1,
            stalls: 0,
        }
    }

    fn view(clients: &[&str], oldest: Option<u64>, waited: &[u64]) -> GroupView {
        let mut counters = GroupCounters {
            arrived: 9,
            chosen: 7,
            ..GroupCounters::default()
        };
        waited
            .iter()
            .for_each(|millis| counters.wait.add(Span::from_millis(*millis)));
        GroupView {
            name: "crew".into(),
            filter: "road/#".into(),
            strategy: GroupStrategy::Adaptive,
            ordered: Some(OrderKey::Address),
            members: clients.len(),
            waiting: 2,
            waiting_bytes: 20,
            oldest: oldest.map(Span::from_millis),
            counters,
            seats: clients.iter().map(|client| seat(client)).collect(),
        }
    }

    #[test]
    fn the_parts_of_two_shards_become_one_group_with_as_many_members_as_are_wanted() {
        let first = GroupView {
            ordered: None,
            ..view(&["d", "b"], Some(3), &[1, 90_000])
        };
        let mut row = GroupRow::new(first, 0, 3);
        row.merge(GroupRow::new(view(&["a", "c"], Some(1200), &[2]), 1, 3), 3);
        assert_eq!(
            (
                row.members,
                row.members_online,
                row.waiting,
                row.waiting_bytes
            ),
            (4, 3, 4, 40)
        );
        assert_eq!(
            (row.oldest_millis, row.shards.as_slice()),
            (Some(1200), &[0, 1][..])
        );
        let names: Vec<(&str, u16)> = row
            .seats
            .iter()
            .map(|seat| (&*seat.client, seat.shard))
            .collect();
        assert_eq!(
            (names.as_slice(), row.seats_left_out),
            (&[("a", 1), ("b", 0), ("c", 1)][..], 1)
        );
        let counters = &row.counters;
        assert_eq!(
            (
                counters.arrived,
                counters.chosen,
                counters.waited,
                counters.waited_millis
            ),
            (18, 14, 3, 90_003)
        );
        let waits: Vec<_> = counters
            .waits
            .iter()
            .filter(|row| row.messages > 0)
            .collect();
        assert_eq!(
            waits.iter().map(|row| row.millis_max).collect::<Vec<_>>(),
            [Some(1), Some(2), None]
        );
        let json = serde_json::to_value(&row).expect("it is plain");
        assert_eq!(json["order"], "topic");
        assert_eq!(
            (&json["strategy"], &json["seats"][0]["signal"]),
            (&"adaptive".into(), &"reports".into())
        );
        assert_eq!(json["seats"][0]["service_micros"], 25_000);
    }
}
