//! Rates that policies give each subscriber, of those that take from queues and groups, or watch a value: one that is over it
//! is passed over until there is room.

use crate::world::{Dice, Taking, Terms, Who, World, firm, headers, q};
use thalweg_kernel::access::Access;
use thalweg_kernel::{
    Draft, DropReason, Exceed, GroupPolicy, GroupStrategy, Limits, OrderKey, Policy, RatePer,
};
use thalweg_model::{Filter, Reliability, Span};

const ONCE: Reliability = Reliability::AtLeastOnce;
const HOUR: Span = Span::from_secs(3600);
const RED: &str = "colour = 'r'";
const BLUE: &str = "colour = 'b'";
const RATE: u64 = 50;
const STEP: Span = Span::from_millis(5);

fn per_second(filter: &str, rate: u64, burst: Span) -> Policy {
    Policy {
        rate: Some(rate),
        rate_burst: Some(burst),
        rate_per: Some(RatePer::Subscriber),
        ..Policy::new(Filter::new(filter).expect("a filter"))
    }
}

/// One message, and the next a second later.
fn slow(filter: &str) -> Policy {
    per_second(filter, 1, Span::from_secs(1))
}

fn limits(policies: &[Policy]) -> Limits {
    Limits {
        policies: policies.into(),
        ..Limits::default()
    }
}

/// The first letter of a message is its colour.
fn put(world: &mut World, who: Who, address: &str, text: &str) {
    let properties = headers(&[("colour", &text[..1])]);
    let draft = Draft {
        properties: Some(&properties),
        ..firm(address, text)
    };
    world.publish(who, draft);
}

/// Takes all that has arrived, and settles it.
fn take(world: &mut World, who: Who) -> Vec<String> {
    let got = world.got(who);
    for got in got.iter().filter(|got| got.settles) {
        match got.is_delivery {
            true => drop(world.settle_delivery(who, got.tag)),
            false => world.ack(who, got.tag),
        }
    }
    got.into_iter().map(|got| got.text).collect()
}

fn is_within_two_percent(count: usize, of: usize) -> bool {
    count.abs_diff(of) * 50 <= of
}

/// How a receiver takes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Consumer(u32),
    Blindly,
    Filtered,
    /// A member, which has a session of its own, of a group that takes from the queue.
    MemberOfQueue,
    FilteredMemberOfQueue,
    Member,
    /// A consumer of a line that is a member.
    LineMember,
    FilteredMember,
}

const WAYS: [Way; 9] = [
    Way::Consumer(0),
    Way::Consumer(3),
    Way::Blindly,
    Way::Filtered,
    Way::MemberOfQueue,
    Way::FilteredMemberOfQueue,
    Way::Member,
    Way::LineMember,
    Way::FilteredMember,
];

impl Way {
    fn address(self) -> String {
        match self {
            Way::Member | Way::LineMember | Way::FilteredMember => "t".into(),
            _ => q("q"),
        }
    }

    fn attach(self, world: &mut World, who: Who) {
        let group = ("t", Some("g"));
        match self {
            Way::Consumer(credit) => world.consume(who, "q", 1, Taking::credit(credit)),
            Way::Blindly => world.consume(who, "q", 1, Taking::blindly()),
            Way::Filtered => world.consume(who, "q", 1, Taking::selected(RED)),
            Way::MemberOfQueue => drop(world.subscribe(who, &q("q"), Some("g"), ONCE)),
            Way::FilteredMemberOfQueue => {
                world.subscribe_if(who, (&q("q"), Some("g")), ONCE, Some(RED));
            }
            Way::Member => drop(world.subscribe(who, "t", Some("g"), ONCE)),
            Way::LineMember => world
                .consume_from(who, "$g/g/t", 1, Taking::default())
                .expect("it may consume"),
            Way::FilteredMember => drop(world.subscribe_if(who, group, ONCE, Some(RED))),
        }
    }
}

#[test]
fn each_receiver_has_the_rate_and_nothing_is_lost() {
    for (shards, way) in [1, 2].into_iter().flat_map(|n| WAYS.map(|way| (n, way))) {
        for exceed in [Exceed::Throttle, Exceed::Drop] {
            let policies = ["t", "$q/#"].map(|filter| Policy {
                rate_exceed: Some(exceed),
                ..per_second(filter, RATE, Span::from_millis(100))
            });
            let mut world = World::without_prefixes(shards, limits(&policies));
            let home = world.home();
            let last = usize::from(shards) - 1;
            let [publisher, maker] = [last, home].map(|shard| {
                let name = world.name_on(shard);
                world.connect_with(shard, &name, Access::ALL, Span::ZERO)
            });
            world.queue(maker, "q", &Terms::durable());
            let is_anywhere = matches!(
                way,
                Way::Member | Way::FilteredMember | Way::MemberOfQueue | Way::FilteredMemberOfQueue
            );
            let receivers = [0, last].map(|shard| {
                let shard = if is_anywhere { shard } else { home };
                let name = world.name_on(shard);
                let who = world.connect_with(shard, &name, Access::ALL, Span::ZERO);
                way.attach(&mut world, who);
                who
            });
            let address = way.address();
            let all = 1200;
            let (mut got, end) = ([0; 2], world.now + Span::from_secs(10));
            let mut number = 0;
            while world.now < end {
                for _ in 0..3 {
                    if number < all {
                        put(&mut world, publisher, &address, &format!("r{number}"));
                        number += 1;
                    }
                }
                world.wait(STEP);
                for (got, receiver) in got.iter_mut().zip(receivers) {
                    *got += take(&mut world, receiver).len();
                }
            }
            let what = format!("{got:?}: {shards} shards, {way:?}, {exceed:?}");
            for got in got {
                assert!(is_within_two_percent(got, 10 * RATE as usize), "{what}");
            }
            for _ in 0..1000 {
                world.wait(STEP);
                for (got, receiver) in got.iter_mut().zip(receivers) {
                    *got += take(&mut world, receiver).len();
                }
            }
            assert_eq!(got.iter().sum::<usize>(), all, "{what}");
            assert_eq!(world.dropped(DropReason::OverRate), 0, "{what}");
        }
    }
}

#[test]
fn what_one_has_no_room_for_another_gets_at_once() {
    for way in WAYS {
        // The strategies that would rather wait for a member have one that is free.
        for strategy in [
            GroupStrategy::RoundRobin,
            GroupStrategy::Random,
            GroupStrategy::Adaptive,
        ] {
            let limits = Limits {
                group_strategy: strategy,
                ..limits(&[slow("t"), slow("$q/#")])
            };
            let mut world = World::without_prefixes(1, limits);
            let publisher = world.connect("p");
            world.queue(publisher, "q", &Terms::durable());
            let receivers = ["1", "2", "3"].map(|name| {
                let who = world.connect(name);
                way.attach(&mut world, who);
                who
            });
            for number in 0..7 {
                put(&mut world, publisher, &way.address(), &format!("r{number}"));
            }
            let mut texts = Vec::new();
            for seconds in 0..3 {
                let got = receivers.map(|who| take(&mut world, who));
                let each = got.each_ref().map(Vec::len);
                let expected = if seconds == 2 { 1 } else { 3 };
                assert_eq!(each.iter().sum::<usize>(), expected, "{way:?} {strategy:?}");
                assert!(each.iter().all(|n| *n <= 1), "{way:?} {each:?}");
                texts.extend(got.into_iter().flatten());
                world.wait(Span::from_secs(1));
            }
            texts.sort();
            assert_eq!(texts, ["r0", "r1", "r2", "r3", "r4", "r5", "r6"]);
        }
    }
}

#[test]
fn who_waits_for_its_rate_holds_up_no_other_and_gets_what_it_selects_in_order() {
    for way in [
        Way::Filtered,
        Way::FilteredMember,
        Way::FilteredMemberOfQueue,
    ] {
        let mut world = World::without_prefixes(1, limits(&[slow("t"), slow("$q/#")]));
        let publisher = world.connect("p");
        world.queue(publisher, "q", &Terms::durable());
        let [red, blue] = ["red", "blue"].map(|name| world.connect(name));
        way.attach(&mut world, red);
        match way {
            Way::Filtered => world.consume(blue, "q", 1, Taking::selected(BLUE)),
            Way::FilteredMemberOfQueue => {
                world.subscribe_if(blue, (&q("q"), Some("g")), ONCE, Some(BLUE));
            }
            _ => drop(world.subscribe_if(blue, ("t", Some("g")), ONCE, Some(BLUE))),
        }
        for text in ["r1", "r2", "r3", "b1"] {
            put(&mut world, publisher, &way.address(), text);
        }
        assert_eq!(take(&mut world, red), ["r1"], "{way:?}");
        assert_eq!(take(&mut world, blue), ["b1"], "{way:?}");
        world.wait(Span::from_secs(1));
        assert_eq!(take(&mut world, red), ["r2"], "{way:?}");
        put(&mut world, publisher, &way.address(), "b2");
        assert_eq!(take(&mut world, blue), ["b2"], "{way:?}");
        world.wait(Span::from_secs(1));
        assert_eq!(take(&mut world, red), ["r3"], "{way:?}");
    }
}

#[test]
fn a_message_that_waits_for_a_rate_was_not_delivered_and_the_highest_priority_is_next() {
    let mut world = World::without_prefixes(1, limits(&[slow("$q/#")]));
    let (publisher, taker) = (world.connect("p"), world.connect("c"));
    let terms = Terms::durable().with(|limits| {
        limits.priority_max = 9;
        limits.deliveries_max = Some(1);
    });
    world.queue(publisher, "q", &terms);
    world.consume(taker, "q", 1, Taking::credit(10));
    let address = q("q");
    for (text, priority) in [("1", 4), ("2", 4), ("9", 9)] {
        let draft = Draft {
            priority,
            ..firm(&address, text)
        };
        world.publish(publisher, draft);
    }
    let mut got = Vec::new();
    for _ in 0..3 {
        got.extend(world.got(taker));
        world.wait(Span::from_secs(1));
    }
    let said: Vec<_> = got.iter().map(|got| (&*got.text, got.deliveries)).collect();
    assert_eq!(said, [("1", 0), ("9", 0), ("2", 0)]);
    // What comes back is sent again at the rate, too.
    world.requeue(taker, got[0].tag);
    world.requeue(taker, got[1].tag);
    let [first, second] = [Span::ZERO, Span::from_secs(1)].map(|span| {
        world.wait(span);
        world.got(taker)
    });
    let texts = |got: Vec<crate::recorder::Got>| -> Vec<(String, u32)> {
        got.into_iter()
            .map(|got| (got.text, got.deliveries))
            .collect()
    };
    assert_eq!(texts(first), [("1".to_owned(), 1)]);
    assert_eq!(texts(second), [("9".to_owned(), 1)]);
}

#[test]
fn what_waits_expires_and_its_queue_goes_on() {
    for way in [
        Way::Consumer(0),
        Way::Filtered,
        Way::Member,
        Way::MemberOfQueue,
    ] {
        let mut world = World::without_prefixes(1, limits(&[slow("t"), slow("$q/#")]));
        let (publisher, taker) = (world.connect("p"), world.connect("c"));
        world.queue(publisher, "q", &Terms::durable());
        way.attach(&mut world, taker);
        for (text, millis) in [("r1", 9000), ("r2", 500), ("r3", 9000)] {
            let properties = headers(&[("colour", "r")]);
            let address = way.address();
            let draft = Draft {
                properties: Some(&properties),
                expires_in: Some(Span::from_millis(millis)),
                ..firm(&address, text)
            };
            world.publish(publisher, draft);
        }
        let mut got = take(&mut world, taker);
        for _ in 0..2 {
            world.wait(Span::from_secs(1));
            got.extend(take(&mut world, taker));
        }
        assert_eq!(got, ["r1", "r3"], "{way:?}");
        assert_eq!(world.expired(), 1, "{way:?}");
    }
}

#[test]
fn one_message_at_a_time_is_asked_for_and_not_counted() {
    let mut world = World::without_prefixes(1, limits(&[slow("$q/#")]));
    let (publisher, reader) = (world.connect("p"), world.connect("c"));
    world.queue(publisher, "q", &Terms::durable());
    for text in ["1", "2", "3", "4"] {
        world.put(publisher, "q", text);
    }
    for _ in 0..2 {
        assert!(world.take(reader, "q", false).expect("it may").is_some());
        assert!(world.take_apart(reader, "q").expect("it may").is_some());
    }
}

#[test]
fn an_account_is_the_sessions_through_takeovers_and_full_after_a_restart() {
    for way in [Way::Member, Way::MemberOfQueue] {
        let mut world = World::without_prefixes(1, limits(&[slow("t"), slow("$q/#")]));
        let publisher = world.connect("p");
        world.queue(publisher, "q", &Terms::durable());
        let open = |world: &mut World| {
            let who = world.connect_with(0, "c", Access::ALL, HOUR);
            way.attach(world, who);
            who
        };
        let taker = open(&mut world);
        for number in 0..4 {
            put(&mut world, publisher, &way.address(), &format!("r{number}"));
        }
        assert_eq!(take(&mut world, taker), ["r0"], "{way:?}");
        world.lose(taker);
        let taker = open(&mut world);
        assert_eq!(take(&mut world, taker), [""; 0], "{way:?}");
        world.wait(Span::from_secs(1));
        assert_eq!(take(&mut world, taker), ["r1"], "{way:?}");
        world.sync();
        world.restart();
        let taker = open(&mut world);
        assert_eq!(take(&mut world, taker), ["r2"], "{way:?}");
        assert_eq!(take(&mut world, taker), [""; 0], "{way:?}");
        world.wait(Span::from_secs(1));
        assert_eq!(take(&mut world, taker), ["r3"], "{way:?}");
    }
}

/// As a client pauses a line: others go on at their own rates, and what the pause has saved is no more
/// than a burst.
#[test]
fn a_line_that_was_paused_goes_on_at_its_rate() {
    let pause = |world: &mut World, who: Who, is_paused| {
        world.run(who.shard, |kernel, out, now| {
            kernel.pause_line(who.session, 1, is_paused, now, out);
        });
    };
    for way in [
        Way::Consumer(0),
        Way::Consumer(3),
        Way::Blindly,
        Way::Filtered,
        Way::LineMember,
    ] {
        let mut world = World::without_prefixes(1, limits(&[slow("t"), slow("$q/#")]));
        let publisher = world.connect("p");
        world.queue(publisher, "q", &Terms::durable());
        let [paused, other] = ["1", "2"].map(|name| {
            let who = world.connect(name);
            way.attach(&mut world, who);
            who
        });
        for number in 0..8 {
            put(&mut world, publisher, &way.address(), &format!("r{number}"));
        }
        let each = |world: &mut World| [paused, other].map(|who| take(world, who).len());
        assert_eq!(each(&mut world), [1, 1], "{way:?}");
        pause(&mut world, paused, true);
        for _ in 0..3 {
            world.wait(Span::from_secs(1));
            assert_eq!(each(&mut world), [0, 1], "{way:?}");
        }
        pause(&mut world, paused, false);
        assert_eq!(each(&mut world), [1, 0], "{way:?}");
        world.wait(Span::from_secs(1));
        assert_eq!(each(&mut world), [1, 1], "{way:?}");
    }
}

/// The owner of a group is found by the number of shards, which a restart may change: it has the accounts of members elsewhere.
#[test]
fn members_have_their_rate_when_their_group_has_another_owner() {
    for way in [Way::Member, Way::FilteredMember] {
        let (before, after) = (3, 2);
        let owner = |shards| thalweg_kernel::home("g/t", shards);
        assert_ne!(owner(before), owner(after));
        let policy = per_second("t", RATE, Span::from_millis(100));
        let mut world = World::without_prefixes(before, limits(&[policy]));
        let names = [0, 1].map(|shard| world.name_on(shard));
        let (all, mut got) = (1400, Vec::new());
        for (shards, seconds) in [(before, 2), (after, 10)] {
            let connect = |name: &String| {
                let shard = thalweg_kernel::home(name, shards).0.into();
                world.connect_with(shard, name, Access::ALL, HOUR)
            };
            let members: Vec<Who> = names.iter().map(connect).collect();
            if shards == before {
                members.iter().for_each(|who| way.attach(&mut world, *who));
                let publisher = world.connect("p");
                for number in 0..all {
                    put(&mut world, publisher, "t", &format!("r{number}"));
                }
            }
            let (mut each, end) = ([0; 2], world.now + Span::from_secs(seconds));
            while world.now < end {
                world.wait(STEP);
                for (count, who) in each.iter_mut().zip(&members) {
                    let texts = take(&mut world, *who);
                    *count += texts.len();
                    got.extend(texts);
                }
            }
            for count in each {
                // The burst of the beginning, too.
                let expected = (seconds * RATE + RATE / 10) as usize;
                assert!(is_within_two_percent(count, expected), "{each:?} {way:?}");
            }
            world.sync();
            world.restart_as(after);
        }
        got.extend(std::iter::repeat_n(
            String::new(),
            world.waiting_in_groups(),
        ));
        assert_eq!(got.len(), all, "{way:?}");
        got.retain(|text| !text.is_empty());
        let count = got.len();
        got.sort();
        got.dedup();
        assert_eq!(got.len(), count, "{way:?}: none twice");
    }
}

#[test]
fn a_reload_applies_at_once_to_what_waits() {
    for way in WAYS {
        let hourly = |filter| per_second(filter, 0, Span::ZERO);
        let mut world = World::without_prefixes(1, limits(&[hourly("t"), hourly("$q/#")]));
        let (publisher, taker) = (world.connect("p"), world.connect("c"));
        world.queue(publisher, "q", &Terms::durable());
        way.attach(&mut world, taker);
        for text in ["r1", "r2", "r3"] {
            put(&mut world, publisher, &way.address(), text);
        }
        assert_eq!(take(&mut world, taker), ["r1"], "{way:?}");
        world.kernels[0].set_limits(limits(&[]));
        let mut got = Vec::new();
        for _ in 0..2 {
            // A balancer may have a member settle one before it gives it the next.
            world.wait(Span::ZERO);
            got.extend(take(&mut world, taker));
        }
        assert_eq!(got, ["r2", "r3"], "{way:?}");
    }
}

#[test]
fn it_is_explained_that_a_message_waits_for_rates() {
    let mut world = World::without_prefixes(1, limits(&[slow("t")]));
    let (publisher, taker) = (world.connect("p"), world.connect("c"));
    Way::Member.attach(&mut world, taker);
    put(&mut world, publisher, "t", "r1");
    assert_eq!(take(&mut world, taker), ["r1"]);
    let said = |world: &mut World| {
        let explained = world.kernels[0].explain("t", None, world.now);
        explained.groups[0].1.clone()
    };
    let says = said(&mut world);
    assert!(says.contains("the members are over their rate"), "{says}");
    world.wait(Span::from_secs(1));
    let says = said(&mut world);
    assert!(says.contains("it goes to c"), "{says}");
}

#[test]
fn a_group_in_order_keeps_it_at_the_rate() {
    let order = GroupPolicy {
        order: Some(OrderKey::Address),
        ..GroupPolicy::new(Filter::new("t/#").expect("a filter"))
    };
    let limits = Limits {
        group_policies: [order].into(),
        ..limits(&[per_second("t/#", 20, Span::from_millis(50))])
    };
    let mut world = World::without_prefixes(2, limits);
    let publisher = world.connect("p");
    let members = [0, 1].map(|shard| {
        let name = world.name_on(shard);
        let who = world.connect_with(shard, &name, Access::ALL, Span::ZERO);
        world.subscribe(who, "t/#", Some("g"), ONCE);
        who
    });
    let addresses: Vec<String> = (0..6).map(|number| format!("t/{number}")).collect();
    for number in 0..10 {
        for address in &addresses {
            put(&mut world, publisher, address, &number.to_string());
        }
    }
    let mut got: Vec<Vec<String>> = vec![Vec::new(); addresses.len()];
    let begin = world.now;
    while world.now < begin + Span::from_secs(5) {
        world.wait(STEP);
        for member in members {
            for copy in world.got(member) {
                world.settle_delivery(member, copy.tag);
                let at: usize = copy.address[2..].parse().expect("a number");
                got[at].push(copy.text);
            }
        }
        let passed = world.now.since(begin).millis() as usize;
        let count: usize = got.iter().map(Vec::len).sum();
        assert!(count <= 2 * (1 + passed / 50 + 1), "{count} in {passed} ms");
    }
    let all: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    assert!(got.iter().all(|texts| *texts == all), "{got:?}");
}

#[test]
fn a_watcher_has_the_newest_when_its_time_comes() {
    let mut world = World::watched_with(2, limits(&[slow("a/#")]));
    for shard in 0..2 {
        let (reader, writer) = (world.connect_on(0), world.connect_on(shard));
        let address = format!("a/{shard}");
        let (watch, _) = world.begin(reader, &address, 1);
        for text in ["1", "2", "3"] {
            world.say(writer, &address, text);
        }
        // The first is taken at once, when the reader was told of it.
        assert_eq!(world.take_all(watch), ["3"]);
        world.say(writer, &address, "4");
        world.say(writer, &address, "5");
        world.events(reader);
        assert_eq!(world.take_all(watch), [""; 0]);
        world.wait(Span::from_millis(500));
        assert!(world.events(reader).is_empty());
        world.say(writer, &address, "6");
        world.wait(Span::from_secs(1));
        assert_eq!(world.events(reader).len(), 1, "it is told again");
        assert_eq!(world.take_all(watch), ["6"]);
        // That it is gone does not wait.
        world.publish(writer, crate::watches::world::clear(&address));
        assert_eq!(world.take_all(watch), ["-"]);
    }
}

#[test]
fn a_deep_watcher_has_each_at_the_rate_and_a_reload_tells_it() {
    let mut world = World::watched_with(1, limits(&[slow("a")]));
    let (reader, writer) = (world.connect_on(0), world.connect_on(0));
    let (watch, _) = world.begin(reader, "a", 4);
    for text in ["1", "2", "3", "4"] {
        world.say(writer, "a", text);
    }
    assert_eq!(world.take_all(watch), ["1"]);
    world.events(reader);
    world.wait(Span::from_secs(1));
    assert_eq!(world.events(reader).len(), 1);
    assert_eq!(world.take_all(watch), ["2"]);
    world.kernels[0].set_limits(limits(&[]));
    world.wait(Span::ZERO);
    assert_eq!(world.events(reader).len(), 1);
    assert_eq!(world.take_all(watch), ["3", "4"]);
}

#[test]
fn whatever_happens_all_arrive_and_never_faster() {
    for seed in 0..20 {
        let mut dice = Dice(seed);
        let rates = [per_second("$q/#", 20, Span::from_millis(50)), slow("t")];
        let limits = Limits {
            named_queue_memory_bytes_max: if seed % 2 == 0 { 1 << 20 } else { 1500 },
            in_flight_max: 5,
            ..limits(&rates)
        };
        let mut world = World::without_prefixes(1, limits);
        let publisher = world.connect("p");
        world.queue(publisher, "q", &Terms::durable());
        let way = [Way::Consumer(3), Way::Filtered, Way::MemberOfQueue][dice.roll(3)];
        let mut takers: Vec<Who> = Vec::new();
        let (mut got, mut sent, begin) = (Vec::new(), 0, world.now);
        for step in 0..300 {
            match dice.roll(10) {
                0..5 => {
                    put(&mut world, publisher, &q("q"), &format!("r{sent:04}"));
                    sent += 1;
                }
                5 if takers.len() < 3 => {
                    let who = world.connect(&format!("c{step}"));
                    way.attach(&mut world, who);
                    takers.push(who);
                }
                6 if takers.len() > 1 => {
                    let who = takers.remove(0);
                    got.extend(take(&mut world, who));
                    world.lose(who);
                }
                _ => {
                    let millis = dice.roll(100) as u64;
                    world.wait(Span::from_millis(millis));
                    for who in &takers {
                        got.extend(take(&mut world, *who));
                    }
                }
            }
        }
        if takers.is_empty() {
            let who = world.connect("last");
            way.attach(&mut world, who);
            takers.push(who);
        }
        for _ in 0..200 {
            world.wait(Span::from_millis(100));
            for who in &takers {
                got.extend(take(&mut world, *who));
            }
        }
        assert!(world.now.since(begin) > Span::from_secs(20));
        got.sort();
        let all: Vec<String> = (0..sent).map(|number| format!("r{number:04}")).collect();
        assert_eq!(got, all, "seed {seed} {way:?}");
    }
}
