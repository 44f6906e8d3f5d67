//! Who may watch and read.

use crate::world::{Event, World, retained};
use thalweg_kernel::access::{Access, Otherwise, Permission, Permissions, Rule, Rules};
use thalweg_kernel::{DropReason, WatchEnd, WatchRefused};

fn access(rules: Vec<Rule>) -> Access {
    Rules::new(rules, Otherwise::Deny).expect("patterns").compile("client", None)
}

#[test]
fn watching_and_reading_need_the_right_to_subscribe_and_to_receive() {
    let see = Permissions::NONE.with(Permission::Subscribe).with(Permission::Receive);
    for (permissions, may) in [(see, true), (Permission::Subscribe.into(), false), (Permission::Receive.into(), false)]
    {
        let mut world = World::new(1);
        let reader = world.connect_with(0, access(vec![Rule::allow(permissions, "a")]));
        let writer = world.connect(0);
        world.publish(writer, retained("a", "1"));
        assert_eq!(world.read(reader, "a").is_some(), may, "{permissions:?}");
        match world.try_watch(reader, "a", 1) {
            Ok(_) => assert!(may, "{permissions:?}"),
            Err(why) => assert!(!may && why == WatchRefused::Denied, "{permissions:?}"),
        }
        assert_eq!(world.try_watch(reader, "b", 1).unwrap_err(), WatchRefused::Denied);
    }
}

#[test]
fn a_watch_ends_when_its_session_may_not_see_the_address_any_more() {
    let mut world = World::new(1);
    let (reader, writer) = (world.connect(0), world.connect(0));
    let (denied, _) = world.begin(reader, "a", 1);
    let (allowed, _) = world.begin(reader, "b", 1);
    world.publish(writer, retained("a", "1"));
    world.publish(writer, retained("b", "1"));
    world.events(reader);
    let rules = access(vec![Rule::allow(Permissions::ALL, "b")]);
    world.run(0, |kernel, _, _| {
        kernel.renew_access(|client, _| if client == "client-0" { rules.clone() } else { Access::ALL })
    });
    // Before anybody has looked, nothing comes out any more.
    assert_eq!(world.take_all(denied), [""; 0]);
    assert!(world.kernels[0].has_work());
    world.run(0, |kernel, out, now| kernel.work(now, out));
    assert_eq!(world.events(reader), [Event::Ended(denied.cookie, WatchEnd::NotAuthorized)]);
    assert_eq!(world.dropped(DropReason::AccessDenied), 1);
    assert_eq!(world.take_all(allowed), ["1"]);
    assert_eq!(world.kernels[0].totals().watches, 1);
}

#[test]
fn nothing_comes_to_a_watch_whose_session_has_just_lost_the_right() {
    let mut world = World::new(1);
    let (reader, writer) = (world.connect(0), world.connect(0));
    let (watch, _) = world.begin(reader, "a", 1);
    world.run(0, |kernel, _, _| kernel.set_access(reader.session, access(Vec::new())));
    world.publish(writer, retained("a", "1"));
    assert_eq!(world.events(reader), [Event::Ended(watch.cookie, WatchEnd::NotAuthorized)]);
}

#[test]
fn a_list_is_full_of_what_its_reader_may_receive() {
    let mut world = World::new(2);
    let rules = vec![Rule::allow(Permission::Subscribe, "a/#"), Rule::allow(Permission::Receive, "a/+/open")];
    let reader = world.connect_with(0, access(rules));
    let writer = world.connect(1);
    for number in 0..60 {
        let kind = if number < 40 { "secret" } else { "open" };
        world.publish(writer, retained(&format!("a/{number}/{kind}"), "x"));
    }
    for (max, complete) in [(3, false), (19, false), (20, true), (21, true)] {
        let (values, is_complete) = world.list(reader, "a/#", max).expect("it may");
        assert_eq!((values.len(), is_complete), (max.min(20), complete), "{max}");
        assert_eq!(values[0], "a/40/open=x");
    }
}

#[test]
fn a_list_holds_only_what_its_reader_may_receive() {
    let mut world = World::new(2);
    let rules = vec![Rule::allow(Permission::Subscribe, "a/#"), Rule::allow(Permission::Receive, "a/+/open")];
    let reader = world.connect_with(0, access(rules));
    let writer = world.connect(1);
    for address in ["a/1/open", "a/2/secret", "a/3/open"] {
        world.publish(writer, retained(address, "x"));
    }
    let expected = vec!["a/1/open=x".to_owned(), "a/3/open=x".to_owned()];
    assert_eq!(world.list(reader, "a/#", 100), Some((expected, true)));
    let first = vec!["a/1/open=x".to_owned()];
    assert_eq!(world.list(reader, "a/#", 1), Some((first, false)));
    assert_eq!(world.list(reader, "b/#", 100), None);
    assert_eq!(world.list(reader, "a/#/b", 100), None);
}
