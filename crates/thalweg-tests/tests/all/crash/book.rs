//! The book: acknowledgements to publishers and deliveries to subscribers, and every way in which the two can disagree.
//!
//! It uses no socket and no broker. A promise is an acknowledgement that a client has read. Work whose acknowledgement
//! the broker could not send before it died is no breach, except that it must not be done twice at QoS 2.

use std::collections::BTreeMap;
use std::time::Instant;

use super::supervisor::Promises;
use super::trail::{Trail, seconds};
use crate::conformance::packet::{Message, Version, property};

/// Nanoseconds since the run began. No two events share one, so that moments order them.
pub type Moment = u64;

/// Breaches that are described in full; more are counted.
const STORIES_MAX: usize = 12;

/// Tolerance of a message expiry's countdown.
const EXPIRY_ELAPSED_MAX: u32 = 1800;

/// Kinds of breaches that are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wrong {
    /// An acknowledged message never reached a persistent session that was entitled to it.
    Lost,
    /// A QoS 2 message arrived twice.
    Twice,
    /// A message overtook an earlier one of its publisher, address and QoS.
    Order,
    /// A message arrived whose subscription was acknowledged to be gone.
    Uninvited,
    /// A message arrived changed, or with another QoS, or without DUP, or without its expiry.
    Content,
    /// A retained message is older than the last acknowledged one, missing, or back from the dead.
    Retained,
    /// CONNACK did not know a session that was acknowledged before.
    SessionLost,
    /// CONNACK knew a session that was acknowledged to be ended.
    SessionRevived,
    /// The will of a lost connection was not published, or one was that should not be.
    Will,
    /// The broker's own books do not add up.
    Ledger,
    /// The broker refused what it has to accept.
    Refused,
    /// An acknowledgement without a request, or a packet identifier in use twice.
    Protocol,
    /// A publish was never acknowledged although the broker was left alone at the end.
    Stuck,
    /// The broker ended by itself, did not start, or panicked.
    Broker,
}

/// Something that must not be.
#[derive(Clone, Debug)]
pub struct Breach {
    pub wrong: Wrong,
    pub story: String,
}

/// A sequence of messages of one publisher to one address with one QoS.
#[derive(Debug)]
pub struct Stream {
    pub publisher: String,
    /// The address; in a stream of [`Use::Erased`] what it begins with.
    pub topic: String,
    pub qos: u8,
    pub kind: Use,
    /// Message expiry of its messages, for MQTT 5.
    pub expiry: Option<u32>,
    sent: Vec<Sent>,
}

/// Receivers of a stream's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Plain,
    /// They are published and kept.
    Retained,
    /// Odd ones are kept at an address of their own, which the even one that follows erases again.
    Erased,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    size: u32,
    sent: Moment,
    /// PUBACK or PUBREC was read; 0 before.
    taken: Moment,
    /// PUBACK or PUBCOMP was read; 0 before.
    done: Moment,
}

/// Expected and received messages of one persistent session, or of one group of them.
#[derive(Debug)]
pub struct Reception {
    pub name: String,
    /// Members of a group share what comes, and have no order.
    pub shared: bool,
    /// Whether what is owed must come; not so for sessions that are ended on purpose.
    pub owed: bool,
    pub claims: Vec<Claim>,
    heard: BTreeMap<usize, Arrivals>,
}

/// A subscription's life as its client saw it; 0 is not yet.
#[derive(Clone, Debug, Default)]
pub struct Claim {
    pub filter: String,
    pub qos: u8,
    pub requested: Moment,
    pub granted: Moment,
    pub withdrawn: Moment,
    pub gone: Moment,
    /// The session was ended, and its waiting messages with it.
    pub ended: bool,
}

#[derive(Debug, Default)]
struct Arrivals {
    /// Deliveries of each message, by its number.
    times: Vec<u8>,
    /// The highest number so far that came for the first time.
    latest: u32,
}

#[derive(Debug)]
pub struct Book {
    begun: Instant,
    last: Moment,
    pub streams: Vec<Stream>,
    pub receptions: Vec<Reception>,
    /// By client: its wills by number, and when each connection that carried one was lost.
    wills: BTreeMap<String, BTreeMap<u32, Will>>,
    /// Whether there is a subscriber to wills.
    pub wills_count: bool,
    pub trail: Trail,
    breaches: Vec<Breach>,
    counted: BTreeMap<Wrong, u64>,
    pub repeated: u64,
    pub retransmitted: u64,
    pub readings: u64,
    pub sessions_ended: u64,
    pub promises: Promises,
}

#[derive(Clone, Copy, Debug, Default)]
struct Will {
    lost: Moment,
    heard: u32,
}

impl Book {
    pub fn new(begun: Instant, trail: Trail) -> Self {
        Self {
            begun,
            last: 0,
            streams: Vec::new(),
            receptions: Vec::new(),
            wills: BTreeMap::new(),
            wills_count: false,
            trail,
            breaches: Vec::new(),
            counted: BTreeMap::new(),
            repeated: 0,
            retransmitted: 0,
            readings: 0,
            sessions_ended: 0,
            promises: Promises::default(),
        }
    }

    /// Now, and later than ever before.
    pub fn now(&mut self) -> Moment {
        self.last =
            (self.last + 1).max(u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        self.last
    }

    pub fn breach(&mut self, wrong: Wrong, story: String) {
        *self.counted.entry(wrong).or_default() += 1;
        let told = self
            .breaches
            .iter()
            .filter(|breach| breach.wrong == wrong)
            .count();
        if told < STORIES_MAX {
            let now = self.now();
            self.trail
                .note(now, "BREACH", format_args!("{wrong:?}: {story}"));
            self.breaches.push(Breach { wrong, story });
        }
    }

    /// Number of breaches by kind.
    pub fn counted(&self) -> &BTreeMap<Wrong, u64> {
        &self.counted
    }

    pub fn count(&self, wrong: Wrong) -> u64 {
        self.counted.get(&wrong).copied().unwrap_or(0)
    }

    /// The stories, and from the trail what happened to each message.
    pub fn stories(&mut self) -> String {
        let mut all = String::new();
        for breach in std::mem::take(&mut self.breaches) {
            all += &format!("  {:?}: {}\n", breach.wrong, breach.story);
            if let Some(mark) = breach
                .story
                .split_whitespace()
                .find(|word| word.starts_with('<'))
            {
                all += &self.trail.lines_with(mark.trim_end_matches([':', ',']));
            }
            self.breaches.push(breach);
        }
        for (wrong, count) in &self.counted {
            all += &format!("  {wrong:?}: {count} in all\n");
        }
        all
    }

    // --- publishers

    pub fn stream(
        &mut self,
        publisher: &str,
        topic: &str,
        qos: u8,
        kind: Use,
        expiry: Option<u32>,
    ) -> usize {
        let (publisher, topic) = (publisher.to_owned(), topic.to_owned());
        self.streams.push(Stream {
            publisher,
            topic,
            qos,
            kind,
            expiry,
            sent: Vec::new(),
        });
        self.streams.len() - 1
    }

    /// A new message; its number, from 1.
    pub fn send(&mut self, stream: usize, size: usize) -> u32 {
        let sent = self.now();
        let all = &mut self.streams[stream].sent;
        all.push(Sent {
            size: size as u32,
            sent,
            taken: 0,
            done: 0,
        });
        all.len() as u32
    }

    /// PUBACK or PUBREC was read.
    pub fn taken(&mut self, stream: usize, number: u32) {
        let now = self.now();
        self.promises.one_more();
        let sent = &mut self.streams[stream].sent[number as usize - 1];
        sent.taken = now;
        if self.streams[stream].qos == 1 {
            self.done(stream, number);
        }
    }

    /// PUBACK or PUBCOMP was read.
    pub fn done(&mut self, stream: usize, number: u32) {
        let now = self.now();
        self.streams[stream].sent[number as usize - 1].done = now;
    }

    pub fn payload(&self, stream: usize, number: u32) -> Vec<u8> {
        if self.streams[stream].kind == Use::Erased && number.is_multiple_of(2) {
            return Vec::new();
        }
        let size = self.streams[stream].sent[number as usize - 1].size as usize;
        let mut payload = format!("{stream} {number} {size}|").into_bytes();
        let salt = stream as u8 ^ number as u8;
        payload.extend((payload.len()..size).map(|at| salt.wrapping_add((at * 7) as u8)));
        payload
    }

    pub fn acknowledged(&self, qos: u8) -> usize {
        let streams = self.streams.iter().filter(|stream| stream.qos == qos);
        streams
            .map(|stream| stream.sent.iter().filter(|sent| sent.taken > 0).count())
            .sum()
    }

    /// The last message of each retained stream that is surely kept, and of each erased one the last that surely erased.
    pub fn kept(&self) -> BTreeMap<usize, u32> {
        let last = |stream: &Stream| {
            stream
                .sent
                .iter()
                .rposition(|sent| sent.done > 0)
                .map_or(0, |at| at as u32 + 1)
        };
        let of = |kind: Use| {
            self.streams
                .iter()
                .enumerate()
                .filter(move |(_, stream)| stream.kind == kind)
        };
        let kept = of(Use::Retained)
            .map(|(id, stream)| (id, last(stream)))
            .filter(|(_, number)| *number > 0);
        let erased = of(Use::Erased).map(|(id, stream)| (id, last(stream) / 2 * 2));
        kept.chain(erased).collect()
    }

    // --- subscribers

    pub fn reception(&mut self, name: &str) -> usize {
        self.receptions.push(Reception {
            name: name.to_owned(),
            shared: false,
            owed: true,
            claims: Vec::new(),
            heard: BTreeMap::new(),
        });
        self.receptions.len() - 1
    }

    /// Records a message that a client has accepted: for QoS 2 after the protocol's own deduplication.
    pub fn hear(&mut self, reception: usize, client: &str, version: Version, message: &Message) {
        let Some((stream, number)) = self.identify(client, message) else {
            return;
        };
        let now = self.now();
        let sent = self.streams[stream].sent[number as usize - 1];
        let about = self.about(stream, number);
        let (topic, qos) = (self.streams[stream].topic.clone(), self.streams[stream].qos);
        let mut wrong = Vec::new();
        if let (Some(expiry), Version::V5) = (self.streams[stream].expiry, version) {
            let left = message.properties.number(property::MESSAGE_EXPIRY);
            if left.is_none_or(|left| left > expiry || left + EXPIRY_ELAPSED_MAX < expiry) {
                wrong.push((
                    Wrong::Content,
                    format!("{about}: expiry {left:?} at {client}, {expiry} was asked for"),
                ));
            }
        }
        let me = &mut self.receptions[reception];
        let claims: Vec<&Claim> = me
            .claims
            .iter()
            .filter(|claim| matches(&claim.filter, &topic))
            .collect();
        // While a subscription is being made, a message may come by another one.
        if claims
            .iter()
            .all(|claim| claim.ended || (claim.granted > 0 && claim.granted < sent.sent))
        {
            let live = claims
                .iter()
                .filter(|claim| !claim.ended && claim.withdrawn == 0);
            let due = live.map(|claim| claim.qos.min(qos)).max();
            if due.is_some_and(|due| due != message.qos) {
                let story = format!(
                    "{about}: came to {client} with QoS {}, {due:?} was due",
                    message.qos
                );
                wrong.push((Wrong::Content, story));
            }
        }
        let invited = claims.iter().any(|claim| {
            let gone_before = claim.gone > 0 && claim.gone < sent.sent;
            let asked_after =
                claim.requested == 0 || (sent.done > 0 && sent.done < claim.requested);
            !gone_before && !asked_after
        });
        if !invited && !me.shared {
            wrong.push((
                Wrong::Uninvited,
                format!("{about}: came to {client}, which holds {:?}", me.claims),
            ));
        }
        // Order is promised while a subscription lasts: from before the first sending on.
        let lasts =
            |claim: &&Claim| claim.granted > 0 && claim.granted < sent.sent && claim.withdrawn == 0;
        let in_order = !me.shared && claims.iter().any(|claim| lasts(claim) && !claim.ended);
        let heard = me.heard.entry(stream).or_default();
        let at = number as usize - 1;
        if heard.times.len() <= at {
            heard.times.resize(at + 1, 0);
        }
        heard.times[at] = heard.times[at].saturating_add(1);
        if heard.times[at] > 1 {
            self.repeated += 1;
            if message.qos == 2 {
                wrong.push((
                    Wrong::Twice,
                    format!("{about}: came to {client} again at {}", seconds(now)),
                ));
            }
        } else if number > heard.latest {
            heard.latest = number;
        } else if in_order {
            wrong.push((
                Wrong::Order,
                format!("{about}: came to {client} after number {}", heard.latest),
            ));
        }
        for (wrong, story) in wrong {
            self.breach(wrong, story);
        }
    }

    /// Identifies a message; reports it if it is unknown, or differs from the sent one.
    pub fn identify(&mut self, client: &str, message: &Message) -> Option<(usize, u32)> {
        let head = message
            .payload
            .split(|byte| *byte == b'|')
            .next()
            .unwrap_or_default();
        let mut words = std::str::from_utf8(head)
            .unwrap_or_default()
            .split(' ')
            .map(str::parse::<u32>);
        let (stream, number) = match (words.next(), words.next()) {
            (Some(Ok(stream)), Some(Ok(number))) => (stream as usize, number),
            _ => (usize::MAX, 0),
        };
        let known = self
            .streams
            .get(stream)
            .is_some_and(|it| number > 0 && it.sent.len() >= number as usize);
        if !known || self.streams[stream].address(number) != message.topic {
            let start = String::from_utf8_lossy(&message.payload[..message.payload.len().min(40)])
                .into_owned();
            let story = format!(
                "{client} got {} bytes on {} that nobody sent: {start}",
                message.size, message.topic
            );
            self.breach(Wrong::Content, story);
            return None;
        }
        if message.payload != self.payload(stream, number) {
            let story = format!(
                "{}: came to {client} with another payload",
                self.about(stream, number)
            );
            self.breach(Wrong::Content, story);
        }
        Some((stream, number))
    }

    /// A session is no more, and nothing that waited in it is owed.
    pub fn end_claims(&mut self, reception: usize) {
        for claim in &mut self.receptions[reception].claims {
            claim.ended = true;
        }
    }

    // --- wills

    pub fn will_armed(&mut self, client: &str, number: u32) {
        self.wills
            .entry(client.to_owned())
            .or_default()
            .insert(number, Will::default());
    }

    /// The connection that carried it is gone without a goodbye.
    pub fn will_due(&mut self, client: &str, number: u32) {
        let now = self.now();
        if let Some(will) = self
            .wills
            .get_mut(client)
            .and_then(|wills| wills.get_mut(&number))
            && self.wills_count
        {
            will.lost = now;
        }
    }

    pub fn will_heard(&mut self, client: &str, number: u32) {
        match self
            .wills
            .get_mut(client)
            .and_then(|wills| wills.get_mut(&number))
        {
            Some(will) => will.heard += 1,
            // CONNACK may have been lost, not so the will: that is how it should be.
            None => self.will_armed(client, number),
        }
    }

    fn wills_missing(&self) -> Vec<String> {
        let all = self
            .wills
            .iter()
            .flat_map(|(client, wills)| wills.iter().map(move |it| (client, it)));
        let missing = all.filter(|(_, (_, will))| will.lost > 0 && will.heard == 0);
        missing
            .map(|(client, (number, will))| {
                format!(
                    "will {number} of {client}, whose connection was lost at {}, was never published",
                    seconds(will.lost)
                )
            })
            .collect()
    }

    pub fn wills_published(&self) -> usize {
        self.wills
            .values()
            .flat_map(BTreeMap::values)
            .filter(|will| will.heard > 0)
            .count()
    }

    // --- at the end

    /// Returns the missing messages: reception, stream, number.
    pub fn missing(&self) -> Vec<(usize, usize, u32)> {
        let mut missing = Vec::new();
        for (id, reception) in self
            .receptions
            .iter()
            .enumerate()
            .filter(|(_, reception)| reception.owed)
        {
            for (stream, it) in self
                .streams
                .iter()
                .enumerate()
                .filter(|(_, stream)| stream.kind != Use::Erased)
            {
                let claims = reception
                    .claims
                    .iter()
                    .filter(|claim| !claim.ended && claim.qos > 0 && claim.granted > 0);
                let claims: Vec<&Claim> = claims
                    .filter(|claim| matches(&claim.filter, &it.topic))
                    .collect();
                if claims.is_empty() {
                    continue;
                }
                let heard = reception.heard.get(&stream);
                for (at, sent) in it
                    .sent
                    .iter()
                    .enumerate()
                    .filter(|(_, sent)| sent.taken > 0)
                {
                    let came = heard
                        .and_then(|heard| heard.times.get(at))
                        .is_some_and(|times| *times > 0);
                    let entitles = |claim: &&Claim| {
                        let held_on =
                            claim.withdrawn == 0 || (sent.done > 0 && sent.done < claim.withdrawn);
                        claim.granted < sent.sent && held_on
                    };
                    if !came && claims.iter().any(entitles) {
                        missing.push((id, stream, at as u32 + 1));
                    }
                }
            }
        }
        missing
    }

    /// Whether everything that must come has come.
    pub fn is_settled(&self) -> bool {
        self.wills_missing().is_empty() && self.missing().is_empty()
    }

    /// Turns what is still missing into breaches.
    pub fn close(&mut self) {
        for story in self.wills_missing() {
            self.breach(Wrong::Will, story);
        }
        for (reception, stream, number) in self.missing() {
            let reception = &self.receptions[reception];
            let claims = reception
                .claims
                .iter()
                .filter(|it| it.granted > 0 && !it.ended);
            let claims: Vec<String> = claims
                .map(|it| format!("{} at {}", it.filter, seconds(it.granted)))
                .collect();
            let who = format!(
                "{} (subscribed to {})",
                reception.name,
                claims[claims.len().saturating_sub(4)..].join(", ")
            );
            let story = format!("{}: never reached {who}", self.about(stream, number));
            self.breach(Wrong::Lost, story);
        }
    }

    /// The message in words; `<stream#number>` finds it in the trail.
    fn about(&self, stream: usize, number: u32) -> String {
        let it = &self.streams[stream];
        let sent = &it.sent[number as usize - 1];
        let when = |at: Moment| {
            if at == 0 {
                "never".to_owned()
            } else {
                seconds(at)
            }
        };
        format!(
            "<{stream}#{number}> number {number} of {} on {}, QoS {}, {} bytes, sent {}, {} {}{}",
            it.publisher,
            it.address(number),
            it.qos,
            sent.size,
            seconds(sent.sent),
            if it.qos == 1 { "PUBACK" } else { "PUBREC" },
            when(sent.taken),
            if it.qos == 1 {
                String::new()
            } else {
                format!(", PUBCOMP {}", when(sent.done))
            },
        )
    }
}

impl Stream {
    pub fn address(&self, number: u32) -> String {
        match self.kind {
            Use::Erased => format!("{}/{}", self.topic, number.div_ceil(2)),
            Use::Plain | Use::Retained => self.topic.clone(),
        }
    }

    pub fn retain(&self) -> bool {
        self.kind != Use::Plain
    }
}

/// Matching as the specification words it; nothing of ours, so that a mistake there cannot hide here.
fn matches(filter: &str, topic: &str) -> bool {
    let filter = match filter.strip_prefix("$share/") {
        Some(rest) => rest.split_once('/').map_or("", |(_, filter)| filter),
        None => filter,
    };
    let (mut wanted, mut levels) = (filter.split('/'), topic.split('/'));
    loop {
        match (wanted.next(), levels.next()) {
            (Some("#"), _) | (None, None) => return true,
            (Some(want), Some(level)) if want == "+" || want == level => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_match_as_they_should() {
        for (filter, topic, expected) in [
            ("c/#", "c/a/1", true),
            ("c/+/1/#", "c/a/1/0", true),
            ("c/+/1/#", "c/a/1", true),
            ("c/+/2/#", "c/a/1/0", false),
            ("c/a", "c/a/1", false),
            ("$share/g/s/#", "s/x", true),
            ("$share/g/s/#", "c/x", false),
        ] {
            assert_eq!(matches(filter, topic), expected, "{filter} {topic}");
        }
    }
}
