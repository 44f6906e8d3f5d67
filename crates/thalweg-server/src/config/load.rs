//! From the sources to the typed configuration.

use std::collections::BTreeSet;
use std::path::Path;

use super::built_in::{LISTENERS_BUILT_IN, LISTENERS_UNLESS_OTHERS};
use super::check::check;
use super::error::{ConfigError, Origin, Origins};
use super::keys::Key;
use super::kind::{Value, Written};
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
    let mut config = Config::blank();
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
        let places: Vec<Option<&str>> = if key.is_per_listener() {
            names.iter().copied().map(Some).collect()
        } else {
            vec![None]
        };
        for listener in places {
            let full = key.full_name(listener);
            if let Some(entry) = values.remove(&full) {
                entry
                    .key
                    .land(&mut config, entry.listener.as_deref(), entry.value);
                origins.insert(full, entry.origin);
            } else if let Some(default) = key.default_for(listener) {
                key.land(&mut config, listener, default_value(key, default));
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
    // Checks that look at several keys would only repeat what is already known to be wrong.
    if errors.is_empty() {
        errors = check(&config, &origins);
    }
    errors.sort_by_key(|error| error.origin.reading_order());
    if errors.is_empty() {
        Ok((config, origins))
    } else {
        Err(errors)
    }
}

/// The value of a default, which the table writes as `--set` would.
pub(super) fn default_value(key: &Key, default: &str) -> Value {
    match key.parse(&Written::Loose(default.to_owned()), Path::new("")) {
        Ok(value) => value,
        Err(fault) => unreachable!("the default of {} {}", key.name, fault.what),
    }
}
