//! `thalweg`: broker, clients, and what an operator needs, as commands of one program. The laboratory is another one, which
//! `thalweg bench` starts.
//!
//! *Knows:* people: arguments, words, exit codes. What it does it asks of the libraries. Start reading at [`cli::Cli`], which
//! declares every command; each has a file of its own with a function `run`.
#![forbid(unsafe_code)]

mod admin_api;
mod backup;
mod ban;
mod bench;
mod brokers;
mod cli;
mod config;
mod dds;
mod failure;
mod format;
mod inspect;
mod ledger;
mod link;
mod log;
mod markdown;
mod passwd;
mod publish;
mod quantity;
mod reference;
mod request;
mod serve;
mod socket;
mod subscribe;
#[cfg(test)]
mod tests;
mod top;
mod trace;
mod work;

use std::io::{stdin, stdout};
use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

/// Freeing memory in another thread than it came from, as messages do on their way through shards, is what it is good at.
/// Without huge pages: with them a buffer of which little is used takes all the memory that it has reserved.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match &cli.command {
        Command::Serve(args) => serve::run(args),
        Command::Config(command) => config::run(command, &mut stdout().lock()),
        Command::Passwd(args) => passwd::run(args, stdin()),
        Command::Ban(args) => ban::run(args),
        Command::Pub(args) => publish::run(args, stdin()),
        Command::Sub(args) => subscribe::run(args, &mut stdout().lock()),
        Command::Req(args) => request::run(args, &mut stdout().lock()),
        Command::Top(args) => top::run(args, &mut stdout().lock()),
        Command::Trace(args) => trace::run(args, &mut stdout().lock()),
        Command::Ledger(args) => ledger::run(args, &mut stdout().lock()),
        Command::Backup(args) => backup::run(args, &mut stdout().lock()),
        Command::Restore(args) => backup::restore(args, &mut stdout().lock()),
        Command::Inspect(args) => inspect::run(args, &mut stdout().lock()),
        Command::Bench(args) => bench::run(args),
        Command::Reference(command) => reference::run(command, &mut stdout().lock()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.is_silent() {
                eprintln!("{failure}");
            }
            failure.exit_code()
        }
    }
}
