//! Valid frames with random damage, through both decoders: nothing panics, nothing is read twice or past its end.
//! The fuzz targets in `/fuzz` do the same with a guided generator.

use thalweg_wire::testkit::{Dice, Line, Mark, Side, parse_transcript};

use super::*;

const ROUNDS: usize = 60_000;
const SEED: u64 = 20_261_121;

fn damage(frame: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..=dice.below(3) {
        let at = dice.below(frame.len());
        let byte = match dice.below(4) {
            0 => 0,
            1 => 0xFF,
            _ => dice.throw() as u8,
        };
        match dice.below(6) {
            0 => frame.truncate(at),
            1 => frame.insert(at, byte),
            2 if at < frame.len() => {
                frame.remove(at);
            }
            3 => frame.push(byte),
            _ => {
                if let Some(old) = frame.get_mut(at) {
                    *old = if dice.below(2) == 0 { byte } else { *old ^ 1 << dice.below(8) };
                }
            }
        }
    }
}

/// Like [`damage`], but the frame keeps its outside, so that the inside is looked at.
fn damage_inside(frame: &mut Vec<u8>, dice: &mut Dice) {
    if frame.len() <= 8 || frame[0] == b'A' {
        return damage(frame, dice);
    }
    let size = u32::from_be_bytes([frame[3], frame[4], frame[5], frame[6]]) as usize;
    let Some(rest) = frame.get(7 + size..).map(<[u8]>::to_vec) else { return damage(frame, dice) };
    let mut payload = frame[7..7 + size].to_vec();
    damage(&mut payload, dice);
    frame.truncate(3);
    frame.extend((payload.len() as u32).to_be_bytes());
    frame.extend(payload);
    frame.extend(rest);
}

fn feed_server(server: &mut ServerSide, input: &[u8], seed: &str) {
    let (mut rest, mut out, mut gathered) = (input, Vec::new(), Gathered::default());
    for _ in 0..2 * input.len() + 10 {
        match server.handle_input(rest, &mut gathered) {
            Ok(Some((consumed, event))) => {
                assert!(consumed > 0 && consumed <= rest.len(), "{seed}");
                // Touches everything that it borrows.
                assert!(!format!("{event:?}").is_empty());
                welcome(server, &event, &mut out);
                rest = &rest[consumed..];
            }
            Ok(None) => return,
            Err(fault) => {
                assert!(!fault.to_string().is_empty());
                server.fault(&fault, &mut out);
            }
        }
    }
    panic!("{seed}: the machine does not come to an end");
}

fn feed_client(client: &mut ClientSide, input: &[u8], seed: &str) {
    let (mut rest, mut out, mut gathered) = (input, Vec::new(), Gathered::default());
    for _ in 0..2 * input.len() + 10 {
        match client.handle_input(rest, &mut gathered) {
            Ok(Some((consumed, event))) => {
                assert!(consumed > 0 && consumed <= rest.len(), "{seed}");
                assert!(!format!("{event:?}").is_empty());
                enter(client, &event, &mut out);
                rest = &rest[consumed..];
            }
            Ok(None) => return,
            Err(fault) => client.fault(&fault, &mut out),
        }
    }
    panic!("{seed}: the machine does not come to an end");
}

#[test]
fn damaged_frames_are_faults_or_events_and_never_a_panic() {
    let mut dice = Dice::new(SEED);
    let lines: Vec<Line> = transcripts::ALL
        .iter()
        .flat_map(|(_, text)| parse_transcript(text).expect("it parses"))
        .filter(|line| !matches!(line.mark, Mark::Faulty(_)))
        .collect();
    for round in 0..ROUNDS {
        let seed = format!("seed {SEED}, round {round}");
        let line = &lines[dice.below(lines.len())];
        let mut input = line.bytes.clone();
        if dice.below(2) == 0 {
            damage(&mut input, &mut dice)
        } else {
            damage_inside(&mut input, &mut dice)
        }
        // What follows is heard as well.
        input.extend(&lines[dice.below(lines.len())].bytes);
        if round % 8 == 0 {
            feed_server(&mut ServerSide::new(ServerLimits::default()), &input, &seed);
            let mut client = client();
            client.connect(&mut Vec::new());
            feed_client(&mut client, &input, &seed);
        } else {
            let (mut client, mut server) = pair(ServerLimits::default());
            match line.side {
                Side::Client => feed_server(&mut server, &input, &seed),
                Side::Server => feed_client(&mut client, &input, &seed),
            }
        }
    }
}
