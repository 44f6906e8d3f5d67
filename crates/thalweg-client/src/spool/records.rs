//! Records of the disk spool in frames of the journal: four kinds, numbers little-endian.
//!
//! ```text
//! kind  what follows
//!    1  version (1 byte, 1), publisher (8), the last identifier that may be given away before this is written again (8)
//!    2  identifier (8), length (4), entry: a message that waits
//!    3  how many (4), then for each: first (8), last (8): what is settled, all between included
//! ```

use crate::transport::MessageId;

const STATE: u8 = 1;
const ENTRY: u8 = 2;
const SETTLED: u8 = 3;
const VERSION: u8 = 1;

/// Bytes before an entry.
pub(super) const ENTRY_HEAD_BYTES: usize = 13;

/// A record, borrowed from its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record<'f> {
    /// Publisher id, and the identifiers reserved so far.
    State { publisher: u64, reserved: MessageId },
    /// A message, and where in the frame its entry begins.
    Entry {
        id: MessageId,
        at: usize,
        entry: &'f [u8],
    },
    /// Settled are all from the first to the last.
    Settled { first: MessageId, last: MessageId },
}

pub(super) fn push_state(publisher: u64, reserved: MessageId, out: &mut Vec<u8>) {
    out.extend_from_slice(&[STATE, VERSION]);
    out.extend_from_slice(&publisher.to_le_bytes());
    out.extend_from_slice(&reserved.to_le_bytes());
}

/// Where the entry itself begins in `out`.
pub(super) fn push_entry(id: MessageId, entry: &[u8], out: &mut Vec<u8>) -> usize {
    out.push(ENTRY);
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(&(entry.len() as u32).to_le_bytes());
    let at = out.len();
    out.extend_from_slice(entry);
    at
}

pub(super) fn push_settled(ranges: &[(MessageId, MessageId)], out: &mut Vec<u8>) {
    out.push(SETTLED);
    out.extend_from_slice(&(ranges.len() as u32).to_le_bytes());
    for (first, last) in ranges {
        out.extend_from_slice(&first.to_le_bytes());
        out.extend_from_slice(&last.to_le_bytes());
    }
}

/// Shows the records of a frame in order; `Err` is what is wrong with it.
pub(super) fn read<'f>(
    frame: &'f [u8],
    show: &mut dyn FnMut(Record<'f>),
) -> Result<(), &'static str> {
    let mut rest = frame;
    while let Some((kind, tail)) = rest.split_first() {
        rest = tail;
        match *kind {
            STATE => {
                let version = take::<1>(&mut rest)?;
                if version != [VERSION] {
                    return Err("it was written by another version of this program");
                }
                let (publisher, reserved) = (number(&mut rest)?, number(&mut rest)?);
                show(Record::State {
                    publisher,
                    reserved,
                });
            }
            ENTRY => {
                let id = number(&mut rest)?;
                let len = u32::from_le_bytes(take::<4>(&mut rest)?) as usize;
                let at = frame.len() - rest.len();
                let (entry, tail) = rest
                    .split_at_checked(len)
                    .ok_or("a record ends too early")?;
                rest = tail;
                show(Record::Entry { id, at, entry });
            }
            SETTLED => {
                for _ in 0..u32::from_le_bytes(take::<4>(&mut rest)?) {
                    let (first, last) = (number(&mut rest)?, number(&mut rest)?);
                    show(Record::Settled { first, last });
                }
            }
            _ => {
                return Err(
                    "it has a record of an unknown kind: it is of a newer version, or no buffer of messages",
                );
            }
        }
    }
    Ok(())
}

fn number(rest: &mut &[u8]) -> Result<u64, &'static str> {
    take::<8>(rest).map(u64::from_le_bytes)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], &'static str> {
    let (head, tail) = rest
        .split_first_chunk::<N>()
        .ok_or("a record ends too early")?;
    *rest = tail;
    Ok(*head)
}
