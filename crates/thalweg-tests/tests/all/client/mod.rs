//! The client library against the real broker: every protocol in both directions, both interfaces, and brokers that are
//! down, stop and come back.

mod amqp;
mod crossing;
mod faces;
mod gateway;
mod multicast;
mod outages;
mod presence;
mod readme;
mod stomp;
mod ways;
mod zmtp;

use std::collections::BTreeSet;
use std::time::Duration;

use thalweg_client::blocking::{Client, Subscription};
use thalweg_client::{ClientBuilder, SubscribeOptions};

/// Longer than anything takes that works; a test that fails may take so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client of these brokers, not started.
fn builder(urls: &[&str]) -> ClientBuilder {
    urls.iter().fold(Client::builder(), |builder, url| {
        builder.broker(url).expect(url)
    })
}

fn connect(urls: &[&str]) -> Client {
    builder(urls)
        .connect_blocking()
        .expect("a client starts without a network")
}

fn subscribe(client: &Client, filter: &str) -> Subscription {
    let options = SubscribeOptions {
        last_values: false,
        ..SubscribeOptions::default()
    };
    client
        .subscribe_timeout(filter, options, PATIENCE)
        .unwrap_or_else(|error| panic!("{filter}: {error}"))
}

/// The next payloads, as text, in the order in which they came.
fn take(subscription: &mut Subscription, count: usize) -> Vec<String> {
    let mut payloads = Vec::new();
    while payloads.len() < count {
        match subscription.next_timeout(PATIENCE) {
            Ok(Some(message)) => {
                payloads.push(String::from_utf8_lossy(message.payload()).into_owned())
            }
            other => panic!(
                "{other:?} after {} of {count}: {:?}",
                payloads.len(),
                payloads.last()
            ),
        }
    }
    payloads
}

/// The numbers that came, each once or more.
fn set(payloads: &[String]) -> BTreeSet<u32> {
    payloads
        .iter()
        .map(|payload| payload.parse().expect("a number was sent"))
        .collect()
}
