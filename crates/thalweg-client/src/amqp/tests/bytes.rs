//! However the bytes are cut, and whatever they are.

use super::*;
use crate::pair::{self, Chunk};

/// Runs every kind of operation; returns the events and every received byte.
fn conversation(chunk: Chunk) -> Vec<EventCall> {
    let mut pair = Pair::new(AmqpSettings {
        unconfirmed_max: 8,
        ..settings()
    });
    pair.chunk = chunk;
    pair.server.forbidden_key = Some("secret");
    pair.connect();
    let mut told = Vec::new();
    for (id, filter) in [(1, "a/#"), (2, "$q/nowhere"), (3, "$share/g/a")] {
        pair.must_subscribe(id, filter, Reliability::AtLeastOnce);
    }
    pair.exchange();
    let large = vec![b'x'; 200_000];
    for id in 0..6 {
        let address = if id == 4 { "secret" } else { "a/b" };
        let payload: &[u8] = if id == 2 { &large } else { b"21.5" };
        pair.must_publish(&message(id, address, payload));
    }
    pair.must_request(1, &message(9, "ask", b""));
    pair.exchange();
    told.extend(pair.witness.take());
    pair.settle_all(&told);
    let question = pair.server.published.last().expect("it was asked").clone();
    pair.server.reply(&question, b"!");
    pair.server.side.blocked("", &mut pair.server.out);
    pair.server.side.unblocked(&mut pair.server.out);
    pair.unsubscribe(1);
    pair.exchange();
    told.extend(pair.witness.take());
    // The number of notices of free space depends on what arrives together.
    told.retain(|told| *told != EventCall::Room);
    told
}

#[test]
fn cuts_change_nothing() {
    let whole = conversation(Box::new(|| usize::MAX));
    assert!(whole.len() > 12, "{whole:?}");
    pair::cuts_change_nothing(0, conversation);
}

/// One byte at a time, and at every byte a cut.
#[test]
fn a_cut_at_every_byte_changes_nothing() {
    let run = |chunk: Chunk| {
        let mut pair = Pair::new(settings());
        pair.chunk = chunk;
        pair.connect();
        pair.must_subscribe(1, "a/#", Reliability::AtLeastOnce);
        pair.must_publish(&message(1, "a/b", b"21.5"));
        pair.exchange();
        pair.must_publish(&message(2, "a/b", b"21.5"));
        pair.exchange();
        pair.witness.take()
    };
    pair::cuts_change_nothing(600, run);
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
        pair
    };
    let mut good = prepared();
    good.send();
    let server = &mut good.server;
    let (code, cause) = (ReplyCode::ConnectionForced, MethodId::NONE);
    server.side.close(code, "goodbye", cause, &mut server.out);
    pair::nonsense_ends_a_connection_at_worst(&server.out, prepared);
}
