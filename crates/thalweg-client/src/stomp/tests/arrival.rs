//! Subscriptions, and received messages in the client's terms.

use super::*;
use thalweg_model::Stamp;

#[test]
fn a_filter_is_a_destination() {
    let mut pair = Pair::up(StompSettings {
        prefetch: 30,
        ..settings()
    });
    pair.subscribed(1, "a/+/#");
    pair.must_subscribe(2, "b", Reliability::AtMostOnce);
    pair.must_subscribe(3, "$q/work", Reliability::AtLeastOnce);
    pair.must_subscribe(4, "$share/g/a/+", Reliability::AtLeastOnce);
    let (subscription, reliability) = (SubscriptionId(5), Reliability::AtMostOnce);
    let wish = SubscribeWish {
        subscription,
        filter: "c",
        reliability,
        last_values: true,
    };
    pair.lane
        .subscribe(&wish, pair.now, &mut pair.out)
        .expect("it can be said");
    pair.exchange();
    let expected = [
        "1 /topic/a.*.# client-individual prefetch-count:30",
        "2 /topic/b auto ",
        "3 /amq/queue/work client-individual prefetch-count:30",
        "4 /amq/queue/$g/g/a/+ client-individual prefetch-count:30",
        "5 /topic/c auto x-last-value:true",
    ];
    assert_eq!(pair.server.heard, expected);
    pair.server.heard.clear();
    pair.unsubscribe(1);
    pair.exchange();
    assert_eq!(pair.server.heard, ["unsubscribe 1 None"]);
    assert_eq!(
        pair.subscribe(6, "a/#/b", Reliability::AtLeastOnce),
        Err(Refusal::Address)
    );
}

#[test]
fn groups_are_shared_queues_where_there_are_no_groups() {
    let mut pair = Pair::new(settings());
    pair.server.name = "RabbitMQ/3.10.8";
    pair.connect();
    pair.must_subscribe(1, "$share/g/a/+", Reliability::AtMostOnce);
    pair.exchange();
    let wishes = "x-queue-name:$g/g/a/+ exclusive:false durable:false auto-delete:true";
    assert_eq!(pair.server.heard, [format!("1 /topic/a.* auto {wishes}")]);
}

#[test]
fn a_session_has_queues_with_names() {
    let mut pair = Pair::new(settings());
    pair.opening.session = Span::from_secs(60);
    pair.connect();
    pair.must_subscribe(1, "a/#", Reliability::AtMostOnce);
    pair.exchange();
    pair.unsubscribe(1);
    pair.exchange();
    let wishes = "x-queue-name:client/pump-7/stomp/a/# durable:true auto-delete:false exclusive:false x-expires:60000";
    let ended = "unsubscribe 1 Some(\"client/pump-7/stomp/a/#\")".to_owned();
    assert_eq!(
        pair.server.heard,
        [format!("1 /topic/a.# auto {wishes}"), ended]
    );
}

#[test]
fn everything_that_a_message_said_is_there_again() {
    let mut pair = Pair::up(settings());
    pair.subscribed(7, "a/+");
    let mut properties = Vec::new();
    Properties::push("room: \n\\", "1:2\r\n", &mut properties);
    let sent = Outbound {
        content_type: Some("text/plain"),
        properties: Properties(&properties),
        reply_to: Some("answers/here.now"),
        correlation: Some(b"\xFF\x00"),
        stamp: Some(Stamp {
            publisher: 0xAB,
            sequence: 0x10,
        }),
        ..message(1, "a/b.c", b"21.\x005")
    };
    pair.must_publish(&sent);
    let got = pair.received_one();
    let expected = Got {
        subscription: Some(SubscriptionId(7)),
        delivery: got.delivery,
        address: "a/b.c".to_owned(),
        payload: b"21.\x005".to_vec(),
        reliability: Reliability::AtLeastOnce,
        is_last_value: false,
        repeated: false,
        content_type: Some("text/plain".to_owned()),
        properties: vec![("room: \n\\".to_owned(), "1:2\r\n".to_owned())],
        reply_to: Some("answers/here.now".to_owned()),
        correlation: Some(b"\xFF\x00".to_vec()),
        stamp: Some(Stamp {
            publisher: 0xAB,
            sequence: 0x10,
        }),
    };
    assert_eq!(got, expected);
    // Its name is what the broker gave, whatever stands in it; and it is settled once.
    let delivery = got.delivery.expect("it wants to be settled");
    pair.server.heard.clear();
    pair.settle(delivery);
    pair.settle(delivery);
    pair.exchange();
    assert_eq!(pair.server.heard, ["ack T_7@@a:b\\1"]);
}

#[test]
fn of_a_header_that_comes_again_the_first_counts() {
    let mut pair = Pair::up(settings());
    pair.subscribed(1, "a");
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let headers = vec![
        header("room", "12"),
        header("room", "13"),
        header("x-stamp", "no stamp"),
        header("timestamp", "1700000000"),
        header("correlation-id", "not base64!"),
        header("correlation-id-encoding", "base64"),
    ];
    let sent = Sent {
        destination: "/topic/a".to_owned(),
        headers,
        ..Sent::default()
    };
    pair.server.message("1", false, &sent, true);
    let got = pair.received_one();
    assert_eq!(got.properties, [header("room", "12")]);
    assert_eq!((got.repeated, got.delivery, got.stamp), (true, None, None));
    assert_eq!(got.correlation.as_deref(), Some(&b"not base64!"[..]));
}

#[test]
fn what_crosses_an_unsubscribe_goes_back() {
    let mut pair = Pair::up(settings());
    pair.subscribed(1, "a");
    let sent = Sent {
        destination: "/topic/a".to_owned(),
        ..Sent::default()
    };
    pair.server.message("1", true, &sent, false);
    pair.unsubscribe(1);
    assert_eq!(pair.received(), []);
    assert_eq!(
        pair.server.heard[1..],
        ["unsubscribe 1 None", "nack T_1@@a:b\\1"]
    );
}
