//! Stamps as text and as bytes: what is read is written and read again as the same, and what is written is short enough for
//! where it goes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_model::{Stamp, StampError};

fn check(read: Result<Stamp, StampError>) {
    let Ok(stamp) = read else { return };
    let mut buffer = [0; Stamp::TEXT_BYTES_MAX];
    let text = stamp.write_text(&mut buffer);
    assert_eq!(text, stamp.to_string());
    assert_eq!(text.parse(), Ok(stamp));
    let (bytes, len) = stamp.to_bytes();
    assert!((8..=16).contains(&len));
    assert_eq!(Stamp::from_bytes(&bytes[..len]), Ok(stamp));
}

fuzz_target!(|input: &[u8]| {
    let read = Stamp::from_bytes(input);
    assert_eq!(read.is_ok(), (8..=16).contains(&input.len()));
    check(read);
    if let Ok(text) = std::str::from_utf8(input) {
        check(text.parse());
    }
});
