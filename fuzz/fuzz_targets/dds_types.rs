//! Types of an operator: a `.msg`, `.srv` or `.idl` file. What can be read is used on the input itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_dds::types::Types;
use thalweg_dds::{cdr, idl, key};

/// Lines of such files. Each byte of an input chooses one, so that random bytes are often a whole file.
const LINES: [&str; 34] = [
    "struct A {",
    "struct B {",
    "struct C : A {",
    "@appendable struct D {",
    "};",
    "};",
    "};",
    "@key long a;",
    "@key string b;",
    "@key E c;",
    "long long d[2], e[N][2];",
    "sequence<string> f;",
    "sequence<A, 3> g;",
    "B h;",
    "D i[2];",
    "T j;",
    "octet k;",
    "@mutable struct F {",
    "@optional long m;",
    "@id(7) F n;",
    "union U switch (E) { case X: A o; default: string p; };",
    "U q;",
    "sequence<U> r;",
    "enum E { X, @value(7) Y };",
    "enum E { X };",
    "module M {",
    "M::A l;",
    "typedef sequence<T> T;",
    "typedef A T[3];",
    "const long N = 2;",
    "int32 a",
    "string[<=2] b",
    "a/B[] c",
    "---",
];

fuzz_target!(|input: &[u8]| {
    if let Ok(text) = std::str::from_utf8(input) {
        read(text, input);
    }
    let lines = input
        .iter()
        .map(|byte| LINES[usize::from(*byte) % LINES.len()]);
    read(&lines.collect::<Vec<_>>().join("\n"), input);
});

fn read(text: &str, input: &[u8]) {
    let mut types = Types::default();
    let _ = types.add("a/msg/B", text);
    let _ = types.add_service("a/srv/B", text);
    let added = idl::add(text, &mut idl::Names::default(), &mut types);
    if let Err(fault) = added {
        assert!(fault.line <= text.lines().count().max(1));
    }
    for of in types.all() {
        for kind in [1, 3, 7, 9, 11] {
            let payload = [&[0, kind, 0, 0][..], input].concat();
            if let Ok(value) = cdr::to_json(&payload, of, &types)
                && let Some(key) = key::KeyType::of(of)
            {
                let _ = key.level(&value);
            }
        }
    }
    let _ = types.missing();
}
