//! From the sources to the typed configuration, and what of it a running broker can take over.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::built_in::{LISTENERS_BUILT_IN, LISTENERS_UNLESS_OTHERS};
use super::error::{ConfigError, Origin, Origins};
use super::keys::{Key, Reload, places};
use super::settings::Config;
use super::sources::Gathered;

impl Config {
    /// Reads `file` if there is one, then `env` (variables that begin with `THALWEG_`), then `sets` (`key=value`); the
    /// last word on a key counts. Returns the configuration with the origin of each value that was set, or every
    /// mistake that could be found. Opens no file but `file`: see [`Config::unreadable_files`] for those it names.
    pub fn load(
        file: Option<&Path>,
        env: impl Iterator<Item = (String, String)>,
        sets: &[String],
    ) -> Result<(Config, Origins), Vec<ConfigError>> {
        let text = file.map(std::fs::read_to_string).transpose();
        let text = text.map_err(|error| {
            let path = file.unwrap_or(Path::new("")).to_owned();
            let what = format!("It cannot be read: {error}");
            let mend = "Give the path of a readable TOML file to --config";
            vec![ConfigError::new(Origin::File { path, line: 0 }, what, mend)]
        })?;
        Config::from_text(file.zip(text.as_deref()), env, sets)
    }

    /// As [`Config::load`], with the file's path and text at hand.
    pub fn from_text(
        file: Option<(&Path, &str)>,
        env: impl Iterator<Item = (String, String)>,
        sets: &[String],
    ) -> Result<(Config, Origins), Vec<ConfigError>> {
        let mut gathered = Gathered::default();
        if let Some((path, text)) = file {
            gathered.add_file(path, text);
        }
        gathered.add_environment(env);
        gathered.add_sets(sets);
        let names = gathered.listeners.keys().map(String::as_str);
        let mut names: BTreeSet<&str> = names.collect();
        let unless_others = BTreeSet::from(LISTENERS_UNLESS_OTHERS);
        if names.is_subset(&unless_others) {
            names.extend(unless_others);
        }
        names.extend(LISTENERS_BUILT_IN);
        let (mut tree, mut origins) = (Value::Null, Origins::default());
        for (key, listener) in places(&names) {
            let full = key.full_name(listener);
            match (gathered.values.remove(&full), key.default_for(listener)) {
                (Some((value, origin)), _) => {
                    put(&mut tree, &full, value.unwrap_or_default());
                    origins.0.insert(full, origin);
                }
                (None, Some(default)) => put(&mut tree, &full, key.parse_default(default)),
                (None, None) => {
                    let origin = listener.and_then(|name| gathered.listeners.get(name));
                    let what = format!("{full} is missing");
                    let mend = format!("Set {full} to {}", key.kind.expectation());
                    let error = ConfigError::new(origin.cloned().unwrap_or_default(), what, mend);
                    gathered.errors.push(error);
                }
            }
        }
        let mut errors = gathered.errors;
        // What looks at several keys would only repeat what is already known to be wrong.
        if errors.is_empty() {
            let config = Config::of_tree(tree).map_err(|error| vec![error])?;
            errors = config.contradictions(&origins);
            if errors.is_empty() {
                return Ok((config, origins));
            }
        }
        errors.sort_by(|one, other| one.origin.cmp(&other.origin));
        Err(errors)
    }

    /// This configuration as far as a broker that runs with `running` can take it over: keys that apply after a
    /// restart keep their running values. A listener that comes or goes does so whole.
    pub fn within_run_of(self, running: &Config) -> Config {
        let is_open =
            |config: &Config, name| config.listeners.get(name).is_some_and(|it| it.enabled);
        let stays = |name| is_open(&self, name) && is_open(running, name);
        let mut tree = self.tree();
        for entry in running.entries() {
            if entry.key.reload == Reload::Restart && entry.listener.is_none_or(stays) {
                put(&mut tree, &entry.name, entry.value);
            }
        }
        // Both trees hold values of the same keys.
        let mut config = Config::of_tree(tree).unwrap_or(self);
        for (name, old) in &running.listeners {
            if let Some(new) = config.listeners.get_mut(name)
                && old.transport.is_encrypted()
                && new.tls.certificate.is_none()
            {
                // It stays encrypted until the restart that makes it a plain one.
                new.tls = old.tls.clone();
            }
        }
        config
    }

    /// All values, by the levels of their names.
    pub(super) fn tree(&self) -> Value {
        json!(self)
    }

    /// The configuration with these values, if each key has one.
    pub(super) fn of_tree(tree: Value) -> Result<Config, ConfigError> {
        serde_json::from_value(tree).map_err(|error| {
            let what = format!("A value has a kind that its key cannot hold: {error}");
            let mend = "Report this as a mistake of the broker";
            ConfigError::new(Origin::Default, what, mend)
        })
    }

    /// Every value in force, in the order of the reference.
    pub(super) fn entries(&self) -> Vec<Entry<'_>> {
        let tree = self.tree();
        let listeners: BTreeSet<&str> = self.listeners.keys().map(String::as_str).collect();
        let entry = |(key, listener): (&'static Key, Option<_>)| {
            let name = key.full_name(listener);
            let value = get(&tree, &name).cloned().unwrap_or_default();
            Entry {
                key,
                listener,
                name,
                value,
            }
        };
        places(&listeners).into_iter().map(entry).collect()
    }
}

/// A key with its value at one of its places.
pub(super) struct Entry<'a> {
    pub key: &'static Key,
    pub listener: Option<&'a str>,
    /// The dotted name, with that of its listener in place of `<name>`.
    pub name: String,
    pub value: Value,
}

impl Default for Config {
    /// What `thalweg serve` runs with when nothing is configured.
    fn default() -> Self {
        let loaded = Config::from_text(None, std::iter::empty(), &[]);
        loaded.expect("a test loads the defaults").0
    }
}

/// The value of the key with this full name.
pub(super) fn get<'a>(tree: &'a Value, name: &str) -> Option<&'a Value> {
    name.split('.')
        .try_fold(tree, |table, level| table.get(level))
}

pub(super) fn put(tree: &mut Value, name: &str, value: Value) {
    *name.split('.').fold(tree, |table, level| &mut table[level]) = value;
}
