//! `thalweg bench pub|sub|ping|pong|relay`: from arguments to roles.

use std::io::{self, Write};

use thalweg_client::BrokerUrl;

use super::answer;
use super::args::{PingArgs, PongArgs, PubArgs, RelayArgs, RoleArgs, SubArgs};
use super::flow;
use super::say::{Roles, Say};
use crate::cell::{Cell, Load};
use crate::command::Outcome;
use crate::drivers::Job;
use crate::runner::stopper;

/// `thalweg bench pub`
pub fn publish(args: &PubArgs, out: &mut dyn Write) -> io::Result<Outcome> {
    let role = &args.role;
    let ends = (&role.url, &role.url);
    let (cell, job) = of(role, ends, args.pace.load(role.flows), 1, "pub")?;
    if matches!(cell.load, Load::Closed { .. }) && role.qos == 0 {
        return Err(io::Error::other(
            "a publish at most once is not acknowledged: use --qos 1, or ping",
        ));
    }
    begin(role, &cell, &job, (true, false), out)
}

/// `thalweg bench sub`
pub fn subscribe(args: &SubArgs, out: &mut dyn Write) -> io::Result<Outcome> {
    let role = &args.role;
    let ends = (&role.url, &role.url);
    let (cell, job) = of(role, ends, of_others(role.flows), args.copies, "sub")?;
    begin(role, &cell, &job, (false, true), out)
}

/// `thalweg bench ping`
pub fn ping(args: &PingArgs, out: &mut dyn Write) -> io::Result<Outcome> {
    let role = &args.role;
    let ends = (&role.url, args.back.as_ref().unwrap_or(&role.url));
    let (cell, mut job) = of(role, ends, args.pace.load(role.flows), 1, "ping")?;
    job.prefixes = (PING.to_owned(), PONG.to_owned());
    begin(role, &cell, &job, (true, true), out)
}

/// `thalweg bench pong`
pub fn pong(args: &PongArgs, out: &mut dyn Write) -> io::Result<Outcome> {
    let role = &args.role;
    let ends = (args.back.as_ref().unwrap_or(&role.url), &role.url);
    let (cell, mut job) = of(role, ends, of_others(role.flows), 1, "pong")?;
    job.prefixes = (PONG.to_owned(), PING.to_owned());
    answers(role, &cell, &job, out)
}

/// `thalweg bench relay`
pub fn relay(args: &RelayArgs, out: &mut dyn Write) -> io::Result<Outcome> {
    let role = &args.role;
    let ends = (&args.to, &role.url);
    let (cell, mut job) = of(role, ends, of_others(role.flows), 1, "relay")?;
    // Under the same topics it might hear itself.
    job.prefixes.0 = RELAYED.to_owned();
    answers(role, &cell, &job, out)
}

/// What it does, and where: where it publishes, and where it receives.
fn of(
    role: &RoleArgs,
    (to, from): (&BrokerUrl, &BrokerUrl),
    load: Load,
    copies: u32,
    name: &str,
) -> io::Result<(Cell, Job)> {
    let cell = role.cell(to, from, load, copies);
    let cell = cell.map_err(io::Error::other)?;
    let job = role.job(&cell, to, from, name).map_err(io::Error::other)?;
    Ok((cell, job))
}

/// Begins what sends and receives by a schedule.
fn begin(
    role: &RoleArgs,
    cell: &Cell,
    job: &Job,
    (sends, receives): (bool, bool),
    out: &mut dyn Write,
) -> io::Result<Outcome> {
    let mut say = Say::new(out, role.json, role.quiet);
    let roles = Roles { sends, receives };
    flow::run(cell, job, roles, role.count, &mut say, &stopper())
}

/// Begins what sends what it receives.
fn answers(role: &RoleArgs, cell: &Cell, job: &Job, out: &mut dyn Write) -> io::Result<Outcome> {
    let mut say = Say::new(out, role.json, role.quiet);
    answer::run(cell, job, role.count, &mut say, &stopper())
}

/// The load of who sends nothing by itself: that it is said to be open decides only about connections.
fn of_others(flows: u32) -> Load {
    Load::open(1.0, flows)
}

const RELAYED: &str = "relayed";
const PING: &str = "ping";
const PONG: &str = "pong";
