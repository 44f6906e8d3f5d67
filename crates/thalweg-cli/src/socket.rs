//! A blocking stream socket, TCP or Unix, and how to come by one.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use thalweg_client::BrokerUrl;

use crate::failure::Failure;
use crate::quantity::spoken;

/// A connected stream socket.
#[derive(Debug)]
pub enum Socket {
    Tcp(TcpStream),
    /// A Unix domain socket.
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Socket {
    /// Connects to the host of `url`, trying each of its addresses.
    pub fn tcp(url: &BrokerUrl, within: Duration) -> Result<Socket, Failure> {
        let deadline = Instant::now() + within;
        let addresses = (url.host.as_str(), url.port)
            .to_socket_addrs()
            .map_err(|error| {
                Failure::new(format!("the host `{}` is not known: {error}", url.host))
                    .mend("Check its spelling in --url")
            })?;
        let mut last = None;
        for address in addresses {
            let left = deadline
                .saturating_duration_since(Instant::now())
                .max(Duration::from_millis(1));
            match TcpStream::connect_timeout(&address, left) {
                Ok(stream) => {
                    // Small packets must not wait for the acknowledgement of earlier ones; if it fails they do, and that is all.
                    let _ = stream.set_nodelay(true);
                    return Ok(Socket::Tcp(stream));
                }
                Err(error) => last = Some(error),
            }
        }
        Err(match last {
            Some(error) if error.kind() == io::ErrorKind::ConnectionRefused => Failure::new(
                format!("nobody listens on {url}: connection refused"),
            )
            .mend(
                "Is the broker running? Start one with `thalweg serve`, or name another with --url",
            ),
            Some(error) if error.kind() == io::ErrorKind::TimedOut => {
                Failure::new(format!("no answer from {url} within {}", spoken(within)))
                    .mend("Check the address, and that no firewall is in the way")
            }
            Some(error) => Failure::new(format!("cannot connect to {url}: {error}"))
                .mend("Check --url and the network"),
            None => Failure::new(format!("the host `{}` has no address", url.host))
                .mend("Check its spelling in --url"),
        })
    }

    /// Connects to a Unix socket.
    #[cfg(unix)]
    pub fn unix(path: &Path) -> Result<Socket, Failure> {
        UnixStream::connect(path).map(Socket::Unix).map_err(|error| {
            let place = path.display();
            match error.kind() {
                io::ErrorKind::NotFound => Failure::new(format!("there is no socket {place}")).mend(
                    "Is the broker running, with a listener whose transport is unix and whose bind is this path?",
                ),
                io::ErrorKind::ConnectionRefused => Failure::new(format!("nobody listens on {place}"))
                    .mend("Is the broker running? The socket is a leftover of one that is not"),
                io::ErrorKind::PermissionDenied => Failure::new(format!("you may not connect to {place}"))
                    .mend("The listener's unix_mode says who may"),
                _ => Failure::new(format!("cannot connect to {place}: {error}")),
            }
        })
    }

    /// Says that there are none on this system.
    #[cfg(not(unix))]
    pub fn unix(_: &Path) -> Result<Socket, Failure> {
        Err(Failure::usage("this system has no Unix sockets").mend("Use --url"))
    }

    /// A second handle on the same socket.
    pub fn try_clone(&self) -> io::Result<Socket> {
        Ok(match self {
            Socket::Tcp(stream) => Socket::Tcp(stream.try_clone()?),
            #[cfg(unix)]
            Socket::Unix(stream) => Socket::Unix(stream.try_clone()?),
        })
    }

    /// Ends one direction or both, for every handle.
    pub fn shutdown(&self, how: Shutdown) {
        // It fails when the peer was faster, and then the direction is ended already.
        let _ = match self {
            Socket::Tcp(stream) => stream.shutdown(how),
            #[cfg(unix)]
            Socket::Unix(stream) => stream.shutdown(how),
        };
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(buffer),
            #[cfg(unix)]
            Socket::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            #[cfg(unix)]
            Socket::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
