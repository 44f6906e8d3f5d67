//! Presence is published at addresses that no client may publish to.

use super::world::{Event, Who, World, draft};
use thalweg_kernel::access::{Access, Otherwise, Permission, Rule, Rules};
use thalweg_kernel::{Closing, KnownAs, Limits, Outcome, WatchRefused};
use thalweg_model::Span;

const SHARDS: u16 = 3;

fn world() -> World {
    World::watched_with(SHARDS, limits())
}

fn limits() -> Limits {
    Limits {
        presence: true,
        ..Limits::default()
    }
}

fn named(name: &str) -> Option<KnownAs<'_>> {
    Some(KnownAs {
        tenant: "",
        name,
        claimed_in: None,
    })
}

/// Delivered presence: the state, and the reason for leaving.
fn told(world: &mut World, who: Who) -> Vec<String> {
    let delivered = |event| match event {
        Event::Delivered(text, _) => text,
        other => panic!("{other:?}"),
    };
    let word = |text: &str, key: &str| {
        let (_, rest) = text.split_once(&format!("\"{key}\":\""))?;
        rest.split('"').next().map(str::to_owned)
    };
    let texts: Vec<String> = world.events(who).into_iter().map(delivered).collect();
    let shown = texts.iter().map(|text| {
        let state = word(text, "state").expect("there is a state");
        word(text, "why").map_or(state.clone(), |why| format!("{state} {why}"))
    });
    shown.collect()
}

fn listener(world: &mut World, shard: usize, filter: &str) -> Who {
    let who = world.connect_on(shard);
    world.listen(who, filter);
    who
}

#[test]
fn coming_and_going_is_told_on_every_shard_with_the_reason() {
    for how in [
        Closing::Clean,
        Closing::CleanWithWill,
        Closing::Lost,
        Closing::Silent,
        Closing::Cut,
    ] {
        for at in 0..usize::from(SHARDS) {
            let mut world = world();
            let listeners: Vec<Who> = (0..usize::from(SHARDS))
                .map(|shard| listener(&mut world, shard, "$presence/+"))
                .collect();
            let pump = world
                .open(at, "pump", named("pump"), true, Span::ZERO)
                .expect("there is room");
            world.close(pump, how);
            let why = match how {
                Closing::Clean | Closing::CleanWithWill => "goodbye",
                Closing::Lost => "lost",
                Closing::Silent => "silent",
                Closing::Cut => "cut",
            };
            for who in listeners {
                assert_eq!(
                    told(&mut world, who),
                    ["online".to_owned(), format!("offline {why}")]
                );
            }
        }
    }
}

#[test]
fn the_message_says_what_it_speaks_and_since_when() {
    let mut world = world();
    let who = listener(&mut world, 0, "$presence/pump");
    let pump = world
        .open(1, "c", named("pump"), true, Span::ZERO)
        .expect("there is room");
    let since = world.now.nanos() / 1_000_000;
    world.close(pump, Closing::Lost);
    let online = format!(r#"{{"state":"online","protocol":"none","since_ms":{since}}}"#);
    let offline =
        format!(r#"{{"state":"offline","protocol":"none","since_ms":{since},"why":"lost"}}"#);
    assert_eq!(
        world.events(who),
        [
            Event::Delivered(online, false),
            Event::Delivered(offline, false)
        ]
    );
}

#[test]
fn who_takes_a_session_over_was_never_gone() {
    for fresh in [false, true] {
        for expiry in [Span::ZERO, Span::from_secs(60)] {
            let mut world = world();
            let who = listener(&mut world, 1, "$presence/#");
            let first = world
                .open(0, "pump", named("pump"), false, expiry)
                .expect("there is room");
            let second = world
                .open(0, "pump", named("pump"), fresh, expiry)
                .expect("there is room");
            assert_eq!(
                told(&mut world, who),
                ["online", "online"],
                "fresh {fresh}, {expiry:?}"
            );
            // The first link's end publishes nothing.
            world.close(first, Closing::Lost);
            assert!(told(&mut world, who).is_empty());
            world.close(second, Closing::Lost);
            assert_eq!(told(&mut world, who), ["offline lost"]);
        }
    }
}

#[test]
fn a_name_is_here_as_long_as_anybody_has_it() {
    let mut world = world();
    let who = listener(&mut world, 2, "$presence/#");
    let one = world
        .open(0, "a", named("gateway"), true, Span::ZERO)
        .expect("there is room");
    let other = world
        .open(1, "b", named("gateway"), true, Span::ZERO)
        .expect("there is room");
    let third = world
        .open(2, "c", named("gateway"), true, Span::ZERO)
        .expect("there is room");
    assert_eq!(told(&mut world, who), ["online", "online", "online"]);
    world.close(one, Closing::Lost);
    assert!(
        told(&mut world, who).is_empty(),
        "what was told still holds"
    );
    world.close(third, Closing::Lost);
    assert_eq!(told(&mut world, who), ["online"], "as the one that is left");
    world.close(other, Closing::Clean);
    assert_eq!(told(&mut world, who), ["offline goodbye"]);
}

#[test]
fn a_name_that_is_only_claimed_is_told_apart_from_those_that_somebody_has() {
    let mut world = world();
    let (owned, claimed) = (
        listener(&mut world, 2, "$presence/+"),
        listener(&mut world, 1, "$presence/wire/#"),
    );
    let names = ["pump", "pump", "pump", "pump:1", "pump:1:2"];
    let users = [
        None,
        Some("mallory"),
        Some("pump"),
        Some("pump"),
        Some("pump"),
    ];
    let mut seen = Vec::new();
    for (number, (name, user)) in names.into_iter().zip(users).enumerate() {
        let known_as = KnownAs {
            tenant: "",
            name,
            claimed_in: Some("wire"),
        };
        let client = format!("auto-{number}");
        world
            .open_as(user, number % 3, &client, Some(known_as), true, Span::ZERO)
            .expect("there is room");
        seen.push((
            told(&mut world, owned).len(),
            told(&mut world, claimed).len(),
        ));
    }
    // Unknown, and another's; its own, and one that begins with it; another's with a longer name.
    assert_eq!(seen, [(0, 1), (0, 1), (1, 0), (1, 0), (0, 1)]);
    // Objects found by a user's name are that user's.
    world
        .open(0, "pump", named("pump"), true, Span::ZERO)
        .expect("there is room");
    assert_eq!(
        (
            told(&mut world, owned).len(),
            told(&mut world, claimed).len()
        ),
        (1, 0)
    );
}

#[test]
fn who_comes_later_finds_who_is_here_and_who_left_lately() {
    let mut world = world();
    let gone = world
        .open(0, "gone", named("gone"), true, Span::ZERO)
        .expect("there is room");
    world
        .open(1, "here", named("here"), true, Span::ZERO)
        .expect("there is room");
    world.connect_on(2);
    world.close(gone, Closing::Silent);
    let who = listener(&mut world, 2, "$presence/+");
    let mut found = told(&mut world, who);
    found.sort();
    assert_eq!(
        found,
        ["offline silent", "online"],
        "and nothing of whoever has no name"
    );
    world.now += Span::from_secs(3600);
    let who = listener(&mut world, 2, "$presence/+");
    assert_eq!(told(&mut world, who), ["online"]);
}

#[test]
fn names_that_come_once_do_not_add_up() {
    let mut world = World::watched_with(
        1,
        Limits {
            presence_offline_max: 10,
            ..limits()
        },
    );
    let live = listener(&mut world, 0, "$presence/+");
    for round in 0..100 {
        let name = format!("n{round}");
        let one = world
            .open(0, &name, named(&name), true, Span::ZERO)
            .expect("there is room");
        world.close(one, Closing::Lost);
    }
    assert_eq!(
        told(&mut world, live).len(),
        200,
        "whoever listens hears of all"
    );
    assert_eq!(world.kernels[0].totals().retained, 10);
    world.now += Span::from_secs(3600);
    let one = world
        .open(0, "late", named("late"), true, Span::ZERO)
        .expect("there is room");
    world.close(one, Closing::Lost);
    let who = listener(&mut world, 0, "$presence/+");
    assert_eq!(told(&mut world, who), ["offline lost"], "time makes room");
}

#[test]
fn nothing_stays_of_who_left_where_that_is_wished() {
    let mut world = World::watched_with(
        SHARDS,
        Limits {
            presence_offline: Span::ZERO,
            ..limits()
        },
    );
    let one = world
        .open(0, "pump", named("pump"), true, Span::ZERO)
        .expect("there is room");
    world.close(one, Closing::Lost);
    let who = listener(&mut world, 1, "$presence/#");
    assert!(told(&mut world, who).is_empty());
    assert!(
        world
            .kernels
            .iter()
            .all(|kernel| kernel.totals().retained == 0)
    );
}

#[test]
fn a_session_that_waits_is_offline_and_its_end_is_not_told() {
    let mut world = world();
    let who = listener(&mut world, 1, "$presence/#");
    let pump = world
        .open(0, "pump", named("pump"), false, Span::from_secs(60))
        .expect("there is room");
    world.close(pump, Closing::Lost);
    assert_eq!(told(&mut world, who), ["online", "offline lost"]);
    let pump = world
        .open(0, "pump", named("pump"), false, Span::from_secs(60))
        .expect("there is room");
    assert_eq!(told(&mut world, who), ["online"]);
    world.close(pump, Closing::Clean);
    world.now += Span::from_secs(61);
    world.run(0, |kernel, out, now| kernel.on_timeout(now, out));
    assert_eq!(world.kernels[0].totals().sessions, 0);
    assert_eq!(told(&mut world, who), ["offline goodbye"]);
}

#[test]
fn an_operator_cuts() {
    let mut world = world();
    let who = listener(&mut world, 1, "$presence/#");
    world
        .open(0, "pump", named("pump"), false, Span::from_secs(60))
        .expect("there is room");
    world.run(0, |kernel, out, now| {
        assert!(kernel.kick("pump", thalweg_kernel::CloseReason::Kicked, true, now, out));
    });
    assert_eq!(told(&mut world, who), ["online", "offline cut"]);
}

#[test]
fn whoever_is_refused_while_taking_over_has_left() {
    let mut world = world();
    let who = listener(&mut world, 1, "$presence/#");
    world
        .open(0, "pump", named("pump"), true, Span::ZERO)
        .expect("there is room");
    world.run(0, |kernel, _, _| {
        let pressure = thalweg_kernel::Pressure::RefuseSessions;
        kernel.set_memory(thalweg_kernel::MemoryView {
            pressure,
            budget: 10_000,
            beside_elsewhere: 2_000,
        });
    });
    assert!(
        world
            .open(0, "pump", named("pump"), true, Span::ZERO)
            .is_none()
    );
    assert_eq!(told(&mut world, who), ["online", "offline cut"]);
}

#[test]
fn a_tenants_clients_are_told_of_apart() {
    let mut world = world();
    let plain = listener(&mut world, 0, "$presence/#");
    let apart = world.connect_in_tenant("blue", 0, Access::ALL, Span::ZERO);
    world.listen(apart, "$presence@blue/+");
    // As a wildcard over all of the tenant's own addresses reads.
    let tenant = world.connect_in_tenant("blue", 1, Access::ALL, Span::ZERO);
    world.listen(tenant, "$t@blue/#");
    world
        .open(
            2,
            "c",
            Some(KnownAs {
                tenant: "blue",
                name: "pump",
                claimed_in: None,
            }),
            true,
            Span::ZERO,
        )
        .expect("there is room");
    assert_eq!(told(&mut world, apart), ["online"]);
    assert!(told(&mut world, plain).is_empty() && told(&mut world, tenant).is_empty());
}

#[test]
fn nobody_publishes_there_whatever_the_rules_say() {
    let all = Rules::new(
        vec![Rule::allow(Permission::Publish, "$presence/#")],
        Otherwise::Allow,
    )
    .expect("legal");
    for presence in [true, false] {
        let mut world = World::watched_with(
            SHARDS,
            Limits {
                presence,
                ..Limits::default()
            },
        );
        for access in [Access::ALL, all.compile("", None)] {
            let liar = world.connect_as(0, access);
            for address in [
                "$presence/pump",
                "$presence",
                "$presence@blue/pump",
                "$presence/a/b",
            ] {
                assert_eq!(
                    world.publish(liar, draft(address, "online")),
                    Outcome::Denied,
                    "{address}"
                );
            }
            assert_ne!(
                world.publish(liar, draft("$presences", "x")),
                Outcome::Denied
            );
        }
    }
}

#[test]
fn rules_say_who_may_know() {
    let mut world = world();
    let rules = Rules::new(
        vec![Rule::allow(thalweg_kernel::access::Permissions::ALL, "#")],
        Otherwise::Deny,
    );
    let access = rules.expect("legal").compile("", None);
    let curious = world.connect_as(0, access);
    assert_eq!(
        world.try_watch(curious, "$presence/pump", 1).err(),
        Some(WatchRefused::Denied)
    );
    let wildcard = listener(&mut world, 0, "#");
    world
        .open(2, "pump", named("pump"), true, Span::ZERO)
        .expect("there is room");
    assert!(
        told(&mut world, wildcard).is_empty(),
        "a wildcard at the root does not reach there"
    );
}

#[test]
fn where_nothing_is_told_nobody_waits_for_it() {
    let mut world = World::watched(SHARDS);
    let who = world.connect_on(0);
    assert_eq!(
        world.try_watch(who, "$presence/pump", 1).err(),
        Some(WatchRefused::Denied)
    );
    world
        .open(0, "pump", named("pump"), true, Span::ZERO)
        .expect("there is room");
    assert!(
        world
            .kernels
            .iter()
            .all(|kernel| kernel.totals().retained == 0 && kernel.ledger().own == 0)
    );
}
