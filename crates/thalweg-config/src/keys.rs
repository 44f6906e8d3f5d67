//! What a key is, and how one is found by its name.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::Value;

use super::built_in::LISTENER_PRESETS;
use super::choices::words;
use super::error::{ConfigError, Origin};
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
    pub doc: &'static str,
}

words! {
    /// When a value that changed in the file applies after SIGHUP.
    pub enum Reload {
        /// To connections that exist too.
        Now = "at once after a reload",
        /// To connections made from then on.
        NewConnections = "to new connections after a reload",
        Restart = "after a restart",
    }
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
        match LISTENER_PRESETS.iter().find(|(name, _)| *name == full) {
            Some((_, value)) => Some(value),
            None => (self.name != "listeners.<name>.bind").then_some(self.default),
        }
    }

    /// The value of a default.
    pub(super) fn parse_default(&self, default: &str) -> Value {
        if default.is_empty() {
            return Value::Null;
        }
        let parsed = self.parse(Written::Loose(default));
        parsed.unwrap_or_else(|fault| unreachable!("the default of {} {}", self.name, fault.what))
    }

    /// The value that `written` means.
    pub(super) fn parse(&self, written: Written) -> Result<Value, Fault> {
        match (written.text().as_deref(), self.none) {
            (Some(text), Some(word)) if text == word || self.is_zero_for_none(text) => {
                return Ok(Value::Null);
            }
            (Some(""), None) if self.default.is_empty() => return Ok(Value::Null),
            (Some(""), None) => {
                let mend = format!("{}, or leave the key out for its default", self.kind.mend());
                return Err(fault("is empty", mend));
            }
            _ => {}
        }
        self.kind.parse(written).map_err(|mut fault| {
            if let Some(word) = self.none {
                fault.mend = format!("{}, or \"{word}\"", fault.mend);
            }
            fault
        })
    }

    /// Whether `text` is a plain 0 that can only mean "none".
    fn is_zero_for_none(&self, text: &str) -> bool {
        let is_left_out = matches!(self.kind, KeyKind::Number(it)
            if it.min > 0 || it.unit.is_rate() && self.none == Some("off"));
        is_left_out && text.trim_end_matches("/s") == "0"
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

/// Every key at each of its places: a listener of these, or `None` for the broker.
pub(super) fn places<'a>(listeners: &BTreeSet<&'a str>) -> Vec<(&'static Key, Option<&'a str>)> {
    let places = |key: &'static Key| match key.is_per_listener() {
        true => listeners.iter().map(|name| (key, Some(*name))).collect(),
        false => vec![(key, None)],
    };
    Key::all().flat_map(places).collect()
}

/// The key called `name`, and the listener it belongs to.
pub(super) fn find(name: &str) -> Option<(&'static Key, Option<&str>)> {
    let (pattern, listener) = pattern_of(name);
    let key = Key::all().find(|key| key.name == pattern)?;
    let is_name = listener.is_none_or(is_listener_name);
    is_name.then_some((key, listener))
}

/// `name` with `<name>` for the listener that it names, as keys are called.
fn pattern_of(name: &str) -> (String, Option<&str>) {
    let Some(rest) = name.strip_prefix("listeners.") else {
        return (name.to_owned(), None);
    };
    let listener = rest.split('.').next().unwrap_or(rest);
    let pattern = format!("listeners.<name>{}", &rest[listener.len()..]);
    (pattern, Some(listener))
}

/// Whether `name` is a table that holds keys.
pub(super) fn is_table(name: &str) -> bool {
    let pattern = pattern_of(name).0 + ".";
    Key::all().any(|key| key.name.starts_with(&pattern))
}

/// Says that `name` is not a setting, and what it may have been meant to be.
pub(super) fn refusal(name: &str, origin: Origin) -> ConfigError {
    let (pattern, _) = pattern_of(name);
    let near = nearest_key(name);
    let (shown, near) = match &origin {
        Origin::Environment(variable) => (variable.as_str(), near.map(|it| variable_for(&it))),
        _ => (name, near),
    };
    let (what, mend) = match near {
        _ if Key::all().any(|key| key.name == pattern) => {
            let what = "names a listener in a way that it cannot be called";
            (what, LISTENER_NAME_RULE.to_owned())
        }
        _ if is_table(name) => (
            "is a table of settings, not a value",
            "Set the keys inside it".into(),
        ),
        Some(near) => ("is not a setting", format!("Did you mean {near}?")),
        None => (
            "is not a setting",
            "See docs/reference/config.md for the settings there are".into(),
        ),
    };
    ConfigError::new(origin.clone(), format!("{shown} {what}"), mend)
}

/// The environment variable for the key called `name`.
pub(super) fn variable_for(name: &str) -> String {
    format!("{PREFIX}{}", name.replace('.', "__").to_uppercase())
}

/// The known table nearest to `name`.
pub(super) fn nearest_table(name: &str) -> Option<String> {
    let (_, listener) = pattern_of(name);
    let keys = Key::all().map(|key| (key.full_name(listener), key.kind));
    let tables = keys.filter_map(|(name, kind)| match kind {
        // These are keys, and written like tables.
        KeyKind::Policies | KeyKind::Tables(..) => Some(name),
        _ => Some(name.rsplit_once('.')?.0.to_owned()),
    });
    nearest(name, tables.chain(["listeners".to_owned()]))
}

fn nearest_key(name: &str) -> Option<String> {
    // The second part of a name that has three is a listener's, whatever the first was meant to be.
    let parts: Vec<&str> = name.split('.').collect();
    let listener = parts.get(1).filter(|_| parts.len() > 2).copied();
    // Of two that are equally near, the broker's own is suggested, not the one that every listener has.
    let mut keys: Vec<&Key> = Key::all().collect();
    keys.sort_by_key(|key| key.is_per_listener());
    nearest(name, keys.iter().map(|key| key.full_name(listener)))
}

/// Whether a listener may be called `name`: lower case, because environment variables cannot tell.
pub(super) fn is_listener_name(name: &str) -> bool {
    let is_plain = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain) && !name.contains("__")
}

/// What `is_listener_name` asks for, in words.
pub(super) const LISTENER_NAME_RULE: &str =
    "Use at most 64 lower-case letters, digits, `-` and `_`, and no two `_` in a row";

/// What the names of environment variables for keys begin with.
pub(super) const PREFIX: &str = "THALWEG_";
