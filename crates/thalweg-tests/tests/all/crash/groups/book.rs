//! Acknowledgements to publishers, and the deliveries to members of groups.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use crate::crash::supervisor::Promises;
use crate::crash::trail::Trail;

/// Breaches of one kind that are described; the rest is counted.
const STORIES_MAX: usize = 12;

/// A member whose session ends with its connection.
pub const PASSES: &str = "passes";

/// Messages of a publisher with one quality of service.
pub struct Stream {
    pub topic: &'static str,
    pub qos: u8,
    /// Its group promises the order of each publisher.
    pub ordered: bool,
    fates: Vec<Fate>,
    /// The highest number that was delivered.
    latest: u32,
}

/// Outcome of a message.
#[derive(Clone, Debug, Default)]
struct Fate {
    /// PUBACK or PUBCOMP came.
    acknowledged: bool,
    /// Receivers, in order: the publisher's attempt, and the life of the broker.
    members: Vec<(&'static str, u32, u32)>,
}

/// A message as a member read it.
#[derive(Clone, Copy, Debug)]
pub struct ReadMessage {
    pub stream: usize,
    pub number: u32,
    /// The publisher's attempts: a message that it sends again is a new one to the broker at QoS 1.
    pub attempt: u32,
    pub dup: bool,
    pub life: u32,
}

/// Counted, and told where it is wrong.
pub struct Book {
    begun: Instant,
    streams: Vec<Stream>,
    wrong: BTreeMap<&'static str, Vec<String>>,
    pub trail: Trail,
    /// Messages that are still to be delivered, acknowledged or not.
    pub unheard: usize,
    pub deliveries: u64,
    pub repeats: u64,
    /// Repetitions without a flag that the broker caused: in a later life than the first delivery, for sends right
    /// before a kill are not on the disk yet.
    pub unflagged: u64,
    /// Deliveries to such a member are not among these: they are sent only after they are on the disk.
    pub knows_who_passes: bool,
    /// Connections of members that the broker ended with "Quota exceeded".
    pub evictions: u64,
    pub resets: u64,
    pub promises: Promises,
}

impl Book {
    pub fn new(begun: Instant, trail: PathBuf) -> Book {
        Book {
            begun,
            streams: Vec::new(),
            wrong: BTreeMap::new(),
            trail: Trail::new(trail),
            unheard: 0,
            deliveries: 0,
            repeats: 0,
            unflagged: 0,
            knows_who_passes: false,
            evictions: 0,
            resets: 0,
            promises: Promises::default(),
        }
    }

    pub fn stream(&mut self, topic: &'static str, qos: u8, ordered: bool) -> usize {
        self.streams.push(Stream {
            topic,
            qos,
            ordered,
            fates: Vec::new(),
            latest: 0,
        });
        self.streams.len() - 1
    }

    pub fn of(&self, stream: usize) -> &Stream {
        &self.streams[stream]
    }

    pub fn note(&mut self, who: &str, what: std::fmt::Arguments) {
        let at = self.begun.elapsed().as_nanos() as u64;
        self.trail.note(at, who, what);
    }

    pub fn breach(&mut self, what: &'static str, story: String) {
        self.note("BREACH", format_args!("{what}: {story}"));
        self.wrong.entry(what).or_default().push(story);
    }

    pub fn is_clean(&self) -> bool {
        self.wrong.is_empty()
    }

    /// Descriptions of breaches, with the trail of the messages concerned.
    pub fn stories(&mut self) -> String {
        let mut all = String::new();
        for (what, stories) in &self.wrong {
            all += &format!("{what}: {} times\n", stories.len());
            for story in stories.iter().take(STORIES_MAX) {
                all += &format!("  {story}\n");
                if let Some(mark) = story.split_whitespace().find(|word| word.starts_with('<')) {
                    all += &self.trail.lines_with(mark.trim_end_matches([':', ',']));
                }
            }
        }
        all
    }

    // --- publishers

    /// A new message; its number, from 1.
    pub fn send(&mut self, stream: usize) -> u32 {
        let fates = &mut self.streams[stream].fates;
        fates.push(Fate::default());
        self.unheard += 1;
        fates.len() as u32
    }

    pub fn acknowledged(&mut self, stream: usize, number: u32) {
        self.streams[stream].fates[number as usize - 1].acknowledged = true;
        self.promises.one_more();
    }

    pub fn acknowledged_count(&self, qos: u8) -> usize {
        let of_qos = self.streams.iter().filter(|stream| stream.qos == qos);
        of_qos
            .map(|stream| stream.fates.iter().filter(|fate| fate.acknowledged).count())
            .sum()
    }

    // --- members

    /// A PUBLISH that begins a delivery: at QoS 2, one whose identifier was not in use.
    pub fn hear(&mut self, who: &'static str, heard: ReadMessage) {
        let ReadMessage {
            stream,
            number,
            attempt,
            dup,
            life,
        } = heard;
        let about = format!("<{stream}#{number}>");
        self.note(
            who,
            format_args!("took {about} attempt {attempt} dup {dup}"),
        );
        self.deliveries += 1;
        let it = &mut self.streams[stream];
        let Some(fate) = it.fates.get_mut(number as usize - 1) else {
            return self.breach(
                "of nobody",
                format!("{about} came to {who} and was never sent"),
            );
        };
        let before = fate.members.clone();
        fate.members.push((who, attempt, life));
        let is_repeat = !before.is_empty();
        self.unheard = self.unheard.saturating_sub(usize::from(!is_repeat));
        let (latest, qos, ordered) = (it.latest, it.qos, it.ordered);
        it.latest = latest.max(number);
        self.repeats += u64::from(is_repeat);
        // Two attempts of a publisher at QoS 1 are two messages to the broker.
        if before.iter().any(|(_, of, _)| *of == attempt) && !dup {
            self.unflagged += 1;
            let knows_who_passes = self.knows_who_passes;
            if before.iter().any(|(who, of, at)| {
                *of == attempt && (*at == life || (knows_who_passes && *who == PASSES))
            }) {
                self.breach(
                    "repeat unmarked",
                    format!("{about} came to {who} after {before:?}"),
                );
            }
        }
        if qos == 2 && is_repeat {
            let what = if before.iter().all(|(member, ..)| *member == who) {
                "QoS 2 doubled"
            } else {
                "QoS 2 moved"
            };
            self.breach(what, format!("{about} came to {who} after {before:?}"));
        }
        if ordered && number < latest && !is_repeat {
            self.breach(
                "out of order",
                format!("{about} came to {who} for the first time after number {latest}"),
            );
        }
    }

    /// Acknowledged messages without a delivery.
    pub fn missing(&self) -> Vec<(usize, u32)> {
        let of = |(at, stream): (usize, &Stream)| {
            let lost = |fate: &Fate| fate.acknowledged && fate.members.is_empty();
            let numbers = stream
                .fates
                .iter()
                .enumerate()
                .filter(move |(_, fate)| lost(fate));
            numbers
                .map(|(number, _)| (at, number as u32 + 1))
                .collect::<Vec<_>>()
        };
        self.streams.iter().enumerate().flat_map(of).collect()
    }

    pub fn close(&mut self) {
        for (stream, number) in self.missing() {
            let it = &self.streams[stream];
            let story = format!(
                "<{stream}#{number}> on {} at QoS {} reached no member",
                it.topic, it.qos
            );
            self.breach("lost", story);
        }
    }
}
