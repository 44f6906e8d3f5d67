//! Presence of each protocol's clients, seen by each protocol.

use thalweg_client::blocking::{Client, PresenceSubscription};
use thalweg_client::{ClientError, Leaving, Presence, Success};

use super::{PATIENCE, builder, connect};
use crate::broker::{Broker, Options, free_port};

fn telling() -> Options {
    Broker::with()
        .queues()
        .coap()
        .set("shards", "2")
        .set("presence.enabled", "true")
}

fn urls(broker: &Broker) -> [String; 3] {
    [
        format!("mqtt://{}", broker.mqtt()),
        format!("amqp://{}", broker.amqp()),
        format!("stomp://{}", broker.stomp()),
    ]
}

fn listen(client: &Client, names: &str) -> PresenceSubscription {
    client
        .presence_timeout(names, PATIENCE)
        .unwrap_or_else(|error| panic!("{names}: {error}"))
}

/// The next change in which this client is or is not here.
fn wait_for(changes: &mut PresenceSubscription, client_id: &str, online: bool) -> Presence {
    loop {
        match changes.next_timeout(PATIENCE) {
            Ok(Some(change)) if change.client_id == client_id && change.online == online => {
                return change;
            }
            Ok(Some(_)) => {}
            other => panic!("{other:?} in place of {client_id}: {online}"),
        }
    }
}

#[test]
fn clients_of_every_protocol_are_seen_by_every_protocol() {
    let Some(broker) = telling().start_for_queues() else {
        return;
    };
    let urls = urls(&broker);
    let listeners: Vec<Client> = urls.iter().map(|url| connect(&[url])).collect();
    let mut all: Vec<PresenceSubscription> =
        listeners.iter().map(|client| listen(client, "+")).collect();
    let coap = connect(&[&format!("coap://{}", broker.coap())]);
    for (number, (url, protocol)) in urls
        .iter()
        .zip(["MQTT 5.0", "AMQP 0-9-1", "STOMP 1.2"])
        .enumerate()
    {
        // One level of the address, whatever is in the name.
        let name = format!("pump/{number}.#");
        // Names of AMQP and STOMP clients are unverified: they are published under addresses of their own.
        let claimed = protocol != "MQTT 5.0";
        let mut one = (!claimed).then(|| listen(&coap, &name));
        let pump = builder(&[url])
            .client_id(&name)
            .connect_blocking()
            .expect("a client starts without a network");
        assert_eq!(
            pump.publish("a", b"1", &Default::default()),
            Ok(Success::Acknowledged)
        );
        let mut came = None;
        for changes in all.iter_mut().chain(&mut one) {
            let change = wait_for(changes, &name, true);
            assert_eq!(
                (&*change.protocol, change.why, change.claimed),
                (protocol, None, claimed)
            );
            assert_eq!(*came.get_or_insert(change.since), change.since);
        }
        pump.close(PATIENCE).expect("nothing is outstanding");
        for changes in all.iter_mut().chain(&mut one) {
            let change = wait_for(changes, &name, false);
            assert_eq!(
                (&*change.protocol, change.why),
                (protocol, Some(Leaving::Goodbye))
            );
            assert!(Some(change.since) >= came);
        }
        // A later subscriber gets the state, too.
        let mut late = listen(&listeners[0], "+");
        assert_eq!(
            wait_for(&mut late, &name, false).why,
            Some(Leaving::Goodbye)
        );
    }
}

#[test]
fn a_client_over_dtls_is_known_by_its_key() {
    let address = free_port().to_string();
    let options = telling()
        .file("keys", "meter:\"correct horse\"\n")
        .set("listeners.meters.bind", &address)
        .set("listeners.meters.kind", "coap")
        .set("listeners.meters.transport", "dtls")
        .set("listeners.meters.tls.psk_file", "{folder}/keys")
        .set("listeners.meters.tls.psk_bytes_min", "1");
    let Some(broker) = options.start_for_queues() else {
        return;
    };
    let listener = connect(&[&urls(&broker)[1]]);
    let mut changes = listen(&listener, "+");
    let meter = builder(&[&format!("coaps://{address}")]).psk("meter", b"correct horse".to_vec());
    let meter = meter
        .connect_blocking()
        .expect("a client starts without a network");
    assert_eq!(
        meter.publish("metered", b"1", &Default::default()),
        Ok(Success::Acknowledged)
    );
    assert_eq!(wait_for(&mut changes, "meter", true).protocol, "CoAP");
}

#[test]
fn who_takes_over_was_never_gone() {
    let Some(broker) = telling().start_for_queues() else {
        return;
    };
    let [mqtt, ..] = urls(&broker);
    let listener = connect(&[&mqtt]);
    let mut changes = listen(&listener, "pump");
    let start = || {
        builder(&[&mqtt])
            .client_id("pump")
            .connect_blocking()
            .expect("a client starts without a network")
    };
    let first = start();
    assert_eq!(
        first.publish("a", b"1", &Default::default()),
        Ok(Success::Acknowledged)
    );
    assert!(
        changes
            .next_timeout(PATIENCE)
            .expect("in time")
            .expect("a change")
            .online
    );
    let second = start();
    assert_eq!(
        second.publish("a", b"1", &Default::default()),
        Ok(Success::Acknowledged)
    );
    assert!(
        changes
            .next_timeout(PATIENCE)
            .expect("in time")
            .expect("a change")
            .online,
        "taken over"
    );
}

#[test]
fn where_it_is_off_the_broker_refuses() {
    let Some(broker) = Broker::with().queues().coap().start_for_queues() else {
        return;
    };
    let coap = format!("coap://{}", broker.coap());
    for url in urls(&broker).iter().chain([&coap]) {
        let refused = connect(&[url]).presence_timeout("pump", PATIENCE);
        assert!(
            matches!(refused, Err(ClientError::Refused(_))),
            "{url}: {refused:?}"
        );
    }
}
