//! Writes `docs/conformance-mqtt.md`: each normative statement of MQTT 5.0 and 3.1.1, and the tests that show it.
//!
//! The statements stand in `crates/thalweg-tests/conformance/*.toml`. A test shows a statement by naming its id in brackets,
//! `[MQTT-3.3.1-4]` for 5.0 and `[MQTT3-3.3.1-4]` for 3.1.1: anywhere between the comment above a `#[test]` function and the
//! function's end, or in a file below a folder named `transcripts`. Citations elsewhere in the code explain and prove nothing,
//! so they are not counted; but each one must name a statement that exists.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the document belongs, below the workspace's root.
pub const DOCUMENT: &str = "docs/conformance-mqtt.md";

/// The specifications: title, statement table, and the prefix of its ids.
const SPECIFICATIONS: [(&str, &str, &str); 2] = [
    ("MQTT 5.0", "crates/thalweg-tests/conformance/mqtt5.toml", "MQTT-"),
    ("MQTT 3.1.1", "crates/thalweg-tests/conformance/mqtt311.toml", "MQTT3-"),
];

/// The columns of the totals, in order.
const STATES: [&str; 4] = ["shown", "not shown", "not applicable", "deviates"];

/// The document as it should be for the tree below `root`.
///
/// # Errors
/// One line for each thing to mend: an unreadable table, a tag that names no statement, a test that shows a statement which
/// the table calls not applicable.
pub fn document(root: &Path) -> Result<String, String> {
    let mut tables = Vec::new();
    for (title, path, prefix) in SPECIFICATIONS {
        tables.push((title, read_statements(&root.join(path), prefix)?));
    }
    let mut found = Found::default();
    for path in files_below(&root.join("crates")) {
        let text = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let shown = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        found.read_file(&shown, &String::from_utf8_lossy(&text));
    }

    let mut problems = Vec::new();
    let known = |id: &str| tables.iter().any(|(_, statements)| statements.contains_key(&Id::new(id)));
    for (id, places) in &found.cited {
        if !known(id) {
            problems.extend(places.iter().map(|place| format!("{place}: there is no statement [{id}]")));
        }
    }
    for (id, statement) in tables.iter().flat_map(|(_, statements)| statements) {
        if let (Some(why), Some(tests)) = (&statement.not_applicable, found.shown.get(&id.text)) {
            problems.extend(
                tests.iter().map(|test| format!("{}: shows [{}], which is not applicable: {why}", test.path, id.text)),
            );
        }
    }
    if problems.is_empty() { Ok(render(&tables, &found)) } else { Err(problems.join("\n")) }
}

/// A statement's id, ordered by its numbers: 3.1.2-9 before 3.1.2-10.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    numbers: Vec<u32>,
    text: String,
}

impl Id {
    fn new(text: &str) -> Self {
        let after_prefix = text.split_once('-').map_or("", |(_, numbers)| numbers);
        let numbers = after_prefix.split(['.', '-']).filter_map(|number| number.parse().ok()).collect();
        Self { numbers, text: text.to_owned() }
    }
}

/// One row of a statement table.
#[derive(Debug)]
struct Statement {
    binds: String,
    says: String,
    not_applicable: Option<String>,
    deviates: Option<String>,
}

type Statements = BTreeMap<Id, Statement>;

fn read_statements(path: &Path, prefix: &str) -> Result<Statements, String> {
    let at = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("{at}: {error}"))?;
    let table: toml::Table = text.parse().map_err(|error| format!("{at}: {error}"))?;
    let mut statements = Statements::new();
    for (id, row) in &table {
        let tags = tags_in(&format!("[{id}]"));
        if !id.starts_with(prefix) || tags.len() != 1 {
            return Err(format!("{at}: `{id}` is no id of the form {prefix}1.2.3-4"));
        }
        let field = |name: &str| row.get(name).and_then(toml::Value::as_str).map(str::to_owned);
        let binds = field("binds").unwrap_or_default();
        if !["server", "client", "both", "transport"].contains(&binds.as_str()) {
            return Err(format!("{at}: {id}: binds must be server, client, both or transport, not `{binds}`"));
        }
        let says = field("says").ok_or_else(|| format!("{at}: {id}: says is missing"))?;
        let statement = Statement { binds, says, not_applicable: field("not_applicable"), deviates: field("deviates") };
        statements.insert(Id::new(id), statement);
    }
    Ok(statements)
}

/// A test by the name the document shows, and the file it stands in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Test {
    name: String,
    path: String,
}

/// The tags of the whole tree.
#[derive(Debug, Default)]
struct Found {
    /// Id to the tests that carry it.
    shown: BTreeMap<String, BTreeSet<Test>>,
    /// Id to every `path:line` that cites it, in tests or not.
    cited: BTreeMap<String, Vec<String>>,
}

impl Found {
    fn read_file(&mut self, path: &str, text: &str) {
        for (index, line) in text.lines().enumerate() {
            for id in tags_in(line) {
                self.cited.entry(id).or_default().push(format!("{path}:{}", index + 1));
            }
        }
        if is_rust(path) {
            let module = module_of(path);
            for (function, body) in test_functions(text) {
                self.show(&tags_in(&body), &format!("{module}::{function}"), path);
            }
        } else {
            let name = path.rsplit('/').next().unwrap_or(path);
            self.show(&tags_in(text), &format!("transcript {name}"), path);
        }
    }

    fn show(&mut self, ids: &[String], name: &str, path: &str) {
        for id in ids {
            let test = Test { name: name.to_owned(), path: path.to_owned() };
            self.shown.entry(id.clone()).or_default().insert(test);
        }
    }
}

/// Rust sources and transcripts below `folder`, in a fixed order.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name();
            if path.is_dir() {
                let is_ours = name != "target" && name != "node_modules";
                folders.extend(is_ours.then_some(path));
            } else if is_rust(&name.to_string_lossy())
                || folder.components().any(|part| part.as_os_str() == "transcripts")
            {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "rs")
}

/// The last words of a file's module path: its stem, or its folder for `mod.rs` and `tests.rs`.
fn module_of(path: &str) -> &str {
    let mut parts = path.trim_end_matches(".rs").rsplit('/');
    let stem = parts.next().unwrap_or(path);
    if ["mod", "tests", "lib", "main"].contains(&stem) {
        parts.find(|part| *part != "src").unwrap_or(stem)
    } else {
        stem
    }
}

/// Name and text of each `#[test]` function, from the comment above it to its closing brace.
fn test_functions(text: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let belongs_above = |line: &str| line.trim_start().starts_with("//") || line.trim_start().starts_with("#[");
    let mut functions = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if line.trim() != "#[test]" {
            continue;
        }
        let start = at - lines[..at].iter().rev().take_while(|line| belongs_above(line)).count();
        let Some(head) = (at..lines.len()).find(|index| lines[*index].trim_start().starts_with("fn ")) else {
            continue;
        };
        let indent = lines[head].len() - lines[head].trim_start().len();
        // The sources are formatted: a function ends at the first closing brace in its own column.
        let closes = |line: &str| line.trim_end().len() == indent + 1 && line.trim() == "}";
        let end = (head..lines.len()).find(|index| closes(lines[*index])).unwrap_or(lines.len() - 1);
        let after_fn = lines[head].trim_start().trim_start_matches("fn ");
        let name: String = after_fn.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        functions.push((name, lines[start..=end].join("\n")));
    }
    functions
}

/// Every `[MQTT-1.2.3-4]` and `[MQTT3-1.2.3-4]` of `text`, without the brackets.
fn tags_in(text: &str) -> Vec<String> {
    let mut tags = Vec::new();
    for (start, _) in text.match_indices("[MQTT") {
        let inside = &text[start + 1..];
        let Some(id) = inside.find(']').map(|end| &inside[..end]) else { continue };
        let numbers = id.strip_prefix("MQTT3-").or_else(|| id.strip_prefix("MQTT-"));
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let is_id = numbers.and_then(|numbers| numbers.rsplit_once('-')).is_some_and(|(section, number)| {
            is_number(number) && section.contains('.') && section.split('.').all(is_number)
        });
        if is_id {
            tags.push(id.to_owned());
        }
    }
    tags
}

fn render(tables: &[(&str, Statements)], found: &Found) -> String {
    let mut out = String::from(
        "<!-- Written by `cargo xtask docs`. Edit crates/thalweg-tests/conformance/*.toml or the tests, not this file. -->\n\
         # MQTT conformance\n\n\
         Each normative statement of MQTT 5.0 and MQTT 3.1.1 (the appendices B of the specifications), summed up in our own\n\
         words, with the tests that show it. A test shows a statement by carrying its id, so this page can only say what a test\n\
         says. Statements that bind the client are shown by the client side of `thalweg-mqtt`, or by how the broker treats a\n\
         client that breaks them.\n\n\
         | specification | binds | statements | shown | not shown | not applicable | deviates |\n\
         |---|---|--:|--:|--:|--:|--:|\n",
    );
    for (title, statements) in tables {
        for binds in ["server", "both", "client", "transport", "all"] {
            let rows: Vec<_> =
                statements.iter().filter(|(_, statement)| binds == "all" || statement.binds == binds).collect();
            let count =
                |state: &str| rows.iter().filter(|(id, statement)| state_of(id, statement, found).0 == state).count();
            let counts: Vec<String> = STATES.iter().map(|state| count(state).to_string()).collect();
            let bold = if binds == "all" { "**" } else { "" };
            let _ = writeln!(
                out,
                "| {bold}{title}{bold} | {bold}{binds}{bold} | {} | {} |",
                rows.len(),
                counts.join(" | ")
            );
        }
    }
    for (title, statements) in tables {
        let _ = write!(out, "\n## {title}\n\n| id | binds | statement | tests | state |\n|---|---|---|---|---|\n");
        for (id, statement) in statements {
            let tests: Vec<String> = found
                .shown
                .get(&id.text)
                .into_iter()
                .flatten()
                .map(|test| format!("[{}](../{})", test.name, test.path))
                .collect();
            let state = match state_of(id, statement, found) {
                (state, Some(why)) => format!("{state}: {why}"),
                (state, None) => state.to_owned(),
            };
            let shown_id = id.text.replace("MQTT3-", "MQTT-");
            let says = statement.says.replace('|', "\\|");
            let _ = writeln!(out, "| {shown_id} | {} | {says} | {} | {state} |", statement.binds, tests.join("<br>"));
        }
    }
    out
}

fn state_of<'a>(id: &Id, statement: &'a Statement, found: &Found) -> (&'static str, Option<&'a str>) {
    match statement {
        Statement { deviates: Some(why), .. } => ("deviates", Some(why)),
        Statement { not_applicable: Some(why), .. } => ("not applicable", Some(why)),
        _ if found.shown.contains_key(&id.text) => ("shown", None),
        _ => ("not shown", None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_ids_in_brackets_are_tags() {
        let text =
            "[MQTT-3.1.2-10] [MQTT3-4.8.0-1], [MQTT-4.2-1] but not MQTT-1.5.4-1, [MQTT-x.y.z-n] or [MQTT 5 §3.1]";
        assert_eq!(tags_in(text), ["MQTT-3.1.2-10", "MQTT3-4.8.0-1", "MQTT-4.2-1"]);
    }

    #[test]
    fn a_tag_counts_inside_a_test_function_and_in_the_comment_above_it() {
        let open = "[MQTT-";
        let text = format!(
            "// {open}1.1.1-1] explains\nfn helper() {{\n}}\n\n/// {open}2.2.2-2]\n#[test]\nfn shows() {{\n    if a {{\n    }}\n    // \
             {open}3.3.3-3]\n}}\n\n// {open}4.4.4-4]\nfn other() {{}}\n"
        );
        let mut found = Found::default();
        found.read_file("crates/x/src/codec/publish.rs", &text);
        assert_eq!(found.shown.keys().collect::<Vec<_>>(), ["MQTT-2.2.2-2", "MQTT-3.3.3-3"]);
        assert_eq!(found.cited.len(), 4, "citations outside tests are still checked");
        let test = found.shown["MQTT-2.2.2-2"].first().expect("shown");
        assert_eq!(test.name, "publish::shows");
    }

    #[test]
    fn ids_are_ordered_by_number() {
        assert!(Id::new("MQTT-3.1.2-9") < Id::new("MQTT-3.1.2-10"));
        assert!(Id::new("MQTT-3.9.2-1") < Id::new("MQTT-3.10.1-1"));
    }
}
