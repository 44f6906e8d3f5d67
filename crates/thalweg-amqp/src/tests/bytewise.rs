//! A network that delivers one byte at a time changes nothing.

use thalweg_wire::testkit::{Mark, Side, feed_bytewise, feed_whole, parse_transcript};

use super::*;

/// Events of a server, and the remaining bytes.
fn by_server(input: &[u8], bytewise: bool) -> (Vec<String>, Result<Vec<u8>, PeerFault>) {
    let mut server = ServerSide::new(ServerLimits::default());
    let mut heard = Vec::new();
    let handle = |bytes: &[u8]| {
        let mut gathered = Gathered::default();
        let Some((consumed, event)) = server.handle_input(bytes, &mut gathered)? else {
            return Ok(None);
        };
        if !matches!(event, Event::Consumed) {
            heard.push(format!("{event:?}"));
        }
        welcome(&mut server, &event, &mut Vec::new());
        Ok(Some(consumed))
    };
    let left = if bytewise {
        feed_bytewise(input, handle)
    } else {
        feed_whole(input, handle)
    };
    (heard, left)
}

/// Events of a client, and the remaining bytes.
fn by_client(input: &[u8], bytewise: bool) -> (Vec<String>, Result<Vec<u8>, PeerFault>) {
    let mut client = client();
    client.connect(&mut Vec::new());
    let mut heard = Vec::new();
    let handle = |bytes: &[u8]| {
        let mut gathered = Gathered::default();
        let Some((consumed, event)) = client.handle_input(bytes, &mut gathered)? else {
            return Ok(None);
        };
        if !matches!(event, ClientEvent::Consumed) {
            heard.push(format!("{event:?}"));
        }
        enter(&mut client, &event, &mut Vec::new());
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
fn one_byte_at_a_time_says_the_same_as_all_at_once() {
    for (name, text) in transcripts::ALL {
        let lines = parse_transcript(text).expect("it parses");
        let of = |side: Side, faults: bool| -> Vec<u8> {
            let wanted = lines.iter().filter(|line| {
                line.side == side && (faults || !matches!(line.mark, Mark::Faulty(_)))
            });
            wanted.flat_map(|line| line.bytes.clone()).collect()
        };
        for faults in [false, true] {
            let input = of(Side::Client, faults);
            let whole = by_server(&input, false);
            assert_eq!(whole, by_server(&input, true), "{name}");
            assert!(
                !whole.0.is_empty() || whole.1.is_err() || input.is_empty(),
                "{name}"
            );
            let input = of(Side::Server, faults);
            assert_eq!(by_client(&input, false), by_client(&input, true), "{name}");
        }
    }
}

#[test]
fn a_connection_that_ends_after_a_fault_ends_the_same_byte_by_byte() {
    let faulty = bytes(
        "01 0001 000000 [ 003C 0063 ] CE 08 0000 00000000 CE 01 0000 000000 [ 000A 0033 ] CE",
    );
    let broken = bytes("07 11 22 33 \"garbage that is no frame\" 01 0000 000000 [ 000A 0033 ] CE");
    for input in [faulty, broken] {
        for bytewise in [false, true] {
            let (_, mut server) = pair(ServerLimits::default());
            let mut out = Vec::new();
            let mut ends = 0;
            let handle = |bytes: &[u8]| {
                let mut gathered = Gathered::default();
                match server.handle_input(bytes, &mut gathered) {
                    Ok(None) => Ok::<_, ()>(None),
                    Ok(Some((consumed, event))) => {
                        ends += usize::from(matches!(event, Event::CloseConnectionOk));
                        Ok(Some(consumed))
                    }
                    Err(fault) => {
                        server.fault(&fault, &mut out);
                        Ok(Some(0))
                    }
                }
            };
            let left = if bytewise {
                feed_bytewise(&input, handle)
            } else {
                feed_whole(&input, handle)
            };
            assert_eq!((left, ends), (Ok(Vec::new()), 1));
            assert_eq!(out[7..11], [0, 10, 0, 50]);
        }
    }
}

#[test]
fn the_length_of_a_frame_is_known_from_its_header() {
    let input = bytes("08 0000 00000000 CE");
    assert_eq!(ServerSide::frame_len(&[]), None);
    assert_eq!(ServerSide::frame_len(&input[..6]), None);
    assert_eq!(ServerSide::frame_len(&input), Some(8));
    assert_eq!(ServerSide::frame_len(b"A"), Some(8));
    assert_eq!(ServerSide::frame_len(&bytes("01 0000 00000102")), Some(266));
    assert_eq!(ClientSide::frame_len(&bytes("01 0000 00000102")), Some(266));
}
