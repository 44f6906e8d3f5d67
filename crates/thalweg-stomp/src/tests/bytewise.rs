//! A network that delivers one byte at a time changes nothing.

use thalweg_wire::testkit::{Mark, Side, feed_bytewise, feed_whole, parse_transcript};

use super::*;

type Decoded = (Vec<String>, Result<Vec<u8>, PeerFault>);

/// Events of a server, and the remaining bytes. The number of heart-beats depends on the network.
fn server_hears(input: &[u8], bytewise: bool) -> (Decoded, String) {
    let mut server = ServerSide::new(limits());
    let mut heard = Vec::new();
    let handle = |bytes: &[u8]| {
        let Some((consumed, event)) = server.handle_input(bytes)? else {
            return Ok(None);
        };
        if event != Event::HeartBeat {
            heard.push(format!("{event:?}"));
        }
        if let Event::Connect(_) = event {
            server.connected(&ConnectedOut::default(), &mut Vec::new());
        }
        Ok(Some(consumed))
    };
    let left = if bytewise {
        feed_bytewise(input, handle)
    } else {
        feed_whole(input, handle)
    };
    let mut last_words = Vec::new();
    if let Err(fault) = &left {
        server.fault(fault, &mut last_words);
    }
    ((heard, left), text(&last_words))
}

fn client_hears(input: &[u8], bytewise: bool) -> Decoded {
    let mut client = ClientSide::new(limits().frame);
    client.connect(&ConnectOut::default(), &mut Vec::new());
    let mut heard = Vec::new();
    let handle = |bytes: &[u8]| {
        let Some((consumed, event)) = client.handle_input(bytes)? else {
            return Ok(None);
        };
        if event != ClientEvent::HeartBeat {
            heard.push(format!("{event:?}"));
        }
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
    for (name, transcript) in transcripts::ALL {
        let lines = parse_transcript(transcript).expect("it parses");
        let of = |side: Side| -> Vec<u8> {
            let valid = |mark: &Mark| !matches!(mark, Mark::Faulty(_));
            lines
                .iter()
                .filter(|l| l.side == side && valid(&l.mark))
                .flat_map(|l| l.bytes.clone())
                .collect()
        };
        let input = of(Side::Client);
        let whole = server_hears(&input, false);
        assert!(!whole.0.0.is_empty(), "{name}");
        assert_eq!(whole, server_hears(&input, true), "{name}");
        let input = of(Side::Server);
        let whole = client_hears(&input, false);
        assert!(!whole.0.is_empty(), "{name}");
        assert_eq!(whole, client_hears(&input, true), "{name}");
    }
}

#[test]
fn a_fault_is_the_same_fault_and_gets_the_same_answer_one_byte_at_a_time() {
    let lines = parse_transcript(include_str!("../../transcripts/refused.txt")).expect("it parses");
    let connect = lines
        .iter()
        .find(|line| line.mark == Mark::Canonical)
        .expect("a CONNECT")
        .bytes
        .clone();
    for line in lines
        .iter()
        .filter(|line| line.side == Side::Client && matches!(line.mark, Mark::Faulty(_)))
    {
        for before in [&connect[..], &[]] {
            let input = [before, &line.bytes, b"\0more\n"].concat();
            let whole = server_hears(&input, false);
            assert!(whole.0.1.is_err(), "line {}", line.number);
            assert_eq!(whole, server_hears(&input, true), "line {}", line.number);
        }
    }
}

#[test]
fn what_has_been_looked_at_is_not_looked_at_again() {
    const BODY: usize = 1 << 20;
    let frame = FrameLimits {
        body_bytes_max: BODY as u32,
        ..FrameLimits::default()
    };
    let mut server = ServerSide::new(ServerLimits {
        connect: frame.clone(),
        frame,
    });
    server_event(&mut server, b"CONNECT\naccept-version:1.2\n\n\0");
    server.connected(&ConnectedOut::default(), &mut Vec::new());
    let mut input = b"SEND\ndestination:/queue/q\nk:v\n\n".to_vec();
    let head = input.len();
    input.resize(head + BODY, b'x');
    input.push(0);
    for end in (1..input.len()).step_by(1024) {
        assert_eq!(server.handle_input(&input[..end]), Ok(None));
        // No caller may do this; a machine that looked again would see where the body ends now.
        input[head] = if end > head { 0 } else { b'x' };
    }
    let Event::Send(send) = server_event(&mut server, &input) else {
        panic!("not SEND")
    };
    assert_eq!((send.body.len(), send.frame.len()), (BODY, input.len()));
}
