//! What is run: ways to choose a protocol, steps of loss, and courses made of them.

use std::time::Duration;

use clap::ValueEnum;

use crate::net::Loss;
use crate::sim::random::Random;

/// How messages find their protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// MQTT 5 over TCP, all along.
    Mqtt,
    /// CoAP over UDP, confirmable, all along.
    Coap,
    Adaptive(Goal),
}

impl Way {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Way::Mqtt => "mqtt",
            Way::Coap => "coap",
            Way::Adaptive(Goal::Latency) => "adaptive-latency",
            Way::Adaptive(Goal::Bytes) => "adaptive-bytes",
        }
    }

    /// The way of that name.
    pub fn named(name: &str) -> Option<Way> {
        [
            Way::Mqtt,
            Way::Coap,
            Way::Adaptive(Goal::Latency),
            Way::Adaptive(Goal::Bytes),
        ]
        .into_iter()
        .find(|way| way.name() == name)
    }
}

/// What is to be small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Goal {
    /// Bytes on the wire per message
    Bytes,
    /// Time from the intended publish to the subscriber's having it
    Latency,
}

impl Goal {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Goal::Bytes => "bytes",
            Goal::Latency => "latency",
        }
    }
}

/// A run of one way through all steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    /// Its number in the run.
    pub number: usize,
    /// How messages find their protocol.
    pub way: Way,
    /// Bytes of a message.
    pub payload: usize,
    /// One-way delay of the link.
    pub delay: Duration,
    /// From 0.
    pub repeat: u32,
    /// What the emulator and the client draw from. All ways of a repeat have the same.
    pub seed: u64,
    /// Losses, one after the other.
    pub steps: Vec<Loss>,
    /// How long each lasts.
    pub step: Duration,
    /// Messages a second, over all topics.
    pub rate: f64,
    /// Topics; message n goes to topic n modulo this.
    pub flows: u32,
    /// Publisher and subscriber are one client instead of two.
    pub one_client: bool,
}

impl Course {
    /// Messages that will be published.
    pub fn messages(&self) -> usize {
        (self.step.as_secs_f64() * self.steps.len() as f64 * self.rate).round() as usize
    }

    /// When a message is to be published, since the beginning.
    pub fn intended(&self, sequence: usize) -> Duration {
        // In the middle of its slot, so that no message falls on the moment at which the loss changes.
        Duration::from_secs_f64((sequence as f64 + 0.5) / self.rate)
    }

    /// The topic of a message.
    pub fn topic(&self, sequence: usize) -> String {
        topic(sequence as u32 % self.flows.max(1))
    }

    /// What it is, in a line of progress.
    pub fn words(&self) -> String {
        format!(
            "{} {} B {} ms #{}",
            self.way.name(),
            self.payload,
            self.delay.as_millis(),
            self.repeat
        )
    }
}

/// The topic of a flow.
pub fn topic(flow: u32) -> String {
    format!("e2/{flow:02}")
}

/// What a run is made of.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// Objectives of adaptive clients.
    pub goals: Vec<Goal>,
    /// Sizes of messages in bytes.
    pub payloads: Vec<usize>,
    pub delays: Vec<Duration>,
    /// Losses of the steps.
    pub steps: Vec<Loss>,
    /// How long each lasts.
    pub step: Duration,
    pub rate: f64,
    pub flows: u32,
    pub repeats: u32,
    /// Everything is drawn from this.
    pub seed: u64,
    /// One client in each course.
    pub one_client: bool,
}

/// All courses, in an order drawn from the seed within each repeat.
pub fn courses(wishes: &Wishes) -> Vec<Course> {
    let mut random = Random::new(wishes.seed);
    let mut ways = vec![Way::Mqtt, Way::Coap];
    ways.extend(wishes.goals.iter().map(|goal| Way::Adaptive(*goal)));
    let mut all = Vec::new();
    for repeat in 0..wishes.repeats {
        let seed = random.draw() >> 12;
        let mut some = Vec::new();
        for (&payload, &delay) in wishes
            .payloads
            .iter()
            .flat_map(|size| wishes.delays.iter().map(move |it| (size, it)))
        {
            for &way in &ways {
                some.push(Course {
                    number: 0,
                    way,
                    payload,
                    delay,
                    repeat,
                    seed,
                    steps: wishes.steps.clone(),
                    step: wishes.step,
                    rate: wishes.rate,
                    flows: wishes.flows,
                    one_client: wishes.one_client,
                });
            }
        }
        // Fisher and Yates.
        for at in (1..some.len()).rev() {
            some.swap(at, (random.draw() % (at as u64 + 1)) as usize);
        }
        all.extend(some);
    }
    for (number, course) in all.iter_mut().enumerate() {
        course.number = number;
    }
    all
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn wishes() -> Wishes {
        Wishes {
            goals: vec![Goal::Bytes, Goal::Latency],
            payloads: vec![60, 600],
            delays: vec![Duration::ZERO, Duration::from_millis(50)],
            steps: [0.0, 20.0].map(Loss::percent).to_vec(),
            step: Duration::from_secs(10),
            rate: 5.0,
            flows: 10,
            repeats: 2,
            seed: 1,
            one_client: false,
        }
    }

    #[test]
    fn every_way_meets_every_condition_in_every_repeat() {
        let all = courses(&wishes());
        assert_eq!(all.len(), 4 * 2 * 2 * 2);
        for (number, course) in all.iter().enumerate() {
            assert_eq!(course.number, number);
            assert_eq!(Way::named(course.way.name()), Some(course.way));
            let same = all
                .iter()
                .filter(|other| other.repeat == course.repeat)
                .all(|other| other.seed == course.seed);
            assert!(same, "all ways of a repeat draw from one seed");
        }
        assert_eq!(all, courses(&wishes()), "the same seed is the same plan");
    }

    #[test]
    fn no_message_falls_on_a_change_of_loss() {
        let course = courses(&wishes()).remove(0);
        assert_eq!(course.messages(), 100);
        assert_eq!(course.intended(49), Duration::from_millis(9900));
        assert_eq!(course.intended(50), Duration::from_millis(10_100));
        assert_eq!(course.topic(13), "e2/03");
    }
}
