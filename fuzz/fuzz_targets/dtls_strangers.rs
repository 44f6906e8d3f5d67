//! Datagrams of senders that know no cookie, into a DTLS server. The same scripts run on stable in
//! `cargo test -p thalweg-dtls`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_dtls::testkit::fuzz;

fuzz_target!(|input: &[u8]| {
    fuzz::strangers(input);
});
