//! What doc comments are worth.

use super::Breach;
use super::tree::Tree;

/// A doc comment with as few words or fewer repeats the name of what it stands above.
const WORDS_MAX: usize = 3;

/// Doc comments say what the name cannot: unit, range, who sets it, when it is empty.
pub fn no_short_doc_comments(tree: &Tree) -> Vec<Breach> {
    let found =
        tree.ending(".rs").flat_map(|(path, text)| {
            short_doc_comments(text).into_iter().map(move |(line, comment)| {
            let what = format!(
                "`{comment}` says no more than the name: say what the name cannot, or delete it"
            );
            Breach::at(path, line, what)
        })
        });
    found.collect()
}

/// Line, from 1, and text of each short doc comment. What cites code, a clause or a number counts as more than a name.
fn short_doc_comments(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut lines = text.lines().map(str::trim_start).enumerate().peekable();
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
