//! Requests to the group of all nodes, by which a client looks for a broker: RFC 7252 §8.

use crate::world::{Who, World};
use thalweg_coap::Type;
use thalweg_fronts::coap::CoapSettings;
use thalweg_fronts::{LoginAnswer, LoginRefusal};
use thalweg_kernel::Limits;
use thalweg_kernel::access::Access;
use thalweg_model::Span;
use thalweg_mqtt::QoS;
use thalweg_testbed::coap::request;

const LEISURE: Span = Span::from_secs(5);
const LOOK: &str = "NON GET /.well-known/core?rt=core.ps";
const FOUND: &str = "NON 2.05 ct=40 : </ps>;rt=\"core.ps core.ps.coll\";ct=40";

/// Says something to the group; all that comes within the leisure.
fn to_group(world: &mut World, who: Who, line: &str) -> Vec<String> {
    let id = world.next_id(who);
    let datagram = request(line, id, &[who.0 as u8, id as u8]);
    world.bed.send_to_group(who, &datagram);
    world.wait(LEISURE);
    world.lines(who)
}

#[test]
fn who_looks_for_a_broker_is_answered_at_a_random_time() {
    let mut world = World::new();
    let mut waited = Vec::new();
    for _ in 0..40 {
        let who = world.peer();
        let id = world.next_id(who);
        world.bed.send_to_group(who, &request(LOOK, id, &[7]));
        let mut steps = 0;
        while world.bed.unheard(who).is_empty() && steps < 50 {
            world.wait(Span::from_millis(100));
            steps += 1;
        }
        let heard = world.one(who);
        assert_eq!(
            (heard.line().as_str(), heard.kind),
            (FOUND, Type::NonConfirmable)
        );
        waited.push(steps);
    }
    // An even spread over 50 steps: the seed decides, and it is the same in each run.
    let (early, late) = (waited.iter().min(), waited.iter().max());
    assert!(early < Some(&10) && late > Some(&40), "{waited:?}");
}

#[test]
fn a_group_is_told_of_no_failure_and_nothing_else_is_done_for_it() {
    let mut world = World::new();
    let app = world.mqtt("app");
    world.mqtt_subscribe(app, "#");
    world.mqtt_says(app, "a", "kept", QoS::AtLeastOnce, true);
    world.mqtt_messages(app);
    let who = world.peer();
    for line in [
        // RFC 7252 §8.1: a request to a group is not confirmable.
        "CON GET /.well-known/core",
        "NON GET /.well-known/core?rt=other",
        "NON GET /.well-known/core accept=50",
        "NON POST /.well-known/core : x",
        "NON GET /nothing",
        "NON GET /ps",
        "NON GET /ps/data/a",
        "NON GET /ps/data/a observe=0",
        "NON PUT /ps/data/a : x",
        "NON POST /q/work : x",
        "NON GET /q/work",
        "NON POST /rpc/a : x",
        "NON DELETE /ps/data/a",
    ] {
        assert_eq!(to_group(&mut world, who, line), [""; 0], "{line}");
    }
    world.bed.send_to_group(who, b"\x70\0\0\0");
    world.bed.send_to_group(who, b"\x40");
    world.bed.send_to_group(who, b"");
    world.wait(LEISURE);
    assert_eq!(world.lines(who), [""; 0], "neither a reset nor an answer");
    assert_eq!(world.mqtt_lines(app), [""; 0]);
    assert_eq!(world.counts().observers, 0);
    assert_eq!(to_group(&mut world, who, LOOK), [FOUND]);
}

#[test]
fn a_repeated_request_is_answered_once_and_a_flood_is_bounded() {
    let mut world = World::new();
    let who = world.peer();
    let id = world.next_id(who);
    for _ in 0..3 {
        world.bed.send_to_group(who, &request(LOOK, id, &[7]));
    }
    world.wait(LEISURE);
    assert_eq!(world.lines(who), [FOUND]);
    let before = world.counts().dropped_waiting;
    let flood: Vec<Who> = (0..1_000).map(|_| world.peer()).collect();
    for who in &flood {
        let id = world.next_id(*who);
        world.bed.send_to_group(*who, &request(LOOK, id, &[7]));
    }
    world.wait(LEISURE);
    let answered = flood
        .iter()
        .filter(|who| !world.heard(**who).is_empty())
        .count();
    assert_eq!(
        answered as u64,
        1_000 - (world.counts().dropped_waiting - before)
    );
    assert!((1..=70).contains(&answered), "{answered} answers");
}

fn allowed() -> LoginAnswer {
    LoginAnswer::Allowed {
        user: None,
        access: Access::ALL,
        expires: None,
        data: None,
    }
}

#[test]
fn strangers_find_a_broker_only_where_they_are_let_in() {
    let closed = || World::with(1, Limits::default(), CoapSettings::default(), None);
    for (verdict, answer) in [
        (LoginAnswer::Refused(LoginRefusal::NotAuthorized), None),
        (allowed(), Some(FOUND)),
    ] {
        let mut world = closed();
        let who = world.peer();
        assert_eq!(
            to_group(&mut world, who, LOOK),
            [""; 0],
            "it is asked about"
        );
        world.verdict(verdict);
        assert_eq!(world.lines(who), answer.into_iter().collect::<Vec<_>>());
    }
    let hidden = CoapSettings {
        discovery: false,
        ..CoapSettings::default()
    };
    let mut world = World::of(hidden);
    let who = world.peer();
    assert_eq!(to_group(&mut world, who, LOOK), [""; 0]);
}
