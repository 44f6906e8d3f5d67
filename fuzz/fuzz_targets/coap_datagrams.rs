//! Four CoAP peers of a socket of a broker, driven by a script of bytes; see the module for what they can do. The same scripts run
//! on stable in `cargo test -p thalweg-fronts --test coap`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/thalweg-fronts/tests/coap/nonsense.rs"]
mod nonsense;

fuzz_target!(|input: &[u8]| {
    let Some((choice, input)) = input.split_first() else {
        return;
    };
    let mut stage = nonsense::Stage::new(*choice);
    stage.play_datagrams(input);
    stage.end();
});
