//! Valid frames with random damage, through both decoders, in one piece and in two: nothing panics, nothing is read twice
//! or past its end. The fuzz targets in `/fuzz` do the same with a guided generator.

use thalweg_wire::testkit::{Dice, Mark, parse_transcript};

use super::*;

const ROUNDS: usize = 50_000;
const SEED: u64 = 20_261_121;

fn damage(frame: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..=dice.below(3) {
        let at = dice.below(frame.len());
        let byte = match dice.below(4) {
            0 => b"\0\n\r:\\,"[dice.below(6)],
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

fn server_hears(server: &mut ServerSide, input: &[u8], cuts: &[usize]) -> Vec<String> {
    let (mut heard, mut from, mut out) = (Vec::new(), 0, Vec::new());
    for &until in cuts {
        loop {
            match server.handle_input(&input[from..until]) {
                Ok(Some((consumed, event))) => {
                    assert!(consumed > 0 && from + consumed <= until);
                    from += consumed;
                    match &event {
                        Event::HeartBeat => continue,
                        Event::Connect(_) => server.connected(&ConnectedOut::default(), &mut out),
                        _ => {}
                    }
                    heard.push(format!("{event:?}"));
                }
                Ok(None) => break,
                Err(fault) => {
                    out.clear();
                    server.fault(&fault, &mut out);
                    assert!(out.starts_with(b"ERROR\n") && out.ends_with(b"\0"));
                    heard.push(text(&out));
                    return heard;
                }
            }
        }
    }
    heard
}

fn client_hears(client: &mut ClientSide, input: &[u8], cuts: &[usize]) -> Vec<String> {
    let (mut heard, mut from) = (Vec::new(), 0);
    for &until in cuts {
        loop {
            match client.handle_input(&input[from..until]) {
                Ok(Some((consumed, event))) => {
                    assert!(consumed > 0 && from + consumed <= until);
                    from += consumed;
                    if event != ClientEvent::HeartBeat {
                        heard.push(format!("{event:?}"));
                    }
                }
                Ok(None) => break,
                Err(fault) => {
                    heard.push(fault.to_string());
                    return heard;
                }
            }
        }
    }
    heard
}

#[test]
fn damaged_frames_are_faults_or_events_and_never_a_panic() {
    let mut dice = Dice::new(SEED);
    let lines: Vec<_> = transcripts::ALL
        .iter()
        .flat_map(|(_, transcript)| parse_transcript(transcript).expect("it parses"))
        .filter(|line| !matches!(line.mark, Mark::Faulty(_)))
        .collect();
    for round in 0..ROUNDS {
        let mut input = lines[dice.below(lines.len())].bytes.clone();
        damage(&mut input, &mut dice);
        input.extend_from_slice(&lines[dice.below(lines.len())].bytes);
        let cuts = [dice.below(input.len() + 1), input.len()];
        let at = format!(
            "seed {SEED} round {round}: {} cut at {}",
            text(&input),
            cuts[0]
        );
        let version = Version::ALL[round % 3];
        let machines = || match round % 4 {
            0 => {
                let mut client = ClientSide::new(limits().frame);
                client.connect(&ConnectOut::default(), &mut Vec::new());
                (client, ServerSide::new(limits()))
            }
            _ => pair(version),
        };
        let (mut client, mut server) = machines();
        let (mut client_again, mut server_again) = machines();
        let whole = &cuts[1..];
        assert_eq!(
            server_hears(&mut server, &input, whole),
            server_hears(&mut server_again, &input, &cuts),
            "{at}"
        );
        assert_eq!(
            client_hears(&mut client, &input, whole),
            client_hears(&mut client_again, &input, &cuts),
            "{at}"
        );
    }
}
