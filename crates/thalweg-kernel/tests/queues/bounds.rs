//! No call does work without bound: what is left goes on in the next one, and may be cut off in between.

use crate::world::{Taking, Terms, Who, World, firm, q, to_queue, x};
use std::sync::Arc;
use thalweg_kernel::access::Access;
use thalweg_kernel::{
    Deleted, Draft, DropReason, GroupPolicy, Limits, MemoryView, OrderKey, Outcome, Settled, Tags,
    Verdict, Will,
};
use thalweg_model::{Filter, Properties, Reliability, RetainOp, Span};

/// More than one call does.
const MANY: usize = 5_000;
/// Bounds of one call.
const PER_CALL: usize = 1_024;

/// A queue whose messages die after a second and go to another.
fn filled(world: &mut World) -> Who {
    let client = world.connect("c");
    world.queue(client, "dead", &Terms::durable());
    let terms = Terms::durable().with(|limits| {
        limits.message_ttl = Some(Span::from_secs(1));
        limits.dead_letter = to_queue("dead");
    });
    world.queue(client, "in", &terms);
    for number in 0..MANY {
        world.put(client, "in", &number.to_string());
    }
    client
}

/// Calls until there is nothing left to do; how much came into the queue of the dead at most in one call.
fn go_on(world: &mut World, mut call: impl FnMut(&mut World)) -> usize {
    let mut most = 0;
    loop {
        let before = world.waits("dead");
        call(world);
        world.write();
        let came = world.waits("dead") - before;
        most = most.max(came);
        if came == 0
            && !world.kernels[0].has_work()
            && world.kernels[0].poll_timeout() > world.now + Span::from_nanos(1)
        {
            return most;
        }
        world.now += Span::from_nanos(1);
    }
}

fn on_timeout(world: &mut World) {
    let now = world.now;
    world.kernels[0].on_timeout(now, &mut world.out);
}

fn work(world: &mut World) {
    let now = world.now;
    world.kernels[0].work(now, &mut world.out);
}

/// Rejects what a consumer has, as much of it as one call does, without anything else that would follow.
fn reject_some(world: &mut World, client: Who) -> Settled {
    let (id, now, out) = (client.session, world.now, &mut world.out);
    world.kernels[0].settle_line(id, 1, Tags::All, Verdict::Reject, now, out)
}

fn reject_all(world: &mut World, client: Who) {
    while reject_some(world, client) == Settled::InPart {}
    world.write();
}

#[test]
fn messages_that_expire_together_go_their_way_bit_by_bit_and_in_order() {
    let mut world = World::new();
    filled(&mut world);
    world.now += Span::from_secs(2);
    on_timeout(&mut world);
    assert_eq!(world.waits("dead"), PER_CALL);
    assert!(go_on(&mut world, on_timeout) <= PER_CALL);
    assert!(go_on(&mut world, work) <= PER_CALL);
    world.check();
    assert_eq!(world.entries_written(), MANY, "each is written down once");
    let all = world.drain_texts("dead");
    let wrong = all
        .iter()
        .enumerate()
        .find(|(number, text)| **text != number.to_string());
    assert_eq!((all.len(), wrong), (MANY, None));
    assert_eq!(world.kernels[0].bytes_held(), 0);
}

#[test]
fn many_that_are_rejected_together_go_their_way_bit_by_bit_and_none_is_lost_at_any_end() {
    for ends_after in [0, 1, 3, usize::MAX] {
        let mut world = World::new();
        let client = filled(&mut world);
        world.consume(client, "in", 1, Taking::default());
        let (mut settled, mut calls) = (Settled::InPart, 0);
        while calls < ends_after && (settled == Settled::InPart || world.kernels[0].has_work()) {
            let before = world.waits("dead");
            match settled {
                Settled::InPart => settled = reject_some(&mut world, client),
                _ => work(&mut world),
            }
            world.write();
            assert!(world.waits("dead") - before <= PER_CALL);
            calls += 1;
        }
        if ends_after == usize::MAX {
            assert!(calls > 1, "{calls}");
            assert_eq!(world.waits("dead"), MANY);
            world.check();
        }
        // A message that was not dead-lettered stays in its queue.
        world.restart();
        let mut all = world.drain_texts("dead");
        all.extend(world.drain_texts("in"));
        assert!(
            all.into_iter()
                .eq((0..MANY).map(|number| number.to_string())),
            "after {ends_after} calls"
        );
    }
}

#[test]
fn what_waits_to_be_buried_waits_while_the_journal_is_behind() {
    let mut world = World::new();
    let client = filled(&mut world);
    world.consume(client, "in", 1, Taking::default());
    world.kernels[0].set_journal_behind(true);
    reject_all(&mut world, client);
    assert_eq!(
        (world.waits("dead"), world.kernels[0].has_work()),
        (0, false)
    );
    // The record of each dead-lettering counts, too.
    let beside = size_of::<Properties>() + q("dead").len();
    let bytes = (0..MANY).map(|number| bytes_of(number) + beside);
    assert!(world.kernels[0].bytes_held() > bytes.sum::<usize>());
    world.kernels[0].recount().expect("the books are right");
    world.kernels[0].set_journal_behind(false);
    assert!(world.kernels[0].has_work());
    world.deliver_mails();
    world.check();
    assert_eq!(world.waits("dead"), MANY);
}

fn bytes_of(number: usize) -> usize {
    use thalweg_model::{Message, Time};
    let text = number.to_string();
    let (never, now) = (Time::NEVER, Time::from_secs(1_000));
    Message::new(
        &q("in"),
        text.as_bytes(),
        Reliability::AtLeastOnce,
        RetainOp::None,
        never,
        now,
        0,
        None,
    )
    .bytes()
}

#[test]
fn a_queue_that_ends_takes_none_of_those_along_that_have_died_in_it() {
    let mut world = World::new();
    let client = filled(&mut world);
    world.consume(client, "in", 1, Taking::default());
    reject_all(&mut world, client);
    world.delete_queue(client, "in").expect("it may");
    world.check();
    world.restart();
    assert_eq!(world.waits("dead"), MANY);
}

/// Ways in which a queue ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Deleted,
    Idle,
    LastConsumerLeft,
}

#[test]
fn a_queue_that_is_used_before_its_dead_letters_have_gone_their_way_stays() {
    for consumes in [false, true] {
        let mut world = World::new();
        let client = world.connect("c");
        world.queue(client, "dead", &Terms::durable());
        let mut terms = Terms {
            durable: true,
            ..Terms::auto_delete()
        };
        terms.limits.dead_letter = to_queue("dead");
        world.queue(client, "in", &terms);
        (0..MANY).for_each(|number| {
            world.put(client, "in", &number.to_string());
        });
        // The books may not hold bytes where nothing waits, and dead letters are not counted as that.
        world.queue(client, "other", &Terms::durable());
        world.put(client, "other", "waits");
        world.consume(client, "in", 1, Taking::default());
        world.kernels[0].set_journal_behind(true);
        reject_all(&mut world, client);
        assert!(world.cancel(client, 1, 1));
        assert_eq!(world.waits("dead"), 0, "it has not ended yet");
        if consumes {
            world.consume(client, "in", 2, Taking::default());
        } else {
            assert!(world.declare(client, "in", &terms).expect("it may").existed);
        }
        world.put(client, "in", "new");
        world.now += Span::from_secs(2);
        go_on(&mut world, on_timeout);
        world.kernels[0].set_journal_behind(false);
        go_on(&mut world, work);
        world.deliver_mails();
        world.check();
        assert!(world.view("in").is_some());
        assert_eq!(world.waits("dead"), MANY);
        if consumes {
            assert!(world.cancel(client, 1, 2));
            assert!(world.view("in").is_none(), "it ends with its last consumer");
        } else {
            assert_eq!(world.drain_texts("in"), ["new"]);
        }
    }
}

#[test]
fn a_queue_with_many_dead_letters_ends_when_they_have_gone_their_way() {
    for end in [End::Deleted, End::Idle, End::LastConsumerLeft] {
        let mut world = World::new();
        let client = world.connect("c");
        world.queue(client, "dead", &Terms::durable());
        let terms = match end {
            End::LastConsumerLeft => Terms::auto_delete(),
            End::Deleted | End::Idle => Terms::default(),
        };
        let mut terms = Terms {
            durable: true,
            ..terms
        };
        terms.limits.dead_letter = to_queue("dead");
        terms.limits.idle_expiry = (end == End::Idle).then_some(Span::from_secs(1));
        world.queue(client, "in", &terms);
        (0..MANY).for_each(|number| {
            world.put(client, "in", &number.to_string());
        });
        // The books may not hold bytes where nothing waits, and dead letters are not counted as that.
        world.queue(client, "other", &Terms::durable());
        world.put(client, "other", "waits");
        world.consume(client, "in", 1, Taking::default());
        world.kernels[0].set_journal_behind(true);
        reject_all(&mut world, client);
        let mut most = 0;
        match end {
            End::Deleted => {
                while world.delete_some(client, "in") == Ok(Deleted::InPart) {
                    let came = world.waits("dead") - most;
                    assert!((1..=PER_CALL).contains(&came), "{came} in one call");
                    most += came;
                }
            }
            End::Idle | End::LastConsumerLeft => {
                assert!(world.cancel(client, 1, 1));
                assert_eq!(world.waits("dead"), 0);
                world.now += Span::from_secs(2);
                most = go_on(&mut world, on_timeout);
                assert!(
                    (1..=PER_CALL).contains(&most),
                    "{end:?}: {most} in one call"
                );
            }
        }
        assert!(world.view("in").is_none(), "{end:?}");
        world.kernels[0].set_journal_behind(false);
        world.deliver_mails();
        world.check();
        world.restart();
        assert!(world.view("in").is_none(), "{end:?}");
        let texts = world.drain_texts("dead");
        let all = (0..MANY).map(|number| number.to_string());
        assert!(texts.into_iter().eq(all), "{end:?}");
    }
}

/// Ways in which a receiver reads a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    Consumer,
    One,
    OneApart,
}

#[test]
fn receivers_pass_over_what_has_expired_bit_by_bit_and_get_what_is_behind_it() {
    for asks in [Asks::Consumer, Asks::One, Asks::OneApart] {
        let mut world = World::new();
        let client = filled(&mut world);
        world.now += Span::from_secs(2);
        world.put(client, "in", "last");
        match asks {
            Asks::Consumer => world.consume(client, "in", 1, Taking::default()),
            Asks::One => assert_eq!(
                world.take(client, "in", true).map(|it| it.is_some()),
                Ok(true)
            ),
            Asks::OneApart => world.ask_apart(client, "in").expect("it may"),
        }
        assert!(world.expired() <= PER_CALL, "{asks:?}: {}", world.expired());
        let mut before = world.expired();
        while world.expired() < MANY {
            world.now += Span::from_nanos(1);
            on_timeout(&mut world);
            world.write();
            let more = world.expired() - before;
            assert!((1..=2 * PER_CALL).contains(&more), "{asks:?}: {more}");
            before = world.expired();
        }
        world.now += Span::from_nanos(1);
        on_timeout(&mut world);
        world.deliver_mails();
        if asks == Asks::OneApart {
            let (_, taken) = world.taken(client).expect("an answer");
            let taken = taken.expect("it may").expect("there is one");
            assert_eq!(taken.text, "last");
            world.settle_taken(client, &taken, Verdict::Accept);
        } else {
            assert_eq!(world.texts(client), ["last"], "{asks:?}");
        }
        world.check();
        assert_eq!(world.waits("dead"), MANY);
    }
}

#[test]
fn what_expires_stays_in_its_queue_while_dead_letters_take_their_share_of_memory() {
    let mut world = World::new();
    filled(&mut world);
    let budget = 1 << 20;
    world.kernels[0].set_memory(MemoryView {
        budget,
        ..MemoryView::default()
    });
    world.kernels[0].set_journal_behind(true);
    world.now += Span::from_secs(2);
    for _ in 0..20 {
        on_timeout(&mut world);
        world.now += Span::from_millis(20);
    }
    let left = MANY - world.waits("in");
    let least = bytes_of(0) + size_of::<Properties>();
    assert!((1..=budget / 16 / least + 1).contains(&left), "{left}");
    assert_eq!((world.expired(), world.waits("dead")), (left, 0));
    world.kernels[0].set_journal_behind(false);
    while world.waits("dead") < MANY {
        world.deliver_mails();
        world.now += Span::from_millis(20);
        let before = world.expired();
        on_timeout(&mut world);
        assert!(world.expired() > before || world.expired() == MANY);
    }
    world.check();
    let all = (0..MANY).map(|number| number.to_string());
    assert!(world.drain_texts("dead").into_iter().eq(all));
}

#[test]
fn a_session_that_ends_is_gone_at_once_and_its_memory_bit_by_bit() {
    let mut world = World::new();
    let client = world.connect("c");
    let away = world.connect_with(0, "away", Access::ALL, Span::from_secs(60));
    world.subscribe(away, "a", None, Reliability::AtLeastOnce);
    world.lose(away);
    for number in 0..MANY {
        world.publish(client, firm("a", &number.to_string()));
    }
    world.now += Span::from_secs(61);
    on_timeout(&mut world);
    world.write();
    world.check();
    assert_eq!(world.dropped(DropReason::SessionEnded), MANY as u64);
    assert_eq!(world.kernels[0].bytes_held(), 0);
    let mut calls = 0;
    while world.kernels[0].has_work() {
        work(&mut world);
        calls += 1;
    }
    assert!(calls >= MANY / PER_CALL, "{calls} calls");
}

#[test]
fn wills_that_are_due_together_after_a_restart_are_published_bit_by_bit() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "dead", &Terms::durable());
    world.exchange(client, "wills", thalweg_kernel::ExchangeKind::Fanout);
    world.bind(client, "wills", "dead", "");
    // Many turns of at most 256. The books are compared at each connection, in time to the square of all.
    const WILLS: usize = 2_000;
    for number in 0..WILLS {
        let will = Will {
            address: format!("{}/k", x("wills")).into(),
            payload: number.to_string().into_bytes().into(),
            reliability: Reliability::AtLeastOnce,
            retain: RetainOp::None,
            delay: Span::from_secs(5),
            expires_in: None,
            properties: None,
        };
        world.connect_with_will(0, &format!("device-{number}"), will);
    }
    world.restart();
    assert_eq!(world.waits("dead"), 0);
    world.now += Span::from_secs(6);
    let most = go_on(&mut world, on_timeout);
    assert!((1..=256).contains(&most), "{most}");
    world.restart();
    assert_eq!(world.waits("dead"), WILLS);
    let client = world.connect_with(0, "c", Access::ALL, Span::ZERO);
    world.publish(
        client,
        Draft {
            ticket: 1,
            ..firm(&q("dead"), "last")
        },
    );
    assert_eq!(world.waits("dead"), WILLS + 1);
}

#[test]
fn long_messages_that_expire_together_are_bounded_by_their_bytes() {
    let mut world = World::new();
    let client = world.connect("c");
    let mut terms = Terms::durable().with(|limits| limits.dead_letter = to_queue("dead"));
    world.queue(client, "dead", &Terms::durable());
    terms.limits.message_ttl = Some(Span::from_secs(1));
    // One each in many queues, so that no queue is many.
    let long = "m".repeat(1 << 20);
    for number in 0..20 {
        let name = format!("in-{number}");
        world.queue(client, &name, &terms);
        world.put(client, &name, &long);
    }
    world.now += Span::from_secs(2);
    let most = go_on(&mut world, on_timeout);
    assert!((1..=6).contains(&most), "{most} MiB in one call");
    assert_eq!(world.waits("dead"), 20);
}

/// A queue with so many messages, of which all but a few may be on disk.
fn full(is_long: bool) -> (World, Who) {
    let mut world = match is_long {
        true => World::without_prefixes(
            1,
            Limits {
                named_queue_memory_bytes_max: 3000,
                ..Limits::default()
            },
        ),
        false => World::new(),
    };
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    for number in 0..MANY {
        world.put(client, "q", &number.to_string());
    }
    (world, client)
}

#[test]
fn a_purge_goes_on_bit_by_bit_and_is_answered_when_nothing_of_it_can_come_back() {
    for is_long in [false, true] {
        let (mut world, client) = full(is_long);
        world.was_held(client);
        let (mut left, mut calls) = (None, 0);
        loop {
            let before = world.waits("q");
            let purged = world.purge_some(client, "q", left).expect("it may");
            calls += 1;
            assert!(purged.count > 0 && purged.count <= PER_CALL as u64);
            assert_eq!(world.waits("q"), before - purged.count as usize);
            assert_eq!(world.waits("q") as u64, purged.left);
            assert_eq!(world.entries_written(), world.waits("q"), "{is_long}");
            let is_done = purged.left == 0;
            assert_eq!(
                world.was_held(client),
                is_done,
                "the answer is held, and last"
            );
            if is_done {
                break;
            }
            left = Some(purged.left);
        }
        assert_eq!(calls, MANY.div_ceil(PER_CALL));
        assert_eq!(world.dropped(DropReason::Purged), MANY as u64);
        assert_eq!(world.kernels[0].bytes_held(), 0);
        world.restart();
        assert_eq!(world.waits("q"), 0, "{is_long}");
    }
}

#[test]
fn a_purge_that_a_crash_cuts_off_has_dropped_the_oldest_and_nothing_else() {
    for is_long in [false, true] {
        for calls in 1..=2 {
            let (mut world, client) = full(is_long);
            let mut left = None;
            for _ in 0..calls {
                left = Some(world.purge_some(client, "q", left).expect("it may").left);
            }
            world.restart();
            let (rest, gone) = (world.drain_texts("q"), calls * PER_CALL);
            let expected: Vec<_> = (gone..MANY).map(|number| number.to_string()).collect();
            assert!(rest == expected, "{is_long}: {} are left", rest.len());
        }
    }
}

#[test]
fn a_purge_ends_however_fast_new_messages_come() {
    let (mut world, client) = full(false);
    let (mut left, mut calls) = (None, 0);
    while left != Some(0) {
        let purged = world.purge_some(client, "q", left).expect("it may");
        left = Some(purged.left);
        calls += 1;
        (0..PER_CALL).for_each(|_| assert_ne!(world.put(client, "q", "new"), Outcome::Full));
    }
    assert_eq!(calls, MANY.div_ceil(PER_CALL));
    assert_eq!(world.dropped(DropReason::Purged), MANY as u64);
}

#[test]
fn many_that_are_settled_together_are_settled_bit_by_bit_and_no_newer_ones() {
    for (verdict, tag) in [
        (Verdict::Accept, 0),
        (Verdict::Reject, 0),
        (Verdict::Accept, MANY as u64),
        (Verdict::Reject, MANY as u64),
    ] {
        let (mut world, client) = full(false);
        world.consume(client, "q", 1, Taking::default());
        assert_eq!(world.kernels[0].totals().in_flight, MANY);
        let mut calls = 1;
        while world.settle(client, 1, tag, true, verdict) == Settled::InPart {
            // It is delivered to the consumer at once; settling all of the line does not include it.
            world.put(client, "q", "new");
            let settled = calls * PER_CALL;
            assert_eq!(world.kernels[0].totals().in_flight, MANY - settled + calls);
            assert_eq!(world.entries_written(), MANY - settled + calls);
            calls += 1;
        }
        assert_eq!(calls, MANY.div_ceil(PER_CALL), "{verdict:?} {tag}");
        assert_eq!(world.kernels[0].totals().in_flight, calls - 1);
        assert_eq!(world.settle(client, 1, 0, true, verdict), Settled::Known);
        assert_eq!(world.kernels[0].totals().in_flight, 0);
    }
}

/// Two consumers had every other message: those of the second come between those of the first.
#[test]
fn many_that_come_back_between_others_are_in_their_order_again() {
    let mut world = World::new();
    let takers = ["a", "b"].map(|name| world.connect(name));
    world.queue(takers[0], "q", &Terms::durable());
    for taker in takers {
        world.consume(taker, "q", 1, Taking::credit(MANY as u32 / 2));
    }
    let client = world.connect("c");
    let texts: Vec<_> = (0..MANY).map(|number| number.to_string()).collect();
    for text in &texts {
        world.put(client, "q", text);
    }
    assert_eq!(world.waits("q"), 0);
    for (taker, back) in takers.into_iter().zip([MANY / 2, MANY]) {
        world.lose(taker);
        assert_eq!(world.waits("q"), back);
    }
    assert!(world.drain_texts("q") == texts);
}

#[test]
fn a_queue_that_ends_is_gone_at_once_and_its_memory_bit_by_bit() {
    for is_long in [false, true] {
        let (mut world, client) = full(is_long);
        let (id, now, out) = (client.session, world.now, &mut world.out);
        let deleted = world.kernels[0].delete_queue(id, &q("q"), false, false, now, out);
        assert_eq!(deleted, Ok(Deleted::Gone(MANY as u64)));
        world.write();
        world.check();
        assert_eq!(world.dropped(DropReason::QueueEnded), MANY as u64);
        assert_eq!((world.entries_written(), world.groups_written()), (0, 0));
        assert_eq!(world.kernels[0].bytes_held(), 0);
        assert_eq!(world.kernels[0].totals().waiting, 0);
        let mut calls = 0;
        while world.kernels[0].has_work() {
            work(&mut world);
            calls += 1;
        }
        if !is_long {
            assert!(calls >= MANY / PER_CALL, "{calls} calls");
        }
        world.restart();
        assert!(world.view("q").is_none());
    }
}

/// A client whose subscriptions stay for an hour when it goes.
fn lasting(world: &mut World) -> Who {
    world.connect_with(0, "lasting", Access::ALL, Span::from_secs(3600))
}

/// Publishes so many messages that have expired ten seconds later, and one that has not; ten seconds pass.
fn publish_to_expire(world: &mut World, count: usize) {
    let publisher = world.connect("publisher");
    for number in 0..count {
        let text = number.to_string();
        let draft = Draft {
            expires_in: Some(Span::from_secs(1)),
            ..firm("t/a", &text)
        };
        assert_eq!(world.publish(publisher, draft), Outcome::Accepted);
    }
    assert_eq!(
        world.publish(publisher, firm("t/a", "live")),
        Outcome::Accepted
    );
    world.now += Span::from_secs(10);
}

/// Makes a call, and then all that the kernel asks for; how many messages expired in one call at most.
fn expire_all<R>(world: &mut World, first: impl FnOnce(&mut World) -> R) -> (usize, R) {
    let before = world.expired();
    let result = first(world);
    let mut most = world.expired() - before;
    let is_due = |world: &World| {
        let kernel = &world.kernels[0];
        kernel.has_work() || kernel.poll_timeout() <= world.now + Span::from_nanos(1)
    };
    while is_due(world) {
        for call in [on_timeout, work] {
            let before = world.expired();
            call(world);
            world.write();
            most = most.max(world.expired() - before);
        }
        world.now += Span::from_nanos(1);
    }
    world.deliver_mails();
    world.check();
    (most, result)
}

#[test]
fn messages_that_expire_in_several_groups_go_bit_by_bit_and_what_lives_is_delivered() {
    const GROUPS: usize = 5;
    const EXPIRED: usize = 1_000;
    for order in [None, Some(OrderKey::Address)] {
        for is_there in [false, true] {
            let policy = GroupPolicy {
                order,
                ..GroupPolicy::new(Filter::new("t/#").expect("legal"))
            };
            let limits = Limits {
                group_policies: Arc::new([policy]),
                ..Limits::default()
            };
            let mut world = World::without_prefixes(1, limits);
            world.turns_wait = true;
            let mut member = lasting(&mut world);
            for group in 0..GROUPS {
                let group = format!("g{group}");
                world.subscribe(member, "t/+", Some(&group), Reliability::AtLeastOnce);
            }
            match is_there {
                true => world.set_room(member, 0),
                false => world.lose(member),
            }
            publish_to_expire(&mut world, EXPIRED);
            let (most, ()) = expire_all(&mut world, |world| match is_there {
                true => world.make_room(member, 100),
                false => on_timeout(world),
            });
            assert!(most <= PER_CALL, "{most} in one call");
            assert_eq!(world.expired(), GROUPS * EXPIRED, "{order:?} {is_there}");
            if !is_there {
                assert_eq!(world.waiting_in_groups(), GROUPS);
                member = lasting(&mut world);
            }
            assert_eq!(
                world.texts(member),
                ["live"; GROUPS],
                "{order:?} {is_there}"
            );
        }
    }
}

#[test]
fn messages_that_expire_in_a_session_go_bit_by_bit_and_what_lives_is_delivered() {
    for comes_back in [false, true] {
        let mut world = World::without_prefixes(1, Limits::default());
        world.turns_wait = true;
        let session = lasting(&mut world);
        world.subscribe(session, "t/+", None, Reliability::AtLeastOnce);
        world.lose(session);
        publish_to_expire(&mut world, MANY);
        let (most, back) = expire_all(&mut world, |world| match comes_back {
            true => Some(lasting(world)),
            false => {
                on_timeout(world);
                None
            }
        });
        assert!(most <= PER_CALL, "{most} in one call");
        assert_eq!(world.expired(), MANY, "{comes_back}");
        let back = back.unwrap_or_else(|| lasting(&mut world));
        assert_eq!(world.texts(back), ["live"], "{comes_back}");
    }
}
