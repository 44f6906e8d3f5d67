//! Handshake messages: their headers, and putting together what came in pieces (RFC 6347 §4.2.2, §4.2.3).
//!
//! ```text
//!  0      1         4          6              9               12
//! +------+---------+----------+--------------+---------------+----------+
//! | kind | length  | sequence | piece begins | piece's length| piece    |
//! +------+---------+----------+--------------+---------------+----------+
//! ```

use thalweg_wire::Reader;

pub const CLIENT_HELLO: u8 = 1;
pub const SERVER_HELLO: u8 = 2;
pub const HELLO_VERIFY_REQUEST: u8 = 3;
pub const CERTIFICATE: u8 = 11;
pub const SERVER_KEY_EXCHANGE: u8 = 12;
pub const CERTIFICATE_REQUEST: u8 = 13;
pub const SERVER_HELLO_DONE: u8 = 14;
pub const CERTIFICATE_VERIFY: u8 = 15;
pub const CLIENT_KEY_EXCHANGE: u8 = 16;
pub const FINISHED: u8 = 20;

pub const HEADER_BYTES: usize = 12;

/// A piece of a message; often the whole of it.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'r> {
    pub kind: u8,
    /// Of the whole message.
    pub length: usize,
    pub sequence: u16,
    pub begins: usize,
    pub bytes: &'r [u8],
}

impl<'r> Piece<'r> {
    /// The next piece of a record; several may stand in one.
    pub fn take(record: &mut Reader<'r>) -> Option<Piece<'r>> {
        let kind = record.u8()?;
        let length = u24(record)?;
        let sequence = record.u16()?;
        let begins = u24(record)?;
        let piece = u24(record)?;
        let bytes = record.take(piece)?;
        (begins + piece <= length).then_some(Piece {
            kind,
            length,
            sequence,
            begins,
            bytes,
        })
    }

    pub fn is_whole(&self) -> bool {
        self.bytes.len() == self.length
    }
}

fn u24(reader: &mut Reader<'_>) -> Option<usize> {
    let high = reader.u8()?;
    Some(usize::from(high) << 16 | usize::from(reader.u16()?))
}

/// Reads a vector with a length of three bytes.
pub fn bytes24<'m>(reader: &mut Reader<'m>) -> Option<&'m [u8]> {
    let length = u24(reader)?;
    reader.take(length)
}

/// Appends a number of three bytes.
pub fn push_u24(out: &mut Vec<u8>, number: usize) {
    out.extend_from_slice(&(number as u32).to_be_bytes()[1..]);
}

pub fn write_header(
    out: &mut Vec<u8>,
    kind: u8,
    length: usize,
    sequence: u16,
    begins: usize,
    piece: usize,
) {
    out.push(kind);
    push_u24(out, length);
    out.extend_from_slice(&sequence.to_be_bytes());
    push_u24(out, begins);
    push_u24(out, piece);
}

/// A message put together.
#[derive(Debug)]
pub struct Message {
    pub kind: u8,
    pub sequence: u16,
    pub body: Vec<u8>,
}

/// The messages of which something has come and that are not yet due: pieces of the next one, and whole ones that
/// overtook it. Bounded in number and in bytes.
#[derive(Debug, Default)]
pub struct Reassembly {
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    message: Message,
    /// Where bytes are still missing, in ascending order.
    gaps: Vec<(usize, usize)>,
}

/// Most messages that are kept ahead of the next one: a client's flight has five messages (RFC 5246 §7.3).
const AHEAD_MAX: u16 = 5;

/// A message in more pieces than this is a nuisance.
const GAPS_MAX: usize = 32;

impl Reassembly {
    /// Takes a piece. One that is too far ahead, too large or at odds with another is dropped; a client that means
    /// well sends it again.
    pub fn add(&mut self, next: u16, piece: Piece<'_>, bytes_max: usize) {
        let ahead = piece.sequence.wrapping_sub(next);
        let says_nothing = piece.bytes.is_empty() && piece.length > 0;
        if ahead >= AHEAD_MAX || piece.length > bytes_max || says_nothing {
            return;
        }
        let place = self
            .parts
            .iter()
            .position(|part| part.message.sequence == piece.sequence);
        let place = place.unwrap_or_else(|| {
            let (kind, sequence) = (piece.kind, piece.sequence);
            let message = Message {
                kind,
                sequence,
                body: vec![0; piece.length],
            };
            self.parts.push(Part {
                message,
                gaps: vec![(0, piece.length)],
            });
            self.parts.len() - 1
        });
        let Some(part) = self.parts.get_mut(place) else {
            return;
        };
        let ends = piece.begins + piece.bytes.len();
        let whole = part.message.body.len() == piece.length && part.message.kind == piece.kind;
        let Some(body) = part.message.body.get_mut(piece.begins..ends) else {
            return;
        };
        if !whole {
            return;
        }
        let without = part
            .gaps
            .iter()
            .flat_map(|(from, to)| [(*from, piece.begins.min(*to)), (ends.max(*from), *to)]);
        // An empty message has one gap, empty, and is whole at once.
        let gaps: Vec<_> = without.filter(|(from, to)| from < to).collect();
        // A piece that closes gaps is always welcome, or the message could never become whole again.
        if gaps.len() <= GAPS_MAX {
            body.copy_from_slice(piece.bytes);
            part.gaps = gaps;
        }
    }

    /// Forgets what stands in the place of a message of another kind: that one is known to be genuine.
    pub fn make_way(&mut self, sequence: u16, kind: u8) {
        self.parts
            .retain(|part| part.message.sequence != sequence || part.message.kind == kind);
    }

    /// Size of the kept messages in bytes.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        let gaps = |part: &Part| part.gaps.capacity() * size_of::<(usize, usize)>();
        self.parts
            .iter()
            .map(|part| size_of::<Part>() + part.message.body.capacity() + gaps(part))
            .sum()
    }

    /// The message that is due, once it is whole.
    pub fn take(&mut self, next: u16) -> Option<Message> {
        let place = self
            .parts
            .iter()
            .position(|part| part.message.sequence == next && part.gaps.is_empty())?;
        Some(self.parts.swap_remove(place).message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(sequence: u16, length: usize, begins: usize, bytes: &[u8]) -> Piece<'_> {
        Piece {
            kind: CERTIFICATE,
            length,
            sequence,
            begins,
            bytes,
        }
    }

    #[test]
    fn pieces_in_any_order_and_twice_make_the_message() {
        let text = b"abcdefghij";
        for order in [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ] {
            let mut reassembly = Reassembly::default();
            for (count, which) in order.into_iter().enumerate() {
                assert!(reassembly.take(4).is_none(), "{order:?} {count}");
                let (from, to) = [(0, 4), (3, 7), (7, 10)][which];
                reassembly.add(4, piece(4, 10, from, &text[from..to]), 100);
                reassembly.add(4, piece(4, 10, from, &text[from..to]), 100);
            }
            assert_eq!(reassembly.take(4).expect("whole").body, text, "{order:?}");
            assert!(reassembly.take(4).is_none() && reassembly.parts.is_empty());
        }
    }

    #[test]
    fn what_is_ahead_waits_and_what_is_too_far_too_large_or_at_odds_is_dropped() {
        let mut reassembly = Reassembly::default();
        reassembly.add(0, piece(1, 1, 0, b"b"), 100);
        reassembly.add(0, piece(5, 1, 0, b"f"), 100);
        reassembly.add(0, piece(0, 101, 0, b"a"), 100);
        reassembly.add(0, piece(u16::MAX, 1, 0, b"z"), 100);
        reassembly.add(0, piece(1, 2, 1, b"c"), 100);
        assert_eq!(reassembly.parts.len(), 1);
        reassembly.add(
            0,
            Piece {
                kind: SERVER_HELLO_DONE,
                ..piece(0, 0, 0, b"")
            },
            100,
        );
        assert_eq!(
            reassembly.take(0).map(|message| message.kind),
            Some(SERVER_HELLO_DONE),
            "empty and whole"
        );
        assert_eq!(
            reassembly.take(1).map(|message| message.body),
            Some(b"b".to_vec())
        );
    }

    #[test]
    fn a_message_in_too_many_pieces_still_comes_whole_when_it_is_sent_again() {
        let text = [7; 200];
        let mut reassembly = Reassembly::default();
        for begins in (1..200).step_by(2) {
            reassembly.add(0, piece(0, 200, begins, &text[begins..=begins]), 200);
            reassembly.add(0, piece(0, 200, begins, b""), 200);
        }
        assert!(reassembly.parts[0].gaps.len() <= GAPS_MAX);
        assert!(reassembly.take(0).is_none());
        reassembly.add(0, piece(0, 200, 0, &text), 200);
        assert_eq!(
            reassembly.take(0).map(|message| message.body),
            Some(text.to_vec())
        );
    }

    #[test]
    fn a_piece_that_reaches_beyond_its_message_is_none() {
        let mut bytes = Vec::new();
        write_header(&mut bytes, CERTIFICATE, 3, 0, 1, 3);
        bytes.extend_from_slice(b"abc");
        assert!(Piece::take(&mut Reader::new(&bytes)).is_none());
    }
}
