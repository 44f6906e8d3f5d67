//! Each operation needs its right, whatever the protocol, and a reload of the rules applies to existing objects.

use crate::peer::{Peer, Place, Protocol, Stage, everything};
use thalweg_kernel::access::{Otherwise, Permission, Rule, Rules};

const ADDRESS: Place<'_> = Place::Address("a/b");
const QUEUE: Place<'_> = Place::Queue("work");

fn but(permission: Permission, pattern: &str) -> Rules {
    Rules::new(vec![Rule::deny(permission, pattern)], Otherwise::Allow).expect("a filter")
}

/// The user as whom a client of a protocol connects.
fn user(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::CoapStream => "",
        _ => "eve",
    }
}

/// A client that was disconnected for its attempt reconnects.
fn back(stage: &mut Stage, peer: Peer) -> Peer {
    match stage.is_closed(peer) {
        true => stage.connect(peer.protocol, user(peer.protocol)),
        false => peer,
    }
}

#[test]
fn nobody_publishes_without_the_right() {
    for protocol in Protocol::ALL {
        for (place, address) in [(ADDRESS, "a/b"), (QUEUE, "$q/work")] {
            let mut stage = Stage::new(1);
            stage.declare("work");
            let reader = stage.connect(Protocol::Amqp, "reader");
            stage.ask(reader, place);
            let eve = stage.connect(protocol, user(protocol));
            stage.publish(eve, place, "allowed");
            assert_eq!(stage.bodies(reader), ["allowed"], "{protocol:?} {place:?}");
            stage.set_rights(user(protocol), but(Permission::Publish, address));
            stage.publish(eve, place, "denied");
            assert!(stage.bodies(reader).is_empty(), "{protocol:?} {place:?}");
            stage.set_rights(user(protocol), everything());
            let eve = back(&mut stage, eve);
            stage.publish(eve, place, "again");
            assert_eq!(stage.bodies(reader), ["again"], "{protocol:?} {place:?}");
        }
    }
}

#[test]
fn nobody_receives_without_the_right_to_subscribe_and_to_receive() {
    for protocol in Protocol::ALL {
        for permission in [Permission::Subscribe, Permission::Receive] {
            let mut stage = Stage::new(1);
            let publisher = stage.connect(Protocol::Mqtt5, "publisher");
            stage.set_rights(user(protocol), but(permission, protocol.covers_a_b()));
            let eve = stage.connect(protocol, user(protocol));
            stage.ask(eve, ADDRESS);
            stage.publish(publisher, ADDRESS, "denied");
            let bodies = stage.bodies(eve);
            assert!(bodies.is_empty(), "{protocol:?} {permission:?}: {bodies:?}");
            stage.set_rights(user(protocol), everything());
            let eve = stage.connect(protocol, user(protocol));
            stage.ask(eve, ADDRESS);
            stage.bodies(eve);
            stage.publish(publisher, ADDRESS, "allowed");
            assert_eq!(stage.bodies(eve), ["allowed"], "{protocol:?}");
        }
    }
}

#[test]
fn nobody_takes_from_a_queue_without_the_right() {
    for protocol in Protocol::ALL {
        let mut stage = Stage::new(1);
        stage.declare("work");
        let publisher = stage.connect(Protocol::Amqp, "publisher");
        stage.publish(publisher, QUEUE, "job");
        stage.set_rights(user(protocol), but(Permission::Take, "$q/work"));
        let eve = stage.connect(protocol, user(protocol));
        stage.ask(eve, QUEUE);
        let bodies = stage.bodies(eve);
        assert!(bodies.is_empty(), "{protocol:?}: {bodies:?}");
        stage.set_rights(user(protocol), everything());
        let eve = stage.connect(protocol, user(protocol));
        stage.ask(eve, QUEUE);
        assert_eq!(stage.bodies(eve), ["job"], "{protocol:?}");
    }
}

#[test]
fn a_reload_ends_what_was_granted_before() {
    for protocol in Protocol::ALL {
        let mut stage = Stage::new(2);
        let publisher = stage.connect(Protocol::Mqtt5, "publisher");
        let eve = stage.connect(protocol, user(protocol));
        stage.ask(eve, ADDRESS);
        stage.bodies(eve);
        stage.publish(publisher, ADDRESS, "before");
        assert_eq!(stage.bodies(eve), ["before"], "{protocol:?}");
        stage.set_rights(user(protocol), but(Permission::Receive, "a/#"));
        stage.publish(publisher, ADDRESS, "after");
        let bodies = stage.bodies(eve);
        assert!(bodies.is_empty(), "{protocol:?}: {bodies:?}");
    }
}

#[test]
fn an_internal_exchange_is_not_published_to_whatever_the_shard() {
    for shards in [1, 3] {
        for protocol in [
            Protocol::Mqtt3,
            Protocol::Mqtt5,
            Protocol::Coap,
            Protocol::Zmtp,
        ] {
            let mut stage = Stage::new(shards);
            stage.declare("q");
            stage.declare_internal("inner", "q", "outer");
            for number in 0..4 {
                let peer = stage.connect(protocol, &format!("publisher {number}"));
                stage.publish(peer, Place::Address("$x/inner/k"), "around it");
            }
            let reader = stage.connect(Protocol::Amqp, "reader");
            stage.publish(reader, Place::Address("outer"), "through it");
            stage.ask(reader, Place::Queue("q"));
            assert_eq!(
                stage.bodies(reader),
                ["through it"],
                "{protocol:?} {shards}"
            );
        }
    }
}
