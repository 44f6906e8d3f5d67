//! Subscriptions: how they are made, refused, kept and ended.

use super::*;

const UNLIMITED: &str = "{}";

#[test]
fn a_filter_is_a_queue_of_its_own() {
    let mut pair = Pair::up(AmqpSettings {
        prefetch: 30,
        ..settings()
    });
    pair.subscribed(1, "a/+/#");
    let expected = [
        "3 prefetch 30",
        "3 declare amq.gen-1 exclusive auto-delete {}",
        "3 bind amq.gen-1 amq.topic a.*.# {}",
        "3 consume amq.gen-1",
    ];
    assert_eq!(pair.server.heard, expected);
    pair.server.heard.clear();
    pair.must_subscribe(2, "b", Reliability::AtMostOnce);
    pair.exchange();
    let expected = [
        "4 declare amq.gen-2 exclusive auto-delete {}",
        "4 bind amq.gen-2 amq.topic b {}",
        "4 consume amq.gen-2 no-ack",
    ];
    assert_eq!(pair.server.heard, expected);
}

#[test]
fn last_values_are_asked_for_where_there_are_some() {
    for (product, arguments) in [
        ("Thalweg", "{\"x-last-value\": t:true}"),
        ("RabbitMQ", UNLIMITED),
    ] {
        let mut pair = Pair::new(settings());
        pair.server.product = product;
        pair.connect();
        let (subscription, reliability) = (SubscriptionId(1), Reliability::AtMostOnce);
        let wish = SubscribeWish {
            subscription,
            filter: "a",
            reliability,
            last_values: true,
        };
        pair.lane
            .subscribe(&wish, pair.now, &mut pair.out)
            .expect("it can be said");
        pair.exchange();
        assert_eq!(
            pair.server.heard[1],
            format!("3 bind amq.gen-1 amq.topic a {arguments}")
        );
    }
}

#[test]
fn queues_are_taken_as_they_are_and_groups_are_queues() {
    let mut pair = Pair::up(AmqpSettings {
        prefetch: 0,
        ..settings()
    });
    pair.server
        .queues
        .insert("work".to_owned(), Queue::default());
    pair.subscribed(1, "$q/work");
    pair.subscribed(2, "$share/g/a/+");
    assert_eq!(pair.server.heard, ["3 consume work", "4 consume $g/g/a/+"]);

    let mut pair = Pair::new(AmqpSettings {
        prefetch: 0,
        ..settings()
    });
    pair.server.product = "RabbitMQ";
    pair.server
        .queues
        .insert("work".to_owned(), Queue::default());
    pair.connect();
    pair.subscribed(1, "$share/g/$q/work");
    pair.subscribed(2, "$share/g/a/+");
    let expected = [
        "3 consume work",
        "4 declare $g/g/a/+ auto-delete {}",
        "4 bind $g/g/a/+ amq.topic a.* {}",
        "4 consume $g/g/a/+",
    ];
    assert_eq!(pair.server.heard, expected);
}

#[test]
fn what_goes_wrong_with_one_leaves_the_others_alone() {
    let mut pair = Pair::up(settings());
    pair.server.forbidden_binding = Some("secret.#");
    pair.subscribed(1, "a");
    for (id, filter) in [(2, "secret/#"), (3, "b"), (4, "$q/nowhere")] {
        pair.must_subscribe(id, filter, Reliability::AtLeastOnce);
    }
    pair.exchange();
    let told = pair.witness.take();
    let refused = |id, words: &str| {
        EventCall::Subscribed(SubscriptionId(id), Err(Refusal::Denied(words.to_owned())))
    };
    assert!(
        told.contains(&refused(2, "ACCESS_REFUSED - you may not read this")),
        "{told:?}"
    );
    assert!(
        told.contains(&refused(4, "NOT_FOUND - no queue 'nowhere'")),
        "{told:?}"
    );
    assert!(
        told.contains(&EventCall::Subscribed(SubscriptionId(3), Ok(()))),
        "{told:?}"
    );
    pair.must_publish(&at_most_once(1, "a", b"x"));
    assert_eq!(pair.received().len(), 1);
    // A channel of those that failed is used again.
    pair.server.heard.clear();
    pair.subscribed(5, "c");
    assert!(
        pair.server.heard[0].starts_with("4 "),
        "{:?}",
        pair.server.heard
    );
}

#[test]
fn a_queue_that_goes_away_and_a_channel_that_is_closed_end_a_subscription() {
    let mut pair = Pair::up(settings());
    pair.subscribed(1, "a");
    pair.subscribed(2, "b");
    pair.server.answer(
        3,
        Method::BasicCancel(basic::Cancel {
            consumer_tag: "s",
            no_wait: true,
        }),
    );
    pair.server
        .close_channel(4, ReplyCode::PreconditionFailed, "too slow", MethodId::NONE);
    pair.exchange();
    let told = pair.witness.take();
    let words = "PRECONDITION_FAILED - too slow".to_owned();
    assert!(
        matches!(
            &told[0],
            EventCall::Unsubscribed(SubscriptionId(1), Refusal::Busy(_))
        ),
        "{told:?}"
    );
    assert_eq!(
        told[1..],
        [EventCall::Unsubscribed(
            SubscriptionId(2),
            Refusal::Busy(words)
        )]
    );
    pair.subscribed(1, "a");
    pair.subscribed(2, "b");
}

#[test]
fn what_came_can_be_settled_after_the_subscription() {
    let mut pair = Pair::up(AmqpSettings {
        prefetch: 0,
        ..settings()
    });
    pair.server
        .queues
        .insert("work".to_owned(), Queue::default());
    pair.subscribed(1, "$q/work");
    for id in [1, 2] {
        pair.must_publish(&at_most_once(id, "$q/work", b""));
    }
    let deliveries: Vec<DeliveryId> = pair
        .received()
        .iter()
        .filter_map(|got| got.delivery)
        .collect();
    pair.server.heard.clear();
    pair.unsubscribe(1);
    pair.exchange();
    assert_eq!(pair.server.heard, ["3 cancel"]);
    for delivery in deliveries.iter().chain(&deliveries) {
        pair.settle(*delivery);
    }
    pair.exchange();
    assert_eq!(
        pair.server.heard,
        ["3 cancel", "3 ack 1", "3 ack 2", "3 close"]
    );
    // The next one has the same channel and tags, and is not meant by those names.
    pair.subscribed(2, "$q/work");
    pair.must_publish(&at_most_once(3, "$q/work", b""));
    assert_eq!(pair.received().len(), 1);
    pair.server.heard.clear();
    pair.settle(deliveries[0]);
    pair.exchange();
    assert_eq!(pair.server.heard, Vec::<String>::new());
}

#[test]
fn who_ends_a_subscription_before_it_stands_hears_nothing_of_it() {
    let mut pair = Pair::up(settings());
    pair.must_subscribe(1, "a", Reliability::AtLeastOnce);
    pair.unsubscribe(1);
    pair.exchange();
    assert_eq!(pair.witness.take(), []);
    assert_eq!(pair.server.heard, ["3 close"]);
}

#[test]
fn a_session_keeps_what_comes_meanwhile() {
    let mut pair = Pair::new(AmqpSettings {
        prefetch: 0,
        ..settings()
    });
    pair.opening.session = Span::from_secs(3600);
    pair.connect();
    pair.subscribed(1, "a/#");
    let declared = "3 declare client/pump-7/amqp/a/# durable {\"x-expires\": l:3600000}";
    assert_eq!(pair.server.heard[0], declared);
    let one = at_most_once(1, "a/b", b"1");
    pair.must_publish(&one);
    assert_eq!(pair.received().len(), 1);
    // The connection is lost with this one unsettled; another comes before the client is back.
    pair.lane.closed();
    pair.server.accept();
    let queue = pair
        .server
        .queues
        .get_mut("client/pump-7/amqp/a/#")
        .expect("it stays");
    queue.messages.push_back((
        Published {
            payload: b"2".to_vec(),
            ..queue.messages[0].0.clone()
        },
        false,
    ));
    pair.connect();
    pair.must_subscribe(9, "a/#", Reliability::AtLeastOnce);
    let got = pair.received();
    let got: Vec<(&[u8], bool)> = got
        .iter()
        .map(|got| (got.payload.as_slice(), got.repeated))
        .collect();
    assert_eq!(got, [(&b"1"[..], true), (&b"2"[..], false)]);
    pair.server.heard.clear();
    pair.unsubscribe(9);
    pair.exchange();
    assert_eq!(
        pair.server.heard,
        ["3 cancel", "3 delete client/pump-7/amqp/a/#"]
    );
}

#[test]
fn a_session_of_another_length_finds_its_queue() {
    let mut pair = Pair::new(AmqpSettings {
        prefetch: 0,
        ..settings()
    });
    pair.opening.session = Span::from_secs(60);
    pair.connect();
    pair.subscribed(1, "a");
    pair.opening.session = Span::FOREVER;
    pair.connect();
    pair.subscribed(1, "a");
    let expected = [
        "3 declare client/pump-7/amqp/a durable {}",
        "3 declare client/pump-7/amqp/a passive durable {}",
        "3 bind client/pump-7/amqp/a amqp.topic a {}",
        "3 consume client/pump-7/amqp/a",
    ];
    assert_eq!(
        pair.server.heard,
        expected.map(|line| line.replace("amqp.topic", "amq.topic"))
    );
}

#[test]
fn there_are_as_many_subscriptions_as_channels() {
    let mut pair = Pair::new(settings());
    pair.server.limits.channel_max = 4;
    pair.connect();
    pair.subscribed(1, "a");
    pair.subscribed(2, "b");
    assert!(matches!(
        pair.subscribe(3, "c", Reliability::AtLeastOnce),
        Err(Refusal::Denied(_))
    ));
    pair.unsubscribe(1);
    pair.exchange();
    pair.subscribed(3, "c");
}
