//! Bytes that a message costs.

use super::super::wording;
use super::*;

fn lane(settings: CoapSettings) -> World {
    World::up(1, 0, vec![settings])
}

/// Bytes of a publish and of its response.
fn cost(world: &mut World, message: &Outbound<'_>) -> (usize, usize) {
    let mut out = Output::default();
    world.lanes[0]
        .publish(message, world.now, &mut out)
        .expect("it goes");
    let there = out.bytes.len();
    world.bytes = 0;
    for bytes in out.datagrams() {
        world.carry(lane_address(0), broker_address(), bytes);
    }
    world.rest();
    (there, world.bytes - there)
}

/// Head, a byte before each level, No-Response, marker, payload: RFC 7252 §3 demands no less. Nothing comes back.
#[test]
fn at_most_once_is_as_small_as_can_be() {
    let mut world = lane(settings());
    let reading = at_most_once(1, "a/b", b"21.5");
    let mut out = Output::default();
    world.lanes[0]
        .publish(&reading, world.now, &mut out)
        .expect("it goes");
    let id = [out.bytes[2], out.bytes[3]];
    let mut expected = vec![0x50, 3, id[0], id[1]];
    expected.extend_from_slice(b"\xb2ps\x04data\x01a\x01b");
    // Option 258 is 247 after Uri-Path: 13 and 234 more.
    expected.extend_from_slice(b"\xd1\xea\x1a\xff21.5");
    assert_eq!(out.bytes, expected);
    assert_eq!(cost(&mut world, &reading), (expected.len(), 0));
}

#[test]
fn at_least_once_adds_its_token_and_is_answered_in_six_bytes() {
    let minimum = |token: usize| 4 + token + 3 + 5 + 2 + 2 + 1 + 4;
    let mut world = lane(settings());
    assert_eq!(
        cost(&mut world, &message(1, "a/b", b"21.5")),
        (minimum(2), 4 + 2)
    );
    let mut world = lane(CoapSettings {
        token_bytes: 1,
        ..settings()
    });
    assert_eq!(
        cost(&mut world, &message(1, "a/b", b"21.5")),
        (minimum(1), 4 + 1)
    );
    // A stamp: three bytes of option, and 9 and more of value.
    assert_eq!(
        cost(
            &mut world,
            &Outbound {
                stamp: stamped(5),
                ..message(2, "a/b", b"21.5")
            }
        )
        .0,
        minimum(1) + 3 + 9
    );
    // An expiry goes as Max-Age: two bytes, where `?expiry=60` takes ten.
    let short = Outbound {
        lifespan: Span::from_secs(60),
        ..message(3, "a/b", b"21.5")
    };
    assert_eq!(cost(&mut world, &short).0, minimum(1) + 2);
}

/// There are 65,536 message ids, and a receiver takes the same id with the same bytes for a repetition. RFC 7252 §4.5
#[test]
fn fast_readings_that_are_all_alike_are_told_apart() {
    let mut world = lane(settings());
    let reading = at_most_once(1, "a", b"1");
    let mut seen = HashSet::new();
    let (mut empty, mut long) = (0, 0);
    for n in 0..150_000 {
        let mut out = Output::default();
        while world.lanes[0].publish(&reading, world.now, &mut out) == Err(Refusal::Window) {
            world.carry_bytes(&out);
            out.clear();
            world.rest();
        }
        let token = out.bytes[0] & 15;
        empty += usize::from(token == 0);
        long += usize::from(token > 1);
        assert!(
            seen.insert(out.bytes.clone()),
            "the same datagram again, at {n}"
        );
    }
    assert!(
        (59_000..=60_000).contains(&empty) && long == 0,
        "{empty} {long}"
    );
}

impl World {
    fn carry_bytes(&mut self, out: &Output) {
        for bytes in out.datagrams() {
            self.carry(lane_address(0), broker_address(), bytes);
        }
    }
}

/// Most messages go where the one before went, which is remembered: it must not show.
#[test]
fn what_is_said_does_not_depend_on_what_was_said_before() {
    let urgent = Outbound {
        priority: 7,
        ..message(1, "a/b", b"1")
    };
    let plain = message(1, "a/b", b"1");
    let [elsewhere, queued, none] =
        ["a/bc", "$q/jobs", "a//\u{1}"].map(|address| message(1, address, b"1"));
    let all = [
        &plain, &plain, &urgent, &plain, &queued, &elsewhere, &none, &elsewhere, &plain,
    ];
    let fresh = || wording::Wording::new(settings(), false);
    let mut used = fresh();
    for (message, is_question) in all.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        let said = |wording: &mut wording::Wording| {
            let said = match is_question {
                false => wording.publish(message, false),
                true => wording.question(message),
            };
            said.map(|(code, options)| format!("{code:?} {:?}", options.as_slice()))
        };
        assert_eq!(said(&mut used), said(&mut fresh()), "{}", message.address);
    }
}
