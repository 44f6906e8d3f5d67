//! Whatever two peers send, in whatever pieces: no panic, and bounded memory. And what comes byte by byte is the same.

use crate::script::Stage;
use crate::world::{ServerMethod, World};
use thalweg_amqp::methods::basic;
use thalweg_amqp::{BasicProperties, ContentHeader};

const SCRIPTS: u64 = 6_000;
/// Scripts one broker lives through.
const SCRIPTS_PER_STAGE: u64 = 50;

#[test]
fn no_script_makes_a_connection_panic_or_grow_without_bound() {
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for _ in 0..SCRIPTS / SCRIPTS_PER_STAGE {
        let mut stage = Stage::new();
        for _ in 0..SCRIPTS_PER_STAGE {
            let script: Vec<u8> = (0..next() % 200).map(|_| (next() >> 20) as u8).collect();
            stage.play(&script);
        }
        stage.end();
    }
}

#[test]
fn what_comes_byte_by_byte_is_the_same() {
    let mut world = World::new();
    let who = world.connect();
    world.declare(who, "q");
    world.confirm(who);
    let mut bytes = Vec::new();
    world.says(who, |machine, _| {
        let publish = basic::Publish {
            routing_key: "q",
            ..Default::default()
        };
        let properties = BasicProperties {
            message_id: Some("id"),
            ..BasicProperties::default()
        };
        machine
            .publish(
                1,
                &publish,
                ContentHeader::Properties(&properties),
                b"body",
                &mut bytes,
            )
            .expect("small");
    });
    for byte in bytes {
        world.says(who, |_, up| up.push(byte));
    }
    assert_eq!(
        world.said(who),
        [ServerMethod::Ack {
            tag: 1,
            multiple: false
        }]
    );
    let got = world.get(who, "q").expect("it is there");
    assert_eq!(
        (got.text(), got.properties().message_id),
        ("body", Some("id"))
    );
}
