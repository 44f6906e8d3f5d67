//! A broker with a bridge, a participant of DDS by another library in another process, and clients of MQTT and CoAP.
//!
//! `THALWEG_DDS_PYTHON` is a Python with the package `cyclonedds`; without it there is no such participant, and nothing is tested.
#![cfg(feature = "cyclone")]

mod announced;
mod cells;
mod client;
mod demo;
mod filters;
mod held;
mod history;
mod lasting;
mod matrix;
mod nodes;
mod peer;
mod policies;
mod promises;
mod puppet;
mod returns;
mod services;
mod terms;
