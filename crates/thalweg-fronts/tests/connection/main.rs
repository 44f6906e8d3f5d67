//! Whatever two peers send, in whatever pieces: no panic, and bounded memory. The same scripts under libFuzzer are
//! `fuzz/fuzz_targets/connection.rs`.

mod script;

use script::Stage;

const SCRIPTS: u64 = 100_000;
/// Scripts one broker lives through.
const SCRIPTS_PER_STAGE: u64 = 50;

#[test]
fn no_script_makes_a_connection_panic_or_grow_without_bound() {
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for number in 0..SCRIPTS / SCRIPTS_PER_STAGE {
        let mut stage = Stage::new(1 + (number % 2) as u16);
        for _ in 0..SCRIPTS_PER_STAGE {
            let script: Vec<u8> = (0..next() % 40).map(|_| (next() >> 20) as u8).collect();
            stage.play(&script);
        }
        stage.end();
    }
}
