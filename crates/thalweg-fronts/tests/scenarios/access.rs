//! Access rules of clients.

use crate::world::{Hello, World};
use thalweg_kernel::access::{Access, Otherwise, Permission, Rule, Rules};
use thalweg_mqtt::{PublishOut, QoS, ReasonCode, SubscribeOptions};

fn allowed(rules: Vec<Rule>) -> Access {
    Rules::new(rules, Otherwise::Deny)
        .expect("legal")
        .compile("c", None)
}

#[test]
fn a_publish_that_is_denied_is_refused_and_reaches_nobody() {
    let mut world = World::new(2);
    let everybody = world.connect("s");
    world.subscribe(everybody, "#", QoS::AtLeastOnce);
    let access = allowed(vec![Rule::allow(Permission::Publish, "mine/#")]);
    let (client, _) = world.connect_with(
        "c",
        &Hello {
            access,
            ..Hello::default()
        },
    );
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
        let publish = PublishOut {
            qos,
            topic: "yours",
            payload: b"no",
            retain: true,
            ..PublishOut::default()
        };
        let reason = world.publish_with(client, &publish);
        assert!(
            qos == QoS::AtMostOnce || reason == ReasonCode::NotAuthorized,
            "{reason:?}"
        );
    }
    world.publish(client, "mine/1", "yes", QoS::AtLeastOnce);
    assert_eq!(world.texts(everybody), ["yes"]);
    assert_eq!(world.bed.total(|totals| totals.retained), 0);
}

#[test]
fn a_subscription_that_is_denied_is_refused_alone() {
    let mut world = World::new(1);
    let access = allowed(vec![
        Rule::allow(Permission::Subscribe, "mine/#"),
        Rule::allow(Permission::Receive, "#"),
    ]);
    let (client, _) = world.connect_with(
        "c",
        &Hello {
            access,
            ..Hello::default()
        },
    );
    let options = SubscribeOptions::default();
    assert_eq!(
        world.subscribe_with(client, "#", options),
        ReasonCode::NotAuthorized
    );
    assert_eq!(
        world.subscribe_with(client, "$share/g/yours", options),
        ReasonCode::NotAuthorized
    );
    assert_eq!(
        world.subscribe_with(client, "mine/+", options),
        ReasonCode::Success
    );
}

#[test]
fn what_may_not_be_received_is_left_out_of_a_wider_subscription_live_and_retained() {
    let mut world = World::new(2);
    let publisher = world.connect("p");
    world.retain(publisher, "secret/1", "kept");
    world.retain(publisher, "open/1", "kept");
    let access = allowed(vec![
        Rule::allow(Permission::Subscribe, "#"),
        Rule::allow(Permission::Receive, "#"),
        Rule::deny(Permission::Receive, "secret/#"),
    ]);
    let (client, _) = world.connect_with(
        "c",
        &Hello {
            access,
            ..Hello::default()
        },
    );
    world.subscribe(client, "#", QoS::AtLeastOnce);
    world.publish(publisher, "secret/1", "live", QoS::AtLeastOnce);
    world.publish(publisher, "open/1", "live", QoS::AtLeastOnce);
    assert_eq!(world.texts(client), ["kept", "live"]);
}
