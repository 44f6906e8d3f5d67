//! Shared groups in virtual time, on the kernel itself: the bars of ADR 0019, with fixed seeds.
//!
//! Arrivals and service demands are the same for us and for the limit, so a ratio needs far fewer messages than a mean:
//! each condition has as many as bring it within about 0.02 of what a hundred thousand give. The whole table in full size:
//! `CARGO_PROFILE_DEV_OPT_LEVEL=3 cargo test -p thalweg-bench --test sim -- --ignored --nocapture`.

mod bars;
mod rules;
mod study;
mod whole;
