//! The lobby: one thread that accepts connections, leads them through PROXY header, TLS and WebSocket, reads until the
//! protocol's routing key is known, and hands them over to their home shard.
//!
//! A storm of connects ends here: each step has a limit, and no data thread ever runs a handshake.

mod accept;
mod address;
mod arrival;
mod counters;
mod holders;
mod places;
#[cfg(test)]
mod tests;
mod turn;
mod waiting;

use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fmt, io};

pub use address::Slot;
pub use arrival::{Arrival, Deliver, Moved, PeerInfo, Socket};
pub use counters::{LobbyCounters, LobbyCounts};
pub(crate) use holders::holders_to_close;
pub use places::HalfOpen;

use crate::listen::{Listener, ListenerSpec};
use crate::threads::{self, OnFailure};

/// What the first protocol bytes say about where a connection belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Not enough bytes to tell.
    NeedMore,
    /// A hash of the identity; equal identities have equal keys.
    Key(u64),
    /// These bytes are not of the listener's protocol, for the reason given. The connection is handed over all the
    /// same, with key 0, so that the protocol machine answers as its specification says.
    NotOurs(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LobbySettings {
    /// Connections open at once on all listeners together; beyond it a new one is closed at once.
    pub connections_max: usize,
    /// Half-open connections of one listener at once, in the lobby and on shards ([`HalfOpen`]). Beyond it a new one is
    /// accepted, and either it or the oldest one of the network with most is closed at once.
    pub handshakes_max: usize,
    /// How long a connection in a full lobby can say nothing before it makes room for any other.
    pub silence_max: Duration,
    /// Time from the accept until the routing key is known.
    pub connect_timeout: Duration,
    /// Protocol bytes that are read while the routing key is looked for; beyond it the connection is handed over with
    /// key 0. Wire bytes may be twice as many and a few handshake flights, then the connection is closed.
    pub connect_bytes_max: usize,
    /// Wire bytes that the connections in the lobby may have sent together; beyond it those of the network with most are
    /// dropped.
    pub bytes_max: usize,
}

impl Default for LobbySettings {
    fn default() -> Self {
        LobbySettings {
            connections_max: 1_000_000,
            handshakes_max: 20_000,
            silence_max: SILENCE_MAX,
            connect_timeout: Duration::from_secs(10),
            connect_bytes_max: 64 * 1024 + 1_024,
            bytes_max: usize::MAX,
        }
    }
}

/// A peer that is not silent answers within the time of a slow way there and back.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(1);

/// A running lobby. Dropping it stops the thread; connections that were handed over live on.
#[derive(Debug)]
pub struct LobbyHandle {
    commands: mpsc::Sender<Command>,
    waker: Arc<mio::Waker>,
    counters: Arc<LobbyCounters>,
    thread: Option<JoinHandle<()>>,
}

/// What changes while the lobby runs. Everything that is left empty stays as it is.
#[derive(Debug, Default)]
pub struct LobbyReload {
    /// New limits. They hold for connections that are in the lobby, too.
    pub settings: Option<LobbySettings>,
    /// Listeners that keep their socket and get other filters or limits; known by their names. `bind`, `backlog` and
    /// `keepalive` belong to the socket and stay as they were. Connections that are there keep what they have.
    pub change: Vec<ListenerSpec>,
    /// Listeners to add. One with a known name takes that one's place, and its counts start anew.
    pub add: Vec<Listener>,
    /// Names of listeners to close. Their connections live on.
    pub remove: Vec<Arc<str>>,
}

pub(crate) enum Command {
    Reload(LobbyReload),
    Stop,
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Command::Reload(_) => "Reload",
            Command::Stop => "Stop",
        })
    }
}

/// The lobby has no state; start it here.
#[derive(Debug)]
pub struct Lobby;

impl Lobby {
    /// Starts the thread and accepts on all `listeners`; connections that are through go to `deliver`.
    pub fn start(
        listeners: Vec<Listener>,
        settings: LobbySettings,
        deliver: Box<dyn Deliver>,
        on_failure: &OnFailure,
    ) -> io::Result<LobbyHandle> {
        let counters = Arc::new(LobbyCounters::default());
        let (commands, received) = mpsc::channel();
        let mut turns = turn::Turns::new(settings, deliver, counters.clone(), received)?;
        let waker = turns.waker();
        for listener in listeners {
            turns.add(listener)?;
        }
        let thread = threads::spawn("lobby", on_failure, move || turns.run())?;
        Ok(LobbyHandle {
            commands,
            waker,
            counters,
            thread: Some(thread),
        })
    }
}

impl LobbyHandle {
    /// Changes limits and listeners without dropping any connection.
    pub fn reload(&self, reload: LobbyReload) {
        self.tell(Command::Reload(reload));
    }

    /// What came in and what was refused since the start.
    pub fn counters(&self) -> &Arc<LobbyCounters> {
        &self.counters
    }

    /// Closes all listeners and everything that waits, and ends the thread.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.tell(Command::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic in the lobby was reported by the thread itself.
            let _ = thread.join();
        }
    }

    fn tell(&self, command: Command) {
        // Both fail only when the thread is gone, and then the command has no addressee.
        let _ = self.commands.send(command);
        let _ = self.waker.wake();
    }
}

impl Drop for LobbyHandle {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.end();
        }
    }
}
