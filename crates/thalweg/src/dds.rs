//! The bridge into a domain of DDS, in programs that are built with it.

use crate::failure::Failure;
use thalweg_server::Server;
use thalweg_server::config::Config;

#[cfg(feature = "dds")]
pub use thalweg_dds::bridge::Bridge;

/// There is none in this program.
#[cfg(not(feature = "dds"))]
pub enum Bridge {}

/// Leaves the domain, and waits until both threads have ended.
#[cfg(feature = "dds")]
pub fn stop(bridge: Bridge) {
    drop(bridge);
}

/// Never called: there is no value to call it with.
#[cfg(not(feature = "dds"))]
pub fn stop(bridge: Bridge) {
    match bridge {}
}

/// Joins the domain, if there is to be a bridge.
#[cfg(feature = "dds")]
pub fn start(config: &Config, server: &Server) -> Result<Option<Bridge>, Failure> {
    let dds = &config.protocols.dds;
    let started = dds.enabled.then(|| Bridge::of(dds, server)).transpose();
    started.map_err(|why| Failure::new(why).mend("Look at dds.interfaces, dds.peers and dds.types"))
}

/// Says so, if there is to be a bridge.
#[cfg(not(feature = "dds"))]
pub fn start(config: &Config, _: &Server) -> Result<Option<Bridge>, Failure> {
    match config.protocols.dds.enabled {
        true => Err(
            Failure::new("dds.enabled is set, but this program was built without DDS").mend(
                "Build it with `cargo build --release --features dds`, or leave dds.enabled out",
            ),
        ),
        false => Ok(None),
    }
}
