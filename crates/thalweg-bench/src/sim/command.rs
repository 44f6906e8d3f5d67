//! `thalweg bench sim share`.

use std::io::{self, Write};

use clap::Args;
use thalweg_balance::GroupStrategy;
use thalweg_kernel::OrderKey;
use thalweg_model::Reliability;

use super::limit::limit;
use super::rows::PARETO_CUT;
use super::scenario::{Acks, Arrivals, Law, Reports, Scenario, Worker, worker};
use super::table::{Row, Verdict, table};
use super::world::run as simulate;
use crate::command::Outcome;
use crate::net::units::span;
use crate::scenario::one_of;

/// Flags of `thalweg bench sim share`.
#[derive(Args, Clone, Debug)]
pub struct ShareArgs {
    /// How the group chooses: adaptive, score, round-robin, random, ... or another broker's name for it
    #[arg(long, value_name = "NAME", default_value = "adaptive", value_parser = strategy)]
    pub alg: GroupStrategy,
    /// Time between two messages; in place of --load
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub period: Option<f64>,
    /// What comes, in terms of what the members can do
    #[arg(long, value_name = "PERCENT", default_value = "80%", value_parser = percent, conflicts_with = "period")]
    pub load: f64,
    /// What one message takes at each member: 25ms,25ms,50ms or 5x10ms,5x20ms
    #[arg(long, value_name = "TIMES", default_value = "5x10ms,5x20ms", value_parser = members)]
    pub members: Members,
    /// Law of service times: deterministic, exponential, log-normal, pareto, bimodal or size
    #[arg(long, value_name = "LAW", default_value = "exponential", value_parser = law)]
    pub service: Law,
    /// Law of arrivals: poisson, periodic, bursts or batches
    #[arg(long, value_name = "LAW", default_value = "poisson", value_parser = arrivals)]
    pub arrivals: Arrivals,
    /// Of publishers and members
    #[arg(long, value_name = "0|1|2", default_value = "1", value_parser = qos)]
    pub qos: Reliability,
    /// When members acknowledge: processed, started or receipt
    #[arg(long, value_name = "WHEN", default_value = "processed", value_parser = acks)]
    pub acks: Acks,
    /// How often members report what they have to do; without it they do not
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub report_every: Option<f64>,
    /// They report, too, when the broker is wrong about them
    #[arg(long, requires = "report_every")]
    pub report_on_events: bool,
    /// The network's part of a round trip
    #[arg(long, value_name = "TIME", default_value = "0.4ms", value_parser = time)]
    pub rtt: f64,
    /// Messages that each member works on side by side
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub handlers: u16,
    /// Members declare their handlers to the broker
    #[arg(long)]
    pub declare_handlers: bool,
    /// Messages of one address stay in order; so many addresses
    #[arg(long, value_name = "ADDRESSES")]
    pub ordered: Option<u64>,
    /// Messages of a run
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub messages: usize,
    /// Runs, each with its own arrivals and service demands
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub seeds: u64,
    /// Seed of the first run
    #[arg(long, value_name = "N", default_value_t = 101)]
    pub seed: u64,
    /// Measures every condition that is asked of shared groups instead
    #[arg(long)]
    pub table: bool,
}

/// What one message takes at each member, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Members(pub Vec<f64>);

/// Runs the simulator and prints its table.
pub fn run(args: &ShareArgs, out: &mut dyn Write) -> io::Result<Outcome> {
    if args.table {
        return whole(args, out);
    }
    writeln!(
        out,
        "{:>6}  {:>9} {:>9} {:>9}  {:>9} {:>9}  {:>6} {:>6}  share of each member",
        "seed", "mean ms", "p50 ms", "p99 ms", "limit", "limit p99", "mean", "p99"
    )?;
    let mut sums = [0.0; 7];
    for seed in args.seed..args.seed + args.seeds.max(1) {
        let scenario = args.scenario(seed);
        let (ours, bound) = (simulate(&scenario, args.alg), limit(&scenario));
        let ratios = (ours.mean / bound.mean, ours.p99 / bound.p99);
        let line = [
            ours.mean * 1e3,
            ours.p50 * 1e3,
            ours.p99 * 1e3,
            bound.mean * 1e3,
            bound.p99 * 1e3,
            ratios.0,
            ratios.1,
        ];
        sums.iter_mut().zip(line).for_each(|(sum, it)| *sum += it);
        let all: usize = ours.shares.iter().sum();
        let shares = ours
            .shares
            .iter()
            .map(|share| format!("{:.1}%", 100.0 * *share as f64 / all.max(1) as f64));
        let lost = if ours.lost > 0 {
            format!("  {} lost", ours.lost)
        } else {
            String::new()
        };
        figures(
            out,
            &seed.to_string(),
            line,
            &format!("{}{lost}", shares.collect::<Vec<_>>().join(" ")),
        )?;
    }
    figures(
        out,
        "all",
        sums.map(|sum| sum / args.seeds.max(1) as f64),
        "",
    )?;
    Ok(Outcome::Done)
}

fn figures(out: &mut dyn Write, name: &str, line: [f64; 7], rest: &str) -> io::Result<()> {
    let [mean, p50, p99, limit_mean, limit_p99, ratio_mean, ratio_p99] = line;
    writeln!(
        out,
        "{name:>6}  {mean:>9.2} {p50:>9.2} {p99:>9.2}  {limit_mean:>9.2} {limit_p99:>9.2}  {ratio_mean:>6.2} {ratio_p99:>6.2}  {rest}"
    )
}

fn whole(args: &ShareArgs, out: &mut dyn Write) -> io::Result<Outcome> {
    let rows = table(args.seeds, args.messages);
    let number = |it: Option<f64>| it.map_or(String::new(), |it| format!("{it:.2}"));
    for row in &rows {
        let Row {
            condition,
            figure,
            unit,
            ours,
            bar,
            verdict,
            ..
        } = row;
        let (paper, limit, ratio) = (number(row.paper), number(row.limit), number(row.ratio));
        writeln!(
            out,
            "{condition:<66} {figure:<48} {paper:>8} {ours:>9.2} {limit:>8} {unit:<8} {ratio:>6}  {:<16} {verdict}",
            bar.to_string()
        )?;
    }
    let missed = rows.iter().any(|row| row.verdict == Verdict::Missed);
    Ok(if missed {
        Outcome::ShapeFailed
    } else {
        Outcome::Done
    })
}

impl ShareArgs {
    /// What the flags describe.
    pub fn scenario(&self, seed: u64) -> Scenario {
        let reports = match self.report_every {
            None => Reports::Never,
            Some(every) if self.report_on_events => Reports::Events(every),
            Some(every) => Reports::Every(every),
        };
        let make = |mean: &f64| Worker {
            handlers: u32::from(self.handlers.max(1)),
            declares: self.declare_handlers,
            acks: self.acks,
            rtt: self.rtt,
            reports,
            ..worker(*mean)
        };
        let scenario = Scenario::of(self.members.0.iter().map(make).collect())
            .at(self.qos)
            .with_law(self.service);
        let mut scenario = scenario.at_load(self.load);
        if let Some(period) = self.period {
            scenario.rate = 1.0 / period;
        }
        scenario.arrivals = self.arrivals;
        (scenario.messages, scenario.seed, scenario.quiet) = (self.messages, seed, 0.1);
        if let Some(addresses) = self.ordered {
            (scenario.keys, scenario.ordered) = (addresses, Some(OrderKey::Address));
        }
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

fn members(text: &str) -> Result<Members, String> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (count, each) = match part.split_once('x') {
            None => (1, part),
            Some((count, each)) => (
                count
                    .parse::<usize>()
                    .map_err(|_| format!("{count} is no number"))?,
                each,
            ),
        };
        all.extend(std::iter::repeat_n(time(each)?, count.min(10_000)));
    }
    if all.is_empty() || all.len() > 10_000 {
        return Err("is not one to ten thousand members".into());
    }
    Ok(Members(all))
}

fn law(text: &str) -> Result<Law, String> {
    let words = [
        ("deterministic", Law::Deterministic),
        ("exponential", Law::Exponential),
        ("log-normal", Law::LogNormal(2.0)),
        ("pareto", Law::Pareto(1.5, PARETO_CUT)),
        ("bimodal", Law::Bimodal(0.05, 20.0)),
        ("size", Law::Size),
    ];
    one_of(text, &words)
}

fn arrivals(text: &str) -> Result<Arrivals, String> {
    let words = [
        ("poisson", Arrivals::Poisson),
        ("periodic", Arrivals::Periodic),
        ("bursts", Arrivals::Bursts),
        ("batches", Arrivals::Batches(50)),
    ];
    one_of(text, &words)
}

fn qos(text: &str) -> Result<Reliability, String> {
    let words = [
        ("0", Reliability::AtMostOnce),
        ("1", Reliability::AtLeastOnce),
        ("2", Reliability::ExactlyOnce),
    ];
    one_of(text, &words)
}

fn acks(text: &str) -> Result<Acks, String> {
    let words = [
        ("processed", Acks::Processed),
        ("started", Acks::Started),
        ("receipt", Acks::Receipt),
    ];
    one_of(text, &words)
}

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
