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

/// Appends text so that it is read back as it is, in an element as in an attribute. What XML cannot hold becomes U+FFFD.
pub fn put_text(text: &str, out: &mut Vec<u8>) {
    let mut from = 0;
    for (at, octet) in text.bytes().enumerate() {
        let escape: &str = match octet {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'\'' => "&apos;",
            b'"' => "&quot;",
            b'\r' => "&#13;",
            // Within an attribute these would become spaces.
            b'\n' => "&#10;",
            b'\t' => "&#9;",
            0..=0x1F => "\u{FFFD}",
            // U+FFFE and U+FFFF are EF BF BE and EF BF BF.
            0xEF if matches!(
                text.as_bytes().get(at + 1..at + 3),
                Some([0xBF, 0xBE | 0xBF])
            ) =>
            {
                out.extend_from_slice(&text.as_bytes()[from..at]);
                out.extend_from_slice("\u{FFFD}".as_bytes());
                from = at + 3;
                continue;
            }
            _ => continue,
        };
        out.extend_from_slice(&text.as_bytes()[from..at]);
        out.extend_from_slice(escape.as_bytes());
        from = at + 1;
    }
    out.extend_from_slice(&text.as_bytes()[from..]);
}

/// Appends ` name='value'`.
pub fn put_attribute(name: &str, value: &str, out: &mut Vec<u8>) {
    out.push(b' ');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"='");
    put_text(value, out);
    out.push(b'\'');
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
