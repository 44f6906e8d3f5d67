//! Copies that are sent at most once and wait for a while.

use crate::world::{Who, World, firm};
use thalweg_kernel::{Draft, DropReason, Limits, Outcome};
use thalweg_model::{Reliability, Span};

const AT_MOST_ONCE: Reliability = Reliability::AtMostOnce;

fn world() -> (World, Who, Who) {
    let mut world = World::without_prefixes(1, Limits::default());
    let slow = world.connect_with_high_water(0, "slow", 3);
    let publisher = world.connect("publisher");
    world.subscribe(slow, "t", None, AT_MOST_ONCE);
    (world, slow, publisher)
}

fn loose<'a>(address: &'a str, text: &'a str) -> Draft<'a> {
    Draft {
        reliability: AT_MOST_ONCE,
        ..firm(address, text)
    }
}

#[test]
fn what_does_not_fit_waits_up_to_the_mark_in_order_and_the_newest_is_dropped() {
    let (mut world, slow, publisher) = world();
    let other = world.connect("other");
    world.subscribe(other, "t", None, AT_MOST_ONCE);
    world.set_room(slow, 1);
    for number in 0..6 {
        let text = number.to_string();
        assert_eq!(
            world.publish(publisher, loose("t", &text)),
            Outcome::Accepted
        );
    }
    assert_eq!(world.texts(slow), ["0"]);
    assert_eq!(world.dropped(DropReason::QueueFull), 2);
    assert_eq!(world.dropped(DropReason::SlowReceiver), 0);
    world.make_room(slow, 2);
    assert_eq!(world.texts(slow), ["1", "2"]);
    // A new message does not overtake waiting ones.
    world.publish(publisher, loose("t", "6"));
    world.make_room(slow, 10);
    world.publish(publisher, loose("t", "7"));
    assert_eq!(world.texts(slow), ["3", "6", "7"]);
    assert_eq!(world.texts(other).len(), 8);
    assert_eq!(world.entries_written(), 0);
}

#[test]
fn an_output_that_is_full_without_warning_loses_nothing_that_waits() {
    let (mut world, slow, publisher) = world();
    world.set_room(slow, 0);
    world.publish(publisher, loose("t", "0"));
    world.publish(publisher, loose("t", "1"));
    world.make_room(slow, 0);
    world.make_room(slow, 1);
    world.make_room(slow, 5);
    assert_eq!(world.texts(slow), ["0", "1"]);
    assert_eq!(world.dropped(DropReason::QueueFull), 0);
}

#[test]
fn what_waits_expires_and_ends_with_the_connection() {
    let (mut world, slow, publisher) = world();
    world.set_room(slow, 0);
    let short = Draft {
        expires_in: Some(Span::from_secs(1)),
        ..loose("t", "short")
    };
    world.publish(publisher, short);
    world.publish(publisher, loose("t", "long"));
    world.wait(Span::from_secs(2));
    world.make_room(slow, 1);
    assert_eq!(world.texts(slow), ["long"]);
    world.set_room(slow, 0);
    world.publish(publisher, loose("t", "left"));
    world.lose(slow);
    assert_eq!(
        world.publish(publisher, loose("t", "gone")),
        Outcome::NoMatch
    );
}

#[test]
fn a_publisher_that_waits_for_others_does_not_wait_for_it() {
    let (mut world, slow, publisher) = world();
    world.set_room(slow, 0);
    for number in 0..6 {
        let text = number.to_string();
        assert_eq!(
            world.publish(publisher, firm("t", &text)),
            Outcome::Accepted
        );
    }
    assert_eq!(world.dropped(DropReason::QueueFull), 3);
}

#[test]
fn without_a_mark_what_does_not_fit_is_dropped_at_once() {
    let mut world = World::without_prefixes(1, Limits::default());
    let (slow, publisher) = (world.connect("slow"), world.connect("publisher"));
    world.subscribe(slow, "t", None, AT_MOST_ONCE);
    world.set_room(slow, 0);
    world.publish(publisher, loose("t", "0"));
    assert_eq!(world.dropped(DropReason::SlowReceiver), 1);
}
