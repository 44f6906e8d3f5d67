//! State shared by all clients: the broker's address, its life, and the book.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::amqp::Trouble;
use super::book::{Book, Tie, Wrong};

/// A client without an answer within this time counts as stuck.
pub const ANSWERED_WITHIN: Duration = Duration::from_secs(60);

/// Between two attempts to connect.
const RETRY: Duration = Duration::from_millis(8);

/// The broker goes: asked to, which the supervisor knows; if it was not asked to, it finds out.
const CONNECTION_FORCED: u16 = 320;

/// There is no such queue or exchange.
const NOT_FOUND: u16 = 404;

#[derive(Debug)]
pub struct World {
    pub amqp: SocketAddr,
    pub stomp: SocketAddr,
    pub mqtt: SocketAddr,
    pub coap: SocketAddr,
    pub admin: SocketAddr,
    /// Number of starts of the broker; it rises only while none runs.
    pub lives: Arc<AtomicU32>,
    book: Mutex<Book>,
    opened: AtomicBool,
    at_rest: AtomicBool,
    over: AtomicBool,
}

impl World {
    /// Where it listens: AMQP, STOMP, MQTT, CoAP and the admin interface.
    pub fn new([amqp, stomp, mqtt, coap, admin]: [SocketAddr; 5], book: Book) -> Self {
        Self {
            amqp,
            stomp,
            mqtt,
            coap,
            admin,
            lives: Arc::default(),
            book: Mutex::new(book),
            opened: AtomicBool::new(false),
            at_rest: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    pub fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("no holder panics")
    }

    pub fn into_book(self) -> Book {
        self.book.into_inner().expect("no holder panics")
    }

    pub fn life(&self) -> u32 {
        self.lives.load(Ordering::Acquire)
    }

    /// All queues are there.
    pub fn open(&self) {
        self.opened.store(true, Ordering::Release);
    }

    pub fn is_open(&self) -> bool {
        self.opened.load(Ordering::Acquire)
    }

    /// Publishers stop, and all clients stay.
    pub fn rest(&self) {
        self.at_rest.store(true, Ordering::Release);
    }

    pub fn is_at_rest(&self) -> bool {
        self.at_rest.load(Ordering::Acquire)
    }

    pub fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// A connection, and in which life of the broker it is.
    pub fn connect<T>(
        &self,
        who: &str,
        open: impl FnOnce() -> Result<T, Trouble>,
    ) -> Option<(T, Tie)> {
        if !self.is_open() {
            std::thread::sleep(RETRY);
            return None;
        }
        let life = self.life();
        let trouble = match open() {
            // One that began before a broker's end and was finished by the next has no life.
            Ok(connection) if self.life() == life => {
                return Some((connection, self.book().connected(life)));
            }
            Ok(_) => return None,
            Err(trouble) => trouble,
        };
        self.tell(who, trouble);
        std::thread::sleep(RETRY);
        None
    }

    /// The connection has ended, by whomever.
    pub fn disconnected(&self, who: &str, tie: Tie, ended: Result<(), Trouble>) {
        self.book().disconnected(tie);
        if let Err(trouble) = ended {
            self.tell(who, trouble);
        }
    }

    /// The broker has gone, or is about to.
    pub fn is_end(trouble: &Trouble) -> bool {
        match trouble {
            Trouble::Gone => true,
            Trouble::Refused(code, text) => {
                *code == CONNECTION_FORCED || text.starts_with("connection_forced")
            }
            Trouble::Silent => false,
        }
    }

    fn tell(&self, who: &str, trouble: Trouble) {
        match trouble {
            trouble if Self::is_end(&trouble) => {}
            Trouble::Gone => unreachable!("it is an end"),
            Trouble::Silent => self
                .book()
                .breach(Wrong::Stuck, format!("{who} got no answer")),
            Trouble::Refused(NOT_FOUND, text) => self
                .book()
                .breach(Wrong::Topology, format!("{who}: {text}")),
            Trouble::Refused(code, text) => self
                .book()
                .breach(Wrong::Refused, format!("{who}: {code} {text}")),
        }
    }
}
