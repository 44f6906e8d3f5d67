//! UTF-8 strings and binary data (§1.5.4, §1.5.6), and the scan that topic names need.

use thalweg_wire::Reader;

use crate::PeerFault;

/// Reads a string: well-formed UTF-8 without U+0000. [MQTT-1.5.4-1] [MQTT-1.5.4-2]
#[inline]
pub(crate) fn string<'a>(r: &mut Reader<'a>) -> Result<&'a str, PeerFault> {
    checked(r.bytes16().ok_or(PeerFault::TRUNCATED)?)
}

#[inline]
pub(crate) fn binary<'a>(r: &mut Reader<'a>) -> Result<&'a [u8], PeerFault> {
    r.bytes16().ok_or(PeerFault::TRUNCATED)
}

fn checked(bytes: &[u8]) -> Result<&str, PeerFault> {
    if memchr::memchr(0, bytes).is_some() {
        return Err(PeerFault::NUL);
    }
    utf8(bytes)
}

/// Short strings are the rule, and for them the standard library beats a choice of vector instructions.
#[inline]
fn utf8(bytes: &[u8]) -> Result<&str, PeerFault> {
    if bytes.len() < 64 {
        std::str::from_utf8(bytes).map_err(|_| PeerFault::UTF8)
    } else {
        simdutf8::basic::from_utf8(bytes).map_err(|_| PeerFault::UTF8)
    }
}

/// Checks a topic name, which may be empty here: a string without wildcards. [MQTT-3.3.2-2]
#[inline]
pub(crate) fn topic_name(bytes: &[u8]) -> Result<&str, PeerFault> {
    if contains_nul_or_wildcard(bytes) {
        return Err(nul_or_wildcard(bytes));
    }
    utf8(bytes)
}

#[cold]
fn nul_or_wildcard(bytes: &[u8]) -> PeerFault {
    checked(bytes).err().unwrap_or(PeerFault::TOPIC_WILDCARD)
}

/// Whether any byte is NUL, `+` or `#`; eight bytes at a time, since topics are too short for anything wider to pay.
#[inline]
pub(crate) fn contains_nul_or_wildcard(bytes: &[u8]) -> bool {
    let (words, tail) = bytes.as_chunks::<8>();
    let mut found = 0;
    for word in words {
        found |= suspicious(u64::from_le_bytes(*word));
    }
    if let Some(last) = bytes.last_chunk::<8>() {
        // Overlapping the words already seen is cheaper than a loop over the tail.
        return found | suspicious(u64::from_le_bytes(*last)) != 0;
    }
    tail.iter().any(|byte| matches!(byte, 0 | b'+' | b'#'))
}

/// Not zero if one of the eight bytes is NUL, `+` or `#`.
#[inline]
const fn suspicious(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);
    let plus = word ^ u64::from_ne_bytes([b'+'; 8]);
    let hash = word ^ u64::from_ne_bytes([b'#'; 8]);
    ((word.wrapping_sub(ONES) & !word)
        | (plus.wrapping_sub(ONES) & !plus)
        | (hash.wrapping_sub(ONES) & !hash))
        & HIGHS
}

/// Appends binary data or a string after its length. More than 65,535 bytes cannot be written; callers have refused
/// them before ([`fits16`]), and here they become empty rather than corrupt the stream.
#[inline]
pub(crate) fn put16(bytes: &[u8], out: &mut Vec<u8>) {
    match u16::try_from(bytes.len()) {
        Ok(len) => {
            out.extend_from_slice(&len.to_be_bytes());
            out.extend_from_slice(bytes);
        }
        Err(_) => out.extend_from_slice(&[0, 0]),
    }
}

/// Whether [`put16`] can write so many bytes.
#[inline]
pub(crate) const fn fits16(len: usize) -> bool {
    len <= u16::MAX as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scan_finds_each_suspicious_byte_at_each_place_and_nothing_else() {
        for len in 0..40 {
            let clean = vec![b'a'; len];
            assert!(!contains_nul_or_wildcard(&clean));
            for at in 0..len {
                for byte in 0..=255 {
                    let mut bytes = clean.clone();
                    bytes[at] = byte;
                    assert_eq!(
                        contains_nul_or_wildcard(&bytes),
                        matches!(byte, 0 | b'+' | b'#'),
                        "{byte} at {at}"
                    );
                }
            }
        }
    }

    /// [MQTT-1.5.4-1] [MQTT-1.5.4-2] [MQTT-3.3.2-2]
    #[test]
    fn a_topic_name_is_refused_for_the_right_reason() {
        assert_eq!(topic_name("größe/°C".as_bytes()), Ok("größe/°C"));
        assert_eq!(topic_name(b"a/+"), Err(PeerFault::TOPIC_WILDCARD));
        assert_eq!(topic_name(b"a\0"), Err(PeerFault::NUL));
        assert_eq!(topic_name(b"a/\xED\xA0\x80"), Err(PeerFault::UTF8));
        assert_eq!(topic_name(b"#\xFF"), Err(PeerFault::UTF8));
    }

    /// [MQTT3-1.5.3-3] A byte order mark is a character like any other.
    #[test]
    fn a_byte_order_mark_is_kept() {
        assert_eq!(
            string(&mut Reader::new(b"\x00\x03\xEF\xBB\xBF")),
            Ok("\u{FEFF}")
        );
    }
}
