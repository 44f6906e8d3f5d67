//! Valid frames with random damage, through both decoders: nothing panics, nothing is read twice or past its end.
//! The fuzz targets in `/fuzz` do the same with a guided generator.

use thalweg_wire::testkit::{Dice, Mark, Side, TranscriptLine, parse_transcript};

use super::*;

const ROUNDS: usize = 40_000;
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
                    *old = if dice.below(2) == 0 {
                        byte
                    } else {
                        *old ^ 1 << dice.below(8)
                    };
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
    let Some(rest) = frame.get(7 + size..).map(<[u8]>::to_vec) else {
        return damage(frame, dice);
    };
    let mut payload = frame[7..7 + size].to_vec();
    damage(&mut payload, dice);
    frame.truncate(3);
    frame.extend((payload.len() as u32).to_be_bytes());
    frame.extend(payload);
    frame.extend(rest);
}

/// The server's events of `input`, of which only the first `first` bytes arrive at first.
fn feed_server(server: &mut ServerSide, input: &[u8], first: usize, seed: &str) -> Vec<String> {
    let (mut heard, mut out, mut gathered) = (Vec::new(), Vec::new(), Gathered::default());
    let (mut from, mut faults) = (0, 0);
    for until in [first, input.len()] {
        loop {
            match server.handle_input(&input[from..until], &mut gathered) {
                Ok(Some((consumed, event))) => {
                    assert!(consumed > 0 && from + consumed <= until, "{seed}");
                    // Touches everything that it borrows.
                    if !matches!(event, Event::Consumed) {
                        heard.push(format!("{event:?}"));
                    }
                    welcome(server, &event, &mut out);
                    from += consumed;
                }
                Ok(None) => break,
                Err(fault) => {
                    faults += 1;
                    assert!(faults == 1, "{seed}: {fault}");
                    heard.push(fault.to_string());
                    server.fault(&fault, &mut out);
                }
            }
        }
    }
    // Events of a connection that cannot be read any more depend on where it is cut.
    if let Some(at) = heard
        .iter()
        .position(|heard| heard.contains("the peer is at fault: ") && heard.contains("[§"))
    {
        heard.truncate(at + 1);
    }
    heard
}

/// As [`feed_server`].
fn feed_client(client: &mut ClientSide, input: &[u8], first: usize, seed: &str) -> Vec<String> {
    let (mut heard, mut out, mut gathered) = (Vec::new(), Vec::new(), Gathered::default());
    let mut from = 0;
    for until in [first, input.len()] {
        loop {
            match client.handle_input(&input[from..until], &mut gathered) {
                Ok(Some((consumed, event))) => {
                    assert!(consumed > 0 && from + consumed <= until, "{seed}");
                    if !matches!(event, ClientEvent::Consumed) {
                        heard.push(format!("{event:?}"));
                    }
                    enter(client, &event, &mut out);
                    from += consumed;
                }
                Ok(None) => break,
                Err(fault) => {
                    heard.push(fault.to_string());
                    client.fault(&fault, &mut out);
                    return heard;
                }
            }
        }
    }
    heard
}

#[test]
fn damaged_frames_are_faults_or_events_whole_or_cut_and_never_a_panic() {
    let mut dice = Dice::new(SEED);
    let lines: Vec<TranscriptLine> = transcripts::ALL
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
        // The following frames are read as well.
        input.extend(&lines[dice.below(lines.len())].bytes);
        let cut = dice.below(input.len() + 1);
        let is_new = round % 8 == 0;
        let heard = |first: usize| match line.side {
            Side::Client => {
                let mut server = if is_new {
                    ServerSide::new(ServerLimits::default())
                } else {
                    pair(ServerLimits::default()).1
                };
                feed_server(&mut server, &input, first, &seed)
            }
            Side::Server => {
                let mut client = if is_new {
                    client()
                } else {
                    pair(ServerLimits::default()).0
                };
                client.connect(&mut Vec::new());
                feed_client(&mut client, &input, first, &seed)
            }
        };
        assert_eq!(heard(input.len()), heard(cut), "{seed}, cut at {cut}");
    }
}
