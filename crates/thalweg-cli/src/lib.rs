//! What the program `thalweg` is asked: broker, clients, and what an operator needs, as commands. The laboratory is another
//! program, which `thalweg bench` starts.
//!
//! *Knows:* people: arguments, words, exit codes. What it does it asks of the libraries. *Must never do:* work for each message
//! of the broker, because it is compiled for size. Start reading at [`cli::Cli`], which declares every command; each has a file
//! of its own with a function `run`.
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
use failure::Failure;
use thalweg_server::end_process_on_panic;

/// Does what the arguments of this process ask; the answer is for its end. Faulty arguments, and `--help`, end it at once.
pub fn run() -> ExitCode {
    match obey(&Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.is_silent() {
                eprintln!("{failure}");
            }
            failure.exit_code()
        }
    }
}

fn obey(command: &Command) -> Result<(), Failure> {
    // No command lives on without one of its threads.
    end_process_on_panic();
    match command {
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
    }
}
