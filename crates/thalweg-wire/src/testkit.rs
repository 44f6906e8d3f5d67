//! The test kit: ways of feeding a machine, and transcripts that two sides of a protocol are tested with.
//!
//! A transcript is a text file. `#` begins a comment. Every other line is a side, a mark and bytes:
//!
//! ```text
//! C> 10 [ 'MQTT' 05 02 003c [] 'sensor' ]    the client sends this, in exactly the form our own client would
//! S> 20 [ 00 00 [] ]                         the server answers
//! C~ 30 81 00 00                             the client sends this; another encoding of it exists
//! C! CLAUSE 36 [ 'a' 0001 ]                  the client breaks CLAUSE
//! ```
//!
//! Bytes are hex digits in pairs (spaces are free), `"text"` raw, `'text'` behind a 16-bit length, and `[ … ]` behind a
//! length of seven bits a byte, least significant first.

/// Which end of a connection sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Lines that begin with `C`.
    Client,
    /// Lines that begin with `S`.
    Server,
}

/// What a line claims about its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// `>`: valid, and our own encoder writes the same.
    Canonical,
    /// `~`: valid.
    Valid,
    /// `!`: breaks this clause.
    Faulty(String),
}

/// One line of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptLine {
    /// Line number in the file, from 1.
    pub number: usize,
    /// The end that sends the bytes.
    pub side: Side,
    /// What the line claims of its bytes.
    pub mark: Mark,
    /// The bytes on the wire.
    pub bytes: Vec<u8>,
}

/// Reads a transcript; the error names the line.
pub fn parse_transcript(text: &str) -> Result<Vec<TranscriptLine>, String> {
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parsed = parse_line(number, line).map_err(|e| format!("line {number}: {e}: {line}"))?;
        lines.push(parsed);
    }
    Ok(lines)
}

/// Bytes in the notation of transcripts.
pub fn parse_bytes(text: &str) -> Result<Vec<u8>, String> {
    let mut open: Vec<Vec<u8>> = vec![Vec::new()];
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let mut tail = &rest[first.len_utf8()..];
        let last = open.last_mut().ok_or("a ] too many")?;
        match first {
            '#' => break,
            '[' => open.push(Vec::new()),
            ']' => {
                let group = open.pop().unwrap_or_default();
                let around = open.last_mut().ok_or("a ] too many")?;
                put_varint(group.len(), around);
                around.extend(group);
            }
            '"' | '\'' => {
                let (string, after) = tail.split_once(first).ok_or("a string does not end")?;
                if first == '\'' {
                    let len = u16::try_from(string.len()).map_err(|_| "a string is too long")?;
                    last.extend(len.to_be_bytes());
                }
                last.extend(string.as_bytes());
                tail = after;
            }
            _ => {
                let pair = rest.get(..2).ok_or("a hex digit without its pair")?;
                last.push(u8::from_str_radix(pair, 16).map_err(|_| "not a pair of hex digits")?);
                tail = &rest[2..];
            }
        }
        rest = tail.trim_start();
    }
    match (open.pop(), open.is_empty()) {
        (Some(bytes), true) => Ok(bytes),
        _ => Err("a [ does not end".into()),
    }
}

/// Feeds `bytes` to a machine one at a time, as the slowest network would. `handle` gets what has arrived and not been
/// consumed, and says how much it consumes; `None` asks for more. Returns what is left over at the end, or the error.
pub fn feed_bytewise<E>(
    bytes: &[u8],
    mut handle: impl FnMut(&[u8]) -> Result<Option<usize>, E>,
) -> Result<Vec<u8>, E> {
    let mut arrived = Vec::new();
    for byte in bytes {
        arrived.push(*byte);
        while let Some(consumed) = handle(&arrived)? {
            arrived.drain(..consumed);
        }
    }
    Ok(arrived)
}

/// Feeds `bytes` to a machine all at once. As [`feed_bytewise`] otherwise.
pub fn feed_whole<E>(
    bytes: &[u8],
    mut handle: impl FnMut(&[u8]) -> Result<Option<usize>, E>,
) -> Result<Vec<u8>, E> {
    let mut rest = bytes;
    while let Some(consumed) = handle(rest)? {
        rest = &rest[consumed..];
    }
    Ok(rest.to_vec())
}

/// A small pseudo-random generator (xorshift64*), so that a seed reproduces a test.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// A generator; seeds with the same value throw the same.
    pub fn new(seed: u64) -> Self {
        Dice(seed ^ 0x9E37_79B9_7F4A_7C15 | 1)
    }

    /// The next 64 bits.
    pub fn throw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 {
            0
        } else {
            (self.throw() >> 11) as usize % bound
        }
    }
}

fn parse_line(number: usize, line: &str) -> Result<TranscriptLine, String> {
    let (head, rest) = line
        .split_once(' ')
        .ok_or("a line needs a mark and bytes")?;
    let (side, mark) = match head {
        "C>" => (Side::Client, Mark::Canonical),
        "S>" => (Side::Server, Mark::Canonical),
        "C~" => (Side::Client, Mark::Valid),
        "S~" => (Side::Server, Mark::Valid),
        "C!" | "S!" => {
            let (clause, rest) = rest
                .trim_start()
                .split_once(' ')
                .ok_or("a faulty line needs a clause and bytes")?;
            let side = if head == "C!" {
                Side::Client
            } else {
                Side::Server
            };
            return Ok(TranscriptLine {
                number,
                side,
                mark: Mark::Faulty(clause.into()),
                bytes: parse_bytes(rest)?,
            });
        }
        _ => return Err("a line begins with C or S and >, ~ or !".into()),
    };
    Ok(TranscriptLine {
        number,
        side,
        mark,
        bytes: parse_bytes(rest)?,
    })
}

fn put_varint(mut len: usize, out: &mut Vec<u8>) {
    while len >= 0x80 {
        out.push((len & 0x7F) as u8 | 0x80);
        len >>= 7;
    }
    out.push(len as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_nest_and_strings_carry_their_length() {
        assert_eq!(
            parse_bytes("30 [ 'a/b' \"hi\" ]"),
            Ok(b"\x30\x07\x00\x03a/bhi".to_vec())
        );
        assert_eq!(parse_bytes("003c[[]]# end"), Ok(vec![0, 0x3c, 1, 0]));
        for broken in ["[", "]", "1", "zz", "'a"] {
            assert!(parse_bytes(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn lines_know_their_side_and_their_mark() {
        let lines = parse_transcript("# hello\n\nC> c000\nS! X-1 d001 00\n").expect("it parses");
        assert_eq!(
            lines[0],
            TranscriptLine {
                number: 3,
                side: Side::Client,
                mark: Mark::Canonical,
                bytes: vec![0xc0, 0]
            }
        );
        assert_eq!(lines[1].mark, Mark::Faulty("X-1".into()));
        assert_eq!(lines[1].bytes, [0xd0, 1, 0]);
        assert!(parse_transcript("X> 00").is_err());
    }

    #[test]
    fn bytewise_feeding_hands_over_each_prefix() {
        let mut seen = Vec::new();
        let left = feed_bytewise(b"abcde", |bytes| {
            seen.push(bytes.len());
            Ok::<_, ()>((bytes.len() == 2).then_some(2))
        });
        assert_eq!(left, Ok(b"e".to_vec()));
        assert_eq!(seen, [1, 2, 0, 1, 2, 0, 1]);
    }
}
