//! Tokens: what a response has in common with its request. RFC 7252 §5.3.1

use std::fmt;

/// Up to eight bytes, chosen by the client.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Token {
    /// Zeros behind the end, so that equal tokens are equal bytes.
    bytes: [u8; Token::LEN_MAX],
    len: u8,
}

impl Token {
    /// Most bytes of a token.
    pub const LEN_MAX: usize = 8;

    /// The token of no bytes, which is as good as any other.
    pub const EMPTY: Token = Token {
        bytes: [0; Token::LEN_MAX],
        len: 0,
    };

    /// A token; nothing if it were longer than eight bytes.
    #[inline]
    pub fn new(bytes: &[u8]) -> Option<Token> {
        let mut token = Token {
            bytes: [0; Token::LEN_MAX],
            len: bytes.len() as u8,
        };
        token.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(token)
    }

    /// The token at the start of `bytes`, and the rest; `len` is at most eight.
    #[inline]
    pub(crate) fn split(bytes: &[u8], len: usize) -> Option<(Token, &[u8])> {
        let (head, rest) = bytes.split_at_checked(len)?;
        // Eight bytes at once where there are so many: most messages are longer than their token.
        let token = match bytes.first_chunk::<8>() {
            Some(eight) => {
                let kept =
                    u64::from_be_bytes(*eight) & !u64::MAX.checked_shr(8 * len as u32).unwrap_or(0);
                Token {
                    bytes: kept.to_be_bytes(),
                    len: len as u8,
                }
            }
            None => Token::new(head)?,
        };
        Some((token, rest))
    }

    /// The shortest token for `number`: big-endian, without leading zeros. 0 makes the empty token.
    #[inline]
    pub fn from_number(number: u64) -> Token {
        let zeros = number.leading_zeros() / 8;
        let bytes = number.checked_shl(8 * zeros).unwrap_or(0).to_be_bytes();
        Token {
            bytes,
            len: (8 - zeros) as u8,
        }
    }

    /// The number that [`Token::from_number`] made this token of; nothing if it made no such token.
    #[inline]
    pub fn number(self) -> Option<u64> {
        let number = u64::from_be_bytes(self.bytes)
            .checked_shr(8 * (8 - u32::from(self.len)))
            .unwrap_or(0);
        (Token::from_number(number) == self).then_some(number)
    }

    /// The token's 0 to 8 bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len()).unwrap_or_default()
    }

    /// Its bytes and the zeros behind them.
    #[inline]
    pub(crate) const fn padded(&self) -> &[u8; Token::LEN_MAX] {
        &self.bytes
    }

    /// Length of the token in bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether it has no bytes.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_at_most_eight_bytes() {
        assert_eq!(Token::new(b"12345678").map(|t| t.len()), Some(8));
        assert_eq!(Token::new(b"123456789"), None);
        assert_eq!(size_of::<Token>(), 9);
    }

    #[test]
    fn both_ways_of_reading_a_token_come_to_the_same() {
        for len in 0..=8 {
            let (long, rest) =
                Token::split(b"\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7", len).expect("long enough");
            let (short, _) = Token::split(&b"\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8"[..len], len)
                .expect("long enough");
            assert_eq!((long, rest.len()), (short, 9 - len));
            assert_eq!(Some(long), Token::new(long.as_slice()));
            assert_eq!(
                Token::split(&b"12345678"[..len.saturating_sub(1)], len).is_some(),
                len == 0
            );
        }
    }

    #[test]
    fn tokens_of_numbers_are_short_and_lead_back() {
        for number in [0, 1, 255, 256, 65_535, 1 << 32, u64::MAX] {
            assert_eq!(Token::from_number(number).number(), Some(number));
        }
        assert_eq!(Token::from_number(0), Token::EMPTY);
        assert_eq!(Token::from_number(256).as_slice(), [1, 0]);
        assert_eq!(Token::new(&[0, 1]).and_then(Token::number), None);
    }
}
