//! Escapes in header names and values: none in 1.0; `\n`, `\c` and `\\` in 1.1; `\r` as well in 1.2.
//! [1.2#Value_Encoding]

use std::borrow::Cow;

use crate::Version;

/// Undoes the escapes of this version; `None` if one of them is not defined.
#[inline]
pub(crate) fn unescape(raw: &str, version: Version) -> Option<Cow<'_, str>> {
    if version == Version::V10 || memchr::memchr(b'\\', raw.as_bytes()).is_none() {
        return Some(Cow::Borrowed(raw));
    }
    let mut text = String::with_capacity(raw.len());
    let mut chars = raw.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        text.push(match chars.next()? {
            'n' => '\n',
            'c' => ':',
            '\\' => '\\',
            'r' if version == Version::V12 => '\r',
            _ => return None,
        });
    }
    Some(Cow::Owned(text))
}

/// Whether every escape is one of this version.
pub(crate) fn is_valid(raw: &[u8], version: Version) -> bool {
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        match rest.get(at + 1) {
            Some(b'n' | b'c' | b'\\') => {}
            Some(b'r') if version == Version::V12 => {}
            _ => return false,
        }
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    true
}

/// Appends text with the escapes of this version. A character without an escape (a line feed in 1.0, NUL in all)
/// becomes a space: nothing may end a line or a frame early.
#[inline]
pub(crate) fn put(text: &str, version: Version, out: &mut Vec<u8>) {
    if is_harmless(text.as_bytes()) {
        out.extend_from_slice(text.as_bytes());
    } else {
        put_slowly(text.as_bytes(), version, out);
    }
}

#[cold]
fn put_slowly(bytes: &[u8], version: Version, out: &mut Vec<u8>) {
    let escapes = version != Version::V10;
    for &byte in bytes {
        match byte {
            b'\n' if escapes => out.extend_from_slice(b"\\n"),
            b':' if escapes => out.extend_from_slice(b"\\c"),
            b'\\' if escapes => out.extend_from_slice(b"\\\\"),
            b'\r' if version == Version::V12 => out.extend_from_slice(b"\\r"),
            b'\n' | 0 => out.push(b' '),
            _ => out.push(byte),
        }
    }
}

/// No byte that any version treats in a special way. Looks at all of them, which lets the compiler use vectors.
#[inline]
fn is_harmless(bytes: &[u8]) -> bool {
    !bytes.iter().fold(false, |found, byte| {
        found | matches!(byte, 0 | b'\n' | b'\r' | b':' | b'\\')
    })
}

/// Whether [`put`] would say exactly this as a header.
#[inline]
pub(crate) fn can_say(name: &str, value: &str, version: Version) -> bool {
    if name.is_empty() {
        return false;
    }
    if is_harmless(name.as_bytes()) && is_harmless(value.as_bytes()) {
        return true;
    }
    let has = |text: &str, byte: u8| memchr::memchr(byte, text.as_bytes()).is_some();
    let has_nul = has(name, 0) || has(value, 0);
    let has_line = has(name, b'\n') || has(value, b'\n') || has(name, b':');
    // A carriage return before the line feed belongs to the line end.
    let ends_in_cr = version != Version::V12 && value.ends_with('\r');
    !(has_nul || ends_in_cr || version == Version::V10 && has_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(text: &str, version: Version) -> String {
        let mut out = Vec::new();
        put(text, version, &mut out);
        String::from_utf8(out).expect("escaping keeps UTF-8")
    }

    #[test]
    fn each_version_has_its_own_escapes() {
        for (version, expected) in [
            (Version::V10, "a\\b:c d\re"),
            (Version::V11, "a\\\\b\\cc\\nd\re"),
            (Version::V12, "a\\\\b\\cc\\nd\\re"),
        ] {
            assert_eq!(escaped("a\\b:c\nd\re", version), expected);
        }
        assert_eq!(
            unescape("a\\\\b\\cc\\nd", Version::V11).as_deref(),
            Some("a\\b:c\nd")
        );
        assert_eq!(unescape("\\r", Version::V12).as_deref(), Some("\r"));
        assert_eq!(
            unescape("\\r\\t\\", Version::V10).as_deref(),
            Some("\\r\\t\\")
        );
    }

    #[test]
    fn unknown_escapes_are_refused() {
        for (raw, version) in [
            ("\\r", Version::V11),
            ("\\t", Version::V11),
            ("\\t", Version::V12),
            ("a\\", Version::V12),
        ] {
            assert_eq!(unescape(raw, version), None, "{raw} {version}");
            assert!(!is_valid(raw.as_bytes(), version), "{raw} {version}");
        }
        assert!(is_valid(b"\\\\t\\n\\c", Version::V11));
    }

    #[test]
    fn text_without_escapes_is_borrowed() {
        assert!(matches!(
            unescape("plain", Version::V12),
            Some(Cow::Borrowed("plain"))
        ));
    }
}
