//! Keys whose value is a table or a list of tables.

use std::path::Path;

use serde_json::{Map, Value};
use toml::de::{DeTable, DeValue};

use super::choices::{Fsync, Words};
use super::forms::{filter_of, items, once};
use super::keys::Key;
use super::kind::{Fault, KeyKind, Written, fault, listed};
use super::nearest::nearest;
use super::sources::written;

/// A list of tables that all have the same keys, of which the first says what an entry is about.
pub struct Tables {
    /// Completes "which is not …".
    pub(super) title: &'static str,
    /// What an entry is, with its article.
    pub(super) entry: &'static str,
    /// Most entries, and what follows "Keep at most so many".
    pub(super) max: (usize, &'static str),
    /// Completes "at most so many tables …".
    pub(super) takes: &'static str,
    pub(super) mend: &'static str,
    /// What to write where the first key of an entry is missing.
    pub(super) mend_first: &'static str,
    pub(super) keys: fn() -> Vec<Key>,
    /// What one entry cannot know.
    pub(super) check: fn(&[Value]) -> Result<(), Fault>,
}

impl Tables {
    /// The entries in their order, each with all keys.
    pub(super) fn parse(&self, kind: &KeyKind, written: &Written) -> Result<Value, Fault> {
        let loose;
        let entries = match written {
            Written::List(entries) => entries,
            Written::Loose(text) => {
                loose = list_in(text).ok_or_else(|| kind.refuses(&format!("\"{text}\"")))?;
                &loose
            }
            Written::Bare(text) | Written::Quoted(text) => {
                return Err(kind.refuses(&format!("\"{text}\"")));
            }
            other => return Err(kind.refuses(other.name())),
        };
        let (max, why) = self.max;
        if entries.len() > max {
            let what = format!("has {} entries", entries.len());
            return Err(fault(what, format!("Keep at most {max}{why}")));
        }
        let keys = (self.keys)();
        let parsed: Result<Vec<Value>, Fault> = entries
            .iter()
            .map(|entry| self.entry(kind, &keys, entry))
            .collect();
        let parsed = parsed?;
        (self.check)(&parsed)?;
        Ok(parsed.into())
    }

    fn entry(&self, kind: &KeyKind, keys: &[Key], written: &Written) -> Result<Value, Fault> {
        let (Written::Table(fields), [first, rest @ ..]) = (written, keys) else {
            return Err(kind.refuses("a list of other things"));
        };
        let about = match fields.iter().find(|(name, _)| *name == first.name) {
            Some((_, text @ Written::Quoted(_))) => first.parse(text, Path::new(""))?,
            Some(_) => {
                return Err(fault(
                    format!("has an entry whose {} is not text", first.name),
                    self.mend_first,
                ));
            }
            None => {
                let article = if first.name.starts_with(['a', 'e', 'i', 'o']) {
                    "an"
                } else {
                    "a"
                };
                return Err(fault(
                    format!("has an entry without {article} {}", first.name),
                    self.mend_first,
                ));
            }
        };
        let mut entry: Map<String, Value> = rest
            .iter()
            .map(|key| (key.name.clone(), key.parse_default(key.default)))
            .collect();
        for (name, written) in fields.iter().filter(|(name, _)| *name != first.name) {
            let Some(key) = rest.iter().find(|key| key.name == *name) else {
                let names: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
                let mend = match nearest(name, names.iter().copied()) {
                    Some(near) => format!("Did you mean {near}?"),
                    None => format!("Write {}", listed(&names, "and")),
                };
                return Err(fault(
                    format!(
                        "says {name} for {about}, which is no part of {}",
                        self.entry
                    ),
                    mend,
                ));
            };
            let value = key.parse(written, Path::new("")).map_err(|wrong| {
                fault(
                    format!("has {about}, whose {name} {}", wrong.what),
                    wrong.mend,
                )
            })?;
            // Its word for "none" is not the same as to leave a key out.
            let is_none = value.is_null() && key.none.is_some();
            entry.insert(name.clone(), if is_none { u64::MAX.into() } else { value });
        }
        entry.insert(first.name.clone(), about);
        Ok(entry.into())
    }

    pub(super) fn expectation(&self) -> String {
        format!(
            "at most {} tables {}, which is how it is written outside the file, too",
            self.max.0, self.takes
        )
    }

    /// As in a file, in one line.
    pub(super) fn show(&self, entries: &[Value]) -> String {
        let keys = (self.keys)();
        let part = |key: &Key, value: &Value| match key.show(value) {
            shown if shown.is_empty() || value.is_null() => None,
            shown => Some(format!("{} = {shown}", key.name)),
        };
        let entry = |entry: &Value| {
            let parts = keys.iter().filter_map(|key| part(key, &entry[&key.name]));
            format!("{{ {} }}", parts.collect::<Vec<_>>().join(", "))
        };
        let entries: Vec<String> = entries.iter().map(entry).collect();
        format!("[{}]", entries.join(", "))
    }
}

/// Pairs of a filter and a policy, in the order of the filters.
pub(super) fn policies(kind: &KeyKind, written: &Written) -> Result<Value, Fault> {
    let pair_in = |item: &String| match item.rsplit_once('=') {
        Some((filter, policy)) => Ok((filter.trim().to_owned(), policy.trim().to_owned())),
        None => {
            let mend = format!("Write {}", kind.expectation());
            Err(fault(format!("has no policy for \"{item}\""), mend))
        }
    };
    let in_table = |(filter, policy): &(String, Written)| match policy {
        Written::Quoted(word) => Ok((filter.clone(), word.clone())),
        // `telemetry.x = "never"` is a table in TOML.
        _ => {
            let words = listed(
                &Fsync::WORDS
                    .iter()
                    .map(|word| format!("\"{word}\""))
                    .collect::<Vec<_>>(),
                "or",
            );
            let mend = format!("Write \"{filter}\" = {words}, with the whole filter in quotes");
            Err(fault(format!("has no policy for \"{filter}\""), mend))
        }
    };
    let pairs: Result<Vec<(String, String)>, Fault> = match written {
        Written::Table(entries) => entries.iter().map(in_table).collect(),
        Written::List(_) => return Err(kind.refuses("a list")),
        other => items(kind, other)?.iter().map(pair_in).collect(),
    };
    let mut pairs = pairs?;
    for (filter, policy) in &pairs {
        if Fsync::from_word(policy).is_none() {
            let what = format!("says \"{policy}\" for \"{filter}\", which is not a policy");
            return Err(fault(what, format!("Write {}", listed(Fsync::WORDS, "or"))));
        }
        filter_of(filter)?;
    }
    pairs.sort_unstable();
    once(pairs.iter().map(|(filter, _)| filter))?;
    Ok(pairs
        .into_iter()
        .map(|(filter, policy)| Value::from(vec![filter, policy]))
        .collect())
}

/// A list that is written outside the file as in it.
pub(super) fn list_in(text: &str) -> Option<Vec<Written>> {
    let document = format!("list = {text}");
    let table = DeTable::parse(&document).ok()?;
    let table = table.get_ref();
    match table.iter().next().map(|(_, value)| value.get_ref()) {
        Some(DeValue::Array(items)) if table.len() == 1 => {
            Some(items.iter().map(written).collect())
        }
        _ => None,
    }
}
