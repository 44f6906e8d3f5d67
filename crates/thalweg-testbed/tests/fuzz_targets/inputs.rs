//! Inputs for fuzz targets, decided by a seed.

use thalweg_testbed::Random;
use thalweg_wire::testkit::{Side, parse_transcript};

/// Longer inputs are cut: what goes wrong does so in short ones, too.
const BYTES_MAX: usize = 4096;
/// Bytes that are limits of something: signs, lengths, continuation bits, line ends.
const EDGES: [u8; 10] = [0, 1, 0x0A, 0x0D, 0x20, 0x7F, 0x80, 0xC0, 0xFE, 0xFF];

/// An endless row of inputs.
pub struct Inputs {
    /// Valid and faulty packets, and whole conversations of each side.
    samples: Vec<Vec<u8>>,
    random: Random,
}

impl Inputs {
    /// Inputs made from the transcripts of `protocol`; without a protocol, of random bytes only.
    pub fn new(protocol: &str, seed: u64) -> Self {
        let mut samples = Vec::new();
        if !protocol.is_empty() {
            let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
            let folder = format!("{crates}/thalweg-{protocol}/transcripts");
            let entries = std::fs::read_dir(folder).expect("a protocol has transcripts");
            let mut files: Vec<_> = entries
                .map(|entry| entry.expect("an entry").path())
                .collect();
            files.sort();
            for file in files {
                samples.extend(samples_of(&std::fs::read_to_string(file).expect("text")));
            }
            assert!(!samples.is_empty());
        }
        let random = Random(seed);
        Self { samples, random }
    }

    /// The next input: a sample or random bytes, behind up to two bytes for targets that begin with a choice, and damaged.
    pub fn next(&mut self) -> Vec<u8> {
        let mut input = self.random_bytes(2);
        if self.samples.is_empty() || self.random.one_in(4) {
            input.extend(self.random_bytes(100));
        } else {
            let sample: &Vec<u8> = self.random.pick(&self.samples);
            input.extend(sample);
        }
        for _ in 0..self.random.below(5) {
            self.damage(&mut input);
        }
        input.truncate(BYTES_MAX);
        input
    }

    fn random_bytes(&mut self, length_max: usize) -> Vec<u8> {
        let length = self.random.below(length_max + 1);
        (0..length).map(|_| self.random.next() as u8).collect()
    }

    fn damage(&mut self, input: &mut Vec<u8>) {
        let at = self.random.below(input.len() + 1);
        let until = at + self.random.below((input.len() - at + 1).min(16));
        match self.random.below(7) {
            0 => input.truncate(at),
            1 => drop(input.drain(at..until)),
            2 => input.extend_from_within(at..until),
            3 => drop(input.splice(at..at, self.random_bytes(8))),
            4 if !self.samples.is_empty() => {
                let sample = self.random.pick(&self.samples).clone();
                input.truncate(at);
                input.extend(sample);
            }
            kind => {
                let edge = *self.random.pick(&EDGES);
                let bit = 1 << self.random.below(8);
                if let Some(byte) = input.get_mut(at) {
                    *byte = if kind == 5 { edge } else { *byte ^ bit };
                }
            }
        }
    }
}

/// Each line of a transcript, and each side's bytes in all of them.
fn samples_of(transcript: &str) -> Vec<Vec<u8>> {
    let lines = parse_transcript(transcript).expect("the crate's own tests read it");
    let mut samples: Vec<Vec<u8>> = Vec::new();
    for side in [Side::Client, Side::Server] {
        let sent: Vec<&[u8]> = lines
            .iter()
            .filter(|line| line.side == side)
            .map(|line| &line.bytes[..])
            .collect();
        samples.push(sent.concat());
        samples.extend(sent.iter().map(|bytes| bytes.to_vec()));
    }
    samples
}
