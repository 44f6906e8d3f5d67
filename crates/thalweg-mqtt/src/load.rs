//! A worker's load report: messages waiting and milliseconds each, as JSON and as a short text.
//!
//! MQTT has no such report. The form is that of a published thesis, whose clients carry the JSON in PINGREQ
//! (`codec/ping.rs`); the same report travels as user property [`ACK_PROPERTY`] of PUBACK and PUBREC and as payload of
//! a PUBLISH to [`ADDRESS`], which every client can send. docs/protocols/mqtt.md has the bytes. Reading is liberal and
//! trusts nothing: an invalid report is a [`Refusal`], never a fault of the connection.
//!
//! *Knows:* the words. *Must never know:* what a broker makes of them.

use std::fmt;
use std::io::Write as _;

/// The user property of CONNACK by which a server says that it takes reports in PINGREQ.
pub const ANNOUNCEMENT: (&str, &str) = ("x-lb-report", "1");
/// The user property of PUBACK and PUBREC that holds a report as [`Report::text`].
pub const ACK_PROPERTY: &str = "lb";
/// The user property of an extended PINGREQ that names the unit of its times: `ms` (the default), `us` or `ns`.
pub const UNIT_PROPERTY: &str = "unit";
/// The topic to which reports are published. It routes nowhere.
pub const ADDRESS: &str = "$load/report";
/// The user property of CONNECT and SUBSCRIBE that says how many messages the client handles side by side.
pub const CONCURRENCY_PROPERTY: &str = "lb-concurrency";
/// The user property that says when the client acknowledges: `processed` or `received`.
pub const SETTLES_PROPERTY: &str = "lb-ack";
/// The user property that asks for order within a group: `key` or `publisher` (the same), or `topic`.
pub const ORDER_PROPERTY: &str = "lb-order";
/// The user property that says how large a share the client should have, as a whole number.
pub const WEIGHT_PROPERTY: &str = "lb-weight";

/// The longest report, in bytes: what is longer is not looked at.
pub const REPORT_BYTES_MAX: usize = 1024;

/// The most waiting messages that a report may claim.
const WAITING_MAX: f64 = 1e6;
/// No message takes longer than an hour.
const HOUR_MS: f64 = 3.6e6;
/// Whole numbers up to here are exact.
const COUNT_MAX: f64 = (1_u64 << 53) as f64;

/// Load of a worker, by its own count.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// Messages that wait at the worker.
    pub waiting: u32,
    /// Milliseconds that one message took, on average since the last report; 0 if none was processed. If the sender named
    /// no unit it may have meant a smaller one, so more than an hour can stand here.
    pub each_ms: f64,
    /// Messages that are being processed now.
    pub in_process: Option<u32>,
    /// Messages received since the connection began.
    pub received: Option<u64>,
    /// Messages processed since the connection began.
    pub processed: Option<u64>,
    /// Standard deviation of the processing time, in milliseconds.
    pub sd_ms: Option<f64>,
    /// Messages that can be processed side by side.
    pub concurrency: Option<u16>,
}

/// The keys of the two numbers that every report has. Both spellings are in use, and all mixtures of them are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spelling {
    /// `numberOfMsgsInQueue` and `processingTimerPerMsg`: the spelling of the thesis's program.
    #[default]
    Listing,
    /// `msgsInQueue` and `processingTimePerMsg`: the spelling of the thesis's figure.
    Figure,
}

/// A unit of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Not said: milliseconds, unless the receiver finds that this cannot be.
    #[default]
    Unsaid,
    /// `ms`.
    Milliseconds,
    /// `us`.
    Microseconds,
    /// `ns`.
    Nanoseconds,
}

/// Why bytes are no report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Longer than [`REPORT_BYTES_MAX`].
    TooLong,
    /// The property block is broken, or holds something else than user properties.
    Properties,
    /// A unit that is not defined.
    Unit,
    /// Neither a flat JSON object nor, where that is expected, two numbers.
    Syntax,
    /// One of the two numbers is missing.
    Missing,
    /// A number that cannot be true: not finite, negative, above a million messages or an hour.
    Range,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::TooLong => "the report is longer than 1024 bytes",
            Refusal::Properties => "the property block before the report is malformed",
            Refusal::Unit => "the report's unit is not ms, us or ns",
            Refusal::Syntax => "the report is not a flat JSON object",
            Refusal::Missing => "the report lacks the messages waiting or the time for each",
            Refusal::Range => "a number of the report cannot be true",
        })
    }
}

impl std::error::Error for Refusal {}

impl Unit {
    /// The unit of this name.
    pub fn named(name: &str) -> Option<Unit> {
        match name {
            "ms" => Some(Unit::Milliseconds),
            "us" | "µs" | "μs" => Some(Unit::Microseconds),
            "ns" => Some(Unit::Nanoseconds),
            _ => None,
        }
    }

    fn per_ms(self) -> f64 {
        match self {
            Unit::Unsaid | Unit::Milliseconds => 1.0,
            Unit::Microseconds => 1e3,
            Unit::Nanoseconds => 1e6,
        }
    }

    /// Milliseconds, if the value is plausible. Without a unit it may be an hour of nanoseconds: the receiver, which
    /// knows the processed messages, judges that.
    fn time(self, value: f64) -> Result<f64, Refusal> {
        let longest = if self == Unit::Unsaid {
            HOUR_MS * 1e6
        } else {
            HOUR_MS
        };
        // Zero has one sign.
        in_range(value / self.per_ms(), longest).map(|ms| ms + 0.0)
    }
}

impl Spelling {
    fn keys(self) -> (&'static str, &'static str) {
        match self {
            Spelling::Listing => ("numberOfMsgsInQueue", "processingTimerPerMsg"),
            Spelling::Figure => ("msgsInQueue", "processingTimePerMsg"),
        }
    }
}

impl Report {
    /// A report with the two numbers that every report has.
    pub fn new(waiting: u32, each_ms: f64) -> Report {
        Report {
            waiting,
            each_ms,
            ..Report::default()
        }
    }

    /// Reads the JSON form: one flat object. Unknown keys are skipped; of a key that comes twice the last
    /// counts; an optional number that cannot be true counts as left out.
    pub fn from_json(bytes: &[u8], unit: Unit) -> Result<Report, Refusal> {
        if bytes.len() > REPORT_BYTES_MAX {
            return Err(Refusal::TooLong);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| Refusal::Syntax)?;
        let (mut waiting, mut each) = (None, None);
        let mut report = Report::default();
        let mut object = Object::begin(text)?;
        while let Some((key, value)) = object.next_pair()? {
            match key {
                "numberOfMsgsInQueue" | "msgsInQueue" => waiting = Some(value),
                "processingTimerPerMsg" | "processingTimePerMsg" => each = Some(value),
                "inProcess" => report.in_process = count(value, WAITING_MAX).map(|n| n as u32),
                "received" => report.received = count(value, COUNT_MAX),
                "processed" => report.processed = count(value, COUNT_MAX),
                "sd" => report.sd_ms = value.number().and_then(|sd| unit.time(sd).ok()),
                "concurrency" => report.concurrency = count(value, 65_535.0).map(|n| n as u16),
                _ => {}
            }
        }
        let must = |value: Option<Value>| {
            value
                .ok_or(Refusal::Missing)?
                .number()
                .ok_or(Refusal::Range)
        };
        report.waiting = in_range(must(waiting)?, WAITING_MAX)?.round() as u32;
        report.each_ms = unit.time(must(each)?)?;
        Ok(report)
    }

    /// Reads the short form, as in `3;25.0`: messages waiting, milliseconds for each.
    pub fn from_text(text: &str) -> Result<Report, Refusal> {
        if text.len() > REPORT_BYTES_MAX {
            return Err(Refusal::TooLong);
        }
        let (waiting, each) = text.split_once(';').ok_or(Refusal::Missing)?;
        let number = |text: &str| Value::of_word(text.trim()).map_err(|_| Refusal::Syntax);
        let (waiting, each) = (number(waiting)?, number(each)?);
        Ok(Report {
            waiting: in_range(waiting.number().ok_or(Refusal::Range)?, WAITING_MAX)?.round() as u32,
            each_ms: Unit::Unsaid.time(each.number().ok_or(Refusal::Range)?)?,
            ..Report::default()
        })
    }

    /// Appends the JSON form, in milliseconds.
    pub fn write_json(&self, spelling: Spelling, out: &mut Vec<u8>) {
        let (waiting, each) = spelling.keys();
        let (n, ms) = (self.waiting, sane(self.each_ms));
        // Writing to memory does not fail.
        let _ = write!(out, "{{\"{waiting}\":{n},\"{each}\":{ms:?}");
        let counts = [
            ("inProcess", self.in_process.map(u64::from)),
            ("received", self.received),
            ("processed", self.processed),
            ("concurrency", self.concurrency.map(u64::from)),
        ];
        for (key, value) in counts {
            if let Some(value) = value {
                let _ = write!(out, ",\"{key}\":{value}");
            }
        }
        if let Some(sd) = self.sd_ms {
            let _ = write!(out, ",\"sd\":{:?}", sane(sd));
        }
        out.push(b'}');
    }

    /// The JSON form, in milliseconds.
    pub fn json(&self, spelling: Spelling) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        self.write_json(spelling, &mut out);
        out
    }

    /// The short form, as in `3;25.0`.
    pub fn text(&self) -> String {
        format!("{};{:?}", self.waiting, sane(self.each_ms))
    }
}

/// A number that can be written and read back, whatever the clock of the reporter says.
fn sane(ms: f64) -> f64 {
    if ms.is_finite() && ms > 0.0 { ms } else { 0.0 }
}

fn in_range(value: f64, max: f64) -> Result<f64, Refusal> {
    if value.is_finite() && (0.0..=max).contains(&value) {
        Ok(value)
    } else {
        Err(Refusal::Range)
    }
}

fn count(value: Value, max: f64) -> Option<u64> {
    in_range(value.number()?, max)
        .ok()
        .map(|value| value.round() as u64)
}

/// A value of a flat object.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Number(f64),
    /// A text, a truth value, nothing, or what some languages print for a number that is none.
    Other,
}

impl Value {
    fn number(self) -> Option<f64> {
        match self {
            Value::Number(value) => Some(value),
            Value::Other => None,
        }
    }

    /// A word that is not in quotes.
    fn of_word(word: &str) -> Result<Value, Refusal> {
        match word {
            "true" | "false" | "null" | "NaN" | "Infinity" | "-Infinity" => {
                return Ok(Value::Other);
            }
            "" => return Err(Refusal::Syntax),
            _ => {}
        }
        if !word
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'))
        {
            return Err(Refusal::Syntax);
        }
        word.parse().map(Value::Number).map_err(|_| Refusal::Syntax)
    }
}

/// A flat JSON object, read pair by pair.
struct Object<'a> {
    rest: &'a str,
    first: bool,
}

impl<'a> Object<'a> {
    fn begin(text: &'a str) -> Result<Object<'a>, Refusal> {
        let rest = space(text).strip_prefix('{').ok_or(Refusal::Syntax)?;
        Ok(Object {
            rest: space(rest),
            first: true,
        })
    }

    /// The next key, as it is written, and its value; `None` at the end of an object with nothing behind it.
    fn next_pair(&mut self) -> Result<Option<(&'a str, Value)>, Refusal> {
        if let Some(behind) = self.rest.strip_prefix('}') {
            return if space(behind).is_empty() {
                Ok(None)
            } else {
                Err(Refusal::Syntax)
            };
        }
        if !self.first {
            self.rest = space(self.rest.strip_prefix(',').ok_or(Refusal::Syntax)?);
        }
        self.first = false;
        let (key, rest) = quoted(self.rest)?;
        let rest = space(space(rest).strip_prefix(':').ok_or(Refusal::Syntax)?);
        let (value, rest) = if rest.starts_with('"') {
            (Value::Other, quoted(rest)?.1)
        } else {
            let end = rest
                .find([',', '}', ' ', '\t', '\r', '\n'])
                .ok_or(Refusal::Syntax)?;
            let (word, rest) = rest.split_at(end);
            (Value::of_word(word)?, rest)
        };
        self.rest = space(rest);
        Ok(Some((key, value)))
    }
}

fn space(text: &str) -> &str {
    text.trim_start_matches([' ', '\t', '\r', '\n'])
}

/// The text between the quotes at the start, escapes included, and the rest.
fn quoted(text: &str) -> Result<(&str, &str), Refusal> {
    let inside = text.strip_prefix('"').ok_or(Refusal::Syntax)?;
    let mut escaped = false;
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => {
                let (text, rest) = inside.split_at(at);
                return Ok((text, rest.get(1..).unwrap_or_default()));
            }
            _ => {}
        }
    }
    Err(Refusal::Syntax)
}
