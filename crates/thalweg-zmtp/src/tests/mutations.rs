//! Valid connections with random damage, through both ends, in one piece and in three: nothing panics, nothing is read
//! twice or past its end. The fuzz targets in `/fuzz` do the same with a guided generator.

use thalweg_wire::testkit::{Dice, Side};

use super::*;

const ROUNDS: usize = 20_000;
const SEED: u64 = 20_261_124;

fn damage(input: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..=dice.below(3) {
        // Most of a greeting means nothing; damage what follows it more often.
        let from = if dice.below(4) == 0 { 0 } else { 64 };
        let at = from + dice.below(input.len().saturating_sub(from));
        match dice.below(6) {
            0 => input.truncate(at),
            1 => input.insert(at.min(input.len()), dice.throw() as u8),
            2 if at < input.len() => {
                input.remove(at);
            }
            3 => input.push(dice.throw() as u8),
            _ => {
                if let Some(old) = input.get_mut(at) {
                    *old ^= 1 << dice.below(8);
                }
            }
        }
    }
}

#[test]
fn damaged_connections_are_faults_or_events_and_never_a_panic() {
    let mut dice = Dice::new(SEED);
    let said: Vec<(Vec<u8>, Vec<u8>)> = transcripts::ALL
        .iter()
        .map(|t| (t.said_by(Side::Client), t.said_by(Side::Server)))
        .collect();
    for round in 0..ROUNDS {
        let (client, server) = &said[dice.below(said.len())];
        let mut input = if round % 2 == 0 { client } else { server }.clone();
        damage(&mut input, &mut dice);
        let mut cuts = [
            dice.below(input.len() + 1),
            dice.below(input.len() + 1),
            input.len(),
        ];
        cuts.sort_unstable();
        let at = format!("seed {SEED} round {round}");
        let whole = &cuts[2..];
        assert_eq!(
            server_hears(&input, whole),
            server_hears(&input, &cuts),
            "{at}"
        );
        let mechanism = &client_mechanisms()[dice.below(3)];
        assert_eq!(
            client_hears(mechanism.clone(), &input, whole),
            client_hears(mechanism.clone(), &input, &cuts),
            "{at}"
        );
    }
}
