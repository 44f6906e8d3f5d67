//! What documents say about the code is true: files, functions and span names in the follow-a-publish tables, and links.
//!
//! Sources are read as text, so that a document is compared with what a reader would find there.

use std::fs;
use std::path::{Path, PathBuf};

/// The two documents that follow a message, file by file.
const FOLLOWING: [&str; 2] = ["docs/follow-a-publish.md", "ARCHITECTURE.md"];

/// Folders below the root that hold no documents of ours.
const NOT_OURS: [&str; 4] = ["target", "node_modules", ".git", "corpus"];

#[test]
fn files_and_functions_on_a_messages_way_exist() {
    for document in FOLLOWING {
        let rows = way_of_a_message(document);
        assert!(
            rows.len() >= 10,
            "{document}: the table has only {} rows",
            rows.len()
        );
        for row in rows {
            let Some(file) = row.files.first() else {
                assert!(
                    row.functions.is_empty(),
                    "{document}: functions without a file: {:?}",
                    row.functions
                );
                continue;
            };
            let source = read(file);
            for function in &row.functions {
                assert!(
                    declares(&source, function),
                    "{document}: {file} has no function {function}"
                );
            }
        }
    }
}

#[test]
fn span_names_are_those_of_the_metrics_in_their_order() {
    let source = read("crates/thalweg-server/src/stages.rs");
    let list = source
        .split_once("SPANS:")
        .and_then(|(_, rest)| rest.split_once("];"))
        .expect("stages.rs declares SPANS")
        .0;
    let spans: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    assert_eq!(spans.len(), 10, "{spans:?}");
    for document in FOLLOWING {
        let told: Vec<String> = way_of_a_message(document)
            .into_iter()
            .map(|row| row.span)
            .collect();
        assert_eq!(told, spans, "{document}");
    }
}

#[test]
fn files_named_in_documents_exist() {
    let mut lost = Vec::new();
    for document in documents() {
        let text = fs::read_to_string(&document).expect("a document is text");
        for code in outside_fences(&text).flat_map(in_backticks) {
            // Only what is plainly a path from the root: other code may look like one.
            let is_path = ["crates/", "xtask/src/", "docs/", "fuzz/fuzz_targets/"]
                .iter()
                .any(|start| code.starts_with(start));
            if is_path
                && !code.contains(['*', ' ', '<', '…', '{', 'N'])
                && !root().join(code).exists()
            {
                lost.push(format!("{} names {code}", document.display()));
            }
        }
    }
    assert!(lost.is_empty(), "not there: {lost:#?}");
}

#[test]
fn relative_links_lead_somewhere() {
    let (mut links, mut lost) = (0, Vec::new());
    for document in documents() {
        let text = fs::read_to_string(&document).expect("a document is text");
        let folder = document.parent().expect("a document lies in a folder");
        for target in outside_fences(&text).flat_map(link_targets) {
            let path = target.split('#').next().unwrap_or_default();
            if path.is_empty() || path.contains(':') {
                continue;
            }
            links += 1;
            if !folder.join(path).exists() {
                lost.push(format!("{} to {target}", document.display()));
            }
        }
    }
    assert!(lost.is_empty(), "links that lead nowhere: {lost:#?}");
    assert!(
        links > 20,
        "only {links} links were found: the search for them is broken"
    );
}

#[test]
fn every_crate_is_on_the_front_pages() {
    let (readme, architecture) = (read("README.md"), read("ARCHITECTURE.md"));
    let mut crates = 0;
    for entry in fs::read_dir(root().join("crates"))
        .expect("crates lie in crates/")
        .flatten()
    {
        let name = entry
            .file_name()
            .into_string()
            .expect("names of crates are ASCII");
        assert!(
            readme.contains(&format!("[{name}](crates/{name}/")),
            "README.md does not list {name}"
        );
        let heading = |line: &str| line.starts_with("### ") && line.contains(&name);
        assert!(
            architecture.lines().any(heading),
            "the code map of ARCHITECTURE.md has no {name}"
        );
        crates += 1;
    }
    assert!(crates >= 8, "only {crates} crates were found");
}

#[test]
fn settings_and_metrics_named_in_documents_exist() {
    let headings = read("docs/reference/config.md");
    let keys: Vec<&str> = headings
        .lines()
        .filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'))
        .collect();
    let metrics = read("docs/reference/metrics.md");
    let mut named = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).expect("a document is text");
        let place = document.display();
        for code in outside_fences(&text).flat_map(in_backticks) {
            if is_key(code, &keys) {
                named += 1;
                let stem = code.trim_end_matches('*');
                let is_there =
                    |key: &&str| **key == *stem || stem.ends_with('.') && key.starts_with(stem);
                assert!(
                    keys.iter().any(is_there),
                    "{place}: there is no setting {code}"
                );
            }
            if code.starts_with("thalweg_") && !code.contains("::") {
                named += 1;
                let name = code.split(['{', ' ']).next().unwrap_or(code);
                assert!(metrics.contains(name), "{place}: there is no metric {name}");
            }
        }
    }
    assert!(
        named > 50,
        "only {named} names were found: the search for them is broken"
    );
}

#[test]
fn instruction_counts_on_the_front_page_are_those_that_were_committed() {
    let results = read("bench-results/instructions.toml");
    let counts = results.lines().filter_map(|line| line.split_once(" = "));
    let mut told = 0;
    for row in read("README.md")
        .lines()
        .filter(|line| line.starts_with("| `"))
    {
        let Some(name) = in_backticks(row).next() else {
            continue;
        };
        let Some((_, count)) = counts.clone().find(|(known, _)| *known == name) else {
            continue;
        };
        let count: f64 = count.parse().expect("a count is a number");
        let shown = row
            .trim_end_matches(['|', ' '])
            .rsplit(' ')
            .next()
            .and_then(|cell| cell.parse::<f64>().ok());
        let shown = shown.unwrap_or_else(|| panic!("README.md: {name} has no figure"));
        assert!(
            (shown / count - 1.0).abs() < 0.05,
            "README.md says {shown} for {name}, and it is {count}"
        );
        told += 1;
    }
    assert!(told >= 5, "README.md tells only {told} counts");
}

/// Whether some code looks like a setting: a known first level, a dot, small letters; and is not the name of a file.
fn is_key(code: &str, keys: &[&str]) -> bool {
    let Some((first, rest)) = code.split_once('.') else {
        return false;
    };
    let is_scope = keys
        .iter()
        .any(|key| key.split_once('.').is_some_and(|(scope, _)| scope == first));
    let is_word = rest
        .chars()
        .all(|letter| letter.is_ascii_lowercase() || "_.<>*0123456789".contains(letter));
    is_scope && is_word && !["rs", "js", "md", "toml"].contains(&rest)
}

/// A row of a follow-a-publish table.
struct Row {
    files: Vec<String>,
    functions: Vec<String>,
    span: String,
}

/// The rows that begin with a number and end with a span.
fn way_of_a_message(document: &str) -> Vec<Row> {
    let text = read(document);
    let cells = text.lines().map(|line| {
        line.trim_matches('|')
            .split('|')
            .map(str::trim)
            .collect::<Vec<_>>()
    });
    cells
        .filter(|cells| cells.len() == 5 && cells[0].parse::<u32>().is_ok())
        .map(|cells| {
            let code = |cell: &str| in_backticks(cell).map(str::to_owned).collect::<Vec<_>>();
            Row {
                files: code(cells[1]),
                functions: code(cells[2]),
                span: code(cells[4]).concat(),
            }
        })
        .collect()
}

/// Whether a source declares `function`, written `name` or `Type::name`.
fn declares(source: &str, function: &str) -> bool {
    let name = function.rsplit("::").next().unwrap_or(function);
    source.contains(&format!("fn {name}(")) || source.contains(&format!("fn {name}<"))
}

fn in_backticks(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// What stands in `](…)` outside of code.
fn link_targets(line: &str) -> impl Iterator<Item = String> {
    let prose: String = line.split('`').step_by(2).collect();
    let targets = prose
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', ' ']).next())
        .map(str::to_owned);
    targets.collect::<Vec<_>>().into_iter()
}

fn outside_fences(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

/// Every Markdown file of the work tree.
fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)
            .expect("the work tree can be read")
            .flatten()
        {
            let path = entry.path();
            let is_ours = path
                .file_name()
                .is_some_and(|name| !NOT_OURS.iter().any(|other| name == *other));
            if path.is_dir() && is_ours {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate lies two folders deep")
        .to_owned()
}
