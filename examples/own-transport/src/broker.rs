//! A broker of lines, as small as can be: two threads for each client, and everything that was said in memory.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A broker that runs until it is stopped.
pub struct Broker {
    address: SocketAddr,
    hall: Arc<Mutex<Hall>>,
}

#[derive(Default)]
struct Hall {
    is_closed: bool,
    clients: Vec<Guest>,
    /// Payloads of what was published, in order.
    published: Vec<Vec<u8>>,
    /// Ends connections after so many more publishes, before they are answered.
    breaks_after: Option<usize>,
}

struct Guest {
    stream: TcpStream,
    filters: Vec<(u32, String)>,
}

impl Broker {
    /// Listens at a port of its own choice.
    pub fn start() -> io::Result<Broker> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let hall = Arc::new(Mutex::new(Hall::default()));
        let theirs = hall.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if lock(&theirs).is_closed {
                    return;
                }
                let hall = theirs.clone();
                std::thread::spawn(move || serve(stream, &hall));
            }
        });
        Ok(Broker { address, hall })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What was published, in order, with what came again.
    pub fn published(&self) -> Vec<Vec<u8>> {
        lock(&self.hall).published.clone()
    }

    /// Ends every connection after so many more publishes, and before the last of them is answered.
    pub fn break_after(&self, publishes: usize) {
        lock(&self.hall).breaks_after = Some(publishes);
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let mut hall = lock(&self.hall);
        hall.is_closed = true;
        hall.end_all();
        drop(hall);
        // Wakes the listener, which then goes.
        let _ = TcpStream::connect(self.address);
    }
}

fn lock(hall: &Mutex<Hall>) -> MutexGuard<'_, Hall> {
    hall.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Listens to a client until it goes.
fn serve(stream: TcpStream, hall: &Mutex<Hall>) {
    let Ok(peer) = stream.peer_addr() else { return };
    if let Ok(stream) = stream.try_clone() {
        lock(hall).clients.push(Guest {
            stream,
            filters: Vec::new(),
        });
    }
    let mut input = BufReader::new(stream);
    while let Ok(true) = serve_line(&mut input, peer, hall) {}
    lock(hall).clients.retain(|client| {
        client
            .stream
            .peer_addr()
            .is_ok_and(|address| address != peer)
    });
}

fn serve_line(
    input: &mut BufReader<TcpStream>,
    peer: SocketAddr,
    hall: &Mutex<Hall>,
) -> io::Result<bool> {
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Ok(false);
    }
    let mut words = line.trim_end().splitn(4, ' ');
    let (verb, number) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    match verb {
        "HELLO" => lock(hall).tell(peer, "WELCOME\n")?,
        "PING" => lock(hall).tell(peer, "PONG\n")?,
        "SUB" => {
            // A filter may hold spaces.
            let filter = words.collect::<Vec<_>>().join(" ");
            let mut hall = lock(hall);
            if let (Some(client), Ok(number)) = (hall.client(peer), number.parse()) {
                client.filters.push((number, filter));
            }
            hall.tell(peer, &format!("SUBBED {number}\n"))?;
        }
        "UNSUB" => {
            if let (Some(client), Ok(number)) = (lock(hall).client(peer), number.parse::<u32>()) {
                client.filters.retain(|(known, _)| *known != number);
            }
        }
        "PUB" => {
            let (size, topic) = (
                words.next().unwrap_or_default(),
                words.next().unwrap_or_default(),
            );
            let mut payload = vec![0; size.parse().unwrap_or(0)];
            input.read_exact(&mut payload)?;
            input.read_exact(&mut [0])?;
            let mut hall = lock(hall);
            hall.route(topic, &payload);
            hall.published.push(payload);
            if hall.is_to_break() {
                hall.end_all();
            } else if number != "-" {
                hall.tell(peer, &format!("OK {number}\n"))?;
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

impl Hall {
    fn client(&mut self, peer: SocketAddr) -> Option<&mut Guest> {
        self.clients.iter_mut().find(|client| {
            client
                .stream
                .peer_addr()
                .is_ok_and(|address| address == peer)
        })
    }

    fn tell(&mut self, peer: SocketAddr, line: &str) -> io::Result<()> {
        self.client(peer)
            .map_or(Ok(()), |client| client.stream.write_all(line.as_bytes()))
    }

    fn route(&mut self, topic: &str, payload: &[u8]) {
        for Guest { stream, filters } in &mut self.clients {
            for (number, _) in filters.iter().filter(|(_, filter)| matches(filter, topic)) {
                let mut message = format!("MSG {number} {} {topic}\n", payload.len()).into_bytes();
                message.extend_from_slice(payload);
                message.push(b'\n');
                // Who does not listen any more is found out by the thread that reads.
                let _ = stream.write_all(&message);
            }
        }
    }

    fn is_to_break(&mut self) -> bool {
        match &mut self.breaks_after {
            Some(0 | 1) => {
                self.breaks_after = None;
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }

    fn end_all(&mut self) {
        for client in self.clients.drain(..) {
            let _ = client.stream.shutdown(Shutdown::Both);
        }
    }
}

/// A filter is a topic, or the beginning of one and `#`.
fn matches(filter: &str, topic: &str) -> bool {
    match filter.strip_suffix('#') {
        Some(beginning) => {
            topic.starts_with(beginning) || Some(topic) == beginning.strip_suffix('/')
        }
        None => filter == topic,
    }
}
