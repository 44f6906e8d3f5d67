//! Sessions against both sides: each line is read by one machine and said again by the other, all at once and one byte
//! at a time.

use thalweg_wire::testkit::{
    Mark, Side, TranscriptLine, feed_bytewise, feed_whole, parse_transcript,
};

use super::*;

/// The transcripts of connections.
pub(super) const ALL: &[(&str, &str)] = &[
    ("stream", include_str!("../../../transcripts/stream.txt")),
    (
        "stream-libcoap",
        include_str!("../../../transcripts/stream-libcoap.txt"),
    ),
    (
        "stream-aiocoap",
        include_str!("../../../transcripts/stream-aiocoap.txt"),
    ),
    (
        "stream-aiocoap-server",
        include_str!("../../../transcripts/stream-aiocoap-server.txt"),
    ),
    (
        "stream-refused",
        include_str!("../../../transcripts/stream-refused.txt"),
    ),
];

pub(super) fn lines() -> Vec<(&'static str, TranscriptLine)> {
    let parse = |(name, text): &(&'static str, &str)| {
        let name = *name;
        let lines = parse_transcript(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        lines.into_iter().map(move |line| (name, line))
    };
    ALL.iter().flat_map(parse).collect()
}

fn check(line: &TranscriptLine, at: &str, heard: Result<Option<usize>, PeerFault>, again: &[u8]) {
    match (heard, &line.mark) {
        (Ok(Some(consumed)), Mark::Canonical | Mark::Valid) => {
            assert_eq!(consumed, line.bytes.len(), "{at}");
            if line.mark == Mark::Canonical {
                assert_eq!(again, line.bytes, "{at}");
            }
        }
        (Err(fault), Mark::Faulty(clause)) => assert_eq!(fault.clause, clause, "{at}"),
        (other, _) => panic!("{at}: {other:?}"),
    }
}

#[test]
fn every_line_of_every_transcript_is_understood_and_said_again_byte_for_byte() {
    for (name, text) in ALL {
        let (mut client, mut server) = (ClientSide::new(settings()), ServerSide::new(settings()));
        for line in parse_transcript(text).expect("it parses") {
            let at = format!("transcripts/{name}.txt:{}", line.number);
            let mut again = Vec::new();
            match line.side {
                Side::Client => {
                    let heard = server.handle_input(&line.bytes);
                    if let Ok(Some((_, event))) = &heard {
                        mirror::by_client(event, &mut client, &mut again);
                    }
                    check(
                        &line,
                        &at,
                        heard.map(|heard| heard.map(|(consumed, _)| consumed)),
                        &again,
                    );
                }
                Side::Server => {
                    let heard = client.handle_input(&line.bytes);
                    if let Ok(Some((_, event))) = &heard {
                        mirror::by_server(event, &mut server, &mut again);
                    }
                    check(
                        &line,
                        &at,
                        heard.map(|heard| heard.map(|(consumed, _)| consumed)),
                        &again,
                    );
                }
            }
        }
    }
}

#[test]
fn every_fault_is_met_somewhere() {
    for fault in PeerFault::ALL {
        let met = lines()
            .iter()
            .any(|(_, line)| line.mark == Mark::Faulty(fault.clause.into()));
        assert!(met, "{fault}");
    }
}

/// Events of a server, and the remaining bytes.
fn server_hears(input: &[u8], bytewise: bool) -> (Vec<String>, Result<Vec<u8>, PeerFault>) {
    let mut server = ServerSide::new(settings());
    let mut heard = Vec::new();
    let handle = |bytes: &[u8]| {
        let Some((consumed, event)) = server.handle_input(bytes)? else {
            return Ok(None);
        };
        heard.push(format!("{event:?}"));
        Ok(Some(consumed))
    };
    let left = if bytewise {
        feed_bytewise(input, handle)
    } else {
        feed_whole(input, handle)
    };
    (heard, left)
}

fn client_hears(input: &[u8], bytewise: bool) -> (Vec<String>, Result<Vec<u8>, PeerFault>) {
    let mut client = ClientSide::new(settings());
    for observes in [false, true, false] {
        client
            .request(Code::GET, observes, none, &[], &mut Vec::new())
            .expect("room");
    }
    let mut heard = Vec::new();
    let handle = |bytes: &[u8]| {
        let Some((consumed, event)) = client.handle_input(bytes)? else {
            return Ok(None);
        };
        heard.push(format!("{event:?}"));
        Ok(Some(consumed))
    };
    let left = if bytewise {
        feed_bytewise(input, handle)
    } else {
        feed_whole(input, handle)
    };
    (heard, left)
}

#[test]
fn one_byte_at_a_time_is_heard_as_all_at_once() {
    let said = |side: Side| -> Vec<u8> {
        let lines = parse_transcript(ALL[0].1).expect("it parses");
        lines
            .into_iter()
            .filter(|line| line.side == side)
            .flat_map(|line| line.bytes)
            .collect()
    };
    let (whole, bytewise) = (
        server_hears(&said(Side::Client), false),
        server_hears(&said(Side::Client), true),
    );
    assert_eq!((whole.0.len(), &whole.1), (15, &Ok(vec![])));
    assert_eq!(whole, bytewise);
    let (whole, bytewise) = (
        client_hears(&said(Side::Server), false),
        client_hears(&said(Side::Server), true),
    );
    assert_eq!((whole.0.len(), &whole.1), (15, &Ok(vec![])));
    assert_eq!(whole, bytewise);
}

#[test]
fn faults_are_the_same_one_byte_at_a_time() {
    let csm = [0x00, 0xE1];
    for (name, line) in lines() {
        if matches!(line.mark, Mark::Faulty(_)) {
            for before in [&csm[..], &[]] {
                let input = [before, &line.bytes].concat();
                let at = format!("transcripts/{name}.txt:{}", line.number);
                let whole = if line.side == Side::Client {
                    server_hears
                } else {
                    client_hears
                };
                let (whole, bytewise) = (whole(&input, false), whole(&input, true));
                assert_eq!(whole, bytewise, "{at}");
            }
        }
    }
}
