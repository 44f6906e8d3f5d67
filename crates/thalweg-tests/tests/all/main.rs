//! Thalweg proven from outside: a built broker, real sockets, and clients that we did not write.
//!
//! `cargo test -p thalweg-tests` builds the broker when needed. `THALWEG_BIN=path` uses that binary as it is.
//! `THALWEG_TEST_BROKER=mosquitto` runs the same tests against Debian's mosquitto: an oracle for the tests themselves.
//! `THALWEG_TEST_SET="shards=2"` adds settings to every broker.
#![forbid(unsafe_code)]

mod abuse;
mod bench_command;
mod broker;
mod certificates;
mod client;
mod coap_command;
mod coap_dtls;
mod coap_loss;
mod coap_peer;
mod coap_stream;
mod conformance;
mod crash;
mod examples;
mod folder;
mod groups;
mod guard;
mod interop;
mod serve;
mod server;
