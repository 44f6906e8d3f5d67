//! Connecting to a peer until it is there, and again when it is lost: a thread for each, as the system's resolver blocks.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Between two attempts: at first, and at most.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Lifetime of a connection after which the pauses start from the beginning.
const STEADY: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection to the target of this number.
pub(super) type Arrival = (usize, TcpStream);

/// Connects to a target for as long as the sender that this returns lives; a message on it says that the connection was lost.
pub(super) fn start(
    number: usize,
    address: String,
    arrivals: Sender<Arrival>,
    bell: Arc<mio::Waker>,
) -> io::Result<Sender<()>> {
    let (lost, is_lost) = channel();
    std::thread::Builder::new()
        .name("thalweg-dial".into())
        .stack_size(128 << 10)
        .spawn(move || dial(number, &address, &arrivals, &bell, &is_lost))?;
    Ok(lost)
}

fn dial(
    number: usize,
    address: &str,
    arrivals: &Sender<Arrival>,
    bell: &mio::Waker,
    is_lost: &Receiver<()>,
) {
    let mut pause = PAUSE_MIN;
    loop {
        if let Ok(stream) = connect(address) {
            let since = Instant::now();
            if arrivals.send((number, stream)).is_err() || bell.wake().is_err() {
                return;
            }
            if is_lost.recv().is_err() {
                return;
            }
            if since.elapsed() >= STEADY {
                pause = PAUSE_MIN;
            }
        }
        if is_lost.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = io::ErrorKind::NotFound.into();
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
