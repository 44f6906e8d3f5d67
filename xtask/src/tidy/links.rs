//! Links between documents.

use std::collections::{BTreeMap, BTreeSet};

use super::Breach;
use super::tree::Tree;

/// The page from which every other can be reached.
const FRONT_PAGE: &str = "README.md";

/// A relative link of a document.
#[derive(Debug)]
pub struct Link {
    pub from: String,
    /// Counted from 1.
    pub line: usize,
    /// As the document has it between the parentheses.
    pub written: String,
    /// Path from the root of the repository.
    pub target: String,
    /// The heading behind `#`; empty if the link names none.
    pub anchor: String,
}

/// Every relative link in a document leads to a file or a folder.
pub fn links_resolve(tree: &Tree) -> Vec<Breach> {
    let lost = links(tree)
        .into_iter()
        .filter(|link| !tree.has(&link.target));
    lost.map(|link| {
        let what = format!("the link to {} leads nowhere", link.target);
        Breach::at(&link.from, link.line, what)
    })
    .collect()
}

/// Every `#heading` of a link is a heading of the document that it leads to.
pub fn anchors_resolve(tree: &Tree) -> Vec<Breach> {
    let headings: BTreeMap<&str, BTreeSet<String>> = tree
        .ending(".md")
        .map(|(path, text)| (path, anchors(text)))
        .collect();
    let is_lost = |link: &Link| {
        let known = headings.get(link.target.as_str());
        !link.anchor.is_empty() && known.is_some_and(|known| !known.contains(&link.anchor))
    };
    let lost = links(tree).into_iter().filter(is_lost);
    lost.map(|link| {
        let what = format!("{} has no heading #{}", link.target, link.anchor);
        Breach::at(&link.from, link.line, what)
    })
    .collect()
}

/// Every document below `docs/` can be reached from the front page, link by link.
pub fn documents_are_linked(tree: &Tree) -> Vec<Breach> {
    let reached = reached(tree);
    let documents = tree.ending(".md").map(|(path, _)| path);
    documents
        .filter(|path| path.starts_with("docs/") && !reached.contains(*path))
        .map(|path| Breach::of(path, "no page leads here: add it to docs/README.md"))
        .collect()
}

/// The documents that can be reached from the front page. A linked folder stands for its README, or for all its documents if
/// it has none.
pub fn reached(tree: &Tree) -> BTreeSet<String> {
    let links = links(tree);
    let mut reached = BTreeSet::from([FRONT_PAGE.to_owned()]);
    let mut next = vec![FRONT_PAGE.to_owned()];
    while let Some(page) = next.pop() {
        for link in links.iter().filter(|link| link.from == page) {
            for page in pages_at(tree, &link.target) {
                if reached.insert(page.to_owned()) {
                    next.push(page.to_owned());
                }
            }
        }
    }
    reached
}

/// The documents that a link leads to.
fn pages_at<'a>(tree: &'a Tree, target: &str) -> Vec<&'a str> {
    let documents = || tree.ending(".md").map(|(path, _)| path);
    let readme = format!("{target}/README.md");
    let one = documents().find(|path| *path == target || *path == readme);
    let is_below = |path: &&str| {
        path.rsplit_once('/')
            .is_some_and(|(folder, _)| folder == target)
    };
    one.map_or_else(|| documents().filter(is_below).collect(), |page| vec![page])
}

/// The anchors of a document's headings: small letters, hyphens for spaces, other signs left out; a repeated one is numbered.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (line, in_code) in lines(text) {
        let title = line.trim_start_matches('#');
        if in_code || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        // Of a link only the text counts.
        let mut words = String::new();
        for (at, piece) in title.trim().split("](").enumerate() {
            let rest = piece.split_once(')').filter(|_| at > 0);
            words.push_str(rest.map_or(piece, |(_, rest)| rest));
        }
        let letters = words.to_lowercase();
        let kept = letters.chars().filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        });
        let anchor: String = kept.collect();
        let numbered = (1..).map(|number| format!("{anchor}-{number}"));
        let mut names = std::iter::once(anchor.clone()).chain(numbered);
        found.extend(names.find(|name| !found.contains(name)));
    }
    found
}

/// Relative links of all documents; those inside code are none.
pub fn links(tree: &Tree) -> Vec<Link> {
    let mut found = Vec::new();
    for (path, text) in tree.ending(".md") {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (number, (line, in_code)) in lines(text).enumerate() {
            if in_code {
                continue;
            }
            // Every other piece between backticks is code.
            let prose = line.split('`').step_by(2).collect::<Vec<_>>().join("");
            let targets = prose.split("](").skip(1);
            for target in targets.filter_map(|rest| rest.split(')').next()) {
                let target = target.split(' ').next().unwrap_or_default();
                let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
                if target.is_empty() || target.contains(':') {
                    continue;
                }
                found.push(Link {
                    from: path.to_owned(),
                    line: number + 1,
                    written: target.to_owned(),
                    target: match file {
                        "" => path.to_owned(),
                        file => resolve(folder, file),
                    },
                    anchor: anchor.to_owned(),
                });
            }
        }
    }
    found
}

/// The lines of a document, and whether each is in a block of code or begins or ends one.
fn lines(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut in_code = false;
    text.lines().map(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        (line, in_code || is_fence)
    })
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
    fn headings_that_are_not_there_are_found() {
        let check = |link: &str| {
            let a =
                "# A page\n## What `x` is, & why\n## Twice\n## Twice\n```sh\n# no heading\n```\n";
            let tree = Tree::fixture(&[("README.md", link), ("docs/a.md", a)]);
            anchors_resolve(&tree).len()
        };
        assert_eq!(check("[1](docs/a.md#a-page) [2](docs/a.md#twice-1)"), 0);
        assert_eq!(check("[3](docs/a.md#what-x-is--why) [4](docs/a.md)"), 0);
        assert_eq!(check("[5](docs/a.md#no-heading) [6](#here)"), 2);
        assert_eq!(check("# Here\n[6](#here)"), 0);
    }

    #[test]
    fn documents_that_no_page_leads_to_are_found() {
        let tree = Tree::fixture(&[
            ("README.md", "[docs](docs/README.md)"),
            ("docs/README.md", "[a](a.md), [decisions](adr/)"),
            ("docs/a.md", "[myself](a.md)"),
            ("docs/lost.md", "[a page that links back](lost-too.md)"),
            ("docs/lost-too.md", "[a page that links here](lost.md)"),
            ("docs/adr/0001-x.md", "x"),
        ]);
        let breaches = documents_are_linked(&tree);
        assert_eq!(
            breaches
                .iter()
                .map(|breach| breach.place.as_str())
                .collect::<Vec<_>>(),
            ["docs/lost-too.md", "docs/lost.md"]
        );
    }
}
