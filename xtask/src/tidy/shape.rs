//! The shape of crates and files.

use super::tree::Tree;
use super::{Breach, is_sans_io};

/// Names that do not describe their contents.
const DRAWERS: [&str; 6] = ["util", "utils", "common", "misc", "helper", "helpers"];

/// A file with more code lines than this is split by concern.
const CODE_LINES_MAX: usize = 700;

/// Files that were longer when the rule came, with the most they may have. Entries only shrink or go.
const RATCHET: [(&str, usize); 26] = [
    ("crates/thalweg-admin/tests/broker/main.rs", 909),
    ("crates/thalweg-client/src/adaptive/choice.rs", 812),
    ("crates/thalweg-client/src/adaptive/model.rs", 741),
    ("crates/thalweg-client/src/coap/tests.rs", 993),
    ("crates/thalweg-client/src/engine/subscriptions.rs", 760),
    ("crates/thalweg-client/src/mqtt/tests.rs", 713),
    ("crates/thalweg-coap/src/conversations/blocks.rs", 886),
    ("crates/thalweg-coap/src/conversations/observers.rs", 873),
    ("crates/thalweg-coap/src/conversations/responses.rs", 745),
    ("crates/thalweg-coap/src/stream/tests/requests.rs", 767),
    ("crates/thalweg-dtls/src/server/mod.rs", 707),
    ("crates/thalweg-dtls/src/server/tests/mod.rs", 773),
    ("crates/thalweg-fronts/tests/coap/data.rs", 715),
    ("crates/thalweg-fronts/tests/scenarios/durability.rs", 994),
    ("crates/thalweg-fronts/tests/sim/main.rs", 727),
    ("crates/thalweg-journal/src/recover.rs", 710),
    ("crates/thalweg-journal/tests/faults.rs", 706),
    ("crates/thalweg-balance/src/adaptive.rs", 978),
    ("crates/thalweg-kernel/tests/queues/owners.rs", 749),
    ("crates/thalweg-kernel/tests/queues/world.rs", 905),
    ("crates/thalweg-mqtt/src/tests/reports.rs", 705),
    ("crates/thalweg-server/src/lobby/tests.rs", 838),
    ("crates/thalweg-store/tests/archive.rs", 827),
    ("crates/thalweg-tests/tests/all/crash/client.rs", 715),
    ("crates/thalweg-transport/src/tests.rs", 839),
    ("xtask/src/amqp_methods.rs", 705),
];

/// A crate's head says what it knows, what it must never know and where to start: that takes more than a line.
const HEAD_LINES_MIN: usize = 2;

/// A function belongs to its noun.
pub fn no_drawer_modules(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (path, text) in tree.ending(".rs") {
        let folders = path.trim_end_matches(".rs").split('/');
        if let Some(name) = folders.clone().find(|part| DRAWERS.contains(part)) {
            breaches.push(Breach::of(
                path,
                format!("`{name}` is a drawer: a function belongs to its noun"),
            ));
        }
        let lines = text.lines().enumerate();
        for (number, line) in lines.filter(|(_, line)| line.contains("mod ")) {
            let words: Vec<&str> = line
                .split([' ', ';', '{'])
                .filter(|word| !word.is_empty())
                .collect();
            let module = words
                .iter()
                .position(|word| *word == "mod")
                .and_then(|at| words.get(at + 1));
            let inline = line.trim_end().ends_with('{') && !line.trim_start().starts_with("//");
            if let Some(name) = module.filter(|name| inline && DRAWERS.contains(name)) {
                breaches.push(Breach::at(
                    path,
                    number + 1,
                    format!("`{name}` is a drawer: a function belongs to its noun"),
                ));
            }
        }
    }
    breaches
}

/// Long files hide more than one concern.
pub fn no_long_files(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (path, text) in tree.ending(".rs") {
        let lines = code_lines(text);
        let allowed = RATCHET
            .iter()
            .find(|(known, _)| *known == path)
            .map_or(CODE_LINES_MAX, |(_, most)| *most);
        if lines > allowed {
            breaches.push(Breach::of(
                path,
                format!("{lines} code lines, {allowed} are allowed: split it by concern"),
            ));
        }
    }
    breaches
}

/// Lines that are neither blank nor only a comment.
pub fn code_lines(text: &str) -> usize {
    let is_code = |line: &&str| !line.is_empty() && !line.starts_with("//");
    text.lines().map(str::trim_start).filter(is_code).count()
}

/// The first thing a reader meets.
pub fn crates_have_a_head(tree: &Tree) -> Vec<Breach> {
    let is_root = |path: &str| path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs");
    let mut breaches = Vec::new();
    for (path, text) in tree
        .ending(".rs")
        .filter(|(path, _)| is_root(path) && !path.starts_with("examples/"))
    {
        let head = text
            .lines()
            .take_while(|line| line.starts_with("//!"))
            .filter(|line| line.len() > 4)
            .count();
        if head < HEAD_LINES_MIN {
            let what = "opens without a //! head: what it knows, what it must never know, where to start reading";
            breaches.push(Breach::of(path, what));
        }
    }
    breaches
}

/// Code that parses a peer's bytes is safe Rust.
pub fn sans_io_crates_forbid_unsafe(tree: &Tree) -> Vec<Breach> {
    let roots = tree
        .ending("/src/lib.rs")
        .filter(|(path, _)| is_sans_io(path));
    let without = roots.filter(|(_, text)| !text.contains("#![forbid(unsafe_code)]"));
    without
        .map(|(path, _)| Breach::of(path, "needs #![forbid(unsafe_code)]"))
        .collect()
}

/// Versions and features stand in the root manifest; crates say `x.workspace = true`.
pub fn dependencies_are_declared_once(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let of_a_crate = |path: &str| path.starts_with("crates/") || path.starts_with("xtask/");
    // What is a workspace of its own, like a foreign client's program, cannot inherit from ours.
    let is_ours = |text: &str| !text.lines().any(|line| line.trim() == "[workspace]");
    for (path, text) in tree
        .ending("/Cargo.toml")
        .filter(|(path, text)| of_a_crate(path) && is_ours(text))
    {
        let mut in_dependencies = false;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.starts_with('[') {
                in_dependencies = line.trim_end_matches(']').ends_with("dependencies");
            } else if in_dependencies
                && line.contains('=')
                && !line.starts_with('#')
                && !line.contains("workspace")
            {
                breaches.push(Breach::at(
                    path,
                    number + 1,
                    "declare it in the root Cargo.toml: `x.workspace = true`",
                ));
            }
        }
    }
    breaches
}

/// The fuzz targets are a workspace of their own, which only `cargo xtask fuzz` compiles: their manifest names each crate that
/// the targets, and the test modules they include, do.
pub fn fuzz_targets_find_their_crates(tree: &Tree) -> Vec<Breach> {
    const MANIFEST: &str = "fuzz/Cargo.toml";
    let manifest = tree.text(MANIFEST);
    let mut sources = Vec::new();
    for (path, text) in tree.files() {
        if path.starts_with("fuzz/fuzz_targets/") {
            sources.push(path);
            let included = text
                .lines()
                .filter_map(|line| line.trim().strip_prefix("#[path = \"../../"))
                .filter_map(|rest| rest.strip_suffix("\"]"));
            sources.extend(included);
        }
    }
    let mut missing = std::collections::BTreeSet::new();
    for (_, text) in tree.files().filter(|(path, _)| sources.contains(path)) {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        for name in words.filter(|word| word.starts_with("thalweg_")) {
            let name = name.replace('_', "-");
            if tree.has(&format!("crates/{name}")) && !manifest.contains(&format!("\n{name} =")) {
                missing.insert(name);
            }
        }
    }
    let breach = |name: String| Breach::of(MANIFEST, format!("a target names {name}: add it"));
    missing.into_iter().map(breach).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &str, text: &str) -> Tree {
        Tree::fixture(&[(path, text)])
    }

    #[test]
    fn drawers_are_found_by_file_folder_and_module() {
        for path in [
            "crates/x/src/util.rs",
            "crates/x/src/common/mod.rs",
            "crates/x/src/a/helpers.rs",
        ] {
            assert_eq!(no_drawer_modules(&at(path, "")).len(), 1, "{path}");
        }
        assert_eq!(
            no_drawer_modules(&at("crates/x/src/a.rs", "pub(crate) mod misc {\n}\n")).len(),
            1
        );
        assert_eq!(
            no_drawer_modules(&at("crates/x/src/utility_bill.rs", "mod bill {\n}\n")),
            []
        );
    }

    #[test]
    fn long_files_are_found() {
        assert_eq!(no_long_files(&at("a.rs", &"x;\n".repeat(701))).len(), 1);
        assert_eq!(no_long_files(&at("a.rs", &"x;\n\n// y\n".repeat(700))), []);
        assert_eq!(no_long_files(&at("a.md", &"x\n".repeat(5000))), []);
    }

    #[test]
    fn crates_without_a_head_are_found() {
        assert_eq!(
            crates_have_a_head(&at("crates/x/src/lib.rs", "//! thalweg-x\n")).len(),
            1
        );
        assert_eq!(
            crates_have_a_head(&at("crates/x/src/lib.rs", "mod a;\n//! x\n//! y\n//! z\n")).len(),
            1
        );
        let head = "//! One line.\n//!\n//! Another line.\n";
        assert_eq!(crates_have_a_head(&at("crates/x/src/lib.rs", head)), []);
    }

    #[test]
    fn sans_io_crates_that_allow_unsafe_code_are_found() {
        assert_eq!(
            sans_io_crates_forbid_unsafe(&at("crates/thalweg-mqtt/src/lib.rs", "")).len(),
            1
        );
        assert_eq!(
            sans_io_crates_forbid_unsafe(&at(
                "crates/thalweg-mqtt/src/lib.rs",
                "#![forbid(unsafe_code)]"
            )),
            []
        );
        assert_eq!(
            sans_io_crates_forbid_unsafe(&at("crates/thalweg-server/src/lib.rs", "")),
            []
        );
    }

    #[test]
    fn versions_in_a_crate_are_found() {
        let manifest = |line: &str| {
            format!(
                "[package]\nname = \"x\"\n[dev-dependencies]\n{line}\n[lints]\nworkspace = true\n"
            )
        };
        let check = |line: &str| {
            dependencies_are_declared_once(&at("crates/x/Cargo.toml", &manifest(line))).len()
        };
        assert_eq!(check("serde = \"1\""), 1);
        assert_eq!(check("serde = { version = \"1\" }"), 1);
        assert_eq!(check("serde.workspace = true"), 0);
        assert_eq!(
            check("serde = { workspace = true, features = [\"rc\"] }"),
            0
        );
        assert_eq!(check("serde = \"1\"\n[workspace]"), 0, "another workspace");
    }

    #[test]
    fn a_crate_that_only_an_included_module_names_is_missed() {
        let check = |manifest: &str| {
            let tree = Tree::fixture(&[
                ("fuzz/Cargo.toml", manifest),
                ("crates/thalweg-x/Cargo.toml", ""),
                (
                    "fuzz/fuzz_targets/peer.rs",
                    "#[path = \"../../crates/y/tests/stage.rs\"]\nmod stage;",
                ),
                ("crates/y/tests/stage.rs", "use thalweg_x::Thing;"),
            ]);
            fuzz_targets_find_their_crates(&tree).len()
        };
        assert_eq!(check("[dependencies]\n"), 1);
        assert_eq!(check("[dependencies]\nthalweg-x = { path = \"\" }"), 0);
    }
}
