//! No broker: publishers are where clients are, subscribers at the other end of the link, and one program is both.

use std::fs;
use std::io;
use std::net::SocketAddr;

use super::site::Site;
use super::system::System;
use super::{NoBroker, Running};
use crate::cell::Protocol;

/// Where publishers are found, and what the library is told.
pub fn stand_in(system: &System, site: Site<'_>) -> Result<Running, NoBroker> {
    // Nothing is written there.
    let _ = fs::remove_dir_all(&site.folder);
    let version = system.version()?;
    let publisher = site.client()?;
    let (protocol, configuration) = match system.speaks(Protocol::Dds) {
        true => {
            let settings = &site.cell.broker_settings;
            let is_multicast = settings.get("multicast").is_some_and(|word| word == "true");
            let heartbeat = settings.get("heartbeat").map(String::as_str);
            let ends = [(publisher, site.host), (site.host, publisher)].map(|(own, peer)| {
                let (own, peer) = (own.to_string(), peer.to_string());
                cyclone(0, &own, &peer, is_multicast, heartbeat)
            });
            (Protocol::Dds, ends.join("\n"))
        }
        false => (
            Protocol::Zmtp,
            "ZMQ_SNDHWM = ZMQ_RCVHWM = 10000 (of a flood fewer: 4 MiB for all subscribers), ZMQ_XPUB_NODROP = 1".to_owned(),
        ),
    };
    let address = SocketAddr::new(publisher, site.address(5559)?.port());
    Ok(Running {
        addresses: [(protocol, address.into())].into(),
        version,
        configuration,
        _ports: Some(site.ports),
        ..Running::default()
    })
}

/// What clients of a bridge are told: a line for publishers and one for subscribers, which are in different domains, so that
/// every sample passes through the bridge.
pub fn clients_of_bridge(site: &Site<'_>) -> io::Result<String> {
    let (own, peer) = (site.client()?.to_string(), site.host.to_string());
    let told = DOMAINS.map(|domain| cyclone(domain, &own, &peer, false, None) + "\n");
    Ok(told.concat())
}

/// Of publishers, and of subscribers; `systems.toml` has them, too.
const DOMAINS: [u32; 2] = [71, 72];

/// Cyclone's configuration of one end; in one line, because the program reads lines, and without double quotes.
/// Each end looks for the peer at the other end of the link, because multicasts are not forwarded over a router.
fn cyclone(
    domain: u32,
    own: &str,
    peer: &str,
    is_multicast: bool,
    heartbeat: Option<&str>,
) -> String {
    let interval = heartbeat.map_or(String::new(), |every| {
        format!("<Internal><HeartbeatInterval max='8 s'>{every}</HeartbeatInterval></Internal>")
    });
    format!(
        "<CycloneDDS><Domain id='any'><General><Interfaces><NetworkInterface address='{own}' \
         multicast='{is_multicast}'/></Interfaces><AllowMulticast>{is_multicast}</AllowMulticast></General>\
         <Discovery><ExternalDomainId>{domain}</ExternalDomainId><ParticipantIndex>auto</ParticipantIndex>\
         <MaxAutoParticipantIndex>15</MaxAutoParticipantIndex><Peers><Peer address='{peer}'/></Peers></Discovery>\
         {interval}</Domain></CycloneDDS>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_reads_in_one_line_is_one() {
        let text = cyclone(3, "10.80.1.2", "10.80.2.2", false, Some("1 s"));
        assert!(
            !text.contains(['"', '\n']) && text.contains("address='10.80.1.2'"),
            "{text}"
        );
        assert!(
            text.contains("<AllowMulticast>false<") && text.contains(">1 s</HeartbeatInterval>")
        );
        assert!(!cyclone(3, "a", "b", true, None).contains("Heartbeat"));
    }
}
