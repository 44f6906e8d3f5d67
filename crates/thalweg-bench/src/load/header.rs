//! The header of every message, from which a receiver reads which message it is and how old.
//!
//! ```text
//!  binary, 28 bytes or more:  run u32 | flow u32 | seq u32 | t_intended u64 | t_sent u64 | filler      (big-endian)
//!  short, 4 to 27 bytes:      seq u32 | filler         the flow is the last level of the topic, times are in a table
//!  JSON, 80 bytes or more:    {"m":"<the 28 bytes, hexadecimal>","v":"<filler>"}
//! ```

use std::sync::{LazyLock, Mutex, PoisonError};

/// What a message says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Which trial, so that nothing strays.
    pub run: u32,
    pub flow: u32,
    /// Which of the flow's, from 0.
    pub seq: u32,
    /// When it was due, in nanoseconds of the clock.
    pub intended: u64,
    /// When it was sent.
    pub sent: u64,
}

/// How the header is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Bytes, as many as there is room for.
    Binary,
    Json,
}

/// Bytes of a whole header.
pub const HEADER: usize = 28;
/// Bytes of the least payload.
pub const PAYLOAD_MIN: usize = 4;
/// Bytes of the least payload that is JSON.
pub const JSON_MIN: usize = JSON_HEAD.len() + 2 * HEADER + JSON_MIDDLE.len() + JSON_TAIL.len();

/// Bytes of filler that are made once.
const FILLER: usize = 36 << 10;
const JSON_HEAD: &[u8] = b"{\"m\":\"";
const JSON_MIDDLE: &[u8] = b"\",\"v\":\"";
const JSON_TAIL: &[u8] = b"\"}";

impl Layout {
    /// The least payload that can be written so.
    pub fn bytes_min(self) -> usize {
        match self {
            Layout::Binary => PAYLOAD_MIN,
            Layout::Json => JSON_MIN,
        }
    }

    /// Whether times do not fit into so many bytes and go to the [`SideTable`].
    pub fn needs_table(self, size: usize) -> bool {
        self == Layout::Binary && size < HEADER
    }

    /// Writes a payload of exactly `size` bytes; what `buffer` had is reused if it is of that size already.
    pub fn write(self, header: &Header, size: usize, buffer: &mut Vec<u8>) {
        if buffer.len() != size {
            self.fill(size, buffer);
        }
        match self {
            Layout::Binary => {
                if let Some(head) = buffer.first_chunk_mut::<HEADER>() {
                    *head = header.bytes();
                } else if let Some(head) = buffer.first_chunk_mut() {
                    *head = header.seq.to_be_bytes();
                }
            }
            Layout::Json => {
                let places = buffer.get_mut(JSON_HEAD.len()..).unwrap_or_default();
                for (place, byte) in places.chunks_exact_mut(2).zip(header.bytes()) {
                    if let [high, low] = place {
                        (*high, *low) = (digit(byte >> 4), digit(byte & 15));
                    }
                }
            }
        }
    }

    /// Everything but the header. The filler is no run of one byte: what compresses would not be a payload.
    fn fill(self, size: usize, buffer: &mut Vec<u8>) {
        static BLOCK: LazyLock<Vec<u8>> = LazyLock::new(|| {
            let letter = |at| b"abcdefghijklmnopqrstuvwxyz0123456789"[(at * 7 + at / 36) % 36];
            (0..FILLER).map(letter).collect()
        });
        let filler = |mut bytes: usize, buffer: &mut Vec<u8>| {
            while bytes > 0 {
                let some = BLOCK.get(..bytes.min(FILLER)).unwrap_or_default();
                buffer.extend_from_slice(some);
                bytes -= some.len();
            }
        };
        buffer.clear();
        match self {
            Layout::Binary => filler(size, buffer),
            Layout::Json => {
                buffer.extend_from_slice(JSON_HEAD);
                buffer.extend_from_slice(&[b'0'; 2 * HEADER]);
                buffer.extend_from_slice(JSON_MIDDLE);
                filler(size.saturating_sub(JSON_MIN), buffer);
                buffer.extend_from_slice(JSON_TAIL);
            }
        }
    }

    /// Reads what was written; none if it is not one of `run`.
    #[inline]
    pub fn read(self, run: u32, topic: &str, payload: &[u8], table: &SideTable) -> Option<Header> {
        let header = match self {
            Layout::Binary => match payload.first_chunk::<HEADER>() {
                Some(head) => Header::of(head),
                None => {
                    let flow = topic.rsplit('/').next()?.parse().ok()?;
                    let seq = u32::from_be_bytes(*payload.first_chunk()?);
                    let (intended, sent) = table.get(flow, seq)?;
                    Header {
                        run,
                        flow,
                        seq,
                        intended,
                        sent,
                    }
                }
            },
            Layout::Json => {
                let mut head = [0; HEADER];
                let text = payload.strip_prefix(JSON_HEAD)?;
                for (place, two) in head.iter_mut().zip(text.chunks_exact(2)) {
                    let [high, low] = two else { return None };
                    *place = value(*high)? << 4 | value(*low)?;
                }
                let is_whole = text.get(2 * HEADER..)?.starts_with(JSON_MIDDLE);
                is_whole.then(|| Header::of(&head))?
            }
        };
        (header.run == run).then_some(header)
    }
}

impl Header {
    #[inline]
    fn bytes(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&self.run.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.flow.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.seq.to_be_bytes());
        bytes[12..20].copy_from_slice(&self.intended.to_be_bytes());
        bytes[20..].copy_from_slice(&self.sent.to_be_bytes());
        bytes
    }

    #[inline]
    fn of(bytes: &[u8; HEADER]) -> Header {
        let long = |at: usize| {
            let bytes = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
            u64::from_be_bytes(*bytes.unwrap_or(&[0; 8]))
        };
        let word = |at: usize| (long(at) >> 32) as u32;
        Header {
            run: word(0),
            flow: word(4),
            seq: word(8),
            intended: long(12),
            sent: long(20),
        }
    }
}

fn digit(value: u8) -> u8 {
    char::from_digit(value.into(), 16).map_or(b'0', |digit| digit as u8)
}

fn value(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|value| value as u8)
}

/// Times of messages that are too small to carry them.
#[derive(Debug, Default)]
pub struct SideTable {
    /// Of each flow, by number: intended, sent.
    flows: Mutex<Vec<Vec<(u64, u64)>>>,
}

impl SideTable {
    /// Notes a message before it is sent.
    pub fn put(&self, header: &Header) {
        let mut flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        let times = (header.intended, header.sent);
        *place(place(&mut flows, header.flow), header.seq) = times;
    }

    /// Its times; none if it was never sent.
    pub fn get(&self, flow: u32, seq: u32) -> Option<(u64, u64)> {
        let flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        let times = flows.get(flow as usize)?.get(seq as usize).copied();
        times.filter(|(intended, _)| *intended > 0)
    }
}

/// The place with this number; those up to it are made.
fn place<T: Clone + Default>(places: &mut Vec<T>, number: u32) -> &mut T {
    let number = number as usize;
    if places.len() <= number {
        places.resize(number + 1, T::default());
    }
    &mut places[number]
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Header = Header {
        run: 7,
        flow: 3,
        seq: 70_000,
        intended: 1 << 40,
        sent: (1 << 40) + 1,
    };

    #[test]
    fn a_header_is_read_as_it_was_written_whatever_the_size_is() {
        let table = SideTable::default();
        table.put(&ONE);
        let mut buffer = Vec::new();
        for (layout, sizes) in [
            (Layout::Binary, [4, 5, 20, 27, 28, 36, 1000]),
            (Layout::Json, [71, 72, 100, 200, 250, 999, 1000]),
        ] {
            for size in sizes {
                layout.write(&ONE, size, &mut buffer);
                assert_eq!(buffer.len(), size);
                let read = layout.read(7, "lab/3", &buffer, &table);
                assert_eq!(read, Some(ONE), "{layout:?} {size}");
                // Written over another one, it is the same.
                let other = Header { seq: 1, ..ONE };
                table.put(&other);
                layout.write(&other, size, &mut buffer);
                assert_eq!(layout.read(7, "lab/3", &buffer, &table), Some(other));
            }
        }
        assert_eq!(JSON_MIN, 71);
    }

    #[test]
    fn json_is_json() {
        let mut buffer = Vec::new();
        Layout::Json.write(&ONE, 200, &mut buffer);
        let value: serde_json::Value = serde_json::from_slice(&buffer).expect("it is JSON");
        assert_eq!(value["m"].as_str().map(str::len), Some(56));
    }

    #[test]
    fn strangers_are_not_ours() {
        let (table, mut buffer) = (SideTable::default(), Vec::new());
        Layout::Binary.write(&ONE, 36, &mut buffer);
        for (run, topic, payload) in [
            (8, "lab/3", &*buffer),
            (7, "lab/3", b"abc"),
            (7, "lab/3", b"abcdefgh"),
            (7, "lab/x", b"abcdefgh"),
        ] {
            assert_eq!(Layout::Binary.read(run, topic, payload, &table), None);
        }
        for other in [&b""[..], b"{\"m\":\"", b"{\"m\":\"zz", &[b'{'; 100]] {
            assert_eq!(Layout::Json.read(7, "lab/3", other, &table), None);
        }
    }
}
