//! Opening a datagram listener: as many sockets on one address as there are shards.
//!
//! The system spreads peers over the sockets of one address by a hash of both addresses and ports, so a peer stays on one
//! shard for as long as no socket comes or goes. Therefore all are bound before any is read, and they go together.

use super::batch;
use crate::listen::{ListenFault, mark};
use nix::net::if_::if_nametoindex;
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

/// A datagram listener: where, and with how much room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatagramSpec {
    /// Name in the configuration's table, for logs and metrics.
    pub name: Arc<str>,
    /// Where it listens; port 0 lets the system choose.
    pub bind: SocketAddr,
    /// Bytes of received datagrams that the system keeps for each socket until they are read; `None` leaves it to the
    /// system.
    pub receive_bytes: Option<usize>,
    /// The same for datagrams to be sent.
    pub send_bytes: Option<usize>,
    /// The class of service in the IP headers of what is sent; `None` leaves it to the system.
    pub dscp: Option<u8>,
    /// Groups to be in, each on the network interface of this name. Needs a bind to all addresses: the system gives a
    /// socket of one address nothing that was sent to a group.
    pub groups: Vec<(IpAddr, String)>,
}

/// The sockets of a listener, bound and not read yet: one for each shard, in their order.
#[derive(Debug)]
pub(crate) struct DatagramSockets {
    pub(crate) sockets: Vec<UdpSocket>,
    /// With the port that the system chose.
    pub(crate) local: SocketAddr,
}

/// Binds `count` sockets.
pub(crate) fn open(spec: &DatagramSpec, count: usize) -> Result<DatagramSockets, ListenFault> {
    open_all(spec, count).map_err(|error| ListenFault::at(&spec.name, spec.bind, &error))
}

fn open_all(spec: &DatagramSpec, count: usize) -> io::Result<DatagramSockets> {
    // The first one does not share its address, so that another process that has it is noticed. Only then may the
    // others join it, and with them whatever process of the same user comes and asks for it: the system allows no less.
    let first = socket(spec, spec.bind)?;
    first.bind(&spec.bind.into())?;
    let local = UdpSocket::from(first.try_clone()?).local_addr()?;
    let mut sockets: Vec<UdpSocket> = Vec::with_capacity(count);
    if count > 1 {
        first.set_reuse_port(true)?;
    }
    // One of them only: each socket in a group gets a copy.
    for (group, interface) in &spec.groups {
        join(&first, *group, interface).map_err(|error| {
            io::Error::new(error.kind(), format!("{group} on {interface}: {error}"))
        })?;
    }
    sockets.push(first.into());
    for _ in 1..count {
        let other = socket(spec, local)?;
        other.set_reuse_port(true)?;
        other.bind(&local.into())?;
        sockets.push(other.into());
    }
    Ok(DatagramSockets { sockets, local })
}

fn socket(spec: &DatagramSpec, address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    if address.is_ipv6() {
        // [::] means every address of the machine, whatever the system's default is.
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    // The system may give less than it is asked for (net.core.rmem_max, wmem_max), without an error.
    if let Some(bytes) = spec.receive_bytes {
        socket.set_recv_buffer_size(bytes)?;
    }
    if let Some(bytes) = spec.send_bytes {
        socket.set_send_buffer_size(bytes)?;
    }
    if let Some(dscp) = spec.dscp {
        mark(&socket, address, dscp)?;
    }
    socket.set_nonblocking(true)?;
    if address.ip().is_unspecified() {
        batch::tell_destinations(&socket, address.is_ipv6())?;
        // Otherwise it would hear what is sent to groups that other programs on this machine are in.
        socket.set_multicast_all_v4(false)?;
        if address.is_ipv6() {
            socket.set_multicast_all_v6(false)?;
        }
    }
    Ok(socket)
}

fn join(socket: &Socket, group: IpAddr, interface: &str) -> io::Result<()> {
    let index = if_nametoindex(interface)?;
    match group {
        IpAddr::V4(group) => {
            socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(index))
        }
        IpAddr::V6(group) => socket.join_multicast_v6(&group, index),
    }
}
