//! Recorded sessions against both sides: each line is decoded by one machine and said again by the other.

use thalweg_wire::testkit::{Mark, Side, TranscriptLine, parse_transcript};

use super::*;

/// Every file of `transcripts/`.
pub(super) const ALL: &[(&str, &str)] = &[
    ("stomp10", include_str!("../../transcripts/stomp10.txt")),
    ("stomp11", include_str!("../../transcripts/stomp11.txt")),
    ("stomp12", include_str!("../../transcripts/stomp12.txt")),
    ("stompjs", include_str!("../../transcripts/stompjs.txt")),
    ("refused", include_str!("../../transcripts/refused.txt")),
];

fn client_says(line: &TranscriptLine, at: &str, client: &mut ClientSide, server: &mut ServerSide) {
    match (server.handle_input(&line.bytes), &line.mark) {
        (Ok(Some((consumed, event))), Mark::Canonical | Mark::Valid) => {
            // Lines after a frame belong to the next one.
            let rest = line.bytes.get(consumed..).expect("not past the end");
            assert!(rest.iter().all(|byte| *byte == b'\n'), "{at}");
            let mut again = Vec::new();
            mirror::by_client(&event, client, &mut again);
            if line.mark == Mark::Canonical {
                assert_eq!(text(&again), text(&line.bytes), "{at}: {event:?}");
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
            let mut again = Vec::new();
            mirror::by_server(&event, server, &mut again);
            if line.mark == Mark::Canonical {
                assert_eq!(text(&again), text(&line.bytes), "{at}: {event:?}");
            }
        }
        (Err(fault), Mark::Faulty(clause)) => assert_eq!(fault.clause, clause, "{at}"),
        (other, _) => panic!("{at}: {other:?}"),
    }
}

#[test]
fn every_line_of_every_transcript_is_understood_and_said_again_byte_for_byte() {
    for (name, transcript) in ALL {
        let lines = parse_transcript(transcript).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(!lines.is_empty());
        let (mut client, mut server) = (
            ClientSide::new(FrameLimits::default()),
            ServerSide::new(limits()),
        );
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
fn every_fault_is_met_somewhere() {
    let met = |fault: &PeerFault| {
        ALL.iter()
            .any(|(_, t)| t.contains(&format!("! {} ", fault.clause)))
    };
    let elsewhere = ["1.2#Size_Limits", "1.0#UNSUBSCRIBE", "1.1#ACK"];
    for fault in PeerFault::ALL {
        assert!(met(fault) || elsewhere.contains(&fault.clause), "{fault}");
    }
}
