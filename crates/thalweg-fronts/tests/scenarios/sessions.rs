//! Sessions: takeover, expiry, what is repeated after a reconnect.

use crate::world::Packet;
use crate::world::{Hello, World, staying};
use thalweg_model::Span;
use thalweg_mqtt::{QoS, ReasonCode, SubscribeOptions};

#[test]
fn a_second_connection_takes_the_session_over_and_the_first_is_told() {
    let mut world = World::new(2);
    let (first, present) = world.connect_with("c", &staying());
    assert!(!present);
    world.subscribe(first, "t", QoS::AtLeastOnce);
    let (second, present) = world.connect_with("c", &staying());
    assert!(present, "the session goes on");
    assert_eq!(
        world.heard(first),
        Some(Packet::Disconnect(ReasonCode::SessionTakenOver))
    );
    assert!(world.is_closed(first));
    let publisher = world.connect("p");
    world.publish(publisher, "t", "m", QoS::AtLeastOnce);
    assert_eq!(world.texts(second), ["m"]);
    assert_eq!(world.texts(first), [""; 0]);
}

#[test]
fn what_waited_for_an_offline_session_arrives_in_order_after_what_was_in_flight() {
    let mut world = World::new(3);
    let (receiver, _) = world.connect_with("c", &staying());
    world.subscribe(receiver, "t", QoS::ExactlyOnce);
    world.answer(receiver, false);
    let publisher = world.connect("p");
    world.publish(publisher, "t", "1", QoS::AtLeastOnce);
    world.publish(publisher, "t", "2", QoS::ExactlyOnce);
    world.lose(receiver);
    world.publish(publisher, "t", "3", QoS::AtLeastOnce);
    world.publish(publisher, "t", "lost", QoS::AtMostOnce);
    let (receiver, _) = world.connect_with("c", &staying());
    let got = world.messages(receiver);
    let seen: Vec<_> = got.iter().map(|got| (got.payload[0], got.dup)).collect();
    assert_eq!(seen, [(b'1', true), (b'2', true), (b'3', false)]);
}

#[test]
fn a_session_ends_when_it_has_been_away_for_its_expiry() {
    let mut world = World::new(1);
    let hello = Hello {
        clean: false,
        expiry_secs: 10,
        ..Hello::default()
    };
    let (first, _) = world.connect_with("c", &hello);
    world.lose(first);
    world.wait(Span::from_secs(9));
    let (second, present) = world.connect_with("c", &hello);
    assert!(present);
    world.lose(second);
    world.wait(Span::from_secs(11));
    let (_, present) = world.connect_with("c", &hello);
    assert!(!present);
    assert_eq!(world.sum(|kernel| kernel.ledger().sessions_expired), 1);
}

#[test]
fn a_receiver_that_allows_fewer_than_before_gets_its_repeats_one_by_one() {
    let mut world = World::new(1);
    let (receiver, _) = world.connect_with("c", &staying());
    world.subscribe(receiver, "t", QoS::ExactlyOnce);
    world.answer(receiver, false);
    let publisher = world.connect("p");
    for number in 0..5 {
        let qos = if number % 2 == 0 {
            QoS::AtLeastOnce
        } else {
            QoS::ExactlyOnce
        };
        world.publish(publisher, "t", &number.to_string(), qos);
    }
    world.lose(receiver);
    // ClientSide reports a fault if more than one comes before it has answered. [MQTT-3.3.4-9]
    let (receiver, _) = world.connect_with(
        "c",
        &Hello {
            receive_max: 1,
            ..staying()
        },
    );
    assert_eq!(world.texts(receiver), ["0", "1", "2", "3", "4"]);
    assert_eq!(world.bed.total(|totals| totals.in_flight), 0);
}

#[test]
fn an_answer_to_a_lost_connection_is_not_given_to_the_next_one_of_the_same_number() {
    let mut world = World::new(2);
    let name = world.name_on(0, "c");
    let (first, _) = world.connect_with(&name, &staying());
    world.ask(first, "t", SubscribeOptions::default());
    let pipe = first;
    world.bed.feed(pipe, usize::MAX);
    world.bed.cut(pipe, usize::MAX);
    world.bed.notice(pipe);
    // The link's number is free again, and the next connection has it.
    let (second, present) = world.connect_with(&name, &staying());
    assert!(present);
    assert_eq!(world.heard(second), None, "nobody asked on this connection");
}
