//! What the configuration says about itself: one key, all keys, the values in force, the difference between two.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::error::{ConfigError, Origin, Origins};
use super::keys::{Key, Reload, find, is_table, places, refusal, variable_for};
use super::load::{Entry, get};
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
    /// What differs in `other`, in the order of the reference. SIGHUP logs this, and carries out what it can.
    pub fn diff(&self, other: &Config) -> Vec<Change> {
        let (old, new) = (self.tree(), other.tree());
        let listeners = self.listeners.keys().chain(other.listeners.keys());
        let listeners: BTreeSet<&str> = listeners.map(String::as_str).collect();
        let change = |(key, listener): (&Key, _)| {
            let name = key.full_name(listener);
            let (before, after) = (get(&old, &name), get(&new, &name));
            let shown = |value: Option<_>| value.map(|value| key.show(value));
            (before != after).then(|| Change::of(key, name, shown(before), shown(after)))
        };
        let places = places(&listeners.into_iter().collect::<Vec<_>>());
        places.into_iter().filter_map(change).collect()
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
        let values = self.values();
        let names: BTreeSet<&String> = values.keys().chain(running.keys()).collect();
        let change = |name: &String| {
            let (before, after) = (running.get(name).cloned(), values.get(name).cloned());
            // A broker of another version may have keys that this one has not.
            let (key, _) = find(name)?;
            (before != after).then(|| Change::of(key, name.clone(), before, after))
        };
        names.into_iter().filter_map(change).collect()
    }

    /// Explains the key or table called `name`: what it is for, what it takes, its default, its value here and where
    /// that came from. `listeners.<name>.…` explains the key for every listener. Of an address it says which policies hold.
    pub fn explain(&self, origins: &Origins, name: &str) -> Result<String, ConfigError> {
        let mut keys = Key::all();
        let pattern = keys.find(|key| key.name == name).map(|key| (key, None));
        let mut keys: Vec<_> = pattern.or_else(|| find(name)).into_iter().collect();
        if keys.is_empty() && is_table(name) {
            let below = format!("{name}.");
            let mut entries = self.entries();
            entries.retain(|it| it.name.starts_with(&below));
            keys.extend(entries.iter().map(|it| (it.key, it.listener)));
        } else if keys.is_empty() {
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
            let name = Some(entry.name.as_str()).filter(|_| entry.listener != listener);
            let whose = name.map_or_else(String::new, |name| format!("{name} = "));
            let shown = Some(key.show(&entry.value)).filter(|it| !it.is_empty());
            let shown = shown.as_deref().unwrap_or("not set");
            let _ = writeln!(
                text,
                "  value       {whose}{shown} ({})",
                origins.of(&entry.name)
            );
        }
        let _ = writeln!(text, "  a change    applies {}", key.reload.sentence());
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
        for Entry {
            key, name, value, ..
        } in entries
        {
            let (section, last) = name.rsplit_once('.').unwrap_or(("", &name));
            if section != table {
                let _ = write!(text, "\n[{section}]\n");
                table = section.to_owned();
            }
            let origin = origins.of(&name);
            let _ = match (key.show(&value).as_str(), key.is_secret()) {
                ("", _) => writeln!(text, "# {last} is not set"),
                (shown, true) => writeln!(text, "# {last} = {shown} # {origin}"),
                (shown, false) => writeln!(text, "{last} = {shown} # {origin}"),
            };
        }
        text
    }
}

impl Change {
    /// A listener that comes or goes does so at once, whatever its keys say about changes.
    fn of(key: &Key, name: String, before: Option<String>, after: Option<String>) -> Change {
        let reload = match (&before, &after) {
            (Some(_), Some(_)) => key.reload,
            _ => Reload::Now,
        };
        let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
        Change {
            key: name,
            before,
            after,
            reload,
        }
    }
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
        let _ = write!(text, "\n### `{}`\n\n{}\n\n", key.name, escaped(&key.doc));
        let _ = writeln!(text, "- Takes: {}", escaped(&takes(key)));
        let default = shown_default(key, None);
        let default = default.map_or_else(str::to_owned, |value| format!("`{value}`"));
        let _ = writeln!(text, "- Default: {default}");
        let _ = writeln!(text, "- A change applies {}.", key.reload.sentence());
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
    let mut quoted = false;
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        quoted ^= letter == '`';
        if !quoted && matches!(letter, '<' | '$' | '*') {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

/// The longest line of an explanation.
const WIDTH: usize = 76;
