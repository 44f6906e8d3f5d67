//! What `thalweg bench` passes on from its command line, and the exit codes.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Subcommand;

use crate::calibrate::command::{self as calibrate, CalibrateArgs};
use crate::cell::word;
use crate::compare::command::{self as compare, CompareArgs};
use crate::doctor::{self, DoctorArgs};
use crate::export::{self, ExportArgs};
use crate::net::command::{self as net, NetCommand};
use crate::net::nest;
use crate::recommend::{self, RecommendArgs};
use crate::roles::args::{PingArgs, PongArgs, PubArgs, RelayArgs, SubArgs};
use crate::roles::command as roles;
use crate::saturate::command::{self as saturate, SaturateArgs};
use crate::scenario::command::{self as scenario, RunArgs};
use crate::speed::command::{self as speed, SpeedCommand};
use crate::studies::args::{Suite, SuiteArgs};
use crate::studies::{self, Study};
use crate::traces::command::{self as traces, GenArgs, ReplayArgs};
use crate::{paper, sim};

/// How a run ended; the number is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything that was to be shown was shown.
    Done = 0,
    /// It could not be run.
    Failed = 1,
    /// It ran, but what was measured does not count.
    Invalid = 2,
    /// It counts, and a shape of the study did not come out.
    ShapeFailed = 3,
    /// Ctrl-C; what there was is written.
    Interrupted = 4,
}

/// `thalweg bench …`
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Repeat a study in real time: real connections, workers that sleep, networks that lose packets
    ///
    /// Writes raw files, tables and drawings to a folder, and says beside each figure of the study what ours is. Exits
    /// with 0 if all shapes of the study came out and all bars held, with 2 if no measurement counts (the machine was too
    /// busy), with 3 if a shape did not come out, and with 4 after Ctrl-C; what was measured is written then, too.
    #[command(after_help = "Examples:
  thalweg bench suite all --budget quick --install --out results    # 20 minutes; one page: results/report.html
  thalweg bench suite E2 --like E2b                        # only bytes and delay against loss
  thalweg bench suite E5
  thalweg bench suite E5 --budget standard --out results
  thalweg bench suite E5 --only core --repeats 1 --seed 7
  thalweg bench suite E2d --payload 60B,600B --delay 0,50ms --budget standard   # ten minutes and more
  thalweg bench suite E2d --step 20s --objective bytes")]
    Suite(SuiteArgs),
    /// Measure what a scenario says, and write a folder of results
    ///
    /// Exits with 0 if everything came out, with 2 if some point has no trial that counts (they are named), with 3 if an
    /// assertion does not hold, and with 4 after Ctrl-C; what was measured is written then, too, and --resume goes on with it.
    #[command(after_help = "Examples:
  thalweg bench run examples/scenarios/brokers.yaml --budget quick --out results
  thalweg bench run brokers.yaml --set system.name=mosquitto --set load.rate=100/s
  thalweg bench run brokers.yaml --out results --resume    # after Ctrl-C")]
    Run(RunArgs),
    /// The same; refuses a scenario in which nothing varies
    Sweep(RunArgs),
    /// Search for the highest rate that lasts, for each point of a scenario
    ///
    /// Doubles the rate until a short trial fails, halves what is between until it is known to --tol, and confirms with three
    /// long ones. A rate lasts if no more than --loss is lost, what is under way does not grow, the 99th percentile is within
    /// --p99, and what sends kept its times.
    #[command(after_help = "Examples:
  thalweg bench saturate examples/scenarios/brokers.yaml --set load.rate=10/s --p99 5ms
  thalweg bench saturate brokers.yaml --set system.name=mosquitto --loss 0.1% --tol 5%")]
    Saturate(SaturateArgs),
    /// Make a trace: what sources of the studies send, and when
    #[command(after_help = "Examples:
  thalweg bench gen simple --seed 1 --out sensors.trace               # 1000 sensors, a day, distributions
  thalweg bench gen multimedia --hours 2 --out cameras.trace          # 34 cameras, every image
  thalweg bench gen burst --rate 10/s --burst 100 --size 60B --hours 1 --out burst.trace")]
    Gen(GenArgs),
    /// Replay a trace through a broker
    #[command(after_help = "Examples:
  thalweg bench replay cameras.trace --speed 20
  thalweg bench replay sensors.trace --flows 40 --protocol amqp --system rabbitmq --measure 30s")]
    Replay(ReplayArgs),
    /// Say what changed between two folders of results, and whether it is more than noise
    ///
    /// Points that both have are compared by medians with intervals, Welch's test on logarithms with Holm's correction, effect
    /// size, and two one-sided tests for "equal"; counts exactly. With --fail it exits with 3 if something is worse.
    #[command(after_help = "Examples:
  thalweg bench compare results-before results-now
  thalweg bench compare main branch --only p99,bytes_per_msg --fail")]
    Compare(CompareArgs),
    /// Print a folder of results in a form that other programs read
    #[command(after_help = "Examples:
  thalweg bench export results --format openmetrics > results.prom
  thalweg bench export results --format hgrm > response.hgrm")]
    Export(ExportArgs),
    /// Render the report of a folder anew, from its raw files
    Report {
        /// Folder of results, as `--out` named it
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        /// Print the summary as JSON
        #[arg(long)]
        json: bool,
    },
    /// Which protocol, quality of service and settings, or which strategy of a group: from measurements
    ///
    /// What cannot do what is needed is left out with the reason; the rest is estimated between measurements, never beyond
    /// them, and ranked with ties. Exits with 0 for an answer, with 2 if the data do not tell (the command that would
    /// measure it is printed), and with 3 if nothing can do what is needed.
    #[command(after_help = "Examples:
  thalweg bench recommend --payload 60B --loss 15% --need at-least-once --objective bytes --data results
  thalweg bench recommend --payload 36B --custom-ok --objective throughput --data paper
  thalweg bench recommend --members 25ms,25ms,50ms --objective latency --data bench-results/2026-11-22-e5/core
  thalweg bench recommend --interactive --data results
  thalweg bench recommend --data results --write-calibration calibration.json")]
    Recommend(Box<RecommendArgs>),
    /// Measure known quantities, to show that unknown ones can be trusted
    ///
    /// Each test says what it expected and what it found. Exits with 3 if one of them did not come out.
    #[command(after_help = "Examples:
  thalweg bench calibrate
  thalweg bench calibrate --quick --only stall,counting")]
    Calibrate(CalibrateArgs),
    /// Publish by a schedule that does not move
    #[command(after_help = "Examples:
  thalweg bench pub mqtt://127.0.0.1 --rate 1000/s --duration 10s
  thalweg bench pub coap://127.0.0.1 --qos 1 --rate 5/s --count 100 --json
  thalweg bench pub mqtt://127.0.0.1 --driver bare --flood --duration 5s --flows 10 --size 36B")]
    Pub(PubArgs),
    /// Receive what `pub` sends, count it, and tell how old it is
    #[command(after_help = "Examples:
  thalweg bench sub mqtt://127.0.0.1 --duration 10s
  thalweg bench sub amqp://127.0.0.1 --qos 1 --flows 10 --count 1000     # published by MQTT, perhaps")]
    Sub(SubArgs),
    /// Ask, and tell how long it takes until `pong` has answered
    #[command(after_help = "Examples:
  thalweg bench ping mqtt://127.0.0.1 --rate 100/s --count 1000
  thalweg bench ping coap://127.0.0.1 --back mqtt://127.0.0.1 --qos 1")]
    Ping(PingArgs),
    /// Answer `ping`
    Pong(PongArgs),
    /// Publish at one broker what comes from another, or by another protocol
    #[command(after_help = "Examples:
  thalweg bench relay mqtt://127.0.0.1 amqp://127.0.0.1 --qos 1     # from lab/… to relayed/…")]
    Relay(RelayArgs),
    /// What this machine can measure, what it cannot, and what each lack means
    ///
    /// Exits with 0 if every suite can be run, and with 1 if not. Brokers and libraries that are not there are no lack: what
    /// needs them is left out.
    #[command(after_help = "Examples:
  thalweg bench doctor
  thalweg bench doctor --install       # as root: brokers to measure against; stock client libraries")]
    Doctor(DoctorArgs),
    /// Networks to measure in: namespaces, loss, delay; needs root or user namespaces
    #[command(subcommand)]
    Net(NetCommand),
    /// How fast clients publish: sinks, and this client
    #[command(subcommand)]
    Speed(SpeedCommand),
    /// Run something in virtual time
    #[command(subcommand)]
    Sim(SimCommand),
}

/// `thalweg bench sim …`
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// A shared group in virtual time: the kernel itself, thousands of seconds in one
    Share(sim::command::ShareArgs),
}

/// Runs the command; results go to `out`, everything else to standard error.
pub fn run(command: &BenchCommand, out: &mut dyn Write) -> io::Result<Outcome> {
    match command {
        BenchCommand::Suite(args) => {
            if args.install && !nest::is_restarted() {
                doctor::install(&mut io::stderr())?;
            }
            match args.suite {
                Suite::E2d | Suite::E5 if args.counting.count_system_calls.is_some() => Err(
                    io::Error::other("system calls are counted in E1 to E4, and not in E2d and E5"),
                ),
                Suite::All => studies::all::run(args, out),
                suite => match Study::of(&word(suite)) {
                    Some(study) => studies::suite::run(study, args, out),
                    None => Err(io::Error::other(format!(
                        "there is no study {}",
                        word(suite)
                    ))),
                },
            }
        }
        BenchCommand::Run(args) => scenario::run(args, false, out),
        BenchCommand::Sweep(args) => scenario::run(args, true, out),
        BenchCommand::Saturate(args) => saturate::run(args, out),
        BenchCommand::Gen(args) => traces::generate_file(args, out),
        BenchCommand::Replay(args) => traces::replay(args, out),
        BenchCommand::Compare(args) => compare::run(args, out),
        BenchCommand::Export(args) => export::run(args, out),
        BenchCommand::Report { dir, json } => {
            let found = paper::render(dir)?;
            found.print(*json, out)?;
            Ok(found.outcome)
        }
        BenchCommand::Recommend(args) => recommend::run(args, out),
        BenchCommand::Pub(args) => roles::publish(args, out),
        BenchCommand::Sub(args) => roles::subscribe(args, out),
        BenchCommand::Ping(args) => roles::ping(args, out),
        BenchCommand::Pong(args) => roles::pong(args, out),
        BenchCommand::Relay(args) => roles::relay(args, out),
        BenchCommand::Calibrate(args) => {
            // Where that cannot be, tests that need networks are skipped, and say why.
            let _ = nest::enter();
            calibrate::run(args, out)
        }
        BenchCommand::Doctor(args) => {
            // It looks from where things will be measured.
            if !args.installs() {
                let _ = nest::enter();
            }
            doctor::run(args, out)
        }
        BenchCommand::Net(command) => net::run(command, out),
        BenchCommand::Speed(command) => speed::run(command, out),
        BenchCommand::Sim(SimCommand::Share(args)) => sim::command::run(args, out),
    }
}
