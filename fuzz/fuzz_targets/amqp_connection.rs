//! Two AMQP connections to a broker, driven by a script of bytes; see the script for what they can do. The same scripts
//! run on stable in `cargo test -p thalweg-fronts --test amqp`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/thalweg-fronts/tests/amqp/script.rs"]
mod script;

fuzz_target!(|input: &[u8]| {
    let mut stage = script::Stage::new();
    stage.play(input);
    stage.end();
});
