//! Names to addresses, without holding up the loop: the system's resolver blocks, so it has a short-lived thread.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use super::handle::Shared;
use crate::ticket::lock;

/// Addresses that the resolver found for a lane.
pub(crate) struct Resolved {
    pub(crate) lane: usize,
    pub(crate) outcome: Result<Vec<SocketAddr>, String>,
}

/// The addresses of a host that is written as one.
pub(super) fn literal(host: &str, port: u16) -> Option<SocketAddr> {
    // `fe80::1%2` has a scope, which only SocketAddrV6 knows.
    host.parse::<IpAddr>()
        .ok()
        .map(|address| (address, port).into())
        .or_else(|| format!("[{host}]:{port}").parse().ok())
}

/// Asks the system; the answer comes into the inbox.
pub(super) fn resolve(
    lane: usize,
    host: &str,
    port: u16,
    shared: &Arc<Shared>,
) -> std::io::Result<()> {
    let (host, shared) = (host.to_owned(), shared.clone());
    std::thread::Builder::new()
        .name("thalweg-resolve".into())
        .stack_size(128 << 10)
        .spawn(move || {
            let outcome = match (host.as_str(), port).to_socket_addrs() {
                Ok(addresses) => {
                    let addresses: Vec<SocketAddr> = addresses.collect();
                    match addresses.is_empty() {
                        true => Err(format!("{host} has no address")),
                        false => Ok(addresses),
                    }
                }
                Err(error) => Err(format!("{host} cannot be resolved: {error}")),
            };
            lock(&shared.inbox)
                .resolved
                .push(Resolved { lane, outcome });
            shared.ring();
        })?;
    Ok(())
}
