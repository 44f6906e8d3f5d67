//! Rights that are taken away while a message is on its way: between shards, on disk, in a window.

use crate::world::{Taking, Terms, Who, World, draft, firm, q};
use thalweg_kernel::access::{Access, Otherwise, Permission, Rule, Rules};
use thalweg_kernel::{
    BindSpec, BindTo, Draft, DropReason, ExchangeKind, Limits, Outcome, Refusal, Subscribed,
};
use thalweg_model::{Reliability, RetainOp, Span};

const HOUR: Span = Span::from_secs(3600);

/// Everything but this, for clients whose names begin with `eve`.
fn eve_without(permission: Permission, address: &str, client: &str) -> Access {
    let rules = match client.starts_with("eve") {
        true => vec![Rule::deny(permission, address)],
        false => Vec::new(),
    };
    Rules::new(rules, Otherwise::Allow)
        .expect("legal")
        .compile(client, None)
}

fn may_not_receive(client: &str, _: Option<&str>) -> Access {
    eve_without(Permission::Receive, "t", client)
}

fn may_not_take(client: &str, _: Option<&str>) -> Access {
    eve_without(Permission::Take, "$q/q", client)
}

fn may_not_publish(client: &str, _: Option<&str>) -> Access {
    eve_without(Permission::Publish, "t", client)
}

/// Connects Eve on a shard; the session outlives its link.
fn eve(world: &mut World, shard: usize) -> (Who, String) {
    let shards = world.kernels.len() as u16;
    let name = (0..)
        .map(|number| format!("eve-{number}"))
        .find(|name| usize::from(thalweg_kernel::home(name, shards).0) == shard)
        .expect("some name");
    (world.connect_with(shard, &name, Access::ALL, HOUR), name)
}

/// Eve's link is lost, and she comes back with the rights of now.
fn come_back(world: &mut World, who: Who, name: &str) -> Who {
    world.lose(who);
    let access = (world.access)(name, None);
    world.connect_with(who.shard, name, access, HOUR)
}

fn exactly_once(address: &str) -> Draft<'_> {
    Draft {
        reliability: Reliability::ExactlyOnce,
        ticket: 1,
        ..firm(address, "m")
    }
}

#[test]
fn what_is_repeated_is_judged_though_other_messages_came_since() {
    let mut world = World::new();
    let admin = world.connect("admin");
    let (who, name) = eve(&mut world, 0);
    for filter in ["t", "k"] {
        world.subscribe(who, filter, None, Reliability::AtLeastOnce);
    }
    world.publish(admin, firm("t", "m"));
    assert_eq!(world.texts(who), ["m"]);
    world.renew(may_not_receive);
    world.publish(admin, firm("k", "open"));
    let open = world.got(who);
    world.settle_delivery(who, open[0].tag);
    let who = come_back(&mut world, who, &name);
    assert_eq!(world.texts(who), [""; 0]);
    assert_eq!(world.dropped(DropReason::AccessDenied), 1);
}

#[test]
fn a_copy_of_a_group_is_not_repeated_to_a_member_that_may_not_have_it_any_more() {
    for (filter, revoked) in [
        ("t", may_not_receive as fn(&str, Option<&str>) -> Access),
        ("$q/q", may_not_take),
    ] {
        for shards in [1, 3] {
            let mut world = World::in_turns(shards);
            let admin = world.connect("admin");
            let shard = (world.home() + 1) % usize::from(shards);
            let (who, name) = eve(&mut world, shard);
            let granted = world.subscribe(who, filter, Some("g"), Reliability::ExactlyOnce);
            assert_eq!(granted, Subscribed::Granted(Reliability::ExactlyOnce));
            world.publish(admin, exactly_once(filter));
            assert_eq!(world.texts(who), ["m"], "{filter} on {shards}");
            world.renew(revoked);
            let who = come_back(&mut world, who, &name);
            assert_eq!(world.texts(who), [""; 0], "{filter} on {shards}");
            assert_eq!(world.dropped(DropReason::AccessDenied), 1);
        }
    }
}

#[test]
fn a_copy_that_stays_with_its_session_goes_to_another_member_when_its_own_may_not_have_it() {
    for (filter, revoked) in [
        ("t", may_not_receive as fn(&str, Option<&str>) -> Access),
        ("$q/q", may_not_take),
    ] {
        let limits = Limits {
            group_redispatch: false,
            ..Limits::default()
        };
        let mut world = World::with(1, limits);
        let admin = world.connect("admin");
        let (who, name) = eve(&mut world, 0);
        world.subscribe(who, filter, Some("g"), Reliability::AtLeastOnce);
        world.publish(admin, firm(filter, "m"));
        assert_eq!(world.texts(who), ["m"]);
        let other = world.connect_with(0, "other", Access::ALL, HOUR);
        world.subscribe(other, filter, Some("g"), Reliability::AtLeastOnce);
        world.renew(revoked);
        let who = come_back(&mut world, who, &name);
        assert_eq!(world.texts(who), [""; 0], "{filter}");
        assert_eq!(world.texts(other), ["m"], "{filter}");
    }
}

#[test]
fn what_is_under_way_out_of_a_queue_is_not_given_to_a_member_that_may_not_take_any_more() {
    let mut world = World::in_turns(3);
    let admin = world.connect("admin");
    let home = world.home();
    let shard = (home + 1) % 3;
    let (who, _) = eve(&mut world, shard);
    world.subscribe(who, "$q/q", Some("g"), Reliability::AtLeastOnce);
    world.is_slow = true;
    world.publish(admin, firm("$q/q", "m"));
    world.access = may_not_take;
    world.run(shard, |kernel, _, _| kernel.renew_access(may_not_take));
    world.is_slow = false;
    world.run(home, |kernel, _, _| kernel.renew_access(may_not_take));
    assert_eq!(world.texts(who), [""; 0]);
    assert_eq!(world.waits("q"), 1);
}

/// Asks for a message of the queue `q`, without waiting for the answer.
fn ask_for_one(world: &mut World, who: Who) {
    let asked = world.run(who.shard, |kernel, out, now| {
        kernel.take_apart(who.session, who.link, 1, (&q("q"), None), now, out)
    });
    assert_eq!(asked, Ok(()));
}

#[test]
fn an_answer_with_a_message_is_not_given_to_one_who_may_not_take_any_more() {
    let mut world = World::with(2, Limits::default());
    let admin = world.connect("admin");
    world.queue(admin, "q", &Terms::durable());
    world.put(admin, "q", "m");
    let shard = (world.home() + 1) % 2;
    let (who, _) = eve(&mut world, shard);
    world.is_slow = true;
    ask_for_one(&mut world, who);
    assert_eq!(world.taken(who), None, "nothing yet");
    world.is_slow = false;
    world.renew(may_not_take);
    let taken = world.taken(who).map(|(_, taken)| taken);
    assert_eq!(taken, Some(Err(Refusal::Denied)));
    assert_eq!(world.waits("q"), 1);
}

#[test]
fn who_waited_for_the_disk_is_judged_when_the_message_is_there() {
    let limits = Limits {
        named_queue_memory_bytes_max: 1_000,
        ..Limits::default()
    };
    let mut world = World::without_prefixes(1, limits);
    let admin = world.connect("admin");
    world.queue(admin, "q", &Terms::durable());
    let (who, _) = eve(&mut world, 0);
    let count = 2_000;
    for number in 0..count {
        world.put(admin, "q", &number.to_string());
    }
    world.is_slow = true;
    // Until one has to be fetched.
    let mut has_come = true;
    while has_come {
        ask_for_one(&mut world, who);
        has_come = world.taken(who).is_some_and(|(_, taken)| taken != Ok(None));
    }
    world.is_slow = false;
    world.renew(may_not_take);
    let taken = world.taken(who).map(|(_, taken)| taken);
    assert_eq!(taken, Some(Err(Refusal::Denied)));
}

#[test]
fn a_transaction_is_judged_by_the_rights_at_its_end() {
    let mut world = World::new();
    let admin = world.connect("admin");
    world.subscribe(admin, "t", None, Reliability::AtLeastOnce);
    let (who, _) = eve(&mut world, 0);
    world.has_transaction = true;
    world.run(0, |kernel, _, now| {
        assert!(kernel.begin(who.session, 1));
        for others in [vec![], vec!["k".to_owned()]] {
            kernel.publish_in(who.session, 1, &firm("t", "m"), &others, 0, now);
        }
    });
    world.renew(may_not_publish);
    let outcomes = world.run(0, |kernel, out, now| {
        let committed = kernel.commit(who.session, 1, now, out);
        committed.map(|committed| committed.outcomes)
    });
    assert_eq!(outcomes, Some(vec![Outcome::Denied; 2]));
    assert_eq!(world.texts(admin), [""; 0]);
}

/// Recalls the last value of `t` into the queue `q`.
fn recall(world: &mut World, who: Who) -> Result<(), Refusal> {
    world.run(who.shard, |kernel, out, now| {
        let to = q("q");
        let spec = BindSpec {
            exchange: "$x/amq.topic",
            to: BindTo::Queue(&to),
            key: "t",
            arguments: &[],
        };
        kernel.recall(who.session, &spec, now, out)
    })
}

#[test]
fn last_values_come_into_a_queue_only_for_one_who_may_bind_it_and_receive_them() {
    fn may_only_publish(client: &str, _: Option<&str>) -> Access {
        let rules = vec![
            Rule::allow(Permission::Publish, "$q/q"),
            Rule::allow(Permission::Subscribe, "#"),
            Rule::allow(Permission::Receive, "#"),
        ];
        match client.starts_with("eve") {
            true => Rules::new(rules, Otherwise::Deny)
                .expect("legal")
                .compile(client, None),
            false => Access::ALL,
        }
    }
    let mut world = World::new();
    let admin = world.connect("admin");
    world.queue(admin, "q", &Terms::durable());
    world.publish(
        admin,
        Draft {
            retain: RetainOp::Set,
            ..draft("t", "m")
        },
    );
    let (who, _) = eve(&mut world, 0);
    assert_eq!(recall(&mut world, who), Ok(()));
    assert_eq!(world.drain_texts("q"), ["m"]);
    world.renew(may_only_publish);
    assert_eq!(recall(&mut world, who), Err(Refusal::Denied));
    world.renew(may_not_receive);
    assert_eq!(recall(&mut world, who), Ok(()));
    assert_eq!(world.waits("q"), 0);
}

#[test]
fn a_message_goes_to_the_consumer_that_may_have_it_when_another_gives_it_back() {
    let mut world = World::new();
    let admin = world.connect("admin");
    world.queue(admin, "q", &Terms::durable());
    world.exchange(admin, "e", ExchangeKind::Topic);
    world.bind(admin, "amq.topic", "q", "t");
    let (who, _) = eve(&mut world, 0);
    world.consume(admin, "q", 1, Taking::credit(1));
    world.publish(admin, firm("t", "m"));
    let held = world.got(admin);
    world.consume(who, "q", 1, Taking::default());
    world.renew(may_not_receive);
    world.requeue(admin, held[0].tag);
    assert_eq!(world.texts(who), [""; 0]);
    assert_eq!(world.texts(admin), ["m"]);
}
