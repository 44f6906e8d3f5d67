//! What happened to the messages of a cell, and the row that follows from it.

use std::collections::BTreeMap;

use super::plan::Task;
use crate::cell::{Measured, Messages, Row, Standing};
use crate::load::books::quantiles;
use crate::report::stat::{mean, quantile};

/// A message, in nanoseconds since the trial's first moment; [`NEVER`] for what did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// When it should have been published.
    pub intended: u64,
    pub sent: u64,
    /// When a worker had it first.
    pub received: u64,
    /// When a worker took it from its queue first.
    pub taken: u64,
    /// When it was processed first.
    pub done: u64,
    /// The member that processed it first, or else received it first; [`NOBODY`] if none received it.
    pub member: u16,
    /// How often it was delivered.
    pub deliveries: u16,
    /// When it was delivered for the second time.
    pub again: u64,
    /// How many deliveries were marked as repetitions.
    pub marked: u16,
    /// When it was first delivered with a mark.
    pub resent: u64,
    /// How often it was processed.
    pub processed: u16,
}

/// What did not happen.
pub const NEVER: u64 = u64::MAX;
const NOBODY: u16 = u16::MAX;

impl Message {
    /// One that is still to be sent.
    pub fn due(intended: u64) -> Message {
        Message {
            intended,
            sent: NEVER,
            received: NEVER,
            taken: NEVER,
            done: NEVER,
            member: NOBODY,
            deliveries: 0,
            again: NEVER,
            marked: 0,
            resent: NEVER,
            processed: 0,
        }
    }

    /// Milliseconds from publish until a worker took it from its queue: the latency of the thesis.
    fn wait_ms(&self) -> Option<f64> {
        (self.taken != NEVER).then(|| ms(self.taken.saturating_sub(self.intended)))
    }

    /// Milliseconds from publish until it was processed.
    fn response_ms(&self) -> Option<f64> {
        (self.done != NEVER).then(|| ms(self.done.saturating_sub(self.intended)))
    }

    /// Whether its first receiver did not process it: another one got it, or the same one again. If its first delivery was
    /// not seen, it is known by its mark.
    fn is_repeated(&self) -> bool {
        self.marked > 0 || self.deliveries > 1
    }

    /// Its line in `messages.csv`; empty for what did not happen.
    fn line(&self) -> String {
        let micros = |nanos: u64| match nanos {
            NEVER => String::new(),
            _ => (nanos / 1000).to_string(),
        };
        let member = match self.member {
            NOBODY => String::new(),
            member => member.to_string(),
        };
        let times = [
            self.intended,
            self.sent,
            self.received,
            self.taken,
            self.done,
        ];
        let (times, again, resent) = (times.map(micros), micros(self.again), micros(self.resent));
        let (deliveries, marked, processed) = (self.deliveries, self.marked, self.processed);
        format!(
            "{},{member},{deliveries},{again},{marked},{resent},{processed}",
            times.join(",")
        )
    }
}

fn ms(nanos: u64) -> f64 {
    nanos as f64 * 1e-6
}

/// One run of a cell.
#[derive(Debug)]
pub struct Trial<'t> {
    pub task: &'t Task,
    /// Why it came to no regular end.
    pub wrong: Option<String>,
    /// Time in which what is due counts in the figures of the response, in seconds.
    pub counted: (f64, f64),
    /// By how many microseconds workers woke too late.
    pub late: Vec<f64>,
    /// Reports of load that were sent.
    pub reports: u64,
    /// Bytes that workers sent, acknowledgements included.
    pub worker_bytes: u64,
    /// Connections that the broker ended.
    pub closed: u32,
    /// When the incident of the trial happened, in nanoseconds; [`NEVER`] without one.
    pub incident: u64,
    pub messages: Vec<Message>,
}

impl Trial<'_> {
    /// One in which nothing has happened yet.
    pub fn of(task: &Task) -> Trial<'_> {
        Trial {
            task,
            wrong: None,
            counted: (0.0, f64::INFINITY),
            late: Vec::new(),
            reports: 0,
            worker_bytes: 0,
            closed: 0,
            incident: NEVER,
            messages: Vec::new(),
        }
    }

    fn count(&self, is_it: impl Fn(&Message) -> bool) -> f64 {
        self.messages.iter().filter(|it| is_it(it)).count() as f64
    }

    fn waits_of(&self, member: u16) -> impl Iterator<Item = f64> {
        let mine = self.messages.iter().filter(move |it| it.member == member);
        mine.filter_map(Message::wait_ms)
    }

    /// What of it is kept. Takes its time.
    pub fn measured(&self) -> Measured {
        let lag = |it: &Message| it.sent.saturating_sub(it.intended) as f64 * 1e-3;
        let sent = self.messages.iter().filter(|it| it.sent != NEVER);
        let mut lag: Vec<f64> = sent.map(lag).collect();
        let (sent, lag) = (lag.len() as u64, quantile(&mut lag, 0.99));
        let mut late = self.late.clone();
        let wake = [
            mean(late.iter().copied()),
            quantile(&mut late, 0.99),
            quantile(&mut late, 1.0),
        ];
        let standing = match &self.wrong {
            Some(why) => Standing::Invalid(why.clone()),
            None => judged(self.task, &self.messages, lag, wake),
        };
        let mut measured = Measured::nothing(standing.clone());
        for message in self.messages.iter().filter(|it| it.taken != NEVER) {
            let since = |at: u64| message.taken.saturating_sub(at);
            // A histogram that grows takes every number.
            let _ = measured.response.record(since(message.intended));
            let _ = measured.service.record(since(message.sent));
        }
        let lost = self.count(|it| it.sent != NEVER && it.done == NEVER) as u64;
        let mut more = self.figures();
        let names = ["wake_mean_us", "wake_p99_us", "wake_max_us"].map(str::to_owned);
        more.extend(names.into_iter().zip(wake));
        measured.row = Row {
            intended: self.messages.len() as u64,
            sent,
            expected: sent,
            delivered: sent - lost,
            lost,
            duplicates: self.count(|it| it.deliveries > 1) as u64,
            seconds: self.messages.len() as f64 / self.task.scenario.rate,
            payload_bytes: (sent - lost) * 100,
            response: quantiles(&measured.response),
            service: quantiles(&measured.service),
            lag_p99_us: lag,
            more: more.into_iter().filter(|it| it.1.is_finite()).collect(),
            ..Row::blank(standing)
        };
        let lines = self.messages.iter().map(Message::line).collect();
        measured.messages = Messages { head: HEAD, lines };
        measured
    }

    /// Everything that statements and tables of this study are made of.
    fn figures(&self) -> BTreeMap<String, f64> {
        let task = self.task;
        let mut waits: Vec<f64> = self.messages.iter().filter_map(Message::wait_ms).collect();
        let (from, to) = self.counted;
        let counts = |it: &&Message| (from..to).contains(&(it.intended as f64 * 1e-9));
        let counted = self.messages.iter().filter(counts);
        let mut took: Vec<f64> = counted.filter_map(Message::response_ms).collect();
        let (response, response_p99) = (mean(took.iter().copied()), quantile(&mut took, 0.99));
        let (limit, limit_p99, limit_wait) = task.limit_ms;
        let mut figures = vec![
            ("wait_mean_ms", mean(waits.iter().copied())),
            ("wait_p99_ms", quantile(&mut waits, 0.99)),
            ("processed_mean_ms", response),
            ("processed_p99_ms", response_p99),
            ("limit_mean_ms", limit),
            ("limit_p99_ms", limit_p99),
            ("limit_wait_ms", limit_wait),
            ("ratio_mean", response / limit),
            ("ratio_p99", response_p99 / limit_p99),
            ("reports", self.reports as f64),
            ("worker_bytes", self.worker_bytes as f64),
            ("closed", f64::from(self.closed)),
            ("processed_twice", self.count(|it| it.processed > 1)),
            ("repeated", self.count(Message::is_repeated)),
            // That came again without a mark.
            (
                "unmarked",
                self.count(|it| it.deliveries > 1 && it.marked + 1 < it.deliveries),
            ),
        ];
        if self.incident != NEVER {
            // The longest time until a message that was with a member when something happened to it, or was sent there
            // afterwards, came to a member that processed it. Without a mark it is a fault, but it came.
            let after = |it: &Message| {
                ms(it
                    .resent
                    .min(it.again)
                    .saturating_sub(it.intended.max(self.incident)))
            };
            let repeated = self.messages.iter().filter(|it| it.is_repeated());
            figures.push(("incident_s", self.incident as f64 * 1e-9));
            figures.push(("repeated_after_ms", repeated.map(after).fold(0.0, f64::max)));
        }
        if let Some([bars, virtually]) = task.bars {
            figures.extend([
                ("bar_mean", bars.0),
                ("bar_p99", bars.1),
                ("virtual_ratio_mean", virtually.0 / limit),
                ("virtual_ratio_p99", virtually.1 / limit_p99),
            ]);
        }
        let named = |(name, value): (&str, f64)| (name.to_owned(), value);
        let mut more: BTreeMap<String, f64> = figures.into_iter().map(named).collect();
        if task.scenario.workers.len() == MEMBERS {
            self.by_member(&mut more);
        }
        more
    }

    /// What the thesis says of each of its three members.
    fn by_member(&self, more: &mut BTreeMap<String, f64>) {
        let received = self.count(|it| it.member != NOBODY);
        for member in 0..MEMBERS as u16 {
            let steady = self.messages.iter().skip(500).take(500);
            let waits: Vec<f64> = steady
                .filter(|it| it.member == member)
                .filter_map(Message::wait_ms)
                .collect();
            let middle = mean(waits.iter().copied());
            let deviation = mean(waits.iter().map(|wait| (wait - middle).powi(2))).sqrt();
            let figures = [
                100.0 * self.count(|it| it.member == member) / received.max(1.0),
                mean(self.waits_of(member)),
                waits.len() as f64,
                waits.iter().copied().fold(f64::INFINITY, f64::min),
                waits.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                middle,
                deviation,
            ];
            more.extend(of_member(member.into()).into_iter().zip(figures));
        }
        let apart = (mean(self.waits_of(0)) - mean(self.waits_of(1))).abs();
        let members: Vec<u16> = self.messages.iter().map(|it| it.member).collect();
        let first = members.get(..MEMBERS).unwrap_or_default();
        let is_whole = (0..MEMBERS as u16).all(|member| first.contains(&member));
        let later = members.iter().skip(MEMBERS);
        let in_turn = is_whole && members.iter().zip(later).all(|(one, next)| one == next);
        // In turn, the slow member falls behind by the same time with each message.
        let slow = self.task.scenario.workers.last().map_or(0.0, |it| it.mean);
        let step = 1e3 * (slow - 3.0 / self.task.scenario.rate);
        let last = self.messages.iter().filter(|it| it.member == 2);
        let gap = |(k, it): (usize, &Message)| Some((it.wait_ms()? - k as f64 * step).abs());
        let mut gaps: Vec<f64> = last.enumerate().filter_map(gap).collect();
        let figures = [
            ("apart_ms", apart),
            ("in_turn", f64::from(u8::from(in_turn))),
            ("arithmetic_p99_ms", quantile(&mut gaps, 0.99)),
        ];
        more.extend(figures.map(|(name, value)| (name.to_owned(), value)));
    }
}

/// What is known of one of three members: part of all messages and mean wait; of messages 500 to 1000 their number, least,
/// greatest and mean wait, and its standard deviation.
pub fn of_member(member: usize) -> [String; 7] {
    [
        "share_percent",
        "wait_ms",
        "steady_count",
        "steady_least_ms",
        "steady_greatest_ms",
        "steady_mean_ms",
        "steady_sd_ms",
    ]
    .map(|what| format!("member_{member}_{what}"))
}

/// Members of the thesis's groups.
pub const MEMBERS: usize = 3;
/// The columns of `messages.csv` behind key and number.
const HEAD: &str = "t_intended_us,t_sent_us,t_received_us,t_taken_us,t_done_us,member,deliveries,t_again_us,marked,\
t_resent_us,processed";

/// Whether what was measured counts, and why not.
fn judged(task: &Task, messages: &[Message], lag_p99_us: f64, wake_us: [f64; 3]) -> Standing {
    let [wake_mean, wake_p99, _] = wake_us;
    let mut sent = messages.iter().filter(|message| message.sent != NEVER);
    let part = sent.clone().count() as f64 / messages.len() as f64;
    let Some((first, last)) = sent
        .next()
        .map(|first| (first, sent.next_back().unwrap_or(first)))
    else {
        return Standing::Invalid("nothing was sent".to_owned());
    };
    // The rate at which messages left, as a part of that at which they should have.
    let meant = (last.intended - first.intended) as f64;
    let took = last.sent.saturating_sub(first.sent) as f64;
    let achieved = part
        * if took > 0.0 {
            (meant / took).min(1.0)
        } else {
            1.0
        };
    let means = task.scenario.workers.iter().map(|worker| worker.mean);
    let quickest = means.fold(f64::INFINITY, f64::min) * 1e6;
    // A tenth of the period.
    let lag_max = (1e5 / task.scenario.rate).max(1000.0);
    Standing::GeneratorLimited(match () {
        () if achieved < 0.99 => format!("only {:.1} % of the intended rate", achieved * 100.0),
        () if lag_p99_us > lag_max => format!("messages left {lag_p99_us:.0} us late (99 %)"),
        () if wake_mean > quickest * WAKE_MEAN_MAX => {
            format!("workers woke {wake_mean:.0} us late on average")
        }
        () if wake_p99 > quickest * WAKE_P99_MAX => {
            format!("workers woke {wake_p99:.0} us late (99 %)")
        }
        () => return Standing::Valid,
    })
}

/// How late workers may wake, as parts of the shortest mean service time.
const WAKE_MEAN_MAX: f64 = 0.02;
const WAKE_P99_MAX: f64 = 0.10;
