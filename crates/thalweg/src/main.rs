//! `thalweg`: the program. Its commands are the crate `thalweg-cli`, where to start reading.
//!
//! *Knows:* what only a program can have, an allocator and `main`. *Must never have:* an optimisation level below 3, because
//! link-time optimisation of all crates runs at that of this package.
#![forbid(unsafe_code)]

use std::process::ExitCode;

/// Freeing memory in another thread than it came from, as messages do on their way through shards, is what it is good at.
/// Without huge pages: with them a buffer of which little is used takes all the memory that it has reserved.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    thalweg_cli::run()
}
