//! Recorded sessions against both sides: each line is decoded by one machine and said again by the other.

use thalweg_wire::testkit::{Mark, Side, TranscriptLine, parse_transcript};

use super::*;

/// Every file of `transcripts/`.
pub(super) const ALL: &[(&str, &str)] = &[
    ("handshake", include_str!("../../transcripts/handshake.txt")),
    ("secure", include_str!("../../transcripts/secure.txt")),
    ("topology", include_str!("../../transcripts/topology.txt")),
    ("messages", include_str!("../../transcripts/messages.txt")),
    (
        "refused-header",
        include_str!("../../transcripts/refused-header.txt"),
    ),
    (
        "refused-handshake",
        include_str!("../../transcripts/refused-handshake.txt"),
    ),
    (
        "refused-open",
        include_str!("../../transcripts/refused-open.txt"),
    ),
];

/// As a `!` line names it.
fn clause(fault: &PeerFault) -> String {
    format!("{}:{}", fault.code.code(), fault.clause)
}

fn client_says(line: &TranscriptLine, at: &str, client: &mut ClientSide, server: &mut ServerSide) {
    let (mut rest, mut again, mut gathered) = (&line.bytes[..], Vec::new(), Gathered::default());
    loop {
        match (server.handle_input(rest, &mut gathered), &line.mark) {
            (Ok(Some((consumed, event))), Mark::Canonical | Mark::Valid) => {
                mirror::by_client(&event, client, &mut again);
                rest = &rest[consumed..];
            }
            (Ok(None), Mark::Canonical | Mark::Valid) if rest.is_empty() => break,
            (Err(fault), Mark::Faulty(expected)) => {
                return assert_eq!(clause(&fault), *expected, "{at}: {fault}");
            }
            (other, _) => panic!("{at}: {other:?}"),
        }
    }
    if line.mark == Mark::Canonical {
        assert_eq!(again, line.bytes, "{at}");
    }
}

fn server_says(line: &TranscriptLine, at: &str, client: &mut ClientSide, server: &mut ServerSide) {
    let (mut rest, mut again, mut gathered) = (&line.bytes[..], Vec::new(), Gathered::default());
    loop {
        match (client.handle_input(rest, &mut gathered), &line.mark) {
            (Ok(Some((consumed, event))), Mark::Canonical | Mark::Valid) => {
                mirror::by_server(&event, server, &mut again);
                rest = &rest[consumed..];
            }
            (Ok(None), Mark::Canonical | Mark::Valid) if rest.is_empty() => break,
            (Err(fault), Mark::Faulty(expected)) => {
                return assert_eq!(clause(&fault), *expected, "{at}: {fault}");
            }
            (other, _) => panic!("{at}: {other:?}"),
        }
    }
    if line.mark == Mark::Canonical {
        assert_eq!(again, line.bytes, "{at}");
    }
}

#[test]
fn every_line_of_every_transcript_is_understood_and_said_again_byte_for_byte() {
    for (name, text) in ALL {
        let lines = parse_transcript(text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(!lines.is_empty());
        let (mut client, mut server) = (client(), ServerSide::new(ServerLimits::default()));
        for line in &lines {
            let at = format!("transcripts/{name}.txt:{}", line.number);
            match line.side {
                Side::Client => client_says(line, &at, &mut client, &mut server),
                Side::Server => server_says(line, &at, &mut client, &mut server),
            }
        }
    }
}

#[test]
fn every_method_is_in_a_transcript() {
    let lines: Vec<TranscriptLine> = ALL
        .iter()
        .flat_map(|(_, text)| parse_transcript(text).expect("it parses"))
        .collect();
    for (id, name) in methods::NAMES {
        let [c1, c2] = id.class.to_be_bytes();
        let [m1, m2] = id.method.to_be_bytes();
        let is_in = |line: &TranscriptLine| {
            line.mark == Mark::Canonical
                && line
                    .bytes
                    .windows(5)
                    .any(|w| w[1..] == [c1, c2, m1, m2] && line.bytes[0] == 1)
        };
        assert!(lines.iter().any(is_in), "{name}");
    }
}

#[test]
fn every_fault_is_in_a_transcript_or_a_test_of_limits() {
    let of_limits = ["MESSAGE_TOO_LARGE", "GATHERED_TOO_MUCH"].len();
    let mut seen: Vec<String> = ALL
        .iter()
        .flat_map(|(_, text)| parse_transcript(text).expect("it parses"))
        .filter_map(|line| {
            if let Mark::Faulty(clause) = line.mark {
                Some(clause)
            } else {
                None
            }
        })
        .collect();
    seen.sort();
    seen.dedup();
    let unseen: Vec<String> = PeerFault::ALL
        .iter()
        .map(clause)
        .filter(|clause| !seen.contains(clause))
        .collect();
    assert_eq!(unseen.len(), of_limits, "{unseen:?}");
}
