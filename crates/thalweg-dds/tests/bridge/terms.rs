//! Requested against offered, policy by policy: endpoints of ours, as [`thalweg_dds::cyclone`] makes them, against those of Cyclone DDS for
//! Python, of Fast DDS and of Dust DDS for Python. The table in docs/protocols/dds.md is what this found; `UPDATE_DOCS=1` writes it.

use crate::client::settings;
use crate::peer::{Library, PATIENCE, Peer};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};
use thalweg_dds::cyclone::{Participant, Reader, Topic, Writer};
use thalweg_dds::qos::{Durability, Liveliness, Presentation, Qos};

/// Ours, and the word of theirs for the same.
type Term = (fn(&mut Qos), &'static str);

/// A policy, its number (DDS 1.4 §2.3.3, DDS-XTypes 1.3 §7.6.3.1.1), and its terms in words: one, and one that is stricter. What a writer offers must be at least as strict as what a reader requests, or the
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
        number: 23,
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

impl Policy {
    /// Cyclone DDS numbers the data representation otherwise.
    fn number_of(&self, library: Library) -> u64 {
        match (library, self.number) {
            (Library::Cyclone, 23) => 25,
            (_, number) => number,
        }
    }
}

/// Whether an offer of the one term meets a request of the other, by the specification.
fn is_compatible(policy: &Policy, offered: usize, requested: usize) -> bool {
    match policy.is_ranked {
        true => offered >= requested,
        false => offered == requested,
    }
}

/// What a library says of a pair of endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Matches,
    Refused,
    /// It does not make its endpoint.
    NotMade,
    /// It says that they match; ours does not, so nothing passes.
    OursRefuses,
    /// Ours says that they match; it does not, so nothing passes.
    TheirsRefuses,
}

impl Verdict {
    fn words(self) -> &'static str {
        match self {
            Verdict::Matches => "matches",
            Verdict::Refused => "does not",
            Verdict::NotMade => "cannot be set",
            Verdict::OursRefuses => "does not; it is not told",
            Verdict::TheirsRefuses => "it refuses",
        }
    }
}

/// Policies that Fast DDS 2.9 does not compare: the other side alone refuses.
const FAST_IGNORES: [&str; 5] = [
    "LATENCY_BUDGET",
    "DESTINATION_ORDER",
    "DATA_REPRESENTATION",
    "PRESENTATION, scope",
    "PRESENTATION, order",
];

/// Where Dust DDS 0.16 compares otherwise than the specification: a shorter lease is not enough for it and a longer one is, and access in order has to
/// be requested where it is offered. The policy, what is offered and what is requested.
const DUST_ERRS: [(&str, usize, usize, Verdict); 3] = [
    ("LIVELINESS, lease", 0, 1, Verdict::OursRefuses),
    ("LIVELINESS, lease", 1, 0, Verdict::TheirsRefuses),
    ("PRESENTATION, order", 1, 0, Verdict::TheirsRefuses),
];

/// What is to be expected; `theirs` is the word of the library's endpoint.
fn expected(library: Library, cell: &Cell, theirs: &str) -> Verdict {
    let Cell {
        policy,
        offered,
        requested,
        ..
    } = cell;
    let err = DUST_ERRS.iter().find(|(name, one, other, _)| {
        library == Library::Dust && (name, one, other) == (&policy.name, offered, requested)
    });
    let is_ignored = library == Library::Fast && FAST_IGNORES.contains(&policy.name);
    if let Some((.., verdict)) = err {
        return *verdict;
    }
    match is_compatible(policy, *offered, *requested) {
        _ if !library.has(theirs) => Verdict::NotMade,
        true => Verdict::Matches,
        false if is_ignored => Verdict::OursRefuses,
        false => Verdict::Refused,
    }
}

/// A policy with two terms, and who has which.
struct Cell {
    policy: &'static Policy,
    offered: usize,
    requested: usize,
    is_writer_ours: bool,
    topic: String,
}

impl Cell {
    fn all() -> Vec<Cell> {
        let mut cells = Vec::new();
        for (at, policy) in POLICIES.iter().enumerate() {
            for (offered, requested) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                for is_writer_ours in [true, false] {
                    let topic = format!("terms{at}{offered}{requested}{is_writer_ours}");
                    cells.push(Cell {
                        policy,
                        offered,
                        requested,
                        is_writer_ours,
                        topic,
                    });
                }
            }
        }
        cells
    }
}

/// An endpoint of ours.
enum Ours {
    Writer(Writer),
    Reader(Reader),
}

impl Ours {
    fn of(cell: &Cell, participant: &Participant, token: u32) -> Ours {
        let term = match cell.is_writer_ours {
            true => cell.offered,
            false => cell.requested,
        };
        let mut qos = Qos {
            is_reliable: cell.is_writer_ours,
            latency_budget: cell.is_writer_ours.then_some(Duration::ZERO),
            depth: 1,
            ..Qos::default()
        };
        cell.policy.terms[term].0(&mut qos);
        let topic = Topic {
            name: cell.topic.clone(),
            type_name: "Blob".into(),
            is_keyless: true,
        };
        match cell.is_writer_ours {
            true => Ours::Writer(participant.writer(&topic, &qos).expect("made")),
            false => {
                let reader = participant.reader(&topic, &qos, token, false);
                Ours::Reader(reader.expect("made"))
            }
        }
    }

    fn opposites(&self) -> usize {
        match self {
            Ours::Writer(writer) => writer.opposites(),
            Ours::Reader(reader) => reader.opposites(),
        }
    }
}

#[test]
fn each_policy_matches_as_the_specification_says() {
    let libraries = [Library::Cyclone, Library::Fast, Library::Dust];
    let columns = libraries.map(|library| verdicts(library, library.domain(58)));
    let [Some(cyclone), Some(fast), Some(dust)] = columns else {
        return;
    };
    let mut rows = Vec::new();
    // Their reader, then their writer.
    for (at, cell) in Cell::all().chunks(2).enumerate() {
        let Cell {
            policy,
            offered,
            requested,
            ..
        } = &cell[0];
        let [one, other] = [policy.words[*offered], policy.words[*requested]];
        let words = |verdicts: &[Verdict]| match verdicts {
            [one, other] if one != other => {
                format!("reader: {}, writer: {}", one.words(), other.words())
            }
            verdicts => verdicts[0].words().to_owned(),
        };
        let found = [&cyclone, &fast, &dust].map(|column| words(&column[2 * at..][..2]));
        rows.push(format!(
            "| {} | {one} | {other} | {} |",
            policy.name,
            found.join(" | ")
        ));
    }
    check_table(&rows.join("\n"));
}

/// What a library says of each cell, which is as expected. Nothing if it is not here.
fn verdicts(library: Library, domain: u32) -> Option<Vec<Verdict>> {
    let of = settings(domain);
    let mut peer = Peer::of(library, domain, &of)?;
    let xml = match library {
        // It finds participants by multicast alone.
        Library::Dust => of.xml().replace("false", "true"),
        _ => of.xml(),
    };
    let participant = Participant::new(&xml, &of.types).expect("it joins");
    let mut pairs = Vec::new();
    for (at, cell) in Cell::all().into_iter().enumerate() {
        let ours = Ours::of(&cell, &participant, at as u32);
        let (does, term) = match cell.is_writer_ours {
            true => ("read", cell.requested),
            false => ("offer", cell.offered),
        };
        let theirs = cell.policy.terms[term].1;
        let what = json!({"do": does, "topic": cell.topic, "type": "Blob", "qos": [theirs]});
        let is_made = peer.does(what) == 0;
        let expected = expected(library, &cell, theirs);
        assert_eq!(
            is_made,
            expected != Verdict::NotMade,
            "{library:?} {theirs}"
        );
        pairs.push((cell, ours, expected));
    }
    // What is compatible matches sooner or later; then what is not has been seen, too.
    let mut in_order: Vec<_> = pairs.iter().collect();
    in_order.sort_by_key(|(.., expected)| *expected == Verdict::Refused);
    for (cell, ours, expected) in in_order {
        let is_matching = matches!(expected, Verdict::Matches | Verdict::OursRefuses);
        let number = match expected {
            Verdict::Refused if library != Library::Dust => cell.policy.number_of(library),
            _ => 0,
        };
        let mut ask = |what: &str| peer.does(json!({"do": what, "topic": cell.topic}));
        let deadline = Instant::now() + PATIENCE;
        let mut said = (0, 0, 0);
        let is_ours_matching = matches!(expected, Verdict::Matches | Verdict::TheirsRefuses);
        let wanted = (is_matching, number, is_ours_matching);
        while Instant::now() < deadline {
            said = (ask("matched"), ask("refused"), ours.opposites());
            if (said.0 > 0, said.1, said.2 > 0) == wanted {
                break;
            }
        }
        let Cell {
            policy,
            offered,
            requested,
            is_writer_ours,
            ..
        } = cell;
        let what = format!(
            "{library:?} {} {offered} {requested} {is_writer_ours}",
            policy.name
        );
        assert_eq!((said.0 > 0, said.1, said.2 > 0), wanted, "{what}");
    }
    Some(pairs.into_iter().map(|(.., verdict)| verdict).collect())
}

/// Compares the rows with those of the page, between two comments, or writes them there.
fn check_table(rows: &str) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocols/dds.md");
    let text = std::fs::read_to_string(&page).expect("it can be read");
    let (begin, end) = ("<!-- terms -->\n", "<!-- /terms -->");
    let (before, rest) = text.split_once(begin).expect("the table has a beginning");
    let (_, after) = rest.split_once(end).expect("and an end");
    let head = "| policy | offered | requested | Cyclone DDS | Fast DDS | Dust DDS |\n|---|---|---|---|---|---|";
    let made = format!("{before}{begin}{head}\n{rows}\n{end}{after}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&page, &made).expect("it can be written");
    }
    assert!(
        made == text || std::env::var_os("UPDATE_DOCS").is_some(),
        "UPDATE_DOCS=1 renews the table"
    );
}
