//! What a key is, and how one is found by its name.

use std::path::Path;
use std::sync::LazyLock;

use serde_json::Value;

use super::built_in::LISTENER_PRESETS;
use super::kind::{Fault, KeyKind, Written, fault};
use super::nearest::nearest;
use super::section::keys_of;
use super::settings::Config;

/// Every key, in the order of the reference.
static KEYS: LazyLock<Vec<Key>> = LazyLock::new(keys_of::<Config>);

/// One setting, as its field in a section declares it.
pub struct Key {
    /// The dotted name; `<name>` stands for the name of a listener.
    pub name: String,
    pub kind: KeyKind,
    /// The default value, as it would be written behind `--set`; empty is "not set".
    pub default: &'static str,
    /// The word for "none", such as `off`, where there is one.
    pub none: Option<&'static str>,
    /// When a changed value applies.
    pub reload: Reload,
    /// What it is for, in one to three sentences.
    pub doc: String,
}

/// When a value that changed in the file applies after SIGHUP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// At once, to connections that exist too.
    Now,
    /// To connections made from then on.
    NewConnections,
    /// When the broker starts again.
    Restart,
}

/// Why a name is not a key.
pub(super) enum Unknown {
    /// It is a table of settings.
    Table,
    /// The name of a listener is not one.
    ListenerName,
    /// Nothing is called so; the nearest full name, if one is near.
    Name(Option<String>),
}

impl Key {
    /// Every key, in the order of the reference.
    pub fn all() -> impl Iterator<Item = &'static Key> {
        KEYS.iter()
    }

    /// Whether every listener has one of these.
    pub fn is_per_listener(&self) -> bool {
        self.name.starts_with("listeners.")
    }

    /// Whether dumps hide the value.
    pub fn is_secret(&self) -> bool {
        matches!(self.kind, KeyKind::Secret)
    }

    /// The full name for the listener called `listener`.
    pub fn full_name(&self, listener: Option<&str>) -> String {
        self.name.replace("<name>", listener.unwrap_or("<name>"))
    }

    /// The default, as it would be written behind `--set`; built-in listeners have their own.
    /// `None` where a value must be given.
    pub fn default_for(&self, listener: Option<&str>) -> Option<&'static str> {
        let full = self.full_name(listener);
        let preset = LISTENER_PRESETS.iter().find(|(name, _)| *name == full);
        match preset {
            Some((_, value)) => Some(value),
            None if self.name == BIND => None,
            None => Some(self.default),
        }
    }

    /// The value of a default.
    pub(super) fn parse_default(&self, default: &str) -> Value {
        if default.is_empty() {
            return Value::Null;
        }
        let parsed = self.parse(&Written::Loose(default.to_owned()), Path::new(""));
        parsed.unwrap_or_else(|fault| unreachable!("the default of {} {}", self.name, fault.what))
    }

    /// The value that `written` means.
    pub(super) fn parse(&self, written: &Written, base: &Path) -> Result<Value, Fault> {
        if let Written::Quoted(text) | Written::Loose(text) | Written::Bare(text) = written {
            let is_zero =
                self.none.is_some() && self.leaves_out_zero() && text.trim_end_matches("/s") == "0";
            if is_zero || self.none == Some(text.as_str()) {
                return Ok(Value::Null);
            }
            if text.is_empty() && self.none.is_none() {
                if self.default.is_empty() {
                    return Ok(Value::Null);
                }
                let mend = format!(
                    "Write {}, or leave the key out for its default",
                    self.kind.expectation()
                );
                return Err(fault("is empty", mend));
            }
        }
        self.kind.parse(written, base).map_err(|mut fault| {
            if let Some(word) = self.none {
                fault.mend = format!("{}, or \"{word}\"", fault.mend);
            }
            fault
        })
    }

    /// Whether a file has a header in brackets for it.
    fn is_written_like_a_table(&self) -> bool {
        matches!(self.kind, KeyKind::Policies | KeyKind::Tables(_))
    }

    /// Whether a plain `0` can only mean "none".
    fn leaves_out_zero(&self) -> bool {
        match self.kind {
            KeyKind::Count { min, .. } | KeyKind::Size { min, .. } => min > 0,
            KeyKind::Duration { min, .. } => min.nanos() > 0,
            KeyKind::Rate | KeyKind::SizeRate => self.none == Some("off"),
            _ => false,
        }
    }

    /// `value` as it would be written in a file: the word for "none", or empty, where it is unset.
    pub fn show(&self, value: &Value) -> String {
        let shown = self.kind.show(value);
        match (shown.is_empty(), self.none) {
            (true, Some(word)) => format!("\"{word}\""),
            (false, _) if self.is_secret() => "\"(hidden)\"".into(),
            _ => shown,
        }
    }
}

impl Reload {
    /// Whether a changed value waits for the next start.
    pub fn needs_restart(self) -> bool {
        self == Reload::Restart
    }

    /// The answer to "when does a change apply?".
    pub fn sentence(self) -> &'static str {
        match self {
            Reload::Now => "at once after a reload",
            Reload::NewConnections => "to new connections after a reload",
            Reload::Restart => "after a restart",
        }
    }
}

/// The key called `name`, and the listener it belongs to.
pub(super) fn find(name: &str) -> Result<(&'static Key, Option<&str>), Unknown> {
    let listener = listener_of(name);
    let pattern = match listener {
        Some(listener) => name.replacen(&format!("listeners.{listener}."), "listeners.<name>.", 1),
        None => name.to_owned(),
    };
    match Key::all().find(|key| key.name == pattern) {
        Some(_) if listener.is_some_and(|listener| !is_listener_name(listener)) => {
            Err(Unknown::ListenerName)
        }
        Some(key) => Ok((key, listener)),
        None if is_table(name) => Err(Unknown::Table),
        None => Err(Unknown::Name(nearest_key(name))),
    }
}

/// Whether `name` is a table that holds keys.
pub(super) fn is_table(name: &str) -> bool {
    let pattern = match name.strip_prefix("listeners.") {
        Some(rest) => match rest.split_once('.') {
            Some((_, inner)) => format!("listeners.<name>.{inner}."),
            None => "listeners.<name>.".to_owned(),
        },
        None => format!("{name}."),
    };
    Key::all().any(|key| key.name.starts_with(&pattern))
}

/// The known table nearest to `name`.
pub(super) fn nearest_table(name: &str) -> Option<String> {
    let listener = listener_of(name).or_else(|| name.strip_prefix("listeners."));
    let mut tables: Vec<String> = Key::all()
        .filter_map(|key| {
            key.name
                .rsplit_once('.')
                .map(|(table, _)| table.replace("<name>", listener.unwrap_or("<name>")))
        })
        .collect();
    tables.push("listeners".to_owned());
    // These are keys, and written like tables.
    tables.extend(
        Key::all()
            .filter(|key| key.is_written_like_a_table())
            .map(|key| key.name.to_owned()),
    );
    tables.dedup();
    nearest(name, tables.iter().map(String::as_str)).map(str::to_owned)
}

/// Whether a listener may be called `name`: lower case, because environment variables cannot tell.
pub(super) fn is_listener_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
        && !name.contains("__")
}

fn nearest_key(name: &str) -> Option<String> {
    // The second part of a name that has three is a listener's, whatever the first was meant to be.
    let listener = name
        .split('.')
        .nth(1)
        .filter(|_| name.matches('.').count() >= 2)
        .unwrap_or("<name>");
    // Of two that are equally near, the broker's own is suggested, not the one that every listener has.
    let (listeners, broker): (Vec<&Key>, Vec<&Key>) =
        Key::all().partition(|key| key.is_per_listener());
    let names: Vec<String> = broker
        .iter()
        .chain(&listeners)
        .map(|key| key.name.replace("<name>", listener))
        .collect();
    nearest(name, names.iter().map(String::as_str)).map(str::to_owned)
}

fn listener_of(name: &str) -> Option<&str> {
    name.strip_prefix("listeners.")
        .and_then(|rest| rest.split_once('.'))
        .map(|(listener, _)| listener)
}

/// What `is_listener_name` asks for, in words.
pub(super) const LISTENER_NAME_RULE: &str =
    "Use at most 64 lower-case letters, digits, `-` and `_`, and no two `_` in a row";

pub(super) const BIND: &str = "listeners.<name>.bind";
