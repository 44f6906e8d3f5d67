//! Names of the files in a store's directory: the journal's, checkpoints and packs.

pub use thalweg_journal::names::*;

/// Prefix of checkpoints, before 16 hexadecimal digits: their last frame.
pub const CHECKPOINT: &str = "checkpoint-";
/// Prefix of packs, before 16 hexadecimal digits.
pub const PACK: &str = "pack-";

/// The name of the checkpoint as of frame `index`.
pub fn checkpoint(index: u64) -> String {
    format!("{CHECKPOINT}{index:016x}")
}

/// The name of pack `number`.
pub fn pack(number: u64) -> String {
    format!("{PACK}{number:016x}")
}
