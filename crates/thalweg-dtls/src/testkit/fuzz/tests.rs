//! The fuzz targets' scripts by seed: so many of them, always the same ones, and how deep they reach.

use thalweg_wire::testkit::Dice;

use super::*;

/// Some bytes changed, lost or gained.
fn damage(bytes: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..dice.below(4) {
        let place = dice.below(bytes.len());
        let byte = if dice.below(3) == 0 {
            [0, 1, 0xfe, 0xff][dice.below(4)]
        } else {
            dice.throw() as u8
        };
        match dice.below(6) {
            0 => bytes.truncate(place),
            1 => bytes.insert(place, byte),
            2 if !bytes.is_empty() => {
                bytes.remove(place);
            }
            _ => bytes
                .iter_mut()
                .skip(place)
                .take(1)
                .for_each(|old| *old ^= byte),
        }
    }
}

#[test]
fn strangers_cost_no_memory_and_get_less_than_they_send() {
    let mut dice = Dice::new(20_261_123);
    let (mut cookies, mut discarded) = (0, 0);
    for _ in 0..4_000 {
        let mut input = Vec::new();
        for _ in 0..=dice.below(4) {
            let suites = vec![[0xc0a8, 0xc0ae][dice.below(2)]; 1 + dice.below(3)];
            let mut datagram = Client::new(
                at(HERE),
                dice.throw() as u8,
                Plan {
                    suites,
                    ..Plan::default()
                },
            )
            .out
            .remove(0);
            if dice.below(8) == 0 {
                datagram.extend_from_within(..);
            }
            damage(&mut datagram, &mut dice);
            input.push(dice.throw() as u8);
            input.extend_from_slice(&(datagram.len() as u16).to_be_bytes());
            input.extend_from_slice(&datagram);
        }
        let counts = strangers(&input);
        cookies += counts.cookies;
        discarded += counts.discarded;
    }
    println!("{cookies} cookies, {discarded} records discarded");
    assert!(
        cookies > 1_000 && discarded > 1_000,
        "{cookies} {discarded}"
    );
}

/// Plays scripts of which each begins with some steps of a handshake.
fn play(seed: u64, rounds: usize, body: fn(&[u8]) -> Reached) -> Reached {
    let (mut dice, mut sum) = (Dice::new(seed), Reached::default());
    for _ in 0..rounds {
        let mut input = vec![0; dice.below(12)];
        if dice.below(2) == 0 {
            // With another client.
            input.splice(..0, [14, dice.throw() as u8]);
        }
        for _ in 0..dice.below(60) {
            input.push(dice.throw() as u8);
            // Short vectors and numbers, or one of them would take all that is left.
            input.extend((0..dice.below(3)).map(|_| dice.below(24) as u8));
        }
        let reached = body(&input);
        sum.completed += reached.completed;
        sum.refused += reached.refused;
        sum.closed += reached.closed;
        sum.texts += reached.texts;
    }
    println!("{sum:?}");
    sum
}

#[test]
fn a_peer_that_does_anything_harms_itself_alone() {
    let reached = play(20_261_124, 2_000, peer);
    assert!(
        reached.completed > 1_000
            && reached.refused > 50
            && reached.closed > 50
            && reached.texts > 100,
        "{reached:?}"
    );
}

#[test]
fn a_client_that_hears_anything_hears_no_false_text_and_ends_in_silence() {
    let reached = play(20_261_125, 4_000, client);
    assert!(
        reached.completed > 1_000
            && reached.refused > 50
            && reached.closed > 50
            && reached.texts > 100,
        "{reached:?}"
    );
}
