//! What the configuration says about itself: one key, all keys, the values in force, the difference between two.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde_json::Value;

use super::error::{ConfigError, Origin, Origins};
use super::keys::{Key, Reload, find, refusal, variable_for};
use super::settings::Config;

/// A key whose value differs between two configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The full name of the key.
    pub key: String,
    /// The value before, as it would be written in a file; empty if it was not set or its listener did not exist.
    pub before: String,
    /// The value after, likewise.
    pub after: String,
    /// When the new value applies.
    pub reload: Reload,
}

impl Config {
    /// What differs in `other`. SIGHUP logs this, and carries out what it can.
    pub fn diff(&self, other: &Config) -> Vec<Change> {
        let values = |config: &Config| -> BTreeMap<String, Value> {
            let entries = config.entries().into_iter();
            entries.map(|it| (it.name, it.value)).collect()
        };
        changes(&values(self), &values(other), Key::show)
    }

    /// Every value in force by the full name of its key, as it would be written in a file; empty if it is not set,
    /// `"(hidden)"` for a secret.
    pub fn values(&self) -> BTreeMap<String, String> {
        let entries = self.entries().into_iter();
        entries
            .map(|it| (it.name, it.key.show(&it.value)))
            .collect()
    }

    /// What this configuration changes at a broker whose [`Config::values`] are `running`, by name. Of secrets only setting
    /// and removing is seen.
    pub fn diff_from(&self, running: &BTreeMap<String, String>) -> Vec<Change> {
        changes(running, &self.values(), |_, shown| shown.clone())
    }

    /// Explains the key or table called `name`: what it is for, what it takes, its default, its value here and where
    /// that came from. `listeners.<name>.…` explains the key for every listener. Of an address it says which policies hold.
    pub fn explain(&self, origins: &Origins, name: &str) -> Result<String, ConfigError> {
        let below = format!("{name}.");
        let pattern = Key::all().find(|key| key.name == name);
        let pattern = pattern.map(|key| (key, None));
        let mut keys: Vec<_> = pattern.or_else(|| find(name)).into_iter().collect();
        let entries = self.entries();
        let of_table = entries.iter().filter(|it| it.name.starts_with(&below));
        keys.extend(of_table.map(|it| (it.key, it.listener)));
        if keys.is_empty() {
            let text = self.explain_address(name);
            return text.ok_or_else(|| refusal(name, Origin::Default));
        }
        let explain = |(key, listener): (&_, _)| self.explain_key(origins, key, listener);
        Ok(keys.into_iter().map(explain).collect::<Vec<_>>().join("\n"))
    }

    fn explain_key(&self, origins: &Origins, key: &Key, listener: Option<&str>) -> String {
        let mut text = key.full_name(listener);
        let mut column = WIDTH;
        for word in key.doc.split(' ') {
            column += 1 + word.len();
            if column > WIDTH {
                column = word.len();
                text.push_str("\n    ");
            } else {
                text.push(' ');
            }
            text.push_str(word);
        }
        let _ = writeln!(text, "\n  takes       {}", takes(key));
        let default = shown_default(key, listener).unwrap_or_else(str::to_owned);
        let _ = writeln!(text, "  default     {default}");
        // A pattern has a value for each listener; a key has one.
        let mut entries = self.entries();
        entries.retain(|it| {
            it.key.name == key.name && (listener.is_none() || it.listener == listener)
        });
        if entries.is_empty() {
            let _ = writeln!(text, "  value       none: there is no such listener");
        }
        for entry in entries {
            let whose = match entry.listener == listener {
                true => String::new(),
                false => format!("{} = ", entry.name),
            };
            let (shown, origin) = (key.show(&entry.value), origins.of(&entry.name));
            let shown = if shown.is_empty() { "not set" } else { &shown };
            let _ = writeln!(text, "  value       {whose}{shown} ({origin})");
        }
        let _ = writeln!(text, "  a change    applies {}", key.reload);
        let variable = variable_for(&key.full_name(listener));
        let _ = writeln!(text, "  environment {variable}");
        text
    }

    /// Every value in force as a TOML file that means the same, with where each came from. Secrets are left out.
    pub fn to_toml(&self, origins: &Origins) -> String {
        let mut text = String::from("# The configuration in force.\n");
        let mut table = String::new();
        // TOML wants the keys without a table first, and each table in one piece.
        let mut entries = self.entries();
        entries.sort_by_key(|it| it.listener);
        for it in entries {
            let (section, last) = it.name.rsplit_once('.').unwrap_or(("", &it.name));
            if section != table {
                let _ = write!(text, "\n[{section}]\n");
                table = section.to_owned();
            }
            let origin = origins.of(&it.name);
            let _ = match (it.key.show(&it.value).as_str(), it.key.is_secret()) {
                ("", _) => writeln!(text, "# {last} is not set"),
                (shown, true) => writeln!(text, "# {last} = {shown} # {origin}"),
                (shown, false) => writeln!(text, "{last} = {shown} # {origin}"),
            };
        }
        text
    }
}

/// What differs between values by name, in the order of the reference.
fn changes<T: PartialEq>(
    before: &BTreeMap<String, T>,
    after: &BTreeMap<String, T>,
    show: fn(&Key, &T) -> String,
) -> Vec<Change> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let change = |name: &String| {
        // A broker of another version may have keys that this one has not.
        let (key, _) = find(name)?;
        let (old, new) = (before.get(name), after.get(name));
        let shown = |value: Option<&T>| value.map_or_else(String::new, |value| show(key, value));
        let change = Change {
            key: name.clone(),
            before: shown(old),
            after: shown(new),
            // A listener that comes or goes does so at once, whatever its keys say about changes.
            reload: old.and(new).map_or(Reload::Now, |_| key.reload),
        };
        let position = Key::all().position(|it| it.name == key.name);
        (old != new).then_some((position, change))
    };
    let mut changes: Vec<_> = names.into_iter().filter_map(change).collect();
    changes.sort_by_key(|(position, _)| *position);
    changes.into_iter().map(|(_, change)| change).collect()
}

/// The reference of all keys in Markdown; `docs/reference/config.md` is this text.
pub fn reference() -> String {
    let mut text = String::from(include_str!("reference_head.md"));
    let mut chapter = None;
    for key in Key::all() {
        // A chapter for each first level of the names.
        let first = key.name.split_once('.').map(|(first, _)| first);
        if let Some(first) = first
            && chapter.replace(first) != Some(first)
        {
            let of_each = if first == "listeners" { ".<name>" } else { "" };
            let _ = writeln!(text, "\n## `[{first}{of_each}]`");
        }
        let _ = write!(text, "\n### `{}`\n\n{}\n\n", key.name, escaped(key.doc));
        let _ = writeln!(text, "- Takes: {}", escaped(&takes(key)));
        let default = shown_default(key, None);
        let default = default.map_or_else(str::to_owned, |value| format!("`{value}`"));
        let _ = writeln!(text, "- Default: {default}");
        let _ = writeln!(text, "- A change applies {}.", key.reload);
    }
    text
}

/// What `key` takes, with its word for "none".
fn takes(key: &Key) -> String {
    let word = key.none.map(|word| format!(", or \"{word}\""));
    key.kind.expectation() + &word.unwrap_or_default()
}

/// The default as it would be written in a file, or words that say why there is none.
fn shown_default(key: &Key, listener: Option<&str>) -> Result<String, &'static str> {
    let default = key.default_for(listener).ok_or("none: must be given")?;
    match key.show(&key.parse_default(default)) {
        shown if shown.is_empty() => Err("not set"),
        shown => Ok(shown),
    }
}

/// `$` would begin a formula and `<` a tag in some Markdown readers; inside backquotes both are safe already.
fn escaped(text: &str) -> String {
    let escape = |(at, part): (usize, &str)| match at % 2 {
        0 => part
            .replace('<', "\\<")
            .replace('$', "\\$")
            .replace('*', "\\*"),
        _ => part.to_owned(),
    };
    let parts = text.split('`').enumerate().map(escape);
    parts.collect::<Vec<_>>().join("`")
}

/// The longest line of an explanation.
const WIDTH: usize = 76;
