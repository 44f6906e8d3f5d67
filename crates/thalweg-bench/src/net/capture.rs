//! Every frame of a network, as its sender gives it to the interface, sorted by what it is there for.
//!
//! Raw sockets in both namespaces see what the interfaces send before anything is lost. It is for small loads: what the
//! sockets have no room for is missing, which a comparison with the interface's own counters shows.

use std::io::{self, Read};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use super::Wire;
use super::network::{BROKER_HOST, CLIENT_HOST, Network};
use super::split::{Cause, Sender, Sorter, Split, Talks, publishing, sum};

/// What was seen since a mark.
#[derive(Clone, Debug, Default)]
pub struct Captured {
    /// By the client's port.
    pub talks: Talks,
}

impl Captured {
    pub fn all(&self) -> Split {
        sum(&self.talks)
    }

    /// In the words of a row's `more`: bytes and frames by cause, of the whole and of the publisher's leg, which is frames of
    /// clients who published, and of the broker to them.
    pub fn figures(&self) -> Vec<(String, f64)> {
        let all = self.all();
        let ups = self.talks.values().map(|[up, _]| up.total());
        let mut figures = vec![
            ("payload_wire_bytes".to_owned(), all.payload),
            ("protocol_bytes".to_owned(), all.protocol),
            ("transport_bytes".to_owned(), all.transport()),
            ("data_frames".to_owned(), all.of(Cause::Data).frames),
            ("other_bytes".to_owned(), all.of(Cause::Other).bytes),
        ];
        for (what, wire) in [
            ("retransmitted", all.of(Cause::Repetition)),
            ("ack", all.of(Cause::Acknowledgement)),
            ("keep_alive", all.of(Cause::KeepAlive)),
            ("connection", all.of(Cause::Connection)),
            ("publish_leg", publishing(&self.talks).total()),
            ("client_sent", ups.fold(Wire::default(), |sum, up| sum + up)),
        ] {
            figures.push((format!("{what}_bytes"), wire.bytes));
            figures.push((format!("{what}_frames"), wire.frames));
        }
        figures
            .into_iter()
            .map(|(name, value)| (name, value as f64))
            .collect()
    }
}

#[derive(Debug, Default)]
struct Board {
    stop: AtomicBool,
    found: Mutex<(Sorter, Captured)>,
}

/// Looks at a network; ends when dropped.
#[derive(Debug)]
pub struct Capture {
    board: Arc<Board>,
    threads: Vec<JoinHandle<()>>,
}

impl Capture {
    /// Begins, before any connection is made.
    pub fn start(network: &Network) -> io::Result<Capture> {
        let board = Arc::new(Board::default());
        let mut threads = Vec::new();
        let sides = [
            (network.client(), CLIENT_HOST, Sender::Client),
            (network.broker(), BROKER_HOST, Sender::Broker),
        ];
        for (space, host, sender) in sides {
            let host: Ipv4Addr = host.parse().map_err(io::Error::other)?;
            // TUN devices have no header of Ethernet; the counters of a network add one, and so does this.
            let header = if network.is_emulated() {
                0
            } else {
                ETHERNET_HEADER
            };
            let socket = space.within(|| {
                let every = Protocol::from(i32::from(EVERY_PROTOCOL.to_be()));
                let socket = Socket::new(Domain::PACKET, Type::RAW, Some(every))?;
                socket.set_read_timeout(Some(LOOK_UP))?;
                // It gives what the system allows.
                socket.set_recv_buffer_size(BUFFER)?;
                Ok(socket)
            })?;
            let board = Arc::clone(&board);
            let look = move || look(&socket, sender, host, header, &board);
            threads.push(
                thread::Builder::new()
                    .name("capture".to_owned())
                    .spawn(look)?,
            );
        }
        Ok(Capture { board, threads })
    }

    /// What was seen since the capture began or since the last mark; counting begins anew. Connections are known on.
    pub fn mark(&self) -> Captured {
        std::mem::take(&mut self.board.lock().1)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.board.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, (Sorter, Captured)> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn look(socket: &Socket, sender: Sender, host: Ipv4Addr, header: usize, board: &Board) {
    let mut buffer = vec![0; FRAME_MAX];
    while !board.stop.load(Ordering::Relaxed) {
        // It times out, so that the board is looked at.
        let Ok(length) = (&mut &*socket).read(&mut buffer) else {
            continue;
        };
        let Some(packet) = buffer.get(header..length) else {
            continue;
        };
        // Both directions come here, and what the broker says to itself on its loopback.
        if packet.get(12..16) != Some(&host.octets()[..]) {
            continue;
        }
        let length = (packet.len() + ETHERNET_HEADER) as u64;
        let mut found = board.lock();
        let (sorter, captured) = &mut *found;
        sorter.take(sender, packet, length, &mut captured.talks);
    }
}

const ETHERNET_HEADER: usize = 14;
const EVERY_PROTOCOL: u16 = 3;
const FRAME_MAX: usize = 65_536;
const BUFFER: usize = 8 << 20;
const LOOK_UP: Duration = Duration::from_millis(50);
