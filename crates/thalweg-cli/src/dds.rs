//! The bridge into a domain of DDS, in programs that are built with it.

use crate::failure::Failure;
use thalweg_client::{BrokerUrl, Transport};
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

/// A lane into the domain of a `dds://` URL. Its settings are those of a broker's bridge, as far as the environment has them.
#[cfg(feature = "dds")]
pub fn lane(url: &BrokerUrl) -> Result<Box<dyn Transport>, Failure> {
    use crate::config::in_words;
    use thalweg_dds::client::DdsLane;
    use thalweg_dds::settings::DdsSettings;
    let domain = url.host.parse().ok().filter(|domain| *domain <= 232);
    let domain: u32 = domain.ok_or_else(|| {
        Failure::usage(format!("`{}` is not the number of a domain", url.host))
            .mend("Write dds://DOMAIN/TOPIC, with a number from 0 to 232")
    })?;
    let own = |(name, _): &(String, String)| name.starts_with("THALWEG_DDS__");
    // A command is no node, and prints JSON, unless the environment says otherwise.
    let own_sets = [
        ("THALWEG_DDS__JSON", "dds.json=#"),
        ("THALWEG_DDS__ROS_NODE", "dds.ros_node=off"),
    ];
    let unsaid = own_sets
        .iter()
        .filter(|(name, _)| std::env::var_os(name).is_none());
    let sets: Vec<String> = unsaid.map(|(_, set)| (*set).to_owned()).collect();
    let (config, _) =
        Config::from_text(None, std::env::vars().filter(own), &sets).map_err(in_words)?;
    let settings = DdsSettings::of(&config.protocols.dds).map_err(Failure::usage)?;
    let settings = DdsSettings { domain, ..settings };
    let settings = match &url.topic {
        Some(topic) => settings.only(topic),
        None => settings,
    };
    let lane = DdsLane::join(settings);
    let lane = lane.map_err(|error| Failure::new(format!("{url} cannot be joined: {error}")))?;
    Ok(Box::new(lane))
}

/// Refuses every such URL, and says how to build a program that takes it.
#[cfg(not(feature = "dds"))]
pub fn lane(url: &BrokerUrl) -> Result<Box<dyn Transport>, Failure> {
    Err(
        Failure::usage(format!("{url}: this program was built without DDS"))
            .mend("Build it with `cargo build --release --features dds`"),
    )
}
