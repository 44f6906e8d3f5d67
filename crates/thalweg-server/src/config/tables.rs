//! Keys whose value is a table or a list of tables.

use std::path::Path;

use serde_json::{Map, Value, json};
use toml::de::DeTable;

use super::choices::{Fsync, Words};
use super::forms::{filter_of, items, once};
use super::keys::Key;
use super::kind::{Fault, KeyKind, Written, ensure, fault, listed};
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
    /// The first key of an entry, with its article, and what to write where it is missing.
    pub(super) first: (&'static str, &'static str),
    pub(super) keys: fn() -> Vec<Key>,
    /// What one entry cannot know.
    pub(super) check: fn(&[Value]) -> Result<(), Fault>,
}

impl Tables {
    /// The entries in their order, each with all keys.
    pub(super) fn parse(&self, kind: &KeyKind, written: &Written) -> Result<Value, Fault> {
        let entries = match written {
            Written::List(entries) => Some(entries.clone()),
            Written::Loose(text) => list_in(text),
            _ => None,
        };
        let entries = entries.ok_or_else(|| kind.refuses(&written.name()))?;
        let ((max, why), count) = (self.max, entries.len());
        ensure!(count <= max; "has {count} entries"; format!("Keep at most {max}{why}"));
        let keys = (self.keys)();
        let parsed = entries.iter().map(|entry| self.entry(kind, &keys, entry));
        let parsed = parsed.collect::<Result<Vec<Value>, Fault>>()?;
        (self.check)(&parsed)?;
        Ok(parsed.into())
    }

    fn entry(&self, kind: &KeyKind, keys: &[Key], written: &Written) -> Result<Value, Fault> {
        let (Written::Table(fields), [first, rest @ ..]) = (written, keys) else {
            return Err(kind.refuses("a list of other things"));
        };
        let (with_article, mend) = self.first;
        let about = match fields.iter().find(|(name, _)| *name == first.name) {
            Some((_, text @ Written::Quoted(_))) => first.parse(text, Path::new(""))?,
            Some(_) => {
                let what = format!("has an entry whose {} is not text", first.name);
                return Err(fault(what, mend));
            }
            None => return Err(fault(format!("has an entry without {with_article}"), mend)),
        };
        let default = |key: &Key| (key.name.clone(), key.parse_default(key.default));
        let mut entry: Map<String, Value> = rest.iter().map(default).collect();
        for (name, written) in fields.iter().filter(|(name, _)| *name != first.name) {
            let Some(key) = rest.iter().find(|key| key.name == *name) else {
                let names: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
                let mend = match nearest(name, &names) {
                    Some(near) => format!("Did you mean {near}?"),
                    None => format!("Write {}", listed(&names, "and")),
                };
                let whole = self.entry;
                let what = format!("says {name} for {about}, which is no part of {whole}");
                return Err(fault(what, mend));
            };
            let value = key.parse(written, Path::new("")).map_err(|wrong| {
                let what = format!("has {about}, whose {name} {}", wrong.what);
                fault(what, wrong.mend)
            })?;
            // Its word for "none" is not the same as to leave a key out.
            let is_none = value.is_null() && key.none.is_some();
            entry.insert(name.clone(), if is_none { u64::MAX.into() } else { value });
        }
        entry.insert(first.name.clone(), about);
        Ok(entry.into())
    }

    pub(super) fn expectation(&self) -> String {
        let (max, takes) = (self.max.0, self.takes);
        format!("at most {max} tables {takes}, which is how it is written outside the file, too")
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
    let mut pairs: Vec<(String, String)> = match written {
        Written::Table(entries) => entries
            .iter()
            .map(pair_in_table)
            .collect::<Result<_, _>>()?,
        Written::List(_) => return Err(kind.refuses("a list")),
        other => {
            let pair = |item: &String| match item.rsplit_once('=') {
                Some((filter, policy)) => Ok((filter.trim().into(), policy.trim().into())),
                None => Err(fault(format!("has no policy for \"{item}\""), kind.mend())),
            };
            items(kind, other)?
                .iter()
                .map(pair)
                .collect::<Result<_, _>>()?
        }
    };
    for (filter, policy) in &pairs {
        let mend = format!("Write {}", listed(Fsync::WORDS, "or"));
        ensure!(Fsync::from_word(policy).is_some(); "says \"{policy}\" for \"{filter}\", which is not a policy"; mend);
        filter_of(filter)?;
    }
    pairs.sort_unstable();
    once(pairs.iter().map(|(filter, _)| filter))?;
    Ok(json!(pairs))
}

fn pair_in_table((filter, policy): &(String, Written)) -> Result<(String, String), Fault> {
    if let Written::Quoted(policy) = policy {
        return Ok((filter.clone(), policy.clone()));
    }
    // `telemetry.x = "never"` is a table in TOML.
    let words = Fsync::WORDS.iter().map(|word| format!("\"{word}\""));
    let words = listed(&words.collect::<Vec<_>>(), "or");
    let mend = format!("Write \"{filter}\" = {words}, with the whole filter in quotes");
    Err(fault(format!("has no policy for \"{filter}\""), mend))
}

pub(super) fn policies_expectation() -> String {
    format!(
        "a table from topic filters to {}, such as {{ \"telemetry/#\" = \"never\" }} (or telemetry/#=never,plant/+=interval \
         outside the file)",
        listed(Fsync::WORDS, "or")
    )
}

/// A list that is written outside the file as in it.
pub(super) fn list_in(text: &str) -> Option<Vec<Written>> {
    let document = format!("list = {text}");
    let table = DeTable::parse(&document).ok()?;
    let table = table.get_ref();
    let (_, list) = table.iter().next().filter(|_| table.len() == 1)?;
    match written(list) {
        Written::List(items) => Some(items),
        _ => None,
    }
}
