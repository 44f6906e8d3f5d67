//! Queues that are longer than memory: messages on disk, how they are loaded again, and how else they end.

use crate::durability::{away, back, dropped, payloads};
use crate::world::Packet;
use crate::world::{Hello, Who, World, staying};
use thalweg_kernel::{DropReason, Limits, Overflow};
use thalweg_model::Span;
use thalweg_mqtt::{PublishOut, QoS, ReasonCode};
use thalweg_testbed::disk::Loss;

fn long_queue(limits: Limits) -> (World, Who) {
    let mut world = World::with_journal(
        2,
        Limits {
            queue_memory_bytes_max: 500,
            ..limits
        },
    );
    away(&mut world, "s", QoS::ExactlyOnce);
    let publisher = world.connect("p");
    (world, publisher)
}

#[test]
fn what_waits_on_disk_comes_in_order_whatever_its_qos() {
    let (mut world, publisher) = long_queue(Limits::default());
    let expected: Vec<String> = (0..700).map(|number| number.to_string()).collect();
    for (number, text) in expected.iter().enumerate() {
        world.publish(
            publisher,
            "t",
            text,
            if number % 3 == 0 {
                QoS::ExactlyOnce
            } else {
                QoS::AtLeastOnce
            },
        );
    }
    let held = world.sum(|kernel| kernel.bytes_held() as u64);
    assert!(held < 100_000, "{held} bytes are in memory");
    let who = back(&mut world, "s");
    world.publish(publisher, "t", "last", QoS::AtLeastOnce);
    let got = world.messages(who);
    assert_eq!(payloads(&got[..700]), expected);
    assert_eq!(payloads(&got[700..]), ["last"]);
    assert!(got.iter().all(|got| !got.dup));
    assert_eq!(world.sum(|kernel| kernel.bytes_held() as u64), 0);
}

#[test]
fn what_waits_on_disk_is_found_again_by_the_next_process() {
    let (mut world, publisher) = long_queue(Limits::default());
    for number in 0..40 {
        world.publish(publisher, "t", &number.to_string(), QoS::AtLeastOnce);
    }
    world.restart_with(Loss::Process, 3);
    let publisher = world.connect("p");
    world.publish(publisher, "t", "last", QoS::AtLeastOnce);
    let who = back(&mut world, "s");
    let mut expected: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    expected.push("last".to_owned());
    assert_eq!(world.texts(who), expected);
    world.bed.check();
}

#[test]
fn a_full_queue_on_disk_drops_the_oldest_or_the_newest_as_configured() {
    for (overflow, expected) in [
        (Overflow::DropOldest, ["4", "5", "6", "7", "8"]),
        (Overflow::DropNewest, ["0", "1", "2", "3", "4"]),
    ] {
        let (mut world, publisher) = long_queue(Limits {
            queue_messages_max: 5,
            overflow,
            ..Limits::default()
        });
        let refused = (0..9)
            .filter(|number| world.is_refused(publisher, "t", &number.to_string()))
            .count();
        assert_eq!(
            refused,
            if overflow == Overflow::DropOldest {
                0
            } else {
                4
            },
            "{overflow:?}"
        );
        assert_eq!(dropped(&world, DropReason::QueueFull), 4);
        world.restart();
        let who = back(&mut world, "s");
        assert_eq!(world.texts(who), expected, "{overflow:?}");
        world.bed.check();
    }
}

#[test]
fn a_full_queue_on_disk_ends_the_link_if_configured_and_the_queue_stays() {
    let limits = Limits {
        queue_messages_max: 5,
        overflow: Overflow::Disconnect,
        ..Limits::default()
    };
    let mut world = World::with_journal(
        1,
        Limits {
            queue_memory_bytes_max: 300,
            ..limits
        },
    );
    let (who, _) = world.connect_with(
        "s",
        &Hello {
            receive_max: 1,
            ..staying()
        },
    );
    world.subscribe(who, "t", QoS::AtLeastOnce);
    world.answer(who, false);
    let publisher = world.connect("p");
    let refused = (0..7)
        .filter(|number| world.is_refused(publisher, "t", &number.to_string()))
        .count();
    assert_eq!(refused, 1, "one is in flight, five wait");
    assert_eq!(
        world.heard(who),
        Some(Packet::Disconnect(ReasonCode::QuotaExceeded))
    );
    assert!(world.is_closed(who));
    world.restart();
    let who = back(&mut world, "s");
    assert_eq!(world.texts(who), ["0", "1", "2", "3", "4", "5"]);
    assert_eq!(
        dropped(&world, DropReason::QueueFull),
        0,
        "counted by the process before"
    );
    world.bed.check();
}

#[test]
fn a_queue_that_is_being_fetched_stays_within_its_bound() {
    let limits = Limits {
        queue_messages_max: 5,
        overflow: Overflow::DropOldest,
        ..Limits::default()
    };
    let (mut world, publisher) = long_queue(limits);
    for number in 0..5 {
        world.publish(publisher, "t", &number.to_string(), QoS::AtLeastOnce);
    }
    let (who, _) = world.connect_with("s", &staying());
    world.texts(who);
    world.lose(who);
    for number in 5..10 {
        world.publish(publisher, "t", &number.to_string(), QoS::AtLeastOnce);
    }
    world.stop_disk();
    let who = world.try_connect("s", &staying());
    // Asked for, and not there yet.
    for number in 10..20 {
        world.send(publisher, "t", &number.to_string(), QoS::AtLeastOnce);
        assert!(world.bed.total(|totals| totals.waiting) <= 5);
    }
    world.bed.is_disk_manual = false;
    world.rest();
    let got = world.texts(who);
    assert_eq!(got.last().map(String::as_str), Some("19"), "{got:?}");
    world.bed.check();
}

#[test]
fn what_expires_on_disk_is_not_delivered_and_is_counted() {
    let (mut world, publisher) = long_queue(Limits::default());
    for number in 0..20 {
        let payload = number.to_string();
        let expiry_secs = (number % 2 == 0).then_some(5);
        world.publish_with(
            publisher,
            &PublishOut {
                qos: QoS::AtLeastOnce,
                topic: "t",
                payload: payload.as_bytes(),
                expiry_secs,
                ..PublishOut::default()
            },
        );
    }
    world.wait(Span::from_secs(6));
    let who = back(&mut world, "s");
    let odd: Vec<String> = (0..20)
        .filter(|number| number % 2 == 1)
        .map(|number| number.to_string())
        .collect();
    assert_eq!(world.texts(who), odd);
    assert_eq!(world.sum(|kernel| kernel.ledger().expired), 10);
    world.bed.check();
}

#[test]
fn a_session_may_end_while_its_messages_are_being_fetched() {
    let (mut world, publisher) = long_queue(Limits::default());
    for number in 0..20 {
        world.publish(publisher, "t", &number.to_string(), QoS::AtLeastOnce);
    }
    world.stop_disk();
    // Some come from memory, the others are asked for.
    let first = world.try_connect("s", &staying());
    let second = world.try_connect(
        "s",
        &Hello {
            clean: true,
            ..staying()
        },
    );
    let home = world.bed.home_of("s");
    while world.bed.fetch(home) {}
    world.bed.is_disk_manual = false;
    world.rest();
    assert!(world.is_closed(first));
    assert_eq!(world.texts(second), [""; 0]);
    assert!(matches!(
        world.heard(second),
        Some(Packet::ConnAck { present: false, .. })
    ));
    assert_eq!(world.bed.total(|totals| totals.waiting), 0);
    assert_eq!(world.sum(|kernel| kernel.bytes_held() as u64), 0);
    world.bed.check();
}

#[test]
fn a_message_that_cannot_be_read_back_costs_itself_and_no_other() {
    let (mut world, publisher) = long_queue(Limits::default());
    for number in 0..20 {
        world.publish(publisher, "t", &number.to_string(), QoS::AtLeastOnce);
    }
    world.bed.unreadable = Some(|message| message.payload() == b"13" || message.payload() == b"19");
    let who = back(&mut world, "s");
    let got = world.texts(who);
    assert_eq!(got.len(), 18);
    assert!(!got.contains(&"13".to_owned()));
    assert_eq!(dropped(&world, DropReason::Unreadable), 2);
    world.bed.check();
    world.lose(who);
    world.bed.unreadable = None;
    world.restart();
    let who = back(&mut world, "s");
    assert_eq!(
        world.texts(who),
        [""; 0],
        "it was taken off the books for good"
    );
}

#[test]
fn a_qos_0_message_that_waited_is_sent_at_most_once_although_the_process_ends() {
    let limits = Limits {
        queue_at_most_once_offline: true,
        ..Limits::default()
    };
    let (mut world, publisher) = long_queue(limits);
    world.publish(publisher, "t", "1", QoS::AtLeastOnce);
    world.publish(publisher, "t", "2", QoS::AtLeastOnce);
    world.publish(publisher, "t", "n", QoS::AtMostOnce);
    let who = world.try_connect(
        "s",
        &Hello {
            receive_max: 1,
            reads: false,
            ..staying()
        },
    );
    world.answer(who, false);
    world.read(who, true);
    let got = world.messages(who);
    assert_eq!(payloads(&got), ["1"]);
    world.stop_disk();
    world.puback(who, got[0].id);
    assert_eq!(
        world.texts(who),
        ["2"],
        "that the other one does not wait any more is not written down"
    );
    world.restart();
    let who = back(&mut world, "s");
    assert_eq!(world.texts(who), ["1", "2", "n"]);
}
