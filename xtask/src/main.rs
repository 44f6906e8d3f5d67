//! What a contributor runs: `cargo xtask test` is everything, the other words are its parts.
//!
//! *Knows:* the tree, cargo, and the programs that the tests need. *Must never know:* a crate of the broker; it looks at them
//! from outside only. Start reading at [`whole`], which is what `test` does.
#![forbid(unsafe_code)]

mod amqp_methods;
mod changed;
mod code_metrics;
mod compiler;
mod crash;
mod docs;
mod fuzz;
mod instructions;
mod packages;
mod program;
mod python;
mod report;
mod site;
mod soak;
mod suites;
mod supply;
mod test_programs;
mod tidy;
mod wheels;
mod whole;
mod workshop;

use std::path::PathBuf;
use std::process::ExitCode;

use program::Program;
use report::{Outcome, Report};

const USAGE: &str = "\
cargo xtask WORD

  test [--serial]          everything below down to bench-instructions; installs what it needs. Steps that wait run beside
                           others, with --serial one after another
  test --changed [BASE]    tidy, fmt and the tests that a change reaches, nearest first, for two minutes; the change is
                           against BASE or where this branch left main
  tidy                     the rules of the house: arrows, words, shape of files, links
  fmt                      cargo fmt --check
  lint                     clippy, warnings are errors; within test the compiler of what test builds
  supply                   licences, bans and sources of dependencies against deny.toml; writes target/thalweg.cdx.json
  unit [FILTER]            tests beside the code of every crate, and the examples in comments
  suites [FILTER]          test programs of every crate but thalweg-tests
  build                    the programs that integration, interop and python run
  docs [--bless]           generated documents are up to date; builds the site
  integration [FILTER]     thalweg-tests without foreign clients
  interop [FILTER]         foreign clients; installs them below target/interop
  python [FILTER]          the Python bindings, installed below target/python, and their tests
  bench-instructions [--bless] [FILTER]
                           instructions per operation against bench-results/instructions.toml

  site                     the documents as pages with search, in target/site
  wheels [FILTER]          wheels (x86_64, aarch64) and sdist of the Python bindings in target/wheels, tried
  amqp-methods [--check]   writes (compares) the methods of AMQP from their description
  oracle                   records anew what RabbitMQ does, for interop to compare with (installs rabbitmq-server)
  code-metrics             tables of lines, fields, parameters and recursion, as Markdown
  fuzz [--seconds N] [TARGET]
                           each fuzz target for N seconds (60)
  sim [--seed N]           the simulation, with one seed or the usual ones
  soak [--minutes N] [--seed S] [PART]
                           what needs minutes, luck or an idle machine and is no part of test, for N minutes each (3): kills
                           and power-cuts (crash tests, seed S), abuse, seeds (of the simulation), groups (their study in
                           full size), fuzz (each target)

Options of test, integration, interop and soak: --release runs the release binary instead of the dev one.
THALWEG_TEST_BROKER=mosquitto runs integration, interop and soak kills against mosquitto instead of Thalweg.
";

/// A part of `cargo xtask test` that also runs alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Tidy,
    Fmt,
    Lint,
    Supply,
    Unit,
    Suites,
    Build,
    Docs,
    Integration,
    Interop,
    Python,
    BenchInstructions,
    Oracle,
    Fuzz,
    Sim,
    AmqpMethods,
    CodeMetrics,
    Wheels,
    Site,
}

impl Step {
    /// What `test` runs.
    const TEST: [Self; 12] = [
        Self::Tidy,
        Self::Fmt,
        Self::Supply,
        Self::Lint,
        Self::Unit,
        Self::Suites,
        Self::Build,
        Self::Docs,
        Self::Integration,
        Self::Interop,
        Self::Python,
        Self::BenchInstructions,
    ];

    fn of(word: &str) -> Option<Self> {
        let more = [
            Self::Oracle,
            Self::Fuzz,
            Self::Sim,
            Self::AmqpMethods,
            Self::CodeMetrics,
            Self::Wheels,
            Self::Site,
        ];
        Self::TEST
            .into_iter()
            .chain(more)
            .find(|step| step.word() == word)
    }

    fn word(self) -> &'static str {
        match self {
            Self::Tidy => "tidy",
            Self::Fmt => "fmt",
            Self::Lint => "lint",
            Self::Supply => "supply",
            Self::Unit => "unit",
            Self::Suites => "suites",
            Self::Build => "build",
            Self::Docs => "docs",
            Self::Integration => "integration",
            Self::Interop => "interop",
            Self::Python => "python",
            Self::BenchInstructions => "bench-instructions",
            Self::Oracle => "oracle",
            Self::Fuzz => "fuzz",
            Self::Sim => "sim",
            Self::AmqpMethods => "amqp-methods",
            Self::CodeMetrics => "code-metrics",
            Self::Wheels => "wheels",
            Self::Site => "site",
        }
    }

    fn run(self, options: &Options) -> Outcome {
        match self {
            Self::Tidy => tidy::run(),
            Self::Fmt => Program::cargo(["fmt", "--all", "--check"]).outcome(),
            Self::Lint if options.built => {
                let rest = [
                    "test",
                    "--workspace",
                    "--all-targets",
                    "--no-run",
                    "--quiet",
                ];
                Program::cargo(rest).with_dds().outcome_of_build()
            }
            Self::Lint => Program::cargo(["clippy", "--workspace", "--all-targets", "--quiet"])
                .with_dds()
                .args(["--", "-D", "warnings"])
                .outcome(),
            Self::Supply => supply::run(),
            Self::Unit => {
                let beside_code = options.crate_tests(&["--lib", "--bins"]).outcome_of_tests();
                let in_comments = options.crate_tests(&["--doc"]);
                beside_code.and(in_comments.outcome_of_tests_or_none())
            }
            Self::Suites => suites::run(options),
            Self::Build => options.build_broker().outcome(),
            Self::Docs => docs::run(options.bless),
            Self::Integration => match packages::for_integration() {
                Ok(()) => options
                    .tests_that_wait()
                    .args(&options.filter)
                    .outcome_of_tests(),
                Err(why) => Outcome::failed(why),
            },
            Self::Interop => interop(options),
            Self::Python => python::run(options.release, options.filter.as_deref()),
            Self::BenchInstructions => instructions::run(options.bless, options.filter.as_deref()),
            Self::AmqpMethods => amqp_methods::run(options.check),
            Self::CodeMetrics => code_metrics::run(),
            Self::Wheels => wheels::run(options.filter.as_deref()),
            Self::Site => site::run(),
            Self::Oracle => oracle_recording(),
            Self::Fuzz => fuzz::run(options.seconds, options.filter.as_deref()),
            Self::Sim => {
                let mut program =
                    Program::cargo(["test", "--package", "thalweg-fronts", "--test", "sim"]);
                if let Some(seed) = &options.seed {
                    program = program.env("THALWEG_SIM_SEED", seed);
                }
                program.args(["--", "--nocapture"]).outcome_of_tests()
            }
        }
    }
}

fn interop(options: &Options) -> Outcome {
    // RabbitMQ is there for our client to talk to.
    match packages::for_interop()
        .and_then(|()| packages::for_oracle())
        .and_then(|()| workshop::install())
    {
        Ok(()) => options
            .tests_that_wait()
            .args([options.filter.as_deref().unwrap_or("interop::")])
            .args(["--include-ignored"])
            .outcome_of_tests(),
        Err(why) => Outcome::failed(why),
    }
}

/// Plays the oracle's scenarios against RabbitMQ and writes down what it does.
fn oracle_recording() -> Outcome {
    let first_port = std::env::var("THALWEG_ORACLE_PORT").unwrap_or_else(|_| "20900".to_owned());
    match packages::for_interop()
        .and_then(|()| packages::for_oracle())
        .and_then(|()| workshop::install())
    {
        Ok(()) => Program::new(&workshop::python_program())
            .args([
                "-B",
                "crates/thalweg-tests/interop/oracle/record.py",
                &first_port,
            ])
            .outcome(),
        Err(why) => Outcome::failed(why),
    }
}

/// The words after the first.
#[derive(Debug)]
struct Options {
    bless: bool,
    check: bool,
    release: bool,
    /// `test`: only what a change can reach.
    changed: bool,
    /// `test`: one step at a time.
    serial: bool,
    /// Set by `test`: what the step needs is built already, by clippy and with the features of the whole workspace.
    built: bool,
    seconds: u32,
    minutes: f64,
    seed: Option<String>,
    filter: Option<String>,
}

impl Options {
    fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            bless: false,
            check: false,
            release: false,
            changed: false,
            serial: false,
            built: false,
            seconds: 60,
            minutes: 3.0,
            seed: None,
            filter: None,
        };
        let mut words = words;
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--bless" => options.bless = true,
                "--check" => options.check = true,
                "--release" => options.release = true,
                "--changed" => options.changed = true,
                "--serial" => options.serial = true,
                "--built" => options.built = true,
                "--minutes" => {
                    options.minutes = value()?
                        .parse()
                        .map_err(|error| format!("--minutes: {error}"))?
                }
                "--seconds" => {
                    options.seconds = value()?
                        .parse()
                        .map_err(|error| format!("--seconds: {error}"))?
                }
                "--seed" => options.seed = Some(value()?),
                other if other.starts_with('-') => return Err(format!("unknown option {other}")),
                other => options.filter = Some(other.to_owned()),
            }
        }
        Ok(options)
    }

    fn build_broker(&self) -> Program {
        let release: &[&str] = if self.release { &["--release"] } else { &[] };
        Program::cargo([
            "build",
            "--quiet",
            "--package",
            "thalweg",
            "--package",
            "thalweg-bench",
        ])
        .args(release)
    }

    /// Tests of these targets of every crate that does not need a broker.
    fn crate_tests(&self, targets: &[&str]) -> Program {
        Program::cargo(["test", "--workspace", "--exclude", "thalweg-tests"])
            .args(["--no-fail-fast", "--quiet"])
            .with_dds()
            .args(targets)
            .args(&self.filter)
    }

    /// [`Self::tests`] with two at a time for each core, because they wait for sockets, processes and time.
    fn tests_that_wait(&self) -> Program {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        self.tests()
            .env("RUST_TEST_THREADS", &(2 * cores).to_string())
    }

    /// The integration program on the broker that `build` made.
    fn tests(&self) -> Program {
        let folder = if self.release { "release" } else { "debug" };
        let broker = tree().join("target").join(folder).join("thalweg");
        let mut program = match std::env::var(whole::INTEGRATION_FILE) {
            // Cargo would wait until it may look whether something is to be compiled.
            Ok(program) => Program::new(&program)
                .args(["--quiet"])
                .folder(&tree().join("crates/thalweg-tests")),
            Err(_) => Program::cargo(["test", "--quiet", "--test", "all"]).args([
                "--package",
                "thalweg-tests",
                "--",
            ]),
        };
        if std::env::var_os("THALWEG_BIN").is_none() && broker.exists() {
            program = program.env("THALWEG_BIN", &broker.display().to_string());
        }
        program
    }
}

/// The root of the work tree.
fn tree() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies below the root")
        .to_owned()
}

fn main() -> ExitCode {
    if let Some(compiled) = compiler::run() {
        return compiled;
    }
    // Asked for before cargo writes it anew.
    let own = std::env::current_exe().unwrap_or_default();
    let mut words = std::env::args().skip(1);
    let word = words.next().unwrap_or_default();
    let options = match Options::parse(words) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("{why}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let report = Report::new();
    match Step::of(&word) {
        _ if word == "test" && options.changed => {
            changed::run(options.filter.as_deref(), &options, &report)
        }
        _ if word == "test" => whole::run(&own, &options, &report),
        _ if word == "soak" => soak::run(&options, &report),
        // The tests need a broker that is not stale; alone they build it first.
        Some(step @ (Step::Integration | Step::Interop)) if !oracle() && !options.built => {
            let build = || Step::Build.run(&options);
            if report.run(Step::Build.word(), build) {
                report.run(step.word(), || step.run(&options));
            }
        }
        // Within `test` what is published is compared; the site is for readers.
        Some(Step::Docs) if !options.built => {
            report.run(Step::Docs.word(), || Step::Docs.run(&options));
            report.run(Step::Site.word(), || Step::Site.run(&options));
        }
        Some(step) => {
            report.run(step.word(), || step.run(&options));
        }
        None => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    report.finish()
}

/// Whether another broker plays Thalweg's part.
fn oracle() -> bool {
    std::env::var_os("THALWEG_TEST_BROKER").is_some_and(|broker| broker != "thalweg")
}
