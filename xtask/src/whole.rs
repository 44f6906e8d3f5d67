//! `cargo xtask test`: everything, in as little time as two cores need.
//!
//! What tests over sockets need is compiled first; beside it is what leaves a core idle: installing, which waits for the network,
//! and the program that counts instructions, which is linked on one core. Tests over sockets wait for half of their time, so lanes
//! of steps run beside each other, each step in a process of its own.

use std::iter;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use serde_json::Value;

use crate::program::Program;
use crate::report::{Outcome, Report};
use crate::{Options, Step, compiler, instructions, packages, python, workshop};

/// Beside what installs and compiles, so that a slip shows early; cheapest first.
const FIRST: [Step; 3] = [Step::Tidy, Step::Fmt, Step::Supply];
/// The first one compiles what the second has no need of; cargo has the binding for Python wait for it, because both compile into
/// one folder, and the count of instructions for its program.
const LANES: [&[Step]; 3] = [
    &[Step::Lint, Step::Unit, Step::Docs],
    &[Step::Integration],
    &[Step::BenchInstructions, Step::Python],
];
/// By the lanes that are done first.
const LAST: [Step; 2] = [Step::Interop, Step::Suites];

/// The test of `thalweg-tests`, as cargo names it, and the variable with its file.
const INTEGRATION: &str = "all";
pub const INTEGRATION_FILE: &str = "THALWEG_INTEGRATION";

/// Runs every step. One that fails does not keep the others from running, unless they need what it builds. `own` is this
/// program's file.
pub fn run(own: &Path, options: &Options, report: &Report) {
    let beside = |lanes: &[&(dyn Fn() + Sync)]| match options.serial {
        true => lanes.iter().for_each(|lane| lane()),
        false => thread::scope(|scope| {
            lanes.iter().for_each(|lane| drop(scope.spawn(lane)));
        }),
    };
    let first = || {
        for step in FIRST {
            report.run(step.word(), || step.run(options));
        }
    };
    let install = || {
        report.run("install", install);
    };
    // The integration program, once it and the broker are there.
    let built = OnceLock::new();
    let build = || {
        report.run(Step::Build.word(), || {
            match compiler::prepare(own).and_then(|()| compile(options)) {
                Ok(program) => {
                    built.get_or_init(|| program);
                    Outcome::passed(1)
                }
                Err(why) => Outcome::failed(why),
            }
        });
    };
    let prepare = || {
        // Before anything is compiled, because it decides with what; and one installs at a time.
        if let Err(why) = packages::for_dds() {
            println!("the bridge into DDS is left out: {why}");
        }
        beside(&[&install, &build]);
    };
    let last = Mutex::new(LAST.into_iter());
    let next = || last.lock().unwrap_or_else(PoisonError::into_inner).next();
    let lane = |steps: &[Step]| {
        for step in steps.iter().copied().chain(iter::from_fn(next)) {
            report.run(step.word(), || {
                let program = built.get().map(String::as_str);
                let needs_it = matches!(step, Step::Integration | Step::Interop | Step::Python);
                match program.is_some() || !needs_it {
                    true => apart(own, step, options, program.unwrap_or_default()),
                    false => Outcome::failed("not run, because the broker did not build"),
                }
            });
        }
    };
    let [one, other, third] = LANES.map(|steps| move || lane(steps));
    let rest = || {
        prepare();
        beside(&[&one, &other, &third]);
    };
    // If it fails, so does the step, which says why.
    let count = || drop(instructions::program());
    beside(&[&first, &count, &rest]);
}

/// What later steps would install before they begin, while others compile.
fn install() -> Outcome {
    let installed = packages::for_test()
        .and_then(|()| workshop::install())
        .and_then(|()| python::tools());
    match installed {
        Ok(_) => Outcome::passed(1),
        Err(why) => Outcome::failed(why),
    }
}

/// The broker, the laboratory and the integration program, whose file it returns: what waits for sockets begins while the rest
/// is compiled. With the features of the whole workspace, so that no crate is compiled twice; and cargo builds the programs of
/// those crates that it builds tests of.
fn compile(options: &Options) -> Result<String, String> {
    let build = [
        "test",
        "--workspace",
        "--no-run",
        "--quiet",
        "--test",
        INTEGRATION,
        "--test",
        "laboratory",
        "--test",
        "sim",
        "--message-format",
        "json-render-diagnostics",
    ];
    let messages = compiler::compile_with(Program::cargo(build).with_dds()).stdout()?;
    if options.release {
        options.build_broker().run()?;
    }
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find(|message| message["target"]["name"] == INTEGRATION)
        .and_then(|message| Some(message["executable"].as_str()?.to_owned()))
        .ok_or_else(|| "cargo does not say where the integration program is".to_owned())
}

/// Runs a step in a process of its own, whose lines have its name in front.
fn apart(own: &Path, step: Step, options: &Options, integration: &str) -> Outcome {
    let release: &[&str] = if options.release { &["--release"] } else { &[] };
    let program = Program::new(&own.display().to_string())
        .args([step.word(), "--built"])
        .args(release);
    match step {
        Step::Lint | Step::Unit | Step::Suites | Step::Docs => compiler::compile_with(program),
        _ => program.env(INTEGRATION_FILE, integration),
    }
    .outcome_of_step(step.word())
}
