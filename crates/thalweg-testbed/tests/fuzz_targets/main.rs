//! Each fuzz target of `/fuzz` on a fixed number of inputs, with the stable compiler and without libFuzzer: random bytes, and
//! the transcripts of its protocol with seeded damage. `cargo xtask fuzz` runs the same targets guided by coverage.
//!
//! `THALWEG_FUZZ_SEED=7` chooses other inputs, `THALWEG_FUZZ_RUNS=100000` more of them.

mod inputs;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use inputs::Inputs;

// The targets import the macro from libFuzzer's crate. Here that name means this program.
extern crate self as libfuzzer_sys;

// The targets have `no_main`, which is for a program's first file, and share modules of which each uses a part.
#[allow(unused_attributes, dead_code, clippy::duplicate_mod)]
#[path = "../../../../fuzz/fuzz_targets"]
mod targets {
    pub mod amqp_client_side;
    pub mod amqp_connection;
    pub mod amqp_server_side;
    pub mod coap_client_side;
    pub mod coap_connection;
    pub mod coap_datagrams;
    pub mod coap_message;
    pub mod coap_pubsub;
    pub mod coap_server_side;
    pub mod coap_stream_client_side;
    pub mod coap_stream_server_side;
    pub mod connection;
    pub mod dds_types;
    pub mod dds_values;
    pub mod dtls_client;
    pub mod dtls_peer;
    pub mod dtls_strangers;
    pub mod filter;
    pub mod journal_record;
    pub mod mqtt_client_side;
    pub mod mqtt_load_report;
    pub mod mqtt_server_side;
    pub mod multicast;
    pub mod stamp;
    pub mod stomp_client_side;
    pub mod stomp_connection;
    pub mod stomp_server_side;
    pub mod xmpp_client_side;
    pub mod xmpp_server_side;
    pub mod zmtp_client_side;
    pub mod zmtp_server_side;
}

/// Stands in for libFuzzer's macro: the target becomes a function. Behind the targets, so that they find it by their import.
#[macro_export]
macro_rules! fuzz_target {
    (|$input:ident: &[u8]| $body:block) => {
        pub fn run($input: &[u8]) $body
    };
}

/// Makes a test of each target: its name, how many inputs it gets, and whose transcripts they are made from.
macro_rules! fuzz {
    ($($target:ident: $runs:literal of $protocol:literal,)*) => {
        const TARGETS: &[&str] = &[$(stringify!($target)),*];
        $(
            #[test]
            fn $target() {
                fuzz(stringify!($target), targets::$target::run, $runs, $protocol);
            }
        )*
    };
}

// So many that each takes up to a second in a build without optimisation.
fuzz! {
    amqp_client_side: 40_000 of "amqp",
    amqp_connection: 800 of "amqp",
    amqp_server_side: 20_000 of "amqp",
    coap_client_side: 40_000 of "coap",
    coap_connection: 600 of "coap",
    coap_datagrams: 1000 of "coap",
    coap_message: 60_000 of "coap",
    coap_pubsub: 80_000 of "coap",
    coap_server_side: 40_000 of "coap",
    coap_stream_client_side: 10_000 of "coap",
    coap_stream_server_side: 20_000 of "coap",
    connection: 1000 of "mqtt",
    dds_types: 20_000 of "",
    dds_values: 4000 of "",
    dtls_client: 4000 of "",
    dtls_peer: 2000 of "",
    dtls_strangers: 10_000 of "",
    filter: 30_000 of "",
    journal_record: 30_000 of "",
    mqtt_client_side: 40_000 of "mqtt",
    mqtt_load_report: 40_000 of "mqtt",
    mqtt_server_side: 40_000 of "mqtt",
    multicast: 40_000 of "mqtt",
    stamp: 60_000 of "",
    stomp_client_side: 20_000 of "stomp",
    stomp_connection: 1000 of "stomp",
    stomp_server_side: 15_000 of "stomp",
    xmpp_client_side: 2000 of "xmpp",
    xmpp_server_side: 1000 of "xmpp",
    zmtp_client_side: 400 of "zmtp",
    zmtp_server_side: 1000 of "zmtp",
}

/// Runs `target` on `runs` inputs. A panic is passed on after the seed and the input that caused it.
fn fuzz(name: &str, target: fn(&[u8]), runs: u32, protocol: &str) {
    let seed = number_from("THALWEG_FUZZ_SEED").unwrap_or(1);
    let runs = number_from("THALWEG_FUZZ_RUNS").unwrap_or(runs.into());
    let mut inputs = Inputs::new(protocol, seed);
    for run in 0..runs {
        let input = inputs.next();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(&input))) {
            eprintln!("{name} fails with seed {seed} at input {run}: {input:02x?}");
            resume_unwind(panic);
        }
    }
}

fn number_from(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().expect("a seed or count is a number"))
}

#[test]
fn every_target_in_the_folder_runs() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/fuzz_targets");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .expect("the folder of the targets")
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|name| name.trim_end_matches(".rs").to_owned())
        .collect();
    files.sort();
    assert_eq!(files, TARGETS);
}

/// A decoder that trusts a length would not survive: the inputs are close enough to valid packets to reach it.
#[test]
fn inputs_find_a_length_that_is_believed() {
    let trusting = |input: &[u8]| {
        if let [0x10, length, _, 4, b'M', b'Q', b'T', b'T', 5, ..] = input {
            assert!(usize::from(*length) + 2 <= input.len());
        }
    };
    let found = catch_unwind(|| fuzz("trusting", trusting, 2000, "mqtt"));
    assert!(found.is_err());
}
