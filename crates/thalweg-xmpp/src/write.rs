//! XML that is written: escapes, and nothing else. Names are ours and need none.

use crate::{Framing, ns};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Whether XML 1.0 can hold this text as it is: no control characters but tab, line feed and carriage return, and neither
/// U+FFFE nor U+FFFF. A carriage return becomes a line feed where it is not escaped, which [`put_text`] does.
pub fn is_xml_text(text: &str) -> bool {
    text.chars().all(is_xml_char)
}

fn is_xml_char(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | '\u{20}'..='\u{FFFD}' | '\u{10000}'..)
}

/// Octets that may be another character than themselves in a text of XML, or no character.
pub(crate) const SPECIAL: u8 = 1;
/// Either of them may end the value of an attribute.
pub(crate) const QUOTE: u8 = 2;
/// What [`crate::Element::text`] has to look at.
pub(crate) const REFERENCE: u8 = 4;
/// What becomes a space in the value of an attribute.
pub(crate) const LINE_OR_TAB: u8 = 8;

const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut octet = 0;
    while octet < 256 {
        classes[octet] = match octet as u8 {
            b'&' | b'<' | b'\r' => SPECIAL | REFERENCE,
            b'\n' | b'\t' => SPECIAL | LINE_OR_TAB,
            // U+FFFE and U+FFFF, which are not allowed, begin with 0xEF.
            0..0x20 | b'>' | 0xEF => SPECIAL,
            b'\'' | b'"' => QUOTE,
            _ => 0,
        };
        octet += 1;
    }
    classes
};

/// The first octet of these classes. Most texts have none, which is seen eight octets at a time.
#[inline]
pub(crate) fn find(text: &[u8], classes: u8) -> Option<usize> {
    let class = |octet: &u8| CLASSES[usize::from(*octet)];
    let has_none = |chunk: &&[u8; 8]| {
        let all = chunk.iter().fold(0, |all, octet| all | class(octet));
        all & classes == 0
    };
    let (chunks, _) = text.as_chunks::<8>();
    let from = 8 * chunks.iter().take_while(has_none).count();
    let rest = text.get(from..)?;
    let found = rest.iter().position(|octet| class(octet) & classes != 0)?;
    Some(from + found)
}

/// Appends text escaped for elements and attributes. Characters that XML cannot hold become U+FFFD.
pub fn put_text(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    while let Some(at) = find(rest, SPECIAL | QUOTE) {
        let (plain, behind) = rest.split_at(at);
        out.extend_from_slice(plain);
        let (escape, len): (&[u8], usize) = match behind {
            [b'&', ..] => (b"&amp;", 1),
            [b'<', ..] => (b"&lt;", 1),
            [b'>', ..] => (b"&gt;", 1),
            [b'\'', ..] => (b"&apos;", 1),
            [b'"', ..] => (b"&quot;", 1),
            [b'\r', ..] => (b"&#13;", 1),
            // Within an attribute these would become spaces.
            [b'\n', ..] => (b"&#10;", 1),
            [b'\t', ..] => (b"&#9;", 1),
            // U+FFFE and U+FFFF.
            [0xEF, 0xBF, 0xBE | 0xBF, ..] => ("\u{FFFD}".as_bytes(), 3),
            [0xEF, ..] => (&behind[..1], 1),
            _ => ("\u{FFFD}".as_bytes(), 1),
        };
        out.extend_from_slice(escape);
        rest = &behind[len..];
    }
    out.extend_from_slice(rest);
}

/// Appends ` name='value'`.
pub fn put_attribute(name: &str, value: &str, out: &mut Vec<u8>) {
    out.push(b' ');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"='");
    put_text(value, out);
    out.push(b'\'');
}

/// Appends `<name xmlns='namespace'`, neither of which needs escapes.
pub fn put_head(name: &str, namespace: &str, out: &mut Vec<u8>) {
    for part in ["<", name, " xmlns='", namespace, "'"] {
        out.extend_from_slice(part.as_bytes());
    }
}

/// Ends each WebSocket message in the octets of a stream: XML cannot have it.
pub const MESSAGE_END: u8 = 0;

/// Ends what was written as a message of its own, where that is the framing.
pub(crate) fn end_message(framing: Framing, out: &mut Vec<u8>) {
    if framing == Framing::Elements {
        out.push(MESSAGE_END);
    }
}

/// Appends a stanza that was written for an earlier connection, whose framing may have been another.
pub(crate) fn put_copy(stanza: &[u8], framing: Framing, out: &mut Vec<u8>) {
    let stanza = stanza.strip_suffix(&[MESSAGE_END]).unwrap_or(stanza);
    let name_end = stanza
        .iter()
        .position(|octet| matches!(octet, b' ' | b'/' | b'>'))
        .unwrap_or(stanza.len());
    let (name, rest) = stanza.split_at(name_end);
    out.extend_from_slice(name);
    if framing == Framing::Elements && !rest.starts_with(b" xmlns=") {
        put_attribute("xmlns", ns::CLIENT, out);
    }
    out.extend_from_slice(rest);
    end_message(framing, out);
}

/// Appends the header of a stream, with these attributes beside its version.
pub(crate) fn put_stream(framing: Framing, attributes: &[(&str, &str)], out: &mut Vec<u8>) {
    let (head, end) = match framing {
        Framing::Document => (
            format!(
                "<?xml version='1.0'?><stream:stream xmlns='{}' xmlns:stream='{}' version='1.0'",
                ns::CLIENT,
                ns::STREAMS
            ),
            ">",
        ),
        Framing::Elements => (format!("<open xmlns='{}' version='1.0'", ns::FRAMING), "/>"),
    };
    out.extend_from_slice(head.as_bytes());
    for (name, value) in attributes {
        put_attribute(name, value, out);
    }
    out.extend_from_slice(end.as_bytes());
    end_message(framing, out);
}

/// Appends the end of a stream.
pub(crate) fn put_stream_end(framing: Framing, out: &mut Vec<u8>) {
    match framing {
        Framing::Document => out.extend_from_slice(b"</stream:stream>"),
        Framing::Elements => {
            out.extend_from_slice(format!("<close xmlns='{}'/>", ns::FRAMING).as_bytes());
            end_message(framing, out);
        }
    }
}

/// Appends `<name xmlns='namespace'>BASE64</name>`, the form of SASL's messages. An empty message is `=`, an absent one nothing.
pub(crate) fn put_sasl(
    framing: Framing,
    name: &str,
    attributes: &str,
    data: Option<&[u8]>,
    out: &mut Vec<u8>,
) {
    let text = match data {
        None => String::new(),
        Some([]) => "=".into(),
        Some(data) => STANDARD.encode(data),
    };
    let xml = format!("<{name} xmlns='{}'{attributes}>{text}</{name}>", ns::SASL);
    out.extend_from_slice(xml.as_bytes());
    end_message(framing, out);
}

/// The octets of such a message: `None` if there is no message, an error if it is no base64.
pub(crate) fn sasl_data(text: &str) -> Result<Option<Vec<u8>>, base64::DecodeError> {
    match text {
        "" => Ok(None),
        "=" => Ok(Some(Vec::new())),
        text => STANDARD.decode(text).map(Some),
    }
}
