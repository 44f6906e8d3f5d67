//! The columns of `trials.csv`: a table that the head, the lines and `columns.md` are made of.

use crate::cell::{
    CallCounter, Calls, Cell, Load, Protocol, Quantiles, Row, Standing, Workload, maybe, word,
};

struct Column {
    name: &'static str,
    unit: &'static str,
    meaning: &'static str,
    of: fn(&Cell, &Row) -> String,
}

pub fn head() -> String {
    let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
    names.join(",")
}

/// The line of a trial.
pub fn line(cell: &Cell, row: &Row) -> String {
    let fields = COLUMNS.iter().map(|column| quoted(&(column.of)(cell, row)));
    fields.collect::<Vec<_>>().join(",")
}

/// What the columns are, for people.
pub fn described() -> String {
    let row = |it: &Column| format!("| `{}` | {} | {} |\n", it.name, it.unit, it.meaning);
    let rows: String = COLUMNS.iter().map(row).collect();
    format!(
        "# Columns\n\n## trials.csv\n\nA line per trial. Empty: does not apply.\n\n| column | unit | meaning |\n|---|---|---|\n{rows}{OTHERS}"
    )
}

/// A field as RFC 4180 has it.
pub fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

/// A number without noise: six digits behind the point at most.
fn number(number: f64) -> String {
    match number.is_finite() {
        true => ((number * 1e6).round() / 1e6).to_string(),
        false => String::new(),
    }
}

fn per_second(count: u64, row: &Row) -> String {
    maybe((row.seconds > 0.0).then(|| number(count as f64 / row.seconds)))
}

/// A quantile, empty where nothing was received.
fn of(quantiles: &Quantiles, value: f64) -> String {
    maybe((quantiles.count > 0).then(|| number(value)))
}

fn pairs<K: ToString, V: ToString>(pairs: impl Iterator<Item = (K, V)>) -> String {
    let pairs = pairs.map(|(name, value)| format!("{}={}", name.to_string(), value.to_string()));
    pairs.collect::<Vec<_>>().join(";")
}

macro_rules! columns {
    ($($name:literal, $unit:literal, $meaning:literal, $of:expr;)*) => {
        &[$(Column { name: $name, unit: $unit, meaning: $meaning, of: $of }),*]
    };
}

/// Stable: new ones are added at the end, before `axes` and `more`.
const COLUMNS: &[Column] = columns! {
    "experiment", "", "what it belongs to", |c, _| c.experiment.clone();
    "key", "", "name of the trial", |c, _| c.key();
    "repeat", "", "from 0", |c, _| c.repeat.to_string();
    "seed", "", "what everything random was drawn from", |c, _| c.seed.to_string();
    "verdict", "", "valid, generator-limited, held-back, invalid, absent; only valid ones count", |_, r| r.standing.word().to_owned();
    "why", "", "why it does not count", |_, r| r.standing.why().to_owned();
    "system", "", "broker", |c, _| c.system.clone();
    "driver", "", "common: our client; bare: our codec and a socket; stock: a library of the protocol", |c, _| word(c.driver);
    "publish", "", "protocol of publishers", |c, _| word(c.publish.protocol);
    "publish_qos", "", "0 at most, 1 at least, 2 exactly once", |c, _| c.publish.qos.to_string();
    "publish_version", "", "version of MQTT", |c, _| if c.publish.protocol == Protocol::Mqtt { c.publish.version.to_string() } else { String::new() };
    "window", "messages", "under way without acknowledgement at most, each flow", |c, _| c.publish.window.to_string();
    "subscribe", "", "protocol of subscribers", |c, _| word(c.subscribe.protocol);
    "subscribe_qos", "", "as above", |c, _| c.subscribe.qos.to_string();
    "loss", "part of one", "of packets, each direction of each leg", |c, _| number(c.link.loss);
    "delay_us", "µs", "one way", |c, _| number(c.link.delay_ns as f64 / 1e3);
    "jitter_us", "µs", "at most so much more", |c, _| number(c.link.jitter_ns as f64 / 1e3);
    "link_bit_s", "bit/s", "limit of the link", |c, _| maybe(c.link.rate);
    "engine", "", "what carried the link out", |c, _| if c.link.namespaces { word(c.link.engine) } else { "loopback".to_owned() };
    "workload", "", "fixed, json, beside, the class or the trace", |c, _| match &c.workload {
        Workload::Fixed { .. } => "fixed".to_owned(),
        Workload::Json { .. } => "json".to_owned(),
        Workload::Beside { .. } => "beside".to_owned(),
        Workload::Trace { file } => file.clone(),
        Workload::Class { name, .. } => name.clone(),
    };
    "payload_bytes", "B", "of each message", |c, _| match &c.workload {
        Workload::Fixed { bytes } | Workload::Json { bytes } | Workload::Beside { bytes, .. } => bytes.to_string(),
        Workload::Trace { .. } | Workload::Class { .. } => String::new(),
    };
    "load", "", "open, closed, replay, flood", |c, _| match &c.load {
        Load::Open { .. } => "open",
        Load::Closed { .. } => "closed",
        Load::Replay { .. } => "replay",
        Load::Flood { .. } => "flood",
    }.to_owned();
    "rate_per_flow", "1/s", "messages of a flow, open loop", |c, _| match &c.load {
        Load::Open { rate, .. } => number(*rate),
        _ => String::new(),
    };
    "flows", "", "pairs of publisher and topic", |c, _| c.load.flows().to_string();
    "fan_out", "", "subscribers of each topic", |c, _| c.fan_out.to_string();
    "seconds", "s", "measured", |_, r| number(r.seconds);
    "offered", "1/s", "messages that were to be published", |_, r| per_second(r.intended, r);
    "achieved", "1/s", "messages that were published", |_, r| per_second(r.sent, r);
    "delivered", "1/s", "copies received for the first time", |_, r| per_second(r.delivered, r);
    "goodput", "B/s", "payload bytes delivered", |_, r| per_second(r.payload_bytes, r);
    "intended_count", "", "messages that were to be published", |_, r| r.intended.to_string();
    "sent_count", "", "messages that were published", |_, r| r.sent.to_string();
    "expected_count", "", "copies that were to be received", |_, r| r.expected.to_string();
    "delivered_count", "", "copies received for the first time", |_, r| r.delivered.to_string();
    "lost", "", "copies not received before the end of the drain", |_, r| r.lost.to_string();
    "dup", "", "copies received again", |_, r| r.duplicates.to_string();
    "reordered", "", "copies received behind a later one of their flow", |_, r| r.reordered.to_string();
    "late", "", "copies received in the drain", |_, r| r.late.to_string();
    "unacknowledged", "", "messages whose publishing was never confirmed, though it should have been", |_, r| r.unacknowledged.to_string();
    "resp_mean_us", "µs", "response: received less intended", |_, r| of(&r.response, r.response.mean);
    "resp_sd_us", "µs", "standard deviation", |_, r| of(&r.response, r.response.sd);
    "resp_p50_us", "µs", "", |_, r| of(&r.response, r.response.p50);
    "resp_p90_us", "µs", "", |_, r| of(&r.response, r.response.p90);
    "resp_p99_us", "µs", "", |_, r| of(&r.response, r.response.p99);
    "resp_p999_us", "µs", "", |_, r| of(&r.response, r.response.p999);
    "resp_max_us", "µs", "", |_, r| of(&r.response, r.response.max);
    "svc_mean_us", "µs", "service: received less sent", |_, r| of(&r.service, r.service.mean);
    "svc_sd_us", "µs", "standard deviation", |_, r| of(&r.service, r.service.sd);
    "svc_p50_us", "µs", "", |_, r| of(&r.service, r.service.p50);
    "svc_p90_us", "µs", "", |_, r| of(&r.service, r.service.p90);
    "svc_p99_us", "µs", "", |_, r| of(&r.service, r.service.p99);
    "svc_p999_us", "µs", "", |_, r| of(&r.service, r.service.p999);
    "svc_max_us", "µs", "", |_, r| of(&r.service, r.service.max);
    "lag_p99_us", "µs", "how late it was sent, 99th percentile", |_, r| number(r.lag_p99_us);
    "cpu_s_broker", "s", "processor time of the broker", |_, r| number(r.cpu_broker_s);
    "cpu_s_client", "s", "of what sends and receives", |_, r| number(r.cpu_client_s);
    "rss_kb", "KiB", "resident memory of the broker at most", |_, r| r.rss_broker_kib.to_string();
    "switches", "", "context switches of the broker", |_, r| r.switches_broker.to_string();
    "bytes_l2", "B", "Ethernet-frame bytes of both legs, lost ones too, without set-up", |_, r| maybe(r.wire_bytes);
    "frames", "", "their count", |_, r| maybe(r.wire_frames);
    "link_lost", "", "packets the link lost", |_, r| maybe(r.link_lost.map(|(lost, _)| lost));
    "link_seen", "", "packets that came to the link", |_, r| maybe(r.link_lost.map(|(_, seen)| seen));
    "syscalls", "", "system calls of the broker, if they were counted (--count-system-calls)", |_, r| maybe(r.calls_broker.as_ref().and_then(Calls::count));
    "syscalls_by", "", "what counted them: perf, or strace, which slows the broker", |c, _| match c.calls {
        None => "",
        Some(CallCounter::Perf) => "perf",
        Some(CallCounter::Strace) => "strace",
    }.to_owned();
    "syscalls_why", "", "why they are not known though they were to be counted", |_, r| r.calls_broker.as_ref().map(|calls| calls.why().to_owned()).unwrap_or_default();
    "axes", "", "what varies between cells: name=value;…", |c, _| pairs(c.axes.iter());
    "more", "in the name", "anything else: name=value;…", |_, r| pairs(r.more.iter().map(|(name, value)| (name, number(*value))));
};

const OTHERS: &str = "
## timeseries.csv

A line per trial and second, from the beginning of the warm-up.

| column | unit | meaning |
|---|---|---|
| `key` | | trial |
| `second` | s | from 0 |
| `sent`, `received` | | messages published, copies received in it |
| `response_p50_us`, `response_p99_us` | µs | of what was received in it |
| `wire_bytes` | B | Ethernet-frame bytes in it |

## resources.csv

| column | unit | meaning |
|---|---|---|
| `key`, `second` | | as above |
| `process` | | broker or client |
| `cpu_s` | s | processor time in it |
| `rss_kib` | KiB | resident memory; empty where it is not metered |

## latency

`.hlog`: nanoseconds, HdrHistogram V2, a line for `response` and one for `service`; they may be merged with others.
`.hgrm`: microseconds, percentiles as HdrHistogram's own programs print and plot them.
";

impl Standing {
    /// As it is written in tables.
    pub fn word(&self) -> &'static str {
        match self {
            Standing::Valid => "valid",
            Standing::GeneratorLimited(_) => "generator-limited",
            Standing::HeldBack(_) => "held-back",
            Standing::Invalid(_) => "invalid",
            Standing::Absent(_) => "absent",
        }
    }

    /// Why it does not count; empty if it does.
    pub fn why(&self) -> &str {
        match self {
            Standing::Valid => "",
            Standing::GeneratorLimited(why)
            | Standing::HeldBack(why)
            | Standing::Invalid(why)
            | Standing::Absent(why) => why,
        }
    }
}
