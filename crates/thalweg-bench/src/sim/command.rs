//! `thalweg bench sim share`.

use std::io::{self, Write};

use clap::Args;
use thalweg_balance::GroupStrategy;
use thalweg_model::Reliability;

use super::limit::limit;
use super::rows::PARETO_CUT;
use super::run as simulate;
use super::scenario::{Acks, Arrivals, Law, Reports, Scenario, Worker, worker};
use crate::command::Outcome;
use crate::net::units::span;
use crate::scenario::one_of;

/// Flags of `thalweg bench sim share`.
#[derive(Args, Clone, Debug)]
pub struct ShareArgs {
    /// How the group chooses: adaptive, score, round-robin, random, ... or another broker's name for it
    #[arg(long, value_name = "NAME", default_value = "adaptive", value_parser = strategy)]
    pub alg: GroupStrategy,
    /// What comes, in terms of what the members can do
    #[arg(long, value_name = "PERCENT", default_value = "80%", value_parser = percent)]
    pub load: f64,
    /// What one message takes at each member: 25ms,25ms,50ms or 5x10ms,5x20ms
    #[arg(long, value_name = "TIMES", default_value = "5x10ms,5x20ms", value_parser = members)]
    pub members: Members,
    /// Law of service times: deterministic, exponential, log-normal, pareto, bimodal or size
    #[arg(long, value_name = "LAW", default_value = "exponential", value_parser = |text: &str| one_of(text, &LAWS))]
    pub service: Law,
    /// Law of arrivals: poisson, periodic, bursts or batches
    #[arg(long, value_name = "LAW", default_value = "poisson", value_parser = |text: &str| one_of(text, &ARRIVALS))]
    pub arrivals: Arrivals,
    /// Of publishers and members
    #[arg(long, value_name = "0|1|2", default_value = "1", value_parser = |text: &str| one_of(text, &QOS))]
    pub qos: Reliability,
    /// When members acknowledge: processed, started or receipt
    #[arg(long, value_name = "WHEN", default_value = "processed", value_parser = |text: &str| one_of(text, &ACKS))]
    pub acks: Acks,
    /// How often members report what they have to do; without it they do not
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub report_every: Option<f64>,
    /// The network's part of a round trip
    #[arg(long, value_name = "TIME", default_value = "0.4ms", value_parser = time)]
    pub rtt: f64,
    /// Messages that each member works on side by side
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub handlers: u16,
    /// Messages of a run
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub messages: usize,
    /// Runs, each with its own arrivals and service demands
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub seeds: u64,
    /// Seed of the first run
    #[arg(long, value_name = "N", default_value_t = 101)]
    pub seed: u64,
}

/// What one message takes at each member, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Members(pub Vec<f64>);

/// Runs the simulator and prints its table.
pub fn run(args: &ShareArgs, out: &mut dyn Write) -> io::Result<Outcome> {
    let head = [
        "mean ms",
        "p50 ms",
        "p99 ms",
        "limit",
        "limit p99",
        "mean",
        "p99",
    ];
    let head = head.map(str::to_owned);
    write_line(out, "seed", &head, "share of each member")?;
    let figures = |line: [f64; 7]| line.map(|it| format!("{it:.2}"));
    let mut sums = [0.0; 7];
    for seed in args.seed..args.seed + args.seeds.max(1) {
        let scenario = args.scenario(seed);
        let (ours, bound) = (simulate(&scenario, args.alg), limit(&scenario));
        let [mean, p50, p99, limit_mean, limit_p99] =
            [ours.mean, ours.p50, ours.p99, bound.mean, bound.p99].map(|it| it * 1e3);
        let ratios = (mean / limit_mean, p99 / limit_p99);
        let line = [mean, p50, p99, limit_mean, limit_p99, ratios.0, ratios.1];
        sums.iter_mut().zip(line).for_each(|(sum, it)| *sum += it);
        let all = ours.shares.iter().sum::<usize>().max(1) as f64;
        let share = |share: &usize| format!("{:.1}%", 100.0 * *share as f64 / all);
        let mut rest: Vec<String> = ours.shares.iter().map(share).collect();
        rest.extend((ours.lost > 0).then(|| format!(" {} lost", ours.lost)));
        write_line(out, &seed.to_string(), &figures(line), &rest.join(" "))?;
    }
    let means = sums.map(|sum| sum / args.seeds.max(1) as f64);
    write_line(out, "all", &figures(means), "")?;
    Ok(Outcome::Done)
}

fn write_line(
    out: &mut dyn Write,
    name: &str,
    figures: &[String; 7],
    rest: &str,
) -> io::Result<()> {
    let [mean, p50, p99, limit_mean, limit_p99, ratio_mean, ratio_p99] = figures;
    write!(out, "{name:>6}  {mean:>9} {p50:>9} {p99:>9}  ")?;
    write!(out, "{limit_mean:>9} {limit_p99:>9}  ")?;
    writeln!(out, "{ratio_mean:>6} {ratio_p99:>6}  {rest}")
}

impl ShareArgs {
    /// What the flags describe.
    pub fn scenario(&self, seed: u64) -> Scenario {
        let reports = self.report_every.map_or(Reports::Never, Reports::Every);
        let make = |mean: &f64| Worker {
            handlers: u32::from(self.handlers.max(1)),
            acks: self.acks,
            rtt: self.rtt,
            reports,
            ..worker(*mean)
        };
        let scenario = Scenario::of(self.members.0.iter().map(make).collect())
            .at(self.qos)
            .with_law(self.service);
        let mut scenario = scenario.at_load(self.load);
        scenario.arrivals = self.arrivals;
        (scenario.messages, scenario.seed, scenario.quiet) = (self.messages, seed, 0.1);
        scenario
    }
}

fn strategy(text: &str) -> Result<GroupStrategy, String> {
    GroupStrategy::named(text)
        .ok_or_else(|| format!("is none of {}", GroupStrategy::WORDS.join(", ")))
}

fn time(text: &str) -> Result<f64, String> {
    match span(text)?.as_secs_f64() {
        seconds if seconds > 0.0 => Ok(seconds),
        _ => Err("is no time above zero".into()),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.strip_suffix('%').map(str::parse::<f64>) {
        Some(Ok(number)) if number > 0.0 && number <= 1000.0 => Ok(number / 100.0),
        _ => Err("is no percentage, like 80%".into()),
    }
}

pub(crate) fn members(text: &str) -> Result<Members, String> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (count, each) = match part.split_once('x') {
            None => (1, part),
            Some((count, each)) => {
                let number = count.parse::<usize>();
                (number.map_err(|_| format!("{count} is no number"))?, each)
            }
        };
        all.extend(std::iter::repeat_n(time(each)?, count.min(10_000)));
    }
    if all.is_empty() || all.len() > 10_000 {
        return Err("is not one to ten thousand members".into());
    }
    Ok(Members(all))
}

const LAWS: [(&str, Law); 6] = [
    ("deterministic", Law::Deterministic),
    ("exponential", Law::Exponential),
    ("log-normal", Law::LogNormal(2.0)),
    ("pareto", Law::Pareto(1.5, PARETO_CUT)),
    ("bimodal", Law::Bimodal(0.05, 20.0)),
    ("size", Law::Size),
];

const ARRIVALS: [(&str, Arrivals); 4] = [
    ("poisson", Arrivals::Poisson),
    ("periodic", Arrivals::Periodic),
    ("bursts", Arrivals::Bursts),
    ("batches", Arrivals::Batches(50)),
];

const QOS: [(&str, Reliability); 3] = [
    ("0", Reliability::AtMostOnce),
    ("1", Reliability::AtLeastOnce),
    ("2", Reliability::ExactlyOnce),
];

const ACKS: [(&str, Acks); 3] = [
    ("processed", Acks::Processed),
    ("started", Acks::Started),
    ("receipt", Acks::Receipt),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_unit() {
        assert_eq!(time("10.44ms"), Ok(0.01044));
        assert_eq!(time("2s"), Ok(2.0));
        assert_eq!(time("1min"), Ok(60.0));
        assert!(
            time("10").is_err()
                && time("-1ms").is_err()
                && time("NaNs").is_err()
                && time("s").is_err()
        );
        assert_eq!(percent("95%"), Ok(0.95));
        assert!(percent("0.95").is_err());
    }

    #[test]
    fn members_are_listed_or_counted() {
        assert_eq!(
            members("25ms,25ms,50ms"),
            Ok(Members(vec![0.025, 0.025, 0.05]))
        );
        assert_eq!(members("2x10ms,1s"), Ok(Members(vec![0.01, 0.01, 1.0])));
        assert!(members("").is_err() && members("0x1s").is_err() && members("x1s").is_err());
    }
}
