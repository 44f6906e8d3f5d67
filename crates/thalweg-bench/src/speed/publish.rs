//! Our client as one of those that are measured.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use thalweg_client::{Client, ClientError, Options, Reliability};

use crate::net::units;
use crate::scenario::one_of;

#[derive(Debug, Args)]
pub struct PublishArgs {
    /// Where, such as mqtt://127.0.0.1:11883
    #[arg(value_name = "URL")]
    pub url: String,
    /// Number of messages to publish
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub messages: u64,
    /// Size of each message's payload
    #[arg(long, value_name = "SIZE", value_parser = units::size, default_value = "36B")]
    pub payload: usize,
    /// Over so many topics, in turn: CoAP has one confirmable message of a topic under way at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000), default_value_t = 1)]
    pub topics: u64,
    /// Delivery class: at-most-once, or at-least-once, which is acknowledged (QoS 1)
    #[arg(long, value_name = "CLASS", default_value = "at-most-once", value_parser = |text: &str| one_of(text, &CLASSES))]
    pub reliability: Reliability,
}

const CLASSES: [(&str, Reliability); 2] = [
    ("at-most-once", Reliability::AtMostOnce),
    ("at-least-once", Reliability::AtLeastOnce),
];

/// Publishes so many messages as fast as the client takes them, and waits until all are gone or acknowledged.
pub fn run(args: &PublishArgs) -> io::Result<Value> {
    let words = |error: ClientError| io::Error::other(format!("the client: {error}"));
    let builder = Client::builder().broker(&args.url).map_err(words)?;
    let client = builder.connect_blocking().map_err(words)?;
    let options = Options {
        reliability: args.reliability,
        ..Options::default()
    };
    let payload = vec![b'x'; args.payload];
    let topics: Vec<String> = (1..=args.topics)
        .map(|topic| format!("speed/{topic}"))
        .collect();
    let mut in_turn = topics.iter().cycle();
    let mut topic = || in_turn.next().map_or("speed", String::as_str);
    // The first one says that the connection stands; what that takes is no matter of speed.
    client.publish(topic(), &payload, &options).map_err(words)?;
    let begun = Instant::now();
    for _ in 1..args.messages {
        let topic = topic();
        match client.publish_message(&payload, "", topic, &options) {
            Ok(_) => {}
            Err(ClientError::Full) => {
                client.give(&payload, "", topic, &options).map_err(words)?;
            }
            Err(error) => return Err(words(error)),
        }
    }
    let given = begun.elapsed();
    client.flush(Duration::from_secs(120)).map_err(words)?;
    let settled = begun.elapsed();
    let counts = client.status().map_err(words)?.counts;
    // What has left may still be on its way to the sink.
    thread::sleep(Duration::from_millis(200));
    // The sink has counted what came; how the goodbye goes does not matter.
    let _ = client.close(Duration::from_secs(2));
    Ok(json!({
        "client": "thalweg",
        "messages": args.messages,
        "seconds_given": given.as_secs_f64(),
        "seconds": settled.as_secs_f64(),
        "acknowledged": counts.acknowledged,
        "unknown": counts.unknown,
        "failed": counts.failed,
        "repeated": counts.repeated,
    }))
}
