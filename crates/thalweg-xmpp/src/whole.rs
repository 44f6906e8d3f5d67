//! A whole element in which nothing is unusual, read in one pass.
//!
//! Nearly every stanza has come whole, with names in ASCII and no reference but the five that escape. It needs none of what makes a
//! parser of XML slow: events, copies of names and values, a place to stop at every octet. What is not so, errors included, is left to the
//! parser, which begins again at the first octet. So nothing is decided here: the parser would read the same.

use crate::ns;
use crate::tree::{Bounds, Span, Tree};
use crate::write::{QUOTE, SPECIAL, find};

/// Reads the element at the beginning of `bytes` into `tree`, which has begun. Returns its length; `None` if it is the parser's,
/// and `tree` has to begin again.
pub(crate) fn read(
    bytes: &[u8],
    token_bytes_max: usize,
    bounds: &Bounds,
    tree: &mut Tree,
) -> Option<usize> {
    let mut at = 0;
    loop {
        (bytes.get(at)? == &b'<').then_some(())?;
        at = match bytes.get(at + 1)? {
            b'/' => {
                let name = tree.open_name(bytes)?;
                let behind = bytes.get(at + 2..)?.strip_prefix(name)?;
                behind.starts_with(b">").then_some(())?;
                let until = at + 2 + name.len() + 1;
                tree.close(at..until);
                until
            }
            _ => head(bytes, at + 1, token_bytes_max, bounds, tree)?,
        };
        if tree.depth() == 0 {
            return Some(at);
        }
        let rest = bytes.get(at..)?;
        let text = memchr::memchr(b'<', rest)?;
        is_plain(&rest[..text]).then_some(())?;
        at += text;
    }
}

/// Reads the head of an element, whose name is at `from`; returns where it ends.
fn head(
    bytes: &[u8],
    from: usize,
    token_bytes_max: usize,
    bounds: &Bounds,
    tree: &mut Tree,
) -> Option<usize> {
    let mut at = name(bytes, from, token_bytes_max)?;
    tree.open(from..at, bounds).ok()?;
    loop {
        match bytes.get(at)? {
            b'>' => {
                tree.head_end(bytes, at + 1).ok()?;
                return Some(at + 1);
            }
            b'/' if bytes.get(at + 1)? == &b'>' => {
                tree.head_end(bytes, at + 2).ok()?;
                tree.close(at + 2..at + 2);
                return Some(at + 2);
            }
            b' ' => {
                let name_end = name(bytes, at + 1, token_bytes_max)?;
                let (&[b'=', quote @ (b'\'' | b'"')], rest) =
                    bytes.get(name_end..)?.split_first_chunk()?
                else {
                    return None;
                };
                let value = &rest[..value(rest, quote)?];
                (value.len() < token_bytes_max).then_some(())?;
                let name = &bytes[at + 1..name_end];
                let mut declared = "";
                if name.starts_with(b"xmlns") {
                    // These need what the parser knows of namespaces.
                    if name.starts_with(b"xmlns:xml") || !is_common_namespace(value) {
                        return None;
                    }
                    declared = std::str::from_utf8(value).ok()?;
                }
                let from = name_end + 2;
                let until = from + value.len();
                let named = (name, Span::new(at + 1, name_end));
                tree.attribute_at(named, (declared, Span::new(from, until)), bounds)
                    .ok()?;
                at = until + 1;
            }
            _ => return None,
        }
    }
}

/// Whether a declared namespace may stand behind any prefix, as it was written.
fn is_common_namespace(value: &[u8]) -> bool {
    !value.is_empty() && value != ns::XML.as_bytes() && !value.contains(&b'&')
}

/// Where a name ends, with or without a prefix.
fn name(bytes: &[u8], from: usize, token_bytes_max: usize) -> Option<usize> {
    let part = |from: usize| {
        let rest = bytes.get(from..)?;
        let first = *rest.first()?;
        let len = rest
            .iter()
            .take_while(|octet| NAME[usize::from(**octet)])
            .count();
        (first.is_ascii_alphabetic() || first == b'_').then_some(from + len)
    };
    let until = match part(from)? {
        prefix if bytes.get(prefix) == Some(&b':') => part(prefix + 1)?,
        until => until,
    };
    (until - from < token_bytes_max).then_some(until)
}

/// Octets of names, but for the first.
const NAME: [bool; 256] = {
    let mut name = [false; 256];
    let mut octet = 0;
    while octet < 256 {
        let known = octet as u8;
        name[octet] = known.is_ascii_alphanumeric() || matches!(known, b'_' | b'-' | b'.');
        octet += 1;
    }
    name
};

/// Where a value ends, whose quotation mark this is.
fn value(rest: &[u8], quote: u8) -> Option<usize> {
    let mut at = 0;
    loop {
        at += find(&rest[at..], SPECIAL | QUOTE)?;
        match rest[at] {
            end if end == quote => return Some(at),
            b'\'' | b'"' | b'>' => {}
            b'&' if is_escape(&rest[at..]) => {}
            _ => return None,
        }
        at += 1;
    }
}

fn is_escape(text: &[u8]) -> bool {
    let escapes: [&[u8]; 5] = [b"&amp;", b"&lt;", b"&gt;", b"&apos;", b"&quot;"];
    escapes.iter().any(|escape| text.starts_with(escape))
}

/// Whether there is nothing in a text but characters that stand for themselves and escapes.
fn is_plain(text: &[u8]) -> bool {
    let mut at = 0;
    while let Some(found) = find(&text[at..], SPECIAL) {
        at += found;
        let is_plain = match text[at] {
            b'\n' | b'\t' => true,
            b'&' => is_escape(&text[at..]),
            b'>' => !text[..at].ends_with(b"]]"),
            _ => false,
        };
        if !is_plain {
            return false;
        }
        at += 1;
    }
    true
}
