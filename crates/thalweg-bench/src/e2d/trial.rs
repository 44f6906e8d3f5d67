//! What happened in a course, and the row of each step that follows from it.

use std::time::Duration;

use super::plan::step_of;
use crate::cell::{Cell, Measured, Messages, Row, Second, Standing};
use crate::load::books::quantiles;
use crate::report::stat::quantile;
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
        let overtaken = self.overtaken();
        let mine = || {
            let all = self.messages.iter().zip(&overtaken);
            all.filter(|(message, _)| is_within(message.intended))
        };
        let count = |is_it: &dyn Fn(&Message) -> bool| {
            mine().filter(|(message, _)| is_it(message)).count() as u64
        };
        let mut measured = Measured::nothing(self.standing());
        for (message, _) in mine() {
            let Some(received) = message.received else {
                continue;
            };
            let since = |at: Duration| received.saturating_sub(at).as_nanos() as u64;
            // A histogram that grows takes every number.
            let _ = measured.response.record(since(message.intended));
            let sent = message.sent.unwrap_or(message.intended);
            let _ = measured.service.record(since(sent));
        }
        let lag = |message: &Message| {
            Some(message.sent?.saturating_sub(message.intended).as_secs_f64() * 1e6)
        };
        let mut lag: Vec<f64> = mine().filter_map(|(it, _)| lag(it)).collect();
        let (sent, delivered) = (
            count(&|it| it.sent.is_some()),
            count(&|it| it.received.is_some()),
        );
        let spent = self.at(from).zip(self.at(to));
        let over = |name: &str| count(&|it| it.published_over == name) as f64;
        let mut more = vec![
            ("published_over_mqtt", over("mqtt")),
            ("published_over_coap", over("coap")),
        ];
        more.extend(spent.into_iter().flat_map(|(before, after)| {
            let [one, other] = [before, after].map(|it| it.switches);
            [
                ("publisher_switches", (other.0 - one.0) as f64),
                ("subscriber_switches", (other.1 - one.1) as f64),
            ]
        }));
        measured.row = Row {
            intended: count(&|_| true),
            sent,
            expected: sent,
            delivered,
            lost: count(&|it| it.sent.is_some() && it.copies == 0),
            duplicates: mine()
                .map(|(it, _)| u64::from(it.copies.saturating_sub(1)))
                .sum(),
            reordered: mine().filter(|(_, is_overtaken)| **is_overtaken).count() as u64,
            late: count(&|it| it.received.is_some_and(|at| at >= to)),
            unacknowledged: count(&|it| it.outcome != "acknowledged"),
            seconds: self.step.as_secs_f64(),
            payload_bytes: delivered * group::payload(cell).map_or(0, u64::from),
            response: quantiles(&measured.response),
            service: quantiles(&measured.service),
            lag_p99_us: known(quantile(&mut lag, 0.99)),
            wire_bytes: spent.map(|(before, after)| after.bytes - before.bytes),
            wire_frames: spent.map(|(before, after)| after.frames - before.frames),
            link_lost: spent
                .map(|(before, after)| (after.lost - before.lost, after.came - before.came)),
            more: more
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            ..measured.row
        };
        measured.seconds = self.seconds(from, to);
        let is_last = self.at(to).is_none_or(|after| after.at >= self.end());
        let said = self.events.iter();
        let said = said.filter(|event| is_within(event.at) || (is_last && event.at >= to));
        measured.events = said
            .map(|event| {
                (
                    event.at.as_nanos() as u64,
                    format!("{}: {}", event.what, event.words),
                )
            })
            .collect();
        let version = format!("broker {}: {}", cell.system, self.version);
        measured.events.insert(0, (0, version));
        let lines = mine().map(|(message, _)| message.line()).collect();
        measured.messages = Messages { head: HEAD, lines };
        measured
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
    fn seconds(&self, from: Duration, to: Duration) -> Vec<Second> {
        let mut seconds = Vec::new();
        for pair in self.samples.windows(2) {
            let [before, after] = pair else { continue };
            if before.at < from || before.at >= to {
                continue;
            }
            let is_in =
                |at: &Option<Duration>| at.is_some_and(|at| at >= before.at && at < after.at);
            let received = self
                .messages
                .iter()
                .filter(|message| is_in(&message.received));
            let mut waits: Vec<f64> = received.filter_map(Message::response_us).collect();
            seconds.push(Second {
                sent: self.messages.iter().filter(|it| is_in(&it.sent)).count() as u64,
                received: waits.len() as u64,
                response_p50_us: known(quantile(&mut waits, 0.5)),
                response_p99_us: known(quantile(&mut waits, 0.99)),
                wire_bytes: after.bytes - before.bytes,
                ..Second::default()
            });
        }
        seconds
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

    /// Of each message, whether it came after a later one of its topic.
    fn overtaken(&self) -> Vec<bool> {
        let flows = self
            .messages
            .iter()
            .map(|message| message.flow as usize + 1);
        let mut least_after = vec![u64::MAX; flows.max().unwrap_or(0)];
        let mut overtaken = vec![false; self.messages.len()];
        for (message, is_overtaken) in self.messages.iter().zip(&mut overtaken).rev() {
            let (Some(rank), Some(least)) =
                (message.rank, least_after.get_mut(message.flow as usize))
            else {
                continue;
            };
            *is_overtaken = rank > *least;
            *least = rank.min(*least);
        }
        overtaken
    }
}

impl Message {
    /// From when it should have been published until it was received.
    fn response_us(&self) -> Option<f64> {
        Some(self.received?.saturating_sub(self.intended).as_secs_f64() * 1e6)
    }

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

/// A figure as files have it: nothing where there was nothing.
fn known(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
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
