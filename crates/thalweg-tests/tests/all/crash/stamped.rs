//! Exactly once by stamps while the broker is killed: what a client repeats, because it never saw the answer, the new process
//! knows that it has.
//!
//! The receiver is a session by hand that is away meanwhile, so that whatever was taken twice waits for it twice: a client of
//! ours would recognize it.

use std::collections::VecDeque;
use std::time::Duration;

use thalweg_client::{Options, Reliability, Success, Ticket, blocking::Client};

use super::hand::Hand;
use super::process::Home;
use crate::broker::free_port;

const PATIENCE: Duration = Duration::from_secs(60);
const KILLS: u32 = 5;
/// Messages between two kills, and how many of them have an outcome when it comes.
const EACH: u32 = 400;
const SETTLED: usize = 150;

#[test]
fn a_stamped_publish_is_there_once_however_often_the_broker_is_killed() {
    if super::oracle() {
        return;
    }
    let stories: [(u16, &[&str]); 4] = [
        (1, &["mqtt"]),
        (3, &["amqp"]),
        (1, &["stomp"]),
        (3, &["mqtt", "stomp"]),
    ];
    for (shards, ways) in stories {
        check(shards, ways);
    }
}

fn check(shards: u16, ways: &[&str]) {
    let (amqp, stomp) = (free_port(), free_port());
    let home = Home::new(&format!("stamped-{shards}-{}", ways.join("-")))
        .set(&format!("shards={shards}"))
        .set(&format!("listeners.amqp.bind={amqp}"))
        .set(&format!("listeners.stomp.bind={stomp}"));
    let mut process = home.start().expect("it starts");
    Hand::lasting(home.mqtt, "receiver")
        .subscribe("stamped")
        .leave();
    let url = |way: &&str| match *way {
        "mqtt" => format!("mqtt://{}", home.mqtt),
        "amqp" => format!("amqp://{amqp}"),
        _ => format!("stomp://{stomp}"),
    };
    let builder = ways
        .iter()
        .map(url)
        .fold(Client::builder(), |builder, url| {
            builder.broker(&url).expect("a URL")
        });
    let builder = builder.backoff(Duration::from_millis(5), Duration::from_millis(50));
    let client = builder
        .connect_blocking()
        .expect("a client starts without a network");
    let options = Options {
        reliability: Reliability::ExactlyOnce,
        ..Options::default()
    };
    let mut waiting: VecDeque<Ticket> = VecDeque::new();
    let settle = |waiting: &mut VecDeque<Ticket>, count: usize| {
        for ticket in waiting.drain(..count) {
            assert_eq!(
                client.outcome(ticket, PATIENCE),
                Success::Acknowledged,
                "{ways:?}: {:?}",
                client.status()
            );
        }
    };
    let mut sent = 0;
    for _ in 0..KILLS {
        for _ in 0..EACH {
            let payload = sent.to_string();
            let ticket = client.give(payload.as_bytes(), "", "stamped", &options);
            waiting.push_back(ticket.expect("there is room"));
            sent += 1;
        }
        settle(&mut waiting, SETTLED);
        // In the middle of the rest, wherever that is.
        process.kill();
        process = home.start().expect("it starts again");
    }
    let rest = waiting.len();
    settle(&mut waiting, rest);
    let mut receiver = Hand::lasting(home.mqtt, "receiver");
    let mut came = Vec::new();
    while came.len() < sent as usize {
        let (_, payload) = receiver
            .take_one(PATIENCE)
            .unwrap_or_else(|| panic!("only {} of {sent}", came.len()));
        came.push(
            String::from_utf8_lossy(&payload)
                .parse::<u32>()
                .expect("a number"),
        );
    }
    assert_eq!(
        came,
        (0..sent).collect::<Vec<u32>>(),
        "{shards} shards, {ways:?}: each once, in order"
    );
    // A message published now comes next: the queue is empty.
    assert_eq!(
        client.publish("stamped", b"end", &options),
        Ok(Success::Acknowledged)
    );
    assert_eq!(receiver.take_one(PATIENCE).expect("it comes").1, b"end");
    drop(process);
}
