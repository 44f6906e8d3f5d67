//! Durability before an acknowledgement, and the state after a restart.

use crate::world::{Got, Hello, Packet, Who, World, staying};
use std::sync::Arc;
use thalweg_fronts::mqtt::MqttSettings;
use thalweg_kernel::{DropReason, GroupStrategy, Limits, Safety};
use thalweg_model::{Filter, Span};
use thalweg_mqtt::{PublishOut, QoS, ReasonCode, SubscribeOptions, Version, WillOut};
use thalweg_testbed::Settings;
use thalweg_testbed::disk::Loss;

pub(super) fn world(shards: u16) -> World {
    World::with_journal(shards, Limits::default())
}

/// The same, where groups give at once whatever members can take.
fn in_turns(shards: u16) -> World {
    World::with_journal(
        shards,
        Limits {
            group_strategy: GroupStrategy::RoundRobin,
            ..Limits::default()
        },
    )
}

/// A persistent session subscribed to `t`, disconnected.
pub fn away(world: &mut World, name: &str, qos: QoS) {
    let (who, _) = world.connect_with(name, &staying());
    world.subscribe(who, "t", qos);
    world.lose(who);
}

pub fn back(world: &mut World, name: &str) -> Who {
    let (who, present) = world.connect_with(name, &staying());
    assert!(present, "{name}'s session is gone");
    who
}

pub fn payloads(got: &[Got]) -> Vec<&str> {
    got.iter()
        .map(|got| std::str::from_utf8(&got.payload).expect("text"))
        .collect()
}

pub fn dropped(world: &World, reason: DropReason) -> u64 {
    world.sum(|kernel| kernel.ledger().dropped[reason as usize])
}

// Each acknowledgement and its durability (the table of docs/journal.md).

#[test]
fn puback_waits_until_the_message_is_durable_for_the_persistent_sessions_that_want_it() {
    let mut world = world(1);
    away(&mut world, "away", QoS::AtLeastOnce);
    let publisher = world.connect("p");
    world.stop_disk();
    world.send(publisher, "t", "m", QoS::AtLeastOnce);
    assert_eq!(world.heard(publisher), None, "nothing is written");
    world.write_disk();
    assert_eq!(
        world.heard(publisher),
        None,
        "it would not survive the loss of power"
    );
    world.sync_disk();
    assert_eq!(
        world.heard(publisher),
        Some(Packet::PubAck {
            id: 1,
            reason: ReasonCode::Success
        })
    );
}

#[test]
fn puback_waits_for_the_journal_of_the_shard_where_the_subscriber_is() {
    let mut world = world(2);
    let (away_name, publisher_name) = (world.name_on(0, "away"), world.name_on(1, "p"));
    away(&mut world, &away_name, QoS::AtLeastOnce);
    let publisher = world.connect(&publisher_name);
    world.stop_disk();
    world.send(publisher, "t", "m", QoS::AtLeastOnce);
    world.write_disk();
    assert_eq!(world.heard(publisher), None);
    world.sync_disk();
    assert!(matches!(
        world.heard(publisher),
        Some(Packet::PubAck { .. })
    ));
}

#[test]
fn two_shards_whose_publishers_wait_for_each_other_both_answer() {
    let mut world = world(2);
    let names = [world.name_on(0, "a"), world.name_on(1, "b")];
    for name in &names {
        away(&mut world, name, QoS::AtLeastOnce);
    }
    let publishers = [0, 1].map(|shard| {
        let name = world.name_on(shard, "p");
        world.connect(&name)
    });
    for publisher in publishers {
        world.write(
            publisher,
            &PublishOut {
                qos: QoS::AtLeastOnce,
                topic: "t",
                payload: b"m",
                ..PublishOut::default()
            },
        );
        let pipe = publisher;
        world.bed.feed(pipe, usize::MAX);
    }
    world.rest();
    for publisher in publishers {
        assert!(matches!(
            world.heard(publisher),
            Some(Packet::PubAck { .. })
        ));
    }
}

#[test]
fn puback_of_a_retained_message_waits_although_nobody_subscribes() {
    for shard in 0..2 {
        let mut world = world(2);
        let name = world.name_on(shard, "p");
        let publisher = world.connect(&name);
        world.stop_disk();
        let publish = PublishOut {
            qos: QoS::AtLeastOnce,
            retain: true,
            topic: "r",
            payload: b"m",
            ..PublishOut::default()
        };
        world.write(publisher, &publish);
        world.rest();
        assert_eq!(world.heard(publisher), None);
        world.write_disk();
        world.sync_disk();
        assert!(matches!(
            world.heard(publisher),
            Some(Packet::PubAck { .. })
        ));
    }
}

#[test]
fn a_publish_that_no_persistent_session_wants_and_that_is_not_retained_is_answered_at_once() {
    let mut world = world(1);
    let subscriber = world.connect("s");
    world.subscribe(subscriber, "t", QoS::ExactlyOnce);
    let publisher = world.connect("p");
    world.stop_disk();
    world.send(publisher, "t", "1", QoS::AtLeastOnce);
    assert_eq!(
        world.heard(publisher),
        Some(Packet::PubAck {
            id: 1,
            reason: ReasonCode::Success
        })
    );
    world.send(publisher, "nobody", "2", QoS::AtLeastOnce);
    assert_eq!(
        world.heard(publisher),
        Some(Packet::PubAck {
            id: 2,
            reason: ReasonCode::NoMatchingSubscribers
        })
    );
    world.send(publisher, "t", "3", QoS::ExactlyOnce);
    assert!(matches!(
        world.heard(publisher),
        Some(Packet::PubRec { .. })
    ));
    assert!(matches!(
        world.heard(publisher),
        Some(Packet::PubComp { .. })
    ));
    assert_eq!(world.texts(subscriber), ["1", "3"]);
    assert_eq!(world.bed.disk.counts().0, 0, "and nothing is written down");
}

#[test]
fn pubrec_waits_until_it_is_durable_that_the_message_is_held_and_pubcomp_that_it_is_released() {
    let mut world = world(1);
    let (publisher, _) = world.connect_with("p", &staying());
    world.stop_disk();
    world.send(publisher, "nobody", "m", QoS::ExactlyOnce);
    world.write_disk();
    assert_eq!(world.heard(publisher), None);
    world.sync_disk();
    assert!(matches!(
        world.heard(publisher),
        Some(Packet::PubRec { .. })
    ));
    world.write_disk();
    assert_eq!(
        world.heard(publisher),
        None,
        "PUBREL has come, and the release is not durable"
    );
    world.sync_disk();
    assert!(matches!(
        world.heard(publisher),
        Some(Packet::PubComp { .. })
    ));
}

#[test]
fn a_qos_2_message_leaves_when_its_packet_identifier_is_durable_and_a_qos_1_message_at_once() {
    let mut world = world(1);
    let (one, _) = world.connect_with("one", &staying());
    world.subscribe(one, "t", QoS::AtLeastOnce);
    let (two, _) = world.connect_with("two", &staying());
    world.subscribe(two, "t", QoS::ExactlyOnce);
    let publisher = world.connect("p");
    world.stop_disk();
    world.send(publisher, "t", "m", QoS::ExactlyOnce);
    assert_eq!(world.texts(one), ["m"]);
    assert_eq!(world.texts(two), [""; 0]);
    world.write_disk();
    world.sync_disk();
    assert_eq!(world.texts(two), ["m"]);
}

#[test]
fn pubrel_waits_until_it_is_durable_that_the_receiver_has_the_message() {
    let mut world = world(1);
    let (receiver, _) = world.connect_with("r", &staying());
    world.subscribe(receiver, "t", QoS::ExactlyOnce);
    world.answer(receiver, false);
    let publisher = world.connect("p");
    world.publish(publisher, "t", "m", QoS::ExactlyOnce);
    let id = world.messages(receiver)[0].id;
    world.stop_disk();
    world.pubrec(receiver, id);
    assert_eq!(
        world.bed.total(|totals| totals.in_flight),
        0,
        "the receiver has it"
    );
    let unreleased = |world: &World| {
        let mut window = 0;
        world.bed.shards[0]
            .kernel
            .for_each_session(|session| window += session.in_flight);
        window
    };
    world.write_disk();
    assert_eq!(
        unreleased(&world),
        1,
        "PUBREL has not left, so PUBCOMP has not come"
    );
    world.sync_disk();
    assert_eq!(unreleased(&world), 0);
}

#[test]
fn suback_and_unsuback_wait_for_a_session_that_persists_and_for_no_other() {
    let mut world = world(2);
    let (stays, _) = world.connect_with("stays", &staying());
    let goes = world.connect("goes");
    world.stop_disk();
    for who in [stays, goes] {
        world.ask(who, "t", SubscribeOptions::default());
    }
    world.rest();
    assert!(matches!(world.heard(goes), Some(Packet::SubAck { .. })));
    assert_eq!(world.heard(stays), None);
    world.write_disk();
    assert_eq!(world.heard(stays), None);
    world.sync_disk();
    assert!(matches!(world.heard(stays), Some(Packet::SubAck { .. })));
    for who in [stays, goes] {
        world.ask_to_end(who, "t");
    }
    world.rest();
    assert!(matches!(world.heard(goes), Some(Packet::UnsubAck { .. })));
    world.write_disk();
    assert_eq!(world.heard(stays), None);
    world.sync_disk();
    assert!(matches!(world.heard(stays), Some(Packet::UnsubAck { .. })));
}

#[test]
fn what_was_unsubscribed_with_an_answer_stays_unsubscribed() {
    let mut world = world(1);
    let (who, _) = world.connect_with("s", &staying());
    world.subscribe(who, "t", QoS::AtLeastOnce);
    world.subscribe(who, "u", QoS::AtLeastOnce);
    world.unsubscribe(who, "t");
    world.restart();
    let who = back(&mut world, "s");
    let publisher = world.connect("p");
    world.publish(publisher, "t", "no", QoS::AtLeastOnce);
    world.publish(publisher, "u", "yes", QoS::AtLeastOnce);
    assert_eq!(world.texts(who), ["yes"]);
}

#[test]
fn connack_of_a_session_that_persists_waits_and_that_of_another_does_not() {
    let mut world = world(1);
    world.stop_disk();
    let goes = world.try_connect("goes", &Hello::default());
    assert!(matches!(world.heard(goes), Some(Packet::ConnAck { .. })));
    let stays = world.try_connect("stays", &staying());
    assert_eq!(world.heard(stays), None);
    world.write_disk();
    assert_eq!(world.heard(stays), None);
    world.sync_disk();
    assert!(matches!(world.heard(stays), Some(Packet::ConnAck { .. })));
}

#[test]
fn a_clean_start_is_answered_when_the_end_of_the_old_session_is_durable() {
    let mut world = world(1);
    away(&mut world, "c", QoS::AtLeastOnce);
    world.stop_disk();
    let who = world.try_connect("c", &Hello::default());
    world.write_disk();
    assert_eq!(world.heard(who), None);
    // Taken over before it was answered: the second answer says the same and waits for the same.
    let second = world.try_connect("c", &Hello::default());
    assert_eq!(world.heard(second), None);
    world.write_disk();
    world.sync_disk();
    assert!(matches!(
        world.heard(second),
        Some(Packet::ConnAck { present: false, .. })
    ));
    let (_, written, durable) = world.bed.disk.counts();
    assert_eq!(written, durable);
    world.restart_with(Loss::Power(durable), 1);
    let (_, present) = world.connect_with("c", &staying());
    assert!(!present);
}

#[test]
fn what_a_subscriber_acknowledged_need_not_be_written_and_comes_again_with_dup() {
    let mut world = world(1);
    let (who, _) = world.connect_with("s", &staying());
    world.subscribe(who, "t", QoS::AtLeastOnce);
    world.answer(who, false);
    let publisher = world.connect("p");
    world.publish(publisher, "t", "m", QoS::AtLeastOnce);
    let id = world.messages(who)[0].id;
    world.stop_disk();
    world.puback(who, id);
    let (_, _, durable) = world.bed.disk.counts();
    world.restart_with(Loss::Power(durable), 1);
    let who = back(&mut world, "s");
    let got = world.messages(who);
    assert_eq!(
        (payloads(&got), got[0].dup, got[0].id),
        (vec!["m"], true, id)
    );
    world.lose(who);
    world.restart();
    let who = back(&mut world, "s");
    assert_eq!(world.texts(who), [""; 0], "this time it was written");
}

#[test]
fn a_will_is_published_once_by_the_next_process() {
    let mut world = world(2);
    let (watcher_name, name) = (world.name_on(0, "w"), world.name_on(1, "c"));
    let (watcher, _) = world.connect_with(&watcher_name, &staying());
    world.subscribe(watcher, "will", QoS::AtLeastOnce);
    for delay_secs in [0, 5] {
        let message = PublishOut {
            qos: QoS::AtLeastOnce,
            topic: "will",
            payload: b"gone",
            ..PublishOut::default()
        };
        world.connect_with(
            &name,
            &Hello {
                will: Some(WillOut {
                    message,
                    delay_secs,
                }),
                ..staying()
            },
        );
        world.restart();
        let watcher = back(&mut world, &watcher_name);
        world.wait(Span::from_secs(4));
        let early = world.texts(watcher).len();
        assert_eq!(early, usize::from(delay_secs == 0));
        world.wait(Span::from_secs(2));
        assert_eq!(early + world.texts(watcher).len(), 1);
        world.restart();
        let watcher = back(&mut world, &watcher_name);
        world.wait(Span::from_secs(6));
        assert_eq!(world.texts(watcher), [""; 0]);
    }
}

#[test]
fn a_will_whose_subscriber_is_on_another_shard_survives_a_second_crash_in_between() {
    let mut world = world(2);
    let (watcher_name, name) = (world.name_on(0, "w"), world.name_on(1, "c"));
    let (watcher, _) = world.connect_with(&watcher_name, &staying());
    world.subscribe(watcher, "will", QoS::AtLeastOnce);
    let message = PublishOut {
        qos: QoS::AtLeastOnce,
        topic: "will",
        payload: b"gone",
        ..PublishOut::default()
    };
    let will = Some(WillOut {
        message,
        delay_secs: 0,
    });
    let (who, _) = world.connect_with(&name, &Hello { will, ..staying() });
    world.stop_disk();
    let pipe = who;
    world.bed.cut(pipe, 0);
    world.bed.notice(pipe);
    // The will is on its way, and its session's record says that it has none any more.
    world.bed.write_batches(usize::MAX);
    world.restart();
    let watcher = back(&mut world, &watcher_name);
    assert_eq!(world.texts(watcher), ["gone"]);
}

#[test]
fn the_retained_message_after_a_restart_is_the_last_one() {
    let mut world = world(3);
    let publisher = world.connect("p");
    for topic in ["r/1", "r/2", "r/3", "r/4"] {
        world.retain(publisher, topic, "old");
        world.retain(publisher, topic, "new");
    }
    world.retain(publisher, "r/4", "");
    world.restart_with(Loss::Process, 2);
    let who = world.connect("s");
    world.subscribe(who, "r/#", QoS::AtLeastOnce);
    let mut got = world.messages(who);
    got.sort_by(|a, b| a.topic.cmp(&b.topic));
    assert_eq!(payloads(&got), ["new", "new", "new"]);
    assert_eq!(
        got.iter().map(|got| &*got.topic).collect::<Vec<_>>(),
        ["r/1", "r/2", "r/3"]
    );
}

#[test]
fn a_session_without_a_link_expires_over_a_restart_as_it_would_have_without() {
    let mut world = world(1);
    let (who, _) = world.connect_with(
        "c",
        &Hello {
            expiry_secs: 10,
            ..staying()
        },
    );
    world.lose(who);
    world.wait(Span::from_secs(6));
    world.restart();
    world.wait(Span::from_secs(5));
    let (_, present) = world.connect_with("c", &staying());
    assert!(!present);
}

#[test]
fn a_session_that_has_expired_does_not_come_back_once_its_client_was_told_so() {
    let mut world = world(1);
    let (who, _) = world.connect_with(
        "c",
        &Hello {
            expiry_secs: 10,
            ..staying()
        },
    );
    world.lose(who);
    world.stop_disk();
    world.wait(Span::from_secs(11));
    let who = world.try_connect(
        "c",
        &Hello {
            clean: false,
            ..Hello::default()
        },
    );
    world.write_disk();
    assert_eq!(world.heard(who), None);
    world.sync_disk();
    assert!(matches!(
        world.heard(who),
        Some(Packet::ConnAck { present: false, .. })
    ));
}

// Policies.

fn ask_with(world: &mut World, publisher: Who, topic: &str) -> (bool, bool) {
    world.send(publisher, topic, "m", QoS::AtLeastOnce);
    let before = world.heard(publisher).is_some();
    world.write_disk();
    let written = world.heard(publisher).is_some();
    world.sync_disk();
    let durable = world.heard(publisher).is_some();
    assert!(before || written || durable);
    (before, written)
}

#[test]
fn the_safest_policy_of_all_filters_that_match_counts_and_else_the_general_one() {
    let filter = |text: &str| Filter::new(text).expect("legal");
    let filters = vec![
        (filter("t/+"), Safety::Written),
        (filter("t/sure"), Safety::Durable),
        (filter("t/lazy/#"), Safety::Lazy),
    ];
    let mut world = World::with_journal(
        1,
        Limits {
            safety_filters: filters.into(),
            ..Limits::default()
        },
    );
    let (who, _) = world.connect_with("s", &staying());
    world.subscribe(who, "#", QoS::AtLeastOnce);
    world.lose(who);
    let publisher = world.connect("p");
    world.stop_disk();
    assert_eq!(
        ask_with(&mut world, publisher, "t/any"),
        (false, true),
        "written"
    );
    assert_eq!(
        ask_with(&mut world, publisher, "t/sure"),
        (false, false),
        "durable"
    );
    assert_eq!(
        ask_with(&mut world, publisher, "t/lazy/x"),
        (true, false),
        "at once"
    );
    assert_eq!(
        ask_with(&mut world, publisher, "other"),
        (false, false),
        "durable, as in general"
    );
}

#[test]
fn a_listener_has_a_policy_of_its_own() {
    let settings = MqttSettings {
        safety: Some(Safety::Written),
        ..MqttSettings::default()
    };
    let limits = Limits {
        journal: true,
        ..Limits::default()
    };
    let mut world = World::of(Settings {
        shards: 2,
        limits,
        mqtt: Arc::new(settings),
        ..Settings::default()
    });
    for shard in 0..2 {
        let name = world.name_on(shard, "away");
        away(&mut world, &name, QoS::AtLeastOnce);
    }
    let publisher = world.connect("p");
    world.stop_disk();
    assert_eq!(ask_with(&mut world, publisher, "t"), (false, true));
}

// A journal that is full.

#[test]
fn while_the_journal_is_full_mqtt_5_is_refused_what_would_have_to_be_kept() {
    let mut world = world(1);
    away(&mut world, "away", QoS::AtLeastOnce);
    let publisher = world.connect("p");
    world.bed.shards[0].kernel.set_journal_full(true);
    for (qos, topic, retain, expected) in [
        (QoS::AtLeastOnce, "t", false, ReasonCode::QuotaExceeded),
        (QoS::ExactlyOnce, "t", false, ReasonCode::QuotaExceeded),
        (QoS::AtLeastOnce, "r", true, ReasonCode::QuotaExceeded),
        (
            QoS::AtLeastOnce,
            "nobody",
            false,
            ReasonCode::NoMatchingSubscribers,
        ),
    ] {
        let publish = PublishOut {
            qos,
            topic,
            retain,
            payload: b"m",
            ..PublishOut::default()
        };
        assert_eq!(
            world.publish_with(publisher, &publish),
            expected,
            "{topic} {qos:?}"
        );
    }
    world.bed.shards[0].kernel.set_journal_full(false);
    world.publish(publisher, "t", "later", QoS::ExactlyOnce);
    let who = back(&mut world, "away");
    assert_eq!(world.texts(who), ["later"]);
}

#[test]
fn while_the_journal_is_full_mqtt_3_is_not_read_and_goes_on_afterwards() {
    let mut world = world(1);
    away(&mut world, "away", QoS::ExactlyOnce);
    let publisher = world
        .connect_with(
            "p",
            &Hello {
                version: Version::V311,
                ..Hello::default()
            },
        )
        .0;
    world.bed.shards[0].kernel.set_journal_full(true);
    for (number, qos) in [QoS::AtLeastOnce, QoS::ExactlyOnce, QoS::AtLeastOnce]
        .into_iter()
        .enumerate()
    {
        world.send(publisher, "t", &number.to_string(), qos);
    }
    world.wait(Span::from_secs(1));
    assert_eq!(world.heard(publisher), None);
    world.bed.shards[0].kernel.set_journal_full(false);
    world.wait(Span::from_secs(1));
    let heard: Vec<Packet> = std::iter::from_fn(|| world.heard(publisher)).collect();
    assert_eq!(heard.len(), 4, "{heard:?}");
    let who = back(&mut world, "away");
    assert_eq!(world.texts(who), ["0", "1", "2"]);
}

// The message that was in flight.

#[test]
fn after_a_restart_what_was_in_flight_comes_first_with_dup_under_its_old_packet_identifiers() {
    let mut world = world(1);
    let (who, _) = world.connect_with(
        "s",
        &Hello {
            receive_max: 3,
            ..staying()
        },
    );
    world.subscribe(who, "t", QoS::ExactlyOnce);
    world.answer(who, false);
    let publisher = world.connect("p");
    for (number, qos) in [QoS::AtLeastOnce, QoS::ExactlyOnce, QoS::AtLeastOnce]
        .into_iter()
        .cycle()
        .take(6)
        .enumerate()
    {
        world.publish(publisher, "t", &number.to_string(), qos);
    }
    let before: Vec<u16> = world.messages(who).iter().map(|got| got.id).collect();
    assert_eq!(before.len(), 3);
    world.restart();
    let who = back(&mut world, "s");
    let got = world.messages(who);
    assert_eq!(payloads(&got), ["0", "1", "2", "3", "4", "5"]);
    assert_eq!(
        got.iter().map(|got| got.dup).collect::<Vec<_>>(),
        [true, true, true, false, false, false]
    );
    assert_eq!(
        got[..3].iter().map(|got| got.id).collect::<Vec<_>>(),
        before
    );
    assert!(got[3..].iter().all(|got| !before.contains(&got.id)));
    assert_eq!(world.bed.total(|totals| totals.in_flight), 0);
}

#[test]
fn after_a_restart_pubrel_is_repeated_and_the_message_is_not() {
    let mut world = world(1);
    world.bed.keeps_received = true;
    let (who, _) = world.connect_with("s", &staying());
    world.subscribe(who, "t", QoS::ExactlyOnce);
    world.answer(who, false);
    let publisher = world.connect("p");
    world.publish(publisher, "t", "m", QoS::ExactlyOnce);
    let id = world.messages(who)[0].id;
    world.read(who, false);
    world.pubrec(who, id);
    world.restart();
    let who = back(&mut world, "s");
    assert_eq!(world.texts(who), [""; 0]);
    let pubrel = [&[0x62, 2][..], &id.to_be_bytes()].concat();
    assert!(world.has_received(who, &pubrel));
    world.lose(who);
    world.restart();
    let who = back(&mut world, "s");
    assert!(
        !world.has_received(who, &pubrel),
        "PUBCOMP was written down by then"
    );
}

#[test]
fn a_qos_2_message_that_its_publisher_repeats_after_a_restart_is_routed_once() {
    for left in [Loss::Process, Loss::Power(0)] {
        let mut world = world(2);
        let (away_name, publisher_name) = (world.name_on(0, "away"), world.name_on(1, "p"));
        away(&mut world, &away_name, QoS::ExactlyOnce);
        let (publisher, _) = world.connect_with(&publisher_name, &staying());
        world.stop_disk();
        let publish = PublishOut {
            qos: QoS::ExactlyOnce,
            topic: "t",
            payload: b"m",
            ..PublishOut::default()
        };
        world.write(publisher, &publish);
        let pipe = publisher;
        // The publisher's shard has it written down, and the subscriber's shard does not even know.
        world.bed.feed(pipe, usize::MAX);
        world.bed.write_batches(usize::MAX);
        world.restart_with(left, 2);
        let (publisher, present) = world.connect_with(&publisher_name, &staying());
        assert!(present);
        world.write(
            publisher,
            &PublishOut {
                dup: true,
                ..publish
            },
        );
        world.rest();
        assert!(
            matches!(world.heard(publisher), Some(Packet::PubRec { reason, .. }) if !reason.is_error())
        );
        let who = back(&mut world, &away_name);
        assert_eq!(world.texts(who), ["m"], "{left:?}");
    }
}

#[test]
fn what_was_under_way_between_shards_finds_its_sessions_although_there_are_more_or_fewer_shards() {
    // How much of the first restart's journal is written when the process ends again.
    for written in 0..8 {
        let mut world = world(2);
        let publisher_name = world.name_on(1, "p");
        let names: Vec<String> = (0..6).map(|number| format!("away-{number}")).collect();
        for name in &names {
            away(&mut world, name, QoS::ExactlyOnce);
        }
        let (publisher, _) = world.connect_with(&publisher_name, &staying());
        world.stop_disk();
        let publish = PublishOut {
            qos: QoS::ExactlyOnce,
            topic: "t",
            payload: b"m",
            ..PublishOut::default()
        };
        world.write(publisher, &publish);
        let pipe = publisher;
        world.bed.feed(pipe, usize::MAX);
        world.bed.write_batches(usize::MAX);
        world.bed.crash(Loss::Process, 3, |_| ());
        world.bed.write_batches(written);
        world.restart_with(Loss::Process, 4);
        for name in &names {
            let who = back(&mut world, name);
            assert_eq!(world.texts(who), ["m"], "{name}, {written} batches written");
        }
    }
}

#[test]
fn a_receiver_may_settle_and_end_while_another_has_not_settled_and_nothing_is_written() {
    let mut world = world(1);
    let (one, two) = (
        world.connect_with("one", &staying()).0,
        world.connect_with("two", &staying()).0,
    );
    for who in [one, two] {
        world.subscribe(who, "t", QoS::AtLeastOnce);
    }
    world.answer(two, false);
    let publisher = world.connect("p");
    world.stop_disk();
    world.bed.batch_ends = None;
    world.send(publisher, "t", "m", QoS::AtLeastOnce);
    assert_eq!(world.texts(one), ["m"]);
    world.try_connect(
        "one",
        &Hello {
            clean: true,
            ..staying()
        },
    );
    world.write_disk();
    // Each restart looks whether the journal contradicts itself.
    world.restart();
    let two = back(&mut world, "two");
    assert_eq!(world.texts(two), ["m"]);
    world.bed.check();
}

// Groups.

const SHARED: &str = "$share/g/t";

pub(super) fn member(world: &mut World, name: &str, hello: &Hello<'_>) -> Who {
    let (who, present) = world.connect_with(name, hello);
    if !present {
        world.subscribe(who, SHARED, QoS::AtLeastOnce);
    }
    who
}

#[test]
fn what_a_member_that_does_not_persist_had_not_settled_goes_to_one_that_does_wherever_it_is() {
    for (transient, durable) in [(0, 0), (0, 1), (1, 0)] {
        let mut world = in_turns(2);
        let names = (
            world.name_on(transient, "goes"),
            world.name_on(durable, "stays"),
        );
        let stays = member(&mut world, &names.1, &staying());
        world.lose(stays);
        let goes = member(&mut world, &names.0, &Hello::default());
        world.answer(goes, false);
        let publisher = world.connect("p");
        for text in ["1", "2", "3"] {
            world.publish(publisher, "t", text, QoS::AtLeastOnce);
        }
        assert_eq!(world.texts(goes), ["1", "2", "3"]);
        world.restart();
        let stays = member(&mut world, &names.1, &staying());
        let mut got = world.texts(stays);
        got.sort();
        assert_eq!(got, ["1", "2", "3"], "{transient} {durable}");
        world.bed.check();
    }
}

#[test]
fn a_group_of_members_that_do_not_persist_is_not_written_down() {
    let mut world = world(2);
    for shard in 0..2 {
        let name = world.name_on(shard, "m");
        member(&mut world, &name, &Hello::default());
    }
    let publisher = world.connect("p");
    world.stop_disk();
    world.send(publisher, "t", "m", QoS::AtLeastOnce);
    assert!(matches!(
        world.heard(publisher),
        Some(Packet::PubAck { .. })
    ));
    assert_eq!(world.bed.disk.counts().0, 0);
}

#[test]
fn after_a_restart_what_a_member_had_not_settled_goes_to_whoever_comes_first() {
    for shards in [1, 2] {
        let mut world = world(2);
        let names = (world.name_on(0, "first"), world.name_on(1, "second"));
        let first = member(&mut world, &names.0, &staying());
        world.answer(first, false);
        let publisher = world.connect("p");
        world.publish(publisher, "t", "m", QoS::AtLeastOnce);
        assert_eq!(world.texts(first), ["m"]);
        member(&mut world, &names.1, &staying());
        world.restart_with(Loss::Process, shards);
        let second = member(&mut world, &names.1, &staying());
        assert_eq!(world.texts(second), ["m"], "{shards}");
        let first = member(&mut world, &names.0, &staying());
        assert_eq!(world.texts(first), [""; 0]);
        world.bed.check();
    }
}

#[test]
fn what_a_member_took_over_from_its_group_comes_again_under_the_terms_of_its_subscription() {
    for shards in [1, 2] {
        let mut world = world(shards);
        let away = member(&mut world, "s", &staying());
        world.lose(away);
        let publisher = world.connect("p");
        world.publish(publisher, "t", "m", QoS::ExactlyOnce);
        world.try_connect(
            "s",
            &Hello {
                reads: false,
                ..staying()
            },
        );
        world.rest();
        // This write includes earlier lazy ones.
        let log = world.connect_with("log", &staying()).0;
        world.subscribe(log, "u", QoS::AtLeastOnce);
        world.publish(publisher, "u", "", QoS::AtLeastOnce);
        world.restart();
        let back = back(&mut world, "s");
        let got = world.messages(back);
        assert_eq!(payloads(&got), ["m"], "{shards} shards");
        assert_eq!(
            got[0].qos,
            QoS::AtLeastOnce,
            "as was granted [MQTT-3.8.4-8]"
        );
        world.bed.check();
    }
}

/// A repeat that found no room would count as sent and come at the next reconnect only.
#[test]
fn what_was_in_flight_is_repeated_whatever_the_room_for_output() {
    let mut world = world(1);
    let (first, _) = world.connect_with("s", &staying());
    world.subscribe(first, "t", QoS::AtLeastOnce);
    world.answer(first, false);
    let publisher = world.connect("p");
    world.publish(publisher, "t", "m", QoS::AtLeastOnce);
    world.lose(first);
    world.bed.shards[0].links.set_unflushed_max(0);
    let back = back(&mut world, "s");
    let got = world.messages(back);
    assert_eq!(payloads(&got), ["m"]);
    assert!(got[0].dup);
    world.bed.check();
}

#[test]
fn what_a_member_had_not_settled_stays_the_groups_although_there_are_more_or_fewer_shards() {
    for (before, after) in [(2, 1), (1, 3), (3, 2)] {
        let mut world = world(before);
        let names: Vec<String> = (0..6).map(|number| format!("member-{number}")).collect();
        for name in &names {
            let who = member(&mut world, name, &staying());
            world.answer(who, false);
        }
        let publisher = world.connect("p");
        for number in 0..6 {
            world.publish(publisher, "t", &number.to_string(), QoS::AtLeastOnce);
        }
        world.restart_with(Loss::Process, after);
        // All but one are gone for good.
        for name in &names[1..] {
            let (who, _) = world.connect_with(
                name,
                &Hello {
                    reads: true,
                    clean: true,
                    ..Hello::default()
                },
            );
            world.leave(who);
        }
        let last = member(&mut world, &names[0], &staying());
        let mut got = world.texts(last);
        got.sort();
        assert_eq!(
            got,
            ["0", "1", "2", "3", "4", "5"],
            "{before} shards, then {after}"
        );
        world.bed.check();
    }
}

#[test]
fn what_a_member_does_not_settle_after_a_restart_goes_to_another_after_the_time_limit() {
    let limits = Limits {
        group_redispatch: false,
        group_settle_timeout: Span::from_secs(30),
        group_strategy: GroupStrategy::RoundRobin,
        ..Limits::default()
    };
    let mut world = World::with_journal(1, limits);
    let lazy = member(&mut world, "lazy", &staying());
    world.answer(lazy, false);
    let publisher = world.connect("p");
    for text in ["1", "2"] {
        world.publish(publisher, "t", text, QoS::AtLeastOnce);
    }
    world.restart();
    // The first is sent again, the second waits for credit.
    let lazy = world.try_connect(
        "lazy",
        &Hello {
            reads: false,
            receive_max: 1,
            ..staying()
        },
    );
    let other = member(&mut world, "other", &staying());
    world.wait(Span::from_secs(29));
    assert_eq!(world.texts(other), [""; 0]);
    world.wait(Span::from_secs(2));
    assert_eq!(world.texts(other), ["1", "2"]);
    world.leave(other);
    // Its connection has ended; what is not its any more holds no credit.
    world.read(lazy, true);
    assert!(world.is_closed(lazy));
    let lazy = world.try_connect(
        "lazy",
        &Hello {
            receive_max: 1,
            ..staying()
        },
    );
    let publisher = world.connect("p");
    world.publish(publisher, "t", "3", QoS::AtLeastOnce);
    assert_eq!(world.texts(lazy), ["3"]);
    world.bed.shards[0]
        .kernel
        .for_each_session(|session| assert_eq!(session.in_flight, 0, "{}", session.client));
}

#[test]
fn entries_of_a_group_from_several_shards_come_together_in_one() {
    let mut world = world(2);
    let names = (world.name_on(0, "a"), world.name_on(1, "b"));
    for name in [&names.0, &names.1] {
        let who = member(&mut world, name, &staying());
        world.lose(who);
    }
    for shard in 0..2 {
        let name = world.name_on(shard, "p");
        let publisher = world.connect(&name);
        for number in 0..10 {
            world.publish(
                publisher,
                "t",
                &format!("{shard}{number}"),
                QoS::AtLeastOnce,
            );
        }
    }
    // Twice, so that the second finds what the first has written.
    world.restart_with(Loss::Process, 1);
    world.restart_with(Loss::Process, 3);
    let who = member(&mut world, &names.1, &staying());
    let mut got = world.texts(who);
    got.sort();
    let mut expected: Vec<String> = (0..2)
        .flat_map(|a| (0..10).map(move |b| format!("{a}{b}")))
        .collect();
    expected.sort();
    assert_eq!(got, expected);
    world.bed.check();
}
