//! The value of Observe: what a request asks for, and how notifications are put in order. RFC 7641 §2, §3.4

/// Observe option of a GET or FETCH. RFC 7641 §2
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Observe {
    /// 0: register for notifications of changes.
    Register = 0,
    /// 1: deregister, no more notifications.
    Deregister = 1,
}

impl Observe {
    /// Reads a request's value; nothing for a value without a meaning, with which the request is one without Observe.
    #[inline]
    pub const fn decode(value: u32) -> Option<Observe> {
        match value {
            0 => Some(Observe::Register),
            1 => Some(Observe::Deregister),
            _ => None,
        }
    }

    /// The value, for `Encoder::uint`.
    #[inline]
    pub const fn encode(self) -> u32 {
        self as u32
    }
}

/// The number of a notification: 24 bits, which wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Sequence(u32);

impl Sequence {
    /// After so many seconds a notification is newer whatever its number. RFC 7641 §3.4
    pub const STALE_SECONDS: u64 = 128;

    const MASK: u32 = 0xFF_FFFF;

    /// The lowest 24 bits of `number`.
    #[inline]
    pub const fn new(number: u32) -> Sequence {
        Sequence(number & Sequence::MASK)
    }

    /// The value, for `Encoder::uint`.
    #[inline]
    pub const fn encode(self) -> u32 {
        self.0
    }

    /// The number behind this one.
    #[inline]
    pub const fn next(self) -> Sequence {
        Sequence::new(self.0 + 1)
    }

    /// Whether so few notifications lie between that it is the same observation that goes on: numbers of a new one begin
    /// anywhere.
    #[inline]
    pub const fn is_close_behind(self, other: Sequence) -> bool {
        self.0.wrapping_sub(other.0) & Sequence::MASK <= 4096
    }

    /// Whether a notification of this number is newer than one of number `other` that came `seconds` before it.
    #[inline]
    pub const fn is_newer_than(self, other: Sequence, seconds: u64) -> bool {
        let ahead = self.0.wrapping_sub(other.0) & Sequence::MASK;
        seconds > Sequence::STALE_SECONDS || 0 < ahead && ahead < 1 << 23
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_are_ordered_around_the_wrap() {
        let newer = |this, than| Sequence::new(this).is_newer_than(Sequence::new(than), 1);
        assert!(newer(2, 1) && !newer(1, 2) && !newer(1, 1));
        assert!(newer(0, 0xFF_FFFF) && !newer(0xFF_FFFF, 0));
        assert!(newer(0x7F_FFFF, 0) && !newer(0x80_0000, 0));
        assert!(Sequence::new(1).is_newer_than(Sequence::new(2), 129));
        assert!(!Sequence::new(1).is_newer_than(Sequence::new(2), 128));
        assert_eq!(Sequence::new(0xFF_FFFF).next(), Sequence::default());
    }

    #[test]
    fn a_request_registers_or_deregisters() {
        assert_eq!(Observe::decode(0), Some(Observe::Register));
        assert_eq!(Observe::decode(1).map(Observe::encode), Some(1));
        assert_eq!(Observe::decode(2), None);
    }
}
