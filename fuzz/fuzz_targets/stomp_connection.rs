//! Two STOMP connections to a broker, driven by a script of bytes; see the script for what they can do. The same scripts
//! run on stable in `cargo test -p thalweg-fronts --test stomp`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/thalweg-fronts/tests/stomp/script.rs"]
mod script;

fuzz_target!(|input: &[u8]| {
    let Some((choice, input)) = input.split_first() else {
        return;
    };
    let mut stage = script::Stage::new(*choice);
    stage.play(input);
    stage.end();
});
