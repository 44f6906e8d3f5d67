//! The value of No-Response: which answers a client does not want. RFC 7967 §2.1

use crate::Code;

/// Classes of responses that need not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct NoResponse(u8);

impl NoResponse {
    /// All answers are wanted.
    pub const NONE: NoResponse = NoResponse(0);
    /// No 2.xx.
    pub const SUCCESS: NoResponse = NoResponse(1 << 1);
    /// No 4.xx.
    pub const CLIENT_ERROR: NoResponse = NoResponse(1 << 3);
    /// No 5.xx.
    pub const SERVER_ERROR: NoResponse = NoResponse(1 << 4);
    /// No response of any class is wanted.
    pub const ALL: NoResponse = NoResponse(0b11010);

    /// Reads a value; bits without a meaning are ignored.
    #[inline]
    pub const fn decode(value: u32) -> NoResponse {
        NoResponse(value as u8 & NoResponse::ALL.0)
    }

    /// The value, for `Encoder::uint`.
    #[inline]
    pub const fn encode(self) -> u32 {
        self.0 as u32
    }

    /// Suppresses what either of them suppresses.
    pub const fn and(self, other: NoResponse) -> NoResponse {
        NoResponse(self.0 | other.0)
    }

    /// Whether a response of this code is not wanted.
    #[inline]
    pub const fn suppresses(self, code: Code) -> bool {
        let class = code.class();
        class > 0 && self.0 & 1 << (class - 1) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bit_suppresses_one_class() {
        let of = |value| {
            let unwanted = NoResponse::decode(value);
            [Code::CHANGED, Code::NOT_FOUND, Code::INTERNAL_SERVER_ERROR]
                .map(|code| unwanted.suppresses(code))
        };
        assert_eq!(of(0), [false; 3]);
        assert_eq!(of(2), [true, false, false]);
        assert_eq!(of(8), [false, true, false]);
        assert_eq!(of(16), [false, false, true]);
        assert_eq!(of(26), [true; 3]);
        assert_eq!(of(5), [false; 3], "bits without a meaning");
        assert_eq!(
            NoResponse::SUCCESS
                .and(NoResponse::CLIENT_ERROR)
                .and(NoResponse::SERVER_ERROR),
            NoResponse::ALL
        );
        assert!(!NoResponse::ALL.suppresses(Code::EMPTY));
    }
}
