//! Several shards act as one broker.

use super::home::Home;
use crate::conformance::packet::Version::V5;
use crate::conformance::packet::*;

/// Enough that every pair of three shards is met.
const CLIENTS: usize = 12;

#[test]
fn messages_of_every_qos_reach_subscribers_on_every_shard() {
    let home = Home::new(&["shards=3"]);
    let mut receivers: Vec<_> = (0..CLIENTS)
        .map(|number| home.client(&format!("receiver{number}")))
        .collect();
    for receiver in &mut receivers {
        assert_eq!(receiver.subscribe("+/data", 2), 2);
    }
    let homes = home
        .observer()
        .on_shards(|inside| inside.kernel.totals().sessions);
    assert!(
        homes.iter().all(|sessions| *sessions > 0),
        "some shard has no client: {homes:?}"
    );
    for number in 0..CLIENTS {
        let mut sender = home.client(&format!("sender{number}"));
        for qos in 0..=2 {
            assert_eq!(sender.publish("x/data", &format!("{number} {qos}"), qos), 0);
        }
        for receiver in &mut receivers {
            for qos in 0..=2 {
                let message = receiver.message();
                assert_eq!(
                    (message.text(), message.qos),
                    (format!("{number} {qos}").as_str(), qos)
                );
            }
        }
    }
    for mut receiver in receivers {
        assert_eq!(receiver.until_pong(), [], "each message comes once");
    }
}

#[test]
fn retained_messages_are_found_by_wildcard_from_every_shard() {
    let home = Home::new(&["shards=3"]);
    let mut keeper = home.client("keeper");
    for number in 0..30 {
        assert!(keeper.retain(&format!("kept/{number}"), "value") < 0x80);
    }
    assert!(keeper.retain("kept/7", "") < 0x80);
    let kept = home
        .observer()
        .on_shards(|inside| inside.kernel.totals().retained);
    assert_eq!(
        (
            kept.iter().sum::<usize>(),
            kept.iter().all(|count| *count > 0)
        ),
        (29, true),
        "{kept:?}"
    );
    for number in 0..CLIENTS {
        let mut asker = home.client(&format!("asker{number}"));
        asker.subscribe("kept/+", 0);
        let mut topics: Vec<String> = (0..29)
            .map(|_| {
                let message = asker.message();
                assert!(message.retain);
                message.topic
            })
            .collect();
        topics.sort();
        topics.dedup();
        assert_eq!(
            (topics.len(), topics.contains(&"kept/7".to_owned())),
            (29, false)
        );
        assert_eq!(asker.until_pong(), []);
    }
}

#[test]
fn a_shared_subscription_spreads_over_members_on_every_shard_and_gives_each_message_once() {
    let home = Home::new(&["shards=3"]);
    let mut members: Vec<_> = (0..CLIENTS)
        .map(|number| home.client(&format!("member{number}")))
        .collect();
    for member in &mut members {
        assert_eq!(member.subscribe("$share/g/work/#", 1), 1);
    }
    let mut boss = home.client("boss");
    for number in 0..90 {
        assert_eq!(boss.publish("work/x", &number.to_string(), 1), 0);
    }
    // Messages between shards arrive later: all clients read until everything has arrived.
    let mut jobs = Vec::new();
    let mut busy = 0;
    super::home::wait_until("all work is given out", || {
        busy = 0;
        for member in &mut members {
            let messages = member.until_pong();
            for message in &messages {
                member.send(&ack(PUBACK, message.id));
            }
            busy += usize::from(!messages.is_empty());
            jobs.extend(
                messages
                    .iter()
                    .map(|message| message.text().parse::<u32>().expect("a number")),
            );
        }
        jobs.len() >= 90
    });
    jobs.sort_unstable();
    assert_eq!(jobs, (0..90).collect::<Vec<_>>());
}

#[test]
fn a_session_finds_what_waited_for_it_wherever_it_was_published() {
    let home = Home::new(&["shards=3"]);
    for number in 0..CLIENTS {
        let name = format!("sleeper{number}");
        let mut sleeper = home.talker().accepted(&Connect::lasting(V5, &name));
        sleeper.subscribe("news", 1);
        sleeper.send(&disconnect());
        assert_eq!(sleeper.next_or_end(), None);
    }
    home.client("sender").publish("news", "good", 1);
    for number in 0..CLIENTS {
        let mut sleeper = home.talker();
        let connack = sleeper.connect(&Connect::lasting(V5, format!("sleeper{number}")));
        assert!(connack.session_present);
        assert_eq!(sleeper.message().text(), "good");
    }
}
