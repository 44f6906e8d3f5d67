//! Whatever happens to a record, it is never read as another message.

use super::{encoded, message, reference, round_trip};
use crate::{Record, State, message_at};
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_record_that_was_cut_is_a_fault(record in round_trip::record()) {
        let bytes = encoded(&record);
        for len in 0..bytes.len() {
            prop_assert!(Record::decode(&bytes[..len]).is_err(), "cut after {} of {}", len, bytes.len());
        }
    }

    #[test]
    fn a_flipped_bit_is_a_fault_or_another_record(record in round_trip::record()) {
        let bytes = encoded(&record);
        let is_message = matches!(record, Record::Message(_));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let decoded = Record::decode(&damaged);
            if is_message {
                prop_assert!(decoded.is_err(), "bit {}: {:?}", bit, decoded);
                prop_assert!(message_at(&damaged).is_err());
            }
            let _ = State::default().apply_frame(&damaged, 0);
        }
    }

    #[test]
    fn any_bytes_are_a_record_or_a_fault(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok((consumed, _)) = Record::decode(&bytes) {
            prop_assert!(consumed > 0 && consumed <= bytes.len());
        }
        let _ = message_at(&bytes);
        let _ = State::default().apply_frame(&bytes, 0);
    }
}

#[test]
fn a_flipped_bit_before_other_records_is_found_too() {
    let references = [reference(1, 1)];
    let mut bytes = encoded(&Record::Message(message(&references)));
    let len = bytes.len();
    Record::Settled { queue: 1, tag: 1 }.encode(&mut bytes);
    bytes.extend_from_slice(&[0x55; 70_000]);
    for bit in 0..len * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Record::decode(&bytes).is_err(), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn a_count_that_lies_takes_no_memory() {
    // Two thousand million references in a record of a few bytes.
    let mut fields = vec![0, 0, 1, 1, 0];
    fields.extend_from_slice(&[0xFF, 0xFF, 0xFF, 0xFF, 0x07]);
    let mut record = vec![0xE0, fields.len() as u8 + 4];
    record.extend_from_slice(&crc32c::crc32c(&fields).to_le_bytes());
    record.extend_from_slice(&fields);
    let fault = Record::decode(&record).expect_err("no record");
    assert_eq!(fault.what, "it ends early");
}

#[test]
fn a_fault_says_where() {
    let mut state = State::default();
    let mut frame = encoded(&Record::Numbers {
        queue: 9,
        serial: 9,
    });
    let at = frame.len() as u64;
    frame.extend_from_slice(&[200, 1, 0]);
    let fault = state
        .apply_frame(&frame, 1_000)
        .expect_err("an unknown kind");
    assert_eq!(
        (fault.place, fault.fault.what),
        (1_000 + at, "an unknown kind")
    );
    assert_eq!(state.queue_last, 9, "what stood before it counts");
}
