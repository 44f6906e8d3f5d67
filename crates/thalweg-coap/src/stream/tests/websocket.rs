//! The form of WebSocket and the form of TCP say the same.

use thalweg_wire::testkit::Mark;

use super::*;
use crate::Malformed;

#[test]
fn every_line_of_the_transcripts_is_the_same_over_websocket() {
    for (name, line) in transcripts::lines() {
        if matches!(line.mark, Mark::Faulty(_)) {
            continue;
        }
        let at = format!("transcripts/{name}.txt:{}", line.number);
        let (_, message) = decode(&line.bytes, usize::MAX)
            .expect("legal")
            .expect("complete");
        let (consumed, parts) = next_for_websocket(&line.bytes).expect("complete");
        assert_eq!(
            (consumed, parts.first),
            (line.bytes.len(), message.token.len() as u8),
            "{at}"
        );
        let mut one = vec![parts.first];
        one.extend_from_slice(parts.rest);
        assert_eq!(decode_websocket(&one), Ok(message), "{at}");
        // Len is ignored.
        one[0] |= 0xD0;
        assert_eq!(decode_websocket(&one), Ok(message), "{at}");
        let mut again = Vec::new();
        assert_eq!(
            (message.encode(&mut again), &again),
            (line.bytes.len(), &line.bytes),
            "{at}"
        );
        let mut back = Vec::new();
        append_from_websocket(&one, &mut back).expect("legal");
        assert_eq!(back, line.bytes, "{at}");
    }
}

#[test]
fn websocket_messages_that_are_none_are_refused() {
    let mut stream = Vec::new();
    for (message, why) in [
        (&[][..], Malformed::HeadCutShort),
        (&[0], Malformed::HeadCutShort),
        (&[9, 1], Malformed::TokenLength),
        (&[2, 1, 0], Malformed::TokenCutShort),
    ] {
        assert_eq!(append_from_websocket(message, &mut stream), Err(why));
        assert_eq!(decode_websocket(message), Err(why));
    }
    assert!(stream.is_empty());
    // Errors after the token are left to the machine.
    assert_eq!(append_from_websocket(&[0, 1, 0xFF], &mut stream), Ok(()));
    assert_eq!(decode(&stream, 100), Err(Malformed::PayloadMissing));
}

#[test]
fn what_a_machine_wrote_becomes_one_websocket_message_each() {
    let (mut client, mut out) = (ClientSide::new(settings()), Vec::new());
    client
        .request(Code::GET, true, observe_a(0), &[], &mut out)
        .expect("room");
    client
        .request(Code::PUT, false, none, &[7; 300], &mut out)
        .expect("room");
    client.keep_alive(&mut out);
    let (mut rest, mut codes) = (&out[..], Vec::new());
    while let Some((consumed, message)) = next_for_websocket(rest) {
        codes.push(Code(message.rest[0]));
        rest = &rest[consumed..];
    }
    assert_eq!(codes, [Code::CSM, Code::GET, Code::PUT, Code::EMPTY]);
    assert!(rest.is_empty());
}
