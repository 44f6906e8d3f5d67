//! Frames between the bridge and its front on their stream.
//!
//! A frame is a length (four bytes, of the rest of the frame), a kind and fields; numbers are little-endian, texts have
//! a length of two bytes, and the payload is the rest. Both ends are ours and in one process, but neither trusts the
//! other's lengths.

use thalweg_kernel::Cut;

/// Bytes before those that a frame's length counts.
const LENGTH_BYTES: usize = 4;
/// Bytes of a frame beside texts and payload.
const FIXED_BYTES: usize = 32;
/// Texts of a frame, each with a length of two bytes.
const TEXTS: usize = 5;

/// A sample for the broker, or a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToBroker<'a> {
    Publish(Sample<'a>),
    /// A request, whose answer comes back as a message at an address of the front's own, with the same correlation.
    Ask(Sample<'a>),
    Subscribe {
        address: &'a str,
        /// Whether last values are wanted, too.
        is_late: bool,
    },
    Unsubscribe {
        address: &'a str,
    },
    /// What an address keeps of a source ends, and others stay there.
    Withdraw {
        address: &'a str,
        source: &'a str,
    },
    /// The delivery under this tag was written, or counted as dropped; 0 is none: the first that a bridge says, and that there are
    /// new remarks.
    Settled(u64),
}

/// A message, either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample<'a> {
    pub is_reliable: bool,
    pub retain: Retain,
    /// Nanoseconds; 0 is for ever.
    pub expires_in: u64,
    /// How many messages of its source its address is to keep, this one among them; 0 is one. Only to the broker.
    pub keeps: u16,
    pub address: &'a str,
    /// The lasting writer, among those whose samples its address keeps apart; empty if it is of none. Where it is no last value, it
    /// is told again, as another one has gone.
    pub source: &'a str,
    /// Empty if nothing is known of the payload.
    pub content_type: &'a str,
    /// Where an answer goes; empty if none is awaited. Of messages from the broker only.
    pub reply_to: &'a str,
    /// Correlation data of a request or answer; empty if there is none.
    pub correlation: &'a [u8],
    pub payload: &'a [u8],
}

/// Effect of a message on the last value, or whether it is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retain {
    #[default]
    No,
    Set,
    /// It is one for as long as its writer is there.
    Lasting,
    Clear,
    /// What its source held there has ended, and others' stays. From the broker only.
    Ends,
}

/// A message from the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FromBroker<'a> {
    /// Under which it is settled; 0 if it is not to be.
    pub tag: u64,
    pub sample: Sample<'a>,
}

/// Frames of a run at most, and their bytes.
const RUN_MAX: usize = 256;
const RUN_BYTES_MAX: usize = 32 << 10;

const PUBLISH: u8 = 1;
const SUBSCRIBE: u8 = 2;
const SUBSCRIBE_LATE: u8 = 3;
const UNSUBSCRIBE: u8 = 4;
const SETTLED: u8 = 5;
const MESSAGE: u8 = 6;
const ASK: u8 = 7;
const WITHDRAW: u8 = 8;

/// Result of decoding the beginning of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<T> {
    /// A frame, and how many bytes it takes.
    Frame(T, usize),
    Incomplete,
    /// No frame, or a longer one than is allowed.
    Wrong,
}

/// Appends a frame. False, and nothing is appended, if a text is too long.
pub fn encode(frame: &ToBroker<'_>, out: &mut Vec<u8>) -> bool {
    encode_before(frame, 0, out)
}

/// Appends a frame of which so many bytes follow elsewhere.
pub fn encode_before(frame: &ToBroker<'_>, behind: usize, out: &mut Vec<u8>) -> bool {
    framed(behind, out, |out| match frame {
        ToBroker::Publish(sample) => {
            out.push(PUBLISH);
            write_sample(sample, out)
        }
        ToBroker::Ask(sample) => {
            out.push(ASK);
            write_sample(sample, out)
        }
        ToBroker::Subscribe { address, is_late } => {
            out.push(if *is_late { SUBSCRIBE_LATE } else { SUBSCRIBE });
            write_text(address, out)
        }
        ToBroker::Unsubscribe { address } => {
            out.push(UNSUBSCRIBE);
            write_text(address, out)
        }
        ToBroker::Withdraw { address, source } => {
            out.push(WITHDRAW);
            write_text(address, out) && write_text(source, out)
        }
        ToBroker::Settled(tag) => {
            out.push(SETTLED);
            out.extend_from_slice(&tag.to_le_bytes());
            true
        }
    })
}

/// Appends a message. False, and nothing is appended, if a text is too long.
pub fn encode_message(message: &FromBroker<'_>, out: &mut Vec<u8>) -> bool {
    framed(0, out, |out| {
        out.push(MESSAGE);
        out.extend_from_slice(&message.tag.to_le_bytes());
        write_sample(&message.sample, out)
    })
}

/// The frame at the beginning of these bytes.
pub fn decode(bytes: &[u8], payload_max: usize) -> Decoded<ToBroker<'_>> {
    decoded(bytes, payload_max, |fields| {
        let frame = match fields.byte()? {
            PUBLISH => ToBroker::Publish(fields.sample()?),
            ASK => ToBroker::Ask(fields.sample()?),
            kind @ (SUBSCRIBE | SUBSCRIBE_LATE) => ToBroker::Subscribe {
                address: fields.text()?,
                is_late: kind == SUBSCRIBE_LATE,
            },
            UNSUBSCRIBE => ToBroker::Unsubscribe {
                address: fields.text()?,
            },
            WITHDRAW => ToBroker::Withdraw {
                address: fields.text()?,
                source: fields.text()?,
            },
            SETTLED => ToBroker::Settled(fields.number()?),
            _ => return None,
        };
        Some(frame)
    })
}

/// Notes where frames are, from the first one on, that have the same head of so many bytes: they differ in their payloads alone.
pub fn note_alike(bytes: &[u8], head: usize, cuts: &mut Vec<Cut>) {
    cuts.clear();
    let fields = bytes.get(LENGTH_BYTES..head).unwrap_or_default();
    let mut at = 0;
    while cuts.len() < RUN_MAX
        && let Some((length, rest)) = bytes[at..].split_first_chunk()
        && let Some(frame) = rest.get(..u32::from_le_bytes(*length) as usize)
        && frame.starts_with(fields)
        && at + LENGTH_BYTES + frame.len() <= RUN_BYTES_MAX
    {
        let payload = (at + head) as u32;
        at += LENGTH_BYTES + frame.len();
        let end = at as u32;
        cuts.push(Cut { payload, end });
    }
}

/// The message at the beginning of these bytes. One that another bridge has published may be as it came from there; what its content
/// is says its topic.
pub fn decode_message(bytes: &[u8], payload_max: usize) -> Decoded<FromBroker<'_>> {
    decoded(bytes, payload_max, |fields| {
        let tag = match fields.byte()? {
            MESSAGE => fields.number()?,
            PUBLISH => 0,
            _ => return None,
        };
        let sample = fields.sample()?;
        Some(FromBroker { tag, sample })
    })
}

/// Messages from the broker, of which one that differs from the one before in its payload alone costs a comparison.
pub struct Messages<'a> {
    bytes: &'a [u8],
    payload_max: usize,
    /// The last one that came from another bridge, and the bytes of its head behind the length.
    like: Option<(Sample<'a>, &'a [u8])>,
}

impl<'a> Messages<'a> {
    pub fn of(bytes: &'a [u8], payload_max: usize) -> Self {
        let like = None;
        Messages {
            bytes,
            payload_max,
            like,
        }
    }

    /// `Incomplete` at the end; then what is left is the beginning of one.
    pub fn next_whole(&mut self) -> Decoded<FromBroker<'a>> {
        let same = self.like.and_then(|(like, head)| {
            let (length, rest) = self.bytes.split_first_chunk()?;
            let frame = rest.get(..u32::from_le_bytes(*length) as usize)?;
            let payload = frame.strip_prefix(head)?;
            let sample = Sample { payload, ..like };
            Some((FromBroker { tag: 0, sample }, LENGTH_BYTES + frame.len()))
        });
        let decoded = match same {
            Some((message, length)) => Decoded::Frame(message, length),
            None => decode_message(self.bytes, self.payload_max),
        };
        if let Decoded::Frame(message, length) = &decoded {
            let (frame, rest) = self.bytes.split_at(*length);
            let head = &frame[LENGTH_BYTES..length - message.sample.payload.len()];
            self.like = Some((message.sample, head)).filter(|_| head.first() == Some(&PUBLISH));
            self.bytes = rest;
        }
        decoded
    }

    /// Bytes of what is left.
    pub fn left(&self) -> usize {
        self.bytes.len()
    }
}

fn framed(behind: usize, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    let is_written = write(out);
    let length = u32::try_from(out.len() - start - LENGTH_BYTES + behind);
    match length {
        Ok(length) if is_written => {
            out[start..start + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
            true
        }
        _ => {
            out.truncate(start);
            false
        }
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) -> bool {
    write_bytes(text.as_bytes(), out)
}

fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    let Ok(length) = u16::try_from(bytes.len()) else {
        return false;
    };
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
    true
}

fn write_sample(sample: &Sample<'_>, out: &mut Vec<u8>) -> bool {
    out.push(sample.is_reliable.into());
    out.push(match sample.retain {
        Retain::No => 0,
        Retain::Set => 1,
        Retain::Clear => 2,
        Retain::Lasting => 3,
        Retain::Ends => 4,
    });
    out.extend_from_slice(&sample.expires_in.to_le_bytes());
    out.extend_from_slice(&sample.keeps.to_le_bytes());
    let is_written = write_text(sample.address, out)
        && write_text(sample.source, out)
        && write_text(sample.content_type, out)
        && write_text(sample.reply_to, out)
        && write_bytes(sample.correlation, out);
    out.extend_from_slice(sample.payload);
    is_written
}

fn decoded<'a, T>(
    bytes: &'a [u8],
    payload_max: usize,
    read: impl FnOnce(&mut Fields<'a>) -> Option<T>,
) -> Decoded<T> {
    let Some((length, rest)) = bytes.split_first_chunk() else {
        return Decoded::Incomplete;
    };
    let length = u32::from_le_bytes(*length) as usize;
    let texts_max = TEXTS * usize::from(u16::MAX);
    if length > payload_max.saturating_add(FIXED_BYTES + texts_max) {
        return Decoded::Wrong;
    }
    let Some(frame) = rest.get(..length) else {
        return Decoded::Incomplete;
    };
    match read(&mut Fields(frame)) {
        Some(frame) => Decoded::Frame(frame, LENGTH_BYTES + length),
        None => Decoded::Wrong,
    }
}

struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        self.bytes::<1>().map(|[byte]| byte)
    }

    fn number(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn counted(&mut self) -> Option<&'a [u8]> {
        let length = self.bytes().map(u16::from_le_bytes)?;
        let (counted, rest) = self.0.split_at_checked(length.into())?;
        self.0 = rest;
        Some(counted)
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.counted()?).ok()
    }

    fn sample(&mut self) -> Option<Sample<'a>> {
        Some(Sample {
            is_reliable: self.byte()? != 0,
            retain: match self.byte()? {
                0 => Retain::No,
                1 => Retain::Set,
                3 => Retain::Lasting,
                4 => Retain::Ends,
                _ => Retain::Clear,
            },
            expires_in: self.number()?,
            keeps: self.bytes().map(u16::from_le_bytes)?,
            address: self.text()?,
            source: self.text()?,
            content_type: self.text()?,
            reply_to: self.text()?,
            correlation: self.counted()?,
            payload: std::mem::take(&mut self.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_and_no_part_of_one_is_a_frame() {
        let sample = Sample {
            is_reliable: true,
            retain: Retain::Lasting,
            expires_in: 7,
            keeps: 0x102,
            address: "a/b",
            source: "s",
            content_type: "text/plain",
            reply_to: "r",
            correlation: b"\x01",
            payload: b"\0\xFF",
        };
        let headless = Sample {
            payload: b"",
            ..sample
        };
        let address = "c";
        let frames = [
            ToBroker::Publish(sample),
            ToBroker::Ask(sample),
            ToBroker::Subscribe {
                address,
                is_late: true,
            },
            ToBroker::Unsubscribe { address },
            ToBroker::Withdraw {
                address,
                source: "s",
            },
            ToBroker::Settled(u64::MAX),
        ];
        for frame in frames {
            let (mut bytes, mut head) = (Vec::new(), Vec::new());
            assert!(encode(&frame, &mut bytes));
            assert_eq!(decode(&bytes, 2), Decoded::Frame(frame, bytes.len()));
            let before = match frame {
                ToBroker::Publish(_) => Some(ToBroker::Publish(headless)),
                ToBroker::Ask(_) => Some(ToBroker::Ask(headless)),
                _ => None,
            };
            if let Some(before) = before {
                assert!(encode_before(&before, sample.payload.len(), &mut head));
                assert_eq!([&head, sample.payload].concat(), bytes);
            }
            for length in 0..bytes.len() {
                assert_eq!(decode(&bytes[..length], 2), Decoded::Incomplete);
            }
        }
        let message = FromBroker { tag: 5, sample };
        let mut bytes = Vec::new();
        assert!(encode_message(&message, &mut bytes));
        assert_eq!(
            decode_message(&bytes, 2),
            Decoded::Frame(message, bytes.len())
        );
        assert_eq!(decode(&bytes, 2), Decoded::Wrong);
    }

    #[test]
    fn frames_are_alike_up_to_one_with_another_head() {
        let sample = Sample {
            address: "a/b",
            content_type: "t",
            ..Sample::default()
        };
        let with = |payload| Sample { payload, ..sample };
        let reliable = Sample {
            is_reliable: true,
            ..sample
        };
        let elsewhere = Sample {
            address: "a/c",
            ..sample
        };
        for other in [reliable, elsewhere] {
            let (mut bytes, mut ends) = (Vec::new(), Vec::new());
            for sample in [with(b"1"), with(b""), with(b"22"), other, with(b"1")] {
                assert!(encode(&ToBroker::Publish(sample), &mut bytes));
                ends.push(bytes.len());
            }
            let head = ends[0] - 1;
            let mut cuts = Vec::new();
            note_alike(&bytes, head, &mut cuts);
            let cut = |start: usize, end| Cut {
                payload: (start + head) as u32,
                end: end as u32,
            };
            let all = [
                cut(0, ends[0]),
                cut(ends[0], ends[1]),
                cut(ends[1], ends[2]),
            ];
            assert_eq!(cuts, all);
            // Of one that is not whole nothing is said.
            note_alike(&bytes[..ends[2] - 1], head, &mut cuts);
            assert_eq!(cuts, all[..2]);
            note_alike(&bytes[..3], head, &mut cuts);
            assert!(cuts.is_empty());
            let message = FromBroker {
                tag: 0,
                sample: with(b"1"),
            };
            assert_eq!(decode_message(&bytes, 2), Decoded::Frame(message, ends[0]));
        }
        let (mut bytes, mut cuts) = (Vec::new(), Vec::new());
        for _ in 0..2 * RUN_MAX {
            encode(&ToBroker::Publish(sample), &mut bytes);
        }
        note_alike(&bytes, bytes.len() / RUN_MAX / 2, &mut cuts);
        assert_eq!(cuts.len(), RUN_MAX);
    }

    #[test]
    fn messages_are_the_same_whether_they_are_known_by_the_head_of_the_one_before_or_not() {
        let sample = |is_reliable, address, payload| Sample {
            is_reliable,
            address,
            payload,
            ..Sample::default()
        };
        let (mut bytes, mut all) = (Vec::new(), Vec::new());
        for (tag, sample) in [
            (0, sample(false, "a", b"1".as_slice())),
            (0, sample(false, "a", b"")),
            (0, sample(false, "a", b"22")),
            (0, sample(false, "a/b", b"3")),
            (5, sample(true, "a", b"4")),
            (6, sample(true, "a", b"5")),
            (0, sample(false, "a", b"6")),
            (0, sample(true, "a", b"6")),
        ] {
            match tag {
                0 => encode(&ToBroker::Publish(sample), &mut bytes),
                tag => encode_message(&FromBroker { tag, sample }, &mut bytes),
            };
            all.push((FromBroker { tag, sample }, bytes.len()));
        }
        for length in 0..=bytes.len() {
            let mut messages = Messages::of(&bytes[..length], 2);
            for (message, end) in all.iter().filter(|(_, end)| *end <= length) {
                let Decoded::Frame(next, _) = messages.next_whole() else {
                    panic!("{message:?} of {length} bytes is not there");
                };
                assert_eq!((next, messages.left()), (*message, length - end));
            }
            assert_eq!(messages.next_whole(), Decoded::Incomplete);
        }
    }

    #[test]
    fn what_is_too_long_is_no_frame() {
        let text = "a".repeat(1 << 16);
        let mut out = vec![9];
        assert!(!encode(&ToBroker::Unsubscribe { address: &text }, &mut out));
        assert_eq!(out, [9]);
        assert_eq!(decode(&u32::MAX.to_le_bytes(), 1 << 20), Decoded::Wrong);
        assert_eq!(decode(&[1, 0, 0, 0, 77], 1 << 20), Decoded::Wrong);
        // A text that says that it is longer than its frame.
        assert_eq!(
            decode(&[4, 0, 0, 0, UNSUBSCRIBE, 9, 0, b'a'], 9),
            Decoded::Wrong
        );
    }
}
