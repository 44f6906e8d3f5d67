//! The calibration of the model: its coefficients, and a table of laboratory measurements.

use std::fmt;
use std::fmt::Write;

use thalweg_model::Span;

use super::conditions::millis;
use super::json::{self, Object, wrong};

/// Prior measurements for the choice of a protocol. Read from JSON, strictly: an unknown key, a missing one, a number
/// out of range or another version is an error. Names end in their units.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// Where it comes from: date, machine, program, in one line.
    pub source: String,
    pub(super) tcp: Tcp,
    pub(super) datagrams: Datagrams,
    pub(super) protocols: Vec<Protocol>,
    pub(super) profiles: Vec<EnergyProfile>,
    /// Name of the selected profile.
    pub(super) profile: String,
    pub(super) table: Vec<Row>,
}

/// Why a calibration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalibrationError {
    /// The invalid entry and the reason.
    pub words: String,
}

/// Retransmission behaviour of the system's TCP.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tcp {
    /// Payload of a full segment.
    pub(super) segment_bytes: f64,
    /// Ethernet, IP and TCP headers of a segment.
    pub(super) header_bytes: f64,
    /// The least wait before a segment is repeated, beyond the round trip.
    pub(super) repeat_min_ms: f64,
}

/// Retransmission behaviour of CoAP over datagrams.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Datagrams {
    /// Ethernet, IP and UDP headers of a datagram.
    pub(super) header_bytes: f64,
    /// Payload of a block; a larger message goes block by block.
    pub(super) block_bytes: f64,
    /// The first wait before a confirmable message is repeated lies between these.
    pub(super) repeat_min_ms: f64,
    pub(super) repeat_max_ms: f64,
    /// So many round trips are waited instead, as the client's own lane does once it has measured one; 0: the timers are
    /// RFC 7252's.
    pub(super) repeat_round_trips: f64,
    /// No first wait is shorter, however short the round trip.
    pub(super) repeat_floor_ms: f64,
    /// Largest number of repetitions of a message.
    pub(super) repeats_max: f64,
    /// The broker's first wait before it repeats a notification, and to how many it does not wait for another.
    pub(super) notify_min_ms: f64,
    pub(super) notify_max_ms: f64,
    pub(super) notify_at_once: f64,
}

/// Bytes and exchanges that a protocol adds to a payload, with a topic of 12 bytes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Protocol {
    pub(super) protocol: String,
    pub(super) is_stream: bool,
    pub(super) overhead_bytes: f64,
    pub(super) stamp_bytes: f64,
    /// Bytes of the peer's answer to an at-most-once message; 0: no answer.
    pub(super) answer_at_most_once_bytes: f64,
    /// Bytes of the peer's answer to any other message.
    pub(super) answer_bytes: f64,
    /// Bytes of each side's second exchange for exactly once; 0: the protocol has none.
    pub(super) second_exchange_bytes: f64,
}

/// Energy of a radio by frame and byte, from published measurements of devices. Modelled: no code measures joules.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EnergyProfile {
    pub(super) profile: String,
    pub(super) sent_frame_uj: f64,
    pub(super) sent_byte_uj: f64,
    pub(super) received_frame_uj: f64,
    pub(super) received_byte_uj: f64,
    /// For each time that something has to be sent after silence.
    pub(super) wake_uj: f64,
}

/// One measured cell, publisher's leg.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) protocol: String,
    pub(super) is_stream: bool,
    /// 0, 1, 2.
    pub(super) reliability: f64,
    pub(super) payload_bytes: f64,
    pub(super) loss_percent: f64,
    pub(super) round_trip_ms: f64,
    pub(super) rate_per_s: f64,
    /// Without stamps, over a topic such that the overhead was this.
    pub(super) overhead_bytes: f64,
    pub(super) bytes_per_message: Option<f64>,
    pub(super) latency_mean_ms: Option<f64>,
    pub(super) latency_p99_ms: Option<f64>,
    /// Until its acknowledgement came: what a client measures of itself.
    pub(super) settle_mean_ms: Option<f64>,
}

impl Calibration {
    /// The one that ships: `calibration.json` beside this crate's manifest.
    pub fn built_in() -> Self {
        // It is read by a test, so it can be read; were it not, lanes would be judged by live measurement alone.
        Calibration::from_json(include_str!("../../calibration.json"))
            .unwrap_or_else(|_| Calibration::nothing())
    }

    /// Reads a calibration of this format and version; unknown or missing fields are errors.
    pub fn from_json(text: &str) -> Result<Self, CalibrationError> {
        let mut top = json::read(text)?;
        let format = top.text("format")?;
        let version = top.number("version", 0.0, f64::MAX)?;
        if format != FORMAT || version != VERSION {
            return Err(wrong(&format!(
                "this is `{format}` {version}; `{FORMAT}` {VERSION} is read here"
            )));
        }
        let source = top.text("source")?;
        let tcp = Tcp::read(top.object("tcp")?)?;
        let datagrams = Datagrams::read(top.object("coap")?)?;
        let protocols: Vec<_> = top
            .objects("protocols")?
            .into_iter()
            .map(Protocol::read)
            .collect::<Result<_, _>>()?;
        let profiles: Vec<_> = top
            .objects("energy")?
            .into_iter()
            .map(EnergyProfile::read)
            .collect::<Result<_, _>>()?;
        let profile = top.text("energy_profile")?;
        let table = top
            .objects("table")?
            .into_iter()
            .map(Row::read)
            .collect::<Result<_, _>>()?;
        top.end("a calibration")?;
        Calibration {
            source,
            tcp,
            datagrams,
            protocols,
            profiles,
            profile: String::new(),
            table,
        }
        .with_energy_profile(&profile)
    }

    /// The same for another radio: a name under `energy`.
    pub fn with_energy_profile(mut self, profile: &str) -> Result<Self, CalibrationError> {
        if !self.profiles.iter().any(|it| it.profile == profile) {
            return Err(wrong(&format!("there is no energy profile `{profile}`")));
        }
        self.profile = profile.to_owned();
        Ok(self)
    }

    /// The same for a CoAP server that repeats notifications after `first_wait` (up to half more) and has `at_once` of them
    /// under way to one client: `coap.adaptive_timeout` or `coap.ack_timeout`, and `coap.nstart`, of our broker. Without it
    /// the defaults of RFC 7252 are assumed, 2 s and 1, and with those a lossy network is no place to listen over CoAP.
    pub fn with_notifications(mut self, first_wait: Span, at_once: u16) -> Self {
        self.datagrams.notify_min_ms = millis(first_wait).clamp(1.0, 60_000.0);
        self.datagrams.notify_max_ms = (1.5 * self.datagrams.notify_min_ms).min(60_000.0);
        self.datagrams.notify_at_once = f64::from(at_once.max(1));
        self
    }

    /// Writes it, so that [`Calibration::from_json`] gives the same again.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            "{{\n  \"format\": \"{FORMAT}\",\n  \"version\": {VERSION},\n  \"source\": \"{}\",\n  \"tcp\": {},\n  \
             \"coap\": {},\n  \"energy_profile\": \"{}\",\n  \"energy\": [{}],\n  \"protocols\": [{}],\n  \"table\": [{}]\n}}\n",
            plain(&self.source),
            self.tcp.write(),
            self.datagrams.write(),
            plain(&self.profile),
            lines(self.profiles.iter().map(EnergyProfile::write)),
            lines(self.protocols.iter().map(Protocol::write)),
            lines(self.table.iter().map(Row::write)),
        );
        out
    }

    pub(super) fn protocol(&self, protocol: &str, is_stream: bool) -> Option<&Protocol> {
        self.protocols
            .iter()
            .find(|it| it.protocol == protocol && it.is_stream == is_stream)
    }

    pub(super) fn energy(&self) -> Option<&EnergyProfile> {
        self.profiles.iter().find(|it| it.profile == self.profile)
    }

    /// Coefficients that follow from the standards alone.
    fn nothing() -> Self {
        Calibration {
            source: "none".to_owned(),
            tcp: Tcp {
                segment_bytes: 1448.0,
                header_bytes: 66.0,
                repeat_min_ms: 200.0,
            },
            datagrams: Datagrams {
                header_bytes: 42.0,
                block_bytes: 1024.0,
                repeat_min_ms: 2000.0,
                repeat_max_ms: 3000.0,
                repeat_round_trips: 0.0,
                repeat_floor_ms: 0.0,
                repeats_max: 4.0,
                notify_min_ms: 2000.0,
                notify_max_ms: 3000.0,
                notify_at_once: 1.0,
            },
            protocols: Vec::new(),
            profiles: Vec::new(),
            profile: String::new(),
            table: Vec::new(),
        }
    }
}

impl Default for Calibration {
    fn default() -> Self {
        Calibration::built_in()
    }
}

impl fmt::Display for CalibrationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the calibration cannot be used: {}", self.words)
    }
}

impl std::error::Error for CalibrationError {}

impl Tcp {
    fn read(mut it: Object) -> Result<Self, CalibrationError> {
        let tcp = Tcp {
            segment_bytes: it.number("segment_bytes", 64.0, 65_535.0)?,
            header_bytes: it.number("header_bytes", 0.0, 1000.0)?,
            repeat_min_ms: it.number("repeat_min_ms", 0.0, 60_000.0)?,
        };
        it.end("`tcp`").map(|()| tcp)
    }

    fn write(&self) -> String {
        format!(
            "{{\"segment_bytes\": {}, \"header_bytes\": {}, \"repeat_min_ms\": {}}}",
            self.segment_bytes, self.header_bytes, self.repeat_min_ms
        )
    }
}

impl Datagrams {
    fn read(mut it: Object) -> Result<Self, CalibrationError> {
        let datagrams = Datagrams {
            header_bytes: it.number("header_bytes", 0.0, 1000.0)?,
            block_bytes: it.number("block_bytes", 16.0, 65_535.0)?,
            repeat_min_ms: it.number("repeat_min_ms", 1.0, 60_000.0)?,
            repeat_max_ms: it.number("repeat_max_ms", 1.0, 60_000.0)?,
            repeat_round_trips: it.number("repeat_round_trips", 0.0, 100.0)?,
            repeat_floor_ms: it.number("repeat_floor_ms", 0.0, 60_000.0)?,
            repeats_max: it.number("repeats_max", 0.0, 20.0)?,
            notify_min_ms: it.number("notify_min_ms", 1.0, 60_000.0)?,
            notify_max_ms: it.number("notify_max_ms", 1.0, 60_000.0)?,
            notify_at_once: it.number("notify_at_once", 1.0, 65_535.0)?,
        };
        it.end("`coap`").map(|()| datagrams)
    }

    fn write(&self) -> String {
        format!(
            "{{\"header_bytes\": {}, \"block_bytes\": {}, \"repeat_min_ms\": {}, \"repeat_max_ms\": {}, \
             \"repeat_round_trips\": {}, \"repeat_floor_ms\": {}, \"repeats_max\": {}, \
             \"notify_min_ms\": {}, \"notify_max_ms\": {}, \"notify_at_once\": {}}}",
            self.header_bytes,
            self.block_bytes,
            self.repeat_min_ms,
            self.repeat_max_ms,
            self.repeat_round_trips,
            self.repeat_floor_ms,
            self.repeats_max,
            self.notify_min_ms,
            self.notify_max_ms,
            self.notify_at_once
        )
    }
}

impl Protocol {
    fn read(mut it: Object) -> Result<Self, CalibrationError> {
        let protocol = Protocol {
            protocol: it.text("protocol")?,
            is_stream: medium(&mut it)?,
            overhead_bytes: it.number("overhead_bytes", 0.0, 10_000.0)?,
            stamp_bytes: it.number("stamp_bytes", 0.0, 1000.0)?,
            answer_at_most_once_bytes: it.number("answer_at_most_once_bytes", 0.0, 10_000.0)?,
            answer_bytes: it.number("answer_bytes", 0.0, 10_000.0)?,
            second_exchange_bytes: it.number("second_exchange_bytes", 0.0, 10_000.0)?,
        };
        it.end("`protocols`").map(|()| protocol)
    }

    fn write(&self) -> String {
        format!(
            "{{\"protocol\": \"{}\", \"medium\": \"{}\", \"overhead_bytes\": {}, \"stamp_bytes\": {}, \
             \"answer_at_most_once_bytes\": {}, \"answer_bytes\": {}, \"second_exchange_bytes\": {}}}",
            plain(&self.protocol),
            medium_name(self.is_stream),
            self.overhead_bytes,
            self.stamp_bytes,
            self.answer_at_most_once_bytes,
            self.answer_bytes,
            self.second_exchange_bytes
        )
    }
}

impl EnergyProfile {
    fn read(mut it: Object) -> Result<Self, CalibrationError> {
        let profile = EnergyProfile {
            profile: it.text("profile")?,
            sent_frame_uj: it.number("sent_frame_uj", 0.0, 1e9)?,
            sent_byte_uj: it.number("sent_byte_uj", 0.0, 1e9)?,
            received_frame_uj: it.number("received_frame_uj", 0.0, 1e9)?,
            received_byte_uj: it.number("received_byte_uj", 0.0, 1e9)?,
            wake_uj: it.number("wake_uj", 0.0, 1e9)?,
        };
        it.end("`energy`").map(|()| profile)
    }

    fn write(&self) -> String {
        format!(
            "{{\"profile\": \"{}\", \"sent_frame_uj\": {}, \"sent_byte_uj\": {}, \"received_frame_uj\": {}, \
             \"received_byte_uj\": {}, \"wake_uj\": {}}}",
            plain(&self.profile),
            self.sent_frame_uj,
            self.sent_byte_uj,
            self.received_frame_uj,
            self.received_byte_uj,
            self.wake_uj
        )
    }
}

impl Row {
    fn read(mut it: Object) -> Result<Self, CalibrationError> {
        let row = Row {
            protocol: it.text("protocol")?,
            is_stream: medium(&mut it)?,
            reliability: it.number("reliability", 0.0, 2.0)?,
            payload_bytes: it.number("payload_bytes", 0.0, 1e9)?,
            loss_percent: it.number("loss_percent", 0.0, 90.0)?,
            round_trip_ms: it.number("round_trip_ms", 0.0, 1e6)?,
            rate_per_s: it.number("rate_per_s", 0.0, 1e7)?,
            overhead_bytes: it.number("overhead_bytes", 0.0, 10_000.0)?,
            bytes_per_message: it.optional("bytes_per_message", 1.0, 1e10)?,
            latency_mean_ms: it.optional("latency_mean_ms", 0.0, 1e7)?,
            latency_p99_ms: it.optional("latency_p99_ms", 0.0, 1e7)?,
            settle_mean_ms: it.optional("settle_mean_ms", 0.0, 1e7)?,
        };
        it.end("`table`").map(|()| row)
    }

    fn write(&self) -> String {
        let mut out = format!(
            "{{\"protocol\": \"{}\", \"medium\": \"{}\", \"reliability\": {}, \"payload_bytes\": {}, \"loss_percent\": {}, \
             \"round_trip_ms\": {}, \"rate_per_s\": {}, \"overhead_bytes\": {}",
            plain(&self.protocol),
            medium_name(self.is_stream),
            self.reliability,
            self.payload_bytes,
            self.loss_percent,
            self.round_trip_ms,
            self.rate_per_s,
            self.overhead_bytes
        );
        let measured = [
            ("bytes_per_message", self.bytes_per_message),
            ("latency_mean_ms", self.latency_mean_ms),
            ("latency_p99_ms", self.latency_p99_ms),
            ("settle_mean_ms", self.settle_mean_ms),
        ];
        for (key, value) in measured
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)))
        {
            let _ = write!(out, ", \"{key}\": {value}");
        }
        out + "}"
    }
}

fn medium(it: &mut Object) -> Result<bool, CalibrationError> {
    match it.text("medium")?.as_str() {
        "stream" => Ok(true),
        "datagrams" => Ok(false),
        other => Err(wrong(&format!(
            "`medium` is `{other}`, neither `stream` nor `datagrams`"
        ))),
    }
}

fn medium_name(is_stream: bool) -> &'static str {
    if is_stream { "stream" } else { "datagrams" }
}

fn lines(values: impl Iterator<Item = String>) -> String {
    let lines: Vec<_> = values.map(|value| format!("\n    {value}")).collect();
    lines.join(",") + if lines.is_empty() { "" } else { "\n  " }
}

/// A text as our reader takes it.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c == '"' || c == '\\' || c.is_control() {
                ' '
            } else {
                c
            }
        })
        .collect()
}

const FORMAT: &str = "thalweg-calibration";
const VERSION: f64 = 1.0;
