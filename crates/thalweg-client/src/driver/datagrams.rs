//! A datagram socket with one peer. Where the system can, a run of equally long datagrams leaves by one call (UDP GSO) and
//! arrives by one (UDP GRO): measured against one call each, this is most of what a small datagram costs (ADR 0017).

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use mio::net::UdpSocket;

/// A UDP socket connected to one peer.
#[derive(Debug)]
pub(super) struct Datagrams {
    pub(super) socket: UdpSocket,
    /// The system takes runs; no longer so once it refused one.
    sends_runs: bool,
    /// It may give runs, and says how long their datagrams are.
    #[cfg(target_os = "linux")]
    control: Vec<u8>,
}

impl Datagrams {
    pub(super) fn connect(peer: SocketAddr) -> io::Result<Datagrams> {
        let any: SocketAddr = match peer {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(peer)?;
        Ok(Datagrams::new(socket))
    }

    /// Largest number of bytes of datagrams per call; 0: one datagram each.
    pub(super) fn run_bytes_max(&self) -> usize {
        if self.sends_runs { RUN_BYTES_MAX } else { 0 }
    }

    pub(super) fn send(&self, datagram: &[u8]) -> io::Result<usize> {
        self.socket.send(datagram)
    }
}

#[cfg(target_os = "linux")]
impl Datagrams {
    fn new(socket: UdpSocket) -> Datagrams {
        use nix::sys::socket::{getsockopt, setsockopt, sockopt};
        // Where it is unknown, datagrams come one by one.
        let _ = setsockopt(&socket, sockopt::UdpGroSegment, &true);
        let sends_runs = getsockopt(&socket, sockopt::UdpGsoSegment).is_ok();
        Datagrams {
            socket,
            sends_runs,
            control: nix::cmsg_space!(libc::c_int),
        }
    }

    /// Receives a datagram, or a run of them: how many bytes, and how long each is but the last, which may be shorter.
    pub(super) fn receive(&mut self, into: &mut [u8]) -> io::Result<(usize, usize)> {
        use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
        use std::os::fd::AsRawFd;
        let Datagrams {
            socket, control, ..
        } = self;
        // By way of mio, which has to know when the socket has nothing more.
        socket.try_io(|| {
            let mut slices = [io::IoSliceMut::new(into)];
            let came = recvmsg::<()>(
                socket.as_raw_fd(),
                &mut slices,
                Some(control),
                MsgFlags::MSG_DONTWAIT,
            )?;
            let segment = came.cmsgs()?.find_map(|control| match control {
                ControlMessageOwned::UdpGroSegments(bytes) => usize::try_from(bytes).ok(),
                _ => None,
            });
            Ok((came.bytes, segment.unwrap_or(came.bytes)))
        })
    }

    /// Sends datagrams that lie one behind the other, all so long but the last, which may be shorter. They go together or
    /// not at all.
    pub(super) fn send_run(&mut self, run: &[u8], segment: usize) -> io::Result<usize> {
        use nix::errno::Errno;
        use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
        use std::os::fd::AsRawFd;
        if run.len() <= segment {
            return self.send(run);
        }
        let socket = &self.socket;
        let length = u16::try_from(segment).map_err(io::Error::other)?;
        let sent = socket.try_io(|| {
            let control = [ControlMessage::UdpGsoSegments(&length)];
            Ok(sendmsg::<()>(
                socket.as_raw_fd(),
                &[io::IoSlice::new(run)],
                &control,
                MsgFlags::MSG_DONTWAIT,
                None,
            )?)
        });
        let is_refused = |error: &io::Error| {
            let refusals = [
                Errno::EINVAL,
                Errno::EIO,
                Errno::EMSGSIZE,
                Errno::EOPNOTSUPP,
            ];
            error
                .raw_os_error()
                .is_some_and(|code| refusals.contains(&Errno::from_raw(code)))
        };
        match sent {
            // The device cannot, or the path takes no datagrams as long as these: one by one from now on.
            Err(error) if is_refused(&error) => {
                self.sends_runs = false;
                Err(io::ErrorKind::Interrupted.into())
            }
            sent => sent,
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Datagrams {
    fn new(socket: UdpSocket) -> Datagrams {
        Datagrams {
            socket,
            sends_runs: false,
        }
    }

    pub(super) fn receive(&mut self, into: &mut [u8]) -> io::Result<(usize, usize)> {
        self.socket.recv(into).map(|bytes| (bytes, bytes))
    }

    pub(super) fn send_run(&mut self, run: &[u8], _: usize) -> io::Result<usize> {
        self.send(run)
    }
}

/// Largest payload of one IP packet, with space for extension headers.
const RUN_BYTES_MAX: usize = 65_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_so_many_datagrams_for_the_peer() {
        let peer = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let mut socket =
            Datagrams::connect(peer.local_addr().expect("it is bound")).expect("connected");
        let run = [&[1_u8; 20][..], &[2; 20], &[3; 7]].concat();
        if socket.run_bytes_max() == 0 {
            return eprintln!("this system has no GSO: nothing to test");
        }
        assert_eq!(socket.send_run(&run, 20).expect("it leaves"), 47);
        let mut buffer = [0; 100];
        let came: Vec<(usize, u8)> = (0..3)
            .map(|_| (peer.recv(&mut buffer).expect("a datagram"), buffer[0]))
            .collect();
        assert_eq!(came, [(20, 1), (20, 2), (7, 3)]);
    }

    #[test]
    fn what_the_peer_sends_is_taken_apart_again() {
        let one = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let mut socket =
            Datagrams::connect(one.local_addr().expect("it is bound")).expect("connected");
        let other = UdpSocket::from_std(one);
        other
            .connect(socket.socket.local_addr().expect("it is bound"))
            .expect("connected");
        let mut other = Datagrams::new(other);
        let run = [&[1_u8; 20][..], &[2; 20], &[3; 7]].concat();
        other.send_run(&run, 20).expect("it leaves");
        let mut all = Vec::new();
        let mut buffer = [0; 65_536];
        while all.len() < run.len() {
            match socket.receive(&mut buffer) {
                Ok((bytes, segment)) => {
                    assert!(segment == 20 || bytes == segment);
                    all.extend_from_slice(&buffer[..bytes]);
                }
                // On the loopback a datagram is there at once; a read before mio has noticed it is repeated.
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}"),
            }
        }
        assert_eq!(all, run);
    }
}
