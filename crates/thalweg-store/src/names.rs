//! What the files of a store's directory are called: the journal's, and those that keep it short.

pub use thalweg_journal::names::*;

/// What checkpoints are called, before 16 hexadecimal digits: their last frame.
pub const CHECKPOINT: &str = "checkpoint-";
/// What packs are called, before 16 hexadecimal digits.
pub const PACK: &str = "pack-";

/// The name of the checkpoint as of frame `index`.
pub fn checkpoint(index: u64) -> String {
    format!("{CHECKPOINT}{index:016x}")
}

/// The name of pack `number`.
pub fn pack(number: u64) -> String {
    format!("{PACK}{number:016x}")
}
