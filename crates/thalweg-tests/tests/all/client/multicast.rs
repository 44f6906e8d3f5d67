//! Subscriptions that a multicast group of the broker serves, on the loopback interface.

#[path = "../../../../thalweg-server/tests/sockets/support/own_network.rs"]
mod own_network;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use thalweg_client::blocking::wait;
use thalweg_client::{Client, Options, Reliability, SubscribeOptions, Subscription};

use super::PATIENCE;
use crate::broker::Broker;

/// A broker with a group at an interface, and a socket that keeps the group's port from others.
fn broker(group: IpAddr, interface: &str) -> (Broker, Socket) {
    let any = match group {
        IpAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        IpAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let kept = Socket::new(Domain::for_address(any), Type::DGRAM, None).expect("a socket");
    kept.set_reuse_address(true).expect("it is shared");
    kept.bind(&any.into()).expect("it is bound");
    let kept_at = kept.local_addr().expect("an address").as_socket();
    let address = SocketAddr::new(group, kept_at.expect("of IP").port());
    let group = format!(
        "[{{ name = \"poses\", group = \"{address}\", interfaces = [\"{interface}\"], filters = [\"plant/+/pose\"] }}]"
    );
    let options = crate::broker::Options::default();
    let broker = options.set("multicast", &group).queues().start();
    (broker, kept)
}

/// A client of this broker, its interfaces for multicast, and a subscription of it.
fn member(url: &str, interfaces: &[IpAddr], reliability: Reliability) -> (Client, Subscription) {
    let builder = Client::builder().broker(url).expect("a URL");
    let builder = interfaces.iter().fold(builder, |builder, interface| {
        builder.multicast_interface(*interface)
    });
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

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Publishes numbers to a topic of the group that members have, and to another; the numbers.
fn publish(url: &str) -> Vec<String> {
    let publisher = Client::builder()
        .broker(url)
        .and_then(|builder| builder.connect())
        .expect("it starts");
    let numbers: Vec<String> = (0..50).map(|number: u32| number.to_string()).collect();
    for payload in &numbers {
        for topic in ["plant/7/pose", "plant/8/pose"] {
            wait(publisher.publish(topic, payload.as_bytes(), &Options::default()))
                .expect("it is taken");
        }
    }
    numbers
}

/// A member has all, and by the group.
fn has_all_by_group(client: &Client, subscription: &mut Subscription, expected: &[String]) {
    assert_eq!(take(client, subscription, expected.len()), expected);
    let status = client.status().expect("it runs");
    let [group] = status.groups.as_slice() else {
        panic!("{status:?}")
    };
    assert!(group.is_heard && group.counts.datagrams > 0, "{group:?}");
    // The description has come by the connection, twice if it was published just then, and nothing of the topic.
    assert!((1..=2).contains(&status.counts.received), "{status:?}");
}

/// Why a client is not served by the group.
fn why_not(client: &Client) -> String {
    let mut groups = client.status().expect("it runs").groups;
    let group = groups.pop().expect("it has asked for one");
    assert!(!group.is_heard, "{group:?}");
    group.why_not
}

#[test]
fn seven_clients_have_what_is_sent_once_and_an_eighth_by_its_connection() {
    let (broker, _kept) = broker(Ipv4Addr::new(239, 255, 10, 2).into(), "lo");
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
            member(url, &[LOOPBACK], reliability)
        })
        .collect();
    let (other, mut by_connection) = member(&mqtt, &[], Reliability::AtLeastOnce);
    let why = why_not(&other);
    assert!(
        why.ends_with("no interface is set for multicast of IPv4"),
        "{why}"
    );
    let expected = publish(&mqtt);
    for (client, subscription) in &mut members {
        has_all_by_group(client, subscription, &expected);
        assert_eq!(subscription.try_next(), None, "of plant/8/pose");
    }
    assert_eq!(take(&other, &mut by_connection, 50), expected);
}

#[test]
fn a_group_of_ipv6_is_joined_at_the_interface_that_has_the_address() {
    if !own_network::is_inside() {
        return own_network::run(
            "client::multicast::a_group_of_ipv6_is_joined_at_the_interface_that_has_the_address",
        );
    }
    let own: IpAddr = "fd77::1".parse().expect("an address");
    // Of the site, and of one link.
    for group in ["ff15::11", "ff12::11"] {
        let group: IpAddr = group.parse().expect("an address");
        let (broker, _kept) = broker(group, own_network::INTERFACE);
        let url = format!("mqtt://{}", broker.mqtt());
        let mut members = [Reliability::AtLeastOnce, Reliability::AtMostOnce]
            .map(|reliability| member(&url, &[LOOPBACK, own], reliability));
        let elsewhere: IpAddr = "fd77::2".parse().expect("an address");
        let others = [
            (LOOPBACK, "no interface is set for multicast of IPv6"),
            (elsewhere, "no interface has the address fd77::2"),
        ]
        .map(|(interface, why)| {
            let (other, by_connection) = member(&url, &[interface], Reliability::AtLeastOnce);
            assert!(why_not(&other).ends_with(why), "{}", why_not(&other));
            (other, by_connection)
        });
        let expected = publish(&url);
        for (client, subscription) in &mut members {
            has_all_by_group(client, subscription, &expected);
        }
        for (client, mut by_connection) in others {
            assert_eq!(take(&client, &mut by_connection, 50), expected);
        }
    }
}
