//! All clients of a run, taking turns in one thread, so that what they see has one order.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::book::{Book, Wrong};
use super::client::Client;
use super::habit::Habit;

/// Between turns in which nothing came and nothing went.
const REST: Duration = Duration::from_micros(400);

/// Everything must have come this long after the last kill, or when nothing has come any more for a while.
const SETTLED_WITHIN: Duration = Duration::from_secs(90);
const SILENCE: Duration = Duration::from_secs(6);

/// How long to wait for messages that should not come.
const LISTENING: Duration = Duration::from_millis(400);

/// At the end, a client without a complete answer within this time counts as stuck.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);

pub struct Crowd {
    pub book: Book,
    broker: SocketAddr,
    clients: Vec<Client>,
    /// Publishers wait until all subscriptions are made.
    opened: bool,
}

impl Crowd {
    pub fn new(book: Book, broker: SocketAddr, clients: Vec<Client>) -> Self {
        Self {
            book,
            broker,
            clients,
            opened: false,
        }
    }

    /// Runs all clients until `over`.
    pub fn go_on(&mut self, mut over: impl FnMut() -> bool) {
        while !over() {
            self.turn(false);
        }
    }

    fn turn(&mut self, at_rest: bool) -> bool {
        let mut busy = false;
        for client in &mut self.clients {
            // A client that goes away for long must have subscribed before: publishers wait for all subscriptions.
            let waits = !self.opened
                && (matches!(client.habit, Habit::Publisher { .. }) || client.is_asking());
            busy |= client.turn(self.broker, &mut self.book, at_rest || waits);
        }
        if !self.opened {
            let is_counted =
                |client: &Client| client.reception.is_some() || matches!(client.habit, Habit::Heir);
            let waits =
                |client: &Client| !client.was_online || (is_counted(client) && client.is_asking());
            self.opened = !self.clients.iter().any(waits);
            self.book.wills_count = self.opened;
        }
        if !busy {
            std::thread::sleep(REST);
        }
        busy
    }

    /// Everybody is online and owed no answer.
    fn is_at_rest(&self) -> bool {
        self.clients
            .iter()
            .all(|client| client.is_greeted() && client.is_quiet())
    }

    /// Publishers stop, all clients stay online, and outstanding messages arrive, until the broker `has_nothing_left` or will not
    /// deliver it; then the books are closed.
    pub fn settle(&mut self, mut has_nothing_left: impl FnMut() -> bool) {
        let begun = Instant::now();
        let rest_began = self.book.now();
        let (mut last_busy, mut looked) = (begun, begun);
        loop {
            if self.turn(true) {
                last_busy = Instant::now();
            }
            if looked.elapsed() < Duration::from_millis(250) {
                continue;
            }
            looked = Instant::now();
            let quiet = self.is_at_rest();
            let read = self
                .clients
                .iter()
                .filter_map(|client| client.habit.last_reading())
                .all(|at| at > rest_began);
            if quiet && read && self.book.is_settled() {
                break;
            }
            // Readers are never silent; what they do is no progress.
            let given_up = begun.elapsed() > SETTLED_WITHIN
                || (quiet && begun.elapsed() > SILENCE * 3)
                || (quiet && !self.book.counted().is_empty() && begun.elapsed() > SILENCE);
            // After a breach there is no point in waiting longer.
            let silence = if self.book.counted().is_empty() {
                SILENCE
            } else {
                SILENCE / 4
            };
            if last_busy.elapsed() > silence || given_up {
                break;
            }
        }
        let until = Instant::now() + LISTENING;
        while Instant::now() < until {
            self.turn(true);
        }
        // One that comes and goes may be between two connections just now, or about to acknowledge retained messages; one that is
        // stuck stays so.
        let until = Instant::now() + ANSWERED_WITHIN;
        let mut is_over = has_nothing_left() && self.is_at_rest();
        while !is_over && Instant::now() < until {
            self.turn(true);
            is_over = self.is_at_rest() && (has_nothing_left() || !self.book.counted().is_empty());
        }
        for client in &self.clients {
            if !client.is_greeted() || !client.is_quiet() {
                let story = format!(
                    "{}: greeted {}, {} publishes unacknowledged, subscriptions unanswered {}",
                    client.name,
                    client.is_greeted(),
                    client.in_flight(),
                    client.is_asking()
                );
                self.book.breach(Wrong::Stuck, story);
            }
        }
        self.book.close();
    }
}
