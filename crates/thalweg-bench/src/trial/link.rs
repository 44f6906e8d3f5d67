//! The network that a cell asks for.

use crate::cell::Link;
use crate::net::{Network, Plan, network};

pub fn up(link: &Link, seed: u64, name: &str) -> Result<Network, String> {
    network::is_possible()?;
    Network::up(name, &Plan::of(link, seed)).map_err(|error| format!("the network: {error}"))
}
