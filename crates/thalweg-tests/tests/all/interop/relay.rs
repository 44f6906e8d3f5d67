//! Loopback relays between clients and the broker: one that can be cut, an ungraceful disconnect for any client library; and
//! one that carries datagrams and takes its time.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Accepts connections on a port of its own and carries their bytes to the broker until it is cut or dropped.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    carried: Arc<Mutex<Vec<TcpStream>>>,
    finished: Receiver<()>,
    /// Writes that went to the client and to the broker, one after another.
    moves: Receiver<Way>,
}

#[derive(Clone, Copy, Debug)]
enum Way {
    ToClient,
    ToBroker,
}

impl Relay {
    /// A relay to `broker` for one connection.
    pub fn to(broker: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let carried = Arc::new(Mutex::new(Vec::new()));
        let (to_finished, finished) = channel();
        let (to_moves, moves) = channel();
        let relay = Self {
            address,
            carried: Arc::clone(&carried),
            finished,
            moves,
        };
        thread::spawn(move || {
            let Ok((client, _)) = listener.accept() else {
                return;
            };
            let Ok(broker) = TcpStream::connect(broker) else {
                return;
            };
            // Both ends speak in small packets and expect prompt answers.
            let _ = (client.set_nodelay(true), broker.set_nodelay(true));
            let ends = [client.try_clone(), broker.try_clone()];
            carried
                .lock()
                .expect("no holder panics")
                .extend(ends.into_iter().flatten());
            let to_broker = carry(&client, &broker, Way::ToBroker, to_moves.clone());
            let to_client = carry(&broker, &client, Way::ToClient, to_moves);
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

    /// Waits until so many writes have gone either way from now on; false when that takes longer.
    pub fn wait_for_signs(&self, count: u32, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        let mut left = (count, count);
        self.moves.try_iter().for_each(drop);
        while left != (0, 0) {
            let way = (self.moves).recv_timeout(deadline.saturating_duration_since(Instant::now()));
            match way {
                Ok(Way::ToClient) => left.0 = left.0.saturating_sub(1),
                Ok(Way::ToBroker) => left.1 = left.1.saturating_sub(1),
                Err(_) => return false,
            }
        }
        true
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
        // Wakes a pending accept, so that its thread ends.
        let _ = TcpStream::connect(self.address);
    }
}

fn carry(from: &TcpStream, to: &TcpStream, way: Way, moves: Sender<Way>) -> thread::JoinHandle<()> {
    let mut from = from.try_clone().expect("a socket can be shared");
    let mut to = to.try_clone().expect("a socket can be shared");
    thread::spawn(move || {
        let mut bytes = [0; 8192];
        while let Ok(count @ 1..) = from.read(&mut bytes)
            && to.write_all(&bytes[..count]).is_ok()
        {
            // Nobody counts once the relay is dropped.
            let _ = moves.send(way);
        }
        let _ = to.shutdown(Shutdown::Write);
    })
}

/// A datagram in flight: time of arrival, socket, and receiver; `None` if the socket is connected.
type Flight = (Instant, Arc<UdpSocket>, Option<SocketAddr>, Vec<u8>);

/// Carries datagrams between clients and a server, each so much later, in the order in which they came; each client is a
/// peer of its own to the server. Its threads live as long as the test's process.
#[derive(Debug)]
pub struct Distance {
    address: SocketAddr,
}

impl Distance {
    pub fn to(server: SocketAddr, one_way: Duration) -> Self {
        let front = Arc::new(UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port"));
        let address = front.local_addr().expect("a bound socket has an address");
        // The delay is the same for all, so the first that came is the first to arrive.
        let (queue, flights) = channel::<Flight>();
        thread::spawn(move || {
            for (at, socket, to, bytes) in flights {
                thread::sleep(at.saturating_duration_since(Instant::now()));
                // A peer that has gone is none of ours.
                let _ = match to {
                    Some(to) => socket.send_to(&bytes, to),
                    None => socket.send(&bytes),
                };
            }
        });
        thread::spawn(move || {
            let (mut peers, mut datagram) = (HashMap::new(), [0; 65_536]);
            while let Ok((length, from)) = front.recv_from(&mut datagram) {
                let peer = peers
                    .entry(from)
                    .or_insert_with(|| behind(server, &front, from, one_way, &queue));
                let flight = (
                    Instant::now() + one_way,
                    Arc::clone(peer),
                    None,
                    datagram[..length].to_vec(),
                );
                let _ = queue.send(flight);
            }
        });
        Self { address }
    }

    /// The same for connections; a write of one side reaches the other so much later.
    pub fn of_streams_to(server: SocketAddr, one_way: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(server) else {
                    return;
                };
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                carry_late(&client, &server, one_way);
                carry_late(&server, &client, one_way);
            }
        });
        Self { address }
    }

    /// Where clients send to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn carry_late(from: &TcpStream, to: &TcpStream, one_way: Duration) {
    let (mut from, mut to) = (
        from.try_clone().expect("a handle"),
        to.try_clone().expect("a handle"),
    );
    let (queue, flights) = channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut bytes = [0; 65_536];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            let _ = queue.send((Instant::now() + one_way, bytes[..length].to_vec()));
        }
    });
    thread::spawn(move || {
        for (at, bytes) in flights {
            thread::sleep(at.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}

/// A socket towards the server for one client; what comes back by it goes to that client.
fn behind(
    server: SocketAddr,
    front: &Arc<UdpSocket>,
    client: SocketAddr,
    one_way: Duration,
    queue: &Sender<Flight>,
) -> Arc<UdpSocket> {
    let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port"));
    socket.connect(server).expect("loopback is reachable");
    let (inbound, front, queue) = (Arc::clone(&socket), Arc::clone(front), queue.clone());
    thread::spawn(move || {
        let mut datagram = [0; 65_536];
        loop {
            // A refusal by ICMP while the server starts is no end.
            let Ok(length) = inbound.recv(&mut datagram) else {
                continue;
            };
            let flight = (
                Instant::now() + one_way,
                Arc::clone(&front),
                Some(client),
                datagram[..length].to_vec(),
            );
            if queue.send(flight).is_err() {
                return;
            }
        }
    });
    socket
}
