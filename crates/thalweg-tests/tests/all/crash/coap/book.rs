//! Acknowledgements to CoAP clients and their effects, and every way in which the two can disagree.
//!
//! It uses no socket. A client repeats a request until it is answered or given up; it may cause one copy for each life
//! of the broker that the request met, because a restarted broker does not know earlier requests.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::crash::supervisor::Promises;

const STORIES_MAX: usize = 12;

/// Kinds of breaches that are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wrong {
    /// An acknowledged message never came to the durable subscriber, or to those who take from the queue.
    Lost,
    /// A message came once more than it can have been published, and did not say so; or what was taken and surely settled
    /// came back.
    Twice,
    /// A GET showed an older value than the last acknowledged one, or an unknown value.
    Value,
    /// An acknowledged topic is missing, has another configuration, or is there though its end was acknowledged.
    Topic,
    /// A message came that was not sent.
    Content,
    /// The durable session is gone.
    Session,
    /// The broker refused what it has to do.
    Refused,
    /// No answer came, though the broker lived.
    Stuck,
    /// The broker's own books do not add up.
    Ledger,
    /// The broker ended by itself, did not start, or panicked.
    Broker,
}

/// Clients that must get the messages of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// PUT, confirmable: the durable subscriber, and GET.
    Kept,
    /// PUT, not confirmable: delivery is not required.
    Loose,
    /// POST into the queue: one who takes.
    Queue,
}

/// A message: its stream and its number, from 1.
pub type Mark = (usize, u32);

#[derive(Debug)]
pub struct Stream {
    pub name: String,
    pub way: Way,
    sent: Vec<Sent>,
}

#[derive(Debug, Default)]
struct Sent {
    first_life: u32,
    last_life: u32,
    acknowledged: bool,
    /// Times that it came to the subscriber, and those of them without DUP.
    came: u32,
    unflagged: u32,
    takes: Vec<Take>,
}

#[derive(Clone, Copy, Debug)]
struct Take {
    life: u32,
    /// Later news of the same client about the same queue was acknowledged in this life.
    surely_settled: bool,
}

impl Sent {
    fn copies(&self) -> u32 {
        self.last_life - self.first_life + 1
    }
}

#[derive(Debug, Default)]
pub struct Book {
    pub streams: Vec<Stream>,
    breaches: BTreeMap<Wrong, u32>,
    stories: Vec<String>,
    pub last_heard: Option<Instant>,
    pub readings: u64,
    pub repeated: u64,
    pub came_back: u64,
    pub given_up: u64,
    pub topics: u64,
    pub promises: Promises,
}

impl Book {
    pub fn stream(&mut self, name: &str, way: Way) -> usize {
        self.streams.push(Stream {
            name: name.to_owned(),
            way,
            sent: Vec::new(),
        });
        self.streams.len() - 1
    }

    pub fn breach(&mut self, wrong: Wrong, story: String) {
        *self.breaches.entry(wrong).or_default() += 1;
        if self.stories.len() < STORIES_MAX {
            self.stories.push(format!("{wrong:?}: {story}\n"));
        }
    }

    pub fn count(&self, wrong: Wrong) -> u32 {
        self.breaches.get(&wrong).copied().unwrap_or_default()
    }

    pub fn counted(&self) -> &BTreeMap<Wrong, u32> {
        &self.breaches
    }

    pub fn stories(&self) -> String {
        format!("{:?}\n{}", self.breaches, self.stories.concat())
    }

    /// A publish is about to leave for the first time.
    pub fn send(&mut self, stream: usize, life: u32) -> Mark {
        let sent = &mut self.streams[stream].sent;
        // It may be repeated for as long as nothing is known.
        sent.push(Sent {
            first_life: life,
            last_life: u32::MAX,
            ..Sent::default()
        });
        (stream, u32::try_from(sent.len()).expect("not that many"))
    }

    /// Nothing is repeated any more: it was answered, or given up.
    pub fn finish(&mut self, mark: Mark, life: u32, acknowledged: bool) {
        let Some(sent) = self.sent(mark) else { return };
        sent.last_life = life.max(sent.first_life);
        sent.acknowledged = acknowledged;
        if acknowledged {
            self.promises.one_more();
        }
        self.given_up += u64::from(!acknowledged);
    }

    /// A message has come to the durable subscriber.
    pub fn hear(&mut self, payload: &[u8], dup: bool) {
        self.last_heard = Some(Instant::now());
        let Some(mark) = mark(payload) else {
            return self.breach(
                Wrong::Content,
                format!("`{}` came", String::from_utf8_lossy(payload)),
            );
        };
        let Some(sent) = self.sent(mark) else {
            return self.breach(Wrong::Content, format!("{mark:?} came and was never sent"));
        };
        sent.came += 1;
        sent.unflagged += u32::from(!dup);
        self.repeated += u64::from(dup);
    }

    /// A message was taken from the queue and acknowledged.
    pub fn take(&mut self, payload: &[u8], life: u32) -> Option<Mark> {
        self.last_heard = Some(Instant::now());
        let Some(mark) = mark(payload) else {
            self.breach(
                Wrong::Content,
                format!("`{}` was in the queue", String::from_utf8_lossy(payload)),
            );
            return None;
        };
        let Some(sent) = self.sent(mark) else {
            self.breach(
                Wrong::Content,
                format!("{mark:?} was in the queue and was never sent"),
            );
            return None;
        };
        let earlier = !sent.takes.is_empty();
        sent.takes.push(Take {
            life,
            surely_settled: false,
        });
        let final_ones = sent
            .takes
            .iter()
            .filter(|take| take.surely_settled || take.life == life)
            .count();
        let copies = sent
            .last_life
            .saturating_sub(sent.first_life)
            .saturating_add(1);
        let story = format!(
            "{mark:?} was taken in life {life}, of at most {copies} copies: {:?}",
            sent.takes
        );
        self.came_back += u64::from(earlier);
        if final_ones > copies as usize {
            self.breach(Wrong::Twice, story);
        }
        Some(mark)
    }

    /// These were accepted in this life, and all that was acknowledged later is safe.
    pub fn settled(&mut self, marks: &[Mark], life: u32) {
        for mark in marks {
            let Some(sent) = self.sent(*mark) else {
                continue;
            };
            // Of two copies that were taken only one may be among these.
            let mut takes = sent.takes.iter_mut();
            let open = takes.find(|take| take.life == life && !take.surely_settled);
            if let Some(take) = open {
                take.surely_settled = true;
            }
        }
    }

    /// The number of the last acknowledged message of a stream, 0 if there is none.
    pub fn floor(&self, stream: usize) -> u32 {
        let sent = &self.streams[stream].sent;
        sent.iter()
            .rposition(|sent| sent.acknowledged)
            .map_or(0, |at| at as u32 + 1)
    }

    /// Records the value of a GET; `floor` was read before it was sent.
    pub fn read(&mut self, stream: usize, floor: u32, shown: Option<&[u8]>, life: u32) {
        let sent = self.streams[stream].sent.len() as u32;
        let number = match shown {
            None => Some(0),
            Some(payload) => mark(payload)
                .filter(|(of, _)| *of == stream)
                .map(|(_, number)| number),
        };
        self.readings += 1;
        let name = &self.streams[stream].name;
        let story =
            format!("life {life}: {name} shows {number:?}, between {floor} and {sent} are right");
        if !number.is_some_and(|number| (floor..=sent).contains(&number)) {
            self.breach(Wrong::Value, story);
        }
    }

    /// Returns acknowledged messages that were never delivered.
    pub fn missing(&self) -> Vec<Mark> {
        let mut missing = Vec::new();
        for (stream, it) in self.streams.iter().enumerate() {
            for (at, sent) in it
                .sent
                .iter()
                .enumerate()
                .filter(|(_, sent)| sent.acknowledged)
            {
                let came = match it.way {
                    Way::Kept => sent.came > 0,
                    Way::Queue => !sent.takes.is_empty(),
                    Way::Loose => true,
                };
                if !came {
                    missing.push((stream, at as u32 + 1));
                }
            }
        }
        missing
    }

    /// Nothing comes any more.
    pub fn close(&mut self) {
        for (stream, number) in self.missing() {
            let name = &self.streams[stream].name;
            self.breach(
                Wrong::Lost,
                format!("number {number} of {name} was acknowledged and never came"),
            );
        }
        let too_many = |sent: &Sent| sent.unflagged > sent.copies();
        let doubled: Vec<String> = self
            .streams
            .iter()
            .flat_map(|stream| stream.sent.iter().enumerate().map(move |it| (stream, it)))
            .filter(|(_, (_, sent))| sent.last_life != u32::MAX && too_many(sent))
            .map(|(stream, (at, sent))| format!("number {} of {}: {sent:?}", at + 1, stream.name))
            .collect();
        doubled
            .into_iter()
            .for_each(|story| self.breach(Wrong::Twice, story));
    }

    /// Messages of a way: acknowledged, and those of them that came.
    pub fn acknowledged(&self, way: Way) -> (usize, usize) {
        let of_way = self
            .streams
            .iter()
            .filter(|stream| stream.way == way)
            .flat_map(|stream| &stream.sent);
        let acknowledged: Vec<_> = of_way.filter(|sent| sent.acknowledged).collect();
        (
            acknowledged.len(),
            acknowledged
                .iter()
                .filter(|sent| sent.came > 0 || !sent.takes.is_empty())
                .count(),
        )
    }

    fn sent(&mut self, (stream, number): Mark) -> Option<&mut Sent> {
        self.streams
            .get_mut(stream)?
            .sent
            .get_mut(usize::try_from(number).ok()?.checked_sub(1)?)
    }
}

/// Payload of a message: its identity, padded to `size`.
pub fn payload((stream, number): Mark, size: usize) -> Vec<u8> {
    let mut payload = format!("{stream} {number} ").into_bytes();
    payload.resize(size.max(payload.len()), b'.');
    payload
}

/// The message that a payload says it is; none if its filling is damaged.
fn mark(payload: &[u8]) -> Option<Mark> {
    let mut parts = payload.splitn(3, |byte| *byte == b' ');
    let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse::<u32>().ok();
    let (stream, number) = (number()?, number()?);
    parts
        .next()?
        .iter()
        .all(|byte| *byte == b'.')
        .then_some((stream as usize, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(way: Way) -> (Book, Mark) {
        let mut book = Book::default();
        let stream = book.stream("a", way);
        let mark = book.send(stream, 3);
        (book, mark)
    }

    #[test]
    fn what_is_acknowledged_and_does_not_come_is_lost() {
        for (way, lost) in [(Way::Kept, 1), (Way::Queue, 1), (Way::Loose, 0)] {
            let (mut book, mark) = with(way);
            book.finish(mark, 3, true);
            book.close();
            assert_eq!(book.count(Wrong::Lost), lost, "{way:?}");
        }
    }

    #[test]
    fn a_request_may_be_carried_out_once_in_each_life_that_it_met() {
        for (last, twice) in [(3, 1), (4, 0)] {
            let (mut book, mark) = with(Way::Kept);
            book.finish(mark, last, true);
            book.hear(&payload(mark, 50), false);
            book.hear(&payload(mark, 50), true);
            book.hear(&payload(mark, 50), false);
            book.close();
            assert_eq!(book.count(Wrong::Twice), twice, "until life {last}");
        }
    }

    #[test]
    fn what_was_taken_may_come_back_after_a_kill_unless_it_was_surely_settled() {
        for (life, sure, twice) in [(3, false, 1), (4, false, 0), (4, true, 1)] {
            let (mut book, mark) = with(Way::Queue);
            book.finish(mark, 3, true);
            book.take(&payload(mark, 0), 3);
            if sure {
                book.settled(&[mark], 3);
            }
            book.take(&payload(mark, 0), life);
            assert_eq!(book.count(Wrong::Twice), twice, "in life {life}, {sure}");
        }
    }

    #[test]
    fn a_value_is_at_least_the_last_acknowledged_one() {
        let (mut book, mark) = with(Way::Kept);
        book.finish(mark, 3, true);
        let later = book.send(mark.0, 3);
        for (shown, wrong) in [
            (Some(mark), 0),
            (Some(later), 0),
            (None, 1),
            (Some((0, 3)), 2),
            (Some((1, 1)), 3),
        ] {
            let shown = shown.map(|mark| payload(mark, 20));
            book.read(0, book.floor(0), shown.as_deref(), 3);
            assert_eq!(book.count(Wrong::Value), wrong, "{shown:?}");
        }
    }
}
