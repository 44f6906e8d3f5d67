//! `limits.*`, `queue.*`, `session.*`, `mqtt.*` and `sys.*`, as clients meet them.

use std::time::{Duration, Instant};

use super::home::{Home, wait_until};
use super::talker::Talker;
use crate::conformance::packet::Version::{V5, V311};
use crate::conformance::packet::*;

const TOPIC_INVALID: u8 = 0x90;
const FILTER_INVALID: u8 = 0x8F;

#[test]
fn long_topics_and_filters_are_refused_one_by_one() {
    let home = Home::new(&["limits.topic_bytes_max=10", "limits.topic_levels_max=3"]);
    let mut talker = home.client("a");
    assert_eq!(talker.publish("0123456789", "", 1), 0x10);
    assert_eq!(talker.publish("0123456789A", "", 1), TOPIC_INVALID);
    assert_eq!(talker.publish("0123456789A", "", 2), TOPIC_INVALID);
    assert_eq!(talker.publish("1/2/3/4", "", 1), TOPIC_INVALID);
    assert_eq!(talker.publish("///", "", 1), TOPIC_INVALID);
    assert_eq!(talker.publish("//", "", 1), 0x10);
    assert_eq!(talker.subscribe("0123456789A", 0), FILTER_INVALID);
    assert_eq!(talker.subscribe("1/2/3/4", 0), FILTER_INVALID);
    assert_eq!(talker.subscribe("1/2/3", 0), 0);
    let will = Connect::new(V5, "b").will("0123456789A", "", 0, false);
    assert_eq!(home.talker().connect(&will).code, TOPIC_INVALID);
}

#[test]
fn subscriptions_and_client_ids_have_their_limits() {
    let home = Home::new(&[
        "limits.subscriptions_per_session_max=2",
        "limits.client_id_bytes_max=23",
    ]);
    let mut talker = home.client("a");
    assert_eq!(
        [
            talker.subscribe("1", 0),
            talker.subscribe("2", 0),
            talker.subscribe("3", 0)
        ],
        [0, 0, 0x97]
    );
    assert_eq!(
        talker.subscribe("1", 1),
        1,
        "one that is there can be replaced"
    );
    assert_eq!(
        home.talker()
            .connect(&Connect::new(V5, "123456789012345678901234"))
            .code,
        0x85
    );
    assert_eq!(
        home.talker()
            .connect(&Connect::new(V311, "123456789012345678901234"))
            .code,
        2
    );
}

/// A large batch of the journal asks for a flush; that no connection was written to must not stop the shard.
#[test]
fn large_retained_messages_that_nobody_reads_do_not_stop_their_shard() {
    let home = Home::new(&["shards=1"]);
    let mut talker = home.client("a");
    let retained = |topic: &str, bytes| Publish::new(topic, "x".repeat(bytes)).retain().bytes(V5);
    talker.send_raw(
        &[
            retained("large", 5 << 20),
            retained("small", 10),
            retained("small", 10),
        ]
        .concat(),
    );
    assert_eq!(talker.until_pong().len(), 0);
    assert_eq!(home.client("b").publish("other", "", 1), 0x10);
}

/// Whatever the length of a CONNECT, a client id has one home: there is no length at which it goes elsewhere.
#[test]
fn a_connect_is_refused_above_its_limit_and_takes_over_below_it() {
    let home = Home::new(&["limits.connect_bytes_max=4KiB"]);
    for round in 0..8 {
        // Both shards in turn, if the length decided.
        let name = format!("dup{}", round / 2);
        let mut first = home.client(&name);
        let will = |bytes| Connect::new(V5, &name).will("gone", "x".repeat(bytes), 0, false);
        assert_eq!(home.talker().connect(&will(5000)).code, 0x95);
        assert_eq!(
            first.publish("a", "", 1),
            0x10,
            "a refused CONNECT takes nothing over"
        );
        let second = home.talker().accepted(&will(3000));
        first.expect_disconnect(0x8E);
        second.vanish();
    }
    let mut old = home.talker();
    old.send_raw(
        &Connect::new(V311, "dup")
            .will("gone", "x".repeat(5000), 0, false)
            .bytes(),
    );
    assert!(
        old.next_or_end().is_none(),
        "MQTT 3 has no return code for it"
    );
}

#[test]
fn a_listener_can_have_another_packet_limit_and_another_publish_rate_than_the_rest() {
    let home = Home::new(&[
        "limits.packet_bytes_max=1000",
        "limits.publish_rate=1",
        "listeners.free.bind=127.0.0.1:0",
        "listeners.free.packet_bytes_max=5000",
        "listeners.free.publish_rate=0",
    ]);
    let payload = "x".repeat(2000);
    let mut held = home.client("held");
    held.send(&Publish::new("t", &payload).bytes(V5));
    held.expect_disconnect(0x95);
    let mut free = Talker::tcp(home.address("free")).named("free");
    assert_eq!(free.publish("t", &payload, 1), 0x10);

    // One at once and then one per second, and nothing is dropped: the last of these is due in a quarter of an hour.
    const COUNT: u16 = 1_000;
    let mut counter = home.client("counter");
    counter.subscribe("held", 0);
    let begun = Instant::now();
    let mut held = home.client("held again");
    for (talker, topic) in [(&mut held, "held"), (&mut free, "free")] {
        let burst = (1..=COUNT).flat_map(|id| Publish::new(topic, "").qos(1, id).bytes(V5));
        talker.send(&burst.collect::<Vec<u8>>());
    }
    for id in 1..=COUNT {
        assert_eq!(free.answer(PUBACK, id), 0x10);
    }
    let count = counter.until_pong().len();
    assert!(
        count < usize::from(COUNT),
        "{count} are as many as without a rate"
    );
    for id in 1..=4 {
        assert_eq!(held.answer(PUBACK, id), 0);
    }
    assert!(
        begun.elapsed() >= Duration::from_millis(1400),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn a_session_that_goes_on_is_held_to_the_rate_of_its_new_connection() {
    let home = Home::new(&[
        "listeners.slow.bind=127.0.0.1:0",
        "listeners.slow.publish_rate=10",
    ]);
    home.talker().accepted(&Connect::lasting(V5, "a")).vanish();
    wait_until("the connection is seen to be gone", || {
        home.observer()
            .on_shards(|inside| inside.kernel.totals().sessions_online)
            .iter()
            .sum::<usize>()
            == 0
    });
    let mut talker = Talker::tcp(home.address("slow")).accepted(&Connect::lasting(V5, "a"));
    let begun = Instant::now();
    for _ in 0..15 {
        talker.publish("t", "", 1);
    }
    assert!(
        begun.elapsed() >= Duration::from_millis(400),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn published_bytes_have_a_rate_too() {
    let home = Home::new(&["limits.publish_bytes_rate=10000"]);
    let mut talker = home.client("a");
    let begun = Instant::now();
    for _ in 0..4 {
        talker.publish("t", &"x".repeat(5000), 1);
    }
    // 10,000 at once, and the third waits until the second thing is paid for, and so on.
    assert!(
        begun.elapsed() >= Duration::from_millis(450),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn connections_are_counted_per_listener_per_address_and_in_all() {
    let home = Home::new(&[
        "limits.connections_max=3",
        "limits.connections_per_address_max=2",
        "listeners.mqtt.connections_max=1",
        "listeners.other.bind=127.0.0.1:0",
    ]);
    let is_let_in = |listener: &str, client: &str| {
        let mut talker = Talker::tcp(home.address(listener));
        talker
            .try_connect(&Connect::new(V5, client))
            .map(|_| talker)
    };
    let first = is_let_in("mqtt", "1");
    assert!(first.is_some());
    assert!(
        is_let_in("mqtt", "2").is_none(),
        "one is all that this listener takes"
    );
    let others = [is_let_in("other", "3"), is_let_in("other", "4")];
    assert!(others.iter().all(Option::is_some));
    assert!(
        is_let_in("other", "5").is_none(),
        "two from one address are enough"
    );
    first.expect("as above").vanish();
    let mut third = None;
    wait_until("the place of one that has gone is free", || {
        third = is_let_in("mqtt", "6");
        third.is_some()
    });
}

#[test]
fn who_says_nothing_is_closed_in_time() {
    let home = Home::new(&["limits.connect_timeout=1s"]);
    let mut silent = home.talker();
    let mut halfway = home.talker();
    halfway.send(&Connect::new(V5, "a").bytes()[..5]);
    assert_eq!(silent.next_or_end(), None);
    assert_eq!(halfway.next_or_end(), None);
    assert_eq!(home.observer().lobby().timed_out, 2);
}

#[test]
fn sessions_have_a_number_and_a_longest_life() {
    let home = Home::new(&["shards=1", "session.count_max=2", "session.expiry_max=100s"]);
    let mut first = home.talker();
    let connack =
        first.connect(&Connect::new(V5, "1").with(property::four(property::SESSION_EXPIRY, 1000)));
    assert_eq!(
        (
            connack.code,
            connack.properties.number(property::SESSION_EXPIRY)
        ),
        (0, Some(100))
    );
    let _second = home.client("2");
    assert_eq!(home.talker().connect(&Connect::new(V5, "3")).code, 0x97);
    assert_eq!(home.talker().connect(&Connect::new(V311, "3")).code, 3);
    assert_eq!(
        home.talker().connect(&Connect::new(V5, "1")).code,
        0,
        "who has a session may come back"
    );
}

/// Unacknowledged messages of a member that leaves.
fn unacknowledged(home: &Home) -> Talker {
    let mut leaver = home.talker().accepted(&Connect::lasting(V5, "leaver"));
    assert_eq!(leaver.subscribe("$share/g/work", 1), 1);
    home.client("boss").publish("work", "job", 1);
    assert_eq!(leaver.unsettled().text(), "job");
    leaver
}

#[test]
fn unacknowledged_work_goes_to_another_member_as_soon_as_one_disconnects() {
    let home = Home::new(&[]);
    let leaver = unacknowledged(&home);
    let mut other = home.client("other");
    assert_eq!(other.subscribe("$share/g/work", 1), 1);
    leaver.vanish();
    assert_eq!(other.message().text(), "job");
}

#[test]
fn without_redispatch_unacknowledged_work_waits_for_the_member_to_return() {
    let home = Home::new(&["session.redispatch=false"]);
    let leaver = unacknowledged(&home);
    let mut other = home.client("other");
    assert_eq!(other.subscribe("$share/g/work", 1), 1);
    leaver.vanish();
    wait_until("the connection is seen to be gone", || {
        home.observer()
            .on_shards(|inside| inside.kernel.totals().sessions_online)
            .iter()
            .sum::<usize>()
            == 1
    });
    home.client("boss").publish("work", "another", 1);
    assert_eq!(other.message().text(), "another");
    let mut returned = home.talker().accepted(&Connect::lasting(V5, "leaver"));
    let message = returned.message();
    assert_eq!((message.text(), message.dup), ("job", true));
}

#[test]
fn clients_are_sent_to_another_server() {
    let home = Home::new(&["mqtt.server_reference=broker2.example:1883"]);
    let connack = home.talker().connect(&Connect::new(V5, "a"));
    assert_eq!(connack.code, 0x9C);
    assert_eq!(
        connack.properties.text(property::SERVER_REFERENCE),
        Some("broker2.example:1883")
    );
    assert_eq!(home.talker().connect(&Connect::new(V311, "a")).code, 3);
}

#[test]
fn a_connected_receiver_that_is_slower_than_its_publisher_gets_all_and_the_publisher_waits() {
    const COUNT: usize = 6_000;
    for shards in [1, 2] {
        let home = Home::new(&[&format!("shards={shards}"), "queue.messages_max=1000"]);
        let mut slow = home.talker().accepted(&Connect::lasting(V5, "slow"));
        slow.subscribe("load", 1);
        let mut busy = home.client("busy");
        let publisher = std::thread::spawn(move || {
            // As fast as it goes; the acknowledgements are read at the end.
            for number in 0..COUNT {
                busy.send(
                    &Publish::new("load", number.to_string())
                        .qos(1, number as u16 + 1)
                        .bytes(V5),
                );
            }
            (0..COUNT)
                .filter(|number| busy.answer(PUBACK, *number as u16 + 1) == 0)
                .count()
        });
        for number in 0..COUNT {
            let message = slow.message();
            assert_eq!(message.text(), number.to_string(), "with {shards} shards");
            slow.send(&ack(PUBACK, message.id));
        }
        assert_eq!(
            publisher.join().expect("it is never disconnected"),
            COUNT,
            "with {shards} shards"
        );
    }
}

#[test]
fn what_a_full_group_of_nobody_cannot_keep_is_refused_by_name() {
    let home = Home::new(&["shards=1", "groups.messages_max=1000"]);
    let mut member = home.talker().accepted(&Connect::lasting(V5, "member"));
    member.subscribe("$share/g/jobs", 1);
    member.vanish();
    let mut busy = home.client("busy");
    for first in [0, 750] {
        let burst = (first..first + 750).flat_map(|number: u16| {
            let qos = 1 + (number % 2) as u8;
            Publish::new("jobs", number.to_string())
                .qos(qos, number + 1)
                .bytes(V5)
        });
        busy.send(&burst.collect::<Vec<u8>>());
        for number in first..first + 750 {
            let (answer, expected) = (
                if number % 2 == 0 { PUBACK } else { PUBREC },
                if number < 1_000 { 0 } else { 0x97 },
            );
            assert_eq!(busy.answer(answer, number + 1), expected, "{number}");
        }
    }
    // MQTT 3 has no word for it: nothing is acknowledged, and the connection goes on.
    let mut old = home.talker().accepted(&Connect::new(V311, "old"));
    old.send(&Publish::new("jobs", "one more").qos(1, 1).bytes(V311));
    assert_eq!(old.until_pong(), []);
}

#[test]
fn short_memory_refuses_messages_and_lets_in_who_takes_them_away() {
    // With a journal what waits for long is on disk; see the next test.
    let home = Home::new(&[
        "limits.memory_bytes_max=16MiB",
        "queue.messages_max=1000000",
        "journal.enabled=false",
    ]);
    let mut old = home.talker().accepted(&Connect::lasting(V5, "sleeper"));
    old.subscribe("load", 1);
    old.vanish();
    let mut busy = home.client("busy");
    const LARGE: usize = 500_000;
    let payload = "x".repeat(LARGE);
    let accepted = (0..1_000)
        .take_while(|_| busy.publish("load", &payload, 1) == 0)
        .count();
    assert!(
        (20..33).contains(&accepted),
        "16 MiB hold {accepted} of half a megabyte"
    );
    assert_eq!(
        busy.publish("load", &payload, 1),
        0x97,
        "what could only wait is refused by name"
    );
    let dropped = || {
        home.observer()
            .on_shards(|inside| inside.kernel.ledger().dropped_total())
            .iter()
            .sum::<u64>()
    };
    assert_eq!(dropped(), 0);
    assert_eq!(home.talker().connect(&Connect::new(V5, "new")).code, 0);
    assert_eq!(
        home.talker()
            .connect(&Connect::new(V311, "old protocol"))
            .code,
        0
    );
    let mut back = home.talker().accepted(&Connect::lasting(V5, "sleeper"));
    for _ in 0..accepted {
        let message = back.message();
        assert_eq!(message.payload.len(), LARGE);
        back.send(&ack(PUBACK, message.id));
    }
    assert_eq!(back.until_pong(), []);
    assert_eq!(busy.publish("load", &payload, 1), 0, "there is room again");
    assert_eq!((back.message().payload.len(), dropped()), (LARGE, 0));
}

#[test]
fn what_waits_in_the_journal_does_not_make_memory_short() {
    const COUNT: usize = 260;
    let home = Home::new(&["limits.memory_bytes_max=16MiB"]);
    let mut old = home.talker().accepted(&Connect::lasting(V5, "sleeper"));
    old.subscribe("load", 1);
    old.vanish();
    let mut busy = home.client("busy");
    for number in 10..COUNT {
        let payload = number.to_string().repeat(50_000);
        assert_eq!(busy.publish("load", &payload, 1), 0, "30 MB are no trouble");
    }
    assert_eq!(home.observer().pressure(), 0);
    let mut back = home.talker().accepted(&Connect::lasting(V5, "sleeper"));
    for number in 10..COUNT {
        let message = back.message();
        assert_eq!(
            message.payload,
            number.to_string().repeat(50_000).as_bytes()
        );
        back.send(&ack(PUBACK, message.id));
    }
    let held = || {
        home.observer()
            .on_shards(|inside| inside.kernel.bytes_held())
            .into_iter()
            .max()
    };
    assert!(held().is_some_and(|held| held < 16 << 20), "{:?}", held());
}

#[test]
fn figures_appear_below_sys() {
    let home = Home::new(&["sys.interval=1s", "shards=3"]);
    let mut talker = home.client("a");
    talker.subscribe("x", 0);
    home.client("keeper").retain("kept", "value");
    let mut watcher = home.client("watcher");
    watcher.subscribe("$SYS/broker/#", 0);
    let expected = [
        ("$SYS/broker/clients/connected", "2"),
        ("$SYS/broker/subscriptions/count", "2"),
        ("$SYS/broker/publish/messages/received", "1"),
    ];
    let mut seen = std::collections::HashMap::new();
    wait_until("the figures are right", || {
        let message = watcher.message();
        seen.insert(message.topic.clone(), message.text().to_owned());
        expected
            .iter()
            .all(|(topic, value)| seen.get(*topic).is_some_and(|seen| seen == value))
    });
    assert!(seen.contains_key("$SYS/broker/uptime"));
}
