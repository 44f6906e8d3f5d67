//! Models of sources. Figures are those that study A states, or follow from them; where there is none,
//! the constant says that it is ours.

use clap::ValueEnum;

use super::quantiles::Quantiles;
use super::trace::{BIN_S, Bin, Body, Message, Trace};
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

    fn kinds(&self) -> u32 {
        if self.class == Class::Complex { 2 } else { 1 }
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
    let class = order
        .class
        .to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned());
    let about = [
        ("class", class),
        ("seed", order.seed.to_string()),
        ("hours", order.hours.to_string()),
        ("sources", order.sources.to_string()),
        ("members", order.members.to_string()),
    ];
    let about: Vec<(String, String)> = about
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
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
    let most = if order.class == Class::Complex {
        CARS_SEEN
    } else {
        MEMBERS_SEEN
    };
    let members = order.members.clamp(1, most);
    let mut sources: Vec<Source> = (0..order.kinds())
        .map(|kind| Source::new(order, kind, members))
        .collect();
    let mut bins = Vec::new();
    for number in 0..count {
        let to = (number + 1) * BIN_S * SECOND_US;
        let seen = |source: &mut Source| {
            let mut all = Vec::new();
            source.run(to, &mut all);
            all.sort_unstable_by_key(|(at, _)| *at);
            let mut gaps: Vec<f64> = all
                .windows(2)
                .map(|pair| {
                    if let [(a, _), (b, _)] = pair {
                        (b - a) as f64
                    } else {
                        0.0
                    }
                })
                .collect();
            let mut sizes: Vec<f64> = all.iter().map(|(_, bytes)| f64::from(*bytes)).collect();
            let bin = Quantiles::of(&mut gaps)
                .and_then(|gaps| gaps.scaled())
                .zip(Quantiles::of(&mut sizes));
            let share = f64::from(order.members) / f64::from(members);
            bin.map(|(gaps, sizes)| Bin {
                rate: all.len() as f64 / BIN_S as f64 * share,
                gaps,
                sizes,
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
    for number in 0..order.sources {
        let mut source = Source::new(order, number, order.members.max(1));
        let mut all = Vec::new();
        source.run(end, &mut all);
        messages.extend(all.into_iter().map(|(at_us, bytes)| Message {
            at_us,
            source: number,
            bytes,
        }));
    }
    messages.sort_unstable_by_key(|message| (message.at_us, message.source, message.bytes));
    messages
}

enum Source {
    Gateway(Vec<Node>),
    Fleet {
        cars: Vec<Car>,
        company: u32,
        random: Random,
    },
    Cameras {
        next_us: Vec<u64>,
        random: Random,
    },
    Plain {
        class: Class,
        rate: f64,
        bytes: u32,
        burst: u32,
        next_us: u64,
        sent: u32,
        random: Random,
    },
}

impl Source {
    fn new(order: &Order, number: u32, members: u32) -> Source {
        let mut random = Random::new(order.seed ^ (u64::from(number) << 32) ^ order.class as u64);
        match order.class {
            Class::Simple => Source::Gateway(
                (0..members)
                    .map(|_| Node::new(phase(&mut random, SECOND_US), random.draw()))
                    .collect(),
            ),
            Class::Complex => {
                let cars = (0..members)
                    .map(|_| Car {
                        next_us: phase(&mut random, 60 * SECOND_US),
                    })
                    .collect();
                Source::Fleet {
                    cars,
                    company: number % 2,
                    random,
                }
            }
            Class::Multimedia => {
                let next_us = (0..members)
                    .map(|_| phase(&mut random, 30 * SECOND_US))
                    .collect();
                Source::Cameras { next_us, random }
            }
            class => {
                let every = if order.rate > 0.0 {
                    SECOND_US as f64 / order.rate
                } else {
                    SECOND_US as f64
                };
                let next_us = if class == Class::Burst {
                    0
                } else {
                    phase(&mut random, every as u64)
                };
                let Order {
                    rate, bytes, burst, ..
                } = *order;
                Source::Plain {
                    class,
                    rate,
                    bytes,
                    burst: burst.max(1),
                    next_us,
                    sent: 0,
                    random,
                }
            }
        }
    }

    /// Goes on to a time and tells times and sizes, of each member in order.
    fn run(&mut self, to: u64, out: &mut Vec<(u64, u32)>) {
        match self {
            Source::Gateway(nodes) => nodes.iter_mut().for_each(|node| node.run(to, out)),
            Source::Fleet {
                cars,
                company,
                random,
            } => {
                for car in cars {
                    while car.next_us < to {
                        if random.unit() < availability(hour_of(car.next_us)) {
                            out.push((car.next_us, report_bytes(*company, random)));
                        }
                        car.next_us += 60 * SECOND_US;
                    }
                }
            }
            Source::Cameras { next_us, random } => {
                for next in next_us {
                    while *next < to {
                        if random.unit() >= DUPLICATES {
                            let mean = IMAGE_BYTES * image_factor(hour_of(*next));
                            // The mean of a log-normal is exp(μ + σ²/2).
                            let spread =
                                IMAGE_SIGMA * random.normal() - IMAGE_SIGMA * IMAGE_SIGMA / 2.0;
                            out.push((*next, (mean * spread.exp()).round() as u32));
                        }
                        let jitter = (random.unit() * 2.0 - 1.0) * IMAGE_JITTER_S;
                        *next += ((IMAGE_EVERY_S + jitter) * SECOND_US as f64) as u64;
                    }
                }
            }
            Source::Plain {
                class,
                rate,
                bytes,
                burst,
                next_us,
                sent,
                random,
            } => {
                while *next_us < to {
                    out.push((*next_us, *bytes));
                    *sent += 1;
                    let every = SECOND_US as f64 / rate.max(1e-6);
                    let is_last = *sent % if *class == Class::Json { BLOCK } else { *burst } == 0;
                    *next_us += match class {
                        // A burst is at once; the next one comes when the rate allows.
                        Class::Burst if is_last => (every * f64::from(*burst)) as u64,
                        Class::Burst => 0,
                        Class::Json if is_last => {
                            INTERVAL_US
                                + ((0.001 + random.unit() * 0.999) * SECOND_US as f64) as u64
                        }
                        Class::Json => INTERVAL_US,
                        _ => every.max(1.0) as u64,
                    };
                }
            }
        }
    }
}

/// A node of four channels: temperature, humidity and two of light, in units of their thresholds.
struct Node {
    next_us: u64,
    random: Random,
    noise: [f64; 4],
    sent: [f64; 4],
}

impl Node {
    fn new(next_us: u64, seed: u64) -> Node {
        Node {
            next_us,
            random: Random::new(seed),
            noise: [0.0; 4],
            sent: [0.0; 4],
        }
    }

    fn run(&mut self, to: u64, out: &mut Vec<(u64, u32)>) {
        while self.next_us < to {
            let hour = hour_of(self.next_us);
            let light = daylight(hour);
            let mut is_far = false;
            for (channel, (noise, sent)) in self.noise.iter_mut().zip(&self.sent).enumerate() {
                // Ornstein-Uhlenbeck in steps of a second; clouds move light, and there is none at night.
                let (step, swing) = if channel < 2 {
                    (CLIMATE_STEP, CLIMATE_SWING)
                } else {
                    (LIGHT_STEP * light, LIGHT_SWING)
                };
                *noise = *noise * PULL + step * self.random.normal();
                is_far |= (*noise + swing * light - sent).abs() > 1.0;
            }
            if is_far {
                // A message has all four channels.
                for (channel, (noise, sent)) in self.noise.iter().zip(&mut self.sent).enumerate() {
                    *sent = noise
                        + if channel < 2 {
                            CLIMATE_SWING
                        } else {
                            LIGHT_SWING
                        } * light;
                }
                out.push((self.next_us, SIMPLE_BYTES));
            }
            self.next_us += SECOND_US;
        }
    }
}

struct Car {
    next_us: u64,
}

fn report_bytes(company: u32, random: &mut Random) -> u32 {
    let (mean, spread) = if company == 0 {
        (214.0, 12.0)
    } else {
        (1240.0, 60.0)
    };
    (mean + spread * random.normal())
        .round()
        .clamp(mean * 0.5, mean * 1.5) as u32
}

/// How much light there is: 0 from 20 to 5 h, 1 about noon.
pub fn daylight(hour: f64) -> f64 {
    (std::f64::consts::PI * (hour - 5.0) / 15.0).sin().max(0.0)
        * f64::from(u8::from((5.0..20.0).contains(&hour)))
}

/// Part of the cars that are free: 1 at night, 0.75 at 9 h, 0.65 from 17 to 20 h.
pub fn availability(hour: f64) -> f64 {
    let morning = 0.25 * (-(hour - 9.0).powi(2) / 2.0).exp();
    let edge = |at: f64| 1.0 / (1.0 + (-(hour - at) / 0.3).exp());
    let evening = 0.35 * edge(16.2) * (1.0 - edge(20.8));
    1.0 - morning - evening
}

/// Size of an image beside its mean: 0.6 at night, 1.25 at noon.
pub fn image_factor(hour: f64) -> f64 {
    0.6 + 0.65 * daylight(hour)
}

/// Some time before `every_us`.
fn phase(random: &mut Random, every_us: u64) -> u64 {
    (random.unit() * every_us as f64) as u64
}

fn hour_of(at_us: u64) -> f64 {
    (at_us as f64 / 3.6e9) % 24.0
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
