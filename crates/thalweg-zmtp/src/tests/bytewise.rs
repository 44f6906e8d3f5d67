//! A network that delivers one octet at a time changes nothing.

use thalweg_wire::testkit::{Mark, Side};

use super::*;

#[test]
fn one_octet_at_a_time_says_the_same_as_all_at_once() {
    for transcript in transcripts::ALL {
        let input = transcript.said_by(Side::Client);
        let each: Vec<usize> = (1..=input.len()).collect();
        let whole = server_hears(&input, &[input.len()]);
        assert!(whole.0.len() > 3, "{}: {whole:?}", transcript.name);
        assert_eq!(whole, server_hears(&input, &each), "{}", transcript.name);

        let input = transcript.said_by(Side::Server);
        let each: Vec<usize> = (1..=input.len()).collect();
        for mechanism in client_mechanisms() {
            let whole = client_hears(mechanism.clone(), &input, &[input.len()]);
            assert_eq!(
                whole,
                client_hears(mechanism, &input, &each),
                "{}",
                transcript.name
            );
        }
    }
}

#[test]
fn a_fault_is_the_same_fault_one_octet_at_a_time() {
    for transcript in transcripts::ALL {
        let valid = transcript.said_by(Side::Client);
        for line in transcript.lines() {
            if !matches!(line.mark, Mark::Faulty(_)) {
                continue;
            }
            for before in [&valid[..], &[]] {
                let input = [before, &line.bytes, b"\0\0more"].concat();
                let each: Vec<usize> = (1..=input.len()).collect();
                let whole = server_hears(&input, &[input.len()]);
                let at = format!("{}.txt:{}", transcript.name, line.number);
                let last = whole.0.last().expect("a fault");
                assert!(last.contains("at fault"), "{at}: {last}");
                assert_eq!(whole, server_hears(&input, &each), "{at}");
            }
        }
    }
}

#[test]
fn frames_that_have_been_looked_at_are_not_looked_at_again() {
    let mut server = server_for(SocketType::Push);
    let mut gathered = Gathered::default();
    let mut input = Vec::new();
    for _ in 0..1000 {
        input.extend_from_slice(b"\x01\x01x");
        assert_eq!(server.handle_input(&input, &mut gathered), Ok(None));
        // No caller may do this; a machine that looked again would see a reserved bit.
        input[0] = 0x80;
    }
    input.extend_from_slice(b"\0\x01y");
    let (consumed, event) = server
        .handle_input(&input, &mut gathered)
        .expect("valid")
        .expect("complete");
    assert_eq!(consumed, input.len());
    assert!(matches!(event, Event::Message(message) if message.raw().len() == 3003));
}
