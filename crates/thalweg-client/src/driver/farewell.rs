//! The end of a connection that was given up.

use std::io;

use thalweg_model::{Span, Time};

use super::lane_socket::READS_MAX;
use super::socket::{Socket, is_later};

/// Longest time to send the remaining bytes and receive the peer's end of stream.
const PATIENCE: Span = Span::from_secs(1);

/// A connection that was given up: it sends what is left and waits for the peer's end, so that the system does not take
/// our unread input for a reason to throw away what the peer has not read yet.
pub(super) struct Farewell {
    pub(super) socket: Socket,
    wire: Vec<u8>,
    at: usize,
    is_said: bool,
    pub(super) until: Time,
}

impl Farewell {
    pub(super) fn new(socket: Socket, wire: Vec<u8>, now: Time) -> Farewell {
        Farewell {
            socket,
            wire,
            at: 0,
            is_said: false,
            until: now + PATIENCE,
        }
    }

    /// Does what can be done; `true` when it is over.
    pub(super) fn work(&mut self, scratch: &mut [u8], now: Time) -> bool {
        while !self.is_said {
            let rest = self.wire.get(self.at..).unwrap_or_default();
            if rest.is_empty() {
                self.socket.shutdown();
                self.is_said = true;
                break;
            }
            match self.socket.write(rest) {
                Ok(0) => return true,
                Ok(written) => self.at += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return true,
            }
        }
        for _ in 0..READS_MAX {
            match self.socket.read(scratch) {
                Ok((0, _)) => return true,
                Ok(_) => {}
                Err(error) if is_later(&error) => break,
                Err(_) => return true,
            }
        }
        self.until <= now
    }
}
