//! Where settings are written: the file, the environment, `--set`. Each source turns into entries; of several for a key
//! the last counts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Origin};
use super::keys::{
    Key, LISTENER_NAME_RULE, Unknown, find, is_listener_name, is_table, nearest_table,
};
use super::kind::Written;
use serde_json::Value;

/// What the sources say, later ones over earlier ones.
#[derive(Default)]
pub(super) struct Gathered {
    /// Values by full name, and where they came from.
    pub values: BTreeMap<String, (Value, Origin)>,
    /// Full names of keys whose values were refused.
    pub refused: BTreeSet<String>,
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
        let lines = |offset| text.bytes().take(offset).filter(|byte| *byte == b'\n');
        let at = |offset: usize| Origin::File {
            path: path.to_owned(),
            line: lines(offset).count() + 1,
        };
        let (document, faults) = DeTable::parse_recoverable(text);
        for fault in &faults {
            let origin = at(fault.span().map_or(0, |span| span.start));
            let message = fault.message().trim_end_matches('.').replace('\n', ", ");
            let what = format!("This is not TOML: {message}");
            self.refuse(origin, what, "See https://toml.io for how it is written");
        }
        // What the parser made of a broken document would only add errors that are not there.
        if faults.is_empty() {
            let base = path.parent().map(Path::to_owned).unwrap_or_default();
            self.walk(&mut String::new(), document.get_ref(), &at, &base);
        }
    }

    fn walk(
        &mut self,
        table: &mut String,
        entries: &DeTable<'_>,
        at: &dyn Fn(usize) -> Origin,
        base: &PathBuf,
    ) {
        for (key, value) in entries {
            let depth = table.len();
            if depth > 0 {
                table.push('.');
            }
            table.push_str(key.get_ref());
            let origin = at(key.span().start);
            match value.get_ref() {
                DeValue::Table(inner) => self.enter(table, inner, origin, at, base),
                _ => self.add(table, &written(value), origin, base),
            }
            table.truncate(depth);
        }
    }

    fn enter(
        &mut self,
        table: &mut String,
        inner: &DeTable<'_>,
        origin: Origin,
        at: &dyn Fn(usize) -> Origin,
        base: &PathBuf,
    ) {
        if find(table).is_ok() {
            return self.add(table, &written_table(inner), origin, base);
        }
        if !is_table(table) {
            let mend = match nearest_table(table) {
                Some(near) => format!("Did you mean [{near}]?"),
                None => "See docs/reference/config.md for the tables there are".into(),
            };
            return self.refuse(origin, format!("There is no table [{table}]"), mend);
        }
        let listener = table.strip_prefix("listeners.");
        if let Some(name) = listener.filter(|rest| !rest.contains('.')) {
            if !is_listener_name(name) {
                let what = format!("\"{name}\" cannot be the name of a listener");
                return self.refuse(origin, what, LISTENER_NAME_RULE);
            }
            self.listeners.entry(name.to_owned()).or_insert(origin);
        }
        self.walk(table, inner, at, base);
    }

    /// Takes the variables that begin with `THALWEG_`.
    pub fn add_environment(&mut self, variables: impl Iterator<Item = (String, String)>) {
        let mut variables: Vec<(String, String)> = variables
            .filter(|(name, _)| name.starts_with(PREFIX))
            .collect();
        variables.sort();
        for (variable, value) in variables {
            let name = variable[PREFIX.len()..].to_lowercase().replace("__", ".");
            let origin = Origin::Environment {
                variable: variable.clone(),
            };
            match find(&name) {
                Ok(_) => self.add(&name, &Written::Loose(value), origin, Path::new("")),
                Err(unknown) => self.refuse_variable(&variable, &name, unknown, origin),
            }
        }
    }

    /// Variables of other programs may begin like ours: Kubernetes makes `THALWEG_SERVICE_HOST` for a service called
    /// `thalweg`. What has no level separator is refused only if it reads like a key with the separator mistyped.
    fn refuse_variable(&mut self, variable: &str, name: &str, unknown: Unknown, origin: Origin) {
        let flattened = |name: &str| name.replace(['.', '_'], " ");
        let listener = name
            .strip_prefix("listeners_")
            .and_then(|rest| rest.split('_').next())
            .unwrap_or_default();
        let meant = Key::all()
            .map(|key| key.name.replace("<name>", listener))
            .find(|key| flattened(key) == flattened(name));
        match meant {
            Some(key) => {
                let right = variable_for(&key);
                let mend = format!("Write {right}: two underscores between levels");
                self.refuse(origin, format!("{variable} is not a setting"), mend);
            }
            None if name.contains('.') => {
                let unknown = match unknown {
                    Unknown::Name(near) => Unknown::Name(near.map(|key| variable_for(&key))),
                    other => other,
                };
                self.errors.push(refusal(variable, unknown, origin));
            }
            None => {}
        }
    }

    /// Takes the arguments of `--set`, in their order.
    pub fn add_sets(&mut self, sets: &[String]) {
        for set in sets {
            let Some((name, value)) = set.split_once('=') else {
                let what = format!("\"{set}\" has no value");
                self.refuse(Origin::Set, what, "Write --set key=value");
                continue;
            };
            let value = Written::Loose(value.trim().to_owned());
            self.add(name.trim(), &value, Origin::Set, Path::new(""));
        }
    }

    fn add(&mut self, name: &str, written: &Written, origin: Origin, base: &Path) {
        let (key, listener) = match find(name) {
            Ok(found) => found,
            Err(unknown) => return self.errors.push(refusal(name, unknown, origin)),
        };
        if let Some(listener) = listener {
            self.listeners
                .entry(listener.to_owned())
                .or_insert_with(|| origin.clone());
        }
        match key.parse(written, base) {
            Ok(value) => {
                self.values.insert(name.to_owned(), (value, origin));
            }
            Err(fault) => {
                self.refused.insert(name.to_owned());
                self.refuse(origin, format!("{name} {}", fault.what), fault.mend);
            }
        }
    }
}

/// Says that `name` is not a setting, and what it may have been meant to be.
pub(super) fn refusal(name: &str, unknown: Unknown, origin: Origin) -> ConfigError {
    let (what, mend) = match unknown {
        Unknown::Table => (
            format!("{name} is a table of settings, not a value"),
            "Set the keys inside it".to_owned(),
        ),
        Unknown::ListenerName => (
            format!("{name} names a listener in a way that it cannot be called"),
            LISTENER_NAME_RULE.to_owned(),
        ),
        Unknown::Name(Some(near)) => (
            format!("{name} is not a setting"),
            format!("Did you mean {near}?"),
        ),
        Unknown::Name(None) => (
            format!("{name} is not a setting"),
            "See docs/reference/config.md for the settings there are".to_owned(),
        ),
    };
    ConfigError::new(origin, what, mend)
}

/// The environment variable for the key called `name`.
pub(super) fn variable_for(name: &str) -> String {
    format!("{PREFIX}{}", name.replace('.', "__").to_uppercase())
}

pub(super) fn written(value: &Spanned<DeValue<'_>>) -> Written {
    match value.get_ref() {
        DeValue::String(text) => Written::Quoted(text.to_string()),
        // The radix is kept because a file mode in decimal is a mistake, in octal it is none.
        DeValue::Integer(number) if number.radix() == 8 => {
            Written::Bare(format!("0o{}", number.as_str()))
        }
        DeValue::Integer(number) => match u64::from_str_radix(number.as_str(), number.radix()) {
            Ok(whole) => Written::Bare(whole.to_string()),
            Err(_) => Written::Bare(number.to_string()),
        },
        DeValue::Float(number) => Written::Bare(number.to_string()),
        DeValue::Boolean(flag) => Written::Bare(flag.to_string()),
        DeValue::Datetime(_) => Written::Other("a date"),
        DeValue::Array(items) => Written::List(items.iter().map(written).collect()),
        DeValue::Table(entries) => written_table(entries),
    }
}

fn written_table(entries: &DeTable<'_>) -> Written {
    let entries = entries.iter();
    let entries = entries.map(|(key, value)| (key.get_ref().to_string(), written(value)));
    Written::Table(entries.collect())
}

const PREFIX: &str = "THALWEG_";
