//! `thalweg bench net …`: networks by hand.

use std::io::{self, Write};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::nest;
use super::network::{self, BROKER_HOST, CLIENT_HOST, Network};
use super::units::{self, Loss};
use crate::calibrate::{command as calibrate, link};
use crate::cell::{Engine, Link};
use crate::command::Outcome;
use crate::runner::stopper;

/// `thalweg bench net …`
#[derive(Debug, Subcommand)]
pub enum NetCommand {
    /// Make a network: clients (10.80.1.2), a link that loses packets, a broker (10.80.2.2)
    ///
    /// One that the kernel carries stays until `down`: loss and rate. One that does more is carried by this command, which
    /// stays until Ctrl-C and removes it then. A network of the same name is replaced.
    Up {
        /// What it is called
        #[arg(value_name = "NAME", default_value = "t3")]
        name: String,
        #[command(flatten)]
        link: LinkArgs,
    },
    /// Remove a network, or all of them
    Down {
        /// What it is called
        #[arg(value_name = "NAME", default_value = "t3")]
        name: String,
        /// All there are, also those of runs that were killed
        #[arg(long)]
        all: bool,
    },
    /// What networks there are, and what they have carried
    Show {
        /// Print the networks as JSON
        #[arg(long)]
        json: bool,
    },
    /// Change the loss of a network in one step, in both directions
    Loss {
        /// What it is called
        #[arg(value_name = "NAME")]
        name: String,
        /// Packets lost, such as 20%
        #[arg(value_name = "LOSS", value_parser = units::loss)]
        loss: Loss,
    },
    /// Run a program in a network, and end as it does
    ///
    /// A network that is not there is made, and removed afterwards.
    #[command(after_help = "Examples:
  thalweg bench net exec --side broker -- thalweg serve --set listeners.mqtt.bind=0.0.0.0:1883
  thalweg bench net exec --loss 20% --delay 50ms -- ping -c 5 10.80.2.2")]
    Exec {
        /// What it is called
        #[arg(long, value_name = "NAME", default_value = "t3")]
        name: String,
        /// Which end the program runs at
        #[arg(long, value_enum, default_value = "client")]
        side: Side,
        #[command(flatten)]
        link: LinkArgs,
        /// The program and its arguments
        #[arg(value_name = "PROGRAM", required = true, last = true)]
        program: Vec<String>,
    },
    /// Measure what networks do on this machine: loss, bytes, rate, delay
    ///
    /// Exits with 3 if loss is outside of its interval, a byte is miscounted, a rate is off or a packet comes early.
    Check {
        /// Packets for each loss and direction
        #[arg(long, value_name = "N", default_value_t = 100_000)]
        packets: u64,
    },
}

/// What the link does.
#[derive(Args, Clone, Debug)]
pub struct LinkArgs {
    /// Packets lost in each direction, such as 20%
    #[arg(long, value_name = "LOSS", value_parser = units::loss, default_value = "0%")]
    loss: Loss,
    /// How long a packet takes, one way, such as 50ms
    #[arg(long, value_name = "TIME", value_parser = units::span, default_value = "0")]
    delay: Duration,
    /// Up to so much longer, evenly
    #[arg(long, value_name = "TIME", value_parser = units::span, default_value = "0")]
    jitter: Duration,
    /// The most that the link carries, such as 1mbit
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    rate: Option<u64>,
    /// Packets that are overtaken by the next one, such as 1%; at most half of them
    #[arg(long, value_name = "PART", value_parser = units::loss, default_value = "0%")]
    reorder: Loss,
    /// Packets that come twice, such as 1%
    #[arg(long, value_name = "PART", value_parser = units::loss, default_value = "0%")]
    duplicate: Loss,
    /// Emulate the link in any case: with the same seed the same packets of the same traffic are lost
    #[arg(long)]
    emulate: bool,
    /// What the emulator draws from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl LinkArgs {
    fn link(&self) -> Link {
        Link {
            loss: self.loss.part(),
            delay_ns: self.delay.as_nanos() as u64,
            jitter_ns: self.jitter.as_nanos() as u64,
            rate: self.rate,
            reorder: self.reorder.part(),
            duplicate: self.duplicate.part(),
            engine: match self.emulate {
                true => Engine::Emulator,
                false => Engine::Auto,
            },
            ..Link::CABLE
        }
    }
}

/// The sides of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Side {
    /// 10.80.1.2
    Client,
    /// 10.80.2.2
    Broker,
}

pub fn run(command: &NetCommand, out: &mut dyn Write) -> io::Result<Outcome> {
    if matches!(command, NetCommand::Exec { .. } | NetCommand::Check { .. }) {
        nest::enter().map_err(|why| io::Error::other(nest::told(&why)))?;
    }
    match command {
        NetCommand::Up { .. } if !rustix::process::geteuid().is_root() => Err(io::Error::other(
            "a network that stays needs root; without, `thalweg bench net exec` makes one for a program, and run, sweep, \
             saturate, replay and suite make theirs",
        )),
        NetCommand::Up { name, link } => up(name, link, out),
        NetCommand::Down { name, all } => {
            let names = if *all {
                network::all()
            } else {
                vec![name.clone()]
            };
            names.iter().try_for_each(|name| network::remove(name))?;
            Ok(Outcome::Done)
        }
        NetCommand::Show { json } => show(*json, out),
        NetCommand::Loss { name, loss } => Network::found(name)?
            .set_loss(*loss)
            .map(|()| Outcome::Done),
        NetCommand::Exec {
            name,
            side,
            link,
            program,
        } => exec(name, *side, link, program),
        NetCommand::Check { packets } => check_all(*packets, out),
    }
}

fn up(name: &str, args: &LinkArgs, out: &mut dyn Write) -> io::Result<Outcome> {
    let stop = stopper();
    let mut network = Network::up(name, &args.link(), args.seed)?;
    let loss = args.loss;
    writeln!(
        out,
        "{name}: clients {CLIENT_HOST}, broker {BROKER_HOST}, loss {loss}"
    )?;
    if network.is_emulated() {
        writeln!(out, "this command carries the link; Ctrl-C removes it")?;
        out.flush()?;
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(LOOK_UP);
        }
        return Ok(Outcome::Done);
    }
    network.let_go();
    Ok(Outcome::Done)
}

fn show(as_json: bool, out: &mut dyn Write) -> io::Result<Outcome> {
    let mut rows = Vec::new();
    for name in network::all() {
        let network = Network::found(&name)?;
        let reading = network.reading()?;
        let tallies = network.tallies()?;
        match as_json {
            true => rows.push(json!({
                "name": name,
                "emulated": network.is_emulated(),
                "sent": { "client": reading.up, "broker": reading.down },
                "link": tallies,
            })),
            false => {
                let lost = tallies.map_or_else(
                    || "link emulated by another process".to_owned(),
                    |[up, down]| {
                        format!(
                            "lost {} of {} and {} of {}",
                            up.lost, up.came, down.lost, down.came
                        )
                    },
                );
                writeln!(
                    out,
                    "{name}: client sent {} B in {} frames, broker {} B in {}; {lost}",
                    reading.up.bytes, reading.up.frames, reading.down.bytes, reading.down.frames
                )?;
            }
        }
    }
    if as_json {
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
    }
    Ok(Outcome::Done)
}

fn exec(name: &str, side: Side, args: &LinkArgs, program: &[String]) -> io::Result<Outcome> {
    let stop = stopper();
    let network = match Network::found(name) {
        Ok(network) => network,
        Err(_) => Network::up(name, &args.link(), args.seed)?,
    };
    let space = match side {
        Side::Client => network.client(),
        Side::Broker => network.broker(),
    };
    let [first, rest @ ..] = program else {
        return Err(io::Error::other("there is no program to run"));
    };
    // Ctrl-C reaches it as well, as it is in our group; we only wait for it.
    let mut child = space
        .command(first)
        .args(rest)
        .stdin(Stdio::inherit())
        .spawn()?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        thread::sleep(Duration::from_millis(20));
    };
    Ok(match (status.success(), stop.load(Ordering::Relaxed)) {
        (true, _) => Outcome::Done,
        (false, true) => Outcome::Interrupted,
        (false, false) => Outcome::Failed,
    })
}

fn check_all(packets: u64, out: &mut dyn Write) -> io::Result<Outcome> {
    network::is_possible().map_err(io::Error::other)?;
    network::sweep();
    let findings = link::everything(packets, DEVIATIONS, &AtomicBool::new(false))?;
    let done = vec![(4, "link", findings)];
    out.write_all(calibrate::table(&done).as_bytes())?;
    Ok(match calibrate::is_missed(&done) {
        true => Outcome::ShapeFailed,
        false => Outcome::Done,
    })
}

/// 24 intervals hold together in 999 of 1,000 runs.
const DEVIATIONS: f64 = 4.2;
const LOOK_UP: Duration = Duration::from_millis(100);
