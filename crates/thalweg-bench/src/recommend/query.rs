//! What is asked.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValue;
use clap::{Arg, Args, Command, FromArgMatches, ValueEnum};

use super::axes::{AXES, Axis, short, unevenness};
use super::capability::Need;
use super::measure::Metric;
use crate::cell::word;
use crate::energy;
use crate::net::Loss;
use crate::net::units;
use crate::sim::command::{Members, members};

/// `thalweg bench recommend`
#[derive(Args, Clone, Debug, Default)]
pub struct RecommendArgs {
    /// Folder of results, or `paper` for the studies' published numbers, or `expected` for what we computed; repeatable
    #[arg(long = "data", value_name = "DIR")]
    pub data: Vec<PathBuf>,
    /// Size of a message: 60B, 4kB
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub payload: Option<usize>,
    /// Messages a second of each pair: 1/s, 0.05/s
    #[arg(long, value_name = "RATE", value_parser = units::frequency)]
    pub rate: Option<f64>,
    /// Publishers, each with a topic and its subscribers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub pairs: Option<u32>,
    /// Subscribers of each topic
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub fanout: Option<u32>,
    /// Packets lost each way: 15%
    #[arg(long, value_name = "PERCENT", value_parser = units::loss)]
    pub loss: Option<Loss>,
    /// Round trip of the network
    #[arg(long, value_name = "TIME", value_parser = units::span)]
    pub rtt: Option<Duration>,
    /// What the network carries, both directions and all pairs together: 1mbit
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    pub bandwidth: Option<u64>,
    /// What it cannot do without, several by commas
    #[arg(long = "need", value_enum, value_name = "NEED", value_delimiter = ',')]
    pub needs: Vec<Need>,
    /// No broker is to be between
    #[arg(long)]
    pub no_broker: bool,
    /// A broker may be built from a library
    #[arg(long)]
    pub custom_ok: bool,
    /// Consider only this broker
    #[arg(long, value_name = "NAME")]
    pub system: Option<String>,
    /// What is to be good
    #[arg(long, value_enum, value_name = "WHAT", default_value = "balanced")]
    pub objective: Objective,
    /// Several at once, in place of --objective: latency=2,bytes=1
    #[arg(long, value_name = "WEIGHTS", value_parser = weights)]
    pub weights: Option<Weights>,
    /// 99 of 100 messages arrive within this
    #[arg(long, value_name = "TIME", value_parser = units::span)]
    pub p99_max: Option<Duration>,
    /// A shared group, and what a message takes each member: 25ms,25ms,50ms; what is recommended is its strategy
    #[arg(long, value_name = "TIMES", value_parser = members)]
    pub members: Option<Members>,
    /// Other traffic on the network sends large bursts
    #[arg(long)]
    pub bursty_neighbour: bool,
    /// Whose energy is modelled
    #[arg(long, value_name = "PROFILE", value_parser = profile, default_value = "wifi-feeney")]
    pub energy_profile: String,
    /// Answer outside of what was measured, too, and mark it
    #[arg(long)]
    pub extrapolate: bool,
    /// Be asked for what the flags say
    #[arg(long)]
    pub interactive: bool,
    /// Print the answer as JSON
    #[arg(long)]
    pub json: bool,
    /// Write what was measured as a calibration of the adaptive client
    #[arg(long, value_name = "FILE")]
    pub write_calibration: Option<PathBuf>,
}

/// What is to be good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Objective {
    /// Mean time from when a message should have been sent until it is there
    Latency,
    /// Ethernet-frame bytes per message, both legs
    Bytes,
    /// Messages delivered a second
    Throughput,
    /// Processor time per message, clients and broker
    Cpu,
    /// Memory of the broker
    Memory,
    /// Modelled energy per message
    Energy,
    /// Latency, bytes, processor, memory and energy alike, as far as they were measured
    #[default]
    Balanced,
}

/// Weights of metrics; only their ratios matter.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights(pub Vec<(Metric, f64)>);

fn weights(text: &str) -> Result<Weights, String> {
    let weight = |part: &str| {
        let (name, weight) = part
            .split_once('=')
            .ok_or_else(|| format!("{part}: a weight is NAME=NUMBER"))?;
        let metric = Metric::named(name.trim()).ok_or_else(|| {
            format!("{name}: one of latency, bytes, throughput, cpu, memory, energy can be weighed")
        })?;
        match weight.trim().parse::<f64>() {
            Ok(weight) if weight > 0.0 && weight.is_finite() => Ok((metric, weight)),
            _ => Err(format!("{part}: a weight is above 0")),
        }
    };
    text.split(',')
        .map(weight)
        .collect::<Result<_, _>>()
        .map(Weights)
}

fn profile(text: &str) -> Result<String, String> {
    let names: Vec<&str> = energy::PROFILES.iter().map(|it| it.name.as_str()).collect();
    match names.contains(&text) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text}: profiles are {}", names.join(", "))),
    }
}

impl RecommendArgs {
    /// What was asked for on an axis.
    pub fn on(&self, axis: Axis) -> Option<f64> {
        let members = self.members.as_ref().map(|members| &members.0);
        match axis {
            Axis::Payload => self.payload.map(|it| it as f64),
            Axis::Rate => self.rate,
            Axis::Pairs => self.pairs.map(f64::from),
            Axis::FanOut => self.fanout.map(f64::from),
            Axis::RoundTrip => self.rtt.map(|it| it.as_secs_f64() * 1e3),
            Axis::Loss => self.loss.map(Loss::part),
            Axis::Members => members.map(|it| it.len() as f64),
            Axis::Unevenness => members.map(|it| unevenness(it)),
        }
    }

    /// What is weighed, and how much.
    pub fn goals(&self) -> Vec<(Metric, f64)> {
        use Metric::{Bytes, Cpu, Energy, Latency, Memory};
        let alike = |metrics: &[Metric]| metrics.iter().map(|it| (*it, 1.0)).collect();
        match (&self.weights, Metric::named(&word(self.objective))) {
            (Some(Weights(weights)), _) => weights.clone(),
            (None, Some(metric)) => alike(&[metric]),
            (None, None) => alike(&[Latency, Bytes, Cpu, Memory, Energy]),
        }
    }

    /// Whether a metric is one of those that are weighed.
    pub fn wants(&self, metric: Metric) -> bool {
        self.goals().iter().any(|(goal, _)| *goal == metric)
    }

    /// Whether a mean of several counts, of which some may be unknown.
    pub fn is_balanced(&self) -> bool {
        self.weights.is_none() && self.objective == Objective::Balanced
    }

    pub fn words(&self) -> String {
        let mut parts: Vec<String> = AXES
            .into_iter()
            .filter_map(|axis| Some(axis.words(self.on(axis)?)))
            .collect();
        if !self.needs.is_empty() {
            let needs: Vec<String> = self.needs.iter().map(|need| need.name()).collect();
            parts.push(format!("needs {}", needs.join(", ")));
        }
        for (is_said, words) in [
            (self.no_broker, "no broker"),
            (self.custom_ok, "built by oneself is fine"),
            (self.bursty_neighbour, "a bursty neighbour"),
        ] {
            parts.extend(is_said.then(|| words.to_owned()));
        }
        if let Some(bandwidth) = self.bandwidth {
            let kbit = short(bandwidth as f64 / 1000.0);
            parts.push(format!("at most {kbit} kbit/s"));
        }
        if let Some(most) = self.p99_max {
            let most = short(most.as_secs_f64() * 1e3);
            parts.push(format!("99 % within {most} ms"));
        }
        let goal = match &self.weights {
            Some(Weights(weights)) => {
                let weight = |(metric, weight): &(Metric, f64)| {
                    format!("{} x {}", metric.name(), short(*weight))
                };
                weights.iter().map(weight).collect::<Vec<_>>().join(", ")
            }
            None => word(self.objective),
        };
        parts.push(format!("objective {goal}"));
        parts.join("; ")
    }

    /// Takes one more flag; what is not said stays as it is.
    fn answer(&mut self, flag: &str, value: &str) -> Result<(), clap::Error> {
        let command = Self::augment_args_for_update(Command::new("").no_binary_name(true));
        let command = ["objective", "energy_profile"]
            .iter()
            .fold(command, |it, name| {
                it.mut_arg(name, |arg| arg.default_value(None))
            });
        self.update_from_arg_matches(&command.try_get_matches_from([flag, value])?)
    }

    /// Asks for what the flags say. An empty line leaves an answer out.
    pub fn ask(&mut self, input: &mut dyn BufRead, out: &mut dyn Write) -> io::Result<()> {
        let command = Self::augment_args(Command::new(""));
        let is_asked = |arg: &&Arg| ASKED.split(' ').any(|it| arg.get_id() == it);
        for arg in command.get_arguments().filter(is_asked) {
            let flag = format!("--{}", arg.get_long().unwrap_or_default());
            let question = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let choices = arg.get_possible_values();
            let choices: Vec<&str> = choices.iter().map(PossibleValue::get_name).collect();
            loop {
                write!(out, "{question} {}? ", choices.join(", "))?;
                out.flush()?;
                let mut line = String::new();
                if input.read_line(&mut line)? == 0 || line.trim().is_empty() {
                    break;
                }
                match self.answer(&flag, &line.replace(char::is_whitespace, "")) {
                    Ok(()) => break,
                    Err(words) => writeln!(out, "{words}")?,
                }
            }
        }
        writeln!(out)
    }
}

/// What is asked for by a question, whose words are those of its flag.
const ASKED: &str = "payload rate pairs fanout loss rtt bandwidth needs objective";

/// Bytes of a payload as flags take them.
pub fn size_flag(count: f64) -> String {
    let count = count.round() as u64;
    if count >= 1000 && count.is_multiple_of(1000) {
        format!("{}kB", count / 1000)
    } else {
        format!("{count}B")
    }
}
