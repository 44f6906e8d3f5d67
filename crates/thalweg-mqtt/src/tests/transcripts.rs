//! Recorded sessions against both sides: each line is decoded by one machine and said again by the other.

use thalweg_wire::testkit::{Mark, Side, TranscriptLine, parse_transcript};

use super::*;

/// Every file of `transcripts/`.
pub(super) const ALL: &[(&str, &str)] = &[
    ("mqtt31", include_str!("../../transcripts/mqtt31.txt")),
    ("mqtt311", include_str!("../../transcripts/mqtt311.txt")),
    ("mqtt5", include_str!("../../transcripts/mqtt5.txt")),
    (
        "mqtt5-auth",
        include_str!("../../transcripts/mqtt5-auth.txt"),
    ),
    (
        "mqtt5-goodbye",
        include_str!("../../transcripts/mqtt5-goodbye.txt"),
    ),
    (
        "mqtt5-refused",
        include_str!("../../transcripts/mqtt5-refused.txt"),
    ),
    (
        "mqtt5-load",
        include_str!("../../transcripts/mqtt5-load.txt"),
    ),
    (
        "mqtt311-refused",
        include_str!("../../transcripts/mqtt311-refused.txt"),
    ),
];

/// Limits of the server in this transcript.
pub(super) fn limits_of(name: &str) -> ServerLimits {
    ServerLimits {
        load_reports: name == "mqtt5-load",
        ..limits()
    }
}

fn client_says(line: &TranscriptLine, at: &str, client: &mut ClientSide, server: &mut ServerSide) {
    match (server.handle_input(&line.bytes), &line.mark) {
        (Ok(Some((consumed, event))), Mark::Canonical | Mark::Valid) => {
            assert_eq!(consumed, line.bytes.len(), "{at}");
            if line.mark == Mark::Canonical {
                let mut again = Vec::new();
                mirror::by_client(&event, client, &mut again);
                assert_eq!(again, line.bytes, "{at}: {event:?}");
            }
        }
        (Err(fault), Mark::Faulty(clause)) => assert_eq!(fault.clause, clause, "{at}"),
        (other, _) => panic!("{at}: {other:?}"),
    }
}

fn server_says(line: &TranscriptLine, at: &str, client: &mut ClientSide, server: &mut ServerSide) {
    match (client.handle_input(&line.bytes), &line.mark) {
        (Ok(Some((consumed, event))), Mark::Canonical | Mark::Valid) => {
            assert_eq!(consumed, line.bytes.len(), "{at}");
            if line.mark == Mark::Canonical {
                let mut again = Vec::new();
                mirror::by_server(&event, server, &mut again);
                assert_eq!(again, line.bytes, "{at}: {event:?}");
            }
        }
        (Err(fault), Mark::Faulty(clause)) => assert_eq!(fault.clause, clause, "{at}"),
        (other, _) => panic!("{at}: {other:?}"),
    }
}

#[test]
fn every_line_of_every_transcript_is_understood_and_said_again_byte_for_byte() {
    for (name, text) in ALL {
        let lines = parse_transcript(text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(!lines.is_empty());
        let (mut client, mut server) = (ClientSide::new(1 << 20), ServerSide::new(limits_of(name)));
        for line in &lines {
            let at = format!("transcripts/{name}.txt:{}", line.number);
            match line.side {
                Side::Client => client_says(line, &at, &mut client, &mut server),
                Side::Server => server_says(line, &at, &mut client, &mut server),
            }
        }
    }
}
