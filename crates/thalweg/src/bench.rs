//! `thalweg bench`: the laboratory, a library of its own; here are only its exit codes.

use std::io::Write;

use thalweg_bench::command::{self, BenchCommand, Outcome};

use crate::failure::Failure;

pub fn run(command: &BenchCommand, out: &mut dyn Write) -> Result<(), Failure> {
    let outcome = command::run(command, out).map_err(|error| Failure::new(error.to_string()))?;
    let words = match outcome {
        Outcome::Done => return Ok(()),
        Outcome::Failed => "it could not be run",
        Outcome::Invalid => "nothing that was measured counts; the summary says why",
        Outcome::ShapeFailed => {
            "a shape of the study did not come out, or a bar was not held: see the summary"
        }
        Outcome::Interrupted => "interrupted; what was measured is written",
    };
    Err(Failure::new(words).code(outcome as u8))
}
