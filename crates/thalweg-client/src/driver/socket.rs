//! The sockets of a lane, none of which ever blocks.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::path::Path;

use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};

use super::datagrams::Datagrams;

#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Udp(Datagrams),
}

impl Socket {
    /// Begins to connect; [`Socket::is_connected`] says when that is done.
    pub(super) fn tcp(peer: SocketAddr) -> io::Result<Socket> {
        TcpStream::connect(peer).map(Socket::Tcp)
    }

    /// Connects; a Unix socket does so at once or not at all.
    pub(super) fn unix(path: &Path) -> io::Result<Socket> {
        UnixStream::connect(path).map(Socket::Unix)
    }

    /// A UDP socket connected to this peer.
    pub(super) fn udp(peer: SocketAddr) -> io::Result<Socket> {
        Datagrams::connect(peer).map(Socket::Udp)
    }

    /// Lets the poll watch it.
    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let both = Interest::READABLE | Interest::WRITABLE;
        match self {
            Socket::Tcp(stream) => registry.register(stream, token, both),
            Socket::Unix(stream) => registry.register(stream, token, both),
            Socket::Udp(datagrams) => registry.register(&mut datagrams.socket, token, both),
        }
    }

    pub(super) fn deregister(&mut self, registry: &Registry) {
        // Fails only for a socket that was not registered.
        let _ = match self {
            Socket::Tcp(stream) => registry.deregister(stream),
            Socket::Unix(stream) => registry.deregister(stream),
            Socket::Udp(datagrams) => registry.deregister(&mut datagrams.socket),
        };
    }

    /// Whether a connection that was begun stands; an error if it cannot.
    pub(super) fn is_connected(&self) -> io::Result<bool> {
        let (error, peer) = match self {
            Socket::Tcp(stream) => (stream.take_error()?, stream.peer_addr().map(drop)),
            Socket::Unix(stream) => (stream.take_error()?, stream.peer_addr().map(drop)),
            Socket::Udp(_) => return Ok(true),
        };
        match (error, peer) {
            (Some(error), _) => Err(error),
            (None, Ok(())) => Ok(true),
            (None, Err(error)) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            // EINPROGRESS, which has no kind of its own.
            (None, Err(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            (None, Err(error)) => Err(error),
        }
    }

    /// Disables Nagle's algorithm, which would wait for acknowledgements: the client makes its own batches. And the system is
    /// given little ahead.
    pub(super) fn set_options(&self, dscp: Option<u8>) {
        if let Some(class) = dscp {
            match self {
                Socket::Tcp(stream) => super::network::mark(stream, stream.peer_addr(), class),
                Socket::Udp(datagrams) => {
                    super::network::mark(&datagrams.socket, datagrams.socket.peer_addr(), class);
                }
                Socket::Unix(_) => {}
            }
        }
        if let Socket::Tcp(stream) = self {
            // Only slower without.
            let _ = stream.set_nodelay(true);
            super::network::keep_short(stream);
        }
    }

    /// Reads; of datagrams it may be a run, each so long as the second number says, but the last, which may be shorter.
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<(usize, usize)> {
        match self {
            Socket::Tcp(stream) => stream.read(into).map(|bytes| (bytes, bytes)),
            Socket::Unix(stream) => stream.read(into).map(|bytes| (bytes, bytes)),
            Socket::Udp(datagrams) => datagrams.receive(into),
        }
    }

    pub(super) fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(from),
            Socket::Unix(stream) => stream.write(from),
            Socket::Udp(datagrams) => datagrams.send(from),
        }
    }

    /// Says that nothing more will be sent.
    pub(super) fn shutdown(&self) {
        // Whoever hung up before needs no goodbye.
        let _ = match self {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Socket::Unix(stream) => stream.shutdown(Shutdown::Write),
            Socket::Udp(_) => Ok(()),
        };
    }
}

/// Whether the error means that the socket is not ready, or that a signal interrupted the call.
pub(super) fn is_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use nix::sys::socket::{getsockopt, sockopt};

    use super::*;

    #[test]
    fn what_is_sent_has_the_class_of_service_that_was_asked_for() {
        for (own, dscp) in [
            ("127.0.0.1:0", Some(46_u8)),
            ("[::1]:0", Some(46)),
            ("127.0.0.1:0", None),
        ] {
            // A machine may have no IPv6.
            let Ok(listener) = TcpListener::bind(own) else {
                continue;
            };
            let peer = listener.local_addr().expect("it is bound");
            let _taken = UdpSocket::bind(peer).expect("the port is free for datagrams");
            let sockets = [Socket::tcp(peer), Socket::udp(peer)];
            let _accepted = listener.accept().expect("a connection");
            for socket in sockets {
                let socket = socket.expect("it connects");
                socket.set_options(dscp);
                let class = match (&socket, peer) {
                    (Socket::Tcp(it), SocketAddr::V4(_)) => getsockopt(it, sockopt::Ipv4Tos),
                    (Socket::Tcp(it), _) => getsockopt(it, sockopt::Ipv6TClass),
                    (Socket::Udp(it), SocketAddr::V4(_)) => {
                        getsockopt(&it.socket, sockopt::Ipv4Tos)
                    }
                    (Socket::Udp(it), _) => getsockopt(&it.socket, sockopt::Ipv6TClass),
                    (Socket::Unix(_), _) => panic!("{socket:?}"),
                };
                assert_eq!(
                    class,
                    Ok(dscp.map_or(0, |dscp| i32::from(dscp) << 2)),
                    "{socket:?}"
                );
            }
        }
    }
}
