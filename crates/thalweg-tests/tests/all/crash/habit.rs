//! Schedule of each kind of client.

use std::collections::BTreeMap;

use super::book::{Book, Moment, Use, Wrong};
use super::client::{Ask, Client, Session};
use crate::conformance::packet::*;

/// Unacknowledged publishes of one client.
const WINDOW: usize = 20;

/// A reader that has not seen all retained messages by then misses some.
const READ_WITHIN_NS: Moment = 10_000_000_000;

pub enum Habit {
    /// Publishes bursts on its streams.
    Publisher {
        streams: Vec<usize>,
        next: Moment,
        pause: (f64, f64),
        sizes: Sizes,
    },
    Listener,
    /// Receives over a session that ends with each connection; its messages are not counted.
    Passer {
        filter: &'static str,
    },
    Flipper {
        filter: &'static str,
        qos: u8,
        next: Moment,
    },
    /// Makes a session, ends it on purpose, and looks whether it stays ended.
    Ender {
        ending: bool,
    },
    /// Has a will, and dies.
    Mortal {
        number: u32,
    },
    /// Notes whose wills are published.
    Heir,
    /// Reads all retained messages, again and again.
    Reader {
        reading: Reading,
        next: Moment,
        last_ended: Moment,
    },
}

/// Payloads: mostly small, sometimes large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    Small,
    Mixed,
}

/// One look at all retained messages.
#[derive(Debug, Default)]
pub struct Reading {
    begun: Moment,
    /// By stream, the number that must be there at least; for an erased stream the last that must be gone.
    expected: BTreeMap<usize, u32>,
    seen: BTreeMap<usize, u32>,
}

impl Habit {
    pub fn publisher(streams: Vec<usize>, sizes: Sizes) -> Self {
        Habit::Publisher {
            streams,
            next: 0,
            pause: (0.005, 0.05),
            sizes,
        }
    }

    pub fn reader() -> Self {
        Habit::Reader {
            reading: Reading::default(),
            next: 0,
            last_ended: 0,
        }
    }

    /// Whether the next CONNECT asks for a session that is new and ends with its connection.
    pub fn begins_anew(client: &Client) -> bool {
        match client.habit {
            Habit::Passer { .. } | Habit::Reader { .. } => true,
            Habit::Ender { ending } => ending,
            _ => false,
        }
    }

    pub fn will(client: &mut Client, connect: Connect, _: &mut Book) -> Connect {
        let Habit::Mortal { number } = &mut client.habit else {
            return connect;
        };
        *number += 1;
        let payload = format!("will {} {number}", client.name);
        // One who always returns in time keeps its will to itself.
        if client.name.ends_with("-immortal") {
            return connect
                .will("w/never", payload, 1, false)
                .will_with(property::four(property::WILL_DELAY, 3000));
        }
        connect.will(
            format!("w/{}", client.name),
            payload,
            1 + (*number % 2) as u8,
            false,
        )
    }

    pub fn greeted(client: &mut Client, book: &mut Book, present: bool) {
        match &mut client.habit {
            Habit::Passer { filter } => {
                let (filter, qos) = ((*filter).to_owned(), 1);
                if !client.is_asking() {
                    client.ask(Ask::Subscribe {
                        filter,
                        qos,
                        claim: None,
                    });
                }
            }
            Habit::Reader { reading, next, .. } => {
                (*reading, *next) = (Reading::default(), 0);
                if !client.is_asking() {
                    for filter in ["gone/#", "r/#"] {
                        client.ask(Ask::Subscribe {
                            filter: filter.to_owned(),
                            qos: 1,
                            claim: None,
                        });
                    }
                }
            }
            Habit::Ender { ending } => {
                if *ending {
                    // The acknowledged end: from here on there is no session.
                    *ending = false;
                    book.sessions_ended += 1;
                    client.leave(book);
                    client.session = Session::None;
                } else if !present {
                    client.ask(Ask::Subscribe {
                        filter: "c/+/1/#".to_owned(),
                        qos: 1,
                        claim: None,
                    });
                }
            }
            Habit::Mortal { number } => {
                let number = *number;
                book.will_armed(&client.name, number);
            }
            _ => {}
        }
    }

    /// The connection is gone.
    pub fn lost(client: &mut Client, book: &mut Book, was_greeted: bool) {
        match &mut client.habit {
            Habit::Ender { ending } => *ending |= was_greeted && client.luck.chance(0.5),
            Habit::Mortal { number } if was_greeted => {
                let number = *number;
                if !client.name.ends_with("-immortal") {
                    book.will_due(&client.name, number);
                }
            }
            _ => {}
        }
    }

    /// SUBSCRIBE is about to leave: what a reader must see is what is certain by now.
    pub fn subscribing(client: &mut Client, book: &mut Book) {
        if let Habit::Reader { reading, .. } = &mut client.habit
            && reading.begun == 0
        {
            reading.begun = book.now();
            reading.expected = book.kept();
        }
    }

    /// True if the habit has dealt with the message.
    pub fn hear(client: &mut Client, message: &Message, book: &mut Book) -> bool {
        match &mut client.habit {
            Habit::Heir => {
                let text = String::from_utf8_lossy(&message.payload).into_owned();
                let mut words = text.split(' ').skip(1);
                match (
                    words.next(),
                    words.next().and_then(|number| number.parse().ok()),
                ) {
                    _ if message.topic == "w/never" => {
                        book.breach(
                            Wrong::Will,
                            format!("`{text}` was published, though its client always returned"),
                        );
                    }
                    (Some(who), Some(number)) => book.will_heard(who, number),
                    _ => book.breach(Wrong::Content, format!("a will says `{text}`")),
                }
                true
            }
            Habit::Reader { reading, .. } => {
                if message.retain
                    && let Some((stream, number)) = book.identify(&client.name, message)
                {
                    reading.take(stream, number, book);
                }
                true
            }
            Habit::Passer { .. } | Habit::Ender { .. } => {
                book.identify(&client.name, message);
                true
            }
            _ => false,
        }
    }

    /// A turn of a client that is online.
    pub fn act(client: &mut Client, book: &mut Book, at_rest: bool) {
        let now = book.now();
        let asking = client.is_asking();
        match &mut client.habit {
            Habit::Publisher {
                streams,
                next,
                pause,
                sizes,
                ..
            } => {
                if at_rest || now < *next {
                    return;
                }
                *next = now + (client.luck.between(*pause) * 1e9) as Moment;
                let (stream, sizes) = (streams[client.luck.below(streams.len())], *sizes);
                for _ in 0..=client.luck.below(12) {
                    if client.in_flight() >= WINDOW {
                        return;
                    }
                    let size = sizes.draw(client);
                    client.publish(stream, size, book);
                    if book.streams[stream].kind == Use::Erased {
                        // A retained message is cleared right afterwards.
                        client.publish(stream, 0, book);
                    }
                }
            }
            Habit::Flipper { filter, qos, next } => {
                if at_rest || now < *next || asking {
                    return;
                }
                *next = now + (client.luck.between((0.05, 0.7)) * 1e9) as Moment;
                let (filter, qos) = ((*filter).to_owned(), *qos);
                let claims =
                    &book.receptions[client.reception.expect("flippers are counted")].claims;
                let live = claims
                    .iter()
                    .rposition(|it| !it.ended && it.granted > 0 && it.withdrawn == 0);
                client.ask(match live {
                    Some(claim) => Ask::Unsubscribe { claim },
                    None => Ask::Subscribe {
                        filter,
                        qos,
                        claim: None,
                    },
                });
            }
            Habit::Reader {
                reading,
                next,
                last_ended,
            } => {
                if reading.begun == 0 {
                    return;
                }
                let done = reading.is_complete(book);
                if done && *next == 0 {
                    // A little longer: what should not be there may come last.
                    *next = now + 50_000_000;
                } else if done && now >= *next {
                    book.readings += 1;
                    *next = 0;
                    *last_ended = reading.begun;
                    *reading = Reading::default();
                    client.leave(book);
                } else if now > reading.begun + READ_WITHIN_NS {
                    let missing = reading.missing(book);
                    *reading = Reading::default();
                    book.breach(
                        Wrong::Retained,
                        format!("{} was not given {missing}", client.name),
                    );
                    client.leave(book);
                }
            }
            _ => {}
        }
    }

    /// When the last complete look at retained messages began.
    pub fn last_reading(&self) -> Option<Moment> {
        match self {
            Habit::Reader { last_ended, .. } => Some(*last_ended),
            _ => None,
        }
    }
}

impl Reading {
    fn take(&mut self, stream: usize, number: u32, book: &mut Book) {
        let least = self.expected.get(&stream).copied().unwrap_or(0);
        let topic = book.streams[stream].address(number);
        if book.streams[stream].kind == Use::Erased {
            if number <= least {
                let story = format!(
                    "<{stream}#{number}> is kept on {topic}, which was erased by number {}",
                    number + 1
                );
                book.breach(Wrong::Retained, story);
            }
            return;
        }
        if number < least {
            let story = format!(
                "<{stream}#{number}> is kept on {topic}, but number {least} was acknowledged"
            );
            book.breach(Wrong::Retained, story);
        }
        self.seen.insert(stream, number);
    }

    fn wanted<'a>(&'a self, book: &'a Book) -> impl Iterator<Item = (&'a usize, &'a u32)> {
        let kept = self
            .expected
            .iter()
            .filter(|(stream, _)| book.streams[**stream].kind == Use::Retained);
        kept.filter(|(stream, _)| !self.seen.contains_key(stream))
    }

    fn is_complete(&self, book: &Book) -> bool {
        self.wanted(book).next().is_none()
    }

    fn missing(&self, book: &Book) -> String {
        let each = self.wanted(book).map(|(stream, number)| {
            format!(
                "<{stream}#{number}> or a later one on {}",
                book.streams[*stream].topic
            )
        });
        each.collect::<Vec<_>>().join(", ")
    }
}

impl Sizes {
    fn draw(self, client: &mut Client) -> usize {
        let luck = &mut client.luck;
        match self {
            Sizes::Small => 30 + luck.below(270),
            Sizes::Mixed => match luck.below(200) {
                0 => 100_000 + luck.below(300_000),
                1..8 => 8_000 + luck.below(60_000),
                8..30 => 300 + luck.below(8_000),
                _ => 30 + luck.below(270),
            },
        }
    }
}
