//! The kinds of value a setting takes: how each is written, checked and shown.

use std::path::Path;

use serde_json::{Value, json};
use thalweg_kernel::GroupStrategy;
use thalweg_model::Span;

use super::choices::{Fsync, Words};
use super::forms::{Form, List};
use super::tables::{self, Tables};

/// What a setting takes.
#[derive(Clone, Copy)]
pub enum KeyKind {
    /// `true` or `false`.
    Flag,
    Count {
        min: u64,
        max: u64,
    },
    /// A number of bytes, plain or with a unit.
    Size {
        min: u64,
        max: u64,
    },
    /// A length of time with its unit.
    Duration {
        min: Span,
        max: Span,
        /// The step values must be a multiple of.
        step: Span,
    },
    Rate,
    SizeRate,
    /// One of these words.
    Word(&'static [&'static str]),
    /// How a shared subscription chooses, by any name that the kernel understands.
    Strategy,
    Text,
    /// Text that dumps hide.
    Secret,
    /// The path of a file that must exist.
    File,
    /// The path of something the broker makes.
    Path,
    /// Permission bits in octal.
    Mode,
    /// Text of a certain form, such as an address.
    Form(&'static Form),
    /// Texts of a certain form.
    List(&'static List),
    /// Topic filters, each with a sync policy.
    Policies,
    /// Tables that all have the same keys.
    Tables(&'static Tables),
}

/// What declarations of keys are written with.
pub(super) mod prelude {
    pub(in crate::config) use super::KeyKind::{self, *};
    pub(in crate::config) use crate::config::choices::Words;
    pub(in crate::config) use crate::config::forms::*;
    use thalweg_model::Span;

    pub const KIB: u64 = 1 << 10;
    pub const MIB: u64 = 1 << 20;
    pub const GIB: u64 = 1 << 30;
    pub const TIB: u64 = 1 << 40;

    /// MQTT's own limit is a Remaining Length of 268,435,455 behind a fixed header of five bytes ([MQTT5-1.5.5]).
    pub const PACKET_BYTES: KeyKind = size(64, 268_435_460);
    /// What one message may take: a body is gathered before it is passed on.
    pub const MESSAGE_BYTES: KeyKind = size(KIB, 512 * MIB);
    /// Keep-alive crosses the wire as whole seconds in two bytes ([MQTT5-3.1.2.10], AMQP 0-9-1 `connection.tune`).
    pub const KEEP_ALIVE: KeyKind = whole_seconds(0, 65_535);
    /// How long a member may take.
    pub const SETTLE_TIMEOUT: KeyKind = seconds(1, 7 * 86_400);

    pub const fn count(min: u64, max: u64) -> KeyKind {
        Count { min, max }
    }

    pub const fn size(min: u64, max: u64) -> KeyKind {
        Size { min, max }
    }

    /// Expiry crosses the wire as whole seconds in four bytes, of which the last value means "never".
    pub const fn expiry(least: u64) -> KeyKind {
        whole_seconds(least, 0xFFFF_FFFE)
    }

    pub const fn seconds(least: u64, most: u64) -> KeyKind {
        millis(least * 1000, most * 1000)
    }

    pub const fn millis(least: u64, most: u64) -> KeyKind {
        duration(least, most, Span::from_nanos(1))
    }

    pub const fn whole_seconds(least: u64, most: u64) -> KeyKind {
        duration(least * 1000, most * 1000, Span::from_secs(1))
    }

    pub const fn whole_millis(least: u64, most: u64) -> KeyKind {
        duration(least, most, Span::from_millis(1))
    }

    const fn duration(least: u64, most: u64, step: Span) -> KeyKind {
        let (min, max) = (Span::from_millis(least), Span::from_millis(most));
        Duration { min, max, step }
    }
}

/// A value as its author wrote it.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// In a file, without quotes: a number or a boolean.
    Bare(String),
    /// In a file, with quotes.
    Quoted(String),
    /// In the environment or behind `--set`, where nothing is quoted.
    Loose(String),
    /// In a file, with square brackets.
    List(Vec<Written>),
    /// In a file, a table inside the key, in the order of its own keys.
    Table(Vec<(String, Written)>),
    /// Something no setting takes, by its name.
    Other(&'static str),
}

/// Why a value is refused: what is wrong with it, and what to write instead.
#[derive(Debug)]
pub(super) struct Fault {
    pub what: String,
    pub mend: String,
}

impl KeyKind {
    /// The value that `written` means, as the field's type takes it. Relative paths start at `base`.
    pub(super) fn parse(&self, written: &Written, base: &Path) -> Result<Value, Fault> {
        match self {
            KeyKind::List(list) => return list.parse(self, written),
            KeyKind::Policies => return tables::policies(self, written),
            KeyKind::Tables(tables) => return tables.parse(self, written),
            _ => {}
        }
        let text = match written {
            Written::Bare(text) if self.wants_quotes() => {
                let mend = format!("Write \"{text}\"");
                return Err(fault("takes text, and text needs quotes", mend));
            }
            Written::Bare(text) | Written::Quoted(text) | Written::Loose(text) => text.as_str(),
            other => return Err(self.refuses(other.name())),
        };
        let quoted = || self.refuses(&format!("\"{text}\""));
        match self {
            KeyKind::Flag => text.parse().map(Value::Bool).map_err(|_| quoted()),
            KeyKind::Count { min, max } => {
                self.within(whole_number(text).ok_or_else(quoted)?, *min, *max, text)
            }
            KeyKind::Size { min, max } => {
                self.within(size(text).ok_or_else(quoted)?, *min, *max, text)
            }
            KeyKind::Rate | KeyKind::SizeRate => {
                let plain = text.trim().strip_suffix("/s").unwrap_or(text);
                let number = match self {
                    KeyKind::Rate => whole_number(plain),
                    _ => size(plain),
                };
                number.map(Value::from).ok_or_else(quoted)
            }
            KeyKind::Duration { min, max, step } => {
                let span = duration(text).ok_or_else(quoted)?;
                if span.nanos() % step.nanos().max(1) != 0 && span >= *min && span <= *max {
                    let step = show_duration(*step);
                    let what = format!("is {text}, which is not a multiple of {step}");
                    return Err(fault(what, format!("Write {}", self.expectation())));
                }
                self.within(span.nanos(), min.nanos(), max.nanos(), text)
            }
            KeyKind::Word(words) if words.contains(&text) => Ok(text.into()),
            KeyKind::Strategy => match GroupStrategy::named(text) {
                Some(strategy) => Ok(strategy.name().into()),
                None => Err(quoted()),
            },
            KeyKind::Text | KeyKind::Secret => Ok(text.into()),
            KeyKind::File | KeyKind::Path => Ok(base.join(text).to_string_lossy().into()),
            KeyKind::Form(form) => (form.read)(self, text, base).map(Value::from),
            KeyKind::Mode => {
                let digits = text.strip_prefix("0o").unwrap_or(text);
                // A bare 660 in TOML is the decimal number, which is never what its author means.
                let ambiguous = matches!(written, Written::Bare(_)) && !text.starts_with("0o");
                match u64::from_str_radix(digits, 8) {
                    Ok(mode) if mode <= 0o777 && !ambiguous => Ok(mode.into()),
                    _ => Err(self.refuses(text)),
                }
            }
            _ => Err(quoted()),
        }
    }

    fn wants_quotes(&self) -> bool {
        matches!(
            self,
            KeyKind::Text | KeyKind::Secret | KeyKind::File | KeyKind::Path | KeyKind::Form(_)
        )
    }

    /// What to write, in words: completes "Write …".
    pub fn expectation(&self) -> String {
        match self {
            KeyKind::Flag => "true or false".into(),
            KeyKind::Count { min, max } => format!("a whole number from {min} to {max}"),
            KeyKind::Size { min, max } => {
                format!(
                    "a size from {} to {}, such as 65536, 64KiB or 1MiB",
                    show_size(*min),
                    show_size(*max)
                )
            }
            KeyKind::Duration { min, max, step } => {
                let (least, most) = (show_duration(*min), show_duration(*max));
                let (steps, examples) = match step.nanos() {
                    1 if *min < Span::from_secs(1) => (String::new(), "20ms, 10s or 1m"),
                    1 => (String::new(), "10s, 5m or 1h"),
                    _ => (
                        format!(" in steps of {}", show_duration(*step)),
                        "10s, 5m or 1h",
                    ),
                };
                format!("a duration from {least} to {most}{steps}, such as {examples}")
            }
            KeyKind::Rate => "a number per second, such as 1000/s".into(),
            KeyKind::SizeRate => "bytes per second, such as 1MiB/s".into(),
            KeyKind::Word(words) => listed(words, "or"),
            KeyKind::Strategy => listed(GroupStrategy::WORDS, "or"),
            KeyKind::Text | KeyKind::Secret => "text".into(),
            KeyKind::File => "the path of a file".into(),
            KeyKind::Path => "a path".into(),
            KeyKind::Mode => "three octal digits in quotes, such as \"0660\"".into(),
            KeyKind::Form(form) => form.takes.into(),
            KeyKind::List(list) => list.expectation(),
            KeyKind::Policies => format!(
                "a table from topic filters to {}, such as {{ \"telemetry/#\" = \"never\" }} (or telemetry/#=never,\
                 plant/+=interval outside the file)",
                listed(Fsync::WORDS, "or")
            ),
            KeyKind::Tables(tables) => tables.expectation(),
        }
    }

    /// `value` as it would be written in a file; empty if it is unset.
    pub fn show(&self, value: &Value) -> String {
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        match (self, value, value.as_u64()) {
            (_, Value::Null, _) => String::new(),
            (KeyKind::Duration { .. } | KeyKind::Rate | KeyKind::SizeRate, _, Some(u64::MAX)) => {
                String::new()
            }
            (_, Value::String(text), _) if text.is_empty() => String::new(),
            (_, Value::String(text), _) => quoted(text),
            (KeyKind::Size { .. }, _, Some(number)) => match show_size(number) {
                plain if plain.ends_with(|last: char| last.is_ascii_digit()) => plain,
                with_unit => quoted(&with_unit),
            },
            (KeyKind::SizeRate, _, Some(number)) => quoted(&format!("{}/s", show_size(number))),
            (KeyKind::Rate, _, Some(number)) => quoted(&format!("{number}/s")),
            (KeyKind::Mode, _, Some(number)) => quoted(&format!("{number:04o}")),
            (KeyKind::Duration { .. }, _, Some(nanos)) => {
                quoted(&show_duration(Span::from_nanos(nanos)))
            }
            (KeyKind::Tables(tables), Value::Array(entries), _) => tables.show(entries),
            (KeyKind::Policies, Value::Array(pairs), _) => {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let pairs = pairs
                    .iter()
                    .map(|pair| (text(&pair[0]), text(&pair[1]).into()));
                toml::Value::Table(pairs.collect()).to_string()
            }
            (_, Value::Array(items), _) => {
                let items: Vec<String> = items
                    .iter()
                    .map(|item| quoted(item.as_str().unwrap_or_default()))
                    .collect();
                format!("[{}]", items.join(", "))
            }
            _ => value.to_string(),
        }
    }

    fn within(&self, number: u64, min: u64, max: u64, text: &str) -> Result<Value, Fault> {
        if (min..=max).contains(&number) {
            return Ok(json!(number));
        }
        let what = format!("is {text}, which is out of range");
        Err(fault(what, format!("Write {}", self.expectation())))
    }

    pub(super) fn refuses(&self, given: &str) -> Fault {
        let article = match self {
            KeyKind::Flag => "true or false",
            KeyKind::Size { .. } => "a size",
            KeyKind::Count { .. } => "a whole number",
            KeyKind::Duration { .. } => "a duration with its unit",
            KeyKind::Rate | KeyKind::SizeRate => "a rate",
            KeyKind::Word(_) => "one of its words",
            KeyKind::Strategy => "a strategy",
            KeyKind::Policies => "a table of policies",
            KeyKind::Mode => "octal permissions",
            KeyKind::Text | KeyKind::Secret => "text",
            KeyKind::File => "file",
            KeyKind::Path => "path",
            KeyKind::Form(form) => form.title,
            KeyKind::List(list) => list.title,
            KeyKind::Tables(tables) => tables.title,
        };
        let mend = match self {
            KeyKind::Tables(tables) => tables.mend.into(),
            _ => format!("Write {}", self.expectation()),
        };
        fault(format!("is {given}, which is not {article}"), mend)
    }
}

impl Written {
    /// What it is, for sentences that refuse it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Written::List(_) => "a list",
            Written::Table(_) => "a table",
            Written::Other(name) => name,
            Written::Bare(_) | Written::Quoted(_) | Written::Loose(_) => "one value",
        }
    }
}

pub(super) fn fault(what: impl Into<String>, mend: impl Into<String>) -> Fault {
    Fault {
        what: what.into(),
        mend: mend.into(),
    }
}

/// `a, b or c`, with this word before the last.
pub(super) fn listed<T: AsRef<str>>(words: &[T], last_word: &str) -> String {
    let words: Vec<&str> = words.iter().map(T::as_ref).collect();
    match words.as_slice() {
        [rest @ .., last] if !rest.is_empty() => format!("{} {last_word} {last}", rest.join(", ")),
        words => words.join(", "),
    }
}

fn whole_number(text: &str) -> Option<u64> {
    let digits = text.trim().replace('_', "");
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

/// Splits `10 MiB` into its number and what follows.
fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let end = text
        .find(|letter: char| !letter.is_ascii_digit() && letter != '_')
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at_checked(end)?;
    Some((whole_number(digits)?, unit.trim()))
}

fn size(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    let factor = SIZES.iter().find(|(name, _)| *name == unit)?.1;
    number.checked_mul(factor)
}

fn duration(text: &str) -> Option<Span> {
    let (number, unit) = number_and_unit(text)?;
    if number == 0 && unit.is_empty() {
        return Some(Span::ZERO);
    }
    let factor = DURATIONS.iter().find(|(name, _)| *name == unit)?.1;
    number.checked_mul(factor).map(Span::from_nanos)
}

/// `bytes` in the largest unit that keeps it a whole number.
pub(super) fn show_size(bytes: u64) -> String {
    let (unit, factor) = SIZES
        .iter()
        .rev()
        .find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor))
        .unwrap_or(&("", 1));
    format!("{}{unit}", bytes / factor)
}

/// `span` in the largest unit that keeps it a whole number.
pub(super) fn show_duration(span: Span) -> String {
    let nanos = span.nanos();
    let (unit, factor) = DURATIONS
        .iter()
        .rev()
        .find(|(_, factor)| nanos > 0 && nanos.is_multiple_of(*factor))
        .unwrap_or(&("s", 1_000_000_000));
    format!("{}{unit}", nanos / factor)
}

const SIZES: &[(&str, u64)] = &[
    ("B", 1),
    ("", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

const DURATIONS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_read_back_as_they_are_shown() {
        for bytes in [0, 1, 1000, 1024, 65536, 1 << 20, 3 << 30, (1 << 30) + 1] {
            assert_eq!(size(&show_size(bytes)), Some(bytes));
        }
        for nanos in [
            0,
            1,
            1_000,
            20_000_000,
            10_000_000_000,
            3_600_000_000_000,
            7 * 86_400_000_000_000,
        ] {
            let span = Span::from_nanos(nanos);
            assert_eq!(duration(&show_duration(span)), Some(span));
        }
        assert_eq!(show_size(65536), "64KiB");
        assert_eq!(show_duration(Span::from_secs(90)), "90s");
    }

    #[test]
    fn a_number_too_large_to_hold_is_refused_not_wrapped() {
        assert_eq!(size("18446744073709551615TiB"), None);
        assert_eq!(duration("99999999999999999999d"), None);
        assert_eq!(whole_number(""), None);
        assert_eq!(whole_number("-1"), None);
    }
}
