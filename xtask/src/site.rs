//! The documents as a site with search, in `target/site`: every page that can be reached from the README, and what they link to.
//!
//! Pages are laid out below `target/site-pages` as in the repository, so that their links stay as they are. A linked folder
//! becomes a page that lists it, a linked source file a page that shows it. The navigation is that of `docs/README.md`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::program::Program;
use crate::report::Outcome;
use crate::tidy::links::{Link, links, reached};
use crate::tidy::tree::Tree;
use crate::{packages, workshop};

/// What makes pages of Markdown, with the version that is pinned, from PyPI.
const TOOL: &str = "mkdocs==1.6.1";

/// What lists the documents, by purpose.
const CONTENTS: &str = "docs/README.md";

/// Shown as they are by a browser.
const COPIED: [&str; 5] = [".html", ".svg", ".png", ".css", ".json"];

/// Builds the site anew.
pub fn run() -> Outcome {
    let built = Tree::of_work_tree(&crate::tree())
        .and_then(|tree| packages::for_python().map(|()| tree))
        .and_then(|tree| build(&tree));
    match built {
        Ok(pages) => {
            println!("{pages} pages: target/site/index.html");
            Outcome::passed(1)
        }
        Err(why) => Outcome::failed(why),
    }
}

fn build(tree: &Tree) -> Result<usize, String> {
    let target = crate::tree().join("target");
    let pages = target.join("site-pages");
    let _ = fs::remove_dir_all(&pages);
    let documents = reached(tree);
    let links = links(tree);
    let mut shown = BTreeSet::new();
    for document in &documents {
        let own: Vec<&Link> = links.iter().filter(|link| link.from == *document).collect();
        write(&pages, document, &page(tree, document, &own))?;
        shown.extend(own.into_iter().map(|link| link.target.clone()));
    }
    for path in shown.difference(&documents) {
        match place(tree, path) {
            Place::AsIs => copy(&pages, path)?,
            Place::Page(name) if documents.contains(&name) => {}
            Place::Page(name) => write(&pages, &name, &made(tree, path))?,
        }
    }
    let settings = target.join("site.yml");
    let text = settings_of(tree, &documents);
    fs::write(&settings, text).map_err(|error| format!("{}: {error}", settings.display()))?;
    let python = tool(&target)?;
    Program::new(&python)
        .args([
            "-m",
            "mkdocs",
            "build",
            "--quiet",
            "--strict",
            "--clean",
            "--config-file",
        ])
        .args([&settings])
        .run()?;
    Ok(documents.len())
}

/// Where the site has what a link leads to.
enum Place {
    AsIs,
    /// A page of this name, made of a folder or a source file unless there is one.
    Page(String),
}

fn place(tree: &Tree, path: &str) -> Place {
    if path.ends_with(".md") || COPIED.iter().any(|end| path.ends_with(end)) {
        Place::AsIs
    } else if tree.is_file(path) {
        Place::Page(format!("{path}.md"))
    } else {
        Place::Page(format!("{path}/README.md"))
    }
}

/// A document whose links lead to where the site has their targets.
fn page(tree: &Tree, document: &str, links: &[&Link]) -> String {
    let mut lines: Vec<String> = tree.text(document).lines().map(str::to_owned).collect();
    for link in links {
        if let Place::Page(name) = place(tree, &link.target) {
            let rest = name.strip_prefix(&link.target).unwrap_or_default();
            let written = link.written.trim_end_matches('/');
            let line = &mut lines[link.line - 1];
            *line = line.replace(
                &format!("]({})", link.written),
                &format!("]({written}{rest})"),
            );
        }
    }
    lines.join("\n") + "\n"
}

/// The page of a folder or of a source file.
fn made(tree: &Tree, path: &str) -> String {
    if tree.is_file(path) {
        let language = path.rsplit_once('.').map_or("text", |(_, end)| end);
        return format!("# {path}\n\n~~~~~{language}\n{}~~~~~\n", tree.text(path));
    }
    let folder = format!("{path}/");
    let names = tree
        .files()
        .filter_map(|(file, _)| file.strip_prefix(&folder));
    let list: String = names.map(|name| format!("- `{name}`\n")).collect();
    format!("# {path}\n\nFiles of this folder of the repository:\n\n{list}")
}

/// mkdocs.yml, which YAML allows to be JSON in its values.
fn settings_of(tree: &Tree, documents: &BTreeSet<String>) -> String {
    let mut navigation = "nav:\n  - README.md\n".to_owned();
    let contents = links(tree).into_iter().filter(|link| link.from == CONTENTS);
    let contents: Vec<Link> = contents.collect();
    let mut listed = BTreeSet::new();
    for (number, line) in tree.text(CONTENTS).lines().enumerate() {
        if let Some(purpose) = line
            .strip_prefix("**")
            .and_then(|rest| rest.strip_suffix("**"))
        {
            navigation += &format!("  - {purpose}:\n");
        }
        let of_line = contents.iter().filter(|link| link.line == number + 1);
        for link in of_line.filter(|link| documents.contains(&link.target)) {
            if listed.insert(link.target.as_str()) {
                navigation += &format!("      - {}\n", link.target);
            }
        }
    }
    format!(
        "site_name: Thalweg\ndocs_dir: site-pages\nsite_dir: site\nuse_directory_urls: false\nplugins: [search]\n\
         theme: {{name: mkdocs, highlightjs: false, nav_style: light}}\nmarkdown_extensions:\n  - toc: {{permalink: true}}\n\
         validation: {{nav: {{omitted_files: ignore}}, links: {{not_found: warn, unrecognized_links: warn}}}}\n{navigation}"
    )
}

/// Python with mkdocs, in an environment of its own.
fn tool(target: &Path) -> Result<String, String> {
    let folder = target.join("site-tool");
    let (mark, python) = (
        folder.join(TOOL),
        workshop::text(&folder.join("bin/python")),
    );
    if !mark.exists() {
        let _ = fs::remove_dir_all(&folder);
        Program::new("python3")
            .args(["-m", "venv"])
            .args([&folder])
            .run()?;
        Program::new(&python)
            .args(["-m", "pip", "install", "--quiet", TOOL])
            .run()?;
        fs::write(&mark, "").map_err(|error| format!("{}: {error}", mark.display()))?;
    }
    Ok(python)
}

fn write(pages: &Path, path: &str, text: &str) -> Result<(), String> {
    let file = ready(pages, path)?;
    fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
}

fn copy(pages: &Path, path: &str) -> Result<(), String> {
    let file = ready(pages, path)?;
    let copied = fs::copy(crate::tree().join(path), &file);
    copied
        .map(drop)
        .map_err(|error| format!("{}: {error}", file.display()))
}

/// The place of a file, in a folder that is there.
fn ready(pages: &Path, path: &str) -> Result<PathBuf, String> {
    let file = pages.join(path);
    let folder = file.parent().unwrap_or(pages);
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages_and_the_navigation_is_that_of_the_contents() {
        let tree = Tree::fixture(&[
            (
                "README.md",
                "See [docs](docs/README.md), [code](src/a.rs) and [all](src/).",
            ),
            (
                "docs/README.md",
                "**To use it**\n\n- [a.md](a.md): the page, not [that](../README.md#x)\n",
            ),
            ("docs/a.md", "# A\n"),
            ("src/a.rs", "fn a() {}\n"),
        ]);
        let (documents, links) = (reached(&tree), links(&tree));
        let own: Vec<&Link> = links
            .iter()
            .filter(|link| link.from == "README.md")
            .collect();
        assert_eq!(
            page(&tree, "README.md", &own),
            "See [docs](docs/README.md), [code](src/a.rs.md) and [all](src/README.md).\n"
        );
        assert!(made(&tree, "src/a.rs").contains("~~~~~rs\nfn a() {}\n~~~~~"));
        assert!(made(&tree, "src").contains("- `a.rs`"));
        let settings = settings_of(&tree, &documents);
        assert!(settings.ends_with("  - To use it:\n      - docs/a.md\n      - README.md\n"));
    }
}
