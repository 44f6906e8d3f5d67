//! However the bytes are cut, and whatever they are.

use super::*;
use crate::pair::{self, Chunk};

/// Runs every kind of operation, up to an ERROR; returns the events.
fn conversation(chunk: Chunk) -> Vec<EventCall> {
    let mut pair = Pair::new(StompSettings {
        unconfirmed_max: 8,
        ..settings()
    });
    pair.chunk = chunk;
    pair.server.forbidden = Some("/topic/secret");
    pair.connect();
    let mut told = Vec::new();
    for (id, filter) in [(1, "a/#"), (2, "$q/work"), (3, "$share/g/a")] {
        pair.must_subscribe(id, filter, Reliability::AtLeastOnce);
    }
    pair.exchange();
    for id in 0..4 {
        pair.must_publish(&message(id, "a/b", b"\n\0\n"));
    }
    pair.lane.probe(pair.now, &mut pair.out);
    pair.server.side.heart_beat(&mut pair.server.out);
    pair.exchange();
    told.extend(pair.witness.take());
    pair.settle_all(&told);
    pair.must_publish(&message(9, "secret", b""));
    pair.talk();
    told.extend(pair.witness.take());
    assert!(pair.fault.is_some());
    told
}

#[test]
fn cuts_change_nothing() {
    let whole = conversation(Box::new(|| usize::MAX));
    assert_eq!(whole.len(), 3 + 2 * 4 + 1, "{whole:?}");
    pair::cuts_change_nothing(1000, conversation);
}

/// Input of a broken or hostile broker: the lane may end the connection, and nothing else.
#[test]
fn nonsense_ends_a_connection_at_worst() {
    let prepared = || {
        let mut pair = Pair::up(settings());
        pair.subscribed(1, "a");
        for id in 0..4 {
            pair.must_publish(&message(id, "a", b"21.5"));
        }
        pair.send();
        pair
    };
    let mut good = prepared();
    good.server
        .side
        .error("resource_error", Some("4"), "later", &mut good.server.out);
    pair::nonsense_ends_a_connection_at_worst(&good.server.out, prepared);
}
