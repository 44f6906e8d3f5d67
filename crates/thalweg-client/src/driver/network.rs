//! The operating system's counters of a connection: Linux's `TCP_INFO`.

use std::io;
use std::net::SocketAddr;
#[cfg(target_os = "linux")]
use std::os::fd::AsFd;
use std::sync::OnceLock;

use mio::net::TcpStream;
use thalweg_model::Span;

use crate::adaptive::NetworkReading;

/// Linux's `struct tcp_info` (linux/tcp.h) up to `tcpi_reord_seen`, as numbers of four bytes; those of eight bytes are two,
/// in the machine's order. The system gives as much of it as is asked for.
type Head = [u32; 56];

/// Places in it. Times are in microseconds.
const RTT: usize = 17;
const RTT_VARIATION: usize = 18;
const RETRANSMITTED: usize = 25;
const BYTES_ACKED: usize = 30;
const BYTES_RECEIVED: usize = 32;
const SEGMENTS_OUT: usize = 34;
const SEGMENTS_IN: usize = 35;
const RTT_LEAST: usize = 37;
const DATA_SEGMENTS_OUT: usize = 39;
const BYTES_SENT: usize = 50;
const DUPLICATES: usize = 54;

/// The call is `nix`'s code (ADR 0010): nothing here is unsafe but what its macro expands to.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod option {
    use super::Head;

    nix::getsockopt_impl!(
        TcpInfo,
        libc::IPPROTO_TCP,
        libc::TCP_INFO,
        Head,
        nix::sys::socket::sockopt::GetStruct<Head>
    );

    #[derive(Clone, Copy)]
    pub(super) struct TcpInfo;

    nix::setsockopt_impl!(
        NotSentLow,
        libc::IPPROTO_TCP,
        libc::TCP_NOTSENT_LOWAT,
        u32,
        nix::sys::socket::sockopt::SetStruct<u32>
    );

    #[derive(Clone, Copy)]
    pub(super) struct NotSentLow;
}

/// Bytes that the system has not sent, above which it takes no more.
#[cfg(target_os = "linux")]
const NOT_SENT_BYTES: u32 = 64 << 10;

/// Keeps the system from taking megabytes that the network does not: what it has can be overtaken by nothing, whereas the queue of
/// the engine is in order of priority. (It takes up to 64 KiB more, as it adds to a packet that waits without looking.)
#[cfg(target_os = "linux")]
pub(super) fn keep_short(stream: &TcpStream) {
    // Without it what is urgent only waits longer.
    let _ = nix::sys::socket::setsockopt(stream, option::NotSentLow, &NOT_SENT_BYTES);
}

#[cfg(not(target_os = "linux"))]
pub(super) fn keep_short(_: &TcpStream) {}

/// Writes a class of service into the IP headers of all that a socket sends to this peer.
#[cfg(target_os = "linux")]
pub(super) fn mark(socket: &impl AsFd, peer: io::Result<SocketAddr>, dscp: u8) {
    use nix::sys::socket::{setsockopt, sockopt};
    // The two bits below it are for congestion notification.
    let class = i32::from(dscp) << 2;
    // Without it routers only treat it as they treat others.
    let _ = match peer {
        Ok(SocketAddr::V6(_)) => setsockopt(socket, sockopt::Ipv6TClass, &class),
        _ => setsockopt(socket, sockopt::Ipv4Tos, &class),
    };
}

#[cfg(not(target_os = "linux"))]
pub(super) fn mark<T>(_: &T, _: io::Result<SocketAddr>, _: u8) {}

/// Reads the system's counters of a connection; `None` if the kernel is too old for all of them.
#[cfg(target_os = "linux")]
pub(super) fn reading(stream: &TcpStream) -> Option<NetworkReading> {
    if !knows_head() {
        return None;
    }
    nix::sys::socket::getsockopt(stream, option::TcpInfo)
        .ok()
        .map(|head| reading_of(&head))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn reading(_: &TcpStream) -> Option<NetworkReading> {
    None
}

fn reading_of(head: &Head) -> NetworkReading {
    let four = |at: usize| head.get(at).copied().map_or(0, u64::from);
    let eight = |at: usize| match cfg!(target_endian = "little") {
        true => four(at) | four(at + 1) << 32,
        false => four(at) << 32 | four(at + 1),
    };
    let micros = |at: usize| Span::from_nanos(four(at) * 1_000);
    NetworkReading {
        round_trip: micros(RTT),
        round_trip_variation: micros(RTT_VARIATION),
        // Without a sample yet the shortest is the largest number there is.
        round_trip_min: if four(RTT_LEAST) == u64::from(u32::MAX) {
            Span::ZERO
        } else {
            micros(RTT_LEAST)
        },
        sent_segments: four(DATA_SEGMENTS_OUT),
        retransmitted_segments: four(RETRANSMITTED),
        duplicate_segments: four(DUPLICATES),
        frames_sent: four(SEGMENTS_OUT),
        frames_received: four(SEGMENTS_IN),
        bytes_sent: eight(BYTES_SENT),
        bytes_received: eight(BYTES_RECEIVED),
        bytes_delivered: eight(BYTES_ACKED),
    }
}

/// Whether the system is new enough to have all of it: 4.19, of the year 2018. An older one gives less, and `nix` takes
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
        (Some(major), Some(minor)) => (major, minor) >= (4, 19),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn releases_are_compared_by_their_numbers() {
        for (release, new) in [
            ("6.18.44-fc\n", true),
            ("4.19", true),
            ("4.18.7", false),
            ("10.0", true),
            ("x", false),
        ] {
            assert_eq!(is_new_enough(release), new, "{release}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_was_sent_and_received_is_counted() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7; 300]).unwrap();
        server.read_exact(&mut [0; 300]).unwrap();
        server.write_all(&[7; 20]).unwrap();
        client.read_exact(&mut [0; 20]).unwrap();
        client.set_nonblocking(true).unwrap();
        let reading = reading(&TcpStream::from_std(client)).expect("this system is new enough");
        assert_eq!(
            (
                reading.bytes_sent,
                reading.bytes_received,
                reading.bytes_delivered
            ),
            (300, 20, 301),
            "with the SYN"
        );
        assert_eq!(
            (
                reading.sent_segments,
                reading.retransmitted_segments,
                reading.duplicate_segments
            ),
            (1, 0, 0)
        );
        assert!(
            reading.frames_sent >= 3 && reading.frames_received >= 2,
            "{reading:?}"
        );
        assert!(
            reading.round_trip > Span::ZERO && reading.round_trip_min <= reading.round_trip,
            "{reading:?}"
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_takes_little_for_a_peer_that_does_not_read() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let taken = |is_short: bool| -> usize {
            let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let _silent = listener.accept().unwrap();
            client.set_nonblocking(true).unwrap();
            let mut client = TcpStream::from_std(client);
            if is_short {
                keep_short(&client);
            }
            std::iter::from_fn(|| client.write(&[7; 16 << 10]).ok()).sum()
        };
        // Both with what the peer's system takes.
        let (short, usual) = (taken(true), taken(false));
        assert!(short + (1 << 20) < usual, "{short} and {usual}");
    }
}
