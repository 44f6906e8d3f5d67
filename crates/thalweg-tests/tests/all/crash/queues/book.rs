//! Acknowledgements to publishers and deliveries from queues, and every way in which the two can disagree.
//!
//! It uses no socket and no protocol. Publishers never send anything twice, so a message that comes twice was delivered
//! twice. A promise is a confirmation that its publisher has read.

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

use super::super::supervisor::Promises;
use super::super::trail::Trail;

const STORIES_MAX: usize = 12;

/// Kinds of breaches that are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wrong {
    /// A confirmed message never came to a consumer that settled it.
    Lost,
    /// A message overtook an earlier one of its stream, on one connection.
    Order,
    /// A message came again and did not say so.
    Unflagged,
    /// A message came again while its holder lived, or in the life of a broker that had taken its settlement, or after a
    /// committed transaction had settled it.
    Twice,
    /// A part of a transaction happened, or what was rolled back.
    Half,
    /// A message came changed, or to a queue that it was not for.
    Content,
    /// A durable queue, exchange or binding is missing, or something is there that should have ended.
    Topology,
    /// The broker refused what it has to do.
    Refused,
    /// No answer came, though the broker lived.
    Stuck,
    /// The broker's own books do not add up.
    Ledger,
    /// The broker ended by itself, did not start, or panicked.
    Broker,
}

/// A connection in a life of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tie {
    pub connection: u32,
    pub life: u32,
}

/// A message: its stream and its number, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    pub stream: usize,
    pub number: u32,
}

impl std::fmt::Display for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<{}#{}>", self.stream, self.number)
    }
}

/// How a consumer settles a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accept,
    Reject,
    Requeue,
}

#[derive(Debug)]
struct Queue {
    name: &'static str,
    /// Where rejected messages go; its consumers reject each [`is_rough`] message and no other.
    dead: Option<usize>,
    /// Where a mover puts all there is, in transactions.
    vault: Option<usize>,
    /// Queue whose dead letters fill it; such a message may come as new twice, if the crash undid the first time.
    derived: bool,
    heard: BTreeMap<usize, Vec<Delivered>>,
}

/// The messages of one publisher on one way.
#[derive(Debug)]
struct Stream {
    name: String,
    queues: Vec<usize>,
    sent: Vec<Sent>,
    /// Its publisher's requests are datagrams: one that was given up may be taken after later ones of another socket.
    by_datagrams: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    size: usize,
    group: Option<usize>,
    confirmed: bool,
}

#[derive(Debug, Default)]
struct Group {
    members: Vec<Mark>,
    state: Fate,
    /// In which life of the broker.
    life: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// No commit was sent, so its messages must not be delivered.
    #[default]
    Open,
    /// A commit was sent and not answered.
    Unknown,
    Committed,
}

#[derive(Clone, Copy, Debug, Default)]
struct Delivered {
    times: u32,
    last_life: u32,
    holder: Option<Tie>,
    /// A settlement that ends it here was sent.
    done: bool,
    /// The last life in which the broker was known to have taken a settlement.
    known: u32,
    /// A transaction that settled it was committed.
    sealed: bool,
}

#[derive(Debug)]
pub struct Book {
    begun: Instant,
    trail: Trail,
    queues: Vec<Queue>,
    streams: Vec<Stream>,
    groups: Vec<Group>,
    ended: HashSet<u32>,
    connections: u32,
    /// By connection, queue and stream: the highest number that came.
    highest: BTreeMap<(u32, usize, usize), u32>,
    stories: Vec<(Wrong, String)>,
    counted: BTreeMap<Wrong, u64>,
    pub last_heard: Instant,
    pub heard: u64,
    pub redelivered: u64,
    /// Came again after the broker had been known to have taken the settlement: acknowledgements are written lazily.
    pub forgotten: u64,
    pub promises: Promises,
}

/// Messages that consumers of a queue with a dead-letter queue reject.
pub fn is_rough(mark: Mark) -> bool {
    mark.number.is_multiple_of(4)
}

impl Book {
    pub fn new(begun: Instant, trail: Trail) -> Self {
        Self {
            begun,
            trail,
            queues: Vec::new(),
            streams: Vec::new(),
            groups: Vec::new(),
            ended: HashSet::new(),
            connections: 0,
            highest: BTreeMap::new(),
            stories: Vec::new(),
            counted: BTreeMap::new(),
            last_heard: begun,
            heard: 0,
            redelivered: 0,
            forgotten: 0,
            promises: Promises::default(),
        }
    }

    pub fn note(&mut self, who: &str, what: std::fmt::Arguments) {
        let at = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.trail.note(at, who, what);
    }

    pub fn breach(&mut self, wrong: Wrong, story: String) {
        *self.counted.entry(wrong).or_default() += 1;
        if self
            .stories
            .iter()
            .filter(|(known, _)| *known == wrong)
            .count()
            < STORIES_MAX
        {
            self.note("BREACH", format_args!("{wrong:?}: {story}"));
            self.stories.push((wrong, story));
        }
    }

    pub fn counted(&self) -> &BTreeMap<Wrong, u64> {
        &self.counted
    }

    pub fn count(&self, wrong: Wrong) -> u64 {
        self.counted.get(&wrong).copied().unwrap_or(0)
    }

    pub fn trail(&mut self) -> &mut Trail {
        &mut self.trail
    }

    pub fn stories(&mut self) -> String {
        let mut all = String::new();
        for (wrong, story) in std::mem::take(&mut self.stories) {
            all += &format!("  {wrong:?}: {story}\n");
            if let Some(mark) = story.split_whitespace().find(|word| word.starts_with('<')) {
                all += &self.trail.lines_with(mark.trim_end_matches([':', ',']));
            }
        }
        all + &format!("  {:?}\n", self.counted)
    }

    // --- who and where

    pub fn queue(&mut self, name: &'static str) -> usize {
        let (dead, vault, derived) = (None, None, false);
        self.queues.push(Queue {
            name,
            dead,
            vault,
            derived,
            heard: BTreeMap::new(),
        });
        self.queues.len() - 1
    }

    pub fn dead_letters(&mut self, of: usize, to: usize) {
        self.queues[of].dead = Some(to);
        self.queues[to].derived = true;
    }

    /// Dead letters of a queue without consumers arrive there.
    pub fn derived(&mut self, queue: usize) {
        self.queues[queue].derived = true;
    }

    pub fn moves(&mut self, from: usize, to: usize) {
        self.queues[from].vault = Some(to);
        self.queues[to].derived = true;
    }

    pub fn stream(&mut self, name: &str, queues: &[usize]) -> usize {
        self.streams.push(Stream {
            name: name.to_owned(),
            queues: queues.to_vec(),
            sent: Vec::new(),
            by_datagrams: false,
        });
        self.streams.len() - 1
    }

    pub fn by_datagrams(&mut self, stream: usize) {
        self.streams[stream].by_datagrams = true;
    }

    pub fn connected(&mut self, life: u32) -> Tie {
        self.connections += 1;
        Tie {
            connection: self.connections,
            life,
        }
    }

    /// Its unsettled messages are requeued.
    pub fn disconnected(&mut self, tie: Tie) {
        self.ended.insert(tie.connection);
        self.highest
            .retain(|(connection, ..), _| *connection != tie.connection);
    }

    // --- publishers

    /// The next message of a stream, and its payload.
    pub fn send(&mut self, stream: usize, size: usize, group: Option<usize>) -> (Mark, Vec<u8>) {
        let sent = &mut self.streams[stream].sent;
        sent.push(Sent {
            size,
            group,
            confirmed: false,
        });
        let mark = Mark {
            stream,
            number: sent.len() as u32,
        };
        if let Some(group) = group {
            self.groups[group].members.push(mark);
        }
        let name = self.streams[stream].name.clone();
        self.note(&name, format_args!("> {mark} in transaction {group:?}"));
        (mark, self.payload(mark))
    }

    pub fn confirmed(&mut self, mark: Mark) {
        self.streams[mark.stream].sent[mark.number as usize - 1].confirmed = true;
        self.promises.one_more();
        let name = self.streams[mark.stream].name.clone();
        self.note(&name, format_args!("confirmed {mark}"));
    }

    pub fn group(&mut self, life: u32) -> usize {
        self.groups.push(Group {
            life,
            ..Group::default()
        });
        self.groups.len() - 1
    }

    pub fn fate(&mut self, group: usize, fate: Fate) {
        self.groups[group].state = fate;
        if fate == Fate::Committed {
            for mark in self.groups[group].members.clone() {
                self.confirmed(mark);
            }
        }
    }

    pub fn payload(&self, mark: Mark) -> Vec<u8> {
        let size = self.streams[mark.stream].sent[mark.number as usize - 1].size;
        let mut payload = format!("{} {} {size}|", mark.stream, mark.number).into_bytes();
        let salt = mark.stream as u8 ^ mark.number as u8;
        payload.extend((payload.len()..size).map(|at| salt.wrapping_add((at * 7) as u8)));
        payload
    }

    pub fn confirmed_count(&self) -> usize {
        self.streams
            .iter()
            .map(|it| it.sent.iter().filter(|sent| sent.confirmed).count())
            .sum()
    }

    pub fn committed_count(&self) -> usize {
        self.groups
            .iter()
            .filter(|group| group.state == Fate::Committed)
            .count()
    }

    /// Identifies a payload; `None` if it differs from the sent one.
    pub fn identify(&self, payload: &[u8]) -> Option<Mark> {
        let head = payload.split(|byte| *byte == b'|').next()?;
        let mut words = std::str::from_utf8(head).ok()?.split(' ');
        let stream: usize = words.next()?.parse().ok()?;
        let number: u32 = words.next()?.parse().ok()?;
        let mark = Mark { stream, number };
        let known = number > 0 && self.streams.get(stream)?.sent.len() >= number as usize;
        (known && self.payload(mark) == payload).then_some(mark)
    }

    // --- consumers

    /// A message came out of a queue.
    pub fn hear(
        &mut self,
        who: &str,
        queue: usize,
        tie: Tie,
        redelivered: bool,
        payload: &[u8],
    ) -> Option<Mark> {
        self.last_heard = Instant::now();
        self.heard += 1;
        self.redelivered += u64::from(redelivered);
        let name = self.queues[queue].name;
        let Some(mark) = self
            .identify(payload)
            .filter(|mark| self.belongs(queue, *mark))
        else {
            let start = String::from_utf8_lossy(&payload[..payload.len().min(30)]).into_owned();
            let story = format!(
                "{who} got {} bytes out of {name} that do not belong there: {start}",
                payload.len()
            );
            self.breach(Wrong::Content, story);
            return None;
        };
        let life = tie.life;
        self.note(
            who,
            format_args!(
                "< {mark} of {name}, again {redelivered}, life {life} on {}",
                tie.connection
            ),
        );
        let about = format!(
            "{mark} of {} in {name} at {who}",
            self.streams[mark.stream].name
        );
        let mut wrong = Vec::new();
        let group = self.streams[mark.stream].sent[mark.number as usize - 1].group;
        if let Some(group) = group.filter(|group| self.groups[*group].state == Fate::Open) {
            wrong.push((
                Wrong::Half,
                format!("{about}: transaction {group} was not committed"),
            ));
        }
        let derived = self.queues[queue].derived;
        let slot = self.heard_mut(queue, mark);
        let before = *slot;
        *slot = Delivered {
            times: before.times + 1,
            last_life: before.last_life.max(life),
            holder: Some(tie),
            ..before
        };
        if before.times > 0 && !redelivered && !(derived && before.last_life < life) {
            wrong.push((
                Wrong::Unflagged,
                format!("{about}: came again, as if it were new"),
            ));
        }
        if let Some(holder) = before.holder
            && holder.life == life
            && !self.ended.contains(&holder.connection)
        {
            wrong.push((
                Wrong::Twice,
                format!("{about}: connection {} has it", holder.connection),
            ));
        }
        if before.sealed {
            wrong.push((
                Wrong::Twice,
                format!("{about}: a committed transaction had settled it"),
            ));
        }
        match before.known {
            0 => {}
            known if known == life => {
                wrong.push((
                    Wrong::Twice,
                    format!("{about}: it had been settled in this life, {life}"),
                ));
            }
            _ => self.forgotten += 1,
        }
        let highest = self
            .highest
            .entry((tie.connection, queue, mark.stream))
            .or_default();
        // Repetitions come when their holder has released them: only new messages have an order. Dead letters are in
        // the order in which they were dead-lettered.
        if mark.number <= *highest
            && !redelivered
            && !derived
            && !self.streams[mark.stream].by_datagrams
        {
            wrong.push((
                Wrong::Order,
                format!(
                    "{about}: came after number {highest} on connection {}",
                    tie.connection
                ),
            ));
        }
        *highest = mark.number.max(*highest);
        for (wrong, story) in wrong {
            self.breach(wrong, story);
        }
        Some(mark)
    }

    /// For a queue with one consumer that gives nothing back: there everything comes in order, again or not.
    pub fn hear_in_order(
        &mut self,
        who: &str,
        queue: usize,
        tie: Tie,
        redelivered: bool,
        payload: &[u8],
    ) -> Option<Mark> {
        let before = self.identify(payload).and_then(|mark| {
            let highest = self
                .highest
                .get(&(tie.connection, queue, mark.stream))
                .copied();
            highest
                .filter(|highest| *highest >= mark.number)
                .map(|highest| (mark, highest))
        });
        if let (Some((mark, highest)), true) = (before, redelivered) {
            self.breach(
                Wrong::Order,
                format!("{mark}: came to {who} after number {highest}"),
            );
        }
        self.hear(who, queue, tie, redelivered, payload)
    }

    /// A settlement is about to be sent.
    pub fn settling(&mut self, who: &str, queue: usize, mark: Mark, verdict: Verdict) {
        self.note(who, format_args!("> {verdict:?} {mark}"));
        let heard = self.heard_mut(queue, mark);
        heard.holder = None;
        heard.done |= verdict != Verdict::Requeue;
    }

    /// The broker of this life has taken a settlement that ends these.
    pub fn taken(&mut self, who: &str, queue: usize, marks: &[Mark], life: u32) {
        for mark in marks {
            self.note(who, format_args!("settlement taken {mark}"));
            self.heard_mut(queue, *mark).known = life;
        }
    }

    /// A transaction that settled them was committed.
    pub fn sealed(&mut self, who: &str, queue: usize, marks: &[Mark]) {
        for mark in marks {
            self.note(who, format_args!("settlement committed {mark}"));
            self.heard_mut(queue, *mark).sealed = true;
        }
    }

    fn belongs(&self, queue: usize, mark: Mark) -> bool {
        let from = |origin: usize| self.streams[mark.stream].queues.contains(&origin);
        let derives = |origin: &Queue| {
            origin.vault == Some(queue) || (origin.dead == Some(queue) && is_rough(mark))
        };
        from(queue)
            || (0..self.queues.len()).any(|origin| from(origin) && derives(&self.queues[origin]))
    }

    fn heard_mut(&mut self, queue: usize, mark: Mark) -> &mut Delivered {
        let all = self.queues[queue].heard.entry(mark.stream).or_default();
        if all.len() < mark.number as usize {
            all.resize(mark.number as usize, Delivered::default());
        }
        &mut all[mark.number as usize - 1]
    }

    fn heard(&self, queue: usize, mark: Mark) -> Delivered {
        let all = self.queues[queue].heard.get(&mark.stream);
        all.and_then(|all| all.get(mark.number as usize - 1))
            .copied()
            .unwrap_or_default()
    }

    fn everywhere(&self, mark: Mark) -> Vec<Delivered> {
        self.streams[mark.stream]
            .queues
            .iter()
            .map(|queue| self.heard(*queue, mark))
            .collect()
    }

    // --- at the end

    /// Confirmed messages without a settled delivery: queue and message.
    pub fn missing(&self) -> Vec<(usize, Mark)> {
        let mut missing = Vec::new();
        for (stream, it) in self.streams.iter().enumerate() {
            for (at, _) in it
                .sent
                .iter()
                .enumerate()
                .filter(|(_, sent)| sent.confirmed)
            {
                let mark = Mark {
                    stream,
                    number: at as u32 + 1,
                };
                for queue in &it.queues {
                    let dead = self.queues[*queue].dead.filter(|_| is_rough(mark));
                    let places = [Some(*queue), dead, self.queues[*queue].vault];
                    missing.extend(
                        places
                            .into_iter()
                            .flatten()
                            .find(|it| !self.heard(*it, mark).done)
                            .map(|it| (it, mark)),
                    );
                }
            }
        }
        missing
    }

    pub fn close(&mut self) {
        for (queue, mark) in self.missing() {
            let heard = self.heard(queue, mark);
            let story = format!(
                "{mark} of {}: {} never had it settled; it came {} times",
                self.streams[mark.stream].name, self.queues[queue].name, heard.times
            );
            self.breach(Wrong::Lost, story);
        }
        for group in 0..self.groups.len() {
            let it = &self.groups[group];
            // Only what came in a later life has survived; what came before may have been taken back with all the rest.
            let all: Vec<Delivered> = it
                .members
                .iter()
                .flat_map(|mark| self.everywhere(*mark))
                .collect();
            let survived = all.iter().any(|heard| heard.last_life > it.life);
            let whole = all.iter().all(|heard| heard.times > 0);
            if it.state == Fate::Unknown && survived && !whole {
                let story = format!(
                    "transaction {group} of life {}, {:?}, is there in part: {all:?}",
                    it.life, it.members
                );
                self.breach(Wrong::Half, story);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A book with a queue, where its letters die, and a stream into it.
    fn book(name: &str) -> (Book, usize, usize, usize) {
        let path = format!(
            "{}/book-{}-{name}",
            env!("CARGO_TARGET_TMPDIR"),
            std::process::id()
        );
        let mut book = Book::new(Instant::now(), Trail::new(path.into()));
        let (queue, dead) = (book.queue("q"), book.queue("d"));
        book.dead_letters(queue, dead);
        let stream = book.stream("s", &[queue]);
        (book, queue, dead, stream)
    }

    fn found(mut book: Book) -> Vec<Wrong> {
        book.close();
        book.trail().forget();
        book.counted().keys().copied().collect()
    }

    #[test]
    fn what_comes_as_it_should_is_no_breach() {
        let (mut book, queue, dead, stream) = book("right");
        let (first, second) = (book.connected(1), book.connected(2));
        let sent: Vec<_> = (0..4).map(|_| book.send(stream, 30, None)).collect();
        for (mark, payload) in &sent {
            book.confirmed(*mark);
            assert_eq!(book.hear("a", queue, first, false, payload), Some(*mark));
        }
        book.settling("a", queue, sent[0].0, Verdict::Accept);
        book.taken("a", queue, &[sent[0].0], 1);
        for (mark, payload) in &sent {
            book.hear_in_order("b", queue, second, true, payload);
            let verdict = if is_rough(*mark) {
                Verdict::Reject
            } else {
                Verdict::Accept
            };
            book.settling("b", queue, *mark, verdict);
        }
        let (mark, payload) = &sent[3];
        book.hear("c", dead, second, false, payload);
        book.settling("c", dead, *mark, Verdict::Accept);
        assert_eq!(book.forgotten, 1, "one came again that had been settled");
        assert_eq!(found(book), []);
    }

    #[test]
    fn what_nobody_settled_is_lost() {
        let (mut book, queue, _, stream) = book("lost");
        let tie = book.connected(1);
        for number in 1..=4 {
            let (mark, payload) = book.send(stream, 30, None);
            if number != 2 {
                book.confirmed(mark);
            }
            book.hear("a", queue, tie, false, &payload);
            if number == 4 {
                book.settling("a", queue, mark, Verdict::Reject);
            }
        }
        // 1 and 3; 2 was not confirmed, and 4 is missing where its letters die.
        assert_eq!(book.missing().len(), 3);
        assert_eq!(found(book), [Wrong::Lost]);
    }

    #[test]
    fn what_overtakes_and_what_comes_again_is_found() {
        let (mut book, queue, _, stream) = book("order");
        let tie = book.connected(1);
        let (_, first) = book.send(stream, 30, None);
        let (_, second) = book.send(stream, 30, None);
        book.hear("a", queue, tie, false, &second);
        book.hear("a", queue, tie, false, &first);
        assert_eq!(found(book), [Wrong::Order]);

        let (mut book, queue, _, stream) = self::book("twice");
        let (one, other) = (book.connected(1), book.connected(1));
        let (_, payload) = book.send(stream, 30, None);
        book.hear("a", queue, one, false, &payload);
        book.hear("b", queue, other, true, &payload);
        assert_eq!(found(book), [Wrong::Twice], "the first still has it");

        let (mut book, queue, _, stream) = self::book("unflagged");
        let (one, other) = (book.connected(1), book.connected(2));
        let (_, payload) = book.send(stream, 30, None);
        book.hear("a", queue, one, false, &payload);
        book.hear("b", queue, other, false, &payload);
        assert_eq!(found(book), [Wrong::Unflagged]);

        let (mut book, queue, _, stream) = self::book("settled");
        let tie = book.connected(1);
        let (mark, payload) = book.send(stream, 30, None);
        book.hear("a", queue, tie, false, &payload);
        book.settling("a", queue, mark, Verdict::Accept);
        book.taken("a", queue, &[mark], 1);
        book.hear("a", queue, tie, true, &payload);
        assert_eq!(found(book), [Wrong::Twice], "it was settled in this life");
    }

    #[test]
    fn half_a_transaction_is_found() {
        let (mut book, queue, _, stream) = book("half");
        let group = book.group(1);
        let (_, payload) = book.send(stream, 30, Some(group));
        book.send(stream, 30, Some(group));
        book.fate(group, Fate::Unknown);
        let tie = book.connected(2);
        book.hear("a", queue, tie, true, &payload);
        assert_eq!(found(book), [Wrong::Half], "one of two survived");

        let (mut book, queue, _, stream) = self::book("rolled-back");
        let group = book.group(1);
        let (_, payload) = book.send(stream, 30, Some(group));
        let tie = book.connected(1);
        book.hear("a", queue, tie, false, &payload);
        assert_eq!(found(book), [Wrong::Half], "it was never committed");
    }
}
