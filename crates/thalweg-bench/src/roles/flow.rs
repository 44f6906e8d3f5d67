//! `pub`, `sub` and `ping`: messages that are due, messages that come, or both.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::say::{Named, Roles, Say};
use crate::cell::{Cell, Driver, Load, Standing};
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
    let mut subscriber = roles
        .receives
        .then(|| drivers::subscriber(cell.driver, job))
        .transpose()
        .map_err(io::Error::other)?;
    let mut publisher = roles
        .sends
        .then(|| drivers::publisher(cell.driver, job))
        .transpose()
        .map_err(io::Error::other)?;
    say.settings(&settings(cell, job, roles))?;

    let times = Times::new(clock::now() + HEAD_START, &cell.phases);
    let shared = Shared::new(&plan, job.run, job.copies, times);
    let (tell, told) = channel();
    let (show, shown) = channel();
    let pacer = plan.pacer_at_most(times, count);
    let tell = (pacer.is_closed() && job.publish.qos == 0 && roles.sends).then_some(tell);
    let (of_publisher, of_subscriber, ours) = (publisher.as_mut(), subscriber.as_mut(), &shared);
    let (sent, got, ended) = thread::scope(|scope| {
        let show_too: Sender<Shown> = show.clone();
        let sending = scope.spawn(move || {
            let mut last = Every::second(times.begin);
            of_publisher.map(|publisher| {
                let seen = &mut |sent: &Sent| {
                    if last.is_over() {
                        let _ =
                            show_too.send(Shown::Sent(sent.all, sent.lag.value_at_quantile(0.99)));
                    }
                };
                send(pacer, publisher.as_mut(), ours, &told, seen)
            })
        });
        let receiving = scope.spawn(move || {
            let mut last = Every::second(times.begin);
            of_subscriber.map(|subscriber| {
                let got = Got::new(times, job.flows, job.copies);
                let seen = &mut |got: &Got| {
                    let second = got.seconds.iter().rev().nth(1).or(got.seconds.last());
                    if last.is_over() {
                        let quantile = |q: f64| {
                            second.map_or(0, |second| second.response.value_at_quantile(q))
                        };
                        let twice = got.duplicates;
                        let _ = show.send(Shown::Got {
                            all: got.all,
                            twice,
                            p50: quantile(0.5),
                            p99: quantile(0.99),
                        });
                    }
                };
                receive(got, subscriber.as_mut(), ours, tell, seen)
            })
        });
        let mut lines = Lines::default();
        let mut next = times.begin + SECOND;
        let ended = loop {
            thread::sleep(LOOK_UP);
            let now = clock::now();
            while let Ok(shown) = shown.try_recv() {
                lines.take(&shown);
            }
            if now >= next {
                // What cannot be printed any more ends nothing by itself: a closed pipe is told at the end.
                let _ = say.second(&lines.line((now - times.begin) / SECOND, roles));
                next += SECOND;
            }
            let has_all = count.is_some_and(|count| !roles.sends && lines.received >= count);
            let is_through = roles.sends
                && if roles.receives {
                    ours.is_complete()
                } else {
                    ours.is_settled()
                };
            let is_late = now
                >= if roles.sends {
                    times.give_up
                } else {
                    times.end
                };
            if stop.load(Ordering::Relaxed)
                || ours.is_troubled()
                || has_all
                || is_through
                || is_late
            {
                break now;
            }
        };
        shared.end();
        let sent = sending
            .join()
            .ok()
            .flatten()
            .unwrap_or_else(|| Sent::new(times));
        let got = receiving
            .join()
            .ok()
            .flatten()
            .unwrap_or_else(|| Got::new(times, job.flows, job.copies));
        (sent, got, ended)
    });
    let mut row = Books { sent, got }.row(job.copies, Standing::Valid);
    row.seconds = ended.min(times.end).saturating_sub(times.begin) as f64 / 1e9;
    row.unacknowledged = publisher
        .as_ref()
        .filter(|_| job.publish.qos > 0)
        .map_or(0, |it| it.unacknowledged());
    if let Some((_, trouble)) = shared.trouble() {
        row.standing = Standing::Invalid(trouble.clone());
        say.summary(&row, roles)?;
        return Err(io::Error::other(trouble));
    }
    say.summary(&row, roles)?;
    Ok(if stop.load(Ordering::Relaxed) {
        Outcome::Interrupted
    } else {
        Outcome::Done
    })
}

fn settings(cell: &Cell, job: &Job, roles: Roles) -> Vec<Named> {
    let mut said = Vec::new();
    if roles.sends {
        said.push((
            "publishes",
            json!(format!("to {} by {}", job.publish_at, leg(&job.publish))),
        ));
        said.push(("topics", json!(format!("{}…", job.publish_topic(0)))));
        said.push(("load", json!(load(&cell.load))));
        said.push(("workload", json!(format!("{:?}", cell.workload))));
    }
    if roles.receives {
        said.push((
            "receives",
            json!(format!(
                "from {} by {}",
                job.subscribe_at,
                leg(&job.subscribe)
            )),
        ));
        said.push(("filters", json!(format!("{}…", job.subscribe_topic(0)))));
        said.push(("copies", json!(job.copies)));
    }
    said.push(("flows", json!(job.flows)));
    said.push(("driver", json!(cell.driver)));
    said.push((
        "connections",
        json!(if cell.driver == Driver::Bare {
            job.flows * job.copies
        } else {
            job.connections
        }),
    ));
    said.push(("run", json!(job.run)));
    said.push(("seed", json!(job.seed)));
    said
}

/// A load in words.
fn load(load: &Load) -> String {
    match load {
        Load::Open { rate, arrivals, .. } => {
            format!("{rate}/s of each flow, {arrivals}, by a schedule")
        }
        Load::Closed { think_ns, .. } => {
            format!("closed loop, pauses of {} ms", *think_ns as f64 / 1e6)
        }
        Load::Replay {
            speed, rate_scale, ..
        } => {
            format!("a trace, {speed} times as fast, {rate_scale} of its messages")
        }
        Load::Flood { .. } => "as fast as it goes".to_owned(),
    }
}

/// A leg in words.
pub fn leg(leg: &crate::cell::Leg) -> String {
    let version = if leg.protocol == crate::cell::Protocol::Mqtt {
        format!(" {}", leg.version)
    } else {
        String::new()
    };
    let window = if leg.qos > 0 {
        format!(", {} under way", leg.window)
    } else {
        String::new()
    };
    format!("{:?}{version} at QoS {}{window}", leg.protocol, leg.qos)
}

/// What threads show of their books.
enum Shown {
    Sent(u64, u64),
    Got {
        all: u64,
        twice: u64,
        p50: u64,
        p99: u64,
    },
}

/// The numbers of the last second.
#[derive(Default)]
struct Lines {
    sent: u64,
    lag: u64,
    received: u64,
    twice: u64,
    response: (u64, u64),
    /// Of both, in the line before.
    before: (u64, u64),
}

impl Lines {
    fn take(&mut self, shown: &Shown) {
        match *shown {
            Shown::Sent(sent, lag) => (self.sent, self.lag) = (sent, lag),
            Shown::Got {
                all,
                twice,
                p50,
                p99,
            } => {
                (self.received, self.twice, self.response) = (all, twice, (p50, p99));
            }
        }
    }

    fn line(&mut self, second: u64, roles: Roles) -> Vec<Named> {
        let mut line = vec![("s", json!(second))];
        if roles.sends {
            line.push(("sent", json!(self.sent - self.before.0)));
            line.push(("sent_in_all", json!(self.sent)));
            line.push(("lag_p99_us", json!(self.lag / 1000)));
        }
        if roles.receives {
            line.push(("received", json!(self.received - self.before.1)));
            line.push(("received_in_all", json!(self.received)));
            line.push(("twice", json!(self.twice)));
            line.push(("p50_us", json!(self.response.0 / 1000)));
            line.push(("p99_us", json!(self.response.1 / 1000)));
        }
        self.before = (self.sent, self.received);
        line
    }
}

/// Says now and then that it is time.
struct Every(u64);

impl Every {
    fn second(from: u64) -> Every {
        Every(from)
    }

    fn is_over(&mut self) -> bool {
        let now = clock::now();
        let is_over = now >= self.0;
        if is_over {
            self.0 = now + SHOW;
        }
        is_over
    }
}

/// Between connecting and the first message, nanoseconds.
const HEAD_START: u64 = 20_000_000;
const LOOK_UP: Duration = Duration::from_millis(20);
/// How often threads show what they have, nanoseconds.
const SHOW: u64 = SECOND / 10;
