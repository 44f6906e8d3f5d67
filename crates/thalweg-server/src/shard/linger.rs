//! Sockets whose last bytes are sent and whose peer has not closed yet.
//!
//! Closing a socket that has unread input makes the operating system reset the connection, and a reset fails the peer's
//! writes before it has read our last answer: close-ok, a RECEIPT, a DISCONNECT with its reason. So only our direction
//! is shut down, and what still arrives is discarded until the peer closes or [`PATIENCE`] is over. Session and link have
//! ended by then; the connection keeps its place in its listener's counts.

use super::Shard;
use crate::lobby::{Slot, Socket};
use mio::{Interest, Token};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read};
use std::net::Shutdown;
use thalweg_model::{Span, Time};

/// Tokens from here on name lingering sockets; those of ports are above, those of links below.
const FIRST_TOKEN: usize = usize::MAX / 4 + 1;
/// How long a peer may take to close.
const PATIENCE: Span = Span::from_secs(5);
/// Reads of one socket per event; the rest of what a flooding peer sends waits for its next event, or is reset.
const READS_MAX: usize = 16;

#[derive(Default)]
pub(super) struct Lingering {
    /// By the serial of the connection.
    sockets: BTreeMap<u64, (Socket, Slot)>,
    /// By rising time. Holds serials of sockets that have closed meanwhile, too.
    deadlines: VecDeque<(Time, u64)>,
}

impl Lingering {
    pub(super) fn next(&self) -> Time {
        self.deadlines.front().map_or(Time::NEVER, |(due, _)| *due)
    }
}

impl Shard {
    /// Shuts our direction down and discards what still arrives.
    pub(super) fn linger(&mut self, serial: u64, mut socket: Socket, slot: Slot) {
        let token = Token(FIRST_TOKEN + serial as usize);
        if socket.shutdown(Shutdown::Write).is_err()
            || self
                .poll
                .registry()
                .register(&mut socket, token, Interest::READABLE)
                .is_err()
        {
            return;
        }
        self.lingering.sockets.insert(serial, (socket, slot));
        self.lingering
            .deadlines
            .push_back((self.now + PATIENCE, serial));
    }

    /// Handles an event of a lingering socket; false if the token is not that of one.
    pub(super) fn on_linger_event(&mut self, token: Token) -> bool {
        let Some(serial) = token.0.checked_sub(FIRST_TOKEN) else {
            return false;
        };
        self.discard(serial as u64);
        true
    }

    fn discard(&mut self, serial: u64) {
        let Some((socket, _)) = self.lingering.sockets.get_mut(&serial) else {
            return;
        };
        for _ in 0..READS_MAX {
            match socket.read(&mut self.buffer) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(0) | Err(_) => return self.end_lingering(serial),
            }
        }
    }

    fn end_lingering(&mut self, serial: u64) {
        if let Some((mut socket, _)) = self.lingering.sockets.remove(&serial) {
            let _ = self.poll.registry().deregister(&mut socket);
        }
    }

    pub(super) fn fire_lingering(&mut self) {
        while let Some((_, serial)) = self
            .lingering
            .deadlines
            .pop_front_if(|(due, _)| *due <= self.now)
        {
            self.end_lingering(serial);
        }
    }

    /// The process ends and does not wait for peers, but what has arrived by now does not reset the connection.
    pub(super) fn discard_all(&mut self) {
        for serial in self.lingering.sockets.keys().copied().collect::<Vec<_>>() {
            self.discard(serial);
        }
    }
}
