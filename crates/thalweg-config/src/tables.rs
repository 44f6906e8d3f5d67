//! Keys whose value is a table or a list of tables.

use std::path::Path;

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::DeValue;

use super::choices::{Fsync, Words};
use super::forms::{filter, once};
use super::keys::Key;
use super::kind::{Fault, KeyKind, Written, ensure, fault, listed};
use super::nearest::nearest;

/// The entries of a list of tables in their order, each with all keys.
pub(super) fn entries(kind: &KeyKind, keys: &[Key], written: Written) -> Result<Vec<Value>, Fault> {
    let entries = written
        .list()
        .ok_or_else(|| kind.refuses(&written.name()))?;
    kind.bound(entries.len())?;
    let entry = |written: &Spanned<DeValue>| entry(kind, keys, written.get_ref());
    entries.iter().map(entry).collect()
}

fn entry(kind: &KeyKind, keys: &[Key], written: &DeValue) -> Result<Value, Fault> {
    let texts = kind.texts();
    let DeValue::Table(fields) = written else {
        return Err(kind.refuses("a list of other things"));
    };
    let (name, mend) = (keys[0].name.as_str(), &texts.first_mend);
    let missing = || fault(format!("has an entry without {}", texts.first), mend);
    let about = fields.get(name).ok_or_else(missing)?.get_ref();
    ensure!(about.is_str(); "has an entry whose {name} is not text"; mend);
    let about = keys[0].parse(Written::Toml(about, Path::new("")))?;
    let default = |key: &Key| (key.name.clone(), key.parse_default(key.default));
    let mut entry: Map<String, Value> = keys.iter().map(default).collect();
    for (name, written) in fields {
        let name = name.get_ref().as_ref();
        let Some(key) = keys.iter().find(|key| key.name == name) else {
            let names: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
            let mend = match nearest(name, &names) {
                Some(near) => format!("Did you mean {near}?"),
                None => format!("Write {}", listed(&names, "and")),
            };
            let what = format!(
                "says {name} for {about}, which is no part of {}",
                texts.entry
            );
            return Err(fault(what, mend));
        };
        let value = key.parse(Written::Toml(written.get_ref(), Path::new("")));
        let what = |wrong: &Fault| format!("has {about}, whose {name} {}", wrong.what);
        let value = value.map_err(|wrong| fault(what(&wrong), wrong.mend))?;
        let value = match value.is_null() && key.none.is_some() {
            // Its word for "none" is not the same as to leave a key out.
            true => u64::MAX.into(),
            false => value,
        };
        entry.insert(name.to_owned(), value);
    }
    for key in &texts.required {
        ensure!(!entry[key].is_null(); "has {about} without {key}"; kind.mend());
    }
    Ok(entry.into())
}

/// As in a file, in one line.
pub(super) fn show(keys: &[Key], entries: &[Value]) -> String {
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

/// Pairs of a filter and a policy, in the order of the filters.
pub(super) fn policies(kind: &KeyKind, written: Written) -> Result<Value, Fault> {
    let mut pairs = Vec::new();
    match written {
        Written::Toml(DeValue::Table(fields), _) => {
            for (filter, policy) in fields {
                let (filter, policy) = (filter.get_ref(), policy.get_ref().as_str());
                // `telemetry.x = "never"` is a table in TOML.
                let mend = format!(
                    "Write \"{filter}\" = \"always\", \"interval\" or \"never\", with the whole filter in quotes"
                );
                ensure!(policy.is_some(); "has no policy for \"{filter}\""; mend);
                pairs.push((filter.to_string(), policy.unwrap_or_default().to_owned()));
            }
        }
        Written::Toml(DeValue::Array(_), _) => return Err(kind.refuses("a list")),
        _ => {
            for item in kind.items(written)? {
                let what = format!("has no policy for \"{item}\"");
                let pair = item
                    .rsplit_once('=')
                    .ok_or_else(|| fault(what, kind.mend()))?;
                pairs.push((pair.0.trim().to_owned(), pair.1.trim().to_owned()));
            }
        }
    }
    for (of, policy) in &pairs {
        let is_policy = Fsync::from_word(policy).is_some();
        let mend = format!("Write {}", listed(Fsync::WORDS, "or"));
        ensure!(is_policy; "says \"{policy}\" for \"{of}\", which is not a policy"; mend);
        filter(of, Path::new(""))?;
    }
    pairs.sort_unstable();
    once(&pairs.iter().map(|(filter, _)| filter).collect::<Vec<_>>())?;
    Ok(pairs.into_iter().collect())
}
