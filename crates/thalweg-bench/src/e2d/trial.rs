//! What happened in a course, and the row of each step that follows from it.

use std::time::Duration;

use super::plan::step_of;
use crate::cell::{Cell, Measured, Messages, Row, Second, Standing};
use crate::load::{Books, Got, Header, Sent, Times};
use crate::studies::group;

/// One message. Times are since the first message's slot began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub flow: u32,
    /// When it was to be published.
    pub intended: Duration,
    /// When it was given to the client; none if the client refused it.
    pub sent: Option<Duration>,
    /// When the subscriber had it first.
    pub received: Option<Duration>,
    /// As the how-manieth message it came first, over all.
    pub rank: Option<u64>,
    /// How often it came.
    pub copies: u32,
    /// The protocol of the publisher's lane when it was given.
    pub published_over: String,
    /// The protocol that most of the subscriber's subscriptions were on when it came.
    pub received_over: String,
    /// What the client said of it at the end.
    pub outcome: &'static str,
}

/// One look at everything, each second and at each change of loss. Counts are those so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    pub at: Duration,
    /// Bytes and frames sent by clients and broker, lost ones included.
    pub bytes: u64,
    pub frames: u64,
    /// Packets that came to the link and those lost on it.
    pub came: u64,
    pub lost: u64,
    /// Switches of the publisher and of the subscriber.
    pub switches: (u64, u64),
}

/// Something that was said.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub at: Duration,
    /// What: `explain-publisher`, `explain-subscriber`, `trouble`.
    pub what: String,
    pub words: String,
}

/// What happened in a course.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trial {
    /// How long each step lasted.
    pub step: Duration,
    /// What the broker says it is.
    pub version: String,
    /// Whether it came to its end, and with what if not.
    pub trouble: String,
    pub messages: Vec<Message>,
    pub samples: Vec<Sample>,
    pub events: Vec<Event>,
}

impl Trial {
    /// What of a step is kept.
    pub fn measured(&self, cell: &Cell) -> Measured {
        let (from, to) = self.bounds(step_of(cell));
        let is_within = |at: Duration| at >= from && at < to;
        let mine = || self.messages.iter().filter(|it| is_within(it.intended));
        let count = |is_it: &dyn Fn(&Message) -> bool| mine().filter(|it| is_it(it)).count() as u64;
        let books = self.books(group::payload(cell).unwrap_or_default(), from, to);
        let spent = self.at(from).zip(self.at(to));
        let mut row = Row {
            unacknowledged: count(&|it| it.outcome != "acknowledged"),
            seconds: self.step.as_secs_f64(),
            wire_bytes: spent.map(|(before, after)| after.bytes - before.bytes),
            wire_frames: spent.map(|(before, after)| after.frames - before.frames),
            link_lost: spent
                .map(|(before, after)| (after.lost - before.lost, after.came - before.came)),
            ..books.row(1, self.standing())
        };
        for protocol in ["mqtt", "coap"] {
            let over = count(&|it| it.published_over == protocol);
            row.more
                .insert(format!("published_over_{protocol}"), over as f64);
        }
        if let Some((before, after)) = spent {
            let (publisher, subscriber) = (
                after.switches.0 - before.switches.0,
                after.switches.1 - before.switches.1,
            );
            row.more
                .insert("publisher_switches".to_owned(), publisher as f64);
            row.more
                .insert("subscriber_switches".to_owned(), subscriber as f64);
        }
        let is_last = self.at(to).is_none_or(|after| after.at >= self.end());
        let said = self.events.iter();
        let said = said.filter(|event| is_within(event.at) || (is_last && event.at >= to));
        let said = said.map(|event| (nanos(event.at), format!("{}: {}", event.what, event.words)));
        let version = format!("broker {}: {}", cell.system, self.version);
        Measured {
            row,
            seconds: self.seconds(&books, from, to),
            events: std::iter::once((0, version)).chain(said).collect(),
            messages: Messages {
                head: HEAD,
                lines: mine().map(Message::line).collect(),
            },
            response: books.got.response,
            service: books.got.service,
        }
    }

    /// All messages, of which those of a step count.
    fn books(&self, bytes: u32, from: Duration, to: Duration) -> Books {
        let times = Times {
            begin: nanos(from),
            measure: nanos(from),
            end: nanos(to),
            give_up: u64::MAX,
        };
        let flows = self.messages.iter().map(|message| message.flow + 1);
        let flows = flows.max().unwrap_or(0);
        let (mut sent, mut got) = (Sent::new(times), Got::new(times, flows, 1));
        let (mut counts, mut came) = (vec![0; flows as usize], Vec::new());
        for message in &self.messages {
            let intended = nanos(message.intended);
            let seq = counts[message.flow as usize];
            counts[message.flow as usize] += 1;
            let Some(given) = message.sent.map(nanos) else {
                sent.tried_without_time(intended);
                continue;
            };
            sent.tried(intended, given);
            sent.sent(intended, given);
            let header = Header {
                run: 0,
                flow: message.flow,
                seq,
                intended,
                sent: given,
            };
            came.extend(
                message
                    .received
                    .map(|at| (message.rank, header, message.copies, nanos(at))),
            );
        }
        came.sort_by_key(|(rank, ..)| *rank);
        for (_, header, copies, at) in came {
            for _ in 0..copies {
                got.came(0, &header, bytes as usize, at);
            }
        }
        Books { sent, got }
    }

    fn bounds(&self, step: usize) -> (Duration, Duration) {
        (self.step * step as u32, self.step * (step as u32 + 1))
    }

    /// When it was last looked at.
    fn end(&self) -> Duration {
        self.samples
            .last()
            .map_or(Duration::ZERO, |sample| sample.at)
    }

    /// The look at a border of steps.
    fn at(&self, border: Duration) -> Option<&Sample> {
        self.samples.iter().find(|sample| sample.at >= border)
    }

    /// What there was from one look to the next.
    fn seconds(&self, books: &Books, from: Duration, to: Duration) -> Vec<Second> {
        let seconds = books.seconds();
        let looks = self.samples.windows(2).filter_map(|pair| match pair {
            [before, after] if before.at >= from && before.at < to => {
                Some(after.bytes - before.bytes)
            }
            _ => None,
        });
        let second = |(number, wire_bytes): (usize, u64)| Second {
            wire_bytes,
            ..seconds.get(number).copied().unwrap_or_default()
        };
        looks.enumerate().map(second).collect()
    }

    /// Whether it came to its end, and messages were published when they should.
    fn standing(&self) -> Standing {
        let (late, all) = (self.late(), self.messages.len());
        match late * 100 <= all {
            _ if !self.trouble.is_empty() => Standing::Invalid(self.trouble.clone()),
            true => Standing::Valid,
            false => Standing::GeneratorLimited(format!(
                "{late} of the {all} messages of the course were published late"
            )),
        }
    }

    /// Messages given to the client later than a tenth of their period, or 1 ms if that is more.
    fn late(&self) -> usize {
        let period = match self.messages.get(..2) {
            Some([one, two]) => two.intended - one.intended,
            _ => Duration::ZERO,
        };
        let most = (period / 10).max(Duration::from_millis(1));
        let is_late = |message: &&Message| {
            message
                .sent
                .is_none_or(|sent| sent > message.intended + most)
        };
        self.messages.iter().filter(is_late).count()
    }
}

impl Message {
    /// Its line in `messages.csv`; empty for what did not happen.
    fn line(&self) -> String {
        let micros =
            |at: Option<Duration>| at.map_or_else(String::new, |at| at.as_micros().to_string());
        format!(
            "{},{},{},{},{},{},{},{},{}",
            self.flow,
            micros(Some(self.intended)),
            micros(self.sent),
            micros(self.received),
            self.rank.map_or_else(String::new, |rank| rank.to_string()),
            self.copies,
            self.published_over,
            self.received_over,
            self.outcome,
        )
    }
}

fn nanos(at: Duration) -> u64 {
    at.as_nanos() as u64
}

/// The columns behind trial and number.
const HEAD: &str =
    "flow,t_intended_us,t_sent_us,t_received_us,rank,copies,published_over,received_over,outcome";

/// The protocols by which a message may be published and received, as [`Message::published_over`] and
/// [`Message::received_over`] have them, and in words.
pub const WAYS: [([&str; 2], &str); 4] = [
    (["mqtt", "mqtt"], "MQTT"),
    (["coap", "coap"], "CoAP"),
    (["mqtt", "coap"], "MQTT to CoAP"),
    (["coap", "mqtt"], "CoAP to MQTT"),
];

#[cfg(test)]
mod tests {
    use super::super::plan::{CourseArgs, cells};
    use super::*;
    use crate::studies::plan::Budget;

    /// Two steps of ten messages on two topics; each is received after 5 ms.
    fn trial() -> Trial {
        let message = |sequence: u64| {
            let intended = Duration::from_millis(sequence * 100 + 50);
            Message {
                flow: (sequence % 2) as u32,
                intended,
                sent: Some(intended),
                received: Some(intended + Duration::from_millis(5)),
                rank: Some(sequence),
                copies: 1,
                published_over: "mqtt".to_owned(),
                received_over: "coap".to_owned(),
                outcome: "acknowledged",
            }
        };
        let sample = |second: u64| Sample {
            at: Duration::from_secs(second),
            bytes: second * 5540,
            frames: second * 20,
            came: second * 20,
            lost: second * 2,
            switches: (second, 0),
        };
        Trial {
            step: Duration::from_secs(1),
            version: "thalweg 0.1.0".to_owned(),
            trouble: String::new(),
            messages: (0..20).map(message).collect(),
            samples: (0..3).map(sample).collect(),
            events: [500, 1500, 2500]
                .map(|millis| Event {
                    at: Duration::from_millis(millis),
                    what: "explain-publisher".to_owned(),
                    words: "because".to_owned(),
                })
                .into(),
        }
    }

    /// What is kept of the first two steps.
    fn steps(trial: &Trial) -> [Measured; 2] {
        let cells = cells(&CourseArgs::default(), Budget::Quick, 1);
        [0, 1].map(|step| trial.measured(&cells[step]))
    }

    #[test]
    fn a_step_has_its_own_messages_bytes_and_words() {
        let mut trial = trial();
        trial.messages[15].received = None;
        trial.messages[15].copies = 0;
        let [first, second] = steps(&trial);
        let row = &first.row;
        assert_eq!(
            (
                row.sent,
                row.delivered,
                second.row.delivered,
                second.row.lost
            ),
            (10, 10, 9, 1)
        );
        assert_eq!(
            (row.wire_bytes, row.wire_frames, row.link_lost),
            (Some(5540), Some(20), Some((2, 20)))
        );
        assert!((row.response.mean - 5000.0).abs() < 10.0, "{row:?}");
        assert_eq!(
            [
                "publisher_switches",
                "subscriber_switches",
                "published_over_mqtt"
            ]
            .map(|it| row.more[it]),
            [1.0, 0.0, 10.0]
        );
        assert_eq!(row.standing, Standing::Valid);
        assert_eq!(
            (first.seconds.len(), first.seconds[0].wire_bytes),
            (1, 5540)
        );
        // What was said while the last messages were waited for is the last step's.
        assert_eq!([&first, &second].map(|it| it.events.len()), [1 + 1, 1 + 2]);
        assert_eq!(
            first.messages.lines[1],
            "1,150000,150000,155000,1,1,mqtt,coap,acknowledged"
        );
        assert_eq!(
            second.messages.lines[5],
            "1,1550000,1550000,,15,0,mqtt,coap,acknowledged"
        );
    }

    #[test]
    fn duplicates_gaps_and_reordering_are_counted_exactly() {
        let mut trial = trial();
        let counts = |trial: &Trial| {
            let row = &steps(trial)[0].row;
            (row.lost, row.duplicates, row.reordered)
        };
        assert_eq!(counts(&trial), (0, 0, 0));
        trial.messages[3].copies = 3;
        // 4 and 6 are of one topic and change places; 7 is of the other and is not concerned.
        trial.messages[4].rank = Some(6);
        trial.messages[6].rank = Some(4);
        trial.messages[9].copies = 0;
        trial.messages[9].rank = None;
        assert_eq!(counts(&trial), (1, 2, 1));
    }

    #[test]
    fn a_course_that_was_published_late_or_came_to_no_end_does_not_count() {
        let mut late = trial();
        late.messages[13].sent = None;
        let standing = steps(&late).map(|it| it.row.standing);
        assert!(
            standing
                .iter()
                .all(|it| it.why().contains("1 of the 20 messages")),
            "{standing:?}"
        );
        let broken = Trial {
            trouble: "interrupted".to_owned(),
            ..Trial::default()
        };
        assert_eq!(steps(&broken)[0].row.lag_p99_us, 0.0, "JSON has no NaN");
        let interrupted = Standing::Invalid("interrupted".to_owned());
        assert_eq!(
            steps(&broken).map(|it| it.row.standing),
            [interrupted.clone(), interrupted]
        );
    }
}
