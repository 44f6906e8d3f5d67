//! Valid streams with random damage, through both ends, in one piece and in three: nothing panics, nothing is read twice or
//! past its end. The fuzz targets in `/fuzz` do the same with a guided generator.

use thalweg_wire::testkit::{Dice, Side};

use super::*;

const ROUNDS: usize = 6_000;
const SEED: u64 = 20_261_126;

fn damage(input: &mut Vec<u8>, dice: &mut Dice) {
    const PIECES: [&[u8]; 10] = [
        b"<",
        b">",
        b"/>",
        b"='",
        b" xmlns:a='b'",
        b"&",
        b"<![CDATA[",
        b"]]>",
        b"<a:b/>",
        b"</",
    ];
    for _ in 0..=dice.below(3) {
        let at = dice.below(input.len());
        match dice.below(6) {
            0 => input.truncate(at),
            1 => {
                let piece = PIECES[dice.below(PIECES.len())];
                input.splice(at..at, piece.iter().copied());
            }
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
fn damaged_streams_are_faults_or_events_and_never_a_panic() {
    let mut dice = Dice::new(SEED);
    for round in 0..ROUNDS {
        let transcript = &transcripts::ALL[dice.below(transcripts::ALL.len())];
        let side = if dice.below(2) == 0 {
            Side::Client
        } else {
            Side::Server
        };
        let mut input = transcript.sent_by(side, usize::MAX);
        damage(&mut input, &mut dice);
        let len = input.len();
        let mut cuts = [dice.below(len + 1), dice.below(len + 1), len];
        cuts.sort_unstable();
        let at = format!("seed {SEED} round {round}");
        // Octets that come with <starttls/> are a fault, and are none if they come later.
        let is_same = transcript.name != "rfc6120";
        let server = transcript.server();
        let (whole, cut) = (
            server_hears(&server, &input, &cuts[2..]),
            server_hears(&server, &input, &cuts),
        );
        assert!(!is_same || whole == cut, "{at}: {whole:?} {cut:?}");
        let client = transcript.client();
        let (whole, cut) = (
            client_hears(&client, &input, &cuts[2..]),
            client_hears(&client, &input, &cuts),
        );
        assert!(!is_same || whole == cut, "{at}: {whole:?} {cut:?}");
    }
}
