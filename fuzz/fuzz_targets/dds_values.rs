//! A payload of a participant of DDS, and a text of a client of the broker, of each type that is built in and of some from IDL.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use thalweg_dds::types::Types;
use thalweg_dds::{calls, cdr, frame, idl, key, name};

/// Types with all that types may have.
const IDL: &str = "enum Color { RED, @value(7) BLUE };
    @appendable struct Part { long long at[2]; sequence<string> words; };
    @appendable struct Shape { @key string name; @key Color color; sequence<Part> parts; Part last[2]; sequence<Color> used; };
    struct Tree { octet leaf; sequence<Tree> branches; };
    union Amount switch (Color) { case RED: long count; case BLUE: sequence<Part> many; };
    @mutable struct Chain { @id(70000) long a; @optional Chain next; Amount amount; };
    @appendable struct Some { @optional double b; @optional string c; sequence<Chain> chains; Amount last; };";

static TYPES: LazyLock<Types> = LazyLock::new(|| {
    let mut types = Types::of_ros();
    let added = idl::add(IDL, &mut idl::Names::default(), &mut types);
    assert_eq!(added, Ok(()));
    types
});

fuzz_target!(|input: &[u8]| {
    for of in TYPES.all() {
        if let Ok(value) = cdr::to_json(input, of, &TYPES) {
            for is_xcdr2 in [false, true] {
                // What was read can be written, but for strings with a NUL and numbers that JSON has not.
                if let Ok(bytes) = cdr::from_json(&value, of, &TYPES, is_xcdr2) {
                    assert!(cdr::to_json(&bytes, of, &TYPES).is_ok());
                }
            }
        }
    }
    let shape = TYPES.find("Shape").and_then(|of| key::KeyType::of(of));
    let Some(shape) = shape else {
        panic!("it has a key");
    };
    let _ = shape.level_of_payload(input, &TYPES);
    if let Some((id, payload)) = calls::cut(input) {
        let joined = calls::joined(id, &payload);
        assert_eq!(joined.as_deref(), Some(input));
    }
    let _ = frame::decode(input, 1 << 16);
    let _ = frame::decode_message(input, 1 << 16);
    if let Ok(text) = std::str::from_utf8(input) {
        let _ = name::place_of(&[], text, "ros");
        let _ = name::key_of(text);
        if let Some(payload) = shape.payload(text, &TYPES, true) {
            let level = shape.level_of_payload(&payload, &TYPES);
            let again = level.and_then(|level| shape.payload(&level, &TYPES, true));
            assert_eq!(again, Some(payload));
        }
    }
});
