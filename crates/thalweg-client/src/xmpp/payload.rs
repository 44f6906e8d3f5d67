//! Payloads as elements of items, in the forms that the broker takes out again: `docs/protocols/xmpp.md`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use thalweg_xmpp::{Element, is_xml_text, put_attribute, put_text};

const PAYLOAD: &str = "urn:thalweg:payload:0";
const JSON: &str = "urn:xmpp:json:0";

/// Appends the element that stands for a payload.
pub(super) fn write(payload: &[u8], content_type: Option<&str>, out: &mut Vec<u8>) {
    let text = std::str::from_utf8(payload).ok();
    let text = text.filter(|text| is_xml_text(text));
    let (name, encoding) = match text {
        Some(_) => ("text", ""),
        None => ("data", " encoding='base64'"),
    };
    out.extend_from_slice(format!("<{name} xmlns='{PAYLOAD}'{encoding}").as_bytes());
    if let Some(content_type) = content_type {
        put_attribute("type", content_type, out);
    }
    out.push(b'>');
    match text {
        Some(text) => put_text(text, out),
        None => out.extend_from_slice(BASE64.encode(payload).as_bytes()),
    }
    out.extend_from_slice(format!("</{name}>").as_bytes());
}

/// Appends what an element stands for, and returns its media type. What is no base64 is taken as it is.
pub(super) fn read(element: Element<'_>, out: &mut Vec<u8>) -> Option<String> {
    let type_ = || element.attribute("type").map(Into::into);
    match (element.name(), element.namespace()) {
        ("json", JSON) => {
            out.extend_from_slice(element.text().as_bytes());
            Some("application/json".into())
        }
        ("text", PAYLOAD) => {
            out.extend_from_slice(element.text().as_bytes());
            type_()
        }
        ("data", PAYLOAD) => {
            let text: String = element.text().split_ascii_whitespace().collect();
            match BASE64.decode(&text) {
                Ok(payload) => out.extend_from_slice(&payload),
                Err(_) => out.extend_from_slice(text.as_bytes()),
            }
            type_()
        }
        _ => {
            element.put(out);
            Some("application/xml".into())
        }
    }
}
