//! A DTLS client that is past the cookie and does what a script says, also under its keys. The same scripts run on stable
//! in `cargo test -p thalweg-dtls`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_dtls::testkit::fuzz;

fuzz_target!(|input: &[u8]| {
    fuzz::peer(input);
});
