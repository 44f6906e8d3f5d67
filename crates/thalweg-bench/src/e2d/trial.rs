//! What happened in a course, and the row of each step that follows from it.

use super::plan::step_of;
use crate::cell::{Cell, Measured, Messages, Row, Second, Standing, maybe, micros};
use crate::load::{Books, Got, Header, Sent, Times};
use crate::net::Wire;
use crate::studies::group;

/// One message. Times are nanoseconds since the first message's slot began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    pub flow: u32,
    /// When it was to be published.
    pub intended: u64,
    /// When it was given to the client; none if the client refused it.
    pub sent: Option<u64>,
    /// When the subscriber had it first.
    pub received: Option<u64>,
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
    pub at: u64,
    /// Sent by clients and broker, what was lost included.
    pub wire: Wire,
    /// Packets lost on the link, and those that came to it.
    pub link: (u64, u64),
    /// Switches of the publisher and of the subscriber.
    pub switches: (u64, u64),
}

/// What happened in a course.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trial {
    /// How long each step lasted.
    pub step: u64,
    /// What the broker says it is.
    pub version: String,
    /// Whether it came to its end, and with what if not.
    pub trouble: String,
    pub messages: Vec<Message>,
    /// How many were received so far.
    pub received: u64,
    /// The protocol that most of the subscriber's subscriptions were last seen on.
    pub listens_by: String,
    pub samples: Vec<Sample>,
    /// What was said: `explain-publisher`, `explain-subscriber`, `trouble`, `counts`, `lane`.
    pub events: Vec<(u64, String)>,
}

impl Trial {
    /// What of a step is kept.
    pub fn measured(&self, cell: &Cell) -> Measured {
        let from = self.step * step_of(cell) as u64;
        let to = from + self.step;
        let within = from..to;
        let mine = || {
            self.messages
                .iter()
                .filter(|it| within.contains(&it.intended))
        };
        let count = |is_it: &dyn Fn(&Message) -> bool| mine().filter(|it| is_it(it)).count();
        let books = self.books(group::payload(cell).unwrap_or_default(), from, to);
        let at = |border| self.samples.iter().find(|sample| sample.at >= border);
        let (first, last) = (at(from), at(to));
        let spent = first.zip(last);
        let mut row = Row {
            unacknowledged: count(&|it| it.outcome != "acknowledged") as u64,
            seconds: self.step as f64 * 1e-9,
            wire_bytes: spent.map(|(before, after)| (after.wire - before.wire).bytes),
            wire_frames: spent.map(|(before, after)| (after.wire - before.wire).frames),
            link_lost: spent.map(|(before, after)| minus(after.link, before.link)),
            ..books.row(1, self.standing())
        };
        let mut more = |name: &str, value: f64| row.more.insert(name.to_owned(), value);
        for protocol in ["mqtt", "coap"] {
            let over = count(&|it| it.published_over == protocol);
            more(&format!("published_over_{protocol}"), over as f64);
        }
        if let Some((before, after)) = spent {
            let (publisher, subscriber) = minus(after.switches, before.switches);
            more("publisher_switches", publisher as f64);
            more("subscriber_switches", subscriber as f64);
        }
        let end = self.samples.last().map_or(0, |sample| sample.at);
        let is_last = last.is_none_or(|last| last.at >= end);
        let said = self.events.iter().cloned();
        let said = said.filter(|(at, _)| within.contains(at) || (is_last && *at >= to));
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
    fn books(&self, bytes: u32, from: u64, to: u64) -> Books {
        let times = Times {
            begin: from,
            measure: from,
            end: to,
            give_up: u64::MAX,
        };
        let flows = self.messages.iter().map(|message| message.flow + 1);
        let flows = flows.max().unwrap_or(0);
        let (mut sent, mut got) = (Sent::new(times), Got::new(times, flows, 1));
        let (mut counts, mut came) = (vec![0; flows as usize], Vec::new());
        for message in &self.messages {
            let (flow, intended) = (message.flow, message.intended);
            let seq = counts[flow as usize];
            counts[flow as usize] += 1;
            let Some(given) = message.sent else {
                sent.tried_without_time(intended);
                continue;
            };
            sent.tried(intended, given);
            sent.sent(intended, given);
            let header = Header {
                run: 0,
                flow,
                seq,
                intended,
                sent: given,
            };
            let received = message.received.map(|at| (message.rank, header, at));
            came.extend(received.into_iter().cycle().take(message.copies as usize));
        }
        came.sort_by_key(|(rank, ..)| *rank);
        for (_, header, at) in came {
            got.came(0, &header, bytes as usize, at);
        }
        Books { sent, got }
    }

    /// What there was from one look to the next.
    fn seconds(&self, books: &Books, from: u64, to: u64) -> Vec<Second> {
        let seconds = books.seconds();
        let looks = self.samples.windows(2).filter_map(|pair| match pair {
            [before, after] if before.at >= from && before.at < to => {
                Some((after.wire - before.wire).bytes)
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
            _ => 0,
        };
        let most = (period / 10).max(1_000_000);
        let is_late = |it: &&Message| it.sent.is_none_or(|sent| sent > it.intended + most);
        self.messages.iter().filter(is_late).count()
    }
}

impl Message {
    /// Its line in `messages.csv`; empty for what did not happen.
    fn line(&self) -> String {
        let times = [Some(self.intended), self.sent, self.received].map(micros);
        let (flow, times, rank, copies) =
            (self.flow, times.join(","), maybe(self.rank), self.copies);
        let (published, received, outcome) =
            (&self.published_over, &self.received_over, self.outcome);
        format!("{flow},{times},{rank},{copies},{published},{received},{outcome}")
    }
}

fn minus(after: (u64, u64), before: (u64, u64)) -> (u64, u64) {
    (after.0 - before.0, after.1 - before.1)
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

    const MS: u64 = 1_000_000;

    /// Two steps of ten messages on two topics; each is received after 5 ms.
    fn trial() -> Trial {
        let message = |sequence: u64| {
            let intended = (sequence * 100 + 50) * MS;
            Message {
                flow: (sequence % 2) as u32,
                intended,
                sent: Some(intended),
                received: Some(intended + 5 * MS),
                rank: Some(sequence),
                copies: 1,
                published_over: "mqtt".to_owned(),
                received_over: "coap".to_owned(),
                outcome: "acknowledged",
            }
        };
        let sample = |second: u64| Sample {
            at: second * 1000 * MS,
            wire: Wire {
                bytes: second * 5540,
                frames: second * 20,
            },
            link: (second * 2, second * 20),
            switches: (second, 0),
        };
        let because = "explain-publisher: because".to_owned();
        Trial {
            step: 1000 * MS,
            version: "thalweg 0.1.0".to_owned(),
            messages: (0..20).map(message).collect(),
            samples: (0..3).map(sample).collect(),
            events: [500, 1500, 2500]
                .map(|at| (at * MS, because.clone()))
                .into(),
            ..Trial::default()
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
        assert_eq!((row.sent, row.delivered), (10, 10));
        assert_eq!((second.row.delivered, second.row.lost), (9, 1));
        let link = (row.wire_bytes, row.wire_frames, row.link_lost);
        assert_eq!(link, (Some(5540), Some(20), Some((2, 20))));
        assert!((row.response.mean - 5000.0).abs() < 10.0, "{row:?}");
        for (name, value) in [
            ("publisher_switches", 1.0),
            ("subscriber_switches", 0.0),
            ("published_over_mqtt", 10.0),
        ] {
            assert_eq!(row.more[name], value, "{name}");
        }
        assert_eq!(row.standing, Standing::Valid);
        let bytes: Vec<u64> = first.seconds.iter().map(|it| it.wire_bytes).collect();
        assert_eq!(bytes, [5540]);
        // What was said while the last messages were waited for is the last step's.
        assert_eq!([&first, &second].map(|it| it.events.len()), [1 + 1, 1 + 2]);
        let came = "1,150000,150000,155000,1,1,mqtt,coap,acknowledged";
        assert_eq!(first.messages.lines[1], came);
        let did_not = "1,1550000,1550000,,15,0,mqtt,coap,acknowledged";
        assert_eq!(second.messages.lines[5], did_not);
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
        for Measured { row, .. } in steps(&late) {
            let why = row.standing.why();
            assert!(why.contains("1 of the 20 messages"), "{why}");
        }
        let broken = Trial {
            trouble: "interrupted".to_owned(),
            ..Trial::default()
        };
        assert_eq!(steps(&broken)[0].row.lag_p99_us, 0.0, "JSON has no NaN");
        for Measured { row, .. } in steps(&broken) {
            assert_eq!(row.standing, Standing::Invalid("interrupted".to_owned()));
        }
    }
}
