//! What is asked.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::axes::{Axis, short};
use super::capability::Need;
use super::measure::Metric;
use crate::energy;
use crate::net::Loss;
use crate::net::units;

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

/// What a message takes each member, in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Members(pub Vec<f64>);

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

fn members(text: &str) -> Result<Members, String> {
    let times: Vec<f64> = text
        .split(',')
        .map(|part| Ok(units::span(part.trim())?.as_secs_f64() * 1e3))
        .collect::<Result<_, String>>()?;
    match times.iter().all(|time| *time > 0.0) {
        true => Ok(Members(times)),
        false => Err(format!("{text}: a member needs some time for a message")),
    }
}

fn profile(text: &str) -> Result<String, String> {
    energy::named(text)
        .map(|profile| profile.name.to_owned())
        .ok_or_else(|| {
            let names: Vec<&str> = energy::PROFILES
                .iter()
                .map(|profile| profile.name)
                .collect();
            format!("{text}: profiles are {}", names.join(", "))
        })
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
            Axis::Unevenness => members.map(|it| {
                let (least, most) = it.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), it| {
                    (a.min(*it), b.max(*it))
                });
                most / least
            }),
        }
    }

    /// What is weighed, and how much.
    pub fn goals(&self) -> Vec<(Metric, f64)> {
        if let Some(Weights(weights)) = &self.weights {
            return weights.clone();
        }
        let one = |metric| vec![(metric, 1.0)];
        match self.objective {
            Objective::Latency => one(Metric::Latency),
            Objective::Bytes => one(Metric::Bytes),
            Objective::Throughput => one(Metric::Throughput),
            Objective::Cpu => one(Metric::Cpu),
            Objective::Memory => one(Metric::Memory),
            Objective::Energy => one(Metric::Energy),
            Objective::Balanced => [
                Metric::Latency,
                Metric::Bytes,
                Metric::Cpu,
                Metric::Memory,
                Metric::Energy,
            ]
            .map(|it| (it, 1.0))
            .to_vec(),
        }
    }

    /// Whether a mean of several counts, of which some may be unknown.
    pub fn is_balanced(&self) -> bool {
        self.weights.is_none() && self.objective == Objective::Balanced
    }

    pub fn words(&self) -> String {
        let mut parts: Vec<String> = super::axes::AXES
            .into_iter()
            .filter_map(|axis| Some(axis.words(self.on(axis)?)))
            .collect();
        let needs: Vec<String> = self.needs.iter().map(|need| need.name()).collect();
        if !needs.is_empty() {
            parts.push(format!("needs {}", needs.join(", ")));
        }
        if self.no_broker {
            parts.push("no broker".to_owned());
        }
        if self.custom_ok {
            parts.push("built by oneself is fine".to_owned());
        }
        if self.bursty_neighbour {
            parts.push("a bursty neighbour".to_owned());
        }
        if let Some(bandwidth) = self.bandwidth {
            parts.push(format!(
                "at most {} kbit/s",
                short(bandwidth as f64 / 1000.0)
            ));
        }
        if let Some(most) = self.p99_max {
            parts.push(format!(
                "99 % within {} ms",
                short(most.as_secs_f64() * 1e3)
            ));
        }
        let goal = match &self.weights {
            Some(Weights(weights)) => {
                let weights: Vec<String> = weights
                    .iter()
                    .map(|(metric, weight)| format!("{} x {}", metric.name(), short(*weight)))
                    .collect();
                weights.join(", ")
            }
            None => self
                .objective
                .to_possible_value()
                .map_or_else(String::new, |it| it.get_name().to_owned()),
        };
        parts.push(format!("objective {goal}"));
        parts.join("; ")
    }

    /// Asks for what the flags say. An empty line leaves an answer out.
    pub fn ask(&mut self, input: &mut dyn BufRead, out: &mut dyn Write) -> io::Result<()> {
        ask(
            input,
            out,
            "Size of a message (60B, 4kB)",
            units::size,
            &mut self.payload,
        )?;
        ask(
            input,
            out,
            "Messages a second of each publisher (1/s)",
            units::frequency,
            &mut self.rate,
        )?;
        let count = |text: &str| {
            text.parse::<u32>()
                .ok()
                .filter(|it| *it > 0)
                .ok_or_else(|| format!("{text}: a count"))
        };
        ask(input, out, "Publishers", count, &mut self.pairs)?;
        ask(
            input,
            out,
            "Subscribers of each topic",
            count,
            &mut self.fanout,
        )?;
        ask(
            input,
            out,
            "Packets lost each way (15%)",
            units::loss,
            &mut self.loss,
        )?;
        ask(
            input,
            out,
            "Round trip of the network (20ms)",
            units::span,
            &mut self.rtt,
        )?;
        ask(
            input,
            out,
            "What the network carries (1mbit)",
            units::rate,
            &mut self.bandwidth,
        )?;
        let mut needs = None;
        let read = |text: &str| {
            text.split(',')
                .map(|it| Need::from_str(it.trim(), true))
                .collect::<Result<Vec<_>, _>>()
        };
        let names: Vec<String> = Need::value_variants()
            .iter()
            .map(|need| need.name())
            .collect();
        ask(
            input,
            out,
            &format!("Needs, by commas ({})", names.join(", ")),
            read,
            &mut needs,
        )?;
        self.needs.extend(needs.unwrap_or_default());
        let mut objective = None;
        let names = "latency, bytes, throughput, cpu, memory, energy, balanced";
        ask(
            input,
            out,
            &format!("What is to be good ({names})"),
            |it| Objective::from_str(it, true),
            &mut objective,
        )?;
        self.objective = objective.unwrap_or(self.objective);
        writeln!(out)
    }
}

fn ask<T>(
    input: &mut dyn BufRead,
    out: &mut dyn Write,
    what: &str,
    read: impl Fn(&str) -> Result<T, String>,
    to: &mut Option<T>,
) -> io::Result<()> {
    loop {
        write!(out, "{what}: ")?;
        out.flush()?;
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 || line.trim().is_empty() {
            return Ok(());
        }
        match read(line.trim()) {
            Ok(value) => {
                *to = Some(value);
                return Ok(());
            }
            Err(words) => writeln!(out, "{words}")?,
        }
    }
}

/// Bytes of a payload as flags take them.
pub fn size_flag(count: f64) -> String {
    let count = count.round() as u64;
    if count >= 1000 && count.is_multiple_of(1000) {
        format!("{}kB", count / 1000)
    } else {
        format!("{count}B")
    }
}
