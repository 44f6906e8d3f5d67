//! The value of Block1 and Block2: which part of a body this is. RFC 7959 §2.2

/// A part of a body.
///
/// ```text
///  0                   1                   2
///  0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |          NUM                          |M| SZX |   leading zeros need not be written
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// NUM: which one, from 0.
    pub number: u32,
    /// M: whether there are more behind it.
    pub more: bool,
    /// SZX: 0 to 6 for 16 to 1024 bytes; 7 only where [`Block::decode_bert`] read it.
    pub size_exponent: u8,
}

impl Block {
    /// The highest number a block can have.
    pub const NUMBER_MAX: u32 = (1 << 20) - 1;

    /// SZX of the largest blocks, 1024 bytes.
    pub const SIZE_EXPONENT_MAX: u8 = 6;

    /// SZX of several blocks of 1024 bytes in one message, on reliable transports. RFC 8323 §6
    pub const BERT: u8 = 7;

    /// Reads a value that came in a datagram; nothing if it is too large or its SZX is the reserved 7, for which a
    /// request is answered with 4.00. RFC 7959 §2.2
    #[inline]
    pub const fn decode(value: u32) -> Option<Block> {
        match Block::decode_bert(value) {
            Some(block) if block.size_exponent <= Block::SIZE_EXPONENT_MAX => Some(block),
            _ => None,
        }
    }

    /// Reads a value that came over a reliable transport, where SZX may be [`Block::BERT`]. RFC 8323 §6
    #[inline]
    pub const fn decode_bert(value: u32) -> Option<Block> {
        if value >> 24 != 0 {
            return None;
        }
        Some(Block {
            number: value >> 4,
            more: value & 8 != 0,
            size_exponent: (value & 7) as u8,
        })
    }

    /// The value, for `Encoder::uint`.
    #[inline]
    pub const fn encode(self) -> u32 {
        self.number << 4 | (self.more as u32) << 3 | (self.size_exponent & 7) as u32
    }

    /// Size of a block in bytes; with [`Block::BERT`], the unit of its number.
    #[inline]
    pub const fn size(self) -> usize {
        if self.size_exponent >= Block::SIZE_EXPONENT_MAX {
            1024
        } else {
            16 << self.size_exponent
        }
    }

    /// Where in the body it begins.
    #[inline]
    pub const fn offset(self) -> usize {
        self.number as usize * self.size()
    }

    /// SZX of the largest block of at most `bytes` bytes; 0 if even the smallest is larger.
    #[inline]
    pub const fn size_exponent_for(bytes: usize) -> u8 {
        let mut exponent = Block::SIZE_EXPONENT_MAX;
        while exponent > 0 && 16 << exponent > bytes {
            exponent -= 1;
        }
        exponent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_its_value() {
        for value in (0..1 << 24).step_by(13) {
            let block = Block::decode_bert(value).expect("24 bits");
            assert_eq!(block.encode(), value);
            assert_eq!(Block::decode(value), (value & 7 != 7).then_some(block));
        }
        assert_eq!(Block::decode(1 << 24), None);
    }

    #[test]
    fn sizes_are_powers_of_two_from_16_to_1024() {
        let of = |size_exponent| Block {
            number: 3,
            more: false,
            size_exponent,
        };
        assert_eq!((of(0).size(), of(0).offset()), (16, 48));
        assert_eq!((of(6).size(), of(6).offset()), (1024, 3072));
        assert_eq!((of(7).size(), of(7).offset()), (1024, 3072));
        for (bytes, exponent) in [
            (0, 0),
            (16, 0),
            (31, 0),
            (32, 1),
            (1023, 5),
            (1024, 6),
            (70_000, 6),
        ] {
            assert_eq!(Block::size_exponent_for(bytes), exponent, "{bytes}");
        }
    }
}
