//! A shard's socket of a datagram listener.

use super::batch::{self, Ability, Batch, Headers, Spare};
use super::inbox::{Inbox, SLOTS};
use super::origin::Origins;
use super::waiting::Waiting;
use crate::access::BanFile;
use crate::clock;
use mio::{Interest, Registry, Token};
use nix::errno::Errno;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

/// What a socket has seen since it was opened; `waiting` is a gauge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramCounts {
    pub received: u64,
    pub received_bytes: u64,
    /// System calls that brought some.
    pub receive_calls: u64,
    /// Dropped by the system because they were not read in time (`listeners.<name>.receive_buffer`).
    pub overflown: u64,
    /// Received and dropped unread: `access.ban_file` bans where they came from.
    pub banned: u64,
    pub sent: u64,
    pub sent_bytes: u64,
    /// System calls that sent some.
    pub send_calls: u64,
    /// Datagrams that wait for the system to take them.
    pub waiting: u64,
    /// Not sent: too many waited.
    pub unsent_waiting: u64,
    /// Not sent: longer than the way allows.
    pub unsent_too_large: u64,
    /// Not sent: there is no way to the peer, or a firewall forbids it.
    pub unsent_unreachable: u64,
    /// Not sent: `access.ban_file` bans where they would go.
    pub unsent_banned: u64,
    /// Not sent: the system had another reason.
    pub unsent_other: u64,
}

impl DatagramCounts {
    /// Adds those of another socket.
    pub fn add(&mut self, other: &DatagramCounts) {
        let DatagramCounts {
            received,
            received_bytes,
            receive_calls,
            overflown,
            banned,
            sent,
            sent_bytes,
            send_calls,
            waiting,
            unsent_waiting,
            unsent_too_large,
            unsent_unreachable,
            unsent_banned,
            unsent_other,
        } = other;
        self.received += received;
        self.received_bytes += received_bytes;
        self.receive_calls += receive_calls;
        self.overflown += overflown;
        self.banned += banned;
        self.sent += sent;
        self.sent_bytes += sent_bytes;
        self.send_calls += send_calls;
        self.waiting += waiting;
        self.unsent_waiting += unsent_waiting;
        self.unsent_too_large += unsent_too_large;
        self.unsent_unreachable += unsent_unreachable;
        self.unsent_banned += unsent_banned;
        self.unsent_other += unsent_other;
    }
}

/// See the module. Lives on its shard's thread.
pub(crate) struct DatagramSocket {
    socket: mio::net::UdpSocket,
    is_version_6: bool,
    ability: Ability,
    /// Only where the socket is bound to all addresses.
    origins: Option<Origins>,
    headers: Headers,
    spare: Spare,
    waiting: Waiting,
    counts: DatagramCounts,
    /// None if no address is banned.
    bans: Option<Arc<BanFile>>,
    /// The socket may have datagrams for us.
    is_readable: bool,
    /// The socket takes nothing now.
    is_blocked: bool,
    overflown_before: u32,
}

/// What became of a call that sends.
enum Fate {
    /// Try the same again.
    Again,
    /// The socket takes nothing now.
    Blocked,
    /// The first message cannot be sent so, perhaps its datagrams can one by one.
    OneByOne,
}

impl DatagramSocket {
    /// Takes over a bound socket.
    pub(crate) fn new(socket: UdpSocket) -> io::Result<Self> {
        let local = socket.local_addr()?;
        let socket = mio::net::UdpSocket::from_std(socket);
        let ability = batch::ability(&socket);
        Ok(DatagramSocket {
            socket,
            is_version_6: local.is_ipv6(),
            ability,
            origins: local.ip().is_unspecified().then(Origins::default),
            headers: Headers::default(),
            spare: Spare::default(),
            waiting: Waiting::default(),
            counts: DatagramCounts::default(),
            bans: None,
            is_readable: true,
            is_blocked: false,
            overflown_before: 0,
        })
    }

    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(
            &mut self.socket,
            token,
            Interest::READABLE | Interest::WRITABLE,
        )
    }

    pub(crate) fn deregister(&mut self, registry: &Registry) {
        // Closing it does the same.
        let _ = registry.deregister(&mut self.socket);
    }

    /// The system says that there is something to read, or an error to hear of.
    pub(crate) fn on_readable(&mut self) {
        self.is_readable = true;
    }

    /// The system says that it takes datagrams again.
    pub(crate) fn on_writable(&mut self, waiting_bytes_max: usize) {
        self.is_blocked = false;
        if !self.waiting.is_empty() {
            let waiting = self.waiting.take();
            self.send(
                waiting.iter().map(|(to, datagram)| (*to, &datagram[..])),
                waiting_bytes_max,
            );
        }
    }

    pub(crate) fn is_readable(&self) -> bool {
        self.is_readable
    }

    /// Whether it takes nothing now.
    pub(crate) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    pub(crate) fn counts(&self) -> DatagramCounts {
        DatagramCounts {
            waiting: self.waiting.len() as u64,
            ..self.counts
        }
    }

    /// From now on nothing is received from and sent to addresses that these bans name.
    pub(crate) fn set_bans(&mut self, bans: Option<Arc<BanFile>>) {
        self.bans = bans;
    }

    /// Receives what one call brings: how many datagrams, those of banned addresses included, which are dropped. None if
    /// there was nothing.
    pub(crate) fn receive(&mut self, inbox: &mut Inbox) -> Option<u64> {
        let (origins, overflown_before) = (&mut self.origins, &mut self.overflown_before);
        let mut overflown = 0;
        let result = batch::receive(batch::raw(&self.socket), inbox, |from, about| {
            if let (Some(origins), Some(local)) = (origins.as_mut(), about.local) {
                origins.heard(from, local);
            }
            if let Some(count) = about.overflown {
                // The system counts on from the socket's beginning, and around.
                overflown += u64::from(count.wrapping_sub(*overflown_before));
                *overflown_before = count;
            }
        });
        self.counts.overflown += overflown;
        match result {
            Ok(received) => {
                // Fewer than there was room for have emptied the socket; the next make a new event.
                self.is_readable = received == SLOTS;
                self.counts.receive_calls += 1;
                let (datagrams, bytes) = inbox.count();
                self.counts.received += datagrams;
                self.counts.received_bytes += bytes;
                if let Some(bans) = &self.bans {
                    let now = clock::unix_seconds();
                    let arrivals = &mut inbox.arrivals;
                    arrivals.retain(|arrival| !bans.bans_address(arrival.from.ip(), now));
                    self.counts.banned += datagrams - inbox.count().0;
                }
                (received > 0).then_some(datagrams)
            }
            Err(Errno::EINTR) => None,
            Err(Errno::EAGAIN) => {
                self.is_readable = false;
                None
            }
            // A peer that we sent to is not there (ICMP). The call that says so takes the error away; the machine
            // behind us finds out by silence, because ICMP messages can be forged.
            Err(
                Errno::ECONNREFUSED | Errno::EHOSTUNREACH | Errno::ENETUNREACH | Errno::EMSGSIZE,
            ) => None,
            Err(error) => {
                tracing::warn!(%error, "receiving datagrams failed, retrying");
                self.is_readable = false;
                None
            }
        }
    }

    /// Sends datagrams in their order. What the system does not take now waits, up to so many bytes; then it is dropped.
    pub(crate) fn send<'d>(
        &mut self,
        datagrams: impl IntoIterator<Item = (SocketAddr, &'d [u8])>,
        waiting_bytes_max: usize,
    ) {
        let mut batch = Batch::new(&mut self.spare);
        let bans = self.bans.clone().map(|bans| (bans, clock::unix_seconds()));
        for (to, datagram) in datagrams {
            if let Some((bans, now)) = &bans
                && bans.bans_address(to.ip(), *now)
            {
                self.counts.unsent_banned += 1;
                continue;
            }
            if self.is_blocked {
                self.wait(to, datagram, waiting_bytes_max);
                continue;
            }
            let source = self.origins.as_ref().and_then(|origins| origins.of(to));
            if !batch.add(to, datagram, source, self.is_version_6, self.ability.runs) {
                self.send_batch(&batch, waiting_bytes_max);
                batch.clear();
                if self.is_blocked {
                    self.wait(to, datagram, waiting_bytes_max);
                } else {
                    batch.add(to, datagram, source, self.is_version_6, self.ability.runs);
                }
            }
        }
        if !batch.is_empty() {
            self.send_batch(&batch, waiting_bytes_max);
        }
        self.spare = batch.end();
    }

    fn send_batch(&mut self, batch: &Batch<'_>, waiting_bytes_max: usize) {
        let messages = batch.messages();
        let mut done = 0;
        while let Some(message) = messages.get(done) {
            if !self.ability.batches {
                self.send_one_by_one(
                    batch.datagrams(message),
                    message.to,
                    batch.source(),
                    waiting_bytes_max,
                );
                done += 1;
                continue;
            }
            match batch.send(
                batch::raw(&self.socket),
                &mut self.headers,
                done,
                self.is_version_6,
            ) {
                Ok(sent) => {
                    self.counts.send_calls += 1;
                    for message in messages.iter().skip(done).take(sent) {
                        self.counts.sent += message.count as u64;
                        self.counts.sent_bytes += message.bytes as u64;
                    }
                    done += sent.max(1);
                }
                Err(error) => match self.fate(error, message.count > 1) {
                    Fate::Again => {}
                    Fate::Blocked => break,
                    Fate::OneByOne => {
                        self.send_one_by_one(
                            batch.datagrams(message),
                            message.to,
                            batch.source(),
                            waiting_bytes_max,
                        );
                        done += 1;
                    }
                },
            }
            if self.is_blocked {
                break;
            }
        }
        for message in messages.iter().skip(done) {
            for datagram in batch.datagrams(message) {
                self.wait(message.to, datagram, waiting_bytes_max);
            }
        }
    }

    fn fate(&mut self, error: Errno, is_run: bool) -> Fate {
        match error {
            Errno::EINTR => Fate::Again,
            Errno::EAGAIN => {
                self.is_blocked = true;
                Fate::Blocked
            }
            Errno::ENOSYS => {
                self.ability.batches = false;
                Fate::Again
            }
            Errno::EIO | Errno::EINVAL | Errno::EOPNOTSUPP if is_run => {
                // This way out cannot do it (no checksums in hardware, a tunnel). Others may, but it costs little to go
                // without.
                tracing::debug!(%error, "runs of datagrams are sent one by one: the system or the device cannot do more");
                self.ability.runs = false;
                Fate::OneByOne
            }
            _ => Fate::OneByOne,
        }
    }

    fn send_one_by_one<'d>(
        &mut self,
        datagrams: impl Iterator<Item = &'d [u8]>,
        to: SocketAddr,
        mut source: Option<IpAddr>,
        waiting_bytes_max: usize,
    ) {
        let socket = batch::raw(&self.socket);
        for datagram in datagrams {
            // An error may be of an earlier datagram (ICMP), or because the source has gone: that is two more tries.
            let mut tries = 3;
            loop {
                if self.is_blocked {
                    self.wait(to, datagram, waiting_bytes_max);
                    break;
                }
                tries -= 1;
                match batch::send_one(socket, to, datagram, source, self.is_version_6) {
                    Ok(()) => {
                        self.counts.send_calls += 1;
                        self.counts.sent += 1;
                        self.counts.sent_bytes += datagram.len() as u64;
                        break;
                    }
                    Err(Errno::EAGAIN) => self.is_blocked = true,
                    Err(Errno::EINTR) => tries += 1,
                    Err(Errno::EINVAL | Errno::EADDRNOTAVAIL) if source.take().is_some() => {
                        if let Some(origins) = &mut self.origins {
                            origins.forget(to);
                        }
                    }
                    Err(Errno::ECONNREFUSED) if tries > 0 => {}
                    Err(error) => {
                        self.lose(error);
                        break;
                    }
                }
            }
        }
    }

    fn lose(&mut self, error: Errno) {
        let counter = match error {
            Errno::EMSGSIZE => &mut self.counts.unsent_too_large,
            Errno::EHOSTUNREACH
            | Errno::ENETUNREACH
            | Errno::EHOSTDOWN
            | Errno::ENETDOWN
            | Errno::ECONNREFUSED
            | Errno::EPERM
            | Errno::EACCES => &mut self.counts.unsent_unreachable,
            // The queue of the device is full: as good as lost behind it.
            Errno::ENOBUFS | Errno::ENOMEM => &mut self.counts.unsent_waiting,
            _ => &mut self.counts.unsent_other,
        };
        *counter += 1;
        tracing::trace!(%error, "a datagram was not sent");
    }

    fn wait(&mut self, to: SocketAddr, datagram: &[u8], waiting_bytes_max: usize) {
        if !self.waiting.push(to, datagram, waiting_bytes_max) {
            self.counts.unsent_waiting += 1;
        }
    }

    #[cfg(test)]
    pub(super) fn set_ability(&mut self, ability: Ability) {
        self.ability = ability;
    }

    #[cfg(test)]
    pub(super) fn ability(&self) -> Ability {
        self.ability
    }

    #[cfg(test)]
    pub(super) fn block(&mut self) {
        self.is_blocked = true;
    }
}
