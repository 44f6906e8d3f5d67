//! From the sources to the typed configuration.

use std::collections::BTreeSet;
use std::path::Path;

use super::built_in::{LISTENERS_BUILT_IN, LISTENERS_UNLESS_OTHERS};
use super::check::check;
use super::error::{ConfigError, Origin, Origins};
use super::keys::Key;
use super::settings::Config;
use super::sources::Gathered;
use serde_json::{Value, json};

impl Config {
    /// Reads `file` if there is one, then `env` (variables that begin with `THALWEG_`), then `sets` (`key=value`); the
    /// last word on a key counts. Returns the configuration with the origin of each value that was set, or every
    /// mistake that could be found. Opens no file but `file`: see [`Config::unreadable_files`] for those it names.
    pub fn load(
        file: Option<&Path>,
        env: impl Iterator<Item = (String, String)>,
        sets: &[String],
    ) -> Result<(Config, Origins), Vec<ConfigError>> {
        let text = match file {
            Some(path) => match std::fs::read_to_string(path) {
                Ok(text) => Some((path, text)),
                Err(error) => {
                    let origin = Origin::File {
                        path: path.to_owned(),
                        line: 0,
                    };
                    let mend = "Give the path of a readable TOML file to --config";
                    return Err(vec![ConfigError::new(
                        origin,
                        format!("It cannot be read: {error}"),
                        mend,
                    )]);
                }
            },
            None => None,
        };
        Config::from_text(
            text.as_ref().map(|(path, text)| (*path, text.as_str())),
            env,
            sets,
        )
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
        assemble(gathered)
    }
}

impl Default for Config {
    /// What `thalweg serve` runs with when nothing is configured.
    fn default() -> Self {
        let (config, _) =
            Config::from_text(None, std::iter::empty(), &[]).expect("a test loads the defaults");
        config
    }
}

fn assemble(gathered: Gathered) -> Result<(Config, Origins), Vec<ConfigError>> {
    let Gathered {
        mut values,
        refused,
        listeners,
        mut errors,
    } = gathered;
    let mut tree = Value::Null;
    let mut origins = Origins::default();
    let mut names: BTreeSet<&str> = LISTENERS_BUILT_IN.into_iter().collect();
    if listeners
        .keys()
        .all(|name| LISTENERS_UNLESS_OTHERS.contains(&name.as_str()))
    {
        names.extend(LISTENERS_UNLESS_OTHERS);
    }
    names.extend(listeners.keys().map(String::as_str));
    for key in Key::all() {
        let listeners_of = names
            .iter()
            .copied()
            .filter(|_| key.is_per_listener())
            .map(Some);
        let broker = (!key.is_per_listener()).then_some(None);
        for listener in listeners_of.chain(broker) {
            let full = key.full_name(listener);
            if let Some((value, origin)) = values.remove(&full) {
                put(&mut tree, &full, value);
                origins.insert(full, origin);
            } else if let Some(default) = key.default_for(listener) {
                put(&mut tree, &full, key.parse_default(default));
            } else if !refused.contains(&full) {
                let origin = listener
                    .and_then(|name| listeners.get(name))
                    .cloned()
                    .unwrap_or_default();
                let mend = format!("Set {full} to {}", key.kind.expectation());
                errors.push(ConfigError::new(origin, format!("{full} is missing"), mend));
            }
        }
    }
    // What looks at several keys would only repeat what is already known to be wrong.
    if errors.is_empty() {
        match Config::of_tree(tree) {
            Ok(config) => {
                errors = check(&config, &origins);
                if errors.is_empty() {
                    return Ok((config, origins));
                }
            }
            Err(error) => errors.push(error),
        }
    }
    errors.sort_by_key(|error| error.origin.reading_order());
    Err(errors)
}

impl Config {
    /// All values, by the levels of their names.
    pub(super) fn tree(&self) -> Value {
        json!(self)
    }

    /// The configuration with these values, if each key has one.
    pub(super) fn of_tree(tree: Value) -> Result<Config, ConfigError> {
        serde_json::from_value(tree).map_err(|error| {
            let what = format!("A value has a kind that its key cannot hold: {error}");
            ConfigError::new(
                Origin::Default,
                what,
                "Report this as a mistake of the broker",
            )
        })
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
