//! Joins the tables of normative statements with the tests that show them.
//!
//! A table (`crates/thalweg-tests/conformance/*.toml`) has one statement per line and `# 3.1 CONNECT` lines between them. A
//! test shows a statement by naming its id in brackets, `[MQTT-3.3.1-4]` for MQTT 5.0 and `[MQTT3-3.3.1-4]` for 3.1.1:
//! anywhere from the comment above a `#[test]` function to the function's end, or in a transcript. Citations elsewhere in the
//! code explain and prove nothing, so they are not counted; but each one must name a statement that exists.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::tidy::tree::Tree;

/// Title, table, and the prefix of the table's ids.
const TABLES: [(&str, &str, &str); 2] = [
    ("MQTT 5.0", "mqtt5.toml", "MQTT-"),
    ("MQTT 3.1.1", "mqtt311.toml", "MQTT3-"),
];

/// The document's text, or what is wrong with its sources, a line each.
pub fn generate(root: &Path) -> Result<String, String> {
    let mut tables = Vec::new();
    for (title, file, prefix) in TABLES {
        let path = root.join("crates/thalweg-tests/conformance").join(file);
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        tables.push((
            title,
            parse(&text, prefix).map_err(|why| format!("{file}: {why}"))?,
        ));
    }
    let found = Found::in_tree(&Tree::of_work_tree(root)?);
    let problems = found.problems(tables.iter().flat_map(|(_, table)| table));
    if problems.is_empty() {
        Ok(render(&tables, &found))
    } else {
        Err(problems.join("\n"))
    }
}

/// A line of a table that goes into the document.
#[derive(Debug, PartialEq)]
enum TableRow {
    Heading(String),
    Statement(Statement),
}

#[derive(Debug, PartialEq)]
struct Statement {
    id: String,
    binds: String,
    says: String,
    not_applicable: Option<String>,
    deviates: Option<String>,
}

/// Reads a table line by line: the order and the headings are part of the document, and a TOML parser keeps neither.
fn parse(text: &str, prefix: &str) -> Result<Vec<TableRow>, String> {
    let mut lines = Vec::new();
    let mut ids = BTreeSet::new();
    for line in text.lines() {
        if let Some(heading) = line
            .strip_prefix("# ")
            .filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        {
            lines.push(TableRow::Heading(heading.to_owned()));
        } else if line.starts_with('"') {
            let table: toml::Table = line.parse().map_err(|error| format!("{line}: {error}"))?;
            let (id, fields) = table
                .into_iter()
                .next()
                .ok_or_else(|| format!("{line}: no statement"))?;
            if !id.starts_with(prefix) || !is_id(&id) {
                return Err(format!("`{id}` is no id of the form {prefix}1.2.3-4"));
            }
            if !ids.insert(id.clone()) {
                return Err(format!("{id} stands there twice"));
            }
            let field = |name: &str| {
                fields
                    .get(name)
                    .and_then(toml::Value::as_str)
                    .map(str::to_owned)
            };
            let (Some(binds), Some(says)) = (field("binds"), field("says")) else {
                return Err(format!("{id} needs `binds` and `says`"));
            };
            if !BINDS.contains(&binds.as_str()) {
                return Err(format!(
                    "{id}: `binds` must be one of {BINDS:?}, not {binds:?}"
                ));
            }
            let (not_applicable, deviates) = (field("not_applicable"), field("deviates"));
            lines.push(TableRow::Statement(Statement {
                id,
                binds,
                says,
                not_applicable,
                deviates,
            }));
        }
    }
    Ok(lines)
}

/// The end that a statement may bind.
const BINDS: [&str; 4] = ["server", "both", "client", "transport"];

/// A test: the name the document shows, and the file it stands in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Test {
    name: String,
    path: String,
}

/// The tags of a tree.
#[derive(Debug, Default)]
struct Found {
    /// Id to the tests that carry it.
    shown: BTreeMap<String, BTreeSet<Test>>,
    /// Id to every `path:line` that cites it, in tests or not.
    cited: BTreeMap<String, Vec<String>>,
}

impl Found {
    fn in_tree(tree: &Tree) -> Self {
        let mut found = Self::default();
        for (path, text) in tree.files().filter(|(path, _)| path.starts_with("crates/")) {
            if path.ends_with(".rs") {
                found.read_source(path, text);
            } else if path.contains("/transcripts/") {
                found.read_transcript(path, text);
            }
        }
        found
    }

    fn read_source(&mut self, path: &str, text: &str) {
        self.cite(path, text, bracketed_ids);
        for (function, lines) in test_functions(text) {
            self.show(
                bracketed_ids(&lines),
                &format!("{}::{function}", module_of(path)),
                path,
            );
        }
    }

    /// A transcript names a clause with or without brackets, on the line that keeps or breaks it.
    fn read_transcript(&mut self, path: &str, text: &str) {
        let ids = |line: &str| -> Vec<String> {
            let words = line.split(|c: char| c.is_whitespace() || "[](),;:".contains(c));
            words
                .filter(|word| is_id(word))
                .map(str::to_owned)
                .collect()
        };
        self.cite(path, text, ids);
        let file = path.rsplit('/').next().unwrap_or(path);
        self.show(ids(text), &format!("transcript {file}"), path);
    }

    fn cite(&mut self, path: &str, text: &str, ids: impl Fn(&str) -> Vec<String>) {
        for (line, number) in text.lines().zip(1..) {
            for id in ids(line) {
                self.cited
                    .entry(id)
                    .or_default()
                    .push(format!("{path}:{number}"));
            }
        }
    }

    fn show(&mut self, ids: Vec<String>, name: &str, path: &str) {
        for id in ids {
            self.shown.entry(id).or_default().insert(Test {
                name: name.to_owned(),
                path: path.to_owned(),
            });
        }
    }

    /// Citations of statements that do not exist, and tests that show what is called not applicable.
    fn problems<'a>(&self, table: impl Iterator<Item = &'a TableRow>) -> Vec<String> {
        let mut problems = Vec::new();
        let mut known = BTreeSet::new();
        for line in table {
            let TableRow::Statement(statement) = line else {
                continue;
            };
            known.insert(statement.id.as_str());
            if let (Some(why), Some(tests)) =
                (&statement.not_applicable, self.shown.get(&statement.id))
            {
                let id = &statement.id;
                problems.extend(tests.iter().map(|t| {
                    format!("{}: {} shows [{id}], not applicable: {why}", t.path, t.name)
                }));
            }
        }
        for (id, places) in self
            .cited
            .iter()
            .filter(|(id, _)| !known.contains(id.as_str()))
        {
            problems.extend(
                places
                    .iter()
                    .map(|place| format!("{place}: there is no statement [{id}]")),
            );
        }
        problems
    }

    fn state_of<'a>(&self, statement: &'a Statement) -> (&'static str, Option<&'a str>) {
        match statement {
            Statement {
                deviates: Some(why),
                ..
            } => ("deviates", Some(why)),
            Statement {
                not_applicable: Some(why),
                ..
            } => ("not applicable", Some(why)),
            _ if self.shown.contains_key(&statement.id) => ("shown", None),
            _ => ("not shown", None),
        }
    }
}

/// Every `[MQTT-1.2.3-4]` and `[MQTT3-1.2.3-4]`, without the brackets.
fn bracketed_ids(text: &str) -> Vec<String> {
    let bracketed = text
        .split('[')
        .skip(1)
        .filter_map(|rest| rest.split_once(']'))
        .map(|(tag, _)| tag);
    bracketed
        .filter(|tag| is_id(tag))
        .map(str::to_owned)
        .collect()
}

fn is_id(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = text
        .strip_prefix("MQTT3-")
        .or_else(|| text.strip_prefix("MQTT-"));
    numbers
        .and_then(|numbers| numbers.rsplit_once('-'))
        .is_some_and(|(section, number)| {
            is_number(number) && section.contains('.') && section.split('.').all(is_number)
        })
}

/// Name and lines of each `#[test]` function, from the comment above it to its closing brace.
fn test_functions(text: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let belongs_above = |line: &&&str| {
        ["//", "#["]
            .iter()
            .any(|start| line.trim_start().starts_with(start))
    };
    let mut functions = Vec::new();
    for at in (0..lines.len()).filter(|at| lines[*at].trim() == "#[test]") {
        let start = at - lines[..at].iter().rev().take_while(belongs_above).count();
        let Some(head) =
            (at..lines.len()).find(|index| lines[*index].trim_start().starts_with("fn "))
        else {
            continue;
        };
        let (indent, rest) =
            lines[head].split_at(lines[head].len() - lines[head].trim_start().len());
        // The sources are formatted: a function ends at the first closing brace in its own column.
        let end = (head..lines.len()).find(|index| lines[*index].strip_prefix(indent) == Some("}"));
        let name = rest
            .trim_start_matches("fn ")
            .split(['(', '<'])
            .next()
            .unwrap_or_default();
        functions.push((
            name.to_owned(),
            lines[start..=end.unwrap_or(lines.len() - 1)].join("\n"),
        ));
    }
    functions
}

/// The last word of a file's module path: its stem, or its folder for `mod.rs` and the like.
fn module_of(path: &str) -> &str {
    let mut words = path
        .trim_end_matches(".rs")
        .rsplit('/')
        .filter(|word| !["mod", "tests", "lib", "main", "src"].contains(word));
    words.next().unwrap_or(path)
}

fn render(tables: &[(&str, Vec<TableRow>)], found: &Found) -> String {
    let mut text = "# MQTT conformance\n\n\
        <!-- Generated by `cargo xtask docs --bless` from crates/thalweg-tests/conformance/ and the tags in tests. \
        Do not edit. -->\n\n\
        Each normative statement of MQTT 5.0 and 3.1.1 (appendix B of each), summed up in our words, whom it binds, and the\n\
        tests that show it. A statement that binds only the client is shown where the client side of `thalweg-mqtt` keeps it,\n\
        or where the broker meets a client that breaks it. `not shown` means that no test names it yet.\n\n\
        | specification | binds | statements | shown | not shown | not applicable | deviates |\n\
        |---|---|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for (title, table) in tables {
        for binds in BINDS.into_iter().chain(["all"]) {
            let statements =
                || statements(table).filter(|statement| binds == "all" || statement.binds == binds);
            let count = |state| {
                statements()
                    .filter(|statement| found.state_of(statement).0 == state)
                    .count()
            };
            let states = ["shown", "not shown", "not applicable", "deviates"]
                .map(|state| count(state).to_string());
            let _ = writeln!(
                text,
                "| {title} | {binds} | {} | {} |",
                statements().count(),
                states.join(" | ")
            );
        }
    }
    for (title, table) in tables {
        let _ = write!(text, "\n## {title}\n");
        for line in table {
            match line {
                TableRow::Heading(heading) => {
                    let _ = write!(
                        text,
                        "\n### {heading}\n\n| statement | binds | says | tests | state |\n|---|---|---|---|---|\n"
                    );
                }
                TableRow::Statement(statement) => text += &row(statement, found),
            }
        }
    }
    text
}

fn statements(table: &[TableRow]) -> impl Iterator<Item = &Statement> {
    table.iter().filter_map(|line| match line {
        TableRow::Heading(_) => None,
        TableRow::Statement(statement) => Some(statement),
    })
}

fn row(statement: &Statement, found: &Found) -> String {
    let tests = found.shown.get(&statement.id).into_iter().flatten();
    let tests: Vec<String> = tests
        .map(|test| format!("[{}](../{})", test.name, test.path))
        .collect();
    let state = match found.state_of(statement) {
        (state, Some(why)) => format!("{state}: {why}"),
        (state, None) => state.to_owned(),
    };
    let (binds, says) = (&statement.binds, statement.says.replace('|', "\\|"));
    format!(
        "| {} | {binds} | {says} | {} | {state} |\n",
        statement.id.replace("MQTT3-", "MQTT-"),
        tests.join("<br>")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# Prose is no heading.\n# 3.1 CONNECT\n\
        \"MQTT-3.1.0-1\" = { binds = \"client\", says = \"a | b\" }\n\
        \"MQTT-3.1.0-2\" = { binds = \"both\", says = \"c\" }\n\
        \"MQTT-3.1.0-3\" = { binds = \"both\", says = \"d\", deviates = \"because\" }\n\
        \"MQTT-3.1.0-4\" = { binds = \"both\", says = \"e\", not_applicable = \"we have none\" }\n";

    fn found_in(path: &str, text: &str) -> Found {
        Found::in_tree(&Tree::fixture(&[(path, text)]))
    }

    #[test]
    fn tags_count_from_the_comment_above_a_test_to_its_end() {
        let text = "// [MQTT-1.1.1-1] decides this branch\nfn code() {\n}\n\n/// [MQTT-2.2.2-2] and [MQTT3-4.2-1], [link]\n\
            #[test]\nfn it_holds() {\n    {\n    }\n    // [MQTT-3.3.3-3]\n}\n\n// [MQTT-4.4.4-4]\nfn other() {}\n";
        let found = found_in("crates/x/tests/a.rs", text);
        assert_eq!(
            found.shown.keys().collect::<Vec<_>>(),
            ["MQTT-2.2.2-2", "MQTT-3.3.3-3", "MQTT3-4.2-1"]
        );
        assert_eq!(
            found.cited.len(),
            5,
            "citations outside tests are checked too"
        );
        assert_eq!(
            found.shown["MQTT-2.2.2-2"]
                .first()
                .expect("it is shown")
                .name,
            "a::it_holds"
        );
    }

    #[test]
    fn a_transcript_shows_what_it_names() {
        let found = found_in(
            "crates/x/transcripts/connect.txt",
            "# [MQTT-1.2.3-4] why\nC! MQTT-3.1.2-3 36 [ 'a' 0001 ]\n",
        );
        assert_eq!(
            found.shown.keys().collect::<Vec<_>>(),
            ["MQTT-1.2.3-4", "MQTT-3.1.2-3"]
        );
    }

    #[test]
    fn an_unknown_statement_and_a_test_of_what_is_not_applicable_are_problems() {
        let table = parse(TABLE, "MQTT-").expect("well-formed");
        let text = "// [MQTT-9.9.9-9]\nfn code() {}\n\n/// [MQTT-3.1.0-4]\n#[test]\nfn t() {\n}\n";
        let problems = found_in("crates/x/src/a.rs", text).problems(table.iter());
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("a::t shows [MQTT-3.1.0-4], not applicable: we have none"));
        assert!(
            problems[1].starts_with("crates/x/src/a.rs:1: there is no statement [MQTT-9.9.9-9]")
        );
    }

    #[test]
    fn each_state_is_named_and_counted() {
        let table = parse(TABLE, "MQTT-").expect("well-formed");
        let found = found_in(
            "crates/x/src/a.rs",
            "/// [MQTT-3.1.0-1]\n#[test]\nfn t() {\n}\n",
        );
        let text = render(&[("MQTT 5.0", table)], &found);
        assert!(
            text.contains("| MQTT 5.0 | all | 4 | 1 | 1 | 1 | 1 |"),
            "{text}"
        );
        assert!(text.contains("### 3.1 CONNECT"));
        assert!(text.contains(
            "| MQTT-3.1.0-1 | client | a \\| b | [a::t](../crates/x/src/a.rs) | shown |"
        ));
        assert!(text.contains("| MQTT-3.1.0-3 | both | d |  | deviates: because |"));
    }

    #[test]
    fn a_statement_without_its_fields_or_with_another_is_refused() {
        for line in [
            "\"MQTT-1.1-1\" = { binds = \"both\" }",
            "\"MQTT-1.1-1\" = { binds = \"nobody\", says = \"a\" }",
            "\"MQTT3-1.1-1\" = { binds = \"both\", says = \"a\" }",
            "\"MQTT-1-1\" = { binds = \"both\", says = \"a\" }",
        ] {
            assert!(parse(line, "MQTT-").is_err(), "{line}");
        }
    }
}
