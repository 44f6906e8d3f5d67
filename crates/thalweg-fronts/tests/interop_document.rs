//! Compares the documents about other protocols and RabbitMQ with the records and the recordings.
//!
//! `UPDATE_DOCS=1 cargo test -p thalweg-fronts documents` (`cargo xtask docs --bless`) writes them anew.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use thalweg_fronts::service;

const BEGIN: &str = "<!-- Made from crates/thalweg-tests/interop/oracle/differences.json by `cargo xtask docs --bless`. -->\n";
const END: &str = "<!-- End of what is made. -->\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn check(path: &str, wanted: &str) {
    let file = root().join(path);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&file, wanted).expect("the tree is writable");
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == wanted,
        "{path} is stale: run `cargo xtask docs --bless`"
    );
}

#[test]
fn documents_tell_what_becomes_of_messages_between_protocols() {
    check("docs/interop.md", &thalweg_fronts::capabilities::document());
}

/// The section stands between two marks; the rest of the document is written by hand.
#[test]
fn documents_list_where_rabbitmq_does_otherwise() {
    let rows = root().join("crates/thalweg-tests/interop/oracle/differences.json");
    let rows: Value =
        serde_json::from_str(&fs::read_to_string(rows).expect("it is there")).expect("it is JSON");
    for protocol in ["amqp", "stomp"] {
        let path = format!("docs/protocols/{protocol}.md");
        let text = fs::read_to_string(root().join(&path)).expect("every protocol has its document");
        let Some((before, rest)) = text.split_once(BEGIN) else {
            panic!("{path} has no line {BEGIN}")
        };
        let Some((_, after)) = rest.split_once(END) else {
            panic!("{path} has no line {END}")
        };
        check(
            &path,
            &format!("{before}{BEGIN}{}{END}{after}", section(&rows[protocol])),
        );
    }
}

/// The tables of what fronts declare stand between marks, which name the function that makes each.
#[test]
fn documents_have_the_tables_of_policies_and_filters() {
    let tables = [
        (
            "docs/policies.md",
            "of_reliability",
            service::of_reliability(),
        ),
        ("docs/policies.md", "of_history", service::of_history()),
        ("docs/policies.md", "of_rates", service::of_rates()),
        ("docs/policies.md", "of_policies", service::of_policies()),
        ("docs/filters.md", "of_filters", service::of_filters()),
    ];
    for (path, name, table) in tables {
        let text = fs::read_to_string(root().join(path)).expect("it is there");
        let begin =
            format!("<!-- `{name}` in crates/thalweg-fronts/src/service.rs makes this. -->\n\n");
        let Some((before, rest)) = text.split_once(&begin) else {
            panic!("{path} has no line {begin}")
        };
        let (_, after) = rest.split_once("\n\n").expect("the document goes on");
        check(path, &format!("{before}{begin}{table}\n{after}"));
    }
}

fn section(rows: &Value) -> String {
    let mut out = String::from(
        "\nThe words of errors are ours, their codes RabbitMQ's. Everything else that the scenarios in\n\
         `crates/thalweg-tests/interop/oracle` found different from RabbitMQ 3.10.8; `…` stands for anything:\n\n\
         | scenario | RabbitMQ | here | why |\n|---|---|---|---|\n",
    );
    let shown = |row: &Value, key: &str| {
        let text = row[key]
            .as_str()
            .expect("a row is text")
            .replace('|', "\\|");
        if text == "…" {
            "…".to_owned()
        } else {
            format!("`{text}`")
        }
    };
    for row in rows.as_array().expect("rows by protocol") {
        let scenario = row["scenario"]
            .as_str()
            .expect("a row is text")
            .replace('_', " ");
        let scenario = if scenario == "…" {
            "any".to_owned()
        } else {
            scenario
        };
        let reason = row["reason"].as_str().expect("a row is text");
        let _ = writeln!(
            out,
            "| {scenario} | {} | {} | {reason} |",
            shown(row, "theirs"),
            shown(row, "ours")
        );
    }
    out.push('\n');
    out
}
