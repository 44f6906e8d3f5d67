//! What happened in a course, and what follows from it.

use std::time::Duration;

use super::plan::Way;
use crate::net::Loss;
use crate::report::stat::{mean, quantile};

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
    pub protocol: String,
    /// What the client said of it at the end.
    pub outcome: String,
}

/// One look at everything, each second and at each change of loss.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    pub at: Duration,
    /// The loss from now on.
    pub loss: Loss,
    /// Bytes and frames sent so far by clients and broker, lost ones included.
    pub bytes: u64,
    pub frames: u64,
    /// Packets that came to the link and those lost on it.
    pub came: u64,
    pub lost: u64,
    pub publishes: String,
    /// The protocol that most of the subscriber's subscriptions are on.
    pub subscribes: String,
    /// Switches of the publisher and of the subscriber so far.
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
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Number of the course.
    pub number: usize,
    pub way: Way,
    /// Bytes of a message.
    pub payload: usize,
    /// One-way delay of the link.
    pub delay: Duration,
    pub repeat: u32,
    pub seed: u64,
    pub steps: Vec<Loss>,
    /// How long each lasted.
    pub step: Duration,
    /// Whether it came to its end, and with what if not.
    pub trouble: String,
    pub messages: Vec<Message>,
    pub samples: Vec<Sample>,
    pub events: Vec<Event>,
}

/// A step in numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepSum {
    pub published: usize,
    pub received: usize,
    /// Mean, median, 90 %, 99 % and greatest time from intended to received, ms.
    pub mean: f64,
    pub p50: f64,
    /// 90 %.
    pub p90: f64,
    /// 99 %.
    pub p99: f64,
    pub max: f64,
    /// Bytes on the wire in the step for each message published in it.
    pub bytes: f64,
    pub frames: f64,
    /// Part of all packets that was lost.
    pub loss: f64,
    /// Switches of the publisher and of the subscriber in the step.
    pub switches: (u64, u64),
    /// Messages by protocol of the publisher's lane.
    pub protocols: Vec<(String, usize)>,
}

impl Trial {
    /// Messages of a step.
    pub fn of_step(&self, step: usize) -> impl Iterator<Item = &Message> {
        let (from, to) = self.bounds(step);
        self.messages
            .iter()
            .filter(move |message| message.intended >= from && message.intended < to)
    }

    fn bounds(&self, step: usize) -> (Duration, Duration) {
        (self.step * step as u32, self.step * (step as u32 + 1))
    }

    /// The sample at the beginning of a step, or at its end if that is the last.
    fn sample_at(&self, at: Duration) -> Option<&Sample> {
        self.samples.iter().find(|sample| sample.at >= at)
    }

    /// A step in numbers.
    pub fn sum(&self, step: usize) -> StepSum {
        let mut waits: Vec<f64> = self
            .of_step(step)
            .filter_map(Message::response_ms)
            .collect();
        let published = self.of_step(step).count();
        let mut protocols: Vec<(String, usize)> = Vec::new();
        for message in self.of_step(step) {
            match protocols
                .iter_mut()
                .find(|(name, _)| *name == message.protocol)
            {
                Some((_, count)) => *count += 1,
                None => protocols.push((message.protocol.clone(), 1)),
            }
        }
        let (from, to) = self.bounds(step);
        let (before, after) = match (self.sample_at(from), self.sample_at(to)) {
            (Some(before), Some(after)) => (before.clone(), after.clone()),
            _ => Default::default(),
        };
        let per_message = |count: u64| count as f64 / published as f64;
        let (came, lost) = (
            after.came.saturating_sub(before.came),
            after.lost.saturating_sub(before.lost),
        );
        StepSum {
            published,
            received: waits.len(),
            mean: mean(waits.iter().copied()),
            p50: quantile(&mut waits, 0.5),
            p90: quantile(&mut waits, 0.9),
            p99: quantile(&mut waits, 0.99),
            max: quantile(&mut waits, 1.0),
            bytes: per_message(after.bytes.saturating_sub(before.bytes)),
            frames: per_message(after.frames.saturating_sub(before.frames)),
            loss: lost as f64 / came as f64,
            switches: (
                after.switches.0.saturating_sub(before.switches.0),
                after.switches.1.saturating_sub(before.switches.1),
            ),
            protocols,
        }
    }

    /// Messages that were not received.
    pub fn lost(&self) -> usize {
        self.messages
            .iter()
            .filter(|message| message.copies == 0)
            .count()
    }

    /// Copies beyond the first.
    pub fn duplicates(&self) -> u32 {
        self.messages
            .iter()
            .map(|message| message.copies.saturating_sub(1))
            .sum()
    }

    /// Messages that came after a later one of their topic.
    pub fn out_of_order(&self) -> usize {
        let flows = self
            .messages
            .iter()
            .map(|message| message.flow as usize + 1)
            .max()
            .unwrap_or(0);
        let mut least_after = vec![u64::MAX; flows];
        let mut count = 0;
        for message in self.messages.iter().rev() {
            let (Some(rank), Some(least)) =
                (message.rank, least_after.get_mut(message.flow as usize))
            else {
                continue;
            };
            if rank > *least {
                count += 1;
            }
            *least = rank.min(*least);
        }
        count
    }

    /// Messages of which the client did not say at the end that they were acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.messages
            .iter()
            .filter(|message| message.outcome != "acknowledged")
            .count()
    }

    /// Messages given to the client later than a tenth of their period, or 1 ms if that is more.
    pub fn late(&self, period: Duration) -> usize {
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
    /// From when it should have been published until it was received.
    pub fn response_ms(&self) -> Option<f64> {
        Some(self.received?.saturating_sub(self.intended).as_secs_f64() * 1e3)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Two steps of ten messages on two topics; each is received after so many milliseconds.
    pub(crate) fn trial(way: Way, millis: u64, bytes: u64) -> Trial {
        let message = |sequence: u64| {
            let intended = Duration::from_millis(sequence * 100 + 50);
            Message {
                flow: (sequence % 2) as u32,
                intended,
                sent: Some(intended),
                received: Some(intended + Duration::from_millis(millis)),
                rank: Some(sequence),
                copies: 1,
                protocol: "mqtt".to_owned(),
                outcome: "acknowledged".to_owned(),
            }
        };
        let sample = |second: u64| Sample {
            at: Duration::from_secs(second),
            loss: Loss::percent(if second == 0 { 0.0 } else { 20.0 }),
            bytes: second * bytes * 10,
            frames: second * 20,
            came: second * 20,
            lost: second * 2,
            publishes: "mqtt".to_owned(),
            subscribes: "mqtt".to_owned(),
            switches: (second, 0),
        };
        Trial {
            number: 0,
            way,
            payload: 60,
            delay: Duration::ZERO,
            repeat: 0,
            seed: 1,
            steps: vec![Loss::NONE, Loss::percent(20.0)],
            step: Duration::from_secs(1),
            trouble: String::new(),
            messages: (0..20).map(message).collect(),
            samples: (0..3).map(sample).collect(),
            events: vec![Event {
                at: Duration::from_secs(1),
                what: "explain-publisher".to_owned(),
                words: "because, \"so\"\nit is".to_owned(),
            }],
        }
    }

    #[test]
    fn a_step_has_its_own_messages_and_bytes() {
        let mut trial = trial(Way::Mqtt, 5, 554);
        trial.messages[15].received = None;
        trial.messages[15].copies = 0;
        let (first, second) = (trial.sum(0), trial.sum(1));
        assert_eq!(
            (first.published, first.received, second.received),
            (10, 10, 9)
        );
        assert!(
            (first.mean - 5.0).abs() < 1e-9 && (first.bytes - 554.0).abs() < 1e-9,
            "{first:?}"
        );
        assert!((first.loss - 0.1).abs() < 1e-9);
        assert_eq!(first.switches, (1, 0));
        assert_eq!(first.protocols, [("mqtt".to_owned(), 10)]);
        assert_eq!(trial.lost(), 1);
    }

    #[test]
    fn duplicates_gaps_and_reordering_are_counted_exactly() {
        let mut trial = trial(Way::Coap, 5, 334);
        assert_eq!(
            (trial.lost(), trial.duplicates(), trial.out_of_order()),
            (0, 0, 0)
        );
        trial.messages[3].copies = 3;
        // 4 and 6 are of one topic and change places; 7 is of the other and is not concerned.
        trial.messages[4].rank = Some(6);
        trial.messages[6].rank = Some(4);
        trial.messages[9].copies = 0;
        trial.messages[9].rank = None;
        assert_eq!(
            (trial.lost(), trial.duplicates(), trial.out_of_order()),
            (1, 2, 1)
        );
    }
}
