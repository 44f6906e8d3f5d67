//! The kinds of value a setting takes: how each is written, checked and shown.

use std::path::Path;

use serde_json::Value;
use thalweg_kernel::GroupStrategy;

use super::forms::{Form, List};
use super::tables::{self, Tables};
use super::units::Number;

/// What a setting takes.
#[derive(Clone, Copy)]
pub enum KeyKind {
    /// `true` or `false`.
    Flag,
    Number(Number),
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
    use crate::config::units::{self, Number, Unit};

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
    pub const RATE: KeyKind = number(&units::RATE, 0, u64::MAX, 1);
    pub const SIZE_RATE: KeyKind = number(&units::SIZE_RATE, 0, u64::MAX, 1);

    pub const fn count(min: u64, max: u64) -> KeyKind {
        number(&units::COUNT, min, max, 1)
    }

    pub const fn size(min: u64, max: u64) -> KeyKind {
        number(&units::SIZE, min, max, 1)
    }

    /// Expiry crosses the wire as whole seconds in four bytes, of which the last value means "never".
    pub const fn expiry(least: u64) -> KeyKind {
        whole_seconds(least, 0xFFFF_FFFE)
    }

    pub const fn seconds(least: u64, most: u64) -> KeyKind {
        millis(least * 1000, most * 1000)
    }

    pub const fn millis(least: u64, most: u64) -> KeyKind {
        let unit = if least < 1000 {
            &units::SHORT_DURATION
        } else {
            &units::DURATION
        };
        number(unit, least * MS, most * MS, 1)
    }

    pub const fn whole_seconds(least: u64, most: u64) -> KeyKind {
        number(
            &units::DURATION,
            least * 1000 * MS,
            most * 1000 * MS,
            1000 * MS,
        )
    }

    pub const fn whole_millis(least: u64, most: u64) -> KeyKind {
        number(&units::DURATION, least * MS, most * MS, MS)
    }

    const fn number(unit: &'static Unit, min: u64, max: u64, step: u64) -> KeyKind {
        Number(Number {
            unit,
            min,
            max,
            step,
        })
    }

    /// A millisecond, in what durations are counted in.
    const MS: u64 = 1_000_000;
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
    /// In a file, a date, which no setting takes.
    Date,
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
        let text = written
            .text()
            .ok_or_else(|| self.refuses(&written.name()))?;
        let is_bare = matches!(written, Written::Bare(_));
        if is_bare && self.wants_quotes() {
            let mend = format!("Write \"{text}\"");
            return Err(fault("takes text, and text needs quotes", mend));
        }
        let value = match self {
            KeyKind::Flag => text.parse().ok().map(Value::Bool),
            KeyKind::Number(number) => match number.read(text) {
                Err(Some(what)) => return Err(fault(what, self.mend())),
                number => number.ok().map(Value::from),
            },
            KeyKind::Word(words) => words.contains(&text).then(|| text.into()),
            KeyKind::Strategy => GroupStrategy::named(text).map(|it| it.name().into()),
            KeyKind::File | KeyKind::Path => Some(base.join(text).to_string_lossy().into()),
            KeyKind::Form(form) => Some((form.read)(self, text, base)?.into()),
            KeyKind::Mode => {
                let digits = text.strip_prefix("0o").unwrap_or(text);
                // A bare 660 in TOML is the decimal number, which is never what its author means.
                let is_octal = !is_bare || text.starts_with("0o");
                let mode = u64::from_str_radix(digits, 8).ok();
                let mode = mode.filter(|mode| *mode <= 0o777 && is_octal);
                return mode.map(Value::from).ok_or_else(|| self.refuses(text));
            }
            _ => Some(text.into()),
        };
        value.ok_or_else(|| self.refuses_text(text))
    }

    fn wants_quotes(&self) -> bool {
        use KeyKind::{File, Form, Path, Secret, Text};
        matches!(self, Text | Secret | File | Path | Form(_))
    }

    /// What it is and what to write, in words: they complete "which is not …" and "Write …".
    fn words(&self) -> (&'static str, String) {
        let (title, takes) = match self {
            KeyKind::Flag => ("true or false", "true or false"),
            KeyKind::Text | KeyKind::Secret => ("text", "text"),
            KeyKind::File => ("file", "the path of a file"),
            KeyKind::Path => ("path", "a path"),
            KeyKind::Mode => (
                "octal permissions",
                "three octal digits in quotes, such as \"0660\"",
            ),
            KeyKind::Form(form) => (form.title, form.takes),
            KeyKind::Number(number) => return (number.unit.title, number.expectation()),
            KeyKind::Word(words) => return ("one of its words", listed(words, "or")),
            KeyKind::Strategy => return ("a strategy", listed(GroupStrategy::WORDS, "or")),
            KeyKind::List(list) => return (list.title, list.expectation()),
            KeyKind::Policies => return ("a table of policies", tables::policies_expectation()),
            KeyKind::Tables(tables) => return (tables.title, tables.expectation()),
        };
        (title, takes.into())
    }

    /// What to write, in words: completes "Write …".
    pub fn expectation(&self) -> String {
        self.words().1
    }

    pub(super) fn mend(&self) -> String {
        match self {
            KeyKind::Tables(tables) => tables.mend.into(),
            _ => format!("Write {}", self.expectation()),
        }
    }

    pub(super) fn refuses(&self, given: &str) -> Fault {
        fault(
            format!("is {given}, which is not {}", self.words().0),
            self.mend(),
        )
    }

    /// `text` if it has the form.
    pub(super) fn accept(&self, has_form: bool, text: &str) -> Result<String, Fault> {
        has_form
            .then(|| text.to_owned())
            .ok_or_else(|| self.refuses_text(text))
    }

    pub(super) fn refuses_text(&self, text: &str) -> Fault {
        self.refuses(&format!("\"{text}\""))
    }

    /// `value` as it would be written in a file; empty if it is unset.
    pub fn show(&self, value: &Value) -> String {
        let number = value.as_u64().unwrap_or_default();
        match (self, value) {
            (_, Value::Null) => String::new(),
            (_, Value::String(text)) if text.is_empty() => String::new(),
            (KeyKind::Number(_), _) if number == u64::MAX => String::new(),
            (KeyKind::Number(Number { unit, .. }), _) => match unit.show(number) {
                plain if plain.ends_with(|last: char| last.is_ascii_digit()) => plain,
                with_unit => format!("\"{with_unit}\""),
            },
            (KeyKind::Mode, _) => format!("\"{number:04o}\""),
            (KeyKind::Tables(tables), Value::Array(entries)) => tables.show(entries),
            (KeyKind::Policies, Value::Array(pairs)) => {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let pair = |pair: &Value| (text(&pair[0]), pair[1].clone());
                as_toml(&pairs.iter().map(pair).collect())
            }
            _ => as_toml(value),
        }
    }
}

impl Written {
    /// The text of one value.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Written::Bare(text) | Written::Quoted(text) | Written::Loose(text) => Some(text),
            _ => None,
        }
    }

    /// What it is, for sentences that refuse it.
    pub(super) fn name(&self) -> String {
        match self {
            Written::List(_) => "a list".into(),
            Written::Table(_) => "a table".into(),
            Written::Date => "a date".into(),
            Written::Bare(text) | Written::Quoted(text) | Written::Loose(text) => {
                format!("\"{text}\"")
            }
        }
    }
}

/// Refuses a value unless this holds: with what is wrong else, and what to write instead.
macro_rules! ensure {
    ($holds:expr; $what:literal; $mend:expr) => {
        if !$holds {
            return Err($crate::config::kind::fault(format!($what), $mend));
        }
    };
}

pub(super) use ensure;

pub(super) fn fault(what: impl Into<String>, mend: impl Into<String>) -> Fault {
    let (what, mend) = (what.into(), mend.into());
    Fault { what, mend }
}

/// `a, b or c`, with this word before the last.
pub(super) fn listed<T: AsRef<str>>(words: &[T], last_word: &str) -> String {
    let words: Vec<&str> = words.iter().map(T::as_ref).collect();
    match words.as_slice() {
        [rest @ .., last] if !rest.is_empty() => format!("{} {last_word} {last}", rest.join(", ")),
        words => words.join(", "),
    }
}

fn as_toml(value: &Value) -> String {
    toml::Value::try_from(value).map_or_else(|_| value.to_string(), |value| value.to_string())
}
