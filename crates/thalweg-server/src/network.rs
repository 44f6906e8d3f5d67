//! What the operating system knows of a connection's network: how long a round trip takes, and what has not been sent.
//!
//! Asked only for members of shared subscriptions; see `shard/members.rs`.

use crate::lobby::Socket;
use socket2::SockRef;
use std::io;
use std::sync::OnceLock;
use thalweg_model::Span;

/// Linux's `struct tcp_info` (linux/tcp.h) up to `tcpi_min_rtt`: 8 bytes of flags, 24 numbers, four numbers of twice the
/// length, four numbers. The system gives as much of it as is asked for.
type Head = [u32; 38];

/// Places in it. Times are in microseconds.
const RTT_VARIANCE: usize = 18;
const NOT_SENT: usize = 36;
const RTT_LEAST: usize = 37;

nix::getsockopt_impl!(
    TcpInfo,
    libc::IPPROTO_TCP,
    libc::TCP_INFO,
    Head,
    nix::sys::socket::sockopt::GetStruct<Head>
);

#[derive(Clone, Copy)]
struct TcpInfo;

/// A round trip between the system and the peer's system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoundTrip {
    /// The shortest of the last minutes.
    pub(crate) least: Span,
    /// How much they differ.
    pub(crate) jitter: Span,
}

/// Measures the network of a connection. Nothing if the system does not know it.
///
/// What TCP calls the variance of its round trips contains what the peer does: acknowledgements ride on the answers of
/// its program, or wait for them for some hundredths of a second. So it is limited to what is likely of a network, a
/// quarter of the shortest round trip; more would make punctual workers look silent.
pub(crate) fn round_trip(socket: &Socket) -> Option<RoundTrip> {
    match socket {
        Socket::Unix(_) => Some(RoundTrip {
            least: Span::ZERO,
            jitter: Span::ZERO,
        }),
        Socket::Tcp(_) => {
            let head = head(socket)?;
            let micros = |at: usize| {
                head.get(at)
                    .map(|micros| Span::from_nanos(u64::from(*micros) * 1_000))
            };
            // Without a sample yet the shortest is the largest number there is.
            let least = micros(RTT_LEAST).filter(|least| *least < Span::from_secs(1_000))?;
            let jitter = micros(RTT_VARIANCE)?.min(Span::from_nanos(least.nanos() / 4));
            Some(RoundTrip { least, jitter })
        }
    }
}

/// Bytes that the socket has taken and not sent, because the peer has no room for them, or the network.
pub(crate) fn not_sent(socket: &Socket) -> u32 {
    head(socket)
        .and_then(|head| head.get(NOT_SENT).copied())
        .unwrap_or(0)
}

/// Makes the socket count as writable only while it has sent all that it has taken; or, as usual, while it has room.
pub(crate) fn keep_short(socket: &Socket, short: bool) -> io::Result<()> {
    match socket {
        // 0 is the system's own limit, which is none.
        Socket::Tcp(stream) => SockRef::from(stream).set_tcp_notsent_lowat(u32::from(short)),
        Socket::Unix(_) => Ok(()),
    }
}

fn head(socket: &Socket) -> Option<Head> {
    match socket {
        Socket::Tcp(stream) if knows_head() => nix::sys::socket::getsockopt(stream, TcpInfo).ok(),
        _ => None,
    }
}

/// Whether the system is new enough to have all of it: 4.6, of the year 2016. An older one gives less, and `nix` takes
/// that for a mistake of ours.
fn knows_head() -> bool {
    static KNOWS: OnceLock<bool> = OnceLock::new();
    *KNOWS.get_or_init(|| {
        std::fs::read_to_string("/proc/sys/kernel/osrelease")
            .is_ok_and(|release| is_new_enough(&release))
    })
}

fn is_new_enough(release: &str) -> bool {
    let mut numbers = release
        .split(|letter: char| !letter.is_ascii_digit())
        .map(|digits| digits.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) >= (4, 6),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{Ipv4Addr, TcpListener};

    fn pair() -> (Socket, std::net::TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        client.set_recv_buffer_size(4096).unwrap();
        client
            .connect(&listener.local_addr().unwrap().into())
            .unwrap();
        let (server, _) = listener.accept().unwrap();
        server.set_nonblocking(true).unwrap();
        (
            Socket::Tcp(mio::net::TcpStream::from_std(server)),
            client.into(),
        )
    }

    #[test]
    fn releases_are_compared_by_their_numbers() {
        for (release, new) in [
            ("6.18.44-fc\n", true),
            ("4.6.0", true),
            ("4.5.7", false),
            ("10.0", true),
            ("x", false),
        ] {
            assert_eq!(is_new_enough(release), new, "{release}");
        }
    }

    #[test]
    fn a_round_trip_within_the_machine_is_short_and_a_unix_socket_has_none() {
        let (server, _client) = pair();
        let RoundTrip { least, jitter } = round_trip(&server).expect("this system is new enough");
        assert!(
            least > Span::ZERO && least < Span::from_millis(100),
            "{least:?}"
        );
        assert!(jitter.nanos() <= least.nanos() / 4, "{jitter:?}");
        let (unix, _peer) = mio::net::UnixStream::pair().unwrap();
        assert_eq!(
            round_trip(&Socket::Unix(unix)),
            Some(RoundTrip {
                least: Span::ZERO,
                jitter: Span::ZERO
            })
        );
    }

    #[test]
    fn what_a_peer_has_no_room_for_is_seen_as_not_sent() {
        let (mut server, _client) = pair();
        keep_short(&server, true).unwrap();
        assert_eq!(not_sent(&server), 0);
        for _ in 0..1_000 {
            match server.write(&[7; 1024]) {
                Ok(_) if not_sent(&server) == 0 => {}
                Ok(_) => return,
                Err(error) => panic!("{error}: the socket is full before anything was left over"),
            }
        }
        panic!("a peer that does not read took a million bytes into a buffer of 4 KiB");
    }
}
