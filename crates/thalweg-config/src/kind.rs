//! The kinds of value a setting takes: how each is written, checked and shown. What they are called is in `kinds.toml`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use serde_json::Value;
use thalweg_kernel::GroupStrategy;
use toml::de::{DeArray, DeValue};

use super::keys::Key;
use super::tables;
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
    Form(&'static str, Read),
    /// Texts of a certain form.
    List(&'static str, Read),
    /// Topic filters, each with a sync policy.
    Policies,
    /// Tables that all have these keys, of which the first says what an entry is about.
    Tables(&'static str, fn() -> Vec<Key>, Check),
}

/// Makes of a text what is kept; relative paths start at the last argument.
pub type Read = fn(&str, &Path) -> Result<String, Fault>;

/// Checks what one entry of a list of tables cannot know.
pub type Check = fn(&[Value]) -> Result<(), Fault>;

/// What a kind is called and how it is written: an entry of `kinds.toml`.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Texts {
    pub title: String,
    pub takes: String,
    mend: Option<String>,
    pub max: Option<usize>,
    why: String,
    pub entry: String,
    pub first: String,
    pub first_mend: String,
    pub required: Vec<String>,
}

pub(super) static TEXTS: LazyLock<BTreeMap<String, Texts>> =
    LazyLock::new(|| toml::from_str(include_str!("kinds.toml")).expect("every test reads it"));

/// What declarations of keys are written with.
pub(super) mod prelude {
    pub(crate) use super::KeyKind::{self, *};
    pub(crate) use crate::choices::Words;
    pub(crate) use crate::forms::*;
    use crate::units::{self, Number, Unit};

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
    /// Expiry crosses the wire as whole seconds in four bytes, of which the last value means "never".
    pub const SECONDS_MAX: u64 = 0xFFFF_FFFE;
    /// How long a member may take.
    pub const SETTLE_TIMEOUT: KeyKind = seconds(1, 7 * 86_400);
    pub const RATE: KeyKind = number(&units::RATE, 1, 0, u64::MAX);
    pub const SIZE_RATE: KeyKind = number(&units::SIZE_RATE, 1, 0, u64::MAX);

    pub const fn count(min: u64, max: u64) -> KeyKind {
        number(&units::COUNT, 1, min, max)
    }

    pub const fn size(min: u64, max: u64) -> KeyKind {
        number(&units::SIZE, 1, min, max)
    }

    pub const fn seconds(min: u64, max: u64) -> KeyKind {
        millis(min * 1000, max * 1000)
    }

    pub const fn millis(min: u64, max: u64) -> KeyKind {
        match min < 1000 {
            true => number(&units::SHORT_DURATION, 1, min * MS, max * MS),
            false => number(&units::DURATION, 1, min * MS, max * MS),
        }
    }

    pub const fn whole_seconds(min: u64, max: u64) -> KeyKind {
        number(&units::DURATION, S, min * S, max * S)
    }

    pub const fn whole_millis(min: u64, max: u64) -> KeyKind {
        number(&units::DURATION, MS, min * MS, max * MS)
    }

    const fn number(unit: &'static Unit, step: u64, min: u64, max: u64) -> KeyKind {
        Number(Number {
            unit,
            step,
            min,
            max,
        })
    }

    /// A second and a millisecond, in what durations are counted in.
    const S: u64 = 1000 * MS;
    const MS: u64 = 1_000_000;
}

/// A value as its author wrote it.
#[derive(Clone, Copy)]
pub enum Written<'a> {
    /// In a file, where relative paths start at its directory.
    Toml(&'a DeValue<'a>, &'a Path),
    /// In the environment or behind `--set`, where nothing is quoted.
    Loose(&'a str),
}

/// Why a value is refused: what is wrong with it, and what to write instead. Where it does not say, its kind does.
#[derive(Debug, Default)]
pub struct Fault {
    pub what: String,
    pub mend: String,
}

impl KeyKind {
    /// The value that `written` means, as the field's type takes it.
    pub(super) fn parse(&self, written: Written) -> Result<Value, Fault> {
        match self {
            KeyKind::List(_, read) => return self.list(*read, written),
            KeyKind::Policies => return tables::policies(self, written),
            KeyKind::Tables(_, keys, check) => {
                let entries = tables::entries(self, &keys(), written)?;
                check(&entries)?;
                return Ok(entries.into());
            }
            _ => {}
        }
        let Some(text) = written.text() else {
            return Err(self.refuses(&written.name()));
        };
        let (is_bare, base) = match written {
            Written::Toml(value, base) => (!value.is_str(), base),
            Written::Loose(_) => (false, Path::new("")),
        };
        let value = self.read(&text, is_bare, base);
        value.map_err(|fault| self.complete(fault, &text))
    }

    fn read(&self, text: &str, is_bare: bool, base: &Path) -> Result<Value, Fault> {
        use KeyKind::{File, Flag, Form, Mode, Number, Path, Secret, Strategy, Text, Word};
        let wants_quotes = matches!(self, Text | Secret | File | Path | Form(..));
        ensure!(!is_bare || !wants_quotes; "takes text, and text needs quotes"; format!("Write \"{text}\""));
        let value = match self {
            Flag => text.parse().ok().map(Value::Bool),
            Number(number) => Some(number.read(text)?.into()),
            Word(words) => words.contains(&text).then(|| text.into()),
            Strategy => GroupStrategy::named(text).map(|it| it.name().into()),
            File | Path => Some(base.join(text).to_string_lossy().into()),
            Form(_, read) => Some(read(text, base)?.into()),
            Mode => {
                let digits = text.strip_prefix("0o").unwrap_or(text);
                // A bare 660 in TOML is the decimal number, which is never what its author means.
                let is_octal = !is_bare || text.starts_with("0o");
                let mode = u64::from_str_radix(digits, 8).ok();
                let mode = mode.filter(|mode| *mode <= 0o777 && is_octal);
                Some(mode.ok_or_else(|| self.refuses(text))?.into())
            }
            _ => Some(text.into()),
        };
        value.ok_or_else(Fault::default)
    }

    pub(super) fn texts(&self) -> &'static Texts {
        let name = match self {
            KeyKind::Flag => "flag",
            KeyKind::Number(number) => number.unit.name,
            KeyKind::Word(_) => "word",
            KeyKind::Strategy => "strategy",
            KeyKind::Text | KeyKind::Secret => "text",
            KeyKind::File => "file",
            KeyKind::Path => "path",
            KeyKind::Mode => "mode",
            KeyKind::Policies => "sync-policies",
            KeyKind::Form(name, _) | KeyKind::List(name, _) | KeyKind::Tables(name, ..) => name,
        };
        &TEXTS[name]
    }

    /// What to write, in words: completes "Write …".
    pub fn expectation(&self) -> String {
        match self {
            KeyKind::Number(number) => self.texts().takes.replace("{range}", &number.range()),
            KeyKind::Word(words) => listed(words, "or"),
            KeyKind::Strategy => listed(GroupStrategy::WORDS, "or"),
            _ => self.texts().takes.clone(),
        }
    }

    pub(super) fn mend(&self) -> String {
        let mend = self.texts().mend.clone();
        mend.unwrap_or_else(|| format!("Write {}", self.expectation()))
    }

    pub(super) fn refuses(&self, given: &str) -> Fault {
        let title = &self.texts().title;
        fault(format!("is {given}, which is not {title}"), self.mend())
    }

    /// `fault` of a text, with what it does not say itself.
    pub(super) fn complete(&self, mut fault: Fault, text: &str) -> Fault {
        if fault.what.is_empty() {
            return self.refuses(&format!("\"{text}\""));
        }
        if fault.mend.is_empty() {
            fault.mend = self.mend();
        }
        fault
    }

    /// Refuses more items than a list of this kind has.
    pub(super) fn bound(&self, count: usize) -> Result<(), Fault> {
        let texts = self.texts();
        let name = texts.title.rsplit(' ').next().unwrap_or_default();
        let (max, why) = (texts.max.unwrap_or(usize::MAX), &texts.why);
        ensure!(count <= max; "has {count} {name}"; format!("Keep at most {max}{why}"));
        Ok(())
    }

    /// `value` as it would be written in a file; empty if it is unset.
    pub fn show(&self, value: &Value) -> String {
        let number = value.as_u64().unwrap_or_default();
        match (self, value) {
            (_, Value::Null) => String::new(),
            (_, Value::String(text)) if text.is_empty() => String::new(),
            (KeyKind::Number(_), _) if number == u64::MAX => String::new(),
            (KeyKind::Number(kind), _) => match kind.unit.show(number) {
                plain if plain.ends_with(|last: char| last.is_ascii_digit()) => plain,
                with_unit => format!("\"{with_unit}\""),
            },
            (KeyKind::Mode, _) => format!("\"{number:04o}\""),
            (KeyKind::Tables(_, keys, _), Value::Array(entries)) => tables::show(&keys(), entries),
            _ => {
                toml::Value::try_from(value).map_or_else(|_| value.to_string(), |it| it.to_string())
            }
        }
    }
}

impl<'a> Written<'a> {
    /// The text of one value.
    pub(super) fn text(self) -> Option<Cow<'a, str>> {
        Some(match self {
            Written::Loose(text) => text.into(),
            Written::Toml(DeValue::String(text), _) => (&**text).into(),
            // The radix is kept because a file mode in decimal is a mistake, in octal it is none.
            Written::Toml(DeValue::Integer(number), _) if number.radix() == 8 => {
                format!("0o{}", number.as_str()).into()
            }
            Written::Toml(DeValue::Integer(number), _) => {
                let whole = u64::from_str_radix(number.as_str(), number.radix());
                whole.map_or(number.to_string(), |it| it.to_string()).into()
            }
            Written::Toml(DeValue::Float(number), _) => number.to_string().into(),
            Written::Toml(DeValue::Boolean(flag), _) => flag.to_string().into(),
            Written::Toml(_, _) => return None,
        })
    }

    /// What it is, for sentences that refuse it.
    pub(super) fn name(self) -> String {
        match (self, self.text()) {
            (_, Some(text)) => format!("\"{text}\""),
            (Written::Toml(DeValue::Array(_), _), _) => "a list".into(),
            (Written::Toml(DeValue::Table(_), _), _) => "a table".into(),
            _ => "a date".into(),
        }
    }

    /// The items of a list, which is written outside the file as in it.
    pub(super) fn list(self) -> Option<DeArray<'a>> {
        match self {
            Written::Toml(DeValue::Array(items), _) => Some(items.clone()),
            Written::Loose(text) => match DeValue::parse(text).ok()?.into_inner() {
                DeValue::Array(items) => Some(items),
                _ => None,
            },
            Written::Toml(_, _) => None,
        }
    }
}

/// Refuses a value unless this holds: with what is wrong else, and what to write instead, as far as its kind does not say.
macro_rules! ensure {
    ($holds:expr) => {
        $crate::kind::ensure!($holds; "")
    };
    ($holds:expr; $what:literal) => {
        $crate::kind::ensure!($holds; $what; "")
    };
    ($holds:expr; $what:literal; $mend:expr) => {
        if !$holds {
            return Err($crate::kind::fault(format!($what), $mend));
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
