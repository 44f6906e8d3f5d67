//! A whole server over real sockets. One program, because the server is linked into it.

mod coap_datagrams;
mod dead_threads;
mod full_elsewhere;
mod group_members;
mod multicast;
mod priorities;
mod queue_listeners;
mod rehome;
mod signs_of_life;
mod support;
#[path = "../../../thalweg-testbed/tests/contract/wanderer.rs"]
mod wanderer;

use std::net::SocketAddr;
use std::time::Duration;

use thalweg_server::Server;

/// Longer than anything here takes; a test that waits for it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where a listener of a server accepts.
fn address(server: &Server, listener: &str) -> SocketAddr {
    let listening = server.listening();
    let found = listening.iter().find(|(name, _)| name == listener);
    let (_, address) = found.expect("a listener");
    address.parse().expect("an address")
}
