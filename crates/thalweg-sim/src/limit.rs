//! The limit: one queue before all workers, which knows who is idle and how fast everybody is, and pays for no network
//! but the way to the worker. It does not know what a message will take.
//!
//! There is no best rule for slower workers, so there is a family of rules: a slower worker is left idle while faster
//! ones would finish more than a part of what waits before it could finish one message. The part that gives the best
//! mean, and the one that gives the best 99th percentile, are found anew for each scenario.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::outcome::Outcome;
use super::scenario::{Job, Law, Scenario, What, Worker};

/// When slower workers are used.
#[derive(Clone, Copy, Debug)]
enum Threshold {
    Fixed(f64),
    /// 1 - load / capacity of the faster.
    Load,
}

/// The best mean, the best 99th percentile and the best mean wait of the family, for the same arrivals and demands.
pub fn limit(scenario: &Scenario) -> Outcome {
    let family = [
        Threshold::Fixed(0.1),
        Threshold::Fixed(0.25),
        Threshold::Fixed(0.5),
        Threshold::Fixed(1.0),
        Threshold::Load,
    ];
    let jobs = scenario.jobs();
    let first = scenario.workers.first().map_or(0.0, |worker| worker.mean);
    let equal = scenario.workers.iter().all(|worker| worker.mean == first);
    let mut best = central(scenario, &jobs, Threshold::Fixed(0.0));
    for threshold in family.iter().filter(|_| !equal) {
        let outcome = central(scenario, &jobs, *threshold);
        best.mean = best.mean.min(outcome.mean);
        best.p99 = best.p99.min(outcome.p99);
        best.wait_mean = best.wait_mean.min(outcome.wait_mean);
    }
    best
}

struct Server {
    mean: f64,
    way: f64,
    /// When its messages began.
    began: Vec<f64>,
    handlers: usize,
    alive: bool,
    slow: f64,
}

fn nanos(at: f64) -> u64 {
    (at * 1e9) as u64
}

fn central(scenario: &Scenario, jobs: &[Job], threshold: Threshold) -> Outcome {
    let server = |worker: &Worker| Server {
        mean: worker.mean,
        way: worker.rtt / 2.0,
        began: Vec::new(),
        handlers: worker.handlers as usize,
        alive: true,
        slow: 1.0,
    };
    let mut servers: Vec<Server> = scenario.workers.iter().map(server).collect();
    // (time, order, what): 0 incident, 1 a server is done, 2 arrival.
    let mut events: BinaryHeap<Reverse<(u64, u8, usize, u64)>> = BinaryHeap::new();
    let mut changes: Vec<(f64, usize, bool, f64)> = Vec::new();
    for it in &scenario.incidents {
        // Whether it works, and how slowly, from then on.
        let mut from = |at: f64, alive: bool, slow: f64| changes.push((at, it.worker, alive, slow));
        match it.what {
            What::Freeze | What::Stuck => {
                from(it.at, false, 1.0);
                from(it.at + it.lasts, true, 1.0);
            }
            What::Death | What::Crash => from(it.at, false, 1.0),
            What::Join => {
                from(0.0, false, 1.0);
                from(it.at, true, 1.0);
            }
            What::Slow(factor) => {
                from(it.at, true, factor);
                from(it.at + it.lasts, true, 1.0);
            }
            // The process works all the time.
            What::Cut | What::Burst(_) => {}
        }
    }
    for (index, change) in changes.iter().enumerate() {
        events.push(Reverse((nanos(change.0), 0, index, 0)));
    }
    if let Some(first) = jobs.first() {
        events.push(Reverse((nanos(first.at), 2, 0, 0)));
    }
    let mut queue: VecDeque<usize> = VecDeque::new();
    let mut done = vec![f64::NAN; jobs.len()];
    let mut started = vec![f64::NAN; jobs.len()];
    let mut order: Vec<usize> = (0..servers.len()).collect();
    order.sort_by(|a, b| servers[*a].mean.total_cmp(&servers[*b].mean));
    while let Some(Reverse((time, kind, index, began))) = events.pop() {
        let now = time as f64 * 1e-9;
        match kind {
            0 => {
                let (_, server, alive, slow) = changes[index];
                (servers[server].alive, servers[server].slow) = (alive, slow);
            }
            1 => {
                let began = f64::from_bits(began);
                servers[index].began.retain(|it| *it != began);
            }
            _ => {
                queue.push_back(index);
                if let Some(next) = jobs.get(index + 1) {
                    events.push(Reverse((nanos(next.at), 2, index + 1, 0)));
                }
            }
        }
        while let Some(&job) = queue.front() {
            let free = |server: &usize| {
                servers[*server].alive && servers[*server].began.len() < servers[*server].handlers
            };
            let Some(rank) = order.iter().position(free) else {
                break;
            };
            let chosen = order[rank];
            let faster = order[..rank].iter().map(|at| &servers[*at]);
            let left_idle = threshold.messages_ahead(scenario, &servers[chosen], faster, now);
            if left_idle.is_some_and(|messages| messages >= queue.len() as f64) {
                break;
            }
            queue.pop_front();
            let server = &mut servers[chosen];
            let end = now + server.mean * server.slow * jobs[job].work;
            server.began.push(now);
            started[job] = now + server.way;
            done[job] = end + server.way;
            events.push(Reverse((nanos(end), 1, chosen, now.to_bits())));
        }
    }
    Outcome::default().with_times(scenario, jobs, &done, &started)
}

impl Threshold {
    /// The part of what waits that faster servers may finish before a slower one could finish one message, in messages: with as
    /// many before it, it is left idle.
    fn messages_ahead<'a>(
        self,
        scenario: &Scenario,
        chosen: &Server,
        faster: impl Iterator<Item = &'a Server> + Clone,
        now: f64,
    ) -> Option<f64> {
        let own = chosen.mean;
        let faster = faster.filter(|server| server.alive && server.mean < own);
        let part = match self {
            Threshold::Fixed(part) => part,
            Threshold::Load => {
                let each = |server: &Server| server.handlers as f64 / server.mean;
                let capacity: f64 = faster.clone().map(each).sum();
                (1.0 - scenario.rate / capacity.max(1e-9)).clamp(0.0, 1.0)
            }
        };
        let messages = |server: &Server| {
            let age = server.began.first().map_or(0.0, |began| now - began);
            let left = match scenario.law {
                Law::Deterministic | Law::Nearly(_) => (server.mean - age).max(0.0),
                _ => server.mean,
            };
            match left + server.mean {
                theirs if theirs < own => 1.0 + ((own - theirs) / server.mean).floor(),
                _ => 0.0,
            }
        };
        (part > 0.0).then(|| part * faster.map(messages).sum::<f64>())
    }
}
