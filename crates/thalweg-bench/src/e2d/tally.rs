//! What publisher and subscriber write down while a course runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use thalweg_client::{Client, LaneState, Status, blocking};

use super::plan::Course;
use super::trial::Message;

/// The messages of a course, as both sides see them.
#[derive(Debug)]
pub struct Tally {
    books: Mutex<Books>,
    begun: Instant,
}

#[derive(Debug)]
struct Books {
    messages: Vec<Message>,
    /// How many were received.
    received: u64,
    /// The protocol that the subscriber was last seen to listen by.
    over: String,
}

impl Tally {
    /// Nothing sent yet; times count from `begun`.
    pub fn new(course: &Course<'_>, begun: Instant) -> Tally {
        let message = |sequence: usize| Message {
            flow: course.flow(sequence),
            intended: course.intended(sequence),
            sent: None,
            received: None,
            rank: None,
            copies: 0,
            published_over: String::new(),
            received_over: String::new(),
            outcome: "",
        };
        Tally {
            books: Mutex::new(Books {
                messages: (0..course.messages()).map(message).collect(),
                received: 0,
                over: String::new(),
            }),
            begun,
        }
    }

    /// A message was given to the client.
    pub fn sent(&self, sequence: usize, protocol: &str) {
        let now = self.begun.elapsed();
        if let Some(message) = self.lock().messages.get_mut(sequence) {
            message.sent = Some(now);
            protocol.clone_into(&mut message.published_over);
        }
    }

    /// The subscriber listens by this from now on.
    pub fn listens_by(&self, protocol: &str) {
        protocol.clone_into(&mut self.lock().over);
    }

    /// A payload came. What is none of ours is left alone: a test of this would see a message missing.
    pub fn received(&self, payload: &[u8]) {
        let now = self.begun.elapsed();
        let Some(sequence) = payload
            .first_chunk::<4>()
            .map(|head| u32::from_be_bytes(*head) as usize)
        else {
            return;
        };
        let mut books = self.lock();
        let Books {
            messages,
            received,
            over,
        } = &mut *books;
        let Some(message) = messages.get_mut(sequence) else {
            return;
        };
        message.copies += 1;
        if message.copies == 1 {
            message.received = Some(now);
            message.rank = Some(*received);
            over.clone_into(&mut message.received_over);
            *received += 1;
        }
    }

    /// What the client says of a message at the end.
    pub fn outcome(&self, sequence: usize, word: &'static str) {
        if let Some(message) = self.lock().messages.get_mut(sequence) {
            message.outcome = word;
        }
    }

    /// How many were received.
    pub fn count(&self) -> u64 {
        self.lock().received
    }

    pub fn take(&self) -> Vec<Message> {
        std::mem::take(&mut self.lock().messages)
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A payload: the sequence, then letters.
pub fn payload(sequence: usize, size: usize) -> Vec<u8> {
    let mut payload = (sequence as u32).to_be_bytes().to_vec();
    payload.extend((4..size).map(|at| b'a' + (at % 26) as u8));
    payload
}

/// Takes messages until told to stop. Returns why the subscription has ended, if it did by itself.
pub fn receive(
    mut subscription: blocking::Subscription,
    tally: &Tally,
    stop: &AtomicBool,
) -> Option<String> {
    while !stop.load(Ordering::Relaxed) {
        match subscription.next_timeout(LOOK_UP) {
            Ok(Some(message)) => tally.received(message.payload()),
            Ok(None) => {
                return Some(
                    subscription
                        .ended()
                        .unwrap_or_else(|| "the subscription has ended".to_owned()),
                );
            }
            // Nothing came for a moment.
            Err(_) => {}
        }
    }
    None
}

/// The protocol that a client publishes by.
pub fn publishes_by(client: &Client) -> String {
    let status = client.status().unwrap_or_default();
    let lane = status.lanes.iter().find(|lane| lane.publishes);
    lane.map_or_else(String::new, |lane| lane.protocol.to_owned())
}

/// The protocol that most subscriptions of a client are on.
pub fn subscribes_by(status: &Status) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for lane in status
        .lanes
        .iter()
        .filter(|lane| lane.subscriptions > 0 && lane.state == LaneState::Up)
    {
        *counts.entry(lane.protocol).or_default() += lane.subscriptions;
    }
    counts
        .into_iter()
        .max_by_key(|(_, count)| *count)
        .map_or_else(String::new, |(name, _)| name.to_owned())
}

/// How often the receiver looks whether it is to stop.
const LOOK_UP: Duration = Duration::from_millis(50);
