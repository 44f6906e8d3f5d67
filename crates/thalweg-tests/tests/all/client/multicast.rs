//! Subscriptions that a multicast group of the broker serves, on the loopback interface.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use thalweg_client::blocking::wait;
use thalweg_client::{Client, Options, Reliability, SubscribeOptions, Subscription};

use super::PATIENCE;
use crate::broker::Broker;

/// A broker with a group, and a socket that keeps the group's port from others.
fn broker() -> (Broker, Socket) {
    let group = Ipv4Addr::new(239, 255, 10, 2);
    let kept = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
    kept.set_reuse_address(true).expect("it is shared");
    kept.bind(&SocketAddrV4::new(group, 0).into())
        .expect("it is bound");
    let address = kept.local_addr().expect("an address");
    let address = address.as_socket_ipv4().expect("of version 4");
    let group = format!(
        "[{{ name = \"poses\", group = \"{address}\", interfaces = [\"lo\"], filters = [\"plant/+/pose\"] }}]"
    );
    let options = crate::broker::Options::default();
    let broker = options.set("multicast", &group).queues().start();
    (broker, kept)
}

/// A client of this broker, and a subscription of it; whether it has an interface for multicast.
fn member(url: &str, has_interface: bool, reliability: Reliability) -> (Client, Subscription) {
    let mut builder = Client::builder().broker(url).expect("a URL");
    if has_interface {
        builder = builder.multicast_interface(Ipv4Addr::LOCALHOST);
    }
    let client = builder.connect().expect("it starts");
    let options = SubscribeOptions {
        reliability,
        ..SubscribeOptions::default()
    };
    let subscription = client.subscribe_by_multicast("poses", "plant/7/pose", options);
    let subscription = wait(subscription).expect("it stands");
    (client, subscription)
}

fn take(client: &Client, subscription: &mut Subscription, count: usize) -> Vec<String> {
    let begun = Instant::now();
    let mut payloads = Vec::new();
    while payloads.len() < count {
        match subscription.try_next() {
            Some(message) => payloads.push(String::from_utf8_lossy(message.payload()).into_owned()),
            // The machine is left to those who send.
            None => std::thread::park_timeout(Duration::from_millis(1)),
        }
        let late = begun.elapsed() > PATIENCE;
        assert!(!late, "{payloads:?} of {count}: {:?}", client.status());
    }
    payloads
}

#[test]
fn seven_clients_have_what_is_sent_once_and_an_eighth_by_its_connection() {
    let (broker, _kept) = broker();
    let mqtt = format!("mqtt://{}", broker.mqtt());
    let stomp = format!("stomp://{}", broker.stomp());
    // The description comes by whatever a client speaks.
    let mut members: Vec<_> = (0..7)
        .map(|number| {
            let url = if number == 6 { &stomp } else { &mqtt };
            let reliability = match number % 2 {
                0 => Reliability::AtLeastOnce,
                _ => Reliability::AtMostOnce,
            };
            member(url, true, reliability)
        })
        .collect();
    let (other, mut by_connection) = member(&mqtt, false, Reliability::AtLeastOnce);
    let status = other.status().expect("it runs");
    let [group] = status.groups.as_slice() else {
        panic!("{status:?}")
    };
    assert!(
        !group.is_heard && group.why_not.contains("no interface is set"),
        "{group:?}"
    );
    let publisher = Client::builder()
        .broker(&mqtt)
        .and_then(|builder| builder.connect())
        .expect("it starts");
    let expected: Vec<String> = (0..50).map(|number: u32| number.to_string()).collect();
    for payload in &expected {
        for topic in ["plant/7/pose", "plant/8/pose"] {
            wait(publisher.publish(topic, payload.as_bytes(), &Options::default()))
                .expect("it is taken");
        }
    }
    for (client, subscription) in &mut members {
        assert_eq!(take(client, subscription, 50), expected);
        let status = client.status().expect("it runs");
        let [group] = status.groups.as_slice() else {
            panic!("{status:?}")
        };
        assert!(group.is_heard && group.counts.datagrams > 0, "{group:?}");
        // The description has come by the connection, twice if it was published just then, and nothing of the topic.
        assert!((1..=2).contains(&status.counts.received), "{status:?}");
        assert_eq!(subscription.try_next(), None, "of plant/8/pose");
    }
    assert_eq!(take(&other, &mut by_connection, 50), expected);
}
