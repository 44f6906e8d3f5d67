//! `thalweg bench pub|sub|ping|pong|relay`: from arguments to roles.

use std::io::{self, Write};

use super::answer;
use super::args::{FOR_EVER, PingArgs, PongArgs, PubArgs, RelayArgs, SubArgs};
use super::flow;
use super::say::{Roles, Say};
use crate::cell::Load;
use crate::command::Outcome;
use crate::runner::stopper;

/// `thalweg bench pub`
pub fn publish(args: &PubArgs, out: &mut dyn Write) -> io::Result<Outcome> {
    let role = &args.role;
    let cell = role
        .cell(&role.url, &role.url, args.pace.load(role.flows), 1)
        .map_err(io::Error::other)?;
    if matches!(cell.load, Load::Closed { .. }) && role.qos == 0 {
        return Err(io::Error::other(
            "a publish at most once is not acknowledged: use --qos 1, or ping",
        ));
    }
    let job = role
        .job(&cell, &role.url, &role.url, "pub")
        .map_err(io::Error::other)?;
    let mut say = Say::new(out, role.json, role.quiet);
    flow::run(
        &cell,
        &job,
        Roles {
            sends: true,
            receives: false,
        },
        role.count,
        &mut say,
        &stopper(),
    )
}

/// `thalweg bench sub`
pub fn subscribe(args: &SubArgs, out: &mut dyn Write) -> io::Result<Outcome> {
    let role = &args.role;
    let cell = role
        .cell(&role.url, &role.url, of_others(role.flows), args.copies)
        .map_err(io::Error::other)?;
    let job = role
        .job(&cell, &role.url, &role.url, "sub")
        .map_err(io::Error::other)?;
    let mut say = Say::new(out, role.json, role.quiet);
    flow::run(
        &cell,
        &job,
        Roles {
            sends: false,
            receives: true,
        },
        role.count,
        &mut say,
        &stopper(),
    )
}

/// `thalweg bench ping`
pub fn ping(args: &PingArgs, out: &mut dyn Write) -> io::Result<Outcome> {
    let role = &args.role;
    let back = args.back.as_ref().unwrap_or(&role.url);
    let cell = role
        .cell(&role.url, back, args.pace.load(role.flows), 1)
        .map_err(io::Error::other)?;
    let mut job = role
        .job(&cell, &role.url, back, "ping")
        .map_err(io::Error::other)?;
    job.prefixes = (PING.to_owned(), PONG.to_owned());
    let mut say = Say::new(out, role.json, role.quiet);
    flow::run(
        &cell,
        &job,
        Roles {
            sends: true,
            receives: true,
        },
        role.count,
        &mut say,
        &stopper(),
    )
}

/// `thalweg bench pong`
pub fn pong(args: &PongArgs, out: &mut dyn Write) -> io::Result<Outcome> {
    let role = &args.role;
    let back = args.back.as_ref().unwrap_or(&role.url);
    let cell = role
        .cell(back, &role.url, of_others(role.flows), 1)
        .map_err(io::Error::other)?;
    let mut job = role
        .job(&cell, back, &role.url, "pong")
        .map_err(io::Error::other)?;
    job.prefixes = (PONG.to_owned(), PING.to_owned());
    let mut say = Say::new(out, role.json, role.quiet);
    let lasts = role
        .duration
        .map_or(FOR_EVER, |duration| duration.as_nanos() as u64);
    answer::run(cell.driver, &job, role.count, lasts, &mut say, &stopper())
}

/// `thalweg bench relay`
pub fn relay(args: &RelayArgs, out: &mut dyn Write) -> io::Result<Outcome> {
    let role = &args.role;
    if args.from_prefix == args.to_prefix {
        return Err(io::Error::other(
            "a relay that publishes what it receives under the same topic may hear itself",
        ));
    }
    let cell = role
        .cell(&args.to, &role.url, of_others(role.flows), 1)
        .map_err(io::Error::other)?;
    let mut job = role
        .job(&cell, &args.to, &role.url, "relay")
        .map_err(io::Error::other)?;
    job.prefixes = (args.to_prefix.clone(), args.from_prefix.clone());
    let mut say = Say::new(out, role.json, role.quiet);
    let lasts = role
        .duration
        .map_or(FOR_EVER, |duration| duration.as_nanos() as u64);
    answer::run(cell.driver, &job, role.count, lasts, &mut say, &stopper())
}

/// The load of who sends nothing by itself: that it is said to be open decides only about connections.
fn of_others(flows: u32) -> Load {
    Load::Open {
        rate: 1.0,
        flows,
        arrivals: "periodic".to_owned(),
    }
}

const PING: &str = "ping";
const PONG: &str = "pong";
