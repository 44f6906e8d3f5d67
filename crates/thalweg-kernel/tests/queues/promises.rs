//! Acknowledged messages are not lost on any path: a table of paths, receivers, shards and ends of the process.

use crate::world::{Terms, Who, World, exchange_spec, firm, headers, q, text, x};
use thalweg_kernel::access::Access;
use thalweg_kernel::{
    DeadLetter, Draft, ExchangeKind, ExchangeSpec, GroupStrategy, Limits, Outcome, QueueOverflow,
    Will,
};
use thalweg_model::{Reliability, Span, Stamp};

/// Paths of a message from its publisher to its receiver: `$x/end/...`.
#[derive(Clone, Copy, Debug)]
enum Way {
    Direct,
    ExchangeToExchange,
    TwoExchanges,
    Alternate,
    Headers,
    /// Through a queue that keeps nothing, and whether that queue is durable.
    DeadLetter(bool),
    /// The message before it is given up for it.
    DropHead,
}

const WAYS: [Way; 8] = [
    Way::Direct,
    Way::ExchangeToExchange,
    Way::TwoExchanges,
    Way::Alternate,
    Way::Headers,
    Way::DeadLetter(true),
    Way::DeadLetter(false),
    Way::DropHead,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wants {
    Queue,
    /// A session of this shard that is away.
    Session(usize),
    /// The same as the only member of a group.
    Group(usize),
}

/// Messages that had arrived when the process ended; the publisher's own shard had written its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    BeforeMail,
    /// Mail from the publisher's shard was handled and written: the acknowledgement may be sent.
    Acknowledged,
    Quiet,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    shards: u16,
    publisher: usize,
    way: Way,
    wants: Wants,
    reliability: Reliability,
    is_stamped: bool,
    ends: Ends,
}

const HOUR: Span = Span::from_secs(3600);

fn world(shards: u16) -> World {
    let limits = Limits {
        group_strategy: GroupStrategy::RoundRobin,
        ..Limits::default()
    };
    World::with(shards, limits)
}

/// A queue that keeps nothing.
fn gives_everything_up(durable: bool) -> Terms {
    Terms {
        durable,
        ..Terms::default()
    }
    .with(|limits| {
        limits.messages_max = Some(0);
        limits.dead_letter = Some(DeadLetter {
            exchange: x("end").into(),
            key: None,
        });
    })
}

/// The way, and the address to publish to.
fn lay(world: &mut World, maker: Who, way: Way) -> String {
    world.exchange(maker, "end", ExchangeKind::Fanout);
    let dead_letter = Some(DeadLetter {
        exchange: x("end").into(),
        key: None,
    });
    match way {
        Way::Direct => format!("{}/k", x("end")),
        Way::ExchangeToExchange => {
            world.exchange(maker, "in", ExchangeKind::Topic);
            world.lead(maker, "in", "end", "#", &[]).expect("it may");
            format!("{}/k", x("in"))
        }
        Way::TwoExchanges => {
            world.exchange(maker, "in", ExchangeKind::Fanout);
            world.exchange(maker, "middle", ExchangeKind::Direct);
            world.lead(maker, "in", "middle", "", &[]).expect("it may");
            world
                .lead(maker, "middle", "end", "k", &[])
                .expect("it may");
            format!("{}/k", x("in"))
        }
        Way::Alternate => {
            let end = x("end");
            let spec = ExchangeSpec {
                alternate: Some(&end),
                ..exchange_spec(ExchangeKind::Direct)
            };
            world.declare_exchange(maker, "in", &spec).expect("it may");
            format!("{}/k", x("in"))
        }
        Way::Headers => {
            world.exchange(maker, "in", ExchangeKind::Headers);
            world
                .lead(maker, "in", "end", "", &[text("a", "1")])
                .expect("it may");
            format!("{}/k", x("in"))
        }
        Way::DeadLetter(durable) => {
            world.queue(maker, "in", &gives_everything_up(durable));
            q("in")
        }
        Way::DropHead => {
            let terms = Terms::durable().with(|limits| {
                limits.messages_max = Some(1);
                limits.overflow = QueueOverflow::DropHead;
                limits.dead_letter = dead_letter;
            });
            world.queue(maker, "in", &terms);
            world.put(maker, "in", "m");
            q("in")
        }
    }
}

/// Publishes with everything that a front says; whether the acknowledgement waits for all of it.
fn publish(world: &mut World, who: Who, case: &Case, address: &str) -> bool {
    let properties = headers(&[("a", "1")]);
    let stamp = case.is_stamped.then_some(Stamp {
        publisher: 7,
        sequence: 1,
    });
    let text = if matches!(case.way, Way::DropHead) {
        "second"
    } else {
        "m"
    };
    let (reliability, properties) = (case.reliability, Some(&properties));
    world.was_held(who);
    let outcome = world.publish(
        who,
        Draft {
            reliability,
            ticket: 1,
            stamp,
            properties,
            ..firm(address, text)
        },
    );
    assert_eq!(outcome, Outcome::Accepted, "{case:?}");
    world.was_held_behind_all(who)
}

/// All messages that arrived at the receivers.
fn come(world: &mut World, wants: Wants, name: &str) -> Vec<String> {
    match wants {
        Wants::Queue => world.drain_texts("wanted"),
        Wants::Session(shard) | Wants::Group(shard) => {
            let who = world.connect_with(shard, name, Access::ALL, HOUR);
            world.texts(who)
        }
    }
}

fn try_case(case: Case) {
    let mut world = world(case.shards);
    let maker = world.connect("maker");
    let address = lay(&mut world, maker, case.way);
    let mut name = String::new();
    match case.wants {
        Wants::Queue => {
            world.queue(maker, "wanted", &Terms::durable());
            world.bind(maker, "end", "wanted", "");
        }
        Wants::Session(shard) | Wants::Group(shard) => {
            name = world.name_on(shard);
            let who = world.connect_with(shard, &name, Access::ALL, HOUR);
            let group = matches!(case.wants, Wants::Group(_)).then_some("g");
            world.subscribe(
                who,
                &format!("{}/#", x("end")),
                group,
                Reliability::ExactlyOnce,
            );
            world.lose(who);
        }
    }
    let publisher_name = world.name_on(case.publisher);
    let publisher = world.connect_with(case.publisher, &publisher_name, Access::ALL, HOUR);

    world.is_slow = true;
    assert!(
        publish(&mut world, publisher, &case, &address),
        "it waits for all that follows: {case:?}"
    );
    if case.ends != Ends::BeforeMail {
        world.carry_all_from(case.publisher);
    }
    world.is_slow = false;
    if case.ends == Ends::Quiet {
        world.deliver_mails();
    }
    world.restart();

    if case.ends == Ends::BeforeMail {
        // Nobody has answered the publisher.
        let publisher = world.connect_with(case.publisher, &publisher_name, Access::ALL, HOUR);
        publish(&mut world, publisher, &case, &address);
    }
    let came = come(&mut world, case.wants, &name);
    let firsts = came.iter().filter(|text| *text == "m").count();
    assert!(firsts > 0, "lost: {case:?}: {came:?}");
    if case.reliability == Reliability::ExactlyOnce && !matches!(case.way, Way::DropHead) {
        assert_eq!(firsts, 1, "{case:?}");
    }
    if matches!(case.way, Way::DropHead) {
        let kept = world.drain_texts("in");
        assert!(
            kept.iter().chain(&came).any(|text| text == "second"),
            "lost: {case:?}"
        );
    }
}

#[test]
fn nothing_acknowledged_is_lost_on_any_way_to_any_receiver() {
    let mut cases = 0;
    for shards in [1, 3_u16] {
        let all = 0..usize::from(shards);
        let wants = std::iter::once(Wants::Queue)
            .chain(all.clone().map(Wants::Session))
            .chain(all.clone().map(Wants::Group))
            .collect::<Vec<_>>();
        for (publisher, way) in all.flat_map(|publisher| WAYS.map(|way| (publisher, way))) {
            for &wants in &wants {
                for ends in [Ends::BeforeMail, Ends::Acknowledged, Ends::Quiet] {
                    if matches!((way, ends), (Way::DeadLetter(false), Ends::BeforeMail)) {
                        // The queue has ended with the process; a repeated publish finds none.
                        continue;
                    }
                    for (reliability, is_stamped) in [
                        (Reliability::AtLeastOnce, false),
                        (Reliability::ExactlyOnce, false),
                        (Reliability::AtLeastOnce, true),
                    ] {
                        try_case(Case {
                            shards,
                            publisher,
                            way,
                            wants,
                            reliability,
                            is_stamped,
                            ends,
                        });
                        cases += 1;
                    }
                }
            }
        }
    }
    assert_eq!(cases, (8 * 3 - 1) * 3 * 3 + 3 * (8 * 3 - 1) * 7 * 3);
}

/// No client publishes these, so none can repeat them: expired messages, rejected ones, and wills.
#[test]
fn what_nobody_can_repeat_is_in_one_place_or_the_other_at_every_moment() {
    #[derive(Clone, Copy, Debug)]
    enum Why {
        Expired,
        Rejected,
        Will,
    }
    for shards in [1, 3] {
        for (why, receiver) in [Why::Expired, Why::Rejected, Why::Will]
            .into_iter()
            .flat_map(|why| (0..shards).map(move |shard| (why, shard)))
        {
            for is_group in [false, true] {
                let case = (why, shards, receiver, is_group);
                let mut world = world(shards as u16);
                let maker = world.connect("maker");
                world.exchange(maker, "end", ExchangeKind::Fanout);
                world.exchange(maker, "middle", ExchangeKind::Fanout);
                world.lead(maker, "middle", "end", "", &[]).expect("it may");
                let dead_letter = Some(DeadLetter {
                    exchange: x("middle").into(),
                    key: None,
                });
                let terms = Terms::durable().with(|limits| {
                    limits.dead_letter = dead_letter;
                    limits.message_ttl = Some(Span::from_secs(1));
                });
                world.queue(maker, "in", &terms);
                let name = world.name_on(receiver);
                let who = world.connect_with(receiver, &name, Access::ALL, HOUR);
                world.subscribe(
                    who,
                    &format!("{}/#", x("end")),
                    is_group.then_some("g"),
                    Reliability::AtLeastOnce,
                );
                world.lose(who);
                let device = world.name_on(shards - 1);
                let middle = format!("{}/k", x("middle"));
                if matches!(why, Why::Will) {
                    let will = Will {
                        address: middle.as_str().into(),
                        payload: b"m".as_slice().into(),
                        reliability: Reliability::AtLeastOnce,
                        retain: thalweg_model::RetainOp::None,
                        delay: Span::ZERO,
                        expires_in: None,
                        properties: None,
                    };
                    let with_will = world.connect_with_will(shards - 1, &device, will);
                    world.is_slow = true;
                    world.lose(with_will);
                } else {
                    world.put(maker, "in", "m");
                    world.is_slow = true;
                    match why {
                        Why::Expired => world.wait(Span::from_secs(1)),
                        _ => {
                            world.consume(maker, "in", 1, crate::world::Taking::default());
                            world.reject(maker, 1);
                        }
                    }
                }
                // Whatever was mailed is lost with the process.
                world.is_slow = false;
                world.restart();
                world.wait(Span::from_secs(1));
                let came = come(&mut world, Wants::Session(receiver), &name);
                assert_eq!(came, ["m"], "{case:?}");
                world.restart();
                assert_eq!(world.waits("in"), 0, "{case:?}");
            }
        }
    }
}
