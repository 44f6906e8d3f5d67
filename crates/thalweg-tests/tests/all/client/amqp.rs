//! The AMQP lane against the real broker, and towards every other protocol.

use super::crossing::*;
use crate::broker::Broker;

pub(super) fn broker() -> Option<Broker> {
    Broker::with().queues().start_for_queues()
}

/// AMQP, then the others.
pub(super) fn urls(broker: &Broker) -> [String; 3] {
    [
        format!("amqp://{}", broker.amqp()),
        format!("stomp://{}", broker.stomp()),
        format!("mqtt://{}", broker.mqtt()),
    ]
}

#[test]
fn what_is_said_crosses_between_amqp_and_every_protocol() {
    let Some(broker) = broker() else { return };
    let [amqp, stomp, mqtt] = &urls(&broker);
    for other in [amqp, stomp, mqtt] {
        for (publisher, listener) in [(amqp, other), (other, amqp)] {
            println!("{publisher} to {listener}");
            what_is_said_comes_along(publisher, listener);
            topics_survive(publisher, listener);
        }
    }
}

#[test]
fn questions_by_amqp_are_answered_by_every_protocol_and_the_other_way_round() {
    let Some(broker) = broker() else { return };
    let [amqp, stomp, mqtt] = &urls(&broker);
    for other in [amqp, stomp, mqtt] {
        for (asker, answerer) in [(amqp, other), (other, amqp)] {
            println!("{asker} asks {answerer}");
            questions_are_answered(asker, answerer);
        }
    }
}

#[test]
fn a_group_has_members_by_every_protocol() {
    // Each has its turn, whatever the speed of its lane.
    let in_turns = Broker::with()
        .queues()
        .set("groups.strategy", "round-robin");
    let Some(broker) = in_turns.start_for_queues() else {
        return;
    };
    let [amqp, stomp, mqtt] = &urls(&broker);
    a_group_shares(amqp, &[amqp, stomp, mqtt]);
}

#[test]
fn sessions_and_last_values_are_there_by_amqp() {
    let Some(broker) = broker() else { return };
    let [amqp, stomp, mqtt] = &urls(&broker);
    sessions_keep_what_comes(amqp, mqtt);
    for (publisher, listener) in [(amqp, mqtt), (mqtt, amqp), (amqp, stomp)] {
        last_values_come_first(publisher, listener);
    }
}

#[test]
fn last_values_are_read_by_amqp() {
    for shards in ["1", "3"] {
        let Some(broker) = Broker::with()
            .queues()
            .set("shards", shards)
            .start_for_queues()
        else {
            return;
        };
        let [amqp, stomp, mqtt] = &urls(&broker);
        for publisher in [amqp, stomp, mqtt] {
            last_values_are_read(publisher, amqp);
        }
    }
}

#[test]
fn stamps_cross_from_amqp() {
    let Some(broker) = broker() else { return };
    let [amqp, stomp, mqtt] = &urls(&broker);
    for listener in [amqp, stomp, mqtt] {
        stamps_come_along(&[amqp, stomp], listener);
        stamps_come_along(&[amqp, mqtt], listener);
    }
}

/// A broker where every user may access everything except secrets.
pub(super) fn guarded() -> Option<Broker> {
    let rules =
        "topic deny secret/#\ntopic readwrite #\ntopic readwrite $q/#\ntopic readwrite $x/#\n";
    let guarded = Broker::with()
        .queues()
        .file("acl", rules)
        .set("access.acl_file", "{folder}/acl");
    guarded.start_for_queues()
}

#[test]
fn what_is_forbidden_by_amqp_fails_alone() {
    let Some(broker) = guarded() else { return };
    what_is_forbidden_fails_alone(&format!("amqp://{}", broker.amqp()));
}
