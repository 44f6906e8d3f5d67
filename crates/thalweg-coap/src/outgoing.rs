//! Outgoing options, responses, and bodies that many observers share.

use crate::option;
use crate::{Block, Code, Encoder, Options};

/// The value of an option that is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'v> {
    /// A number, in as few bytes as it takes.
    Uint(u32),
    /// Bytes as they are.
    Opaque(&'v [u8]),
}

/// Number and value of an option that is to be written. Lists of them are in ascending order of the numbers.
pub type OptionOut<'v> = (u16, Value<'v>);

/// A response that is to be written.
///
/// The machine adds what is its own: Observe, Block1, Block2, Size2, and an ETag if a body goes in blocks and has none.
/// Do not give these but the ETag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'r> {
    /// Response code, such as 2.05.
    pub code: Code,
    /// Options in ascending order of their numbers.
    pub options: &'r [OptionOut<'r>],
    /// The whole body; the machine cuts it if it is too large for one message.
    pub payload: &'r [u8],
}

impl Response<'_> {
    /// A response that is a code and nothing more.
    pub const fn of(code: Code) -> Self {
        Response {
            code,
            options: &[],
            payload: &[],
        }
    }
}

/// Content of a notification, encoded once and shared by all observers: only head, token and Observe are each
/// observer's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedBody {
    code: Code,
    /// The options below Observe, as they are on the wire: ETag.
    before: Vec<u8>,
    /// The number of the last of these.
    last_before: u16,
    /// Everything behind Observe as it is on the wire, of a body that fits into one message; otherwise its options
    /// alone. Deltas count from Observe.
    after: Vec<u8>,
    /// The payload that is not in `after`, because it goes in blocks.
    large: Vec<u8>,
}

impl SharedBody {
    /// Encodes a notification. `options` are in ascending order of their numbers and hold no Observe; `ETag` is worth
    /// having if the payload is larger than a block.
    pub fn new(code: Code, options: &[OptionOut<'_>], payload: &[u8]) -> Self {
        let is_large = payload.len()
            > Block {
                number: 0,
                more: false,
                size_exponent: Block::SIZE_EXPONENT_MAX,
            }
            .size();
        let mut tag = [0; 8];
        let tag = is_large.then(|| etag_of(payload, &mut tag));
        let has_etag = options.iter().any(|(number, _)| *number == option::ETAG);
        let added = tag
            .filter(|_| !has_etag)
            .map(|tag| (option::ETAG, Value::Opaque(tag)));
        let (mut before, mut last_before) = (Vec::new(), 0);
        let mut encoder = Encoder::body(&mut before);
        for (number, value) in
            merged(options, &[added]).filter(|(number, _)| *number < option::OBSERVE)
        {
            put(&mut encoder, number, value);
            last_before = number;
        }
        // Deltas behind Observe count from it: numbers are written as if Observe were 0.
        let mut after = Vec::new();
        let mut encoder = Encoder::body(&mut after);
        for (number, value) in options
            .iter()
            .filter(|(number, _)| *number > option::OBSERVE)
        {
            put(&mut encoder, number - option::OBSERVE, *value);
        }
        encoder.payload(if is_large { &[] } else { payload });
        let large = if is_large {
            payload.to_vec()
        } else {
            Vec::new()
        };
        SharedBody {
            code,
            before,
            last_before,
            after,
            large,
        }
    }

    /// Response code, such as 2.05.
    #[inline]
    pub fn code(&self) -> Code {
        self.code
    }

    /// Allocated memory in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.before.capacity() + self.after.capacity() + self.large.capacity()
    }

    /// Whether it is larger than a block.
    pub(crate) fn is_large(&self) -> bool {
        !self.large.is_empty()
    }

    /// Whether only a part of it fits into one message with blocks of this size.
    #[inline]
    pub(crate) fn is_cut(&self, block_exponent: u8) -> bool {
        let block = 16 << block_exponent.min(Block::SIZE_EXPONENT_MAX);
        let may_be = self.is_large() || self.after.len() > block;
        may_be && self.with_parts(|_, payload| payload.len() > block)
    }

    /// Options and payload again, to be sent in another form.
    pub(crate) fn with_parts<R>(&self, of: impl FnOnce(&[OptionOut<'_>], &[u8]) -> R) -> R {
        let (before, _) = Options::decode(&self.before).unwrap_or((Options::EMPTY, &[]));
        let (after, small) = Options::decode(&self.after).unwrap_or((Options::EMPTY, &[]));
        let after = after
            .iter()
            .map(|(number, value)| (number.saturating_add(option::OBSERVE), value));
        let options: Vec<OptionOut<'_>> = before
            .iter()
            .chain(after)
            .map(|(n, v)| (n, Value::Opaque(v)))
            .collect();
        of(
            &options,
            if self.large.is_empty() {
                small
            } else {
                &self.large
            },
        )
    }

    /// Bytes besides head and token, with the longest Observe, in one message.
    pub(crate) fn encoded_len(&self, block_exponent: u8) -> usize {
        let block = 16 << block_exponent.min(Block::SIZE_EXPONENT_MAX);
        if self.large.is_empty() && self.after.len() <= block {
            return self.before.len() + 4 + self.after.len();
        }
        // Block2 and Size2 with their values: 4 + 5; the marker of the payload: 1; an ETag of our own: 1 + 8.
        let tag = if self.before.is_empty() { 9 } else { 0 };
        self.before.len() + 4 + tag + 10 + self.after.len() + self.large.len().min(block)
    }

    /// Writes everything behind the token. `observe` is nothing for the last notification of an ended observation.
    #[inline]
    pub(crate) fn write(&self, observe: Option<u32>, block_exponent: u8, out: &mut Vec<u8>) {
        let block = 16 << block_exponent.min(Block::SIZE_EXPONENT_MAX);
        match observe {
            Some(observe) if self.large.is_empty() && self.after.len() <= block => {
                out.extend_from_slice(&self.before);
                let value = observe.to_be_bytes();
                let value = value
                    .get(observe.leading_zeros() as usize / 8..)
                    .unwrap_or_default();
                out.push(((option::OBSERVE - self.last_before) as u8) << 4 | value.len() as u8);
                out.extend_from_slice(value);
                out.extend_from_slice(&self.after);
            }
            _ => self.write_slowly(observe, block_exponent, out),
        }
    }

    /// As [`SharedBody::write`], option by option: the body goes in blocks, or has no Observe.
    #[inline(never)]
    fn write_slowly(&self, observe: Option<u32>, block_exponent: u8, out: &mut Vec<u8>) {
        let (before, _) = Options::decode(&self.before).unwrap_or((Options::EMPTY, &[]));
        let (after, small) = Options::decode(&self.after).unwrap_or((Options::EMPTY, &[]));
        let payload = if self.large.is_empty() {
            small
        } else {
            &self.large
        };
        let cut = Cut::first(payload, block_exponent);
        let mut tag = [0; 8];
        let needs_tag = cut.block.is_some() && self.before.is_empty();
        let tag = needs_tag.then(|| (option::ETAG, Value::Opaque(etag_of(payload, &mut tag))));
        let own = [
            tag,
            observe.map(|observe| (option::OBSERVE, Value::Uint(observe))),
            cut.block
                .map(|block| (option::BLOCK2, Value::Uint(block.encode()))),
            cut.block.map(|_| (option::SIZE2, Value::Uint(cut.whole))),
        ];
        let before = before.iter();
        let after = after
            .iter()
            .map(|(number, value)| (number.saturating_add(option::OBSERVE), value));
        let options: Vec<OptionOut<'_>> = before
            .chain(after)
            .map(|(n, value)| (n, Value::Opaque(value)))
            .collect();
        let mut encoder = Encoder::body(out);
        for (number, value) in merged(&options, &own) {
            put(&mut encoder, number, value);
        }
        encoder.payload(cut.bytes);
    }
}

/// The part of a body that goes into one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut<'p> {
    /// Value of Block2; `None` if the whole body fits.
    pub block: Option<Block>,
    pub bytes: &'p [u8],
    /// Size of the whole body.
    pub whole: u32,
}

impl<'p> Cut<'p> {
    /// The first part of `payload`, or all of it.
    pub fn first(payload: &'p [u8], size_exponent: u8) -> Self {
        let block = Block {
            number: 0,
            more: payload.len() > 16 << size_exponent,
            size_exponent,
        };
        let fits = !block.more;
        Cut {
            block: (!fits).then_some(block),
            bytes: payload
                .get(..block.size())
                .filter(|_| !fits)
                .unwrap_or(payload),
            whole: payload.len() as u32,
        }
    }

    /// Part `number` of `payload`; nothing if it has no such part.
    pub fn part(payload: &'p [u8], number: u32, size_exponent: u8) -> Option<Self> {
        let block = Block {
            number,
            more: false,
            size_exponent,
        };
        let start = block.offset();
        if start >= payload.len() && number > 0 {
            return None;
        }
        let end = payload.len().min(start + block.size());
        let block = Block {
            more: end < payload.len(),
            ..block
        };
        Some(Cut {
            block: Some(block),
            bytes: payload.get(start..end)?,
            whole: payload.len() as u32,
        })
    }
}

/// Two lists of options as one, in ascending order; of equals the first list's come first.
pub(crate) fn merged<'o>(
    options: &'o [OptionOut<'o>],
    own: &'o [Option<OptionOut<'o>>],
) -> impl Iterator<Item = OptionOut<'o>> + 'o {
    let mut left = options.iter().copied().peekable();
    let mut right = own.iter().flatten().copied().peekable();
    std::iter::from_fn(move || match (left.peek(), right.peek()) {
        (Some((a, _)), Some((b, _))) if a > b => right.next(),
        (None, _) => right.next(),
        _ => left.next(),
    })
}

#[inline]
pub(crate) fn put(encoder: &mut Encoder<'_>, number: u16, value: Value<'_>) {
    match value {
        Value::Uint(value) => encoder.uint(number, value),
        Value::Opaque(value) => encoder.option(number, value),
    };
}

/// A tag for a body whose owner gave none: blocks of different bodies must not be put together. RFC 7959 §2.4
pub(crate) fn etag_of<'t>(payload: &[u8], tag: &'t mut [u8; 8]) -> &'t [u8] {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = foldhash::quality::FixedState::with_seed(0).build_hasher();
    hasher.write(payload);
    *tag = hasher.finish().to_be_bytes();
    tag.get(..4).unwrap_or_default()
}
