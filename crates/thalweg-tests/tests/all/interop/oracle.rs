//! RabbitMQ's recorded behaviour against ours: the same scenarios in `../../../interop/oracle`, fact by fact.
//!
//! `cargo xtask oracle` records anew. A fact may differ for two reasons: the words of an error are ours (its code is not), or
//! `differences.json` says so and why; `docs/protocols/` shows that table. A row that is no longer true fails, too.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::puppet::installed;
use crate::broker::Broker;

type Facts = BTreeMap<String, Vec<String>>;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/oracle")
}

fn read(name: &str) -> Value {
    let path = folder().join(name);
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn facts(value: &Value) -> Facts {
    let scenarios = value.as_object().expect("scenarios by name");
    let list = |facts: &Value| -> Vec<String> {
        facts
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    scenarios
        .iter()
        .map(|(name, told)| (name.clone(), list(told)))
        .collect()
}

/// A broker that knows the user whom every RabbitMQ knows.
fn broker() -> Option<Broker> {
    let listeners = ["amqp", "stomp", "stomp-ws"];
    let guarded = Broker::with().queues().users(&[("guest", b"guest")]);
    let anonymous = |name: &&str| format!("listeners.{name}.anonymous");
    listeners
        .iter()
        .fold(guarded, |options, name| {
            options.set(&anonymous(name), "false")
        })
        .start_for_queues()
}

fn play(protocol: &str, address: SocketAddr) -> Facts {
    let output = Command::new(installed().join("python/bin/python"))
        .arg("-B")
        .arg(folder().join("play.py"))
        .args([protocol, &address.port().to_string()])
        .output()
        .expect("Python was installed with the clients");
    let text = String::from_utf8_lossy(&output.stdout);
    let value = serde_json::from_str(&text);
    facts(&value.unwrap_or_else(|error| {
        panic!(
            "{error}: {text}\n{}",
            String::from_utf8_lossy(&output.stderr)
        )
    }))
}

/// A row of `differences.json`.
struct Difference {
    scenario: String,
    theirs: String,
    ours: String,
    used: std::cell::Cell<bool>,
}

fn differences(protocol: &str) -> Vec<Difference> {
    let text = |row: &Value, key: &str| {
        row[key]
            .as_str()
            .unwrap_or_else(|| panic!("{row} has no {key}"))
            .to_owned()
    };
    let all = read("differences.json");
    let rows = all[protocol].as_array().expect("rows by protocol");
    rows.iter()
        .map(|row| {
            assert!(text(row, "reason").len() > 10, "{row} needs a reason");
            let (scenario, theirs, ours) = (
                text(row, "scenario"),
                text(row, "theirs"),
                text(row, "ours"),
            );
            Difference {
                scenario,
                theirs,
                ours,
                used: false.into(),
            }
        })
        .collect()
}

/// The part of a fact about an error that programs check: what was closed, and the code; for STOMP that it is an ERROR.
fn without_words(fact: &str) -> &str {
    if let Some(at) = fact.find("closed ") {
        return fact[at..]
            .find(" - ")
            .map_or(fact, |words| &fact[..at + words]);
    }
    fact.find("error '").map_or(fact, |at| &fact[..at + 5])
}

/// `…` stands for anything.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('…') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            (0..=text.len())
                .filter(|at| text.is_char_boundary(*at))
                .any(|at| matches(rest, &text[at..]))
        }),
    }
}

fn compare(protocol: &str, address: SocketAddr) {
    let expected = facts(&read("expected.json")[protocol]);
    let ours = play(protocol, address);
    let rows = differences(protocol);
    let mut wrong = Vec::new();
    let (mut same, mut reworded, mut decided) = (0, 0, 0);
    for (scenario, theirs) in &expected {
        let none = Vec::new();
        let told = ours.get(scenario).unwrap_or(&none);
        for at in 0..theirs.len().max(told.len()) {
            let nothing = "nothing".to_owned();
            let (theirs, ours) = (
                theirs.get(at).unwrap_or(&nothing),
                told.get(at).unwrap_or(&nothing),
            );
            let row = rows.iter().find(|row| {
                matches(&row.scenario, scenario)
                    && matches(&row.theirs, theirs)
                    && matches(&row.ours, ours)
            });
            if theirs == ours {
                same += 1;
            } else if let Some(row) = row {
                row.used.set(true);
                decided += 1;
            } else if without_words(theirs) == without_words(ours) && without_words(ours) != ours {
                reworded += 1;
            } else {
                wrong.push(format!(
                    "{scenario}\n    RabbitMQ: {theirs}\n    Thalweg:  {ours}"
                ));
            }
        }
    }
    println!(
        "{protocol}: {same} facts the same, {reworded} errors in other words, {decided} differ by decision"
    );
    for row in rows.iter().filter(|row| !row.used.get()) {
        wrong.push(format!(
            "{}: the row `{}` / `{}` is no longer true",
            row.scenario, row.theirs, row.ours
        ));
    }
    assert!(
        wrong.is_empty(),
        "{} facts differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn amqp_does_what_rabbitmq_does() {
    let Some(broker) = broker() else { return };
    compare("amqp", broker.amqp());
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn stomp_does_what_rabbitmq_does() {
    let Some(broker) = broker() else {
        return;
    };
    compare("stomp", broker.stomp());
}
