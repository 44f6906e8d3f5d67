//! The rules of the house, each a function from a tree of files (or cargo's metadata) to the places that break it.

mod arrows;
mod citations;
mod comments;
mod documents;
pub mod forbidden;
pub mod links;
mod names;
pub mod protocols;
pub mod shape;
pub mod source;
pub mod tree;

use std::fmt;

use crate::program::Program;
use crate::report::Outcome;
use tree::Tree;

/// A place that breaks a rule, and the remedy.
#[derive(Debug, PartialEq, Eq)]
pub struct Breach {
    /// File, with a line when there is one; or a crate.
    pub place: String,
    /// The fault and its remedy.
    pub what: String,
}

impl Breach {
    /// At a line, counted from 1.
    fn at(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            place: format!("{path}:{line}"),
            what: what.into(),
        }
    }

    /// Of a whole file or crate.
    fn of(place: &str, what: impl Into<String>) -> Self {
        Self {
            place: place.to_owned(),
            what: what.into(),
        }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// A rule's name and its check.
type Rule = (&'static str, fn(&Tree) -> Vec<Breach>);

const RULES: [Rule; 23] = [
    (
        "sans-I/O crates name no I/O",
        forbidden::no_io_in_sans_io_crates,
    ),
    (
        "the kernel knows no protocol",
        forbidden::no_protocol_in_the_kernel,
    ),
    (
        "protocols are named in few files",
        protocols::protocols_are_named_in_few_files,
    ),
    ("no drawer modules", shape::no_drawer_modules),
    ("no file is too long", shape::no_long_files),
    (
        "doc comments say more than the name",
        comments::no_short_doc_comments,
    ),
    (
        "types are named by what they are",
        names::names_say_what_a_type_is,
    ),
    (
        "citations are in the repository",
        citations::citations_are_in_the_repository,
    ),
    ("nothing is left to do", forbidden::nothing_left_to_do),
    (
        "unwrap stands beside a reason",
        forbidden::unwrap_has_a_reason,
    ),
    ("crates open with what they know", shape::crates_have_a_head),
    (
        "sans-I/O crates forbid unsafe code",
        shape::sans_io_crates_forbid_unsafe,
    ),
    (
        "dependencies are declared once",
        shape::dependencies_are_declared_once,
    ),
    (
        "fuzz targets find their crates",
        shape::fuzz_targets_find_their_crates,
    ),
    ("links resolve", links::links_resolve),
    ("links find their headings", links::anchors_resolve),
    ("documents are linked", links::documents_are_linked),
    (
        "every crate is on the front pages",
        documents::every_crate_is_on_the_front_pages,
    ),
    (
        "files and functions on a message's way exist",
        documents::a_messages_way_exists,
    ),
    (
        "span names are those of the metrics",
        documents::span_names_are_those_of_the_metrics,
    ),
    (
        "files in documents exist",
        documents::files_in_documents_exist,
    ),
    (
        "settings and metrics in documents exist",
        documents::settings_and_metrics_in_documents_exist,
    ),
    (
        "instruction counts are those committed",
        documents::instruction_counts_are_those_committed,
    ),
];

/// Checks the work tree.
pub fn run() -> Outcome {
    let mut outcome = Outcome::default();
    let mut rule = |name: &str, breaches: Vec<Breach>| {
        if breaches.is_empty() {
            outcome.passed += 1;
        }
        for breach in breaches {
            outcome.fail(format!("{breach} ({name})"));
        }
    };
    match Program::cargo([
        "metadata",
        "--format-version",
        "1",
        "--no-deps",
        "--offline",
    ])
    .output()
    {
        Ok((metadata, _)) => rule("arrows point up", arrows::arrows_point_up(&metadata)),
        Err(why) => rule("arrows point up", vec![Breach::of("cargo metadata", why)]),
    }
    match Tree::of_work_tree(&crate::tree()) {
        Ok(tree) => RULES
            .iter()
            .for_each(|(name, check)| rule(name, check(&tree))),
        Err(why) => rule(
            "the tree can be read",
            vec![Breach::of("git ls-files", why)],
        ),
    }
    outcome
}

/// The crates that take time and bytes as values: no sockets, files, clocks, threads or randomness.
const SANS_IO: [&str; 18] = [
    "thalweg-model",
    "thalweg-wire",
    "thalweg-scram",
    "thalweg-mqtt",
    "thalweg-coap",
    "thalweg-dtls",
    "thalweg-amqp",
    "thalweg-stomp",
    "thalweg-zmtp",
    "thalweg-xmpp",
    "thalweg-multicast",
    "thalweg-filter",
    "thalweg-balance",
    "thalweg-records",
    "thalweg-kernel",
    "thalweg-fronts",
    "thalweg-stats",
    "thalweg-sim",
];

/// Whether a path lies in the `src` folder of a sans-I/O crate.
fn is_sans_io(path: &str) -> bool {
    SANS_IO.iter().any(|name| {
        path.strip_prefix("crates/")
            .and_then(|rest| rest.strip_prefix(name))
            .is_some_and(|rest| rest.starts_with("/src/"))
    })
}
