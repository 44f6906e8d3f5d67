//! A journal record that was read from a disk. What decodes encodes to the same meaning, and nothing panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_records::{Record, State, message_at};

fuzz_target!(|input: &[u8]| {
    let _ = message_at(input);
    let _ = State::default().apply_frame(input, 0);
    let Ok((consumed, record)) = Record::decode(input) else {
        return;
    };
    assert!(consumed > 0 && consumed <= input.len());
    let mut out = Vec::new();
    record.encode(&mut out);
    // Numbers in more bytes than needed, or a not-a-number, come back otherwise; what is written twice is equal.
    let (_, again) = Record::decode(&out).expect("what was just written");
    let mut out_again = Vec::new();
    again.encode(&mut out_again);
    assert_eq!(out, out_again);
});
