//! Bytes that a message costs.

use super::*;

/// Bytes that these messages take, each.
fn sizes(pair: &mut Pair, messages: &[Outbound<'_>]) -> Vec<usize> {
    let size = |message| {
        pair.out.clear();
        pair.must_publish(message);
        pair.out.bytes.len()
    };
    messages.iter().map(size).collect()
}

/// The smallest possible PUBLISH: nothing is added to the requirements of §3.3.
#[test]
fn a_plain_publish_is_as_small_as_can_be() {
    let mut pair = Pair::of_version(4);
    let zero = at_most_once(1, "a/b", b"21.5");
    pair.must_publish(&zero);
    assert_eq!(pair.out.bytes, b"\x30\x09\x00\x03a/b21.5");
    pair.out.clear();
    pair.must_publish(&message(1, "a/b", b"21.5"));
    assert_eq!(pair.out.bytes, b"\x32\x0b\x00\x03a/b\x00\x0121.5");
    // MQTT 5 has the length of the properties in addition.
    let mut pair = Pair::up(settings());
    pair.must_publish(&zero);
    assert_eq!(pair.out.bytes, b"\x30\x0a\x00\x03a/b\x0021.5");
}

#[test]
fn a_topic_that_comes_again_goes_by_its_alias() {
    let mut pair = Pair::new(settings());
    pair.server.connack.aliases_max = 2;
    pair.reach();
    let topic = "building/7/floor/3/room/12/temperature";
    let reading = at_most_once(1, topic, b"21.5");
    let plain = 2 + 2 + topic.len() + 1 + 4;
    // The first publish has no alias, since the topic may not come again; the second sets the alias; from then on the
    // alias is enough.
    let short = plain - topic.len() + 3;
    assert_eq!(
        sizes(&mut pair, &[reading; 4]),
        [plain, plain + 3, short, short]
    );
    assert_eq!(short, 12);
    // There are two aliases: a third topic does not take one away.
    let others = ["other/topic/1", "other/topic/2"].map(|address| Outbound { address, ..reading });
    for other in &others {
        sizes(&mut pair, &[*other; 3]);
    }
    assert_eq!(
        sizes(&mut pair, &[reading, others[0], others[1]]),
        [short, short, 2 + 2 + 13 + 1 + 4]
    );
}

#[test]
fn aliases_are_understood_by_the_server_also_after_a_new_connection() {
    let mut pair = Pair::new(settings());
    pair.server.connack.aliases_max = 1;
    for round in 0..2 {
        pair.reach();
        for id in 0..5 {
            pair.must_publish(&message(id, "building/7", b""));
            pair.must_publish(&message(id, "building/8", b""));
        }
        pair.exchange();
        let topics = pair.server.published.iter().map(|p| p.topic.as_str());
        let expected = ["building/7", "building/8"]
            .into_iter()
            .cycle()
            .take(10 * (round + 1));
        assert!(topics.eq(expected));
        pair.lose();
    }
}

/// Bytes of a stamp in MQTT 5, where the name of the property is in every message.
#[test]
fn a_stamp_takes_thirty_three_bytes() {
    let mut pair = Pair::up(settings());
    let stamp = Some(Stamp {
        publisher: 0x9f2c_41d0_7be8_3a55,
        sequence: 0x1234,
    });
    let without = message(1, "a/b", b"21.5");
    let sizes = sizes(
        &mut pair,
        &[
            without,
            Outbound {
                id: 2,
                stamp,
                ..without
            },
        ],
    );
    assert_eq!(
        sizes[1] - sizes[0],
        1 + 2 + "x-stamp".len() + 2 + "9f2c41d07be83a55-1234".len()
    );
    assert_eq!(sizes[1] - sizes[0], 33);
}

/// Ids of messages and packets go round without an end.
#[test]
fn identifiers_go_round() {
    let mut pair = Pair::up(settings());
    for id in 1..=140_000_u64 {
        pair.must_publish(&message(id as MessageId, "a", b""));
        if id % 1000 == 0 {
            pair.exchange();
            assert_eq!(pair.witness.take().len(), 1000);
        }
    }
}
