//! Our client as one of those that are measured.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thalweg_client::{Client, ClientError, Options, Reliability};

/// Publishes so many messages as fast as the client takes them, and waits until all are gone or acknowledged.
pub fn run(
    url: &str,
    messages: u64,
    size: usize,
    topics: u64,
    reliability: Reliability,
) -> io::Result<Value> {
    let words = |error: ClientError| io::Error::other(format!("the client: {error}"));
    let builder = Client::builder().broker(url).map_err(words)?;
    let client = builder.connect_blocking().map_err(words)?;
    let options = Options {
        reliability,
        ..Options::default()
    };
    let payload = vec![b'x'; size];
    let topics: Vec<String> = (1..=topics).map(|topic| format!("speed/{topic}")).collect();
    let mut in_turn = topics.iter().cycle();
    let mut topic = || in_turn.next().map_or("speed", String::as_str);
    // The first one says that the connection stands; what that takes is no matter of speed.
    client.publish(topic(), &payload, &options).map_err(words)?;
    let begun = Instant::now();
    for _ in 1..messages {
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
        "messages": messages,
        "seconds_given": given.as_secs_f64(),
        "seconds": settled.as_secs_f64(),
        "acknowledged": counts.acknowledged,
        "unknown": counts.unknown,
        "failed": counts.failed,
        "repeated": counts.repeated,
    }))
}
