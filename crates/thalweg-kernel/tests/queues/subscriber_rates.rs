//! Rates that policies give each subscriber.

use crate::dice::Dice;
use crate::world::{Who, World, firm};
use thalweg_kernel::access::{Access, Otherwise, Rules};
use thalweg_kernel::{Draft, DropReason, Exceed, Limits, OpenSession, Overflow, Policy, RatePer};
use thalweg_model::{Filter, Reliability, Span};

const ONCE: Reliability = Reliability::AtLeastOnce;
const EACH: [Reliability; 3] = [Reliability::AtMostOnce, ONCE, Reliability::ExactlyOnce];
const HOUR: Span = Span::from_secs(3600);
/// Messages per second, of which four times as many are published.
const RATE: u64 = 50;
const BETWEEN: Span = Span::from_millis(5);

fn policy(filter: &str) -> Policy {
    Policy {
        rate: Some(RATE),
        rate_burst: Some(Span::from_millis(100)),
        rate_per: Some(RatePer::Subscriber),
        ..Policy::new(Filter::new(filter).expect("a filter"))
    }
}

/// One message, and the next a second later.
fn slow(filter: &str) -> Policy {
    Policy {
        rate: Some(1),
        rate_burst: Some(Span::from_secs(1)),
        ..policy(filter)
    }
}

fn limits(policies: &[Policy]) -> Limits {
    Limits {
        policies: policies.into(),
        ..Limits::default()
    }
}

fn somebody(world: &mut World, shard: usize, expiry: Span) -> Who {
    let name = world.name_on(shard);
    world.connect_with(shard, &name, Access::ALL, expiry)
}

fn publish(world: &mut World, who: Who, draft: Draft<'_>) {
    world.publish(who, Draft { ticket: 1, ..draft });
    world.run(who.shard, |kernel, out, _| {
        kernel.release(who.session, 1, out)
    });
}

fn sure<'a>(address: &'a str, text: &'a str, reliability: Reliability) -> Draft<'a> {
    Draft {
        reliability,
        ..firm(address, text)
    }
}

/// Takes all that has arrived, and settles it.
fn take(world: &mut World, who: Who) -> Vec<String> {
    let got = world.got(who);
    for got in got.iter().filter(|got| got.settles) {
        world.run(who.shard, |kernel, out, now| {
            kernel.receive(who.session, got.tag as u16, now, out)
        });
        world.settle_delivery(who, got.tag);
    }
    got.into_iter().map(|got| got.text).collect()
}

fn is_within_two_percent(count: usize, of: usize) -> bool {
    count.abs_diff(of) * 50 <= of
}

#[test]
fn each_subscriber_has_the_rate_within_two_percent_over_ten_seconds() {
    for (shards, reliability) in [1, 2].into_iter().flat_map(|n| EACH.map(|it| (n, it))) {
        for exceed in [Exceed::Throttle, Exceed::Drop] {
            let record = Policy {
                rate_exceed: Some(exceed),
                ..policy("t/#")
            };
            let mut world = World::without_prefixes(shards, limits(&[record]));
            let last = usize::from(shards) - 1;
            let publisher = somebody(&mut world, last, Span::ZERO);
            let readers = [0, last].map(|shard| somebody(&mut world, shard, Span::ZERO));
            for reader in readers {
                world.subscribe(reader, "t/#", None, reliability);
            }
            let (mut got, end) = ([0; 2], world.now + Span::from_secs(10));
            while world.now < end {
                // It has one account for all addresses of the record.
                for address in ["t/a", "t/b"] {
                    publish(&mut world, publisher, sure(address, "m", reliability));
                }
                world.wait(Span::from_millis(10));
                for (got, reader) in got.iter_mut().zip(readers) {
                    *got += take(&mut world, reader).len();
                }
            }
            for got in got {
                let what = format!("{got}: {shards} shards, {reliability:?}, {exceed:?}");
                assert!(is_within_two_percent(got, 10 * RATE as usize), "{what}");
            }
            let is_dropped = world.dropped(DropReason::OverRate) > 0;
            assert_eq!(is_dropped, exceed == Exceed::Drop);
        }
    }
}

#[test]
fn bytes_count_as_messages_do_and_the_tighter_of_the_two() {
    for (len, of) in [(10, 500), (100, 250)] {
        let record = Policy {
            rate_bytes: Some(RATE * 50),
            ..policy("t")
        };
        let mut world = World::without_prefixes(1, limits(&[record]));
        let (publisher, reader) = (world.connect("p"), world.connect("r"));
        world.subscribe(reader, "t", None, ONCE);
        let (mut got, end) = (0, world.now + Span::from_secs(10));
        while world.now < end {
            publish(&mut world, publisher, firm("t", &"x".repeat(len)));
            world.wait(BETWEEN);
            got += take(&mut world, reader).len();
        }
        assert!(is_within_two_percent(got, of), "{got} of {of}");
    }
}

#[test]
fn what_has_no_rate_does_not_wait_behind_what_has_one_and_its_publisher_does_not_wait() {
    for reliability in EACH {
        let mut world = World::without_prefixes(1, limits(&[slow("t/log")]));
        let (publisher, reader) = (world.connect("p"), world.connect("r"));
        world.subscribe(reader, "t/#", None, reliability);
        for text in ["1", "2", "3"] {
            let published = world.run(0, |kernel, out, now| {
                let draft = sure("t/log", text, reliability.min(ONCE));
                kernel.publish(publisher.session, draft, now, out)
            });
            assert_eq!(published.pause_until, None);
            publish(&mut world, publisher, sure("t/alarm", "!", reliability));
        }
        assert_eq!(
            take(&mut world, reader),
            ["1", "!", "!", "!"],
            "{reliability:?}"
        );
        world.wait(Span::from_millis(999));
        assert!(take(&mut world, reader).is_empty());
        world.wait(Span::from_millis(2));
        assert_eq!(take(&mut world, reader), ["2"]);
        publish(&mut world, publisher, sure("t/log", "4", reliability));
        world.wait(Span::from_secs(1));
        assert_eq!(take(&mut world, reader), ["3"], "what comes goes behind");
        world.wait(Span::from_secs(1));
        assert_eq!(take(&mut world, reader), ["4"]);
    }
}

#[test]
fn the_highest_priority_is_the_next_of_what_is_held_back() {
    let mut world = World::without_prefixes(1, limits(&[slow("t")]));
    let (publisher, reader) = (world.connect("p"), world.connect("r"));
    world.subscribe(reader, "t", None, ONCE);
    for (text, priority) in [("1", 4), ("2", 4), ("3", 4), ("9", 9)] {
        let draft = firm("t", text);
        publish(&mut world, publisher, Draft { priority, ..draft });
    }
    let mut got = take(&mut world, reader);
    for _ in 0..3 {
        world.wait(Span::from_secs(1));
        got.extend(take(&mut world, reader));
    }
    assert_eq!(got, ["1", "9", "2", "3"]);
}

#[test]
fn what_waited_while_a_session_was_away_comes_at_the_rate_also_from_disk_and_after_a_restart() {
    for (restarts, in_memory) in [
        (false, 1 << 20),
        (false, 2048),
        (true, 1 << 20),
        (true, 2048),
    ] {
        let mut world = World::without_prefixes(
            1,
            Limits {
                queue_memory_bytes_max: in_memory,
                ..limits(&[policy("t/log")])
            },
        );
        let publisher = world.connect("p");
        let reader = world.connect_with(0, "r", Access::ALL, HOUR);
        world.subscribe(reader, "t/#", None, ONCE);
        world.lose(reader);
        let texts: Vec<String> = (0..700).map(|number| number.to_string()).collect();
        for text in &texts {
            publish(&mut world, publisher, firm("t/log", text));
        }
        world.sync();
        if restarts {
            world.restart();
        }
        let reader = world.connect_with(0, "r", Access::ALL, HOUR);
        let (mut got, begin) = (take(&mut world, reader), world.now);
        while world.now < begin + Span::from_secs(10) {
            world.wait(BETWEEN);
            got.extend(take(&mut world, reader));
        }
        let what = format!(
            "{} messages, {in_memory} bytes, restart: {restarts}",
            got.len()
        );
        assert!(is_within_two_percent(got.len(), 500), "{what}");
        // Half of it is still there after another loss of the link, and comes in order.
        world.lose(reader);
        let reader = world.connect_with(0, "r", Access::ALL, HOUR);
        for _ in 0..1000 {
            world.wait(BETWEEN);
            got.extend(take(&mut world, reader));
        }
        assert_eq!(got, texts, "{what}");
    }
}

#[test]
fn more_than_a_queue_takes_is_dropped_as_its_overflow_says() {
    for (overflow, left) in [
        (Overflow::DropNewest, ["0", "1", "2", "3"]),
        (Overflow::DropOldest, ["0", "7", "8", "9"]),
    ] {
        let mut world = World::without_prefixes(
            1,
            Limits {
                queue_messages_max: 3,
                overflow,
                ..limits(&[slow("t")])
            },
        );
        let (publisher, reader) = (world.connect("p"), world.connect("r"));
        world.subscribe(reader, "t", None, ONCE);
        for number in 0..10 {
            publish(&mut world, publisher, firm("t", &number.to_string()));
        }
        let mut got = take(&mut world, reader);
        for _ in 0..10 {
            world.wait(Span::from_secs(1));
            got.extend(take(&mut world, reader));
        }
        assert_eq!(got, left, "{overflow:?}");
        assert_eq!(world.dropped(DropReason::QueueFull), 6);
    }
    // At most once there is a bound in bytes: one is sent, and 25 wait.
    let mut world = World::without_prefixes(1, limits(&[slow("t")]));
    let (publisher, reader) = (world.connect("p"), world.connect("r"));
    world.subscribe(reader, "t", None, Reliability::AtMostOnce);
    for _ in 0..100 {
        let draft = sure("t", "", Reliability::AtMostOnce);
        let payload = &[b'x'; 10_000];
        publish(&mut world, publisher, Draft { payload, ..draft });
    }
    assert_eq!(world.dropped(DropReason::SlowReceiver), 74);
}

#[test]
fn a_reload_applies_at_once_to_what_is_held_back() {
    for reliability in EACH {
        let mut world = World::without_prefixes(1, limits(&[slow("t/#")]));
        let (publisher, reader) = (world.connect("p"), world.connect("r"));
        world.subscribe(reader, "t/#", None, reliability);
        for (address, text) in [("t/a", "1"), ("t/a", "2"), ("t/b", "3"), ("t/a", "4")] {
            publish(&mut world, publisher, sure(address, text, reliability));
        }
        assert_eq!(take(&mut world, reader), ["1"]);
        world.kernels[0].set_limits(limits(&[slow("t/a")]));
        world.wait(Span::ZERO);
        assert_eq!(
            take(&mut world, reader),
            ["2", "3"],
            "one has no rate any more"
        );
        world.kernels[0].set_limits(limits(&[]));
        world.wait(Span::ZERO);
        assert_eq!(take(&mut world, reader), ["4"]);
    }
}

#[test]
fn what_is_held_back_expires_and_ends_with_its_session() {
    let mut world = World::without_prefixes(1, limits(&[slow("t")]));
    let (publisher, reader) = (world.connect("p"), world.connect("r"));
    world.subscribe(reader, "t", None, ONCE);
    for seconds in [9, 9, 1, 9, 9] {
        let expires_in = Some(Span::from_millis(1000 * seconds + 500));
        let draft = firm("t", &seconds.to_string()).payload.to_vec();
        let payload = &draft[..];
        publish(
            &mut world,
            publisher,
            Draft {
                payload,
                expires_in,
                ..firm("t", "")
            },
        );
    }
    let mut got = take(&mut world, reader);
    for _ in 0..2 {
        world.wait(Span::from_secs(1));
        got.extend(take(&mut world, reader));
    }
    assert_eq!(got, ["9", "9", "9"]);
    assert_eq!(world.expired(), 1);
    world.lose(reader);
    assert_eq!(world.dropped(DropReason::SessionEnded), 1);
}

#[test]
fn what_is_held_back_is_not_sent_to_who_may_not_have_it_any_more() {
    let mut world = World::without_prefixes(1, limits(&[slow("t")]));
    let (publisher, reader) = (world.connect("p"), world.connect("r"));
    for filter in ["t", "u"] {
        world.subscribe(reader, filter, None, ONCE);
    }
    for text in ["1", "2", "3"] {
        publish(&mut world, publisher, firm("t", text));
    }
    assert_eq!(take(&mut world, reader), ["1"]);
    world.renew(|client, _| {
        let rules = Rules::new(Vec::new(), Otherwise::Deny).expect("no rules");
        match client {
            "r" => rules.compile("r", None),
            _ => Access::ALL,
        }
    });
    // Something else is sent meanwhile, or could be.
    world.make_room(reader, 1);
    for _ in 0..3 {
        world.wait(Span::from_secs(1));
    }
    assert_eq!(take(&mut world, reader), [""; 0]);
    assert_eq!(world.dropped(DropReason::AccessDenied), 2);
}

#[test]
fn a_subscription_without_own_messages_has_none_and_they_do_not_count() {
    for exceed in [Exceed::Throttle, Exceed::Drop] {
        let record = Policy {
            rate_exceed: Some(exceed),
            ..slow("t")
        };
        let mut world = World::without_prefixes(1, limits(&[record]));
        let (publisher, reader) = (world.connect("p"), world.connect("r"));
        let wish = thalweg_kernel::Wish {
            no_local: true,
            ..crate::world::wish("t", None, ONCE)
        };
        world.ask_for(reader, &wish);
        publish(&mut world, reader, firm("t", "own"));
        publish(&mut world, publisher, firm("t", "other"));
        assert_eq!(take(&mut world, reader), ["other"]);
    }
}

#[test]
fn whatever_happens_all_arrive_once_and_in_order_and_never_faster() {
    for seed in 0..30 {
        let mut dice = Dice(seed);
        let records = [
            policy("t/a"),
            slow("t/b"),
            Policy {
                rate: Some(10),
                ..policy("t/c")
            },
        ];
        let mut world = World::without_prefixes(
            1,
            Limits {
                queue_memory_bytes_max: if seed % 2 == 0 { 1 << 20 } else { 1500 },
                in_flight_max: 5,
                ..limits(&records)
            },
        );
        let publisher = world.connect("p");
        let open = |world: &mut World| {
            let link = world.new_link();
            let open = OpenSession {
                fresh: false,
                expiry: HOUR,
                ..OpenSession::of_link("r", link, Access::ALL, "none")
            };
            world.start(0, open).expect("there is room")
        };
        let mut reader = open(&mut world);
        world.subscribe(reader, "t/#", None, ONCE);
        let addresses = ["t/a", "t/b", "t/c", "t/d"];
        let (mut sent, mut got) = ([0u32; 4], vec![Vec::new(); 4]);
        let begin = world.now;
        let collect = |world: &mut World, reader, got: &mut Vec<Vec<u32>>| {
            for text in take(world, reader) {
                let (at, number) = text.split_once(' ').expect("two words");
                got[at.parse::<usize>().expect("a place")].push(number.parse().expect("a number"));
            }
        };
        for _ in 0..400 {
            match dice.roll(10) {
                0..5 => {
                    let at = dice.roll(4);
                    let text = format!("{at} {}", sent[at]);
                    publish(&mut world, publisher, firm(addresses[at], &text));
                    sent[at] += 1;
                }
                5 => {
                    let room = dice.roll(4);
                    world.make_room(reader, room);
                }
                6 => {
                    // What is in flight is repeated to the next link, so it is taken before.
                    world.make_room(reader, usize::MAX);
                    collect(&mut world, reader, &mut got);
                    while world.kernels[0].bytes_held() > 0 && dice.roll(3) == 0 {
                        world.wait(Span::from_millis(100));
                        collect(&mut world, reader, &mut got);
                    }
                    world.lose(reader);
                    reader = open(&mut world);
                }
                _ => {
                    let millis = dice.roll(200) as u64;
                    world.wait(Span::from_millis(millis));
                    collect(&mut world, reader, &mut got);
                }
            }
        }
        let passed = world.now.since(begin).nanos() / 1_000_000_000 + 1;
        assert!(
            got[1].len() as u64 <= passed + 1,
            "{} in {passed} s",
            got[1].len()
        );
        world.make_room(reader, usize::MAX);
        for _ in 0..200 {
            world.wait(Span::from_secs(1));
            collect(&mut world, reader, &mut got);
        }
        for (at, got) in got.iter().enumerate() {
            let all: Vec<u32> = (0..sent[at]).collect();
            assert_eq!(*got, all, "{}, seed {seed}", addresses[at]);
        }
    }
}
