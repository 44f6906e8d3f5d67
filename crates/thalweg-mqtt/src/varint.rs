//! Variable Byte Integers (§1.5.5): seven bits a byte, least significant first, at most four bytes.

use thalweg_wire::Reader;

use crate::PeerFault;

/// The largest value: 268,435,455.
pub const VARINT_MAX: u32 = 0x0FFF_FFFF;

/// Result of reading the bytes at the start of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Varint {
    /// More bytes are needed.
    Incomplete,
    /// A fifth byte would be needed.
    Malformed,
    /// A value and how many bytes it took.
    Value(u32, usize),
}

/// Decodes without judging whether the encoding is the shortest.
#[inline]
pub(crate) fn decode(bytes: &[u8]) -> Varint {
    match bytes {
        [a, ..] if *a < 0x80 => Varint::Value(u32::from(*a), 1),
        _ => decode_long(bytes),
    }
}

fn decode_long(bytes: &[u8]) -> Varint {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(4).enumerate() {
        value |= u32::from(byte & 0x7F) << (7 * at);
        if byte & 0x80 == 0 {
            return Varint::Value(value, at + 1);
        }
    }
    if bytes.len() < 4 {
        Varint::Incomplete
    } else {
        Varint::Malformed
    }
}

/// Reads a varint inside a packet, in its shortest encoding only. [MQTT-1.5.5-1]
#[inline]
pub(crate) fn read(r: &mut Reader<'_>) -> Result<u32, PeerFault> {
    match decode(r.rest()) {
        Varint::Value(value, len) if len == size(value) => {
            let _ = r.take(len);
            Ok(value)
        }
        Varint::Incomplete => Err(PeerFault::TRUNCATED),
        _ => Err(PeerFault::LENGTH_MALFORMED),
    }
}

/// Number of bytes of an encoded `value`.
#[inline]
pub(crate) const fn size(value: u32) -> usize {
    match value {
        0..=0x7F => 1,
        0x80..=0x3FFF => 2,
        0x4000..=0x1F_FFFF => 3,
        _ => 4,
    }
}

/// Writes `value`, which must not exceed [`VARINT_MAX`], into the start of `into`; returns how many bytes it took.
#[inline]
pub(crate) fn write(mut value: u32, into: &mut [u8; 4]) -> usize {
    debug_assert!(value <= VARINT_MAX);
    let mut len = 0;
    for slot in into.iter_mut() {
        *slot = (value & 0x7F) as u8;
        value >>= 7;
        len += 1;
        if value == 0 {
            break;
        }
        *slot |= 0x80;
    }
    len
}

/// Appends `value`.
#[inline]
pub(crate) fn put(value: u32, out: &mut Vec<u8>) {
    if value < 0x80 {
        out.push(value as u8);
    } else {
        let mut bytes = [0; 4];
        let len = write(value, &mut bytes);
        out.extend_from_slice(bytes.get(..len).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [MQTT-1.5.5-1]
    #[test]
    fn every_boundary_takes_the_fewest_bytes_and_returns() {
        for value in [
            0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, VARINT_MAX,
        ] {
            let mut out = Vec::new();
            put(value, &mut out);
            assert_eq!(out.len(), size(value));
            assert_eq!(decode(&out), Varint::Value(value, out.len()));
            for cut in 0..out.len() {
                assert_eq!(decode(&out[..cut]), Varint::Incomplete);
            }
            assert_eq!(read(&mut Reader::new(&out)), Ok(value));
        }
        assert_eq!(decode(&[0xFF, 0xFF, 0xFF, 0xFF, 0x01]), Varint::Malformed);
        assert_eq!(
            read(&mut Reader::new(&[0x80, 0x00])),
            Err(PeerFault::LENGTH_MALFORMED)
        );
    }
}
