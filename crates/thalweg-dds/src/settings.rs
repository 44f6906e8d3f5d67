//! Settings of a bridge.

use crate::name;
use crate::types::Types;
use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use thalweg_model::Filter;
use thalweg_server::config::dds::Dds;

/// Settings of a bridge.
#[derive(Clone, Debug)]
pub struct DdsSettings {
    pub domain: u32,
    /// Addresses or names of the interfaces that it uses; empty for those that the library finds.
    pub interfaces: Vec<String>,
    /// Addresses where participants are looked for, beside multicast.
    pub peers: Vec<String>,
    pub multicast: bool,
    /// User with whose rights it acts; empty for anonymous.
    pub user: String,
    /// Addresses that are bridged.
    pub allow: Vec<Filter>,
    /// Addresses that are not, whatever `allow` says.
    pub deny: Vec<Filter>,
    /// Where topics of ROS 2 are mounted.
    pub ros: String,
    /// Full name of the node of ROS 2 that the bridge is; `None`, and it is none.
    pub node: Option<String>,
    /// Addresses at which values of known types are JSON.
    pub json: Vec<Filter>,
    /// Addresses whose samples become last values, also if their writers are volatile.
    pub retain: Vec<Filter>,
    /// Addresses at which samples are thinned out.
    pub sampled: Vec<Filter>,
    /// Least time between two samples of an instance there.
    pub separation: Duration,
    /// Addresses of topics whose instances have addresses of their own.
    pub keys: Vec<Filter>,
    /// Addresses of topics whose lasting writers have addresses of their own.
    pub writers: Vec<Filter>,
    /// Addresses of services of ROS 2 that clients of the broker serve.
    pub services: Vec<Filter>,
    pub types: Arc<Types>,
    /// Bytes of the longest payload.
    pub payload_max: usize,
}

/// Whether one of these matches.
fn any(filters: &[Filter], address: &str) -> bool {
    filters.iter().any(|filter| filter.matches(address))
}

impl DdsSettings {
    /// Parsed configuration, with errors of its unusable parts.
    pub fn of(dds: &Dds) -> Result<DdsSettings, String> {
        let mut types = Types::of_ros();
        if let Some(folder) = &dds.types {
            let added = types.add_folder(folder);
            added.map_err(|why| format!("the types of dds.types cannot be used: {why}"))?;
        }
        if let Some(node) = dds.ros_node.as_ref().filter(|it| !name::is_node(it)) {
            return Err(format!(
                "dds.ros_node is '{node}', which is no name of a node: one is /robots/thalweg"
            ));
        }
        Ok(DdsSettings {
            domain: dds.domain,
            interfaces: dds.interfaces.clone(),
            peers: dds.peers.clone(),
            multicast: dds.multicast,
            user: dds.user.clone(),
            allow: dds.allow.clone(),
            deny: dds.deny.clone(),
            ros: dds.ros_mount.clone(),
            node: dds.ros_node.clone(),
            json: dds.json.clone(),
            retain: dds.retain.clone(),
            sampled: dds.sampled.clone(),
            separation: Duration::from_nanos(dds.separation.nanos()),
            keys: dds.keys.clone(),
            writers: match &dds.writers {
                Some(writers) => writers.clone(),
                None => name::place_of(&[], "rt/tf_static", &dds.ros_mount)
                    .ok()
                    .and_then(|it| Filter::new(&it.address).ok())
                    .into_iter()
                    .collect(),
            },
            services: dds.services.clone(),
            types: Arc::new(types),
            payload_max: dds.message_bytes_max,
        })
    }

    /// Only topics that have this address, or instances at it; a filter, too. What is no filter changes nothing.
    #[must_use]
    pub fn only(mut self, filter: &str) -> DdsSettings {
        let above = filter.rsplit_once('/').map(|(above, _)| above);
        let filters = [Some(filter), above].into_iter().flatten();
        let filters: Vec<Filter> = filters.filter_map(|it| Filter::new(it).ok()).collect();
        if !filters.is_empty() {
            self.allow = filters;
        }
        self
    }

    pub fn is_bridged(&self, address: &str) -> bool {
        any(&self.allow, address) && !any(&self.deny, address)
    }

    pub fn is_json(&self, address: &str) -> bool {
        any(&self.json, address)
    }

    pub fn is_retained(&self, address: &str) -> bool {
        any(&self.retain, address)
    }

    /// Least time between two samples of an instance that are published.
    pub fn separation_at(&self, address: &str) -> Duration {
        match any(&self.sampled, address) {
            true => self.separation,
            false => Duration::ZERO,
        }
    }

    pub fn is_served(&self, address: &str) -> bool {
        any(&self.services, address)
    }

    /// Whether instances of a topic have addresses of their own.
    pub fn has_instances(&self, is_keyless: bool, address: &str) -> bool {
        !is_keyless && any(&self.keys, address)
    }

    /// Whether either has addresses below the topic's.
    pub fn has_levels(&self, is_keyless: bool, address: &str) -> bool {
        self.has_instances(is_keyless, address) || self.has_writers(is_keyless, address)
    }

    /// Whether lasting writers of a topic have addresses of their own.
    pub fn has_writers(&self, is_keyless: bool, address: &str) -> bool {
        is_keyless && any(&self.writers, address)
    }

    /// The configuration of Cyclone DDS. Domains of one number in one process are distinguished by a number of the
    /// library's.
    pub fn xml(&self) -> String {
        let mut xml = String::from("<CycloneDDS><Domain id='any'><General>");
        // Multicast goes over no loopback interface.
        let is_loopback = |interface: &str| match interface.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => interface == "lo",
        };
        let multicasts = |interface: &str| self.multicast && !is_loopback(interface);
        let has_multicast = match self.interfaces.is_empty() {
            true => self.multicast,
            false => self.interfaces.iter().any(|it| multicasts(it)),
        };
        if !self.interfaces.is_empty() {
            xml.push_str("<Interfaces>");
            for interface in &self.interfaces {
                let is_address = interface.parse::<IpAddr>().is_ok();
                let key = if is_address { "address" } else { "name" };
                let _ = write!(
                    xml,
                    "<NetworkInterface {key}='{}' multicast='{}'/>",
                    quoted(interface),
                    multicasts(interface)
                );
            }
            xml.push_str("</Interfaces>");
        }
        let _ = write!(
            xml,
            "<AllowMulticast>{}</AllowMulticast></General><Discovery><ExternalDomainId>{}</ExternalDomainId>\
             <ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>119</MaxAutoParticipantIndex><Peers>",
            has_multicast, self.domain
        );
        for peer in &self.peers {
            let _ = write!(xml, "<Peer address='{}'/>", quoted(peer));
        }
        // Readers of Fast DDS know only by the hash which instance ends.
        xml.push_str(
            "</Peers></Discovery><Internal><GenerateKeyhash>true</GenerateKeyhash></Internal></Domain></CycloneDDS>",
        );
        xml
    }
}

fn quoted(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;")
        .replace('\'', "&apos;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_server::config::Config;

    fn settings(sets: &[&str]) -> DdsSettings {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let read = Config::from_text(None, std::iter::empty(), &sets);
        let (config, _) = read.expect("the settings are right");
        DdsSettings::of(&config.protocols.dds).expect("they can be used")
    }

    #[test]
    fn denied_is_denied_and_the_loopback_interface_is_the_default() {
        let of = settings(&["dds.deny=plant/+/secret"]);
        assert!(of.is_bridged("plant/1/open") && !of.is_bridged("plant/1/secret"));
        assert!(of.has_writers(true, "ros/tf_static") && !of.has_writers(true, "ros/pose"));
        assert!(!of.has_levels(true, "ros/pose") && of.has_levels(false, "ros/pose"));
        let of = settings(&["dds.allow=ros/#"]);
        assert!(of.is_bridged("ros/chatter") && !of.is_bridged("plant/1/open"));
        let xml = of.xml();
        assert!(
            xml.contains("<NetworkInterface address='127.0.0.1' multicast='false'/>"),
            "{xml}"
        );
        assert!(
            xml.contains("<AllowMulticast>false<") && xml.contains("<Peer address='127.0.0.1'/>")
        );
        let xml = settings(&["dds.interfaces=127.0.0.1,eth0"]).xml();
        assert!(
            xml.contains("<NetworkInterface address='127.0.0.1' multicast='false'/>"),
            "{xml}"
        );
        assert!(
            xml.contains("<NetworkInterface name='eth0' multicast='true'/>"),
            "{xml}"
        );
        assert!(xml.contains("<AllowMulticast>true<"), "{xml}");
    }

    #[test]
    fn writers_have_addresses_below_the_mount_of_ros_unless_others_are_named() {
        for (sets, address) in [
            (&["dds.ros_mount=robots/1"][..], "robots/1/tf_static"),
            (
                &["dds.ros_mount=robots/1", "dds.writers=map/#"],
                "map/ground",
            ),
        ] {
            let of = settings(sets);
            assert!(of.has_writers(true, address), "{sets:?}");
            assert!(!of.has_writers(true, "ros/tf_static"), "{sets:?}");
        }
    }

    #[test]
    fn a_node_has_a_name_of_ros_or_is_none() {
        assert_eq!(settings(&[]).node.as_deref(), Some("/thalweg"));
        assert_eq!(settings(&["dds.ros_node=off"]).node, None);
        let sets = ["dds.ros_node=thalweg".to_owned()];
        let (config, _) = Config::from_text(None, std::iter::empty(), &sets).expect("a text");
        let why = DdsSettings::of(&config.protocols.dds).expect_err("it has no slash");
        assert!(why.contains("dds.ros_node is 'thalweg'"), "{why}");
    }

    #[test]
    fn no_name_breaks_out_of_the_configuration() {
        let mut of = settings(&[]);
        of.peers = vec!["'/><x a='".into()];
        let xml = of.xml();
        assert!(xml.contains("address='&apos;/&gt;&lt;x a=&apos;'"), "{xml}");
    }
}
