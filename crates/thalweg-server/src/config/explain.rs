//! What the configuration says about itself: one key, all keys, the values in force, the difference between two.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::error::{ConfigError, Origin, Origins};
use super::keys::{Key, Reload, find, is_table};
use super::load::get;
use super::settings::Config;
use super::sources::{refusal, variable_for};
use serde_json::Value;

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

impl Change {
    /// A listener that comes or goes does so at once, whatever its keys say about changes.
    fn of(key: &Key, name: String, before: Option<String>, after: Option<String>) -> Change {
        let exists_in_both = before.is_some() && after.is_some();
        Change {
            key: name,
            before: before.unwrap_or_default(),
            after: after.unwrap_or_default(),
            reload: match exists_in_both {
                true => key.reload,
                false => Reload::Now,
            },
        }
    }
}

impl Config {
    /// What differs in `other`, in the order of the reference. SIGHUP logs this, and carries out what it can.
    pub fn diff(&self, other: &Config) -> Vec<Change> {
        let (old, new) = (self.tree(), other.tree());
        let change = |key: &Key, listener: Option<&str>| {
            let name = key.full_name(listener);
            let (before, after) = (get(&old, &name), get(&new, &name));
            let show = |value: &Value| key.show(value);
            (before != after).then(|| Change::of(key, name, before.map(show), after.map(show)))
        };
        let mut changes = Vec::new();
        for key in Key::all() {
            let mut places = self.places(key);
            places.extend(other.places(key));
            places.sort();
            places.dedup();
            changes.extend(places.into_iter().filter_map(|place| change(key, place)));
        }
        changes
    }

    /// Every value in force by the full name of its key, as it would be written in a file; empty if it is not set,
    /// `"(hidden)"` for a secret.
    pub fn values(&self) -> BTreeMap<String, String> {
        let mut values = BTreeMap::new();
        let tree = self.tree();
        for key in Key::all() {
            for listener in self.places(key) {
                let name = key.full_name(listener);
                if let Some(shown) = get(&tree, &name).map(|value| key.show(value)) {
                    values.insert(name, shown);
                }
            }
        }
        values
    }

    /// What this configuration changes at a broker whose [`Config::values`] are `running`, by name. Of secrets only setting
    /// and removing is seen.
    pub fn diff_from(&self, running: &BTreeMap<String, String>) -> Vec<Change> {
        let values = self.values();
        let names: BTreeSet<&String> = values.keys().chain(running.keys()).collect();
        let change = |name: &String| {
            let (before, after) = (running.get(name).cloned(), values.get(name).cloned());
            // A broker of another version may have keys that this one has not.
            let (key, _) = find(name).ok()?;
            (before != after).then(|| Change::of(key, name.clone(), before, after))
        };
        names.into_iter().filter_map(change).collect()
    }

    /// Explains the key or table called `name`: what it is for, what it takes, its default, its value here and where
    /// that came from. `listeners.<name>.…` explains the key for every listener. Of an address it says which policies hold.
    pub fn explain(&self, origins: &Origins, name: &str) -> Result<String, ConfigError> {
        let keys: Vec<(&Key, Option<&str>)> = if let Some(key) =
            Key::all().find(|key| key.name == name)
        {
            vec![(key, None)]
        } else if is_table(name) {
            Key::all()
                .flat_map(|key| {
                    self.places(key)
                        .into_iter()
                        .map(move |listener| (key, listener))
                })
                .filter(|(key, listener)| key.full_name(*listener).starts_with(&format!("{name}.")))
                .collect()
        } else {
            match find(name) {
                Ok(found) => vec![found],
                Err(unknown) => {
                    let text = self.explain_address(name);
                    return text.ok_or_else(|| refusal(name, unknown, Origin::Default));
                }
            }
        };
        let explanations: Vec<String> = keys
            .into_iter()
            .map(|(key, listener)| self.explain_key(origins, key, listener))
            .collect();
        Ok(explanations.join("\n"))
    }

    fn explain_key(&self, origins: &Origins, key: &Key, listener: Option<&str>) -> String {
        let full = key.full_name(listener);
        let mut text = format!("{full}\n");
        for line in wrapped(&key.doc, 76) {
            let _ = writeln!(text, "    {line}");
        }
        let _ = writeln!(text, "  takes       {}", takes(key));
        let _ = writeln!(
            text,
            "  default     {}",
            shown_default(key, listener).unwrap_or_else(|words| words.into())
        );
        // A pattern has a value for each listener; a key has one.
        let places = if listener.is_none() {
            self.places(key)
        } else {
            vec![listener]
        };
        let tree = self.tree();
        for place in places {
            let place = key.full_name(place);
            let Some(value) = get(&tree, &place) else {
                let _ = writeln!(text, "  value       none: there is no such listener");
                continue;
            };
            let shown = key.show(value);
            let shown = if shown.is_empty() {
                "not set".to_owned()
            } else {
                shown
            };
            let whose = if place == full {
                String::new()
            } else {
                format!("{place} = ")
            };
            let _ = writeln!(
                text,
                "  value       {whose}{shown} ({})",
                origins.of(&place)
            );
        }
        let _ = writeln!(text, "  a change    applies {}", key.reload.sentence());
        let _ = writeln!(text, "  environment {}", variable_for(&full));
        text
    }

    /// Every value in force as a TOML file that means the same, with where each came from. Secrets are left out.
    pub fn to_toml(&self, origins: &Origins) -> String {
        let mut text = String::from("# The configuration in force.\n");
        let tree = self.tree();
        let mut table = String::new();
        // TOML wants the keys without a table first, and each table in one piece.
        let broker = Key::all()
            .filter(|key| !key.is_per_listener())
            .map(|key| (key, None));
        let listeners = self.listeners.keys().flat_map(|name| {
            Key::all()
                .filter(|key| key.is_per_listener())
                .map(move |key| (key, Some(name.as_str())))
        });
        for (key, listener) in broker.chain(listeners) {
            let full = key.full_name(listener);
            let Some(value) = get(&tree, &full) else {
                continue;
            };
            let (section, last) = full.rsplit_once('.').unwrap_or(("", &full));
            if section != table {
                let _ = write!(text, "\n[{section}]\n");
                table = section.to_owned();
            }
            let origin = origins.of(&full);
            let _ = match (key.show(value).as_str(), key.is_secret()) {
                ("", _) => writeln!(text, "# {last} is not set"),
                (shown, true) => writeln!(text, "# {last} = {shown} # {origin}"),
                (shown, false) => writeln!(text, "{last} = {shown} # {origin}"),
            };
        }
        text
    }
}

/// The reference of all keys in Markdown; `docs/reference/config.md` is this text.
pub fn reference() -> String {
    let mut text = String::from(REFERENCE_HEAD);
    let mut section = "";
    for key in Key::all() {
        let table = section_of(key);
        if table != section {
            let _ = write!(text, "\n## {}\n", section_title(table));
            section = table;
        }
        let default =
            shown_default(key, None).map_or_else(str::to_owned, |value| format!("`{value}`"));
        let _ = write!(text, "\n### `{}`\n\n{}\n\n", key.name, escaped(&key.doc));
        let _ = writeln!(text, "- Takes: {}", escaped(&takes(key)));
        let _ = writeln!(text, "- Default: {default}");
        let _ = writeln!(text, "- A change applies {}.", key.reload.sentence());
    }
    text
}

/// What `key` takes, with its word for "none".
fn takes(key: &Key) -> String {
    match key.none {
        Some(word) => format!("{}, or \"{word}\"", key.kind.expectation()),
        None => key.kind.expectation(),
    }
}

/// The default as it would be written in a file, or words that say why there is none.
fn shown_default(key: &Key, listener: Option<&str>) -> Result<String, &'static str> {
    let default = key.default_for(listener).ok_or("none: must be given")?;
    match key.show(&key.parse_default(default)) {
        shown if shown.is_empty() => Err("not set"),
        shown => Ok(shown),
    }
}

/// The first level of the key's name; the reference has a chapter for each.
fn section_of(key: &Key) -> &str {
    key.name.split_once('.').map_or("", |(table, _)| table)
}

fn section_title(section: &str) -> String {
    match section {
        "" => "At the top".into(),
        "listeners" => "`[listeners.<name>]`".into(),
        section => format!("`[{section}]`"),
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

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

const REFERENCE_HEAD: &str = include_str!("reference_head.md");
