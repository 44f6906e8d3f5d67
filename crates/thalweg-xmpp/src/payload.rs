//! Payloads of messages as elements, in the forms that Thalweg's broker and client take out again: `docs/protocols/xmpp.md`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::{Element, is_xml_text, put_attribute, put_text};

/// Namespace of `<text>` and `<data>`.
pub const PAYLOAD: &str = "urn:thalweg:payload:0";
/// XEP-0335.
pub const JSON: &str = "urn:xmpp:json:0";

/// Media type of the content of `<json>`.
pub const JSON_TYPE: &str = "application/json";
/// The media type of an element that is the payload itself.
pub const XML_TYPE: &str = "application/xml";

/// Appends the octets that an item's element stands for, and returns their media type. `None`: it is `<data>` and no base64.
pub fn read_payload(element: Element<'_>, out: &mut Vec<u8>) -> Option<Option<Box<str>>> {
    let media_type = || element.attribute("type").map(Into::into);
    match (element.name(), element.namespace()) {
        ("json", JSON) => {
            out.extend_from_slice(element.text().as_bytes());
            Some(Some(JSON_TYPE.into()))
        }
        ("text", PAYLOAD) => {
            out.extend_from_slice(element.text().as_bytes());
            Some(media_type())
        }
        ("data", PAYLOAD) => {
            let text: String = element.text().split_ascii_whitespace().collect();
            BASE64.decode_vec(text, out).ok()?;
            Some(media_type())
        }
        _ => {
            element.put(out);
            Some(Some(XML_TYPE.into()))
        }
    }
}

/// Appends a payload in `<text>`, or in `<data>` if it is no text that XML may hold.
pub fn put_payload(payload: &[u8], media_type: Option<&str>, out: &mut Vec<u8>) {
    let text = std::str::from_utf8(payload).ok();
    let text = text.filter(|text| is_xml_text(text));
    let (name, encoding) = match text {
        Some(_) => ("text", ""),
        None => ("data", " encoding='base64'"),
    };
    out.extend_from_slice(format!("<{name} xmlns='{PAYLOAD}'{encoding}").as_bytes());
    if let Some(media_type) = media_type {
        put_attribute("type", media_type, out);
    }
    out.push(b'>');
    match text {
        Some(text) => put_text(text, out),
        None => out.extend_from_slice(BASE64.encode(payload).as_bytes()),
    }
    out.extend_from_slice(format!("</{name}>").as_bytes());
}
