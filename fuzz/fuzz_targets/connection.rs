//! Two connections to a broker, driven by a script of bytes; see the script for what they can do. The same scripts run
//! on stable in `cargo test -p thalweg-fronts --test connection`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/thalweg-fronts/tests/connection/script.rs"]
mod script;

fuzz_target!(|input: &[u8]| {
    let Some((choice, input)) = input.split_first() else {
        return;
    };
    let mut stage = script::Stage::new(1 + u16::from(choice & 1));
    stage.play(input);
    stage.end();
});
