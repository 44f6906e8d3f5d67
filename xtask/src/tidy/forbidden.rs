//! Words that must not stand in some places.

use std::collections::BTreeSet;

use super::source::{code_only, has_word, lines_outside_tests, without_strings};
use super::tree::Tree;
use super::{Breach, is_sans_io};

/// Paths and names of I/O; whole words.
const IO_WORDS: [&str; 8] = [
    "std::net",
    "std::fs",
    "std::thread",
    "Instant::now",
    "SystemTime",
    "tokio",
    "mio",
    "rand",
];

/// Names of protocols; anywhere in a word, because `mqtt_topic` tells as much as `mqtt`.
const PROTOCOLS: [&str; 6] = ["mqtt", "amqp", "stomp", "coap", "zmtp", "xmpp"];

/// Crates that know no protocol.
const BRAIN: [&str; 3] = [
    "crates/thalweg-balance/",
    "crates/thalweg-records/",
    "crates/thalweg-kernel/",
];

/// A protocol too short for that: every loop *adds*.
const PROTOCOL_WORD: &str = "dds";

/// Marks of unfinished work. In pieces, so that this list does not find itself.
const UNFINISHED: [&str; 4] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("todo", "!"),
    concat!("dbg", "!"),
];

/// Languages in which unfinished work is looked for.
const SOURCES: [&str; 7] = [".rs", ".py", ".js", ".java", ".go", ".sh", ".toml"];

/// Sockets, files, clocks, threads and randomness stay outside; only code counts, prose may explain.
pub fn no_io_in_sans_io_crates(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (path, text) in tree.ending(".rs").filter(|(path, _)| is_sans_io(path)) {
        for (number, line) in code_only(text).lines().enumerate() {
            for word in IO_WORDS.into_iter().filter(|word| names(line, word)) {
                let what = format!(
                    "a sans-I/O crate must not name `{word}`: take it as a parameter, or an effect"
                );
                breaches.push(Breach::at(path, number + 1, what));
            }
        }
    }
    breaches
}

/// A word, or for `std::fs` also its place in `use std::{fs, io}`.
fn names(line: &str, word: &str) -> bool {
    let in_group = |module: &str| {
        line.split_once("std::{").is_some_and(|(_, group)| {
            group
                .split([',', '{', '}'])
                .any(|part| part.trim().split("::").next() == Some(module))
        })
    };
    has_word(line, word) || word.strip_prefix("std::").is_some_and(in_group)
}

/// The kernel has words of its own; code and comments count.
pub fn no_protocol_in_the_kernel(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (path, text) in tree
        .files()
        .filter(|(path, _)| BRAIN.iter().any(|folder| path.starts_with(folder)))
    {
        for (number, line) in text.lines().enumerate() {
            let line = line.to_lowercase();
            let part = PROTOCOLS.into_iter().find(|name| line.contains(name));
            let whole = has_word(&line, PROTOCOL_WORD).then_some(PROTOCOL_WORD);
            if let Some(name) = part.or(whole) {
                let what = format!(
                    "the kernel knows no protocol, so not {name}: say it in the kernel's words"
                );
                breaches.push(Breach::at(path, number + 1, what));
            }
        }
    }
    breaches
}

/// Finish it, or open an issue.
pub fn nothing_left_to_do(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (path, text) in tree
        .files()
        .filter(|(path, _)| SOURCES.iter().any(|end| path.ends_with(end)))
        .filter(|(_, text)| UNFINISHED.iter().any(|word| text.contains(word)))
    {
        let shown = if path.ends_with(".rs") {
            without_strings(text)
        } else {
            text.to_owned()
        };
        for (number, line) in shown.lines().enumerate() {
            for word in UNFINISHED.into_iter().filter(|word| has_word(line, word)) {
                breaches.push(Breach::at(
                    path,
                    number + 1,
                    format!("{word} is left: finish it or open an issue"),
                ));
            }
        }
    }
    breaches
}

/// In pieces, so that this file does not find itself.
const UNWRAP: &str = concat!(".unwrap", "()");

/// Outside tests `unwrap` needs its local reason in a comment, on the same line or right above.
pub fn unwrap_has_a_reason(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let for_tests = test_modules(tree);
    for (path, text) in tree
        .ending(".rs")
        .filter(|(path, text)| text.contains(UNWRAP) && !for_tests.contains(*path))
    {
        let bare = without_strings(text);
        let mut above = "";
        for (number, line) in lines_outside_tests(path, &bare) {
            let code = line.split("//").next().unwrap_or_default();
            if code.contains(UNWRAP) && !line.contains("//") && !above.trim().starts_with("//") {
                breaches.push(Breach::at(
                    path,
                    number,
                    "unwrap needs its reason in a comment beside it",
                ));
            }
            above = line;
        }
    }
    breaches
}

/// Files that their parent declares as `#[cfg(test)] mod name;`.
pub fn test_modules(tree: &Tree) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (path, text) in tree.ending(".rs") {
        let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
        let folder = match file {
            "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
            file => format!("{folder}/{}", file.trim_end_matches(".rs")),
        };
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for pair in lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]") {
            let declared = pair[1]
                .strip_suffix(';')
                .and_then(|line| line.split_once("mod "));
            if let Some((_, name)) = declared {
                found.insert(format!("{folder}/{name}.rs"));
                found.insert(format!("{folder}/{name}/mod.rs"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &str, text: &str) -> Tree {
        Tree::fixture(&[(path, text)])
    }

    #[test]
    fn io_is_found_in_code_of_sans_io_crates_only() {
        for line in [
            "use std::net::TcpStream;",
            "use std::{fs, io};",
            "use std::{\u{20}io, thread::spawn};",
            "let now = Instant::now();",
            "fn f(t: SystemTime) {}",
            "use rand::Rng;",
            "mio::Poll::new()",
        ] {
            assert_eq!(
                no_io_in_sans_io_crates(&at("crates/thalweg-kernel/src/a.rs", line)).len(),
                1,
                "{line}"
            );
            assert_eq!(
                no_io_in_sans_io_crates(&at("crates/thalweg-server/src/a.rs", line)),
                []
            );
            assert_eq!(
                no_io_in_sans_io_crates(&at("crates/thalweg-kernel/tests/a.rs", line)),
                []
            );
        }
        for line in [
            "// std::net is for the server",
            "let operand = 1;",
            "\"tokio\"",
            "use std::{fmt, io};",
        ] {
            assert_eq!(
                no_io_in_sans_io_crates(&at("crates/thalweg-mqtt/src/a.rs", line)),
                [],
                "{line}"
            );
        }
    }

    #[test]
    fn protocols_are_found_in_the_kernel_in_code_and_comments() {
        for line in [
            "// as MQTT does",
            "fn from_amqp() {}",
            "struct CoapThing;",
            "// DDS, too",
        ] {
            assert_eq!(
                no_protocol_in_the_kernel(&at("crates/thalweg-kernel/src/a.rs", line)).len(),
                1,
                "{line}"
            );
            assert_eq!(
                no_protocol_in_the_kernel(&at("crates/thalweg-records/src/a.rs", line)).len(),
                1,
                "{line}"
            );
            assert_eq!(
                no_protocol_in_the_kernel(&at("crates/thalweg-fronts/src/a.rs", line)),
                []
            );
        }
        assert_eq!(
            no_protocol_in_the_kernel(&at(
                "crates/thalweg-kernel/src/a.rs",
                "// it adds one; odds are even"
            )),
            []
        );
    }

    #[test]
    fn unfinished_work_is_found_in_every_language() {
        let mark = UNFINISHED[0];
        assert_eq!(
            nothing_left_to_do(&at("a/b.rs", &format!("// {mark}: later"))).len(),
            1
        );
        assert_eq!(
            nothing_left_to_do(&at("a/b.py", &format!("# {mark}"))).len(),
            1
        );
        assert_eq!(
            nothing_left_to_do(&at("a/b.rs", &format!("{}()", UNFINISHED[2]))).len(),
            1
        );
        assert_eq!(
            nothing_left_to_do(&at("a/b.rs", &format!("let a = \"{mark}\";"))),
            []
        );
        assert_eq!(nothing_left_to_do(&at("a/b.md", mark)), []);
    }

    #[test]
    fn unwrap_without_a_reason_is_found_outside_tests() {
        let bare = "let a = b.unwrap();\n";
        assert_eq!(unwrap_has_a_reason(&at("crates/x/src/a.rs", bare)).len(), 1);
        assert_eq!(unwrap_has_a_reason(&at("crates/x/tests/a.rs", bare)), []);
        for reasoned in [
            "let a = b.unwrap(); // b was just set\n",
            "// b was just set\nlet a = b.unwrap();\n",
        ] {
            assert_eq!(unwrap_has_a_reason(&at("crates/x/src/a.rs", reasoned)), []);
        }
        let declared = [
            ("crates/x/src/a.rs", "#[cfg(test)]\npub mod keys;\n"),
            ("crates/x/src/a/keys.rs", bare),
            ("crates/x/src/keys.rs", bare),
        ];
        let breaches = unwrap_has_a_reason(&Tree::fixture(&declared));
        assert_eq!(
            breaches
                .iter()
                .map(|breach| breach.place.as_str())
                .collect::<Vec<_>>(),
            ["crates/x/src/keys.rs:1"]
        );
        let in_tests = format!("fn a() {{}}\n#[cfg(test)]\nmod tests {{\n    {bare}}}\n");
        assert_eq!(unwrap_has_a_reason(&at("crates/x/src/a.rs", &in_tests)), []);
    }
}
