//! `thalweg bench gen` and `replay`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::classes::{Class, Order, generate};
use super::trace::{Body, Trace};
use crate::command::Outcome;
use crate::net::nest;
use crate::runner::stopper;
use crate::scenario::command::{ResultArgs, RunArgs, measure};
use crate::scenario::{self, Scenario};
use crate::trial;

/// `thalweg bench gen …`
#[derive(Args, Clone, Debug)]
pub struct GenArgs {
    /// Class of traffic to generate
    #[arg(value_name = "CLASS", value_enum)]
    pub class: Class,
    /// What is drawn from: equal seeds give equal files
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// File to write; an existing one is replaced
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// How long, from midnight
    #[arg(long, value_name = "HOURS", default_value_t = 24.0)]
    pub hours: f64,
    /// Publishers. Default: 34 cameras, 2 companies, else 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub sources: Option<u32>,
    /// Sensors, cars or cameras of a publisher. Default: 1000, 16000 or 1; 10 cameras are one publisher of the study
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub members: Option<u32>,
    /// Every message, or distributions of each quarter of an hour. Default: bins for simple and complex
    #[arg(long, value_name = "FORM", value_enum)]
    pub form: Option<Form>,
    /// Messages of a source: periodic, burst
    #[arg(long, value_name = "RATE", value_parser = crate::net::units::frequency)]
    pub rate: Option<f64>,
    /// Size of a message: periodic, burst, json
    #[arg(long, value_name = "SIZE", value_parser = scenario::bytes)]
    pub size: Option<u32>,
    /// Messages of a burst
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub burst: Option<u32>,
}

/// Form of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A line for each message
    Messages,
    /// Distributions of gaps and sizes
    Bins,
}

/// Makes a trace and says what is in it.
pub fn generate_file(args: &GenArgs, out: &mut dyn Write) -> io::Result<Outcome> {
    let usual = Order::of(args.class, args.seed);
    let order = Order {
        hours: args.hours,
        sources: args.sources.unwrap_or(usual.sources),
        members: args.members.unwrap_or(usual.members),
        is_binned: args.form.map_or(usual.is_binned, |form| form == Form::Bins),
        rate: args.rate.unwrap_or(usual.rate),
        bytes: args.size.unwrap_or(usual.bytes),
        burst: args.burst.unwrap_or(usual.burst),
        ..usual
    };
    let trace = generate(&order).map_err(io::Error::other)?;
    let mut file = BufWriter::new(File::create(&args.out)?);
    trace.write(&mut file)?;
    file.flush()?;
    match &trace.body {
        Body::Messages(messages) => {
            let bytes: u64 = messages
                .iter()
                .map(|message| u64::from(message.bytes))
                .sum();
            let count = messages.len() as f64;
            let rate = count / (order.hours * 3600.0);
            writeln!(
                out,
                "{count} messages of {} sources, {rate:.3}/s, {:.1} B each",
                order.sources,
                bytes as f64 / count
            )?;
        }
        Body::Bins(bins) => {
            let rates = bins.iter().flatten().map(|bin| bin.rate);
            let (low, high) = (
                rates.clone().fold(f64::INFINITY, f64::min),
                rates.fold(0.0, f64::max),
            );
            writeln!(
                out,
                "{} quarters of an hour, {low:.3}/s to {high:.3}/s a source",
                bins.len()
            )?;
        }
    }
    Ok(Outcome::Done)
}

/// `thalweg bench replay …`
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    /// The trace, of `thalweg bench gen` or your own
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// Publishers. Default: as many as the trace has
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub flows: Option<u32>,
    /// Faster by this factor; distributions keep their rates, and their day gets shorter
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub speed: f64,
    /// Protocol of both sides
    #[arg(long, value_name = "PROTOCOL", default_value = "mqtt")]
    pub protocol: String,
    /// How sure: 0 to 2
    #[arg(long, value_name = "QOS", default_value_t = 0)]
    pub qos: u8,
    /// Broker, or HOST:PORT of one
    #[arg(long, value_name = "SYSTEM", default_value = "own")]
    pub system: String,
    /// How long is measured
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub measure: String,
    /// Number of repeats of each cell
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub repeats: u32,
    /// Anything else of a scenario, such as topology.kind=t3
    #[arg(long, value_name = "KEY=VALUE", value_parser = scenario::command::pair)]
    pub set: Vec<(String, String)>,
    #[command(flatten)]
    pub results: ResultArgs,
}

pub fn replay(args: &ReplayArgs, out: &mut dyn Write) -> io::Result<Outcome> {
    let scenario = scenario_of(args)?;
    nest::enter_for(&scenario.cells)?;
    let run = RunArgs {
        scenario: args.trace.clone(),
        changes: scenario::command::Changes::default(),
        side_by_side: 1,
        results: args.results.clone(),
    };
    measure(&scenario, &run, out, &stopper(), &trial::run)
}

/// A scenario like any other: the same checks, the same files.
fn scenario_of(args: &ReplayArgs) -> io::Result<Scenario> {
    let trace = Trace::open(&args.trace).map_err(io::Error::other)?;
    let flows = args.flows.unwrap_or_else(|| trace.sources());
    let text = format!(
        "name: replay\nrepeats: {}\nsystem: {{name: '{}'}}\nprotocol: {{publish: {}, qos: {}}}\n\
         workload: {{class: trace, file: '{}'}}\nload: {{model: replay, speed: {}, flows: {flows}}}\n\
         phases: {{warmup: 0ms, measure: {}}}\n",
        args.repeats,
        args.system.replace('\'', "''"),
        args.protocol,
        args.qos,
        args.trace.display().to_string().replace('\'', "''"),
        args.speed,
        args.measure,
    );
    scenario::parse(&text, &args.set, None).map_err(io::Error::other)
}
