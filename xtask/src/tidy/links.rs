//! Links between documents.

use std::collections::BTreeSet;

use super::Breach;
use super::tree::Tree;

/// Every relative link in a document leads to a file or a folder.
pub fn links_resolve(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (path, number, target) in links(tree) {
        if !tree.has(&target) {
            breaches.push(Breach::at(
                &path,
                number,
                format!("the link to {target} leads nowhere"),
            ));
        }
    }
    breaches
}

/// Every document below `docs/` can be reached: some other document links to it or to its folder.
pub fn documents_are_linked(tree: &Tree) -> Vec<Breach> {
    let reached: BTreeSet<String> = links(tree)
        .into_iter()
        .filter(|(from, _, target)| from != target)
        .map(|(_, _, target)| target)
        .collect();
    let documents = tree
        .ending(".md")
        .map(|(path, _)| path)
        .filter(|path| path.starts_with("docs/"));
    let is_lost = |path: &&str| {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        !(reached.contains(*path) || folder != "docs" && reached.contains(folder))
    };
    documents
        .filter(is_lost)
        .map(|path| Breach::of(path, "no document links here: add it to docs/README.md"))
        .collect()
}

/// Relative links as (document, line, path from the root); links inside code are none.
fn links(tree: &Tree) -> Vec<(String, usize, String)> {
    let mut found = Vec::new();
    for (path, text) in tree.ending(".md") {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut in_code = false;
        for (number, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                in_code = !in_code;
            }
            // Every other piece between backticks is code.
            let prose: String = if in_code {
                String::new()
            } else {
                line.split('`').step_by(2).collect::<Vec<_>>().join("")
            };
            for target in prose
                .split("](")
                .skip(1)
                .filter_map(|rest| rest.split(')').next())
            {
                let target = target.split(['#', ' ']).next().unwrap_or_default();
                if target.is_empty() || target.contains(':') {
                    continue;
                }
                found.push((path.to_owned(), number + 1, resolve(folder, target)));
            }
        }
    }
    found
}

fn resolve(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let tree = Tree::fixture(&[
            (
                "README.md",
                "See [a](docs/a.md#part), [b](docs/b.md) and [web](https://example.org/c.md).",
            ),
            (
                "docs/a.md",
                "Back to [top](../README.md), [here](#part), `[code](none.md)`.\n```\n[x](none.md)\n```\n",
            ),
        ]);
        let breaches = links_resolve(&tree);
        assert_eq!(breaches.len(), 1, "{breaches:?}");
        assert_eq!(breaches[0].place, "README.md:1");
    }

    #[test]
    fn documents_that_nobody_links_to_are_found() {
        let tree = Tree::fixture(&[
            ("README.md", "[docs](docs/README.md)"),
            ("docs/README.md", "[a](a.md), [decisions](adr/)"),
            ("docs/a.md", "[myself](a.md)"),
            ("docs/lost.md", "[myself](lost.md)"),
            ("docs/adr/0001-x.md", ""),
        ]);
        let breaches = documents_are_linked(&tree);
        assert_eq!(
            breaches
                .iter()
                .map(|breach| breach.place.as_str())
                .collect::<Vec<_>>(),
            ["docs/lost.md"]
        );
    }
}
