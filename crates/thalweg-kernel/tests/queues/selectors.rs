//! Consumers of a queue that take some messages and not others, by content filters.

use crate::world::{Dice, Taking, Terms, Who, World, firm, headers, q, to_queue};
use std::collections::BTreeMap;
use thalweg_kernel::access::Permission::Receive;
use thalweg_kernel::access::{Access, Otherwise, Permissions, Rule, Rules};
use thalweg_kernel::{Draft, Limits, Verdict};
use thalweg_model::{Reliability, Span};

const RED: &str = "colour = 'red'";
const BLUE: &str = "colour = 'blue'";

/// Puts messages into queue `q`; the first letter of each is its colour.
fn put(world: &mut World, who: Who, texts: &[&str]) {
    for text in texts {
        put_with(world, who, text, |_| ());
    }
}

fn put_with(world: &mut World, who: Who, text: &str, change: impl FnOnce(&mut Draft<'_>)) {
    let colour = match text.as_bytes()[0] {
        b'r' => "red",
        b'b' => "blue",
        _ => "none",
    };
    let properties = headers(&[("colour", colour)]);
    let address = q("q");
    let mut draft = Draft {
        properties: Some(&properties),
        ..firm(&address, text)
    };
    change(&mut draft);
    world.publish(who, draft);
}

fn with_credit(filter: &'static str, credit: u32) -> Taking {
    Taking {
        credit,
        ..Taking::selected(filter)
    }
}

/// A world with a queue `q`, and clients.
fn stage<const N: usize>(terms: &Terms) -> (World, [Who; N]) {
    let mut world = World::new();
    let clients = std::array::from_fn(|at| world.connect(&format!("client {at}")));
    world.queue(clients[0], "q", terms);
    (world, clients)
}

#[test]
fn each_gets_what_passes_its_filter_and_the_rest_waits_for_others() {
    let (mut world, [red, blue, any]) = stage(&Terms::durable());
    put(&mut world, any, &["r1", "b1", "x1"]);
    world.consume(red, "q", 1, Taking::selected(RED));
    world.consume(blue, "q", 1, Taking::selected(BLUE));
    put(&mut world, any, &["x2", "b2", "r2", "r3"]);
    assert_eq!(world.texts(red), ["r1", "r2", "r3"]);
    assert_eq!(world.texts(blue), ["b1", "b2"]);
    assert_eq!(world.waits("q"), 2);
    world.consume(any, "q", 1, Taking::default());
    assert_eq!(world.texts(any), ["x1", "x2"]);
    // Without a filter it is one of those who take turns, with what may be either's.
    put(&mut world, any, &["r4", "r5", "x3", "b3"]);
    let (reds, anys) = (world.texts(red), world.texts(any));
    assert_eq!(reds.len() + anys.len() + world.texts(blue).len(), 4);
    assert!(!reds.is_empty() && anys.contains(&"x3".to_owned()));
}

#[test]
fn one_without_credit_holds_up_no_other_and_its_own_order_stays() {
    let (mut world, [red, blue, any]) = stage(&Terms::default());
    world.consume(red, "q", 1, with_credit(RED, 1));
    world.consume(blue, "q", 1, with_credit(BLUE, 2));
    put(&mut world, any, &["r1", "r2", "b1", "r3", "b2", "b3"]);
    assert_eq!(world.texts(red), ["r1"]);
    assert_eq!(world.texts(blue), ["b1", "b2"]);
    world.ack(red, 1);
    assert_eq!(world.texts(red), ["r2"]);
    world.ack(blue, 1);
    assert_eq!(world.texts(blue), ["b3"]);
    world.ack(red, 2);
    assert_eq!(
        (world.texts(red), world.waits("q")),
        (vec!["r3".to_owned()], 0)
    );
}

#[test]
fn what_comes_back_goes_to_another_whom_it_passes_flagged_and_before_what_is_newer() {
    let (mut world, [red, second, blue, any]) = stage(&Terms::durable());
    world.consume(blue, "q", 1, Taking::selected(BLUE));
    world.consume(red, "q", 1, Taking::selected(RED));
    put(&mut world, any, &["x1", "r1", "r2"]);
    assert_eq!(world.texts(red), ["r1", "r2"]);
    world.consume(second, "q", 1, with_credit(RED, 1));
    put(&mut world, any, &["r3"]);
    // The one or the other has it; the first leaves.
    let before = world.texts(second);
    world.lose(red);
    if before.is_empty() {
        let got = world.got(second);
        assert_eq!((got.len(), &*got[0].text, got[0].deliveries), (1, "r1", 1));
        for (tag, text) in [(1, "r2"), (2, "r3")] {
            world.ack(second, tag);
            assert_eq!(world.texts(second), [text]);
        }
    } else {
        assert_eq!(before, ["r3"]);
        world.ack(second, 1);
        assert_eq!(world.texts(second), ["r1"]);
    }
    assert_eq!(world.texts(blue), [""; 0]);
}

#[test]
fn what_is_delivered_too_often_or_refused_or_expires_becomes_a_dead_letter() {
    let terms = Terms::durable().with(|limits| {
        limits.dead_letter = to_queue("dead");
        limits.deliveries_max = Some(1);
    });
    let (mut world, [red, any]) = stage(&terms);
    world.queue(any, "dead", &Terms::durable());
    world.consume(red, "q", 1, Taking::selected(RED));
    put(&mut world, any, &["x1", "r1", "r2"]);
    put_with(&mut world, any, "b1", |draft| {
        draft.expires_in = Some(Span::from_secs(5))
    });
    world.reject(red, 1);
    world.requeue(red, 2);
    world.requeue(red, 3);
    assert_eq!(world.texts(red), ["r1", "r2", "r2"]);
    world.wait(Span::from_secs(6));
    // As in every queue, what expires behind something else goes when it is reached.
    put(&mut world, any, &["r3"]);
    let dead: Vec<String> = world.drain_texts("dead");
    assert_eq!(dead, ["r1", "r2"]);
    world.consume(any, "q", 1, Taking::default());
    assert_eq!(world.texts(any), ["x1"]);
    assert_eq!(world.drain_texts("dead"), ["b1"]);
}

#[test]
fn a_single_active_consumer_leaves_what_does_not_pass() {
    let terms = Terms::default().with(|limits| limits.single_active = true);
    let (mut world, [red, blue]) = stage(&terms);
    world.consume(red, "q", 1, Taking::selected(RED));
    world.consume(blue, "q", 1, Taking::selected(BLUE));
    put(&mut world, red, &["b1", "r1", "b2"]);
    assert_eq!(world.texts(red), ["r1"]);
    assert_eq!(world.texts(blue), [""; 0]);
    world.cancel(red, 1, 1);
    assert_eq!(world.texts(blue), ["b1", "b2"]);
}

#[test]
fn priorities_of_messages_and_consumers_count_among_what_passes() {
    let terms = Terms::default().with(|limits| limits.priority_max = 3);
    let (mut world, [low, high, any]) = stage(&terms);
    for (text, priority) in [("r1", 0), ("b1", 3), ("r2", 2), ("r3", 1), ("r4", 2)] {
        put_with(&mut world, any, text, |draft| draft.priority = priority);
    }
    world.consume(low, "q", 1, with_credit(RED, 2));
    assert_eq!(world.texts(low), ["r2", "r4"]);
    let urgent = Taking {
        filter: Some(RED),
        ..Taking::priority(5)
    };
    world.consume(high, "q", 1, urgent);
    assert_eq!(world.texts(high), ["r3", "r1"]);
    put_with(&mut world, any, "r5", |draft| draft.priority = 1);
    world.ack(low, 1);
    assert_eq!(world.texts(high), ["r5"]);
    assert_eq!((world.texts(low).len(), world.waits("q")), (0, 1));
}

#[test]
fn one_message_at_a_time_is_taken_whatever_consumers_filters_say() {
    let (mut world, [red, any]) = stage(&Terms::durable());
    world.consume(red, "q", 1, Taking::selected(RED));
    put(&mut world, any, &["b1", "x1"]);
    assert_eq!(world.take(any, "q", true), Ok(Some(1)));
    assert_eq!(world.texts(any), ["b1"]);
    world.requeue(any, 1);
    put(&mut world, any, &["r1"]);
    assert_eq!(world.texts(red), ["r1"]);
    assert_eq!(world.drain_texts("q"), ["b1", "x1"]);
}

#[test]
fn operators_see_filters_and_whom_a_message_would_pass() {
    let (mut world, [red, blue, any]) = stage(&Terms::default());
    world.consume(red, "q", 1, Taking::selected(RED));
    world.consume(any, "q", 1, Taking::default());
    let filters = world.view("q").expect("it is there").filters;
    let shown: Vec<_> = filters.iter().map(|(c, f)| (&**c, f.text())).collect();
    assert_eq!(shown, [("client 0", RED)]);
    world.consume(blue, "q", 1, Taking::selected(BLUE));
    let (now, properties) = (world.now, headers(&[("colour", "red")]));
    let kernel = &mut world.kernels[0];
    let said = kernel.explain(&q("q"), None, now).queues[0].1.clone();
    let before = "3 consumers, 0 waiting, 0 unsettled; client 0";
    let takes = format!("{before} takes what passes the filter {RED}; client 1 takes what passes");
    assert!(said.starts_with(&takes), "{said}");
    let sample = Some((&b"r1"[..], &properties));
    let queues = kernel.explain_message(&q("q"), None, sample, now).queues;
    let may = format!("{before} may take it, for it passes the filter {RED}; client 1 does not");
    assert!(queues[0].1.starts_with(&may), "{queues:?}");
}

#[test]
fn groups_and_consumers_with_filters_take_from_one_queue() {
    let mut world = World::in_turns(1);
    let [red, member, any] = ["red", "member", "any"].map(|name| world.connect(name));
    world.queue(any, "q", &Terms::durable());
    put(&mut world, any, &["b1", "r1", "x1", "r2"]);
    world.consume(red, "q", 1, with_credit(RED, 1));
    assert_eq!(world.texts(red), ["r1"]);
    world.subscribe(member, &q("q"), Some("g"), Reliability::AtLeastOnce);
    put(&mut world, any, &["x2", "r3"]);
    let got = world.texts(member);
    assert_eq!(got, ["b1", "x1", "r2", "x2", "r3"]);
    assert_eq!(world.texts(red), [""; 0]);
    world.ack(red, 1);
    put(&mut world, any, &["r4", "x3", "r5"]);
    let (reds, others) = (world.texts(red), world.texts(member));
    assert_eq!((reds.len(), others.len(), world.waits("q")), (1, 2, 0));
    assert!(others.contains(&"x3".to_owned()));
}

#[test]
fn who_takes_from_a_queue_through_a_group_is_a_consumer() {
    let (mut world, [who]) = stage(&Terms::default());
    let taken = world.consume_from(who, "$g/g/$q/q", 1, Taking::selected(RED));
    assert_eq!(taken, Ok(()));
    put(&mut world, who, &["b1", "r1"]);
    assert_eq!(world.texts(who), ["r1"]);
}

#[test]
fn rights_hold_beside_filters_also_when_they_change() {
    let mut world = World::new();
    let admin = world.connect("admin");
    world.queue(admin, "q", &Terms::durable());
    let access = |_: &str, _: Option<&str>| {
        let rules = vec![
            Rule::allow(Permissions::READ, "$q/q"),
            Rule::allow(Receive, "open"),
        ];
        let rules = Rules::new(rules, Otherwise::Deny).expect("legal");
        rules.compile("c", None)
    };
    let client = world.connect_with(0, "c", access("c", None), Span::ZERO);
    world.exchange(admin, "e", thalweg_kernel::ExchangeKind::Topic);
    world.bind(admin, "e", "q", "#");
    let red = headers(&[("colour", "red")]);
    world.send_with(admin, "e", "closed", "r1", Some(&red));
    world.put(admin, "q", "x");
    world.consume(client, "q", 1, Taking::selected(RED));
    assert_eq!(world.texts(client), [""; 0]);
    world.renew(|_, _| Access::ALL);
    assert_eq!(world.texts(client), ["r1"]);
    assert_eq!(world.waits("q"), 1);
}

#[test]
fn what_is_on_disk_comes_while_there_is_memory() {
    let limits = Limits {
        named_queue_memory_bytes_max: 60_000,
        ..Limits::default()
    };
    let mut world = World::without_prefixes(1, limits);
    let (who, any) = (world.connect("c"), world.connect("any"));
    world.queue(who, "q", &Terms::durable());
    for number in 0..2000 {
        put(&mut world, any, &[&*format!("x{number}")]);
    }
    put(&mut world, any, &["r1"]);
    assert!(world.kernels[0].bytes_held() < 160_000, "most is on disk");
    // Further ones are read until memory is full.
    world.consume(who, "q", 1, Taking::selected(RED));
    assert_eq!(world.texts(who), [""; 0]);
    assert!(
        world.kernels[0].bytes_held() < 300_000,
        "most is on disk still"
    );
    // Another takes some of them, and so the rest comes without its being asked for.
    for _ in 0..1700 {
        assert!(matches!(world.take(any, "q", false), Ok(Some(_))));
    }
    world.got(any);
    assert_eq!(world.texts(who), ["r1"]);
    for _ in 0..300 {
        assert!(matches!(world.take(any, "q", false), Ok(Some(_))));
    }
    put(&mut world, any, &["x", "r2"]);
    assert_eq!(
        (world.texts(who), world.waits("q")),
        (vec!["r2".to_owned()], 1)
    );
}

#[test]
fn what_was_passed_over_is_there_after_a_restart_and_was_never_delivered() {
    let (mut world, [red, any]) = stage(&Terms::durable());
    world.consume(red, "q", 1, Taking::selected(RED));
    put(&mut world, any, &["x1", "r1", "x2", "r2", "r3"]);
    world.ack(red, 1);
    world.cancel(red, 1, 1);
    world.requeue(red, 2);
    world.requeue(red, 3);
    world.restart();
    let got = world.drain("q");
    let shown: Vec<_> = got
        .iter()
        .map(|got| (&*got.text, got.deliveries > 0))
        .collect();
    assert_eq!(
        shown,
        [("x1", false), ("x2", false), ("r2", true), ("r3", true)]
    );
}

#[test]
fn filters_count_as_memory_until_their_consumers_leave() {
    let (mut world, [red, blue]) = stage(&Terms::default());
    let kept = |world: &World| world.kernels[0].memory_held();
    let before = kept(&world);
    world.consume(red, "q", 1, Taking::selected(RED));
    assert!(kept(&world) > before);
    world.consume(blue, "q", 1, Taking::selected(BLUE));
    world.cancel(red, 1, 1);
    world.cancel(blue, 1, 1);
    assert_eq!(kept(&world), before);
}

#[test]
fn much_that_nobody_takes_is_looked_at_in_portions() {
    let (mut world, [any, red]) = stage(&Terms::default());
    for _ in 0..10_000 {
        put(&mut world, any, &["x"]);
    }
    put(&mut world, any, &["r1"]);
    world.consume(red, "q", 1, Taking::selected(RED));
    assert_eq!(world.texts(red), [""; 0]);
    world.wait(Span::from_millis(1));
    world.wait(Span::from_millis(1));
    world.wait(Span::from_millis(1));
    assert_eq!(world.texts(red), ["r1"]);
    // It has seen them.
    put(&mut world, any, &["r2"]);
    assert_eq!(world.texts(red), ["r2"]);
}

/// Against the plain rule, by chance: no consumer waits for what it could have, and each gets its own in order.
#[test]
fn nothing_waits_that_somebody_with_credit_could_have() {
    const FILTERS: [Option<&str>; 4] = [Some(RED), Some(BLUE), Some("colour <> 'red'"), None];
    for seed in 1..30 {
        let mut dice = Dice(seed);
        let terms = Terms::durable().with(|limits| limits.priority_max = [0, 2][dice.roll(2)]);
        let (mut world, [publisher]) = stage(&terms);
        let mut consumers: Vec<(Who, Option<&str>, u32)> = Vec::new();
        // By consumer: what it has not settled.
        let mut held: Vec<BTreeMap<u64, String>> = Vec::new();
        let mut settled = 0;
        let mut sent = 0;
        for step in 0..400 {
            match dice.roll(10) {
                0 if consumers.len() < 6 => {
                    let (who, filter) = (
                        world.connect(&format!("consumer {step}")),
                        FILTERS[dice.roll(4)],
                    );
                    let credit = 1 + dice.roll(3) as u32;
                    let taking = Taking {
                        credit,
                        filter,
                        ..Taking::default()
                    };
                    world.consume(who, "q", 1, taking);
                    consumers.push((who, filter, credit));
                    held.push(BTreeMap::new());
                }
                1 if !consumers.is_empty() && dice.roll(3) == 0 => {
                    let at = dice.roll(consumers.len());
                    let (who, ..) = consumers.remove(at);
                    held.remove(at);
                    world.lose(who);
                }
                2..=5 => {
                    let text = format!("{}{sent}", ["r", "b", "x"][dice.roll(3)]);
                    let priority = dice.roll(3) as u8;
                    put_with(&mut world, publisher, &text, |draft| {
                        draft.priority = priority
                    });
                    sent += 1;
                }
                _ if !consumers.is_empty() => {
                    let at = dice.roll(consumers.len());
                    let Some((&tag, _)) = held[at].first_key_value() else {
                        continue;
                    };
                    let verdict =
                        [Verdict::Accept, Verdict::Accept, Verdict::Requeue][dice.roll(3)];
                    settled += usize::from(verdict == Verdict::Accept);
                    held[at].remove(&tag);
                    world.settle(consumers[at].0, 1, tag, false, verdict);
                }
                _ => {}
            }
            for ((who, filter, _), held) in consumers.iter().zip(&mut held) {
                for got in world.got(*who) {
                    let letter = got.text.as_bytes()[0];
                    let passes = match *filter {
                        None => true,
                        Some(RED) => letter == b'r',
                        Some(BLUE) => letter == b'b',
                        Some(_) => letter != b'r',
                    };
                    assert!(passes, "seed {seed}: {filter:?} got {}", got.text);
                    held.insert(got.tag, got.text);
                }
            }
            let idle = consumers
                .iter()
                .zip(&held)
                .filter(|((.., credit), held)| held.len() < *credit as usize);
            let wanted: Vec<Option<&str>> = idle.map(|((_, filter, _), _)| *filter).collect();
            let in_flight: usize = held.iter().map(BTreeMap::len).sum();
            let waits = world.waits("q");
            assert_eq!(waits + in_flight + settled, sent, "seed {seed}");
            if wanted.contains(&None)
                || wanted.contains(&Some(RED)) && wanted.contains(&Some(FILTERS[2].expect("one")))
            {
                assert_eq!(waits, 0, "seed {seed}: {wanted:?}");
            }
        }
        // A later consumer finds all that is left.
        for (who, ..) in consumers {
            world.lose(who);
        }
        assert_eq!(world.drain("q").len() + settled, sent, "seed {seed}");
    }
}
