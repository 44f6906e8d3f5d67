//! A shard: one thread, one event loop, its connections and their kernel. Nothing in it is shared or locked.
//!
//! A turn reads what is ready, lets the kernel work, carries out its effects and flushes each connection that has
//! something to send once. See [`turn`] for the order.

mod buffers;
mod commit;
mod connection;
mod effects;
mod handshakes;
mod linger;
mod members;
mod memory;
mod ports;
mod rehome;
mod stream;
mod turn;
mod upgrade;
mod wheel;

use crate::observer::Ask;
use crate::settings::ShardSettings;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use thalweg_fronts::LoginAnswer;
use thalweg_kernel::{Holder, LinkId, ShardId, ShardMessage};
use thalweg_model::{Message, Time};

use crate::lobby::Arrival;

pub(crate) use buffers::buffers_share;
pub(crate) use commit::{Commits, Committed};
pub use connection::{ConnectionView, Connections};
pub(crate) use memory::{Held, short_of};
pub(crate) use ports::PortParts;
pub use ports::{PortView, Ports};
pub(crate) use rehome::home_of;
pub use turn::LoopCounts;
pub(crate) use turn::{Parts as ShardParts, Shard};

/// What others tell a shard.
pub(crate) enum ToShard {
    /// A connection that lives here from now on.
    Arrival(Box<Arrival>),
    /// A newcomer has the place of the half-open connection with this [`HalfOpen::serial`](crate::lobby::HalfOpen::serial).
    MakeRoom(u64),
    /// A socket for datagrams that is read here from now on.
    OpenPort(Box<PortParts>),
    /// The listener of this name has gone.
    ClosePort(Arc<str>),
    /// The verdict on a log-in. The serial distinguishes the connection from a later one with the same number.
    Login {
        link: LinkId,
        serial: u64,
        answer: LoginAnswer,
        ends: Option<Time>,
    },
    /// What another shard's kernel says, in order, the bytes it holds, and the mail's number if it is to be confirmed
    /// (0 if not).
    Messages(ShardId, Vec<ShardMessage>, usize, u64),
    /// The other shard has what it was sent up to this mail as safe as was asked for.
    Stored(ShardId, u64),
    /// What an earlier run left has been taken up by all shards.
    Restored,
    /// The committer has news.
    Committed(Committed),
    /// Messages that a queue wanted back.
    Fetched {
        holder: Holder,
        question: u64,
        messages: Vec<Option<Message>>,
    },
    /// Whether the journal is too full for new promises.
    JournalFull(bool),
    /// Memory for buffers is short, and most of it is here.
    BoundBuffers,
    /// A question of an observer.
    Ask(Ask),
    Settings(Box<ShardSettings>),
    /// Say good-bye to everybody and end.
    Stop,
}

/// A way to tell a shard something, from any thread.
#[derive(Clone)]
pub(crate) struct Mailbox {
    sender: mpsc::Sender<ToShard>,
    waker: Arc<mio::Waker>,
    /// The shard is about to sleep, or sleeps: it must be woken.
    sleeping: Arc<AtomicBool>,
    /// Bytes of other shards' messages that are under way to it.
    backlog: Arc<AtomicUsize>,
    /// What the shard holds.
    pub(crate) held: Arc<Held>,
}

/// Bytes under way to a shard above which publishers that send it more are paused for a moment.
const BACKLOG_BYTES_MAX: usize = 2 << 20;

impl Mailbox {
    pub(crate) fn new(
        sender: mpsc::Sender<ToShard>,
        waker: Arc<mio::Waker>,
        sleeping: Arc<AtomicBool>,
    ) -> Self {
        Mailbox {
            sender,
            waker,
            sleeping,
            backlog: Arc::default(),
            held: Arc::default(),
        }
    }

    /// Sends what this shard's kernel says.
    pub(crate) fn hand_over(&self, from: ShardId, messages: Vec<ShardMessage>, number: u64) {
        let bytes = messages.iter().map(ShardMessage::bytes).sum();
        self.backlog.fetch_add(bytes, Ordering::Relaxed);
        self.tell(ToShard::Messages(from, messages, bytes, number));
    }

    /// The shard has taken so many bytes of messages.
    pub(crate) fn taken(&self, bytes: usize) {
        self.backlog.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether the shard does not keep up with what it is sent.
    pub(crate) fn is_full(&self) -> bool {
        self.backlog.load(Ordering::Relaxed) > BACKLOG_BYTES_MAX
    }

    /// Bytes of memory that the shard holds, and that are under way to it.
    pub(crate) fn bytes_held(&self) -> usize {
        self.held.messages()
            + self.held.beside()
            + self.held.buffers()
            + self.backlog.load(Ordering::Relaxed)
    }

    /// False if the shard has ended.
    pub(crate) fn tell(&self, message: ToShard) -> bool {
        let sent = self.sender.send(message).is_ok();
        // The shard sets the flag before it looks into its mailbox for the last time and only then sleeps, so either
        // it sees this message or we see the flag.
        std::sync::atomic::fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::SeqCst) {
            // Failing means that the process is out of kernel memory; the shard's next time limit will find the message.
            let _ = self.waker.wake();
        }
        sent
    }
}
