//! What happened to the messages of a cell, and the row that follows from it.

use std::collections::BTreeMap;

use super::plan::Task;
use crate::cell::{Measured, Messages, Row, Standing, maybe, micros};
use crate::load::books::quantiles;
use crate::report::stat::{mean, quantile};

/// A message, in nanoseconds since the trial's first moment; none for what did not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// When it should have been published.
    pub intended: u64,
    pub sent: Option<u64>,
    /// When a worker had it first.
    pub received: Option<u64>,
    /// When a worker took it from its queue first.
    pub taken: Option<u64>,
    /// When it was processed first.
    pub done: Option<u64>,
    /// The member that processed it first, or else received it first.
    pub member: Option<u16>,
    /// How often it was delivered.
    pub deliveries: u16,
    /// When it was delivered for the second time.
    pub again: Option<u64>,
    /// How many deliveries were marked as repetitions.
    pub marked: u16,
    /// When it was first delivered with a mark.
    pub resent: Option<u64>,
    /// How often it was processed.
    pub processed: u16,
}

impl Message {
    /// Milliseconds from publish until a worker took it from its queue: the latency of the thesis.
    fn wait_ms(&self) -> Option<f64> {
        Some(ms(self.taken?.saturating_sub(self.intended)))
    }

    /// Milliseconds from publish until it was processed.
    fn response_ms(&self) -> Option<f64> {
        Some(ms(self.done?.saturating_sub(self.intended)))
    }

    /// Whether its first receiver did not process it: another one got it, or the same one again. If its first delivery was
    /// not seen, it is known by its mark.
    fn is_repeated(&self) -> bool {
        self.marked > 0 || self.deliveries > 1
    }

    /// Its line in `messages.csv`.
    fn line(&self) -> String {
        let times = [self.sent, self.received, self.taken, self.done].map(micros);
        let (intended, times) = (self.intended / 1000, times.join(","));
        let (member, again, resent) = (maybe(self.member), micros(self.again), micros(self.resent));
        let (deliveries, marked, processed) = (self.deliveries, self.marked, self.processed);
        format!("{intended},{times},{member},{deliveries},{again},{marked},{resent},{processed}")
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
    /// When the incident of the trial happened, in nanoseconds.
    pub incident: Option<u64>,
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
            incident: None,
            messages: Vec::new(),
        }
    }

    fn count(&self, is_it: impl Fn(&Message) -> bool) -> f64 {
        self.messages.iter().filter(|it| is_it(it)).count() as f64
    }

    fn waits_of(&self, member: u16) -> impl Iterator<Item = f64> {
        let mine = self.messages.iter();
        let mine = mine.filter(move |it| it.member == Some(member));
        mine.filter_map(Message::wait_ms)
    }

    /// What of it is kept. Takes its time.
    pub fn measured(&self) -> Measured {
        let lag = |it: &Message| Some(it.sent?.saturating_sub(it.intended) as f64 * 1e-3);
        let mut lag: Vec<f64> = self.messages.iter().filter_map(lag).collect();
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
        for message in &self.messages {
            let Some(taken) = message.taken else { continue };
            // A histogram that grows takes every number.
            let _ = measured
                .response
                .record(taken.saturating_sub(message.intended));
            let sent = message.sent.unwrap_or(u64::MAX);
            let _ = measured.service.record(taken.saturating_sub(sent));
        }
        let lost = self.count(|it| it.sent.is_some() && it.done.is_none()) as u64;
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
        if let Some(incident) = self.incident {
            // The longest time until a message that was with a member when something happened to it, or was sent there
            // afterwards, came to a member that processed it. Without a mark it is a fault, but it came.
            let after = |it: &Message| {
                let came = it.resent.into_iter().chain(it.again).min();
                let since = it.intended.max(incident);
                ms(came.unwrap_or(u64::MAX).saturating_sub(since))
            };
            let repeated = self.messages.iter().filter(|it| it.is_repeated());
            figures.push(("incident_s", incident as f64 * 1e-9));
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
        let received = self.count(|it| it.member.is_some());
        for member in 0..MEMBERS as u16 {
            let steady = self.messages.iter().skip(500).take(500);
            let waits: Vec<f64> = steady
                .filter(|it| it.member == Some(member))
                .filter_map(Message::wait_ms)
                .collect();
            let middle = mean(waits.iter().copied());
            let deviation = mean(waits.iter().map(|wait| (wait - middle).powi(2))).sqrt();
            let figures = [
                100.0 * self.count(|it| it.member == Some(member)) / received.max(1.0),
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
        let members: Vec<Option<u16>> = self.messages.iter().map(|it| it.member).collect();
        let first = members.get(..MEMBERS).unwrap_or_default();
        let is_whole = (0..MEMBERS as u16).all(|member| first.contains(&Some(member)));
        let later = members.iter().skip(MEMBERS);
        let in_turn = is_whole && members.iter().zip(later).all(|(one, next)| one == next);
        // In turn, the slow member falls behind by the same time with each message.
        let slow = self.task.scenario.workers.last().map_or(0.0, |it| it.mean);
        let step = 1e3 * (slow - 3.0 / self.task.scenario.rate);
        let last = self.messages.iter().filter(|it| it.member == Some(2));
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
    let times = |it: &Message| Some((it.intended, it.sent?));
    let sent: Vec<(u64, u64)> = messages.iter().filter_map(times).collect();
    let (Some(first), Some(last)) = (sent.first(), sent.last()) else {
        return Standing::Invalid("nothing was sent".to_owned());
    };
    // The rate at which messages left, as a part of that at which they should have.
    let (meant, took) = (last.0 - first.0, last.1.saturating_sub(first.1));
    let part = sent.len() as f64 / messages.len() as f64;
    let achieved = part * (meant.max(1) as f64 / took.max(1) as f64).min(1.0);
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
