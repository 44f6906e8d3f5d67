//! `pub`, `sub` and `ping`: messages that are due, messages that come, or both.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::say::{Named, Roles, Say};
use crate::cell::{Cell, Driver, Standing};
use crate::command::Outcome;
use crate::drivers::{self, Job};
use crate::load::{Books, Got, SECOND, Sent, Times, clock};
use crate::trial::Plan;
use crate::trial::pump::{Shared, receive, send};

/// Plays the roles until they are through, until `count`, or until `stop`.
pub fn run(
    cell: &Cell,
    job: &Job,
    roles: Roles,
    count: Option<u64>,
    say: &mut Say<'_>,
    stop: &AtomicBool,
) -> io::Result<Outcome> {
    let plan = Plan::of(cell).map_err(io::Error::other)?;
    // Subscribers first, so that nothing is missed.
    let subscriber = (roles.receives).then(|| drivers::subscriber(cell.driver, job));
    let mut subscriber = subscriber.transpose().map_err(io::Error::other)?;
    let publisher = (roles.sends).then(|| drivers::publisher(cell.driver, job));
    let mut publisher = publisher.transpose().map_err(io::Error::other)?;
    say.line("settings", &settings(cell, job, roles))?;

    let times = Times::new(clock::now() + HEAD_START, &cell.phases);
    let shared = Shared::new(&plan, job.run, job.copies, times);
    let (tell, told) = channel();
    let pacer = plan.pacer(times, count);
    let tell = (pacer.is_closed() && job.publish.qos == 0 && roles.sends).then_some(tell);
    let (of_publisher, of_subscriber, ours) = (publisher.as_mut(), subscriber.as_mut(), &shared);
    let progress = Mutex::new(Progress::default());
    let progress = || progress.lock().unwrap_or_else(PoisonError::into_inner);
    let (sent, got, ended) = thread::scope(|scope| {
        let sending = scope.spawn(move || {
            let mut next = times.begin;
            let seen = &mut |sent: &Sent| {
                if is_over(&mut next) {
                    let mut progress = progress();
                    progress.sent = sent.all;
                    progress.lag = sent.lag.value_at_quantile(0.99);
                }
            };
            of_publisher.map(|publisher| send(pacer, publisher.as_mut(), ours, &told, seen))
        });
        let receiving = scope.spawn(move || {
            let mut next = times.begin;
            let seen = &mut |got: &Got| {
                if is_over(&mut next) {
                    let second = got.seconds.iter().rev().nth(1).or(got.seconds.last());
                    let quantile =
                        |q| second.map_or(0, |second| second.response.value_at_quantile(q));
                    let mut progress = progress();
                    (progress.received, progress.twice) = (got.all, got.duplicates);
                    progress.response = (quantile(0.5), quantile(0.99));
                }
            };
            let got = Got::new(times, job.flows, job.copies);
            of_subscriber.map(|subscriber| receive(got, subscriber.as_mut(), ours, tell, seen))
        });
        let (mut before, mut next) = ((0, 0), times.begin + SECOND);
        let ended = loop {
            thread::sleep(LOOK_UP);
            let now = clock::now();
            let received = progress().received;
            if now >= next {
                let line = progress().line((now - times.begin) / SECOND, roles, &mut before);
                // What cannot be printed any more ends nothing by itself: a closed pipe is told at the end.
                let _ = say.line("second", &line);
                next += SECOND;
            }
            let is_through = match (roles.sends, roles.receives) {
                (true, true) => ours.is_complete(),
                (true, false) => ours.is_settled(),
                (false, _) => count.is_some_and(|count| received >= count),
            };
            let end = if roles.sends {
                times.give_up
            } else {
                times.end
            };
            let is_stopped = stop.load(Ordering::Relaxed) || ours.trouble().is_some();
            if is_stopped || is_through || now >= end {
                break now;
            }
        };
        shared.end();
        let (sent, got) = (
            sending.join().ok().flatten(),
            receiving.join().ok().flatten(),
        );
        let got = got.unwrap_or_else(|| Got::new(times, job.flows, job.copies));
        (sent.unwrap_or_else(|| Sent::new(times)), got, ended)
    });
    let mut row = Books { sent, got }.row(job.copies, Standing::Valid);
    row.seconds = ended.min(times.end).saturating_sub(times.begin) as f64 / 1e9;
    let acknowledged = publisher.as_ref().filter(|_| job.publish.qos > 0);
    row.unacknowledged = acknowledged.map_or(0, |it| it.unacknowledged());
    if let Some((_, trouble)) = shared.trouble() {
        row.standing = Standing::Invalid(trouble.clone());
        say.summary(&row, roles)?;
        return Err(io::Error::other(trouble.clone()));
    }
    say.summary(&row, roles)?;
    Ok(outcome(stop))
}

/// How a role has ended.
pub fn outcome(stop: &AtomicBool) -> Outcome {
    match stop.load(Ordering::Relaxed) {
        true => Outcome::Interrupted,
        false => Outcome::Done,
    }
}

fn settings(cell: &Cell, job: &Job, roles: Roles) -> Vec<Named> {
    let mut said = Vec::new();
    if roles.sends {
        said.push(("publishes_to", json!(job.publish_at)));
        said.push(("publishes_by", json!(job.publish)));
        said.push(("topics", json!(format!("{}…", job.publish_topic(0)))));
        said.push(("load", json!(cell.load)));
        said.push(("workload", json!(cell.workload)));
    }
    if roles.receives {
        said.push(("receives_from", json!(job.subscribe_at)));
        said.push(("receives_by", json!(job.subscribe)));
        said.push(("filters", json!(format!("{}…", job.subscribe_topic(0)))));
        said.push(("copies", json!(job.copies)));
    }
    let connections = match cell.driver {
        Driver::Bare => job.flows * job.copies,
        _ => job.connections,
    };
    said.extend([
        ("flows", json!(job.flows)),
        ("driver", json!(cell.driver)),
        ("connections", json!(connections)),
        ("run", json!(job.run)),
        ("seed", json!(job.seed)),
    ]);
    said
}

/// What threads show of their books.
#[derive(Default)]
struct Progress {
    sent: u64,
    lag: u64,
    received: u64,
    twice: u64,
    response: (u64, u64),
}

impl Progress {
    /// The line of a second; `before` is what was sent and received up to the line before.
    fn line(&self, second: u64, roles: Roles, before: &mut (u64, u64)) -> Vec<Named> {
        let mut line = vec![("s", json!(second))];
        if roles.sends {
            line.push(("sent", json!(self.sent - before.0)));
            line.push(("sent_in_all", json!(self.sent)));
            line.push(("lag_p99_us", json!(self.lag / 1000)));
        }
        if roles.receives {
            line.push(("received", json!(self.received - before.1)));
            line.push(("received_in_all", json!(self.received)));
            line.push(("twice", json!(self.twice)));
            line.push(("p50_us", json!(self.response.0 / 1000)));
            line.push(("p99_us", json!(self.response.1 / 1000)));
        }
        *before = (self.sent, self.received);
        line
    }
}

/// Whether it is time to show something, now and then.
fn is_over(next: &mut u64) -> bool {
    let now = clock::now();
    let is_over = now >= *next;
    if is_over {
        *next = now + SHOW;
    }
    is_over
}

/// Between connecting and the first message, nanoseconds.
const HEAD_START: u64 = 20_000_000;
const LOOK_UP: Duration = Duration::from_millis(20);
/// How often threads show what they have, nanoseconds.
const SHOW: u64 = SECOND / 10;
