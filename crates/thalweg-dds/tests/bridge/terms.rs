//! Requested against offered, policy by policy: endpoints of ours, as [`thalweg_dds::cyclone`] makes them, against those of Cyclone DDS for
//! Python. The table in docs/protocols/dds.md is what this found; `UPDATE_DOCS=1` writes it.

use crate::client::settings;
use crate::peer::{PATIENCE, Peer};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};
use thalweg_dds::cyclone::{Participant, Topic};
use thalweg_dds::qos::{Durability, Liveliness, Presentation, Qos};

/// Ours, and the word of theirs for the same.
type Term = (fn(&mut Qos), &'static str);

/// A policy, its number (DDS 1.4 §2.3.3; of the data representation, which XTypes numbers 23, that of Cyclone DDS), and its terms
/// in words: one, and one that is stricter. What a writer offers must be at least as strict as what a reader requests, or the
/// very same.
struct Policy {
    name: &'static str,
    number: u64,
    words: [&'static str; 2],
    is_ranked: bool,
    terms: [Term; 2],
}

static POLICIES: [Policy; 12] = [
    Policy {
        name: "RELIABILITY",
        number: 11,
        words: ["BEST_EFFORT", "RELIABLE"],
        is_ranked: true,
        terms: [
            (|it| it.is_reliable = false, "best-effort"),
            (|it| it.is_reliable = true, "reliable"),
        ],
    },
    Policy {
        name: "DURABILITY",
        number: 2,
        words: ["VOLATILE", "TRANSIENT_LOCAL"],
        is_ranked: true,
        terms: [
            (|it| it.durability = Durability::Volatile, "volatile"),
            (
                |it| it.durability = Durability::TransientLocal,
                "transient-local",
            ),
        ],
    },
    Policy {
        name: "DEADLINE",
        number: 4,
        words: ["2 s", "1 s"],
        is_ranked: true,
        terms: [
            (
                |it| it.deadline = Some(Duration::from_secs(2)),
                "deadline:2000",
            ),
            (
                |it| it.deadline = Some(Duration::from_secs(1)),
                "deadline:1000",
            ),
        ],
    },
    Policy {
        name: "LATENCY_BUDGET",
        number: 5,
        words: ["2 ms", "1 ms"],
        is_ranked: true,
        terms: [
            (
                |it| it.latency_budget = Some(Duration::from_millis(2)),
                "budget:2",
            ),
            (
                |it| it.latency_budget = Some(Duration::from_millis(1)),
                "budget:1",
            ),
        ],
    },
    Policy {
        name: "LIVELINESS, kind",
        number: 8,
        words: ["AUTOMATIC", "MANUAL_BY_TOPIC"],
        is_ranked: true,
        terms: [
            (
                |it| it.lease = Some(Duration::from_secs(60)),
                "automatic:60000",
            ),
            (
                |it| {
                    it.lease = Some(Duration::from_secs(60));
                    it.liveliness = Liveliness::ManualByTopic;
                },
                "by-topic:60000",
            ),
        ],
    },
    Policy {
        name: "LIVELINESS, lease",
        number: 8,
        words: ["60 s", "30 s"],
        is_ranked: true,
        terms: [
            (
                |it| it.lease = Some(Duration::from_secs(60)),
                "automatic:60000",
            ),
            (
                |it| it.lease = Some(Duration::from_secs(30)),
                "automatic:30000",
            ),
        ],
    },
    Policy {
        name: "DESTINATION_ORDER",
        number: 12,
        words: ["BY_RECEPTION", "BY_SOURCE"],
        is_ranked: true,
        terms: [
            (|it| it.by_source_time = false, "reception-order"),
            (|it| it.by_source_time = true, "source-order"),
        ],
    },
    Policy {
        name: "PRESENTATION, scope",
        number: 3,
        words: ["INSTANCE", "TOPIC"],
        is_ranked: true,
        terms: [
            (
                |it| it.presentation = presentation(0, false, false),
                "per-instance",
            ),
            (
                |it| it.presentation = presentation(1, false, false),
                "per-topic",
            ),
        ],
    },
    Policy {
        name: "PRESENTATION, order",
        number: 3,
        words: ["none", "ordered access"],
        is_ranked: true,
        terms: [
            (
                |it| it.presentation = presentation(1, false, false),
                "per-topic",
            ),
            (
                |it| it.presentation = presentation(1, false, true),
                "ordered",
            ),
        ],
    },
    Policy {
        name: "OWNERSHIP",
        number: 6,
        words: ["SHARED", "EXCLUSIVE"],
        is_ranked: false,
        terms: [
            (|it| it.is_exclusive = false, "shared"),
            (|it| it.is_exclusive = true, "exclusive"),
        ],
    },
    Policy {
        name: "DATA_REPRESENTATION",
        number: 25,
        words: ["XCDR1", "XCDR2"],
        is_ranked: false,
        terms: [
            (|it| it.representations = vec![0], "xcdr1"),
            (|it| it.representations = vec![2], "xcdr2"),
        ],
    },
    Policy {
        name: "PARTITION",
        // Endpoints of different partitions do not meet; that is no incompatibility.
        number: 0,
        words: ["a", "b"],
        is_ranked: false,
        terms: [
            (|it| it.partitions = vec!["a".into()], "partition:a"),
            (|it| it.partitions = vec!["b".into()], "partition:b"),
        ],
    },
];

fn presentation(scope: u8, is_coherent: bool, is_ordered: bool) -> Presentation {
    Presentation {
        scope,
        is_coherent,
        is_ordered,
    }
}

/// Whether an offer of the one term meets a request of the other, by the specification.
fn is_compatible(policy: &Policy, offered: usize, requested: usize) -> bool {
    match policy.is_ranked {
        true => offered >= requested,
        false => offered == requested,
    }
}

#[test]
fn each_policy_matches_as_the_specification_says() {
    let of = settings(58);
    let Some(mut peer) = Peer::in_domain(58, &of) else {
        return;
    };
    let participant = Participant::new(&of.xml()).expect("it joins");
    let mut kept_writers = Vec::new();
    let mut kept_readers = Vec::new();
    let mut cells = Vec::new();
    for (at, policy) in POLICIES.iter().enumerate() {
        for (offered, requested) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            for is_writer_ours in [true, false] {
                let name = format!("terms{at}{offered}{requested}{is_writer_ours}");
                let (ours, theirs) = match is_writer_ours {
                    true => (policy.terms[offered].0, policy.terms[requested].1),
                    false => (policy.terms[requested].0, policy.terms[offered].1),
                };
                let mut qos = Qos {
                    is_reliable: is_writer_ours,
                    latency_budget: is_writer_ours.then_some(Duration::ZERO),
                    depth: 1,
                    ..Qos::default()
                };
                ours(&mut qos);
                let topic = Topic {
                    name: name.clone(),
                    type_name: "Blob".into(),
                    is_keyless: true,
                };
                match is_writer_ours {
                    true => kept_writers.push(participant.writer(&topic, &qos).expect("made")),
                    false => {
                        let reader = participant.reader(&topic, &qos, cells.len() as u32, false);
                        kept_readers.push(reader.expect("made"));
                    }
                }
                let does = if is_writer_ours { "read" } else { "offer" };
                peer.does(json!({"do": does, "topic": name, "type": "Blob", "qos": [theirs]}));
                cells.push((policy, offered, requested, is_writer_ours, name));
            }
        }
    }
    // What is compatible matches sooner or later; then what is not has been seen, too, as it was made before.
    let mut rows = Vec::new();
    for (policy, offered, requested, is_writer_ours, topic) in &cells {
        let is_expected = is_compatible(policy, *offered, *requested);
        let mut ask = |what: &str| peer.does(json!({"do": what, "topic": topic}));
        let deadline = Instant::now() + PATIENCE;
        let (mut matched, mut refused) = (0, 0);
        while Instant::now() < deadline && matched == 0 && (refused == 0 || is_expected) {
            (matched, refused) = (ask("matched"), ask("refused"));
            if !is_expected && policy.number == 0 {
                break;
            }
        }
        let what = format!("{} {offered} {requested} {is_writer_ours}", policy.name);
        assert_eq!(matched > 0, is_expected, "{what}");
        assert_eq!(
            refused,
            if is_expected { 0 } else { policy.number },
            "{what}"
        );
        if *is_writer_ours {
            let sign = if is_expected { "matches" } else { "does not" };
            let [one, other] = [policy.words[*offered], policy.words[*requested]];
            rows.push(format!("| {} | {one} | {other} | {sign} |", policy.name));
        }
    }
    check_table(&rows.join("\n"));
}

/// Compares the rows with those of the page, between two comments, or writes them there.
fn check_table(rows: &str) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocols/dds.md");
    let text = std::fs::read_to_string(&page).expect("it can be read");
    let (begin, end) = ("<!-- terms -->\n", "<!-- /terms -->");
    let (before, rest) = text.split_once(begin).expect("the table has a beginning");
    let (_, after) = rest.split_once(end).expect("and an end");
    let head = "| policy | offered | requested | |\n|---|---|---|---|";
    let made = format!("{before}{begin}{head}\n{rows}\n{end}{after}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&page, &made).expect("it can be written");
    }
    assert!(
        made == text || std::env::var_os("UPDATE_DOCS").is_some(),
        "UPDATE_DOCS=1 renews the table"
    );
}
