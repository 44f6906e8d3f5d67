//! Rules hold for every verb.

use crate::world::{Taking, Terms, Who, World, exchange_spec, firm, q, x};
use thalweg_kernel::access::Permission::{Configure, Publish, Receive, Subscribe};
use thalweg_kernel::access::{Access, Otherwise, Permission, Permissions, Rule, Rules};
use thalweg_kernel::{
    DropReason, ExchangeKind, ExchangeSpec, Outcome, QueueSpec, Refusal, Subscribed,
};
use thalweg_model::{Reliability, Span};

/// Somebody who may do only what the rules allow, and a world with queue `q`, exchange `e` and a message.
fn with_rules(rules: &[Rule]) -> (World, Who, Who) {
    let mut world = World::new();
    let admin = world.connect("admin");
    world.queue(admin, "q", &Terms::durable());
    world.exchange(admin, "e", ExchangeKind::Topic);
    world.put(admin, "q", "m");
    let access = Rules::new(rules.to_vec(), Otherwise::Deny)
        .expect("legal")
        .compile("c", None);
    let client = world.connect_with(0, "c", access, Span::ZERO);
    (world, admin, client)
}

#[test]
fn without_rights_every_verb_is_denied() {
    let (mut world, _, client) = with_rules(&[]);
    let denied = Refusal::Denied;
    assert_eq!(
        world.declare(client, "q", &Terms::durable()).err(),
        Some(denied)
    );
    assert_eq!(
        world.declare(client, "new", &Terms::durable()).err(),
        Some(denied)
    );
    assert_eq!(world.inspect(client, "q").err(), Some(denied));
    assert_eq!(
        world.consume_from(client, &q("q"), 1, Taking::default()),
        Err(denied)
    );
    assert_eq!(
        world.consume_from(client, "$g/g/$q/q", 1, Taking::default()),
        Err(denied)
    );
    assert_eq!(
        world.consume_from(client, "$g/g/a", 1, Taking::default()),
        Err(denied)
    );
    assert_eq!(world.take(client, "q", true), Err(denied));
    assert_eq!(world.delete_queue(client, "q"), Err(denied));
    let purged = world.purge(client, "q");
    assert_eq!(purged, Err(denied));
    assert_eq!(
        world.declare_exchange(client, "new", &exchange_spec(ExchangeKind::Direct)),
        Err(denied)
    );
    assert_eq!(world.bind_with(client, "e", "q", "#", &[]), Err(denied));
    assert_eq!(world.unbind(client, "e", "q", "#"), Err(denied));
    assert_eq!(world.lead(client, "e", "e", "#", &[]), Err(denied));
    let deleted = world.run(0, |kernel, out, _| {
        kernel.delete_exchange(client.session, &x("e"), false, out)
    });
    assert_eq!(deleted, Err(denied));
    assert_eq!(world.put(client, "q", "m"), Outcome::Denied);
    assert_eq!(world.send(client, "e", "k", "m"), Outcome::Denied);
    assert_eq!(
        world.subscribe(client, &q("q"), Some("q"), Reliability::AtLeastOnce),
        Subscribed::Denied
    );
    assert_eq!(world.waits("q"), 1);
    // An exclusive queue needs no right for a name that no other client can want, but it cannot take another's name.
    assert_eq!(
        world.declare(client, "mine", &Terms::exclusive()).err(),
        Some(denied)
    );
    let named = |world: &mut World| {
        let (address, limits) = (q("named-for-it"), Default::default());
        let is_named_by_broker = true;
        let spec = QueueSpec {
            address: &address,
            durable: false,
            exclusive: true,
            is_named_by_broker,
            auto_delete: false,
            limits,
        };
        world.run(0, |kernel, out, now| {
            kernel.declare_queue(client.session, &spec, now, out)
        })
    };
    assert_eq!(named(&mut world).map(|status| status.existed), Ok(false));
}

#[test]
fn who_may_publish_to_a_queue_may_declare_but_not_take_from_it() {
    let (mut world, _, client) = with_rules(&[Rule::allow(Publish, "$q/q")]);
    assert!(world.declare(client, "q", &Terms::durable()).is_ok());
    assert!(world.inspect(client, "q").is_ok());
    assert_eq!(world.put(client, "q", "m"), Outcome::Accepted);
    assert_eq!(world.take(client, "q", true), Err(Refusal::Denied));
    assert_eq!(
        world.consume_from(client, &q("q"), 1, Taking::default()),
        Err(Refusal::Denied)
    );
    assert_eq!(
        world.declare(client, "p", &Terms::durable()).err(),
        Some(Refusal::Denied)
    );
}

#[test]
fn who_may_take_from_a_queue_is_given_only_what_it_may_receive() {
    let rules = [
        Rule::allow(Permissions::READ, "$q/q"),
        Rule::allow(Receive, "$x/e/open"),
    ];
    let (mut world, admin, client) = with_rules(&rules);
    world.bind(admin, "e", "q", "#");
    world.send(admin, "e", "open", "1");
    world.send(admin, "e", "closed", "2");
    world.put(admin, "q", "3");
    world.consume(client, "q", 1, Taking::default());
    world.send(admin, "e", "closed", "4");
    world.send(admin, "e", "open", "5");
    assert_eq!(world.texts(client), ["m", "1", "3", "5"]);
    assert_eq!(world.dropped(DropReason::AccessDenied), 0);
    assert_eq!(world.put(client, "q", "m"), Outcome::Denied);
    // A message that it may not receive waits for a consumer that may.
    world.consume(admin, "q", 1, Taking::default());
    assert_eq!(world.texts(admin), ["2", "4"]);
}

#[test]
fn one_who_asks_for_one_message_is_given_the_first_that_it_may_have() {
    let rules = [Rule::allow(Permissions::READ, "$q/q")];
    let (mut world, admin, client) = with_rules(&rules);
    world.bind(admin, "e", "q", "#");
    world.send(admin, "e", "closed", "1");
    world.put(admin, "q", "2");
    assert_eq!(world.take(client, "q", true), Ok(Some(2)));
    assert_eq!(world.take(client, "q", false), Ok(Some(0)));
    assert_eq!(world.texts(client), ["m", "2"]);
    assert_eq!(
        world.kernels[0].totals().in_flight,
        1,
        "the first is still unsettled"
    );
    assert_eq!(
        world.take(admin, "q", false),
        Ok(Some(0)),
        "what it may not have is still there"
    );
    assert_eq!(world.texts(admin), ["1"]);
}

#[test]
fn binding_needs_the_right_to_subscribe_to_what_it_brings() {
    let rules = [
        Rule::allow(Permissions::ALL, "$q/q"),
        Rule::allow(Subscribe, "$x/e/public/#"),
        Rule::allow(Subscribe, "news/#"),
    ];
    let (mut world, _, client) = with_rules(&rules);
    assert_eq!(world.bind_with(client, "e", "q", "public.#", &[]), Ok(()));
    assert_eq!(
        world.bind_with(client, "e", "q", "#", &[]),
        Err(Refusal::Denied)
    );
    assert_eq!(
        world.bind_with(client, "e", "q", "private.x", &[]),
        Err(Refusal::Denied)
    );
    assert_eq!(
        world.bind_with(client, "e", "q", "public.#.x", &[]),
        Ok(()),
        "less than what it may"
    );
    assert_eq!(
        world.bind_with(client, "amq.topic", "q", "news.*", &[]),
        Ok(())
    );
    assert_eq!(
        world.bind_with(client, "amq.topic", "q", "#", &[]),
        Err(Refusal::Denied)
    );
    assert_eq!(
        world.bind_with(client, "amq.fanout", "q", "", &[]),
        Err(Refusal::Denied)
    );
}

#[test]
fn leading_one_exchange_to_another_needs_the_right_to_publish_there() {
    let rules = [
        Rule::allow(Subscribe, "$x/e/#"),
        Rule::allow(Permissions::from(Publish).with(Configure), "$x/mine/#"),
    ];
    let (mut world, admin, client) = with_rules(&rules);
    world.exchange(admin, "theirs", ExchangeKind::Fanout);
    assert_eq!(
        world.declare_exchange(client, "mine", &exchange_spec(ExchangeKind::Fanout)),
        Ok(())
    );
    assert_eq!(
        world.lead(client, "e", "theirs", "#", &[]),
        Err(Refusal::Denied)
    );
    assert_eq!(world.lead(client, "e", "mine", "#", &[]), Ok(()));
}

#[test]
fn an_alternate_needs_the_right_to_publish_there() {
    let (mut world, _, client) = with_rules(&[Rule::allow(Permissions::ALL, "$x/mine/#")]);
    let forbidden = x("e");
    let spec = ExchangeSpec {
        alternate: Some(&forbidden),
        ..exchange_spec(ExchangeKind::Fanout)
    };
    // An exclusive queue's rejected messages would go where it may not publish.
    assert_eq!(
        world.declare_exchange(client, "mine", &spec),
        Err(Refusal::Denied)
    );
}

#[test]
fn dead_letters_need_the_right_to_publish_where_they_go() {
    let (mut world, admin, client) = with_rules(&[Rule::allow(Permissions::ALL, "$q/mine")]);
    world.queue(admin, "theirs", &Terms::durable());
    let terms =
        Terms::durable().with(|limits| limits.dead_letter = crate::world::to_queue("theirs"));
    assert_eq!(
        world.declare(client, "mine", &terms).err(),
        Some(Refusal::Denied)
    );
}

#[test]
fn reading_one_queue_opens_no_other_and_ends_none() {
    let rules = [
        Rule::allow(Permissions::READ, "$q/mine"),
        Rule::allow(Subscribe, "$q/#"),
    ];
    let (mut world, admin, client) = with_rules(&rules);
    world.queue(admin, "mine", &Terms::durable());
    world.bind(admin, "e", "q", "#");
    assert_eq!(world.take(client, "q", true), Err(Refusal::Denied));
    assert_eq!(
        world.consume_from(client, &q("q"), 1, Taking::default()),
        Err(Refusal::Denied)
    );
    assert_eq!(
        world.subscribe(client, &q("q"), Some("x"), Reliability::AtLeastOnce),
        Subscribed::Denied
    );
    assert_eq!(world.unbind(client, "e", "q", "#"), Err(Refusal::Denied));
    for name in ["q", "mine"] {
        let purged = world.purge(client, name);
        assert_eq!(purged, Err(Refusal::Denied), "{name}");
        assert_eq!(
            world.delete_queue(client, name),
            Err(Refusal::Denied),
            "{name}"
        );
    }
    assert_eq!(world.waits("q"), 1);
}

#[test]
fn who_may_both_publish_and_take_may_do_everything_with_a_queue() {
    let rules = [
        Rule::allow(Publish, "$q/mine"),
        Rule::allow(Permissions::READ, "$q/mine"),
        Rule::allow(Subscribe, "news/#"),
    ];
    let (mut world, _, client) = with_rules(&rules);
    assert_eq!(
        world
            .declare(client, "mine", &Terms::durable())
            .map(|status| status.existed),
        Ok(false)
    );
    assert_eq!(
        world.bind_with(client, "amq.topic", "mine", "news.#", &[]),
        Ok(())
    );
    assert_eq!(world.put(client, "mine", "m"), Outcome::Accepted);
    assert_eq!(world.take(client, "mine", false), Ok(Some(0)));
    assert_eq!(world.unbind(client, "amq.topic", "mine", "news.#"), Ok(()));
    assert_eq!(world.delete_queue(client, "mine"), Ok(0));
}

#[test]
fn a_dead_letter_is_given_only_to_whom_its_first_address_is_open() {
    let rules = [
        Rule::allow(Permissions::ALL, "$q/alice"),
        Rule::allow(Subscribe, "#"),
        Rule::allow(Receive, "a/open"),
    ];
    let (mut world, admin, client) = with_rules(&rules);
    world.queue(client, "alice", &Terms::durable());
    let terms =
        Terms::default().with(|limits| limits.dead_letter = crate::world::to_queue("alice"));
    world.queue(admin, "tmp", &terms);
    world.bind(admin, "amq.topic", "tmp", "#");
    for address in ["a/secret", "a/open"] {
        world.publish(admin, firm(address, address));
    }
    world.consume(admin, "tmp", 2, Taking::default());
    world.reject(admin, 1);
    world.reject(admin, 2);
    assert_eq!(world.waits("alice"), 2);
    world.consume(client, "alice", 1, Taking::default());
    assert_eq!(world.texts(client), ["a/open"]);
    assert_eq!(world.waits("alice"), 1);
}

#[test]
fn nobody_publishes_as_the_broker_by_a_detour() {
    let (mut world, admin, _) = with_rules(&[]);
    let listener = world.connect("listener");
    world.subscribe(listener, "$SYS/#", None, Reliability::AtMostOnce);
    world.exchange(admin, "mine", ExchangeKind::Fanout);
    world
        .lead(admin, "mine", "amq.topic", "", &[])
        .expect("it may");
    world.send(admin, "mine", "$SYS.broker.version", "forged");
    assert_eq!(
        world.publish(admin, firm("$SYS/broker/version", "forged")),
        Outcome::Denied
    );
    assert!(world.texts(listener).is_empty());
}

#[test]
fn what_no_member_may_receive_does_not_stand_in_the_way_of_the_rest() {
    let rules = [Rule::allow(Permissions::READ, "$q/q")];
    let (mut world, admin, client) = with_rules(&rules);
    world.bind(admin, "e", "q", "#");
    world.send(admin, "e", "closed", "1");
    world.put(admin, "q", "2");
    world.subscribe(client, &q("q"), Some("q"), Reliability::AtLeastOnce);
    let got = world.got(client);
    assert_eq!(got[0].text, "m");
    world.settle_delivery(client, got[0].tag);
    assert_eq!(world.texts(client), ["2"]);
}

#[test]
fn rights_that_were_taken_away_stop_messages() {
    let rules = [Rule::allow(Permissions::READ, "$q/q")];
    let (mut world, admin, client) = with_rules(&rules);
    world.consume(client, "q", 1, Taking::default());
    let nothing = Rules::new(Vec::new(), Otherwise::Deny)
        .expect("legal")
        .compile("c", None);
    world.run(0, |kernel, _, _| kernel.set_access(client.session, nothing));
    world.publish(admin, firm(&q("q"), "2"));
    assert_eq!(world.texts(client), ["m"]);
}

#[test]
fn a_member_that_may_take_again_gets_what_waits() {
    let mut world = World::new();
    let admin = world.connect("admin");
    world.queue(admin, "q", &Terms::durable());
    let member = world.connect("member");
    world.subscribe(member, &q("q"), Some("g"), Reliability::AtLeastOnce);
    world.renew(|client, _| {
        let rules = if client == "member" {
            vec![Rule::deny(Permission::Take, "$q/q")]
        } else {
            Vec::new()
        };
        Rules::new(rules, Otherwise::Allow)
            .expect("legal")
            .compile(client, None)
    });
    world.put(admin, "q", "m");
    assert_eq!(world.texts(member), [""; 0]);
    world.renew(|_, _| Access::ALL);
    world.run(0, |kernel, out, now| kernel.work(now, out));
    assert_eq!(world.texts(member), ["m"]);
}

#[test]
fn the_next_consumer_becomes_active_when_the_active_one_loses_its_right() {
    let mut world = World::new();
    let (first, second) = (world.connect("first"), world.connect("second"));
    world.queue(
        first,
        "q",
        &Terms::durable().with(|limits| limits.single_active = true),
    );
    world.consume(first, "q", 1, Taking::default());
    world.consume(second, "q", 1, Taking::default());
    world.put(first, "q", "1");
    assert_eq!(world.texts(first), ["1"]);
    world.renew(|client, _| {
        let rules = if client == "first" {
            vec![Rule::deny(Permission::Take, "$q/q")]
        } else {
            Vec::new()
        };
        Rules::new(rules, Otherwise::Allow)
            .expect("legal")
            .compile(client, None)
    });
    world.put(first, "q", "2");
    assert_eq!(world.texts(second), ["2"]);
    // It stays active when the other may take again.
    world.renew(|_, _| Access::ALL);
    world.put(first, "q", "3");
    assert_eq!(world.texts(second), ["3"]);
    assert_eq!(world.texts(first), [""; 0]);
}
