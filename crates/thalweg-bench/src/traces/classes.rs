//! Models of sources. Figures are those that study A states, or follow from them; where there is none,
//! the constant says that it is ours.

use clap::ValueEnum;

use super::quantiles::Quantiles;
use super::trace::{BIN_S, Bin, Body, Message, Trace};
use crate::cell::word;
use crate::sim::random::Random;

/// A class of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Class {
    /// Weather sensors behind a gateway: four channels at 1 Hz, sent when one has moved far enough; 36 B
    Simple,
    /// Cars of two companies: a report a minute while they are free; 214 B and 1.24 kB
    Complex,
    /// Traffic cameras: an image each 30 s, none if nothing has changed; 60 kB
    Multimedia,
    /// The same size at a constant pace
    Periodic,
    /// Many at once, then nothing
    Burst,
    /// Blocks of ten JSON messages, pauses between them (study D)
    Json,
}

/// What a trace is to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Order {
    pub class: Class,
    /// What is drawn from.
    pub seed: u64,
    /// In hours, from midnight.
    pub hours: f64,
    /// Publishers; of bins, how many are simulated to see what one does.
    pub sources: u32,
    /// Sensors of a gateway, cars of a publisher, cameras of one.
    pub members: u32,
    /// Distributions instead of messages.
    pub is_binned: bool,
    /// Messages a second of a source: periodic, burst.
    pub rate: f64,
    /// Bytes of a message: periodic, burst, json.
    pub bytes: u32,
    /// Messages of a burst.
    pub burst: u32,
}

impl Order {
    /// The study's own figures; of the plain classes, one source with a message of 100 B a second.
    pub fn of(class: Class, seed: u64) -> Order {
        let (sources, members) = match class {
            Class::Simple => (1, 1000),
            Class::Complex => (2, 16_000),
            Class::Multimedia => (34, 1),
            Class::Periodic | Class::Burst | Class::Json => (1, 1),
        };
        let is_binned = matches!(class, Class::Simple | Class::Complex);
        let bytes = if class == Class::Json { 1000 } else { 100 };
        Order {
            class,
            seed,
            hours: 24.0,
            sources,
            members,
            is_binned,
            rate: 1.0,
            bytes,
            burst: 10,
        }
    }
}

/// Makes a trace; equal orders give equal traces.
pub fn generate(order: &Order) -> Result<Trace, String> {
    if !(order.hours > 0.0 && order.hours <= 24.0 * 14.0) {
        return Err("hours: more than 0, up to 336".to_owned());
    }
    let expected = expected(order);
    if !order.is_binned && expected > MESSAGES_MAX {
        return Err(format!(
            "about {expected:.0} messages: more than {MESSAGES_MAX:.0}; take --form bins, fewer sources or hours"
        ));
    }
    let body = match order.is_binned {
        true => Body::Bins(bins(order)),
        false => Body::Messages(messages(order)),
    };
    let about = [
        ("class", word(order.class)),
        ("seed", order.seed.to_string()),
        ("hours", order.hours.to_string()),
        ("sources", order.sources.to_string()),
        ("members", order.members.to_string()),
    ];
    let about = about.map(|(key, value)| (key.to_owned(), value)).to_vec();
    match &body {
        Body::Messages(messages) if messages.is_empty() => {
            Err("no message in that time".to_owned())
        }
        _ => Ok(Trace { about, body }),
    }
}

/// Messages that a trace has, about.
fn expected(order: &Order) -> f64 {
    let each = match order.class {
        Class::Simple => 0.6 * f64::from(order.members),
        Class::Complex => f64::from(order.members) / 60.0,
        Class::Multimedia => f64::from(order.members) / 30.0,
        Class::Periodic | Class::Burst => order.rate,
        Class::Json => 3.0,
    };
    each * f64::from(order.sources) * order.hours * 3600.0
}

/// What one source of each kind does in each quarter of an hour, as seen in a simulation of some of its members.
fn bins(order: &Order) -> Vec<Vec<Bin>> {
    let count = (order.hours * 3600.0 / BIN_S as f64).ceil() as u64;
    let most = match order.class {
        Class::Complex => CARS_SEEN,
        _ => MEMBERS_SEEN,
    };
    let members = order.members.clamp(1, most);
    let share = f64::from(order.members) / f64::from(members);
    let kinds = if order.class == Class::Complex { 2 } else { 1 };
    let mut sources: Vec<Source<'_>> = (0..kinds)
        .map(|kind| Source::new(order, kind, members))
        .collect();
    let mut bins = Vec::new();
    for number in 0..count {
        let to = (number + 1) * BIN_S * SECOND_US;
        let seen = |source: &mut Source<'_>| {
            let mut all = source.run(to);
            all.sort_unstable_by_key(|(at, _)| *at);
            let gaps = all.windows(2).map(|pair| (pair[1].0 - pair[0].0) as f64);
            let mut gaps: Vec<f64> = gaps.collect();
            let mut sizes: Vec<f64> = all.iter().map(|(_, bytes)| f64::from(*bytes)).collect();
            Some(Bin {
                rate: all.len() as f64 / BIN_S as f64 * share,
                gaps: Quantiles::of(&mut gaps)?.scaled()?,
                sizes: Quantiles::of(&mut sizes)?,
            })
        };
        let kinds: Option<Vec<Bin>> = sources.iter_mut().map(seen).collect();
        // Fewer than three messages in a quarter of an hour: as in the one before.
        bins.extend(kinds.or_else(|| bins.last().cloned()));
    }
    bins
}

fn messages(order: &Order) -> Vec<Message> {
    let end = (order.hours * 3600.0 * SECOND_US as f64) as u64;
    let mut messages = Vec::new();
    for source in 0..order.sources {
        let all = Source::new(order, source, order.members.max(1)).run(end);
        messages.extend(all.into_iter().map(|(at_us, bytes)| Message {
            at_us,
            source,
            bytes,
        }));
    }
    messages.sort_unstable_by_key(|message| (message.at_us, message.source, message.bytes));
    messages
}

/// A publisher, and what it speaks for: the sensors of a gateway, the cars of a company, cameras; or itself.
struct Source<'a> {
    order: &'a Order,
    company: u32,
    random: Random,
    members: Vec<Member>,
}

struct Member {
    next_us: u64,
    /// Messages since it began.
    sent: u32,
    node: Node,
}

impl Source<'_> {
    fn new(order: &Order, number: u32, members: u32) -> Source<'_> {
        let class = order.class;
        let mut random = Random::new(order.seed ^ (u64::from(number) << 32) ^ class as u64);
        let (count, every_us) = match class {
            Class::Simple => (members, SECOND_US),
            Class::Complex => (members, 60 * SECOND_US),
            Class::Multimedia => (members, 30 * SECOND_US),
            _ if order.rate > 0.0 => (1, (SECOND_US as f64 / order.rate) as u64),
            _ => (1, SECOND_US),
        };
        let member = |_| Member {
            next_us: match class {
                Class::Burst => 0,
                _ => (random.unit() * every_us as f64) as u64,
            },
            sent: 0,
            node: Node::new(if class == Class::Simple {
                random.draw()
            } else {
                0
            }),
        };
        let members = (0..count).map(member).collect();
        Source {
            order,
            company: number % 2,
            random,
            members,
        }
    }

    /// Goes on to a time and tells times and sizes, of each member in order.
    fn run(&mut self, to: u64) -> Vec<(u64, u32)> {
        let random = &mut self.random;
        let mut told = Vec::new();
        for member in &mut self.members {
            while member.next_us < to {
                let hour = (member.next_us as f64 / 3.6e9) % 24.0;
                let (bytes, gap_us) = match self.order.class {
                    Class::Simple => (member.node.step(hour).then_some(SIMPLE_BYTES), SECOND_US),
                    Class::Complex => {
                        let is_free = random.unit() < availability(hour);
                        let bytes = is_free.then(|| report_bytes(self.company, random));
                        (bytes, 60 * SECOND_US)
                    }
                    Class::Multimedia => {
                        let is_new = random.unit() >= DUPLICATES;
                        let bytes = is_new.then(|| image_bytes(hour, random));
                        let jitter = (random.unit() * 2.0 - 1.0) * IMAGE_JITTER_S;
                        let gap = (IMAGE_EVERY_S + jitter) * SECOND_US as f64;
                        (bytes, gap as u64)
                    }
                    _ => {
                        member.sent += 1;
                        (
                            Some(self.order.bytes),
                            plain_gap(self.order, member.sent, random),
                        )
                    }
                };
                told.extend(bytes.map(|bytes| (member.next_us, bytes)));
                member.next_us += gap_us;
            }
        }
        told
    }
}

/// After so many messages of a plain source.
fn plain_gap(order: &Order, sent: u32, random: &mut Random) -> u64 {
    let every = SECOND_US as f64 / order.rate.max(1e-6);
    let burst = order.burst.max(1);
    match order.class {
        // A burst is at once; the next one comes when the rate allows.
        Class::Burst if sent.is_multiple_of(burst) => (every * f64::from(burst)) as u64,
        Class::Burst => 0,
        Class::Json if sent.is_multiple_of(BLOCK) => {
            INTERVAL_US + ((0.001 + random.unit() * 0.999) * SECOND_US as f64) as u64
        }
        Class::Json => INTERVAL_US,
        _ => every.max(1.0) as u64,
    }
}

/// A node of four channels: temperature, humidity and two of light, in units of their thresholds.
struct Node {
    random: Random,
    noise: [f64; 4],
    sent: [f64; 4],
}

impl Node {
    fn new(seed: u64) -> Node {
        Node {
            random: Random::new(seed),
            noise: [0.0; 4],
            sent: [0.0; 4],
        }
    }

    /// A second passes. Whether some channel has moved so far that it sends; a message has all four.
    fn step(&mut self, hour: f64) -> bool {
        let light = daylight(hour);
        let mut now = [0.0; 4];
        for (channel, noise) in self.noise.iter_mut().enumerate() {
            // Ornstein-Uhlenbeck in steps of a second; clouds move light, and there is none at night.
            let (step, swing) = match channel {
                0 | 1 => (CLIMATE_STEP, CLIMATE_SWING),
                _ => (LIGHT_STEP * light, LIGHT_SWING),
            };
            *noise = *noise * PULL + step * self.random.normal();
            now[channel] = *noise + swing * light;
        }
        let mut channels = now.iter().zip(&self.sent);
        let is_far = channels.any(|(now, sent)| (now - sent).abs() > 1.0);
        if is_far {
            self.sent = now;
        }
        is_far
    }
}

fn image_bytes(hour: f64, random: &mut Random) -> u32 {
    // The mean of a log-normal is exp(μ + σ²/2).
    let spread = IMAGE_SIGMA * random.normal() - IMAGE_SIGMA * IMAGE_SIGMA / 2.0;
    (IMAGE_BYTES * image_factor(hour) * spread.exp()).round() as u32
}

fn report_bytes(company: u32, random: &mut Random) -> u32 {
    let (mean, spread) = [(214.0, 12.0), (1240.0, 60.0)][company as usize];
    let bytes: f64 = mean + spread * random.normal();
    bytes.round().clamp(mean * 0.5, mean * 1.5) as u32
}

/// How much light there is: 0 from 20 to 5 h, 1 about noon.
fn daylight(hour: f64) -> f64 {
    (std::f64::consts::PI * (hour - 5.0) / 15.0).sin().max(0.0)
        * f64::from(u8::from((5.0..20.0).contains(&hour)))
}

/// Part of the cars that are free: 1 at night, 0.75 at 9 h, 0.65 from 17 to 20 h.
fn availability(hour: f64) -> f64 {
    let morning = 0.25 * (-(hour - 9.0).powi(2) / 2.0).exp();
    let edge = |at: f64| 1.0 / (1.0 + (-(hour - at) / 0.3).exp());
    let evening = 0.35 * edge(16.2) * (1.0 - edge(20.8));
    1.0 - morning - evening
}

/// Size of an image beside its mean: 0.6 at night, 1.25 at noon.
fn image_factor(hour: f64) -> f64 {
    0.6 + 0.65 * daylight(hour)
}

const SECOND_US: u64 = 1_000_000;
/// Two numbers of 16 and 32 bits, a class, flags, a time, four floats.
const SIMPLE_BYTES: u32 = 36;
/// Noise of a second in thresholds: tuned so that a node sends 0.87 messages a second at noon and 40 % of it at night.
const CLIMATE_STEP: f64 = 0.647;
const LIGHT_STEP: f64 = 1.78;
/// What the day adds, in thresholds (ours: slow beside the noise).
const CLIMATE_SWING: f64 = 40.0;
const LIGHT_SWING: f64 = 400.0;
/// What is left of noise after a second.
const PULL: f64 = 0.999;
/// Mean image, bytes (X), its spread, its pace and how exactly (ours), and images that were no new ones.
const IMAGE_BYTES: f64 = 60_000.0;
const IMAGE_SIGMA: f64 = 0.35;
const IMAGE_EVERY_S: f64 = 30.0;
const IMAGE_JITTER_S: f64 = 2.0;
const DUPLICATES: f64 = 0.07;
/// Study D: blocks of ten, 250 ms between messages, a pause of 1 ms to 1 s between blocks.
const BLOCK: u32 = 10;
const INTERVAL_US: u64 = 250_000;
/// Members that are simulated to see what a source does.
const MEMBERS_SEEN: u32 = 20;
const CARS_SEEN: u32 = 500;
/// Some 300 MB of text.
const MESSAGES_MAX: f64 = 2e7;
