//! Reading mappings whose keys are known: any other is refused, with the nearest known one.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use strsim::osa_distance;

use super::tree::{Node, NodeKind};

/// The keys of each section.
static KEYS: LazyLock<BTreeMap<String, Vec<String>>> = LazyLock::new(|| {
    let keys = toml::from_str(include_str!("keys.toml"));
    keys.unwrap_or_else(|error| panic!("keys.toml: {error}"))
});

/// Refuses keys that are not known, in a section and below.
pub fn check(path: &str, node: &Node) -> Result<(), String> {
    let section = if path.is_empty() { "scenario" } else { path };
    let (Some(known), NodeKind::Map(entries)) = (KEYS.get(section), &node.kind) else {
        return Ok(());
    };
    for (key, node) in entries {
        let (path, place) = (joined(path, key), place(node));
        if !known.contains(key) {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let hint = hint(key, &known);
            return Err(format!("{path}{place}: there is no such key; {hint}"));
        }
        check(&path, node)?;
    }
    Ok(())
}

fn joined(path: &str, key: &str) -> String {
    match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    }
}

/// A mapping that is being read.
pub struct Section<'a> {
    path: String,
    entries: &'a [(String, Node)],
}

impl<'a> Section<'a> {
    /// The whole scenario, or a section of it.
    pub fn new(path: &str, node: &'a Node) -> Result<Section<'a>, String> {
        let (path, entries) = (path.to_owned(), node.entries(path)?);
        Ok(Section { path, entries })
    }

    /// A section of this one; none has the defaults.
    pub fn section(&self, key: &'static str) -> Result<Section<'a>, String> {
        let path = self.path_of(key);
        match self.node(key) {
            Some(node) => Section::new(&path, node),
            None => Ok(Section { path, entries: &[] }),
        }
    }

    /// What is there as it stands.
    fn node(&self, key: &'static str) -> Option<&'a Node> {
        let found = self.entries.iter().find(|(name, _)| name == key);
        found.map(|(_, node)| node)
    }

    /// A value; `read` says what it is.
    pub fn maybe<T>(
        &self,
        key: &'static str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let path = self.path_of(key);
        let Some(node) = self.node(key) else {
            return Ok(None);
        };
        match &node.kind {
            NodeKind::Scalar(text) => read(text)
                .map(Some)
                .map_err(|why| format!("{path}{}: {why}", place(node))),
            _ => Err(format!("{path}{}: one value is expected", place(node))),
        }
    }

    /// A value, or its default.
    pub fn or<T>(
        &self,
        key: &'static str,
        default: T,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, String> {
        Ok(self.maybe(key, read)?.unwrap_or(default))
    }

    /// A value that there is no default for.
    pub fn must<T>(
        &self,
        key: &'static str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, String> {
        let path = self.path_of(key);
        self.maybe(key, read)?
            .ok_or_else(|| format!("{path}: it has no default and is missing"))
    }

    /// A list of words.
    pub fn words(&self, key: &'static str) -> Result<Vec<String>, String> {
        let path = self.path_of(key);
        let Some(node) = self.node(key) else {
            return Ok(Vec::new());
        };
        let word = |node: &Node| match &node.kind {
            NodeKind::Scalar(text) => Ok(text.clone()),
            _ => Err(format!("{path}{}: words are expected", place(node))),
        };
        node.list(&path)?.iter().map(word).collect()
    }

    /// A mapping whose keys may be any.
    pub fn free(&self, key: &'static str) -> Result<&'a [(String, Node)], String> {
        self.section(key).map(|section| section.entries)
    }

    /// The full name of a key, for errors.
    pub fn path_of(&self, key: &str) -> String {
        joined(&self.path, key)
    }
}

/// Where something stands, for errors.
pub fn place(node: &Node) -> String {
    match node.line {
        0 => String::new(),
        line => format!(" (line {line})"),
    }
}

/// What may have been meant: the nearest word if one is near, of which at most a third of the letters differ, else all.
pub fn hint(word: &str, known: &[&str]) -> String {
    let distances = known.iter().map(|name| (osa_distance(word, name), *name));
    match distances.min() {
        Some((distance, nearest)) if distance <= 1 + nearest.len() / 3 => {
            format!("did you mean {nearest}?")
        }
        _ => format!("there are {}", known.join(", ")),
    }
}
