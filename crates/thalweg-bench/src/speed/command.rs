//! `thalweg bench speed …`: the two ends of a run; `measure/publish_speed.py` puts them together.

use std::io::{self, Write};
use std::net::{TcpListener, UdpSocket};
use std::sync::mpsc;
use std::thread;

use clap::Subcommand;
use serde_json::Value;

use super::publish::{self, PublishArgs};
use super::sink;
use super::sinks::{Amqp, Mqtt, Stomp};
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
    let listen = |port: u16| TcpListener::bind(("127.0.0.1", port.saturating_add(shift)));
    let (mqtt, amqp, stomp) = (listen(1883)?, listen(5672)?, listen(41_613)?);
    let coap = UdpSocket::bind(("127.0.0.1", 5683_u16.saturating_add(shift)))?;
    // As much as the system lets us have; root may have more than `net.core.rmem_max`, but needs a call of its own for it.
    let _ = socket2::SockRef::from(&coap).set_recv_buffer_size(RECEIVE_BUFFER);
    writeln!(out, "ready")?;
    out.flush()?;
    // Standard output is this thread's: a sink that printed by itself would wait for it for ever.
    let (say, said) = mpsc::channel::<Value>();
    let says = || {
        let say = say.clone();
        // Nobody listens any more when the output is closed.
        move |line| drop(say.send(line))
    };
    let (to_mqtt, to_amqp, to_stomp, to_coap) = (says(), says(), says(), says());
    thread::spawn(move || sink::serve(&mqtt, "mqtt", Mqtt::default, &to_mqtt));
    thread::spawn(move || sink::serve(&amqp, "amqp", Amqp::default, &to_amqp));
    thread::spawn(move || sink::serve(&stomp, "stomp", Stomp::default, &to_stomp));
    thread::spawn(move || sink::serve_datagrams(&coap, &to_coap));
    drop(say);
    for line in said {
        writeln!(out, "{line}")?;
        out.flush()?;
    }
    Err(io::Error::other("no sink serves any more"))
}

const RECEIVE_BUFFER: usize = 32 << 20;
