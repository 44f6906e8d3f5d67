//! Valid datagrams with random damage: nothing panics, and a datagram that is still a message is encoded to the same
//! bytes. The fuzz targets in `/fuzz` do the same with a guided generator.

use thalweg_wire::testkit::{Dice, Mark};

use super::*;

const ROUNDS: usize = 100_000;
const SEED: u64 = 20_261_121;

/// Some bytes changed, lost or gained.
pub(crate) fn damage(bytes: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..=dice.below(3) {
        let at = dice.below(bytes.len());
        let byte = match dice.below(4) {
            0 => [0xFF, 0x00, 0xD0, 0x0D, 0xE0, 0x0E, 0xDD, 0xEE, 0xF0, 0x0F][dice.below(10)],
            _ => dice.throw() as u8,
        };
        match dice.below(6) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, byte),
            2 if at < bytes.len() => {
                bytes.remove(at);
            }
            3 => bytes.push(byte),
            _ => {
                if let Some(old) = bytes.get_mut(at) {
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

#[test]
fn damaged_datagrams_are_refused_or_are_messages() {
    let mut dice = Dice::new(SEED);
    let lines = transcripts::lines();
    let legal: Vec<_> = lines
        .iter()
        .filter(|(_, line)| line.mark == Mark::Canonical)
        .collect();
    let mut outcomes = [0; 2];
    for round in 0..ROUNDS {
        let mut datagram = legal[dice.below(legal.len())].1.bytes.clone();
        damage(&mut datagram, &mut dice);
        let at = format!("seed {SEED} round {round}: {datagram:02x?}");
        match Message::decode(&datagram) {
            Ok(message) => {
                outcomes[0] += 1;
                let mut again = Vec::new();
                message.encode(&mut again);
                assert_eq!(again, datagram, "{at}");
                let _ = message.options.refused(|number| number != option::ACCEPT);
            }
            Err(error) => {
                outcomes[1] += 1;
                assert_eq!(
                    error.kind.is_some(),
                    datagram.len() >= 4 && datagram[0] >> 6 == 1,
                    "{at}"
                );
            }
        }
    }
    assert!(
        outcomes.iter().all(|count| *count > ROUNDS / 10),
        "{outcomes:?}: the damage is too much or too little"
    );
}
