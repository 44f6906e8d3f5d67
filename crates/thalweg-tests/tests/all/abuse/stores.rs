//! Whatever is kept has a limit: subscriptions, last values, levels.

use super::*;

#[test]
fn a_storm_of_subscriptions_is_bounded_and_forgotten() {
    const CLIENTS: usize = 10;
    const EACH: usize = 3000;
    let options = Broker::with().set("limits.subscriptions_per_session_max", &EACH.to_string());
    let Some(victim) = Victim::with(options) else {
        return;
    };
    let address = victim.broker.mqtt();
    let begun = Instant::now();
    let storms: Vec<_> = (0..CLIENTS)
        .map(|client| {
            std::thread::spawn(move || {
                let mut talker = Talker::tcp(address).named(&format!("storm{client}"));
                let filters: Vec<String> = (0..EACH + 100)
                    .map(|number| match number % 3 {
                        0 => format!("a/{client}/{number}"),
                        1 => format!("a/+/{client}/{number}/#"),
                        _ => format!("+/{number}/+/{client}"),
                    })
                    .collect();
                let (mut granted, mut refused) = (0, 0);
                for some in filters.chunks(100) {
                    let filters: Vec<_> = some.iter().map(|filter| (filter.as_str(), 0)).collect();
                    talker.send(&subscribe(V5, 1, &[], &filters));
                    let Packet::Suback { codes, .. } = talker.next() else {
                        panic!("no SUBACK")
                    };
                    granted += codes.iter().filter(|code| **code == 0).count();
                    refused += codes.iter().filter(|code| **code == 0x97).count();
                }
                assert_eq!((granted, refused), (EACH, 100));
                talker
            })
        })
        .collect();
    let talkers: Vec<_> = storms
        .into_iter()
        .map(|storm| storm.join().expect("it ends"))
        .collect();
    let count = victim.figure("thalweg_subscriptions");
    println!(
        "{count} subscriptions in {:?}: {} KiB",
        begun.elapsed(),
        victim.growth()
    );
    assert_eq!(count, (CLIENTS * EACH) as u64 + 1);
    drop(talkers);
    victim.wait_for("thalweg_subscriptions", |count| count == 1);
    victim.assert_unharmed("subscription storm", 64 << 10);
}

#[test]
fn a_flood_of_retained_messages_stops_at_its_limits() {
    let options = Broker::with()
        .set("retained.messages_max", "5000")
        .set("retained.bytes_max", "8MiB");
    let Some(victim) = Victim::with(options) else {
        return;
    };
    let mut talker = Talker::tcp(victim.broker.mqtt()).named("keeper");
    for some in (0..12_000).collect::<Vec<_>>().chunks(500) {
        let burst = some.iter().zip(1..).flat_map(|(number, id)| {
            Publish::new(format!("kept/{number}"), [b'x'; 1000])
                .qos(1, id)
                .retain()
                .bytes(V5)
        });
        talker.send(&burst.collect::<Vec<u8>>());
        for id in 1..=some.len() {
            talker.answer(PUBACK, id as u16);
        }
    }
    let (count, bytes) = (
        victim.figure("thalweg_retained_messages"),
        victim.figure("thalweg_retained_bytes"),
    );
    println!(
        "{count} retained messages of {bytes} bytes, {} KiB",
        victim.growth()
    );
    assert!(
        count <= 5000 && bytes <= 8 << 20,
        "{count} messages, {bytes} bytes"
    );
    assert!(count > 4000, "{count}");
    let kept = talker.retain("kept/0", "another value");
    assert!(
        kept < 0x80,
        "one that is there can be replaced: {kept:#04x}"
    );
    for number in 0..12_000 {
        talker.send(
            &Publish::new(format!("kept/{number}"), "")
                .retain()
                .bytes(V5),
        );
    }
    assert_eq!(talker.until_pong(), []);
    victim.wait_for("thalweg_retained_messages", |count| count == 0);
    victim.assert_unharmed("retained flood", 48 << 10);
}

#[test]
fn deep_topics_and_filters_are_refused_and_wide_wildcards_cost_a_bounded_time() {
    let Some(victim) = Victim::with(Broker::with()) else {
        return;
    };
    let address = victim.broker.mqtt();
    let deep = "/".repeat(65_535);
    let mut talker = Talker::tcp(address).named("deep");
    for _ in 0..50 {
        assert_eq!(talker.publish(&deep, "", 1), 0x90);
        assert_eq!(talker.subscribe(&deep, 0), 0x8F);
        assert_eq!(talker.subscribe(&"+/".repeat(32_000), 0), 0x8F);
    }
    // Every mixture of `a` and `+` over ten levels: a matcher that tries all paths meets them all at each publish.
    const LEVELS: usize = 10;
    let mixtures: Vec<String> = (0..1 << LEVELS)
        .map(|bits: usize| {
            let level = |at| if bits >> at & 1 == 0 { "a" } else { "+" };
            (0..LEVELS).map(level).collect::<Vec<_>>().join("/")
        })
        .collect();
    for some in mixtures.chunks(256) {
        let filters: Vec<_> = some.iter().map(|filter| (filter.as_str(), 0)).collect();
        talker.send(&subscribe(V5, 1, &[], &filters));
        let Packet::Suback { codes, .. } = talker.next() else {
            panic!("no SUBACK")
        };
        assert!(codes.iter().all(|code| *code == 0));
    }
    let mut sender = Talker::tcp(address).named("sender");
    for number in 0..200 {
        // Each topic is another, so that no cache helps.
        let mut levels = vec!["a".to_owned(); LEVELS];
        levels[number % LEVELS] = format!("b{number}");
        sender.publish(&levels.join("/"), "", 1);
    }
    sender.publish(&vec!["a"; 128].join("/"), "", 1);
    sender.publish(&["a"; LEVELS].join("/"), "all", 0);
    let mut copies = 0;
    crate::server::home::wait_until("the last message arrives", || {
        let messages = talker.until_pong();
        copies += messages.len();
        messages.iter().any(|message| message.text() == "all")
    });
    println!(
        "{copies} copies for 201 publishes against {} overlapping filters",
        mixtures.len()
    );
    victim.assert_unharmed("topic bombs", 64 << 10);
}
