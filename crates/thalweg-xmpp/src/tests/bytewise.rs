//! A network that delivers one octet at a time changes nothing.

use thalweg_wire::testkit::{Mark, Side};

use super::*;

#[test]
fn one_octet_at_a_time_says_the_same_as_all_at_once() {
    for transcript in transcripts::ALL {
        let input = transcript.sent_by(Side::Client, usize::MAX);
        let each: Vec<usize> = (1..=input.len()).collect();
        let server = transcript.server();
        let whole = server_hears(&server, &input, &each);
        assert!(whole.0.len() > 4, "{}: {whole:?}", transcript.name);
        // Not all at once where TLS begins: what follows comes behind the handshake.
        if transcript.name != "rfc6120" {
            assert_eq!(
                whole,
                server_hears(&server, &input, &[input.len()]),
                "{}",
                transcript.name
            );
        }
        let input = transcript.sent_by(Side::Server, usize::MAX);
        let each: Vec<usize> = (1..=input.len()).collect();
        let client = transcript.client();
        let whole = client_hears(&client, &input, &each);
        assert!(!whole.0.is_empty(), "{}", transcript.name);
        if transcript.name != "rfc6120" {
            assert_eq!(
                whole,
                client_hears(&client, &input, &[input.len()]),
                "{}",
                transcript.name
            );
        }
    }
}

#[test]
fn a_fault_is_the_same_fault_one_octet_at_a_time() {
    for transcript in transcripts::ALL {
        for line in transcript.lines() {
            if !matches!(line.mark, Mark::Faulty(_)) {
                continue;
            }
            let at = format!("{}.txt:{}", transcript.name, line.number);
            let before = transcript.sent_by(Side::Client, line.number);
            let input = [&before, &line.bytes, &b"</stream:stream>"[..]].concat();
            let each: Vec<usize> = (1..=input.len()).collect();
            let mut blocks: Vec<usize> = (1..=before.len()).collect();
            blocks.push(input.len());
            let server = transcript.server();
            let whole = server_hears(&server, &input, &blocks);
            assert_eq!(whole, server_hears(&server, &input, &each), "{at}");
        }
    }
}
