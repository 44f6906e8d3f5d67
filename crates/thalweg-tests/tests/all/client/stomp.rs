//! The STOMP lane against the real broker, and towards every other protocol.

use super::amqp::{broker, guarded, urls};
use super::crossing::*;
use crate::broker::Broker;

#[test]
fn what_is_said_crosses_between_stomp_and_every_protocol() {
    let Some(broker) = broker() else { return };
    let [_, stomp, mqtt] = &urls(&broker);
    for other in [stomp, mqtt] {
        for (publisher, listener) in [(stomp, other), (other, stomp)] {
            println!("{publisher} to {listener}");
            what_is_said_comes_along(publisher, listener);
            topics_survive(publisher, listener);
        }
    }
}

#[test]
fn questions_by_stomp_are_answered_by_mqtt_and_the_other_way_round() {
    let Some(broker) = broker() else { return };
    let [_, stomp, mqtt] = &urls(&broker);
    for (asker, answerer) in [(stomp, stomp), (stomp, mqtt), (mqtt, stomp)] {
        println!("{asker} asks {answerer}");
        questions_are_answered(asker, answerer);
    }
}

#[test]
fn sessions_and_last_values_are_there_by_stomp() {
    let Some(broker) = broker() else { return };
    let [amqp, stomp, mqtt] = &urls(&broker);
    sessions_keep_what_comes(stomp, mqtt);
    for (publisher, listener) in [(stomp, mqtt), (mqtt, stomp), (stomp, amqp)] {
        last_values_come_first(publisher, listener);
    }
}

#[test]
fn last_values_are_read_by_stomp() {
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
            last_values_are_read(publisher, stomp);
        }
    }
}

#[test]
fn stamps_cross_from_stomp() {
    let Some(broker) = broker() else { return };
    let [amqp, stomp, mqtt] = &urls(&broker);
    for listener in [amqp, stomp, mqtt] {
        stamps_come_along(&[stomp, mqtt], listener);
    }
}

#[test]
fn what_is_forbidden_by_stomp_fails_alone() {
    let Some(broker) = guarded() else { return };
    what_is_forbidden_fails_alone(&format!("stomp://{}", broker.stomp()));
}
