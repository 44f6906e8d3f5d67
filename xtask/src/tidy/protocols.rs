//! Which files name a protocol outside its own folders. What has one name in many files is hard to add a second one to.

use super::Breach;
use super::forbidden::test_modules;
use super::source::{code_only, lines_outside_tests};
use super::tree::Tree;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Protocols, how code names them, and in how many files of the broker at the most. These numbers only fall.
const RATCHET: [(&str, &[&str], usize); 6] = [
    ("MQTT", &["mqtt"], 5),
    ("AMQP", &["amqp"], 5),
    ("STOMP", &["stomp"], 4),
    ("CoAP", &["coap"], 5),
    ("ZMTP", &["zmtp", "zeromq"], 5),
    ("XMPP", &["xmpp"], 4),
];

/// In how many files of the client library: its list of plugins, and the schemes of URLs.
const CLIENT_MOST: usize = 2;
const CLIENT: &str = "crates/thalweg-client/";

/// What is not the broker: clients, the laboratory and tests; and datagrams, which carry packets of MQTT for both ends.
const OTHERS: [&str; 7] = [
    "crates/thalweg-multicast/",
    "crates/thalweg-cli/",
    "crates/thalweg-client/",
    "crates/thalweg-sim/",
    "crates/thalweg-bench/",
    "crates/thalweg-testbed/",
    "crates/thalweg-tests/",
];

fn is_broker(path: &str) -> bool {
    path.starts_with("crates/") && !OTHERS.iter().any(|other| path.starts_with(other))
}

fn is_client(path: &str) -> bool {
    path.starts_with(CLIENT)
}

/// Those of the files whose code, without comments, literals and tests, names the protocol, and whose path does not.
fn naming<'t>(
    tree: &'t Tree,
    for_tests: &BTreeSet<String>,
    words: &[&str],
    is_meant: fn(&str) -> bool,
) -> Vec<&'t str> {
    let is_in = |text: &str| words.iter().any(|word| text.contains(word));
    let names = |path: &str, text: &str| {
        // What is told apart takes long, and most files name none.
        if !is_in(&text.to_lowercase()) {
            return false;
        }
        let code = code_only(text).to_lowercase();
        let mut lines = lines_outside_tests(path, &code);
        lines.any(|(_, line)| is_in(line))
    };
    // Files of another protocol may name this one: they are in no way special.
    tree.ending(".rs")
        .filter(|(path, _)| is_meant(path) && !is_in(path) && !for_tests.contains(*path))
        .filter(|(path, text)| names(path, text))
        .map(|(path, _)| path)
        .collect()
}

pub fn protocols_are_named_in_few_files(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let for_tests = test_modules(tree);
    for (protocol, words, most) in RATCHET {
        let broker = naming(tree, &for_tests, words, is_broker);
        let client = naming(tree, &for_tests, words, is_client);
        for (side, files, most) in [("broker", broker, most), ("client", client, CLIENT_MOST)] {
            if files.len() > most {
                let what = format!(
                    "{} files of the {side} name it outside its folders, {most} may: {}",
                    files.len(),
                    files.join(", ")
                );
                breaches.push(Breach::of(protocol, what));
            }
        }
    }
    breaches
}

/// The same as a table, for `cargo xtask code-metrics`.
pub fn table(tree: &Tree) -> String {
    let mut out = String::from(
        "| protocol | files of the broker that name it outside its folders | of the client |\n|---|---|---|\n",
    );
    let for_tests = test_modules(tree);
    for (protocol, words, _) in RATCHET {
        let shown = |is_meant| {
            let files = naming(tree, &for_tests, words, is_meant);
            let names = files.join(", ").replace("crates/thalweg-", "");
            format!("{}: {names}", files.len())
        };
        let (broker, client) = (shown(is_broker), shown(is_client));
        let _ = writeln!(out, "| {protocol} | {broker} | {client} |");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_outside_own_folders_counts() {
        let tree = Tree::fixture(&[
            ("crates/thalweg-stomp/src/lib.rs", "struct StompFrame;"),
            (
                "crates/thalweg-server/src/protocols/stomp.rs",
                "struct Stomp;",
            ),
            (
                "crates/thalweg-server/src/turn.rs",
                "// stomp\nlet kind = \"stomp\";",
            ),
            ("crates/thalweg-server/tests/a.rs", "fn stomp() {}"),
            ("crates/thalweg-client/src/lib.rs", "mod stomp;"),
            (
                "crates/thalweg-server/src/shard.rs",
                "#[cfg(test)]\nmod tests {\n    fn stomp() {}\n}",
            ),
            ("crates/thalweg-server/src/door.rs", "enum Kind { Stomp }"),
        ]);
        assert_eq!(
            naming(&tree, &BTreeSet::new(), &["stomp"], is_broker),
            ["crates/thalweg-server/src/door.rs"]
        );
        assert_eq!(
            naming(&tree, &BTreeSet::new(), &["stomp"], is_client),
            ["crates/thalweg-client/src/lib.rs"]
        );
    }
}
