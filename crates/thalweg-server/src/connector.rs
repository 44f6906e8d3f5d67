//! Connections that the broker opens itself: beside the lobby, where those of peers come in.
//!
//! Each peer has a thread that connects, hands the connection to its shard, waits for its end, and begins again. What is
//! spoken is the business of the front that its protocol gives.

use std::io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use thalweg_fronts::{AnyFront, FrontSettings};
use thalweg_model::Time;

use crate::clock;
use crate::config::Endpoint;
use crate::listen::{Bind, ListenerSpec};
use crate::lobby::{Arrival, Deliver, Moved, PeerInfo, Route, Slot, Socket};
use crate::protocols::queues_key;
use crate::shard::Mailbox;
use crate::threads::{self, OnFailure};
use crate::transport::Transport;
use crate::usher::Usher;

/// A peer that the broker connects to.
pub(crate) struct DialSpec {
    pub(crate) endpoint: Endpoint,
    /// Gives each connection its front.
    pub(crate) fronts: Arc<dyn FrontSettings>,
    /// The routing key of its shard; not 0.
    pub(crate) key: u64,
}

/// The running threads. Dropping it ends them: no connection is opened any more.
pub(crate) struct Connector {
    is_stopping: Arc<AtomicBool>,
    wakers: Vec<mpsc::Sender<()>>,
}

impl Connector {
    /// Connects to all peers; each connection goes to what `deliver` makes.
    pub(crate) fn start(
        specs: Vec<DialSpec>,
        deliver: impl Fn() -> Box<dyn Deliver>,
        on_failure: &OnFailure,
    ) -> io::Result<Connector> {
        let mut connector = Connector {
            is_stopping: Arc::default(),
            wakers: Vec::new(),
        };
        for spec in specs {
            let (ended, events) = mpsc::channel();
            connector.wakers.push(ended.clone());
            let dialer = Dialer {
                listener: Arc::new(listener_of(&spec.endpoint.to_string())),
                spec,
                deliver: deliver(),
                ended,
                events,
                is_stopping: connector.is_stopping.clone(),
            };
            threads::spawn("connector", on_failure, move || dialer.run())?;
        }
        Ok(connector)
    }
}

impl Drop for Connector {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        for waker in &self.wakers {
            // Fails only where the thread has ended.
            let _ = waker.send(());
        }
    }
}

/// What operators see where the name of a listener is: the endpoint.
fn listener_of(endpoint: &str) -> ListenerSpec {
    let nowhere = Bind::Tcp(([0, 0, 0, 0], 0).into());
    ListenerSpec::new(endpoint, nowhere, |_, _| Route::Key(0))
}

/// Opens connections from within the process: for a protocol that a library speaks.
#[derive(Clone)]
pub struct Streams {
    shards: Arc<[Mailbox]>,
}

impl Streams {
    pub(crate) fn new(shards: Arc<[Mailbox]>) -> Self {
        Streams { shards }
    }

    /// A stream at whose other end is the front that `front` makes of a number that is hard to guess; its shard is the home of all
    /// queues. Operators see it under `name`, where the name of a listener is.
    pub fn open(&self, name: &str, front: impl FnOnce(u64) -> AnyFront) -> io::Result<UnixStream> {
        self.open_as(name, None, front)
    }

    /// The same for a front that asks who its peer is: this user, whose word is taken.
    pub(crate) fn open_as(
        &self,
        name: &str,
        user: Option<&str>,
        front: impl FnOnce(u64) -> AnyFront,
    ) -> io::Result<UnixStream> {
        let (ours, broker) = UnixStream::pair()?;
        broker.set_nonblocking(true)?;
        // Its end shows at our end of the stream.
        let (ended, _) = mpsc::channel();
        let arrival = Arrival {
            socket: Socket::Unix(mio::net::UnixStream::from_std(broker)),
            transport: Transport::Plain,
            input: Vec::new(),
            output: Vec::new(),
            peer: PeerInfo {
                address: None,
                local: None,
                listener: Arc::new(listener_of(name)),
                certificate_name: user.map(Into::into),
            },
            accepted_at: Instant::now(),
            half_open: None,
            slot: Slot::dialed(ended),
            moved: Some(Moved {
                front: front(crate::random::u64()),
                since: clock::now(),
                login_ends: Time::NEVER,
            }),
        };
        Usher::new(self.shards.clone()).deliver(queues_key(), arrival);
        Ok(ours)
    }
}

/// What the thread of a peer has.
struct Dialer {
    spec: DialSpec,
    listener: Arc<ListenerSpec>,
    deliver: Box<dyn Deliver>,
    /// Told when a connection is closed.
    ended: mpsc::Sender<()>,
    events: mpsc::Receiver<()>,
    is_stopping: Arc<AtomicBool>,
}

impl Dialer {
    fn run(self) {
        let mut pause = PAUSE_MIN;
        while !self.is_stopping.load(Ordering::Relaxed) {
            let began = Instant::now();
            match connect(&self.spec.endpoint) {
                Ok(socket) => {
                    tracing::info!(peer = %self.spec.endpoint, "connected");
                    if !self.hand_over(socket) {
                        return;
                    }
                    // Its end; or ours.
                    let _ = self.events.recv();
                    tracing::info!(peer = %self.spec.endpoint, "the connection has ended");
                    pause = match began.elapsed() >= STEADY {
                        true => PAUSE_MIN,
                        false => PAUSE_AFTER_SHORT,
                    };
                }
                Err(error) if pause == PAUSE_MIN => {
                    tracing::warn!(peer = %self.spec.endpoint, %error, "cannot connect, retrying");
                }
                Err(error) => {
                    tracing::debug!(peer = %self.spec.endpoint, %error, "cannot connect");
                }
            }
            if self.is_stopping.load(Ordering::Relaxed) {
                return;
            }
            let _ = self.events.recv_timeout(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// False if the protocol opens no connections.
    fn hand_over(&self, socket: Socket) -> bool {
        let nonce = crate::random::u64();
        let Some(front) = self.spec.fronts.clone().dialed_front(nonce) else {
            return false;
        };
        let (address, local) = match &socket {
            Socket::Tcp(stream) => (stream.peer_addr().ok(), stream.local_addr().ok()),
            Socket::Unix(_) => (None, None),
        };
        let arrival = Arrival {
            socket,
            transport: Transport::Plain,
            input: Vec::new(),
            output: Vec::new(),
            peer: PeerInfo {
                address,
                local,
                listener: self.listener.clone(),
                certificate_name: None,
            },
            accepted_at: Instant::now(),
            half_open: None,
            slot: Slot::dialed(self.ended.clone()),
            moved: Some(Moved {
                front,
                since: clock::now(),
                login_ends: Time::NEVER,
            }),
        };
        self.deliver.deliver(self.spec.key, arrival);
        true
    }
}

fn connect(endpoint: &Endpoint) -> io::Result<Socket> {
    if let Endpoint::Ipc(path) = endpoint {
        let stream = UnixStream::connect(path)?;
        stream.set_nonblocking(true)?;
        return Ok(Socket::Unix(mio::net::UnixStream::from_std(stream)));
    }
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for address in endpoint.addresses()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                return Ok(Socket::Tcp(mio::net::TcpStream::from_std(stream)));
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time before the first new attempt; each further one waits twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// After a connection that did not last for [`STEADY`]: the peer may refuse in its handshake.
const PAUSE_AFTER_SHORT: Duration = Duration::from_secs(1);
const STEADY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::certificates::Folder;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc::RecvTimeoutError;
    use thalweg_fronts::zmtp::ZmtpDial;
    use thalweg_zmtp::SocketType;

    const PATIENCE: Duration = Duration::from_secs(20);

    struct Caught(mpsc::Sender<(u64, Arrival)>);

    impl Deliver for Caught {
        fn deliver(&self, key: u64, arrival: Arrival) {
            self.0.send((key, arrival)).expect("somebody waits");
        }

        fn make_room(&self, _: u64) {}
    }

    fn dial(endpoint: Endpoint) -> DialSpec {
        let fronts = ZmtpDial {
            settings: Arc::default(),
            socket_type: SocketType::Sub,
            user: "".into(),
            identity: Box::default(),
            prefixes: Vec::new(),
            service: Box::default(),
        };
        DialSpec {
            endpoint,
            fronts: Arc::new(fronts),
            key: 7,
        }
    }

    #[test]
    fn a_connection_that_ends_is_opened_again_until_the_connector_goes() {
        let folder = Folder::new();
        let path = folder.file("peer.sock");
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp.local_addr().unwrap().to_string();
        let unix = UnixListener::bind(&path).unwrap();
        for endpoint in [Endpoint::Tcp(address), Endpoint::Ipc(path.clone())] {
            let (sender, caught) = mpsc::channel();
            let deliver = || -> Box<dyn Deliver> { Box::new(Caught(sender.clone())) };
            let on_failure: OnFailure = Arc::new(|_| ());
            let specs = vec![dial(endpoint.clone())];
            let connector = Connector::start(specs, deliver, &on_failure).unwrap();
            drop(sender);
            for _ in 0..3 {
                let (key, arrival) = caught.recv_timeout(PATIENCE).expect("it connects");
                assert_eq!(key, 7);
                assert_eq!(*arrival.peer.listener.name, *endpoint.to_string());
                assert!(arrival.moved.is_some());
            }
            let (_, last) = caught.recv_timeout(PATIENCE).expect("it connects");
            drop(connector);
            drop(last);
            let end = caught.recv_timeout(PATIENCE).map(|_| ());
            assert_eq!(end, Err(RecvTimeoutError::Disconnected));
        }
        drop(unix);
    }
}
