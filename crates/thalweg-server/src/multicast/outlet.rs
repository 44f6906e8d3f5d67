//! The sockets of a group: one for each interface, which sends by it and by no other.

use crate::config::Multicast;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

/// Where the datagrams of a group leave.
#[derive(Debug)]
pub(crate) struct Outlet {
    group: SocketAddr,
    sockets: Vec<(String, UdpSocket)>,
}

impl Outlet {
    /// Opens a socket for each interface; words on what is wrong.
    pub(super) fn open(config: &Multicast) -> Result<Outlet, String> {
        let group = config.group.ok_or("it has no group")?;
        let open = |interface: &String| {
            let socket = socket(group, interface, config.ttl).map_err(|error| {
                format!(
                    "nothing can be sent to {group} by {interface}: {error}. Write interfaces as `ip address` \
                     shows them, and see that they are up"
                )
            })?;
            Ok((interface.clone(), socket))
        };
        let sockets: Result<_, String> = config.interfaces.iter().map(open).collect();
        Ok(Outlet {
            group,
            sockets: sockets?,
        })
    }

    pub(super) fn group(&self) -> SocketAddr {
        self.group
    }

    /// Sends a datagram by each interface; the outcome of each.
    pub(super) fn send<'a>(
        &'a self,
        datagram: &'a [u8],
    ) -> impl Iterator<Item = (&'a str, io::Result<()>)> {
        self.sockets.iter().map(move |(interface, socket)| {
            let sent = socket.send_to(datagram, self.group);
            (interface.as_str(), sent.map(|_| ()))
        })
    }
}

fn socket(group: SocketAddr, interface: &str, ttl: u8) -> io::Result<UdpSocket> {
    let domain = Domain::for_address(group);
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    match group.ip() {
        IpAddr::V4(_) => {
            socket.set_multicast_if_v4(&address_of(interface)?)?;
            socket.set_multicast_ttl_v4(ttl.into())?;
        }
        IpAddr::V6(_) => {
            socket.set_multicast_if_v6(if_nametoindex(interface)?)?;
            socket.set_multicast_hops_v6(ttl.into())?;
        }
    }
    Ok(socket.into())
}

/// An address by which the system knows the interface.
fn address_of(interface: &str) -> io::Result<Ipv4Addr> {
    let index = if_nametoindex(interface)?;
    let address = getifaddrs()?
        .filter(|found| if_nametoindex(found.interface_name.as_str()) == Ok(index))
        .find_map(|found| Some(found.address?.as_sockaddr_in()?.ip()));
    address.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::AddrNotAvailable,
            "the interface has no IPv4 address",
        )
    })
}
