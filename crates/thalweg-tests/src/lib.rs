//! The single integration-test program of Thalweg; there is nothing to import here.
//!
//! It knows the built `thalweg` binary and its sockets, and must never reach into another crate's insides: what is proven
//! here is proven from outside. Start reading at `tests/all/main.rs`; `interop/` holds the foreign clients, each in its own
//! language, and `conformance/` what MQTT's normative statements ask for.
