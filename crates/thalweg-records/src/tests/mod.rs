//! Records go out and come back; what they add up to is what they say.

mod damage;
mod fold;
mod history;
mod round_trip;
mod waiting;

use super::{BodyRecord, MessageRecord, Record, Reference, SessionRecord, State};
use std::borrow::Cow;
use thalweg_model::{Reliability, RetainOp, Span, Time};

fn encoded(record: &Record<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    record.encode(&mut out);
    out
}

fn session(queue: u64) -> Record<'static> {
    Record::Session(SessionRecord {
        queue,
        client: "pump-7",
        user: Some("plant"),
        expiry: Span::FOREVER,
        expires_at: Time::NEVER,
        in_flight_max: 20,
        access: &[],
        will: None,
    })
}

fn reference(queue: u64, serial: u64) -> Reference<'static> {
    Reference {
        queue,
        serial,
        reliability: Reliability::AtLeastOnce,
        ..Reference::default()
    }
}

fn body<'a>(address: &'a str, payload: &'a [u8]) -> BodyRecord<'a> {
    BodyRecord {
        address,
        payload,
        reliability: Reliability::AtLeastOnce,
        retain: RetainOp::None,
        priority: 0,
        properties: None,
    }
}

fn message<'a>(references: &'a [Reference<'a>]) -> MessageRecord<'a> {
    MessageRecord {
        body: body("plant/7/pump/pressur", &[7; 256]),
        expires: Time::NEVER,
        ingress: Time::from_secs(1_795_000_000),
        publisher: 70_000,
        is_last_value: false,
        kept: None,
        held: None,
        references: Cow::Borrowed(references),
    }
}

/// The records of `write`, applied to an empty state.
fn rewritten(state: &State) -> State {
    let mut out = Vec::new();
    state.write(&mut |record| record.encode(&mut out));
    let mut again = State::default();
    again
        .apply_frame(&out, 1 << 40)
        .expect("what was just written");
    assert_eq!(again.contradictions, []);
    again
}
