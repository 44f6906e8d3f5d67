//! A loopback relay between a client and the broker that can be cut: an ungraceful disconnect for any client library.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Accepts connections on a port of its own and carries their bytes to the broker until it is cut or dropped.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    carried: Arc<Mutex<Vec<TcpStream>>>,
    finished: Receiver<()>,
}

impl Relay {
    /// A relay to `broker` for one connection.
    pub fn to(broker: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let carried = Arc::new(Mutex::new(Vec::new()));
        let (to_finished, finished) = channel();
        let relay = Self { address, carried: Arc::clone(&carried), finished };
        thread::spawn(move || {
            let Ok((client, _)) = listener.accept() else { return };
            let Ok(broker) = TcpStream::connect(broker) else { return };
            // Both ends speak in small packets and expect prompt answers.
            let _ = (client.set_nodelay(true), broker.set_nodelay(true));
            let ends = [client.try_clone(), broker.try_clone()];
            carried.lock().expect("no holder panics").extend(ends.into_iter().flatten());
            let (to_broker, to_client) = (carry(&client, &broker), carry(&broker, &client));
            let _ = (to_broker.join(), to_client.join());
            let _ = to_finished.send(());
        });
        relay
    }

    /// Where the client connects.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until the client has closed its side, all it sent has gone on to the broker, and the broker, which has then read
    /// it, has closed its own; false when that takes longer.
    pub fn wait_until_both_closed(&self, within: Duration) -> bool {
        self.finished.recv_timeout(within).is_ok()
    }

    /// Closes both sides at once, as a failing network would: no DISCONNECT reaches the broker.
    pub fn cut(&self) {
        for end in self.carried.lock().expect("no holder panics").drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.cut();
        // Wakes an accept that nobody came for, so that its thread ends.
        let _ = TcpStream::connect(self.address);
    }
}

fn carry(from: &TcpStream, to: &TcpStream) -> thread::JoinHandle<()> {
    let mut from = from.try_clone().expect("a socket can be shared");
    let mut to = to.try_clone().expect("a socket can be shared");
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    })
}
