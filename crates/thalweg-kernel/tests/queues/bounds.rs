//! No call does work without bound: what is left goes on in the next one, and may be cut off in between.

use crate::world::{Taking, Terms, Who, World, firm, q, to_queue, x};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Draft, Verdict, Will};
use thalweg_model::{Reliability, RetainOp, Span};

/// More than one call does.
const MANY: usize = 5_000;
/// What one call may do.
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
        let now = world.now;
        world.kernels[0].settle_line(
            client.session,
            1,
            0,
            true,
            Verdict::Reject,
            now,
            &mut world.out,
        );
        world.write();
        assert_eq!(world.waits("dead"), PER_CALL);
        assert!(world.kernels[0].has_work());
        let mut calls = 0;
        while calls < ends_after && world.kernels[0].has_work() {
            work(&mut world);
            world.write();
            calls += 1;
        }
        if ends_after == usize::MAX {
            assert!(calls > 1, "{calls}");
            assert_eq!(world.waits("dead"), MANY);
            world.check();
        }
        // What has not gone its way is where it was.
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
    let now = world.now;
    world.kernels[0].settle_line(
        client.session,
        1,
        0,
        true,
        Verdict::Reject,
        now,
        &mut world.out,
    );
    world.write();
    assert_eq!(
        (world.waits("dead"), world.kernels[0].has_work()),
        (0, false)
    );
    assert_eq!(
        world.kernels[0].bytes_held(),
        (0..MANY).map(bytes_of).sum::<usize>()
    );
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
    let now = world.now;
    world.kernels[0].settle_line(
        client.session,
        1,
        0,
        true,
        Verdict::Reject,
        now,
        &mut world.out,
    );
    world.write();
    world.delete_queue(client, "in").expect("it may");
    world.check();
    world.restart();
    assert_eq!(world.waits("dead"), MANY);
}

#[test]
fn wills_that_are_due_together_after_a_restart_are_published_bit_by_bit() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "dead", &Terms::durable());
    world.exchange(client, "wills", thalweg_kernel::ExchangeKind::Fanout);
    world.bind(client, "wills", "dead", "");
    for number in 0..10_000 {
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
    assert_eq!(world.waits("dead"), 10_000);
    let client = world.connect_with(0, "c", Access::ALL, Span::ZERO);
    world.publish(
        client,
        Draft {
            ticket: 1,
            ..firm(&q("dead"), "last")
        },
    );
    assert_eq!(world.waits("dead"), 10_001);
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
