//! Where settings are written: the file, the environment, `--set`. Each source turns into entries; of several for a key
//! the last counts.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Origin};
use super::keys::*;
use super::kind::Written;

/// What the sources say, later ones over earlier ones.
#[derive(Default)]
pub(super) struct Gathered {
    /// Values by full name, and where they came from; `None` if what is written there was refused.
    pub values: BTreeMap<String, (Option<Value>, Origin)>,
    /// Listeners that are mentioned, and where first.
    pub listeners: BTreeMap<String, Origin>,
    pub errors: Vec<ConfigError>,
}

impl Gathered {
    fn refuse(&mut self, origin: Origin, what: impl Into<String>, mend: impl Into<String>) {
        self.errors.push(ConfigError::new(origin, what, mend));
    }

    /// Takes a TOML document, called `path` in errors; relative paths in it start at its directory.
    pub fn add_file(&mut self, path: &Path, text: &str) {
        let origin = |offset: usize| {
            let before = text.bytes().take(offset);
            let line = before.filter(|byte| *byte == b'\n').count() + 1;
            let path = path.to_owned();
            Origin::File { path, line }
        };
        let (document, faults) = DeTable::parse_recoverable(text);
        for fault in &faults {
            let origin = origin(fault.span().map_or(0, |span| span.start));
            let message = fault.message().trim_end_matches('.').replace('\n', ", ");
            let what = format!("This is not TOML: {message}");
            self.refuse(origin, what, "See https://toml.io for how it is written");
        }
        // What the parser made of a broken document would only add errors that are not there.
        if faults.is_empty() {
            let base = path.parent().unwrap_or(Path::new(""));
            self.walk("", document.get_ref(), base, &origin);
        }
    }

    /// Takes the entries of a table, whose name with its dot is `above`.
    fn walk(&mut self, above: &str, table: &DeTable, base: &Path, at: &dyn Fn(usize) -> Origin) {
        for (key, value) in table {
            let name = format!("{above}{}", key.get_ref());
            let origin = at(key.span().start);
            match value.get_ref() {
                DeValue::Table(inner) if find(&name).is_none() => {
                    if self.enter(&name, origin) {
                        self.walk(&(name + "."), inner, base, at);
                    }
                }
                value => self.add(&name, Written::Toml(value, base), origin),
            }
        }
    }

    /// Takes note of the listener that `table` may be. Returns whether it holds keys.
    fn enter(&mut self, table: &str, origin: Origin) -> bool {
        let name = table
            .strip_prefix("listeners.")
            .filter(|rest| !rest.contains('.'));
        if !is_table(table) {
            let mend = match nearest_table(table) {
                Some(near) => format!("Did you mean [{near}]?"),
                None => "See docs/reference/config.md for the tables there are".into(),
            };
            self.refuse(origin, format!("There is no table [{table}]"), mend);
            return false;
        }
        match name {
            Some(name) if !is_listener_name(name) => {
                let what = format!("\"{name}\" cannot be the name of a listener");
                self.refuse(origin, what, LISTENER_NAME_RULE);
                return false;
            }
            Some(name) => _ = self.listeners.entry(name.to_owned()).or_insert(origin),
            None => {}
        }
        true
    }

    /// Takes the variables that begin with `THALWEG_`.
    pub fn add_environment(&mut self, variables: impl Iterator<Item = (String, String)>) {
        let ours = variables.filter(|(variable, _)| variable.starts_with(PREFIX));
        for (variable, value) in ours.collect::<BTreeMap<String, String>>() {
            let name = variable[PREFIX.len()..].to_lowercase().replace("__", ".");
            let origin = Origin::Environment(variable.clone());
            match find(&name) {
                Some(_) => self.add(&name, Written::Loose(&value), origin),
                None => self.refuse_variable(&variable, &name, origin),
            }
        }
    }

    /// Variables of other programs may begin like ours: Kubernetes makes `THALWEG_SERVICE_HOST` for a service called
    /// `thalweg`. What has no level separator is refused only if it reads like a key with the separator mistyped.
    fn refuse_variable(&mut self, variable: &str, name: &str, origin: Origin) {
        let flattened = |name: &str| name.replace(['.', '_'], " ");
        let listener = name
            .strip_prefix("listeners_")
            .and_then(|rest| rest.split('_').next());
        let mut keys = Key::all().map(|key| key.full_name(listener));
        match keys.find(|key| flattened(key) == flattened(name)) {
            Some(key) => {
                let right = variable_for(&key);
                let mend = format!("Write {right}: two underscores between levels");
                self.refuse(origin, format!("{variable} is not a setting"), mend);
            }
            None if name.contains('.') => self.errors.push(refusal(name, origin)),
            None => {}
        }
    }

    /// Takes the arguments of `--set`, in their order.
    pub fn add_sets(&mut self, sets: &[String]) {
        for set in sets {
            match set.split_once('=') {
                Some((name, value)) => {
                    self.add(name.trim(), Written::Loose(value.trim()), Origin::Set);
                }
                None => {
                    let what = format!("\"{set}\" has no value");
                    self.refuse(Origin::Set, what, "Write --set key=value");
                }
            }
        }
    }

    fn add(&mut self, name: &str, written: Written, origin: Origin) {
        let Some((key, listener)) = find(name) else {
            return self.errors.push(refusal(name, origin));
        };
        if let Some(listener) = listener {
            let first = self.listeners.entry(listener.to_owned());
            first.or_insert_with(|| origin.clone());
        }
        let value = key.parse(written).map_err(|fault| {
            self.refuse(origin.clone(), format!("{name} {}", fault.what), fault.mend);
        });
        self.values.insert(name.to_owned(), (value.ok(), origin));
    }
}
