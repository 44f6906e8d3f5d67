//! What documents say about the code is true: files, functions and span names in the follow-a-publish tables, crates,
//! settings, metrics, figures.

use super::Breach;
use super::tree::Tree;

/// The two documents that follow a message, file by file.
const FOLLOWING: [&str; 2] = ["docs/follow-a-publish.md", "ARCHITECTURE.md"];

/// The front page and the code map name every crate.
pub fn every_crate_is_on_the_front_pages(tree: &Tree) -> Vec<Breach> {
    let (readme, architecture) = (tree.text("README.md"), tree.text("ARCHITECTURE.md"));
    let mut breaches = Vec::new();
    for (path, _) in tree.ending("/Cargo.toml") {
        let Some(name) = path
            .strip_prefix("crates/")
            .and_then(|rest| rest.strip_suffix("/Cargo.toml"))
            .filter(|name| !name.contains('/'))
        else {
            continue;
        };
        if !readme.contains(&format!("[{name}](crates/{name}/")) {
            breaches.push(Breach::of("README.md", format!("list {name}")));
        }
        let is_heading = |line: &str| line.starts_with("### ") && line.contains(name);
        if !architecture.lines().any(is_heading) {
            let what = format!("the code map has no heading with {name}");
            breaches.push(Breach::of("ARCHITECTURE.md", what));
        }
    }
    breaches
}

/// The files and functions on a message's way are there.
pub fn a_messages_way_exists(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for document in FOLLOWING {
        let rows = way_of_a_message(tree.text(document));
        if rows.len() < 10 {
            let what = format!("the table that follows a message has {} rows", rows.len());
            breaches.push(Breach::of(document, what));
        }
        for row in rows {
            let file = row.files.first().copied().unwrap_or_default();
            let source = tree.text(file);
            for function in row.functions {
                let name = function.rsplit("::").next().unwrap_or(function);
                if !source.contains(&format!("fn {name}("))
                    && !source.contains(&format!("fn {name}<"))
                {
                    let what = format!("`{file}` has no function {function}");
                    breaches.push(Breach::of(document, what));
                }
            }
        }
    }
    breaches
}

/// Span names are those of the metrics, in their order.
pub fn span_names_are_those_of_the_metrics(tree: &Tree) -> Vec<Breach> {
    const STAGES: &str = "crates/thalweg-server/src/stages.rs";
    let Some((list, _)) = tree
        .text(STAGES)
        .split_once("SPANS:")
        .and_then(|(_, rest)| rest.split_once("];"))
    else {
        return vec![Breach::of(STAGES, "declares no SPANS")];
    };
    let spans: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    let mut breaches = Vec::new();
    for document in FOLLOWING {
        let told: Vec<&str> = way_of_a_message(tree.text(document))
            .into_iter()
            .map(|row| row.span)
            .collect();
        if told != spans {
            let what = format!("its spans are {told:?}, those of the metrics {spans:?}");
            breaches.push(Breach::of(document, what));
        }
    }
    breaches
}

/// What is plainly a path from the root is a file or a folder.
pub fn files_in_documents_exist(tree: &Tree) -> Vec<Breach> {
    const STARTS: [&str; 4] = ["crates/", "xtask/src/", "docs/", "fuzz/fuzz_targets/"];
    let is_lost = |code: &str| {
        STARTS.iter().any(|start| code.starts_with(start))
            && !code.contains(['*', ' ', '<', '…', '{', 'N'])
            && !tree.has(code.trim_end_matches('/'))
    };
    code_in_documents(tree)
        .filter(|(_, _, code)| is_lost(code))
        .map(|(path, line, code)| Breach::at(path, line, format!("there is no {code}")))
        .collect()
}

/// Settings and metrics that documents name are in their references.
pub fn settings_and_metrics_in_documents_exist(tree: &Tree) -> Vec<Breach> {
    let keys: Vec<&str> = tree
        .text("docs/reference/config.md")
        .lines()
        .filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'))
        .collect();
    let metrics = tree.text("docs/reference/metrics.md");
    let mut breaches = Vec::new();
    for (path, line, code) in code_in_documents(tree) {
        if is_key(code, &keys) {
            let stem = code.trim_end_matches('*');
            let is_there =
                |key: &&str| **key == *stem || stem.ends_with('.') && key.starts_with(stem);
            if !keys.iter().any(is_there) {
                breaches.push(Breach::at(
                    path,
                    line,
                    format!("there is no setting {code}"),
                ));
            }
        }
        if code.starts_with("thalweg_") && !code.contains("::") {
            let name = code.split(['{', ' ']).next().unwrap_or(code);
            if !metrics.contains(name) {
                breaches.push(Breach::at(path, line, format!("there is no metric {name}")));
            }
        }
    }
    breaches
}

/// Instruction counts that are published are within 5 % of those that were committed.
pub fn instruction_counts_are_those_committed(tree: &Tree) -> Vec<Breach> {
    const PUBLISHED: &str = "docs/performance.md";
    let results = tree.text("bench-results/instructions.toml");
    let mut breaches = Vec::new();
    for (number, row) in tree.text(PUBLISHED).lines().enumerate() {
        let Some(name) = row
            .strip_prefix("| `")
            .and_then(|rest| rest.split('`').next())
        else {
            continue;
        };
        let mut counts = results.lines().filter_map(|line| line.split_once(" = "));
        let Some(count) = counts
            .find(|(known, _)| *known == name)
            .and_then(|(_, count)| count.parse::<f64>().ok())
        else {
            continue;
        };
        let cells = row.trim_end_matches(['|', ' ']);
        let shown: Option<f64> = cells.rsplit(' ').next().and_then(|cell| cell.parse().ok());
        if shown.is_none_or(|shown| (shown / count - 1.0).abs() >= 0.05) {
            let what = format!("{name} is {count}");
            breaches.push(Breach::at(PUBLISHED, number + 1, what));
        }
    }
    breaches
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
struct Row<'a> {
    files: Vec<&'a str>,
    functions: Vec<&'a str>,
    span: &'a str,
}

/// The rows that begin with a number and end with a span.
fn way_of_a_message(text: &str) -> Vec<Row<'_>> {
    let cells = text.lines().map(|line| {
        let cells = line.trim_matches('|').split('|').map(str::trim);
        cells.collect::<Vec<_>>()
    });
    cells
        .filter(|cells| cells.len() == 5 && cells[0].parse::<u32>().is_ok())
        .map(|cells| Row {
            files: in_backticks(cells[1]).collect(),
            functions: in_backticks(cells[2]).collect(),
            span: in_backticks(cells[4]).next().unwrap_or_default(),
        })
        .collect()
}

/// What stands between backticks outside of fences, with document and line.
fn code_in_documents(tree: &Tree) -> impl Iterator<Item = (&str, usize, &str)> {
    tree.ending(".md").flat_map(|(path, text)| {
        let mut in_fence = false;
        let lines = text.lines().enumerate().filter(move |(_, line)| {
            let is_fence = line.trim_start().starts_with("```");
            in_fence ^= is_fence;
            !in_fence && !is_fence
        });
        lines.flat_map(move |(number, line)| {
            in_backticks(line).map(move |code| (path, number + 1, code))
        })
    })
}

fn in_backticks(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Check = fn(&Tree) -> Vec<Breach>;

    /// How many breaches there are in a tree with these files.
    fn count(check: Check, files: &[(&str, &str)]) -> usize {
        check(&Tree::fixture(files)).len()
    }

    #[test]
    fn a_crate_that_a_front_page_does_not_list_is_found() {
        let check = |readme, architecture| {
            let files = [
                ("README.md", readme),
                ("ARCHITECTURE.md", architecture),
                ("crates/thalweg-x/Cargo.toml", ""),
            ];
            count(every_crate_is_on_the_front_pages, &files)
        };
        assert_eq!(check("[thalweg-x](crates/thalweg-x/)", "### thalweg-x"), 0);
        assert_eq!(check("thalweg-x", "### thalweg-x"), 1);
        assert_eq!(check("[thalweg-x](crates/thalweg-x/)", "thalweg-x"), 1);
    }

    #[test]
    fn functions_and_spans_that_are_not_there_are_found() {
        let row = |number: usize, function, span| {
            format!("| {number} | `crates/x.rs` | `{function}` | what | `{span}` |\n")
        };
        let check = |check: Check, last: String| {
            let table: String = (1..10).map(|n| row(n, "X::go", "a")).collect::<String>() + &last;
            let spans = "SPANS: [&str; 10] = [\"a\", \"a\", \"a\", \"a\", \"a\", \"a\", \"a\", \"a\", \"a\", \"b\"];";
            let files = [
                ("docs/follow-a-publish.md", table.as_str()),
                ("ARCHITECTURE.md", table.as_str()),
                ("crates/x.rs", "fn go<T>(x: T) {}"),
                ("crates/thalweg-server/src/stages.rs", spans),
            ];
            count(check, &files)
        };
        assert_eq!(check(a_messages_way_exists, row(10, "go", "b")), 0);
        assert_eq!(check(a_messages_way_exists, row(10, "gone", "b")), 2);
        assert_eq!(check(a_messages_way_exists, String::new()), 2, "too short");
        let spans: Check = span_names_are_those_of_the_metrics;
        assert_eq!(check(spans, row(10, "go", "b")), 0);
        assert_eq!(check(spans, row(10, "go", "c")), 2);
    }

    #[test]
    fn names_that_are_not_there_are_found() {
        let check = |check: Check, text| {
            let files = [
                ("docs/a.md", text),
                ("docs/reference/config.md", "### `limits.memory`"),
                ("docs/reference/metrics.md", "| `thalweg_in_total` |"),
            ];
            count(check, &files)
        };
        let files: Check = files_in_documents_exist;
        assert_eq!(check(files, "`docs/a.md` and `docs/reference/`"), 0);
        assert_eq!(check(files, "`docs/b.md`"), 1);
        assert_eq!(check(files, "```\n`docs/b.md`\n```"), 0, "an example");
        let names: Check = settings_and_metrics_in_documents_exist;
        assert_eq!(
            check(names, "`limits.memory`, `limits.*`, `other.memory`"),
            0
        );
        assert_eq!(check(names, "`limits.memoir`, `thalweg_out_total`"), 2);
        assert_eq!(check(names, "`thalweg_in_total{shard=\"0\"}`"), 0);
    }

    #[test]
    fn a_count_that_is_published_wrongly_is_found() {
        let check = |row| {
            let files = [
                ("docs/performance.md", row),
                ("bench-results/instructions.toml", "publish = 870.0"),
            ];
            count(instruction_counts_are_those_committed, &files)
        };
        assert_eq!(check("| `publish` | 880 |"), 0);
        assert_eq!(check("| `publish` | 980 |"), 1);
        assert_eq!(check("| `publish` | none |"), 1);
    }
}
