//! What the lobby hands over.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use mio::event::Source;
use mio::{Interest, Registry, Token};
use rustix::buffer::spare_capacity;

use super::{HalfOpen, Slot};
use crate::listen::ListenerSpec;
use crate::transport::Transport;
use thalweg_fronts::AnyFront;
use thalweg_model::Time;

/// A connection on its way to its home shard.
pub struct Arrival {
    /// Non-blocking, and registered with no poll.
    pub socket: Socket,
    /// The filters, past their handshakes.
    pub transport: Transport,
    /// Protocol bytes that were read already.
    pub input: Vec<u8>,
    /// Wire bytes that are still to be sent, before anything else.
    pub output: Vec<u8>,
    pub peer: PeerInfo,
    /// When it was accepted; the time until the first packet counts from here.
    pub accepted_at: Instant,
    /// Its place among the handshakes, if this one is not complete: drop it when it is.
    pub half_open: Option<HalfOpen>,
    /// Its place in the listener's counts: drop it when the socket is closed.
    pub slot: Slot,
    /// What it is already, if it comes from another shard.
    pub moved: Option<Moved>,
}

/// What a connection brings along from another shard.
pub struct Moved {
    pub front: AnyFront,
    /// When it was accepted.
    pub since: Time,
    /// When what it has logged in with ends; [`Time::NEVER`] if it does not.
    pub login_ends: Time,
}

/// The peer of a connection.
#[derive(Clone, Debug)]
pub struct PeerInfo {
    /// The peer's address, from the PROXY header if there was one; `None` for a unix socket.
    pub address: Option<SocketAddr>,
    /// The address it connected to, from the PROXY header if there was one; `None` for a unix socket.
    pub local: Option<SocketAddr>,
    /// The listener it came through.
    pub listener: Arc<ListenerSpec>,
    /// The name in its verified client certificate, from TLS here, else from the PROXY header.
    pub certificate_name: Option<Arc<str>>,
}

/// Takes connections to their home shards.
pub trait Deliver: Send {
    /// Called on the lobby's thread; must not block. `key` is that of [`Route::Key`](super::Route::Key), else 0.
    fn deliver(&self, key: u64, arrival: Arrival);

    /// Has the connection with this [`HalfOpen::serial`] closed: a newcomer has its place. Called on the lobby's thread;
    /// must not block. The connection may have completed its handshake meanwhile; then it stays.
    fn make_room(&self, half_open: u64);
}

/// A connected stream socket.
#[derive(Debug)]
pub enum Socket {
    /// TCP over IPv4 or IPv6.
    Tcp(mio::net::TcpStream),
    /// A unix stream socket.
    Unix(mio::net::UnixStream),
}

impl Socket {
    /// Shuts one or both directions down.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.shutdown(how),
            Socket::Unix(stream) => stream.shutdown(how),
        }
    }

    /// Reads into the room behind these bytes, which is not looked at before.
    pub fn read_behind(&self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        let socket = match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        };
        Ok(rustix::io::read(socket, spare_capacity(bytes))?)
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(buffer),
            Socket::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write_vectored(parts),
            Socket::Unix(stream) => stream.write_vectored(parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for Socket {
    fn register(
        &mut self,
        registry: &Registry,
        token: Token,
        interests: Interest,
    ) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.register(registry, token, interests),
            Socket::Unix(stream) => stream.register(registry, token, interests),
        }
    }

    fn reregister(
        &mut self,
        registry: &Registry,
        token: Token,
        interests: Interest,
    ) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.reregister(registry, token, interests),
            Socket::Unix(stream) => stream.reregister(registry, token, interests),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.deregister(registry),
            Socket::Unix(stream) => stream.deregister(registry),
        }
    }
}
