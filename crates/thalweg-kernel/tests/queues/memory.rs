//! Memory besides messages is counted, has bounds of its own, and is released when its object is gone.

use crate::world::{Terms, Who, World, exchange_spec, q, x};
use thalweg_kernel::access::Access;
use thalweg_kernel::{
    Closing, Deleted, ExchangeKind, Kept, Kernel, MemoryView, OpenRefusal, OpenSession, Pressure,
    Refusal, Subscribed, Will,
};
use thalweg_model::{Reliability, RetainOp, Span};

const BUDGET: usize = 1 << 20;

fn limited(shards: u16) -> World {
    let mut world = World::with(shards, thalweg_kernel::Limits::default());
    for kernel in &mut world.kernels {
        kernel.set_memory(MemoryView {
            budget: BUDGET,
            ..MemoryView::default()
        });
    }
    world
}

fn kept(kernel: &Kernel, kind: Kept) -> usize {
    kernel.kept_bytes()[kind as usize]
}

fn will(payload: usize) -> Option<Box<Will>> {
    Some(Box::new(Will {
        address: "gone".into(),
        payload: vec![0; payload].into(),
        reliability: Reliability::AtMostOnce,
        retain: RetainOp::None,
        delay: Span::ZERO,
        expires_in: None,
        properties: None,
    }))
}

fn open(
    world: &mut World,
    like: Who,
    name: &str,
    will: Option<Box<Will>>,
) -> Result<thalweg_kernel::SessionId, OpenRefusal> {
    let link = like.link;
    world.run(like.shard, |kernel, out, now| {
        let open = OpenSession {
            expiry: Span::from_secs(60),
            will,
            ..OpenSession::of_link(name, link, Access::ALL, "test")
        };
        let opened = kernel.open_session(open, now, out)?.session;
        kernel.close_link(opened, link, Closing::Lost, None, now, out);
        Ok(opened)
    })
}

#[test]
fn filters_have_half_of_the_memory_on_every_shard_and_short_ones_are_let_in() {
    let mut world = limited(2);
    let (hoarder, worker) = (world.connect("hoarder"), world.connect("worker"));
    let long = |number: usize| format!("{number}/{}", "x".repeat(10_000));
    let granted = (0..1_000).take_while(|number| {
        matches!(
            world.subscribe(hoarder, &long(*number), None, Reliability::AtLeastOnce),
            Subscribed::Granted(_)
        )
    });
    let granted = granted.count();
    assert!(
        (10..30).contains(&granted),
        "half of a MiB holds {granted} of 10 KB, here twice and there once"
    );
    let everywhere: usize = world.kernels.iter().map(Kernel::kept_beside).sum();
    // Nobody sums up the shards here, so what the other one keeps is not known.
    assert!(everywhere <= BUDGET / 4 * 3, "{everywhere}");
    for kernel in &mut world.kernels {
        kernel.set_pressure(Pressure::DropWaiting);
    }
    assert!(
        matches!(
            world.subscribe(worker, "jobs/+", None, Reliability::AtLeastOnce),
            Subscribed::Granted(_)
        ),
        "who takes messages away comes in"
    );
    assert_eq!(
        world.subscribe(worker, &long(0), None, Reliability::AtLeastOnce),
        Subscribed::TooMany
    );
    for who in [hoarder, worker] {
        world.lose(who);
    }
    for kernel in &world.kernels {
        assert_eq!(
            [
                kept(kernel, Kept::Subscriptions),
                kept(kernel, Kept::Interest),
                kept(kernel, Kept::Sessions)
            ],
            [0; 3]
        );
    }
}

#[test]
fn wills_have_half_of_the_memory_and_a_short_one_keeps_nobody_out() {
    let mut world = limited(1);
    let who = world.connect("first");
    let mut opened = 0;
    let refused = loop {
        match open(&mut world, who, &opened.to_string(), will(50_000)) {
            // Its link is lost at once, and the will with it; but one that is delayed stays.
            Ok(_) => opened += 1,
            Err(refusal) => break Some(refusal),
        }
        if opened == 100 {
            break None;
        }
    };
    assert_eq!(refused, None, "a will that was published is kept no more");
    let before = kept(&world.kernels[0], Kept::Sessions);
    let delayed = |payload| {
        will(payload).map(|will| {
            Box::new(Will {
                delay: Span::from_secs(30),
                ..*will
            })
        })
    };
    let opened = (0..1_000)
        .take_while(|number| open(&mut world, who, &format!("d{number}"), delayed(50_000)).is_ok());
    let opened = opened.count();
    assert!(opened <= 10, "{opened} of 50 KB in half of a MiB");
    world.kernels[0].set_pressure(Pressure::DropWaiting);
    assert!(open(&mut world, who, "worker", delayed(1_000)).is_ok());
    assert_eq!(
        open(&mut world, who, "another", delayed(5_000)),
        Err(OpenRefusal::Overloaded)
    );
    assert!(kept(&world.kernels[0], Kept::Sessions) > before);
    world.wait(Span::from_secs(3_600));
    let left = kept(&world.kernels[0], Kept::Sessions);
    assert!(left < 10_000, "{left} for one session that is left");
}

#[test]
fn messages_alone_keep_nobody_out_and_sessions_do() {
    let mut world = limited(1);
    let who = world.connect("first");
    world.kernels[0].set_pressure(Pressure::RefuseSessions);
    assert!(open(&mut world, who, "consumer", None).is_ok());
    let opened = (0..10_000)
        .take_while(|number| open(&mut world, who, &number.to_string(), None).is_ok())
        .count();
    assert!(
        (10..1_000).contains(&opened),
        "an eighth of a MiB holds {opened} sessions"
    );
}

#[test]
fn queues_and_bindings_count_and_are_refused_by_name() {
    let mut world = limited(1);
    let client = world.connect("c");
    assert_eq!(kept(&world.kernels[0], Kept::Topology), 0);
    world.exchange(client, "e", ExchangeKind::Topic);
    let exchange = kept(&world.kernels[0], Kept::Topology);
    assert!(exchange > 100);
    world.queue(client, "q", &Terms::durable());
    let before = kept(&world.kernels[0], Kept::Topology);
    world.bind(client, "e", "q", "key");
    assert!(kept(&world.kernels[0], Kept::Topology) > before + 100);
    let view = MemoryView {
        pressure: Pressure::RefuseSessions,
        budget: BUDGET,
        beside_elsewhere: BUDGET,
    };
    world.kernels[0].set_memory(view);
    assert_eq!(
        world.bind_with(client, "e", "q", "other", &[]),
        Err(Refusal::Short)
    );
    assert_eq!(
        world.declare_exchange(client, "another", &exchange_spec(ExchangeKind::Fanout)),
        Err(Refusal::Short)
    );
    let address = q("q");
    let deleted = world.run(0, |kernel, out, now| {
        kernel.delete_queue(client.session, &address, false, false, now, out)
    });
    assert_eq!(
        (deleted, kept(&world.kernels[0], Kept::Topology)),
        (Ok(Deleted::Gone(0)), exchange)
    );
    let deleted = world.run(0, |kernel, out, _| {
        kernel.delete_exchange(client.session, &x("e"), false, out)
    });
    assert_eq!(
        (deleted, kept(&world.kernels[0], Kept::Topology)),
        (Ok(()), 0)
    );
}
