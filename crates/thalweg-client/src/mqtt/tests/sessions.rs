//! A lost connection, with and without a session that outlives it.

use super::*;

fn durable(version: u8) -> Pair {
    let mut pair = Pair::new(MqttSettings {
        version,
        ..settings()
    });
    pair.opening.session = Span::from_secs(3600);
    pair.reach();
    pair.witness.take();
    pair
}

fn ids(pair: &Pair) -> Vec<(u16, bool)> {
    pair.server
        .published
        .iter()
        .map(|p| (p.id, p.dup))
        .collect()
}

/// [MQTT-4.4.0-1] [MQTT-4.3.3-4] [MQTT-4.6.0-4]
#[test]
fn a_session_goes_on_under_the_old_packet_identifiers() {
    for version in VERSIONS {
        let mut pair = durable(version);
        pair.server.answers = false;
        for id in 1..=3 {
            let reliability = if id == 2 {
                Reliability::AtLeastOnce
            } else {
                Reliability::ExactlyOnce
            };
            pair.must_publish(&Outbound {
                reliability,
                ..message(id, "a", b"x")
            });
        }
        pair.exchange();
        // Of the first one PUBREC comes, and PUBREL is lost with the connection.
        pair.server
            .side
            .pubrec(1, ReasonCode::Success, &mut pair.server.out);
        pair.exchange();
        assert_eq!(pair.server.acks, [("PUBREL", 1)]);
        pair.server.unreleased.push(1);
        pair.lose();
        pair.server.answers = true;
        pair.reach();
        let up = EventCall::Up(Welcome {
            session_present: true,
            client_id: None,
        });
        assert_eq!(
            pair.witness.take(),
            [up, EventCall::Settled(1, Settled::Acknowledged)]
        );
        for id in 2..=3 {
            let reliability = if id == 2 {
                Reliability::AtLeastOnce
            } else {
                Reliability::ExactlyOnce
            };
            let again = Outbound {
                reliability,
                repeated: true,
                ..message(id, "a", b"x")
            };
            assert_eq!(pair.publish(&again), Ok(Departure::Awaited));
        }
        pair.exchange();
        assert_eq!(pair.witness.take(), acknowledged([2, 3]));
        // The server had the QoS 2 messages already: each is there once.
        assert_eq!(ids(&pair), [(1, false), (2, false), (3, false), (2, true)]);
        assert!(pair.server.unreleased.is_empty());
    }
}

#[test]
fn a_message_that_the_server_had_taken_is_not_sent_again_when_the_session_goes_on() {
    let mut pair = durable(5);
    pair.server.answers = false;
    pair.must_publish(&exactly_once(1, "a", b"x"));
    pair.exchange();
    pair.server
        .side
        .pubrec(1, ReasonCode::Success, &mut pair.server.out);
    pair.exchange();
    pair.lose();
    pair.reach();
    let again = Outbound {
        reliability: Reliability::ExactlyOnce,
        repeated: true,
        ..message(1, "a", b"x")
    };
    assert_eq!(pair.publish(&again), Ok(Departure::Awaited));
    assert!(pair.out.is_empty(), "PUBREL has gone by itself");
    pair.witness.take();
    pair.server
        .side
        .pubcomp(1, ReasonCode::Success, &mut pair.server.out);
    pair.exchange();
    assert_eq!(pair.witness.take(), acknowledged([1]));
}

#[test]
fn without_a_session_what_the_server_had_taken_is_done_and_the_rest_is_sent_anew() {
    let mut pair = Pair::up(settings());
    pair.server.answers = false;
    for id in 1..=2 {
        pair.must_publish(&exactly_once(id, "a", b"x"));
    }
    pair.exchange();
    pair.server
        .side
        .pubrec(1, ReasonCode::Success, &mut pair.server.out);
    pair.exchange();
    pair.lose();
    pair.server.answers = true;
    pair.reach();
    let up = EventCall::Up(Welcome {
        session_present: false,
        client_id: None,
    });
    assert_eq!(
        pair.witness.take(),
        [up, EventCall::Settled(1, Settled::Acknowledged)]
    );
    let again = Outbound {
        reliability: Reliability::ExactlyOnce,
        repeated: true,
        ..message(2, "a", b"x")
    };
    pair.must_publish(&again);
    pair.exchange();
    assert_eq!(pair.witness.take(), acknowledged([2]));
    assert!(
        !pair.server.published.last().expect("it came").dup,
        "a new packet for a new session"
    );
}

/// [MQTT-4.3.3-10]
#[test]
fn an_exactly_once_delivery_that_comes_again_is_told_once() {
    let mut pair = durable(5);
    pair.must_subscribe(0, "a", Reliability::ExactlyOnce);
    pair.exchange();
    let id = pair
        .server
        .deliver("a", b"1", QoS::ExactlyOnce, false, &["a"]);
    pair.exchange();
    assert_eq!(pair.witness.take_received().len(), 1);
    // Nobody has settled it when the connection is lost.
    pair.lose();
    pair.reach();
    pair.server.next_id = id - 1;
    pair.server
        .deliver("a", b"1", QoS::ExactlyOnce, false, &["a"]);
    pair.exchange();
    assert_eq!(pair.witness.take_received(), []);
    assert_eq!(pair.server.acks, [("PUBREC", id), ("PUBCOMP", id)]);
    // The identifier is free again.
    pair.server.next_id = id - 1;
    pair.server
        .deliver("a", b"2", QoS::ExactlyOnce, false, &["a"]);
    pair.exchange();
    assert_eq!(pair.witness.take_received()[0].payload, b"2");
}

#[test]
fn a_delivery_of_an_earlier_connection_is_not_acknowledged_on_this_one() {
    let mut pair = durable(5);
    pair.must_subscribe(0, "a", Reliability::ExactlyOnce);
    pair.exchange();
    pair.witness.take();
    pair.server
        .deliver("a", b"1", QoS::AtLeastOnce, false, &["a"]);
    pair.exchange();
    let old = pair.witness.take_received()[0]
        .delivery
        .expect("it is to be settled");
    pair.lose();
    pair.reach();
    pair.settle(old);
    assert!(pair.out.is_empty());
}

#[test]
fn last_values_come_once_in_a_session_and_again_in_a_new_one() {
    let mut pair = durable(5);
    pair.server.retained.insert("a".to_owned(), b"v".to_vec());
    pair.must_subscribe(0, "a", Reliability::ExactlyOnce);
    pair.exchange();
    let got = pair.witness.take_received();
    assert!(got.len() == 1 && got[0].is_last_value);
    pair.lose();
    pair.reach();
    pair.must_subscribe(0, "a", Reliability::ExactlyOnce);
    pair.exchange();
    assert_eq!(pair.witness.take_received(), []);
    pair.lose();
    pair.server.has_session = false;
    pair.reach();
    pair.must_subscribe(0, "a", Reliability::ExactlyOnce);
    pair.exchange();
    assert_eq!(pair.witness.take_received().len(), 1);
}

#[test]
fn what_was_unsubscribed_without_a_connection_is_told_to_the_session() {
    let mut pair = durable(5);
    pair.must_subscribe(0, "a", Reliability::ExactlyOnce);
    pair.exchange();
    pair.lose();
    pair.unsubscribe(0);
    pair.reach();
    assert_eq!(pair.server.subscriptions, []);
}

/// A session that a process before this one began: its identifiers mean nothing here.
#[test]
fn identifiers_of_an_inherited_session_are_not_believed() {
    let mut pair = Pair::new(settings());
    pair.opening.session = Span::from_secs(3600);
    pair.server.has_session = true;
    pair.server
        .subscriptions
        .push(("old".to_owned(), QoS::AtMostOnce, Some(1)));
    pair.reach();
    pair.must_subscribe(0, "new", Reliability::ExactlyOnce);
    pair.exchange();
    pair.server
        .deliver("old", b"1", QoS::AtMostOnce, false, &["old"]);
    pair.exchange();
    assert_eq!(pair.witness.take_received()[0].subscription, None);
}
