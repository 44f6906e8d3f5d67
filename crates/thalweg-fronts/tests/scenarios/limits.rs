//! Limits, and the behaviour at them.

use crate::world::Packet;
use crate::world::{Hello, World, staying};
use thalweg_fronts::LinksLimits;
use thalweg_kernel::{DropReason, Limits, MemoryView, Overflow, Pressure};
use thalweg_model::Span;
use thalweg_mqtt::{PublishOut, QoS, ReasonCode, WillOut};

/// Publishes "0" to "5" to a session that is away and whose queue holds three; what it gets when it is back.
fn after_overflow(overflow: Overflow) -> Vec<String> {
    let limits = Limits {
        queue_messages_max: 3,
        overflow,
        ..Limits::default()
    };
    let mut world = World::with(1, limits, LinksLimits::default());
    let (away, _) = world.connect_with("c", &staying());
    world.subscribe(away, "t", QoS::AtLeastOnce);
    world.lose(away);
    let publisher = world.connect("p");
    let refused = (0..6)
        .filter(|number| world.is_refused(publisher, "t", &number.to_string()))
        .count();
    assert_eq!(
        refused,
        if overflow == Overflow::DropOldest {
            0
        } else {
            3
        },
        "{overflow:?}"
    );
    let dropped = world.sum(|kernel| kernel.ledger().dropped[DropReason::QueueFull as usize]);
    assert_eq!(dropped, 3, "{overflow:?}");
    let (back, _) = world.connect_with("c", &staying());
    world.texts(back)
}

#[test]
fn a_full_queue_drops_the_newest_or_the_oldest_as_configured() {
    assert_eq!(after_overflow(Overflow::DropNewest), ["0", "1", "2"]);
    assert_eq!(after_overflow(Overflow::DropOldest), ["3", "4", "5"]);
    assert_eq!(after_overflow(Overflow::Disconnect), ["0", "1", "2"]);
}

#[test]
fn a_full_queue_ends_the_link_if_configured_and_the_queue_stays() {
    let limits = Limits {
        queue_messages_max: 2,
        overflow: Overflow::Disconnect,
        ..Limits::default()
    };
    let mut world = World::with(1, limits, LinksLimits::default());
    let hello = Hello {
        receive_max: 1,
        ..staying()
    };
    let (slow, _) = world.connect_with("c", &hello);
    world.subscribe(slow, "t", QoS::AtLeastOnce);
    world.answer(slow, false);
    let publisher = world.connect("p");
    let refused: Vec<bool> = (0..4)
        .map(|number| world.is_refused(publisher, "t", &number.to_string()))
        .collect();
    assert_eq!(
        refused,
        [false, false, false, true],
        "one is in flight, two wait"
    );
    assert_eq!(
        world.heard(slow),
        Some(Packet::Disconnect(ReasonCode::QuotaExceeded))
    );
    assert!(world.is_closed(slow));
    let (back, _) = world.connect_with("c", &hello);
    assert_eq!(world.texts(back), ["0", "1", "2"]);
}

#[test]
fn dropping_the_oldest_makes_room_for_as_many_bytes_as_the_newcomer_has() {
    let limits = Limits {
        queue_bytes_max: 4000,
        overflow: Overflow::DropOldest,
        ..Limits::default()
    };
    let mut world = World::with(1, limits, LinksLimits::default());
    let (away, _) = world.connect_with("c", &staying());
    world.subscribe(away, "t", QoS::AtLeastOnce);
    world.lose(away);
    let publisher = world.connect("p");
    for length in [1; 20].into_iter().chain([1000; 20]) {
        world.publish(publisher, "t", &"x".repeat(length), QoS::AtLeastOnce);
        assert!(world.sum(|kernel| kernel.bytes_held() as u64) <= 4000);
    }
    assert!(world.is_refused(publisher, "t", &"y".repeat(9000)));
    let (back, _) = world.connect_with("c", &staying());
    let lengths: Vec<usize> = world.texts(back).iter().map(String::len).collect();
    assert_eq!(lengths, [1000; 3], "what never fits is refused itself");
}

#[test]
fn under_pressure_nothing_waits_and_then_nobody_new_comes_in() {
    let mut world = World::new(1);
    let (away, _) = world.connect_with("away", &staying());
    let here = world.connect("here");
    for who in [away, here] {
        world.subscribe(who, "t", QoS::AtLeastOnce);
    }
    world.lose(away);
    let publisher = world.connect("p");
    world.bed.shards[0]
        .kernel
        .set_pressure(Pressure::DropWaiting);
    let firm = PublishOut {
        qos: QoS::AtLeastOnce,
        topic: "t",
        payload: b"1",
        ..PublishOut::default()
    };
    assert_eq!(
        world.publish_with(publisher, &firm),
        ReasonCode::QuotaExceeded
    );
    assert_eq!(
        world.texts(here),
        [""; 0],
        "one of two would have to keep it, so it is refused"
    );
    assert_eq!(
        world.sum(|kernel| kernel.ledger().dropped[DropReason::Memory as usize]),
        0
    );
    world.publish(publisher, "t", "0", QoS::AtMostOnce);
    assert_eq!(world.texts(here), ["0"], "what can leave at once does");
    world.bed.shards[0]
        .kernel
        .set_pressure(Pressure::RefuseSessions);
    world.connect("who takes what waits");
    // Now it is sessions that take the memory.
    let view = MemoryView {
        pressure: Pressure::RefuseSessions,
        budget: 10_000,
        beside_elsewhere: 2_000,
    };
    world.bed.shards[0].kernel.set_memory(view);
    let (_, present) = world.connect_with("away", &staying());
    assert!(present, "a session that exists goes on");
    let newcomer = world.try_connect("newcomer", &Hello::default());
    let refused = Packet::ConnAck {
        present: false,
        reason: ReasonCode::ServerBusy,
    };
    assert_eq!(world.heard(newcomer), Some(refused));
    assert!(world.is_closed(newcomer));
}

#[test]
fn a_publisher_over_its_rate_is_not_read_until_it_is_within_it() {
    let limits = Limits {
        publish_rate: 2,
        ..Limits::default()
    };
    let mut world = World::with(1, limits, LinksLimits::default());
    let subscriber = world.connect("s");
    world.subscribe(subscriber, "t", QoS::AtLeastOnce);
    let publisher = world.connect("p");
    for number in 0..6_u8 {
        let publish = PublishOut {
            qos: QoS::AtLeastOnce,
            topic: "t",
            payload: &[b'0' + number],
            ..PublishOut::default()
        };
        world.write(publisher, &publish);
    }
    world.rest();
    let first = world.texts(subscriber).len();
    assert!(
        (2..=3).contains(&first),
        "{first} at once, two per second allowed"
    );
    let mut all = first;
    for _ in 0..10 {
        world.wait(Span::from_millis(500));
        let now = world.texts(subscriber).len();
        assert!(now <= 2, "{now} in half a second");
        all += now;
    }
    assert_eq!(all, 6, "nothing is lost");
}

#[test]
fn a_slow_reader_loses_qos_0_and_keeps_qos_1() {
    let outputs = LinksLimits {
        output_high: 200,
        output_max: 400,
        ..LinksLimits::default()
    };
    let mut world = World::with(1, Limits::default(), outputs);
    let slow = world.connect("slow");
    world.subscribe(slow, "t/#", QoS::AtLeastOnce);
    world.read(slow, false);
    let publisher = world.connect("p");
    for number in 10..60 {
        world.publish(publisher, "t/0", &number.to_string(), QoS::AtMostOnce);
        world.publish(publisher, "t/1", &number.to_string(), QoS::AtLeastOnce);
    }
    let pipe = slow;
    assert!(world.bed.waiting(pipe) <= 400 + 20, "output is bounded");
    world.read(slow, true);
    let got = world.messages(slow);
    let sure: Vec<_> = got
        .iter()
        .filter(|got| got.qos == QoS::AtLeastOnce)
        .map(|got| got.payload.clone())
        .collect();
    assert_eq!(
        sure,
        (10..60)
            .map(|number| number.to_string().into_bytes())
            .collect::<Vec<_>>()
    );
    let lost = world.sum(|kernel| kernel.ledger().dropped[DropReason::SlowReceiver as usize]);
    assert_eq!(lost as usize + got.len() - sure.len(), 50);
    assert!(lost > 0);
}

#[test]
fn full_queues_whose_wills_fill_other_queues_do_not_exhaust_the_stack() {
    const SESSIONS: usize = 2000;
    let limits = Limits {
        queue_messages_max: 1,
        overflow: Overflow::Disconnect,
        ..Limits::default()
    };
    let mut world = World::with(1, limits, LinksLimits::default());
    let message = PublishOut {
        qos: QoS::AtLeastOnce,
        topic: "t",
        payload: b"will",
        ..PublishOut::default()
    };
    let will = Some(WillOut {
        message,
        delay_secs: 0,
    });
    let hello = Hello {
        receive_max: 1,
        will,
        ..staying()
    };
    for number in 0..SESSIONS {
        world.leave_alone(&format!("c{number}"), &hello, "t");
    }
    let publisher = world.open("p", &Hello::default());
    world.bed.feed(publisher, usize::MAX);
    // One in flight, one in the queue, and one too many: every session is thrown out, and each leaves a will to the
    // others.
    for _ in 1..=3 {
        world.write(publisher, &message);
        world.bed.feed(publisher, usize::MAX);
    }
    while world.bed.tick(0) {}
    assert_eq!(
        world.bed.total(|totals| totals.sessions_online),
        1,
        "only the publisher is left"
    );
}
