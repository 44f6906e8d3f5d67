//! What the configuration says about itself: one key, all keys, the values in force, the difference between two.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::error::{ConfigError, Origin, Origins};
use super::keys::{Key, Reload, find, is_table};
use super::load::default_value;
use super::settings::Config;
use super::sources::{refusal, variable_for};

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
        let mut changes = Vec::new();
        for key in Key::all() {
            let mut places = self.places(key);
            places.extend(other.places(key));
            places.sort();
            places.dedup();
            for listener in places {
                let (before, after) = (key.read(self, listener), key.read(other, listener));
                if before != after {
                    // A listener that comes or goes does so at once, whatever its keys say about changes.
                    let exists_in_both = before.is_some() && after.is_some();
                    let show =
                        |value: Option<_>| value.map(|value| key.show(&value)).unwrap_or_default();
                    changes.push(Change {
                        key: key.full_name(listener),
                        before: show(before),
                        after: show(after),
                        reload: if exists_in_both {
                            key.reload
                        } else {
                            Reload::Now
                        },
                    });
                }
            }
        }
        changes
    }

    /// Every value in force by the full name of its key, as it would be written in a file; empty if it is not set,
    /// `"(hidden)"` for a secret.
    pub fn values(&self) -> BTreeMap<String, String> {
        let mut values = BTreeMap::new();
        for key in Key::all() {
            for listener in self.places(key) {
                if let Some(value) = key.read(self, listener) {
                    values.insert(key.full_name(listener), key.show(&value));
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
        let changes = names.into_iter().filter_map(|name| {
            let (before, after) = (running.get(name), values.get(name));
            // A broker of another version may have keys that this one has not.
            let (key, _) = find(name).ok()?;
            (before != after).then(|| Change {
                key: name.clone(),
                before: before.cloned().unwrap_or_default(),
                after: after.cloned().unwrap_or_default(),
                // As in `diff`.
                reload: match before.is_some() && after.is_some() {
                    true => key.reload,
                    false => Reload::Now,
                },
            })
        });
        changes.collect()
    }

    /// Explains the key or table called `name`: what it is for, what it takes, its default, its value here and where
    /// that came from. `listeners.<name>.…` explains the key for every listener.
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
                Err(unknown) => return Err(refusal(name, unknown, Origin::Default)),
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
        for line in wrapped(key.doc, 76) {
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
        for place in places {
            let Some(value) = key.read(self, place) else {
                let _ = writeln!(text, "  value       none: there is no such listener");
                continue;
            };
            let place = key.full_name(place);
            let shown = key.show(&value);
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
            let Some(value) = key.read(self, listener) else {
                continue;
            };
            let full = key.full_name(listener);
            let (section, last) = full.rsplit_once('.').unwrap_or(("", &full));
            if section != table {
                let _ = write!(text, "\n[{section}]\n");
                table = section.to_owned();
            }
            let origin = origins.of(&full);
            let _ = match (key.show(&value).as_str(), key.secret) {
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
        let _ = write!(text, "\n### `{}`\n\n{}\n\n", key.name, escaped(key.doc));
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
    match key.show(&default_value(key, default)) {
        shown if shown.is_empty() => Err("not set"),
        shown => Ok(shown),
    }
}

/// The first level of the key's name; the reference has a chapter for each.
fn section_of(key: &Key) -> &'static str {
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

const REFERENCE_HEAD: &str = "# Configuration reference

<!-- Generated by `thalweg config reference` from crates/thalweg-server/src/config/table.rs. Do not edit. -->

Thalweg needs no configuration. What it is given comes from three places, and the last word on a key counts:

1. a TOML file, named by `--config FILE`; relative paths in it start at the file's directory;
2. environment variables: `THALWEG_` and the key in capitals, with two underscores between levels, such as
   `THALWEG_LISTENERS__MQTT__BIND=0.0.0.0:1883`;
3. `--set key=value` on the command line, as often as needed, such as `--set listeners.mqtt.bind=0.0.0.0:1883`.

A key that is not in this list is an error. `thalweg config check` finds all mistakes at once, and `thalweg config
explain KEY` says what a key is for, what its value is and where that came from.

Sizes are written `65536`, `\"64KiB\"` or `\"1MiB\"`; durations `\"500ms\"`, `\"10s\"`, `\"5m\"`, `\"1h\"` or `\"7d\"`;
rates `\"1000/s\"`. Lists are `[\"a\", \"b\"]` in the file and `a,b` elsewhere. Where a key has a word for \"none\",
such as `off`, and its range begins above 0, a plain `0` means the same.

Listeners are tables by name. Six exist without being mentioned: `mqtt` (127.0.0.1:1883), `websocket` (MQTT over
WebSocket, 127.0.0.1:8083), `amqp` (127.0.0.1:5672), `stomp` (127.0.0.1:61613), `coap` (127.0.0.1:5683, UDP) and
`coap-tcp` (the same port of TCP). Change them like any other, or set `enabled = false`. Further ones come into being by
being named; `zmtp` (127.0.0.1:5555) and `xmpp` (127.0.0.1:5222) have their address and kind by their names. Once `mqtt`,
`websocket`, `zmtp`, `xmpp` or one of your own is mentioned, the other four are no longer opened by themselves:
mention them, too (`listeners.amqp.enabled = true` is enough).
";
