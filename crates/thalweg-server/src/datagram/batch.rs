//! Many datagrams by one system call: `recvmmsg` and `sendmmsg`, runs of equally long ones to one peer as one (UDP GSO,
//! GRO), and the addresses at which we are asked and from which we answer.
//!
//! Only `nix` is asked, which wraps all of it without `unsafe` on our side (ADR 0017).

use super::inbox::{Arrival, Inbox, SLOTS, STRIDE};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg,
    sendmmsg, sendmsg, setsockopt, sockopt,
};
use nix::{libc, sys::socket::getsockopt};
use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, RawFd};

/// Messages that one call sends at the most.
pub(super) const MESSAGES_MAX: usize = 64;
/// Datagrams in a run: what all versions of Linux with GSO take (`UDP_MAX_SEGMENTS`).
const RUN_MAX: usize = 64;
/// Bytes of a run: what fits one IP packet, with room for extension headers.
const RUN_BYTES_MAX: usize = 65_000;

/// What the system can do for a socket, asked once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ability {
    /// Several messages by one call.
    pub(super) batches: bool,
    /// A run of datagrams as one message.
    pub(super) runs: bool,
}

/// Asks for the address at which each datagram was aimed.
pub(super) fn tell_destinations(socket: &impl AsFd, is_version_6: bool) -> std::io::Result<()> {
    match is_version_6 {
        true => setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &true)?,
        false => setsockopt(socket, sockopt::Ipv4PacketInfo, &true)?,
    }
    Ok(())
}

/// Finds out what the system can do, and asks it to join what comes in runs and to say how much it dropped.
pub(super) fn ability(socket: &impl AsFd) -> Ability {
    // Where either is unknown, datagrams come one by one, and drops are not seen.
    let _ = setsockopt(socket, sockopt::UdpGroSegment, &true);
    let _ = setsockopt(socket, sockopt::RxqOvfl, &1);
    Ability {
        batches: true,
        runs: getsockopt(socket, sockopt::UdpGsoSegment).is_ok(),
    }
}

/// What a received message says about itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct About {
    /// At which of our addresses it was aimed, if we want to know.
    pub(super) local: Option<IpAddr>,
    /// Datagrams that the system has dropped at this socket so far.
    pub(super) overflown: Option<u32>,
}

/// Receives as many messages as there are slots for, calls `each` with each, and returns how many.
pub(super) fn receive(
    socket: RawFd,
    inbox: &mut Inbox,
    mut each: impl FnMut(SocketAddr, About),
) -> Result<usize, Errno> {
    inbox.clear();
    // New ones for each call: the system writes into the headers how much it used, and they cannot be set back.
    let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(
        SLOTS,
        Some(cmsg_space!(libc::in6_pktinfo, libc::c_int, libc::c_int)),
    );
    let mut slots: Vec<[IoSliceMut<'_>; 1]> = inbox
        .slab
        .chunks_exact_mut(STRIDE)
        .map(|slot| [IoSliceMut::new(slot)])
        .collect();
    let mut received = 0;
    for message in recvmmsg(
        socket,
        &mut headers,
        slots.iter_mut(),
        MsgFlags::MSG_DONTWAIT,
        None,
    )? {
        let slot = received as u32;
        received += 1;
        let Some(from) = message.address.as_ref().and_then(address_of) else {
            continue;
        };
        let len = message.bytes.min(STRIDE) as u32;
        let mut arrival = Arrival {
            from,
            slot,
            len,
            segment: len,
            is_multicast: false,
        };
        let mut about = About::default();
        for control in message.cmsgs().into_iter().flatten() {
            match control {
                ControlMessageOwned::UdpGroSegments(bytes) => {
                    arrival.segment = u32::try_from(bytes).unwrap_or(len)
                }
                // The address to answer from, not that in the header: they differ for what was sent to many.
                ControlMessageOwned::Ipv4PacketInfo(info) => {
                    about.local = Some(IpAddr::V4(u32::from_be(info.ipi_spec_dst.s_addr).into()));
                    let aimed_at = Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr));
                    arrival.is_multicast = aimed_at.is_multicast();
                }
                ControlMessageOwned::Ipv6PacketInfo(info) => {
                    let address = Ipv6Addr::from(info.ipi6_addr.s6_addr);
                    let aimed_at = IpAddr::V6(address).to_canonical();
                    arrival.is_multicast = aimed_at.is_multicast();
                    about.local = (!arrival.is_multicast).then_some(aimed_at);
                }
                ControlMessageOwned::RxqOvfl(count) => about.overflown = Some(count),
                _ => {}
            }
        }
        each(from, about);
        inbox.arrivals.push(arrival);
    }
    Ok(received)
}

fn address_of(address: &SockaddrStorage) -> Option<SocketAddr> {
    match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
        (Some(address), _) => Some(SocketAddr::from(*address)),
        // A socket on [::] sees IPv4 peers under mapped addresses.
        (_, Some(address)) => {
            let address = SocketAddr::from(*address);
            match address.ip().to_canonical() {
                ip @ IpAddr::V4(_) => Some(SocketAddr::new(ip, address.port())),
                IpAddr::V6(_) => Some(address),
            }
        }
        _ => None,
    }
}

/// What one call sends. All its messages have the same source, and the same length of segment if any is a run: `nix` takes
/// control data for the call, not for each message. A message that is not longer than a segment is sent as it is.
pub(super) struct Batch<'d> {
    /// Each with the place of the next one of its message.
    datagrams: Vec<(&'d [u8], u32)>,
    messages: Vec<Message>,
    addresses: Vec<Option<SockaddrStorage>>,
    /// The newest message to each peer, by a few bits of its address and in the first free place from there on.
    newest: [u8; NEWEST],
    source: Option<IpAddr>,
    /// Length of the datagrams in runs, if there are runs.
    segment: Option<usize>,
    /// The longest datagram that began a message.
    longest: usize,
}

/// A message: one datagram, or a run of several to one peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) to: SocketAddr,
    /// Its datagrams, by their places in the batch.
    first: u32,
    last: u32,
    pub(super) count: usize,
    pub(super) bytes: usize,
    /// The length of the first; only the last may be shorter.
    segment: usize,
}

/// Four times as many as there are messages, so that neighbours are few.
const NEWEST: usize = 4 * MESSAGES_MAX;
/// Places that are looked at. A peer for which there is no room among them has its datagrams sent one by one.
const PROBES: usize = 4;
const NOBODY: u8 = u8::MAX;
const NO_NEXT: u32 = u32::MAX;

/// The memory of a batch, to be used again.
#[derive(Default)]
pub(super) struct Spare {
    messages: Vec<Message>,
    addresses: Vec<Option<SockaddrStorage>>,
}

impl<'d> Batch<'d> {
    pub(super) fn new(spare: &mut Spare) -> Self {
        let Spare {
            messages,
            addresses,
        } = std::mem::take(spare);
        Batch {
            datagrams: Vec::new(),
            messages,
            addresses,
            newest: [NOBODY; NEWEST],
            source: None,
            segment: None,
            longest: 0,
        }
    }

    /// Gives its memory back.
    pub(super) fn end(mut self) -> Spare {
        self.clear();
        Spare {
            messages: self.messages,
            addresses: self.addresses,
        }
    }

    /// Adds a datagram; false if it needs a call of its own or there is no room. Peers' datagrams may overtake those of
    /// other peers, not each other.
    #[inline]
    pub(super) fn add(
        &mut self,
        to: SocketAddr,
        datagram: &'d [u8],
        source: Option<IpAddr>,
        is_version_6: bool,
        runs: bool,
    ) -> bool {
        let slot = if runs { self.slot_of(to) } else { 0 };
        if runs && self.source == source && self.prolong(slot, to, datagram) {
            return true;
        }
        let len = datagram.len();
        if !self.messages.is_empty()
            && (self.messages.len() == MESSAGES_MAX
                || self.source != source
                || self.segment.is_some_and(|segment| len > segment))
        {
            return false;
        }
        self.source = source;
        self.longest = self.longest.max(len);
        let place = self.datagrams.len() as u32;
        if let Some(newest) = self.newest.get_mut(slot) {
            *newest = self.messages.len() as u8;
        }
        self.datagrams.push((datagram, NO_NEXT));
        self.messages.push(Message {
            to,
            first: place,
            last: place,
            count: 1,
            bytes: len,
            segment: len,
        });
        self.addresses.push(Some(mapped(to, is_version_6).into()));
        true
    }

    /// Where the newest message to a peer is among [`Batch::newest`], or will be.
    #[inline]
    fn slot_of(&self, to: SocketAddr) -> usize {
        let ip = match to.ip() {
            IpAddr::V4(ip) => ip.to_bits(),
            IpAddr::V6(ip) => ip.to_bits() as u32,
        };
        let home = ((ip ^ u32::from(to.port())).wrapping_mul(0x9E37_79B1) >> 24) as usize;
        let is_for = |slot: &usize| match self
            .newest
            .get(*slot)
            .map(|place| self.messages.get(usize::from(*place)))
        {
            Some(Some(message)) => message.to == to,
            _ => true,
        };
        (0..PROBES)
            .map(|step| (home + step) % NEWEST)
            .find(is_for)
            .unwrap_or(home)
    }

    /// Makes the newest message to a peer longer, if there is one that can be.
    #[inline]
    fn prolong(&mut self, slot: usize, to: SocketAddr, datagram: &'d [u8]) -> bool {
        let newest = self.newest.get(slot).copied().unwrap_or(NOBODY);
        let Some(message) = self
            .messages
            .get_mut(usize::from(newest))
            .filter(|message| message.to == to)
        else {
            return false;
        };
        let (segment, len) = (message.segment, datagram.len());
        let fits = len <= segment
            && len > 0
            && message.bytes == message.count * segment
            && message.count < RUN_MAX
            && message.bytes + len <= RUN_BYTES_MAX
            && self
                .segment
                .map_or(self.longest <= segment, |all| all == segment);
        if fits {
            let place = self.datagrams.len() as u32;
            self.datagrams.push((datagram, NO_NEXT));
            if let Some((_, next)) = self.datagrams.get_mut(message.last as usize) {
                *next = place;
            }
            message.last = place;
            message.count += 1;
            message.bytes += len;
            self.segment = Some(segment);
        }
        fits
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The datagrams of a message.
    pub(super) fn datagrams(&self, message: &Message) -> impl Iterator<Item = &'d [u8]> {
        let first = self.datagrams.get(message.first as usize);
        std::iter::successors(first, |(_, next)| self.datagrams.get(*next as usize))
            .map(|(datagram, _)| *datagram)
    }

    pub(super) fn source(&self) -> Option<IpAddr> {
        self.source
    }

    pub(super) fn clear(&mut self) {
        self.datagrams.clear();
        self.messages.clear();
        self.addresses.clear();
        self.newest = [NOBODY; NEWEST];
        self.segment = None;
        self.longest = 0;
    }

    /// Sends the messages from `first` on by one call; how many it took.
    pub(super) fn send(
        &self,
        socket: RawFd,
        headers: &mut Headers,
        first: usize,
        is_version_6: bool,
    ) -> Result<usize, Errno> {
        let messages = self.messages.get(first..).unwrap_or_default();
        let addresses = self.addresses.get(first..).unwrap_or_default();
        let mut all: Vec<IoSlice<'_>> = Vec::with_capacity(self.datagrams.len());
        for message in messages {
            all.extend(self.datagrams(message).map(IoSlice::new));
        }
        let mut rest = &all[..];
        let slices: Vec<&[IoSlice<'_>]> = (messages.iter())
            .map(|message| {
                let (these, others) = rest.split_at_checked(message.count).unwrap_or_default();
                rest = others;
                these
            })
            .collect();
        let segment = self.segment.map(|bytes| bytes as u16);
        let source = self.source.map(|ip| Source::new(ip, is_version_6));
        let mut controls: [Option<ControlMessage<'_>>; 2] = [None, None];
        if let Some(segment) = &segment {
            controls[0] = Some(ControlMessage::UdpGsoSegments(segment));
        }
        if let Some(source) = &source {
            controls[1] = Some(source.control());
        }
        let headers = headers.of(segment.is_some(), source.is_some(), is_version_6);
        let flags = MsgFlags::MSG_DONTWAIT;
        let sent = match controls {
            [Some(one), Some(other)] => sendmmsg(
                socket,
                headers,
                slices.iter(),
                addresses,
                [one, other],
                flags,
            )?,
            [Some(one), None] | [None, Some(one)] => {
                sendmmsg(socket, headers, slices.iter(), addresses, [one], flags)?
            }
            [None, None] => sendmmsg(socket, headers, slices.iter(), addresses, [], flags)?,
        };
        Ok(sent.count())
    }
}

/// Sends one datagram by a call of its own.
pub(super) fn send_one(
    socket: RawFd,
    to: SocketAddr,
    datagram: &[u8],
    source: Option<IpAddr>,
    is_version_6: bool,
) -> Result<(), Errno> {
    let address = SockaddrStorage::from(mapped(to, is_version_6));
    let slices = [IoSlice::new(datagram)];
    let flags = MsgFlags::MSG_DONTWAIT;
    match source.map(|ip| Source::new(ip, is_version_6)) {
        Some(source) => sendmsg(socket, &slices, &[source.control()], flags, Some(&address))?,
        None => sendmsg(socket, &slices, &[], flags, Some(&address))?,
    };
    Ok(())
}

/// An address as a socket of its family takes it.
fn mapped(to: SocketAddr, is_version_6: bool) -> SocketAddr {
    match to {
        SocketAddr::V4(to) if is_version_6 => {
            SocketAddr::new(to.ip().to_ipv6_mapped().into(), to.port())
        }
        to => to,
    }
}

/// The address a call sends from.
enum Source {
    Version4(libc::in_pktinfo),
    Version6(libc::in6_pktinfo),
}

impl Source {
    fn new(ip: IpAddr, is_version_6: bool) -> Self {
        let of_6 = |ip: Ipv6Addr| {
            let ipi6_addr = libc::in6_addr {
                s6_addr: ip.octets(),
            };
            Source::Version6(libc::in6_pktinfo {
                ipi6_addr,
                ipi6_ifindex: 0,
            })
        };
        match ip {
            IpAddr::V4(ip) if is_version_6 => of_6(ip.to_ipv6_mapped()),
            IpAddr::V4(ip) => {
                let nothing = libc::in_addr { s_addr: 0 };
                let ipi_spec_dst = libc::in_addr {
                    s_addr: u32::from(ip).to_be(),
                };
                Source::Version4(libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst,
                    ipi_addr: nothing,
                })
            }
            IpAddr::V6(ip) => of_6(ip),
        }
    }

    fn control(&self) -> ControlMessage<'_> {
        match self {
            Source::Version4(info) => ControlMessage::Ipv4PacketInfo(info),
            Source::Version6(info) => ControlMessage::Ipv6PacketInfo(info),
        }
    }
}

/// Headers to send with, used again. Their room for control data must be exactly what is put there, so there is one for
/// each kind of call, made when it is first needed.
#[derive(Default)]
pub(super) struct Headers([Option<MultiHeaders<SockaddrStorage>>; 4]);

impl Headers {
    fn of(
        &mut self,
        has_segment: bool,
        has_source: bool,
        is_version_6: bool,
    ) -> &mut MultiHeaders<SockaddrStorage> {
        let [plain, segment, source, both] = &mut self.0;
        let (slot, space) = match (has_segment, has_source, is_version_6) {
            (false, false, _) => (plain, None),
            (true, false, _) => (segment, Some(cmsg_space!(u16))),
            (false, true, false) => (source, Some(cmsg_space!(libc::in_pktinfo))),
            (false, true, true) => (source, Some(cmsg_space!(libc::in6_pktinfo))),
            (true, true, false) => (both, Some(cmsg_space!(u16, libc::in_pktinfo))),
            (true, true, true) => (both, Some(cmsg_space!(u16, libc::in6_pktinfo))),
        };
        slot.get_or_insert_with(|| MultiHeaders::preallocate(MESSAGES_MAX, space))
    }
}

/// The socket's number, which `nix` takes where it takes no socket.
pub(super) fn raw(socket: &impl AsRawFd) -> RawFd {
    socket.as_raw_fd()
}
