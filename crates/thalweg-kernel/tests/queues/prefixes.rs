//! Subscriptions to a byte prefix.

use crate::world::{Who, World, firm};
use thalweg_kernel::access::Permission::{Receive, Subscribe};
use thalweg_kernel::access::{Access, Otherwise, Permissions, Rule, Rules};
use thalweg_kernel::{DropReason, Limits, Outcome, Subscribed};
use thalweg_model::{Filter, Reliability, Span};

const FIRM: Reliability = Reliability::AtLeastOnce;

fn prefix(text: &str) -> String {
    Filter::prefix(text).expect("legal").as_str().to_owned()
}

fn connect_on(world: &mut World, shard: usize, expiry: Span) -> Who {
    let name = world.name_on(shard);
    world.connect_with(shard, &name, Access::ALL, expiry)
}

#[test]
fn what_begins_with_the_prefix_comes_from_every_shard_and_nothing_else() {
    let mut world = World::without_prefixes(2, Limits::default());
    let here = connect_on(&mut world, 0, Span::ZERO);
    let away = connect_on(&mut world, 1, Span::ZERO);
    let granted = world.subscribe(here, &prefix("plant/ha"), None, FIRM);
    assert_eq!(granted, Subscribed::Granted(FIRM));
    for from in [here, away] {
        world.publish(from, firm("plant/hall/1", "in"));
        world.publish(from, firm("plant/ha", "itself"));
        world.publish(from, firm("plant/h", "out"));
    }
    assert_eq!(world.texts(here), ["in", "itself", "in", "itself"]);
    world.unsubscribe(here, &prefix("plant/ha"), None);
    assert_eq!(
        world.publish(away, firm("plant/hall/1", "gone")),
        Outcome::NoMatch
    );
}

#[test]
fn a_route_that_was_remembered_learns_of_a_prefix_that_ends_in_the_first_level() {
    let mut world = World::without_prefixes(1, Limits::default());
    let who = world.connect("c");
    assert_eq!(world.publish(who, firm("plant/1", "0")), Outcome::NoMatch);
    world.subscribe(who, &prefix("pla"), None, FIRM);
    assert_eq!(world.publish(who, firm("plant/1", "1")), Outcome::Accepted);
    assert_eq!(world.texts(who), ["1"]);
}

#[test]
fn the_empty_prefix_hides_reserved_addresses_and_half_a_reserved_level_is_no_prefix() {
    let mut world = World::without_prefixes(1, Limits::default());
    let who = world.connect("c");
    world.subscribe(who, &prefix(""), None, FIRM);
    assert_eq!(
        world.publish(who, firm("$jobs/x", "hidden")),
        Outcome::NoMatch
    );
    world.publish(who, firm("jobs/x", "shown"));
    assert_eq!(world.texts(who), ["shown"]);
    let refused = world.subscribe(who, "$jo\0", None, FIRM);
    assert_eq!(refused, Subscribed::BadFilter);
    let shared = world.subscribe(who, &prefix("jobs/"), Some("g"), FIRM);
    assert_eq!(shared, Subscribed::BadFilter);
}

#[test]
fn a_rule_must_cover_all_that_a_prefix_reaches_and_deliveries_are_judged_one_by_one() {
    let mut world = World::without_prefixes(1, Limits::default());
    let admin = world.connect("admin");
    let rules = [
        Rule::allow(Permissions::READ, "plant/hall/#"),
        Rule::deny(Receive, "plant/hall/secret"),
        Rule::allow(Subscribe, "$SYS/#"),
    ];
    let access = Rules::new(rules.to_vec(), Otherwise::Deny)
        .expect("legal")
        .compile("c", None);
    let who = world.connect_with(0, "c", access, Span::ZERO);
    for wider in ["", "plant", "plant/", "plant/hall", "$SYS2/"] {
        let answer = world.subscribe(who, &prefix(wider), None, FIRM);
        assert_eq!(answer, Subscribed::Denied, "{wider}");
    }
    for covered in ["plant/hall/", "plant/hall/s", "$SYS/broker"] {
        let answer = world.subscribe(who, &prefix(covered), None, FIRM);
        assert_eq!(answer, Subscribed::Granted(FIRM), "{covered}");
    }
    world.publish(admin, firm("plant/hall/secret", "secret"));
    world.publish(admin, firm("plant/hall/sensor", "open"));
    assert_eq!(world.texts(who), ["open"]);
}

#[test]
fn switched_off_wildcards_are_switched_off_for_prefixes() {
    let limits = Limits {
        wildcards_enabled: false,
        ..Limits::default()
    };
    let mut world = World::without_prefixes(1, limits);
    let who = world.connect("c");
    let answer = world.subscribe(who, &prefix("plant/"), None, FIRM);
    assert_eq!(answer, Subscribed::NoWildcards);
}

#[test]
fn a_prefix_of_a_durable_session_comes_back_with_it() {
    let mut world = World::without_prefixes(2, Limits::default());
    let name = world.name_on(0);
    let expiry = Span::from_secs(3600);
    let who = world.connect_with(0, &name, Access::ALL, expiry);
    world.subscribe(who, &prefix("plant/"), None, FIRM);
    world.lose(who);
    world.restart();
    let other = connect_on(&mut world, 1, Span::ZERO);
    assert_eq!(
        world.publish(other, firm("plant/1", "kept")),
        Outcome::Accepted
    );
    let who = world.connect_with(0, &name, Access::ALL, expiry);
    assert_eq!(world.texts(who), ["kept"]);
    assert_eq!(world.dropped(DropReason::QueueFull), 0);
}
