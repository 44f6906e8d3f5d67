//! Datagrams into a DTLS client, from a server that a script leads astray and from somebody without its key. The same
//! scripts run on stable in `cargo test -p thalweg-dtls`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_dtls::testkit::fuzz;

fuzz_target!(|input: &[u8]| {
    fuzz::client(input);
});
