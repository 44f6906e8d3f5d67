//! Identities of peers, and the fate of their observations and requests when that changes.

use crate::world::{Manner, World};
use thalweg_fronts::coap::CoapSettings;
use thalweg_fronts::{LoginAnswer, LoginAsk, LoginRefusal};
use thalweg_kernel::access::{Access, Otherwise, Permission, Rule, Rules};
use thalweg_kernel::{CloseReason, Limits};
use thalweg_model::{Span, Time};
use thalweg_mqtt::QoS;

fn closed() -> World {
    World::with(1, Limits::default(), CoapSettings::default(), None)
}

fn allowed(user: &str, access: Access, expires: Option<Time>) -> LoginAnswer {
    LoginAnswer::Allowed {
        user: Some(user.into()),
        access,
        expires,
        data: None,
    }
}

#[test]
fn requests_wait_until_it_is_known_who_asks() {
    let mut world = closed();
    let (who, same) = (world.known_peer("sensor-1"), world.known_peer("sensor-1"));
    world.says(who, "CON PUT /ps/data/a : 1");
    world.says(same, "CON GET /ps/data/a");
    assert_eq!((world.lines(who).len(), world.lines(same).len()), (0, 0));
    assert!(
        matches!(&world.bed.asked[..], [thalweg_testbed::Asked { ask: LoginAsk::Proven { identity }, .. }] if **identity == *"sensor-1"),
        "asked once: {:?}",
        world.bed.asked
    );
    world.verdict(allowed("sensor-1", Access::ALL, None));
    assert_eq!(
        (world.lines(who), world.lines(same)),
        (vec!["ACK 2.01".to_owned()], vec!["ACK 2.05 : 1".to_owned()])
    );
    assert_eq!(world.asks(same, "CON PUT /ps/data/a : 2"), "ACK 2.04");
    assert!(world.bed.asked.is_empty());
    assert_eq!(world.counts().identities, 1);
}

#[test]
fn each_identity_has_its_own_rights() {
    let mut world = closed();
    let (one, two) = (world.known_peer("one"), world.known_peer("two"));
    world.says(one, "CON PUT /ps/data/one/a : x");
    world.says(two, "CON PUT /ps/data/one/a : x");
    for user in ["one", "two"] {
        let rules = vec![Rule::allow(Permission::Publish, "%u/#")];
        let access = Rules::new(rules, Otherwise::Deny)
            .expect("filters")
            .compile("", Some(user));
        world.verdict(allowed(user, access, None));
    }
    assert_eq!(
        (world.lines(one), world.lines(two)),
        (vec!["ACK 2.04".to_owned()], vec!["ACK 4.03".to_owned()])
    );
}

#[test]
fn strangers_stay_out_where_nobody_is_anonymous() {
    let mut world = closed();
    let who = world.peer();
    world.says(who, "CON GET /ps/data/a");
    assert!(matches!(
        &world.bed.asked[..],
        [thalweg_testbed::Asked {
            ask: LoginAsk::Password {
                user: None,
                password: None,
                ..
            },
            ..
        }]
    ));
    world.verdict(LoginAnswer::Refused(LoginRefusal::NotAuthorized));
    assert_eq!(world.lines(who), ["ACK 4.01"]);
    assert_eq!(world.asks(who, "CON PUT /ps/data/a : x"), "ACK 4.01");
    assert!(world.bed.asked.is_empty(), "it is not asked again at once");
    world.wait(Span::from_secs(11));
    world.says(who, "CON GET /ps/data/a");
    assert_eq!((world.bed.asked.len(), world.lines(who).len()), (1, 0));
    world.verdict(LoginAnswer::Refused(LoginRefusal::Busy));
    assert_eq!(world.lines(who), ["ACK 5.03 max-age=1"]);
}

#[test]
fn a_session_that_is_ended_ends_its_observations_and_is_opened_again_by_the_next_request() {
    let mut world = World::new();
    let (who, app) = (world.peer(), world.mqtt("app"));
    world.asks(who, "CON GET /ps/data/a observe=0");
    let mut clients = Vec::new();
    world.bed.shards[0].kernel.for_each_session(|session| {
        if session.dialect == "CoAP" {
            clients.push(session.client.clone());
        }
    });
    let [client] = &clients[..] else {
        panic!("{clients:?}")
    };
    let now = world.bed.now;
    let shard = &mut world.bed.shards[0];
    assert!(
        shard
            .kernel
            .kick(client, CloseReason::Kicked, false, now, &mut shard.links)
    );
    world.rest();
    assert_eq!(world.lines(who), ["CON 4.01"]);
    assert_eq!(world.counts().observers, 0);
    assert_eq!(
        world.asks(who, "CON GET /ps/data/a observe=0"),
        "ACK 2.05 observe"
    );
    world.mqtt_says(app, "a", "1", QoS::AtLeastOnce, false);
    assert_eq!(world.lines(who), ["CON 2.05 observe : 1"]);
}

#[test]
fn rights_that_end_end_observations() {
    let mut world = World::new();
    let who = world.peer();
    world.asks(who, "CON GET /ps/data/a observe=0");
    let none = Rules::new(Vec::new(), Otherwise::Deny).expect("no filters");
    let shard = &mut world.bed.shards[0];
    shard
        .kernel
        .renew_access(|client, user| none.compile(client, user));
    let app = world.mqtt("app");
    world.mqtt_says(app, "a", "1", QoS::AtLeastOnce, false);
    world.rest();
    assert_eq!(world.lines(who), ["CON 4.03"]);
    assert_eq!(world.counts().observers, 0);
}

#[test]
fn a_proof_that_ends_must_be_given_again() {
    let mut world = closed();
    let who = world.known_peer("sensor");
    world.says(who, "CON GET /ps/data/a observe=0");
    let expires = world.bed.now + Span::from_secs(100);
    world.verdict(allowed("sensor", Access::ALL, Some(expires)));
    assert_eq!(world.lines(who), ["ACK 2.05 observe"]);
    world.wait(Span::from_secs(140));
    assert_eq!(world.lines(who), ["CON 4.01"]);
    world.says(who, "CON GET /ps/data/a");
    assert_eq!((world.bed.asked.len(), world.lines(who).len()), (1, 0));
}

#[test]
fn sessions_that_nobody_uses_are_closed() {
    let mut world = World::new();
    let (who, observer) = (world.known_peer("one"), world.known_peer("two"));
    for peer in [who, observer] {
        world.says(peer, "CON GET /ps/data/a observe=0");
    }
    while !world.bed.asked.is_empty() {
        world.verdict(allowed("u", Access::ALL, None));
    }
    world.says_with(who, "CON GET /ps/data/a observe=1", 9000, &[0, 0, 101]);
    assert_eq!(
        (world.counts().identities, world.counts().observers),
        (2, 1)
    );
    world.wait(Span::from_secs(400));
    assert_eq!(world.counts().identities, 1, "one of them still observes");
    world.lines(observer);
    world.shut_down();
    let mut left = 0;
    world.bed.shards[0]
        .kernel
        .for_each_session(|session| left += usize::from(session.dialect == "CoAP"));
    assert_eq!(left, 0);
}

#[test]
fn what_a_peer_asked_is_not_answered_to_whoever_has_its_address_next() {
    let mut world = closed();
    let who = world.known_peer("one");
    world.says(who, "CON GET /ps/data/a");
    world.peer_gone(who);
    world.verdict(allowed("one", Access::ALL, None));
    assert_eq!(world.lines(who), [""; 0], "it was waiting for the verdict");
}

#[test]
fn what_a_peer_published_is_not_answered_to_whoever_has_its_address_next() {
    let limits = Limits {
        journal: true,
        ..Limits::default()
    };
    let mut world = World::with(1, limits, CoapSettings::default(), Some(Access::ALL));
    let who = world.peer();
    world.bed.is_disk_manual = true;
    world.says(who, "CON PUT /ps/data/a : 1");
    world.peer_gone(who);
    world.sync();
    world.rest();
    assert_eq!(world.lines(who), [""; 0], "it was waiting for the journal");
}

#[test]
fn an_observer_that_is_given_up_is_told_as_gone_and_comes_back_with_its_next_request() {
    for manner in [Manner::Rejecting, Manner::Silent] {
        let mut world = World::with(
            1,
            Limits {
                presence: true,
                ..Limits::default()
            },
            CoapSettings::default(),
            Some(Access::ALL),
        );
        let (meter, app) = (world.known_peer("meter"), world.mqtt("app"));
        world.mqtt_subscribe(app, "$presence/meter");
        world.says(meter, "CON GET /ps/data/a observe=0");
        world.verdict(allowed("meter", Access::ALL, None));
        world.lines(meter);
        world.set_manner(meter, manner);
        world.mqtt_says(app, "a", "1", QoS::AtLeastOnce, false);
        world.wait(Span::from_secs(120));
        world.set_manner(meter, Manner::Polite);
        world.lines(meter);
        world.says(meter, "CON GET /ps/data/a");
        world.verdict(allowed("meter", Access::ALL, None));
        let told: Vec<bool> = world
            .mqtt_lines(app)
            .iter()
            .map(|line| line.contains("online"))
            .collect();
        assert_eq!(told, [true, false, true], "{manner:?}");
        world.wait(Span::from_secs(400));
        let told = world.mqtt_lines(app);
        assert!(
            matches!(&told[..], [gone] if gone.contains("\"why\":\"silent\"")),
            "{told:?}"
        );
    }
}
