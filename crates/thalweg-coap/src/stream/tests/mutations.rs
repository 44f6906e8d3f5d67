//! Sessions with random damage, through both machines, in one piece and in two: nothing panics, nothing is read twice or
//! past its end. The fuzz targets in `/fuzz` do the same with a guided generator.

use thalweg_wire::testkit::{Dice, Mark, Side};

use super::*;
use crate::tests::mutations::damage;

const ROUNDS: usize = 50_000;
const SEED: u64 = 20_261_121;

/// Events of a machine, and its final protocol error.
fn hears(
    input: &[u8],
    cuts: &[usize],
    mut handle: impl FnMut(&[u8]) -> Result<Option<(usize, String)>, PeerFault>,
) -> Vec<String> {
    let (mut heard, mut from) = (Vec::new(), 0);
    for &until in cuts {
        loop {
            match handle(&input[from..until]) {
                Ok(Some((consumed, event))) => {
                    assert!(consumed > 0 && from + consumed <= until);
                    from += consumed;
                    heard.push(event);
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

fn server_hears(server: &mut ServerSide, input: &[u8], cuts: &[usize]) -> Vec<String> {
    hears(input, cuts, |bytes| {
        Ok(server
            .handle_input(bytes)?
            .map(|(consumed, event)| (consumed, format!("{event:?}"))))
    })
}

fn client_hears(client: &mut ClientSide, input: &[u8], cuts: &[usize]) -> Vec<String> {
    hears(input, cuts, |bytes| {
        Ok(client
            .handle_input(bytes)?
            .map(|(consumed, event)| (consumed, format!("{event:?}"))))
    })
}

#[test]
fn damaged_sessions_are_faults_or_events_and_never_a_panic() {
    let mut dice = Dice::new(SEED);
    let limits = StreamSettings {
        message_bytes_max: 400,
        blockwise: true,
    };
    let lines: Vec<_> = transcripts::lines()
        .into_iter()
        .map(|(_, line)| line)
        .collect();
    let lines: Vec<_> = lines
        .iter()
        .filter(|line| !matches!(line.mark, Mark::Faulty(_)))
        .collect();
    let mut faults = 0;
    for round in 0..ROUNDS {
        let mut input = lines[dice.below(lines.len())].bytes.clone();
        damage(&mut input, &mut dice);
        input.extend_from_slice(&lines[dice.below(lines.len())].bytes);
        let cuts = [dice.below(input.len() + 1), input.len()];
        let at = format!("seed {SEED} round {round}: {input:02x?} cut at {}", cuts[0]);
        let machines = || match round % 4 {
            0 => (ClientSide::new(limits), ServerSide::new(limits)),
            _ => pair(limits),
        };
        let (mut client, mut server) = machines();
        let (mut client_again, mut server_again) = machines();
        for client in [&mut client, &mut client_again] {
            for observes in [false, true] {
                client
                    .request(Code::GET, observes, none, &[], &mut Vec::new())
                    .expect("room");
            }
        }
        let whole = server_hears(&mut server, &input, &cuts[1..]);
        assert_eq!(
            whole,
            server_hears(&mut server_again, &input, &cuts),
            "{at}"
        );
        faults += usize::from(whole.last().is_some_and(|last| last.contains("at fault")));
        let whole = client_hears(&mut client, &input, &cuts[1..]);
        assert_eq!(
            whole,
            client_hears(&mut client_again, &input, &cuts),
            "{at}"
        );
    }
    assert!(
        (ROUNDS / 10..ROUNDS * 9 / 10).contains(&faults),
        "{faults} faults: too much or too little damage"
    );
    assert!(lines.iter().any(|line| line.side == Side::Server));
}
