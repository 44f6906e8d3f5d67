//! `cargo xtask test`: everything, in as little time as two cores need.
//!
//! What compiles uses all cores and runs alone; only what waits for the network, installing, is beside it. Tests over sockets
//! wait for most of their time, so lanes of steps run beside each other, each step in a process of its own.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::program::Program;
use crate::report::{Outcome, Report};
use crate::{Options, Step, packages, python, workshop};

/// Cheapest first, so that a slip shows early. What [`Step::Lint`] does alone is part of [`Step::Build`] here.
const FIRST: [Step; 3] = [Step::Tidy, Step::Fmt, Step::Supply];
/// About as long as each other; the last one compiles for half of its time.
const LANES: [&[Step]; 3] = [
    &[Step::Unit, Step::Docs, Step::BenchInstructions],
    &[Step::Integration, Step::Interop],
    &[Step::Python],
];

/// Runs every step. One that fails does not keep the others from running, unless they need what it builds. `own` is this
/// program's file.
pub fn run(own: &Path, options: &Options, report: &Report) {
    let beside = |lanes: &[&(dyn Fn() + Sync)]| match options.serial {
        true => lanes.iter().for_each(|lane| lane()),
        false => thread::scope(|scope| {
            lanes.iter().for_each(|lane| drop(scope.spawn(lane)));
        }),
    };
    let install = || {
        report.run("install", install);
    };
    // Before anything is compiled, because it decides with what.
    if let Err(why) = packages::for_dds() {
        println!("the bridge into DDS is left out: {why}");
    }
    let built = AtomicBool::new(false);
    let first = || {
        for step in FIRST {
            report.run(step.word(), || step.run(options));
        }
        report.run(Step::Build.word(), || {
            let outcome = compile(options);
            built.store(outcome.passed > 0, Ordering::Relaxed);
            outcome
        });
    };
    beside(&[&install, &first]);
    let lane = |steps: &[Step]| {
        for step in steps {
            report.run(step.word(), || {
                let is_apart = matches!(step, Step::Unit | Step::Docs | Step::BenchInstructions);
                match is_apart || built.load(Ordering::Relaxed) {
                    true => apart(own, *step, options),
                    false => Outcome::failed("not run, because the broker did not build"),
                }
            });
        }
    };
    let [one, other, third] = LANES.map(|steps| move || lane(steps));
    beside(&[&one, &other, &third]);
}

/// What later steps would install before they begin, while others compile.
fn install() -> Outcome {
    let installed = packages::for_integration()
        .and_then(|()| packages::for_interop())
        .and_then(|()| packages::for_oracle())
        .and_then(|()| packages::for_python())
        .and_then(|()| packages::for_instruction_counts())
        .and_then(|()| workshop::install())
        .and_then(|()| python::tools());
    match installed {
        Ok(_) => Outcome::passed(1),
        Err(why) => Outcome::failed(why),
    }
}

/// Every test program and, with the same features, the broker and the laboratory, so that no crate is compiled twice; clippy
/// reads what it compiles. Passes if everything is there, and fails for each warning.
fn compile(options: &Options) -> Outcome {
    let build = [
        "test",
        "--workspace",
        "--all-targets",
        "--no-run",
        "--quiet",
    ];
    let mut outcome = with_clippy(Program::cargo(build).with_dds()).outcome_of_build();
    if options.release && outcome.passed > 0 {
        outcome.passed = options.build_broker().outcome().passed;
    }
    outcome
}

/// In place of the compiler, which is in it, for crates of ours. Every step that compiles them has to say the same.
fn with_clippy(program: Program) -> Program {
    let cargo = std::env::var("CARGO").unwrap_or_default();
    let clippy = Path::new(&cargo).with_file_name("clippy-driver");
    program.env("RUSTC_WORKSPACE_WRAPPER", &workshop::text(&clippy))
}

/// Runs a step in a process of its own, whose lines have its name in front.
fn apart(own: &Path, step: Step, options: &Options) -> Outcome {
    let release: &[&str] = if options.release { &["--release"] } else { &[] };
    let program = Program::new(&own.display().to_string())
        .args([step.word(), "--built"])
        .args(release);
    match step {
        // They compile with profiles of their own.
        Step::BenchInstructions | Step::Python => program,
        _ => with_clippy(program),
    }
    .outcome_of_step(step.word())
}
