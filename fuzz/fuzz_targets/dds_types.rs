//! Types of an operator: a `.msg`, `.srv` or `.idl` file. What can be read is used on the text itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_dds::types::Types;
use thalweg_dds::{cdr, idl, key};

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let mut types = Types::default();
    let _ = types.add("a/msg/B", text);
    let _ = types.add_service("a/srv/B", text);
    let added = idl::add(text, &mut idl::Names::default(), &mut types);
    if let Err(fault) = added {
        assert!(fault.line <= text.lines().count().max(1));
    }
    let payload = [&[0, 9, 0, 0][..], input].concat();
    for of in types.all() {
        let _ = cdr::to_json(&payload, of, &types);
        let _ = key::KeyType::of(of);
    }
    let _ = types.missing();
});
