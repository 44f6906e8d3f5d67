//! Where settings are written: the file, the environment, `--set`. Each source turns into entries; of several for a key
//! the last counts.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use toml::Spanned;
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

/// The file that is read.
struct File<'a> {
    path: &'a Path,
    text: &'a str,
    /// Where relative paths in it start.
    base: &'a Path,
}

impl File<'_> {
    fn origin(&self, offset: usize) -> Origin {
        let before = self.text.bytes().take(offset);
        Origin::File {
            path: self.path.to_owned(),
            line: before.filter(|byte| *byte == b'\n').count() + 1,
        }
    }
}

impl Gathered {
    fn refuse(&mut self, origin: Origin, what: impl Into<String>, mend: impl Into<String>) {
        self.errors.push(ConfigError::new(origin, what, mend));
    }

    /// Takes a TOML document, called `path` in errors; relative paths in it start at its directory.
    pub fn add_file(&mut self, path: &Path, text: &str) {
        let base = path.parent().unwrap_or(Path::new(""));
        let file = File { path, text, base };
        let (document, faults) = DeTable::parse_recoverable(text);
        for fault in &faults {
            let origin = file.origin(fault.span().map_or(0, |span| span.start));
            let message = fault.message().trim_end_matches('.').replace('\n', ", ");
            let what = format!("This is not TOML: {message}");
            self.refuse(origin, what, "See https://toml.io for how it is written");
        }
        // What the parser made of a broken document would only add errors that are not there.
        if faults.is_empty() {
            self.walk(&file, "", document.get_ref());
        }
    }

    /// Takes the entries of a table, whose name with its dot is `above`.
    fn walk(&mut self, file: &File, above: &str, entries: &DeTable<'_>) {
        for (key, value) in entries {
            let name = format!("{above}{}", key.get_ref());
            let origin = file.origin(key.span().start);
            match value.get_ref() {
                DeValue::Table(inner) if find(&name).is_none() => {
                    if self.enter(&name, origin) {
                        self.walk(file, &(name + "."), inner);
                    }
                }
                _ => self.add(&name, &written(value), origin, file.base),
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
            let origin = Origin::Environment {
                variable: variable.clone(),
            };
            match find(&name) {
                Some(_) => self.add(&name, &Written::Loose(value), origin, Path::new("")),
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
                    let value = Written::Loose(value.trim().to_owned());
                    self.add(name.trim(), &value, Origin::Set, Path::new(""));
                }
                None => {
                    let what = format!("\"{set}\" has no value");
                    self.refuse(Origin::Set, what, "Write --set key=value");
                }
            }
        }
    }

    fn add(&mut self, name: &str, written: &Written, origin: Origin, base: &Path) {
        let Some((key, listener)) = find(name) else {
            return self.errors.push(refusal(name, origin));
        };
        if let Some(listener) = listener {
            let first = self.listeners.entry(listener.to_owned());
            first.or_insert_with(|| origin.clone());
        }
        let value = key.parse(written, base).map_err(|fault| {
            self.refuse(origin.clone(), format!("{name} {}", fault.what), fault.mend);
        });
        self.values.insert(name.to_owned(), (value.ok(), origin));
    }
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
        DeValue::Datetime(_) => Written::Date,
        DeValue::Array(items) => Written::List(items.iter().map(written).collect()),
        DeValue::Table(entries) => {
            let entries = entries.iter();
            let entries = entries.map(|(key, value)| (key.get_ref().to_string(), written(value)));
            Written::Table(entries.collect())
        }
    }
}
