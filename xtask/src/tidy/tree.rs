//! The files of the work tree as text, or a few made up for a test of a rule.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::program::Program;

/// Paths from the root to texts. Files that are not UTF-8 are known by name only.
#[derive(Debug, Default)]
pub struct Tree {
    texts: BTreeMap<String, String>,
    others: BTreeSet<String>,
}

impl Tree {
    /// What git tracks, and what is new and not ignored.
    pub fn of_work_tree(root: &Path) -> Result<Self, String> {
        let list = ["ls-files", "--cached", "--others", "--exclude-standard"];
        let (paths, _) = Program::new("git").args(list).folder(root).output()?;
        let mut tree = Self::default();
        for path in paths.lines() {
            match std::fs::read_to_string(root.join(path)) {
                Ok(text) => {
                    tree.texts.insert(path.to_owned(), text);
                }
                // Deleted but not yet committed.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(_) => {
                    tree.others.insert(path.to_owned());
                }
            }
        }
        Ok(tree)
    }

    #[cfg(test)]
    pub fn fixture(files: &[(&str, &str)]) -> Self {
        let texts = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
            .collect();
        Self {
            texts,
            others: BTreeSet::new(),
        }
    }

    /// All texts in the order of their paths.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The text of this file; empty when there is none.
    pub fn text(&self, path: &str) -> &str {
        self.texts.get(path).map_or("", String::as_str)
    }

    /// The texts whose paths end so.
    pub fn ending(&self, suffix: &str) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(move |(path, _)| path.ends_with(suffix))
    }

    pub fn is_file(&self, path: &str) -> bool {
        self.texts.contains_key(path) || self.others.contains(path)
    }

    /// Whether this is a file, or a folder that has one.
    pub fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        let mut all = self.texts.keys().chain(&self.others);
        path.is_empty() || all.any(|known| known == path || known.starts_with(&folder))
    }
}
