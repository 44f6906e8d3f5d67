//! `thalweg bench speed …`: the two ends of a run; `measure/publish_speed.py` puts them together.

use std::io::{self, Write};
use std::sync::mpsc;

use clap::Subcommand;
use serde_json::Value;

use super::publish::{self, PublishArgs};
use super::sink;
use crate::cell::Protocol;
use crate::command::Outcome;

/// `thalweg bench speed …`
#[derive(Debug, Subcommand)]
pub enum SpeedCommand {
    /// Read, count and acknowledge what publishers send: MQTT 1883, AMQP 5672, STOMP 41613, CoAP 5683
    ///
    /// A line of JSON for each connection that has ended: messages, and seconds from the first to the last. Runs until it
    /// is killed.
    Sink {
        /// Added to each port
        #[arg(long, value_name = "N", default_value_t = 10_000)]
        shift: u16,
    },
    /// Publish as fast as this client can, say how fast that was in a line of JSON
    Publish(PublishArgs),
}

pub fn run(command: &SpeedCommand, out: &mut dyn Write) -> io::Result<Outcome> {
    match command {
        SpeedCommand::Sink { shift } => sinks(*shift, out),
        SpeedCommand::Publish(args) => {
            writeln!(out, "{}", publish::run(args)?)?;
            Ok(Outcome::Done)
        }
    }
}

fn sinks(shift: u16, out: &mut dyn Write) -> io::Result<Outcome> {
    // Standard output is this thread's: a sink that printed by itself would wait for it for ever.
    let (say, said) = mpsc::channel::<Value>();
    for (protocol, port) in [
        (Protocol::Mqtt, 1883_u16),
        (Protocol::Amqp, 5672),
        (Protocol::Stomp, 41_613),
        (Protocol::Coap, 5683),
    ] {
        let say = say.clone();
        // Nobody listens any more when the output is closed.
        let says = move |line| drop(say.send(line));
        sink::open(protocol, port.saturating_add(shift), says)?;
    }
    drop(say);
    writeln!(out, "ready")?;
    out.flush()?;
    for line in said {
        writeln!(out, "{line}")?;
        out.flush()?;
    }
    Err(io::Error::other("no sink serves any more"))
}
