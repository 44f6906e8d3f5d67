//! Unsettled messages are delivered again when their receiver leaves.

use crate::peer::{Place, Protocol, Stage};

const QUEUE: Place<'_> = Place::Queue("work");

#[test]
fn what_a_lost_consumer_has_not_settled_comes_again_to_a_consumer_of_any_protocol() {
    for first in Protocol::ALL.into_iter().filter(|it| it.settles()) {
        for second in Protocol::ALL {
            let mut stage = Stage::new(1);
            stage.declare("work");
            let publisher = stage.connect(Protocol::Amqp, "publisher");
            let lost = stage.connect(first, "first");
            stage.publish(publisher, QUEUE, "job");
            if matches!(first, Protocol::Coap | Protocol::CoapStream) {
                // It settles by acknowledging the response, or by anything it says after having read it.
                stage.fall_silent(lost);
                stage.ask(lost, QUEUE);
            } else {
                stage.ask(lost, QUEUE);
                assert_eq!(stage.bodies(lost), ["job"], "{first:?}");
            }
            stage.lose(lost);
            let next = stage.connect(second, "second");
            stage.ask(next, QUEUE);
            let received = stage.received(next);
            let [delivery] = &received[..] else {
                panic!("{first:?} then {second:?}: {received:?} instead of the job")
            };
            assert_eq!(delivery.body, "job");
            assert_eq!(
                delivery.redelivered,
                second.marks_redeliveries(),
                "{first:?} then {second:?}"
            );
            stage.acknowledge(next, delivery);
            stage.lose(next);
            let last = stage.connect(Protocol::Amqp, "last");
            stage.ask(last, QUEUE);
            assert!(
                stage.received(last).is_empty(),
                "{first:?} then {second:?}: what is settled comes again"
            );
        }
    }
}

#[test]
fn what_is_acknowledged_before_the_broker_dies_is_gone_and_the_rest_comes_again() {
    for protocol in Protocol::CONSUMERS {
        let mut stage = Stage::limited(thalweg_kernel::Limits {
            journal: true,
            ..Default::default()
        });
        stage.declare("work");
        let publisher = stage.connect(Protocol::Amqp, "publisher");
        for body in ["1", "2", "3"] {
            stage.publish(publisher, QUEUE, body);
        }
        let consumer = stage.connect(protocol, "consumer");
        stage.ask(consumer, QUEUE);
        // A member of a group is sent one message until it has shown how it works.
        let received = stage.received(consumer);
        assert_eq!(received[0].body, "1", "{protocol:?}");
        stage.acknowledge(consumer, &received[0]);
        stage.bed.restart();
        let next = stage.connect(Protocol::Amqp, "next");
        // MQTT's session is still a member of its group, and messages sent to it stay assigned to it until that ends.
        if matches!(protocol, Protocol::Mqtt3 | Protocol::Mqtt5) {
            stage.bed.run_for(thalweg_model::Span::from_secs(7200));
        }
        stage.ask(next, QUEUE);
        let mut bodies = stage.bodies(next);
        bodies.sort();
        assert_eq!(bodies, ["2", "3"], "{protocol:?}");
    }
}

#[test]
fn a_session_that_is_taken_over_gives_what_is_unsettled_to_who_took_it() {
    for protocol in [Protocol::Mqtt3, Protocol::Mqtt5] {
        for shards in [1, 3] {
            let mut stage = Stage::new(shards);
            let publisher = stage.connect(Protocol::Stomp, "publisher");
            let old = stage.connect_as(protocol, "user", "device", 10);
            stage.ask(old, Place::Address("a/b"));
            stage.publish(publisher, Place::Address("a/b"), "1");
            assert_eq!(stage.bodies(old), ["1"]);
            let new = stage.connect_as(protocol, "user", "device", 10);
            assert!(stage.is_closed(old), "{protocol:?}: two have one session");
            stage.publish(publisher, Place::Address("a/b"), "2");
            let received = stage.received(new);
            let got: Vec<_> = received
                .iter()
                .map(|got| (&*got.body, got.redelivered))
                .collect();
            assert_eq!(got, [("1", true), ("2", false)], "{protocol:?}");
        }
    }
}

/// Where a connection is no session with a name, two of one user do not disturb each other.
#[test]
fn two_connections_of_one_user_are_two_where_sessions_have_no_names() {
    for protocol in [
        Protocol::Amqp,
        Protocol::Stomp,
        Protocol::Coap,
        Protocol::CoapStream,
        Protocol::Xmpp,
    ] {
        let mut stage = Stage::new(1);
        let publisher = stage.connect(Protocol::Mqtt5, "publisher");
        let peers = ["one", "two"].map(|name| stage.connect_as(protocol, "user", name, 10));
        for peer in peers {
            stage.ask(peer, Place::Address("a/b"));
            stage.bodies(peer);
        }
        stage.publish(publisher, Place::Address("a/b"), "1");
        for peer in peers {
            assert!(!stage.is_closed(peer), "{protocol:?}");
            assert_eq!(stage.bodies(peer), ["1"], "{protocol:?}");
        }
    }
}
