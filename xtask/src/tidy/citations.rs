//! Checks that files which code and documents cite are in the repository.

use super::Breach;
use super::source::comments_only;
use super::tree::Tree;

/// Places outside the repository that files of ours once named.
const OUTSIDE: [&str; 3] = ["../shared", "DESIGN.md", "STYLE.md"];

/// What stands before the number of a decision, and what the path of a document begins with.
const DECISION: &str = "ADR ";
const DOCUMENT: &str = "docs/";

/// Decisions and documents that are cited exist, and so does every place a reader is sent to.
pub fn citations_are_in_the_repository(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    // Few files cite anything, and telling comments apart takes long.
    let cites = |text: &str| {
        OUTSIDE
            .iter()
            .chain(&[DECISION, DOCUMENT])
            .any(|it| text.contains(it))
    };
    let files = tree
        .files()
        .filter(|(path, text)| is_read(path) && cites(text));
    for (path, text) in files {
        let shown = match path.ends_with(".rs") {
            true => comments_only(text),
            false => text.to_owned(),
        };
        for (number, line) in shown.lines().enumerate() {
            let outside = OUTSIDE.into_iter().filter(|name| line.contains(name));
            let missing = decisions(line)
                .filter(|number| !has_decision(tree, number))
                .map(|number| format!("there is no ADR {number}"))
                .chain(outside.map(|name| format!("{name} is not in the repository")))
                .chain(lost_document(tree, path, line));
            breaches.extend(missing.map(|what| Breach::at(path, number + 1, what)));
        }
    }
    breaches
}

fn is_read(path: &str) -> bool {
    const TYPES: [&str; 7] = [".rs", ".md", ".py", ".sh", ".toml", ".go", ".java"];
    path != "xtask/src/tidy/citations.rs" && TYPES.iter().any(|end| path.ends_with(end))
}

/// The numbers behind `ADR `.
fn decisions(line: &str) -> impl Iterator<Item = &str> {
    let behind = line
        .split(DECISION)
        .skip(1)
        .filter_map(|rest| rest.get(..4));
    behind.filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn has_decision(tree: &Tree, number: &str) -> bool {
    let start = format!("docs/adr/{number}-");
    tree.files().any(|(path, _)| path.starts_with(&start))
}

/// A document that a comment names by its path from the root. Links of Markdown are another rule's.
fn lost_document(tree: &Tree, path: &str, line: &str) -> Option<String> {
    if path.ends_with(".md") || !line.contains(DOCUMENT) {
        return None;
    }
    let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || "._-/".contains(c)));
    let mut documents = words.filter(|word| word.ends_with(".md") && word.starts_with(DOCUMENT));
    let lost = documents.find(|document| !tree.has(document))?;
    Some(format!("there is no {lost}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citations_of_what_is_not_there_are_found() {
        let count = |text: &str| {
            let files = [
                ("crates/x/src/a.rs", text),
                ("docs/adr/0001-a.md", ""),
                ("docs/a.md", ""),
            ];
            citations_are_in_the_repository(&Tree::fixture(&files)).len()
        };
        assert_eq!(count("// see ADR 0001 and docs/a.md\n"), 0);
        assert_eq!(count("// see ADR 0002\n"), 1);
        assert_eq!(count("/// As docs/lost.md says.\n"), 1);
        assert_eq!(count(concat!("// DESIGN", ".md, part 2\n")), 1);
        assert_eq!(count("let path = \"docs/lost.md\";\n"), 0, "no comment");
    }
}
