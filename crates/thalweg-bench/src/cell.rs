//! A cell: everything that is needed to measure one point once; and a row: what came of it.
//!
//! Scenarios and suites make cells, [`crate::trial`] measures them, [`crate::results`] keeps rows. A cell has no defaults left
//! to guess: it says all that had an influence, and two equal cells are the same measurement (only `repeat` and `seed`
//! differ between repeats).

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use thalweg_stats::histograms;

use crate::load::schedule::Arrivals;

/// Everything that is needed to measure one point once. All times are in nanoseconds, all sizes in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// What it belongs to: `E1a`, or the name of a scenario.
    pub experiment: String,
    /// What varies between cells of the experiment, as printed: name of the axis, value. Not `repeat`.
    pub axes: BTreeMap<String, String>,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// What everything random is drawn from.
    pub seed: u64,
    /// Which broker: a name of [`crate::brokers::System`], or `HOST:PORT` of one that runs.
    pub system: String,
    /// Keys of the broker's own configuration, added to the fair ones.
    pub broker_settings: BTreeMap<String, String>,
    /// Cores for broker and for this process; none leaves it to the system.
    pub cpus: (Option<usize>, Option<usize>),
    pub driver: Driver,
    /// How it is published.
    pub publish: Leg,
    /// How it is received.
    pub subscribe: Leg,
    /// Loss, delay and rate between client and broker.
    pub link: Link,
    pub workload: Workload,
    /// When it is sent.
    pub load: Load,
    /// How long each part takes.
    pub phases: Phases,
    /// Subscribers of each topic.
    pub fan_out: u32,
    /// What counts the broker's system calls, if they are to be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<CallCounter>,
    /// What there is beside the messages.
    #[serde(default, skip_serializing_if = "Extras::is_empty")]
    pub extras: Extras,
}

/// What a trial has beside its messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Extras {
    /// Connections of MQTT that are opened all at once before the others, and stay without a word.
    pub idle: u32,
    /// User name of all clients. The password is in the environment ([`crate::drivers::PASSWORD`]): a folder of results is
    /// published, and has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What carries the bytes of both legs; none is plain TCP, or UDP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carrier: Option<Carrier>,
    /// PEM file of the authorities that a broker of others is checked against; none is the system's. Ours makes its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// The subscribers of a topic share its messages: each goes to one of them.
    #[serde(skip_serializing_if = "is_false")]
    pub shared: bool,
    /// Each subscriber has one subscription with a wildcard in place of one for each topic.
    #[serde(skip_serializing_if = "is_false")]
    pub wildcard: bool,
    /// Retained messages that are stored before the load, and fetched by one subscriber.
    #[serde(skip_serializing_if = "is_zero")]
    pub retained: u32,
    /// Messages that wait for a subscriber that is away before the load, and are fetched when it is back.
    #[serde(skip_serializing_if = "is_zero")]
    pub backlog: u32,
    /// The file whose content is the payload, behind the header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// Publishers of the common client gather what they are given (turbo batching).
    #[serde(skip_serializing_if = "is_false")]
    pub turbo: bool,
    /// Publishers of the common client adapt how much is under way to how soon it is confirmed.
    #[serde(skip_serializing_if = "is_false")]
    pub throttle: bool,
    /// Messages of the common client live for so many milliseconds; 0 is for ever.
    #[serde(skip_serializing_if = "is_zero")]
    pub lifespan_ms: u32,
    /// Subscribers of the common client receive by a multicast group of our broker: from QoS 1 on they ask for what was lost.
    #[serde(skip_serializing_if = "is_false")]
    pub multicast: bool,
    /// The first flow has a listener of our broker to itself, and its packets are of [`ALARM_CLASS`] in both directions.
    #[serde(skip_serializing_if = "is_false")]
    pub alarms: bool,
}

/// Expedited forwarding (DSCP, RFC 3246).
pub const ALARM_CLASS: u8 = 46;
/// The port of that listener, in a namespace.
pub const ALARM_PORT: u16 = 1884;

/// What that group is called.
pub const MULTICAST_GROUP: &str = "lab";

/// What carries a protocol's bytes, other than the plain transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Carrier {
    Tls,
    Ws,
    Wss,
}

impl Carrier {
    /// Whether it needs a certificate.
    pub fn is_encrypted(self) -> bool {
        self != Carrier::Ws
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

impl Extras {
    fn is_empty(&self) -> bool {
        *self == Extras::default()
    }
}

/// The word of a choice, in scenarios, tables and configurations of ours.
pub fn word(choice: impl ValueEnum) -> String {
    let word = choice.to_possible_value();
    word.map_or_else(String::new, |word| word.get_name().to_owned())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// The common API: `thalweg-client`.
    Common,
    /// Our codec and a socket, nothing else: as fast as it goes. MQTT only.
    Bare,
    /// A stock library of the protocol in a process of its own.
    Stock,
}

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// MQTT 3.1.1 or 5 over TCP.
    Mqtt,
    /// CoAP over UDP (RFC 7252).
    Coap,
    /// AMQP 0-9-1.
    Amqp,
    /// STOMP 1.2.
    Stomp,
    Zmtp,
    /// DDS, through Cyclone DDS.
    Dds,
    Xmpp,
}

/// One side of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leg {
    pub protocol: Protocol,
    /// 0 at most once (CoAP: non-confirmable), 1 at least once (CoAP: confirmable; AMQP, STOMP: confirms, acknowledgements),
    /// 2 exactly once.
    pub qos: u8,
    /// Version of MQTT: 3 (3.1.1) or 5.
    pub version: u8,
    /// Messages under way without acknowledgement, from 1; 1 is the studies' mode.
    pub window: u32,
}

impl Leg {
    /// MQTT 5 where it is MQTT, with the window that is usual.
    pub fn of(protocol: Protocol, qos: u8) -> Leg {
        Leg {
            protocol,
            qos,
            version: 5,
            window: 20,
        }
    }
}

/// A network between clients and broker.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// None: the loopback. Else namespaces, topology T3, with everything below.
    pub namespaces: bool,
    /// Packets lost in each direction, a part of one.
    pub loss: f64,
    /// In nanoseconds, one way.
    pub delay_ns: u64,
    /// Up to so much more, evenly. Packets keep their order all the same.
    pub jitter_ns: u64,
    /// Bits a second; none is no limit. What waits for its turn is bounded; the rest is lost.
    pub rate: Option<u64>,
    /// Packets that are overtaken by the one behind them, a part of one, at most half of them.
    pub reorder: f64,
    /// Packets that come twice, a part of one.
    pub duplicate: f64,
    /// What carries it out.
    pub engine: Engine,
    /// One Ethernet with a bridge between, so that multicasts reach the other end; else a router, as in topology T3.
    #[serde(default)]
    pub bridged: bool,
    /// Packets of [`ALARM_CLASS`] leave its queues before others.
    #[serde(default, skip_serializing_if = "is_false")]
    pub classes: bool,
}

impl Link {
    pub const LOOPBACK: Link = Link {
        namespaces: false,
        loss: 0.0,
        delay_ns: 0,
        jitter_ns: 0,
        rate: None,
        reorder: 0.0,
        duplicate: 0.0,
        engine: Engine::Auto,
        bridged: false,
        classes: false,
    };

    /// Namespaces, and nothing that happens between them.
    pub const CABLE: Link = Link {
        namespaces: true,
        ..Link::LOOPBACK
    };

    /// Whether packets do not only have to keep to a rate, losses aside.
    pub fn is_more_than_rate(&self) -> bool {
        self.delay_ns > 0 || self.jitter_ns > 0 || self.reorder > 0.0 || self.duplicate > 0.0
    }
}

/// What carries a link's losses and delays out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// Whatever can do it at least cost.
    Auto,
    /// nftables and tbf (and netem where the kernel has it): no cost, no seed.
    Kernel,
    /// Ours: by the seed.
    Emulator,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Workload {
    /// Every message has this many bytes.
    Fixed {
        /// Bytes of a payload.
        bytes: u32,
    },
    /// JSON, padded to this many bytes (study D).
    Json {
        /// Bytes of a payload.
        bytes: u32,
    },
    /// A trace that `thalweg bench gen` has written: sizes, and times where `load` says so.
    Trace {
        /// Path of the trace.
        file: String,
    },
    /// Two flows: the first as `load` says, the second beside it, messages that are large and come at once (study C).
    /// Latencies are those of the first.
    Beside {
        /// Bytes of a payload of the first.
        bytes: u32,
        /// Bytes of a payload of the second flow.
        burst_bytes: u32,
        /// Messages a second of the second, while it sends.
        burst_rate: f64,
        /// When it begins, nanoseconds since the measured phase did.
        from_ns: u64,
        /// How long it sends.
        for_ns: u64,
    },
    /// A class of study A, as `thalweg bench gen NAME --seed SEED --form bins` describes it: sizes, and times where `load`
    /// says so. It needs no file.
    Class {
        /// `simple`, `complex` or `multimedia`.
        name: String,
        /// What its distributions are drawn from: not the cell's, so that repeats have the same ones.
        seed: u64,
    },
}

/// When it is sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Load {
    /// By an absolute schedule, whether the broker keeps up or not.
    Open {
        /// Messages a second of one flow.
        rate: f64,
        /// Flows: publisher and topic.
        flows: u32,
        arrivals: Arrivals,
    },
    /// The next one when the one before is through: labelled, and used only where a study did.
    Closed {
        /// Nanoseconds between one message and the next.
        think_ns: u64,
        flows: u32,
    },
    /// At the times of the workload's trace.
    Replay {
        /// Faster by this factor.
        speed: f64,
        flows: u32,
        /// Of distributions: messages of a flow, as a part of what the trace says of one of its sources.
        #[serde(default = "whole")]
        rate_scale: f64,
    },
    /// As fast as it goes, to find a ceiling.
    Flood { flows: u32 },
}

fn whole() -> f64 {
    1.0
}

impl Load {
    /// An open loop of equal distances.
    pub fn open(rate: f64, flows: u32) -> Load {
        let arrivals = Arrivals::Periodic;
        Load::Open {
            rate,
            flows,
            arrivals,
        }
    }

    pub fn flows(&self) -> u32 {
        match self {
            Load::Open { flows, .. }
            | Load::Closed { flows, .. }
            | Load::Replay { flows, .. }
            | Load::Flood { flows } => *flows,
        }
    }
}

/// How long each part takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phases {
    /// After connecting, before the first message.
    pub settle_ns: u64,
    /// Nanoseconds before the measured phase; excluded from all counts.
    pub warmup_ns: u64,
    /// Nanoseconds of the measured phase.
    pub measure_ns: u64,
    /// At most so long for what is late.
    pub drain_ns: u64,
}

impl Cell {
    /// What a cell begins as: MQTT at most once over the loopback, and nothing to send.
    pub fn blank() -> Cell {
        let leg = Leg::of(Protocol::Mqtt, 0);
        Cell {
            experiment: String::new(),
            axes: BTreeMap::new(),
            repeat: 0,
            seed: 0,
            system: String::new(),
            broker_settings: BTreeMap::new(),
            cpus: (None, None),
            driver: Driver::Common,
            publish: leg,
            subscribe: leg,
            link: Link::LOOPBACK,
            workload: Workload::Fixed { bytes: 0 },
            load: Load::Flood { flows: 1 },
            phases: Phases::default(),
            fan_out: 1,
            calls: None,
            extras: Extras::default(),
        }
    }

    /// Has the broker's system calls counted. A broker that is stopped at every call is another point: it is never compared
    /// with one that is not.
    pub fn count_calls(&mut self, by: CallCounter) {
        self.calls = Some(by);
        if by == CallCounter::Strace {
            self.axes.insert(SLOWED.to_owned(), "strace".to_owned());
        }
    }

    /// How often each message is to be received.
    pub fn copies(&self) -> u32 {
        match self.extras.shared {
            true => 1,
            false => self.fan_out.max(1),
        }
    }

    /// Its axes and their values, as they are printed.
    pub fn point(&self) -> String {
        let axes = self.axes.iter();
        let axes = axes.map(|(name, value)| format!("{name}={value}"));
        axes.collect::<Vec<_>>().join(" ")
    }

    /// What tells it from other cells of a run: the same after a restart. Name for files, too: letters, digits, `-`, `_`.
    pub fn key(&self) -> String {
        let axes: Vec<String> = self
            .axes
            .iter()
            .map(|(name, value)| format!("{name}_{value}"))
            .collect();
        let text = format!("{}-{}-r{}", self.experiment, axes.join("-"), self.repeat);
        named(&text)
    }
}

/// Words as keys of cells have them.
pub fn named(words: &str) -> String {
    let kept = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    words
        .chars()
        .map(|c| if kept(c) { c } else { '_' })
        .collect()
}

/// The axis of cells whose broker is slowed by what counts.
const SLOWED: &str = "slowed_by";

/// What counts system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum CallCounter {
    /// `perf stat` at the kernel's own trace point
    Perf,
    /// `strace -c`, which stops the broker twice at every call: times and rates are then those of a slowed broker
    Strace,
}

/// System calls, counted or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Calls {
    /// So many in the measured phase.
    Counted(u64),
    /// Why not, and what would make it possible.
    Uncounted(String),
}

impl Calls {
    /// How many, if that is known.
    pub fn count(&self) -> Option<u64> {
        match self {
            Calls::Counted(count) => Some(*count),
            Calls::Uncounted(_) => None,
        }
    }

    /// Why that is not known; empty if it is.
    pub fn why(&self) -> &str {
        match self {
            Calls::Counted(_) => "",
            Calls::Uncounted(why) => why,
        }
    }
}

/// Whether a trial counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    #[default]
    Valid,
    /// What sent was not able to keep its own times; why.
    GeneratorLimited(String),
    /// The broker took less than 99 % of what was to be sent. Times of what was never sent are in no distribution, so it
    /// has no latency to compare (achieved/intended < 0.99).
    HeldBack(String),
    /// It came to no regular end; why.
    Invalid(String),
    /// What it needs is not installed; the command that installs it.
    Absent(String),
}

/// The trials that count.
pub fn valid(trials: &[(Cell, Row)]) -> impl Iterator<Item = &(Cell, Row)> + Clone {
    let is_valid = |(_, row): &&(Cell, Row)| row.standing == Standing::Valid;
    trials.iter().filter(is_valid)
}

/// What came of a cell. Counts are of the measured phase; latencies in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub standing: Standing,
    /// Messages that were to be published.
    pub intended: u64,
    /// Messages that were published.
    pub sent: u64,
    /// Copies that were to be received: `sent` times fan-out.
    pub expected: u64,
    /// Copies received for the first time, before the end of the drain.
    pub delivered: u64,
    /// Copies not received by the end of the drain.
    pub lost: u64,
    /// Copies of messages received before.
    pub duplicates: u64,
    /// Received behind a later one of the flow.
    pub reordered: u64,
    /// Received in the drain.
    pub late: u64,
    /// `isPublishSuccess` was not true at the end, though it should have been.
    pub unacknowledged: u64,
    /// Seconds that were measured.
    pub seconds: f64,
    pub payload_bytes: u64,
    /// Since it was to be sent.
    pub response: Quantiles,
    /// Since it was sent.
    pub service: Quantiles,
    /// 99th percentile of how late it was sent.
    pub lag_p99_us: f64,
    /// Processor seconds of the broker and of what sends and receives.
    pub cpu_broker_s: f64,
    /// Of what sends and receives.
    pub cpu_client_s: f64,
    /// Resident memory of the broker at most, KiB.
    pub rss_broker_kib: u64,
    /// Context switches of the broker.
    pub switches_broker: u64,
    /// System calls of the broker, or why they are not known; none if they were not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_broker: Option<Calls>,
    /// Ethernet-frame bytes of both legs, lost ones included, without set-up; only with namespaces.
    pub wire_bytes: Option<u64>,
    /// Ethernet frames of both legs; only with namespaces.
    pub wire_frames: Option<u64>,
    /// Packets lost by the link, and packets that came to it.
    pub link_lost: Option<(u64, u64)>,
    /// Anything else, by name with its unit: `retransmitted_frames`, `ack_frames`, `pss_client_kib` …
    pub more: BTreeMap<String, f64>,
}

impl Row {
    /// One of which nothing is known but this.
    pub fn blank(standing: Standing) -> Row {
        Row {
            standing,
            ..Row::default()
        }
    }
}

/// A distribution in short; microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    pub count: u64,
    pub mean: f64,
    pub sd: f64,
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    pub max: f64,
}

impl Quantiles {
    /// Nothing is known of it.
    pub const UNKNOWN: Quantiles = Quantiles {
        count: 0,
        mean: f64::NAN,
        sd: f64::NAN,
        p50: f64::NAN,
        p90: f64::NAN,
        p99: f64::NAN,
        p999: f64::NAN,
        max: f64::NAN,
    };
}

/// What a trial hands over.
#[derive(Clone, Debug)]
pub struct Measured {
    pub row: Row,
    /// Response times in nanoseconds, 3 significant digits.
    pub response: hdrhistogram::Histogram<u64>,
    /// Service times in nanoseconds.
    pub service: hdrhistogram::Histogram<u64>,
    /// Each second from the beginning of the warm-up.
    pub seconds: Vec<Second>,
    /// What happened besides: time in nanoseconds since the warm-up began, words.
    pub events: Vec<(u64, String)>,
    /// Each message, where that is kept.
    pub messages: Messages,
}

impl Measured {
    /// No trial at all.
    pub fn nothing(standing: Standing) -> Measured {
        Measured {
            row: Row::blank(standing),
            response: histograms::of(&[]),
            service: histograms::of(&[]),
            seconds: Vec::new(),
            events: Vec::new(),
            messages: Messages::default(),
        }
    }
}

/// Lines of `messages.csv`, without the trial and their number.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    /// The names of the columns.
    pub head: &'static str,
    pub lines: Vec<String>,
}

/// A field of a table; empty for nothing.
pub fn maybe<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// A time in nanoseconds as tables have it.
pub fn micros(nanos: Option<u64>) -> String {
    maybe(nanos.map(|nanos| nanos / 1000))
}

/// A second of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    pub sent: u64,
    pub received: u64,
    /// Response times of those received in it, microseconds.
    pub response_p50_us: f64,
    /// 99th percentile.
    pub response_p99_us: f64,
    /// Processor seconds of the broker in it.
    pub cpu_broker_s: f64,
    /// Processor seconds of this process in it.
    pub cpu_client_s: f64,
    /// Resident memory of the broker, KiB.
    pub rss_broker_kib: u64,
    /// Ethernet-frame bytes in it.
    pub wire_bytes: u64,
}
