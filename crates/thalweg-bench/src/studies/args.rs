//! What `thalweg bench suite` takes.

use std::path::PathBuf;

use clap::Args;

use super::plan::{Budget, Part};
use crate::e2d::plan::CourseArgs;
use crate::scenario::command::CountingArgs;

/// `thalweg bench suite …`
#[derive(Args, Clone, Debug)]
pub struct SuiteArgs {
    /// Study to run, or all
    #[arg(value_name = "SUITE", value_enum)]
    pub suite: Suite,
    /// How much: quick takes minutes (all of them together 20), standard hours, paper as long as the studies
    #[arg(long, value_name = "BUDGET", value_enum, default_value = "quick")]
    pub budget: Budget,
    /// E5: only these parts. Default: all of them
    #[arg(long, value_name = "PART", value_enum)]
    pub only: Vec<Part>,
    /// Only cells in whose key (in it E5 has part, scenario, point and strategy) one of these is, such as 'on receipt' or E2b
    #[arg(long, value_name = "WORDS")]
    pub like: Vec<String>,
    /// Repeats of every cell, instead of what the budget says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: Option<u32>,
    /// Folder for the results; must be new or empty. Default: the suite and the time, such as E5-1795400000
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Install first what is measured against and is not there, as `doctor --install` does: packages as root only, client
    /// libraries into a folder of their own
    #[arg(long)]
    pub install: bool,
    /// Go on in the folder of a run that was interrupted
    #[arg(long)]
    pub resume: bool,
    /// E5: a broker that runs, such as mqtt://127.0.0.1:1883, with the policies of docs/bench.md. Default: start one
    #[arg(long, value_name = "URL")]
    pub broker: Option<String>,
    /// What arrivals, service demands and the order of cells are drawn from
    #[arg(long, value_name = "N", default_value_t = 101)]
    pub seed: u64,
    /// E5: cells run side by side as long as they have no more messages a second than this together
    #[arg(long, value_name = "N", default_value_t = 1500.0)]
    pub rate_max: f64,
    /// E1 to E4, all: count system calls
    #[command(flatten)]
    pub counting: CountingArgs,
    /// What only E2d takes
    #[command(flatten)]
    pub course: CourseArgs,
    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,
    /// Say nothing while it runs
    #[arg(long)]
    pub quiet: bool,
    /// Two cells of two seconds: to see that everything works
    #[arg(long, hide = true)]
    pub smoke: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Suite {
    /// Three classes of traffic through brokers of several protocols: throughput, ceilings, latency
    #[value(name = "E1")]
    E1,
    /// Delay and bytes of MQTT and CoAP against loss; needs root or user namespaces
    #[value(name = "E2")]
    E2,
    /// Flood, periodic and sporadic traffic over a link of 95 Mbit/s, policies of DDS; needs root or user namespaces
    #[value(name = "E3")]
    E3,
    /// MQTT, AMQP and STOMP on one device; needs root or user namespaces
    #[value(name = "E4")]
    E4,
    /// All of them, each in a folder of its own, and one page; needs root or user namespaces
    #[value(name = "all")]
    All,
    /// The adaptive client through a link whose loss changes; needs root or user namespaces
    #[value(name = "E2d")]
    E2d,
    /// Shared subscriptions that follow the state of their members
    #[value(name = "E5")]
    E5,
}
