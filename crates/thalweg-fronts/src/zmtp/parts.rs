//! How a message is cut into frames. Most are an address and one more frame, and need no word; others say it in their native
//! properties, which only this front reads.

use crate::native;
use thalweg_model::{NativeProperties, Properties};

/// Where a message was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parts<'a> {
    /// The address is a frame, and the payload is one.
    Two,
    /// There is one frame: the address, this byte and the payload; or the address alone.
    One(Option<u8>),
    /// The payload is several frames, or none, of these lengths: four bytes each, least significant first.
    Several(&'a [u8]),
}

const ONE: u8 = 1;
const SEVERAL: u8 = 2;

impl<'a> Parts<'a> {
    /// What a message says.
    pub(super) fn of(properties: Option<&'a Properties>) -> Self {
        let native = properties.and_then(|properties| properties.native.as_ref());
        match native {
            Some(native) if native.dialect == native::ZMTP => match &*native.bytes {
                [ONE] => Parts::One(None),
                [ONE, separator] => Parts::One(Some(*separator)),
                [SEVERAL, lengths @ ..] => Parts::Several(lengths),
                _ => Parts::Two,
            },
            _ => Parts::Two,
        }
    }

    #[inline]
    pub(super) fn put(self, properties: &mut Properties) {
        let separated;
        let (head, rest): (&[u8], &[u8]) = match self {
            Parts::Two => {
                properties.native = None;
                return;
            }
            Parts::One(None) => (&[ONE], &[]),
            Parts::One(Some(separator)) => {
                separated = [ONE, separator];
                (&separated, &[])
            }
            Parts::Several(lengths) => (&[SEVERAL], lengths),
        };
        if let Some(native) = &mut properties.native
            && native.bytes.len() == head.len() + rest.len()
        {
            let (to_head, to_rest) = native.bytes.split_at_mut(head.len());
            to_head.copy_from_slice(head);
            to_rest.copy_from_slice(rest);
            return;
        }
        properties.native = Some(NativeProperties {
            dialect: native::ZMTP,
            bytes: [head, rest].concat().into(),
        });
    }

    /// The frames of a payload, behind the one of its address.
    pub(super) fn frames(self, payload: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = payload;
        let (lengths, is_whole) = match self {
            Parts::Several(lengths) => (lengths, false),
            Parts::Two | Parts::One(_) => (&[][..], true),
        };
        let cut = lengths.as_chunks::<4>().0.iter().map(move |length| {
            let length = (u32::from_le_bytes(*length) as usize).min(rest.len());
            let (frame, behind) = rest.split_at(length);
            rest = behind;
            frame
        });
        cut.chain(is_whole.then_some(payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read_and_the_frames_come_back() {
        let lengths = [2_u32, 0, 3].map(u32::to_le_bytes).concat();
        let mut properties = Properties::default();
        for parts in [
            Parts::One(None),
            Parts::One(Some(b' ')),
            Parts::One(Some(b'|')),
            Parts::Several(&lengths),
            Parts::Several(&[]),
            Parts::Two,
        ] {
            parts.put(&mut properties);
            assert_eq!(Parts::of(Some(&properties)), parts);
        }
        let frames: Vec<_> = Parts::Several(&lengths).frames(b"abcde").collect();
        assert_eq!(frames, [&b"ab"[..], b"", b"cde"]);
        assert_eq!(Parts::Two.frames(b"ab").collect::<Vec<_>>(), [b"ab"]);
        assert_eq!(Parts::Several(&[]).frames(b"").count(), 0);
        // Lengths that do not fit are cut.
        assert_eq!(
            Parts::Several(&lengths).frames(b"a").collect::<Vec<_>>(),
            [&b"a"[..], b"", b""]
        );
        assert_eq!(Parts::of(None), Parts::Two);
    }
}
