//! A cursor over received bytes whose getters can never go past the end.

/// A cursor over a byte slice. Every getter returns `None`, and moves nothing, when too few bytes are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes }
    }

    /// How many bytes have not been read yet.
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// Whether everything has been read.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes not read yet, without reading them.
    #[inline]
    pub const fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// Reads everything that is left.
    #[inline]
    pub const fn take_rest(&mut self) -> &'a [u8] {
        let rest = self.bytes;
        self.bytes = &[];
        rest
    }

    /// Reads exactly `len` bytes.
    #[inline]
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.bytes.split_at_checked(len)?;
        self.bytes = tail;
        Some(head)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.bytes.split_first_chunk::<N>()?;
        self.bytes = tail;
        Some(*head)
    }

    /// The next byte, or `None` at the end.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    /// Reads a big-endian 16-bit number.
    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads a big-endian 32-bit number.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a big-endian 64-bit number.
    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a byte string behind a big-endian 16-bit length.
    #[inline]
    pub fn bytes16(&mut self) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let len = ahead.u16()?;
        let bytes = ahead.take(usize::from(len))?;
        *self = ahead;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn getters_read_big_endian_and_stop_at_the_end() {
        let mut r = Reader::new(&[1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 9]);
        assert_eq!(
            (r.u8(), r.u16(), r.u32(), r.u64()),
            (Some(1), Some(2), Some(3), Some(4))
        );
        assert_eq!(r.u16(), None);
        assert_eq!(r.remaining(), 1);
        assert_eq!(r.take(2), None);
        assert_eq!(r.take_rest(), &[9]);
        assert!(r.is_empty());
    }

    #[test]
    fn a_short_byte_string_moves_nothing() {
        let mut r = Reader::new(&[0, 3, b'a', b'b']);
        assert_eq!(r.bytes16(), None);
        assert_eq!(r.remaining(), 4);
        let mut r = Reader::new(&[0, 2, b'a', b'b']);
        assert_eq!(r.bytes16(), Some(&b"ab"[..]));
    }
}
