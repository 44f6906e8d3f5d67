//! The client's promises, kept by a protocol that it does not know.

use std::time::Duration;

use own_transport::Lines;
use own_transport::broker::Broker;
use thalweg_client::blocking::{Client, Subscription};
use thalweg_client::{ClientError, Options, Reliability, SubscribeOptions, Success};

/// Longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(30);

fn connect(broker: &Broker) -> Client {
    let lane = Lines::new("127.0.0.1", broker.address().port());
    let builder = Client::builder()
        .transport(Box::new(lane))
        .backoff(Duration::from_millis(10), Duration::from_secs(1));
    builder
        .connect_blocking()
        .expect("a client starts without a network")
}

fn subscribe(client: &Client, filter: &str) -> Subscription {
    let options = SubscribeOptions {
        reliability: Reliability::AtMostOnce,
        ..SubscribeOptions::default()
    };
    client
        .subscribe_timeout(filter, options, PATIENCE)
        .unwrap_or_else(|error| panic!("{filter}: {error}"))
}

fn at(reliability: Reliability) -> Options {
    Options {
        reliability,
        ..Options::default()
    }
}

#[test]
fn what_is_published_is_heard_in_order() {
    let broker = Broker::start().expect("a port is free");
    let (publisher, listener) = (connect(&broker), connect(&broker));
    let mut heard = subscribe(&listener, "plant/#");
    for (reliability, outcome) in [
        (Reliability::AtMostOnce, Success::Unknown),
        (Reliability::AtLeastOnce, Success::Acknowledged),
    ] {
        // No more than a subscriber may leave lying: what came at most once is dropped then.
        let payloads: Vec<String> = (0..500).map(|number| format!("{number}\n")).collect();
        let tickets: Vec<_> = payloads
            .iter()
            .map(|payload| {
                publisher
                    .give(payload.as_bytes(), "", "plant/1 a", &at(reliability))
                    .expect("there is room")
            })
            .collect();
        for payload in &payloads {
            let message = heard
                .next_timeout(PATIENCE)
                .expect("it goes on")
                .expect("it comes");
            assert_eq!(
                (message.topic(), message.payload()),
                ("plant/1 a", payload.as_bytes())
            );
        }
        assert!(
            tickets
                .into_iter()
                .all(|ticket| publisher.outcome(ticket, PATIENCE) == outcome)
        );
    }
    assert!(
        publisher
            .explain()
            .expect("it runs")
            .to_string()
            .contains("lines")
    );
}

#[test]
fn what_was_not_acknowledged_is_sent_again_on_the_next_connection() {
    let broker = Broker::start().expect("a port is free");
    let publisher = connect(&broker);
    for number in 0..50_u32 {
        if number % 10 == 3 {
            broker.break_after(5);
        }
        publisher
            .give(
                &number.to_be_bytes(),
                "",
                "a",
                &at(Reliability::AtLeastOnce),
            )
            .expect("there is room");
    }
    if let Err(error) = publisher.flush(PATIENCE) {
        panic!("{error}: {:?}", publisher.status());
    }
    let numbers: Vec<u32> = broker
        .published()
        .iter()
        .filter_map(|payload| payload.as_slice().try_into().ok())
        .map(u32::from_be_bytes)
        .collect();
    let mut firsts = Vec::new();
    for number in &numbers {
        if !firsts.contains(number) {
            firsts.push(*number);
        }
    }
    assert_eq!(
        firsts,
        (0..50).collect::<Vec<u32>>(),
        "nothing is lost, and it comes in order"
    );
    assert!(numbers.len() > 50, "connections were broken: {numbers:?}");
    let counts = publisher.status().expect("it runs").counts;
    assert_eq!((counts.acknowledged, counts.failed), (50, 0));
}

#[test]
fn what_lines_cannot_do_is_said() {
    let broker = Broker::start().expect("a port is free");
    let client = connect(&broker);
    let mut heard = subscribe(&client, "a");
    client
        .publish("a", b"x", &Options::default())
        .expect("it goes");
    assert_eq!(
        heard
            .next_timeout(PATIENCE)
            .expect("it goes on")
            .expect("it comes")
            .payload(),
        b"x"
    );
    let asked = client.request("a", b"?", &Options::default(), Duration::from_secs(2));
    assert!(matches!(asked, Err(ClientError::Refused(_))), "{asked:?}");
    let value = client.last_value("a");
    assert!(matches!(value, Err(ClientError::Refused(_))), "{value:?}");
}
