//! What doc comments are worth.

use std::collections::BTreeMap;

use super::Breach;
use super::names::crate_of;
use super::tree::Tree;

/// A doc comment with as few words or fewer repeats the name of what it stands above.
const WORDS_MAX: usize = 3;

/// Crates whose public items all need a comment (`missing_docs`), or whose comments are help texts, with the short ones that
/// they had when the rule came. Entries only shrink or go.
const RATCHET: [(&str, usize); 2] = [("thalweg-client", 93), ("thalweg-zmtp", 18)];

/// Doc comments say what the name cannot: unit, range, who sets it, when it is empty.
pub fn no_short_doc_comments(tree: &Tree) -> Vec<Breach> {
    let mut by_crate: BTreeMap<&str, Vec<Breach>> = BTreeMap::new();
    for (path, text) in tree.ending(".rs") {
        let found = short_doc_comments(text).into_iter().map(|(line, comment)| {
            let what = format!(
                "`{comment}` says no more than the name: say what the name cannot, or delete it"
            );
            Breach::at(path, line, what)
        });
        by_crate.entry(crate_of(path)).or_default().extend(found);
    }
    let allowed = |krate: &str| {
        let row = RATCHET.iter().find(|(known, _)| *known == krate);
        row.map_or(0, |(_, most)| *most)
    };
    let over = by_crate
        .into_iter()
        .filter(|(krate, found)| found.len() > allowed(krate));
    over.flat_map(|(_, found)| found).collect()
}

/// Line, from 1, and text of each short doc comment. What cites code, a clause or a number counts as more than a name.
fn short_doc_comments(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut lines = text.lines().map(str::trim).enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        let Some(first) = doc_text(line) else {
            continue;
        };
        let mut comment = first.to_owned();
        while let Some(more) = lines.peek().and_then(|(_, line)| doc_text(line)) {
            comment.push(' ');
            comment.push_str(more);
            lines.next();
        }
        let cites = comment.contains(|c: char| "`[<".contains(c) || c.is_ascii_digit());
        if !cites && comment.split_whitespace().count() <= WORDS_MAX {
            found.push((number + 1, comment.trim().to_owned()));
        }
    }
    found
}

/// The text of a line of a doc comment.
fn doc_text(line: &str) -> Option<&str> {
    let text = line.strip_prefix("///")?;
    (!text.starts_with('/')).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_that_repeats_the_name_is_found() {
        let count =
            |text| no_short_doc_comments(&Tree::fixture(&[("crates/x/src/a.rs", text)])).len();
        assert_eq!(count("/// Its name.\nname: String,\n"), 1);
        assert_eq!(
            count("/// Its name, unique\n/// in a tenant.\nname: String,\n"),
            0
        );
        assert_eq!(count("/// [MQTT-3.1.2-1]\nfn a() {}\n"), 0, "a clause");
        assert_eq!(count("//// Its name.\n// Its name.\n"), 0, "no doc comment");
        assert_eq!(count("    /// One.\n    A,\n    /// Two.\n    B,\n"), 2);
    }
}
