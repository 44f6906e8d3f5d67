//! Transactions: all at once, or nothing.

use crate::world::{ServerMethod, World};
use thalweg_amqp::methods::{basic, confirm, tx};
use thalweg_amqp::{BasicProperties, ContentHeader, Method, MethodId, ReplyCode};
use thalweg_model::Span;

#[test]
fn publishes_and_settlements_happen_when_they_are_committed() {
    let mut world = World::new();
    let (who, other) = (world.connect(), world.connect());
    world.declare(other, "in");
    world.declare(other, "out");
    world.publish(other, "", "in", "request");
    assert_eq!(
        world.call(who, &Method::TxSelect(tx::Select)),
        [ServerMethod::Done("tx.select-ok")]
    );
    world.consume(who, "in", false);
    let tag = world.got(who)[0].tag;
    world.publish(who, "", "out", "reply");
    world.ack(who, tag, false);
    assert_eq!(world.get(other, "out"), None);
    assert_eq!(
        world.call(who, &Method::TxCommit(tx::Commit)),
        [ServerMethod::Done("tx.commit-ok")]
    );
    assert_eq!(world.get(other, "out").expect("committed").text(), "reply");
    world.lose(who);
    assert_eq!(world.get(other, "in"), None, "it was settled");
}

#[test]
fn what_is_rolled_back_never_happened() {
    let mut world = World::new();
    let (who, other) = (world.connect(), world.connect());
    world.declare(other, "q");
    world.call(who, &Method::TxSelect(tx::Select));
    world.publish(who, "", "q", "never");
    assert_eq!(
        world.call(who, &Method::TxRollback(tx::Rollback)),
        [ServerMethod::Done("tx.rollback-ok")]
    );
    world.publish(who, "", "q", "later");
    world.call(who, &Method::TxCommit(tx::Commit));
    assert_eq!(world.get(other, "q").expect("it is there").text(), "later");
    assert_eq!(world.get(other, "q"), None);
}

#[test]
fn mandatory_messages_come_back_at_the_commit() {
    let mut world = World::new();
    let who = world.connect();
    world.declare(who, "q");
    world.call(who, &Method::TxSelect(tx::Select));
    for routing_key in ["q", "none", "q"] {
        let publish = basic::Publish {
            routing_key,
            mandatory: true,
            ..Default::default()
        };
        world.publish_with(who, &publish, &BasicProperties::default(), routing_key);
    }
    assert_eq!(world.got(who), []);
    assert_eq!(
        world.call(who, &Method::TxCommit(tx::Commit)),
        [ServerMethod::Done("tx.commit-ok")]
    );
    let got = world.got(who);
    assert_eq!(
        got.iter()
            .map(|got| (got.returned, got.text()))
            .collect::<Vec<_>>(),
        [(Some(312), "none")]
    );
}

#[test]
fn a_channel_confirms_or_has_transactions() {
    let mut world = World::new();
    let who = world.connect();
    world.confirm(who);
    let text = "PRECONDITION_FAILED - cannot switch from confirm to tx mode".into();
    assert_eq!(
        world.call(who, &Method::TxSelect(tx::Select)),
        [ServerMethod::ChannelClosed {
            ch: 1,
            code: 406,
            text
        }]
    );
    world.channel(who, 1);
    world.call(who, &Method::TxSelect(tx::Select));
    let text = "PRECONDITION_FAILED - cannot switch from tx to confirm mode".into();
    let said = world.call(
        who,
        &Method::ConfirmSelect(confirm::Select { no_wait: false }),
    );
    assert_eq!(
        said,
        [ServerMethod::ChannelClosed {
            ch: 1,
            code: 406,
            text
        }]
    );
}

#[test]
fn what_a_channel_has_not_committed_when_it_closes_never_happens() {
    let mut world = World::new();
    let (who, other) = (world.connect(), world.connect());
    world.declare(other, "q");
    for text in ["never", "later"] {
        world.channel(who, 2);
        world.says(who, |machine, up| {
            machine.method(2, &Method::TxSelect(tx::Select), up);
            let publish = basic::Publish {
                routing_key: "q",
                ..Default::default()
            };
            let header = ContentHeader::Properties(&BasicProperties::default());
            machine
                .publish(2, &publish, header, text.as_bytes(), up)
                .expect("it fits a frame")
        });
        world.said(who);
        if text == "never" {
            world.says(who, |machine, up| {
                machine.channel_close(2, ReplyCode::ReplySuccess, "", MethodId::NONE, up)
            });
            world.said(who);
        }
    }
    world.says(who, |machine, up| {
        machine.method(2, &Method::TxCommit(tx::Commit), up)
    });
    assert_eq!(world.get(other, "q").expect("committed").text(), "later");
    assert_eq!(world.get(other, "q"), None);
}

#[test]
fn a_message_lives_from_the_commit_on() {
    let mut world = World::new();
    let (who, other) = (world.connect(), world.connect());
    world.declare(other, "q");
    world.call(who, &Method::TxSelect(tx::Select));
    let properties = BasicProperties {
        expiration: Some("1000"),
        ..BasicProperties::default()
    };
    for text in ["taken", "late"] {
        world.publish_with(
            who,
            &basic::Publish {
                routing_key: "q",
                ..Default::default()
            },
            &properties,
            text,
        );
    }
    world.wait(Span::from_millis(5000));
    assert_eq!(
        world.call(who, &Method::TxCommit(tx::Commit)),
        [ServerMethod::Done("tx.commit-ok")]
    );
    world.wait(Span::from_millis(900));
    assert_eq!(world.get(other, "q").expect("it lives").text(), "taken");
    world.wait(Span::from_millis(200));
    assert_eq!(world.get(other, "q"), None);
}
