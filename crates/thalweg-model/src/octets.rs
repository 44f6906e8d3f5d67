//! Names that are bytes, as the first frames of ZeroMQ, and canonical addresses, which are text.
//!
//! Levels are joined by `/`, as in the canonical rendering. Characters that an address cannot hold are written `%HH`:
//! `+`, `#`, NUL and bytes that are no UTF-8; and so is a `%` that would be read as one of those, see [`Codes`]. All
//! else stays as it is, so a first frame comes back byte for byte, and most are their address.
//!
//! [`Codes`]: crate::syntax::Codes

use std::str::from_utf8;

/// Appends the canonical address of a first frame.
pub fn read(frame: &[u8], out: &mut String) {
    let mut rest = frame;
    while !rest.is_empty() {
        let (text, bad) = match from_utf8(rest) {
            Ok(text) => (text, 0),
            Err(error) => {
                let (valid, _) = rest.split_at(error.valid_up_to());
                (from_utf8(valid).unwrap_or_default(), 1)
            }
        };
        read_text(text, &rest[text.len()..], out);
        for byte in &rest[text.len()..text.len() + bad] {
            push_code(*byte, out);
        }
        rest = &rest[text.len() + bad..];
    }
}

/// The same of text; `behind` it the frame goes on.
fn read_text(text: &str, behind: &[u8], out: &mut String) {
    let bytes = text.as_bytes();
    for (at, character) in text.char_indices() {
        match character {
            '+' | '#' | '\0' => push_code(bytes[at], out),
            '%' => {
                let next = bytes[at + 1..].iter().chain(behind).copied();
                match begins_code(next) {
                    true => out.push_str("%25"),
                    false => out.push('%'),
                }
            }
            _ => out.push(character),
        }
    }
}

/// Whether a first frame is its own address, which most are.
#[inline]
pub fn as_it_is(frame: &[u8]) -> Option<&str> {
    let is_plain = |byte: &u8| !matches!(byte, b'+' | b'#' | b'%' | 0);
    frame.iter().all(is_plain).then(|| from_utf8(frame).ok())?
}

/// Appends the first frame of an address.
pub fn write(address: &str, out: &mut Vec<u8>) {
    let mut rest = address.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        out.extend_from_slice(&rest[..at]);
        let next = &rest[at + 1..];
        match (begins_code(next.iter().copied()), next) {
            (true, [high, low, behind @ ..]) => {
                out.push(pair(*high, *low).unwrap_or(b'%'));
                rest = behind;
            }
            _ => {
                out.push(b'%');
                rest = next;
            }
        }
    }
    out.extend_from_slice(rest);
}

/// Appends what the addresses of all first frames that begin with `prefix` begin with. Whether no other address begins so;
/// otherwise its messages have to be looked at one by one.
pub fn read_prefix(prefix: &[u8], out: &mut String) -> bool {
    // Its end may become something else with the following bytes: a character of several bytes, or a code.
    let mut end = prefix.len();
    if let Err(error) = from_utf8(prefix)
        && error.error_len().is_none()
    {
        end = error.valid_up_to();
    } else if let Some(from_the_end) = prefix.iter().rev().take(3).position(|byte| *byte >= 0xC0)
        && from_utf8(&prefix[prefix.len() - 1 - from_the_end..])
            .is_err_and(|error| error.error_len().is_none())
    {
        end = prefix.len() - 1 - from_the_end;
    }
    let percent = prefix[..end].iter().rposition(|byte| *byte == b'%');
    let is_open = percent.is_some_and(|at| {
        let mut rest = &prefix[at + 1..end];
        while let [b'2', b'5', behind @ ..] = rest {
            rest = behind;
        }
        rest.len() < 2
    });
    if let (true, Some(at)) = (is_open, percent) {
        end = at;
    }
    read(&prefix[..end], out);
    if is_open {
        out.push('%');
    }
    end == prefix.len()
}

/// Whether a `%` before these begins a code: any number of `25`, and then one for a character that an address cannot
/// hold.
fn begins_code(mut next: impl Iterator<Item = u8>) -> bool {
    while let (Some(high), Some(low)) = (next.next(), next.next()) {
        match pair(high, low) {
            Some(b'%') => {}
            Some(byte) => return matches!(byte, b'+' | b'#' | 0) || byte >= 0x80,
            None => return false,
        }
    }
    false
}

/// The byte that two digits are.
fn pair(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    };
    Some(digit(high)? << 4 | digit(low)?)
}

fn push_code(byte: u8, out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.push('%');
    out.push(char::from(DIGITS[usize::from(byte >> 4)]));
    out.push(char::from(DIGITS[usize::from(byte & 15)]));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, Filter};
    use proptest::prelude::*;

    fn address(frame: &[u8]) -> String {
        let mut out = String::new();
        read(frame, &mut out);
        out
    }

    fn frame(address: &str) -> Vec<u8> {
        let mut out = Vec::new();
        write(address, &mut out);
        out
    }

    #[test]
    fn what_an_address_cannot_hold_is_a_code() {
        for (bytes, text) in [
            (&b"a/b"[..], "a/b"),
            (b"a b+#", "a b%2B%23"),
            (b"50%", "50%"),
            (b"%2B", "%252B"),
            (b"%2F", "%2F"),
            (b"%25b", "%25b"),
            (b"%252B", "%25252B"),
            (b"%zz\xC3", "%zz%C3"),
            (b"%\xFF", "%%FF"),
            ("%C3ü".as_bytes(), "%25C3ü"),
            (b"\0", "%00"),
        ] {
            assert_eq!(address(bytes), text);
            assert_eq!(frame(text), bytes);
        }
    }

    fn tricky() -> impl Strategy<Value = Vec<u8>> {
        let pieces: Vec<&'static [u8]> = vec![
            b"%",
            b"2",
            b"B",
            b"C3",
            b"25",
            b"5",
            b"+",
            b"#",
            b"\0",
            b"/",
            b"a",
            b"\xC3",
            b"\xBC",
            b"\xE2\x82",
            "€".as_bytes(),
            "𝄞".as_bytes(),
        ];
        let piece = proptest::sample::select(pieces);
        proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn a_frame_comes_back_byte_for_byte(bytes in tricky()) {
            let text = address(&bytes);
            prop_assert_eq!(frame(&text), bytes.clone());
            prop_assert!(bytes.is_empty() || Address::check(&text).is_ok());
            if let Some(plain) = as_it_is(&bytes) {
                prop_assert_eq!(plain, text);
            }
        }

        #[test]
        fn a_prefix_reaches_all_it_should_and_no_more_if_it_is_exact(
            bytes in tricky(),
            at in 0_usize..30,
            other in tricky(),
        ) {
            let prefix = &bytes[..at.min(bytes.len())];
            let mut text = String::new();
            let is_exact = read_prefix(prefix, &mut text);
            let filter = Filter::prefix(&text).expect("legal");
            for bytes in [&bytes, &other, &[prefix, &other].concat()] {
                let address = address(bytes);
                if bytes.starts_with(prefix) {
                    prop_assert!(filter.matches(&address), "{address} of {text}");
                } else if is_exact {
                    prop_assert!(!filter.matches(&address), "{address} of {text}");
                }
            }
        }
    }
}
